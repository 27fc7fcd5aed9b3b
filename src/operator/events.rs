//! Kubernetes Events: that an object became ready, or why it is not.
//!
//! There is one for each change of a condition's reason, except for loads, which end by themselves. Failed writes of
//! Events are not retried, since the condition has the same text.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType, Recorder};

use super::status::{ConditionStatus, Finding};
use crate::kinds::conditions::condition;

/// Reasons of temporary states.
const PASSING: [&str; 2] = ["Loading", "NotSynced"];
/// Longest note of an Event.
const MAX_NOTE: usize = 1000;

/// Writes an Event about an object for a finding whose reason differs from that of the current condition of the same
/// type. Writes nothing for `None` and for temporary states. `action` is the field `action` of the Event: what the
/// controller did.
pub(super) async fn record(
    recorder: &Recorder,
    about: &ObjectReference,
    current: &[Condition],
    finding: Option<&Finding>,
    action: &str,
) {
    let Some(finding) = finding.filter(|finding| !PASSING.contains(&&*finding.reason)) else { return };
    if condition(current, finding.kind).is_some_and(|known| known.reason == finding.reason) {
        return;
    }
    let event = Event {
        type_: if finding.status == ConditionStatus::True { EventType::Normal } else { EventType::Warning },
        reason: finding.reason.clone(),
        note: Some(finding.message.chars().take(MAX_NOTE).collect()),
        action: action.to_owned(),
        secondary: None,
    };
    if let Err(error) = recorder.publish(&event, about).await {
        tracing::debug!(error = %error, "cannot write an Event");
    }
}
