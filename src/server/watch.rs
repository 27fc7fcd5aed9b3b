//! One WATCH request: initial events, then changes as they are published, bookmarks, and the end of the stream.
//!
//! A watch is a position in the history of its resource. The connection pulls: each pull takes the changes since the
//! position that may concern the watch, and advances the position. The changes come from the mailbox of
//! `registry::event_dispatcher`, or else from history. A slow client therefore holds only a bounded mailbox and a
//! version. When history no longer reaches back to that version, the body ends and the client resumes or relists. Start
//! rules: apiserver `handlers/watch.go` and `storage/cacher/cacher.go`. [`shape`] encodes events. [`initial`] finds the
//! objects of initial events; large ones take turns by [`large`]. [`batch`] is the result of a pull, compressed or not.
//! [`bookmarks`] has the times of bookmarks, and [`view_changes`] ends watches whose View selects other objects.
//! [`mod@watched_change`] tests the objects of a change, also with an expression. [`place`] is the position of a watch.

mod batch;
mod bookmarks;
mod initial;
mod large;
mod place;
mod progress;
mod shape;
mod view_changes;
mod watched_change;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::Response;
use tokio::sync::watch as state;
use tokio::time::{Instant, sleep_until};

use crate::access::AuthorizedRequest;
use crate::access::lease::AuthorizationLease;
use crate::model::Version;
use crate::query::{Explanation, Listing, Selection, State};
use crate::registry::dispatched_event::DispatchedEvent;
use crate::registry::event_dispatcher::{MailboxContents, Subscription};
use crate::registry::{Gone, GoneReason, LoadState, OpenWatch, Resource, ResourceOrigin};
use crate::store::{Change, Snapshot};
use crate::subscribe::Transition;

use super::audit_context::AuditContext;
use super::consistency;
use super::context::RequestContext;
use super::no_response::NoResponse;
use super::settings::ReadConsistency;
use super::state::ServerState;
use super::{explain, read, websocket};
use crate::flow_control::long_work::{WORK_OF_A_TURN, WorkMeter, count_work, may_read, run_usual};
use crate::flow_control::seats::UnchargedWork;
use crate::flow_control::watches::CountedWatch;
use crate::request::ResourcePath;
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;
use crate::wire::encode::{CHUNK, Shown};
use crate::wire::facets::FacetOptions;
use crate::wire::gzip;
use crate::wire::gzip::GzipMember;
use crate::wire::negotiate::{Format, LISTS, Offer, accepts_gzip, check_route_accept, negotiate};
use crate::wire::params::{ListOptions, check_not_sorted, read_version};
use crate::wire::past;
use crate::wire::protobuf;
use crate::wire::response::{mark_gzip, media_type, with_type};
use batch::Batch;
use bookmarks::Bookmarks;
use initial::{Initial, RemainingInitialEvents, SELECTORS};
use large::{large_object, next_length};
use place::{HistoryPosition, Place, Start};
use progress::ProgressForwarding;
use shape::{EventEncoder, Mark, WatchEventType};
use view_changes::ViewChanges;
use watched_change::{WatchedChange, watched_change};

/// The bytes that could be read in the time of a step of testing an object. A turn reads a mebibyte of events, or tests
/// thousands of changes that are not for the watch.
const BYTES_OF_STEP: usize = 10;

/// The duration of a watch without `timeoutSeconds` is random, from this (kube-apiserver's `--min-request-timeout`) to
/// twice this.
const DEFAULT_LENGTH: Duration = Duration::from_secs(1800);

