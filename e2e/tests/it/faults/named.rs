//! Every fault by its name: it is met, every client nevertheless receives what happened, and is up to date soon after.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::faults::campaign::{heavy, light};
use e2e::faults::fault::{Fault, LineFault, Side, SystemFault, What};
use e2e::faults::proxy::Fate;
use e2e::faults::reader::decompressed;
use e2e::faults::run::{Company, run};
use e2e::faults::schedule::{Schedule, Timed};
use e2e::faults::stage::{Plane, Stage};
use e2e::http::Request;
use e2e::workload::NAMESPACES;
use serde_json::Value;

use super::{alone, say};

/// So many at a time, on one control plane.
const AT_ONCE: usize = 4;

/// Smaller than that of random schedules.
const COMPANY: Company =
    Company { informers: 5, readers: 2, pace: Duration::from_millis(80), first: 40, insists: true };

/// What has to happen besides, so that there is something that the fault can meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum With {
    /// Nothing.
    Alone,
    /// A cut: connected clients send their requests again.
    Cut,
    /// A new start of fieldcache, which has to list everything.
    Restart,
}

/// Faults of a line, how long they last in milliseconds, and what happens besides.
fn lines(side: Side) -> Vec<(LineFault, u64, With)> {
    use With::{Alone, Cut, Restart};
    // Clients list all the time.
    let list = if side == Side::Source { Restart } else { Cut };
    let mut lines = vec![
        (LineFault::Delay(Duration::from_millis(300)), 2_000, Cut),
        (LineFault::Throttle(2_000), 2_000, Cut),
        (LineFault::Freeze, 2_000, Cut),
        (LineFault::Lose, 0, Alone),
        (LineFault::Cut, 0, Alone),
        (LineFault::Reset, 0, Alone),
        (LineFault::CutAfter(3_000), 2_000, Cut),
        // Watches, in the middle of a frame.
        (LineFault::BreakBodies(What::Watches, 2_500), 2_000, Cut),
        // Lists, those that come as initial events and those that come in pages.
        (LineFault::BreakBodies(What::Everything, 2_500), 2_000, list),
        (LineFault::TruncateBodies(What::Everything, 2_600), 2_000, list),
        (LineFault::Refuse(What::Everything, 429, Some(1)), 1_500, Cut),
        (LineFault::Refuse(What::Everything, 429, None), 1_500, Cut),
        (LineFault::Refuse(What::Everything, 503, Some(1)), 1_500, Cut),
        (LineFault::Refuse(What::Everything, 500, None), 1_500, Cut),
        (LineFault::Slow(What::Everything, Duration::from_millis(1_500)), 2_000, Cut),
        // Longer than any client waits for the response to a watch.
        (LineFault::Slow(What::Watches, Duration::from_secs(9)), 4_000, Cut),
    ];
    // fieldcache does not request gzip from a source on the loopback interface. Another test covers what it forwards.
    if side == Side::Clients {
        lines.push((LineFault::GzipMembers, 2_000, Cut));
    }
    lines
}

fn schedule(seed: u64, fault: Fault, lasts: u64, with: With) -> Schedule {
    let mut schedule = Schedule::from_seed(seed, fault, Duration::from_millis(lasts));
    let besides = match (fault, with) {
        (Fault::Line(side, _), With::Cut) => Some((Fault::Line(side, LineFault::Cut), Duration::ZERO)),
        (_, With::Restart) => Some((Fault::System(SystemFault::KillFieldcache), Duration::from_millis(100))),
        (_, With::Alone | With::Cut) => None,
    };
    if let Some((besides, lasts)) = besides {
        let at = schedule.faults[0].at + Duration::from_millis(50);
        schedule.faults.push(Timed { at, lasts, fault: besides });
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
    let rows = lines(side);
    let schedules = rows.iter().enumerate();
    let schedules = schedules
        .map(|(number, (fault, lasts, with))| schedule(number as u64, Fault::Line(side, *fault), *lasts, *with))
        .collect();
    let summary = alone(light(schedules, AT_ONCE, COMPANY, &say))?;
    say(&format!("named: {summary}\n{}", summary.by_kind()));
    summary.judged()?;
    for (fault, ..) in rows {
        let fault = Fault::Line(side, fault);
        ensure!(summary.met.contains_key(&fault), "nothing met the fault \"{fault}\", so it says nothing");
    }
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
    let schedules = schedules
        .map(|(number, (fault, lasts))| schedule(number as u64, Fault::System(*fault), *lasts, With::Alone))
        .collect();
    let summary = alone(light(schedules, AT_ONCE, COMPANY, &say))?;
    say(&format!("named: {summary}\n{}", summary.by_kind()));
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
        schedules.push(schedule(number as u64, Fault::System(*fault), *lasts, With::Alone));
    }
    // Compaction affects any client that has to begin again just then.
    for schedule in &mut schedules[..1] {
        let mut compact = schedule.faults[0];
        (compact.fault, compact.lasts) = (Fault::System(SystemFault::Compact), Duration::ZERO);
        compact.at -= Duration::from_millis(100);
        schedule.faults.insert(0, compact);
    }
    let summary = alone(heavy(schedules, COMPANY, &say))?;
    say(&format!("named: {summary}\n{}", summary.by_kind()));
    summary.judged()
}

