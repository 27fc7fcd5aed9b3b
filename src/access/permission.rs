//! A permission for an answer that takes long: asked for again every five minutes or so, once for all who have the same.
//!
//! Upstream asks once, when a watch begins, and lets it run for up to an hour after a right was taken away. Here nothing
//! runs on its own either: whoever holds a [`Permission`] waits until it is [`Permission::due`] and then calls
//! [`Permission::renew`]; the first of many asks, the others take what it found. While nobody answers, a permission holds for a minute more
//! and is asked for every ten seconds: ending every watch for a moment's outage would make a storm of an absence.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync;
use tokio::time::Instant;

use super::authorization::{Authorizer, Decision, Question};
use super::flights::FlightKey;

/// How often a permission is asked for again, up to a fifth of it sooner, so that they do not come together.
const EVERY: Duration = Duration::from_secs(300);

/// How soon after a question that nobody answered.
const AFTER_NO_ANSWER: Duration = Duration::from_secs(10);

/// How long a permission holds without an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A permission: what was given, all of which must hold. Cheap to clone; clones are one.
#[derive(Clone, Debug)]
pub struct Permission(Arc<[Arc<Given>]>);

/// All that are held.
#[derive(Default)]
pub(super) struct Permissions(Mutex<Table>);

#[derive(Default)]
struct Table {
    given: HashMap<FlightKey, Weak<Given>>,
    /// When those that nobody holds are cleared away.
    clear_at: usize,
}

/// What all who have the same permission share.
pub(super) struct Given {
    authorizer: Arc<Authorizer>,
    question: Question,
    times: Mutex<Times>,
    is_revoked: AtomicBool,
    turn: sync::Mutex<()>,
}

#[derive(Clone, Copy)]
struct Times {
    due: Instant,
    /// When the last answer came.
    known: Instant,
}

impl fmt::Debug for Given {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Given").field("is_revoked", &self.is_revoked).finish_non_exhaustive()
    }
}

impl Permissions {
    pub(super) fn given(&self, authorizer: Arc<Authorizer>, question: Question) -> Arc<Given> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = table.given.get(&question.key).and_then(Weak::upgrade);
        if let Some(held) = held.filter(|held| !held.is_revoked.load(Ordering::Relaxed)) {
            return held;
        }
        if table.given.len() >= table.clear_at {
            table.given.retain(|_, given| given.strong_count() > 0);
            table.clear_at = (table.given.len() * 2).max(64);
        }
        let now = Instant::now();
        let times = Times { due: now + spread(&question.key), known: now };
        let key = question.key;
        let given = Arc::new(Given {
            authorizer,
            question,
            times: Mutex::new(times),
            is_revoked: AtomicBool::new(false),
            turn: sync::Mutex::new(()),
        });
        table.given.insert(key, Arc::downgrade(&given));
        given
    }
}

/// The interval of one question; the hash is as good as chance.
fn spread(key: &FlightKey) -> Duration {
    EVERY - EVERY.mul_f64(0.2 * f64::from(key[0]) / 256.0)
}

impl Permission {
    /// All of these.
    pub(super) fn of(given: impl IntoIterator<Item = Arc<Given>>) -> Permission {
        Permission(given.into_iter().collect())
    }

    /// One that needs no asking.
    pub fn forever() -> Permission {
        Permission::of([])
    }

    /// When it has to be renewed; `None`: never.
    pub fn due(&self) -> Option<Instant> {
        self.0.iter().map(|given| given.times().due).min()
    }

    /// Whether that time has come. Another holder may have renewed it before.
    pub fn is_due(&self) -> bool {
        self.0.iter().any(|given| given.is_due())
    }

    /// Asks again for what is due; false once some of it is gone, for good.
    pub async fn renew(&self) -> bool {
        for given in self.0.iter() {
            if given.is_due() && !given.renew().await {
                return false;
            }
        }
        true
    }
}

impl Given {
    fn is_due(&self) -> bool {
        self.is_revoked.load(Ordering::Relaxed) || self.times().due <= Instant::now()
    }

    async fn renew(&self) -> bool {
        let _turn = self.turn.lock().await;
        if self.is_revoked.load(Ordering::Relaxed) {
            self.authorizer.revoked();
            return false;
        }
        let now = Instant::now();
        let times = self.times();
        if times.due > now {
            return true;
        }
        let decision = self.authorizer.ask(&self.question).await;
        let now = Instant::now();
        let next = match decision {
            Decision::Allowed => Some(Times { due: now + spread(&self.question.key), known: now }),
            Decision::Unanswered(_) if now.duration_since(times.due_since()) < PATIENCE => {
                Some(Times { due: now + AFTER_NO_ANSWER, known: times.known })
            }
            Decision::Unanswered(_) | Decision::Denied(_) => None,
        };
        match next {
            Some(next) => *self.times.lock().unwrap_or_else(PoisonError::into_inner) = next,
            None => {
                self.is_revoked.store(true, Ordering::Relaxed);
                self.authorizer.revoked();
            }
        }
        next.is_some()
    }

    fn times(&self) -> Times {
        *self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Times {
    /// When an answer was first due.
    fn due_since(self) -> Instant {
        self.known + EVERY
    }
}
