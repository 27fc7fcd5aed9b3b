//! Many schedules, and their combined result. Those that leave the control plane alone run several at a time, the
//! others one after the other.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use futures::stream;

use super::fault::Fault;
use super::run::{Company, Outcome, run};
use super::schedule::{Reach, Schedule};
use super::stage::{Plane, Stage};
use crate::checker::Figures;

/// Complaints of one schedule that are shown.
const SHOWN: usize = 8;

/// What came of many schedules.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many.
    pub schedules: usize,
    /// Faults in them.
    pub faults: usize,
    /// What was checked.
    pub figures: Figures,
    /// Gaps of which only the outcome was reported.
    pub gaps: usize,
    /// How long it took after the end of each fault until all clients had received what had happened until then.
    pub recoveries: Vec<(Fault, Duration)>,
    /// How many pieces, connections, requests or answers met which fault of a line.
    pub met: BTreeMap<Fault, u64>,
    /// What was wrong, with the schedule.
    pub wrong: Vec<String>,
}

impl Summary {
    fn add(&mut self, schedule: &Schedule, outcome: Result<Outcome>) {
        self.schedules += 1;
        self.faults += schedule.faults.len();
        let complaints = match outcome {
            Err(error) => vec![format!("{error:#}")],
            Ok(outcome) => {
                self.figures = self.figures.and(outcome.figures);
                self.gaps += outcome.gaps;
                self.recoveries.extend(outcome.recoveries);
                self.meet(outcome.met);
                outcome.complaints
            }
        };
        if !complaints.is_empty() {
            let shown = complaints[..complaints.len().min(SHOWN)].join("\n- ");
            self.wrong.push(format!("{} wrong under {schedule}\n- {shown}", complaints.len()));
        }
    }

    fn meet(&mut self, met: BTreeMap<Fault, u64>) {
        for (fault, count) in met {
            *self.met.entry(fault).or_default() += count;
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(mut self, other: Summary) -> Summary {
        self.recoveries.extend(other.recoveries);
        self.meet(other.met);
        self.wrong.extend(other.wrong);
        Summary {
            schedules: self.schedules + other.schedules,
            faults: self.faults + other.faults,
            figures: self.figures.and(other.figures),
            gaps: self.gaps + other.gaps,
            ..self
        }
    }

    /// Fails with everything that was wrong.
    ///
    /// # Errors
    /// Then.
    pub fn judged(&self) -> Result<()> {
        ensure!(
            self.wrong.is_empty(),
            "{} of {} schedules:\n{}",
            self.wrong.len(),
            self.schedules,
            self.wrong.join("\n")
        );
        Ok(())
    }

    /// A table of recoveries, a line for each kind of fault: how many there were, the median and the worst.
    #[must_use]
    pub fn by_kind(&self) -> String {
        let mut kinds: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
        for (fault, recovery) in &self.recoveries {
            kinds.entry(fault.kind()).or_default().push(*recovery);
        }
        let row = |(kind, mut recoveries): (String, Vec<Duration>)| {
            recoveries.sort_unstable();
            let (median, worst) = middle_and_last(&recoveries);
            format!("{:4} x {kind}: {median:.1} s, worst {worst:.1} s", recoveries.len())
        };
        kinds.into_iter().map(row).collect::<Vec<_>>().join("\n")
    }
}

/// The median and the worst, in seconds, of what is in order.
fn middle_and_last(recoveries: &[Duration]) -> (f64, f64) {
    let seconds = |index: usize| recoveries.get(index).map_or(0.0, Duration::as_secs_f64);
    (seconds(recoveries.len() / 2), seconds(recoveries.len().wrapping_sub(1)))
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { schedules, faults, figures, gaps, recoveries, wrong, .. } = self;
        let mut recoveries = recoveries.clone();
        recoveries.sort_unstable_by_key(|(_, recovery)| *recovery);
        let worst = recoveries.last().map_or("nothing".to_owned(), |(fault, _)| fault.kind());
        let (median, longest) = middle_and_last(&recoveries.iter().map(|(_, recovery)| *recovery).collect::<Vec<_>>());
        write!(
            formatter,
            "{schedules} schedules with {faults} faults, {} of which went wrong; {} operations of clients checked against {} true \
             changes ({gaps} relists reported by their outcome); up to date again {median:.1} s after the end of a fault (median), \
             {longest:.1} s at worst ({worst})",
            wrong.len(),
            figures.operations(),
            figures.changes
        )
    }
}

/// The schedule of a seed, which also says whether it needs a control plane of its own: three of ten do.
#[must_use]
pub fn schedule(seed: u64) -> Schedule {
    Schedule::random(seed, reach(seed))
}

/// What may be in the schedule of a seed.
#[must_use]
pub fn reach(seed: u64) -> Reach {
    if seed % 10 < 3 { Reach::Heavy } else { Reach::Light }
}

/// How fieldcache is started under a seed: what decides how it meets faults is not always the same.
fn arguments(seed: u64) -> Vec<&'static str> {
    let mut arguments = vec![["--pass-through", "off"], ["--pass-through", "read"]][(seed % 2) as usize].to_vec();
    // Lost connections are found out by the lag; no client waits here for the usual 90 s.
    arguments.extend(["--max-lag", ["5s", "15s", "15s"][(seed % 3) as usize]]);
    arguments
}

/// Runs schedules that leave the control plane alone, so many at a time, on one that they share. `say` receives how each went.
///
/// # Errors
/// When the control plane does not start.
pub async fn light(schedules: Vec<Schedule>, at_once: usize, company: Company, say: &dyn Fn(&str)) -> Result<Summary> {
    // One that does not start fails once, not once for each schedule.
    Plane::shared().await?;
    let mut outcomes = stream::iter(schedules)
        .map(|schedule| async move {
            let outcome = async {
                let mut stage = Stage::set(Plane::shared().await?, &arguments(schedule.seed)).await?;
                run(&mut stage, &schedule, company).await
            };
            (outcome.await, schedule)
        })
        .buffer_unordered(at_once);
    let mut summary = Summary::default();
    while let Some((outcome, schedule)) = outcomes.next().await {
        report(&schedule, &outcome, say);
        summary.add(&schedule, outcome);
    }
    Ok(summary)
}

/// Runs schedules one after the other on a control plane of their own; after one that failed as a whole on a new one.
///
/// # Errors
/// When no control plane starts.
pub async fn heavy(schedules: Vec<Schedule>, company: Company, say: &dyn Fn(&str)) -> Result<Summary> {
    let mut summary = Summary::default();
    let mut free: Option<Plane> = None;
    for schedule in schedules {
        let plane = match free.take() {
            Some(plane) => plane,
            None => Plane::own().await.context("a control plane for heavy faults")?,
        };
        let outcome = match Stage::set(plane, &arguments(schedule.seed)).await {
            Err(error) => Err(error),
            Ok(mut stage) => {
                let outcome = run(&mut stage, &schedule, company).await;
                free = outcome.is_ok().then(|| stage.strike());
                outcome
            }
        };
        report(&schedule, &outcome, say);
        summary.add(&schedule, outcome);
    }
    Ok(summary)
}

fn report(schedule: &Schedule, outcome: &Result<Outcome>, say: &dyn Fn(&str)) {
    match outcome {
        Ok(outcome) if outcome.complaints.is_empty() => say(&format!("{schedule}\n  {outcome}")),
        Ok(outcome) => say(&format!("WRONG {schedule}\n  {outcome}\n  {}", outcome.complaints.join("\n  "))),
        Err(error) => say(&format!("FAILED {schedule}\n  {error:#}")),
    }
}
