//! The nodes where a Pod may run, and why not the others: kube-scheduler's rules over an index of nodes and Pods.
//!
//! Map: [`pod`] and [`node`] have the fields of the objects that the rules use. [`cluster`] is the indexed snapshot,
//! made of `groups` (equal pods, counted by node), `carried` (terms of existing pods), `topology` and `pool`.
//! `incoming` is the pod to place, `domains` its matches in each topology domain, and `evaluate` the rules in the
//! scheduler's order. [`answer`] is the result, [`reason`] its codes and messages, `explain` their explanations,
//! [`review`] the documents, and `text` their JSON. [`toleration`] matches taints with tolerations and computes
//! evictions; [`condition`] has the origins of taints. [`options`] are the settings that differ between clusters;
//! [`config`] reads them from the scheduler's own configuration. A Pod that does not exist yet comes from a
//! [`workload`] or a manifest, and goes through [`admission`] and [`validate`] first. [`unknown`] finds fields that the
//! API does not have, and [`warning`] has the warnings. [`question`] combines all of this for one review. [`misplaced`]
//! is about running pods. `effort` counts steps for tests.
//!
//! Resources, ports, volumes, topology spread, resource claims and preemption are other plugins: every result states
//! that they were not evaluated. This module takes bytes and documents; it does not depend on stores, HTTP or a clock.

pub mod admission;
pub mod answer;
mod carried;
pub mod cluster;
pub mod condition;
pub mod config;
mod domains;
mod effort;
mod evaluate;
pub mod explain;
mod groups;
mod incoming;
mod labels;
pub mod misplaced;
pub mod node;
pub mod options;
pub mod pod;
mod pool;
pub mod question;
pub mod reason;
pub mod review;
mod term;
#[cfg(test)]
mod tests;
mod text;
pub mod toleration;
mod topology;
pub mod unknown;
pub mod validate;
pub mod warning;
pub mod workload;

pub use answer::PlacementResult;
pub use cluster::{ClusterCounts, ClusterIndex};
pub use node::{Namespace, Node, Taint};
pub use options::Options;
pub use pod::{Pod, ReadError};
pub use reason::{RejectionKind, RejectionReason};
pub use review::PlacementReview;
pub use term::{
    MOST_CARRIED, MOST_REQUIREMENTS, MOST_TERMS, TermList, Unparsable, too_many_carried_terms, too_many_terms,
};
pub use toleration::{Eviction, eviction, tolerates};
