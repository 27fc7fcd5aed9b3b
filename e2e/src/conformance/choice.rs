//! The list of a suite: which tests are run, which are left out, and which fail through fieldcache on purpose.
//!
//! A list is text. A line in brackets begins a section; every other line is a pattern for names, in which `*` matches any text.
//! Empty lines and lines that start with `#` are comments. The first pattern that matches a name decides.
//!
//! | section | meaning |
//! |---|---|
//! | `[run]` | run |
//! | `[short]` | run, and part of the short selection |
//! | `[rejected: REASON]` | run; must fail through fieldcache, which rejects something on purpose |
//! | `[left out: REASON]` | not run; a pattern for integration tests may go on with a subtest, `TEST/SUBTEST` |

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use super::Suite;

/// What a list says of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// It is run.
    Run,
    /// It is run, and part of the short selection.
    Short,
    /// It is run and must fail through fieldcache, for this reason.
    Rejected(String),
    /// It is not run, for this reason.
    LeftOut(String),
}

/// A list that was read.
#[derive(Debug, Clone, Default)]
pub struct List {
    entries: Vec<(String, Choice)>,
}

impl List {
    /// The list of a suite.
    ///
    /// # Errors
    /// When the file is missing or a line of it is wrong.
    pub fn load(suite: Suite) -> Result<List> {
        let path = suite.list();
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        List::read(&text).with_context(|| path.display().to_string())
    }

    /// A list from its text.
    ///
    /// # Errors
    /// When a section is unknown or a pattern is before the first section; with the number of the line.
    pub fn read(text: &str) -> Result<List> {
        let mut section = None;
        let mut entries = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // Names of specs start with brackets too, and go on behind them.
            if let Some(inner) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
                && let Some(found) = read_section(inner)
            {
                section = Some(found);
                continue;
            }
            let Some(choice) = &section else { bail!("line {}: a pattern before the first section", number + 1) };
            entries.push((line.to_owned(), choice.clone()));
        }
        ensure!(!entries.is_empty(), "no pattern in it");
        Ok(List { entries })
    }

    /// What it says of a test; nothing when no pattern matches.
    #[must_use]
    pub fn choice(&self, name: &str) -> Option<&Choice> {
        self.entries.iter().find(|(pattern, _)| matches(pattern, name)).map(|(_, choice)| choice)
    }

    /// The patterns of subtests of this test that are left out, without its own name.
    #[must_use]
    pub fn subtests_left_out(&self, name: &str) -> Vec<&str> {
        let left_out = self.entries.iter().filter(|(_, choice)| matches!(choice, Choice::LeftOut(_)));
        left_out.filter_map(|(pattern, _)| pattern.strip_prefix(name)?.strip_prefix('/')).collect()
    }

    /// Those of these packages that have tests in the short selection, whose patterns start with the package.
    #[must_use]
    pub fn short_packages<'a>(&self, packages: &[&'a str]) -> Vec<&'a str> {
        let short = |package: &&&str| {
            let start = format!("{package}: ");
            self.entries.iter().any(|(pattern, choice)| *choice == Choice::Short && pattern.starts_with(&start))
        };
        packages.iter().filter(short).copied().collect()
    }

    /// The names that are run; only those of the short selection when `short`.
    ///
    /// # Errors
    /// When no pattern matches one of them: a new test has to be chosen or left out.
    pub fn run<'a>(&self, names: &[&'a str], short: bool) -> Result<Vec<&'a str>> {
        let mut run = Vec::new();
        let mut unknown = Vec::new();
        for name in names {
            match self.choice(name) {
                Some(Choice::Short) => run.push(*name),
                Some(Choice::Run | Choice::Rejected(_)) if !short => run.push(*name),
                Some(Choice::Run | Choice::Rejected(_) | Choice::LeftOut(_)) => {}
                None => unknown.push(*name),
            }
        }
        ensure!(unknown.is_empty(), "neither chosen nor left out: {}", unknown.join("; "));
        Ok(run)
    }
}

fn read_section(inner: &str) -> Option<Choice> {
    match inner.split_once(": ") {
        None if inner == "run" => Some(Choice::Run),
        None if inner == "short" => Some(Choice::Short),
        Some(("rejected", reason)) => Some(Choice::Rejected(reason.to_owned())),
        Some(("left out", reason)) => Some(Choice::LeftOut(reason.to_owned())),
        _ => None,
    }
}

/// Whether the whole name matches the pattern, in which `*` matches any text.
fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else { return rest.is_empty() };
    for piece in middle {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}
