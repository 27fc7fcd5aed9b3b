//! Kubernetes Events for what a person would want to know: that something became ready, or why it is not.
//!
//! One for each change of a condition's reason, none for a load, which comes and goes by itself. An Event that cannot be written is not
//! tried again: the condition says the same.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType, Recorder};

use super::status::{ConditionStatus, Finding};
use crate::kinds::conditions::condition;

/// Reasons that pass by themselves.
const PASSING: [&str; 2] = ["Loading", "NotSynced"];
/// Longest note of an Event.
const MAX_NOTE: usize = 1000;

/// Tells of a finding if its condition said something else before.
pub(super) async fn record(
    recorder: &Recorder,
    about: &ObjectReference,
    held: &[Condition],
    finding: Option<&Finding>,
    action: &str,
) {
    let Some(finding) = finding.filter(|finding| !PASSING.contains(&&*finding.reason)) else { return };
    if condition(held, finding.kind).is_some_and(|said| said.reason == finding.reason) {
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
        tracing::debug!(error = %error, "an Event was not written");
    }
}
