//! One update of a store: the object changes its colour, which moves it from one posting list to another.

use std::hint::black_box;

use criterion::{BatchSize, Criterion};
use fieldcache::model::{Record, Version};

use crate::samples::{self, STORED};

pub(crate) fn measure(criterion: &mut Criterion) {
    let shirts = samples::shirts();
    let plan = samples::shirt_plan(&shirts);
    let mut store = samples::store(&shirts);
    // Two states of some objects, so that each application is a change.
    let states: Vec<Record> = [0, 1]
        .iter()
        .flat_map(|state| (0..1_000).map(move |index| (state, index * (STORED / 1_000))))
        .map(|(state, index)| {
            let mut object = shirts.stored(index);
            object["spec"]["color"] = shirts.color((index + state) % shirts.colors()).into();
            samples::record(&plan, &object.to_string().into(), None)
        })
        .collect();
    let mut version = STORED + 2_000;
    let mut next = {
        let mut states = states.iter().cycle();
        move || {
            version += 1;
            let mut record = states.next().expect("a cycle of records must not end").clone();
            record.version = Version::new(version);
            record
        }
    };
    let mut group = criterion.benchmark_group(format!("store of {STORED} shirts"));
    group.bench_function("update", |bencher| {
        bencher.iter_batched(&mut next, |record| store.apply(black_box(record)), BatchSize::SmallInput);
    });
    group.bench_function("update and publish", |bencher| {
        bencher.iter_batched(
            &mut next,
            |record| {
                store.apply(black_box(record));
                store.snapshot()
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}
