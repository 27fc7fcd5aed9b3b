//! The scheduler's rules over an indexed cluster: for every node whether the pod fits, every reason why not, and scores.
//!
//! Order and wording are kube-scheduler's; unlike it, all nodes are looked at, all reasons are kept, and scores are given
//! also when one node fits. What is made of it for people is [`super::answer`]. Sources: the plugins nodeunschedulable,
//! nodename, tainttoleration, nodeaffinity and interpodaffinity of `pkg/scheduler/framework/plugins`.

use std::collections::BTreeMap;

use super::cluster::{Cluster, NodeFacts};
use super::domains::{Domains, Witness, matches_own_terms};
use super::incoming::Incoming;
use super::node::Taint;
use super::options::{Options, Plugin};
use super::pod::Pod;
use super::reason::Reason;
use super::term::{Narrowing, NodeTerm, TermList};
use super::toleration::{NO_SCHEDULE, PREFER_NO_SCHEDULE, is_tolerated, keeps_away};

/// The taint that a cordoned node stands for, whether it carries it or not.
const UNSCHEDULABLE_KEY: &str = "node.kubernetes.io/unschedulable";

/// What is behind a rejection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Nothing but the rule itself.
    Rule,
    /// A taint of the node, by its index.
    Taint(u32),
    /// A pair of nodeSelector, by its index.
    Selector(u32),
    /// A required node selector term, by its index; an absent one: there are none at all.
    NodeTerm(Option<u32>),
    /// The affinity that the scheduler's configuration adds.
    Enforced,
    /// A required affinity term: the node lacks its topology key, or no pod that is asked for runs in its domain.
    Affinity(u32),
    /// A required anti-affinity term, and a pod that it matches.
    AntiAffinity(Witness),
    /// A term of an existing pod, and that pod.
    Existing(Witness),
}

/// A rule that a node fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) reason: Reason,
    pub(super) cause: Cause,
}

/// A plugin's score of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Score {
    pub(super) plugin: Plugin,
    pub(super) raw: i64,
    /// 0 to 100.
    pub(super) normalized: i64,
    pub(super) weight: i64,
}

/// What was found about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Its slot.
    pub(super) node: u32,
    /// In the order of the scheduler: it reports the first.
    pub(super) rejections: Vec<Rejection>,
    /// Of a node that fits, by the plugins that give scores.
    pub(super) scores: Vec<Score>,
}

/// What was found about all nodes.
#[derive(Debug)]
pub(super) struct Evaluation {
    pub(super) incoming: Incoming,
    /// The groups that its terms select, as far as a plugin asked.
    pub(super) selected: BTreeMap<(TermList, usize), Vec<u32>>,
    pub(super) verdicts: Vec<Verdict>,
}

/// Evaluates a pod as it is: nothing is defaulted or merged. The cluster must not hold the pod itself. `only` is the slot of
/// the only node that is looked at.
pub(super) fn evaluate(cluster: &Cluster, pod: &Pod, options: &Options, only: Option<u32>) -> Evaluation {
    let incoming = Incoming::new(pod, options);
    let domains = Domains::new(cluster, &incoming, options);
    let rules = Rules { options, may_be_first: domains.is_first_of_group && matches_own_terms(cluster, &incoming) };
    let mut verdicts = Vec::with_capacity(cluster.nodes.len());
    for (place, node) in cluster.nodes.iter().zip(0..) {
        if let Some(facts) = place.facts.as_ref().filter(|_| only.is_none_or(|only| only == node)) {
            let rejections = rules.rejections(&incoming, &domains, node, &place.name, facts);
            verdicts.push(Verdict { node, rejections, scores: Vec::new() });
        }
    }
    score(cluster, &incoming, &domains, options, &mut verdicts);
    Evaluation { incoming, selected: domains.selected, verdicts }
}

struct Rules<'options> {
    options: &'options Options,
    /// Whether required affinity asks for topology keys only.
    may_be_first: bool,
}

