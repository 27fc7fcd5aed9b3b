//! One schedule from its start to the checker's report: writers, clients, faults, quiet, judgement.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use tokio::task::{JoinHandle, spawn_local};

use super::fault::{Fault, LineFault, Side};
use super::informer::{Held, Informer, Start};
use super::notes::{Board, Notes};
use super::reader::Reader;
use super::schedule::Schedule;
use super::stage::Stage;
use super::weather::pause;
use crate::checker::story::Moment;
use crate::checker::truth::Truth;
use crate::checker::{ClientEvent, Figures, Story, check};
use crate::eventually::eventually;
use crate::history::{Change, Recorder, transitions};
use crate::http::Endpoint;
use crate::random::Random;
use crate::selection::Selection;
use crate::workload::{COLORS, NAMESPACES, SIZES, TIERS, Workload};

/// How many clients take part, and how much is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Company {
    /// Clients with a store; one of them without selection.
    pub informers: u64,
    /// Clients that send reads.
    pub readers: u64,
    /// Each writer changes an object this often.
    pub pace: Duration,
    /// Changes before the clients come.
    pub first: usize,
    /// Whether a fault of a line goes on until something has met it, however long that takes on a busy machine.
    pub insists: bool,
}

impl Default for Company {
    fn default() -> Company {
        Company { informers: 8, readers: 3, pace: Duration::from_millis(80), first: 40, insists: false }
    }
}

/// How long a step may take that takes seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// After the last fault changes go on for so long.
const AFTERMATH: Duration = Duration::from_millis(1_500);
/// As many changes come in it, however slow the machine is.
const AFTERWARDS: usize = 20;
/// Between two looks at a fieldcache that is to be started again.
const TENDING: Duration = Duration::from_millis(300);

/// What came of a schedule.
#[derive(Debug)]
pub struct Outcome {
    /// What the checker complains of, and what did not come to rest.
    pub complaints: Vec<String>,
    /// How much was checked.
    pub figures: Figures,
    /// How long after the end of each fault all clients had received what had happened until then.
    pub recoveries: Vec<(Fault, Duration)>,
    /// How many pieces, connections, requests or answers met which fault of a line.
    pub met: BTreeMap<Fault, u64>,
    /// Gaps of which only the outcome was reported.
    pub gaps: usize,
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = self.recoveries.iter().map(|(_, recovery)| *recovery).max().unwrap_or_default();
        write!(
            formatter,
            "{}; {} gaps; faults met {} times; recovered within {:.1} s",
            self.figures,
            self.gaps,
            self.met.values().sum::<u64>(),
            longest.as_secs_f64()
        )
    }
}

/// A random selection, the same texts for the wire as for the truth.
pub(super) fn selection(random: &mut Random) -> Selection {
    let mut selection = Selection::everything();
    if random.below(3) == 0 {
        selection = selection.within(NAMESPACES[random.below(2) as usize]);
    }
    selection = match random.below(4) {
        0 => selection.field("spec.color", COLORS[random.below(3) as usize]),
        1 => selection.field_is_not("spec.color", COLORS[random.below(3) as usize]),
        2 => selection.field("spec.size", SIZES[random.below(3) as usize]),
        _ => selection,
    };
    match random.below(4) {
        0 => selection.label("tier", TIERS[random.below(3) as usize]),
        1 => selection.label_is_not("color", COLORS[random.below(3) as usize]),
        _ => selection,
    }
}

/// Clients under way; they end when this is dropped.
struct Clients {
    notes: Vec<Notes>,
    held: Vec<(Selection, Rc<RefCell<Held>>)>,
    tasks: Vec<JoinHandle<Result<()>>>,
}

