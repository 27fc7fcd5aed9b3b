//! One update of a store: the object changes its colour, which moves it from one posting list to another. And objects of
//! a list, as in a first sync.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput};
use fieldcache::model::{Record, Version};
use fieldcache::store::{HistoryLimits, RelistMode, Store};

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
    let version_of_list = STORED + 2_000;
    let mut version = version_of_list;
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
        bencher.iter_batched(&mut next, |record| store.apply(black_box(&record)), BatchSize::SmallInput);
    });
    group.bench_function("update and publish", |bencher| {
        bencher.iter_batched(
            &mut next,
            |record| {
                store.apply(black_box(&record));
                store.snapshot()
            },
            BatchSize::SmallInput,
        );
    });
    let listed = &states[..states.len() / 2];
    group.throughput(Throughput::Elements(listed.len() as u64));
    group.bench_function(format!("list of {} into an empty one", listed.len()), |bencher| {
        bencher.iter(|| {
            let mut empty = Store::new(HistoryLimits::default());
            empty.begin_list();
            listed.iter().for_each(|record| empty.list(black_box(record)));
            empty.commit_list(Version::new(version_of_list), RelistMode::TrustVersions);
            empty
        });
    });
    group.finish();
}
