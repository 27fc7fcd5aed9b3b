//! Where pods may run: reviews beside updates in a large cluster, and the scheduler's own plugins on the same snapshot.
//!
//! A review is measured as a server processes it: from the bytes of the request to those of the response. The plugins
//! are those of `placement-judge`. Their time is that of one pass over all nodes, without reading objects or making the
//! snapshot. Every plugin evaluates every node, which the scheduler itself only does until enough nodes fit. Verdicts
//! are compared first.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::corpus::placement::Placement;
use e2e::placement::{Judge, Question, verdict};
use e2e::{accounting, statistics};
use fieldcache::placement::question::Fetched;
use fieldcache::placement::review::{API_VERSION, KIND, PlacementReview, ResourceVersions};
use fieldcache::placement::{ClusterIndex, Pod};
use serde_json::{Value, json};

use super::options::Options;
use super::report::{Line, Report, duration, megabytes, micros, number};

/// The row of this file.
pub(crate) const ROWS: [&str; 1] = ["placement"];

/// Different pods that are reviewed.
const REVIEWED_PODS: u64 = 1_000;

/// Pods that the scheduler's plugins are reviewed too.
const JUDGED: u64 = 40;

/// Pods that move in a second while reviews are processed.
const UPDATES_PER_SECOND: u64 = 500;

const TARGET: Duration = Duration::from_millis(20);

/// All lines of the row.
pub(crate) fn run(options: &Options, report: &mut Report) -> Result<()> {
    let whole = Placement::default();
    let corpus = if options.quick { Placement { nodes: 500, pods: 15_000, ..whole } } else { whole };
    let what = format!("{} nodes, {} pods", number(corpus.nodes as f64), number(corpus.pods as f64));
    let question = Question {
        nodes: (0..corpus.nodes).map(|index| corpus.node(index)).collect(),
        pods: (0..corpus.pods).map(|index| corpus.pod(index, 0)).collect(),
        namespaces: corpus.namespaces().collect(),
        reviewed: (0..JUDGED).map(|index| corpus.pending_pod(index)).collect(),
        options: json!({"hardPodAffinityWeight": 1}),
    };
    let before = accounting::resident_bytes(std::process::id())?;
    let cluster = question.cluster()?;
    let index_bytes = accounting::resident_bytes(std::process::id())?.saturating_sub(before);
    report.add(
        Line::new(
            "placement",
            format!("index of {what}"),
            format!(
                "about {} of memory, counted as {}",
                megabytes(index_bytes),
                megabytes(cluster.counts().held_bytes())
            ),
        )
        .figure("indexBytes", index_bytes),
    );
    beside_the_plugins(&question, &what, report)?;
    drop(question);
    beside_updates(options, &corpus, cluster, &what, report)
}

/// One pass of the scheduler's plugins, and our verdicts on the same pods.
fn beside_the_plugins(question: &Question, what: &str, report: &mut Report) -> Result<()> {
    let verdicts = Judge::start()?.review(question)?;
    let mut theirs = Vec::new();
    for ((answer, expected), reviewed) in question.answers()?.iter().zip(&verdicts).zip(&question.reviewed) {
        ensure!(verdict(answer, expected) == *expected, "another verdict than the scheduler's on {reviewed}");
        theirs.push(Duration::from_nanos(expected["nanoseconds"].as_u64().context("no time")?));
    }
    // The verdicts alone, with nothing beside them, as the plugins' are.
    let (cluster, options) = (question.cluster()?, question.placement_options()?);
    let mut ours = Vec::new();
    for reviewed in &question.reviewed {
        let pod = Pod::read(reviewed.to_string().as_bytes())?;
        let start = Instant::now();
        let feasible = cluster.review(&pod, &options).feasible();
        ours.push(start.elapsed());
        ensure!(feasible <= question.nodes.len() as u64, "more nodes fit than there are");
    }
    for (side, times) in [("kube-scheduler's plugins, one pass over all nodes", &theirs), ("verdicts alone", &ours)] {
        let [p50, p99] = [0.5, 0.99].map(|share| statistics::percentile(times, share));
        let measured = format!("{} / {} ({} pods, nothing beside)", duration(p50), duration(p99), times.len());
        let line = Line::new("placement", format!("{side}: {what}"), measured);
        report.add(line.figure("p50Micros", micros(p50)).figure("p99Micros", micros(p99)));
    }
    Ok(())
}

