//! The CEL expression of a request: which objects an index finds for it, and the evaluation of the others.
//!
//! [`crate::cel`] compiles the expression, and bounds the objects for which it is true by sets that an index can find.
//! `cel_hits` finds these sets with the plan of ordinary requirements, and the objects between the bounds are
//! evaluated. Evaluation reads whole objects, so its cost is limited for each object and for all objects of a request.
//! An expression is rejected before any evaluation if the sizes in the schema, or defaults, make it too expensive.
//!
//! The bounds rely on objects that conform to their schema. An object that is older than its schema can have a text in
//! an integer field, which the index does not distinguish from an integer.
//!
//! In a View that hides parts of objects, the expression sees what the View shows: neither its result, nor its cost and
//! the fields that its plan uses depend on what is hidden.
//!
//! A watch tests the objects of its events one by one ([`CelFilter::test_event`]), and uses only the requirements that
//! an index of subscriptions can look up ([`CelFilter::requirements`]).
//!
//! A filter is for one request: it counts the objects for which the expression fails. An object that the index excludes
//! is not evaluated, so it is not counted even if the expression would fail for it.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use roaring::RoaringBitmap;

use super::cel_type;
use super::selection::Selection;
use super::work::Work;
use crate::cel::{
    CelError, CelEvaluation, CelProgram, EvaluationError, EvaluationLimit, Indexed, IndexedKind, IndexedPath,
    ObjectSet, TimeLimit, TooExpensive,
};
use crate::extract::{Extractor, Origin, Prune};
use crate::model::{FieldIndex, Version};
use crate::store::Object;

/// The maximum cost of the evaluation for one object, in the unit of Kubernetes. It is the limit of kube-apiserver for
/// one expression (apiserver `pkg/apis/cel`, PerCallLimit).
const MOST_FOR_OBJECT: u64 = 1_000_000;

/// The maximum cost of an evaluation in a usual turn, in the unit of Kubernetes: about a millisecond. An object that
/// needs more is evaluated again in a long turn, with the limit [`MOST_FOR_OBJECT`].
const MOST_IN_USUAL_TURN: u64 = 50_000;

/// The length of an object, in bytes, whose reading takes as long as an evaluation with the cost [`MOST_FOR_OBJECT`]. A
/// long turn is requested as for reading such an object.
pub const BYTES_OF_LONG_EVALUATION: usize = 1 << 20;

/// The maximum cost of all evaluations of a request, in the unit of Kubernetes. Reading the objects counts too.
const MOST_FOR_REQUEST: u64 = 100_000_000;

/// The maximum number of paths that an error names.
const MOST_NAMED: usize = 5;

/// The number of bytes of an object whose reading counts as a cost of one.
const BYTES_FOR_ONE: u64 = 64;

/// The steps of work ([`super::work`]) that a cost of one counts.
const STEPS_FOR_ONE: u64 = 2;

/// The expression of a request over one resource.
#[derive(Debug)]
pub struct CelFilter {
    program: CelProgram,
    /// Each object that satisfies the expression is in this set.
    pub(super) at_most: ObjectSet,
    /// Each object of this set satisfies the expression.
    pub(super) at_least: ObjectSet,
    /// The fields of the index. The number in a [`Subject::Field`](crate::cel::Subject::Field) is an index here.
    pub(super) fields: Vec<FieldIndex>,
    /// The paths of `fields`.
    indexed: Indexed,
    /// What a View leaves out of the objects before they are evaluated.
    hidden: Option<Arc<Prune>>,
    /// The limit of time of one evaluation; `None`: no limit.
    time: Option<TimeLimit>,
    /// The number of evaluated objects.
    evaluated: AtomicU64,
    /// The cost of all evaluations together.
    cost: AtomicU64,
    /// The number of objects for which the expression failed.
    failed: AtomicU64,
    messages: Mutex<Messages>,
    /// The result for the state that was evaluated last. A request plans its selection several times, and evaluates its
    /// expression once.
    found: Mutex<Option<FoundSlots>>,
}

/// The slots that a filter has found in the state of this version and epoch.
#[derive(Debug)]
struct FoundSlots {
    version: Version,
    epoch: u64,
    slots: RoaringBitmap,
}

/// The texts of the first events of each kind.
#[derive(Debug, Default)]
struct Messages {
    /// The first object for which the expression failed, and the error.
    failure: Option<String>,
    /// How a limit was exceeded; `None` if no limit was.
    over_limit: Option<String>,
}

