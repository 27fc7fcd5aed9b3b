//! A long time of changes, with permanent real clients and with clients that come and go. The memory and other
//! resources of fieldcache must not grow, and every client must receive everything. When all clients have left, nothing
//! of them may remain.
//!
//! Objects carry text that does not compress, so that the history is full long before the first measurement: what grows after it is not
//! history.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::informer::{Informer, Start};
use super::notes::{Board, Notes};
use super::reader::Reader;
use super::run::selection;
use super::stage::Plane;
use crate::accounting::{open_files, resident_bytes};
use crate::clients::judge::{difference, follow as follow_steps, state};
use crate::clients::log::{EVENT, HANDLER, Log};
use crate::clients::{Toolkit, follow, write_kubeconfigs};
use crate::eventually::eventually;
use crate::fieldcache::Fieldcache;
use crate::history::{Recorder, transitions};
use crate::objects;
use crate::process::Process;
use crate::random::Random;
use crate::run_directory::RunDirectory;
use crate::selection::Selection;
use crate::unique;
use crate::workload::{Closing, NAMESPACES, Resource, Workload, definition, write_closing_objects};

/// How long to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Churn {
    /// All of it.
    pub length: Duration,
    /// After so long memory is measured first.
    pub settling: Duration,
    /// What is written, and which client requests what.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Endurance {
    /// Changes written.
    pub changes: usize,
    /// Events reported to real clients.
    pub events: usize,
    /// Real clients.
    pub clients: usize,
    /// When memory was measured first.
    pub settled: Duration,
    /// Memory then and at the end, in bytes.
    pub memory: (u64, u64),
    /// Open files before clients came and after they left.
    pub files: (usize, usize),
    /// The most open files between.
    pub most_files: usize,
    /// What was wrong.
    pub wrong: Vec<String>,
}

/// Each writer changes an object this often.
const PACE: Duration = Duration::from_millis(25);
/// Digits of new text in each change: half of that remains when it is compressed.
const BALLAST: usize = 12_000;
/// Memory is looked at this often, and so many looks count.
const LOOK: Duration = Duration::from_secs(2);
const LOOKS: usize = 10;
/// Memory at the end may be so much of that after settling.
const MOST_GROWTH: f64 = 1.1;
/// A run shorter than this does not fill the history before the first measurement, and says nothing about memory.
const MEANINGFUL: Duration = Duration::from_secs(15 * 60);
/// Light clients that stay, and ones that come and go.
const INFORMERS: u64 = 20;
const READERS: u64 = 6;
const PATIENCE: Duration = Duration::from_secs(180);

/// A real client.
struct Client {
    name: &'static str,
    selection: Selection,
    process: Process,
}

const WATCH_LIST: &[(&str, &str)] = &[("KUBE_FEATURE_WatchListClient", "true")];
const NO_WATCH_LIST: &[(&str, &str)] = &[("KUBE_FEATURE_WatchListClient", "false")];

type Row = (&'static str, Toolkit, &'static [&'static str], &'static [(&'static str, &'static str)], Selection);

/// Real clients; all select what is written last. The program around the Python client follows Pods only, and has no part in this.
fn rows() -> Vec<Row> {
    let all = Selection::everything;
    vec![
        (
            "client-go dynamic, watch-list",
            Toolkit::Go,
            &["-client=dynamic"],
            WATCH_LIST,
            all().field("spec.color", "blue"),
        ),
        (
            "client-go dynamic, lists",
            Toolkit::Go,
            &["-client=dynamic", "-timeout-seconds=20"],
            NO_WATCH_LIST,
            all().within(NAMESPACES[0]).field("spec.size", "L"),
        ),
        (
            "client-go metadata",
            Toolkit::Go,
            &["-client=metadata", "-timeout-seconds=30"],
            WATCH_LIST,
            all().label("color", "blue"),
        ),
        (
            "controller-runtime",
            Toolkit::Go,
            &["-client=manager"],
            &[],
            all().label("tier", "a").field("spec.color", "blue"),
        ),
        (
            "javascript",
            Toolkit::JavaScript,
            &["-timeout-seconds=20"],
            &[],
            all().within(NAMESPACES[1]).label("tier", "a"),
        ),
    ]
}

/// Keeps the parts of an object that selections and judges read.
fn trim(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|name, _| ["namespace", "name", "uid", "labels"].contains(&name.as_str()));
    }
}

