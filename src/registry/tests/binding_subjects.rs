//! Which RoleBindings name a caller.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::model::{Key, Version};
use crate::registry::binding_subjects::{BindingChanges, BindingSubjects};
use crate::store::{HistoryLimits, Store};

/// A store of RoleBindings.
struct Bindings {
    store: Store,
    version: u64,
}

impl Bindings {
    fn new() -> Bindings {
        let mut store = Store::new(HistoryLimits::default());
        store.replace(&[], Version::new(10));
        Bindings { store, version: 10 }
    }

    fn put(&mut self, namespace: &str, name: &str, subjects: &Value) {
        self.put_with_role(namespace, name, subjects, "view");
    }

    fn put_with_role(&mut self, namespace: &str, name: &str, subjects: &Value, role: &str) {
        self.version += 1;
        let object = json!({
            "metadata": {"namespace": namespace, "name": name, "resourceVersion": self.version.to_string()},
            "subjects": subjects,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        });
        let extractor = crate::builtin::extractor("rbac.authorization.k8s.io", "v1", "RoleBinding");
        self.store.apply(&extractor.extract(Bytes::from(object.to_string())).unwrap());
    }

    fn delete(&mut self, namespace: &str, name: &str) {
        self.version += 1;
        self.store.delete(&Key::new(namespace, name), Version::new(self.version));
    }

    fn namespaces(&self, subjects: &BindingSubjects) -> Vec<String> {
        subjects.search(&self.store.snapshot()).flatten().collect()
    }
}

fn caller(user: &str, groups: &[&str]) -> BindingSubjects {
    let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
    BindingSubjects::new(user, &groups)
}

const ROBOT: &str = "system:serviceaccount:ns:robot";

#[test]
fn a_role_binding_names_a_caller_by_the_kind_the_name_and_the_namespace_of_a_subject() {
    let jane = || caller("jane", &["team", "system:authenticated"]);
    let robot = || caller(ROBOT, &["system:serviceaccounts:ns"]);
    let rows = [
        (jane(), json!([{"kind": "User", "name": "jane"}]), true, "the user"),
        (jane(), json!([{"kind": "User", "name": "bob"}, {"kind": "User", "name": "jane"}]), true, "one of several"),
        (jane(), json!([{"kind": "User", "name": "team"}]), false, "a user with the name of the group"),
        (jane(), json!([{"kind": "User", "name": "janet"}]), false, "another user"),
        (jane(), json!([{"kind": "Group", "name": "team"}]), true, "a group"),
        (jane(), json!([{"kind": "Group", "name": "jane"}]), false, "a group with the name of the user"),
        (jane(), json!([{"kind": "ServiceAccount", "name": "jane", "namespace": "b"}]), false, "a ServiceAccount"),
        (jane(), json!([{"kind": "Robot", "name": "jane"}]), false, "an unknown kind"),
        (jane(), json!([]), false, "no subject"),
        (jane(), Value::Null, false, "null"),
        (robot(), json!([{"kind": "ServiceAccount", "name": "robot", "namespace": "ns"}]), true, "the ServiceAccount"),
        (
            robot(),
            json!([{"kind": "ServiceAccount", "name": "robot", "namespace": "b"}]),
            false,
            "of another namespace",
        ),
        (robot(), json!([{"kind": "ServiceAccount", "name": "robot"}]), false, "of the namespace of the RoleBinding"),
        (
            caller("system:serviceaccount:b:robot", &[]),
            json!([{"kind": "ServiceAccount", "name": "robot"}]),
            true,
            "of the namespace of the RoleBinding",
        ),
        (robot(), json!([{"kind": "User", "name": ROBOT}]), true, "by its user name"),
        (robot(), json!([{"kind": "User", "name": "robot"}]), false, "a user with its name"),
        (robot(), json!([{"kind": "Group", "name": "system:serviceaccounts:ns"}]), true, "a group of ServiceAccounts"),
        (
            robot(),
            json!([{"kind": "ServiceAccount", "name": ROBOT, "namespace": "ns"}]),
            false,
            "its user name as name",
        ),
    ];
    for (subjects, binding, expected, why) in rows {
        let mut bindings = Bindings::new();
        bindings.put("b", "x", &binding);
        let named = if expected { vec!["b".to_owned()] } else { Vec::new() };
        assert_eq!(bindings.namespaces(&subjects), named, "{why}: {binding}");
        assert_eq!(subjects.are_named_in(&bindings.store.snapshot(), "b"), expected, "{why}");
        assert!(!subjects.are_named_in(&bindings.store.snapshot(), "c"), "{why}");
    }
}

