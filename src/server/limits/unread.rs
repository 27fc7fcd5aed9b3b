//! Bytes that were written for clients, and that no socket has taken yet.
//!
//! A reader that stops leaves them in the process: in hyper, and in the send queues of HTTP/2 streams, up to what a client
//! announces as its window. Every piece of an answer is therefore counted from when its body gives it away until its
//! memory is free, because the count is part of the piece. Two bounds apply:
//!
//! - One answer is not continued while [`WATCH_AHEAD`] or [`LIST_AHEAD`] bytes of it are unread. So each holds at most
//!   that and one more piece, whatever window the client announces.
//! - All watches together hold at most `--max-unread-bytes`. Beyond it [`slowest`] decides which of them end: their HTTP/2
//!   stream is reset, or their connection closed, which frees their bytes. The client resumes from its last event, as after
//!   any lost connection. Other answers are not ended: their client would ask for the same again. They end when their
//!   reader has taken nothing for two minutes (`stall`, `streams`).
//!
//! Counted apart: whole answers up to [`SMALL`]; one TLS buffer for each connection (bounded in `tls`); what the kernel
//! holds for a connection, bounded by TCP_NOTSENT_LOWAT (in `listen`); changes in mailboxes (`registry::router`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Waker};

use bytes::Bytes;

use super::User;
use super::slowest::{Held, slowest};
use crate::model::quantity;

/// Unread bytes of a watch, beyond which it makes no further piece. Users have many watches.
const WATCH_AHEAD: u64 = 64 << 10;

/// The same of another answer: two pieces, so that one is made while the other one is sent.
const LIST_AHEAD: u64 = 128 << 10;

/// Whole answers up to this size are not counted: they are as small as the request that they answer.
pub const SMALL: usize = 16 << 10;

/// The unread bytes of a server.
#[derive(Debug)]
pub struct Unread {
    /// Of watches.
    most: u64,
    /// Of watches.
    watches: AtomicU64,
    /// Of all answers.
    total: AtomicU64,
    /// Of answers that are about to end: counted in the total until they have.
    ending: AtomicU64,
    /// Counts the pieces that were taken: the clock by which a reader's progress is told.
    taken: AtomicU64,
    ended: AtomicU64,
    answers: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    next: u64,
    known: HashMap<u64, Weak<Answer>>,
}

/// Counts the unread bytes of one answer.
#[derive(Debug)]
pub struct Meter {
    unread: Arc<Unread>,
    user: User,
    ahead: u64,
    is_watch: bool,
    answer: Option<Arc<Answer>>,
}

/// One answer of which something was unread.
#[derive(Debug)]
pub struct Answer {
    unread: Arc<Unread>,
    user: User,
    number: u64,
    is_watch: bool,
    bytes: AtomicU64,
    /// When its reader took something last.
    progress: AtomicU64,
    /// Bytes that it had when it was told to end.
    ending: AtomicU64,
    is_ended: AtomicBool,
    /// Its body waits until something is read.
    waits: AtomicBool,
    /// Of the task that sends it.
    task: Waker,
}

/// A piece with its count.
struct Piece {
    bytes: Bytes,
    answer: Arc<Answer>,
}

impl Unread {
    /// Nothing is unread.
    pub fn new(most: quantity::Bytes) -> Unread {
        Unread {
            most: most.0,
            watches: AtomicU64::new(0),
            total: AtomicU64::new(0),
            ending: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            answers: Mutex::default(),
        }
    }

    /// Counts an answer to this user, which is a watch or not.
    pub fn meter(self: &Arc<Unread>, user: &User, is_watch: bool) -> Meter {
        let ahead = if is_watch { WATCH_AHEAD } else { LIST_AHEAD };
        Meter { unread: self.clone(), user: user.clone(), ahead, is_watch, answer: None }
    }

    /// Unread bytes of watches.
    pub fn bytes(&self) -> u64 {
        self.watches.load(Ordering::Relaxed)
    }

