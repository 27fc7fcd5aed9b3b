//! Every fault by its name, alone: everybody is told what happened, and is up to date soon after.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::faults::campaign::{heavy, light};
use e2e::faults::fault::{Fault, LineFault, Side, SystemFault, What};
use e2e::faults::run::Company;
use e2e::faults::schedule::Schedule;

use super::{alone, say};

/// So many at a time, on one control plane.
const AT_ONCE: usize = 4;

/// Smaller than that of random schedules.
const COMPANY: Company = Company { informers: 5, readers: 2, pace: Duration::from_millis(80), first: 40 };

fn lines() -> Vec<(LineFault, u64)> {
    vec![
        (LineFault::Delay(Duration::from_millis(300)), 2_000),
        (LineFault::Throttle(2_000), 2_000),
        (LineFault::Freeze, 2_000),
        (LineFault::Lose, 0),
        (LineFault::Cut, 0),
        (LineFault::Reset, 0),
        (LineFault::CutAfter(3_000), 2_000),
        (LineFault::BreakBodies(What::Watches, 2_500), 2_000),
        (LineFault::BreakBodies(What::Everything, 2_500), 2_000),
        (LineFault::TruncateBodies(What::Everything, 2_500), 2_000),
        (LineFault::Refuse(What::Everything, 429, Some(1)), 1_500),
        (LineFault::Refuse(What::Everything, 429, None), 1_500),
        (LineFault::Refuse(What::Everything, 503, Some(1)), 1_500),
        (LineFault::Refuse(What::Everything, 500, None), 1_500),
        (LineFault::Slow(What::Everything, Duration::from_millis(1_500)), 2_000),
        (LineFault::GzipMembers, 2_000),
    ]
}

/// A fault of requests is met only by requests: with it comes a cut, so that there are some.
fn schedule(seed: u64, fault: Fault, lasts: u64) -> Schedule {
    let mut schedule = Schedule::of(seed, fault, Duration::from_millis(lasts));
    if let Fault::Line(side, fault) = fault
        && !matches!(fault, LineFault::Cut | LineFault::Reset | LineFault::Lose)
    {
        let mut cut = schedule.faults[0];
        (cut.fault, cut.lasts) = (Fault::Line(side, LineFault::Cut), Duration::ZERO);
        cut.at += Duration::from_millis(50);
        schedule.faults.push(cut);
    }
    schedule
}

#[test]
fn each_fault_between_the_api_server_and_fieldcache() -> Result<()> {
    on_line(Side::Source)
}

#[test]
fn each_fault_between_fieldcache_and_its_clients() -> Result<()> {
    on_line(Side::Clients)
}

fn on_line(side: Side) -> Result<()> {
    let schedules = lines().into_iter().enumerate();
    let schedules: Vec<Schedule> =
        schedules.map(|(number, (fault, lasts))| schedule(number as u64, Fault::Line(side, fault), lasts)).collect();
    let count = schedules.len();
    let summary = alone(light(schedules, AT_ONCE, COMPANY, &say))?;
    say(&format!("named: {summary}"));
    summary.judged()?;
    ensure!(summary.schedules == count && summary.recoveries.len() >= count - 3, "too few kinds: {summary}");
    Ok(())
}

#[test]
fn each_fault_of_fieldcache_and_of_definitions() -> Result<()> {
    let rows = [
        (SystemFault::KillFieldcache, 300),
        (SystemFault::StopFieldcache, 300),
        (SystemFault::PauseFieldcache, 2_000),
        (SystemFault::Compact, 0),
        (SystemFault::DeleteDefinition, 1_000),
        (SystemFault::UnserveVersion, 1_500),
    ];
    let schedules = rows.iter().enumerate();
    let schedules =
        schedules.map(|(number, (fault, lasts))| schedule(number as u64, Fault::System(*fault), *lasts)).collect();
    let summary = alone(light(schedules, AT_ONCE, COMPANY, &say))?;
    say(&format!("named: {summary}"));
    summary.judged()
}

#[test]
fn each_fault_of_the_control_plane() -> Result<()> {
    let rows = [
        (SystemFault::KillApiserver, 500),
        (SystemFault::PauseApiserver, 3_000),
        (SystemFault::KillEtcd, 500),
        (SystemFault::PauseEtcd, 3_000),
    ];
    let mut schedules: Vec<Schedule> = Vec::new();
    for (number, (fault, lasts)) in rows.iter().enumerate() {
        schedules.push(schedule(number as u64, Fault::System(*fault), *lasts));
    }
    // Compaction is felt by whoever has to begin anew just then.
    for schedule in &mut schedules[..1] {
        let mut compact = schedule.faults[0];
        (compact.fault, compact.lasts) = (Fault::System(SystemFault::Compact), Duration::ZERO);
        compact.at -= Duration::from_millis(100);
        schedule.faults.insert(0, compact);
    }
    let summary = alone(heavy(schedules, COMPANY, &say))?;
    say(&format!("named: {summary}"));
    summary.judged()
}
