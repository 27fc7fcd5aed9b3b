//! What is read from the subjects and the role of RoleBindings.

use bytes::Bytes;

use crate::builtin;
use crate::extract::scan::MOST_VALUES;
use crate::extract::{Extractor, FieldRef};
use crate::model::{FieldIndex, Record};

/// Reads a RoleBinding with these fields.
fn read(extractor: &Extractor, fields: &str) -> Record {
    let object = format!(
        "{{\"kind\":\"RoleBinding\",\"apiVersion\":\"rbac.authorization.k8s.io/v1\",\"metadata\":{{\"name\":\"a\",\"namespace\":\"n\",\"resourceVersion\":\"1\"}},{fields}}}"
    );
    extractor.extract(Bytes::from(object)).expect("the object can be read")
}

fn extractor() -> Extractor {
    builtin::extractor("rbac.authorization.k8s.io", "v1", "RoleBinding")
}

#[test]
fn subjects_and_role_are_read_exactly() {
    let role = r#""roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}"#;
    for (fields, texts, why) in [
        (r#""subjects":[]"#, &["!/"][..], "no subject and no role"),
        (role, &["!Role/r"], "a role without subjects"),
        (r#""subjects":null,"roleRef":null"#, &["!/"], "null"),
        (
            r#""subjects":[{"kind":"User","name":"b"},{"kind":"Group","name":"a"},{"kind":"Group","name":"b"},{"kind":"User","name":"b"}]"#,
            &["!/", "Group:a", "Group:b", "User:b"],
            "sorted, each once",
        ),
        (
            r#""subjects":[{"kind":"ServiceAccount","name":"a"},{"kind":"ServiceAccount","name":"b","namespace":"x"},{"kind":"ServiceAccount","name":"c","namespace":""}]"#,
            &["!/", "ServiceAccount:n:a", "ServiceAccount:n:c", "ServiceAccount:x:b"],
            "without a namespace, that of the RoleBinding",
        ),
        (r#""subjects":[{"kind":"User","name":"\u006aane"}]"#, &["!/", "User:jane"], "an escaped name"),
        (
            r#""subjects":[{"kind":"User"},{"kind":"User","name":null},{"name":"a"},"c",{"nested":{"name":"d"}},{"kind":"Robot","name":"e"}]"#,
            &["!/"],
            "nothing else",
        ),
    ] {
        let record = read(&extractor(), fields);
        let expected: Vec<_> = texts.iter().map(|text| (FieldIndex::SUBJECTS, *text)).collect();
        assert_eq!(record.texts.values().collect::<Vec<_>>(), expected, "{why}");
    }
    let others = builtin::extractor("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding");
    let named = r#""subjects":[{"kind":"User","name":"a"}]"#;
    assert_eq!(read(&others, named).texts.values().count(), 0, "only of RoleBindings");
    let many = format!("\"subjects\":[{}]", vec![r#"{"kind":"User","name":"a"}"#; MOST_VALUES + 1].join(","));
    let record = read(&extractor(), &many);
    assert_eq!(record.texts.values().map(|(field, _)| field).collect::<Vec<_>>(), [FieldIndex::SUBJECTS.unknown()]);
}

#[test]
fn no_selector_of_a_request_can_use_the_names() {
    let extractor = extractor();
    assert!(extractor.fields().is_empty() && extractor.offered().next().is_none());
    for label in ["subjects", "subjects.name", "subjects[*].name", ""] {
        assert!(extractor.resolve(label).is_err(), "{label}");
    }
}

#[test]
fn fields_of_a_fieldcache_are_beside_the_names() {
    let request = crate::extract::extra::FieldRequest {
        name: "who".to_owned(),
        json_path: Some("$.subjects[*].name".to_owned()),
        printer_column: None,
    };
    let own = extractor();
    let target = crate::extract::extra::TargetResource { extractor: &own, schema: None, columns: &[] };
    let extra = crate::extract::extra::accept(&[request], &target);
    let extractor = own.with_extra(&extra.fields).unwrap();
    let field = extractor.resolve("who").unwrap();
    assert_eq!(field, FieldRef::Field(FieldIndex(0)));
    let record = read(&extractor, r#""subjects":[{"kind":"User","name":"a"}]"#);
    let expected = [(FieldIndex(0), "a"), (FieldIndex::SUBJECTS, "!/"), (FieldIndex::SUBJECTS, "User:a")];
    assert_eq!(record.texts.values().collect::<Vec<_>>(), expected);
}
