//! Defaults, pruning, validation and metadata.

use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};
use serde_json::{Value, json};

use super::metadata::{self, NameRule};
use super::node::{SchemaNode, no_references};
use super::{defaults, format, prune, validate};
use crate::json::{normalize_numbers, to_text};
use crate::model::Scope;
use fieldcache_testing::json::any_value;
use fieldcache_testing::nested::{self, on_worker_stack};

fn spec_schema(spec: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": spec}})
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "stable.example.com/v1", "kind": "Shirt", "metadata": {"name": "a"}, "spec": spec})
}

#[test]
fn defaults_are_applied_as_on_create() {
    let with = |property: Value| json!({"type": "object", "properties": {"x": property}});
    for (schema, before, after, why) in [
        (with(json!({"type": "string", "default": "d"})), json!({}), json!({"x": "d"}), "absent"),
        (with(json!({"type": "string", "default": "d"})), json!({"x": "s"}), json!({"x": "s"}), "present"),
        (with(json!({"type": "string", "default": "d"})), json!({"x": null}), json!({"x": "d"}), "null, not nullable"),
        (
            with(json!({"type": "string", "default": "d", "nullable": true})),
            json!({"x": null}),
            json!({"x": null}),
            "null, nullable",
        ),
        (with(json!({"type": "string"})), json!({"x": null}), json!({}), "null, not nullable, no default"),
        (with(json!({"type": "string", "nullable": true})), json!({"x": null}), json!({"x": null}), "null, nullable"),
        (
            with(json!({"type": "object", "properties": {"y": {"type": "string", "default": "d"}}})),
            json!({}),
            json!({}),
            "below an absent parent",
        ),
        (
            with(json!({"type": "object", "default": {}, "properties": {"y": {"type": "string", "default": "d"}}})),
            json!({}),
            json!({"x": {"y": "d"}}),
            "below a parent that is itself a default",
        ),
        (
            with(json!({"type": "array", "items": {"type": "object", "properties": {"y": {"default": 1}}}})),
            json!({"x": [{}, {"y": 2}]}),
            json!({"x": [{"y": 1}, {"y": 2}]}),
            "in every item",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string", "default": "d"}}),
            json!({"k": null}),
            json!({"k": "d"}),
            "null in a map",
        ),
        (with(json!({"default": null})), json!({}), json!({}), "a null default is none"),
    ] {
        let (schema, mut value) = (spec_schema(&schema), object(&before));
        defaults::apply(&mut value, SchemaNode::new(&schema, &no_references));
        assert_eq!(value, object(&after), "{why}");
    }
    let schema = spec_schema(&with(json!({"default": "d"})));
    let mut value = json!({"kind": "Shirt"});
    defaults::apply(&mut value, SchemaNode::new(&schema, &no_references));
    assert_eq!(value, json!({"kind": "Shirt"}), "no spec, no defaults of it");
}

