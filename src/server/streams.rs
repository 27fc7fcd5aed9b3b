//! An HTTP/2 stream whose reader has stopped is given up, while the others of its connection go on.
//!
//! A peer opens a stream's window by reading from it; while it is shut nothing is asked of the answer's body, which therefore
//! cannot see that it waits, and holds the state that its list walks. So the task that hyper makes of each stream is watched
//! from outside: when the last thing its body did was to give a piece, and the task sleeps, it waits for the reader. After
//! [`super::stall::PATIENCE`] without another piece taken the task is dropped, which resets the stream and lets everything go.
//! A watch that waits for events has given nothing since it was asked, and may wait for as long as it likes.
//!
//! Connections as a whole, and HTTP/1.1, are the matter of [`super::stall`].
#![expect(clippy::disallowed_methods, reason = "streams are tasks, which hyper hands here to be started")]

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::Executor;
use tokio::time::{Instant, Sleep, sleep};

use super::stall::PATIENCE;

/// What the body of an answer said when it was asked last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A piece.
    Piece,
    /// That there is none now, or none any more.
    Nothing,
}

thread_local! {
    /// By the body that was polled last on this thread, within the task that is being polled.
    static SAID: Cell<Option<Said>> = const { Cell::new(None) };
}

/// For bodies, at each poll.
pub(super) fn say(said: Said) {
    SAID.set(Some(said));
}

/// Starts the tasks of a connection's streams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams;

impl<Work> Executor<Work> for Streams
where
    Work: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, work: Work) {
        tokio::spawn(Watched { work: Box::pin(work), gives_up: None });
    }
}

/// A stream's task.
struct Watched<Work> {
    work: Pin<Box<Work>>,
    /// Set while it waits for its reader.
    gives_up: Option<Pin<Box<Sleep>>>,
}

impl<Work: Future<Output = ()>> Future for Watched<Work> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        SAID.set(None);
        if self.work.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        match SAID.take() {
            Some(Said::Nothing) => self.gives_up = None,
            Some(Said::Piece) => match &mut self.gives_up {
                Some(gives_up) => gives_up.as_mut().reset(Instant::now() + PATIENCE),
                none => *none = Some(Box::pin(sleep(PATIENCE))),
            },
            None => {}
        }
        match &mut self.gives_up {
            Some(gives_up) => gives_up.as_mut().poll(context).map(|()| {
                tracing::debug!("a reader has stopped in the middle of an answer, its stream is reset");
            }),
            None => Poll::Pending,
        }
    }
}
