//! Plans: for random objects and expressions, the bounds hold the objects for which the expression is true, false or an
//! error. A table states which bounds are exact.

use std::sync::Arc;

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection, option, prop_assert, proptest, sample};
use serde_json::{Value, json};

use super::super::{
    CelProgram, CelType, EvaluationError, IndexRequirement, IndexTest, Indexed, IndexedKind, IndexedPath, ObjectSet,
    Plan, SetBounds, Step, Subject,
};

const LIMIT: u64 = 100_000;

fn indexed(has_lists: bool) -> Indexed {
    let path = |text: &str, kind| IndexedPath::parse(text, kind).unwrap();
    let paths = vec![
        path(".spec.a", IndexedKind::Text),
        path(".spec.z", IndexedKind::Text).absent_as("x"),
        path(".spec.n", IndexedKind::Integer),
        path(".spec.b", IndexedKind::Boolean),
        path("$.spec.items[*].name", IndexedKind::Text),
        path("$.spec.items[*].port", IndexedKind::Integer),
        path("$.spec.tags[*]", IndexedKind::Text),
        path(".spec.must", IndexedKind::Text),
    ];
    let paths = paths.into_iter().map(|path| if has_lists { path.with_lists() } else { path }).collect();
    Indexed { paths, is_namespaced: true, lacks_labels: false }
}

/// A schema to which the random objects conform.
fn typed() -> Arc<CelType> {
    let text = json!({"type": "string", "nullable": true});
    Arc::new(CelType::of_resource(&json!({"type": "object", "required": ["spec"], "properties": {"spec": {
        "type": "object",
        "required": ["must"],
        "properties": {
            "a": text, "z": text,
            "n": {"type": "integer", "nullable": true},
            "b": {"type": "boolean"},
            "must": {"type": "string", "minLength": 1},
            "items": {"type": "array", "items": {"type": "object", "properties": {
                "name": {"type": "string"}, "port": {"type": "integer"}}}},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    }}})))
}

/// The texts that an index has of an object for a path.
fn texts(object: &Value, path: &IndexedPath) -> Vec<String> {
    let mut values = vec![object];
    for step in &path.steps {
        values = match step {
            Step::Key(key) => values.into_iter().filter_map(|value| value.get(&**key)).collect(),
            Step::Each => values.into_iter().filter_map(Value::as_array).flatten().collect(),
        };
    }
    let mut texts: Vec<String> = values
        .into_iter()
        .map(|value| match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            value => value.to_string(),
        })
        .filter(|text| !text.is_empty())
        .collect();
    if texts.is_empty() {
        texts.push(path.absent.clone());
    }
    texts
}

/// Whether an object meets a requirement, as an index decides it.
fn meets(object: &Value, indexed: &Indexed, requirement: &IndexRequirement) -> bool {
    let texts = match &requirement.subject {
        Subject::Name => vec![object["metadata"]["name"].as_str().unwrap().to_owned()],
        Subject::Namespace => vec![object["metadata"]["namespace"].as_str().unwrap().to_owned()],
        Subject::Label(key) => match &object["metadata"]["labels"][key] {
            Value::String(text) => vec![text.clone()],
            _ => return false,
        },
        Subject::Field(index) => texts(object, &indexed.paths[*index]),
    };
    texts.iter().any(|text| match &requirement.test {
        IndexTest::In(values) => values.contains(text),
        IndexTest::StartsWith(prefix) => text.starts_with(prefix.as_str()),
        IndexTest::AtLeast(bound) => text.parse::<i64>().is_ok_and(|int| int >= *bound),
        IndexTest::AtMost(bound) => text.parse::<i64>().is_ok_and(|int| int <= *bound),
        IndexTest::Exists => true,
    })
}

/// A member that may be absent.
fn put(object: &mut Value, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        object[key] = value;
    }
}

fn word() -> impl Strategy<Value = Value> {
    sample::select(vec!["x", "y", "xy", "", "yx"]).prop_map(Value::from)
}

