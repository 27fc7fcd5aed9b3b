//! The scheduler's rules over an indexed cluster: for every node, whether the pod fits, every reason why not, and the
//! scores.
//!
//! Order and wording are kube-scheduler's; unlike it, this code evaluates all nodes, collects all reasons, and computes
//! scores also when only one node fits. [`super::answer`] presents the result. Sources: the plugins nodeunschedulable,
//! nodename, tainttoleration, nodeaffinity and interpodaffinity of `pkg/scheduler/framework/plugins`.

use std::collections::BTreeMap;

use super::cluster::{ClusterIndex, NodeFacts};
use super::domains::{Domains, Witness, matches_own_terms};
use super::incoming::Incoming;
use super::node::Taint;
use super::options::{Options, Plugin};
use super::pod::Pod;
use super::reason::RejectionReason;
use super::term::{Narrowing, NodeTerm, TermList};
use super::toleration::{NO_SCHEDULE, PREFER_NO_SCHEDULE, is_tolerated, rejects_new_pods};

/// The taint that a cordoned node implies, whether it has it or not.
const UNSCHEDULABLE_KEY: &str = "node.kubernetes.io/unschedulable";

/// The cause of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The rule itself: no taint, term or Pod.
    Rule,
    /// A taint of the node, by its index.
    Taint(u32),
    /// A pair of nodeSelector, by its index.
    Selector(u32),
    /// A required node selector term, by its index. `None`: the node selector has no terms, so it matches no node.
    NodeTerm(Option<u32>),
    /// The affinity that the scheduler's configuration adds.
    Enforced,
    /// A required affinity term, by its index: the node lacks its topology key, or no required pod runs in the domain.
    Affinity(u32),
    /// A required anti-affinity term, and a pod that it matches.
    AntiAffinity(Witness),
    /// A term of an existing pod, and that pod.
    Existing(Witness),
}

/// A rule that a node fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeRejection {
    pub(super) reason: RejectionReason,
    pub(super) cause: Cause,
}

/// The approximate maximum of rejections that are listed for all nodes together: a result takes some hundred bytes
/// for each.
const MOST_LISTED: usize = 100_000;

/// The bounds of `Listed::most_per_reason`, however many nodes there are.
const FEWEST_PER_REASON: usize = 8;
const MOST_PER_REASON: usize = 64;

/// The rejections of all nodes. The client decides how many terms a pod has, and each node may fail all of them. So a
/// node lists only the first rejections of each reason.
#[derive(Debug)]
struct Listed {
    rejections: Vec<NodeRejection>,
    /// The maximum number of rejections of one reason that are listed for a node.
    most_per_reason: usize,
    /// The reason of the node's last rejection, and how many rejections in a row had it; `None` before the first one.
    last: Option<(RejectionReason, usize)>,
    /// The number of rejections of all nodes that are not listed.
    unlisted: u64,
}

impl Listed {
    /// No rejections yet, of `nodes` nodes.
    fn new(nodes: usize) -> Listed {
        let most_per_reason = (MOST_LISTED / nodes.max(1)).clamp(FEWEST_PER_REASON, MOST_PER_REASON);
        Listed { rejections: Vec::new(), most_per_reason, last: None, unlisted: 0 }
    }

    /// Begins the rejections of the next node; returns their first index in `rejections`.
    fn begin_node(&mut self) -> usize {
        self.last = None;
        self.rejections.len()
    }

    /// Adds a rejection of the current node, or only counts it if the node lists too many of this reason.
    fn push(&mut self, reason: RejectionReason, cause: Cause) {
        let before = self.last.filter(|(last, _)| *last == reason).map_or(0, |(_, count)| count);
        self.last = Some((reason, before + 1));
        if before < self.most_per_reason {
            self.rejections.push(NodeRejection { reason, cause });
        } else {
            self.unlisted += 1;
        }
    }
}

/// The result for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeVerdict {
    /// The slot of the node.
    pub(super) node: u32,
    /// The first index of its rejections in `Evaluation::rejections`.
    first_rejection: u32,
    /// The number of its listed rejections; 0 if it fits.
    rejection_count: u32,
    /// The number of nodes that fit in lower slots: the index of this node's scores, if it fits.
    place: u32,
}

impl NodeVerdict {
    /// Whether no rule rejects the node.
    pub(super) fn fits(&self) -> bool {
        self.rejection_count == 0
    }
}

