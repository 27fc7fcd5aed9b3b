//! The uid and the labels of a Pod, for Views that take values from the labels of their caller's Pod.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::consumer::ConsumerTerms;
use crate::selector::LabelSelector;
use crate::store::Object;

/// The parts of a Pod that are read.
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
    pub(super) fn read(pod: &Object) -> Option<PodHead> {
        serde_json::from_slice(&pod.json()).ok()
    }

    /// The requirements that the Pod's labels make; `None` if it is another Pod of that name.
    pub(super) fn selector_of_labels(&self, uid: &str, terms: &ConsumerTerms) -> Option<LabelSelector> {
        (self.metadata.uid == uid).then(|| terms.labels(&self.metadata.labels))
    }
}