impl Drop for Clients {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Clients {
    fn start(stage: &Stage, company: Company, board: &Board, seed: u64) -> Clients {
        let mut clients = Clients { notes: Vec::new(), held: Vec::new(), tasks: Vec::new() };
        let mut random = Random::from_seed(seed, 1);
        let (near, far): (&Endpoint, &Endpoint) = (stage.fieldcache().endpoint(), stage.clients().endpoint());
        for number in 0..company.informers {
            let selected = if number == 0 { Selection::everything() } else { selection(&mut random) };
            let start = [Start::List, Start::InitialEvents][(number % 2) as usize];
            // The first is beside the proxy: it sees what fieldcache says, whatever happens to the others.
            let (client, place) =
                if number == 0 { (near.client(), "beside the proxy") } else { (far.client(), "behind the proxy") };
            let name = format!(
                "informer {number} ({start:?}, {place}, [{}] [{}] {})",
                selected.label_selector(),
                selected.field_selector(),
                selected.namespace()
            );
            let notes = Notes::new(board, &name, &selected, true);
            let informer =
                Informer::new(client, stage.resource(), &selected, start, Random::from_seed(seed, 100 + number), notes);
            clients.notes.push(informer.notes());
            clients.held.push((selected, informer.store()));
            clients.tasks.push(spawn_local(informer.follow()));
        }
        for number in 0..company.readers {
            let selected = if number == 0 { Selection::everything() } else { selection(&mut random) };
            let notes = Notes::new(board, &format!("reader {number}"), &selected, false);
            let reader = Reader::new(
                far.client(),
                stage.resource(),
                &selected,
                Random::from_seed(seed, 200 + number),
                notes,
                stage.recorder(),
            );
            clients.notes.push(reader.notes());
            clients.tasks.push(spawn_local(reader.run()));
        }
        clients
    }