/// Returns the response to a request, both as bytes.
fn answer(cluster: &ClusterIndex, question: &[u8]) -> Result<usize> {
    let mut review: PlacementReview = serde_json::from_slice(question).context("reading a review")?;
    let options = fieldcache::placement::Options::default();
    let reviewed = review.spec.answer(cluster, Fetched::default(), &options)?;
    ensure!(reviewed.answer.total() > 0, "no nodes");
    review.status = Some(reviewed.answer.summary(ResourceVersions::default(), Some(0)));
    Ok(reviewed.answer.text_of(review).context("writing a review")?.len())
}

fn review(pod: &Value, nodes: &[String]) -> Vec<u8> {
    let review = json!({"apiVersion": API_VERSION, "kind": KIND, "spec": {"pod": pod, "nodeNames": nodes}});
    review.to_string().into_bytes()
}

/// Reviews while pods move.
fn beside_updates(
    options: &Options,
    corpus: &Placement,
    cluster: ClusterIndex,
    what: &str,
    report: &mut Report,
) -> Result<()> {
    let published = Mutex::new(cluster.clone());
    let (end, ends) = mpsc::channel();
    let node = corpus.node(0)["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let kinds = [("counts and one node", vec![node]), ("all nodes listed", Vec::new())];
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| update(corpus, cluster, &published, ends));
        let measured = kinds.iter().try_for_each(|(kind, nodes)| {
            let (mut times, mut used) = (Vec::new(), Vec::new());
            let mut bytes = 0;
            for _ in 0..options.rounds {
                for index in 0..REVIEWED_PODS {
                    let question = review(&corpus.pending_pod(index), nodes);
                    let (start, before) = (Instant::now(), accounting::own_thread()?);
                    let now = published.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    bytes = answer(&now, &question)?;
                    drop(now);
                    times.push(start.elapsed());
                    used.push(accounting::own_thread()?.saturating_sub(before));
                }
            }
            let [p50, p99] = [0.5, 0.99].map(|share| statistics::percentile(&times, share));
            let [cpu50, cpu99] = [0.5, 0.99].map(|share| statistics::percentile(&used, share));
            let what = format!("review, {kind}: {what}, {UPDATES_PER_SECOND} updates/s meanwhile");
            let measured = format!(
                "{} / {}, CPU {} / {} ({} reviews of {REVIEWED_PODS} pods, {})",
                duration(p50),
                duration(p99),
                duration(cpu50),
                duration(cpu99),
                times.len(),
                megabytes(bytes as u64)
            );
            let line = Line::new("placement", what, measured).target("p99 ≤ 20 ms", p99 <= TARGET);
            let line = line.figure("p50Micros", micros(p50)).figure("p99Micros", micros(p99));
            report.add(line.figure("cpuP50Micros", micros(cpu50)).figure("cpuP99Micros", micros(cpu99)));
            Ok(())
        });
        drop(end);
        let Ok(written) = writer.join() else { anyhow::bail!("the writer panicked") };
        measured.and(written.map(|(updates, used, rate)| {
            let each = used.div_f64(updates.max(1) as f64);
            let measured = format!(
                "{} of CPU each, reading the pod included ({} in all, {rate:.0}/s)",
                duration(each),
                number(updates as f64)
            );
            let line = Line::new("placement", format!("update: {what}, reviews meanwhile"), measured);
            report.add(line.figure("cpuMicros", micros(each)).figure("updatesPerSecond", rate));
        }))
    })
}

/// Moves pods at an even pace and shows each state; how many, the CPU of it, and how many a second it came to.
fn update(
    corpus: &Placement,
    mut cluster: ClusterIndex,
    published: &Mutex<ClusterIndex>,
    ends: mpsc::Receiver<()>,
) -> Result<(u64, Duration, f64)> {
    let movable = corpus.pods - corpus.pods / 3;
    let start = Instant::now();
    let mut used = Duration::ZERO;
    let mut updates = 0;
    loop {
        let document = corpus.pod(corpus.pods - 1 - updates % movable, 1 + updates).to_string();
        let before = accounting::own_thread()?;
        cluster.upsert_pod(&Pod::read(document.as_bytes())?);
        let now = cluster.clone();
        let last = std::mem::replace(&mut *published.lock().unwrap_or_else(PoisonError::into_inner), now);
        drop(last);
        used += accounting::own_thread()?.saturating_sub(before);
        updates += 1;
        let due = start + Duration::from_micros(1_000_000 * updates / UPDATES_PER_SECOND);
        if ends.recv_timeout(due.saturating_duration_since(Instant::now())) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    Ok((updates, used, updates as f64 / start.elapsed().as_secs_f64()))
}
