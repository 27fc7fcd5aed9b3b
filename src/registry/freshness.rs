//! How far a copy is known to reach, and how far its readers want it to.
//!
//! A *proof* is anything with which the source shows that nothing up to a version is missing: an event, a bookmark, a list.
//! The feed says when its last proof was made; readers compare that with the lag that they accept, and say which version
//! they wait for; the feed then makes its source prove more at once (`source::list_watch`). Nothing is asked of the source here.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::model::Version;

/// How long one wish for a version is pursued: as long as its reader waits.
const WISH: Duration = Duration::from_secs(3);

/// How long a source may take to prove something after it was asked: a watch with timeoutSeconds=3 brings a bookmark after
/// 0.5 to 1.4 s (measured with kube-apiserver 1.36).
const PROOF_TAKES: Duration = Duration::from_millis(1_500);

/// For this long after the source has said its version, versions that are far ahead of it are rejected without another question.
const STATEMENT_HOLDS: Duration = Duration::from_secs(5);

/// A version is far ahead if the cluster cannot have come there within [`STATEMENT_HOLDS`]: etcd makes fewer than 100,000 writes a second.
const FAR: u64 = 1_000_000;

/// What is known and wanted of one copy.
#[derive(Debug)]
pub struct Freshness {
    /// What the source said last when it was asked for its version.
    statement: watch::Sender<Option<Statement>>,
    proof: watch::Sender<Proof>,
    wish: watch::Sender<Option<Wish>>,
}

/// The newest version of a source, at some moment after it was asked.
#[derive(Clone, Copy, Debug)]
struct Statement {
    asked: Instant,
    version: Version,
}

#[derive(Clone, Debug, Default)]
struct Proof {
    /// When the source last showed how far the copy reaches; `None` where nothing can lag: a folder.
    made: Option<Instant>,
    /// What has stood in the way since.
    trouble: Option<String>,
}

/// A copy that has not been proven for too long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the source has not shown for {} s that this copy is complete, and at most {} s are accepted{}",
    .lag.as_secs(),
    .most.as_secs_f64(),
    .trouble.as_ref().map(|trouble| format!(": {trouble}")).unwrap_or_default()
)]
pub struct Lagging {
    /// Since the last proof.
    pub lag: Duration,
    /// What is accepted.
    pub most: Duration,
    /// What stands in the way, as far as that is known.
    pub trouble: Option<String>,
}

/// A version that a reader waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wish {
    version: Version,
    /// When the last reader began to wait.
    since: Instant,
    until: Instant,
}

impl Default for Freshness {
    fn default() -> Freshness {
        Freshness {
            statement: watch::Sender::new(None),
            proof: watch::Sender::default(),
            wish: watch::Sender::new(None),
        }
    }
}

impl Freshness {
    /// The source showed at this moment how far the copy reaches; for feeds. An older proof than the last changes nothing.
    pub fn proven(&self, made: Instant) {
        self.proof.send_if_modified(|proof| {
            let is_newer = proof.made.is_none_or(|last| last <= made);
            if is_newer {
                *proof = Proof { made: Some(made), trouble: None };
            }
            is_newer
        });
    }

    /// The source is interrupted; the text says how, for people.
    pub fn interrupted(&self, trouble: String) {
        self.proof.send_modify(|proof| proof.trouble = Some(trouble));
    }

    /// Nothing is known any more: the copy was forgotten.
    pub fn forget(&self) {
        self.proof.send_replace(Proof::default());
        self.statement.send_replace(None);
    }

    /// When the last proof was made; `None` where nothing can lag.
    pub fn proof(&self) -> Option<Instant> {
        self.proof.borrow().made
    }

    /// The time since the last proof was made; zero where nothing can lag.
    pub fn lag(&self) -> Duration {
        self.proof().map_or(Duration::ZERO, |made| made.elapsed())
    }

