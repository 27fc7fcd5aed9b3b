//! Names of users.

use crate::model::user_name::{service_account, tenant};

#[test]
fn the_service_accounts_of_a_namespace_are_one_tenant() {
    for (user, name, why) in [
        ("system:serviceaccount:team-a:builder", "system:serviceaccount:team-a", "a ServiceAccount"),
        ("system:serviceaccount:team-a", "system:serviceaccount:team-a", "the tenant of a tenant is itself"),
        ("system:serviceaccount:team-a:", "system:serviceaccount:team-a", "an empty name"),
        ("system:serviceaccount::builder", "system:serviceaccount:", "an empty namespace"),
        ("system:serviceaccount:kube-system:gc", "system:serviceaccount:kube-system:gc", "the control plane"),
        ("system:node:n1", "system:node:n1", "a node"),
        ("alice", "alice", "a person"),
        ("", "", "an empty name"),
    ] {
        assert_eq!(tenant(user), name, "{why}");
        assert_eq!(tenant(tenant(user)), name, "the tenant of the tenant: {why}");
    }
    assert_eq!(service_account("system:serviceaccount:a:b:c"), Some(("a", "b:c")));
    assert_eq!(service_account("system:serviceaccount:a"), None);
}
