//! Which event a change is for a watch, also with a CEL expression, whose evaluation can need a long turn.
//!
//! [`crate::subscribe`] decides without an expression. An expression is evaluated for the object before and after each
//! change that meets the other requirements. If it fails for an object, that object is not selected; a watch has no
//! place to report the failure.

use crate::flow_control::long_work::{count_work, may_read};
use crate::query::{BYTES_OF_LONG_EVALUATION, CelFilter, CompactSelection, EventTest};
use crate::store::{Change, Object};
use crate::subscribe::{Transition, transition, try_transition};
use crate::wire::api_error::ApiError;

/// Why it is not known whether an object is selected.
enum Untested {
    /// Its evaluation does not fit into this turn.
    NeedsLongTurn,
    /// Its evaluation costs more than the limit.
    Failed(ApiError),
}

/// What a change is for a watch.
pub(super) enum WatchedChange {
    /// Its event; `None` if the object was selected neither before nor after the change.
    Known(Option<Transition>),
    /// The expression must be evaluated in a long turn, which the caller has requested now.
    NeedsLongTurn,
}

/// The event of a change for a watch with this selection.
///
/// # Errors
/// 400 if the evaluation of the expression costs more than the limit. The error names the remedy.
pub(super) fn watched_change(selection: &CompactSelection, change: &Change) -> Result<WatchedChange, ApiError> {
    let Some(cel) = selection.cel() else { return Ok(WatchedChange::Known(transition(selection, change))) };
    let selects = |object: &Object| Ok(selection.meets_requirements(object) && evaluate(cel, object)?);
    match try_transition(change, selects) {
        Ok(transition) => Ok(WatchedChange::Known(transition)),
        Err(Untested::NeedsLongTurn) => Ok(WatchedChange::NeedsLongTurn),
        Err(Untested::Failed(error)) => Err(error),
    }
}

/// Whether the expression is true for the object. Counts the work for the current turn.
fn evaluate(cel: &CelFilter, object: &Object) -> Result<bool, Untested> {
    let mut tested = test(cel, object, false)?;
    if tested == EventTest::NeedsLongTurn {
        tested = test(cel, object, true)?;
    }
    match tested {
        EventTest::Tested { is_selected, bytes } => {
            count_work(bytes);
            Ok(is_selected)
        }
        EventTest::NeedsLongTurn => Err(Untested::NeedsLongTurn),
        EventTest::Over(over) => Err(Untested::Failed(ApiError::BadRequest(over.to_string()))),
    }
}

/// Tests the object within the limit of a usual turn, or of a long one.
///
/// # Errors
/// The current turn is too short for that. A long one is requested then.
fn test(cel: &CelFilter, object: &Object, is_long: bool) -> Result<EventTest, Untested> {
    let bytes = if is_long { object.length().max(BYTES_OF_LONG_EVALUATION) } else { object.length() };
    if !may_read(bytes) {
        return Err(Untested::NeedsLongTurn);
    }
    count_work(object.length());
    Ok(cel.test_event(object, is_long))
}
