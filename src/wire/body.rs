//! The body of a response: whole, in chunks created on demand, a stream that waits, or one that is forwarded.
//!
//! hyper polls a body when the connection can take more, and so does [`crate::transport::websocket`] if the body is one
//! of `messages`. Nothing is queued here. A body waits while too many of its
//! bytes are unread ([`crate::flow_control::unread`]). Compression follows apiserver `handlers/responsewriters`:
//! above 131072 bytes, and only if the client accepts exactly `gzip`. `gzip` compresses.
//!
//! The work of creating chunks is divided into turns, fairly between users: see [`crate::flow_control::seats`].
//!
//! A panic while a piece is created ends this body alone, with an error. So no client takes half a response for a whole
//! one.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::stream::{Stream, StreamExt};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

use super::gzip;
use super::gzip::Gzip;
use super::indent::Pretty;
use super::messages::EventMessages;
use super::past;
use super::pieces::Pieces;
use super::request_log::RequestLog;
use crate::flow_control::seats::Worker;
use crate::flow_control::unread;
use crate::flow_control::unread::Meter;
use crate::flow_control::user::UserShare;
use crate::registry::upstream::UpstreamBody;
use crate::registry::{PanicOrigin, Panics};
use crate::store::Revocation;
use crate::transport::listen::ResponseBody;
use crate::transport::pace::Pace;
use crate::transport::stream_timeout;
use crate::transport::stream_timeout::PollOutcome;

/// Longer bodies are compressed, in bytes: the threshold of kube-apiserver.
const COMPRESS_ABOVE: usize = 128 * 1024;

/// The number of chunks that one response sends before its task yields: half a megabyte, less than a millisecond of
/// work. Otherwise a fast client would occupy a thread until a whole list is sent.
const CHUNKS_AT_A_TIME: u8 = 8;

/// A response body.
pub struct Body {
    kind: Kind,
    /// The number of chunks since the task yielded.
    running: u8,
    /// Divides the body into the messages of a WebSocket. `None`: the body is not sent over a WebSocket.
    messages: Option<Box<EventMessages>>,
    /// Guards that are dropped with the body.
    held: Vec<Box<dyn Send>>,
    /// Counts panics of the body.
    panics: Option<Arc<Panics>>,
    /// Takes a turn for each chunk. `None`: the body takes no turns.
    worker: Option<Box<Worker>>,
    /// Counts unread bytes. `None`: they are not counted.
    meter: Option<Box<Meter>>,
    /// The bytes of memory that creating the pieces takes, besides the pieces.
    held_bytes: u64,
    /// Reports when the snapshot of the pieces is revoked.
    revocation: Option<Revocation>,
    /// The share of a small body's memory. It moves to the bytes when they are sent.
    share: Option<UserShare>,
    /// When the last piece was yielded, if the client must request the next one in time.
    given: Option<Instant>,
    /// How long the client may still wait before it requests further pieces.
    pace: Pace,
    /// Logs the request when the body is dropped.
    log: Option<Box<RequestLog>>,
}

/// The bytes of a small body, which keep its share until they are freed.
struct SharedBytes {
    bytes: Bytes,
    _share: UserShare,
}

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

enum Kind {
    /// Complete in memory; empty once it is sent.
    Whole(Bytes),
    /// Created on demand, without waiting.
    Pieces(Pieces),
    /// Waits for events, as that of a watch.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
    /// The response of another server. `waits`: it can be a watch.
    Forwarded { body: UpstreamBody, waits: bool },
}

impl Body {
    /// A body of this kind, without limits and metrics.
    fn new(kind: Kind) -> Body {
        Body {
            kind,
            running: 0,
            messages: None,
            held: Vec::new(),
            panics: None,
            worker: None,
            meter: None,
            held_bytes: 0,
            revocation: None,
            share: None,
            given: None,
            pace: Pace::default(),
            log: None,
        }
    }

    /// A body without bytes.
    pub fn empty() -> Body {
        Body::new(Kind::Whole(Bytes::new()))
    }

    /// A body of these bytes.
    pub fn whole(bytes: impl Into<Bytes>) -> Body {
        Body::new(Kind::Whole(bytes.into()))
    }

    /// A body of chunks that are created on demand. The iterator must not wait.
    pub fn pieces(pieces: Pieces) -> Body {
        Body::new(Kind::Pieces(pieces))
    }

    /// A body of batches that become ready at any time, such as the events of a watch.
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Body {
        Body::new(Kind::Stream(Box::pin(stream)))
    }