fn objects() -> impl Strategy<Value = Value> {
    let nullable = |strategy: proptest::strategy::BoxedStrategy<Value>| {
        option::of(prop_oneof![4 => strategy, 1 => Just(Value::Null)])
    };
    let ints = || (-2i64..4).prop_map(Value::from).boxed();
    let item = (option::of(word()), option::of(ints())).prop_map(|(name, port)| {
        let mut item = json!({});
        put(&mut item, "name", name);
        put(&mut item, "port", port);
        item
    });
    let spec = (
        nullable(word().boxed()),
        nullable(word().boxed()),
        nullable(ints()),
        option::of(any::<bool>().prop_map(Value::from)),
        option::of(collection::vec(item, 0..3).prop_map(Value::from)),
        option::of(collection::vec(word(), 0..3).prop_map(Value::from)),
    );
    let labels = option::of((option::of(word()), option::of(word())));
    let name = sample::select(vec!["x", "y", "xy"]);
    (spec, labels, name.clone(), name).prop_map(|((a, z, n, b, items, tags), labels, name, namespace)| {
        let mut object = json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"must": name}});
        for (key, value) in [("a", a), ("z", z), ("n", n), ("b", b), ("items", items), ("tags", tags)] {
            put(&mut object["spec"], key, value);
        }
        if let Some((k, l)) = labels {
            object["metadata"]["labels"] = json!({});
            put(&mut object["metadata"]["labels"], "k", k);
            put(&mut object["metadata"]["labels"], "l", l);
        }
        object
    })
}

/// Expressions of which an index can answer parts.
fn expressions() -> impl Strategy<Value = String> {
    let word = || sample::select(vec!["'x'", "'y'", "'xy'", "''", "'q'"]);
    let text = || {
        sample::select(vec![
            "self.spec.a",
            "self.spec.z",
            "self.spec.must",
            "self.spec['a']",
            "self.metadata.name",
            "self.metadata.namespace",
            "self.metadata.labels.k",
            "self.metadata.labels['l']",
        ])
    };
    let int = || (-3i64..5).prop_map(|int| int.to_string());
    let compare = || sample::select(vec!["<", "<=", ">", ">=", "==", "!="]);
    let inner = prop_oneof![
        (word(), sample::select(vec!["==", "!="])).prop_map(|(word, sign)| format!("i.name {sign} {word}")),
        (compare(), int()).prop_map(|(sign, int)| format!("i.port {sign} {int}")),
        word().prop_map(|word| format!("i.name.startsWith({word})")),
        (word(), word()).prop_map(|(one, two)| format!("i.name in [{one}, {two}]")),
        Just("has(i.name)".to_owned()),
    ];
    let inner = inner.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left} && {right})")),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left} || {right})")),
            inner.prop_map(|inner| format!("!({inner})")),
        ]
    });
    let macros = sample::select(vec!["exists", "all", "exists_one"]);
    let leaf = prop_oneof![
        (text(), sample::select(vec!["==", "!="]), word())
            .prop_map(|(text, sign, word)| format!("{text} {sign} {word}")),
        (text(), word()).prop_map(|(text, word)| format!("{word} == {text}")),
        (text(), word(), word()).prop_map(|(text, one, two)| format!("{text} in [{one}, {two}]")),
        (text(), word()).prop_map(|(text, word)| format!("{text}.startsWith({word})")),
        (compare(), int()).prop_map(|(sign, int)| format!("self.spec.n {sign} {int}")),
        (compare(), int()).prop_map(|(sign, int)| format!("{int} {sign} self.spec.n")),
        (int(), int()).prop_map(|(one, two)| format!("self.spec.n in [{one}, {two}]")),
        sample::select(vec![
            "self.spec.b",
            "self.spec.b == true",
            "false == self.spec.b",
            "has(self.spec.a)",
            "has(self.spec.z)",
            "has(self.spec.n)",
            "has(self.spec.b)",
            "has(self.spec.must)",
            "has(self.metadata.labels)",
            "has(self.metadata.labels.k)",
            "'k' in self.metadata.labels",
            "'x' in self.spec.tags",
            "self.spec.tags.exists(t, t == 'y')",
            "self.spec.tags.all(t, t != 'y')",
            "self.spec.a == self.spec.z",
            "true",
            "false",
        ])
        .prop_map(str::to_owned),
        (macros, inner).prop_map(|(name, inner)| format!("self.spec.items.{name}(i, {inner})")),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" && "))),
            collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" || "))),
            inner.clone().prop_map(|inner| format!("!({inner})")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(condition, then, otherwise)| format!("({condition} ? {then} : {otherwise})")),
        ]
    })
}

