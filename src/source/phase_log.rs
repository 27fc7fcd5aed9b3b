//! Logs the life cycle of a cluster's stores: which are served, when one was loaded, and why it ended.
//!
//! Errors on the way are logged where they happen. Folders are not logged here: their contents are printed when they
//! are served.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;

use tokio::time::Instant;

use crate::model::Gvr;
use crate::registry::{Catalog, GoneReason, LoadPhase, LoadState, Resource};

/// How many resources one log line names.
const MOST_NAMES: usize = 8;

/// Runs the sync of a resource (`keeping`) to its end, and returns its result. Logs each time the resource has loaded,
/// and why it ended.
pub(super) async fn logged<Left>(resource: Arc<Resource>, keeping: impl Future<Output = Left>) -> Left {
    let left = tokio::select! {
        biased;
        left = keeping => left,
        never = follow(&resource) => match never {}
    };
    if let LoadState::Gone(gone) = resource.state.load_state()
        && gone.had_store
    {
        let reason = match gone.reason {
            GoneReason::Replaced => "its CRD or its fields have changed",
            GoneReason::NotServed => "its CRD was deleted",
            GoneReason::VersionEnded => "its CRD no longer serves this version",
            GoneReason::NotOffered => "the source no longer serves it",
            GoneReason::NotCached => "no FieldCache configures it any more",
        };
        tracing::info!(resource = %resource.gvr, reason, "no longer cached");
    }
    left
}

/// Logs each time the resource has loaded, with the duration. Never returns.
async fn follow(resource: &Resource) -> Infallible {
    let mut phases = resource.state.phases();
    let mut begun = Instant::now();
    let mut before = LoadPhase::Idle;
    loop {
        let phase = *phases.borrow_and_update();
        if phase == LoadPhase::Loading && before != LoadPhase::Loading {
            begun = Instant::now();
        }
        if let LoadState::Ready(snapshot) = resource.state.load_state()
            && before != LoadPhase::Ready
            && phase == LoadPhase::Ready
        {
            let took = begun.elapsed();
            tracing::info!(resource = %resource.gvr, objects = snapshot.len(), version = %snapshot.version(), ?took, "loaded");
        }
        before = phase;
        if phases.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Logs how the set of served resources has changed.
pub(super) fn log_served(previous: &Catalog, next: &Catalog) {
    let names = |catalog: &Catalog| catalog.stores().map(|resource| resource.gvr.clone()).collect::<BTreeSet<_>>();
    let (previous, next) = (names(previous), names(next));
    let (added, removed) = (next.difference(&previous), previous.difference(&next));
    let (added, removed) = (listed(added), listed(removed));
    if !(added.is_empty() && removed.is_empty()) {
        tracing::info!(resources = next.len(), added, removed, "the served resources have changed");
    }
}

/// The first names, and the number of the others.
fn listed<'a>(resources: impl Iterator<Item = &'a Gvr>) -> String {
    let mut text = String::new();
    let mut more = 0;
    for (index, gvr) in resources.enumerate() {
        if index >= MOST_NAMES {
            more += 1;
            continue;
        }
        let separator = if index == 0 { "" } else { ", " };
        // Writing to a String does not fail.
        let _ = write!(text, "{separator}{gvr}");
    }
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_names_and_the_number_of_the_others_are_listed() {
        let resources =
            |count: usize| (0..count).map(|index| Gvr::new("e.com", "v1", format!("r{index}"))).collect::<Vec<_>>();
        for (count, expected) in [
            (0, ""),
            (1, "r0.v1.e.com"),
            (2, "r0.v1.e.com, r1.v1.e.com"),
            (
                8,
                "r0.v1.e.com, r1.v1.e.com, r2.v1.e.com, r3.v1.e.com, r4.v1.e.com, r5.v1.e.com, r6.v1.e.com, r7.v1.e.com",
            ),
            (
                10,
                "r0.v1.e.com, r1.v1.e.com, r2.v1.e.com, r3.v1.e.com, r4.v1.e.com, r5.v1.e.com, r6.v1.e.com, r7.v1.e.com and 2 more",
            ),
        ] {
            assert_eq!(listed(resources(count).iter()), expected, "{count} resources");
        }
    }
}
