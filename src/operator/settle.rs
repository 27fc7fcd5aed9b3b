//! Gathers changes that arrive together.
//!
//! A watch yields only the events that the task of its connection has delivered, which are a few at a time. A
//! reader that waits a moment gets the others too, and evaluates all of them at once.

use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use tokio::time::sleep;

/// How long changes are gathered after the first one.
const SETTLE: Duration = Duration::from_millis(100);

/// Takes changes from the stream for a moment. Their objects are in a store already, so the items have no content.
/// Returns false at once if the stream has ended.
///
/// Nothing is lost if this future is dropped.
pub(super) async fn settle(changes: &mut (impl Stream<Item = ()> + Unpin)) -> bool {
    let mut settled = pin!(sleep(SETTLE));
    loop {
        tokio::select! {
            // The timer comes first, so that a stream that always has changes does not delay the end.
            biased;
            () = &mut settled => return true,
            change = changes.next() => if change.is_none() { return false },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use futures::stream::{self, BoxStream};
    use futures::{FutureExt, StreamExt};
    use kube::runtime::reflector::store::Writer;
    use kube::runtime::{reflector, watcher};
    use tokio::sync::{mpsc, watch};
    use tokio::time::Instant;

    use super::{SETTLE, settle};
    use crate::kinds::{FieldCache, View};
    use crate::operator::controller_tasks::ControllerTasks;
    use crate::operator::desired_stores::{self, DesiredStores};
    use crate::operator::replica_state::ReplicaState;
    use crate::operator::{admission_policy, views};
    use crate::registry::{Catalog, Definitions, Registry};

    const MANY: usize = 3_000;

    /// A stream that another task fills one by one, each item when the one before was read. It ends with the task.
    fn delivered(batches: &'static [usize]) -> (BoxStream<'static, ()>, mpsc::Sender<()>) {
        let (sender, receiver) = mpsc::channel(1);
        let (deliver, mut wake) = mpsc::channel(1);
        let mut tasks = ControllerTasks::default();
        tasks.start(async move {
            for batch in batches {
                for _ in 0..*batch {
                    if sender.send(()).await.is_err() {
                        return;
                    }
                }
                let _: Option<()> = wake.recv().await;
            }
        });
        let changes = stream::unfold((receiver, tasks), |(mut receiver, tasks)| async move {
            let change = receiver.recv().await;
            change.map(|()| ((), (receiver, tasks)))
        });
        (changes.boxed(), deliver)
    }

    #[tokio::test(start_paused = true)]
    async fn all_changes_of_a_burst_are_read_in_one_settling_time() {
        let (mut changes, deliver) = delivered(&[MANY, MANY]);
        let start = Instant::now();
        assert!(settle(&mut changes).await, "the stream goes on");
        assert_eq!(start.elapsed().as_millis(), SETTLE.as_millis());
        deliver.try_send(()).expect("the changes before were read");
        assert!(settle(&mut changes).await, "the stream goes on");
        assert_eq!(start.elapsed().as_millis(), 2 * SETTLE.as_millis());
        assert_eq!(changes.next().now_or_never(), None, "nothing is left");
        deliver.try_send(()).expect("the changes before were read");
        assert!(!settle(&mut changes).await, "the stream has ended");
        assert_eq!(start.elapsed().as_millis(), 2 * SETTLE.as_millis(), "it is not waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_changes_of_field_caches_or_views_is_handled_in_a_few_rounds() {
        let (field_caches, mut writer) = reflector::store::<FieldCache>();
        list_none(&mut writer);
        let (results, definitions) = (watch::Sender::default(), watch::Sender::new(Arc::new(Definitions::default())));
        let wanted = DesiredStores {
            always_cached: BTreeSet::new(),
            wanted: watch::Sender::default(),
            store_options: watch::Sender::default(),
            synced: Arc::default(),
        };
        let replica = ReplicaState {
            registry: Arc::new(Registry::new(Catalog::default())),
            definitions: definitions.subscribe(),
            results: results.subscribe(),
            policy: watch::Sender::new(admission_policy::unread()).subscribe(),
        };
        let start = Instant::now();
        let (changes, deliver) = delivered(&[MANY]);
        drop(deliver);
        desired_stores::run(changes, field_caches, definitions.subscribe(), results.clone(), wanted).await;
        assert!(start.elapsed() <= SETTLE * 3, "FieldCaches: {:?}", start.elapsed());

        let (views, mut writer) = reflector::store::<View>();
        list_none(&mut writer);
        let start = Instant::now();
        let (changes, deliver) = delivered(&[MANY]);
        drop(deliver);
        views::serve(replica, views, changes, watch::Sender::default(), &Arc::default()).await;
        assert!(start.elapsed() <= SETTLE * 3, "Views: {:?}", start.elapsed());
    }

    fn list_none<K>(writer: &mut Writer<K>)
    where
        K: kube::Resource<DynamicType = ()> + Clone + 'static,
    {
        [watcher::Event::Init, watcher::Event::InitDone].iter().for_each(|event| writer.apply_watcher_event(event));
    }
}
