//! When which fault begins and ends: written down, or thrown from a seed.

use std::fmt;
use std::time::Duration;

use super::fault::{Fault, LineFault, Side, SystemFault, What};
use crate::random::Random;

/// A fault in its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timed {
    /// When it begins, from the start of the schedule.
    pub at: Duration,
    /// How long it lasts; what is over at once lasts no time.
    pub lasts: Duration,
    /// What it is.
    pub fault: Fault,
}

/// Faults in their times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Everything random in the run follows from it.
    pub seed: u64,
    /// In the order of their beginnings.
    pub faults: Vec<Timed>,
}

/// What may be in a random schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Faults that leave the control plane to others.
    Light,
    /// Also kube-apiserver and etcd, at least one of them.
    Heavy,
}

/// Something begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// When.
    pub at: Duration,
    /// What.
    pub fault: Fault,
    /// Whether it begins.
    pub begins: bool,
}

/// Before the first fault, so that there is something to lose.
const BEFORE: u64 = 500;
/// Beginnings lie within this time, in milliseconds.
const SPAN: u64 = 8_000;
/// Faults in a random schedule.
const FAULTS: (u64, u64) = (4, 8);

impl Schedule {
    /// One fault, after a second.
    #[must_use]
    pub fn from_seed(seed: u64, fault: Fault, lasts: Duration) -> Schedule {
        Schedule { seed, faults: vec![Timed { at: Duration::from_secs(1), lasts, fault }] }
    }

    /// A random one: always the same from one seed.
    #[must_use]
    pub fn random(seed: u64, reach: Reach) -> Schedule {
        let mut random = Random::from_seed(seed, 0);
        let milliseconds = Duration::from_millis;
        let mut faults = Vec::new();
        // Programs and data: one after the other.
        let mut free = BEFORE;
        let systems = if reach == Reach::Heavy { random.between(1, 3) } else { random.between(0, 2) };
        for number in 0..systems {
            let at = free + random.between(0, SPAN / 4);
            let fault = match reach {
                Reach::Heavy if number == 0 => heavy(&mut random),
                Reach::Heavy if random.below(2) == 0 => heavy(&mut random),
                Reach::Heavy | Reach::Light => light(&mut random),
            };
            let lasts = if fault == SystemFault::Compact { 0 } else { random.between(200, 2_000) };
            faults.push(Timed { at: milliseconds(at), lasts: milliseconds(lasts), fault: Fault::System(fault) });
            free = at + lasts + 1_000;
            // What is missed before kube-apiserver starts again is not reported any more: only a list shows its outcome.
            if fault == SystemFault::KillApiserver && random.below(2) == 0 {
                let blind = Fault::Line(Side::Source, LineFault::Refuse(What::Everything, 503, None));
                let (before, after) = (random.between(300, 1_500).min(at), random.between(3_000, 6_000));
                let (at, lasts) = (milliseconds(at - before), milliseconds(before + lasts + after));
                if !faults.iter().any(|timed| timed.fault == blind) {
                    let cut = Fault::Line(Side::Source, LineFault::Cut);
                    faults.push(Timed { at, lasts, fault: blind });
                    faults.push(Timed { at: at + milliseconds(50), lasts: Duration::ZERO, fault: cut });
                }
            }
        }
        // Lines: over each other, but no two of a kind on one line, since the first to end would end both.
        for _ in 0..random.between(FAULTS.0, FAULTS.1) {
            let side = if random.below(3) == 0 { Side::Clients } else { Side::Source };
            let fault = Fault::Line(side, line(&mut random));
            let is_moment = matches!(fault, Fault::Line(_, LineFault::Lose | LineFault::Cut | LineFault::Reset));
            let lasts = if is_moment { 0 } else { random.between(200, 2_500) };
            let timed = Timed { at: milliseconds(BEFORE + random.below(SPAN)), lasts: milliseconds(lasts), fault };
            let meets = |other: &Timed| {
                is_same_kind(other.fault, fault)
                    && other.at <= timed.at + timed.lasts
                    && timed.at <= other.at + other.lasts
            };
            if !faults.iter().any(meets) {
                faults.push(timed);
            }
        }
        faults.sort_by_key(|timed| timed.at);
        Schedule { seed, faults }
    }

    /// Beginnings and ends, in their order.
    #[must_use]
    pub fn turns(&self) -> Vec<Turn> {
        let both = |timed: &Timed| {
            let turn = |at, begins| Turn { at, fault: timed.fault, begins };
            [turn(timed.at, true), turn(timed.at + timed.lasts, false)]
        };
        let mut turns: Vec<Turn> = self.faults.iter().flat_map(both).collect();
        turns.sort_by_key(|turn| turn.at);
        turns
    }
}

fn is_same_kind(one: Fault, other: Fault) -> bool {
    match (one, other) {
        (Fault::Line(one_side, one), Fault::Line(other_side, other)) => {
            one_side == other_side && std::mem::discriminant(&one) == std::mem::discriminant(&other)
        }
        _ => false,
    }
}

fn heavy(random: &mut Random) -> SystemFault {
    use SystemFault::{KillApiserver, KillEtcd, PauseApiserver, PauseEtcd};
    [KillApiserver, KillEtcd, PauseApiserver, PauseEtcd][random.below(4) as usize]
}

fn light(random: &mut Random) -> SystemFault {
    use SystemFault::{Compact, DeleteDefinition, KillFieldcache, PauseFieldcache, StopFieldcache, UnserveVersion};
    // Killing is what happens most.
    let choices = [
        KillFieldcache,
        KillFieldcache,
        KillFieldcache,
        StopFieldcache,
        PauseFieldcache,
        Compact,
        DeleteDefinition,
        UnserveVersion,
    ];
    choices[random.below(choices.len() as u64) as usize]
}

fn line(random: &mut Random) -> LineFault {
    let what = [What::Everything, What::Reads, What::Watches][random.below(3) as usize];
    let status = [429, 500, 502, 503, 504][random.below(5) as usize];
    let retry_after = (random.below(2) == 0).then_some(1);
    // From the middle of a head to the middle of a long list.
    let bytes = 1 << random.between(4, 15);
    let bytes = bytes + random.below(bytes);
    match random.below(12) {
        0 => LineFault::Delay(Duration::from_millis(random.between(5, 400))),
        1 => LineFault::Throttle(random.between(500, 50_000)),
        2 => LineFault::Freeze,
        3 => LineFault::Lose,
        4 => LineFault::Cut,
        5 => LineFault::Reset,
        6 => LineFault::CutAfter(bytes),
        7 => LineFault::BreakBodies(what, bytes),
        8 => LineFault::TruncateBodies(what, bytes),
        9 => LineFault::Slow(what, Duration::from_millis(random.between(100, 3_000))),
        10 => LineFault::GzipMembers,
        _ => LineFault::Refuse(what, status, retry_after),
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "seed {}:", self.seed)?;
        for Timed { at, lasts, fault } in &self.faults {
            write!(formatter, "\n  at {:.1} s for {:.1} s: {fault}", at.as_secs_f64(), lasts.as_secs_f64())?;
        }
        Ok(())
    }
}
