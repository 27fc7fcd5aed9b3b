//! The rows fed by the generator at the size of the corpora: memory, relist, the first list, updates.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::accounting;
use e2e::corpus::Text;
use e2e::corpus::shirts::Shirts;
use e2e::generator::child::Child;
use e2e::generator::{Beside, Corpus, copied};
use serde_json::Value;

use super::load::{Requests, Side};
use super::options::Options;
use super::own::{Offered, Own, generator_program};
use super::report::{Line, Report, duration, megabytes, micros, number, ratio};
use super::{growth, updates};

/// The rows that are measured here; [`growth`] is there again at other sizes.
pub(crate) const ROWS: [&str; 4] = ["list-updates", "memory", "ingest", "growth"];

/// How long a process is watched for being at rest, and at most waited for.
const QUIET: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(60);

/// fieldcache fed by a generator.
pub(crate) struct Fed {
    /// The source.
    pub(crate) generator: Child,
    /// The reader.
    pub(crate) own: Own,
    /// What is in both.
    pub(crate) corpus: Corpus,
    /// CPU of fieldcache from the first demand to being at rest with the whole list.
    pub(crate) sync_cpu: Duration,
    /// JSON bytes of all objects.
    pub(crate) object_bytes: u64,
}

impl Fed {
    /// Starts both and waits until fieldcache has everything and is at rest.
    pub(crate) async fn start(corpus: Corpus, offered: Offered) -> Result<Fed> {
        Fed::with_copies(corpus, 0, offered).await
    }

    /// Like [`Fed::start`], with copies of the corpus in other resources.
    async fn with_copies(corpus: Corpus, copies: usize, offered: Offered) -> Result<Fed> {
        let generator = Child::start(&generator_program()?, &corpus, Beside { small: 0, copies }).await?;
        let mut source = vec!["--server".to_owned(), generator.endpoint().base().to_owned()];
        if offered.self_check {
            // The generator knows no metadata: a check in the middle of a row would read the whole corpus again.
            source.extend(["--self-check-interval", "0"].map(str::to_owned));
        }
        let own = Own::start(&source, offered, None).await?;
        let before = accounting::settled(own.process(), QUIET, PATIENCE).await?;
        own.synced(&corpus.everywhere(), corpus.count()).await?;
        // Not only up to the first answer: what is put off until later is paid as well.
        let after = accounting::settled(own.process(), QUIET, PATIENCE).await?;
        let object_bytes = generator.state().await?["bytes"].as_u64().unwrap_or_default();
        Ok(Fed { generator, own, corpus, sync_cpu: after.saturating_sub(before), object_bytes })
    }

    /// fieldcache as a side.
    pub(crate) fn side(&self) -> Side {
        Side { client: self.own.client.clone(), process: self.own.process() }
    }

    /// CPU of fieldcache for so many updates, from the first event until they are visible and it is at rest.
    pub(crate) async fn burst(&self, events: u64) -> Result<Duration> {
        let process = self.own.process();
        let before = accounting::settled(process, QUIET, PATIENCE).await?;
        let version = self.generator.burst(events).await?;
        self.own.shows(&self.corpus.everywhere(), version).await?;
        let after = accounting::settled(process, QUIET, PATIENCE).await?;
        Ok(after.saturating_sub(before))
    }

    /// Ends its watch with 410, and waits until the new list is visible and the process is idle. Returns its memory
    /// before and its maximum.
    async fn relist(&self, change_all: bool) -> Result<[u64; 2]> {
        let process = self.own.process();
        accounting::settled(process, QUIET, PATIENCE).await?;
        let lists = |state: &Value| state["lists"].as_u64().unwrap_or_default();
        let listed = lists(&self.generator.state().await?);
        let steady = accounting::resting_bytes(process).await?;
        accounting::forget_peak(process)?;
        let version = self.generator.relist(change_all).await?;
        self.own.shows(&self.corpus.everywhere(), version).await?;
        accounting::settled(process, QUIET, PATIENCE).await?;
        let state = self.generator.state().await?;
        ensure!(lists(&state) == listed + 1, "fieldcache listed {} times, not once", lists(&state) - listed);
        Ok([steady, accounting::peak_resident_bytes(process)?])
    }
}

/// All rows of this file that are wanted.
pub(crate) async fn run(options: &Options, offered: Offered, report: &mut Report) -> Result<()> {
    let count = options.objects;
    let corpora = [
        ("(i) varied", Corpus::Shirts(options.shirts_of(Text::Varied, count)), 0.40),
        ("(i) repeated", Corpus::Shirts(options.shirts_of(Text::Repeated, count)), 0.25),
        ("(ii) Pods", Corpus::Pods(options.pods()), 0.40),
    ];
    for (index, (name, corpus, allowed)) in corpora.into_iter().enumerate() {
        let is_varied = index == 0;
        if !is_varied && !options.wants(&["memory", "ingest"]) {
            break;
        }
        let fed = Fed::start(corpus, offered).await?;
        if options.wants(&["memory"]) {
            let measured = memory(&fed, name, allowed, is_varied, report).await;
            report.unless_failed("memory", measured);
        }
        if options.wants(&["ingest"]) {
            let measured = ingest(&fed, name, report).await;
            report.unless_failed("ingest", measured);
        }
        if let (true, true, Corpus::Shirts(shirts)) = (is_varied, options.wants(&["ingest"]), &fed.corpus) {
            let measured = several(shirts, offered, report).await;
            report.unless_failed("ingest", measured);
        }
        // A quick run has only two sizes.
        if is_varied && !options.quick && options.wants(&["growth"]) {
            let measured = growth::look(options, &fed, report).await;
            report.unless_failed("growth", measured);
        }
        if let (true, true, Corpus::Shirts(shirts)) = (is_varied, options.wants(&["list-updates"]), &fed.corpus) {
            let measured = updates::run(options, &fed, shirts, report).await;
            report.unless_failed("list-updates", measured);
        }
    }
    Ok(())
}

