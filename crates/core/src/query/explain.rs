//! Explains how a selection is evaluated: the plan as text and as a tree, and its cost.
//!
//! Ordinary requests do none of this. An explanation plans the selection once more over the same state, so that the
//! response itself needs no texts. The duration of the response is not part of it, because the core has no clock.

use super::cel_hits;
use super::compact::CompactSelection;
use super::operand::PlanTerm;
use super::page::State;
use super::plan::{Hits, QueryPlan};
use super::plan_steps::{PlanStep, PlanTrace, StepBudget, StepEstimate};
use super::selection::{AccessPath, Selection};
use super::work::Work;
use crate::extract::{Field, FieldRef};

/// The lengths of up to this many hits are added up. For more hits, the sum would cost as much as the response.
const SUMMED_HITS: u64 = 10_000;

/// How a selection is evaluated in one state. Pages have no influence: an explanation is about all hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The plan as one line, such as `spec.color=blue (3) & app=shop (100)`.
    pub plan: String,
    /// The plan as a tree, with the number of objects of each step.
    pub tree: PlanStep,
    /// How the objects are found.
    pub access: AccessPath,
    /// Number of objects that the plan begins with, before anything is intersected or removed; `None` if the caller
    /// must not see it ([`Explanation::without_counts`]).
    pub candidates: Option<u64>,
    /// Number of selected objects.
    pub hits: u64,
    /// The length of the JSON of all hits, in bytes. `None` if it would need a walk over all of them, or at a past
    /// version.
    pub bytes: Option<u64>,
}

impl Explanation {
    /// Explains how `selection` is evaluated in `state`; `fields` are those of the resource.
    pub async fn new(selection: &Selection, state: &State, fields: &[Field], work: &mut Work) -> Explanation {
        let snapshot = state.snapshot();
        let plan = QueryPlan::new(selection, snapshot, work).await;
        let is_current = state.rewind().is_empty();
        let mut trace = PlanTrace::recorded();
        let of_requirements = plan.run(&mut trace, work).await;
        let (mut budget, left) = (StepBudget::default(), of_requirements.count_in(snapshot));
        let mut steps = plan.steps(&trace, left, fields, &mut budget);
        let found = match &selection.cel {
            None => of_requirements,
            Some(cel) => {
                let mut step = cel.step(fields, &mut budget);
                let slots = cel_hits::narrow(cel, of_requirements, snapshot, work).await;
                cel.count_step(&mut step, slots.len(), snapshot, work).await;
                steps.push(step);
                Hits::Slots(slots)
            }
        };
        let left = found.count_in(snapshot);
        let (hits, bytes) = match found {
            Hits::Everything => (state.count_in(None, work).await, Some(snapshot.json_bytes())),
            Hits::Namespace(namespace) => (state.count_in(Some(&namespace), work).await, None),
            Hits::Slots(slots) => {
                let selection = CompactSelection::new(selection);
                let mut before = 0;
                for object in state.rewind().before() {
                    before += u64::from(selection.test(object, work).await);
                }
                let hidden = state.rewind().hidden().intersection_len(&slots);
                let size = |slot| snapshot.object(slot).map_or(0, |object| object.length() as u64);
                let bytes = (slots.len() <= SUMMED_HITS).then(|| slots.iter().map(size).sum());
                ((slots.len() + before).saturating_sub(hidden), bytes)
            }
        };
        Explanation {
            plan: plan.explain(fields),
            tree: combined(steps, Some(left)),
            access: selection.access(),
            candidates: Some(plan.candidates()),
            hits,
            bytes: bytes.filter(|_| is_current),
        }
    }

    /// The explanation of a get, which finds one object by its key. `bytes`: the length of its JSON.
    pub fn one_object(key: &str, candidates: Option<u64>, bytes: Option<u64>) -> Explanation {
        let text = format!("name {key}");
        let tree = PlanStep::new(&text).with_counts(candidates.map(StepEstimate::Finds), Some(1));
        Explanation { plan: format!("{text} (1)"), tree, access: AccessPath::Index, candidates, hits: 1, bytes }
    }

    /// The explanation of a request that does something with all selected objects, such as sorting them. `text`
    /// describes it.
    #[must_use]
    pub fn then(self, text: &str) -> Explanation {
        Explanation { tree: self.tree.then(text), ..self }
    }

    /// Like [`Explanation::new`], without anything that depends on objects that are not selected. The plan has no
    /// counts, and its parts are in the order of the selection, not of their sizes.
    pub async fn without_counts(
        selection: &Selection,
        state: &State,
        fields: &[Field],
        work: &mut Work,
    ) -> Explanation {
        let of_fields = selection.fields.iter().filter(|term| term.field != FieldRef::Empty).map(PlanTerm::Field);
        let of_labels = selection.labels.requirements.iter().map(PlanTerm::Label);
        let namespace = selection.namespace.as_deref().map(PlanTerm::Namespace);
        let shard = selection.shard.as_deref().map(PlanTerm::Shard);
        let cel = selection.cel.as_deref().map(PlanTerm::Cel);
        let operands = of_fields.chain(of_labels).chain(namespace).chain(shard).chain(cel);
        let parts: Vec<String> = operands.map(|operand| operand.in_words(fields)).collect();
        let mut budget = StepBudget::default();
        let mut steps: Vec<PlanStep> = Vec::new();
        for part in &parts {
            if selection.cel.is_none() || steps.len() + 1 < parts.len() {
                steps.extend(budget.take().then(|| PlanStep::new(part)));
            }
        }
        steps.extend(selection.cel.as_ref().map(|cel| cel.step(fields, &mut budget)));
        let plan = if parts.is_empty() { "everything".to_owned() } else { parts.join(" & ") };
        let tree = if parts.is_empty() { PlanStep::new("everything") } else { combined(steps, None) };
        Explanation { plan, tree, candidates: None, ..Explanation::new(selection, state, fields, work).await }
    }
}

/// The step that consists of these, after which `left` objects are left. A single step is the tree itself.
fn combined(mut steps: Vec<PlanStep>, left: Option<u64>) -> PlanStep {
    match (steps.len(), steps.pop()) {
        (1, Some(only)) => PlanStep { left: only.left.or(left), ..only },
        (_, last) => {
            steps.extend(last);
            PlanStep::combining("all of", steps).with_counts(None, left)
        }
    }
}