    /// The body of another server's response. `waits`: it may send nothing for a long time, like a watch. If it ends
    /// with an error, so does this one: the connection is cut, because half a response must not look like a whole
    /// one.
    pub fn forwarded(body: UpstreamBody, waits: bool) -> Body {
        Body::new(Kind::Forwarded { body, waits })
    }

    /// Whether the body may wait for events before it sends more, like that of a watch.
    pub fn is_stream(&self) -> bool {
        matches!(self.kind, Kind::Stream(_) | Kind::Forwarded { waits: true, .. })
    }

    /// Divides the events of the body into the messages of a WebSocket.
    pub(crate) fn send_messages(&mut self, messages: EventMessages) {
        self.messages = Some(Box::new(messages));
    }

    /// Attaches a guard, which is dropped when the body has been sent or dropped.
    pub fn hold(&mut self, guard: impl Send + 'static) {
        self.held.push(Box::new(guard));
    }

    /// Makes the body take a turn of `worker` for each chunk. Does nothing for whole bodies, which are small work,
    /// and for watches, which take turns themselves.
    pub(crate) fn take_turns(&mut self, worker: impl FnOnce() -> Worker) {
        if matches!(self.kind, Kind::Pieces(_) | Kind::Forwarded { waits: false, .. }) {
            self.worker = Some(Box::new(worker()));
        }
    }

    /// Adds to the bytes of memory that creating the pieces takes, besides the pieces. Does nothing for other kinds of
    /// bodies.
    pub(crate) fn add_held_bytes(&mut self, bytes: u64) {
        if matches!(self.kind, Kind::Pieces(_)) {
            self.held_bytes += bytes;
        }
    }

    /// The most memory, in bytes, that the body holds while its client does not read. `None` for a small body, which
    /// counts by [`Body::small_length`], and for a watch, which is ended instead when too much is unread.
    pub(crate) fn most_held_bytes(&self) -> Option<u64> {
        match &self.kind {
            Kind::Whole(bytes) => (bytes.len() > unread::SMALL).then_some(bytes.len() as u64),
            Kind::Pieces(_) | Kind::Forwarded { waits: false, .. } => Some(unread::STREAMED + self.held_bytes),
            Kind::Stream(_) | Kind::Forwarded { waits: true, .. } => None,
        }
    }

    /// The length in bytes of a whole body that is not empty and has no meter. Bodies above [`unread::SMALL`] get a
    /// meter, so this is the length of a small body. `None` for all others.
    pub(crate) fn small_length(&self) -> Option<usize> {
        match &self.kind {
            Kind::Whole(bytes) if !bytes.is_empty() && self.meter.is_none() => Some(bytes.len()),
            Kind::Whole(_) | Kind::Pieces(_) | Kind::Stream(_) | Kind::Forwarded { .. } => None,
        }
    }

    /// Attaches the share of a small body of the limit on unread bytes. It is released when the bytes of the body are
    /// freed.
    pub(crate) fn attach_share(&mut self, share: UserShare) {
        self.share = Some(share);
    }

    /// Attaches the log line of the request, which is written when the body has been sent or dropped.
    pub(crate) fn attach_log(&mut self, log: RequestLog) {
        self.log = Some(Box::new(log));
    }

    /// Makes `meter` count the unread bytes of the body.
    pub(crate) fn count_unread(&mut self, meter: Meter) {
        self.meter = Some(Box::new(meter));
    }

    /// Makes the body end with an error when its snapshot is revoked. A client that reads slowly while many objects
    /// change keeps their past states in memory. It loses the snapshot when all readers keep too much (`store::pins`).
    pub(crate) fn end_when_revoked(&mut self, revocation: Revocation) {
        self.revocation = Some(revocation);
    }

    /// Counts panics of the body in `panics`.
    pub(crate) fn count_panics(&mut self, panics: &Arc<Panics>) {
        self.panics = Some(panics.clone());
    }

