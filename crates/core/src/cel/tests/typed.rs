//! Types out of a schema: errors with their position, and results that do not depend on the types.

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection, option, prop_assert_eq, proptest, sample};
use serde_json::{Value, json};

use super::super::{CelProgram, CelType};

fn object_type() -> CelType {
    CelType::of_resource(&json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["color"],
                "properties": {
                    "color": {"type": "string", "minLength": 1},
                    "replicas": {"type": "integer"},
                    "ratio": {"type": "number"},
                    "ratios": {"type": "array", "items": {"type": "number"}},
                    "note": {"type": "string", "nullable": true},
                    "paused": {"type": "boolean"},
                    "port": {"x-kubernetes-int-or-string": true},
                    "since": {"type": "string", "format": "date-time"},
                    "period": {"type": "string", "format": "duration"},
                    "blob": {"type": "string", "format": "byte"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "items": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
                    "options": {"type": "object", "additionalProperties": {"type": "integer"}},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "dash-name": {"type": "string"},
                    "namespace": {"type": "string"},
                },
            },
        },
    }))
}

#[test]
fn errors_of_compilation_have_their_position() {
    let cases = [
        ("self.spec.colour == 'red'", "1:10: undefined field 'colour', did you mean 'color'?"),
        ("self.spec['colour'] == 'red'", "1:10: undefined field 'colour', did you mean 'color'?"),
        ("self.spec.Replicas == 1", "1:10: undefined field 'Replicas', did you mean 'replicas'?"),
        ("self.spec.entirelyDifferent == 1", "1:10: undefined field 'entirelyDifferent'"),
        ("self.status.phase == 'a'", "1:5: undefined field 'status'"),
        ("self.metadata.label.app == 'a'", "1:14: undefined field 'label', did you mean 'labels'?"),
        ("has(self.spec.colour)", "1:4: undefined field 'colour', did you mean 'color'?"),
        ("self.spec.color == 1", "1:17: found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.spec.replicas > 'a'", "1:20: found no matching overload for '_>_' applied to '(int, string)'"),
        ("self.spec.color.name == 'a'", "1:16: type 'string' does not support field selection"),
        ("self.spec.replicas", "1:10: must evaluate to bool, but evaluates to int"),
        ("self.spec.tags.exists(t, t == 1)", "1:28: found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.spec.items.all(i, i.nam == 'a')", "1:25: undefined field 'nam', did you mean 'name'?"),
        (
            "self.spec.color.all(c, true)",
            "1:10: expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("self.spec.paused &&\n  self.spec.x", "2:12: undefined field 'x'"),
        ("self.spec.color.foo()", "1:20: undeclared reference to 'foo' (in container '')"),
        ("spec.color == 'a'", "1:1: undeclared reference to 'spec' (in container '')"),
        ("self.spec.options['a'] == 'x'", "1:24: found no matching overload for '_==_' applied to '(int, string)'"),
        (
            "self.spec.options[1] == 1",
            "1:18: found no matching overload for '_[_]' applied to '(map(string, int), int)'",
        ),
        (
            "self.spec.color.startsWith(1)",
            "1:27: found no matching overload for 'startsWith' applied to 'string.(int)'",
        ),
        (
            "self.spec.since > timestamp(0)",
            "1:17: found no matching overload for '_>_' applied to '(string, timestamp)'",
        ),
        ("self.spec.color ==", "1:19: Syntax error: mismatched input '<EOF>' expecting an expression"),
        ("'ä' == self.spec.colour", "1:17: undefined field 'colour', did you mean 'color'?"),
    ];
    for (text, expected) in cases {
        let error = CelProgram::compile(text, &object_type()).map(|_| ()).expect_err(text).to_string();
        let first = error.lines().next().unwrap_or_default();
        assert_eq!(first, format!("ERROR: <input>:{expected}"), "{text}");
    }
    let error = CelProgram::compile("self.spec.colour == 'red'", &object_type()).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ERROR: <input>:1:10: undefined field 'colour', did you mean 'color'?\n | self.spec.colour == 'red'\n | .........^"
    );
    assert_eq!((error.line, error.column, error.offset), (1, 10, 9));
}