#[test]
fn pruning_retains_declared_fields() {
    let known = json!({"type": "object", "properties": {"x": {"type": "string"}}});
    let mut keeps = known.clone();
    keeps["x-kubernetes-preserve-unknown-fields"] = json!(true);
    let mut embedded = known.clone();
    embedded["x-kubernetes-embedded-resource"] = json!(true);
    let all = json!({"x": "a", "y": {"z": 1}, "apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}});
    for (schema, after, why) in [
        (known.clone(), json!({"x": "a"}), "unknown fields go"),
        (keeps, all.clone(), "unknown fields are preserved"),
        (
            embedded,
            json!({"x": "a", "apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}}),
            "an embedded resource keeps its type and metadata",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}),
            all.clone(),
            "a map keeps its keys",
        ),
        (json!({"type": "object"}), json!({}), "no properties at all"),
        (
            json!({"type": "object", "additionalProperties": true}),
            json!({"x": "a", "y": {}, "apiVersion": "v1", "kind": "K", "metadata": {}}),
            "below `true` nothing is known",
        ),
    ] {
        let (schema, mut value) = (spec_schema(&schema), object(&all));
        prune::prune(&mut value, SchemaNode::new(&schema, &no_references));
        assert_eq!(value, object(&after), "{why}");
    }
    let schema = spec_schema(&json!({"type": "array", "items": known}));
    let mut value = object(&json!([{"x": "a", "y": 1}]));
    value["more"] = json!(1);
    prune::prune(&mut value, SchemaNode::new(&schema, &no_references));
    assert_eq!(value, object(&json!([{"x": "a"}])), "items and the root are pruned, metadata stays");
}

#[test]
fn built_in_kinds_are_read_as_go_structs_are() {
    let definitions = json!({
        "Pod": {"properties": {
            "metadata": {"$ref": "#/components/schemas/Meta"},
            "spec": {"description": "d", "allOf": [{"$ref": "#/components/schemas/Spec"}]},
        }},
        "Meta": {"properties": {"name": {"type": "string"}, "labels": {"additionalProperties": {"type": "string"}}}},
        "Spec": {"properties": {
            "limits": {"additionalProperties": {"$ref": "#/components/schemas/io.resource.Quantity"}},
            "free": {"type": "object"},
            "next": {"$ref": "#/components/schemas/Spec"},
        }},
        "io.resource.Quantity": {"x-kubernetes-int-or-string": true},
        "Loop": {"$ref": "#/components/schemas/Loop"},
    });
    let resolve = |reference: &str| definitions.get(super::node::reference_name(reference));
    let schema = json!({"$ref": "#/components/schemas/Pod"});
    let node = SchemaNode::new(&schema, &resolve);
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "typo": 1,
        "metadata": {"name": "a", "labels": {"k": "v"}, "creationTimestamp": null},
        "spec": {"limits": {"cpu": 0.5, "memory": "1Gi"}, "free": {"x": 1}, "next": {"typo": 1, "free": {}}}});
    prune::decode_built_in(&mut pod, node);
    let expected = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"k": "v"}},
        "spec": {"limits": {"cpu": "0.5", "memory": "1Gi"}, "free": {"x": 1}, "next": {"free": {}}}});
    assert_eq!(pod, expected);
    pod["spec"]["next"]["limits"] = json!({"cpu": true});
    let problems: Vec<String> = validate::validate(&pod, node).iter().map(ToString::to_string).collect();
    let problem = "spec.next.limits.cpu: Invalid value: \"boolean\": spec.next.limits.cpu in body must be of type \
                   integer,string: \"boolean\"";
    assert_eq!(problems, [problem], "references are followed");
    let loop_schema = json!({"$ref": "#/components/schemas/Loop"});
    assert!(validate::validate(&pod, SchemaNode::new(&loop_schema, &resolve)).is_empty(), "a loop of references ends");
}

