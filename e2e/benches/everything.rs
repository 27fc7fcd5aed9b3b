//! LIST everything: what it costs, what it holds in memory while slow readers take it, and what a bare server would do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::accounting;
use e2e::corpus::shirts::Shirts;
use e2e::generator::child::Child;
use futures::future::try_join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::interval;

use super::beside::{Sides, compared};
use super::load::{Requests, Side, alternate, check};
use super::options::Options;
use super::own::{Own, generator_program};
use super::report::{Line, Report, duration, megabytes, number, ratio};

/// Lists that are read slowly at the same time.
const READERS: u64 = 20;

/// A slow reader takes so many bytes each step: 4 KB a second.
const SIP: usize = 1024;
const SIP_EVERY: Duration = Duration::from_millis(250);

/// For how long.
const SIPPING: Duration = Duration::from_secs(8);

/// Memory that one list may take while it is sent.
const ALLOWED_MEMORY: u64 = 8_000_000;

/// All lines of the row.
pub(crate) async fn run(
    options: &Options,
    sides: &Sides,
    own: &Own,
    corpus: &Shirts,
    report: &mut Report,
) -> Result<()> {
    let path = corpus.everywhere();
    // First, while the process has not sent a long list yet: afterwards its allocator may hold what one took.
    slow_readers(own, &path, report).await?;
    let requests = Requests::one(path.clone());
    let expected = check(&sides.upstream, &requests, corpus.count).await?;
    let answered = check(&sides.own, &requests, corpus.count).await?;
    ensure!(expected == answered, "{path}: the two sides answer different items");
    drop((expected, answered));
    let rounds = options.rounds.clamp(2, 3);
    let [upstream, cost] =
        alternate([&sides.upstream, &sides.own], &requests, rounds, Duration::from_millis(500), 1).await?;
    let factor = ratio(upstream.cpu.as_secs_f64(), cost.cpu.as_secs_f64());
    report.add(
        compared("list-all", format!("{} objects", number(corpus.count as f64)), upstream, cost)
            .target("≥ 20 times less CPU (plain: ≥ 80)", factor >= 20.0),
    );
    beside_bare(options, sides, own, &requests, report).await
}

async fn slow_readers(own: &Own, path: &str, report: &mut Report) -> Result<()> {
    let address = own.fieldcache.address().trim_start_matches("http://");
    let before = accounting::resting_bytes(own.process()).await?;
    let ended = AtomicBool::new(false);
    let readers = async {
        let read = try_join_all((0..READERS).map(|_| sip(address, path))).await;
        ended.store(true, Ordering::Relaxed);
        read
    };
    let looks = async {
        let mut most = before;
        let mut looks = interval(Duration::from_millis(10));
        while !ended.load(Ordering::Relaxed) {
            looks.tick().await;
            most = most.max(accounting::resident_bytes(own.process())?);
        }
        Ok::<u64, anyhow::Error>(most)
    };
    let (read, most) = tokio::join!(readers, looks);
    let (read, most) = (read?, most?);
    let each = most.saturating_sub(before) / READERS;
    let line = Line::new(
        "list-all",
        format!("{READERS} at once, read at 4 KB/s"),
        format!("{} more memory each ({} before, {} at most)", megabytes(each), megabytes(before), megabytes(most)),
    );
    report.add(
        line.target("≤ 8 MB more memory a request", each <= ALLOWED_MEMORY)
            .figure("extraBytesEach", each)
            .figure("bytesRead", read.into_iter().sum::<u64>()),
    );
    Ok(())
}

/// Requests the list and takes a little of it now and then, then breaks off.
async fn sip(address: &str, path: &str) -> Result<u64> {
    let mut stream = TcpStream::connect(address).await.context("connecting")?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let began = Instant::now();
    let mut steps = interval(SIP_EVERY);
    let mut buffer = [0; SIP];
    let mut taken = 0;
    while began.elapsed() < SIPPING {
        steps.tick().await;
        let length = stream.read(&mut buffer).await?;
        ensure!(length > 0, "the list ended after {taken} bytes");
        ensure!(taken > 0 || buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer[..length]));
        taken += length as u64;
    }
    Ok(taken)
}

async fn beside_bare(
    options: &Options,
    sides: &Sides,
    own: &Own,
    requests: &Requests,
    report: &mut Report,
) -> Result<()> {
    let url = format!("{}{}", own.fieldcache.address(), requests.paths[0]);
    let bare = Child::bare(&generator_program()?, &url).await?;
    let bare_side = Side { client: bare.endpoint().client(), process: bare.process().id() };
    let rounds = options.rounds.max(3);
    let [yardstick, cost] =
        alternate([&bare_side, &sides.own], requests, rounds, Duration::from_millis(500), 2).await?;
    ensure!(
        yardstick.bytes == cost.bytes,
        "the bare server sends {} bytes, fieldcache {}",
        yardstick.bytes,
        cost.bytes
    );
    let share = |bare: Duration, own: Duration| ratio(bare.as_secs_f64(), own.as_secs_f64()) * 100.0;
    let cpu = share(yardstick.cpu, cost.cpu);
    let wall = share(yardstick.median, cost.median);
    let throughput = |each: Duration| number(cost.bytes as f64 / each.as_secs_f64().max(1e-9) / 1e6);
    report.add(
        Line::new(
            "list-all",
            "beside a bare HTTP server",
            format!(
                "{wall:.0} % of its throughput ({} of {} MB/s), {cpu:.0} % by CPU ({} of its {})",
                throughput(cost.median),
                throughput(yardstick.median),
                duration(cost.cpu),
                duration(yardstick.cpu)
            ),
        )
        .figure("shareOfBareByWall", wall / 100.0)
        .figure("shareOfBareByCpu", cpu / 100.0)
        .figure("megabytesPerSecond", ratio(cost.bytes as f64 / 1e6, cost.median.as_secs_f64())),
    );
    Ok(())
}
