//! Keeps the feed of one resource in step with a cluster, over bytes.
//!
//! kube-runtime's watcher passes on neither list versions nor bookmarks, on which the guarantees of a cache depend. So
//! this is a state machine of our own. It begins with a streaming list (KEP-3157) where the server supports it,
//! otherwise with LIST in pages and WATCH. Then it watches from the last known version, and relists when that is too
//! old. What may be retried, and how soon, follows client-go's reflector (`tools/cache/reflector.go`).

#![expect(clippy::disallowed_methods, reason = "the edge measures how long a connection lasted, to choose a back-off")]

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use http_body_util::BodyExt;
use tokio::task::yield_now;
use tokio::time::{sleep, sleep_until, timeout};

use super::backoff::Backoff;
use super::collection::{collection, selection};
use super::connection::{Connection, RequestError, too_large_version};
use super::feed::{Feed, SourceEvent};
use super::metadata_pages::read_page;
use super::newest::{ComparisonGoal, NewestComparison, compare_with_newest};
use super::pages::{MAX_ITEM_BYTES, Page};
use super::watch_decoder::{self, EventType, Lines, MAX_NOTICE_BYTES};
use crate::model::{Gvr, Version};
use crate::registry::fieldcache_protocol::PROGRESS_PARAMETER;
use crate::registry::{LoadState, Resource, ResourceState};

/// Objects in a page of a list: kubectl's and client-go's.
const PAGE: usize = 500;
/// For this long after a CRD appeared or changed, the API server may still use the old one. It rebuilds its storage a
/// moment later and then ends the watches of the old one.
const DEFINITION_SETTLES: Duration = Duration::from_secs(60);
/// Length of a watch: kube-rs's number, a little below client-go's shortest. It is fixed, not random, so that an early
/// end can be distinguished from a due one.
const WATCH_SECONDS: u64 = 290;
/// Length of a watch that must report progress soon. A server sends a bookmark two seconds before the end of a watch,
/// with some jitter. For a length of one or two seconds it sends none (seen with kube-apiserver 1.36).
const PROGRESS_SECONDS: u64 = 3;
/// A bookmark arrives sooner than this, where bookmarks are sent (0.5 to 1.4 s with kube-apiserver 1.36). A source that
/// has sent none is then compared with the store: the accepted lag may end before the watch.
const BOOKMARK_IS_LATE: Duration = Duration::from_millis(1_500);
/// The minimum time between two watches for progress, whatever readers wait for.
const BETWEEN_PROGRESS_WATCHES: Duration = Duration::from_millis(500);
/// After this many watches for progress in a row without any event or bookmark, the source does not know the version in
/// the request.
const MOST_SILENT_WATCHES: u32 = 3;
/// After this many comparisons in a row that found a difference, although each leaves time for events to arrive, the
/// store is read again.
const MOST_DIFFERENCES: u32 = 5;
/// A watch without any event for this long, not even a bookmark (they come about every minute), shows no progress.
const SILENCE: Duration = Duration::from_secs(90);
/// After this many error responses in a row, requests that wait for the first list are rejected with the last one. The
/// list is retried all the same.
const MOST_WAITED_REFUSALS: u32 = 3;
/// A longer burst of events is published in parts: some hundred objects.
const BURST_BYTES: usize = 256 << 10;
/// A list or watch must get a response within this time, and a list that is arriving must continue within it. It
/// doubles each time that nothing arrives, up to [`LONGEST_ANSWER_WAIT`]. Nothing else finds a connection whose peer
/// went away silently, such as an idle pooled one, for minutes. A server that is only slow gets more time with each
/// attempt.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// The longest such timeout: longer than any server delays a request before it rejects it as too busy.
const LONGEST_ANSWER_WAIT: Duration = Duration::from_secs(60);
/// A watch that ended sooner than this counts as a failure: a server that closes immediately must not get requests in a
/// loop.
const SHORT_WATCH: Duration = Duration::from_secs(1);
const ACCEPT_JSON: &str = "application/json";
const ACCEPT_PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Why a connection ended.
#[derive(Debug)]
enum End {
    /// The server closed it after its time.
    Clean,
    /// It was opened for progress, and reported none until its end.
    Silent,
    /// The response did not begin in time, or a list stopped arriving.
    Unanswered,
    /// We closed it: readers need progress, which another watch reports sooner.
    ProgressNeeded,
    /// The version is too old; only a new list helps.
    TooOld,
    /// An event is longer than the maximum, so it is not read. Each watch from the same version would send it again.
    TooLong(String),
    /// The source is behind what it reported before: a lagging server behind a load balancer, or versions that went
    /// back (a restored etcd). Only a consistent list, which may be older, can decide.
    Behind,
    /// Something failed.
    Failed(RequestError),
    /// An ERROR event other than "too old".
    Error(String),
}

