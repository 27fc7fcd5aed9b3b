//! The versions of built-in kinds that folder mode serves.
//!
//! Kinds that cannot be listed and watched (reviews, bindings, ComponentStatus) are left out. So are beta and alpha
//! versions, which kube-apiserver does not serve by default.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::kind::BuiltinKind;
use super::served_version::ServedVersion;
use super::table::kinds;
use crate::model::{GroupVersion, Gvr};

/// A kind in one of the versions that folder mode serves.
#[derive(Clone, Copy, Debug)]
pub struct ServedKind {
    /// The row of the kind.
    pub row: &'static BuiltinKind,
    /// The version.
    pub version: &'static str,
    /// The type of k8s-openapi for this version.
    pub(super) served: &'static ServedVersion,
}

impl ServedKind {
    /// The kind of a list of these objects, such as `PodList`.
    pub fn list_kind(&self) -> &'static str {
        self.served.list_kind
    }

    /// The singular name: the kind in lower case, for every built-in kind.
    pub fn singular(&self) -> String {
        self.row.kind.to_lowercase()
    }

    /// The resource.
    pub fn gvr(&self) -> Gvr {
        Gvr::new(self.row.group, self.version, self.row.plural)
    }

    /// Its group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.row.group, self.version)
    }

    /// The name of its definition in OpenAPI documents, such as `io.k8s.api.core.v1.Pod`.
    pub fn definition(&self) -> Cow<'static, str> {
        (self.served.definition)()
    }
}

/// All served kinds, in the order of discovery. Groups are in the order of kube-apiserver's `/apis`, the core group
/// first. Versions of a group are in the order of preference, and kinds of a group-version are sorted by plural name.
pub fn served_kinds() -> &'static [ServedKind] {
    static SERVED: LazyLock<Vec<ServedKind>> = LazyLock::new(|| {
        let mut served = Vec::new();
        let rows: Vec<&BuiltinKind> = kinds().collect();
        for group in rows.chunk_by(|left, right| left.group == right.group) {
            let ranks = group.iter().map(|row| row.versions.len()).max().unwrap_or_default();
            for rank in 0..ranks {
                let of_rank = group.iter().filter_map(|row| {
                    row.versions.get(rank).map(|served| ServedKind { row, version: served.version, served })
                });
                served.extend(of_rank);
            }
        }
        served
    });
    &SERVED
}

/// The served kind of that group, version and kind; `None` if folder mode does not serve it.
pub fn find(group: &str, version: &str, kind: &str) -> Option<&'static ServedKind> {
    let is_it = |known: &&ServedKind| known.row.group == group && known.version == version && known.row.kind == kind;
    served_kinds().iter().find(is_it)
}

/// The group-versions of all served kinds, each once, in the order of [`served_kinds`].
pub fn group_versions() -> Vec<GroupVersion> {
    let mut found: Vec<GroupVersion> = served_kinds().iter().map(ServedKind::group_version).collect();
    found.dedup();
    found
}
