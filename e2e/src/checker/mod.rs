//! Whether what clients received is what happened: their stories against the true history, in the manner of etcd's robustness tests.
//!
//! A [`Story`] is everything that one client requested and received; the truth is read from etcd ([`crate::history`]).
//! [`check`] checks every step:
//!
//! - a list at version V is the selection's state at V, in the order of keys; the pages of one walk are one state;
//! - a list is as new as requested, and a Strong one not older than its request. No read shows less than any client had
//!   received before it began: one store does not go back;
//! - the events of a watch are the selection's transitions after its start: in order, complete, none twice, each with
//!   the right content. A DELETED event has the previous content, and no older transition is missing at a bookmark;
//! - what happened while fieldcache had to relist is reported by its outcome. Removals come first, with the version
//!   before the gap, then changes in the order of versions. No response names the beginning of such a gap, so the check
//!   looks for one beginning that explains every client at once ([`gaps`]). The gap can end only at a version that the
//!   source has listed.
//!
//! Pure: no clock, no IO. It does not check how soon something came; the caller that runs the clients does.

pub mod gaps;
mod reads;
pub mod story;
pub mod truth;
mod watches;

use std::fmt;

use crate::history::{Change, Gap};

pub use self::story::{ClientEvent, Listed, Page, RequiredFreshness, Seen, Step, Story};
use self::truth::Truth;

/// What a check found.
#[derive(Debug, Default)]
pub struct Report {
    /// Each names the client, the object and the version.
    pub complaints: Vec<String>,
    /// What was checked.
    pub figures: Figures,
    /// Of which versions only the outcome was reported.
    pub gaps: Vec<Gap>,
}

/// How much was checked.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Changes that truly happened.
    pub changes: usize,
    /// Lists, pages counted singly.
    pub lists: usize,
    /// Single objects that were requested.
    pub gets: usize,
    /// Watches that were opened.
    pub watches: usize,
    /// Events, initial ones too.
    pub events: usize,
    /// Bookmarks.
    pub bookmarks: usize,
    /// Watches and lists that received the answer that their version is too old.
    pub expired: usize,
    /// Refusals and broken answers.
    pub failures: usize,
}

impl Figures {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Figures) -> Figures {
        Figures {
            changes: self.changes + other.changes,
            lists: self.lists + other.lists,
            gets: self.gets + other.gets,
            watches: self.watches + other.watches,
            events: self.events + other.events,
            bookmarks: self.bookmarks + other.bookmarks,
            expired: self.expired + other.expired,
            failures: self.failures + other.failures,
        }
    }

    /// Everything that clients requested or received.
    #[must_use]
    pub fn operations(self) -> usize {
        self.lists + self.gets + self.watches + self.events + self.bookmarks
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { changes, lists, gets, watches, events, bookmarks, expired, failures } = self;
        write!(
            formatter,
            "{changes} changes; {lists} lists and pages, {gets} gets, {watches} watches, {events} events, {bookmarks} bookmarks, \
             {expired} times too old, {failures} failures met"
        )
    }
}

/// Checks stories against what truly happened. `relists` are the versions at which the source gave fieldcache a complete list.
#[must_use]
pub fn check(changes: &[Change], relists: &[u64], stories: &[Story]) -> Report {
    let truth = Truth::new(changes);
    let selected: Vec<_> = stories.iter().map(|story| truth.selected(&story.selection)).collect();
    let mut report = Report { figures: figures(changes, stories), ..Report::default() };
    let mut sessions = Vec::new();
    for (story, selected) in stories.iter().zip(&selected) {
        sessions.extend(watches::sessions(story, selected));
        reads::lists(story, selected, &mut report.complaints);
    }
    reads::never_back(&truth, stories, &mut report.complaints);
    report.gaps = gaps::find(&sessions, relists);
    for session in &sessions {
        if let Err(mismatch) = watches::follow(session, &report.gaps, None) {
            report.complaints.push(mismatch.to_string());
        }
    }
    for (story, selected) in stories.iter().zip(&selected) {
        watches::ends_with_the_truth(story, selected, &mut report.complaints);
    }
    report
}

fn figures(changes: &[Change], stories: &[Story]) -> Figures {
    let mut figures = Figures { changes: changes.len(), ..Figures::default() };
    for step in stories.iter().flat_map(|story| &story.steps) {
        let counted = match &step.event {
            ClientEvent::Listed(_) => &mut figures.lists,
            ClientEvent::Got { .. } => &mut figures.gets,
            ClientEvent::Watching { .. } => &mut figures.watches,
            ClientEvent::Event { .. } => &mut figures.events,
            ClientEvent::Bookmark { .. } => &mut figures.bookmarks,
            ClientEvent::Expired => &mut figures.expired,
            ClientEvent::Failed(_) => &mut figures.failures,
            ClientEvent::Ended => continue,
        };
        *counted += 1;
    }
    figures
}
