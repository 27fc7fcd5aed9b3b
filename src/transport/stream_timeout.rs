//! Drops an HTTP/2 stream whose reader has stopped, while the others of its connection continue.
//!
//! A peer opens a stream's window by reading from it. While it is closed, the response's body is not polled, so it
//! cannot see that it waits, and holds the state that its list walks. So the task that hyper creates for each stream is
//! observed from outside. When the last thing its body did was to yield a piece, and the task sleeps, it waits for the
//! reader. After [`PATIENCE`] without another piece read the task is dropped, which resets the stream and releases
//! everything. A watch that waits for events has yielded nothing since its last poll, and may wait as long as it likes.
//!
//! Connections as a whole, and HTTP/1.1, are the matter of [`super::write_timeout`].
//!
//! The task also ends when its response must, because too much is unread: see [`crate::flow_control::unread`]. Over
//! HTTP/1.1 the task is that of the connection ([`until_ended`]).
#![expect(clippy::disallowed_methods, reason = "streams are tasks, which hyper hands here to be started")]

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::{Instant, Sleep, sleep};

use super::pace::PATIENCE;
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::connections::Connections;
use crate::flow_control::limit::Limited;
use crate::flow_control::seats::{UNIT_TIME, Worker};
use crate::flow_control::unread::UnreadResponse;
use crate::flow_control::user::UserShare;

/// What the body of a response returned from its last poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// A piece.
    Piece,
    /// That it waits until something of it has been read.
    Waits,
    /// That there is none now, or none any more.
    Nothing,
}

thread_local! {
    /// By the body that was polled last on this thread, within the task that is being polled.
    static SAID: Cell<Option<Said>> = const { Cell::new(None) };
    /// The response that the task has begun to send.
    static ANSWER: Cell<Option<Arc<UnreadResponse>>> = const { Cell::new(None) };
    /// Whether the task that is being polled sends answers.
    static SENDS: Cell<bool> = const { Cell::new(false) };
}

/// Records what the last poll of a body on this thread returned. Bodies call it at each poll.
pub(crate) fn say(said: Said) {
    // A piece that was given before it waits is progress of the reader.
    if said != Said::Waits || SAID.get() != Some(Said::Piece) {
        SAID.set(Some(said));
    }
}

/// For bodies, when the first bytes are counted: sets the response that can end the task.
pub(crate) fn send(answer: &Arc<UnreadResponse>) {
    ANSWER.set(Some(answer.clone()));
}

/// Whether the body is polled to be sent, by a task that frees its pieces once they are and can be ended.
pub(crate) fn sends() -> bool {
    SENDS.get()
}

/// Polls a task that sends responses. Returns its outcome, and the response that it has begun to send.
fn poll_sending<Work: Future>(
    work: Pin<&mut Work>,
    context: &mut Context<'_>,
) -> (Poll<Work::Output>, Option<Arc<UnreadResponse>>) {
    /// Also when the task panics.
    struct Reset;
    impl Drop for Reset {
        /// Resets the flag when the scope ends.
        fn drop(&mut self) {
            SENDS.set(false);
        }
    }
    ANSWER.set(None);
    SENDS.set(true);
    let _reset = Reset;
    (work.poll(context), ANSWER.take())
}

/// Runs a connection until it ends, or one of its answers has to.
///
/// Over HTTP/2 `worker` pays for its own work. A peer can make it expensive with frames that are no requests, such as
/// SETTINGS, each of which changes every stream. A turn for each poll would cost as much as the poll, so it takes one
/// once they have come to a unit. Over HTTP/1.1 nearly all of the work is that of the responses, which pay for it
/// themselves.
pub(crate) async fn until_ended<Work: Future>(
    link: &Link,
    mut worker: Option<Worker>,
    work: Work,
) -> Option<Work::Output> {
    let mut work = pin!(work);
    let mut answer: Option<Arc<UnreadResponse>> = None;
    let mut unpaid = Duration::ZERO;
    poll_fn(|context| {
        link.polls.fetch_add(1, Ordering::Relaxed);
        link.task.get_or_init(|| context.waker().clone());
        if answer.as_ref().is_some_and(|answer| answer.is_ended()) {
            return Poll::Ready(None);
        }
        let mut payer = worker.as_mut().filter(|_| unpaid >= UNIT_TIME);
        if let Some(worker) = &mut payer {
            ready!(worker.poll_turn(context));
        }
        let begun = Instant::now();
        let (done, sends) = poll_sending(work.as_mut(), context);
        match payer {
            Some(worker) => worker.work_and_settle(std::mem::take(&mut unpaid) + begun.elapsed(), || ()),
            None if link.has_streams.load(Ordering::Relaxed) => unpaid += begun.elapsed(),
            None => {}
        }
        answer = sends.or(answer.take());
        done.map(Some)
    })
    .await
}

