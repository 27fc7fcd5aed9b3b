//! Lists by CEL expressions, compared with the evaluation of every object.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection, option, prop_assert, prop_assert_eq, proptest, sample};
use serde_json::{Value, json};

use super::names;
use crate::builtin;
use crate::cel::{CelProgram, CelType};
use crate::crd::Crd;
use crate::extract::{Extractor, Prune};
use crate::model::Version;
use crate::query::work::at_once;
use crate::query::{
    BYTES_OF_LONG_EVALUATION, CelFilter, EventTest, Explanation, Listing, SelectedObjects, Selection, State, TimeLimit,
    Work,
};
use crate::selector::LabelSelector;
use crate::store::{HistoryLimits, IndexLimits, Object, Store};
use crate::subscribe::subscription_index::{Candidates, SubscriptionIndex};
use crate::subscribe::try_transition;

/// The extractor of shirts. `is_nullable`: whether members of spec can be null by the schema.
pub(super) fn extractor(is_nullable: bool) -> Extractor {
    let crd = Crd::read(&json!({
        "metadata": {"name": "shirts.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "shirts", "kind": "Shirt"}, "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                "color": {"type": "string", "nullable": is_nullable},
                "size": {"type": "integer", "nullable": is_nullable},
                "branded": {"type": "boolean"}}}}}},
            "selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}, {"jsonPath": ".spec.branded"}],
        }]},
    }))
    .unwrap();
    Extractor::custom_resource(&crd, "v1")
}

/// Members of spec and a label. Some are absent, null or empty. Their types are those of a schema that permits null, as
/// the index relies on.
fn objects() -> impl Strategy<Value = Vec<Value>> {
    let of = |values: Vec<Value>| option::of(sample::select(values));
    let color = of(vec![json!("blue"), json!("black"), json!(""), json!(null), json!("red")]);
    let size = of(vec![json!(5), json!(-3), json!(100), json!(null)]);
    let branded = of(vec![json!(true), json!(false)]);
    let app = of(vec![json!("shop"), json!("")]);
    let object = (sample::select(vec!["a", "b"]), color, size, branded, app).prop_map(
        |(namespace, color, size, branded, app)| {
            let mut spec = json!({});
            for (key, value) in [("color", color), ("size", size), ("branded", branded)] {
                if let Some(value) = value {
                    spec[key] = value;
                }
            }
            let labels = app.map_or(json!({}), |app| json!({ "app": app }));
            json!({"metadata": {"namespace": namespace, "labels": labels}, "spec": spec})
        },
    );
    collection::vec(object, 1..20)
}

fn expressions() -> impl Strategy<Value = String> {
    let leaf = sample::select(vec![
        "self.spec.color == 'blue'",
        "self.spec.color != 'blue'",
        "'red' != self.spec.color",
        "self.spec.color in ['blue', '']",
        "self.spec.color == ''",
        "self.spec.color.startsWith('bl')",
        "self.spec.color == self.metadata.name",
        "has(self.spec.color)",
        "self.spec.size == 5",
        "self.spec.size > 4",
        "self.spec.size <= -3",
        "5 >= self.spec.size",
        "has(self.spec.size)",
        "self.spec.branded",
        "self.spec.branded == false",
        "'app' in self.metadata.labels",
        "self.metadata.labels['app'] == 'shop'",
        "self.metadata.labels.app != 'shop'",
        "self.metadata.namespace == 'a'",
        "self.metadata.name.startsWith('n1')",
        "self.metadata.name in ['n1', 'n2', 'n3']",
        "true",
        "false",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| format!("!({inner})")),
            (inner.clone(), inner.clone(), sample::select(vec!["&&", "||"]))
                .prop_map(|(left, right, operator)| format!("({left}) {operator} ({right})")),
            (inner.clone(), inner.clone(), inner).prop_map(|(test, yes, no)| format!("({test}) ? ({yes}) : ({no})")),
        ]
    })
}

