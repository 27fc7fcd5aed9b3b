//! Header blocks: the examples of RFC 7541, and blocks that cannot be read.

use super::Random;
use crate::transport::heads::hpack::{Broken, Decoder, Skipped, write};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn read(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, Broken> {
    let mut fields = Vec::new();
    decoder.decode(block, |name, value| {
        fields.push(format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
    })?;
    Ok(fields)
}

#[test]
fn examples_of_the_standard() {
    // C.3 and C.4: the same requests, with and without the code for texts.
    let requests: [&[&str]; 3] = [
        &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"],
        &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com", "cache-control: no-cache"],
        &[
            ":method: GET",
            ":scheme: https",
            ":path: /index.html",
            ":authority: www.example.com",
            "custom-key: custom-value",
        ],
    ];
    for blocks in [
        [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ],
        [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ],
    ] {
        let mut decoder = Decoder::default();
        for (block, fields) in blocks.iter().zip(requests) {
            assert_eq!(read(&mut decoder, &bytes(block)).unwrap(), fields);
        }
    }
    // C.6 with a table of 256 bytes, from which entries are removed.
    let mut decoder = Decoder::default();
    let blocks = [
        "3fe1 01 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    let date = |second: u8| format!("date: Mon, 21 Oct 2013 20:13:{second} GMT");
    let (location, private) = ("location: https://www.example.com", "cache-control: private");
    let expected = [
        vec![":status: 302".to_owned(), private.to_owned(), date(21), location.to_owned()],
        vec![":status: 307".to_owned(), private.to_owned(), date(21), location.to_owned()],
        vec![
            ":status: 200".to_owned(),
            private.to_owned(),
            date(22),
            location.to_owned(),
            "content-encoding: gzip".to_owned(),
            "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1".to_owned(),
        ],
    ];
    for (block, fields) in blocks.iter().zip(expected) {
        assert_eq!(read(&mut decoder, &bytes(block)).unwrap(), fields);
    }
    assert_eq!(read(&mut decoder, &[0x80 | 64]).unwrap(), [date(22)], "the oldest entry that has room");
    assert_eq!(read(&mut decoder, &[0x80 | 65]), Err(Broken), "what had no room is removed");
}

#[test]
fn what_is_written_is_read_and_leaves_no_table() {
    let mut decoder = Decoder::default();
    for length in [0, 1, 126, 127, 128, 254, 255, 256, 16_383, 16_384, 1_000_000] {
        let value = "v".repeat(length);
        let mut block = Vec::new();
        write(&mut block, b"name", value.as_bytes());
        assert!(read(&mut decoder, &block).unwrap() == [format!("name: {value}")], "{length}");
    }
    assert_eq!(read(&mut decoder, &[0x80 | 62]), Err(Broken), "the table is empty");
}

#[test]
fn blocks_that_cannot_be_read() {
    for (block, why) in [
        ("80", "no entry has the number 0"),
        ("be", "the table is empty"),
        ("ff", "a number without its end"),
        ("ff ffff ffff ff01", "a number that is too large"),
        ("3f e2 1f", "a table that is too large"),
        ("00 05 6162", "a text without its end"),
        ("00", "no name"),
        ("00 0161", "no value"),
        ("00 0161 81 00", "padding that is no ones"),
        ("00 0161 82 1fff", "padding of a whole byte"),
        ("00 0161 84 ffffffff", "the end of a text as a character"),
        ("00 0161 81 ff", "only padding of a whole byte"),
    ] {
        assert_eq!(read(&mut Decoder::default(), &bytes(block)), Err(Broken), "{why}");
    }
}

#[test]
fn a_block_that_repeats_a_long_entry_is_read_up_to_a_bound() {
    let entry = [&[0x40, 1, b'n', 0x7f, 0xa1, 0x1e][..], &[b'v'; 4000]].concat();
    for (times, is_read) in [(1000, true), (1100, false)] {
        let repeated = vec![0x80 | 62; times];
        let block = [&entry[..], &repeated].concat();
        let answered = Decoder::default().decode(&block, |_, _| {});
        assert_eq!(answered.is_ok(), is_read, "{times} times");
        let skipped = Decoder::default().skip(&mut Skipped::default(), &block, |_, _| {});
        assert_eq!(skipped.is_ok(), is_read, "{times} times, skipped");
    }
    // The same with a long name, and an empty value for each.
    let entry = [&[0x40, 0x7f, 0xa1, 0x1e][..], &[b'n'; 4000], &[1, b'v']].concat();
    for (times, is_read) in [(1000, true), (1100, false)] {
        let block = [&entry[..], &[0x0f, 47, 0].repeat(times)].concat();
        let skipped = Decoder::default().skip(&mut Skipped::default(), &block, |_, _| {});
        assert_eq!(skipped.is_ok(), is_read, "{times} names, skipped");
    }
}

/// A text in the code of texts: so many zeros, which have five bits each.
fn coded(length: usize) -> Vec<u8> {
    let length = length / 8 * 5;
    let mut text = Vec::new();
    let literal = vec![0; length];
    // The same number as in front of a text that is not coded, with the bit of the code.
    write(&mut text, b"", &literal);
    text.drain(..2);
    text[0] |= 0x80;
    text
}

fn plain(length: usize, random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    let value: Vec<u8> = (0..length).map(|_| b'a' + random.below(26) as u8).collect();
    write(&mut text, b"", &value);
    text.drain(..2);
    text
}

/// A block that is skipped in parts leaves the table that it would leave when it is read.
#[test]
fn a_skipped_block_means_the_same_for_the_next_one() {
    const LENGTHS: [usize; 9] = [0, 1, 30, 200, 2_000, 4_080, 5_000, 17_000, 40_000];
    let seeds = 0..60_u64;
    println!("skipped blocks: seeds {seeds:?}");
    for seed in seeds {
        let mut random = Random(seed);
        let (mut reading, mut skipping) = (Decoder::default(), Decoder::default());
        for _ in 0..6 {
            let mut block = Vec::new();
            for _ in 0..random.below(12) {
                let text = |random: &mut Random| match random.below(3) {
                    0 => coded(LENGTHS[random.below(LENGTHS.len())]),
                    _ => plain(LENGTHS[random.below(LENGTHS.len())], random),
                };
                match random.below(10) {
                    0 => block.push(0x80 | (1 + random.below(61)) as u8),
                    1 => block.push(0x20 | random.below(31) as u8),
                    2 => block.extend([0x3f, 0xe1, 0x1f]),
                    3 => {
                        block.push(0x40 | (1 + random.below(61)) as u8);
                        block.extend(text(&mut random));
                    }
                    kind => {
                        block.push(if kind < 8 { 0x40 } else { 0 });
                        block.extend(text(&mut random));
                        block.extend(text(&mut random));
                    }
                }
            }
            let mut skipped = Skipped::default();
            let mut rest = &block[..];
            while !rest.is_empty() {
                let most = [3, 100, 16_384][random.below(3)];
                let length = (1 + random.below(most)).min(rest.len());
                skipping.skip(&mut skipped, &rest[..length], |_, _| {}).unwrap();
                rest = &rest[length..];
            }
            assert!(skipped.is_complete(), "seed {seed}");
            reading.decode(&block, |_, _| {}).unwrap();
            assert!(format!("{reading:?}") == format!("{skipping:?}"), "seed {seed}: another table");
            // What does not end is not complete, or cannot be read.
            let cut = random.below(block.len() + 1);
            let is_read = Decoder::default().decode(&block[..cut], |_, _| {}).is_ok();
            let mut skipped = Skipped::default();
            let is_skipped = Decoder::default().skip(&mut skipped, &block[..cut], |_, _| {}).is_ok();
            assert!(!is_read || (is_skipped && skipped.is_complete()), "seed {seed}: {cut}");
        }
    }
}
