//! The objects that satisfy the CEL expression of a request, found with the plan of ordinary requirements.
//!
//! [`super::cel_filter`] has the sets that bound these objects, and evaluates what is between the bounds.

use std::pin::Pin;

use roaring::RoaringBitmap;

use super::cel_filter::{BYTES_OF_LONG_EVALUATION, CelFilter, STEPS_FOR_ONE};
use super::plan::{Hits, QueryPlan};
use super::selection::{FieldTerm, Selection};
use super::work::Work;
use crate::cel::{IndexRequirement, IndexTest, ObjectSet, Subject};
use crate::extract::FieldRef;
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
            candidates &= self.slots_of(&self.at_most, snapshot, work).await | &unknown;
        }
        let certain = self.slots_of(&self.at_least, snapshot, work).await - unknown;
        let mut selected = &candidates & &certain;
        for slot in candidates - certain {
            let Some(object) = snapshot.object(slot) else { continue };
            work.wait_to_read(object.length()).await;
            let (mut is_selected, mut cost) = self.evaluate_in_usual_turn(object);
            if is_selected.is_none() {
                // An evaluation does not yield to other tasks, and this one takes longer than a usual turn. So it waits
                // for a long turn.
                work.wait_to_read(object.length().max(BYTES_OF_LONG_EVALUATION)).await;
                let (is_long_selected, long_cost) = self.evaluate(object);
                is_selected = Some(is_long_selected);
                cost = cost.saturating_add(long_cost);
            }
            work.spend(cost.saturating_mul(STEPS_FOR_ONE)).await;
            if is_selected == Some(true) {
                selected.insert(slot);
            }
            if self.is_over() {
                break;
            }
        }
        selected
    }

    /// The slots of the objects in a set, by the index. The recursion is bounded: a set is at most as deep as its
    /// expression, whose depth the compiler bounds. Boxed, because an async function cannot call itself otherwise.
    fn slots_of<'a>(
        &'a self,
        set: &'a ObjectSet,
        snapshot: &'a Snapshot,
        work: &'a mut Work,
    ) -> Pin<Box<dyn Future<Output = RoaringBitmap> + Send + 'a>> {
        Box::pin(async move {
            let slots = match set {
                ObjectSet::All => snapshot.occupied().to_bitmap(),
                ObjectSet::Nothing => RoaringBitmap::new(),
                ObjectSet::Leaf(requirement) => {
                    let selection = self.selection_of(requirement);
                    match QueryPlan::new(&selection, snapshot, work).await.hits_of_requirements(work).await {
                        Hits::Everything | Hits::Namespace(_) => snapshot.occupied().to_bitmap(),
                        Hits::Slots(slots) => slots,
                    }
                }
                ObjectSet::Not(inner) => snapshot.occupied().to_bitmap() - self.slots_of(inner, snapshot, work).await,
                ObjectSet::And(sets) => {
                    let mut slots: Option<RoaringBitmap> = None;
                    for set in sets {
                        let more = self.slots_of(set, snapshot, work).await;
                        slots = Some(match slots {
                            Some(slots) => slots & more,
                            None => more,
                        });
                    }
                    slots.unwrap_or_default()
                }
                ObjectSet::Or(sets) => {
                    let mut slots = RoaringBitmap::new();
                    for set in sets {
                        slots |= self.slots_of(set, snapshot, work).await;
                    }
                    slots
                }
            };
            // The work of building this set and of combining it with others. A slot takes at most a few bits.
            work.spend(PART_STEPS + slots.len() / SLOTS_FOR_ONE).await;
            slots
        })
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
