//! Chunks of a body -> lines -> objects; pages -> objects.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput};
use fieldcache::source::watch_decoder::{self, Lines};

use crate::samples;

/// What one read of a TLS stream usually yields at most.
const CHUNK: usize = 16 * 1024;

pub(crate) fn measure(criterion: &mut Criterion) {
    let shirts = samples::shirts();
    let objects: Vec<Bytes> = (0..500).map(|index| samples::shirt(&shirts, index)).collect();
    let object_bytes: usize = objects.iter().map(Bytes::len).sum();
    let lines: Vec<Bytes> = objects
        .iter()
        .map(|object| Bytes::from([b"{\"type\":\"ADDED\",\"object\":", &**object, b"}"].concat()))
        .collect();
    let stream = Bytes::from(lines.iter().flat_map(|line| [&**line, b"\n"].concat()).collect::<Vec<u8>>());
    let mut page = b"{\"apiVersion\":\"corpus.example.com/v1\",\"items\":[".to_vec();
    page.extend(objects.join(&b","[..]));
    page.extend_from_slice(
        b"],\"kind\":\"ShirtList\",\"metadata\":{\"continue\":\"abc\",\"resourceVersion\":\"7\"}}\n",
    );
    let page = Bytes::from(page);

    let mut group = criterion.benchmark_group("split 500 shirts");
    group.throughput(Throughput::Bytes(object_bytes as u64));
    let count = |chunk_size: usize| {
        let mut reader = Lines::default();
        let mut found = 0;
        let mut position = 0;
        while position < stream.len() {
            let end = stream.len().min(position + chunk_size);
            reader.push(stream.slice(position..end));
            position = end;
            while let Some(line) = reader.next_line() {
                found += black_box(line).len();
            }
        }
        found
    };
    group.bench_function("lines, chunks of 16384 bytes", |bencher| bencher.iter(|| count(black_box(CHUNK))));
    group.bench_function("lines, chunks of 1400 bytes", |bencher| bencher.iter(|| count(black_box(1_400))));
    group.bench_function("watch lines", |bencher| {
        bencher.iter(|| lines.iter().filter(|line| watch_decoder::watch_line(black_box(line)).is_ok()).count());
    });
    group.bench_function("page", |bencher| bencher.iter(|| watch_decoder::list_page(black_box(&page))));
    group.finish();
}
