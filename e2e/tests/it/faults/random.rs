//! Random schedules: several faults at a time, over each other, on both lines and in all programs. A seed that went wrong is repeated by
//! `cargo run -p e2e --bin soak -- --seed SEED`.

use anyhow::{Result, ensure};
use e2e::faults::campaign::{heavy, light, reach, schedule};
use e2e::faults::run::Company;
use e2e::faults::schedule::{Reach, Schedule};

use super::{alone, say};

/// That leave the control plane alone, so many at a time.
const LIGHT: usize = 14;
const AT_ONCE: usize = 4;
/// That do not.
const HEAVY: usize = 6;

/// Where the seeds of these tests begin. They are always the same, so that a change fails only for a reason of its own; `make soak` begins
/// anywhere.
const FIRST_SEED: u64 = 2_026;

/// Schedules of this reach.
fn schedules(wanted: Reach, count: usize) -> Vec<Schedule> {
    say(&format!("random: seeds from {FIRST_SEED} on"));
    (FIRST_SEED..).filter(|seed| reach(*seed) == wanted).take(count).map(schedule).collect()
}

#[test]
fn random_faults_of_lines_fieldcache_and_definitions() -> Result<()> {
    let summary = alone(light(schedules(Reach::Light, LIGHT), AT_ONCE, Company::default(), &say))?;
    say(&format!("random: {summary}\n{}", summary.by_kind()));
    summary.judged()?;
    ensure!(summary.schedules == LIGHT && summary.faults >= LIGHT, "{summary}");
    Ok(())
}

#[test]
fn random_faults_of_the_control_plane_too() -> Result<()> {
    let summary = alone(heavy(schedules(Reach::Heavy, HEAVY), Company::default(), &say))?;
    say(&format!("random: {summary}\n{}", summary.by_kind()));
    summary.judged()?;
    ensure!(summary.schedules == HEAVY && summary.faults >= HEAVY, "{summary}");
    Ok(())
}

#[test]
fn a_seed_always_makes_the_same_schedule() {
    for seed in 0..50 {
        assert_eq!(schedule(seed), schedule(seed));
        assert!(!schedule(seed).faults.is_empty(), "{}", schedule(seed));
        let needs_own = schedule(seed).faults.iter().any(|timed| timed.fault.needs_own_control_plane());
        assert_eq!(needs_own, reach(seed) == Reach::Heavy, "{}", schedule(seed));
    }
    assert_ne!(schedule(3), schedule(4));
}
