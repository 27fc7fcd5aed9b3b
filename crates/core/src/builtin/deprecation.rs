//! Deprecated built-in kinds, and the warning that kube-apiserver sends with every response about one.
//!
//! The facts are those of `k8s.io/api` 0.32 to 0.37 (`*/zz_generated.prerelease-lifecycle.go`, `core/v1/lifecycle.go`),
//! for kinds that can be listed; the text is that of apiserver `endpoints/deprecation`. A server warns from the release
//! on in which the kind is deprecated, whether it serves the version by default or because of `--runtime-config`.

/// A deprecated version of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Deprecation {
    /// The version.
    pub version: &'static str,
    /// The minor release of Kubernetes 1 that deprecates it.
    pub since: u64,
    /// The minor release of Kubernetes 1 that removes it; `None` if upstream has not decided that.
    pub removed: Option<u64>,
    /// The replacement that users should use.
    pub replacement: Replacement,
}

/// The replacement that a warning recommends.
#[derive(Clone, Copy, Debug)]
pub enum Replacement {
    /// The warning recommends none.
    None,
    /// The same kind in `v1` of its group.
    V1,
    /// As `V1`, but only servers of this minor release or a later one recommend it.
    V1Since(u64),
    /// Another group, version and kind, as the warning writes them.
    Other(&'static str),
}

impl Deprecation {
    /// The warning of a server of Kubernetes 1.`minor` about this version of `kind`. `group` is empty for core.
    pub(super) fn warning(&self, group: &str, kind: &str, minor: u64) -> String {
        let slash = if group.is_empty() { "" } else { "/" };
        let mut text = format!("{group}{slash}{} {kind} is deprecated in v1.{}+", self.version, self.since);
        if let Some(removed) = self.removed {
            text.push_str(&format!(", unavailable in v1.{removed}+"));
        }
        match self.replacement {
            Replacement::V1Since(since) if minor < since => {}
            Replacement::None => {}
            Replacement::V1 | Replacement::V1Since(_) => text.push_str(&format!("; use {group}/v1 {kind}")),
            Replacement::Other(other) => text.push_str(&format!("; use {other}")),
        }
        text
    }
}
