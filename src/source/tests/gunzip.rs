//! Compressed responses, in any chunks: members behind each other, what breaks off, what is no gzip, bombs.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::{collection, prelude::any, prop_assert, proptest};

use crate::source::gunzip::{BodyError, Gunzip, PIECE};

/// One member.
fn member(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// All text of these chunks, none of it longer than a piece.
fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>, BodyError> {
    let mut gunzip = Gunzip::default();
    let mut read = Vec::new();
    for chunk in chunks {
        gunzip.push(Bytes::copy_from_slice(chunk));
        while let Some(text) = gunzip.next_text()? {
            assert!(text.len() <= PIECE, "{} bytes at a time", text.len());
            read.extend_from_slice(&text);
        }
    }
    gunzip.finish().map(|()| read)
}

proptest! {
    #[test]
    fn members_are_read_in_whatever_chunks_they_come(
        texts in collection::vec((collection::vec(any::<u8>(), 0..50), 0..20_000_usize), 0..5),
        size in 1..5000_usize,
    ) {
        let texts: Vec<Vec<u8>> = texts.into_iter().map(|(text, times)| text.repeat(times)).collect();
        let compressed: Vec<u8> = texts.iter().flat_map(|text| member(text)).collect();
        prop_assert!(read(compressed.chunks(size)).unwrap() == texts.concat());
    }
}

#[test]
fn what_is_flushed_is_read_before_the_member_ends() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut gunzip = Gunzip::default();
    for line in ["first\n", "second\n"] {
        encoder.write_all(line.as_bytes()).unwrap();
        encoder.flush().unwrap();
        gunzip.push(Bytes::from(std::mem::take(encoder.get_mut())));
        assert_eq!(gunzip.next_text().unwrap().as_deref(), Some(line.as_bytes()));
        assert_eq!(gunzip.next_text().unwrap(), None);
    }
    assert!(matches!(gunzip.finish(), Err(BodyError::BreaksOff)), "the member has no end");
}

#[test]
fn bodies_that_break_off_or_are_no_gzip_are_errors() {
    let whole = [member(b"one"), member(b"two")].concat();
    assert_eq!(read([&*whole]).unwrap(), b"onetwo");
    let first = member(b"one").len();
    for length in 0..whole.len() {
        let is_between = length == 0 || length == first;
        assert_eq!(read([&whole[..length]]).is_ok(), is_between, "{length} bytes");
    }
    let mut changed = whole.clone();
    changed[first - 8] ^= 1;
    for (bytes, why) in [
        (b"{\"kind\":\"List\"}".to_vec(), "no gzip"),
        ([&*whole, b"{}"].concat(), "something else behind a member"),
        (changed, "a checksum that is wrong"),
    ] {
        assert!(matches!(read([&*bytes]), Err(BodyError::NotGzip(_))), "{why}");
    }
}

#[test]
fn a_little_that_becomes_very_much_comes_in_pieces() {
    let zeros = vec![0; 32 << 20];
    let compressed = member(&zeros);
    assert!(compressed.len() < 512 << 10, "{} bytes", compressed.len());
    assert_eq!(read([&*compressed]).unwrap().len(), zeros.len());
    let empty = member(b"").repeat(10_000);
    assert_eq!(read([&*empty]).unwrap(), b"", "members without text");
}
