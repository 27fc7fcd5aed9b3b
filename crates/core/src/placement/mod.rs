//! Where a Pod may run, and why not elsewhere: kube-scheduler's rules over an index of nodes and Pods.
//!
//! Map: [`pod`] and [`node`] are the objects as far as they matter; [`cluster`] is the indexed snapshot, made of `groups`
//! (pods that look alike, counted by node), `carried` (terms of existing pods), `topology` and `pool`; `incoming` is the pod to
//! place, `domains` its matches in each topology domain, `evaluate` the rules in the scheduler's order; [`answer`]
//! is the result, [`reason`] its codes and messages, `explain` their explanations, [`review`] the documents, `text` their JSON.
//! [`toleration`] is taints against tolerations and evictions, [`condition`] where taints come from, [`options`] what
//! differs between clusters, read by [`config`] from the scheduler's own configuration. A Pod that does not exist yet comes
//! from a [`workload`] or a manifest and goes through [`admission`] and [`validate`] first ([`unknown`] are fields that the API
//! does not have, [`warning`] the warnings about them); [`question`] combines all of that for one review. [`misplaced`] is about running pods.
//!
//! Resources, ports, volumes, topology spread, resource claims and preemption are other plugins: every answer states that they were not
//! evaluated. This module takes bytes and documents; it knows no store, no HTTP and no clock.

pub mod admission;
pub mod answer;
mod carried;
pub mod cluster;
pub mod condition;
pub mod config;
mod domains;
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
pub use term::{MOST_TERMS, TermList, Unparsable, too_many_terms};
pub use toleration::{Eviction, eviction, tolerates};
