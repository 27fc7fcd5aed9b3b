//! What grows with the number of objects: the same hits, and the cost of an update.

use std::time::Duration;

use anyhow::Result;
use e2e::accounting;
use e2e::corpus::Text;
use e2e::corpus::shirts::OBJECTS_A_COLOR;
use e2e::generator::Corpus;

use super::beside::by_color;
use super::corpora::Fed;
use super::load::{Cost, Requests, alone, check};
use super::options::Options;
use super::own::Offered;
use super::report::{Line, Report, duration, megabytes, micros, number, ratio};

/// The rows of this file.
pub(crate) const ROWS: [&str; 2] = ["growth", "ingest"];

/// How much more at the largest than at the smallest size is allowed.
const ALLOWED: f64 = 1.5;

/// How long each round lasts.
const ROUND: Duration = Duration::from_secs(1);

/// Updates for the cost of one, the same at both sizes: as many as the smallest size, ten thousand or more, some five times over.
const EVENTS_AN_OBJECT: u64 = 5;

/// What one size costs.
struct Look {
    count: u64,
    hot: Cost,
    cold: Cost,
}

/// The lines of one size, kept by the report for the comparison that [`run`] makes.
pub(crate) async fn look(options: &Options, fed: &Fed, report: &mut Report) -> Result<()> {
    let found = measure(options, fed).await?;
    report.add(line(&found));
    Ok(())
}

/// All rows of this file that are wanted, at the smallest and the largest size.
pub(crate) async fn run(options: &Options, offered: Offered, report: &mut Report) -> Result<()> {
    let small = options.objects / 10;
    let large = if options.quick { options.objects } else { options.objects * 10 };
    let mut looks = Vec::new();
    let mut events = Vec::new();
    for count in [small, large] {
        let fed = Fed::start(Corpus::Shirts(options.shirts_of(Text::Varied, count)), offered).await?;
        report.note(format!(
            "{} shirts from the generator: {} in memory for {} of JSON, first list in {} of CPU",
            number(count as f64),
            megabytes(accounting::resting_bytes(fed.own.process()).await?),
            megabytes(fed.object_bytes),
            duration(fed.sync_cpu)
        ));
        if options.wants(&["growth"]) {
            let found = measure(options, &fed).await?;
            report.add(line(&found));
            looks.push(found);
        }
        if options.wants(&["ingest"]) {
            let sent = small * EVENTS_AN_OBJECT;
            let used = fed.burst(sent).await?;
            events.push(used.div_f64(sent as f64));
        }
    }
    let of_what = format!("{} beside {} objects", number(large as f64), number(small as f64));
    if let [small, large] = &looks[..] {
        for (which, small, large) in
            [("one value again and again", small.hot, large.hot), ("all values in turn", small.cold, large.cold)]
        {
            let cpu = ratio(large.cpu.as_secs_f64(), small.cpu.as_secs_f64());
            let p99 = ratio(large.p99.as_secs_f64(), small.p99.as_secs_f64());
            let line =
                Line::new("growth", format!("{of_what}, {which}"), format!("CPU {cpu:.2} times, p99 {p99:.2} times"));
            report.add(
                line.target("CPU within 1.5 times", cpu <= ALLOWED).figure("cpuRatio", cpu).figure("p99Ratio", p99),
            );
        }
    }
    if let [small, large] = events[..] {
        let factor = ratio(large.as_secs_f64(), small.as_secs_f64());
        let line = Line::new(
            "ingest",
            format!("an update, {of_what}"),
            format!("{} and {} of CPU: {factor:.2} times", duration(large), duration(small)),
        );
        report.add(
            line.target("within 1.5 times", factor <= ALLOWED)
                .figure("ratio", factor)
                .figure("smallCpuMicros", micros(small))
                .figure("largeCpuMicros", micros(large)),
        );
    }
    Ok(())
}

async fn measure(options: &Options, fed: &Fed) -> Result<Look> {
    let Corpus::Shirts(corpus) = &fed.corpus else { anyhow::bail!("growth is measured on shirts") };
    let all = by_color(corpus);
    let one = Requests::one(all[all.len() / 2].clone());
    let all = Requests { paths: all, gzip: false };
    let side = fed.side();
    for requests in [&one, &all] {
        check(&side, requests, corpus.count.min(OBJECTS_A_COLOR)).await?;
    }
    let hot = alone(&side, &one, options.rounds, ROUND).await?;
    let cold = alone(&side, &all, options.rounds, ROUND).await?;
    Ok(Look { count: corpus.count, hot, cold })
}

fn line(look: &Look) -> Line {
    let cost = |cost: &Cost| format!("CPU {}, {} / {}", duration(cost.cpu), duration(cost.median), duration(cost.p99));
    let mut line = Line::new(
        "growth",
        format!("{} objects, 100 hits", number(look.count as f64)),
        format!("one value: {}; values in turn: {}", cost(&look.hot), cost(&look.cold)),
    );
    for (name, cost) in [("oneValue", &look.hot), ("valuesInTurn", &look.cold)] {
        line = line
            .figure(&format!("{name}CpuMicros"), micros(cost.cpu))
            .figure(&format!("{name}P99Micros"), micros(cost.p99));
    }
    line
}
