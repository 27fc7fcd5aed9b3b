//! Conditions that retain their transition time while their status is the same, and counts that change in steps, so
//! that statuses are written rarely.
//!
//! Pure. `field_caches`, `views` and `selectable_resources` write them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::kinds::conditions::{MAX_MESSAGE, condition};

/// The field manager of everything that the operator writes, in managedFields.
pub const FIELD_MANAGER: &str = "fieldcache-operator";

/// Most statuses of objects of one kind that are written at a time. Users choose how many objects there are, and the
/// API server must have capacity left for the access reviews of clients' requests.
pub(super) const MOST_WRITES: u16 = 4;

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It is not known whether the condition holds.
    Unknown,
}

impl ConditionStatus {
    /// The status as it is in a condition.
    pub fn as_str(self) -> &'static str {
        match self {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        }
    }
}

/// A desired condition, without times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its type.
    pub kind: &'static str,
    /// Its status.
    pub status: ConditionStatus,
    /// Its reason, for programs.
    pub reason: String,
    /// The message for users.
    pub message: String,
}

impl Finding {
    /// A condition of type `kind` for a status.
    pub fn new(
        kind: &'static str,
        status: ConditionStatus,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Finding {
        Finding { kind, status, reason: reason.into(), message: message.into() }
    }
}

/// Builds conditions from findings, with `observedGeneration` `generation`. A condition with the same status as in
/// `previous` keeps its last transition time; others have `now`.
pub fn conditions(
    previous: &[Condition],
    findings: &[Finding],
    generation: Option<i64>,
    now: jiff::Timestamp,
) -> Vec<Condition> {
    let made = |finding: &Finding| {
        let status = finding.status.as_str();
        let since = condition(previous, finding.kind)
            .filter(|before| before.status == status)
            .map_or(Time(now), |before| before.last_transition_time.clone());
        Condition {
            type_: finding.kind.to_owned(),
            status: status.to_owned(),
            reason: finding.reason.clone(),
            message: finding.message.chars().take(MAX_MESSAGE).collect(),
            observed_generation: generation,
            last_transition_time: since,
        }
    };
    findings.iter().map(made).collect()
}

/// The count to write to a status: the one that the status shows, as long as the real one is within a tenth of it. A
/// change from or to zero is always written. `shown` is `None` if the status has no count.
pub fn coarse(shown: Option<i64>, real: u64) -> i64 {
    let real = i64::try_from(real).unwrap_or(i64::MAX);
    match shown {
        Some(shown) if (shown == 0) == (real == 0) && shown.abs_diff(real) <= shown.unsigned_abs() / 10 => shown,
        Some(_) | None => real,
    }
}