#[test]
fn every_error_has_the_words_of_kube_apiserver() {
    for (schema, value, expected) in [
        (
            json!({"type": "integer"}),
            json!("x"),
            "spec: Invalid value: \"string\": spec in body must be of type integer: \"string\"",
        ),
        (
            json!({"type": "integer"}),
            json!(null),
            "spec: Invalid value: \"null\": spec in body must be of type integer: \"null\"",
        ),
        (
            json!({"type": "integer"}),
            json!(1e300),
            "spec: Invalid value: \"number\": spec in body must be of type \
         integer: \"number\"; <nil>: Invalid value: \"\": Checked value must be of type integer (default format) in spec",
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(2_147_483_648_i64),
            "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec",
        ),
        (json!({"type": "object", "required": ["color"]}), json!({}), "spec.color: Required value"),
        (
            json!({"type": "string", "enum": ["S", "M"]}),
            json!("XXL"),
            "spec: Unsupported value: \"XXL\": supported values: \"S\", \"M\"",
        ),
        (
            json!({"type": "integer", "enum": [1, 2]}),
            json!(3),
            "spec: Unsupported value: 3: supported values: \"1\", \"2\"",
        ),
        (
            json!({"type": "integer", "minimum": 1}),
            json!(0),
            "spec: Invalid value: 0: spec in body should be greater than or equal to 1",
        ),
        (
            json!({"type": "integer", "maximum": 1, "exclusiveMaximum": true}),
            json!(1),
            "spec: Invalid value: 1: spec in body should be less than 1",
        ),
        (
            json!({"type": "number", "maximum": 1.5}),
            json!(2_500_000.5),
            "spec: Invalid value: 2.5000005e+06: spec in body should be less than or equal to 1.5",
        ),
        (
            json!({"type": "integer", "multipleOf": 2}),
            json!(3),
            "spec: Invalid value: 3: spec in body should be a multiple of 2",
        ),
        (json!({"type": "string", "maxLength": 1}), json!("ab"), "spec: Too long: may not be more than 1 byte"),
        (
            json!({"type": "string", "minLength": 3}),
            json!("éé"),
            "spec: Invalid value: \"éé\": spec in body should be at least 3 chars long",
        ),
        (
            json!({"type": "string", "pattern": "^a"}),
            json!("b"),
            "spec: Invalid value: \"b\": spec in body should match '^a'",
        ),
        (
            json!({"type": "string", "format": "date"}),
            json!("2023-02-29"),
            "spec: Invalid value: \"2023-02-29\": spec in body must be of type date: \"2023-02-29\"",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!(["a", 1]),
            "spec[1]: Invalid value: \"integer\": spec[1] in body must be of type string: \"integer\"",
        ),
        (json!({"type": "array", "maxItems": 1}), json!([1, 2]), "spec: Too many: 2: must have at most 1 item"),
        (
            json!({"type": "array", "minItems": 2}),
            json!([1]),
            "spec: Invalid value: 1: spec in body should have at least 2 items",
        ),
        (
            json!({"type": "array", "uniqueItems": true}),
            json!([1, 1]),
            "spec: Invalid value: \"\": spec in body shouldn't contain duplicates",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set"}),
            json!(["a", "a", "a"]),
            "spec[1]: Duplicate value: \"a\"",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
            json!([{"k": 1, "v": 1}, {"k": 1, "v": 2}]),
            "spec[1]: Duplicate value: {\"k\":1}",
        ),
        (
            json!({"type": "object", "maxProperties": 1}),
            json!({"a": 1, "b": 2}),
            "spec: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "object", "minProperties": 1}),
            json!({}),
            "spec: Invalid value: 0: spec in body should have at least 1 properties",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"a": 1}),
            "spec.a: Invalid value: \"integer\": spec.a in body must be of type string: \"integer\"",
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            "spec: Invalid value: \"boolean\": spec in body must be of type integer,string: \"boolean\"",
        ),
        (
            json!({"anyOf": [{"minimum": 5}, {"maximum": 1}]}),
            json!(3),
            "<nil>: Invalid value: \"\": \"spec\" must validate at \
         least one schema (anyOf); spec: Invalid value: 3: spec in body should be greater than or equal to 5",
        ),
        (
            json!({"oneOf": [{"minimum": 1}, {"minimum": 2}]}),
            json!(3),
            "<nil>: Invalid value: \"\": \"spec\" must validate one \
         and only one schema (oneOf). Found 2 valid alternatives",
        ),
        (
            json!({"allOf": [{"minimum": 1}, {"minimum": 5}]}),
            json!(3),
            "spec: Invalid value: 3: spec in body should be greater \
         than or equal to 5; <nil>: Invalid value: \"\": \"spec\" must validate all the schemas (allOf)",
        ),
        (
            json!({"not": {"minimum": 1}}),
            json!(3),
            "<nil>: Invalid value: \"\": \"spec\" must not validate the schema (not)",
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            json!({"kind": ""}),
            "spec.apiVersion: Required value; spec.kind: Invalid value: \"\": must not be empty",
        ),
    ] {
        let root = spec_schema(&schema);
        let problems = validate::validate(&object(&value), SchemaNode::new(&root, &no_references));
        let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(texts.join("; "), expected, "{schema} {value}");
    }
}

/// Each error names all values of an `enum`, so an object with very many errors takes much memory.
#[test]
fn validation_ends_after_so_many_errors() {
    let list = json!({"type": "array", "items": {"enum": ["a"]}});
    let map = json!({"type": "object", "additionalProperties": {"enum": ["a"]}});
    let members = |count: usize| (0..count).map(|number| (format!("k{number}"), json!(number))).collect();
    for (count, expected) in [(499, 499), (500, 500), (501, 500), (10_000, 500)] {
        for (schema, value) in [(&list, Value::from_iter(0..count)), (&map, Value::Object(members(count)))] {
            let root = spec_schema(schema);
            let errors = validate::validate(&object(&value), SchemaNode::new(&root, &no_references));
            assert_eq!(errors.len(), expected, "{count} errors of {schema}");
        }
    }
}