/// The scores that a plugin gives to the nodes that fit, in the order of their slots.
#[derive(Debug)]
struct Scores {
    plugin: Plugin,
    weight: i64,
    raw: Vec<i64>,
    normalized: Vec<i64>,
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

/// The result for all nodes. Rejections and scores are contiguous, because a separate list for each of thousands of
/// nodes would cost more than the rules.
#[derive(Debug)]
pub(super) struct Evaluation {
    pub(super) incoming: Incoming,
    /// The groups that the pod affinity terms select, by list and index; only those that the evaluation computed.
    pub(super) selected: BTreeMap<(TermList, usize), Vec<u32>>,
    /// Sorted by slot.
    pub(super) verdicts: Vec<NodeVerdict>,
    rejections: Vec<NodeRejection>,
    /// The number of rejections that are not listed, and the maximum that a node lists for one reason.
    pub(super) unlisted: (u64, usize),
    scores: Vec<Scores>,
}

impl Evaluation {
    /// The reasons why a node was rejected, in the order of the scheduler, which reports the first.
    pub(super) fn rejections(&self, verdict: &NodeVerdict) -> &[NodeRejection] {
        let (start, length) = (verdict.first_rejection, verdict.rejection_count);
        self.rejections.get(start as usize..(start + length) as usize).unwrap_or_default()
    }

    /// The scores of a node, one for each plugin that contributes; none if the node does not fit.
    pub(super) fn scores(&self, verdict: &NodeVerdict) -> impl Iterator<Item = Score> {
        let place = verdict.fits().then_some(verdict.place as usize);
        self.scores.iter().filter_map(move |scores| {
            let Scores { plugin, weight, .. } = *scores;
            let (raw, normalized) = (*scores.raw.get(place?)?, *scores.normalized.get(place?)?);
            Some(Score { plugin, raw, normalized, weight })
        })
    }
}

/// Evaluates a Pod as it is: nothing is defaulted or merged. The cluster must not have the Pod itself. `only` is the
/// slot of the only node to evaluate; `None` evaluates all nodes.
pub(super) fn evaluate(cluster: &ClusterIndex, pod: &Pod, options: &Options, only: Option<u32>) -> Evaluation {
    let incoming = Incoming::new(pod, options);
    let domains = Domains::new(cluster, &incoming, options);
    let rules = Rules::new(cluster, &incoming, &domains, options);
    let mut scored: Vec<(Scored, Vec<i64>)> = rules.scored().map(|scored| (scored, Vec::new())).collect();
    let mut verdicts = Vec::with_capacity(cluster.nodes.len());
    let mut listed = Listed::new(if only.is_some() { 1 } else { cluster.nodes.len() });
    let mut place = 0;
    let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    for (slot, node) in cluster.nodes.iter().zip(0..) {
        let Some(facts) = slot.facts.as_ref().filter(|_| only.is_none_or(|only| only == node)) else { continue };
        let start = listed.begin_node();
        rules.reject(node, &slot.name, facts, &mut listed);
        let rejection_count = count(listed.rejections.len() - start);
        verdicts.push(NodeVerdict { node, first_rejection: count(start), rejection_count, place });
        if rejection_count == 0 {
            place += 1;
            for (scored, raw) in &mut scored {
                raw.push((scored.raw)(&rules, node, &slot.name, facts));
            }
        }
    }
    let scores = |(Scored { plugin, weight, normalize, .. }, raw): (Scored, Vec<i64>)| {
        let normalized = normalize(&raw);
        Scores { plugin, weight, raw, normalized }
    };
    let scores = scored.into_iter().map(scores).collect();
    let Listed { rejections, most_per_reason, unlisted, .. } = listed;
    let unlisted = (unlisted, most_per_reason);
    Evaluation { incoming, selected: domains.selected, verdicts, rejections, unlisted, scores }
}

/// The scheduler's rules for one incoming Pod, with the facts that are equal for all nodes.
struct Rules<'review> {
    incoming: &'review Incoming,
    domains: &'review Domains,
    options: &'review Options,
    /// Whether no Pod matches the required affinity, but the incoming Pod itself does: then a node needs only the
    /// labels of the topology keys.
    may_be_first: bool,
    /// Whether the Pod tolerates the taint of cordoned nodes.
    tolerates_cordon: bool,
}

