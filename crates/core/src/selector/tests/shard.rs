//! Shard selectors: the texts of apiserver `pkg/sharding` 0.36.3 for each expression of a table, and their ranges.

use crate::model::fnv1a;
use crate::selector::{HashRange, Shard, ShardKey};

/// Expressions, each with what upstream's parser answers: its selector or its error.
const TABLE: &str = include_str!("../testdata/shard_selectors.txt");

/// Texts with their hashes by apimachinery `pkg/sharding` 0.36.3, HashField.
const HASHES: [(&str, u64); 6] = [
    ("", 0xcbf2_9ce4_8422_2325),
    ("a", 0xaf63_dc4c_8601_ec8c),
    ("default", 0xebad_a516_8620_c5fe),
    ("kube-system", 0xdf65_c7bc_1d82_b35e),
    ("2f6d6bd2-6f0a-4f0e-9b0f-0b7e3d3c9b11", 0x9041_2654_f56e_d6c0),
    ("é", 0x0ac2_1707_b718_1e01),
];

#[test]
fn expressions_are_read_as_upstream_reads_them() {
    let lines: Vec<&str> = TABLE.lines().collect();
    let (rows, rest) = lines.as_chunks::<2>();
    assert!(rows.len() > 100 && rest.is_empty(), "{} rows, and {rest:?}", rows.len());
    for [expression, expected] in rows {
        let answer = match Shard::parse(expression) {
            Ok(shard) => format!("  selects: {}", shard.text()),
            Err(error) => {
                format!("  error: {}", error.message.strip_prefix("invalid shard selector: ").unwrap_or("no prefix"))
            }
        };
        assert_eq!(&answer, expected, "{expression}");
    }
}

/// Calls of `shardRange()`, the first and last hash of each range, and what the row shows.
type RangesRow = (Vec<String>, Vec<(u64, u64)>, &'static str);

#[test]
fn ranges_are_in_order_and_apart() {
    let range = |start: &str, end: &str| format!("shardRange(object.metadata.uid, '0x{start}', '0x{end}')");
    let rows: [RangesRow; 5] = [
        (vec![range("0000000000000000", "10000000000000000")], vec![(0, u64::MAX)], "all hashes"),
        (vec![range("000000000000000a", "000000000000000b")], vec![(10, 10)], "the end is excluded"),
        (
            vec![range("0000000000000020", "0000000000000030"), range("0000000000000000", "0000000000000010")],
            vec![(0, 15), (32, 47)],
            "in order",
        ),
        (
            vec![range("0000000000000000", "0000000000000010"), range("0000000000000010", "0000000000000020")],
            vec![(0, 31)],
            "adjacent ones are joined",
        ),
        (
            vec![
                range("ffffffffffffff00", "10000000000000000"),
                range("0000000000000000", "fffffffffffffff0"),
                range("0000000000000005", "0000000000000006"),
            ],
            vec![(0, u64::MAX)],
            "common ones are joined",
        ),
    ];
    for (parts, expected, why) in rows {
        let text = parts.join(" || ");
        let shard = Shard::parse(&text).unwrap();
        let expected: Vec<HashRange> = expected.into_iter().map(|(first, last)| HashRange { first, last }).collect();
        assert_eq!((shard.key(), shard.ranges(), shard.text()), (ShardKey::Uid, &*expected, &*text), "{why}");
        for range in &expected {
            for (hash, is_inside) in [
                (Some(range.first), true),
                (Some(range.last), true),
                (range.first.checked_sub(1), false),
                (range.last.checked_add(1), false),
            ] {
                assert!(hash.is_none_or(|hash| shard.contains(hash) == is_inside), "{why}: {hash:?}");
            }
        }
    }
}

#[test]
fn the_hash_is_that_of_upstream() {
    for (text, hash) in HASHES {
        assert_eq!(fnv1a(text), hash, "{text:?}");
    }
}

#[test]
fn a_shard_of_namespaces_ignores_the_uid() {
    let hash = fnv1a("default");
    let text = format!("shardRange(object.metadata.namespace, '0x{hash:016x}', '0x{:016x}')", hash + 1);
    let shard = Shard::parse(&text).unwrap();
    assert!(shard.selects(0, "default") && !shard.selects(hash, "other"));
    let of_uids = Shard::parse(&text.replace("namespace", "uid")).unwrap();
    assert!(!of_uids.selects(0, "default") && of_uids.selects(hash, "other"));
}

#[test]
fn brackets_and_length_are_bounded() {
    for (text, expected) in [
        (format!("{}x{}", "(".repeat(100_000), ")".repeat(100_000)), "expression code point size exceeds limit"),
        ("(".repeat(50_000), "expression recursion limit exceeded"),
        ("[".repeat(50_000), "expression recursion limit exceeded"),
        ("f(".repeat(40_000), "expression recursion limit exceeded"),
        ("a?".repeat(40_000), "Syntax error"),
        ("-".repeat(99_999), "Syntax error"),
        (format!("a{}", ".b".repeat(40_000)), "unexpected expression kind 7"),
        (format!("a{}", "||a".repeat(30_000)), "unexpected expression kind 3"),
        (format!("a{}", "+a".repeat(40_000)), "unsupported function"),
    ] {
        let message = Shard::parse(&text).unwrap_err().message;
        assert!(message.contains(expected), "{}: {message}", &text[..8]);
    }
}
