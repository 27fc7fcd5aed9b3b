//! The row of formats: what a list of Pods costs fieldcache in protobuf, and the same list in JSON.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::accounting;
use e2e::generator::Corpus;
use e2e::http::Request;
use e2e::statistics::median;

use super::corpora::Fed;
use super::options::Options;
use super::own::Offered;
use super::report::{Line, Report, duration, megabytes, number, ratio};

/// The row that is measured here.
pub(crate) const ROWS: [&str; 1] = ["list-protobuf"];

/// The formats, in the order in which a round requests them.
const FORMATS: [&str; 2] = ["application/json", "application/vnd.kubernetes.protobuf"];

/// A round sends requests for at least this long in each format.
const LASTING: Duration = Duration::from_millis(500);

/// Measures the row.
pub(crate) async fn run(options: &Options, offered: Offered, report: &mut Report) -> Result<()> {
    let fed = Fed::start(Corpus::Pods(options.pods()), offered).await?;
    let process = fed.own.process();
    let (mut seconds, mut bytes) = ([Vec::new(), Vec::new()], [0, 0]);
    // The first list in a format reads its table and fills buffers.
    for round in 0..=options.rounds {
        for (place, format) in FORMATS.into_iter().enumerate() {
            let (before, began, mut sent) = (accounting::cpu(process)?, Instant::now(), 0_u32);
            while sent == 0 || began.elapsed() < LASTING {
                let request = Request::get(fed.corpus.everywhere()).header("accept", format);
                let answer = fed.own.client.drain(request.header("accept-encoding", "identity")).await?;
                let reported =
                    answer.headers.get("content-type").and_then(|reported| reported.to_str().ok()).unwrap_or_default();
                ensure!(
                    answer.status == 200 && reported.starts_with(format),
                    "{}, {reported} for {format}",
                    answer.status
                );
                bytes[place] = answer.bytes;
                sent += 1;
            }
            let used = accounting::cpu(process)?.saturating_sub(before);
            if round > 0 {
                seconds[place].push(used.as_secs_f64() / f64::from(sent));
            }
        }
    }
    let [json, protobuf] = seconds.map(|seconds| Duration::from_secs_f64(median(&seconds)));
    let factor = ratio(protobuf.as_secs_f64(), json.as_secs_f64());
    let line = Line::new(
        "list-protobuf",
        format!("{} Pods", number(fed.corpus.count() as f64)),
        format!(
            "{} of CPU in protobuf ({}), {} in JSON ({}): {factor:.2}",
            duration(protobuf),
            megabytes(bytes[1]),
            duration(json),
            megabytes(bytes[0])
        ),
    );
    report.add(
        line.target("≤ 2 times the CPU of JSON", factor <= 2.0)
            .figure("protobufSeconds", protobuf.as_secs_f64())
            .figure("jsonSeconds", json.as_secs_f64())
            .figure("protobufBytes", bytes[1])
            .figure("jsonBytes", bytes[0])
            .figure("factor", factor),
    );
    Ok(())
}
