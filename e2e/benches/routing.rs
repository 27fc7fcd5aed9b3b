//! Routing alone: changes a second that one core brings to the watches they touch.

use anyhow::{Result, ensure};
use e2e::routing::Routing;
use e2e::{accounting, statistics};

use super::options::Options;
use super::report::{Line, Report, number};

/// The row of this file.
pub(crate) const ROWS: [&str; 1] = ["routing"];

/// Watches, each with a value of its own.
const SUBSCRIPTIONS: u64 = 5_000;

/// How many times each object changes.
const STRETCHES: u64 = 10;

/// Changes of one snapshot: one by one, and as many as come together when there are many.
const CHANGES: [u64; 2] = [100, 1];

/// All lines of the row.
pub(crate) fn run(options: &Options, report: &mut Report) -> Result<()> {
    for changes in CHANGES {
        let routing = Routing::prepare(SUBSCRIPTIONS, STRETCHES, changes)?;
        let mut rates = Vec::new();
        for _ in 0..options.rounds {
            let ready = routing.ready();
            let mut used = 0.0;
            for stretch in routing.stretches() {
                // This thread's CPU, not the clock: the rate is that of a core which does nothing else.
                let before = accounting::own_thread()?;
                ready.route(stretch);
                used += accounting::own_thread()?.saturating_sub(before).as_secs_f64();
                let taken = ready.take();
                ensure!(taken as u64 == SUBSCRIPTIONS, "{taken} of {SUBSCRIPTIONS} changes lay in mailboxes");
            }
            rates.push((SUBSCRIPTIONS * STRETCHES) as f64 / used);
        }
        let rate = statistics::median(&rates);
        let what = format!("{} watches with a value each, {changes} changes a snapshot", number(SUBSCRIPTIONS as f64));
        let line = Line::new("routing", what, format!("{} changes/s per core", number(rate)));
        report.add(line.target("≥ 300,000/s per core", rate >= 300_000.0).figure("changesPerCoreSecond", rate));
    }
    Ok(())
}