/// The watches that are open continue under most faults, so a client that is to miss events must be cut off.
fn cut_after(blind: &Timed) -> Timed {
    let at = blind.at + Duration::from_millis(50);
    Timed { at, lasts: Duration::ZERO, fault: Fault::Line(Side::Source, LineFault::Cut) }
}

/// What happened while fieldcache could see nothing, and what kube-apiserver can no longer report to it: only the outcome is reported, by a list.
#[test]
fn missed_changes_are_reported_by_their_outcome() -> Result<()> {
    let rows = [LineFault::Refuse(What::Everything, 429, Some(1)), LineFault::Refuse(What::Everything, 503, None)];
    let blind = |(number, line): (usize, LineFault)| {
        let mut schedule = Schedule::from_seed(number as u64, Fault::Line(Side::Source, line), Duration::from_secs(14));
        // Something has to be missed before it: its watch cache begins again with what there is then.
        let (at, lasts) = (Duration::from_secs(6), Duration::from_millis(500));
        schedule.faults.push(cut_after(&schedule.faults[0]));
        schedule.faults.push(Timed { at, lasts, fault: Fault::System(SystemFault::KillApiserver) });
        schedule
    };
    let summary = alone(heavy(rows.into_iter().enumerate().map(blind).collect(), COMPANY, &say))?;
    say(&format!("named: {summary}\n{}", summary.by_kind()));
    summary.judged()?;
    ensure!(summary.gaps >= rows.len(), "only {} gaps: everything was reported", summary.gaps);
    Ok(())
}

#[test]
fn gzip_of_several_members_is_handed_on_as_it_is() -> Result<()> {
    let fault = LineFault::GzipMembers;
    alone(async {
        let mut stage = Stage::set(Plane::shared().await?, &["--pass-through", "read"]).await?;
        stage.begin(Fault::Line(Side::Source, fault)).await?;
        // Resources that fieldcache does not cache.
        let path = "/api/v1/namespaces/kube-system";
        let request = Request::get(path).header("accept-encoding", "gzip");
        let answer = stage.fieldcache().client().send(request).await?.success()?;
        ensure!(stage.source().met().contains_key(&fault), "nothing was compressed on the way");
        ensure!(answer.header("content-encoding") == Some("gzip"), "it came as {:?}", answer.headers);
        let plain: Value = serde_json::from_slice(&decompressed(&answer)?)?;
        let truth = stage.control_plane().client().get_json(path).await?;
        ensure!(plain == truth, "through fieldcache: {plain}\ndirectly: {truth}");
        Ok(())
    })
}

/// The checker is not only right about recordings: with a lie on the line, it finds that a client received it.
#[test]
fn a_lie_on_the_line_is_found() -> Result<()> {
    alone(async {
        let mut stage = Stage::set(Plane::shared().await?, &["--pass-through", "off"]).await?;
        let resource = stage.resource().clone();
        let is_left = Arc::new(AtomicBool::new(true));
        for namespace in ["", NAMESPACES[0], NAMESPACES[1]] {
            let is_left = is_left.clone();
            stage.clients().tamper(&resource.path(namespace), move |line| {
                let is_meant = line.contains("\"MODIFIED\"") && line.contains("\"step\":\"");
                if is_meant && is_left.swap(false, Ordering::Relaxed) {
                    Fate::Changed(line.replacen("\"step\":\"", "\"step\":\"9", 1))
                } else {
                    Fate::Kept
                }
            });
        }
        // Readers leave watches that they have not read to their end.
        let company = Company { readers: 0, ..COMPANY };
        let outcome = run(&mut stage, &Schedule { seed: 0, faults: Vec::new() }, company).await?;
        ensure!(stage.clients().tampered() == 1, "{} lines were changed", stage.clients().tampered());
        let words = "its content is not that of its version";
        let is_found = outcome.complaints.iter().any(|complaint| complaint.contains(words));
        ensure!(is_found, "no complaint says \"{words}\": {:?}", outcome.complaints);
        Ok(())
    })
}