async fn memory(fed: &Fed, name: &str, allowed: f64, is_varied: bool, report: &mut Report) -> Result<()> {
    let resident = accounting::resting_bytes(fed.own.process()).await?;
    let metrics = fed.own.byte_metrics().await?;
    // Before the whole list is requested: what that leaves in the allocator is not memory at rest.
    let relist = fed.relist(false).await?;
    let changed = if is_varied { Some(fed.relist(true).await?) } else { None };
    let requests = Requests::one(fed.corpus.everywhere());
    let json = fed.own.client.drain(requests.request(0)).await?.bytes;
    let share = ratio(resident as f64, json as f64);
    let line = Line::new(
        "memory",
        format!("{name}, at rest after the first sync"),
        format!("{} of {} of JSON: {share:.2}", megabytes(resident), megabytes(json)),
    );
    report.add(
        line.target(&format!("≤ {allowed:.2} of the JSON"), share <= allowed)
            .figure("residentBytes", resident)
            .figure("jsonBytes", json)
            .figure("share", share)
            .figures(metrics),
    );
    let peak = |what: String, [steady, peak]: [u64; 2]| {
        let factor = ratio(peak as f64, steady as f64);
        let line = Line::new(
            "memory",
            what,
            format!("{} at most, {} steady: {factor:.2}", megabytes(peak), megabytes(steady)),
        );
        (factor, line.figure("peakBytes", peak).figure("steadyBytes", steady).figure("factor", factor))
    };
    let (factor, line) = peak(format!("{name}, peak of a relist"), relist);
    report.add(line.target("≤ 1.25 of steady", factor <= 1.25));
    if let Some(changed) = changed {
        report.add(peak(format!("{name}, peak of a relist in which every object has changed"), changed).1);
    }
    Ok(())
}

async fn ingest(fed: &Fed, name: &str, report: &mut Report) -> Result<()> {
    let bulk = ratio(fed.object_bytes as f64 / 1e6, fed.sync_cpu.as_secs_f64());
    let line = Line::new(
        "ingest",
        format!("{name}, the first list"),
        format!(
            "{} MB/s per core ({} in {} of CPU)",
            number(bulk),
            megabytes(fed.object_bytes),
            duration(fed.sync_cpu)
        ),
    );
    report.add(line.target("≥ 120 MB/s per core", bulk >= 120.0).figure("megabytesPerCoreSecond", bulk));
    let events = fed.corpus.count();
    let used = fed.burst(events).await?;
    let a_core = ratio(events as f64, used.as_secs_f64());
    let each = used.div_f64(events as f64);
    let line = Line::new(
        "ingest",
        format!("{name}, updates"),
        format!("{}/s per core ({} events in {} of CPU)", number(a_core), number(events as f64), duration(used)),
    );
    report.add(
        line.target("≥ 25,000 events/s per core", a_core >= 25_000.0)
            .figure("eventsPerCoreSecond", a_core)
            .figure("cpuMicrosPerEvent", micros(each)),
    );
    Ok(())
}

/// The number of resources that change at once.
const RESOURCES: u64 = 4;

/// Updates of one resource, and of several at once with as many objects together. One thread of fieldcache reads all
/// resources; if it limits ingestion, both take the same time.
async fn several(shirts: &Shirts, offered: Offered, report: &mut Report) -> Result<()> {
    let mut rates = Vec::new();
    for resources in [1, RESOURCES] {
        let corpus = Shirts { count: shirts.count / resources, ..shirts.clone() };
        let copies = usize::try_from(resources - 1)?;
        let fed = Fed::with_copies(Corpus::Shirts(corpus.clone()), copies, offered).await?;
        let paths: Vec<String> =
            (0..copies).map(|copy| copied(&corpus, copy).everywhere()).chain([corpus.everywhere()]).collect();
        for path in &paths {
            fed.own.synced(path, corpus.count).await?;
        }
        let process = fed.own.process();
        let before = accounting::settled(process, QUIET, PATIENCE).await?;
        let version = fed.generator.burst(corpus.count).await?;
        let began = Instant::now();
        for path in &paths {
            fed.own.shows(path, version).await?;
        }
        let lasted = began.elapsed();
        let used = accounting::settled(process, QUIET, PATIENCE).await?.saturating_sub(before);
        rates.push((corpus.count * resources, lasted, used));
    }
    let rate = |(events, lasted, _): &(u64, Duration, Duration)| ratio(*events as f64, lasted.as_secs_f64());
    let cores = |(_, lasted, used): &(u64, Duration, Duration)| ratio(used.as_secs_f64(), lasted.as_secs_f64());
    let [one, all] = &rates[..] else { anyhow::bail!("two measurements were expected") };
    let line = Line::new(
        "ingest",
        format!("(i) varied, updates until they are visible: of one resource, of {RESOURCES} at once"),
        format!(
            "{}/s in {:.2} cores, {}/s in {:.2} cores",
            number(rate(one)),
            cores(one),
            number(rate(all)),
            cores(all)
        ),
    );
    report.add(
        line.figure("eventsPerSecondOfOne", rate(one))
            .figure("eventsPerSecondOfAll", rate(all))
            .figure("coresOfOne", cores(one))
            .figure("coresOfAll", cores(all)),
    );
    Ok(())
}
