//! The names that are read from the subjects of RoleBindings.

use bytes::Bytes;

use crate::builtin;
use crate::extract::scan::MOST_VALUES;
use crate::extract::{Extractor, FieldRef};
use crate::model::{FieldIndex, Record};

/// Reads a RoleBinding with this text as the value of `subjects`.
fn read(extractor: &Extractor, subjects: &str) -> Record {
    let object = format!(
        "{{\"kind\":\"RoleBinding\",\"apiVersion\":\"rbac.authorization.k8s.io/v1\",\"metadata\":{{\"name\":\"a\",\"namespace\":\"n\",\"resourceVersion\":\"1\"}},\"subjects\":{subjects}}}"
    );
    extractor.extract(Bytes::from(object)).expect("the object can be read")
}

fn extractor() -> Extractor {
    builtin::extractor("rbac.authorization.k8s.io", "v1", "RoleBinding")
}

#[test]
fn the_name_of_each_subject_is_read_once() {
    for (subjects, names, why) in [
        ("[]", &[][..], "no subject"),
        ("null", &[], "null"),
        (
            r#"[{"kind":"User","name":"b"},{"kind":"Group","name":"a"},{"kind":"Group","name":"b"}]"#,
            &["a", "b"],
            "sorted",
        ),
        (r#"[{"kind":"User"},{"name":null},"c",{"nested":{"name":"d"}}]"#, &[], "nothing else"),
    ] {
        let record = read(&extractor(), subjects);
        let expected: Vec<_> = names.iter().map(|name| (FieldIndex::SUBJECTS, *name)).collect();
        assert_eq!(record.texts.values().collect::<Vec<_>>(), expected, "{why}");
    }
    let others = builtin::extractor("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding");
    assert_eq!(read(&others, r#"[{"name":"a"}]"#).texts.values().count(), 0, "only of RoleBindings");
    let many = format!("[{}]", vec![r#"{"name":"a"}"#; MOST_VALUES + 1].join(","));
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
    let record = read(&extractor, r#"[{"name":"a"}]"#);
    assert_eq!(record.texts.values().collect::<Vec<_>>(), [(FieldIndex(0), "a"), (FieldIndex::SUBJECTS, "a")]);
}
