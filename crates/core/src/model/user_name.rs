//! The ServiceAccount and the tenant of a user, from the name of the user.

/// The beginning of a ServiceAccount's user name (apiserver `authentication/serviceaccount`).
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// The namespace of the control plane.
const CONTROL_PLANE: &str = "kube-system";

/// The namespace and the name of the ServiceAccount with this user name; `None` for other users.
pub fn service_account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')
}

/// The name of the tenant of a user. All ServiceAccounts of a namespace are one tenant, because a user who can create
/// one of them can create many. ServiceAccounts of `kube-system` are a tenant each: otherwise all controllers of the
/// control plane would share the time of one tenant. Every other user is a tenant too.
pub fn tenant(user: &str) -> &str {
    match service_account(user) {
        Some((namespace, _)) if namespace != CONTROL_PLANE => &user[..SERVICE_ACCOUNT.len() + namespace.len()],
        _ => user,
    }
}