/// Whether an object is between bounds, if it is in their set.
fn holds(bounds: &SetBounds, is_in: bool, meets: &impl Fn(&IndexRequirement) -> bool) -> bool {
    let (at_least, at_most) = (bounds.at_least.has(meets), bounds.at_most.has(meets));
    (!at_least || is_in) && (!is_in || at_most) && (!bounds.is_exact() || at_least == at_most)
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 2_000, ..proptest::test_runner::Config::default() })]
    #[test]
    fn bounds_hold_the_objects_of_each_result(object in objects(), text in expressions(), is_typed in any::<bool>()) {
        let kind = if is_typed { typed() } else { Arc::new(CelType::Dyn) };
        let Ok(program) = CelProgram::compile(&text, &kind) else {
            // With types, a few of the expressions are errors, as a comparison of a nullable text with a list.
            return Ok(());
        };
        let indexed = indexed(!is_typed);
        let plan: Plan = program.analyze(&indexed);
        let result = program.evaluate(object.to_string().as_bytes(), LIMIT).result;
        let meets = |requirement: &IndexRequirement| meets(&object, &indexed, requirement);
        let is_error = matches!(result, Err(EvaluationError::Failed(_)));
        let case = format!("{text} {object} {result:?} {plan:?}");
        prop_assert!(holds(&plan.when_true, result == Ok(true), &meets), "true: {case}");
        prop_assert!(holds(&plan.when_false, result == Ok(false), &meets), "false: {case}");
        prop_assert!(holds(&plan.when_error(), is_error, &meets), "error: {case}");
    }
}

#[test]
fn plans_are_exact_where_the_index_answers() {
    // The expression, and whether the bounds of true are exact: without a schema, and with one.
    let cases = [
        ("self.spec.a == 'x'", true, true),
        ("self.spec.a in ['x', 'y']", true, true),
        ("self.spec.a == ''", false, false),
        ("self.spec.a != 'x'", false, false),
        ("self.spec.must != 'x'", false, true),
        ("self.spec.z == 'x'", false, false),
        ("self.spec.z == 'y'", true, true),
        ("self.spec.a.startsWith('x')", true, true),
        ("self.spec.a.startsWith('')", false, false),
        ("self.spec.n > 1", true, true),
        ("!(self.spec.n > 1)", false, false),
        ("self.spec.b", true, true),
        ("!self.spec.b", true, true),
        ("has(self.spec.b)", false, true),
        ("!has(self.spec.b)", false, true),
        ("has(self.spec.a)", false, false),
        ("self.metadata.name == 'x'", true, true),
        ("self.metadata.name != 'x'", true, true),
        ("self.metadata.namespace in ['x']", true, true),
        ("self.metadata.labels['k'] == ''", true, true),
        ("self.metadata.labels['k'] != 'x'", true, true),
        ("'k' in self.metadata.labels", true, true),
        ("has(self.metadata.labels.k)", true, true),
        ("!('k' in self.metadata.labels)", false, false),
        ("'x' in self.spec.tags", true, true),
        ("self.spec.items.exists(i, i.name == 'x')", true, true),
        ("self.spec.items.exists(i, i.name == 'x' || i.port > 1)", true, true),
        ("self.spec.items.exists(i, i.name == 'x' && i.port > 1)", false, false),
        ("self.spec.items.all(i, i.name != 'x')", false, false),
        ("!self.spec.items.all(i, i.name != 'x')", true, true),
        ("self.spec.a == 'x' && (self.spec.n >= 1 || self.metadata.name == 'y')", true, true),
        ("self.spec.a == 'x' ? self.spec.b : self.metadata.name == 'y'", false, false),
        ("self.spec.a == 'x' && self.spec.a.size() == 1", false, false),
        ("self.spec.a == self.spec.z", false, false),
    ];
    for (text, is_exact, is_exact_with_types) in cases {
        for (kind, has_lists, expected) in
            [(Arc::new(CelType::Dyn), true, is_exact), (typed(), false, is_exact_with_types)]
        {
            let plan = CelProgram::compile(text, &kind).unwrap().analyze(&indexed(has_lists));
            assert_eq!(plan.when_true.is_exact(), expected, "{text}, {kind}: {plan:?}");
        }
    }
}