#[test]
fn what_a_schema_allows_has_no_problem() {
    for (schema, value) in [
        (json!({"type": "integer"}), json!(1.0)),
        (json!({"type": "number"}), json!(1)),
        (json!({"type": "string", "nullable": true}), json!(null)),
        (json!({"type": "string", "format": "unheard-of"}), json!("x")),
        (json!({"x-kubernetes-int-or-string": true}), json!("x")),
        (json!({"oneOf": [{"minimum": 5}, {"maximum": 4}]}), json!(3)),
        (json!({"type": "object", "additionalProperties": true}), json!({"a": [1]})),
        (json!({"x-kubernetes-validations": [{"rule": "false"}]}), json!(1)),
        (json!({}), json!({"a": null})),
    ] {
        let root = spec_schema(&schema);
        let problems = validate::validate(&object(&value), SchemaNode::new(&root, &no_references));
        assert!(problems.is_empty(), "{schema} {value}: {problems:?}");
    }
}

#[test]
fn formats_accept_and_reject_the_same_texts_as_upstream() {
    for (name, good, bad) in [
        (
            "date-time",
            &["2024-02-29T23:59:59Z", "2024-01-01t00:00:00.5+01:00"][..],
            &["2024-01-01", "2023-02-29T00:00:00Z"][..],
        ),
        ("date", &["2024-02-29"], &["2024-2-29", "2023-02-29", "2024-13-01"]),
        ("duration", &["1h30m", "-1.5s", "0", "3 days", "2w"], &["", "x", "5", "h"]),
        ("byte", &["YWI=", "YWJj"], &["", "YWI", "a b="]),
        ("ipv4", &["1.2.3.4", "01.2.3.4"], &["1.2.3", "1.2.3.256", "::1"]),
        ("ipv6", &["::1", "::ffff:1.2.3.4"], &["1.2.3.4", ":::"]),
        ("cidr", &["10.0.0.0/8", "fd00::/64"], &["10.0.0.0", "10.0.0.0/33"]),
        ("mac", &["00:11:22:33:44:55", "0011.2233.4455"], &["00:11", "00-11:22:33:44:55"]),
        ("uuid", &["550e8400-e29b-41d4-a716-446655440000", "550E8400e29b41d4a716446655440000"], &["550e8400"]),
        ("uuid4", &["550e8400-e29b-41d4-a716-446655440000"], &["550e8400-e29b-31d4-a716-446655440000"]),
        (
            "uri",
            &["https://example.com/a?b#c", "/a", "mailto:x"],
            &["", "a b", "example", "http://a b/", "http://h:9x/"],
        ),
        ("email", &["a@example.com", "Name <a@b>"], &["a", "a@", "a b@c"]),
        ("hostname", &["example.com", "localhost"], &["-a.b", "a..b"]),
        ("isbn", &["0321751043", "978-0321751041"], &["0321751044", "978-0321751042"]),
        ("creditcard", &["4111 1111 1111 1111"], &["4111 1111 1111 1112", ""]),
        ("hexcolor", &["#fff", "00FF00"], &["#ffff"]),
        ("rgbcolor", &["rgb(1,2,3)"], &["rgb(1,2)", "rgb(256,0,0)"]),
        ("k8s-short-name", &["a-b"], &["A", "a.b"]),
        ("unheard-of", &["anything"], &[]),
    ] {
        for text in good {
            assert!(format::matches(name, text), "{name} takes {text:?}");
        }
        for text in bad {
            assert!(!format::matches(name, text), "{name} refuses {text:?}");
        }
    }
}

