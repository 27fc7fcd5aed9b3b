//! What the name of an authenticated user says.

/// The beginning of a ServiceAccount's user name (apiserver `authentication/serviceaccount`).
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// The namespace of the control plane.
const CONTROL_PLANE: &str = "kube-system";

/// The namespace and the name of the ServiceAccount with this user name.
pub fn service_account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')
}

/// The name of the tenant of a user. The ServiceAccounts of a namespace are one tenant: whoever may create one may create
/// many. The controllers in `kube-system` are a tenant each, as they would otherwise share a part of the time that is
/// for one. So is each other user.
pub fn tenant(user: &str) -> &str {
    match service_account(user) {
        Some((namespace, _)) if namespace != CONTROL_PLANE => &user[..SERVICE_ACCOUNT.len() + namespace.len()],
        _ => user,
    }
}
