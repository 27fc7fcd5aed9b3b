//! Generates shards for property tests.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

use super::{Shard, ShardKey};
use crate::model::fnv1a;

/// Shards of up to three ranges. Some bounds are the hash of one of `texts` or the next number, so that these texts are
/// often at the edge of a range.
pub(crate) fn shards(texts: Vec<String>) -> impl Strategy<Value = Arc<Shard>> {
    let bound = prop_oneof![
        3 => any::<u64>().prop_map(u128::from),
        2 => (select(texts), 0..2u128).prop_map(|(text, after)| u128::from(fnv1a(&text)) + after),
        1 => Just(0),
        1 => Just(1 << 64),
    ];
    let range = (bound.clone(), bound).prop_filter_map("an empty range", |(one, other)| {
        let (start, end) = (one.min(other), one.max(other));
        (start < end).then_some((start, end))
    });
    let key = prop_oneof![3 => Just(ShardKey::Uid), 1 => Just(ShardKey::Namespace)];
    (key, vec(range, 1..4)).prop_map(|(key, ranges)| {
        let calls: Vec<String> = ranges
            .into_iter()
            .map(|(start, end)| format!("shardRange({}, '0x{start:016x}', '0x{end:016x}')", key.path()))
            .collect();
        Arc::new(Shard::parse(&calls.join(" || ")).unwrap())
    })
}
