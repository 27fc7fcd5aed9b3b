//! What came of the measurements, as lines of the table.

use std::time::Duration;

use e2e::statistics;
use serde_json::{Value, json};

use super::super::report::{Line, duration, megabytes, number, ratio};
use super::clients::Consumer;
use super::kept::Kept;
use super::plan::Run;

/// What a client took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    pub(super) time: Duration,
    pub(super) cpu: Duration,
    pub(super) peak: u64,
    pub(super) resting: u64,
    pub(super) bytes: u64,
    pub(super) server: Duration,
}

/// The median of each figure by itself.
pub(super) fn median(costs: &[Cost]) -> Cost {
    let middle = |figure: fn(&Cost) -> f64| statistics::median(&costs.iter().map(figure).collect::<Vec<f64>>());
    Cost {
        time: Duration::from_secs_f64(middle(|cost| cost.time.as_secs_f64())),
        cpu: Duration::from_secs_f64(middle(|cost| cost.cpu.as_secs_f64())),
        peak: middle(|cost| cost.peak as f64) as u64,
        resting: middle(|cost| cost.resting as f64) as u64,
        bytes: middle(|cost| cost.bytes as f64) as u64,
        server: Duration::from_secs_f64(middle(|cost| cost.server.as_secs_f64())),
    }
}

/// What clients took beside each server, for as long as one of the two is not known.
#[derive(Debug, Default)]
pub(super) struct Costs(Vec<(Run, Cost)>);

impl Costs {
    pub(super) fn add(&mut self, run: Run, cost: Cost) {
        self.0.push((run, cost));
    }

    /// Takes out those that are known beside both servers.
    pub(super) fn take_complete(&mut self) -> Vec<(Consumer, [Cost; 2])> {
        let known = |consumer, side| self.0.iter().find(|(run, _)| *run == (consumer, side)).map(|(_, cost)| *cost);
        let consumers = self.0.iter().filter(|((_, side), _)| *side == 0).map(|((consumer, _), _)| *consumer);
        let complete: Vec<(Consumer, [Cost; 2])> =
            consumers.filter_map(|consumer| Some((consumer, [known(consumer, 0)?, known(consumer, 1)?]))).collect();
        self.0.retain(|((consumer, _), _)| complete.iter().all(|(taken, _)| taken != consumer));
        complete
    }
}

/// A client until its store is complete.
pub(super) fn complete(kept: &Kept, consumer: Consumer, costs: &[Cost; 2]) -> Line {
    let [direct, through] = costs;
    let time = format!("{} / {}, ", duration(direct.time), duration(through.time));
    let server = format!("; server CPU {} / {}", duration(direct.server), duration(through.server));
    let slower = ("time", ratio(through.time.as_secs_f64(), direct.time.as_secs_f64()));
    line(kept, consumer, "until complete", costs, (&time, &server), Some(slower))
}

/// A client while objects change.
pub(super) fn updated(kept: &Kept, consumer: Consumer, costs: &[Cost; 2], changes: u64) -> Line {
    line(kept, consumer, "updates", costs, ("", ""), None).figure("changes", changes)
}

/// CPU of the servers while objects change and these clients receive the events.
pub(super) fn servers(
    kept: &Kept,
    reported: &[Run],
    [direct, through]: [Duration; 2],
    (changes, took): (u64, Duration),
) -> Line {
    let beside = |wanted: usize| {
        let names: Vec<&str> =
            reported.iter().filter(|(_, side)| *side == wanted).map(|(consumer, _)| consumer.name()).collect();
        if names.is_empty() { "no client".to_owned() } else { names.join("; ") }
    };
    let what = format!(
        "{}, updates, server CPU: kube-apiserver, which takes the changes ({}) / fieldcache ({})",
        kept.name(),
        beside(0),
        beside(1)
    );
    let measured = format!("{} / {} for {changes} changes in {}", duration(direct), duration(through), duration(took));
    Line::new("consumer", what, measured)
        .figure("directSeconds", direct.as_secs_f64())
        .figure("throughSeconds", through.as_secs_f64())
        .figure("seconds", took.as_secs_f64())
        .figure("changes", changes)
}

fn line(
    kept: &Kept,
    consumer: Consumer,
    phase: &str,
    [direct, through]: &[Cost; 2],
    (time, server): (&str, &str),
    slower: Option<(&'static str, f64)>,
) -> Line {
    let ratios = [
        ("CPU", ratio(through.cpu.as_secs_f64(), direct.cpu.as_secs_f64())),
        ("peak", ratio(through.peak as f64, direct.peak as f64)),
        ("resting", ratio(through.resting as f64, direct.resting as f64)),
        ("received", ratio(through.bytes as f64, direct.bytes as f64)),
    ];
    let higher = |one: (&'static str, f64), other: (&'static str, f64)| if other.1 > one.1 { other } else { one };
    let target = consumer.target();
    let counts = |(name, _): &(&'static str, f64)| target.is_none_or(|(_, names)| names.contains(name));
    let (which, worst) = ratios.into_iter().chain(slower).filter(counts).fold(("", 0.0), higher);
    let measured = format!(
        "{time}CPU {} / {}, peak {} / {}, resting {} / {}, received {} / {}{server}; at most {} times ({which})",
        duration(direct.cpu),
        duration(through.cpu),
        megabytes(direct.peak),
        megabytes(through.peak),
        megabytes(direct.resting),
        megabytes(through.resting),
        megabytes(direct.bytes),
        megabytes(through.bytes),
        number(worst),
    );
    let what = format!("{}, {}, {phase}: kube-apiserver / fieldcache", kept.name(), consumer.name());
    let line = Line::new("consumer", what, measured)
        .figure("direct", figures(direct))
        .figure("through", figures(through))
        .figure("worstRatio", worst);
    match target {
        Some((most, names)) => {
            line.target(&format!("≤ {} times in {} of the client", number(most), names.join(", ")), worst <= most)
        }
        None => line,
    }
}

fn figures(cost: &Cost) -> Value {
    json!({
        "seconds": cost.time.as_secs_f64(), "cpuSeconds": cost.cpu.as_secs_f64(), "peakBytes": cost.peak,
        "restingBytes": cost.resting, "receivedBytes": cost.bytes, "serverCpuSeconds": cost.server.as_secs_f64(),
    })
}
