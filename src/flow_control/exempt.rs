//! Requests that do not wait for a seat, like exempt requests in kube-apiserver's API Priority and Fairness. These are
//! probes, `/version`, and the Leases that nodes and the control plane renew to show that they are alive.
//!
//! All of them are small. Requests for Leases are exempt only for users of the control plane, because any other user
//! could send very many.

use super::user::User;

/// The paths of probes, and `/version`, which clients request first.
const PATHS: [&str; 4] = ["healthz", "livez", "readyz", "version"];

/// The path of the API group of Leases.
const LEASES: &str = "/apis/coordination.k8s.io/";

/// The prefixes of the names of control plane users. `system:` alone would include all ServiceAccounts.
const CONTROL_PLANE: [&str; 3] = ["system:kube-", "system:node:", "system:serviceaccount:kube-system:"];

/// The longest query of an exempt probe, in bytes. Parsing a longer query is work that must wait for a seat.
const LONGEST_QUERY: usize = 256;

/// Whether a request does not wait for a seat. `query_length` is in bytes. `user` is the authenticated user; `None`
/// before authentication.
pub fn is_exempt(path: &str, query_length: usize, user: Option<&User>) -> bool {
    let is_control_plane = || user.is_some_and(|user| CONTROL_PLANE.iter().any(|start| user.name().starts_with(start)));
    let is_probe = query_length <= LONGEST_QUERY && PATHS.contains(&path.trim_start_matches('/'));
    is_probe || (path.starts_with(LEASES) && is_control_plane())
}