/// Lets it run.
///
/// # Errors
/// When the run itself fails.
pub async fn endure(churn: Churn, say: &dyn Fn(&str)) -> Result<Endurance> {
    let plane = Plane::own().await?;
    let control_plane = plane.control_plane();
    let writer = control_plane.client();
    let group = unique::group("churn");
    let resource = Resource::gadgets(&group);
    objects::create_definition(&writer, &definition(&group)).await?;
    let recorder = Rc::new(Recorder::start_with(&control_plane.etcd_endpoint()?, &resource.etcd_prefix(), trim).await?);
    let fieldcache = Box::pin(Fieldcache::serve_cluster(control_plane.kubeconfig(), &[&resource.argument()])).await?;
    let process = fieldcache.process().id();
    let before = quiet_files(process).await?;

    let workload = Workload::start_with_ballast(
        control_plane.endpoint(),
        std::slice::from_ref(&resource),
        PACE,
        churn.seed,
        BALLAST,
    );
    let directory = RunDirectory::create("churn")?;
    write_kubeconfigs(&directory, fieldcache.address())?;
    let mut clients = Vec::new();
    for (name, toolkit, arguments, environment, selection) in rows() {
        let mut invocation = follow(toolkit, &directory, &resource, &selection)?.arguments(arguments.iter().copied());
        for (name, value) in environment {
            invocation = invocation.environment(name, *value);
        }
        let process = Process::start(&unique::name("client"), &invocation, directory.path())?;
        clients.push(Client { name, selection, process });
    }
    let light = Light::start(&fieldcache, &resource, &recorder, churn.seed);

    let started = Instant::now();
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen: Vec<u64> = Vec::new();
    let mut settled = None;
    let mut most_files = 0;
    let mut last_report = Duration::ZERO;
    while started.elapsed() < churn.length {
        looks.tick().await;
        workload.ensure_running()?;
        fieldcache.process().ensure_running()?;
        light.ensure_running()?;
        for client in &clients {
            client.process.ensure_running().with_context(|| client.name)?;
        }
        seen.push(resident_bytes(process)?);
        most_files = most_files.max(open_files(process)?);
        if started.elapsed() >= churn.settling && settled.is_none() {
            settled = Some(median(&seen));
        }
        if started.elapsed() >= last_report + Duration::from_secs(60) {
            last_report = started.elapsed();
            let (changes, _) = recorder.progress()?;
            say(&format!(
                "{:4} s of {}: {changes} changes, {} MB, {most_files} descriptors at most",
                last_report.as_secs(),
                churn.length.as_secs(),
                median(&seen) >> 20
            ));
        }
    }
    let memory = (settled.unwrap_or_default(), median(&seen));
    workload.finish().await?;
    let closing = write_closing_objects(&writer, &resource).await?;
    let mut wrong = Vec::new();
    let mut events = 0;
    let count = clients.len();
    let mut texts = Vec::new();
    for client in &clients {
        let text = finished(client, &closing).await;
        texts.push((client.name, client.selection.clone(), text));
    }
    drop(clients);
    drop(light);
    // The closing objects are part of the history.
    recorder.reaches(&closing, PATIENCE).await?;
    let changes = recorder.changes()?;
    for (name, selection, text) in texts {
        match text.and_then(|text| judged(&text, &transitions(&changes, &selection))) {
            Ok(received) => events += received,
            Err(error) => wrong.push(format!("{name}: {error:#}")),
        }
    }
    let files = files_again(process, before).await?;
    if files != before {
        wrong.push(format!("{before} files were open before clients came, {files} after they left"));
    }
    if churn.length >= MEANINGFUL && memory.1 as f64 > memory.0 as f64 * MOST_GROWTH {
        wrong.push(format!("memory grew from {} to {} MB", memory.0 >> 20, memory.1 >> 20));
    }
    Ok(Endurance {
        changes: changes.len(),
        events,
        clients: count,
        settled: churn.settling,
        memory,
        files: (before, files),
        most_files,
        wrong,
    })
}

/// Light clients: some that stay, some that come and go.
struct Light(Vec<JoinHandle<Result<()>>>);