#[test]
fn lists_are_planned_only_where_they_are_lists() {
    let kind = Arc::new(CelType::Dyn);
    for text in ["'x' in self.spec.tags", "self.spec.items.exists(i, i.name == 'x')"] {
        let program = CelProgram::compile(text, &kind).unwrap();
        assert_eq!(program.analyze(&indexed(false)).when_true, SetBounds::unknown(), "{text}");
        assert!(program.analyze(&indexed(true)).when_true.is_exact(), "{text}");
    }
}

#[test]
fn paths_are_read() {
    let key = |key: &str| Step::Key(key.into());
    let cases = [
        (".spec.color", Some(vec![key("spec"), key("color")])),
        ("$.spec.items[*].name", Some(vec![key("spec"), key("items"), Step::Each, key("name")])),
        ("$.spec['a.b']", Some(vec![key("spec"), key("a.b")])),
        ("$.spec[0]", None),
        ("$..name", None),
        ("$.spec.*", None),
        ("$", None),
        ("spec", None),
    ];
    for (text, expected) in cases {
        let found = IndexedPath::parse(text, IndexedKind::Text).map(|path| path.steps);
        assert_eq!(found, expected, "{text}");
    }
}

/// Each conditional has its condition twice in each bound.
#[test]
fn nested_conditionals_have_plans_of_bounded_size() {
    let leaf = "self.spec.a == 'x'";
    let mut text = leaf.to_owned();
    for _ in 0..40 {
        text = format!("({text}) ? {leaf} : self.spec.z == 'y'");
    }
    let program = CelProgram::compile(&text, &Arc::new(CelType::Dyn)).unwrap();
    let length = format!("{:?}", program.analyze(&indexed(false))).len();
    assert!(length < 1 << 20, "{length} bytes of text");
    // Two levels are still planned.
    let program =
        CelProgram::compile(&format!("({leaf} ? true : false) ? {leaf} : false"), &Arc::new(CelType::Dyn)).unwrap();
    assert_ne!(program.analyze(&indexed(false)).when_true.at_most, ObjectSet::All);
}

/// The memory is that of everything that planning allocates, so it also bounds the time.
#[test]
fn planning_is_bounded_for_all_nodes_together() {
    let names: Vec<String> = (0..1_200).map(|index| format!("'n{index}'")).collect();
    let listed = format!("self.metadata.name in [{}]", names.join(","));
    let leaf = "self.spec.a == 'x'";
    // The list is in the condition of ten nested conditionals.
    let long = (0..10).fold(listed, |inner, _| format!("({inner}) ? {leaf} : self.spec.z == 'y'"));
    // Conditionals with many parts, each below forty operators that copy them.
    let nested = (0..5).fold([leaf; 20].join(" || "), |inner, _| format!("({inner}) ? {leaf} : !({leaf})"));
    let copied = (0..20).fold(nested, |inner, _| format!("(({inner}) && {leaf}) || {leaf}"));
    let wide = vec![format!("({copied})"); 6].join(" && ");
    for (why, text, most) in [("a long list", long, 1 << 20), ("many nodes", wide, 8 << 20)] {
        let program = CelProgram::compile(&text, &Arc::new(CelType::Dyn)).unwrap();
        let allocated = allocation_counter::measure(|| drop(program.analyze(&indexed(false)))).bytes_total;
        assert!(allocated < most, "{why}: {allocated} bytes");
    }
    // A long list has a plan nevertheless.
    let listed = format!("self.metadata.name in [{}]", names.join(","));
    let program = CelProgram::compile(&listed, &Arc::new(CelType::Dyn)).unwrap();
    assert!(program.analyze(&indexed(false)).when_true.is_exact());
}