/// Why an expression cannot be used. Display has the position, or the part that costs too much and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableExpression {
    /// It does not compile.
    #[error(transparent)]
    Invalid(#[from] CelError),
    /// Its evaluation for an object is estimated to cost too much.
    #[error(transparent)]
    TooExpensive(#[from] TooExpensive),
}

/// The result of testing an object of a watch event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventTest {
    /// The test is complete.
    Tested {
        /// Whether the expression is true. It is not if its evaluation fails.
        is_selected: bool,
        /// The work of the evaluation, as a number of bytes that could be read in the same time.
        bytes: usize,
    },
    /// The evaluation needs more than a usual turn: as long as reading [`BYTES_OF_LONG_EVALUATION`].
    NeedsLongTurn,
    /// The evaluation costs more than the limit.
    Over(OverCost),
}

/// The evaluation for the objects of a request exceeds a limit. Display says how, and how a client can avoid that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("celSelector: {reason}: {remedy}")]
pub struct OverCost {
    reason: String,
    remedy: String,
}

/// Objects for which an expression fails. They are not selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedObjects {
    /// The number of evaluations that failed.
    pub count: u64,
    /// The number of all evaluations.
    pub evaluated: u64,
    /// The first error.
    pub first: String,
}

impl CelFilter {
    /// Compiles an expression over the objects of a resource, whose schema gives the types. `is_namespaced`: the scope
    /// of the resource. `hidden`: what a View leaves out of the objects; `extractor` is that of the View then.
    ///
    /// # Errors
    /// The expression does not compile; for example, it names a field that the schema does not have. Or objects must be
    /// evaluated, because an index does not find exactly the selected ones, and the estimated cost of an evaluation is
    /// above [`MOST_FOR_OBJECT`].
    pub fn new(
        text: &str,
        extractor: &Extractor,
        is_namespaced: bool,
        hidden: Option<&Arc<Prune>>,
    ) -> Result<CelFilter, UnusableExpression> {
        let program = CelProgram::compile(text, &cel_type::of_objects(extractor))?;
        let (mut paths, mut fields) = (Vec::new(), Vec::new());
        for (index, field) in extractor.fields().iter().enumerate() {
            let Ok(index) = u16::try_from(index).map(FieldIndex) else { break };
            let kind = match &*field.kind {
                "string" => IndexedKind::Text,
                "integer" => IndexedKind::Integer,
                "boolean" => IndexedKind::Boolean,
                _ => IndexedKind::Other,
            };
            // A field of several paths has the value of any of them, so its index does not answer for one path. A field
            // is not offered if a View hides its path. Its index still has the values of the stored objects, and an
            // expression through the View must not test them.
            let can_plan = extractor.has_one_path(index) && extractor.is_offered(index);
            let Some(path) = IndexedPath::parse(&field.json_path, kind).filter(|_| can_plan) else {
                continue;
            };
            let absent = match field.origin {
                Origin::BuiltIn => field.default.as_deref().unwrap_or_default(),
                // The default of these fields is only shown to clients; the index has the empty text for absent values.
                Origin::CustomResourceDefinition | Origin::FieldCache => "",
            };
            paths.push(path.absent_as(absent));
            fields.push(index);
        }
        // The index has all labels of the stored objects, and an expression must not test labels that the View hides. A
        // View that hides any part of `metadata` may hide labels. Tests of labels are then evaluated for the shown
        // objects, and not looked up. This is coarse: it also applies if the View hides only another part of
        // `metadata`.
        let lacks_labels = hidden.is_some_and(|hidden| hidden.part("metadata").is_some());
        let indexed = Indexed { paths, is_namespaced, lacks_labels };
        let bounds = program.analyze(&indexed).when_true;
        if bounds.at_most != bounds.at_least {
            program.check_cost(MOST_FOR_OBJECT)?;
        }
        Ok(CelFilter {
            at_most: bounds.at_most,
            at_least: bounds.at_least,
            indexed,
            program,
            fields,
            hidden: hidden.cloned(),
            time: None,
            evaluated: AtomicU64::new(0),
            cost: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            messages: Mutex::default(),
            found: Mutex::default(),
        })
    }

    /// The filter with a limit of time for each evaluation, besides that of its cost.
    #[must_use]
    pub fn with_time_limit(mut self, time: TimeLimit) -> CelFilter {
        self.time = Some(time);
        self
    }

    /// The expression.
    pub fn text(&self) -> &str {
        self.program.text()
    }

    /// Whether an index excludes some objects, so that not all must be evaluated.
    pub fn is_indexed(&self) -> bool {
        self.at_most != ObjectSet::All
    }