impl Light {
    fn start(fieldcache: &Fieldcache, resource: &Resource, recorder: &Rc<Recorder>, seed: u64) -> Light {
        let board = Board::new();
        let mut random = Random::from_seed(seed, 1);
        let mut tasks = Vec::new();
        for number in 0..INFORMERS {
            let selected = selection(&mut random);
            let notes = Notes::new(&board, "informer", &selected, true).forgetful();
            let start = [Start::List, Start::InitialEvents][(number % 2) as usize];
            let random = Random::from_seed(seed, 100 + number);
            let informer = Informer::new(fieldcache.client(), resource, &selected, start, random, notes);
            tasks.push(spawn_local(informer.follow()));
        }
        for number in 0..READERS {
            let selected = selection(&mut random);
            let notes = Notes::new(&board, "reader", &selected, false).forgetful();
            let (random, recorder) = (Random::from_seed(seed, 200 + number), recorder.clone());
            let reader = Reader::new(fieldcache.client(), resource, &selected, random, notes, recorder);
            tasks.push(spawn_local(reader.run()));
        }
        Light(tasks)
    }

    fn ensure_running(&self) -> Result<()> {
        ensure!(!self.0.iter().any(JoinHandle::is_finished), "a light client has ended");
        Ok(())
    }
}

impl Drop for Light {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

/// Waits until a real client has received what was written last, and ends it; everything it said.
async fn finished(client: &Client, closing: &Closing) -> Result<String> {
    let within = |key: &String| {
        client.selection.namespace().is_empty() || key.starts_with(&format!("{}/", client.selection.namespace()))
    };
    let what = format!("{} has taken in the last change", client.name);
    let mut looks = interval(Duration::from_secs(1));
    eventually(&what, PATIENCE, async || {
        looks.tick().await;
        let text = client.process.stdout()?;
        for (key, version) in closing.iter().filter(|(key, _)| within(key)) {
            let says = |line: &str| [key, version].iter().all(|part| line.contains(&format!("\"{part}\"")));
            // What came over the wire is in the client's store once its handlers receive it.
            for kind in [EVENT, HANDLER] {
                let is_reported = text.lines().rev().take(1_000).any(|line| line.starts_with(kind) && says(line));
                ensure!(is_reported, "no {kind} of {key}");
            }
        }
        Ok(())
    })
    .await?;
    client.process.signal("TERM")?;
    let code = client.process.ended(PATIENCE).await?;
    ensure!(code == 0, "it ended with exit code {code}\n{}", client.process.tail());
    client.process.stdout()
}

/// Whether a real client received what happened; how many events that were.
fn judged(text: &str, transitions: &[crate::history::Transition]) -> Result<usize> {
    let log = Log::read(text)?;
    let starts = follow_steps(&log.steps, transitions)?;
    ensure!(starts.len() == 1, "it listed {} times: {:?}", starts.len(), log.errors);
    let truth = state(transitions);
    let store = log.store.as_ref().context("it did not say what it holds")?;
    ensure!(*store == truth, "its store is not the truth: {}", difference(store, &truth));
    Ok(log.events())
}

/// The middle of the last looks.
fn median(seen: &[u64]) -> u64 {
    let mut last = seen[seen.len().saturating_sub(LOOKS)..].to_vec();
    last.sort_unstable();
    last.get(last.len() / 2).copied().unwrap_or_default()
}

/// Open files once they have stayed the same for some seconds.
async fn quiet_files(process: u32) -> Result<usize> {
    let mut looks = interval(LOOK);
    let mut files = open_files(process)?;
    let mut same = 0;
    while same < 3 {
        looks.tick().await;
        let now = open_files(process)?;
        same = if now == files { same + 1 } else { 0 };
        files = now;
    }
    Ok(files)
}

/// Open files once they are as many as before, or after all patience.
async fn files_again(process: u32, before: usize) -> Result<usize> {
    let again = eventually("as many open files as before", PATIENCE, async || {
        let files = open_files(process)?;
        ensure!(files == before, "{files} files");
        Ok(files)
    });
    match again.await {
        Ok(files) => Ok(files),
        Err(_) => open_files(process),
    }
}

impl fmt::Display for Endurance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Endurance { changes, events, clients, settled, memory, files, most_files, wrong } = self;
        let growth = memory.1 as f64 / memory.0.max(1) as f64;
        writeln!(
            formatter,
            "{changes} changes, {events} events reported to {clients} real clients, {} things wrong",
            wrong.len()
        )?;
        writeln!(
            formatter,
            "  memory: {} MB after {} s, {} MB at the end: {growth:.2} times (at most {MOST_GROWTH} is right)",
            memory.0 >> 20,
            settled.as_secs(),
            memory.1 >> 20
        )?;
        write!(
            formatter,
            "  descriptors: {} before clients came, {most_files} at most, {} after they left",
            files.0, files.1
        )
    }
}