impl Rules<'_> {
    fn rejections(
        &self,
        incoming: &Incoming,
        domains: &Domains,
        node: u32,
        name: &str,
        facts: &NodeFacts,
    ) -> Vec<Rejection> {
        let mut found = Vec::new();
        let mut reject = |reason: Reason, cause: Cause| found.push(Rejection { reason, cause });
        let spec = &incoming.pod.spec;
        let comparison = self.options.toleration_comparison;
        if !spec.scheduling_gates.is_empty() && self.runs(Plugin::SchedulingGates) {
            reject(Reason::SchedulingGated, Cause::Rule);
        }
        match &incoming.narrowing {
            Narrowing::All => {}
            Narrowing::Names(names) if names.contains(name) => {}
            Narrowing::Names(_) => reject(Reason::NodeNotNamed, Cause::Rule),
            Narrowing::Conflict => reject(Reason::AffinityTermsConflict, Cause::Rule),
        }
        if facts.unschedulable && self.runs(Plugin::NodeUnschedulable) {
            let taint = Taint { key: UNSCHEDULABLE_KEY.to_owned(), effect: NO_SCHEDULE.to_owned(), ..Taint::default() };
            if !is_tolerated(&spec.tolerations, &taint, comparison) {
                reject(Reason::NodeUnschedulable, Cause::Rule);
            }
        }
        if !spec.node_name.is_empty() && spec.node_name != name && self.runs(Plugin::NodeName) {
            reject(Reason::NodeNameMismatch, Cause::Rule);
        }
        if self.runs(Plugin::TaintToleration) {
            for (taint, index) in facts.taints.iter().zip(0..) {
                if keeps_away(taint) && !is_tolerated(&spec.tolerations, taint, comparison) {
                    reject(Reason::UntoleratedTaint, Cause::Taint(index));
                }
            }
        }
        if self.runs(Plugin::NodeAffinity) {
            if let Some(terms) = &incoming.enforced
                && !terms.iter().any(|term| term.matches(name, &facts.labels))
            {
                reject(Reason::NodeAffinityMismatch, Cause::Enforced);
            }
            for ((key, value), index) in spec.node_selector.iter().zip(0..) {
                if facts.labels.get(key) != Some(value) {
                    reject(Reason::NodeAffinityMismatch, Cause::Selector(index));
                }
            }
            // Names that leave a node out have been told already: its terms would only say so again.
            if matches!(incoming.narrowing, Narrowing::All) || incoming.narrowing_names(name) {
                for term in unmatched(incoming.required.as_deref(), name, facts) {
                    reject(Reason::NodeAffinityMismatch, Cause::NodeTerm(term));
                }
            }
        }
        if self.runs(Plugin::InterPodAffinity) {
            self.pod_rejections(incoming, domains, node, &mut reject);
        }
        found
    }

    fn pod_rejections(
        &self,
        incoming: &Incoming,
        domains: &Domains,
        node: u32,
        reject: &mut impl FnMut(Reason, Cause),
    ) {
        if incoming.unparsable.is_some() {
            reject(Reason::PodAffinityMismatch, Cause::Rule);
            return;
        }
        for ((term, _), index) in incoming.required_affinity.iter().zip(0..) {
            let table = domains.table(&term.topology_key);
            let has_domain = table.is_some_and(|table| table.has_domain(node));
            let is_met = has_domain && (self.may_be_first || table.is_some_and(|table| table.has_affinity(node)));
            if !is_met {
                reject(Reason::PodAffinityMismatch, Cause::Affinity(index));
            }
        }
        for table in domains.tables() {
            if let Some(witness) = table.anti_affinity(node) {
                reject(Reason::PodAntiAffinityMismatch, Cause::AntiAffinity(witness));
            }
        }
        for table in domains.tables() {
            if let Some(witness) = table.existing(node) {
                reject(Reason::ExistingPodAntiAffinity, Cause::Existing(witness));
            }
        }
    }

    fn runs(&self, plugin: Plugin) -> bool {
        self.options.filters_with(plugin)
    }
}

/// The terms of required node affinity if none of them matches: each is a reason of its own.
fn unmatched(terms: Option<&[NodeTerm]>, name: &str, facts: &NodeFacts) -> Vec<Option<u32>> {
    let Some(terms) = terms else { return Vec::new() };
    if terms.iter().any(|term| term.matches(name, &facts.labels)) {
        return Vec::new();
    }
    if terms.is_empty() {
        return vec![None];
    }
    terms.iter().zip(0..).map(|(_, index)| Some(index)).collect()
}

