//! Header blocks: the examples of RFC 7541, and blocks that cannot be read.

use crate::server::heads::hpack::{Broken, Decoder, write};

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
        let answered = Decoder::default().decode(&[&entry[..], &repeated].concat(), |_, _| {});
        assert_eq!(answered.is_ok(), is_read, "{times} times");
    }
}
