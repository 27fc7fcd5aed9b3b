//! Follows objects of one kind in the cluster: a store of them, and a stream of their changes.
//!
//! Every replica follows, leader or not, since every replica serves reads. Writes nothing.

use std::fmt;
use std::future::ready;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use tokio::time::sleep;

use super::api_error::{LastProblem, described_watch};
use super::bounded::bounded;
use super::lenient::{Lenient, Replaceable};

/// Owner references that stay in memory; fieldcache sets one.
const MOST_OWNERS: usize = 4;

/// Most bytes of the strings of an owner reference that stays in memory; kube-apiserver does not limit them. fieldcache
/// sets CustomResourceDefinitions as owners, whose names have at most 253 bytes.
const LONGEST_OWNER: usize = 1_024;

/// Objects in one page of a list. Each can have more than a megabyte, and a whole page is in memory.
const PAGE: u32 = 16;

/// Follows the selected objects of one kind. Returns a store of them, and a stream with an item for each change. The
/// store is updated only while the stream is polled. The stream does not end: failures are logged and retried.
pub(super) fn follow<K>(client: Client, selected: watcher::Config) -> (Store<K>, impl Stream<Item = ()> + Send)
where
    K: Replaceable + Clone + fmt::Debug + Send + Sync + 'static,
{
    let (store, changes) = follow_strictly(client, selected);
    (store, changes.filter_map(|change| ready(change.ok())))
}

/// Like [`follow`], but the stream has the events. `shorten` drops parts of an object that are not read, in addition to
/// those that [`shorten_metadata`] drops.
pub(super) fn follow_events<K>(
    client: Client,
    selected: watcher::Config,
    shorten: impl FnMut(&mut K) + Send,
) -> (Store<K>, impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send)
where
    K: Replaceable + Clone + fmt::Debug + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let mut logged = LastProblem::default();
    let followed =
        list_and_watch(client, selected, shorten).reflect(writer).inspect(move |event| log(event, &mut logged));
    (store, followed)
}

/// Lists and watches the selected objects of a kind, up to the limits of the kind ([`Replaceable::LIMITS`]).
fn list_and_watch<K>(
    client: Client,
    selected: watcher::Config,
    mut shorten: impl FnMut(&mut K) + Send,
) -> impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send
where
    K: Replaceable + Clone + fmt::Debug + Send + Sync + 'static,
{
    let begin = move || {
        let whole = watcher(Api::<Lenient<K>>::all(client.clone()), selected.clone().page_size(PAGE));
        whole.default_backoff().boxed()
    };
    bounded(begin, move |object: &mut K| {
        shorten_metadata(object.meta_mut());
        shorten(object);
    })
}

/// Drops metadata that fieldcache does not read. Authors choose its length, and kube-apiserver bounds only the whole
/// object.
pub(super) fn shorten_metadata(metadata: &mut ObjectMeta) {
    (metadata.managed_fields, metadata.annotations) = (None, None);
    (metadata.labels, metadata.finalizers) = (None, None);
    metadata.generate_name = None;
    if let Some(owners) = &mut metadata.owner_references {
        let length =
            |owner: &OwnerReference| owner.api_version.len() + owner.kind.len() + owner.name.len() + owner.uid.len();
        owners.retain(|owner| length(owner) <= LONGEST_OWNER);
        owners.truncate(MOST_OWNERS);
        owners.shrink_to_fit();
    }
}

/// Logs a failed list or watch: as a warning when the problem is new, and at level debug while it repeats.
fn log<K: Resource<DynamicType = ()>>(event: &Result<watcher::Event<K>, watcher::Error>, logged: &mut LastProblem) {
    match event {
        Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => {}
        Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_) | watcher::Event::InitDone) => logged.forget(),
        Err(error) => {
            let (kind, problem) = (<K as Resource>::kind(&()), described_watch(error));
            if logged.record_if_new(&problem) {
                tracing::warn!(%kind, problem, "cannot watch objects of this kind, retrying; apply the CustomResourceDefinitions of crds/ and the permissions of manifests/");
            } else {
                tracing::debug!(%kind, problem, "still cannot watch objects of this kind");
            }
        }
    }
}

/// Like [`follow`], with an error as an item while the permission to read the objects is missing. Other failures yield
/// no item, since the last known objects may still be current.
///
/// A watch that succeeds after a rejection has no events until something changes. So the objects are listed again after
/// a rejection.
pub(super) fn follow_strictly<K>(
    client: Client,
    selected: watcher::Config,
) -> (Store<K>, impl Stream<Item = Result<(), NotPermitted>> + Send)
where
    K: Replaceable + Clone + fmt::Debug + Send + Sync + 'static,
{
    follow_events_strictly(move || list_and_watch(client.clone(), selected.clone(), |_: &mut K| {}).boxed())
}

/// Like [`follow_strictly`], for the events of the stream that `begin` returns, which lists all objects and then
/// watches them. `begin` is called again after each rejection.
pub(super) fn follow_events_strictly<K>(
    mut begin: impl FnMut() -> BoxStream<'static, Result<watcher::Event<K>, watcher::Error>> + Send,
) -> (Store<K>, impl Stream<Item = Result<(), NotPermitted>> + Send)
where
    K: Resource<DynamicType = ()> + Clone + fmt::Debug + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let watching = Watching { events: begin(), begin, writer, logged: LastProblem::default(), delay: Duration::ZERO };
    let changes = stream::unfold(watching, |mut watching| async move {
        loop {
            let event = watching.events.next().await?;
            log(&event, &mut watching.logged);
            match event {
                Ok(event) => {
                    watching.writer.apply_watcher_event(&event);
                    if !matches!(event, watcher::Event::Init | watcher::Event::InitApply(_)) {
                        watching.delay = Duration::ZERO;
                        return Some((Ok(()), watching));
                    }
                }
                Err(error) if is_forbidden(&error) => {
                    // Yielded before the delay, so that the caller knows of the rejection at once.
                    let delay = watching.delay;
                    watching.delay = (delay * 2).clamp(FIRST_DELAY, LONGEST_DELAY);
                    let again = (watching.begin)();
                    watching.events = stream::once(sleep(delay)).flat_map(|()| stream::empty()).chain(again).boxed();
                    return Some((Err(NotPermitted), watching));
                }
                Err(_) => {}
            }
        }
    });
    (store, changes)
}

/// Delays before the objects are listed again after a rejection: none after the first one, then the first delay, then
/// twice as long each time.
const FIRST_DELAY: Duration = Duration::from_millis(800);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// The state of a stream of [`follow_events_strictly`]. `delay` is the pause before the next list after a rejection.
struct Watching<K, Begin>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    events: BoxStream<'static, Result<watcher::Event<K>, watcher::Error>>,
    begin: Begin,
    writer: Writer<K>,
    logged: LastProblem,
    delay: Duration,
}

/// The API server rejects reads of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotPermitted;

/// Whether the API server rejected the list or watch with 401 or 403.
fn is_forbidden(error: &watcher::Error) -> bool {
    use kube::Error::Api;
    let (watcher::Error::InitialListFailed(Api(status))
    | watcher::Error::WatchStartFailed(Api(status))
    | watcher::Error::WatchError(status)) = error
    else {
        return false;
    };
    matches!(status.code, 401 | 403)
}