proptest! {
    #[test]
    fn planned_expressions_equal_an_evaluation_of_every_object(
        objects in objects(),
        expression in expressions(),
        labels in prop_oneof![3 => Just(""), 1 => Just("app=shop")],
        namespace in option::weighted(0.2, Just("a")),
        is_nullable in any::<bool>(),
    ) {
        let extractor = extractor(is_nullable);
        let mut store = Store::new(HistoryLimits::default()).with_integers(extractor.integers().collect());
        store.replace(&[], Version::new(1));
        let program = CelProgram::compile(&expression, &CelType::Dyn).unwrap();
        let (mut expected, mut failed) = (Vec::new(), 0);
        for (number, mut object) in (2u64..).zip(objects) {
            object["metadata"]["name"] = format!("n{number}").into();
            if let Some(spec) = object["spec"].as_object_mut().filter(|_| !is_nullable) {
                spec.retain(|_, value| !value.is_null());
            }
            object["metadata"]["resourceVersion"] = number.to_string().into();
            let bytes = Bytes::from(object.to_string());
            store.apply(&extractor.extract(bytes.clone()).unwrap());
            let is_other = labels == "app=shop" && object["metadata"]["labels"]["app"] != "shop"
                || namespace.is_some_and(|namespace| object["metadata"]["namespace"] != namespace);
            if is_other {
                continue;
            }
            match program.evaluate(&bytes, u64::MAX).result {
                Ok(true) => expected.push(format!("{}/n{number}", object["metadata"]["namespace"].as_str().unwrap())),
                Ok(false) => {}
                Err(_) => failed += 1,
            }
        }
        expected.sort();
        let filter = Arc::new(CelFilter::new(&expression, &extractor, true, None).unwrap());
        let selection = Selection {
            namespace: namespace.map(str::to_owned),
            labels: LabelSelector::parse(labels).unwrap(),
            cel: Some(filter.clone()),
            ..Selection::default()
        };
        let found = names(Listing::new(State::current(store.snapshot()), &selection, None));
        prop_assert_eq!(found, expected, "{}", expression);
        // Only objects that are evaluated can be counted: the index excludes others.
        let counted = filter.result().unwrap().map_or(0, |failed| failed.count);
        prop_assert!(counted <= failed, "{}: {} of {}", expression, counted, failed);
        if !filter.is_indexed() {
            prop_assert_eq!(counted, failed, "{}", expression);
        }
    }
}

#[test]
fn expressions_over_built_in_kinds_have_the_types_of_their_schemas() {
    let kinds =
        [("", "v1", "Pod"), ("apps", "v1", "Deployment"), ("", "v1", "ConfigMap"), ("example.com", "v1", "Pod")];
    let [pod, deployment, config_map, unknown] =
        kinds.map(|(group, version, kind)| builtin::extractor(group, version, kind));
    let cases = [
        (&pod, "self.spec.containers.all(c, c.image.startsWith('registry.example.com/'))", ""),
        (&pod, "self.spec.containers.exists(c, has(c.ports) && c.ports.exists(p, p.containerPort == 443))", ""),
        (&pod, "self.spec.containers.all(c, quantity(c.resources.limits['cpu']).isLessThan(quantity('2')))", ""),
        (&pod, "self.spec.?securityContext.?runAsNonRoot.orValue(false)", ""),
        (&pod, "self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')", ""),
        (&pod, "timestamp(self.metadata.creationTimestamp) < timestamp('2030-01-01T00:00:00Z')", ""),
        (&pod, "self.metadata.labels['app'] == 'web' && 'tier' in self.metadata.labels", ""),
        (&pod, "self.metadata.ownerReferences.exists(o, o.kind == 'ReplicaSet')", ""),
        (&pod, "self.spec.containers.exists(c, c.livenessProbe.httpGet.port == 'http')", ""),
        (&pod, "self.spec.nodename == 'a'", "1:10: undefined field 'nodename', did you mean 'nodeName'?"),
        (
            &pod,
            "self.spec.containers.exists(c, c.imgae == 'a')",
            "1:33: undefined field 'imgae', did you mean 'image'?",
        ),
        (
            &pod,
            "self.spec.priority == 'high'",
            "1:20: found no matching overload for '_==_' applied to '(int, string)'",
        ),
        (&deployment, "self.spec.replicas > 1 && self.spec.template.spec.containers.size() == 1", ""),
        (&deployment, "self.spec.strategy.rollingUpdate.maxSurge == '25%'", ""),
        (
            &deployment,
            "self.status.readyReplica == 1",
            "1:12: undefined field 'readyReplica', did you mean 'readyReplicas'?",
        ),
        (&config_map, "self.data['a.conf'].contains('x') && has(self.immutable)", ""),
        (&config_map, "self.spec.a == 1", "1:5: undefined field 'spec'"),
        (&unknown, "self.spec.anything == 1", ""),
    ];
    for (extractor, expression, expected) in cases {
        let message = CelFilter::new(expression, extractor, true, None).err().map(|error| error.to_string());
        let message = message.unwrap_or_default();
        let found = message.lines().next().unwrap_or_default();
        assert_eq!(found.trim_start_matches("ERROR: <input>:"), expected, "{expression}");
    }
    let prune = Arc::new(Prune::new([".status"]).unwrap());
    let pruned = CelFilter::new("self.spec.nodename == 'a'", &pod.pruned(&prune), true, Some(&prune));
    assert!(pruned.is_ok(), "the schema names what a View hides: {pruned:?}");
}

