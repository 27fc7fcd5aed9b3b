//! Why a node was rejected: stable codes, the scheduler's messages, and whether evicting others could help.

use super::options::Plugin;

/// Whether evicting other pods could change a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// It could not.
    Unresolvable,
    /// It could.
    Unschedulable,
}

impl Kind {
    /// As documents write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Unresolvable => "Unresolvable",
            Kind::Unschedulable => "Unschedulable",
        }
    }
}

/// A rule that rejected a node, in the order in which the scheduler comes upon them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The pod has scheduling gates and is not tried at all.
    SchedulingGated,
    /// The names in matchFields contradict each other; decided before any node is looked at.
    AffinityTermsConflict,
    /// The matchFields name other nodes; decided before any node is looked at.
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

impl Reason {
    /// All of them, in the order of the scheduler.
    pub const ALL: [Reason; 10] = [
        Reason::SchedulingGated,
        Reason::AffinityTermsConflict,
        Reason::NodeNotNamed,
        Reason::NodeUnschedulable,
        Reason::NodeNameMismatch,
        Reason::UntoleratedTaint,
        Reason::NodeAffinityMismatch,
        Reason::PodAffinityMismatch,
        Reason::PodAntiAffinityMismatch,
        Reason::ExistingPodAntiAffinity,
    ];

    /// The stable code.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::SchedulingGated => "SchedulingGated",
            Reason::AffinityTermsConflict => "AffinityTermsConflict",
            Reason::NodeNotNamed => "NodeNotNamed",
            Reason::NodeUnschedulable => "NodeUnschedulable",
            Reason::NodeNameMismatch => "NodeNameMismatch",
            Reason::UntoleratedTaint => "UntoleratedTaint",
            Reason::NodeAffinityMismatch => "NodeAffinityMismatch",
            Reason::PodAffinityMismatch => "PodAffinityMismatch",
            Reason::PodAntiAffinityMismatch => "PodAntiAffinityMismatch",
            Reason::ExistingPodAntiAffinity => "ExistingPodAntiAffinity",
        }
    }

    /// Who rejects.
    pub fn plugin(self) -> Plugin {
        match self {
            Reason::SchedulingGated => Plugin::SchedulingGates,
            Reason::NodeUnschedulable => Plugin::NodeUnschedulable,
            Reason::NodeNameMismatch => Plugin::NodeName,
            Reason::UntoleratedTaint => Plugin::TaintToleration,
            Reason::AffinityTermsConflict | Reason::NodeNotNamed | Reason::NodeAffinityMismatch => Plugin::NodeAffinity,
            Reason::PodAffinityMismatch | Reason::PodAntiAffinityMismatch | Reason::ExistingPodAntiAffinity => {
                Plugin::InterPodAffinity
            }
        }
    }

    /// Whether evicting others could help.
    pub fn kind(self) -> Kind {
        match self {
            Reason::PodAntiAffinityMismatch | Reason::ExistingPodAntiAffinity => Kind::Unschedulable,
            _ => Kind::Unresolvable,
        }
    }

    /// The scheduler's message, as its event counts it. Gates have their own, with their names.
    pub fn message(self) -> &'static str {
        match self {
            Reason::SchedulingGated => "waiting for scheduling gates",
            Reason::AffinityTermsConflict => "pod affinity terms conflict",
            Reason::NodeNotNamed => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Reason::NodeUnschedulable => "node(s) were unschedulable",
            Reason::NodeNameMismatch => "node(s) didn't match the requested node name",
            Reason::UntoleratedTaint => "node(s) had untolerated taint(s)",
            Reason::NodeAffinityMismatch => "node(s) didn't match Pod's node affinity/selector",
            Reason::PodAffinityMismatch => "node(s) didn't match pod affinity rules",
            Reason::PodAntiAffinityMismatch => "node(s) didn't match pod anti-affinity rules",
            Reason::ExistingPodAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
        }
    }
}

/// The message of NodeAffinity for the affinity that the scheduler's configuration adds.
pub const ENFORCED_MESSAGE: &str = "node(s) didn't match scheduler-enforced node affinity";
