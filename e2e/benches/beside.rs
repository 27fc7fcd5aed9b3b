//! The rows with two sides: fieldcache and kube-apiserver on the same objects, queried in turn.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::corpus::load::shirts_into_etcd;
use e2e::corpus::shirts::{OBJECTS_A_COLOR, PAIR_SELECTOR, Shirts};
use e2e::eventually::eventually;
use e2e::http::Request;
use e2e::run_directory::RunDirectory;
use e2e::{accounting, statistics};
use futures::future::try_join_all;

use super::everything;
use super::load::{Cost, Requests, Side, alternate, check};
use super::options::Options;
use super::own::{Offered, Own, Tls};
use super::report::{Line, Report, duration, megabytes, micros, number, ratio};

/// The rows of this file, with [`everything`].
pub(crate) const ROWS: [&str; 5] = ["list-field", "list-none", "list-labels", "list-all", "first-sync"];

/// How long a side is queried in one round.
const ROUND: Duration = Duration::from_secs(1);

/// How long kube-apiserver may take to read what was written to etcd.
const UPSTREAM_DEADLINE: Duration = Duration::from_secs(300);

/// Connections that send no requests at the same time.
const CONNECTIONS: usize = 8;

/// Paths that select by one colour each, in an order that keeps neighbours apart.
pub(crate) fn by_color(corpus: &Shirts) -> Vec<String> {
    /// Prime, so that every colour has its turn.
    const STRIDE: u64 = 617;
    let everywhere = corpus.everywhere();
    let colors = corpus.colors();
    (0..colors)
        .map(|turn| format!("{everywhere}?fieldSelector=spec.color%3D{}", corpus.color(turn * STRIDE % colors)))
        .collect()
}

/// The path that selects nothing.
pub(crate) fn nothing(corpus: &Shirts) -> String {
    format!("{}?fieldSelector=spec.color%3Dnosuchcolor", corpus.everywhere())
}

/// The path that selects by two labels.
pub(crate) fn by_labels(corpus: &Shirts) -> String {
    let pair = PAIR_SELECTOR.replace('/', "%2F").replace('=', "%3D").replace(',', "%2C");
    format!("{}?labelSelector={pair}", corpus.everywhere())
}

/// All rows of this file that are wanted.
pub(crate) async fn run(options: &Options, offered: Offered, report: &mut Report) -> Result<()> {
    let corpus = options.shirts();
    let control_plane = ControlPlane::start(Settings::default()).await?;
    shirts_into_etcd(&control_plane, &corpus, |_| {}).await?;
    let upstream = Side { client: control_plane.client(), process: control_plane.apiserver().id() };
    // It answers a page from etcd before its own cache has everything, and refuses streaming lists until then.
    eventually("kube-apiserver streams the corpus from its cache", UPSTREAM_DEADLINE, async || {
        read_to_nowhere(&control_plane, &corpus.everywhere(), corpus.count).await
    })
    .await?;
    accounting::settled(upstream.process, Duration::from_secs(1), Duration::from_secs(60)).await?;
    report.note(format!(
        "kube-apiserver {} with {} shirts: {} in memory",
        e2e::components::KUBERNETES_VERSION,
        number(corpus.count as f64),
        megabytes(accounting::resident_bytes(upstream.process)?)
    ));
    let source = vec!["--kubeconfig".to_owned(), control_plane.kubeconfig().display().to_string()];
    if options.wants(&["first-sync"]) {
        let measured = first_sync(options, offered, &control_plane, &source, &corpus, report).await;
        report.unless_failed("first-sync", measured);
    }
    if !options.wants(&["list-field", "list-none", "list-labels", "list-all"]) {
        return Ok(());
    }
    let own = Own::start(&source, offered, None).await?;
    own.synced(&corpus.everywhere(), corpus.count).await?;
    let sides = Sides { upstream, own: Side { client: own.client.clone(), process: own.process() } };
    accounting::settled(own.process(), Duration::from_millis(500), Duration::from_secs(30)).await?;
    if options.wants(&["list-all"]) {
        let measured = everything::run(options, &sides, &own, &corpus, report).await;
        report.unless_failed("list-all", measured);
    }
    if options.wants(&["list-field"]) {
        let measured = by_field(options, &sides, &corpus, "", report).await;
        report.unless_failed("list-field", measured);
    }
    if options.wants(&["list-none"]) {
        let measured = found_nothing(options, &sides, &corpus, report).await;
        report.unless_failed("list-none", measured);
    }
    if options.wants(&["list-labels"]) {
        let measured = with_labels(options, &sides, &corpus, report).await;
        report.unless_failed("list-labels", measured);
    }
    let Sides { upstream, .. } = sides;
    drop(own);
    if options.wants(&["list-field"]) {
        over_tls(options, offered, &control_plane, upstream, &source, &corpus, report).await?;
    }
    Ok(())
}

