//! The objects: for each kind a maker of variations. What a kind shows in a table is varied most.
//!
//! Makers may produce what kube-apiserver refuses now and then; how often it accepts is counted and has a lower bound.

mod cluster;
mod network;
mod others;
mod pods;
mod storage;
mod workloads;

use serde_json::{Value, json};

use super::dice::Dice;

/// The namespace of everything that has one.
pub(crate) const NAMESPACE: &str = "printed";

/// Quotas and limits have one of their own, in which nothing else is made: they would be obeyed.
pub(crate) const LIMITED: &str = "printed-limits";

/// The group of the generated API services.
pub(crate) const ABSENT: &str = "absent.example.com";

/// A kind and how it is made.
pub(crate) struct Kind {
    /// Group and version, such as `apps/v1`.
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) is_namespaced: bool,
    /// How many variations.
    pub(crate) count: usize,
    pub(crate) make: fn(&mut Dice) -> Draft,
}

/// An object to be made.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// All but apiVersion, kind and name.
    pub(crate) body: Value,
    /// Merge patches of subresources.
    pub(crate) patches: Vec<(&'static str, Value)>,
    /// Whether it is deleted and kept from going.
    pub(crate) is_going: bool,
}

impl Draft {
    fn new(body: Value) -> Draft {
        Draft { body, ..Draft::default() }
    }

    /// With a status written afterwards.
    fn status(mut self, status: Value) -> Draft {
        self.patches.push(("status", json!({ "status": status })));
        self
    }

    /// Deleted now and then.
    fn going(mut self, dice: &mut Dice, percent: usize) -> Draft {
        self.is_going = dice.chance(percent);
        self
    }
}

impl Kind {
    /// Where it is listed over all namespaces.
    pub(crate) fn everywhere(&self) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        format!("/{root}/{}/{}", self.api_version, self.plural)
    }

    /// Where it is created.
    pub(crate) fn collection(&self) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let namespace = match self.kind {
            _ if !self.is_namespaced => String::new(),
            "ResourceQuota" | "LimitRange" => format!("namespaces/{LIMITED}/"),
            _ => format!("namespaces/{NAMESPACE}/"),
        };
        format!("/{root}/{}/{namespace}{}", self.api_version, self.plural)
    }
}

/// All kinds.
pub(crate) fn all() -> Vec<Kind> {
    [cluster::KINDS, network::KINDS, others::KINDS, pods::KINDS, storage::KINDS, workloads::KINDS]
        .into_iter()
        .flat_map(|kinds| kinds.iter().map(|kind| Kind { ..*kind }))
        .collect()
}

const fn namespaced(
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    count: usize,
    make: fn(&mut Dice) -> Draft,
) -> Kind {
    Kind { api_version, kind, plural, is_namespaced: true, count, make }
}

const fn cluster_wide(
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    count: usize,
    make: fn(&mut Dice) -> Draft,
) -> Kind {
    Kind { api_version, kind, plural, is_namespaced: false, count, make }
}
