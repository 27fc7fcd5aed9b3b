//! The objects that satisfy the CEL expression of a request, found with the plan of ordinary requirements.
//!
//! [`super::cel_filter`] has the sets that bound these objects, and evaluates what is between the bounds.

use std::pin::Pin;

use roaring::RoaringBitmap;

use super::cel_filter::CelFilter;
use super::operand::PlanTerm;
use super::plan::{Hits, QueryPlan};
use super::plan_steps::{PlanStep, PlanTrace, StepBudget, StepEstimate};
use super::selection::{FieldTerm, Selection};
use super::work::Work;
use crate::cel::{IndexRequirement, IndexTest, ObjectSet, Subject};
use crate::extract::{Field, FieldRef};
use crate::selector::{LabelRequirement, LabelSelector, Operator};
use crate::store::{IndexedPart, Snapshot};

/// The steps of work for each part of a set.
const PART_STEPS: u64 = 32;

/// The number of slots of a part that take one more step.
const SLOTS_FOR_ONE: u64 = 64;

/// The slots among `hits` whose objects satisfy the expression. `hits` are the slots that the other requirements of the
/// request select. If a limit is exceeded, some slots are missing: see [`CelFilter::result`]. A state is evaluated
/// once, and its result is used again: one request calls this function several times, with the same hits for the same
/// state.
pub(super) async fn narrow(filter: &CelFilter, hits: Hits, snapshot: &Snapshot, work: &mut Work) -> RoaringBitmap {
    let (version, epoch) = (snapshot.version(), snapshot.epoch());
    if let Some(slots) = filter.known(version, epoch) {
        return slots;
    }
    filter.begin();
    let slots = filter.evaluate_hits(hits, snapshot, work).await;
    filter.remember(version, epoch, slots.clone());
    slots
}

impl CelFilter {
    /// The slots among `hits` whose objects satisfy the expression. Evaluates the objects between the bounds of the
    /// filter, until a limit is exceeded.
    async fn evaluate_hits(&self, hits: Hits, snapshot: &Snapshot, work: &mut Work) -> RoaringBitmap {
        let mut candidates = match hits {
            Hits::Everything => snapshot.occupied().to_bitmap(),
            Hits::Namespace(namespace) => {
                snapshot.postings().namespace(&namespace).map(|slots| slots.to_bitmap()).unwrap_or_default()
            }
            Hits::Slots(slots) => slots,
        };
        // Objects whose values of a field are not indexed are missing in the sets of the index, so they are evaluated.
        let mut unknown = RoaringBitmap::new();
        for field in &self.fields {
            let slots = snapshot.postings().incomplete(IndexedPart::Field(*field));
            if let Some(slots) = slots {
                slots.add_to(&mut unknown);
                work.spend(slots.len()).await;
            }
        }
        if self.at_most != ObjectSet::All {
            candidates &= self.slots_of(&self.at_most, None, snapshot, work).await | &unknown;
        }
        let certain = self.slots_of(&self.at_least, None, snapshot, work).await - unknown;
        let mut selected = &candidates & &certain;
        for slot in candidates - certain {
            let Some(object) = snapshot.object(slot) else { continue };
            if self.test_in_turns(object, work).await {
                selected.insert(slot);
            }
            if self.is_over() {
                break;
            }
        }
        selected
    }

