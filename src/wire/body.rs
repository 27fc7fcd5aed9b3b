//! The body of a response: whole, in chunks created on demand, a stream that waits, or one that is forwarded.
//!
//! Bodies are pulled by hyper when the connection can take more; nothing is queued here. A body waits while too much of
//! what it has given is unread (`limits::unread`). Compression follows apiserver `handlers/responsewriters`: above 131072 bytes, only for a token that is
//! exactly `gzip`; how it is done is in `gzip`.
//!
//! Chunks are made in turn with all other work of the server, fairly between users: see `limits::seats`.
//!
//! A panic while a piece is created ends this body alone, as a broken one. So no client takes half a response for a
//! whole one.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{Stream, StreamExt};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

use super::gzip;
use super::gzip::Gzip;
use super::indent::Pretty;
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
use crate::transport::stream_timeout::Said;

/// Below this size compressing costs more than it saves; the API server's threshold, in bytes.
const COMPRESS_ABOVE: usize = 128 * 1024;

/// The number of chunks that one response sends before others have their turn: half a megabyte, less than a
/// millisecond of work. A connection that is read as fast as it is written would otherwise occupy its thread until a
/// whole list is sent.
const CHUNKS_AT_A_TIME: u8 = 8;

/// A response body.
pub struct Body {
    kind: Kind,
    /// Chunks sent since others had their turn.
    running: u8,
    /// Dropped with the body, however that ends.
    held: Vec<Box<dyn Send>>,
    /// Where its panics are counted.
    panics: Option<Arc<Panics>>,
    /// Takes a turn for each chunk.
    worker: Option<Box<Worker>>,
    /// Counts what is unread.
    meter: Option<Box<Meter>>,
    /// Bytes in memory besides its pieces.
    held_bytes: u64,
    /// Reports when the state of its pieces is revoked.
    revocation: Option<Revocation>,
    /// What a small body holds, until its bytes are free.
    share: Option<UserShare>,
    /// When its last piece was yielded, and how slowly further ones may be requested.
    given: Option<Instant>,
    pace: Pace,
    /// Logs the request when the body is dropped.
    log: Option<Box<RequestLog>>,
}

/// The bytes of a small body with what they hold.
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
    Whole(Bytes),
    Pieces(Pieces),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
    Forwarded { body: UpstreamBody, waits: bool },
}

