//! Amounts of bytes as Kubernetes writes quantities: `2Gi`, `500M`, `1.5Gi`, `1e9`.
//!
//! Parses the quantities of apimachinery (`pkg/api/resource/quantity.go`), except those with a sign or a suffix for
//! fractions, such as `m`. Printing is for messages: it rounds to a short form, which is not the canonical one.

use std::fmt;

/// An amount of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// Why a text is not an amount of bytes; Display names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotBytes {
    /// Not a quantity of Kubernetes, or not a number of bytes.
    #[error(
        "{0:?} is not a number of bytes: write a number with an optional suffix Ki, Mi, Gi, Ti, k, M, G or T, such as 2Gi"
    )]
    Unreadable(String),
    /// More than any machine has.
    #[error("{0:?} is too large: write less than 16Ei")]
    TooMuch(String),
    /// More than [`MOST_FRACTION_DIGITS`] digits after the point.
    #[error("{0:?} has more than {MOST_FRACTION_DIGITS} digits after the point: write fewer")]
    TooManyFractionDigits(String),
}

const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL: [(&str, u32); 7] = [("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// The maximum number of digits before the point, without leading zeros. No amount that fits into 64 bits has more.
const MOST_DIGITS: usize = 24;

/// The maximum number of digits after the point, without zeros at the end. Their product with the largest factor, 10 to
/// the power of 20, then fits into 128 bits.
const MOST_FRACTION_DIGITS: usize = 18;

impl Bytes {
    /// Reads a quantity. Fractions of a byte are rounded up, as by Kubernetes.
    ///
    /// # Errors
    /// [`NotBytes`].
    pub fn parse(text: &str) -> Result<Bytes, NotBytes> {
        let unreadable = || NotBytes::Unreadable(text.to_owned());
        let too_much = || NotBytes::TooMuch(text.to_owned());
        let end = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(unreadable());
        }
        let multiplier = multiplier(suffix).ok_or_else(unreadable)?.ok_or_else(too_much)?;
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        if whole.len() > MOST_DIGITS {
            return Err(too_much());
        }
        if fraction.len() > MOST_FRACTION_DIGITS {
            return Err(NotBytes::TooManyFractionDigits(text.to_owned()));
        }
        let digits = |digits: &str| digits.bytes().fold(0u128, |sum, digit| sum * 10 + u128::from(digit - b'0'));
        let scale = 10u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
        let of_whole = digits(whole).checked_mul(multiplier).ok_or_else(too_much)?;
        let of_fraction = digits(fraction).checked_mul(multiplier).ok_or_else(too_much)?.div_ceil(scale);
        let bytes = of_whole.checked_add(of_fraction).and_then(|bytes| u64::try_from(bytes).ok());
        bytes.map(Bytes).ok_or_else(too_much)
    }
}

/// The factor of a suffix such as `Ki`, `M` or `e9`. `None`: the suffix is invalid. `Some(None)`: the exponent is above
/// 20, more than a usual amount of 64 bits needs.
fn multiplier(suffix: &str) -> Option<Option<u128>> {
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some(Some(1 << power));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some(Some(10u128.pow(*power)));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let exponent = exponent.strip_prefix('+').unwrap_or(exponent);
    if exponent.is_empty() || !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(exponent.parse::<u32>().ok().filter(|power| *power <= 20).map(|power| 10u128.pow(power)))
}

/// The amount with a binary suffix, such as `2Gi`, or rounded to one digit after the point, such as `1.5Gi`.
impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((suffix, power)) = BINARY.iter().rev().find(|(_, power)| self.0 >> power > 0) else {
            return write!(formatter, "{}", self.0);
        };
        let unit = 1u64 << power;
        if self.0.is_multiple_of(unit) {
            return write!(formatter, "{}{suffix}", self.0 >> power);
        }
        let smaller = BINARY.iter().rev().find(|(_, smaller)| self.0.is_multiple_of(1 << smaller));
        match smaller {
            // 1536Mi is more exact than 1.5Gi, as long as it is short.
            Some((suffix, power)) if self.0 >> power < 10_000 => write!(formatter, "{}{suffix}", self.0 >> power),
            _ => write!(formatter, "{:.1}{suffix}", self.0 as f64 / unit as f64),
        }
    }
}