    /// The slots of the objects in a set, by the index. Writes the numbers of the set into `step`, which describes it
    /// ([`CelFilter::step_of`]). The recursion is bounded: a set is at most as deep as its expression, whose depth the
    /// compiler bounds. Boxed, because an async function cannot call itself otherwise.
    fn slots_of<'a>(
        &'a self,
        set: &'a ObjectSet,
        mut step: Option<&'a mut PlanStep>,
        snapshot: &'a Snapshot,
        work: &'a mut Work,
    ) -> Pin<Box<dyn Future<Output = RoaringBitmap> + Send + 'a>> {
        Box::pin(async move {
            let slots = match set {
                ObjectSet::All => snapshot.occupied().to_bitmap(),
                ObjectSet::Nothing => RoaringBitmap::new(),
                ObjectSet::Leaf(requirement) => {
                    let selection = self.selection_of(requirement);
                    // The objects whose values are not indexed are evaluated. Testing them for each requirement too
                    // would take long: each can have tens of thousands of values.
                    let plan = QueryPlan::new(&selection, snapshot, work).await.without_tests_of_fields();
                    if let Some(step) = &mut step {
                        step.estimate = Some(StepEstimate::Finds(plan.candidates()));
                    }
                    match plan.run(&mut PlanTrace::default(), work).await {
                        Hits::Everything | Hits::Namespace(_) => snapshot.occupied().to_bitmap(),
                        Hits::Slots(slots) => slots,
                    }
                }
                ObjectSet::Not(inner) => {
                    let inner_step = step.as_deref_mut().and_then(|step| step.inner.first_mut());
                    // In this order, no other set is held while the inner one is found.
                    let without = self.slots_of(inner, inner_step, snapshot, work).await;
                    snapshot.occupied().to_bitmap() - without
                }
                ObjectSet::And(sets) => {
                    let mut slots: Option<RoaringBitmap> = None;
                    for (index, set) in sets.iter().enumerate() {
                        let inner_step = step.as_deref_mut().and_then(|step| step.inner.get_mut(index));
                        let more = self.slots_of(set, inner_step, snapshot, work).await;
                        slots = Some(match slots {
                            Some(slots) => slots & more,
                            None => more,
                        });
                    }
                    slots.unwrap_or_default()
                }
                ObjectSet::Or(sets) => {
                    let mut slots = RoaringBitmap::new();
                    for (index, set) in sets.iter().enumerate() {
                        let inner_step = step.as_deref_mut().and_then(|step| step.inner.get_mut(index));
                        slots |= self.slots_of(set, inner_step, snapshot, work).await;
                    }
                    slots
                }
            };
            // The work of building this set and of combining it with others. A slot takes at most a few bits.
            work.spend(PART_STEPS + slots.len() / SLOTS_FOR_ONE).await;
            if let Some(step) = step {
                step.left = Some(slots.len());
            }
            slots
        })
    }

    /// The step of the expression, without numbers. Its inner steps are the sets that the index finds: a set that
    /// contains all selected objects, and a set of which all objects are selected. `fields`: the fields of the resource,
    /// for their labels.
    pub(super) fn step(&self, fields: &[Field], budget: &mut StepBudget) -> PlanStep {
        let mut step = PlanStep::new(&PlanTerm::Cel(self).in_words(fields));
        for (text, set) in self.step_sets() {
            let inner = self.step_of(set, fields, budget).into_iter().collect();
            step.inner.push(PlanStep::combining(text, inner));
        }
        step
    }

    /// The sets that are steps of the expression, each with its text. There is none if the index is of no use.
    fn step_sets(&self) -> impl Iterator<Item = (&'static str, &ObjectSet)> {
        let is_exact = self.at_most == self.at_least;
        let at_most = (self.at_most != ObjectSet::All || is_exact)
            .then_some((if is_exact { "selected by the index" } else { "candidates by the index" }, &self.at_most));
        let at_least = (self.at_least != ObjectSet::Nothing && !is_exact)
            .then_some(("selected without evaluation", &self.at_least));
        at_most.into_iter().chain(at_least)
    }

    /// The step of a set, without numbers; `None` if the budget has no step left. The recursion is bounded like that of
    /// [`CelFilter::slots_of`].
    fn step_of(&self, set: &ObjectSet, fields: &[Field], budget: &mut StepBudget) -> Option<PlanStep> {
        if !budget.take() {
            return None;
        }
        let mut inner = |sets: &[ObjectSet]| sets.iter().map_while(|set| self.step_of(set, fields, budget)).collect();
        Some(match set {
            ObjectSet::All => PlanStep::new("everything"),
            ObjectSet::Nothing => PlanStep::new("nothing"),
            ObjectSet::Leaf(requirement) => {
                let selection = self.selection_of(requirement);
                let field = selection.fields.first().map(PlanTerm::Field);
                let term = field.or_else(|| selection.labels.requirements.first().map(PlanTerm::Label));
                PlanStep::new(&term.map(|term| term.in_words(fields)).unwrap_or_default())
            }
            ObjectSet::Not(set) => PlanStep::combining("not", inner(std::slice::from_ref(&**set))),
            ObjectSet::And(sets) => PlanStep::combining("all of", inner(sets)),
            ObjectSet::Or(sets) => PlanStep::combining("any of", inner(sets)),
        })
    }

    /// Adds the numbers to the step of the expression, after the expression was evaluated for a state. `hits`: the
    /// number of selected objects.
    pub(super) async fn count_step(&self, step: &mut PlanStep, hits: u64, snapshot: &Snapshot, work: &mut Work) {
        for (index, (_, set)) in self.step_sets().enumerate() {
            let Some(outer) = step.inner.get_mut(index) else { continue };
            let slots = self.slots_of(set, outer.inner.first_mut(), snapshot, work).await;
            outer.left = Some(slots.len());
        }
        if let (objects @ 1.., failed) = self.evaluations() {
            let estimate = Some(StepEstimate::Evaluates { objects, failed });
            step.inner.push(PlanStep::new("evaluation").with_counts(estimate, Some(hits)));
        }
        step.left = Some(hits);
    }

    /// The selection of a requirement.
    pub(super) fn selection_of(&self, requirement: &IndexRequirement) -> Selection {
        let operator = match &requirement.test {
            IndexTest::In(values) => Operator::In(values.to_vec()),
            IndexTest::StartsWith(prefix) => Operator::StartsWith(prefix.clone()),
            IndexTest::AtLeast(bound) => Operator::GreaterOrEqual(*bound),
            IndexTest::AtMost(bound) => Operator::LessOrEqual(*bound),
            IndexTest::Exists => Operator::Exists,
        };
        // The selection with one requirement on a field.
        let field = |field| Selection { fields: vec![FieldTerm::new(field, operator.clone())], ..Selection::default() };
        match &requirement.subject {
            Subject::Name => field(FieldRef::Name),
            Subject::Namespace => field(FieldRef::Namespace),
            Subject::Field(number) => match self.fields.get(*number) {
                Some(index) => field(FieldRef::Field(*index)),
                None => field(FieldRef::Empty),
            },
            Subject::Label(key) => {
                let requirements = vec![LabelRequirement { key: key.clone(), operator }];
                Selection { labels: LabelSelector { requirements }, ..Selection::default() }
            }
        }
    }
}
