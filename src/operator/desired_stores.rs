//! The stores that FieldCaches define, computed again whenever FieldCaches or the cluster's resources change.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{FutureExt, Stream, StreamExt};
use kube::runtime::reflector::Store;
use tokio::sync::watch;

use super::settle::settle;
use super::stores::{Judged, Verdicts, judge_all, named};
use super::synced::Synced;
use crate::kinds::FieldCache;
use crate::model::Gvr;
use crate::registry::Definitions;
use crate::source::store_options::{StoreOption, StoreOptions};

/// The stores to keep, and who is told of them.
#[derive(Debug)]
pub struct Wanted {
    /// Stores that are kept whatever FieldCaches say.
    pub kept: BTreeSet<Gvr>,
    /// For the source.
    pub wanted: watch::Sender<Arc<BTreeSet<Gvr>>>,
    /// For the source too: their extra fields.
    pub store_options: watch::Sender<Arc<StoreOptions>>,
    /// For readiness.
    pub synced: Arc<Synced>,
}

/// Judges the FieldCaches whenever they or the cluster's resources change, and names the stores to be kept.
pub async fn judge(
    changes: impl Stream<Item = ()>,
    field_caches: Store<FieldCache>,
    mut definitions: watch::Receiver<Arc<Definitions>>,
    verdicts: watch::Sender<Arc<Verdicts>>,
    Wanted { kept, wanted, store_options, synced }: Wanted,
) {
    let mut changes = std::pin::pin!(changes);
    // Before the FieldCaches have been listed nothing is known of them, which is not the same as that there are none.
    loop {
        if changes.next().await.is_none() {
            return;
        }
        if field_caches.wait_until_ready().now_or_never().is_some() {
            break;
        }
    }
    let mut are_judged = false;
    let mut last = Judged::new();
    loop {
        let current = definitions.borrow_and_update().clone();
        let judged = judge_all(&field_caches.state(), &current, &mut last).await;
        wanted.send_if_modified(|wanted| {
            let found: BTreeSet<Gvr> = named(&judged).union(&kept).cloned().collect();
            let differs = **wanted != found;
            if differs {
                *wanted = Arc::new(found);
            }
            differs
        });
        let mut fields = StoreOptions::default();
        for store in judged.values().flat_map(|verdict| &verdict.stores) {
            let option = StoreOption { fields: store.fields.clone(), excerpt: store.excerpt.clone() };
            fields.set(store.gvr.clone(), option);
        }
        store_options.send_if_modified(|held| {
            let differs = **held != fields;
            if differs {
                *held = Arc::new(fields);
            }
            differs
        });
        // That they have been judged is a change, even if there are none.
        let is_first = !std::mem::replace(&mut are_judged, true);
        verdicts.send_if_modified(|held| {
            let differs = is_first || **held != judged;
            if differs {
                *held = Arc::new(judged);
            }
            differs
        });
        synced.expect(wanted.borrow().clone());
        tokio::select! {
            change = changes.next() => if change.is_none() { return },
            changed = definitions.changed() => if changed.is_err() { return },
        }
        if !settle(&mut changes).await {
            return;
        }
    }
}
