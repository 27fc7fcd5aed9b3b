//! The requests that are measured, and how.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::corpus::shirts::{PAIR_SELECTOR, Shirts};
use e2e::http::{Client, Request};

use super::accounting;

/// One request.
pub(crate) struct Row {
    /// What it is.
    pub(crate) name: &'static str,
    /// Path and query.
    pub(crate) path: String,
    /// How many items the answer must have on both sides.
    pub(crate) hits: u64,
    /// Requests a round on kube-apiserver: enough for CPU accounting in hundredths of a second.
    pub(crate) upstream_requests: u32,
    /// Requests a round on fieldcache.
    pub(crate) own_requests: u32,
}

/// A server under measurement.
pub(crate) struct Side {
    /// Who asks.
    pub(crate) client: Client,
    /// The server's process.
    pub(crate) process: u32,
}

/// Both.
pub(crate) struct Sides {
    /// kube-apiserver.
    pub(crate) upstream: Side,
    /// fieldcache.
    pub(crate) own: Side,
}

/// What one side took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// CPU per request, the median of the rounds.
    pub(crate) cpu: Duration,
    /// Latency: the median of all requests.
    pub(crate) median: Duration,
    /// Latency: 99th percentile of all requests.
    pub p99: Duration,
}

/// A measured row.
pub(crate) struct Measured {
    /// What it is.
    pub(crate) name: &'static str,
    /// Items in the answer.
    pub(crate) hits: u64,
    /// Size of fieldcache's answer.
    pub(crate) bytes: u64,
    /// kube-apiserver.
    pub(crate) upstream: Cost,
    /// fieldcache.
    pub(crate) own: Cost,
}

/// The rows over a corpus.
pub(crate) fn rows(corpus: &Shirts) -> Vec<Row> {
    let everywhere = corpus.everywhere();
    let color = corpus.color(corpus.colors() / 2);
    let by_color = corpus.count.min(e2e::corpus::shirts::OBJECTS_A_COLOR);
    let pair = PAIR_SELECTOR.replace('/', "%2F").replace('=', "%3D").replace(',', "%2C");
    vec![
        Row {
            name: "LIST by field",
            path: format!("{everywhere}?fieldSelector=spec.color%3D{color}"),
            hits: by_color,
            upstream_requests: 10,
            own_requests: 2000,
        },
        Row {
            name: "LIST by field, nothing found",
            path: format!("{everywhere}?fieldSelector=spec.color%3Dnosuchcolor"),
            hits: 0,
            upstream_requests: 10,
            own_requests: 5000,
        },
        Row {
            name: "LIST by two labels",
            path: format!("{everywhere}?labelSelector={pair}"),
            hits: corpus.pair_count(),
            upstream_requests: 10,
            own_requests: 500,
        },
        Row { name: "LIST everything", path: everywhere, hits: corpus.count, upstream_requests: 1, own_requests: 4 },
    ]
}

/// Measures a row in alternating rounds.
pub(crate) async fn measure(row: &Row, sides: &Sides, rounds: u32) -> Result<Measured> {
    // Both warm, and both right, before anything counts.
    for side in [&sides.upstream, &sides.own] {
        let list = side.client.get_json(&row.path).await?;
        let items = list["items"].as_array().map_or(0, Vec::len) as u64;
        ensure!(items == row.hits, "{}: {items} items, expected {}", row.name, row.hits);
    }
    let mut upstream = Samples::default();
    let mut own = Samples::default();
    let mut bytes = 0;
    for _ in 0..rounds {
        upstream.round(row, &sides.upstream, row.upstream_requests).await?;
        bytes = own.round(row, &sides.own, row.own_requests).await?;
    }
    Ok(Measured { name: row.name, hits: row.hits, bytes, upstream: upstream.cost()?, own: own.cost()? })
}

#[derive(Default)]
struct Samples {
    cpu: Vec<Duration>,
    latencies: Vec<Duration>,
}

impl Samples {
    async fn round(&mut self, row: &Row, side: &Side, requests: u32) -> Result<u64> {
        let before = accounting::cpu(side.process)?;
        let mut bytes = 0;
        for _ in 0..requests {
            let started = Instant::now();
            let answer = side.client.send(Request::get(row.path.as_str())).await?.success()?;
            self.latencies.push(started.elapsed());
            bytes = answer.body.len() as u64;
        }
        self.cpu.push((accounting::cpu(side.process)? - before) / requests);
        Ok(bytes)
    }

    fn cost(mut self) -> Result<Cost> {
        self.cpu.sort_unstable();
        self.latencies.sort_unstable();
        let at = |sorted: &[Duration], share: f64| {
            sorted.get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1))).copied()
        };
        Ok(Cost {
            cpu: at(&self.cpu, 0.5).context("no round")?,
            median: at(&self.latencies, 0.5).context("no request")?,
            p99: at(&self.latencies, 0.99).context("no request")?,
        })
    }
}
