//! The one run that all clients take part in: 5,000 random changes of each resource. fieldcache and kube-apiserver each
//! restart once, while nothing is paused.
//!
//! The first test that needs it starts it, in a runtime of its own; the others wait for it. A client that cannot be
//! started fails its own test only.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use e2e::clients::log::{EVENT, HANDLER, LIST, Log, Objects, RECONCILE};
use e2e::clients::{Toolkit, follow, write_kubeconfigs};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::history::{Change, Gap, Recorder, Transition, transitions, visible_changes};
use e2e::http::Client;
use e2e::objects;
use e2e::process::Process;
use e2e::run_directory::RunDirectory;
use e2e::versions::Kubernetes;
use e2e::workload::{Closing, NAMESPACES, Resource, Workload, definition, write_closing_objects};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, LocalSet, spawn_local};

use super::GROUP;
use super::contenders::{Contender, Program, contenders};
use super::gap::gaps;
use super::kube_rs;
use super::raw::{self, Said};

/// Changes of each resource beside the usual kube-apiserver.
const CHANGES: usize = 5_000;
/// How often each writer changes an object.
const PACE: Duration = Duration::from_millis(20);
/// Beside those of other versions.
const FEWER_CHANGES: usize = 1_500;
/// When the clients are started, so that their first lists have something.
const FIRST: usize = 150;
/// How long a step of the run may take; seconds when the machine is idle.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the writers may take for their part, which they do beside all the clients.
const WRITING: Duration = Duration::from_secs(600);

/// What is written and followed.
fn resources() -> [Resource; 2] {
    [Resource::gadgets(GROUP), Resource::pods()]
}

/// What a run left.
pub(crate) struct Outcome {
    /// The true history of each resource, by its plural name.
    pub(crate) histories: BTreeMap<&'static str, Vec<Change>>,
    /// The versions of which fieldcache could only know the outcome, by plural name.
    pub(crate) gaps: BTreeMap<&'static str, Vec<Gap>>,
    /// The newest versions that fieldcache had before it was restarted, by plural name.
    pub(crate) restarted: BTreeMap<&'static str, u64>,
    /// Versions at which fieldcache followed the restarted kube-apiserver, by plural name.
    pub(crate) followed: BTreeMap<&'static str, u64>,
    /// What each client said, and what kube-apiserver lists for the same selection.
    pub(crate) clients: BTreeMap<&'static str, Result<Finished, String>>,
}

/// What a client left.
pub(crate) struct Finished {
    pub(crate) contender: Contender,
    pub(crate) log: Log,
    pub(crate) truth: Objects,
}

/// The run of this test binary.
///
/// # Errors
/// When it failed as a whole; every asker gets the same error.
pub(crate) fn shared() -> Result<&'static Outcome> {
    static SHARED: OnceLock<Result<Outcome, String>> = OnceLock::new();
    let outcome = SHARED.get_or_init(|| {
        // One thread: the waiting of `eventually` is not `Send`, and the work is done by other processes.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("the runtime");
        let outcome = runtime.and_then(|runtime| LocalSet::new().block_on(&runtime, Box::pin(run())));
        outcome.map_err(|error| format!("{error:#}"))
    });
    outcome.as_ref().map_err(|error| anyhow!("the run of the clients failed: {error}"))
}