/// Both servers.
pub(crate) struct Sides {
    /// kube-apiserver.
    pub(crate) upstream: Side,
    /// fieldcache.
    pub(crate) own: Side,
}

async fn measure(options: &Options, sides: &Sides, requests: &Requests, hits: u64) -> Result<[Cost; 2]> {
    // Both warm, both right and both the same, before anything counts.
    let expected = check(&sides.upstream, requests, hits).await?;
    let answered = check(&sides.own, requests, hits).await?;
    ensure!(expected == answered, "{}: the two sides answer different items", requests.paths[0]);
    alternate([&sides.upstream, &sides.own], requests, options.rounds, ROUND, 3).await
}

/// The line of a request that was sent to both.
pub(crate) fn compared(row: &'static str, what: String, upstream: Cost, own: Cost) -> Line {
    let factor = ratio(upstream.cpu.as_secs_f64(), own.cpu.as_secs_f64());
    let measured = format!(
        "CPU {} / {}, ratio {}; latency {} / {}, kube-apiserver {} / {}; {}",
        duration(upstream.cpu),
        duration(own.cpu),
        number(factor),
        duration(own.median),
        duration(own.p99),
        duration(upstream.median),
        duration(upstream.p99),
        megabytes(own.bytes),
    );
    let mut line = Line::new(row, what, measured).figure("cpuRatio", factor);
    for (side, cost) in [("kubeApiserver", upstream), ("fieldcache", own)] {
        let figures = [
            ("CpuMicros", micros(cost.cpu)),
            ("P50Micros", micros(cost.median)),
            ("P99Micros", micros(cost.p99)),
            ("Bytes", cost.bytes as f64),
            ("Requests", cost.requests as f64),
        ];
        for (name, value) in figures {
            line = line.figure(&format!("{side}{name}"), value);
        }
    }
    line
}

async fn by_field(options: &Options, sides: &Sides, corpus: &Shirts, over: &str, report: &mut Report) -> Result<()> {
    let hits = corpus.count.min(OBJECTS_A_COLOR);
    let all = by_color(corpus);
    let one = vec![all[all.len() / 2].clone()];
    for (gzip, paths, which) in [
        (false, one.clone(), "one value again and again"),
        (false, all.clone(), "all values in turn"),
        (true, one, "gzip, one value again and again"),
        (true, all, "gzip, all values in turn"),
    ] {
        let [upstream, own] = measure(options, sides, &Requests { paths, gzip }, hits).await?;
        let factor = ratio(upstream.cpu.as_secs_f64(), own.cpu.as_secs_f64());
        let line = compared("list-field", format!("{hits} hits, {over}{which}"), upstream, own);
        report.add(match (over.is_empty(), gzip) {
            (_, true) => line.target("≥ 80 times less CPU", factor >= 80.0),
            (true, false) => {
                let fast = own.p99 <= Duration::from_millis(3);
                line.target("≥ 300 times less CPU, p99 ≤ 3 ms", factor >= 300.0 && fast)
            }
            (false, false) => line,
        });
    }
    Ok(())
}

async fn over_tls(
    options: &Options,
    offered: Offered,
    control_plane: &ControlPlane,
    upstream: Side,
    source: &[String],
    corpus: &Shirts,
    report: &mut Report,
) -> Result<()> {
    if !offered.tls {
        report.add(Line::skipped("list-field", "TLS", "not offered by this build (--tls-cert-file)"));
        return Ok(());
    }
    let directory = RunDirectory::create("bench-tls")?;
    let identity = control_plane.authority().server("fieldcache", &[])?;
    let tls = Tls {
        certificate: &directory.write("tls.crt", identity.certificate)?,
        key: &directory.write("tls.key", identity.key)?,
        authority: &control_plane.authority().certificate(),
    };
    let own = Own::start(source, offered, Some(tls)).await?;
    own.synced(&corpus.everywhere(), corpus.count).await?;
    accounting::settled(own.process(), Duration::from_millis(500), Duration::from_secs(30)).await?;
    let sides = Sides { upstream, own: Side { client: own.client.clone(), process: own.process() } };
    by_field(options, &sides, corpus, "TLS, ", report).await
}

async fn with_labels(options: &Options, sides: &Sides, corpus: &Shirts, report: &mut Report) -> Result<()> {
    let requests = Requests::one(by_labels(corpus));
    let [upstream, own] = measure(options, sides, &requests, corpus.pair_count()).await?;
    let factor = ratio(upstream.cpu.as_secs_f64(), own.cpu.as_secs_f64());
    let what = format!("two labels, {} hits", corpus.pair_count());
    report.add(
        compared("list-labels", what, upstream, own)
            .target("≥ 70 times less CPU (≥ 300 if bytes are kept plain)", factor >= 70.0),
    );
    Ok(())
}

