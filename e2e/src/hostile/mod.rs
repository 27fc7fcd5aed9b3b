//! The hostile suite: attacks on a running `fieldcache operator`, each with a bound in memory and time.
//!
//! A well-behaved client ([`bystander`]) lists and watches beside every attack. The operating system measures memory
//! ([`memory`]). A case passes only if all of these conditions hold:
//!
//! - The attack ends before its deadline. Deadlines are generous: they detect a hang, not slowness.
//! - The process is alive.
//! - The peak of its resident memory grew by no more than the bound of the case.
//! - Every list of the well-behaved client succeeded, and its watch delivered every change exactly once and in order.
//!
//! After each family, memory must return to within a tenth of its level before, plus [`memory::TOLERANCE`].
//!
//! | family | attacker |
//! |---|---|
//! | [`objects`], [`wide`], [`rows`] | a tenant that writes hostile custom resources; read through the root and through a View that prunes |
//! | [`definitions`] | an author of hostile CustomResourceDefinitions |
//! | [`requests`] | an authenticated user without permissions: bodies, selectors, headers, tokens |
//! | [`sources`] | an API server that answers with hostile bytes |
//! | [`peers`] | a client that holds, stops, resets or floods connections |
//! | [`overload`] | more load than the machine carries, and 1,000 readers that stop |
//!
//! # Adding a case
//!
//! Add one entry to the table of the family: `cases()` in its file. An entry is a name, a bound of growth, a deadline
//! and an `async` function that attacks an [`Arena`]. For objects it is a name and the JSON text of a `spec`. An attack
//! returns a note for the report, or an error if the response was wrong. `make test` runs every table and a few random
//! cases of fixed seeds; `make soak` runs more of them with new seeds, which it prints. `soak --hostile-seed SEED`
//! repeats one.

pub mod arena;
pub mod bystander;
pub mod columns;
pub mod definitions;
pub mod line;
pub mod memory;
pub mod objects;
pub mod overload;
pub mod peers;
pub mod requests;
pub mod rows;
pub mod sources;
pub mod wide;
pub mod wire;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::LocalBoxFuture;
use tokio::time::timeout;

use arena::Arena;
use memory::{MIB, Meter};

/// What an attack does. It returns a note for the report.
pub type Attack = Box<dyn for<'a> Fn(&'a Arena) -> LocalBoxFuture<'a, Result<String>>>;

/// One attack with its bounds.
pub struct Case {
    name: String,
    growth: u64,
    deadline: Duration,
    attack: Attack,
}

impl Case {
    /// A case that may grow the process by `mebibytes` at its peak and must end within `seconds`.
    pub fn new(
        name: impl Into<String>,
        mebibytes: u64,
        seconds: u64,
        attack: impl for<'a> Fn(&'a Arena) -> LocalBoxFuture<'a, Result<String>> + 'static,
    ) -> Case {
        let deadline = Duration::from_secs(seconds);
        Case { name: name.into(), growth: mebibytes * MIB, deadline, attack: Box::new(attack) }
    }
}

/// The families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// [`objects`].
    Objects,
    /// [`definitions`].
    Definitions,
    /// [`requests`].
    Requests,
    /// [`sources`].
    Sources,
    /// [`peers`].
    Peers,
    /// [`overload`].
    Overload,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 6] =
        [Family::Objects, Family::Definitions, Family::Requests, Family::Sources, Family::Peers, Family::Overload];

    /// Its name in reports and options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Family::Objects => "objects",
            Family::Definitions => "definitions",
            Family::Requests => "requests",
            Family::Sources => "sources",
            Family::Peers => "peers",
            Family::Overload => "overload",
        }
    }

    /// Its table, and one random case for each seed.
    #[must_use]
    pub fn cases(self, seeds: &[u64]) -> Vec<Case> {
        let random = |make_case: fn(u64) -> Case| seeds.iter().map(move |seed| make_case(*seed));
        match self {
            Family::Objects => objects::cases()
                .into_iter()
                .chain(wide::cases())
                .chain(rows::cases())
                .chain(random(objects::random))
                .collect(),
            Family::Definitions => definitions::cases(),
            Family::Requests => requests::cases().into_iter().chain(random(requests::random)).collect(),
            Family::Sources => sources::cases().into_iter().chain(random(sources::random)).collect(),
            Family::Peers => peers::cases().into_iter().chain(random(peers::random)).collect(),
            Family::Overload => overload::cases(),
        }
    }
}