impl End {
    /// The HTTP status of an error response; `None` for every other end.
    fn code(&self) -> Option<u16> {
        if let End::Failed(error) = self { error.code() } else { None }
    }
}

/// How the initial list is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListMode {
    /// A watch that sends the initial objects.
    Streaming,
    /// LIST in pages, then a watch.
    Pages,
}

/// Settings for following one resource.
#[derive(Clone, Copy, Debug)]
pub struct ListWatchOptions {
    /// The longest time without progress that readers accept. The feed requests progress early enough for it.
    pub max_lag: Duration,
    /// Describes how to grant the permission to list and watch a resource. With it the permission is expected at any
    /// time, so it is checked every second or two. Without it, error responses are retried with growing pauses.
    pub how_to_permit: Option<fn(&Gvr) -> String>,
}

/// Bookmarks come about once a minute; one that is late is not yet a fault.
pub const DEFAULT_MAX_LAG: Duration = Duration::from_secs(90);

impl Default for ListWatchOptions {
    fn default() -> ListWatchOptions {
        ListWatchOptions { max_lag: DEFAULT_MAX_LAG, how_to_permit: None }
    }
}

/// Keeps `feed` up to date with the source, and retries after errors. Returns only when the source has stopped serving
/// the resource ([`ResourceState::departure`]) and has ended its watch. The caller may drop the future at any point.
pub async fn follow(connection: &Connection, resource: &Resource, feed: &mut Feed, following: ListWatchOptions) {
    let ListWatchOptions { max_lag, how_to_permit } = following;
    let (gvr, resource_state) = (&resource.gvr, &*resource.state);
    let (base, selection) = (collection(gvr), selection(resource));
    let lacks_bookmarks = AtomicBool::new(false);
    let source = Source { connection, base: &base, selection: &selection, resource_state, max_lag, lacks_bookmarks };
    // Resources have different seeds, so that their retries do not coincide.
    let seed = base.bytes().fold(0u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut backoff = Backoff::new(seed);
    let began = Instant::now();
    let mut mode = ListMode::Streaming;
    // Whether the next list must be at least as new as the store.
    let mut not_older = true;
    let mut silent_watches = 0;
    let mut refusals = 0;
    // The code of the last response if it was 401 or 403: a warning is logged only for the first of several equal ones.
    let mut refusal = None;
    let mut answer_wait = ANSWER_WAIT;
    loop {
        let started = Instant::now();
        let length = source.length(feed);
        let end = match (feed.needs_list(), mode) {
            (false, _) => source.watch(feed, WatchStart::From(feed.version()), length, answer_wait).await,
            (true, ListMode::Streaming) => {
                let not_older_than = Some(feed.version()).filter(|version| not_older && *version > Version::ZERO);
                source.watch(feed, WatchStart::InitialEvents { not_older_than }, Length::Usual, answer_wait).await
            }
            (true, ListMode::Pages) => match source.list(feed, answer_wait).await {
                // The next list is tried as a stream again: what forbade it may be over.
                Ok(()) => {
                    mode = ListMode::Streaming;
                    continue;
                }
                Err(end) => end,
            },
        };
        // Drops an incomplete list, because the next one may take long.
        feed.take(SourceEvent::Abort);
        // Publishes what came before the end, too: a connection may break within a burst.
        feed.publish();
        // A watch that we closed for progress does not mean anything for the resource.
        if resource_state.departure().is_some() && !matches!(end, End::ProgressNeeded) {
            return;
        }
        if !feed.needs_list() {
            not_older = true;
        }
        let lasted = started.elapsed();
        let is_unreachable = matches!(end, End::Failed(RequestError::Unreachable { .. }));
        // A server whose versions went back may accept a watch from its future and send nothing.
        let is_silent = matches!(end, End::Silent);
        silent_watches = if is_silent { silent_watches + 1 } else { 0 };
        let is_unanswered = matches!(end, End::Unanswered);
        // A server that is busy, or behind, is waited for.
        let is_refused = matches!(&end, End::Failed(RequestError::Status { code, too_large_version: false, .. }) if !matches!(code, 410 | 429));
        refusals = if is_refused { refusals + 1 } else { 0 };
        let (code, last_refusal) = (end.code(), refusal);
        refusal = code.filter(|code| matches!(code, 401 | 403));
        let waited = answer_wait;
        answer_wait = if is_unanswered { (answer_wait * 2).min(LONGEST_ANSWER_WAIT) } else { ANSWER_WAIT };
        match end {
            End::ProgressNeeded => continue,
            // Without a watch cache a watch sends no bookmark, whatever its parameters.
            End::Silent if silent_watches == 1 && source.compare_with_newest(feed).await => {
                silent_watches = 0;
                tracing::info!(resource = %gvr, "the source sends no bookmarks: comparing the store with lists instead");
                source.lacks_bookmarks.store(true, Ordering::Relaxed);
                continue;
            }
            End::Silent if silent_watches < MOST_SILENT_WATCHES => continue,
            // A stream that ends before its list does will not do better next time.
            End::Clean if feed.needs_list() => mode = ListMode::Pages,
            End::Clean if length.ended_early(lasted) && began.elapsed() < DEFINITION_SETTLES && feed.is_custom() => {
                tracing::info!(resource = %gvr, "the source ended a watch soon after the CRD changed, listing again");
                feed.begin_new_epoch();
            }
            End::Clean if lasted >= SHORT_WATCH => continue,
            End::Clean => {}
            End::Unanswered => {
                let trouble = format!("no response to a list or watch within {} s", waited.as_secs());
                tracing::warn!(resource = %gvr, trouble, "list or watch failed, retrying on another connection");
                resource_state.freshness().note_interruption(trouble.clone());
                if !feed.is_ready() {
                    resource_state.publish(LoadState::Loading(trouble));
                }
            }
            End::Behind | End::Silent => {
                tracing::warn!(resource = %gvr, version = %feed.version(), "the API server is behind the store, or its watches send nothing: listing its current state");
                feed.expect_list();
                not_older = false;
            }
            End::TooOld => {
                tracing::info!(resource = %gvr, version = %feed.version(), "the source no longer has the changes since this version, listing again");
                feed.expect_list();
            }
            End::TooLong(message) => {
                tracing::warn!(resource = %gvr, message, "the source sent an event that cannot be read, listing again");
                resource_state.freshness().note_interruption(message);
                feed.expect_list();
            }
            End::Failed(error) => {
                let streaming_refused = matches!(&error, RequestError::Status { code, too_large_version, .. }
                    if !too_large_version && !matches!(code, 401 | 403 | 404 | 410 | 429 | 500..));
                if feed.needs_list() && mode == ListMode::Streaming && streaming_refused {
                    tracing::info!(resource = %gvr, error = %error, "the source does not support streaming lists, listing in pages");
                    mode = ListMode::Pages;
                    continue;
                }
                // What cut the stream in the middle of its list may cut the next one as well; pages are shorter.
                if feed.needs_list() && matches!(error, RequestError::Broken { .. }) {
                    mode = ListMode::Pages;
                }
                if let RequestError::Status { code, too_large_version, .. } = error
                    && (code == 410 || too_large_version)
                {
                    feed.expect_list();
                    not_older &= !too_large_version;
                }
                // Clients and conditions show it: the address and the path of the source say nothing to them.
                let message = match how_to_permit.filter(|_| code == Some(403)) {
                    Some(how_to_permit) => how_to_permit(gvr),
                    None => error.without_address(),
                };
                match code {
                    // As kube-apiserver answers while it loads the objects of a definition that has changed.
                    Some(429) => tracing::info!(resource = %gvr, error = %error, "the source is busy, retrying"),
                    Some(401) if last_refusal == code => {
                        tracing::debug!(resource = %gvr, error = %error, "the source still rejects the credentials");
                    }
                    Some(401) => {
                        tracing::warn!(resource = %gvr, reason = message, "the source rejects the credentials, retrying");
                    }
                    Some(403) if last_refusal == code => {
                        tracing::debug!(resource = %gvr, error = %error, "a permission is still missing");
                    }
                    Some(403) => {
                        tracing::warn!(resource = %gvr, reason = message, "a permission is missing, retrying until it is granted");
                    }
                    _ => tracing::warn!(resource = %gvr, error = %error, "list or watch failed, retrying"),
                }
                resource_state.freshness().note_interruption(message.clone());
                if !feed.is_ready() {
                    resource_state.publish(match code {
                        Some(code @ (401 | 403)) => LoadState::SourceError { code, message },
                        Some(code) if refusals >= MOST_WAITED_REFUSALS => LoadState::SourceError { code, message },
                        _ => LoadState::Loading(message),
                    });
                }
                if let RequestError::Status { retry_after: Some(wait), .. } = error {
                    pause(resource_state, wait).await;
                }
            }
            End::Error(message) => {
                tracing::warn!(resource = %gvr, message, "the source sent an error, retrying");
                resource_state.freshness().note_interruption(message);
                if feed.needs_list() {
                    mode = ListMode::Pages;
                }
            }
        }
        let is_expected = code == Some(403) && how_to_permit.is_some();
        let wait = if is_unreachable || is_unanswered || is_expected {
            backoff.after_expected_failure(lasted)
        } else {
            backoff.after_failure(lasted)
        };
        pause(resource_state, wait).await;
    }
}

/// Waits before the next attempt. Ends early if the source stops serving the resource, so that a last attempt follows
/// immediately.
async fn pause(resource_state: &ResourceState, wait: Duration) {
    tokio::select! {
        () = sleep(wait) => {}
        () = resource_state.departed() => {}
    }
}

/// The requested length of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    /// As long as usual.
    Usual,
    /// Only until it has reported progress.
    Progress {
        /// The version that readers wait for, if any.
        wanted: Option<Version>,
    },
}

