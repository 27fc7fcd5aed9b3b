//! The comparison of both sides, and the table that shows it.

use std::fmt::Write;

use super::choice::{Choice, List};
use super::{Outcome, Outcomes};

/// Both sides of a suite.
#[derive(Debug, Default)]
pub struct Row {
    /// The suite's name.
    pub name: String,
    /// Tests that were chosen.
    pub chosen: usize,
    /// Of these, passed directly.
    pub direct: usize,
    /// Of these, passed through fieldcache too.
    pub through: usize,
    /// Tests that fail only through fieldcache, each with the list's reason, or what it said when the list has none.
    pub differences: Vec<Difference>,
    /// Tests that the list calls rejected, but passed.
    pub stale: Vec<String>,
    /// Tests that were chosen and did not pass directly, with what they said.
    pub not_counted: Vec<(String, String)>,
}

/// A test that passes directly and not through fieldcache.
#[derive(Debug)]
pub struct Difference {
    /// The test.
    pub name: String,
    /// The reason that the list gives.
    pub reason: Option<String>,
    /// What the test said.
    pub said: String,
}

impl Row {
    /// Compares what became of the chosen tests on both sides.
    #[must_use]
    pub fn compare(name: &str, list: &List, chosen: &[&str], direct: &Outcomes, through: &Outcomes) -> Row {
        let mut row = Row { name: name.to_owned(), chosen: chosen.len(), ..Row::default() };
        for test in chosen {
            match direct.get(*test) {
                Some(Outcome::Passed) => row.direct += 1,
                other => {
                    row.not_counted.push(((*test).to_owned(), said(other)));
                    continue;
                }
            }
            let reason = match list.choice(test) {
                Some(Choice::Rejected(reason)) => Some(reason.clone()),
                _ => None,
            };
            match through.get(*test) {
                Some(Outcome::Passed) => {
                    row.through += 1;
                    row.stale.extend(reason.map(|_| (*test).to_owned()));
                }
                other => row.differences.push(Difference { name: (*test).to_owned(), reason, said: said(other) }),
            }
        }
        row
    }

    /// Whether every difference has a reason and every reason a difference.
    #[must_use]
    pub fn is_expected(&self) -> bool {
        self.stale.is_empty() && self.differences.iter().all(|difference| difference.reason.is_some())
    }
}

fn said(outcome: Option<&Outcome>) -> String {
    match outcome {
        Some(Outcome::Passed) => "passed".to_owned(),
        Some(Outcome::Skipped(words)) if words.is_empty() => "skipped".to_owned(),
        Some(Outcome::Skipped(words)) => format!("skipped: {words}"),
        Some(Outcome::Failed(words)) => words.clone(),
        None => "it was not run".to_owned(),
    }
}

/// The table, as Markdown, with the differences and what does not count below.
#[must_use]
pub fn render(rows: &[Row]) -> String {
    let mut text = String::from(
        "| suite | chosen | passed directly | passed through fieldcache | differences |\n|---|---|---|---|---|\n",
    );
    for row in rows {
        let Row { name, chosen, direct, through, differences, .. } = row;
        let _ = writeln!(text, "| {name} | {chosen} | {direct} | {through} | {} |", differences.len());
    }
    for row in rows.iter().filter(|row| !row.differences.is_empty()) {
        let _ = writeln!(text, "\n{}: passed directly, failed through fieldcache:\n", row.name);
        for difference in &row.differences {
            let why = difference.reason.clone().unwrap_or_else(|| format!("UNEXPECTED: {}", brief(&difference.said)));
            let _ = writeln!(text, "- {}: {why}", difference.name);
        }
    }
    for row in rows.iter().filter(|row| !row.stale.is_empty()) {
        let _ = writeln!(text, "\n{}: listed as rejected, but passed:\n", row.name);
        for name in &row.stale {
            let _ = writeln!(text, "- {name}");
        }
    }
    for row in rows.iter().filter(|row| !row.not_counted.is_empty()) {
        let _ = writeln!(text, "\n{}: not passed directly, so not counted:\n", row.name);
        for (name, said) in &row.not_counted {
            let _ = writeln!(text, "- {name}: {}", brief(said));
        }
    }
    text
}

/// The start of a message on one line.
fn brief(said: &str) -> String {
    const LENGTH: usize = 240;
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LENGTH) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}
