//! Plans: what objects yield, labels, and the form of built-in objects.

use bytes::Bytes;
use serde_json::json;

use crate::crd::Crd;
use crate::extract::{FieldRef, Plan, Unreadable};
use crate::model::{FieldIndex, Scope, Version};

/// A definition with one version, `v1`, of the given schema and paths.
pub(super) fn crd(scope: &str, schema: serde_json::Value, paths: &[&str]) -> Crd {
    let fields: Vec<_> = paths.iter().map(|path| json!({"jsonPath": path})).collect();
    Crd::read(&json!({
        "metadata": {"name": "shirts.stable.example.com"},
        "spec": {
            "group": "stable.example.com", "scope": scope,
            "names": {"plural": "shirts", "kind": "Shirt"},
            "versions": [{"name": "v1", "served": true, "storage": true, "selectableFields": fields,
                "schema": {"openAPIV3Schema": schema}}],
        }
    }))
    .unwrap()
}

fn shirts() -> Plan {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "color": {"type": "string", "enum": ["blue", "green", null], "nullable": true, "default": "blue"},
        "size": {"type": "integer", "format": "int64"}}}}});
    Plan::custom_resource(&crd("Namespaced", schema, &[".spec.color", ".spec.nope", ".spec.size"]), "v1")
}

pub(super) fn values(plan: &Plan, object: &str) -> Vec<String> {
    let record = plan.extract(Bytes::copy_from_slice(object.as_bytes())).unwrap();
    record.values.into_iter().map(|(_, text)| text).collect()
}

#[test]
fn a_record_has_key_version_labels_values_and_spans() {
    let object = concat!(
        " {\"apiVersion\": \"stable.example.com/v1\", \"kind\":\"Shirt\",\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",",
        "\"labels\":{\"b\":\"2\",\"a\":\"1\",\"b\":\"3\"},\"resourceVersion\":\"17\"} , \"spec\":{\"size\":1e2,\"color\":\"bl\\u0075e\"}}\n"
    );
    let record = shirts().extract(Bytes::from(object)).unwrap();
    assert_eq!(record.key.as_str(), "n/a");
    assert_eq!(record.version, Version::new(17));
    assert_eq!(record.labels, [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "3".to_owned())]);
    assert_eq!(record.values, [(FieldIndex(0), "blue".to_owned()), (FieldIndex(1), "100".to_owned())]);
    assert_eq!(record.bytes, object.trim());
    let version = record.version_span.start as usize..record.version_span.end as usize;
    assert_eq!(&record.bytes[version], b"17");
    let metadata = record.metadata_span.start as usize..record.metadata_span.end as usize;
    assert!(record.bytes[metadata.clone()].starts_with(b"{\"name\"") && record.bytes[metadata].ends_with(b"\"17\"}"));
}