    /// Polls the next frame, without turns and limits. Over a WebSocket it has one or more messages, and a body that
    /// ends within an event ends with an error.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            let next = ready!(self.poll_kind(context));
            let Some(messages) = &mut self.messages else { return Poll::Ready(next) };
            let frame = match next {
                Some(Ok(frame)) => frame,
                None if messages.is_within_event() => {
                    self.messages = None;
                    return Poll::Ready(Some(Err("the body ended within an event".into())));
                }
                Some(Err(_)) | None => return Poll::Ready(next),
            };
            let bytes = frame.data_ref().map(|bytes| messages.push(bytes)).unwrap_or_default();
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
        }
    }

    /// Polls the next frame as the kind of the body yields it.
    fn poll_kind(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.kind {
            Kind::Whole(bytes) => Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(std::mem::take(bytes))))),
            Kind::Pieces(pieces) => Poll::Ready(pieces.next().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(stream) => {
                stream.poll_next_unpin(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
            Kind::Forwarded { body, .. } => Pin::new(body).poll_frame(context),
        }
    }

    /// Counts the bytes of a frame as unread until the client has read them, and returns the frame. A small body is
    /// counted already, so its share is attached to the bytes instead.
    ///
    /// # Errors
    /// The user may not leave so many bytes unread. The rest of the body is dropped.
    fn count_frame(&mut self, frame: Frame<Bytes>, context: &Context<'_>) -> Result<Frame<Bytes>, BodyError> {
        if let Some(share) = self.share.take() {
            return Ok(frame.map_data(|bytes| Bytes::from_owner(SharedBytes { bytes, _share: share })));
        }
        // Only a task that sends the body to a client frees the bytes again, and can be ended.
        let Some(meter) = self.meter.as_mut().filter(|_| stream_timeout::is_sending()) else { return Ok(frame) };
        // The meter has a response from the first counted bytes on. `stream_timeout` ends the task by it.
        let is_first = meter.response().is_none();
        let mut is_too_much = false;
        let frame = frame.map_data(|bytes| {
            meter.count(bytes, context).unwrap_or_else(|| {
                is_too_much = true;
                Bytes::new()
            })
        });
        if let Some(response) = meter.response().filter(|_| is_first) {
            stream_timeout::set_response(response);
        }
        if is_too_much {
            self.drop_rest();
            return Err(
                "unread responses of this user take the maximum of memory, so this response was ended early".into()
            );
        }
        Ok(frame)
    }

    /// Drops the rest of the body and its guards.
    fn drop_rest(&mut self) {
        self.kind = Kind::Whole(Bytes::new());
        self.held.clear();
    }

    /// Handles a panic while a piece was created: logs and counts it, and drops the rest of the body. Returns the
    /// error that ends the response.
    fn end_after_panic(&mut self) -> BodyError {
        let place = if self.is_stream() { PanicOrigin::Watch } else { PanicOrigin::Answer };
        tracing::error!(place = place.as_str(), "a response panicked and was ended early");
        if let Some(panics) = &self.panics {
            panics.count(place);
        }
        self.drop_rest();
        "internal error while the response was created".into()
    }

    /// The length in bytes; `None` if it is not known before the body is created.
    pub fn length(&self) -> Option<u64> {
        match &self.kind {
            Kind::Whole(bytes) => Some(bytes.len() as u64),
            Kind::Pieces(_) | Kind::Stream(_) | Kind::Forwarded { .. } => None,
        }
    }
}

impl ResponseBody for Body {
    fn is_whole(&self) -> bool {
        self.length().is_some()
    }

    fn hold(&mut self, guard: impl Send + 'static) {
        Body::hold(self, guard);
    }

    fn take(&mut self) -> Body {
        std::mem::replace(self, Body::empty())
    }
}