/// The outcome of a family.
#[derive(Debug, Default)]
pub struct Report {
    /// One line for each case.
    pub text: String,
    /// What failed, one line for each.
    pub faults: Vec<String>,
}

/// Runs the cases of a family, one after the other. `only` selects cases by a part of their name.
///
/// # Errors
/// If something the suite itself needs is not available.
pub async fn run(family: Family, seeds: &[u64], only: Option<&str>, say: &dyn Fn(&str)) -> Result<Report> {
    let started = Instant::now();
    let mut report = Report::default();
    let mut arena = Box::pin(Arena::open(family)).await?;
    let mut before = arena.anonymous_bytes()?;
    let mut count = 0;
    for case in family.cases(seeds) {
        if only.is_some_and(|only| !case.name.contains(only)) {
            continue;
        }
        count += 1;
        // A reader that has been lied to comes back ever more slowly, so each of these cases has one of its own.
        if family == Family::Sources && count > 1 {
            Box::pin(arena.reopen()).await.with_context(|| format!("before {}", case.name))?;
            before = arena.anonymous_bytes()?;
        }
        let (line, faults) = Box::pin(attack(&case, &arena)).await?;
        say(&format!("hostile {} {line}", family.name()));
        let _ = writeln!(report.text, "{line}");
        if !faults.is_empty() {
            for fault in faults {
                say(&format!("hostile {} {}: FAULT: {fault}", family.name(), case.name));
                report.faults.push(format!("{} {}: {fault}", family.name(), case.name));
            }
            // The next case starts from a process that is well.
            Box::pin(arena.reopen()).await.with_context(|| format!("after {}", case.name))?;
            before = arena.anonymous_bytes()?;
        }
    }
    let after = memory::returned(arena.process_id()?, before).await;
    if let Err(error) = &after {
        report.faults.push(format!("{}: {error:#}", family.name()));
    }
    let line = format!(
        "{}: {count} cases in {:.0} s, {} faults; anonymous memory {} MiB before, {} MiB after",
        family.name(),
        started.elapsed().as_secs_f64(),
        report.faults.len(),
        before / MIB,
        after.unwrap_or(arena.anonymous_bytes()?) / MIB,
    );
    say(&format!("hostile {line}"));
    let _ = writeln!(report.text, "{line}");
    Ok(report)
}

/// Runs one case and checks everything that must hold.
async fn attack(case: &Case, arena: &Arena) -> Result<(String, Vec<String>)> {
    let meter = Meter::start(arena.process_id()?)?;
    let started = Instant::now();
    let mut faults = Vec::new();
    let ended = timeout(case.deadline, (case.attack)(arena)).await;
    let note = match ended {
        Ok(Ok(note)) => note,
        Ok(Err(error)) => {
            faults.push(format!("{error:#}"));
            String::new()
        }
        Err(_) => {
            faults.push(format!("not ended within {:?}", case.deadline));
            String::new()
        }
    };
    let lasted = started.elapsed();
    if let Some(code) = arena.exit_code()? {
        faults.push(format!("the process ended with exit code {code}"));
        return Ok((format!("{}: the process ended with exit code {code}", case.name), faults));
    }
    let reported = arena.bystander().check().await;
    let beside = match reported {
        Ok(seen) => seen.to_string(),
        Err(error) => {
            faults.push(format!("the well-behaved client: {error:#}"));
            "the well-behaved client failed".to_owned()
        }
    };
    let growth = meter.growth()?;
    if growth > case.growth {
        faults.push(format!("memory grew by {} MiB at its peak, {} MiB allowed", growth / MIB, case.growth / MIB));
    }
    let line = format!(
        "{}: {:.1} s, {} MiB before, peak +{} of {} MiB, {} MiB after; {beside}; {note}",
        case.name,
        lasted.as_secs_f64(),
        meter.before() / MIB,
        growth / MIB,
        case.growth / MIB,
        memory::resident(arena.process_id()?)? / MIB,
    );
    Ok((line, faults))
}

/// Fails with every fault of a report.
///
/// # Errors
/// If there is one.
pub fn verdict(report: &Report) -> Result<()> {
    ensure!(report.faults.is_empty(), "{} faults:\n{}", report.faults.len(), report.faults.join("\n"));
    Ok(())
}