#[test]
fn an_expression_that_is_estimated_to_cost_too_much_is_rejected_unless_the_index_answers_it() {
    let extractor = extractor(false);
    let nested = "self.spec.color.split('').all(a, self.spec.color.split('').all(b, self.spec.color.split('').all(c, \
                  a < b && b < c && c < a)))";
    let error = CelFilter::new(nested, &extractor, true, None).unwrap_err().to_string();
    assert!(error.starts_with("the estimated cost of self.spec.color.split('').all(a, self.sp... is "), "{error}");
    assert!(error.contains(" for an object, above the limit of 1000000"), "{error}");
    let indexed = vec!["self.spec.color == 'blue'"; 300].join(" || ");
    assert!(CelFilter::new(&indexed, &extractor, true, None).is_ok());
}

thread_local! {
    /// The lengths for which the work of a test has waited.
    static WAITED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    /// The number of readings of the clock of a test.
    static READINGS: Cell<u64> = const { Cell::new(0) };
}

/// A clock that advances by a second with each reading.
fn next_second() -> Duration {
    READINGS.set(READINGS.get() + 1);
    Duration::from_secs(READINGS.get())
}

/// An expression that costs more than a usual turn permits is evaluated in a long turn for each object, also for the
/// objects of an earlier version, and not any more after a limit is exceeded.
#[test]
fn objects_of_the_past_are_evaluated_in_their_turns() {
    let extractor = extractor(false);
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    let object = |number: u64, app: &str| {
        let name = format!("n{}", number % 10);
        let metadata = json!({
            "namespace": "a", "name": name, "resourceVersion": number.to_string(), "labels": {"app": app},
        });
        extractor.extract(Bytes::from(json!({"metadata": metadata, "spec": {}}).to_string())).unwrap()
    };
    for (numbers, app) in [(10..20, "shop"), (20..30, "other")] {
        for number in numbers {
            store.apply(&object(number, app));
        }
    }
    let past = || State::at(store.snapshot(), Version::new(19), None).unwrap();
    let selection = |expression: &str| {
        let filter = Arc::new(CelFilter::new(expression, &extractor, true, None).unwrap());
        let labels = LabelSelector::parse("app=shop").unwrap();
        (filter.clone(), Selection { labels, cel: Some(filter), ..Selection::default() })
    };
    let work = || {
        WAITED.take();
        Work::with_reads(|bytes| {
            WAITED.with_borrow_mut(|waited| waited.push(bytes));
            true
        })
    };
    let long_turns = || WAITED.take().into_iter().filter(|bytes| *bytes >= BYTES_OF_LONG_EVALUATION).count();
    // Each evaluation costs about 80,000, and a usual turn permits 50,000.
    let long = "lists.range(20000).all(i, i >= 0)";
    let (filter, selected) = selection(long);
    let mut counted = work();
    assert_eq!(names(at_once(Listing::begin(past(), &selected, None, &mut counted))).len(), 10);
    assert_eq!((long_turns(), filter.evaluated()), (10, 10), "a list");
    let mut counted = work();
    assert_eq!(at_once(SelectedObjects::find(past(), &selected, &mut counted)).total(), 10);
    assert_eq!(long_turns(), 10, "facets");
    let mut counted = work();
    assert_eq!(at_once(Explanation::new(&selected, &past(), extractor.fields(), &mut counted)).hits, 10);
    assert_eq!(long_turns(), 10, "an explanation");
    // The time of one evaluation is limited too. The first object exceeds the limit, so no other one is evaluated.
    let (filter, _) = selection(long);
    let no_time = TimeLimit { clock: next_second, most: Duration::from_millis(1) };
    let filter = Arc::new(Arc::into_inner(filter).unwrap().with_time_limit(no_time));
    let selected = Selection { cel: Some(filter.clone()), ..selected };
    assert_eq!(names(at_once(Listing::begin(past(), &selected, None, &mut work()))), [""; 0]);
    assert!(filter.result().is_err() && filter.evaluated() == 1, "{:?}", filter.evaluated());
}