/// Why a body ends early.
type BodyError = Box<dyn Error + Send + Sync>;

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    /// Yields after [`CHUNKS_AT_A_TIME`] chunks, and waits while too much is unread. Ends the body with an error if
    /// the client reads too slowly. Then takes a turn, creates the next piece in it, and counts the piece. Ends the
    /// body with an error after a panic, or if the snapshot of its pieces was revoked. An empty piece ends the turn
    /// and is not sent. `record_poll` tells `stream_timeout` what the body waits for.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.running == CHUNKS_AT_A_TIME {
            self.running = 0;
            stream_timeout::record_poll(PollOutcome::Nothing);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.meter.as_ref().is_some_and(|meter| !meter.ready_or_wake(context)) {
            self.running = 0;
            stream_timeout::record_poll(PollOutcome::WaitsForReader);
            return Poll::Pending;
        }
        if let Some(given) = self.given.take()
            && !self.pace.record_pause(given.elapsed())
        {
            tracing::debug!("a client read a response too slowly, so it was ended early");
            self.drop_rest();
            return Poll::Ready(Some(Err("the response was read too slowly".into())));
        }
        if self.worker.as_mut().is_some_and(|worker| worker.poll_turn(context).is_pending()) {
            self.running = 0;
            stream_timeout::record_poll(PollOutcome::Nothing);
            return Poll::Pending;
        }
        // If it panics, its half-changed state is dropped: see `end_after_panic`.
        let mut worker = self.worker.take();
        let poll = AssertUnwindSafe(|| match &mut worker {
            Some(worker) => worker.work(|| self.poll_next(context)),
            None => self.poll_next(context),
        });
        let next = catch_unwind(poll).unwrap_or_else(|_| Poll::Ready(Some(Err(self.end_after_panic()))));
        self.worker = worker;
        // Checked after the piece was created: once the snapshot is revoked, the piece can look like the last one.
        let next =
            if matches!(self.kind, Kind::Pieces(_)) && self.revocation.as_ref().is_some_and(Revocation::is_revoked) {
                past::warn_of_revoked_reader();
                self.drop_rest();
                Poll::Ready(Some(Err("the response was read too slowly while many objects changed".into())))
            } else {
                next
            };
        let next = next.map(|next| next.map(|frame| frame.and_then(|frame| self.count_frame(frame, context))));
        stream_timeout::record_poll(if matches!(next, Poll::Ready(Some(_))) {
            PollOutcome::Piece
        } else {
            PollOutcome::Nothing
        });
        if let (Some(log), Poll::Ready(Some(Ok(frame)))) = (&mut self.log, &next) {
            log.count_sent(frame.data_ref().map_or(0, Bytes::len));
        }
        if let (Kind::Pieces(_), Poll::Ready(Some(Ok(frame)))) = (&self.kind, &next)
            && frame.data_ref().is_some_and(Bytes::is_empty)
        {
            self.running = 0;
            stream_timeout::record_poll(PollOutcome::Nothing);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        // Only for pieces: forwarded responses wait for the other server, and watches for events.
        if let (Kind::Pieces(_), Poll::Ready(Some(Ok(frame)))) = (&self.kind, &next) {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            self.pace.record_read(bytes);
            self.given = Some(Instant::now());
        }
        self.running = if next.is_ready() { self.running + 1 } else { 0 };
        next
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(bytes) => bytes.is_empty(),
            Kind::Forwarded { body, .. } => body.is_end_stream(),
            Kind::Pieces(_) | Kind::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Forwarded { body, .. } => body.size_hint(),
            Kind::Pieces(_) | Kind::Stream(_) => SizeHint::default(),
        }
    }
}

/// How the chunks of a response are turned into its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finish {
    /// JSON is indented by two spaces.
    pub pretty: bool,
    /// The client accepts gzip.
    pub gzip: bool,
    /// Short responses are streamed too, without a length. Otherwise a client could learn whether one turn of work was
    /// enough for the response.
    pub streams: bool,
}

/// Makes the body of a response from its chunks, and returns whether it is compressed. A small body is created at
/// once, so that the response has a length, unless [`Finish::streams`] is set.
pub fn finish(pieces: Pieces, finish: Finish) -> (Body, bool) {
    let mut pieces: Pieces = if finish.pretty { Box::new(Pretty::new(pieces)) } else { pieces };
    let mut first = Vec::new();
    let mut size = 0;
    // Longer responses are streamed: more than one chunk, or with compression more than libdeflate gets at once.
    let is_long = |size: usize, count: usize| if finish.gzip { size > gzip::WHOLE } else { count > 1 };
    // A response that is always streamed creates its first chunk here too: whether the limits have room for it must be
    // known before it begins.
    while if finish.streams { first.is_empty() } else { !is_long(size, first.len()) } {
        match pieces.next() {
            // The response takes more than this turn of work.
            Some(piece) if piece.is_empty() => break,
            Some(piece) => {
                size += piece.len();
                first.push(piece);
            }
            None if finish.streams => break,
            None if finish.gzip && size > COMPRESS_ABOVE => {
                return (Body::whole(gzip::compress_whole(&first.concat())), true);
            }
            None if first.len() == 1 => return (Body::whole(first.remove(0)), false),
            None => return (Body::whole(first.concat()), false),
        }
    }
    let all: Pieces = Box::new(first.into_iter().chain(pieces));
    let all = if finish.gzip { Box::new(Gzip::new(all)) } else { all };
    let mut body = Body::pieces(all);
    // A streamed response counts with `STREAMED` bytes already, so only what exceeds them is added.
    body.add_held_bytes((size as u64).saturating_sub(unread::STREAMED) + if finish.gzip { gzip::STATE } else { 0 });
    (body, finish.gzip)
}