    /// Waits until the lag is at most `most`, for a proof that may be on its way, but no longer than `patience`.
    ///
    /// # Errors
    /// The lag that is left, with what stands in the way as far as that is known.
    pub async fn at_most(&self, most: Duration, patience: Duration) -> Result<(), Lagging> {
        if self.lag() <= most {
            return Ok(());
        }
        let mut proofs = self.proof.subscribe();
        let proven = proofs.wait_for(|proof| proof.made.is_none_or(|made| made.elapsed() <= most));
        match timeout(patience, proven).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Lagging { lag: self.lag(), most, trouble: self.proof.borrow().trouble.clone() }),
        }
    }

    /// The source was asked for its newest version at this moment, and this is its response.
    pub fn stated(&self, asked: Instant, version: Version) {
        self.statement.send_if_modified(|held| {
            let is_newer = held.is_none_or(|held| held.asked <= asked);
            if is_newer {
                *held = Some(Statement { asked, version });
            }
            is_newer
        });
    }

    /// A reader waits for this version: the feed asks its source at once. False: the source has just said that it is far from there, and
    /// is not asked again.
    #[must_use = "a reader must not wait for a version that nobody asks for"]
    pub fn want(&self, version: Version) -> bool {
        let now = Instant::now();
        let statement = *self.statement.borrow();
        let is_far = statement.is_some_and(|statement| {
            statement.asked + STATEMENT_HOLDS > now && version.number().saturating_sub(statement.version.number()) > FAR
        });
        if is_far {
            return false;
        }
        self.wish.send_if_modified(|held| {
            let open = held.filter(|held| held.until > now && !self.is_answered(held));
            let wanted = open.map_or(version, |open| open.version.max(version));
            *held = Some(Wish { version: wanted, since: now, until: now + WISH });
            open.is_none_or(|open| open.version < version)
        });
        true
    }

    /// Waits until the source says, asked at or after a moment, that it has not come to a version. Then nobody can have seen that
    /// version there before. Safe to drop at any point.
    pub async fn lacks(&self, version: Version, since: Instant) {
        let mut statements = self.statement.subscribe();
        let lacks = |held: &Option<Statement>| held.is_some_and(|held| held.asked >= since && held.version < version);
        if statements.wait_for(lacks).await.is_err() {
            std::future::pending().await
        }
    }

    /// Whether the source was asked after the last reader began to wait, and has not come to the version.
    fn is_answered(&self, wish: &Wish) -> bool {
        let statement = *self.statement.borrow();
        statement.is_some_and(|statement| statement.asked >= wish.since && statement.version < wish.version)
    }

    /// The version that somebody waits for right now and that a copy of this version has not reached; for feeds.
    pub fn wanted(&self, reached: Version) -> Option<Version> {
        let wish = *self.wish.borrow();
        let wish = wish.filter(|wish| wish.version > reached && wish.until > Instant::now());
        wish.filter(|wish| !self.is_answered(wish)).map(|wish| wish.version)
    }

    /// When the next proof must be asked for so that it comes before the lag is longer than readers accept.
    fn due(&self, max_lag: Duration) -> Option<Instant> {
        let made = self.proof()?;
        // Bookmarks come about once a minute by themselves; with the usual limit of 90 s this comes a little after them.
        Some(made + (max_lag * 3 / 4).min(max_lag.saturating_sub(PROOF_TAKES)))
    }

    /// Whether the source must prove something now; for feeds, before they open a watch.
    pub fn needs_proof(&self, reached: Version, max_lag: Duration) -> bool {
        self.wanted(reached).is_some() || self.due(max_lag).is_some_and(|due| due <= Instant::now())
    }

    /// Waits until the source must prove something; for feeds, while a watch is open. Safe to drop at any point.
    pub async fn proof_needed(&self, reached: Version, max_lag: Duration) {
        let mut wishes = self.wish.subscribe();
        while !self.needs_proof(reached, max_lag) {
            // Never: there is no proof yet that could get old.
            let never = Instant::now() + Duration::from_secs(3600);
            let due = self.due(max_lag).unwrap_or(never);
            tokio::select! {
                _ = wishes.changed() => {}
                () = sleep_until(due) => {}
            }
        }
    }
}