#[test]
fn each_namespace_is_found_once_and_in_order() {
    let mut bindings = Bindings::new();
    for (namespace, name) in [("c", "1"), ("a", "1"), ("a", "2"), ("a-b", "1"), ("b", "1")] {
        bindings.put(namespace, name, &json!([{"kind": "Group", "name": "team"}]));
    }
    bindings.put("b", "0", &json!([{"kind": "User", "name": "team"}]));
    bindings.delete("c", "1");
    let mut found = bindings.namespaces(&caller("jane", &["team"]));
    found.sort_unstable();
    assert_eq!(found, ["a", "a-b", "b"]);
}

/// Of a RoleBinding with more subjects than the store keeps in one table, the subjects are found by binary search.
#[test]
fn a_role_binding_of_many_subjects_names_them_exactly() {
    let mut many: Vec<Value> =
        (0..2_000).map(|number| json!({"kind": "User", "name": format!("user-{number}")})).collect();
    let mut bindings = Bindings::new();
    many.push(json!({"kind": "User", "name": "team"}));
    bindings.put("other", "0", &json!(many));
    many.push(json!({"kind": "Group", "name": "team"}));
    bindings.put("own", "0", &json!(many));
    assert_eq!(bindings.namespaces(&caller("jane", &["team"])), ["own"]);
    assert_eq!(bindings.namespaces(&caller("user-1999", &[])), ["other", "own"]);
}

#[tokio::test]
async fn changes_are_those_of_the_role_bindings_of_the_caller() {
    let mut bindings = Bindings::new();
    bindings.put("a", "1", &json!([{"kind": "User", "name": "jane"}]));
    bindings.put("z", "1", &json!([{"kind": "User", "name": "bob"}]));
    let subjects = caller("jane", &["team"]);
    let begun = bindings.store.snapshot().end();
    let changes = async |bindings: &Bindings| subjects.changes(&bindings.store.snapshot(), begun).await.unwrap();
    let expected = |namespaces: &[&str], last: Option<u64>| BindingChanges {
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
        last: last.map(Version::new),
    };
    assert_eq!(changes(&bindings).await, expected(&[], None));
    bindings.put("z", "1", &json!([{"kind": "User", "name": "carol"}]));
    assert_eq!(changes(&bindings).await, expected(&[], None), "of others");
    bindings.put("b", "1", &json!([{"kind": "Group", "name": "team"}]));
    assert_eq!(changes(&bindings).await, expected(&["b"], Some(14)), "added");
    bindings.put("b", "1", &json!([{"kind": "Group", "name": "team"}, {"kind": "User", "name": "bob"}]));
    assert_eq!(changes(&bindings).await, expected(&["b"], Some(14)), "it grants the same");
    bindings.put("a", "1", &json!([{"kind": "User", "name": "bob"}]));
    assert_eq!(changes(&bindings).await, expected(&["a", "b"], Some(16)), "without the caller");
    bindings.delete("b", "1");
    assert_eq!(changes(&bindings).await, expected(&["a", "b"], Some(17)), "deleted");
    bindings.put("c", "1", &json!([{"kind": "User", "name": "jane"}]));
    bindings.put_with_role("c", "1", &json!([{"kind": "User", "name": "jane"}]), "edit");
    assert_eq!(changes(&bindings).await, expected(&["a", "b", "c"], Some(19)), "another role");
    bindings.put("z", "1", &json!([]));
    let latest = subjects.latest_changes(&bindings.store.snapshot()).await;
    assert_eq!(latest, expected(&["a", "b", "c"], Some(19)), "of all that history has");
    let nobody = caller("nobody", &[]).latest_changes(&bindings.store.snapshot()).await;
    assert_eq!(nobody, expected(&[], Some(10)), "unchanged since the oldest version");
}

#[tokio::test]
async fn only_about_a_thousand_changes_are_looked_through() {
    let mut bindings = Bindings::new();
    let begun = bindings.store.snapshot().end();
    for _ in 0..1_024 {
        bindings.put("z", "1", &json!([{"kind": "User", "name": "bob"}]));
    }
    let subjects = caller("jane", &[]);
    assert_eq!(subjects.changes(&bindings.store.snapshot(), begun).await, Some(BindingChanges::default()));
    assert_eq!(subjects.latest_changes(&bindings.store.snapshot()).await.last, Some(Version::new(10)));
    bindings.put("z", "1", &json!([{"kind": "User", "name": "bob"}]));
    assert_eq!(subjects.changes(&bindings.store.snapshot(), begun).await, None);
    assert_eq!(subjects.latest_changes(&bindings.store.snapshot()).await.last, Some(Version::new(11)));
}
