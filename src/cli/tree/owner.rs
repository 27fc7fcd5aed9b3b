//! The owner at the root of a tree: reading it, and the error if it is missing.

use anyhow::anyhow;

use crate::dependents::Dependent;
use crate::dependents::candidate::Candidate;
use crate::model::{Gvr, Scope, quote};

/// The owner at the root of the tree, read from its JSON `object`. `None` if the bytes are not JSON or have no uid.
pub(super) fn owner_of(object: &[u8], gvr: &Gvr, kind: &str) -> Option<Dependent> {
    // `|_| false`: owners of the root are not shown.
    let Candidate { uid, name, namespace, creation_timestamp, status, .. } = Candidate::read(object, |_| false)?;
    if uid.is_empty() {
        return None;
    }
    Some(Dependent {
        api_version: gvr.group_version().to_string(),
        kind: kind.to_owned(),
        namespace,
        name,
        uid,
        owners: Vec::new(),
        creation_timestamp,
        status,
    })
}

/// The error for an object that does not exist in `place`, which is a URL or a folder.
pub(super) fn missing(place: &str, gvr: &Gvr, scope: Scope, name: &str, namespace: &str) -> anyhow::Error {
    let resource = match &*gvr.group {
        "" => gvr.resource.to_string(),
        group => format!("{}.{group}", gvr.resource),
    };
    match scope {
        Scope::Namespaced => anyhow!(
            "{place} has no {resource} {} in the namespace {namespace}: -n selects another namespace",
            quote(name)
        ),
        Scope::Cluster => anyhow!("{place} has no {resource} {}", quote(name)),
    }
}