/// Responds with a watch. Errors that occur after the response has begun are ERROR events in its body. `whole` is the
/// resource with all parts of its objects; the client can request only some parts in the Accept header.
///
/// # Errors
/// 400 and 406 for an invalid request, 429 when a limit is reached, and those of [`read::snapshot`].
pub(super) async fn answer(
    server: &ServerState,
    context: &RequestContext<'_>,
    address: &ResourcePath,
    whole: &Arc<Resource>,
) -> Result<Response<Body>, NoResponse> {
    if whole.origin == ResourceOrigin::BuiltIn {
        check_route_accept(context.headers, &LISTS)?;
    }
    let catalog = server.catalog(context);
    let offered = protobuf::offered(&catalog, whole);
    // As in kube-apiserver, the header Accept is first checked as for a list, and below as for a watch.
    negotiate(context.headers, Offer::Resource, offered)?;
    FacetOptions::check_absent(&context.info.query)?;
    check_not_sorted(&context.info.query)?;
    let mut options = ListOptions::read(context.info)?;
    let selection = whole.restrict(read::selection(whole, address, &mut options)?.selection);
    // The selection counts before the first wait. It takes more memory than the subscription that is made from it.
    let selection_share =
        server.limits.watches().hold(context.user, selection.held_bytes(), SELECTORS).map_err(ApiError::Limited)?;
    let version = read_version(&options.version).map_err(ApiError::Bare)?.filter(|version| *version != Version::ZERO);
    let mut agreed = negotiate(context.headers, Offer::Watch, offered)?;
    let mut resource = whole.for_request(&agreed.parts);
    let encoded = match agreed.format {
        Format::Protobuf => protobuf::Objects::for_format(&catalog, &resource, &agreed.form),
        Format::Json | Format::Yaml => None,
    };
    drop(catalog);
    // In a View that hides fields, changes of only these fields send no events, unless the client requests them.
    let is_quiet = options.quiet.unwrap_or(whole.hidden().is_some());
    let mut shape = EventEncoder::new(server, context, &resource, agreed.form, encoded, is_quiet)?;
    // The watch is registered before the store is read: a store that ends is retained while it has open watches.
    let open = resource.state.open_watch();
    let snapshot = read::snapshot(&resource.state, server.settings.patience.min(context.timeout)).await?;
    if let Some(objects) = shape.encoded()
        && protobuf::meets_unencodable(&resource, &snapshot, &selection, objects).await
    {
        agreed = negotiate(context.headers, Offer::Watch, offered.without())?;
        resource = whole.for_request(&agreed.parts);
        shape = EventEncoder::new(server, context, &resource, agreed.form, None, is_quiet)?;
    }
    let is_encoded = shape.encoded().is_some();
    let names_no_version = options.version.is_empty();
    let consistency = consistency::consistency(server, context)?;
    // A Strong watch without a version waits below for the newest state of the source, so the lag does not matter.
    if !names_no_version || consistency == ReadConsistency::Eventual {
        read::wait_for_max_lag(&resource.state, server.settings.max_lag).await?;
    }
    let start = match (version, options.send_initial_events) {
        (None, Some(true)) if names_no_version => {
            Start::Initial { not_older_than: consistency::needed_version(server, context, &resource).await? }
        }
        (version, Some(true)) => Start::Initial { not_older_than: version },
        (None, Some(false)) => Start::Now,
        (Some(version), _) => Start::After(version),
        // The old `/watch/` path: initial events of the current state, without a bookmark at their end.
        (None, None) => Start::Initial { not_older_than: None },
    };
    if matches!(start, Start::Initial { .. }) {
        context.record.record_access(selection.access());
    }
    let explanation = explanation(server, context, start, &snapshot, &selection, &resource).await?;
    let length = match options.timeout_seconds {
        None | Some(0) => read::jittered(DEFAULT_LENGTH, DEFAULT_LENGTH * 2),
        Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
    };
    let bookmarks = options.bookmarks;
    let marks_initial_end = bookmarks && options.send_initial_events == Some(true);
    // kube-apiserver compresses only watches that replace a list, and no WebSocket.
    let is_compressed = marks_initial_end && accepts_gzip(context.headers) && !websocket::is_watch(context);
    let now = Instant::now();
    // A length that the clock cannot represent is replaced by one of over a century.
    let deadline = now.checked_add(length).unwrap_or(now + Duration::from_secs(u64::from(u32::MAX)));
    let forwarding = if bookmarks { ProgressForwarding::from_request(context, &resource).await } else { None };
    let lease = context.authorized.as_ref().map_or_else(AuthorizationLease::forever, AuthorizedRequest::lease);
    if let Some(cel) = &selection.cel {
        cel.forget_found();
    }
    let subscription = resource.state.dispatcher().subscribe(&selection, forwarding.is_some());
    let audit_bytes = context.record.audited().map_or(0, AuditContext::held_bytes);
    // A watch of parts of objects has a `Resource` value of its own.
    let parts_bytes = if agreed.parts.is_whole() { 0 } else { size_of::<Resource>() + agreed.parts.held_bytes() };
    let view_changes = ViewChanges::new(&resource, context.view.as_ref());
    let held_bytes =
        subscription.held_bytes() + lease.held_bytes() + audit_bytes + parts_bytes + view_changes.held_bytes();
    shape.count(server.limits.watches(), context.user).map_err(ApiError::Limited)?;
    let counted = server.limits.watches().open(context.user, held_bytes).map_err(ApiError::Limited)?;
    let initial = match start {
        Start::Initial { .. } => Some(Initial::new(server, context, selection, selection_share)),
        Start::After(_) | Start::Now => None,
    };
    let watch = Watch {
        lease,
        subscription,
        draining: server.draining.subscribe(),
        view_changes,
        _open: open,
        counted,
        unpaid: UnchargedWork::new(server.limits.seats(), context.user),
        resource: resource.clone(),
        shape,
        epoch: snapshot.epoch(),
        place: Place::Before { start, snapshot: snapshot.pin(snapshot.clone()), initial },
        bookmarks: bookmarks.then(|| Bookmarks::new(now, deadline)),
        ends_in_relist_gap: false,
        progress_forwarding: forwarding,
        marks_initial_end,
        gzip: is_compressed.then(GzipMember::default),
        deadline,
    };
    let batches = stream::unfold(Some(watch), |watch| async move {
        let mut watch = watch?;
        match watch.next_batch().await {
            Some(batch) => Some((watch.bytes_to_send(batch), Some(watch))),
            None => watch.gzip.map(|member| (member.end(), None)),
        }
    });
    let media_type =
        if is_encoded { "application/vnd.kubernetes.protobuf;stream=watch" } else { media_type(Format::Json) };
    let mut response = with_type(Response::new(Body::stream(batches)), media_type);
    if agreed.misses_protobuf {
        protobuf::add_missed_header(&resource, &mut response);
    }
    if is_compressed {
        mark_gzip(&mut response);
    }
    if let Some(explanation) = explanation {
        explain::add_explain_header(&mut response, &explanation, None);
    }
    Ok(response)
}

