//! The reasons for which nodes are rejected: stable codes, the scheduler's messages, and whether evicting other Pods
//! could help.

use super::options::Plugin;

/// Whether evicting other pods could change a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RejectionKind {
    /// Evicting Pods would not help.
    Unresolvable,
    /// Evicting Pods could help.
    Unschedulable,
}

impl RejectionKind {
    /// The name of the kind in a PlacementReview.
    pub fn as_str(self) -> &'static str {
        match self {
            RejectionKind::Unresolvable => "Unresolvable",
            RejectionKind::Unschedulable => "Unschedulable",
        }
    }
}

/// A rule that rejected a node, in the order in which the scheduler applies them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RejectionReason {
    /// The pod has scheduling gates, so the scheduler does not place it.
    SchedulingGated,
    /// The names in matchFields contradict each other; decided before any node is evaluated.
    AffinityTermsConflict,
    /// The matchFields name other nodes; decided before any node is evaluated.
    NodeNotNamed,
    /// The node is cordoned.
    NodeUnschedulable,
    /// spec.nodeName is another node.
    NodeNameMismatch,
    /// A taint is not tolerated.
    UntoleratedTaint,
    /// nodeSelector, required node affinity, or the affinity that the scheduler adds.
    NodeAffinityMismatch,
    /// Required pod affinity.
    PodAffinityMismatch,
    /// Required pod anti-affinity.
    PodAntiAffinityMismatch,
    /// Required anti-affinity of a pod that runs there.
    ExistingPodAntiAffinity,
}

impl RejectionReason {
    /// All reasons, in the order in which the scheduler applies them.
    pub const ALL: [RejectionReason; 10] = [
        RejectionReason::SchedulingGated,
        RejectionReason::AffinityTermsConflict,
        RejectionReason::NodeNotNamed,
        RejectionReason::NodeUnschedulable,
        RejectionReason::NodeNameMismatch,
        RejectionReason::UntoleratedTaint,
        RejectionReason::NodeAffinityMismatch,
        RejectionReason::PodAffinityMismatch,
        RejectionReason::PodAntiAffinityMismatch,
        RejectionReason::ExistingPodAntiAffinity,
    ];

    /// The code of the reason in a PlacementReview, which never changes.
    pub fn as_str(self) -> &'static str {
        match self {
            RejectionReason::SchedulingGated => "SchedulingGated",
            RejectionReason::AffinityTermsConflict => "AffinityTermsConflict",
            RejectionReason::NodeNotNamed => "NodeNotNamed",
            RejectionReason::NodeUnschedulable => "NodeUnschedulable",
            RejectionReason::NodeNameMismatch => "NodeNameMismatch",
            RejectionReason::UntoleratedTaint => "UntoleratedTaint",
            RejectionReason::NodeAffinityMismatch => "NodeAffinityMismatch",
            RejectionReason::PodAffinityMismatch => "PodAffinityMismatch",
            RejectionReason::PodAntiAffinityMismatch => "PodAntiAffinityMismatch",
            RejectionReason::ExistingPodAntiAffinity => "ExistingPodAntiAffinity",
        }
    }

    /// The plugin of the scheduler that rejects.
    pub fn plugin(self) -> Plugin {
        match self {
            RejectionReason::SchedulingGated => Plugin::SchedulingGates,
            RejectionReason::NodeUnschedulable => Plugin::NodeUnschedulable,
            RejectionReason::NodeNameMismatch => Plugin::NodeName,
            RejectionReason::UntoleratedTaint => Plugin::TaintToleration,
            RejectionReason::AffinityTermsConflict
            | RejectionReason::NodeNotNamed
            | RejectionReason::NodeAffinityMismatch => Plugin::NodeAffinity,
            RejectionReason::PodAffinityMismatch
            | RejectionReason::PodAntiAffinityMismatch
            | RejectionReason::ExistingPodAntiAffinity => Plugin::InterPodAffinity,
        }
    }

    /// Whether evicting other Pods could help.
    pub fn kind(self) -> RejectionKind {
        match self {
            RejectionReason::PodAntiAffinityMismatch | RejectionReason::ExistingPodAntiAffinity => {
                RejectionKind::Unschedulable
            }
            RejectionReason::SchedulingGated
            | RejectionReason::AffinityTermsConflict
            | RejectionReason::NodeNotNamed
            | RejectionReason::NodeUnschedulable
            | RejectionReason::NodeNameMismatch
            | RejectionReason::UntoleratedTaint
            | RejectionReason::NodeAffinityMismatch
            | RejectionReason::PodAffinityMismatch => RejectionKind::Unresolvable,
        }
    }

    /// The scheduler's message, as its event counts it. For [`RejectionReason::SchedulingGated`] it is only the
    /// beginning: the names of the gates follow.
    pub fn message(self) -> &'static str {
        match self {
            RejectionReason::SchedulingGated => "waiting for scheduling gates",
            RejectionReason::AffinityTermsConflict => "pod affinity terms conflict",
            RejectionReason::NodeNotNamed => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            RejectionReason::NodeUnschedulable => "node(s) were unschedulable",
            RejectionReason::NodeNameMismatch => "node(s) didn't match the requested node name",
            RejectionReason::UntoleratedTaint => "node(s) had untolerated taint(s)",
            RejectionReason::NodeAffinityMismatch => "node(s) didn't match Pod's node affinity/selector",
            RejectionReason::PodAffinityMismatch => "node(s) didn't match pod affinity rules",
            RejectionReason::PodAntiAffinityMismatch => "node(s) didn't match pod anti-affinity rules",
            RejectionReason::ExistingPodAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
        }
    }
}

/// The message of NodeAffinity for the affinity that the scheduler's configuration adds.
pub const ENFORCED_MESSAGE: &str = "node(s) didn't match scheduler-enforced node affinity";
