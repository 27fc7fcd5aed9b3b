//! Requests that never wait for a seat, as in kube-apiserver's priority and fairness. They are probes, the version, and
//! the leases by which nodes and the control plane show that they are alive.
//!
//! All of them are small. Leases count only for users of the control plane: any other user could flood them.

use super::user::User;

/// Paths of probes, and of the first requests of clients.
const PATHS: [&str; 4] = ["healthz", "livez", "readyz", "version"];

/// Group of leases.
const LEASES: &str = "/apis/coordination.k8s.io/";

/// Beginnings of the names of users of the control plane. Other ServiceAccounts begin with `system:` too.
const CONTROL_PLANE: [&str; 3] = ["system:kube-", "system:node:", "system:serviceaccount:kube-system:"];

/// Longer queries are none of probes, in bytes. To read them is work that has to wait for its turn.
const LONGEST_QUERY: usize = 256;

/// Whether a request with this path and this length of query bypasses the queue. `user`: the authenticated user.
pub fn is_exempt(path: &str, query_length: usize, user: Option<&User>) -> bool {
    let is_control_plane = || user.is_some_and(|user| CONTROL_PLANE.iter().any(|start| user.name().starts_with(start)));
    let is_probe = query_length <= LONGEST_QUERY && PATHS.contains(&path.trim_start_matches('/'));
    is_probe || (path.starts_with(LEASES) && is_control_plane())
}
