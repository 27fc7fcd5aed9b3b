//! Reports when a store becomes ready, begins to load, fails or is removed, without changes of objects. Statuses depend
//! on these.

use std::sync::Arc;

use futures::future::select_all;
use tokio::sync::watch;

use crate::registry::Registry;

/// Increments `changed` whenever the phase of a store changes, or stores are added or removed. Ends with the registry,
/// or when stores are added or removed and `changed` has no receiver any more.
pub async fn follow(registry: Arc<Registry>, changed: watch::Sender<u64>) {
    let mut catalogs = registry.subscribe();
    while !changed.is_closed() {
        let catalog = catalogs.borrow_and_update().clone();
        changed.send_modify(|count| *count += 1);
        let mut phases: Vec<_> = catalog.stores().map(|resource| resource.state.phases()).collect();
        loop {
            let waits = phases.iter_mut().map(|phase| Box::pin(phase.changed()));
            let any = async {
                let waits: Vec<_> = waits.collect();
                if waits.is_empty() {
                    return std::future::pending().await;
                }
                // A closed channel belongs to a resource that the next catalog does not have.
                let _ = select_all(waits).await;
            };
            tokio::select! {
                replaced = catalogs.changed() => {
                    if replaced.is_err() {
                        return;
                    }
                    break;
                }
                () = any => changed.send_modify(|count| *count += 1),
            }
        }
    }
}
