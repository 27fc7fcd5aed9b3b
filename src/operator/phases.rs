//! When a store becomes ready, begins to load, is refused or goes: what statuses wait for, without the changes of objects.

use std::sync::Arc;

use futures::future::select_all;
use tokio::sync::watch;

use crate::registry::Registry;

/// Counts up in `changed` whenever the phase of some store changes or stores come and go. Ends with the receivers.
pub async fn follow(registry: Arc<Registry>, changed: watch::Sender<u64>) {
    let mut catalogs = registry.subscribe();
    while !changed.is_closed() {
        let catalog = catalogs.borrow_and_update().clone();
        changed.send_modify(|count| *count += 1);
        let mut phases: Vec<_> = catalog.copies().map(|resource| resource.live.phases()).collect();
        loop {
            let waits = phases.iter_mut().map(|phase| Box::pin(phase.changed()));
            let any = async {
                let waits: Vec<_> = waits.collect();
                if waits.is_empty() {
                    return std::future::pending().await;
                }
                // A sender that is gone belongs to a resource that goes with the next catalog.
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