impl<'review> Rules<'review> {
    fn new(
        cluster: &ClusterIndex,
        incoming: &'review Incoming,
        domains: &'review Domains,
        options: &'review Options,
    ) -> Rules<'review> {
        let cordon = Taint { key: UNSCHEDULABLE_KEY.to_owned(), effect: NO_SCHEDULE.to_owned(), ..Taint::default() };
        let tolerations = &incoming.pod.spec.tolerations;
        Rules {
            incoming,
            domains,
            options,
            may_be_first: domains.is_first_of_group && matches_own_terms(cluster, incoming),
            tolerates_cordon: is_tolerated(tolerations, &cordon, options.toleration_comparison),
        }
    }

    /// Adds every rule that the node in slot `node` fails to `found`, in the order of the scheduler.
    fn reject(&self, node: u32, name: &str, facts: &NodeFacts, found: &mut Listed) {
        let mut reject = |reason: RejectionReason, cause: Cause| found.push(reason, cause);
        let incoming = self.incoming;
        let spec = &incoming.pod.spec;
        let comparison = self.options.toleration_comparison;
        if !spec.scheduling_gates.is_empty() && self.runs(Plugin::SchedulingGates) {
            reject(RejectionReason::SchedulingGated, Cause::Rule);
        }
        match &incoming.narrowing {
            Narrowing::All => {}
            Narrowing::Names(names) if names.contains(name) => {}
            Narrowing::Names(_) => reject(RejectionReason::NodeNotNamed, Cause::Rule),
            Narrowing::Conflict => reject(RejectionReason::AffinityTermsConflict, Cause::Rule),
        }
        if facts.unschedulable && !self.tolerates_cordon && self.runs(Plugin::NodeUnschedulable) {
            reject(RejectionReason::NodeUnschedulable, Cause::Rule);
        }
        if !spec.node_name.is_empty() && spec.node_name != name && self.runs(Plugin::NodeName) {
            reject(RejectionReason::NodeNameMismatch, Cause::Rule);
        }
        if self.runs(Plugin::TaintToleration) {
            for (taint, index) in facts.taints.iter().zip(0..) {
                if rejects_new_pods(taint) && !is_tolerated(&spec.tolerations, taint, comparison) {
                    reject(RejectionReason::UntoleratedTaint, Cause::Taint(index));
                }
            }
        }
        if self.runs(Plugin::NodeAffinity) {
            if let Some(terms) = &incoming.enforced
                && !terms.iter().any(|term| term.matches(name, &facts.labels))
            {
                reject(RejectionReason::NodeAffinityMismatch, Cause::Enforced);
            }
            for ((key, value), index) in spec.node_selector.iter().zip(0..) {
                if facts.labels.get(key) != Some(value) {
                    reject(RejectionReason::NodeAffinityMismatch, Cause::Selector(index));
                }
            }
            // If matchFields exclude the node by its name, that has been reported: the terms would only repeat it.
            if matches!(incoming.narrowing, Narrowing::All) || incoming.narrowing_names(name) {
                report_unmatched_terms(incoming.required.as_deref(), name, facts, |term| {
                    reject(RejectionReason::NodeAffinityMismatch, Cause::NodeTerm(term));
                });
            }
        }
        if self.runs(Plugin::InterPodAffinity) {
            self.reject_by_pods(node, &mut reject);
        }
    }

    /// Calls `reject` for each rule about other Pods that the node in slot `node` fails.
    fn reject_by_pods(&self, node: u32, reject: &mut impl FnMut(RejectionReason, Cause)) {
        let Rules { incoming, domains, .. } = self;
        // The scheduler rejects such a Pod on every node, with the error as the message, before it tests these rules.
        if incoming.unparsable.is_some() {
            reject(RejectionReason::PodAffinityMismatch, Cause::Rule);
            return;
        }
        for ((term, _), index) in incoming.required_affinity.iter().zip(0..) {
            let table = domains.table(&term.topology_key);
            let has_domain = table.is_some_and(|table| table.has_domain(node));
            let is_met = has_domain && (self.may_be_first || table.is_some_and(|table| table.has_affinity(node)));
            if !is_met {
                reject(RejectionReason::PodAffinityMismatch, Cause::Affinity(index));
            }
        }
        for table in domains.tables() {
            if let Some(witness) = table.anti_affinity(node) {
                reject(RejectionReason::PodAntiAffinityMismatch, Cause::AntiAffinity(witness));
            }
        }
        for table in domains.tables() {
            if let Some(witness) = table.existing(node) {
                reject(RejectionReason::ExistingPodAntiAffinity, Cause::Existing(witness));
            }
        }
    }

    /// Whether the configuration enables the plugin.
    fn runs(&self, plugin: Plugin) -> bool {
        self.options.filters_with(plugin)
    }

    /// The plugins that contribute scores. None does if a preference cannot be parsed.
    fn scored(&self) -> impl Iterator<Item = Scored> {
        let weights = self.options.weights;
        let (prefers_nodes, prefers_pods) = (self.incoming.prefers_nodes, self.domains.are_scored());
        let fails = self.incoming.unparsable_preference.is_some();
        #[rustfmt::skip]
        let plugins: [(bool, Plugin, i64, RawScore, Normalize); 3] = [
            (true, Plugin::TaintToleration, weights.taint_toleration, avoided_taints, fewest_is_best),
            (prefers_nodes, Plugin::NodeAffinity, weights.node_affinity, preferred_nodes, most_is_best),
            (prefers_pods, Plugin::InterPodAffinity, weights.inter_pod_affinity, preferred_pods, least_to_most),
        ];
        let gives = move |(is_needed, _, weight, ..): &(bool, _, i64, _, _)| *is_needed && *weight != 0 && !fails;
        let scored = |(_, plugin, weight, raw, normalize)| Scored { plugin, weight, raw, normalize };
        plugins.into_iter().filter(gives).map(scored)
    }
}

