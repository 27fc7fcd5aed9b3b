//! Integers as the values of fields, and their texts in numeric order.
//!
//! The index of an integer field stores [`sort_key`] instead of the value, so that a range of integers is a range of
//! keys. [`value_of`] converts a key back to its value. Values that are no integers, which only objects older than
//! their schema have, are after all integers.

use std::borrow::Cow;

/// The first byte of the key of a negative integer.
const NEGATIVE: u8 = b'1';
/// The first byte of the key of an integer that is not negative.
const POSITIVE: u8 = b'2';
/// The first byte of the key of another text.
const TEXT: u8 = b'3';

/// The second byte of the key of an integer is this byte plus the number of its digits, or minus that number for a
/// negative integer.
const LENGTH: u8 = b'P';

/// The integer of a canonical text: without `+`, leading zeros and `-0`. `None` for other texts.
pub fn canonical(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = match digits.as_bytes() {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', ..] => true,
        _ => false,
    };
    if is_canonical { text.parse().ok() } else { None }
}

/// The key of a value. The keys of integers in canonical form have the order of the integers, and the keys of other
/// texts follow. The empty value, which counts as absent, has an empty key.
pub fn sort_key(value: &str) -> Cow<'_, str> {
    if value.is_empty() {
        return Cow::Borrowed(value);
    }
    let mut key = String::with_capacity(value.len() + 2);
    match (canonical(value), value.strip_prefix('-')) {
        (Some(_), Some(digits)) => {
            key.push(char::from(NEGATIVE));
            key.push(char::from(LENGTH - length(digits)));
            key.extend(digits.bytes().map(complement));
        }
        (Some(_), None) => {
            key.push(char::from(POSITIVE));
            key.push(char::from(LENGTH + length(value)));
            key.push_str(value);
        }
        (None, _) => {
            key.push(char::from(TEXT));
            key.push_str(value);
        }
    }
    Cow::Owned(key)
}

/// The value of a key that [`sort_key`] returned.
pub fn value_of(key: &str) -> Cow<'_, str> {
    match key.as_bytes().first() {
        Some(&POSITIVE) => Cow::Borrowed(key.get(2..).unwrap_or_default()),
        Some(&NEGATIVE) => {
            let digits = key.bytes().skip(2).map(complement);
            Cow::Owned(std::iter::once('-').chain(digits).collect())
        }
        Some(_) => Cow::Borrowed(key.get(1..).unwrap_or_default()),
        None => Cow::Borrowed(key),
    }
}

/// The number of digits of an integer, which are 19 at most.
fn length(digits: &str) -> u8 {
    u8::try_from(digits.len()).unwrap_or(u8::MAX)
}

/// The digit whose sum with this digit is 9. The keys of negative integers have these digits, because the order of
/// their digits is reversed.
fn complement(digit: u8) -> char {
    char::from(b'0' + (b'9' - digit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{canonical, sort_key, value_of};

    #[test]
    fn only_canonical_texts_are_integers() {
        for (text, expected, reason) in [
            ("0", Some(0), "zero"),
            ("-1", Some(-1), "negative"),
            ("9223372036854775807", Some(i64::MAX), "the largest"),
            ("-9223372036854775808", Some(i64::MIN), "the smallest"),
            ("9223372036854775808", None, "too large"),
            ("-0", None, "negative zero"),
            ("+5", None, "a plus sign"),
            ("007", None, "leading zeros"),
            ("", None, "empty"),
            ("-", None, "no digits"),
            ("1.5", None, "a fraction"),
            ("five", None, "a word"),
        ] {
            assert_eq!(canonical(text), expected, "{reason}: {text:?}");
        }
    }

    proptest! {
        #[test]
        fn keys_have_the_order_of_integers(left: i64, right: i64, shift in 0u32..64) {
            let (left, right) = (left >> shift, right >> shift);
            let key = |number: i64| sort_key(&number.to_string()).into_owned();
            prop_assert_eq!(key(left).cmp(&key(right)), left.cmp(&right));
        }

        #[test]
        fn a_key_has_its_value(value in "[-+0-9a-z]{0,21}") {
            let key = sort_key(&value);
            prop_assert_eq!(&*value_of(&key), &*value, "{}", key);
        }

        #[test]
        fn other_texts_follow_all_integers(number: i64, text in "[a-z+]{1,4}") {
            let number = number.to_string();
            prop_assert!(sort_key(&number) < sort_key(&text));
            prop_assert!(sort_key("") < sort_key(&number));
        }
    }
}