/// Expressions that compile with the schema of [`object_type`].
const EXPRESSIONS: &[&str] = &[
    "self.spec.color == 'red'",
    "self.spec.ratio == 2.0",
    "type(self.spec.ratio) == double",
    "self.spec.ratio > 1 || self.spec.ratio < -1.5",
    "type(self.spec.ratios.sum()) == int",
    "self.spec.ratios.sum() + 1.0 > 0.0",
    "self.spec.port == 80",
    "type(self.spec.port) == int || self.spec.port == '80'",
    "self.spec.since < '2025-01-01T00:00:00Z'",
    "timestamp(self.spec.since).getFullYear() == 2024",
    "duration(self.spec.period) == duration('60m')",
    "self.spec.blob == 'YWJj'",
    "self.spec.note == null || self.spec.note == 'x'",
    "self.spec.tags == ['x', 'y']",
    "self.spec.tags.exists(t, t.startsWith('x'))",
    "self.spec.tags.indexOf('y') > 0",
    "self.spec.tags.sort() == self.spec.tags",
    "self.spec.items.exists(i, i.name == 'x')",
    "self.spec.items[0].name == 'x'",
    "self.spec.options.a == 1",
    "self.spec.options.all(k, self.spec.options[k] > 0)",
    "'a' in self.spec.options",
    "self.spec.free.x.y == 1",
    "self.spec['dash-name'] == 'x'",
    "self.spec.namespace == 'n'",
    "self.spec == {}",
    "self.spec == {'replicas': 1}",
    "self.spec.exists(k, k == 'color')",
    "self.spec.all(k, v, v != 'x')",
    "'color' in self.spec",
    "size(self.spec) > 2",
    "self.metadata.namespace == 'b' && self.metadata.name == 'a'",
    "self.metadata.labels.app == 'x'",
    "self.kind == 'Box' && self.apiVersion == 'example.com/v1'",
    "has(self.spec.color) && !has(self.metadata.annotations)",
    "!has(self.spec.replicas) || self.spec.replicas % 2 == 0",
    "self.spec.?replicas.orValue(7) == 7",
    "self.spec.?items[0].name.orValue('') == 'x'",
    "self.spec.paused ? self.spec.replicas > 0 : self.spec.color != ''",
    "{'a': self.spec.replicas}.a == 1",
    "self.spec.color + '!' == 'x!'",
    "string(self.spec.replicas) == '1'",
    "dyn(self.spec.replicas) == 1.0",
];

/// Objects that conform to the schema, with each member present or absent.
fn objects() -> impl Strategy<Value = Value> {
    let text = || sample::select(vec!["", "x", "y", "red", "80"]).prop_map(|text| json!(text));
    let number = || prop_oneof![(-2..3_i64).prop_map(|int| json!(int)), Just(json!(2.5)), Just(json!(1e300))];
    let members: Vec<(&str, proptest::strategy::BoxedStrategy<Value>)> = vec![
        ("replicas", (-2..3_i64).prop_map(|int| json!(int)).boxed()),
        ("ratio", number().boxed()),
        ("ratios", collection::vec(number(), 0..3).prop_map(|numbers| json!(numbers)).boxed()),
        ("note", prop_oneof![Just(Value::Null), text()].boxed()),
        ("paused", any::<bool>().prop_map(|bool| json!(bool)).boxed()),
        ("port", prop_oneof![Just(json!(80)), text()].boxed()),
        ("since", Just(json!("2024-01-01T00:00:00Z")).boxed()),
        ("period", Just(json!("1h")).boxed()),
        ("blob", Just(json!("YWJj")).boxed()),
        ("tags", collection::vec(text(), 0..3).prop_map(|texts| json!(texts)).boxed()),
        (
            "items",
            collection::vec(text().prop_map(|name| json!({"name": name})), 0..3).prop_map(|all| json!(all)).boxed(),
        ),
        ("options", collection::vec(0..3_i64, 1..2).prop_map(|ints| json!({"a": ints[0]})).boxed()),
        ("free", prop_oneof![Just(json!({"x": {"y": 1}})), Just(json!({"x": 1}))].boxed()),
        ("dash-name", text().boxed()),
        ("namespace", text().boxed()),
    ];
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let values: Vec<_> = members.into_iter().map(|(_, value)| option::of(value)).collect();
    (text(), values).prop_map(move |(color, values)| {
        let mut spec = json!({"color": color});
        for (name, value) in names.iter().zip(values) {
            if let Some(value) = value {
                spec[*name] = value;
            }
        }
        json!({
            "apiVersion": "example.com/v1", "kind": "Box",
            "metadata": {"name": "a", "namespace": "b", "labels": {"app": "x"}}, "spec": spec,
        })
    })
}

proptest! {
    #[test]
    fn results_do_not_depend_on_the_schema(object in objects()) {
        let (object, kind) = (object.to_string(), object_type());
        for text in EXPRESSIONS {
            let result = |kind: &CelType| {
                let program = CelProgram::compile(text, kind).unwrap_or_else(|error| panic!("{text}: {error}"));
                program.evaluate(object.as_bytes(), 10_000).result.map_err(|error| error.to_string())
            };
            prop_assert_eq!(result(&kind), result(&CelType::Dyn), "{} for {}", text, object);
        }
    }
}

#[test]
fn members_can_be_named_with_the_escapes_of_validation_rules() {
    let object = br#"{"metadata":{"name":"a"},"spec":{"color":"red","dash-name":"d","namespace":"n"}}"#;
    for text in ["self.spec.dash__dash__name == 'd'", "self.spec.__namespace__ == 'n'"] {
        let program = CelProgram::compile(text, &object_type()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(program.evaluate(object, 10_000).result, Ok(true), "{text}");
    }
}

#[test]
fn objects_older_than_their_schema_have_the_values_that_are_written() {
    let object = br#"{"metadata":{"name":"a"},"spec":{"color":7}}"#;
    let cases = [
        ("self.spec.replicas > 1", Err("no such key: replicas")),
        ("self.spec.color == 'red'", Ok(false)),
        ("self.spec.color.startsWith('r')", Err("no such overload")),
        ("self.spec.tags.exists(t, t == 'x')", Err("no such key: tags")),
    ];
    for (text, expected) in cases {
        let result = CelProgram::compile(text, &object_type()).unwrap().evaluate(object, 10_000).result;
        assert_eq!(result.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{text}");
    }
}