/// Computes a plugin's raw score of a node from the rules and the node's slot, name and facts.
type RawScore = fn(&Rules<'_>, u32, &str, &NodeFacts) -> i64;

/// A plugin that contributes scores, and the functions that compute them.
struct Scored {
    plugin: Plugin,
    weight: i64,
    raw: RawScore,
    normalize: Normalize,
}

/// The raw score of TaintToleration: the number of PreferNoSchedule taints that the Pod does not tolerate.
fn avoided_taints(rules: &Rules<'_>, _: u32, _: &str, facts: &NodeFacts) -> i64 {
    let tolerations = &rules.incoming.pod.spec.tolerations;
    let comparison = rules.options.toleration_comparison;
    let counts = |taint: &&Taint| taint.effect == PREFER_NO_SCHEDULE && !is_tolerated(tolerations, taint, comparison);
    i64::try_from(facts.taints.iter().filter(counts).count()).unwrap_or(i64::MAX)
}

/// The raw score of NodeAffinity: the sum of the weights of the preferred terms that match.
fn preferred_nodes(rules: &Rules<'_>, _: u32, name: &str, facts: &NodeFacts) -> i64 {
    let preferred = rules.incoming.preferred.iter().chain(&rules.incoming.added_preferred);
    preferred.filter(|(_, term)| term.matches(name, &facts.labels)).map(|(weight, _)| weight).sum()
}

/// The raw score of InterPodAffinity: the sum of the scores of the node's domains.
fn preferred_pods(rules: &Rules<'_>, node: u32, _: &str, _: &NodeFacts) -> i64 {
    rules.domains.tables().iter().map(|table| table.score(node)).sum()
}

/// Calls `report` with the index of each term of required node affinity if none of them matches the node, or with
/// `None` if the list is empty. `terms` is `None` if the Pod has no required node affinity: then nothing is reported.
fn report_unmatched_terms(
    terms: Option<&[NodeTerm]>,
    name: &str,
    facts: &NodeFacts,
    mut report: impl FnMut(Option<u32>),
) {
    let Some(terms) = terms else { return };
    if terms.iter().any(|term| term.matches(name, &facts.labels)) {
        return;
    }
    if terms.is_empty() {
        report(None);
    }
    for (_, index) in terms.iter().zip(0..) {
        report(Some(index));
    }
}

impl Incoming {
    /// Whether matchFields restrict the Pod to nodes, and name this one.
    fn narrowing_names(&self, name: &str) -> bool {
        matches!(&self.narrowing, Narrowing::Names(names) if names.contains(name))
    }
}

/// Normalizes the raw scores of all nodes that fit to scores from 0 to 100, in the same order.
type Normalize = fn(&[i64]) -> Vec<i64>;

/// The highest normalized score.
const MAX_SCORE: i64 = 100;

/// Normalizes raw scores to their shares of the highest one, in integers (upstream's DefaultNormalizeScore). Raw scores
/// remain as they are if none is positive.
pub(super) fn most_is_best(raws: &[i64]) -> Vec<i64> {
    match raws.iter().copied().max().filter(|most| *most > 0) {
        Some(most) => raws.iter().map(|raw| MAX_SCORE * raw / most).collect(),
        None => raws.to_vec(),
    }
}

/// Normalizes raw scores so that 0 is the best and the highest one gets 0. All get 100 if none is positive.
pub(super) fn fewest_is_best(raws: &[i64]) -> Vec<i64> {
    match raws.iter().copied().max().filter(|most| *most > 0) {
        Some(most) => raws.iter().map(|raw| MAX_SCORE - MAX_SCORE * raw / most).collect(),
        None => vec![MAX_SCORE; raws.len()],
    }
}

/// Normalizes raw scores to their position between the lowest (0) and the highest (100). All get 0 if they are equal.
/// The order of the floating-point operations is upstream's, so that rounding is the same: a raw score of 29 between 0
/// and 100 becomes 28, because 100.0 * 0.29 is a little less than 29.
pub(super) fn least_to_most(raws: &[i64]) -> Vec<i64> {
    let least = raws.iter().copied().min().unwrap_or_default();
    let most = raws.iter().copied().max().unwrap_or_default();
    let place = |raw: &i64| match most - least {
        0 => 0,
        span => (100.0 * ((raw - least) as f64 / span as f64)) as i64,
    };
    raws.iter().map(place).collect()
}
