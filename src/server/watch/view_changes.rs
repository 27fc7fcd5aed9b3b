//! What can change the selection of a watch through a View: its definition, its namespaces, the permissions of the caller,
//! and the caller's Pod. The events that were sent then do not match what the View shows, so the watch must end.

use std::sync::Arc;

use tokio::sync::watch as state;

use super::super::permitted_caller::FollowedReviews;
use super::super::view_request::ViewRequest;
use crate::registry::Resource;
use crate::registry::followed_pod::FollowedPod;
use crate::registry::view_namespaces::WatchedNamespaces;
use crate::registry::views::Restriction;

/// What the selection of a watch through a View depends on. For a watch without a View, all fields are `None`.
pub(super) struct ViewChanges {
    /// Becomes true when the View of the watch ends.
    view_ended: Option<state::Receiver<bool>>,
    /// The caller's Pod, if the selection uses its labels or claims.
    pod: Option<Arc<FollowedPod>>,
    /// The namespaces of the View, if they can change.
    namespaces: Option<WatchedNamespaces>,
    /// The permissions of the caller, if the namespaces of the View depend on them.
    reviews: Option<FollowedReviews>,
}

impl ViewChanges {
    /// What the selection of a watch of `resource` depends on. `resource` has the restrictions of the View; `view` is
    /// `None` for a watch without a View.
    pub(super) fn new(resource: &Resource, view: Option<&ViewRequest>) -> ViewChanges {
        let restriction = resource.view_restriction.as_ref();
        ViewChanges {
            view_ended: restriction.map(Restriction::ended),
            pod: view.and_then(|view| view.consumer.as_ref()?.pod.clone()),
            namespaces: restriction.and_then(Restriction::namespaces).map(WatchedNamespaces::new),
            reviews: view.and_then(ViewRequest::permitted_caller).map(|caller| caller.follow()),
        }
    }

    /// The memory of what the watch follows, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.reviews.as_ref().map_or(0, FollowedReviews::held_bytes)
    }

    /// The reason why the View shows other objects now than when the watch began; `None` if it does not. `resource` is
    /// the resource of the watch.
    pub(super) fn reason(&self, resource: &Resource) -> Option<&'static str> {
        // If the View has ended because its resource is no longer served, this is no reason: the watch first sends the
        // last events of the resource.
        if self.view_ended.as_ref().is_some_and(|ended| *ended.borrow()) && resource.state.departure().is_none() {
            return Some("the View was changed or deleted");
        }
        if let Some(namespaces) = self.namespaces.as_ref().filter(|namespaces| namespaces.is_changed()) {
            return Some(match namespaces.are_permitted() {
                true => "the permissions of the caller changed",
                false => "the namespaces of the View changed",
            });
        }
        match self.pod.as_ref().filter(|pod| pod.is_changed()) {
            Some(pod) if pod.is_without_labels() => Some("the caller's Pod was deleted"),
            Some(_) => Some("the labels of the caller's Pod changed"),
            None => None,
        }
    }

    /// Whether the permissions of the caller must be reviewed before the watch sends more: see
    /// [`ViewChanges::reviewed`].
    pub(super) fn must_review(&mut self) -> bool {
        self.reviews.as_mut().is_some_and(FollowedReviews::is_due)
    }

    /// Waits until the permissions of the caller are reviewed, if they are due.
    pub(super) async fn reviewed(&mut self) {
        if let Some(reviews) = &mut self.reviews {
            reviews.reviewed().await;
        }
    }

    /// Waits until [`ViewChanges::reason`] may return a reason.
    pub(super) async fn changed(&mut self, resource: &Resource) {
        let view_ended = async {
            match &mut self.view_ended {
                Some(ended) if resource.state.departure().is_none() => drop(ended.wait_for(|ended| *ended).await),
                Some(_) | None => std::future::pending().await,
            }
        };
        let pod_changed = async {
            match &self.pod {
                Some(pod) => pod.changed().await,
                None => std::future::pending().await,
            }
        };
        let namespaces_changed = async {
            match &mut self.namespaces {
                Some(namespaces) => namespaces.changed().await,
                None => std::future::pending().await,
            }
        };
        let reviewed = async {
            match &mut self.reviews {
                Some(reviews) => reviews.reviewed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = view_ended => {}
            () = pod_changed => {}
            () = namespaces_changed => {}
            () = reviewed => {}
        }
    }
}