    async fn ensure_running(&mut self) -> Result<()> {
        for task in &mut self.tasks {
            if task.is_finished() {
                task.await??;
                return Err(anyhow!("a client has ended"));
            }
        }
        Ok(())
    }
}

/// Runs a schedule on a stage that nothing has happened on.
///
/// # Errors
/// When the run itself fails; what fieldcache did wrong is in the outcome.
pub async fn run(stage: &mut Stage, schedule: &Schedule, company: Company) -> Result<Outcome> {
    let seed = schedule.seed;
    let recorder = stage.recorder();
    let workload = Workload::start(stage.control_plane().endpoint(), &[stage.resource().clone()], company.pace, seed);
    eventually("the first changes", PATIENCE, async || {
        ensure!(recorder.progress()?.0 >= company.first, "{:?}", recorder.progress()?);
        Ok(())
    })
    .await?;
    let board = Board::new();
    let mut clients = Clients::start(stage, company, &board, seed);
    eventually("every informer has listed", PATIENCE, async || {
        ensure!(clients.held.iter().all(|(_, held)| held.borrow().version.is_some()), "not yet");
        Ok(())
    })
    .await
    .with_context(|| stage.fieldcache().process().tail())?;

    let mut ended: Vec<(Fault, Moment, u64)> = Vec::new();
    let start = board.elapsed();
    for turn in schedule.turns() {
        while let Some(left) = (start + turn.at).checked_sub(board.elapsed()).filter(|left| !left.is_zero()) {
            pause(left.min(TENDING)).await;
            stage.tend().await?;
        }
        if turn.begins {
            stage.begin(turn.fault).await?;
        } else {
            let since = board.elapsed();
            while company.insists && !stage.has_met(turn.fault) && board.elapsed() < since + PATIENCE {
                pause(TENDING).await;
                stage.tend().await?;
            }
            stage.end(turn.fault).await?;
            ended.push((turn.fault, board.now(), recorder.progress()?.1));
        }
    }
    let (healed, version) = (board.elapsed(), recorder.progress()?.0);
    while board.elapsed() < healed + AFTERMATH || !stage.is_whole() {
        ensure!(
            board.elapsed() < healed + PATIENCE,
            "fieldcache does not start again: {}",
            stage.fieldcache().process().tail()
        );
        pause(TENDING).await;
        stage.tend().await?;
    }
    let written = eventually("changes after the last fault", PATIENCE, async || {
        ensure!(recorder.progress()?.0 >= version + AFTERWARDS, "{} after {version}", recorder.progress()?.0);
        Ok(())
    })
    .await;
    // Why they do not write is reported by the writers.
    workload.finish().await.context("the writers")?;
    written?;
    clients.ensure_running().await.context("the clients")?;

    let last = settled(&recorder, stage).await?;
    let mut complaints = stage.crashes().to_vec();
    if let Err(error) = at_rest(&recorder, &clients, stage).await {
        complaints.push(format!("{error:#}"));
    }
    clients.ensure_running().await.context("the clients")?;
    let stories: Vec<Story> = clients.notes.iter().map(Notes::story).collect();
    drop(clients);
    let changes = recorder.changes()?;
    ensure!(changes.last().is_some_and(|change| change.version == last), "something was written after the end");
    let report = check(&changes, &stage.source().listed(), &stories);
    complaints.extend(report.complaints);
    Ok(Outcome {
        complaints,
        figures: report.figures,
        recoveries: recoveries(&changes, &stories, &ended),
        met: met(stage),
        gaps: report.gaps.len(),
    })
}

fn met(stage: &Stage) -> BTreeMap<Fault, u64> {
    let labelled = |side, counts: BTreeMap<LineFault, u64>| {
        counts.into_iter().map(move |(fault, count)| (Fault::Line(side, fault), count))
    };
    labelled(Side::Source, stage.source().met()).chain(labelled(Side::Clients, stage.clients().met())).collect()
}

/// Waits until the writers' last changes are in the history: no writer is active any more. The version of the last one.
async fn settled(recorder: &Recorder, stage: &Stage) -> Result<u64> {
    let client = stage.control_plane().client();
    eventually("the history is complete", PATIENCE, async || {
        let list = client.get_json(&stage.resource().path("")).await?;
        let mut stored = BTreeMap::new();
        for item in list["items"].as_array().context("no items")? {
            let metadata = |name: &str| item["metadata"][name].as_str().unwrap_or_default();
            let key = format!("{}/{}", metadata("namespace"), metadata("name"));
            stored.insert(key, metadata("resourceVersion").parse::<u64>()?);
        }
        let mut recorded = BTreeMap::new();
        for change in recorder.changes()? {
            match change.after {
                Some(_) => recorded.insert(change.key, change.version),
                None => recorded.remove(&change.key),
            };
        }
        ensure!(recorded == stored, "it is at {}", recorder.progress()?.1);
        Ok(())
    })
    .await?;
    let mut last = recorder.progress()?;
    let mut quiet = 0;
    while quiet < 5 {
        pause(Duration::from_millis(100)).await;
        let now = recorder.progress()?;
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
    }
    Ok(last.1)
}

/// Waits until every informer holds the truth.
async fn at_rest(recorder: &Recorder, clients: &Clients, stage: &Stage) -> Result<()> {
    let changes = recorder.changes()?;
    let mut truths = Vec::new();
    for (selection, _) in &clients.held {
        let mut truth = BTreeMap::new();
        for transition in transitions(&changes, selection) {
            match transition.kind {
                crate::history::Kind::Deleted => truth.remove(&transition.key),
                _ => truth.insert(transition.key, transition.version),
            };
        }
        truths.push(truth);
    }
    let rest = eventually("every informer holds the truth", PATIENCE, async || {
        for (((_, held), truth), notes) in clients.held.iter().zip(&truths).zip(&clients.notes) {
            let held = held.borrow();
            let differing: Vec<_> =
                held.objects.iter().filter(|(key, version)| truth.get(*key) != Some(version)).collect();
            let missing: Vec<_> = truth.keys().filter(|key| !held.objects.contains_key(*key)).collect();
            ensure!(
                held.version.is_some() && differing.is_empty() && missing.is_empty(),
                "{} is at {:?}; not so: {differing:?}; missing: {missing:?}",
                notes.client(),
                held.version
            );
        }
        Ok(())
    });
    rest.await.with_context(|| stage.fieldcache().process().tail())
}

/// How long after the end of each fault every informer received the last of what concerned it until then.
fn recoveries(changes: &[Change], stories: &[Story], ended: &[(Fault, Moment, u64)]) -> Vec<(Fault, Duration)> {
    let truth = Truth::new(changes);
    let mut longest = vec![0; ended.len()];
    for story in stories.iter().filter(|story| story.holds_copy) {
        let selected = truth.selected(&story.selection);
        let due = selected.due(&[]);
        for ((_, moment, version), longest) in ended.iter().zip(&mut longest) {
            let Some(last) = due.iter().rev().map(|due| due.version).find(|due| due <= version) else { continue };
            let reached = story.steps.iter().find(|step| {
                let shown = match &step.event {
                    ClientEvent::Listed(listed) => listed.version,
                    ClientEvent::Event { seen, .. } => seen.version,
                    ClientEvent::Bookmark { version, .. } => *version,
                    _ => 0,
                };
                shown >= last
            });
            if let Some(step) = reached {
                *longest = (*longest).max(step.received_at.saturating_sub(*moment));
            }
        }
    }
    ended.iter().zip(longest).map(|((fault, ..), longest)| (*fault, Duration::from_nanos(longest))).collect()
}
