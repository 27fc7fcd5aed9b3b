//! The row of queries: what operators of field selectors, expressions, facets and sorting cost.
//!
//! Requests come one after the other, over one connection. A page of 100 objects shows the cost of finding the first
//! hits, and a total in the form of Facets that of finding all of them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::generator::Corpus;
use e2e::http::Request;
use e2e::statistics::percentile;
use serde_json::Value;

use super::corpora::Fed;
use super::options::Options;
use super::own::Offered;
use super::report::{Line, Report, duration, number};

/// The row that is measured here.
pub(crate) const ROWS: [&str; 1] = ["queries"];

const FACETS: &str = "application/json;as=Facets;g=view.fieldcache.dev;v=v1alpha1";

/// Names in the large set. The client accepts no URL of more than 64 KiB.
const NAMES: u64 = 4_500;

/// Requests of each kind, in a full run.
const REQUESTS: usize = 200;

/// Requests that evaluate every object.
const SLOW_REQUESTS: usize = 3;

/// The page of a sorted list that is measured beside the first.
const LATER_PAGE: usize = 1_000;

/// A query, and the target for the 99th percentile of its total.
struct Query {
    what: &'static str,
    selector: String,
    /// Further parameters of the total.
    facets: &'static str,
    target: Option<Duration>,
}

/// The queries over a corpus of this many shirts.
fn queries(objects: u64) -> Vec<Query> {
    let query = |what, selector: String, milliseconds: Option<u64>| Query {
        what,
        selector,
        facets: "",
        target: milliseconds.map(Duration::from_millis),
    };
    let facets = |what, selector: &str, facets| Query {
        what,
        selector: selector.to_owned(),
        facets,
        target: Some(Duration::from_millis(5)),
    };
    // Every other name exists.
    let names: Vec<String> = (0..NAMES).map(|index| format!("shirt-{:07}", index * 2 * objects / NAMES)).collect();
    let serials: Vec<String> = (0..5).map(|index| format!("S-{:08}", index * 7 + 3)).collect();
    vec![
        query("everything", String::new(), Some(1)),
        query("=", "spec.color=blue".to_owned(), Some(1)),
        query("in, 5 values", format!("spec.serial in ({})", serials.join(",")), None),
        query("in, 4,500 names", format!("metadata.name in ({})", names.join(",")), Some(10)),
        query("notin, 5 values", format!("spec.serial notin ({})", serials.join(",")), None),
        query("presence", "spec.color".to_owned(), None),
        query("absence", "!spec.color".to_owned(), None),
        // 143 of all.
        query("prefix", "spec.serial^=S-00001".to_owned(), None),
        query("range of 1 %", "spec.quantity>98".to_owned(), None),
        query("range of half", "spec.quantity>=50".to_owned(), None),
        query("range and prefix", "spec.quantity>=50,spec.serial^=S-00001".to_owned(), None),
        facets("facets of colors", "", "&facets=spec.color"),
        facets("facets of 100 values", "", "&facets=spec.quantity"),
        facets("facets of 100 values in half of all", "spec.quantity>=50", "&facets=spec.quantity"),
    ]
}