impl Body {
    /// A body of this kind, without limits and metrics.
    fn new(kind: Kind) -> Body {
        Body {
            kind,
            running: 0,
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

    /// A body of chunks that are created on demand, without waiting.
    pub fn pieces(pieces: Pieces) -> Body {
        Body::new(Kind::Pieces(pieces))
    }

    /// A body of batches, which come at any time.
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Body {
        Body::new(Kind::Stream(Box::pin(stream)))
    }

    /// The body of another server's response, as it comes; `waits`: it may be silent for long. When it breaks off, so
    /// does this one. The connection is cut instead of ended, as half a response must not look like a whole one.
    pub fn forwarded(body: UpstreamBody, waits: bool) -> Body {
        Body::new(Kind::Forwarded { body, waits })
    }

    /// Whether the body waits for what it sends, as that of a watch does.
    pub fn is_stream(&self) -> bool {
        matches!(self.kind, Kind::Stream(_) | Kind::Forwarded { waits: true, .. })
    }

    /// Attaches a guard, which is dropped when the body has been sent or dropped.
    pub fn hold(&mut self, guard: impl Send + 'static) {
        self.held.push(Box::new(guard));
    }

    /// Creates chunks in turns with other work. Watches take turns by themselves.
    pub(crate) fn take_turns(&mut self, worker: impl FnOnce() -> Worker) {
        if matches!(self.kind, Kind::Pieces(_) | Kind::Forwarded { waits: false, .. }) {
            self.worker = Some(Box::new(worker()));
        }
    }

    /// Sets the bytes that are in memory besides the pieces until the body has been created.
    pub(crate) fn holds(&mut self, bytes: u64) {
        if matches!(self.kind, Kind::Pieces(_)) {
            self.held_bytes += bytes;
        }
    }

    /// What it holds while its client does not read, if that is bounded before it is sent. Watches are not included,
    /// because they end instead, nor is what is small.
    pub(crate) fn may_hold(&self) -> Option<u64> {
        match &self.kind {
            Kind::Whole(bytes) => (bytes.len() > unread::SMALL).then_some(bytes.len() as u64),
            Kind::Pieces(_) | Kind::Forwarded { waits: false, .. } => Some(unread::STREAMED + self.held_bytes),
            Kind::Stream(_) | Kind::Forwarded { waits: true, .. } => None,
        }
    }

    /// The length of a small body of which nothing is counted yet.
    pub(crate) fn small_length(&self) -> Option<usize> {
        match &self.kind {
            Kind::Whole(bytes) if !bytes.is_empty() && self.meter.is_none() => Some(bytes.len()),
            Kind::Whole(_) | Kind::Pieces(_) | Kind::Stream(_) | Kind::Forwarded { .. } => None,
        }
    }

    /// Attaches a share until the bytes of a small body are free.
    pub(crate) fn share(&mut self, share: UserShare) {
        self.share = Some(share);
    }

    /// Logs the request when the body has been sent or dropped.
    pub(crate) fn log(&mut self, log: RequestLog) {
        self.log = Some(Box::new(log));
    }

    /// Counts the unread bytes of the body.
    pub(crate) fn count_unread(&mut self, meter: Meter) {
        self.meter = Some(Box::new(meter));
    }

    /// Ends the body when the state that its pieces are created from is revoked.
    pub(crate) fn breaks_off(&mut self, revocation: Revocation) {
        self.revocation = Some(revocation);
    }

    /// Counts panics of the body in `panics`.
    pub(crate) fn count_panics(&mut self, panics: &Arc<Panics>) {
        self.panics = Some(panics.clone());
    }

    /// Polls the next frame of the body, whatever its kind is.
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

    /// Counts a piece until the client has read it.
    ///
    /// # Errors
    /// It is longer than what its user may leave unread: the response breaks off.
    fn counted(&mut self, frame: Frame<Bytes>, context: &Context<'_>) -> Result<Frame<Bytes>, BodyError> {
        if let Some(share) = self.share.take() {
            return Ok(frame.map_data(|bytes| Bytes::from_owner(SharedBytes { bytes, _share: share })));
        }
        let Some(meter) = self.meter.as_mut().filter(|_| stream_timeout::sends()) else { return Ok(frame) };
        let is_first = meter.answer().is_none();
        let mut is_too_much = false;
        let frame = frame.map_data(|bytes| {
            meter.count(bytes, context).unwrap_or_else(|| {
                is_too_much = true;
                Bytes::new()
            })
        });
        if let Some(answer) = meter.answer().filter(|_| is_first) {
            stream_timeout::send(answer);
        }
        if is_too_much {
            self.cut();
            return Err("unread responses of this user take as much memory as they may".into());
        }
        Ok(frame)
    }

    /// Drops the rest of the body.
    fn cut(&mut self) {
        self.kind = Kind::Whole(Bytes::new());
        self.held.clear();
    }

    /// Handles an internal error while a piece was created: drops the rest, and the response breaks off.
    fn broken(&mut self) -> BodyError {
        let place = if self.is_stream() { PanicOrigin::Watch } else { PanicOrigin::Answer };
        tracing::error!(place = place.as_str(), "a response panicked and was ended early");
        if let Some(panics) = &self.panics {
            panics.count(place);
        }
        self.cut();
        "internal error while the response was created".into()
    }

    /// The length, if it is known in advance.
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
}

/// Why a body breaks off.
type BodyError = Box<dyn Error + Send + Sync>;

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.running == CHUNKS_AT_A_TIME {
            self.running = 0;
            stream_timeout::say(Said::Nothing);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.meter.as_ref().is_some_and(|meter| !meter.is_ready(context)) {
            self.running = 0;
            stream_timeout::say(Said::Waits);
            return Poll::Pending;
        }
        if let Some(given) = self.given.take()
            && !self.pace.wait(given.elapsed())
        {
            tracing::debug!("a client read a response too slowly, so it was ended early");
            self.cut();
            return Poll::Ready(Some(Err("the response was read too slowly".into())));
        }
        if self.worker.as_mut().is_some_and(|worker| worker.poll_turn(context).is_pending()) {
            self.running = 0;
            stream_timeout::say(Said::Nothing);
            return Poll::Pending;
        }
        // Half-changed state is dropped with the body's kind.
        let mut worker = self.worker.take();
        let poll = AssertUnwindSafe(|| match &mut worker {
            Some(worker) => worker.work(|| self.poll_kind(context)),
            None => self.poll_kind(context),
        });
        let next = catch_unwind(poll).unwrap_or_else(|_| Poll::Ready(Some(Err(self.broken()))));
        self.worker = worker;
        // Looked at after the piece was made: it can be cut, and so look like the last one.
        let next =
            if matches!(self.kind, Kind::Pieces(_)) && self.revocation.as_ref().is_some_and(Revocation::is_revoked) {
                past::warn();
                self.cut();
                Poll::Ready(Some(Err("the response was read too slowly while much has changed".into())))
            } else {
                next
            };
        let next = next.map(|next| next.map(|frame| frame.and_then(|frame| self.counted(frame, context))));
        stream_timeout::say(if matches!(next, Poll::Ready(Some(_))) { Said::Piece } else { Said::Nothing });
        if let (Some(log), Poll::Ready(Some(Ok(frame)))) = (&mut self.log, &next) {
            log.sent(frame.data_ref().map_or(0, Bytes::len));
        }
        if let (Kind::Pieces(_), Poll::Ready(Some(Ok(frame)))) = (&self.kind, &next)
            && frame.data_ref().is_some_and(Bytes::is_empty)
        {
            self.running = 0;
            stream_timeout::say(Said::Nothing);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        // What others send may wait for them, and a watch waits for events.
        if let (Kind::Pieces(_), Poll::Ready(Some(Ok(frame)))) = (&self.kind, &next) {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            self.pace.take(bytes);
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

/// How the chunks of a response are finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finish {
    /// Indented by two spaces.
    pub pretty: bool,
    /// The client accepts gzip.
    pub gzip: bool,
    /// Short responses are streamed too: whether one turn of work was enough for it must not show.
    pub streams: bool,
}

/// Completes a body of chunks, and returns whether it is compressed. Small bodies are sent whole, so that they have a
/// length.
pub fn finish(pieces: Pieces, finish: Finish) -> (Body, bool) {
    let mut pieces: Pieces = if finish.pretty { Box::new(Pretty::new(pieces)) } else { pieces };
    let mut first = Vec::new();
    let mut size = 0;
    // A second chunk means that the response is not small; its compression is chosen when it is longer than a buffer.
    let is_long = |size: usize, count: usize| if finish.gzip { size > gzip::WHOLE } else { count > 1 };
    // Of a response that is always streamed too: whether there is room for it must be known before it begins.
    while if finish.streams { first.is_empty() } else { !is_long(size, first.len()) } {
        match pieces.next() {
            // It takes more turns than this one.
            Some(piece) if piece.is_empty() => break,
            Some(piece) => {
                size += piece.len();
                first.push(piece);
            }
            None if finish.streams => break,
            None if finish.gzip && size > COMPRESS_ABOVE => return (Body::whole(gzip::whole(&first.concat())), true),
            None if first.len() == 1 => return (Body::whole(first.remove(0)), false),
            None => return (Body::whole(first.concat()), false),
        }
    }
    let all: Pieces = Box::new(first.into_iter().chain(pieces));
    let all = if finish.gzip { Box::new(Gzip::new(all)) } else { all };
    let mut body = Body::pieces(all);
    // The first pieces are a part of what a streamed response may hold.
    body.holds((size as u64).saturating_sub(unread::STREAMED) + if finish.gzip { gzip::STATE } else { 0 });
    (body, finish.gzip)
}
