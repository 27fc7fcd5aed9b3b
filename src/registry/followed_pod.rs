//! The caller's own Pod, followed while a watch depends on its labels or its existence.

use std::sync::Arc;

use super::consumer::ConsumerTerms;
use super::dispatched_event::DispatchedEvent;
use super::event_dispatcher::{MailboxContents, Subscription};
use super::pod_head::PodHead;
use super::resource_state::{LoadState, ResourceState};
use crate::extract::FieldRef;
use crate::model::Version;
use crate::query::{FieldTerm, Selection};
use crate::selector::{LabelSelector, Operator};
use crate::store::Snapshot;

/// The Pod of a caller, on which the selection of a watch depends.
#[derive(Debug)]
pub struct FollowedPod {
    /// The resource of Pods.
    state: Arc<ResourceState>,
    subscription: Subscription,
    key: String,
    uid: String,
    terms: Arc<ConsumerTerms>,
    /// The resourceVersion of the Pod when it was read.
    version: Version,
    /// The requirements that its labels made then.
    labels: LabelSelector,
}

impl FollowedPod {
    /// Follows the Pod of a caller, which is read from `snapshot`. `state` is the resource of Pods, and `terms` are
    /// those of the View. `None` if no Pod has that namespace, name and uid, or the Pod cannot be parsed.
    pub fn new(
        state: &Arc<ResourceState>,
        snapshot: &Snapshot,
        (namespace, name, uid): (&str, &str, &str),
        terms: &Arc<ConsumerTerms>,
    ) -> Option<FollowedPod> {
        let is_exactly = |field, value: &str| FieldTerm::new(field, Operator::equal_to(value));
        let selection = Selection {
            namespace: Some(namespace.to_owned()),
            fields: vec![is_exactly(FieldRef::Name, name)],
            ..Selection::default()
        };
        let key = format!("{namespace}/{name}");
        // Changes since the snapshot are found at the first check: a new mailbox counts as overflowed.
        let subscription = state.dispatcher().subscribe(&selection, false);
        let pod = snapshot.get(&key)?;
        let labels = PodHead::read(pod)?.selector_of_labels(uid, terms)?;
        let (state, uid, terms, version) = (state.clone(), uid.to_owned(), terms.clone(), pod.version());
        Some(FollowedPod { state, subscription, key, uid, terms, version, labels })
    }

    /// The requirements that its labels made when it was read.
    pub fn labels(&self) -> &LabelSelector {
        &self.labels
    }

    /// Whether only the existence of the Pod matters, not its labels.
    pub fn is_without_labels(&self) -> bool {
        !self.terms.needs_pod()
    }

    /// Whether the requirements have changed since the Pod was read, or the Pod is gone or replaced. Call it after
    /// [`FollowedPod::changed`]: without a new change of the Pod, the result is false.
    pub fn is_changed(&self) -> bool {
        let last = match self.subscription.take() {
            MailboxContents::Changes { mut changes, .. } => match changes.pop() {
                Some(last) => Some(last),
                None => return false,
            },
            MailboxContents::Overflowed => None,
        };
        match self.state.load_state() {
            LoadState::Ready(snapshot) => {
                // Without another version, the Pod is unchanged, or it was deleted.
                let Some(pod) = snapshot.get(&self.key).filter(|pod| pod.version() != self.version) else {
                    return snapshot.get(&self.key).is_none();
                };
                // The snapshot may be newer than the last change in the mailbox. If it is not, all watches that follow
                // the Pod share the parsed Pod.
                let is_last = |event: &Arc<DispatchedEvent>| {
                    event.change.after.as_ref().is_some_and(|after| after.version() == pod.version())
                };
                let labels = match last.filter(is_last) {
                    Some(event) => event.pod().and_then(|head| head.selector_of_labels(&self.uid, &self.terms)),
                    None => PodHead::read(pod).and_then(|head| head.selector_of_labels(&self.uid, &self.terms)),
                };
                labels.as_ref() != Some(&self.labels)
            }
            // Pods are not served any more, or from another store, whose changes do not arrive here.
            LoadState::Gone(_) => true,
            // The state of the Pod is unknown for now, and the caller was allowed to see what was shown.
            LoadState::Idle | LoadState::Loading(_) | LoadState::SourceError { .. } | LoadState::OverMemory(_) => false,
        }
    }

    /// Waits until the Pod may have changed.
    pub async fn changed(&self) {
        self.subscription.changed().await;
    }
}
