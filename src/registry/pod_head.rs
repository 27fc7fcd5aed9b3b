//! The uid and the labels of a Pod, for Views that take values from the labels of their caller's Pod.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::consumer::ConsumerTerms;
use crate::selector::LabelSelector;
use crate::store::Object;

/// The uid and the labels of a Pod.
#[derive(Debug, Deserialize)]
pub(super) struct PodHead {
    metadata: PodMetadata,
}

#[derive(Debug, Deserialize)]
struct PodMetadata {
    uid: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl PodHead {
    /// Parses a Pod; `None` if it has no valid metadata.
    pub(super) fn read(pod: &Object) -> Option<PodHead> {
        serde_json::from_slice(&pod.json()).ok()
    }

    /// The selector that a View's `terms` (matchLabelKeys, mismatchLabelKeys) make of this Pod's labels. `None` if its
    /// uid is not `uid`, that of the Pod of the caller's token: another Pod of the same name has replaced it.
    pub(super) fn selector_of_labels(&self, uid: &str, terms: &ConsumerTerms) -> Option<LabelSelector> {
        (self.metadata.uid == uid).then(|| terms.labels(&self.metadata.labels))
    }
}
