//! What older and newer servers do otherwise than the usual one, each with its reason.
//!
//! fieldcache answers as the usual version does, whatever its source is, unless it hands on what the source says. So the differences
//! between versions show as differences from fieldcache. Each entry must be needed beside every version that it names: a run
//! beside one of them fails when it is not.

use e2e::versions::Kubernetes;

use super::allowed::Allowance;

/// A difference from the usual version.
struct Otherwise {
    /// The minor versions that differ.
    versions: &'static [u32],
    allowance: Allowance,
}

/// All of them.
static OTHERWISE: [Otherwise; 0] = [];

/// The version whose kube-apiserver is compared with.
pub(crate) fn under_test() -> Kubernetes {
    Kubernetes::under_test().expect("a version that is not known must have failed the start of the control plane")
}

/// Those of the version under test, each with its number.
pub(crate) fn of_the_version_under_test() -> impl Iterator<Item = (usize, &'static Allowance)> {
    let minor = under_test().minor();
    let concerned = move |(_, otherwise): &(usize, &Otherwise)| otherwise.versions.contains(&minor);
    OTHERWISE.iter().enumerate().filter(concerned).map(|(index, otherwise)| (index, &otherwise.allowance))
}