    /// Unread bytes of all answers.
    pub fn bytes_of_all(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Watches that were ended for the bound.
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    fn is_too_much(&self) -> bool {
        self.bytes().saturating_sub(self.ending.load(Ordering::Relaxed)) > self.most
    }

    /// Ends the slowest watches, down to seven eighths of the bound so that this is done rarely.
    fn end_slowest(&self) {
        let known: Vec<Arc<Answer>> = {
            let answers = self.lock();
            if !self.is_too_much() {
                return;
            }
            answers.known.values().filter_map(Weak::upgrade).collect()
        };
        let alive: Vec<Arc<Answer>> =
            known.into_iter().filter(|answer| answer.is_watch && !answer.is_ended()).collect();
        let held: Vec<Held> = alive
            .iter()
            .map(|answer| Held {
                user: answer.user.clone(),
                bytes: answer.bytes.load(Ordering::Relaxed),
                progress: answer.progress.load(Ordering::Relaxed),
            })
            .collect();
        for place in slowest(&held, self.most - self.most / 8) {
            let (answer, bytes) = (&alive[place], held[place].bytes);
            if !answer.is_ended.swap(true, Ordering::Relaxed) {
                answer.ending.store(bytes, Ordering::Relaxed);
                self.ending.fetch_add(bytes, Ordering::Relaxed);
                self.ended.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    user = %answer.user, bytes,
                    "a watch was ended: its reader is the slowest, and more than --max-unread-bytes={} are unread",
                    quantity::Bytes(self.most)
                );
                answer.task.wake_by_ref();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Meter {
    /// Whether the next piece can be made: not too much is unread. Otherwise the task is woken when something has been read.
    pub fn is_ready(&self, context: &Context<'_>) -> bool {
        let Some(answer) = &self.answer else { return true };
        let has_room = || answer.bytes.load(Ordering::SeqCst) < self.ahead;
        if has_room() {
            return true;
        }
        answer.waits.store(true, Ordering::SeqCst);
        if !answer.task.will_wake(context.waker()) {
            // Another task polls it than at first, so it must come back by itself.
            context.waker().wake_by_ref();
        }
        // Something may have been read in between.
        has_room()
    }

    /// Counts a piece.
    pub fn count(&mut self, bytes: Bytes, context: &Context<'_>) -> Bytes {
        if bytes.is_empty() {
            return bytes;
        }
        let answer = match &self.answer {
            Some(answer) => answer.clone(),
            None => self.answer.insert(Answer::new(self, context)).clone(),
        };
        let length = bytes.len() as u64;
        answer.bytes.fetch_add(length, Ordering::SeqCst);
        self.unread.total.fetch_add(length, Ordering::Relaxed);
        if self.is_watch {
            self.unread.watches.fetch_add(length, Ordering::Relaxed);
            if self.unread.is_too_much() {
                self.unread.end_slowest();
            }
        }
        Bytes::from_owner(Piece { bytes, answer })
    }

    /// What was counted, if anything was: for the task that sends it, which ends when the answer is to.
    pub fn answer(&self) -> Option<&Arc<Answer>> {
        self.answer.as_ref()
    }
}

impl Answer {
    fn new(meter: &Meter, context: &Context<'_>) -> Arc<Answer> {
        let Meter { unread, user, is_watch, .. } = meter;
        let mut answers = unread.lock();
        let number = answers.next;
        answers.next += 1;
        let answer = Arc::new(Answer {
            unread: unread.clone(),
            user: user.clone(),
            number,
            is_watch: *is_watch,
            bytes: AtomicU64::new(0),
            progress: AtomicU64::new(unread.taken.load(Ordering::Relaxed)),
            ending: AtomicU64::new(0),
            is_ended: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            task: context.waker().clone(),
        });
        answers.known.insert(number, Arc::downgrade(&answer));
        answer
    }

    /// Whether the task that sends it has to end.
    pub fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.unread.ending.fetch_sub(self.ending.load(Ordering::Relaxed), Ordering::Relaxed);
        self.unread.lock().known.remove(&self.number);
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let (length, answer) = (self.bytes.len() as u64, &self.answer);
        answer.bytes.fetch_sub(length, Ordering::SeqCst);
        answer.unread.total.fetch_sub(length, Ordering::Relaxed);
        if answer.is_watch {
            answer.unread.watches.fetch_sub(length, Ordering::Relaxed);
        }
        answer.progress.store(answer.unread.taken.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        if answer.waits.swap(false, Ordering::SeqCst) {
            answer.task.wake_by_ref();
        }
    }
}
