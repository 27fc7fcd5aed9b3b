//! The conditions that the operator wrote to FieldCaches and Views, and whether this replica is the leader, for
//! metrics.
//!
//! Only the leader writes conditions, so only the leader has any here. A replica drops them when it is no longer the
//! leader.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::status::{ConditionStatus, Finding};

/// Most objects of one kind with conditions in memory. Users choose the number of objects.
pub const MOST_OBJECTS: usize = 2_000;

/// The kinds that have conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedKind {
    /// FieldCaches.
    FieldCache,
    /// Views.
    View,
}

/// A written condition: its type and status.
pub type ReportedCondition = (&'static str, ConditionStatus);

/// The conditions of the objects of one kind, by name.
type Objects = BTreeMap<String, Vec<ReportedCondition>>;

/// The written conditions.
#[derive(Debug, Default)]
pub struct ReportedConditions {
    leads: AtomicBool,
    field_caches: Mutex<Objects>,
    views: Mutex<Objects>,
}

impl ReportedConditions {
    /// The conditions of objects of this kind.
    fn of_kind(&self, kind: ReportedKind) -> &Mutex<Objects> {
        match kind {
            ReportedKind::FieldCache => &self.field_caches,
            ReportedKind::View => &self.views,
        }
    }

    /// Sets whether this replica is the leader. Drops all conditions if not.
    pub fn set_leads(&self, leads: bool) {
        self.leads.store(leads, Ordering::Release);
        if !leads {
            for kind in [ReportedKind::FieldCache, ReportedKind::View] {
                self.retain(kind, |_| false);
            }
        }
    }

    /// Whether this replica is the leader.
    pub fn leads(&self) -> bool {
        self.leads.load(Ordering::Acquire)
    }

    /// Replaces the conditions of an object. Further objects beyond [`MOST_OBJECTS`] are not recorded.
    pub fn set(&self, kind: ReportedKind, name: &str, findings: &[Finding]) {
        let mut objects = self.of_kind(kind).lock().unwrap_or_else(PoisonError::into_inner);
        if objects.len() < MOST_OBJECTS || objects.contains_key(name) {
            let conditions = findings.iter().map(|finding| (finding.kind, finding.status)).collect();
            objects.insert(name.to_owned(), conditions);
        }
    }

    /// Drops the conditions of objects of this kind that do not exist; `exists` gets the name of an object.
    pub fn retain(&self, kind: ReportedKind, exists: impl Fn(&str) -> bool) {
        self.of_kind(kind).lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| exists(name));
    }

    /// The objects and their conditions, by name.
    pub fn conditions(&self, kind: ReportedKind) -> BTreeMap<String, Vec<ReportedCondition>> {
        self.of_kind(kind).lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