async fn run() -> Result<Outcome> {
    let seed = RandomState::new().hash_one(0);
    let began = Instant::now();
    let say = |what: &str| super::say(&format!("{:5.1} s: {what}", began.elapsed().as_secs_f64()));
    let version = Kubernetes::under_test()?;
    let changes = if version.is_usual() { CHANGES } else { FEWER_CHANGES };
    say(&format!("{changes} changes beside kube-apiserver {}, seed {seed}", version.version()?));
    let settings = Settings {
        // The history is read from etcd, where built-in objects would be protobuf.
        apiserver_arguments: vec!["--storage-media-type=application/json".to_owned()],
        ..Settings::default()
    };
    let mut control_plane = Box::pin(ControlPlane::start(settings)).await?;
    let writer = control_plane.client();
    for namespace in NAMESPACES {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        objects::create(&writer, "/api/v1/namespaces", &namespace).await?;
    }
    objects::create_definition(&writer, &definition(GROUP)).await?;
    let etcd = control_plane.etcd_endpoint()?;
    let mut recorders = BTreeMap::new();
    for resource in &resources() {
        recorders.insert(resource.plural(), Recorder::start(&etcd, &resource.etcd_prefix()).await?);
    }
    let arguments = resources().each_ref().map(Resource::argument);
    let mut fieldcache =
        Box::pin(Fieldcache::serve_cluster(control_plane.kubeconfig(), &arguments.each_ref().map(String::as_str)))
            .await?;
    let workload = Workload::start(control_plane.endpoint(), &resources(), PACE, seed);
    let written = async |count: usize| {
        eventually(&format!("{count} changes of each resource"), WRITING, async || {
            if let Err(error) = workload.ensure_running() {
                return Ok(Err(error));
            }
            for recorder in recorders.values() {
                ensure!(recorder.progress()?.0 >= count, "only {:?}", recorder.progress()?);
            }
            Ok(Ok(()))
        })
        .await?
    };

    written(FIRST).await?;
    let directory = RunDirectory::create("clients")?;
    write_kubeconfigs(&directory, fieldcache.address())?;
    let mut started: BTreeMap<&'static str, (Contender, Result<Running>)> = BTreeMap::new();
    for contender in contenders() {
        let running = start(&contender, &fieldcache, &directory);
        started.insert(contender.name, (contender, running));
    }
    have_listed(&mut started, 1).await;
    say("all clients have listed");

    written(changes / 3).await?;
    let restarted = served_versions(&fieldcache.client()).await?;
    fieldcache.stop().await?;
    fieldcache.start_again().await?;
    have_listed(&mut started, 2).await;
    say("fieldcache restarted, all clients have listed again");

    written(changes * 2 / 3).await?;
    let counts = || recorders.values().map(|recorder| Ok(recorder.progress()?.0)).sum::<Result<usize>>();
    let stopped_at = counts()?;
    let before = served_versions(&fieldcache.client()).await?;
    control_plane.stop_apiserver();
    control_plane.start_apiserver().await?;
    let mut after = BTreeMap::new();
    for resource in &resources() {
        // Whatever fieldcache says at a version of now, it has said from its restored connection.
        let now = recorders[resource.plural()].progress()?.1;
        let client = fieldcache.client();
        let latest = eventually("fieldcache follows kube-apiserver again", PATIENCE, async || {
            let served = served_version(&client, resource).await?;
            ensure!(served > now, "it serves {served}");
            Ok(served)
        });
        after.insert(resource.plural(), latest.await?);
    }
    let meanwhile = counts()? - stopped_at;
    say(&format!("kube-apiserver restarted, fieldcache follows again after {meanwhile} changes"));

    // Of those some are known by their outcome only; as many are written in addition.
    written(changes + meanwhile).await?;
    workload.finish().await?;
    let mut closing = BTreeMap::new();
    for resource in &resources() {
        closing.insert(resource.plural(), write_closing_objects(&writer, resource).await?);
    }
    say("all changes are written");
    let mut clients = BTreeMap::new();
    for (name, (contender, running)) in started {
        let finished = async {
            let running = running?;
            let text = running.finish(&contender, &closing[contender.resource.plural()]).await?;
            let log = Log::read(&text)?;
            let truth = truth(&writer, &contender).await?;
            Ok::<_, anyhow::Error>(Finished { contender, log, truth })
        };
        clients.insert(name, finished.await.map_err(|error| format!("{error:#}")));
    }
    say("all clients have ended");
    let (mut histories, mut all_gaps) = (BTreeMap::new(), BTreeMap::new());
    for resource in &resources() {
        let plural = resource.plural();
        let recorder = recorders.remove(plural).context("a recorder for each resource")?;
        recorder.reaches(&closing[plural], PATIENCE).await?;
        let history = recorder.finish().await?;
        let witness = clients
            .values()
            .flatten()
            .find(|finished| finished.contender.program == Program::Raw && finished.contender.resource == *resource);
        let gaps = gaps(&witness.context("a client without selection for each resource")?.log.steps, &history);
        for gap in &gaps {
            let (before, after) = (before[plural], after[plural]);
            ensure!(
                before <= gap.before && gap.end <= after,
                "{plural}: events are missing that have nothing to do with the restart of kube-apiserver: {gap:?} is not within {before}..{after}"
            );
        }
        say(&format!("{plural}: {} changes, known by outcome only: {}", history.len(), width(&history, &gaps)));
        histories.insert(plural, history);
        all_gaps.insert(plural, gaps);
    }
    Ok(Outcome { histories, gaps: all_gaps, restarted, followed: after, clients })
}