#[test]
fn metadata_is_validated_as_on_create() {
    let namespaced = Scope::Namespaced;
    let subdomain = NameRule::DnsSubdomain;
    let rows: [(Value, Scope, NameRule, &[&str]); 16] = [
        (
            json!({"name": "a.b", "namespace": "ns", "labels": {"k": "v"}, "annotations": {"K": "any text"}}),
            namespaced,
            subdomain,
            &[],
        ),
        (
            json!({"namespace": "ns"}),
            namespaced,
            subdomain,
            &["metadata.name: Required value: name or generateName is required"],
        ),
        (
            json!({"name": "A", "namespace": "ns"}),
            namespaced,
            subdomain,
            &["metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain"],
        ),
        (json!({"name": "a"}), namespaced, subdomain, &["metadata.namespace: Required value"]),
        (
            json!({"name": "a", "namespace": "a.b"}),
            namespaced,
            subdomain,
            &["metadata.namespace: Invalid value: \"a.b\": must not contain dots"],
        ),
        (
            json!({"name": "a", "namespace": "ns"}),
            Scope::Cluster,
            subdomain,
            &["metadata.namespace: Forbidden: not allowed on this type"],
        ),
        (
            json!({"name": "system:node"}),
            Scope::Cluster,
            crate::builtin::name_rule("rbac.authorization.k8s.io", "ClusterRole"),
            &[],
        ),
        (
            json!({"name": "1a", "namespace": "ns"}),
            namespaced,
            crate::builtin::name_rule("", "Service"),
            &["metadata.name: Invalid value: \"1a\": a DNS-1035 label"],
        ),
        (
            json!({"name": "a.b"}),
            Scope::Cluster,
            crate::builtin::name_rule("", "Namespace"),
            &["metadata.name: Invalid value: \"a.b\": must not contain dots"],
        ),
        (
            json!({"name": "a", "labels": {"-k": "-v"}}),
            Scope::Cluster,
            subdomain,
            &[
                "metadata.labels: Invalid value: \"-k\": name part",
                "metadata.labels: Invalid value: \"-v\": a valid label",
            ],
        ),
        (
            json!({"name": "a", "labels": {"k": true}}),
            Scope::Cluster,
            subdomain,
            &["metadata.labels[k]: Invalid value: true: must be a string"],
        ),
        (
            json!({"name": "a", "annotations": {"/": ""}}),
            Scope::Cluster,
            subdomain,
            &[
                "metadata.annotations: Invalid value: \"/\": prefix part",
                "metadata.annotations: Invalid value: \"/\": name part must be non-empty",
                "metadata.annotations: Invalid value: \"/\": name part must consist",
            ],
        ),
        (
            json!({"name": "a", "annotations": {"k": "x".repeat(262_144)}}),
            Scope::Cluster,
            subdomain,
            &["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
        (
            json!({"name": "a", "finalizers": ["/x"]}),
            Scope::Cluster,
            subdomain,
            &["metadata.finalizers: Invalid value: \"/x\": prefix part"],
        ),
        (
            json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n"}]}),
            Scope::Cluster,
            subdomain,
            &["metadata.ownerReferences.uid: Invalid value: \"\": must not be empty"],
        ),
        (json!([]), Scope::Cluster, subdomain, &["metadata: Invalid value: []: must be an object"]),
    ];
    for (metadata, scope, rule, expected) in rows {
        let problems = metadata::validate(&json!({"metadata": metadata}), scope, rule);
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.to_string().starts_with(expected), "{problem} should start with {expected}");
        }
    }
}

/// Levels that `manifest` reads, at most; everything here is called with less than twice of it.
const LEVELS: usize = 200;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn nested_values_fit_the_stack_of_a_worker(
        nested in nested::values(LEVELS, &["a", "b"]),
        is_preserved in any::<bool>(),
    ) {
        let text = nested.text();
        // As deep: a schema of lists and objects, with alternatives in each level.
        let mut schema = json!({"x-kubernetes-preserve-unknown-fields": is_preserved});
        for level in (0..LEVELS).rev() {
            let is_list = nested.is_list(level);
            let alternatives = if level % 20 == 0 { json!([{"minLength": 1}]) } else { json!([]) };
            schema = if is_list {
                json!({"type": "array", "items": schema, "anyOf": alternatives})
            } else {
                json!({"type": "object", "properties": {"a": schema}, "additionalProperties": {"nullable": true}, "anyOf": alternatives})
            };
        }
        on_worker_stack(|| {
            let mut value = crate::json::tree::value(text.as_bytes(), LEVELS + 1).unwrap();
            let node = SchemaNode::new(&schema, &no_references);
            let _ = validate::validate(&value, node);
            let _ = validate::validate_built_in(&value, node);
            normalize_numbers(&mut value);
            assert!(!to_text(&value).is_empty());
            for change in [defaults::apply, prune::prune, prune::decode_built_in] {
                change(&mut value, node);
            }
        });
    }
}

proptest! {
    #[test]
    fn what_is_pruned_or_defaulted_once_stays_so(value in any_value(), keeps in any::<bool>()) {
        let schema = spec_schema(&json!({
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": keeps,
            "properties": {
                "a": {"type": "string", "default": "d"},
                "b": {"type": "object", "properties": {"a": {"default": 1, "nullable": true}, "b": {}}},
                "c": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            },
        }));
        let node = SchemaNode::new(&schema, &no_references);
        let mut once = object(&value);
        defaults::apply(&mut once, node);
        prune::prune(&mut once, node);
        let mut twice = once.clone();
        defaults::apply(&mut twice, node);
        prune::prune(&mut twice, node);
        prop_assert_eq!(twice, once);
    }
}
