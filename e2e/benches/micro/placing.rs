//! One review in a cluster of 5,000 nodes and 150,000 pods, and one update of it.

use std::cell::LazyCell;
use std::hint::black_box;

use criterion::{BatchSize, Criterion};
use e2e::corpus::placement::Placement;
use fieldcache::placement::review::{PlacementReview, ResourceVersions};
use fieldcache::placement::{ClusterIndex, Namespace, Node, Options, Pod};
use serde_json::Value;

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn pod(value: &Value) -> Pod {
    Pod::read(&bytes(value)).expect("a pod of the corpus must be readable")
}

fn cluster(corpus: &Placement) -> ClusterIndex {
    let mut cluster = ClusterIndex::default();
    for namespace in corpus.namespaces() {
        cluster.upsert_namespace(&Namespace::read(&bytes(&namespace)).expect("a namespace must be readable"));
    }
    for index in 0..corpus.nodes {
        cluster.upsert_node(&Node::read(&bytes(&corpus.node(index))).expect("a node must be readable"));
    }
    for index in 0..corpus.pods {
        cluster.upsert_pod(&pod(&corpus.pod(index, 0)));
    }
    cluster
}

pub(crate) fn measure(criterion: &mut Criterion) {
    let corpus = Placement::default();
    // Made by the first row that runs: a filter may leave all of them out.
    let cluster = LazyCell::new(|| cluster(&corpus));
    let options = Options::default();
    let mut group = criterion.benchmark_group("place");
    let kinds = [
        "plain",
        "anti-affinity",
        "affinity",
        "preferences",
        "node affinity",
        "several terms",
        "other namespaces",
        "every pod",
    ];
    for (kind, index) in kinds.into_iter().zip(0..) {
        let reviewed: Vec<Pod> = (0..20).map(|round| pod(&corpus.pending_pod(index + 8 * round))).collect();
        let mut next = reviewed.iter().cycle();
        group.bench_function(format!("{kind}: verdicts"), |bencher| {
            bencher.iter(|| cluster.review(black_box(next.next().expect("a cycle must not end")), &options).feasible());
        });
        let mut next = reviewed.iter().cycle();
        group.bench_function(format!("{kind}: the whole answer"), |bencher| {
            bencher.iter(|| {
                let answer = cluster.review(black_box(next.next().expect("a cycle must not end")), &options);
                let status = Some(answer.summary(ResourceVersions::default(), None));
                let review = PlacementReview { status, ..PlacementReview::default() };
                answer.text_of(review).expect("an answer must be writable").len()
            });
        });
    }
    group.bench_function("a pod moves, while a reader holds the cluster", |bencher| {
        let mut changing = cluster.clone();
        let mut round = 0;
        let mut next = || {
            round += 1;
            pod(&corpus.pod(corpus.pods - 1 - round % 50_000, round))
        };
        bencher.iter_batched(
            &mut next,
            |pod| {
                let previous = changing.clone();
                changing.upsert_pod(&pod);
                previous
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}
