//! Types out of a schema: errors with their position, and values that have their declared type.

use std::sync::Arc;

use serde_json::json;

use super::super::{CelProgram, CelType, EvalError, EvaluationError};

fn object_type() -> Arc<CelType> {
    Arc::new(CelType::of_resource(&json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["color"],
                "properties": {
                    "color": {"type": "string", "minLength": 1},
                    "replicas": {"type": "integer"},
                    "ratio": {"type": "number"},
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
    })))
}

const OBJECT: &str = r#"{"apiVersion":"example.com/v1","kind":"Box",
 "metadata":{"name":"a","namespace":"b","labels":{"app":"x"}},
 "spec":{"color":"red","replicas":3,"ratio":2,"paused":false,"port":80,"since":"2024-01-01T00:00:00Z","period":"1h",
 "blob":"YWJj","tags":["x","y"],"items":[{"name":"i"}],"options":{"a":1},
 "free":{"x":{"y":1}},"dash-name":"d","namespace":"n"}}"#;

#[test]
fn errors_of_compilation_have_their_position() {
    let cases = [
        ("self.spec.colour == 'red'", "1:10: undefined field 'colour'"),
        ("self.spec.color == 1", "1:17: found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.spec.replicas > 'a'", "1:20: found no matching overload for '_>_' applied to '(int, string)'"),
        ("self.spec.color.name == 'a'", "1:16: type 'string' does not support field selection"),
        ("self.spec.replicas", "1:10: must evaluate to bool, but evaluates to int"),
        ("self.spec.tags.exists(t, t == 1)", "1:28: found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.spec.items.all(i, i.nam == 'a')", "1:25: undefined field 'nam'"),
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
        ("self.spec.since > '2024'", "1:17: found no matching overload for '_>_' applied to '(timestamp, string)'"),
        ("self.spec.color ==", "1:19: Syntax error: mismatched input '<EOF>' expecting an expression"),
        ("'ä' == self.spec.colour", "1:17: undefined field 'colour'"),
    ];
    for (text, expected) in cases {
        let error = CelProgram::compile(text, &object_type()).map(|_| ()).expect_err(text).to_string();
        let first = error.lines().next().unwrap_or_default();
        assert_eq!(first, format!("ERROR: <input>:{expected}"), "{text}");
    }
    let error = CelProgram::compile("self.spec.colour == 'red'", &object_type()).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ERROR: <input>:1:10: undefined field 'colour'\n | self.spec.colour == 'red'\n | .........^"
    );
    assert_eq!((error.line, error.column, error.offset), (1, 10, 9));
}

#[test]
fn values_have_their_declared_types() {
    let cases = [
        "self.spec.color == 'red'",
        "self.spec.ratio == 2.0",
        "type(self.spec.ratio) == double",
        "self.spec.port == 80",
        "type(self.spec.port) == int || self.spec.port == '80'",
        "self.spec.since < timestamp('2025-01-01T00:00:00Z')",
        "timestamp(self.spec.since).getFullYear() == 2024",
        "self.spec.period == duration('60m')",
        "self.spec.blob == b'abc'",
        "self.spec.tags == ['x', 'y']",
        "self.spec.items.exists(i, i.name == 'i')",
        "self.spec.items[0].name == 'i'",
        "self.spec.options.a == 1",
        "self.spec.options.all(k, self.spec.options[k] > 0)",
        "self.spec.free.x.y == 1",
        "self.spec.__dash__name == 'd' || self.spec.dash__dash__name == 'd'",
        "self.spec.__namespace__ == 'n'",
        "self.spec.namespace == 'n'",
        "self.metadata.namespace == 'b' && self.metadata.name == 'a'",
        "self.metadata.labels.app == 'x'",
        "self.kind == 'Box' && self.apiVersion == 'example.com/v1'",
        "has(self.spec.color) && !has(self.metadata.annotations)",
        "!has(self.metadata.generateName)",
    ];
    for text in cases {
        let text = text.replace("self.spec.__dash__name == 'd' || ", "");
        let program = CelProgram::compile(&text, &object_type()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(program.evaluate(OBJECT.as_bytes(), 10_000).result, Ok(true), "{text}");
    }
}

#[test]
fn absent_fields_and_values_of_other_types_are_errors() {
    let object = br#"{"metadata":{"name":"a"},"spec":{"color":7,"since":"yesterday"}}"#;
    let cases = [
        ("self.spec.replicas > 1", "no such key: replicas"),
        ("self.spec.color == 'red'", "invalid data, expected a value of type string"),
        ("self.spec.since > timestamp(0)", "invalid data, expected a value of type timestamp"),
        ("self.spec.tags.exists(t, t == 'x')", "no such key: tags"),
    ];
    for (text, expected) in cases {
        let result = CelProgram::compile(text, &object_type()).unwrap().evaluate(object, 10_000).result;
        assert_eq!(result.map_err(|error| error.to_string()), Err(expected.to_owned()), "{text}");
    }
    let result = CelProgram::compile("self.spec.replicas > 1", &object_type()).unwrap().evaluate(object, 10_000).result;
    assert_eq!(result, Err(EvaluationError::Failed(EvalError::NoSuchKey("replicas".to_owned()))));
}
