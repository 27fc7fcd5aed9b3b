//! The result for users and programs: counts, the message of the scheduler's event, and a report for each node.
//!
//! A [`PlacementResult`] holds the state that it was computed from, and writes reports of the requested nodes only. It
//! writes documents of [`super::review`] here, and JSON text in [`super::text`]. [`super::evaluate`] makes all
//! decisions about the rules.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::cluster::{ClusterIndex, NodeFacts, Witnesses};
use super::condition;
use super::domains::selected;
use super::evaluate::{Cause, Evaluation, NodeRejection, NodeVerdict, evaluate};
use super::explain::{self, RejectionDetails, Reporter};
use super::options::{Options, Plugin};
use super::pod::Pod;
use super::reason::{ENFORCED_MESSAGE, RejectionReason};
use super::review::{
    NodeReport, PlacementReviewStatus, ReasonCount, RejectionReport, ResourceVersions, ScoreReport, TermReport,
};
use super::term::{PodTerm, TermList};

/// Plugins of the scheduler that decide on placement and are not evaluated; listed in every result.
pub const NOT_EVALUATED: [&str; 9] = [
    "NodeResourcesFit (free CPU, memory and other resources)",
    "NodePorts (host ports)",
    "VolumeRestrictions, VolumeBinding, VolumeZone, NodeVolumeLimits (volumes)",
    "PodTopologySpread (topologySpreadConstraints and their matchLabelKeys)",
    "DynamicResources (resource claims)",
    "ImageLocality, NodeResourcesBalancedAllocation (further scores)",
    "preemption, and pods that preemption has nominated to a node",
    "extenders, and out-of-tree plugins",
    "admission plugins that are off by default (PodNodeSelector, PodTolerationRestriction, ExtendedResourceToleration) and webhooks",
];

/// The maximum length in bytes of a rejection's message that quotes the Pod, as for the message of an Event. The
/// message is written once for each node.
const MOST_MESSAGE: usize = 1024;

/// The maximum number of selected Pods whose names the report of a term lists.
const SAMPLES: usize = 5;

/// The nodes where a pod may run, and why not the others.
#[derive(Debug)]
pub struct PlacementResult {
    pub(super) cluster: ClusterIndex,
    pub(super) evaluation: Evaluation,
    options: Options,
}

impl ClusterIndex {
    /// Evaluates on which nodes a pod may run. The pod is evaluated as it is: [`super::admission`] adds what the API
    /// server adds to a new one. A pod that is in the cluster does not count as an existing pod.
    pub fn review(&self, pod: &Pod, options: &Options) -> PlacementResult {
        let cluster = self.without(pod);
        let evaluation = evaluate(&cluster, pod, options, None);
        PlacementResult { cluster, evaluation, options: options.clone() }
    }
}

impl PlacementResult {
    /// The reasons why a Pod could not be placed on the node in slot `node`; empty if it could, or if there is no such
    /// node. The Pod may be in the cluster: it is left out.
    pub(super) fn on_node(cluster: &ClusterIndex, pod: &Pod, options: &Options, node: u32) -> Vec<RejectionReport> {
        let cluster = cluster.without(pod);
        let evaluation = evaluate(&cluster, pod, options, Some(node));
        let answer = PlacementResult { cluster, evaluation, options: options.clone() };
        let mut reporter = answer.reporter();
        let verdict = answer.evaluation.verdicts.first();
        verdict.map(|verdict| answer.rejection_reports(verdict, &mut reporter)).unwrap_or_default()
    }

    /// The number of nodes.
    pub fn total(&self) -> u64 {
        self.evaluation.verdicts.len() as u64
    }

    /// The number of nodes that the Pod fits.
    pub fn feasible(&self) -> u64 {
        self.evaluation.verdicts.iter().filter(|verdict| verdict.fits()).count() as u64
    }

    /// The pod that was evaluated.
    pub fn pod(&self) -> &Pod {
        &self.evaluation.incoming.pod
    }