/// What the tasks of an HTTP/2 connection and of its streams have in common.
///
/// A stream that ends frees what it had queued only when its reset is written. If the socket takes nothing, that may be
/// never, so the connection ends when the reset is not written soon.
#[derive(Debug)]
pub(crate) struct Link {
    state: Arc<ConnectionState>,
    /// Counts requests that are not processed yet.
    connections: Arc<Connections>,
    must_write: AtomicBool,
    /// Whether the connection uses HTTP/2 and has carried a request.
    has_streams: AtomicBool,
    /// How often the connection was polled.
    polls: AtomicU64,
    /// What the request takes whose task is started next, in bytes. hyper makes the task of a request as soon as it has it.
    next_request: AtomicU64,
    /// The waker of the connection's task.
    task: OnceLock<Waker>,
}

impl Link {
    /// The link of a counted connection.
    pub(crate) fn new(state: Arc<ConnectionState>, connections: Arc<Connections>) -> Link {
        let (must_write, has_streams) = (AtomicBool::new(false), AtomicBool::new(false));
        let (polls, next_request) = (AtomicU64::new(0), AtomicU64::new(0));
        Link { state, connections, must_write, has_streams, polls, next_request, task: OnceLock::new() }
    }

    /// Whether the connection must be read later, because too many requests are not processed yet.
    pub(crate) fn must_pause(&self) -> bool {
        self.connections.must_pause(self.state.user(), self.state.is_authenticated())
    }

    /// Takes the share of a long head of this many bytes.
    ///
    /// # Errors
    /// 429 when the long heads of this address take as much as they may.
    pub(crate) fn take_head(&self, bytes: u64) -> Result<UserShare, Limited> {
        self.connections.take_head(self.state.user(), bytes)
    }

    /// Notes that a stream has ended because too much is unread: the connection must be able to write.
    pub(crate) fn must_write(&self) {
        self.must_write.store(true, Ordering::Relaxed);
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }

    /// The number of the current poll of the connection.
    pub(crate) fn poll(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Notes that a request has arrived whose task is not started yet.
    pub(crate) fn has_arrived(&self, bytes: u64) {
        self.next_request.store(bytes, Ordering::Relaxed);
    }

    /// Whether a write may wait for the reader as long as any.
    pub(crate) fn may_wait(&self) -> bool {
        !self.must_write.load(Ordering::Relaxed)
    }

    /// Notes that everything has been written.
    pub(crate) fn has_written(&self) {
        self.must_write.store(false, Ordering::Relaxed);
    }
}

/// Starts the tasks of a connection's streams.
#[derive(Clone, Debug)]
pub(crate) struct StreamTimeoutExecutor(pub(crate) Arc<Link>);

impl<Work> Executor<Work> for StreamTimeoutExecutor
where
    Work: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, work: Work) {
        let Link { state, connections, next_request, has_streams, .. } = &*self.0;
        has_streams.store(true, Ordering::Relaxed);
        let Some(unstarted) = connections.begin_stream(state.user(), next_request.load(Ordering::Relaxed)) else {
            // To drop the work resets its stream, which takes memory until the reset is written. A peer without credentials is not to
            // have thousands of them.
            if !state.is_authenticated() {
                state.evict();
            }
            return;
        };
        tokio::spawn(Watched {
            work: Box::pin(work),
            unstarted: Some(unstarted),
            gives_up: None,
            answer: None,
            link: self.0.clone(),
        });
    }
}

/// A stream's task.
struct Watched<Work> {
    work: Pin<Box<Work>>,
    /// The share of the request until the task is polled.
    unstarted: Option<UserShare>,
    /// Set while it waits for its reader.
    gives_up: Option<Pin<Box<Sleep>>>,
    /// The response that the task sends.
    answer: Option<Arc<UnreadResponse>>,
    link: Arc<Link>,
}

impl<Work: Future<Output = ()>> Future for Watched<Work> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.unstarted = None;
        if self.answer.as_ref().is_some_and(|answer| answer.is_ended()) {
            self.link.must_write();
            return Poll::Ready(());
        }
        SAID.set(None);
        let (done, begun) = poll_sending(self.work.as_mut(), context);
        if done.is_ready() {
            return Poll::Ready(());
        }
        if begun.is_some() {
            self.answer = begun;
        }
        match SAID.take() {
            Some(Said::Nothing) => self.gives_up = None,
            Some(Said::Piece) => match &mut self.gives_up {
                Some(gives_up) => gives_up.as_mut().reset(Instant::now() + PATIENCE),
                none => *none = Some(Box::pin(sleep(PATIENCE))),
            },
            Some(Said::Waits) if self.gives_up.is_none() => self.gives_up = Some(Box::pin(sleep(PATIENCE))),
            Some(Said::Waits) | None => {}
        }
        match &mut self.gives_up {
            Some(gives_up) => gives_up.as_mut().poll(context).map(|()| {
                tracing::debug!("a client stopped reading a response, resetting its stream");
            }),
            None => Poll::Pending,
        }
    }
}