/// The plan of the initial events, for the header `Fieldcache-Explain`. `None` if the request does not want the header
/// or the watch has no initial events. Also `None` if they need a later state than `snapshot`: that state is not known
/// when the headers are sent.
async fn explanation(
    server: &ServerState,
    context: &RequestContext<'_>,
    start: Start,
    snapshot: &Snapshot,
    selection: &Selection,
    resource: &Resource,
) -> Result<Option<Explanation>, ApiError> {
    let Start::Initial { not_older_than } = start else { return Ok(None) };
    let is_new_enough = not_older_than.is_none_or(|version| snapshot.version() >= version);
    if !is_new_enough {
        return Ok(None);
    }
    let state = State::current(snapshot.clone());
    Box::pin(explain::wanted_explanation(server, context, resource, selection, &state, None)).await
}

/// The result of writing a change.
enum Written {
    /// The change was written, or is not for this watch.
    Done,
    /// Nothing was written: the object is too long for a usual turn.
    NeedsLongTurn,
}

/// A watch in progress.
struct Watch {
    /// Renews the caller's authentication and authorization.
    lease: AuthorizationLease,
    /// The mailbox with the changes that may concern the watch.
    subscription: Subscription,
    /// Becomes true when the server begins to shut down; then the watch ends.
    draining: state::Receiver<bool>,
    /// What can change the selection of the watch, in a View.
    view_changes: ViewChanges,
    /// Keeps a store that ends until the watch has read its last changes.
    _open: OpenWatch,
    /// Counts the watch for its user.
    counted: CountedWatch,
    /// Work since the last turn of the watch, which is not counted for its user yet.
    unpaid: UnchargedWork,
    resource: Arc<Resource>,
    shape: EventEncoder,
    /// The epoch of the snapshot that the watch started from; versions of another epoch cannot be compared.
    epoch: u64,
    place: Place,
    /// The times of bookmarks; `None` if the client does not want bookmarks.
    bookmarks: Option<Bookmarks>,
    /// Set if the client is another fieldcache that wants a bookmark for each progress notification.
    progress_forwarding: Option<ProgressForwarding>,
    /// Whether the last event is in a relist gap: a client that resumed from its version would be rejected.
    ends_in_relist_gap: bool,
    /// Whether a bookmark marks the end of the initial events.
    marks_initial_end: bool,
    /// The compressed stream; `None` if the watch is not compressed.
    gzip: Option<GzipMember>,
    /// When the watch ends.
    deadline: Instant,
}

