//! Settings that differ between clusters: the scheduler's configuration, admission plugins, feature gates, the version.
//!
//! The defaults are those of Kubernetes 1.36. How a KubeSchedulerConfiguration becomes options is [`super::config`].

use super::pod::NodeAffinity;

/// A plugin of the scheduler that is evaluated here, in the order in which the scheduler runs them for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Plugin {
    /// Excludes pods with gates from the queue.
    SchedulingGates,
    /// spec.unschedulable of a node.
    NodeUnschedulable,
    /// spec.nodeName of a pod.
    NodeName,
    /// Taints and tolerations.
    TaintToleration,
    /// nodeSelector and node affinity.
    NodeAffinity,
    /// Affinity and anti-affinity to pods, both ways.
    InterPodAffinity,
}

impl Plugin {
    /// All plugins, in the order in which the scheduler runs them.
    pub const ALL: [Plugin; 6] = [
        Plugin::SchedulingGates,
        Plugin::NodeUnschedulable,
        Plugin::NodeName,
        Plugin::TaintToleration,
        Plugin::NodeAffinity,
        Plugin::InterPodAffinity,
    ];

    /// The name of the plugin in the scheduler.
    pub fn as_str(self) -> &'static str {
        match self {
            Plugin::SchedulingGates => "SchedulingGates",
            Plugin::NodeUnschedulable => "NodeUnschedulable",
            Plugin::NodeName => "NodeName",
            Plugin::TaintToleration => "TaintToleration",
            Plugin::NodeAffinity => "NodeAffinity",
            Plugin::InterPodAffinity => "InterPodAffinity",
        }
    }
}

/// The factors of the plugins' normalized scores in a node's total score; 0 leaves a plugin out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// The weight of TaintToleration.
    pub taint_toleration: i64,
    /// The weight of NodeAffinity.
    pub node_affinity: i64,
    /// The weight of InterPodAffinity.
    pub inter_pod_affinity: i64,
}

/// The settings that differ between clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Plugins whose filters the scheduler does not run.
    pub disabled: Vec<Plugin>,
    /// Weights of the scores.
    pub weights: Weights,
    /// InterPodAffinityArgs.hardPodAffinityWeight, 0 to 100: the score that required affinity of an existing pod adds
    /// if the incoming pod matches it.
    pub hard_pod_affinity_weight: i64,
    /// InterPodAffinityArgs.ignorePreferredTermsOfExistingPods: no score from others' terms unless the incoming pod has
    /// preferred pod terms of its own.
    pub ignore_preferred_terms_of_existing_pods: bool,
    /// NodeAffinityArgs.addedAffinity: node affinity of every pod of this scheduler.
    pub added_affinity: Option<NodeAffinity>,
    /// Whether the feature gate TaintTolerationComparisonOperators is on, which permits `Gt` and `Lt` in tolerations.
    pub toleration_comparison: bool,
    /// Whether the admission plugin LimitPodHardAntiAffinityTopology is on, which permits required anti-affinity only
    /// with the topology key `kubernetes.io/hostname`.
    pub limit_hard_anti_affinity_topology: bool,
    /// The minor version of Kubernetes 1.x whose behaviour is computed.
    pub target_minor: u32,
    /// kube-apiserver's --default-not-ready-toleration-seconds.
    pub default_not_ready_toleration_seconds: i64,
    /// kube-apiserver's --default-unreachable-toleration-seconds.
    pub default_unreachable_toleration_seconds: i64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            disabled: Vec::new(),
            weights: Weights { taint_toleration: 3, node_affinity: 2, inter_pod_affinity: 2 },
            hard_pod_affinity_weight: 1,
            ignore_preferred_terms_of_existing_pods: false,
            added_affinity: None,
            toleration_comparison: false,
            limit_hard_anti_affinity_topology: false,
            target_minor: 36,
            default_not_ready_toleration_seconds: 300,
            default_unreachable_toleration_seconds: 300,
        }
    }
}

impl Options {
    /// Whether the scheduler filters nodes with a plugin. For SchedulingGates: whether it keeps Pods with gates out of
    /// the queue.
    pub fn filters_with(&self, plugin: Plugin) -> bool {
        !self.disabled.contains(&plugin)
    }

    /// Whether the API server merges matchLabelKeys: the gate MatchLabelKeysInPodAffinity is on by default since beta,
    /// which was 1.31, and cannot be turned off since 1.33.
    pub fn merges_label_keys(&self) -> bool {
        self.target_minor >= 31
    }
}