proptest! {
    /// Changes reach the watches whose expression they concern, also those of objects with more values than the index
    /// stores, and are the events of an evaluation before and after.
    #[test]
    fn watches_with_expressions_receive_their_events(
        objects in objects(),
        names in collection::vec(0..3u32, 20),
        expression in expressions(),
        has_few_values in any::<bool>(),
    ) {
        let extractor = extractor(false);
        let values = if has_few_values { 0 } else { 16 };
        let mut store = Store::new(HistoryLimits::default())
            .with_integers(extractor.integers().collect())
            .indexing(IndexLimits { values, ..IndexLimits::default() });
        store.replace(&[], Version::new(1));
        for ((number, mut object), name) in (2u64..).zip(objects).zip(names) {
            object["metadata"]["name"] = format!("n{name}").into();
            if let Some(spec) = object["spec"].as_object_mut() {
                spec.retain(|_, value| !value.is_null());
            }
            object["metadata"]["resourceVersion"] = number.to_string().into();
            store.apply(&extractor.extract(Bytes::from(object.to_string())).unwrap());
        }
        let filter = Arc::new(CelFilter::new(&expression, &extractor, true, None).unwrap());
        let selection = Selection { cel: Some(filter.clone()), ..Selection::default() };
        let mut routes = SubscriptionIndex::default();
        let stored = routes.insert(7, &selection);
        let program = CelProgram::compile(&expression, &CelType::Dyn).unwrap();
        let snapshot = store.snapshot();
        let cursor = snapshot.since(Version::new(1)).unwrap();
        for change in snapshot.changes(cursor).unwrap() {
            let naive = |object: &Object| Ok::<_, ()>(program.evaluate(&object.json(), u64::MAX).result == Ok(true));
            let expected = try_transition(change, naive).unwrap();
            let tested = |object: &Object| match filter.test_event(object, true) {
                EventTest::Tested { is_selected, .. } => Ok(is_selected),
                other => Err(other),
            };
            prop_assert_eq!(&try_transition(change, tested).unwrap(), &expected, "{}", expression);
            let mut touched = Candidates::default();
            routes.candidates(change, &mut touched);
            prop_assert!(expected.is_none() || touched.ids() == [7], "{} is a candidate of {:?}", expression, change);
        }
        routes.remove(7, &stored);
        prop_assert_eq!(format!("{routes:?}"), format!("{:?}", SubscriptionIndex::default()));
    }
}

#[test]
fn watches_are_found_by_the_part_of_an_expression_that_an_index_answers() {
    let extractor = extractor(false);
    for (expression, is_found) in [
        ("self.spec.color == 'blue' && self.spec.size + 1 > 3", true),
        ("self.metadata.name == 'n1' && self.spec.size + 1 > 3", true),
        ("self.metadata.labels.app == 'shop'", true),
        ("self.spec.size >= 5", true),
        ("self.spec.size + 1 > 3", false),
        ("self.spec.color == 'blue' || self.spec.size == 1", false),
    ] {
        let cel = Some(Arc::new(CelFilter::new(expression, &extractor, true, None).unwrap()));
        let mut routes = SubscriptionIndex::default();
        routes.insert(1, &Selection { cel, ..Selection::default() });
        assert_eq!(routes.unanchored() == 0, is_found, "{expression}");
    }
}

/// The index has all labels, and a View that hides some of them must not use it for any.
#[test]
fn labels_are_not_planned_where_a_view_hides_some() {
    let extractor = extractor(false);
    let hidden = Arc::new(Prune::with_kept([], [".spec.color", ".metadata.labels.shown"]).unwrap());
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    for (number, labels) in [(2, json!({"shown": "a", "app": "shop"})), (3, json!({"shown": "a"})), (4, json!({}))] {
        let object = json!({
            "metadata": {"name": format!("n{number}"), "namespace": "a", "labels": labels, "resourceVersion": number.to_string()},
            "spec": {"color": "blue"},
        });
        store.apply(&extractor.extract(Bytes::from(object.to_string())).unwrap());
    }
    for (expression, expected, failed) in [
        ("self.metadata.labels.app == 'shop'", &[][..], 3),
        ("'app' in self.metadata.labels", &[], 0),
        ("has(self.metadata.labels.app)", &[], 0),
        ("!('app' in self.metadata.labels)", &["a/n2", "a/n3", "a/n4"], 0),
        ("self.metadata.labels.shown == 'a'", &["a/n2", "a/n3"], 1),
        ("self.metadata.name == 'n2' && self.spec.color == 'blue'", &["a/n2"], 0),
    ] {
        let cel = Arc::new(CelFilter::new(expression, &extractor.pruned(&hidden), true, Some(&hidden)).unwrap());
        let selection = Selection { cel: Some(cel.clone()), ..Selection::default() };
        let found = names(Listing::new(State::current(store.snapshot()), &selection, None));
        assert_eq!(found, expected, "{expression}");
        assert_eq!(cel.result().unwrap().map_or(0, |failed| failed.count), failed, "{expression}");
    }
}
