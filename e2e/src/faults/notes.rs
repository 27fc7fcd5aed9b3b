//! What light clients record and share: one clock, a story each, and versions seen somewhere.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::checker::story::Moment;
use crate::checker::{ClientEvent, Step, Story};
use crate::random::Random;
use crate::selection::Selection;

/// Versions that are remembered, so that others can request them.
const REMEMBERED: usize = 400;

/// The clock of a run and the versions that any client received.
#[derive(Debug, Clone)]
pub struct Board {
    started: Instant,
    versions: Rc<RefCell<VecDeque<u64>>>,
}

impl Board {
    /// A run begins.
    #[must_use]
    pub fn new() -> Board {
        Board { started: Instant::now(), versions: Rc::default() }
    }

    /// Since the start of the run.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The same as a number.
    #[must_use]
    pub fn now(&self) -> Moment {
        moment(self.elapsed())
    }

    /// One of the versions that a client received lately, more often a late one.
    #[must_use]
    pub fn version(&self, random: &mut Random) -> Option<u64> {
        let versions = self.versions.borrow();
        let reach = if random.below(3) == 0 { versions.len() } else { versions.len().min(20) };
        let back = random.below(reach.max(1) as u64) as usize;
        versions.iter().rev().nth(back).copied()
    }
}

impl Default for Board {
    fn default() -> Board {
        Board::new()
    }
}

/// A time since the start of a run as a number.
#[must_use]
pub fn moment(elapsed: Duration) -> Moment {
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// One client's story as it is written.
#[derive(Debug, Clone)]
pub struct Notes {
    board: Board,
    story: Rc<RefCell<Story>>,
    /// Whether steps are kept.
    keeps: bool,
}

impl Notes {
    /// An empty story.
    #[must_use]
    pub fn new(board: &Board, client: &str, selection: &Selection, holds_copy: bool) -> Notes {
        let story = Story { client: client.to_owned(), selection: selection.clone(), holds_copy, steps: Vec::new() };
        Notes { board: board.clone(), story: Rc::new(RefCell::new(story)), keeps: true }
    }

    /// The same for a client that goes on for so long that its story would not fit: nothing is written down.
    #[must_use]
    pub fn forgetful(self) -> Notes {
        Notes { keeps: false, ..self }
    }

    /// The run's board.
    #[must_use]
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Records what was received just now, for a request of that moment.
    pub fn record(&self, requested_at: Moment, event: ClientEvent) {
        let version = match &event {
            ClientEvent::Listed(listed) => Some(listed.version),
            ClientEvent::Event { seen, .. } => Some(seen.version),
            ClientEvent::Bookmark { version, .. } => Some(*version),
            ClientEvent::Got { .. }
            | ClientEvent::Watching { .. }
            | ClientEvent::Expired
            | ClientEvent::Ended
            | ClientEvent::Failed(_) => None,
        };
        if let Some(version) = version {
            let mut versions = self.board.versions.borrow_mut();
            if versions.len() == REMEMBERED {
                versions.pop_front();
            }
            versions.push_back(version);
        }
        if !self.keeps {
            return;
        }
        let received_at = self.board.now();
        self.story.borrow_mut().steps.push(Step { requested_at, received_at, event });
    }

    /// Records what was received without a request: the line of a watch.
    pub fn record_event(&self, event: ClientEvent) {
        self.record(self.board.now(), event);
    }

    /// What is written so far.
    #[must_use]
    pub fn story(&self) -> Story {
        self.story.borrow().clone()
    }

    /// Whose they are.
    #[must_use]
    pub fn client(&self) -> String {
        self.story.borrow().client.clone()
    }
}