    /// The approximate memory of the filter, in bytes.
    pub fn held_bytes(&self) -> usize {
        // Each character can be a node of the tree, with a type.
        256 * self.text().len() + self.program.pattern_bytes()
    }

    /// The number of evaluated objects.
    pub fn evaluated(&self) -> u64 {
        self.evaluated.load(Ordering::Relaxed)
    }

    /// The number of evaluated objects, and of those for which the expression failed.
    pub(super) fn evaluations(&self) -> (u64, u64) {
        (self.evaluated(), self.failed.load(Ordering::Relaxed))
    }

    /// The objects for which the expression failed; `None` if there are none.
    ///
    /// # Errors
    /// A limit was exceeded, so some selected objects are missing.
    pub fn result(&self) -> Result<Option<FailedObjects>, OverCost> {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = &messages.over_limit {
            return Err(self.over_cost(reason.clone()));
        }
        let count = self.failed.load(Ordering::Relaxed);
        let failed = |first| FailedObjects { count, evaluated: self.evaluated(), first };
        Ok(messages.failure.clone().filter(|_| count > 0).map(failed))
    }

    /// The error for this reason, with the remedy.
    fn over_cost(&self, reason: String) -> OverCost {
        // A FieldCache could index these, so that fewer objects are evaluated.
        let unindexed = self.program.unindexed(&self.indexed, MOST_NAMED);
        let remedy = match &unindexed[..] {
            [] => "select fewer objects with fieldSelector or labelSelector".to_owned(),
            paths => format!(
                "select fewer objects with fieldSelector or labelSelector, or add {} to the selectableFields of a FieldCache",
                paths.join(", ")
            ),
        };
        OverCost { reason, remedy }
    }

    /// Requirements that each object meets for which the expression is true, apart from objects with unknown values of
    /// a field. Each is a selection of one label or field.
    pub(super) fn requirements(&self) -> Vec<Selection> {
        let sets =
            if let ObjectSet::And(sets) = &self.at_most { &sets[..] } else { std::slice::from_ref(&self.at_most) };
        let leaf = |set: &ObjectSet| if let ObjectSet::Leaf(leaf) = set { Some(self.selection_of(leaf)) } else { None };
        sets.iter().filter_map(leaf).collect()
    }

    /// Whether the expression is true for an object of a watch event, within the limit of a usual turn or of a long
    /// one. Neither the cost nor a failure is counted: a watch cannot report them.
    pub fn test_event(&self, object: &Object, is_long_turn: bool) -> EventTest {
        let most = if is_long_turn { MOST_FOR_OBJECT } else { MOST_IN_USUAL_TURN };
        let (evaluation, _) = self.evaluate_shown(object, most);
        let bytes = usize::try_from(evaluation.cost).unwrap_or(usize::MAX);
        match evaluation.result {
            Ok(is_selected) => EventTest::Tested { is_selected, bytes },
            Err(EvaluationError::Failed(_)) => EventTest::Tested { is_selected: false, bytes },
            Err(EvaluationError::OverLimit { .. }) if !is_long_turn => EventTest::NeedsLongTurn,
            Err(over @ (EvaluationError::OverLimit { .. } | EvaluationError::TooLong { .. })) => {
                EventTest::Over(self.over_cost(format!("{}: {over}", object.key())))
            }
        }
    }

    /// Evaluates the expression for what is shown of an object, within a limit of cost. Also returns the length of that
    /// in bytes.
    fn evaluate_shown(&self, object: &Object, most: u64) -> (CelEvaluation, usize) {
        let limit = EvaluationLimit { cost: most, time: self.time };
        let json = object.json();
        let Some(hidden) = &self.hidden else { return (self.program.evaluate(&json, limit), json.len()) };
        match hidden.apply(&json, []) {
            Ok((shown, [])) => (self.program.evaluate(&shown, limit), shown.len()),
            // An object that cannot be pruned is not shown either.
            Err(_) => (CelEvaluation { result: Ok(false), cost: 0 }, 0),
        }
    }

