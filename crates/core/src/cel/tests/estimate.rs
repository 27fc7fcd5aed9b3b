//! Estimates of cost, and the paths that an expression reads.

use std::sync::Arc;

use serde_json::json;

use super::super::{CelProgram, CelType, Indexed, IndexedKind, IndexedPath};

fn compile(text: &str) -> CelProgram {
    CelProgram::compile(text, &Arc::new(CelType::Dyn)).unwrap()
}

#[test]
fn an_expensive_part_and_the_field_to_add_are_named() {
    let cases = [
        (
            "self.a == 'x' && self.spec.items.exists(i, self.spec.items.exists(j, i.name == j.name))",
            "self.spec.items.exists(i, self.spec.item...",
            Some("$.spec.items[*].name"),
        ),
        (
            "self.l.all(a, self.l.all(b, self.l.all(c, c == 1)))",
            "self.l.all(a, self.l.all(b, self.l.all(c...",
            Some("$.l[*]"),
        ),
        ("self.a in self.b || self.l.distinct().size() > 1", "self.l.distinct()", None),
    ];
    for (text, expression, field) in cases {
        let error = compile(text).check_cost(5_000).expect_err(text);
        assert_eq!((&*error.expression, error.field.as_deref()), (expression, field), "{text}: {error}");
    }
    let error = compile("self.l.all(a, self.l.all(b, a == b))").check_cost(1_000).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "the estimated cost of self.l.all(a, self.l.all(b, a == b)) is {} for an object, above the limit of 1000; \
             add $.l[*] to the selectableFields of a FieldCache",
            error.cost
        )
    );
}

#[test]
fn bounds_of_the_schema_lower_the_estimate() {
    let schema = |most: u64| {
        let items = json!({"type": "string", "maxLength": 10});
        json!({"type": "object", "properties": {"l": {"type": "array", "maxItems": most, "items": items}}})
    };
    let cost = |most| {
        let kind = Arc::new(CelType::of_resource(&schema(most)));
        CelProgram::compile("self.l.all(a, self.l.exists(b, a == b))", &kind).unwrap().estimated_cost()
    };
    assert!(cost(5) * 50 < cost(50), "{} and {}", cost(5), cost(50));
    assert!(cost(5) < compile("self.l.all(a, self.l.exists(b, a == b))").estimated_cost());
    let simple = compile("self.spec.color == 'red' && self.metadata.name.startsWith('a')");
    assert_eq!(simple.check_cost(100), Ok(simple.estimated_cost()));
}

#[test]
fn an_evaluation_of_an_object_within_the_sizes_costs_at_most_the_estimate() {
    let items: Vec<_> = (0..100).map(|index| json!({"name": format!("n{index}"), "port": index})).collect();
    let object = json!({"a": "x".repeat(256), "spec": {"items": items}, "m": {"k": "v"}}).to_string();
    for text in [
        "self.a == self.a",
        "self.a.contains('y') || self.a.endsWith('z')",
        "self.spec.items.all(i, i.port < 1000 && i.name.startsWith('n'))",
        "self.spec.items.exists(i, self.spec.items.exists(j, i.port > j.port + 1000))",
        "self.spec.items.filter(i, i.port > 10).map(i, i.name).exists(n, n == 'q')",
        "self.m.all(k, self.m[k] == 'v')",
        "self.a.matches('^x+y$')",
    ] {
        let program = compile(text);
        let evaluation = program.evaluate(object.as_bytes(), 1_000_000);
        assert!(evaluation.result.is_ok(), "{text}: {evaluation:?}");
        let estimate = program.estimated_cost();
        assert!(evaluation.cost <= estimate + estimate / 2, "{text}: {} and {estimate}", evaluation.cost);
    }
}

#[test]
fn paths_that_no_index_has_are_named() {
    let indexed = Indexed {
        paths: vec![IndexedPath::parse(".spec.color", IndexedKind::Text).unwrap()],
        is_namespaced: true,
        ..Indexed::default()
    };
    let cases: [(&str, &[&str]); 5] = [
        ("self.spec.color == 'red' && self.metadata.name == 'a' && self.metadata.labels['a'] == 'b'", &[]),
        ("self.spec.size > 1 || has(self.spec.size)", &["$.spec.size"]),
        (
            "self.spec.items.exists(i, i.name == 'a' && i.ports.all(p, p.number > 1))",
            &["$.spec.items[*].name", "$.spec.items[*].ports[*].number"],
        ),
        (
            "'x' in self.spec.tags && self.metadata.annotations['a.b/c'] == 'd'",
            &["$.spec.tags", "$.metadata.annotations['a.b/c']"],
        ),
        ("self.?spec.?kind.orValue('') == 'x'", &["$.spec.kind"]),
    ];
    for (text, expected) in cases {
        assert_eq!(compile(text).unindexed(&indexed, 8), expected, "{text}");
    }
}
