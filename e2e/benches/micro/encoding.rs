//! Objects of a store -> the bytes of an answer.

use std::sync::Arc;

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput};
use e2e::corpus::shirts::OBJECTS_A_COLOR;
use fieldcache::model::{Gvr, Scope, Version};
use fieldcache::protobuf::{Encoder, MessageTable, table};
use fieldcache::query::{FieldTerm, Listing, Selection, State};
use fieldcache::registry::{Resource, ResourceOrigin};
use fieldcache::selector::Operator;
use fieldcache::wire::encode::{Chunks, Envelope, ListMeta, Shown};

use crate::samples;

pub(crate) fn measure(criterion: &mut Criterion) {
    let shirts = samples::shirts();
    let plan = samples::shirt_plan(&shirts);
    let snapshot = samples::store(&shirts).snapshot();
    let field = plan.resolve("spec.color").expect("the corpus must have colours");
    let blue = FieldTerm::new(field, Operator::equal_to(shirts.color(0)));
    let selection = Selection { fields: vec![blue], ..Selection::default() };
    let resource = Resource {
        gvr: Gvr::new(&shirts.group, "v1", "shirts"),
        kind: "Shirt".to_owned(),
        list_kind: "ShirtList".to_owned(),
        singular: "shirt".to_owned(),
        scope: Scope::Namespaced,
        short_names: [].into(),
        categories: [].into(),
        subresources: [].into(),
        storage_version_hash: String::new(),
        origin: ResourceOrigin::Custom,
        printer_columns: [].into(),
        deprecation_warning: None,
        definition: String::new(),
        extractor: plan,
        state: Arc::default(),
        partial_store: None,
        view_restriction: None,
        dropped: Default::default(),
    };
    let meta = ListMeta { version: snapshot.version(), continue_token: String::new(), remaining: None, shard: None };
    let list = || {
        let objects = Listing::new(State::current(snapshot.clone()), black_box(&selection), None);
        let envelope = Envelope::of_list(&resource, &meta);
        Chunks::new(envelope, objects, Box::new(Some), b",", |object, out: &mut Vec<u8>| {
            Shown::as_is(&object).write_item(out);
            None
        })
        .map(|chunk| chunk.len())
        .sum::<usize>()
    };
    let mut group = criterion.benchmark_group("encode");
    group.throughput(Throughput::Bytes(list() as u64));
    group.bench_function(format!("list of {OBJECTS_A_COLOR}, planned and written"), |bencher| bencher.iter(list));
    let object = Listing::new(State::current(snapshot.clone()), &selection, None).next();
    let object = object.expect("the corpus must have a blue shirt");
    group.throughput(Throughput::Elements(1));
    for (name, version) in [("event", object.version()), ("event of another version", Version::new(99_999))] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut out = Vec::new();
                Shown { object: black_box(&object), version }.write_single(&resource, &mut out);
                out
            });
        });
    }
    // Neighbours in a list differ, and an encoder keeps what they share.
    let pods: Vec<Bytes> = (0..256).map(samples::pod).collect();
    let mut pods = pods.iter().cycle();
    let mut pod = || pods.next().expect("there must be pods");
    let table = MessageTable::for_minor(table::NEWEST).expect("the newest table must be readable");
    let kind = table.kind("v1", "Pod").expect("the kind must have a message");
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    group.bench_function("pods in protobuf, measured", |bencher| {
        bencher.iter(|| encoder.read(kind, black_box(pod())).expect("it must be encodable").length());
    });
    group.bench_function("pods in protobuf, written", |bencher| {
        bencher.iter(|| {
            out.clear();
            encoder.read(kind, black_box(pod())).expect("it must be encodable").write(&mut out);
            out.len()
        });
    });
    group.bench_function("a pod in protobuf, written alone", |bencher| {
        bencher.iter(|| {
            out.clear();
            Encoder::default().read(kind, black_box(pod())).expect("it must be encodable").write(&mut out);
            out.len()
        });
    });
    group.bench_function("pods in JSON, copied", |bencher| {
        bencher.iter(|| {
            out.clear();
            out.extend_from_slice(black_box(pod()));
            out.len()
        });
    });
    group.finish();
}