    /// Counts the rejected nodes by the first reason of each, most frequent first, then in alphabetical order.
    pub fn reasons(&self) -> Vec<ReasonCount> {
        let mut counts: BTreeMap<(RejectionReason, Cow<'static, str>), u64> = BTreeMap::new();
        for verdict in &self.evaluation.verdicts {
            let Some(first) = self.evaluation.rejections(verdict).first() else { continue };
            *counts.entry((first.reason, self.message_of(verdict, first))).or_insert(0) += 1;
        }
        let mut counted: Vec<ReasonCount> = counts
            .into_iter()
            .map(|((reason, message), count)| ReasonCount { reason: reason.as_str().into(), message, count })
            .collect();
        counted.sort_by(|left, right| right.count.cmp(&left.count).then_with(|| left.message.cmp(&right.message)));
        counted
    }

    /// The message of the scheduler's event, without its part about preemption. If nodes fit, there is no event: then
    /// the message has their number, with the reasons of the others in the same form.
    pub fn message(&self) -> String {
        self.message_with(&self.reasons())
    }

    /// [`PlacementResult::message`], computed from the result of [`PlacementResult::reasons`].
    fn message_with(&self, reasons: &[ReasonCount]) -> String {
        if let Some(gated) = self.gates_message() {
            return gated;
        }
        let (feasible, total) = (self.feasible(), self.total());
        if total == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let ends_cycle = self.ends_cycle();
        let mut parts: Vec<String> = match ends_cycle {
            true => reasons.iter().take(1).map(|reason| reason.message.to_string()).collect(),
            false => reasons.iter().map(|reason| format!("{} {}", reason.count, reason.message)).collect(),
        };
        // In the scheduler's event, the parts are sorted as texts.
        parts.sort();
        let separator = if parts.is_empty() { "" } else { ": " };
        format!("{feasible}/{total} nodes are available{separator}{}.", parts.join(", "))
    }

    /// The message about scheduling gates. `None` if the Pod has none, or if the options disable the plugin.
    fn gates_message(&self) -> Option<String> {
        let gates = &self.pod().spec.scheduling_gates;
        let names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
        let is_enabled = self.options.filters_with(Plugin::SchedulingGates);
        let message = || format!("{}: [{}]", RejectionReason::SchedulingGated.message(), names.join(" "));
        (is_enabled && !names.is_empty()).then(|| explain::shortened(message(), MOST_MESSAGE))
    }

    /// Whether the scheduler stops before it evaluates any node. Its event then has the reason without a count.
    fn ends_cycle(&self) -> bool {
        let verdict = self.evaluation.verdicts.first();
        let first = verdict.and_then(|verdict| self.evaluation.rejections(verdict).first());
        let is_conflict = first.is_some_and(|first| first.reason == RejectionReason::AffinityTermsConflict);
        is_conflict || self.evaluation.incoming.unparsable.is_some()
    }

    /// The labels and taints of a node; `None` if only Pods refer to it.
    fn facts(&self, verdict: &NodeVerdict) -> Option<&NodeFacts> {
        self.cluster.nodes.get(verdict.node as usize)?.facts.as_deref()
    }

    /// The scheduler's message for a rejection, in the wording of the target version.
    pub(super) fn message_of(&self, verdict: &NodeVerdict, rejection: &NodeRejection) -> Cow<'static, str> {
        let taint = if let Cause::Taint(index) = rejection.cause {
            self.facts(verdict).and_then(|facts| facts.taints.get(index as usize))
        } else {
            None
        };
        match (&rejection.cause, taint) {
            (Cause::Enforced, _) => ENFORCED_MESSAGE.into(),
            // Up to 1.33, the message names the taint. 1.34 stopped doing so in a patch release.
            (_, Some(taint)) if self.options.target_minor < 34 => {
                format!("node(s) had untolerated taint {{{}: {}}}", taint.key, taint.value).into()
            }
            _ => match (rejection.reason, &self.evaluation.incoming.unparsable) {
                (RejectionReason::SchedulingGated, _) => self.gates_message().unwrap_or_default().into(),
                (RejectionReason::PodAffinityMismatch, Some(error)) => {
                    explain::shortened(format!("parsing pod: {error}"), MOST_MESSAGE).into()
                }
                (reason, _) => reason.message().into(),
            },
        }
    }

