//! One change -> the mailboxes of the watches it touches, without encoding.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use e2e::routing::Routing;

/// Watches, each with a value of its own.
const SUBSCRIPTIONS: u64 = 5_000;

pub(crate) fn measure(criterion: &mut Criterion) {
    const STRETCHES: u64 = 4;
    let mut group = criterion.benchmark_group(format!("route to one of {SUBSCRIPTIONS} watches"));
    group.sample_size(20);
    for changes in [1, 100] {
        let routing = Routing::prepare(SUBSCRIPTIONS, STRETCHES, changes).expect("the corpus must be readable");
        group.throughput(Throughput::Elements(SUBSCRIPTIONS));
        group.bench_function(format!("{SUBSCRIPTIONS} changes, {changes} a snapshot"), |bencher| {
            bencher.iter_custom(|iterations| {
                let mut elapsed = Duration::ZERO;
                let mut done = 0;
                while done < iterations {
                    let ready = routing.ready();
                    for stretch in routing.stretches().iter().take(usize::try_from(iterations - done).unwrap_or(1)) {
                        let started = Instant::now();
                        ready.route(stretch);
                        elapsed += started.elapsed();
                        ready.take();
                        done += 1;
                    }
                }
                elapsed
            });
        });
    }
    group.finish();
}