async fn found_nothing(options: &Options, sides: &Sides, corpus: &Shirts, report: &mut Report) -> Result<()> {
    let requests = Requests::one(nothing(corpus));
    let [upstream, own] = measure(options, sides, &requests, 0).await?;
    let factor = ratio(upstream.cpu.as_secs_f64(), own.cpu.as_secs_f64());
    report.add(
        compared("list-none", "nothing found".to_owned(), upstream, own)
            .target("≥ 2,000 times less CPU", factor >= 2_000.0),
    );
    let mut figures = Vec::new();
    let mut rates = Vec::new();
    for _ in 0..options.rounds {
        let before = accounting::cpu(sides.own.process)?;
        let began = Instant::now();
        let askers = (0..CONNECTIONS).map(async |_| {
            let mut sent = 0_u32;
            while began.elapsed() < ROUND {
                let answer = sides.own.client.drain(requests.request(0)).await?;
                ensure!(answer.status.is_success(), "{}", answer.status);
                sent += 1;
            }
            Ok(sent)
        });
        let sent: u32 = try_join_all(askers).await?.into_iter().sum();
        let used = accounting::cpu(sides.own.process)?.saturating_sub(before);
        figures.push(ratio(f64::from(sent), used.as_secs_f64()));
        rates.push(f64::from(sent) / began.elapsed().as_secs_f64());
    }
    let a_core = statistics::median(&figures);
    let line = Line::new(
        "list-none",
        format!("nothing found, {CONNECTIONS} connections"),
        format!("{}/s per core of the process; {}/s in all", number(a_core), number(statistics::median(&rates))),
    );
    report.add(line.target("≥ 12,000/s per core", a_core >= 12_000.0).figure("requestsPerCoreSecond", a_core));
    Ok(())
}

async fn first_sync(
    options: &Options,
    offered: Offered,
    control_plane: &ControlPlane,
    source: &[String],
    corpus: &Shirts,
    report: &mut Report,
) -> Result<()> {
    let everywhere = corpus.everywhere();
    let (mut reads, mut syncs) = (Vec::new(), Vec::new());
    let mut bytes = 0;
    let settled = async || {
        let process = control_plane.apiserver().id();
        accounting::settled(process, Duration::from_millis(500), Duration::from_secs(15)).await
    };
    for _ in 0..options.rounds.clamp(2, 3) {
        settled().await?;
        let started = Instant::now();
        bytes = read_to_nowhere(control_plane, &everywhere, corpus.count).await?;
        reads.push(started.elapsed().as_secs_f64());
        let own = Own::start(source, offered, None).await?;
        settled().await?;
        // The first request starts the load and is served from the complete store, as early as there is one.
        let started = Instant::now();
        own.synced(&everywhere, corpus.count).await?;
        syncs.push(started.elapsed().as_secs_f64());
    }
    let (read, sync) = (statistics::median(&reads), statistics::median(&syncs));
    let factor = ratio(sync, read);
    let seconds = |values: &[f64]| values.iter().map(|value| format!("{value:.1}")).collect::<Vec<_>>().join(", ");
    let line = Line::new(
        "first-sync",
        "from a settled kube-apiserver",
        format!(
            "{sync:.2} s, the same stream ({}) to nowhere {read:.2} s, ratio {factor:.2} (rounds: {} s; {} s)",
            megabytes(bytes),
            seconds(&syncs),
            seconds(&reads)
        ),
    );
    report.add(
        line.target("≤ 1.15 of the stream to nowhere", factor <= 1.15)
            .figure("ratio", factor)
            .figure("syncSeconds", syncs)
            .figure("readSeconds", reads),
    );
    Ok(())
}

/// Opens the streaming list that fieldcache opens and reads it up to the bookmark that ends it. Returns its size.
async fn read_to_nowhere(control_plane: &ControlPlane, everywhere: &str, count: u64) -> Result<u64> {
    let path = format!(
        "{everywhere}?watch=true&allowWatchBookmarks=true&timeoutSeconds=290&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    );
    let request = Request::get(path).header("accept", "application/json");
    let (bytes, lines) = control_plane
        .client()
        .drain_until(request, b"k8s.io/initial-events-end", Duration::from_secs(300))
        .await
        .context("reading the streaming list")?;
    ensure!(lines >= count, "the stream had {lines} lines for {count} objects");
    Ok(bytes)
}