impl Incoming {
    fn narrowing_names(&self, name: &str) -> bool {
        matches!(&self.narrowing, Narrowing::Names(names) if names.contains(name))
    }
}

fn score(cluster: &Cluster, incoming: &Incoming, domains: &Domains, options: &Options, verdicts: &mut [Verdict]) {
    let mut feasible: Vec<&mut Verdict> = verdicts.iter_mut().filter(|verdict| verdict.rejections.is_empty()).collect();
    if incoming.unparsable_preference.is_some() {
        return;
    }
    let mut give = |plugin: Plugin, weight: i64, raw: &dyn Fn(u32, &str, &NodeFacts) -> i64, normalize: Normalize| {
        let of = |verdict: &&mut Verdict| {
            let place = cluster.nodes.get(verdict.node as usize);
            let facts = place.and_then(|place| place.facts.as_ref().map(|facts| (place, facts)));
            facts.map_or(0, |(place, facts)| raw(verdict.node, &place.name, facts))
        };
        let raws: Vec<i64> = feasible.iter().map(of).collect();
        let normalized = normalize(&raws);
        for ((verdict, raw), normalized) in feasible.iter_mut().zip(raws).zip(normalized) {
            verdict.scores.push(Score { plugin, raw, normalized, weight });
        }
    };
    let weights = options.weights;
    if weights.taint_toleration != 0 {
        let tolerations = &incoming.pod.spec.tolerations;
        let raw = |_: u32, _: &str, facts: &NodeFacts| {
            let counts = |taint: &&Taint| {
                taint.effect == PREFER_NO_SCHEDULE && !is_tolerated(tolerations, taint, options.toleration_comparison)
            };
            i64::try_from(facts.taints.iter().filter(counts).count()).unwrap_or(i64::MAX)
        };
        give(Plugin::TaintToleration, weights.taint_toleration, &raw, fewest_is_best);
    }
    if weights.node_affinity != 0 && incoming.prefers_nodes {
        let preferred = || incoming.preferred.iter().chain(&incoming.added_preferred);
        let raw = |_: u32, name: &str, facts: &NodeFacts| {
            preferred().filter(|(_, term)| term.matches(name, &facts.labels)).map(|(weight, _)| weight).sum()
        };
        give(Plugin::NodeAffinity, weights.node_affinity, &raw, most_is_best);
    }
    if weights.inter_pod_affinity != 0 && domains.are_scored() {
        let raw = |node: u32, _: &str, _: &NodeFacts| domains.tables().iter().map(|table| table.score(node)).sum();
        give(Plugin::InterPodAffinity, weights.inter_pod_affinity, &raw, least_to_most);
    }
}

type Normalize = fn(&[i64]) -> Vec<i64>;

const MOST: i64 = 100;

/// The share of the most, in integers (upstream's DefaultNormalizeScore).
pub(super) fn most_is_best(raws: &[i64]) -> Vec<i64> {
    match raws.iter().copied().max().filter(|most| *most > 0) {
        Some(most) => raws.iter().map(|raw| MOST * raw / most).collect(),
        None => raws.to_vec(),
    }
}

/// The same, reversed.
pub(super) fn fewest_is_best(raws: &[i64]) -> Vec<i64> {
    match raws.iter().copied().max().filter(|most| *most > 0) {
        Some(most) => raws.iter().map(|raw| MOST - MOST * raw / most).collect(),
        None => vec![MOST; raws.len()],
    }
}

/// The place between the least and the most. The order of the operations is upstream's: 29 of 100 is 28, because 0.29 times
/// 100 is a little less than 29 and the rest is cut off.
pub(super) fn least_to_most(raws: &[i64]) -> Vec<i64> {
    let least = raws.iter().copied().min().unwrap_or_default();
    let most = raws.iter().copied().max().unwrap_or_default();
    let place = |raw: &i64| match most - least {
        0 => 0,
        span => (100.0 * ((raw - least) as f64 / span as f64)) as i64,
    };
    raws.iter().map(place).collect()
}
