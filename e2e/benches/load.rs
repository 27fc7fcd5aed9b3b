//! Requests in rounds, and what they cost a server.

use std::io::Read;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::http::{Answer, Client, Request};
use e2e::{accounting, statistics};

/// A server under measurement.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    /// The client that sends the requests.
    pub(crate) client: Client,
    /// The server's process.
    pub(crate) process: u32,
}

/// The requests, the same for every side.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    /// Paths with their queries, queried in turn.
    pub(crate) paths: Vec<String>,
    /// Whether the answer may be compressed.
    pub(crate) gzip: bool,
}

impl Requests {
    /// One path again and again, uncompressed.
    pub(crate) fn one(path: String) -> Requests {
        Requests { paths: vec![path], gzip: false }
    }

    /// The request of this turn.
    pub(crate) fn request(&self, turn: usize) -> Request {
        let path = &self.paths[turn % self.paths.len()];
        Request::get(path.as_str())
            .header("accept", "application/json")
            .header("accept-encoding", if self.gzip { "gzip" } else { "identity" })
    }
}

/// What a side took so far.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// Seconds of CPU a request, one figure a round.
    cpu: Vec<f64>,
    latencies: Vec<Duration>,
    turn: usize,
    bytes: u64,
}

/// The same in one figure each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// CPU a request, the median of the rounds.
    pub(crate) cpu: Duration,
    /// Latency: the median of all requests.
    pub(crate) median: Duration,
    /// Latency: 99th percentile of all requests.
    pub(crate) p99: Duration,
    /// Requests behind it.
    pub(crate) requests: usize,
    /// Bytes of the last answer, as sent.
    pub(crate) bytes: u64,
}

impl Samples {
    /// One round: requests one after the other for about `lasting`, at least `least` of them.
    pub(crate) async fn round(
        &mut self,
        side: &Side,
        requests: &Requests,
        lasting: Duration,
        least: usize,
    ) -> Result<()> {
        let before = accounting::cpu(side.process)?;
        let began = Instant::now();
        let mut sent = 0_u32;
        while sent < u32::try_from(least)? || began.elapsed() < lasting {
            let request = requests.request(self.turn);
            self.turn += 1;
            let started = Instant::now();
            let answer = side.client.drain(request).await?;
            self.latencies.push(started.elapsed());
            ensure!(answer.status.is_success(), "{}: {}", requests.paths[0], answer.status);
            self.bytes = answer.bytes;
            sent += 1;
        }
        let used = accounting::cpu(side.process)?.saturating_sub(before);
        self.cpu.push(used.as_secs_f64() / f64::from(sent));
        Ok(())
    }

    /// What came of it.
    pub(crate) fn cost(&self) -> Cost {
        Cost {
            cpu: Duration::from_secs_f64(statistics::median(&self.cpu)),
            median: statistics::percentile(&self.latencies, 0.5),
            p99: statistics::percentile(&self.latencies, 0.99),
            requests: self.latencies.len(),
            bytes: self.bytes,
        }
    }
}

/// The rounds of two sides in turn.
pub(crate) async fn alternate(
    [first, second]: [&Side; 2],
    requests: &Requests,
    rounds: usize,
    lasting: Duration,
    least: usize,
) -> Result<[Cost; 2]> {
    let mut samples = [Samples::default(), Samples::default()];
    for _ in 0..rounds {
        samples[0].round(first, requests, lasting, least).await?;
        samples[1].round(second, requests, lasting, least).await?;
    }
    Ok([samples[0].cost(), samples[1].cost()])
}

/// The rounds of one side.
pub(crate) async fn alone(side: &Side, requests: &Requests, rounds: usize, lasting: Duration) -> Result<Cost> {
    let mut samples = Samples::default();
    for _ in 0..rounds {
        samples.round(side, requests, lasting, 1).await?;
    }
    Ok(samples.cost())
}

/// Requests some of the paths and fails unless each response has so many items. Returns the items' bytes of the last.
pub(crate) async fn check(side: &Side, requests: &Requests, hits: u64) -> Result<Vec<u8>> {
    /// Of many paths so many are looked at, spread over all.
    const LOOKS: usize = 5;
    let mut last = Vec::new();
    for look in 0..LOOKS.min(requests.paths.len()) {
        let turn = look * requests.paths.len() / LOOKS.min(requests.paths.len());
        let answer = side.client.send(requests.request(turn)).await?.success()?;
        let body = plain(&answer)?;
        let found = list_items(&body).with_context(|| format!("{} is no list", requests.paths[turn]))?;
        // Counting the items of a very long list by decoding it would take more memory than all that is measured.
        if body.len() < (64 << 20) {
            let list: serde_json::Value = serde_json::from_slice(&body)?;
            let items = list["items"].as_array().map_or(0, Vec::len) as u64;
            ensure!(items == hits, "{}: {items} items, expected {hits}", requests.paths[turn]);
        }
        last = found.to_vec();
    }
    Ok(last)
}

/// The body, decompressed when it is compressed.
fn plain(answer: &Answer) -> Result<Vec<u8>> {
    match answer.header("content-encoding") {
        Some("gzip") => {
            let mut body = Vec::new();
            flate2::read::GzDecoder::new(answer.body.as_ref()).read_to_end(&mut body).context("decompressing")?;
            Ok(body)
        }
        _ => Ok(answer.body.to_vec()),
    }
}

/// The bytes of `items` in a list: from its first bracket to the last of the document, for no other member holds one.
fn list_items(body: &[u8]) -> Option<&[u8]> {
    const KEY: &[u8] = b"\"items\":[";
    let start = body.windows(KEY.len()).position(|window| window == KEY)? + KEY.len() - 1;
    let end = body.iter().rposition(|&byte| byte == b']')?;
    body.get(start..=end)
}