/// Measures the row.
pub(crate) async fn run(options: &Options, offered: Offered, report: &mut Report) -> Result<()> {
    let fed = Fed::start(Corpus::Shirts(options.shirts()), offered).await?;
    let everywhere = fed.corpus.everywhere();
    let requests = if options.quick { REQUESTS / 10 } else { REQUESTS };
    for query in queries(fed.corpus.count()) {
        let selector = encoded(&query.selector);
        let page = format!("{everywhere}?limit=100&fieldSelector={selector}");
        let total = format!("{everywhere}?fieldSelector={selector}{}", query.facets);
        let (pages, _) = times(&fed, &page, "application/json", requests).await?;
        let (totals, answer) = times(&fed, &total, FACETS, requests).await?;
        let hits = answer["total"].as_u64().with_context(|| format!("a total of {}", query.what))?;
        let line = Line::new(
            "queries",
            format!("{}: {} of {} objects", query.what, number(hits as f64), number(fed.corpus.count() as f64)),
            format!(
                "total p50 {}, p99 {}; page of 100 p50 {}, p99 {}",
                duration(percentile(&totals, 0.5)),
                duration(percentile(&totals, 0.99)),
                duration(percentile(&pages, 0.5)),
                duration(percentile(&pages, 0.99)),
            ),
        )
        .figure("totalP99", percentile(&totals, 0.99).as_secs_f64())
        .figure("pageP99", percentile(&pages, 0.99).as_secs_f64());
        report.add(match query.target {
            Some(target) => {
                line.target(&format!("total p99 ≤ {}", duration(target)), percentile(&totals, 0.99) <= target)
            }
            None => line,
        });
    }
    let expressions = [
        ("CEL, indexed: color = blue", "self.spec.color == 'blue'", requests),
        (
            "CEL, half indexed: color = blue and size = M",
            "self.spec.color == 'blue' && self.spec.size == 'M'",
            requests,
        ),
        ("CEL, indexed: or", "self.spec.color == 'blue' || self.spec.quantity > 98", requests),
        ("CEL, not indexed", "self.spec.supplier.name.startsWith('a')", SLOW_REQUESTS),
    ];
    for (what, expression, requests) in expressions {
        let (times, answer) =
            times(&fed, &format!("{everywhere}?celSelector={}", encoded(expression)), FACETS, requests).await?;
        let hits = answer["total"].as_u64().with_context(|| format!("a total of {what}"))?;
        report.add(timed(format!("{what}: {} objects", number(hits as f64)), "total", &times));
    }
    for sort_by in ["spec.quantity", "-spec.serial"] {
        let path = format!("{everywhere}?sortBy={sort_by}&limit=100");
        let (first, mut page) = times(&fed, &path, "application/json", requests.min(20)).await?;
        report.add(timed(format!("sortBy={sort_by}: first page"), "page of 100", &first));
        let most = (fed.corpus.count() / 100) as usize;
        let last = LATER_PAGE.min(most - 1);
        let mut latest = path.clone();
        for _ in 1..last {
            let token = page["metadata"]["continue"].as_str().context("a token of the next page")?.to_owned();
            latest = format!("{path}&continue={token}");
            page = fed.own.client.get_json(&latest).await?;
        }
        let (later, _) = times(&fed, &latest, "application/json", requests.min(20)).await?;
        report.add(timed(format!("sortBy={sort_by}: page {last}"), "page of 100", &later));
    }
    Ok(())
}

/// A line of times without a target.
fn timed(what: String, of: &str, times: &[Duration]) -> Line {
    let (median, p99) = (percentile(times, 0.5), percentile(times, 0.99));
    Line::new("queries", what, format!("{of} p50 {}, p99 {}", duration(median), duration(p99)))
        .figure("p50", median.as_secs_f64())
        .figure("p99", p99.as_secs_f64())
}

/// The times of requests, one after the other, and the last response. The first request is not measured.
async fn times(fed: &Fed, path: &str, accept: &str, requests: usize) -> Result<(Vec<Duration>, Value)> {
    let client = fed.own.client.clone();
    let mut times = Vec::with_capacity(requests);
    let mut last = Value::Null;
    for index in 0..=requests {
        let began = Instant::now();
        let request = Request::get(path).header("accept", accept).header("accept-encoding", "identity");
        let answer = client.send(request).await?.success()?;
        let took = began.elapsed();
        if index > 0 {
            times.push(took);
        }
        last = serde_json::from_slice(&answer.body)?;
    }
    ensure!(last.is_object(), "{path}: not an object");
    Ok((times, last))
}

/// A selector for a query.
fn encoded(selector: &str) -> String {
    let mut text = String::with_capacity(selector.len());
    for byte in selector.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b',' | b'(' | b')' => text.push(char::from(byte)),
            b' ' => text.push('+'),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}