/// How many changes lie in gaps.
fn width(history: &[Change], gaps: &[Gap]) -> usize {
    let lies_within =
        |change: &&Change| gaps.iter().any(|gap| gap.before < change.version && change.version <= gap.end);
    history.iter().filter(lies_within).count()
}

/// A client under way.
pub(crate) enum Running {
    Process(Process),
    Task { said: Said, task: JoinHandle<Result<()>>, held: Option<kube_rs::Held> },
}

impl Running {
    pub(crate) fn text(&self) -> Result<String> {
        match self {
            Running::Process(process) => process.stdout(),
            Running::Task { said, .. } => Ok(said.text()),
        }
    }

    pub(crate) fn ensure_running(&self) -> Result<()> {
        match self {
            Running::Process(process) => process.ensure_running(),
            Running::Task { task, .. } if task.is_finished() => Err(anyhow!("it has ended")),
            Running::Task { .. } => Ok(()),
        }
    }

    /// Waits until it has taken in the last objects, ends it, and returns everything it said.
    async fn finish(self, contender: &Contender, closing: &Closing) -> Result<String> {
        let within = |key: &String| key.starts_with(&format!("{}/", contender.selection.namespace()));
        let is_everywhere = contender.selection.namespace().is_empty();
        let closing: Closing = closing.iter().filter(|(key, _)| is_everywhere || within(key)).cloned().collect();
        let said_by: &[&str] = match &contender.program {
            Program::Process { toolkit: Toolkit::Go, arguments, .. } if arguments.contains(&"-client=manager") => {
                &[EVENT, HANDLER, RECONCILE]
            }
            Program::Process { toolkit: Toolkit::Go | Toolkit::JavaScript, .. } => &[EVENT, HANDLER],
            Program::Raw | Program::KubeRs(_) | Program::Process { toolkit: Toolkit::Python, .. } => &[EVENT],
        };
        eventually(&format!("{} has taken in the last change", contender.name), PATIENCE, async || {
            // What has ended will see nothing more.
            if let Err(ended) = self.ensure_running() {
                return Ok(Err(ended));
            }
            let text = self.text()?;
            for (key, version) in &closing {
                for kind in said_by {
                    let says = |line: &str| {
                        line.starts_with(kind)
                            && [key, version].iter().all(|part| line.contains(&format!("\"{part}\"")))
                    };
                    ensure!(text.lines().rev().any(says), "no line {kind} with {key} of {version}");
                }
            }
            Ok(Ok(()))
        })
        .await??;
        self.end(contender).await
    }

    /// Ends it, and returns everything it said.
    pub(crate) async fn end(self, contender: &Contender) -> Result<String> {
        match self {
            Running::Process(process) => {
                process.signal("TERM")?;
                let code = process.ended(PATIENCE).await?;
                ensure!(code == 0, "{} ended with exit code {code}\n{}", contender.name, process.tail());
                process.stdout()
            }
            Running::Task { said, task, held } => {
                if let Some(held) = held {
                    said.say(&json!({ "store": held() }));
                }
                task.abort();
                Ok(said.text())
            }
        }
    }
}

