//! The stores that FieldCaches define, computed again whenever FieldCaches or the cluster's resources change.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{FutureExt, Stream, StreamExt};
use kube::runtime::reflector::Store;
use tokio::sync::watch;

use super::settle::settle;
use super::stores::{EvaluatedFieldCaches, FieldCacheResults, cached_resources, evaluate_all};
use super::synced::Synced;
use crate::kinds::FieldCache;
use crate::model::Gvr;
use crate::registry::Definitions;
use crate::source::store_options::{StoreOption, StoreOptions};

/// Where [`run`] publishes the stores that FieldCaches define.
#[derive(Debug)]
pub struct DesiredStores {
    /// Resources with a store whatever FieldCaches define.
    pub always_cached: BTreeSet<Gvr>,
    /// Tells the source which resources must have a store.
    pub wanted: watch::Sender<Arc<BTreeSet<Gvr>>>,
    /// Tells the source the extra fields and scopes of the stores.
    pub store_options: watch::Sender<Arc<StoreOptions>>,
    /// The state of readiness.
    pub synced: Arc<Synced>,
}

/// Evaluates the FieldCaches whenever they or the cluster's resources change, and publishes `results` and the stores
/// that they define. `changes` has an item for each change of `field_caches`. Returns when `changes` or `definitions`
/// ends.
pub async fn run(
    changes: impl Stream<Item = ()>,
    field_caches: Store<FieldCache>,
    mut definitions: watch::Receiver<Arc<Definitions>>,
    results: watch::Sender<Arc<FieldCacheResults>>,
    DesiredStores { always_cached: kept, wanted, store_options, synced }: DesiredStores,
) {
    let mut changes = std::pin::pin!(changes);
    // Until the FieldCaches are listed, they are unknown, which is not the same as none.
    loop {
        if changes.next().await.is_none() {
            return;
        }
        if field_caches.wait_until_ready().now_or_never().is_some() {
            break;
        }
    }
    let mut are_evaluated = false;
    let mut last = EvaluatedFieldCaches::new();
    loop {
        let current = definitions.borrow_and_update().clone();
        let evaluated = evaluate_all(&field_caches.state(), &current, &mut last).await;
        wanted.send_if_modified(|wanted| {
            let found: BTreeSet<Gvr> = cached_resources(&evaluated).union(&kept).cloned().collect();
            let differs = **wanted != found;
            if differs {
                *wanted = Arc::new(found);
            }
            differs
        });
        let mut fields = StoreOptions::default();
        for store in evaluated.values().flat_map(|result| &result.stores) {
            let option = StoreOption { fields: store.fields.clone(), partial_store: store.scope.clone() };
            fields.set(store.gvr.clone(), option);
        }
        store_options.send_if_modified(|previous| {
            let differs = **previous != fields;
            if differs {
                *previous = Arc::new(fields);
            }
            differs
        });
        // The first evaluation is a change, even without FieldCaches.
        let is_first = !std::mem::replace(&mut are_evaluated, true);
        results.send_if_modified(|previous| {
            let differs = is_first || **previous != evaluated;
            if differs {
                *previous = Arc::new(evaluated);
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
