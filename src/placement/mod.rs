//! Where a Pod may run, and why not elsewhere: kube-scheduler's rules, answered from an indexed copy.
//!
//! Map: [`pod`] and [`node`] are the objects as far as they matter; [`cluster`] is the indexed snapshot, made of `groups`
//! (pods that look alike, counted by node), `carried` (terms of existing pods), `topology` and `pool`; `incoming` is the pod that is
//! asked about, `domains` what it meets in each topology domain, `evaluate` the rules in the scheduler's order; [`answer`]
//! is what was found, [`reason`] its codes and words, `explain` what is behind them, [`review`] the documents, `text` their JSON.
//! [`toleration`] is taints against tolerations and evictions, [`condition`] where taints come from, [`options`] what
//! differs between clusters, read by [`config`] from the scheduler's own configuration. A Pod that does not exist yet comes
//! from a [`workload`] or a manifest and goes through [`admission`] and [`validate`] first ([`unknown`] are fields that the API
//! does not have, [`warning`] what is said of them); [`question`] is all of that for one review. [`misplaced`] is about what already runs.
//!
//! Resources, ports, volumes, topology spread, resource claims and preemption are other plugins: every answer says that they were not
//! looked at. This room takes bytes and documents; it knows no store, no HTTP and no clock.

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

pub use answer::Answer;
pub use cluster::{Cluster, Counts};
pub use node::{Namespace, Node, Taint};
pub use options::Options;
pub use pod::{Pod, ReadError};
pub use reason::{Kind, Reason};
pub use review::PlacementReview;
pub use term::{TermList, Unparsable};
pub use toleration::{Eviction, eviction, tolerates};