impl Length {
    /// How long the watch runs, in seconds.
    fn seconds(self) -> u64 {
        match self {
            Length::Usual => WATCH_SECONDS,
            Length::Progress { .. } => PROGRESS_SECONDS,
        }
    }

    /// Whether a watch that lasted this long was closed earlier than requested, by more than [`SHORT_WATCH`].
    fn ended_early(self, lasted: Duration) -> bool {
        lasted + SHORT_WATCH < Duration::from_secs(self.seconds())
    }
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchStart {
    /// With every object, as a new list.
    InitialEvents {
        /// The minimum version of the list: behind a load balancer, another server may be stale.
        not_older_than: Option<Version>,
    },
    /// After this version.
    From(Version),
}

/// One resource of a source, with its connection.
struct Source<'a> {
    connection: &'a Connection,
    /// The path of the collection.
    base: &'a str,
    /// The selectors of a partial store, as further query parameters; empty for all objects.
    selection: &'a str,
    resource_state: &'a ResourceState,
    max_lag: Duration,
    /// Whether watches of the source send no bookmarks, so that only events show their progress. kube-apiserver has no
    /// watch cache for events, and for resources for which it is turned off.
    lacks_bookmarks: AtomicBool,
}

impl Source<'_> {
    /// The length of the next watch: short if readers need progress now, which a watch without bookmarks cannot report.
    fn length(&self, feed: &Feed) -> Length {
        let freshness = self.resource_state.freshness();
        let by_watch = !self.lacks_bookmarks.load(Ordering::Relaxed);
        if by_watch && feed.is_ready() && freshness.needs_progress(feed.version(), self.max_lag) {
            Length::Progress { wanted: freshness.awaited(feed.version()) }
        } else {
            Length::Usual
        }
    }

    /// Watches until the watch ends, and applies its events to `feed`. Returns why it ended. `answer_wait` is the
    /// timeout of the response, and of each pause in an initial list.
    async fn watch(&self, feed: &mut Feed, start: WatchStart, length: Length, answer_wait: Duration) -> End {
        let Source { connection, base, selection, resource_state, .. } = *self;
        let wanted = match length {
            Length::Progress { wanted } => wanted,
            Length::Usual => None,
        };
        let mut path = format!(
            "{base}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}&{PROGRESS_PARAMETER}={}{selection}",
            length.seconds(),
            wanted.unwrap_or_default()
        );
        let mut initial = match start {
            WatchStart::InitialEvents { not_older_than } => {
                path.push_str("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
                if let Some(version) = not_older_than {
                    path.push_str(&format!("&resourceVersion={version}"));
                }
                true
            }
            WatchStart::From(version) => {
                path.push_str(&format!("&resourceVersion={version}"));
                false
            }
        };
        let mut body = match timeout(answer_wait, connection.get(&path, ACCEPT_JSON)).await {
            Ok(Ok(response)) => response.into_body(),
            Ok(Err(error)) => return End::Failed(error),
            Err(_) => return End::Unanswered,
        };
        if initial {
            feed.take(SourceEvent::Begin);
        }
        let mut lines = Lines::with_budget(connection.unfinished());
        let mut reported = 0;
        let opened = tokio::time::Instant::now();
        let mut has_heard = false;
        // Whether the watch itself has sent anything; `has_heard` also counts other requests.
        let mut has_reported = false;
        // Whether another watch could report progress that this one does not.
        let mut may_reopen = length == Length::Usual;
        let stored = feed.version();
        // Requested once, and only by a watch for progress.
        let mut question = pin!(self.source_version());
        let mut may_request = !may_reopen && !initial;
        // A frame, or the end, that came while a burst was gathered.
        let mut at_hand = None;
        let mut taken = false;
        let mut unpublished = 0;
        let mut comparison = None;
        let mut compare_after = opened;
        // Whether a bookmark is expected, whose absence starts one comparison.
        let mut may_be_late = length != Length::Usual && !initial;
        let compare = |feed: &Feed| {
            let wanted = resource_state
                .freshness()
                .awaited(feed.version())
                .map_or(ComparisonGoal::Progress, |_| ComparisonGoal::Version);
            Some(Box::pin(compare_with_newest(connection, (base, selection), resource_state, wanted)))
        };
        let mut differences = 0;
        loop {
            let frame = match at_hand.take() {
                Some(frame) => frame,
                None => tokio::select! {
                    // Received data is read first: it may show the progress.
                    biased;
                    frame = body.frame() => frame,
                    answer = &mut question, if may_request => {
                        may_request = false;
                        if let Some((requested_at, version)) = answer {
                            resource_state.freshness().note_source_version(requested_at, version);
                        }
                        match answer {
                            // It went back: a restored etcd. The store may have passed later versions since the
                            // request.
                            Some((_, version)) if version < stored => return End::Behind,
                            Some((requested_at, version)) if version <= feed.version() => {
                                has_heard = true;
                                may_reopen = true;
                                resource_state.freshness().note_progress(requested_at);
                                // Nothing has changed but what is known of it, which other fieldcaches are waiting for.
                                feed.publish();
                            }
                            // What is missing, and a bookmark, are on their way.
                            Some(_) | None => {}
                        }
                        continue;
                    }
                    () = sleep(answer_wait), if initial => return End::Unanswered,
                    // It ends by itself before that. Without this, a connection that was lost silently would block
                    // readers.
                    () = sleep(answer_wait + Duration::from_secs(length.seconds())), if length != Length::Usual => {
                        return End::Unanswered;
                    }
                    compared = within(&mut comparison) => {
                        comparison = None;
                        // Comparisons take at most a quarter of the time.
                        compare_after = compare_after + compare_after.elapsed() * 4 + BETWEEN_PROGRESS_WATCHES;
                        match compared {
                            Ok(NewestComparison::Differs) if differences == MOST_DIFFERENCES => return End::Behind,
                            // An event is on its way.
                            Ok(NewestComparison::Differs) => differences += 1,
                            Ok(newest) => {
                                has_heard = true;
                                differences = 0;
                                self.take_comparison(feed, newest);
                            }
                            Err(error) => return End::Failed(error),
                        }
                        continue;
                    }
                    () = self.progress_needed(feed.version(), compare_after, length), if !initial && may_reopen && comparison.is_none() => {
                        if !self.lacks_bookmarks.load(Ordering::Relaxed) {
                            return End::ProgressNeeded;
                        }
                        compare_after = tokio::time::Instant::now();
                        comparison = compare(feed);
                        continue;
                    }
                    () = sleep_until(opened + BOOKMARK_IS_LATE), if may_be_late && !has_reported && comparison.is_none() => {
                        may_be_late = false;
                        comparison = compare(feed);
                        continue;
                    }
                },
            };
            let chunk = match frame {
                // A server whose versions went back accepts a watch from what is its future and sends nothing.
                None | Some(Err(_)) if !initial && !has_heard && opened.elapsed() > SILENCE => return End::Behind,
                None if !initial
                    && !has_reported
                    && length != Length::Usual
                    && !length.ended_early(opened.elapsed()) =>
                {
                    return End::Silent;
                }
                None => return End::Clean,
                Some(Err(error)) => return End::Failed(connection.broken(&path, &error)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(chunk) => chunk,
                    Err(_) => continue,
                },
            };
            (has_heard, has_reported) = (true, true);
            unpublished += chunk.len();
            lines.push(chunk);
            if lines.pending() > MAX_ITEM_BYTES {
                let message = format!("an event of the watch is longer than {MAX_ITEM_BYTES} bytes");
                return if initial { End::Error(message) } else { End::TooLong(message) };
            }
            while let Some(line) = lines.next_line() {
                let event = match watch_decoder::watch_line(&line) {
                    Ok(event) => event,
                    Err(error) => return End::Failed(connection.broken(&path, &error)),
                };
                let mut proven = tokio::time::Instant::now();
                match event.event_type {
                    EventType::Added if initial => feed.take(SourceEvent::Item(event.object)),
                    EventType::Added | EventType::Modified => feed.take(SourceEvent::Upsert(event.object)),
                    EventType::Deleted => feed.take(SourceEvent::Remove(event.object)),
                    EventType::Bookmark => match watch_decoder::bookmark(&event.object) {
                        Ok(bookmark) if initial && bookmark.ends_initial_events => {
                            feed.take(SourceEvent::Commit(bookmark.version));
                            initial = false;
                            // The list shows the state at which it began, however long it took.
                            proven = opened.checked_sub(bookmark.lag).unwrap_or(opened);
                        }
                        Ok(bookmark) if !initial && bookmark.version < feed.version() => return End::Behind,
                        Ok(bookmark) if !initial => {
                            self.lacks_bookmarks.store(false, Ordering::Relaxed);
                            feed.take(SourceEvent::Mark(bookmark.version));
                            proven = proven.checked_sub(bookmark.lag).unwrap_or(proven);
                            may_reopen = true;
                        }
                        Ok(_) => {}
                        Err(error) => return End::Failed(connection.broken(&path, &error)),
                    },
                    EventType::Error => return error_event(&event.object),
                }
                // The object of the event could not be identified.
                if !initial && feed.needs_list() {
                    return End::TooOld;
                }
                taken = true;
                if !initial {
                    resource_state.freshness().note_progress(proven);
                }
            }
            if !lines.reserve_memory() {
                return End::Error("the memory for long events of watches is exhausted now".to_owned());
            }
            if initial && !feed.is_ready() && feed.listed() >= reported + 1000 {
                reported = feed.listed();
                resource_state.publish_progress(reported);
            }
            // One snapshot for everything that arrived together: readers see a burst as one step. A server writes every
            // event as a frame of its own, and the connection's task holds one at a time. So it must run in between.
            if !initial && taken && unpublished < BURST_BYTES {
                yield_now().await;
                at_hand = body.frame().now_or_never();
            }
            if !initial && taken && !matches!(at_hand, Some(Some(Ok(_)))) {
                feed.publish();
                taken = false;
                unpublished = 0;
            }
        }
    }

    /// Waits until readers need progress that this watch has not reported. `reached` is the version of the store. A
    /// watch for progress, or one without bookmarks, waits some time from `after` first: a reader may wait for a
    /// version that the source does not have either.
    async fn progress_needed(&self, reached: Version, after: tokio::time::Instant, length: Length) {
        if length != Length::Usual || self.lacks_bookmarks.load(Ordering::Relaxed) {
            sleep_until(after + BETWEEN_PROGRESS_WATCHES).await;
        }
        self.resource_state.freshness().progress_needed(reached, self.max_lag).await;
    }

    /// Compares the store with the newest state of the source. True if they are equal, which is then recorded as
    /// progress; false also after an error.
    async fn compare_with_newest(&self, feed: &mut Feed) -> bool {
        match compare_with_newest(
            self.connection,
            (self.base, self.selection),
            self.resource_state,
            ComparisonGoal::Version,
        )
        .await
        {
            Ok(NewestComparison::Differs) => false,
            Ok(newest) => {
                self.take_comparison(feed, newest);
                true
            }
            Err(error) => {
                tracing::debug!(path = self.base, error = %error, "the source returned no list to compare with");
                false
            }
        }
    }

    /// Records the result of a comparison with the newest state of the source. A difference changes nothing.
    fn take_comparison(&self, feed: &mut Feed, newest: NewestComparison) {
        let requested_at = match newest {
            NewestComparison::Equal { requested_at, version } => {
                feed.take(SourceEvent::Compared(version));
                self.resource_state.freshness().note_source_version(requested_at, version);
                requested_at
            }
            NewestComparison::Alike { requested_at } => requested_at,
            NewestComparison::Differs => return,
        };
        self.resource_state.freshness().note_progress(requested_at);
        feed.publish();
    }

    /// The newest version of the source, and the time of the request; `None` if that fails. The request also makes an
    /// API server read from etcd. Otherwise the server sends no bookmark for a resource that has not changed since it
    /// started (seen with 1.36).
    async fn source_version(&self) -> Option<(tokio::time::Instant, Version)> {
        let requested_at = tokio::time::Instant::now();
        let path = format!("{}?limit=1", self.base);
        let listed = async {
            let body = self.connection.get_strong(&path, ACCEPT_PARTIAL_LIST).await?.into_body();
            read_page(self.connection, &path, body, |_| Ok(())).await
        };
        match listed.await {
            Ok(page) => Some((requested_at, page.version)),
            Err(error) => {
                tracing::debug!(path, error = %error, "the source did not return its newest version");
                None
            }
        }
    }

    /// Lists all objects in pages, and publishes them. `answer_wait` is the timeout of each response, and of each pause
    /// in it.
    ///
    /// # Errors
    /// Why the list ended early.
    async fn list(&self, feed: &mut Feed, answer_wait: Duration) -> Result<(), End> {
        let Source { connection, base, selection, resource_state, .. } = *self;
        let began = tokio::time::Instant::now();
        feed.take(SourceEvent::Begin);
        let mut next = String::new();
        loop {
            let mut path = format!("{base}?limit={PAGE}{selection}");
            if !next.is_empty() {
                path.push_str("&continue=");
                path.push_str(&next);
            }
            let answer = timeout(answer_wait, connection.get(&path, ACCEPT_JSON)).await.map_err(|_| End::Unanswered)?;
            let response = answer.map_err(|error| match error.code() {
                Some(410) => End::TooOld,
                _ => End::Failed(error),
            })?;
            let mut body = response.into_body();
            let mut page = Page::with_budget(connection.unfinished());
            let page = loop {
                let chunk = match timeout(answer_wait, body.frame()).await {
                    Err(_) => return Err(End::Unanswered),
                    Ok(None) => break page.finish(),
                    Ok(Some(Err(error))) => return Err(End::Failed(connection.broken(&path, &error))),
                    Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                };
                page.push(chunk);
                let broken = |error| End::Failed(connection.broken(&path, &error));
                while let Some(item) = page.next_item().map_err(broken)? {
                    feed.take(SourceEvent::Item(item));
                }
            };
            let page = page.map_err(|error| End::Failed(connection.broken(&path, &error)))?;
            if page.next.is_empty() {
                feed.take(SourceEvent::Commit(page.version));
                resource_state.freshness().note_progress(began);
                feed.publish();
                return Ok(());
            }
            if !feed.is_ready() {
                resource_state.publish_progress(feed.listed());
            }
            next = page.next;
        }
    }
}

/// Waits for the future if there is one, otherwise forever. Safe to drop at any point.
async fn within<F: Future + Unpin>(begun: &mut Option<F>) -> F::Output {
    match begun {
        Some(begun) => begun.await,
        None => std::future::pending().await,
    }
}

/// Why a watch ends that has sent an ERROR event with this object.
fn error_event(object: &[u8]) -> End {
    if object.len() > MAX_NOTICE_BYTES {
        return End::Error(format!("an ERROR event that is longer than {MAX_NOTICE_BYTES} bytes"));
    }
    let status: serde_json::Value = serde_json::from_slice(object).unwrap_or_default();
    match status["code"].as_i64() {
        Some(410) => End::TooOld,
        Some(504) if too_large_version(&status) => End::Behind,
        _ => End::Error(status["message"].as_str().unwrap_or("an event of an unknown type").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{End, error_event};

    #[test]
    fn only_short_error_events_are_decoded() {
        let event = |padding: usize| error_event(format!(r#"{{"code":410,"a":"{}"}}"#, "x".repeat(padding)).as_bytes());
        assert!(matches!(event(60_000), End::TooOld));
        assert!(matches!(event(70_000), End::Error(text) if text == "an ERROR event that is longer than 65536 bytes"));
    }
}