    /// Whether the expression is true for the object. Counts the cost, a failure and the work. Waits for the turns that
    /// reading the object and evaluating the expression need. False after a limit is exceeded.
    pub(super) async fn test_in_turns(&self, object: &Object, work: &mut Work) -> bool {
        if self.is_over() {
            return false;
        }
        work.wait_to_read(object.length()).await;
        let (is_selected, cost) = match self.evaluate_in_usual_turn(object) {
            (Some(is_selected), cost) => (is_selected, cost),
            (None, cost_so_far) => {
                // An evaluation does not yield to other tasks, and this one takes longer than a usual turn. So it waits
                // for a long turn.
                work.wait_to_read(object.length().max(BYTES_OF_LONG_EVALUATION)).await;
                let (is_selected, cost) = self.evaluate(object);
                (is_selected, cost.saturating_add(cost_so_far))
            }
        };
        work.spend(cost.saturating_mul(STEPS_FOR_ONE)).await;
        is_selected
    }

    /// Like [`CelFilter::evaluate`], but with the limit [`MOST_IN_USUAL_TURN`]. If the evaluation exceeds this limit,
    /// the first value is `None`, nothing is counted, and the second value is the cost so far.
    fn evaluate_in_usual_turn(&self, object: &Object) -> (Option<bool>, u64) {
        let (evaluation, length) = self.evaluate_shown(object, MOST_IN_USUAL_TURN);
        if let Err(EvaluationError::OverLimit { .. }) = evaluation.result {
            return (None, evaluation.cost);
        }
        let (is_selected, cost) = self.count(object, evaluation, length);
        (Some(is_selected), cost)
    }

    /// Evaluates the expression for the object with the limit [`MOST_FOR_OBJECT`]. Returns whether it is true, and the
    /// cost with that of reading the object. Counts both.
    fn evaluate(&self, object: &Object) -> (bool, u64) {
        let (evaluation, length) = self.evaluate_shown(object, MOST_FOR_OBJECT);
        self.count(object, evaluation, length)
    }

    /// Counts an evaluation of an object of which `length` bytes were read. Returns whether the expression is true, and
    /// the cost.
    fn count(&self, object: &Object, evaluation: CelEvaluation, length: usize) -> (bool, u64) {
        let cost = evaluation.cost.saturating_add(length as u64 / BYTES_FOR_ONE);
        self.evaluated.fetch_add(1, Ordering::Relaxed);
        let total = self.cost.fetch_add(cost, Ordering::Relaxed).saturating_add(cost);
        let lock = || self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if total > MOST_FOR_REQUEST {
            lock().over_limit.get_or_insert_with(|| {
                format!("the evaluation of {} objects exceeds the cost limit of {MOST_FOR_REQUEST}", self.evaluated())
            });
        }
        match evaluation.result {
            Ok(result) => (result, cost),
            Err(EvaluationError::Failed(error)) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                lock().failure.get_or_insert_with(|| format!("{}: {error}", object.key()));
                (false, cost)
            }
            Err(over @ (EvaluationError::OverLimit { .. } | EvaluationError::TooLong { .. })) => {
                lock().over_limit.get_or_insert_with(|| format!("{}: {over}", object.key()));
                (false, cost)
            }
        }
    }

    /// The slots that were found in the state of this version and epoch; `None` if another state was evaluated last.
    pub(super) fn known(&self, version: Version, epoch: u64) -> Option<RoaringBitmap> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.as_ref().filter(|found| found.version == version && found.epoch == epoch).map(|found| found.slots.clone())
    }

    /// Remembers the slots that were found in a state.
    pub(super) fn remember(&self, version: Version, epoch: u64, slots: RoaringBitmap) {
        let found = FoundSlots { version, epoch, slots };
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
    }

    /// Forgets the slots that were found last. A watch keeps its filter for as long as it lasts, and the slots take
    /// memory that is not counted in [`CelFilter::held_bytes`].
    pub fn forget_found(&self) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Begins the evaluation of another state: resets the counts and the messages.
    pub(super) fn begin(&self) {
        for counter in [&self.evaluated, &self.cost, &self.failed] {
            counter.store(0, Ordering::Relaxed);
        }
        *self.messages.lock().unwrap_or_else(PoisonError::into_inner) = Messages::default();
    }

    /// Whether a limit was exceeded, so that further evaluations are of no use.
    pub(super) fn is_over(&self) -> bool {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).over_limit.is_some()
    }
}

/// Filters with the same expression over the same parts of objects are equal: a selection compares what is requested.
impl PartialEq for CelFilter {
    fn eq(&self, other: &CelFilter) -> bool {
        let is_shown_alike = match (&self.hidden, &other.hidden) {
            (Some(left), Some(right)) => Arc::ptr_eq(left, right),
            (None, None) => true,
            _ => false,
        };
        is_shown_alike && self.text() == other.text()
    }
}

impl Eq for CelFilter {}

impl Hash for CelFilter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}