pub(crate) fn start(contender: &Contender, fieldcache: &Fieldcache, directory: &RunDirectory) -> Result<Running> {
    let selection = &contender.selection;
    match &contender.program {
        Program::Raw => {
            let said = Said::default();
            let path = contender.resource.path("");
            let task = spawn_local(raw::follow(fieldcache.client(), path, said.clone()));
            Ok(Running::Task { said, task, held: None })
        }
        Program::KubeRs(strategy) => {
            let said = Said::default();
            let (task, held) = kube_rs::start(*strategy, fieldcache.address(), contender, &said)?;
            Ok(Running::Task { said, task, held: Some(held) })
        }
        Program::Process { toolkit, arguments, environment } => {
            let followed = follow(*toolkit, directory, &contender.resource, selection)?;
            let mut invocation = followed.arguments(arguments.iter().copied());
            for (name, value) in *environment {
                invocation = invocation.environment(name, *value);
            }
            Ok(Running::Process(Process::start(contender.name, &invocation, directory.path())?))
        }
    }
}

/// Waits until each client that runs has listed so many times; one that does not is given up.
async fn have_listed(started: &mut BTreeMap<&'static str, (Contender, Result<Running>)>, times: usize) {
    for (name, (_, slot)) in started.iter_mut() {
        let Ok(running) = slot else { continue };
        let what = format!("{name} has listed {times} times");
        let listed = eventually(&what, PATIENCE, async || {
            if let Err(ended) = running.ensure_running() {
                return Ok(Err(ended));
            }
            let text = running.text()?;
            let lists = text.lines().filter(|line| line.starts_with(LIST)).count();
            ensure!(lists >= times, "it has listed {lists} times; it said last: {:?}", text.lines().last());
            Ok(Ok(()))
        });
        if let Err(error) = listed.await.and_then(|outcome| outcome) {
            *slot = Err(error);
        }
    }
}

async fn served_versions(client: &Client) -> Result<BTreeMap<&'static str, u64>> {
    let mut versions = BTreeMap::new();
    for resource in &resources() {
        versions.insert(resource.plural(), served_version(client, resource).await?);
    }
    Ok(versions)
}

/// The version that fieldcache's store has reached.
async fn served_version(client: &Client, resource: &Resource) -> Result<u64> {
    let list = client.get_json(&format!("{}?labelSelector=none%3Dsuch&resourceVersion=0", resource.path(""))).await?;
    Ok(list["metadata"]["resourceVersion"].as_str().context("a list has a version")?.parse()?)
}

/// What kube-apiserver itself lists for a client's selection. For operators that it does not have, everything is listed
/// and filtered here.
async fn truth(client: &Client, contender: &Contender) -> Result<Objects> {
    let escaped = |text: String| text.replace('=', "%3D").replace(',', "%2C");
    let fields =
        if contender.selection.is_of_kubernetes() { contender.selection.field_selector() } else { String::new() };
    let labels = contender.selection.label_selector();
    let path = contender.resource.path(contender.selection.namespace());
    let list =
        client.get_json(&format!("{path}?labelSelector={}&fieldSelector={}", escaped(labels), escaped(fields))).await?;
    let pair = |item: &Value| {
        let metadata = &item["metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
        Ok((format!("{}/{}", text("namespace"), text("name")), text("resourceVersion").parse()?))
    };
    let items = list["items"].as_array().context("a list has items")?.iter();
    items.filter(|item| contender.selection.selects(item)).map(pair).collect()
}

/// The transitions that a client was to receive.
pub(crate) fn expected(outcome: &Outcome, contender: &Contender) -> Vec<Transition> {
    let plural = contender.resource.plural();
    let changes = visible_changes(&outcome.histories[plural], &outcome.gaps[plural]);
    transitions(&changes, &contender.selection)
}
