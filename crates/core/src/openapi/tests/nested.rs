//! Schemas that nest as deep as they are read.

use serde_json::{Value, json};

use super::super::OpenApiDocument;
use super::super::filter::{DocumentFilter, FilteredResource};
use super::super::protobuf::{encode, to_protobuf_v2, to_protobuf_v3, v3};
use super::super::structure::is_structural;
use super::{v2_of, v3_of, with_schema};
use crate::crd::DEFINITION_LEVELS;
use crate::extract::Prune;
use crate::json::tree::value;
use crate::openapi::DOCUMENT_LEVELS;
use fieldcache_testing::nested::on_worker_stack;

/// A schema of so many levels: objects, lists, maps and branches in turn.
fn schema(levels: usize) -> Value {
    let mut schema =
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let mut depth = 1;
    while depth + 2 < levels {
        let (outer, more) = match depth % 4 {
            0 => (json!({"type": "array", "items": schema}), 1),
            1 => (json!({"type": "object", "additionalProperties": schema}), 1),
            _ => (json!({"type": "object", "properties": {"a": schema}}), 2),
        };
        (schema, depth) = (outer, depth + more);
    }
    json!({"type": "object", "properties": {"a": schema}})
}

/// Junctors inside each other.
fn branches(levels: usize) -> Value {
    let mut branch = json!({"minLength": 1});
    for level in 0..levels / 2 - 3 {
        branch = json!({(["anyOf", "allOf", "oneOf"][level % 3]): [branch]});
    }
    json!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true, "allOf": [branch]}}})
}

#[test]
fn nested_schemas_are_published_in_every_form() {
    for levels in [100, 128, 130, 300, DEFINITION_LEVELS - 6] {
        for schema in [schema(levels), branches(levels)] {
            on_worker_stack(|| {
                let crd = with_schema(schema.clone());
                let is_published = is_structural(schema.as_object().unwrap());
                for (form, document) in [("v2", v2_of(&[&crd])), ("v3", v3_of(&[&crd], "v1"))] {
                    let written = OpenApiDocument::new(&document);
                    assert!(value(&written.json, DOCUMENT_LEVELS).unwrap() == document, "{form} {levels}");
                    let binary = if form == "v2" { to_protobuf_v2(&document) } else { to_protobuf_v3(&document) };
                    assert!(!is_published || form == "v2" || binary.len() > levels, "{form} {levels}");
                    let shown = DocumentFilter::new([FilteredResource {
                        group: "stable.example.com".to_owned(),
                        version: "v1".to_owned(),
                        resource: "shirts".to_owned(),
                        kind: "Shirt".to_owned(),
                        list_kind: "ShirtList".to_owned(),
                        prune: Prune::new([".a.a.a.a.b", ".spec.color"]).unwrap().into(),
                        extractor: crate::builtin::extractor("", "v1", "ConfigMap"),
                    }]);
                    assert!(shown.apply(document).is_object(), "{form} {levels}");
                }
            });
        }
    }
}

#[test]
fn protobuf_of_nested_schemas_has_every_level() {
    let levels = DEFINITION_LEVELS;
    let document = json!({"components": {"schemas": {"A": schema(levels)}}});
    let (bytes, skipped) = on_worker_stack(|| encode(&v3::DOCUMENT, &document));
    assert_eq!(skipped, []);
    let types = |bytes: &[u8]| bytes.windows(6).filter(|window| window == b"object").count();
    assert_eq!(types(&bytes), types(document.to_string().as_bytes()), "each level is there once");
}
