//! Object bytes -> records.

use std::hint::black_box;

use criterion::{Criterion, Throughput};

use crate::samples;

pub(crate) fn measure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("extract");
    for sample in samples::all() {
        group.throughput(Throughput::Bytes(sample.object.len() as u64));
        group.bench_function(format!("{} of {} bytes", sample.name, sample.object.len()), |bencher| {
            bencher.iter(|| sample.plan.extract(black_box(&sample.object).clone()));
        });
    }
    group.finish();
}