    /// The verdicts in the order of a report: nodes that fit, best first; then those that fail the fewest rules; then
    /// by name.
    fn ordered<'answer>(
        &'answer self,
        selected: impl Iterator<Item = &'answer NodeVerdict>,
    ) -> Vec<&'answer NodeVerdict> {
        let rank = |verdict| {
            let rejections = self.evaluation.rejections(verdict);
            // First the number of failed rules, then the number of all their rejections.
            let repeated = rejections.windows(2).filter(|pair| pair[0].reason == pair[1].reason).count();
            let total: i64 = self.evaluation.scores(verdict).map(|score| score.weight * score.normalized).sum();
            (rejections.len() - repeated, rejections.len(), -total, self.cluster.name_rank(verdict.node))
        };
        let mut ordered: Vec<(_, &NodeVerdict)> = selected.map(|verdict| (rank(verdict), verdict)).collect();
        ordered.sort_unstable_by_key(|(rank, _)| *rank);
        ordered.into_iter().map(|(_, verdict)| verdict).collect()
    }

    /// Reports of the nodes with these names, best first; of all nodes if `names` is empty. Unknown names are skipped.
    pub fn nodes(&self, names: &[String]) -> Vec<NodeReport> {
        let mut reporter = self.reporter();
        self.listed(names).into_iter().map(|verdict| self.report(verdict, &mut reporter)).collect()
    }

    /// A writer of the reports of this result. Reports of one writer share the text of equal terms.
    pub(super) fn reporter(&self) -> Reporter<'_> {
        Reporter::new(&self.cluster, &self.evaluation.incoming)
    }

    /// The verdicts on the nodes with these names, in the order of reports; on all nodes if `names` is empty. Unknown
    /// names are skipped.
    pub(super) fn listed(&self, names: &[String]) -> Vec<&NodeVerdict> {
        let verdicts = &self.evaluation.verdicts;
        if names.is_empty() {
            return self.ordered(verdicts.iter());
        }
        let slots: BTreeSet<u32> = names.iter().filter_map(|name| self.cluster.known_node(name)).collect();
        let find = |slot| verdicts.binary_search_by_key(&slot, |verdict| verdict.node).ok();
        self.ordered(slots.into_iter().filter_map(find).map(|index| &verdicts[index]))
    }

    /// The report of a node: its scores and rejections.
    fn report<'answer>(&'answer self, verdict: &NodeVerdict, reporter: &mut Reporter<'answer>) -> NodeReport {
        let scores = self.evaluation.scores(verdict).map(|score| ScoreReport {
            plugin: score.plugin.as_str().into(),
            raw: score.raw,
            normalized: score.normalized,
            weight: score.weight,
        });
        let place = self.cluster.nodes.get(verdict.node as usize);
        NodeReport {
            name: place.map(|place| Arc::clone(&place.name)).unwrap_or_default(),
            fits: verdict.fits(),
            rejections: self.rejection_reports(verdict, reporter),
            scores: scores.collect(),
        }
    }

    /// The rejections of a node, with the objects that cause them.
    fn rejection_reports<'answer>(
        &'answer self,
        verdict: &NodeVerdict,
        reporter: &mut Reporter<'answer>,
    ) -> Vec<RejectionReport> {
        let report = |rejection: &NodeRejection| {
            let reason = rejection.reason;
            let details = self.details(verdict, rejection, reporter);
            RejectionReport {
                plugin: reason.plugin().as_str().into(),
                kind: reason.kind().as_str().into(),
                reason: reason.as_str().into(),
                message: self.message_of(verdict, rejection),
                term: details.term,
                taint: details.taint.map(ToString::to_string),
                label: details.label.map(|label| label.parts().concat()),
                pod: details.pod.cloned(),
            }
        };
        self.evaluation.rejections(verdict).iter().map(report).collect()
    }

    /// The cause of a rejection: a term, a taint, a label or another Pod; empty if the rule itself is the cause.
    pub(super) fn details<'answer>(
        &'answer self,
        verdict: &NodeVerdict,
        rejection: &NodeRejection,
        reporter: &mut Reporter<'answer>,
    ) -> RejectionDetails<'answer> {
        let place = self.cluster.nodes.get(verdict.node as usize);
        match place.and_then(|place| Some((place, place.facts.as_deref()?))) {
            Some((place, facts)) => reporter.details(rejection.cause, &place.name, facts),
            None => RejectionDetails::default(),
        }
    }

    /// The pod's own terms about other pods.
    pub fn terms(&self) -> Vec<TermReport> {
        let incoming = &self.evaluation.incoming;
        let parsed = [
            &incoming.required_affinity,
            &incoming.required_anti_affinity,
            &incoming.preferred_affinity,
            &incoming.preferred_anti_affinity,
        ];
        let mut reports = Vec::new();
        let known = self.cluster.known_nodes();
        let mut witnesses = Witnesses::new(&self.cluster);
        for (list, terms) in TermList::ALL.into_iter().zip(parsed) {
            let written = list.written(&incoming.pod.spec);
            for (index, (term, _)) in terms.iter().enumerate() {
                let (matching_pods, samples) = self.matched((list, index), term, known.as_deref(), &mut witnesses);
                reports.push(TermReport {
                    field_path: format!("spec.{}", list.path(index)),
                    label_selector: explain::selection_text(&term.selection),
                    derived: written.get(index).map(|(term, _)| explain::derived(term)).unwrap_or_default(),
                    namespaces: term.namespaces.clone(),
                    namespace_selector: explain::selection_text(&term.namespace_selection),
                    topology_key: term.topology_key.clone(),
                    matching_pods,
                    samples,
                });
            }
        }
        reports
    }

    /// The number of Pods that a term of the evaluated Pod selects on existing nodes, and the names of the first few.
    /// `place` is the list of the term and its index there. `known` has for each slot whether the Node exists; `None`
    /// if all do. It comes from the nodes and not from topology domains, because a node can lack the label of a domain.
    fn matched(
        &self,
        place: (TermList, usize),
        term: &PodTerm,
        known: Option<&[bool]>,
        witnesses: &mut Witnesses<'_>,
    ) -> (u64, Vec<String>) {
        let is_known = |node: u32| known.is_none_or(|known| known[node as usize]);
        let mut pods = 0;
        let mut samples = Vec::new();
        let found = self.evaluation.selected.get(&place);
        let groups = found.map_or_else(|| Cow::Owned(selected(&self.cluster, term)), |found| Cow::Borrowed(&found[..]));
        let mut places = self.cluster.groups.places();
        for group in groups.iter().copied() {
            let places = places.nodes_of(group).iter().filter(|(node, _)| is_known(*node));
            pods += places.clone().map(|(_, count)| u64::from(*count)).sum::<u64>();
            let named = places.take(SAMPLES - samples.len());
            let names = named.filter_map(|(node, _)| witnesses.of(group, *node));
            samples.extend(names.map(|entry| entry.key.to_string()));
        }
        (pods, samples)
    }

    /// Warnings for the user about the result: omitted rejections, preferences that cannot be parsed, different
    /// behavior of the target version, and obsolete taint keys.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let incoming = &self.evaluation.incoming;
        if let Some(error) = incoming.unparsable_preference.as_ref().filter(|_| self.feasible() > 1) {
            warnings.push(format!(
                "a preference of the Pod cannot be parsed, so the scheduler fails with an error if more than one node fits: \
                 {error}"
            ));
        }
        if let (unlisted @ 1.., most) = self.evaluation.unlisted {
            warnings
                .push(format!("{unlisted} rejections are not listed: a node lists the first {most} for each reason"));
        }
        warnings.extend(explain::negative_namespace_selectors(incoming, &self.options));
        let facts = self.cluster.nodes.iter().filter_map(|place| place.facts.as_deref());
        let keys = facts.flat_map(|facts| &facts.taints).map(|taint| taint.key.as_str());
        warnings.extend(condition::hints(&self.pod().spec.tolerations, keys));
        warnings
    }

    /// The result as a document, without reports of nodes. `age_seconds` is the time since the cluster's state was
    /// known to be current; `None` if that is unknown.
    pub fn summary(&self, resource_versions: ResourceVersions, age_seconds: Option<i64>) -> PlacementReviewStatus {
        let reasons = self.reasons();
        PlacementReviewStatus {
            resource_versions,
            age_seconds,
            feasible: self.feasible(),
            total: self.total(),
            message: self.message_with(&reasons),
            reasons,
            not_evaluated: NOT_EVALUATED.iter().map(|&text| text.to_owned()).collect(),
            warnings: self.warnings(),
            terms: self.terms(),
            nodes: Vec::new(),
        }
    }
}