impl Watch {
    /// Waits for the next lines to send, at least one; `None` at the end of the watch. Each pass of the loop checks the
    /// reasons to end, writes what is next at the position of the watch, and adds a bookmark if one is due.
    async fn next_batch(&mut self) -> Option<Batch> {
        let mut batch = Batch::default();
        loop {
            if Instant::now() >= self.deadline {
                return self.last_bookmark();
            }
            if *self.draining.borrow() {
                return None;
            }
            // The events so far do not match what the View shows now, so the client must list.
            if let Some(what) = self.view_changes.reason(&self.resource) {
                if matches!(self.place, Place::Ended) {
                    return None;
                }
                self.place = Place::Ended;
                let message = format!("too old resource version: {what} after this watch started; list again");
                self.shape.write_error(&ApiError::Expired { message, continue_token: None }, &mut batch.rest);
                return Some(batch);
            }
            // A caller that is no longer authorized repeats the request, and gets the error then.
            if self.lease.is_due() {
                if !Box::pin(self.lease.renew()).await {
                    return None;
                }
                // The check can have found other permissions.
                continue;
            }
            if self.view_changes.must_review() {
                self.wait_for_reviews().await;
                continue;
            }
            let begins = matches!(self.place, Place::Before { .. });
            // Whether all events so far are written. The position stays `Ended` unless a branch sets it again.
            let is_waiting = match std::mem::replace(&mut self.place, Place::Ended) {
                Place::Before { start, snapshot, initial } => {
                    // The futures are in boxes. Otherwise, the watch would reserve memory for them as long as it lasts.
                    match snapshot.take() {
                        // Finding the objects of initial events is as much work as a list, so it needs a turn.
                        Some(snapshot) if matches!(start, Start::Initial { .. }) => {
                            Box::pin(async {
                                let mut worker = self.unpaid.wait_for_turn().await;
                                worker.work_through(self.begin(start, snapshot, initial, &mut batch.rest)).await;
                            })
                            .await;
                        }
                        Some(snapshot) => Box::pin(self.begin(start, snapshot, initial, &mut batch.rest)).await,
                        // The snapshot was revoked, because readers retained too much memory.
                        None => self.shape.write_error(&past::revoked_error(), &mut batch.rest),
                    }
                    false
                }
                Place::Listing(mut events) => {
                    let size = events.listing.with(large_object).flatten();
                    match Box::pin(events.large.admit(size)).await {
                        Ok(()) => {
                            let mut worker = Box::pin(self.unpaid.wait_for_turn()).await;
                            worker.work(|| {
                                self.list(events, &mut batch.rest);
                                self.deflate(&mut batch);
                            });
                            self.unpaid.set_long_bytes(worker.long_bytes());
                        }
                        Err(limited) => self.shape.write_error(&ApiError::Limited(limited), &mut batch.rest),
                    }
                    false
                }
                Place::Following(place) if self.needs_turn(&place) => {
                    let mut worker = Box::pin(self.unpaid.wait_for_turn()).await;
                    let unpaid = self.unpaid.take();
                    let is_waiting = worker.work_and_settle(unpaid, || {
                        let is_waiting = self.follow(place, &mut batch);
                        self.deflate(&mut batch);
                        is_waiting
                    });
                    self.unpaid.set_long_bytes(worker.long_bytes());
                    is_waiting
                }
                Place::Following(place) => {
                    let begun = Instant::now();
                    let (is_waiting, long_bytes) = run_usual(|| {
                        let is_waiting = self.follow(place, &mut batch);
                        self.deflate(&mut batch);
                        is_waiting
                    });
                    self.unpaid.add(begun.elapsed());
                    self.unpaid.set_long_bytes(long_bytes);
                    is_waiting
                }
                Place::Ended => return None,
            };
            // A bookmark may only follow all events up to its version.
            if is_waiting {
                self.forward_progress(&mut batch);
                self.bookmark_if_due(&mut batch);
            }
            if !batch.is_empty() {
                return Some(batch);
            }
            if is_waiting {
                self.wait().await;
            } else if !begins && self.is_under_way() {
                // Many changes were tested, and none of them is for this watch.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Compresses the lines in a batch, if this watch is compressed. This happens in the turn in which the lines were
    /// written: a watch that waited for another turn would hold the uncompressed lines meanwhile.
    fn deflate(&self, batch: &mut Batch) {
        if self.gzip.is_some() {
            batch.deflate();
        }
    }

    /// The bytes of a batch as they are sent, compressed or not.
    fn bytes_to_send(&mut self, batch: Batch) -> Bytes {
        match &mut self.gzip {
            Some(member) => batch.into_part_of(member),
            None => batch.into_bytes(),
        }
    }

    /// Whether the objects of changes are only copied: no Table rows are made, nothing is pruned or compressed, and no
    /// expression is evaluated.
    fn only_copies(&self) -> bool {
        let evaluates = self.subscription.selection().cel().is_some();
        !self.shape.is_work() && self.resource.is_shown_whole() && self.gzip.is_none() && !evaluates
    }

    /// Whether writing the next changes is as much work as a list, so that it needs a turn: changes from history, and
    /// those that are not only copied. Other changes need none, until they add up to a turn too.
    fn needs_turn(&self, place: &HistoryPosition) -> bool {
        let has_missed = if place.is_new { self.has_history(place) } else { self.subscription.is_overflowed() };
        place.reads_history
            || has_missed
            || self.unpaid.is_due()
            || !self.only_copies() && !self.subscription.is_empty()
    }

    /// Whether initial events or changes are left to write, after a pull that has not written all of them.
    fn is_under_way(&self) -> bool {
        match &self.place {
            Place::Listing(_) => true,
            Place::Following(place) => !place.is_new,
            Place::Before { .. } | Place::Ended => false,
        }
    }

    /// Whether a watch that has read nothing yet has to read changes from history, or its store is not ready.
    fn has_history(&self, place: &HistoryPosition) -> bool {
        match self.resource.state.load_state() {
            LoadState::Ready(snapshot) => snapshot.end() > place.cursor,
            LoadState::Gone(_)
            | LoadState::Idle
            | LoadState::Loading(_)
            | LoadState::SourceError { .. }
            | LoadState::OverMemory(_) => true,
        }
    }

    /// The work of testing one change, as the number of bytes that could be read in the same time.
    fn cost_of_look(&self, change: &Change) -> usize {
        let objects = change.before.iter().chain(&change.after);
        let steps: u64 = objects.map(|object| self.subscription.selection().steps_of_test(object)).sum();
        usize::try_from(steps).unwrap_or(usize::MAX).saturating_mul(BYTES_OF_STEP)
    }

    /// Finds the initial events or the position in history, and sets the position of the watch to it. On an error it
    /// stays [`Place::Ended`], after an ERROR event, or without one if the client can simply repeat the request.
    async fn begin(&mut self, start: Start, snapshot: Snapshot, initial: Option<Initial>, batch: &mut Vec<u8>) {
        let since = self.resource.selected_since();
        let snapshot = match start {
            Start::Initial { not_older_than } => {
                let snapshot = match consistency::reach_selection(&self.resource, snapshot).await {
                    Ok((snapshot, _)) => snapshot,
                    Err(NoResponse::Retry | NoResponse::NamespacesChanged | NoResponse::Forward) => return,
                    Err(NoResponse::Error(failure)) => return self.shape.write_error(&failure, batch),
                };
                let version = not_older_than.unwrap_or_default();
                match read::not_older_than(&self.resource.state, snapshot, version).await {
                    Ok(snapshot) if snapshot.epoch() == self.epoch => snapshot,
                    Ok(_) | Err(NoResponse::Retry | NoResponse::NamespacesChanged | NoResponse::Forward) => return,
                    Err(NoResponse::Error(failure)) => return self.shape.write_error(&failure, batch),
                }
            }
            Start::After(_) | Start::Now => snapshot,
        };
        let version = snapshot.version();
        self.place = match start {
            Start::Initial { .. } => {
                let Some(initial) = initial else { return };
                match initial.events(snapshot, self.counted.user()).await {
                    Ok(events) => Place::Listing(events),
                    Err(failure) => return self.shape.write_error(&failure, batch),
                }
            }
            Start::Now => Place::following(snapshot.end(), version, version),
            // The selection of the View is known only since the version `since`. The message is the same as for a
            // history that begins later, because which of the two begins first depends on what is loaded first.
            Start::After(after) if after < since => {
                let message = format!("too old resource version: {after} ({since})");
                return self.shape.write_error(&ApiError::Expired { message, continue_token: None }, batch);
            }
            Start::After(after) => match snapshot.since(after) {
                // The store may not have reached the version of the client yet.
                Ok(cursor) => Place::following(cursor, after, after.min(version)),
                Err(too_old) => {
                    let message = too_old.to_string();
                    return self.shape.write_error(&ApiError::Expired { message, continue_token: None }, batch);
                }
            },
        };
    }

    /// Writes the initial events of one turn, and sets the position of the watch.
    fn list(&mut self, events: RemainingInitialEvents, batch: &mut Vec<u8>) {
        let (most_bytes, work) = (self.most_together(), self.shape.work());
        let may_write = |listing: &mut Listing| may_read(work.bytes(next_length(listing)));
        let RemainingInitialEvents { listing, large, .. } = &events;
        let listed = listing.with(|listing| -> Result<bool, ApiError> {
            let meter = WorkMeter::start();
            while batch.len() < most_bytes && !meter.is_over() && large.admits(listing) && may_write(listing) {
                let Some(object) = listing.next() else { return Ok(true) };
                // The whole object is read, also if the View shows only a part.
                count_work(object.length());
                if let Some(object) = self.resource.show(object) {
                    self.shape.write_event(&self.resource, WatchEventType::Added, Shown::as_is(&object), batch)?;
                }
            }
            Ok(false)
        });
        match listed {
            None => self.shape.write_error(&past::revoked_error(), batch),
            Some(Err(failure)) => self.shape.write_error(&failure, batch),
            Some(Ok(true)) => {
                // Set before the bookmark is written, because `write_bookmark` sets `Ended` if it fails.
                self.place = Place::following(events.then, events.version, events.version);
                if self.marks_initial_end {
                    self.write_bookmark(events.version, true, batch);
                }
            }
            Some(Ok(false)) => self.place = Place::Listing(events),
        }
    }

    /// The size in bytes at which a batch is sent. If a View prunes objects, each event is sent alone: otherwise the
    /// number of events in a batch would reveal how long the pruned parts are.
    fn most_together(&self) -> usize {
        match &self.gzip {
            _ if self.resource.hidden().is_some() => 1,
            Some(_) => gzip::TOGETHER,
            None => CHUNK,
        }
    }

    /// Writes the changes since `place` and advances the position. Returns whether all changes have been written. If
    /// the watch must end, its position stays [`Place::Ended`], whatever is returned.
    fn follow(&mut self, mut place: HistoryPosition, batch: &mut Batch) -> bool {
        (place.is_new, place.is_behind) = (false, false);
        let contents = if place.reads_history { MailboxContents::Overflowed } else { self.subscription.take() };
        // `end` and `version`: the position and the version that the watch has reached after these changes.
        let (changes, end, version) = match contents {
            MailboxContents::Overflowed => return self.read_history(place, &mut batch.rest),
            MailboxContents::Changes { changes, end, version } => (changes, end, version),
        };
        let (meter, mut looked) = (WorkMeter::start(), 0);
        let mut changes = changes.into_iter();
        while let Some(routed) = changes.next() {
            // Events that are only copied are bounded by the mailbox. The bound applies to those that take more work.
            let is_work = !self.only_copies();
            if looked >= WORK_OF_A_TURN || is_work && (batch.len() >= self.most_together() || meter.is_over()) {
                self.subscription.put_back(std::iter::once(routed).chain(changes).collect());
                place.is_behind = true;
                self.place = Place::Following(place);
                return false;
            }
            if routed.place >= place.cursor && routed.change.is_after(place.after) {
                looked += self.cost_of_look(&routed.change);
                match self.write_dispatched_event(&routed, batch) {
                    Ok(Written::Done) => {}
                    Ok(Written::NeedsLongTurn) => {
                        self.subscription.put_back(std::iter::once(routed).chain(changes).collect());
                        place.is_behind = true;
                        self.place = Place::Following(place);
                        return false;
                    }
                    Err(failure) => {
                        self.shape.write_error(&failure, &mut batch.rest);
                        return true;
                    }
                }
                place.cursor = routed.place.advanced(1);
            }
        }
        place.cursor = place.cursor.max(end);
        place.seen = place.seen.max(version);
        self.place = Place::Following(place);
        true
    }

    /// Like [`Self::follow`], with changes from history: at first, and when the mailbox has overflowed.
    fn read_history(&mut self, mut place: HistoryPosition, batch: &mut Vec<u8>) -> bool {
        let (snapshot, gone) = match self.resource.state.load_state() {
            LoadState::Ready(snapshot) if snapshot.epoch() == self.epoch => (snapshot, None),
            LoadState::Gone(Gone { reason, last: Some(snapshot), .. }) if snapshot.epoch() == self.epoch => {
                (snapshot, Some(reason))
            }
            // Some events of this watch were wrong. A client that resumed would keep the wrong state, so it must list.
            LoadState::Ready(snapshot) if snapshot.is_invalidated(self.epoch) => {
                let sent = place.after.max(place.seen);
                let message = format!("too old resource version: {sent} ({})", snapshot.oldest());
                self.shape.write_error(&ApiError::Expired { message, continue_token: None }, batch);
                return true;
            }
            // The history is another one, or has ended. The watch ends, and the client resumes or relists.
            LoadState::Ready(_)
            | LoadState::Gone(_)
            | LoadState::Idle
            | LoadState::Loading(_)
            | LoadState::SourceError { .. }
            | LoadState::OverMemory(_) => return false,
        };
        // The watch began ahead of the store, at a version that is now in a relist gap, whose changes are unknown.
        if snapshot.is_in_relist_gap(place.after) {
            let message = format!("too old resource version: {} ({})", place.after, snapshot.version());
            self.shape.write_error(&ApiError::Expired { message, continue_token: None }, batch);
            self.place = Place::Ended;
            return true;
        }
        let Some(changes) = snapshot.changes(place.cursor) else { return false };
        place.reads_history = false;
        let meter = WorkMeter::start();
        for change in changes {
            if batch.len() >= self.most_together() || meter.is_over() {
                place.reads_history = true;
                break;
            }
            count_work(self.cost_of_look(change));
            let tested = match change.is_after(place.after) {
                true => watched_change(self.subscription.selection(), change),
                false => Ok(WatchedChange::Known(None)),
            };
            let shown = match tested {
                Ok(WatchedChange::Known(transition)) => transition,
                Ok(WatchedChange::NeedsLongTurn) => {
                    place.reads_history = true;
                    break;
                }
                Err(failure) => {
                    self.shape.write_error(&failure, batch);
                    return true;
                }
            };
            let length = self.shape.bytes_to_read(change);
            if shown.is_some() && !may_read(length) {
                place.reads_history = true;
                break;
            }
            place.cursor = place.cursor.advanced(1);
            if let Some(shown) = shown {
                count_work(length);
                if let Err(failure) = self.write_transition(shown, change, batch) {
                    self.shape.write_error(&failure, batch);
                    return true;
                }
                self.ends_in_relist_gap = snapshot.is_in_relist_gap(change.version);
            }
        }
        if !place.reads_history {
            place.seen = place.seen.max(snapshot.version());
            // The store has ended, and every change has been sent. A client that resumes learns what is served now.
            if let Some(reason) = gone {
                let predicate = match reason {
                    // kube-apiserver ends its watches of a definition that is changed or deleted without a message.
                    GoneReason::NotServed | GoneReason::Replaced => None,
                    // A client that resumed would miss the objects whose deletion it was sent, once the version is
                    // served again.
                    GoneReason::VersionEnded => Some("is no longer served in this version"),
                    GoneReason::NotOffered => Some("is no longer offered by the API server"),
                    GoneReason::NotCached => Some("is no longer cached here"),
                };
                if let Some(predicate) = predicate {
                    let message = format!("too old resource version: {} {predicate}", self.resource.gvr);
                    self.shape.write_error(&ApiError::Expired { message, continue_token: None }, batch);
                }
                return false;
            }
        }
        self.place = Place::Following(place);
        !place.reads_history
    }

    /// Writes one change from the mailbox, with a line that all watches of this form share.
    fn write_dispatched_event(&mut self, routed: &DispatchedEvent, batch: &mut Batch) -> Result<Written, ApiError> {
        let shown = match watched_change(self.subscription.selection(), &routed.change)? {
            WatchedChange::Known(Some(shown)) => shown,
            WatchedChange::Known(None) => return Ok(Written::Done),
            WatchedChange::NeedsLongTurn => return Ok(Written::NeedsLongTurn),
        };
        let bytes = self.shape.bytes_to_read(&routed.change);
        if !may_read(bytes) {
            return Ok(Written::NeedsLongTurn);
        }
        count_work(bytes);
        let line = self.shape.routed_event(&self.resource, routed, &shown)?;
        if line.is_empty() {
            return Ok(Written::Done);
        }
        if self.gzip.is_none() {
            batch.push(line);
        } else if self.shape.is_table() {
            // The row shows ages and changes each second, so its compressed form is not shared.
            batch.rest.extend_from_slice(&line);
        } else {
            batch.push_deflated(routed.deflated(&line, || gzip::deflate(&line)));
        }
        Ok(Written::Done)
    }

    /// Writes a change from history as an event, unless the watch is quiet and shows no difference.
    fn write_transition(&mut self, shown: Transition, change: &Change, batch: &mut Vec<u8>) -> Result<(), ApiError> {
        if self.shape.is_silent(&self.resource, &shown, change) {
            return Ok(());
        }
        let Some(shown) = shown.map(|object| self.resource.show(object)) else { return Ok(()) };
        let (kind, shown) = WatchEventType::from_transition(&shown, change.version);
        self.shape.write_event(&self.resource, kind, shown, batch)
    }

    /// Writes a bookmark if one is due, and at once after events in a relist gap, so that a client can resume after the
    /// gap.
    fn bookmark_if_due(&mut self, batch: &mut Batch) {
        let Place::Following(HistoryPosition { after, seen, .. }) = self.place else { return };
        let Some(bookmarks) = &mut self.bookmarks else { return };
        let now = Instant::now();
        let is_due = now >= bookmarks.due();
        if is_due {
            bookmarks.sent(now);
        }
        // While the store is older than the version of the client, a bookmark would send the client back.
        if (is_due || std::mem::take(&mut self.ends_in_relist_gap)) && seen >= after {
            self.write_bookmark(seen, false, &mut batch.rest);
        }
    }

    /// A batch with the bookmark that is due shortly before the end, if it was not sent in time, such as on a busy
    /// machine. The next watch of the client can start from it. `None`: the watch ends without this bookmark.
    fn last_bookmark(&mut self) -> Option<Batch> {
        let place = std::mem::replace(&mut self.place, Place::Ended);
        // While initial events or changes are left to write, a bookmark would make the client miss them, or receive
        // events twice.
        let Place::Following(HistoryPosition { after, seen, reads_history: false, is_behind: false, .. }) = place
        else {
            return None;
        };
        self.bookmarks.as_mut()?.last.take()?;
        // If there is another reason to end, the next request of the client reports it.
        let is_same =
            matches!(self.resource.state.load_state(), LoadState::Ready(snapshot) if snapshot.epoch() == self.epoch);
        if seen < after || !is_same || self.view_changes.reason(&self.resource).is_some() || self.lease.is_due() {
            return None;
        }
        let mut batch = Batch::default();
        self.write_bookmark(seen, false, &mut batch.rest);
        Some(batch)
    }

    /// Writes a bookmark for a new progress notification, if forwarding is requested. A batch with an event needs none,
    /// because an event confirms progress by itself.
    fn forward_progress(&mut self, batch: &mut Batch) {
        let Place::Following(HistoryPosition { after, seen, .. }) = self.place else { return };
        let (Some(forwarding), true) = (&mut self.progress_forwarding, seen >= after) else { return };
        let progress = self.resource.state.freshness().last_progress();
        if forwarding.last_forwarded.replace(progress) != Some(progress) && batch.is_empty() {
            self.write_bookmark(seen, false, &mut batch.rest);
        }
    }

    /// Writes a bookmark of the version `at`. If that fails, writes an ERROR event and ends the watch.
    fn write_bookmark(&mut self, at: Version, ends_initial_events: bool, batch: &mut Vec<u8>) {
        let lag = self.progress_forwarding.is_some().then(|| self.resource.state.freshness().lag());
        let mark = Mark { at, ends_initial_events, lag };
        if let Err(failure) = self.shape.write_bookmark(&self.resource, &mark, batch) {
            self.shape.write_error(&failure, batch);
            self.place = Place::Ended;
        }
    }

    /// Waits for reviews of the caller's permissions that are due. Ends sooner for a reason to end the watch.
    async fn wait_for_reviews(&mut self) {
        let end = self.lease.due().map_or(self.deadline, |due| due.min(self.deadline));
        tokio::select! {
            () = self.view_changes.reviewed() => {}
            _ = self.draining.wait_for(|draining| *draining) => {}
            () = sleep_until(end) => {}
        }
    }

    /// Waits until there may be something to send, or a reason to end.
    async fn wait(&mut self) {
        let bookmark = match &self.bookmarks {
            // A bookmark that is due but cannot be sent yet would make this a busy loop, so the time is in the future.
            Some(bookmarks) => bookmarks.due().max(Instant::now() + Duration::from_millis(1)),
            None => self.deadline,
        };
        let next = bookmark.min(self.deadline);
        tokio::select! {
            () = self.subscription.changed() => {}
            () = self.view_changes.changed(&self.resource) => {}
            _ = self.draining.wait_for(|draining| *draining) => self.place = Place::Ended,
            () = sleep_until(self.lease.due().map_or(next, |due| due.min(next))) => {}
        }
    }
}
