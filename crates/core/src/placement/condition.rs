//! The origin of taints: the conditions and events for which Kubernetes sets its own, and hints about old names.
//!
//! The node lifecycle controller turns conditions into taints (`pkg/controller/nodelifecycle`); this file has the
//! table, and the meaning of a tolerated or untolerated taint of Kubernetes. It changes no decision.

use super::pod::Toleration;

/// The taint of a node that is not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The taint of a node that does not report its status.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The taint of a node that runs out of disk.
pub const DISK_PRESSURE: &str = "node.kubernetes.io/disk-pressure";
/// The taint of a node that runs out of memory.
pub const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
/// The taint of a node that runs out of process numbers.
pub const PID_PRESSURE: &str = "node.kubernetes.io/pid-pressure";
/// The taint of a cordoned node.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The taint of a node without network.
pub const NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";

/// The reason why Kubernetes sets the taint with this key, as text for users; `None` for any other key.
pub fn origin(key: &str) -> Option<&'static str> {
    Some(match key {
        NOT_READY => "the condition Ready is False, or the Node is new",
        UNREACHABLE => "the condition Ready is Unknown: the kubelet stopped posting node status",
        MEMORY_PRESSURE => "the condition MemoryPressure is True",
        DISK_PRESSURE => "the condition DiskPressure is True",
        PID_PRESSURE => "the condition PIDPressure is True",
        NETWORK_UNAVAILABLE => "the condition NetworkUnavailable is True",
        UNSCHEDULABLE => "the node is cordoned",
        "node.cloudprovider.kubernetes.io/uninitialized" => "the cloud provider has not initialized the node yet",
        "node.cloudprovider.kubernetes.io/shutdown" => "the cloud provider has shut the node down",
        "node.kubernetes.io/out-of-service" => "an administrator has marked the node as out of service",
        _ => return None,
    })
}

/// The current name of a taint key that Kubernetes 1.6 used and no longer sets; `None` for any other key.
pub fn renamed(key: &str) -> Option<&'static str> {
    Some(match key {
        "node.alpha.kubernetes.io/notReady" | "node.alpha.kubernetes.io/not-ready" => NOT_READY,
        "node.alpha.kubernetes.io/unreachable" => UNREACHABLE,
        _ => return None,
    })
}

/// Warnings about obsolete taint keys that a Pod tolerates or a node has, sorted by key, each once.
pub(super) fn hints<'keys>(
    tolerations: &'keys [Toleration],
    taint_keys: impl Iterator<Item = &'keys str>,
) -> Vec<String> {
    let tolerated = tolerations.iter().map(|toleration| toleration.key.as_str());
    let mut keys: Vec<&str> = tolerated.chain(taint_keys).filter(|key| renamed(key).is_some()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter()
        .filter_map(|key| {
            renamed(key).map(|today| {
                format!("the taint key {key} is obsolete: Kubernetes no longer sets it, and sets {today} instead")
            })
        })
        .collect()
}
