//! A plan that has run, as a tree of steps, with the estimate and the result of each step. It is part of an explanation.
//!
//! Ordinary requests record nothing. `plan` records a [`PlanTrace`] while it runs, and `cel_hits` counts the sets of an
//! expression. `super::explain` combines them, and `server` writes the tree as JSON.

/// The maximum length of the text of a step, in bytes. A requirement can have thousands of values.
const LONGEST_TEXT: usize = 160;

/// The maximum number of steps that describe one tree. Further steps are left out.
const MOST_STEPS: usize = 64;

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    /// The requirement of the step, in the syntax of a selector, or the operation, such as `all of`.
    pub text: String,
    /// What the step is expected to do, before it runs; `None` for an operation on the results of inner steps.
    pub estimate: Option<StepEstimate>,
    /// The number of objects after the step; `None` if the step did not run separately.
    pub left: Option<u64>,
    /// The steps that this one consists of, in the order in which they run.
    pub inner: Vec<PlanStep>,
}

/// What a step is expected to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEstimate {
    /// The index finds at most this number of objects.
    Finds(u64),
    /// The index finds at most this number of objects, which are removed from the candidates.
    Removes(u64),
    /// This number of objects is tested one by one.
    Tests(u64),
    /// An expression is evaluated for this number of objects.
    Evaluates {
        /// The number of evaluated objects.
        objects: u64,
        /// The number of objects for which the evaluation failed.
        failed: u64,
    },
}

/// The number of steps that a tree may still get.
#[derive(Debug)]
pub(super) struct StepBudget(usize);

impl Default for StepBudget {
    fn default() -> StepBudget {
        StepBudget(MOST_STEPS)
    }
}

impl StepBudget {
    /// Takes one step from the budget. Returns whether there was one.
    pub(super) fn take(&mut self) -> bool {
        let is_left = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        is_left
    }
}

/// What a plan records while it runs.
#[derive(Debug, Default)]
pub(super) struct PlanTrace {
    is_recorded: bool,
    events: Vec<TraceEvent>,
}

/// A part of a plan that has run.
#[derive(Clone, Copy, Debug)]
pub(super) enum TraceEvent {
    /// The next set of the plan was used. `left`: the number of candidates afterwards.
    Set { left: u64 },
    /// This number of `objects` was tested with all requirements. `left`: the number of candidates afterwards.
    Tested { objects: u64, left: u64 },
}

impl PlanTrace {
    /// A trace that records events. The default one does not.
    pub(super) fn recorded() -> PlanTrace {
        PlanTrace { is_recorded: true, events: Vec::new() }
    }

    /// Adds an event, if the trace records events.
    pub(super) fn add(&mut self, event: TraceEvent) {
        if self.is_recorded {
            self.events.push(event);
        }
    }

    /// The events, in their order.
    pub(super) fn events(&self) -> &[TraceEvent] {
        &self.events
    }
}

impl PlanStep {
    /// A step without numbers and without inner steps. A long text is shortened.
    pub(super) fn new(text: &str) -> PlanStep {
        let text = match text.len() > LONGEST_TEXT {
            true => format!("{}...", &text[..text.floor_char_boundary(LONGEST_TEXT)]),
            false => text.to_owned(),
        };
        PlanStep { text, estimate: None, left: None, inner: Vec::new() }
    }

    /// The step with its numbers: what it is expected to do, and the number of objects after it.
    pub(super) fn with_counts(self, estimate: Option<StepEstimate>, left: Option<u64>) -> PlanStep {
        PlanStep { estimate, left, ..self }
    }

    /// A further step on the result of this one, such as sorting. It does not change the number of objects.
    #[must_use]
    pub fn then(self, text: &str) -> PlanStep {
        let left = self.left;
        PlanStep { left, ..PlanStep::combining(text, vec![self]) }
    }

    /// The step that consists of these. `text` describes how they are combined.
    pub(super) fn combining(text: &str, inner: Vec<PlanStep>) -> PlanStep {
        PlanStep { inner, ..PlanStep::new(text) }
    }
}
