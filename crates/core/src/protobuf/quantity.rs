//! Quantities in the text that upstream prints after reading them (apimachinery `pkg/api/resource`: quantity.go,
//! amount.go, suffix.go).
//!
//! Upstream does not change a text that its fast reader accepts as canonical, even `+1` or `1.500`. It prints other
//! texts again.

use std::borrow::Cow;

/// How the suffix of a quantity is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    /// A suffix of [`DECIMAL`], also the empty one.
    Decimal,
    /// An exponent such as `e3`.
    Exponent,
    /// A suffix of [`BINARY`].
    Binary,
}

/// Suffixes with their powers of two.
const BINARY: [(&str, i32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
/// Suffixes with their powers of ten.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// The maximum number of digits that upstream's fast reader accepts.
const FAST_DIGITS: i32 = 18;

/// The smallest power of ten that upstream has: it rounds smaller amounts.
const NANO: i32 = -9;

/// The largest exponent that is computed with. No useful quantity has a larger one.
const MOST_EXPONENT: i32 = 1_000_000;

/// The text that upstream prints after reading this one; `None` if upstream cannot read it.
///
/// A number of more than 128 bits, or with a huge exponent, is not changed. kube-apiserver has printed it already, and
/// writes the same text in JSON and in protobuf.
pub(super) fn canonical(text: &str) -> Option<Cow<'_, str>> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let is_negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, rest) = digits(unsigned.trim_start_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    let (format, exponent) = interpret(suffix)?;
    let Some(exponent) = i32::try_from(exponent).ok().filter(|exponent| exponent.abs() <= MOST_EXPONENT) else {
        return Some(Cow::Borrowed(text));
    };
    let count = |digits: &str| i32::try_from(digits.len()).unwrap_or(i32::MAX / 2);
    let (fraction_digits, all_digits) = (count(fraction), count(whole) + count(fraction));
    // How many more digits upstream's fast reader would accept, by its own estimate (quantity.go, ParseQuantity).
    // Negative: the number goes to the slow reader.
    let precision = match format {
        Format::Binary if fraction.is_empty() => 15 - count(whole) - exponent * 3 / 10 - 1,
        Format::Binary => -1,
        Format::Decimal | Format::Exponent => FAST_DIGITS - all_digits,
    };
    let scale = if format == Format::Binary { 0 } else { exponent } - fraction_digits;
    let value = whole
        .bytes()
        .chain(fraction.bytes())
        .try_fold(0u128, |value, digit| value.checked_mul(10)?.checked_add(u128::from(digit - b'0')));
    let factor = if format == Format::Binary { 1u128 << exponent } else { 1 };
    let Some((value, amount)) = value.and_then(|value| Some((value, value.checked_mul(factor)?))) else {
        return Some(Cow::Borrowed(text));
    };
    if precision >= 0 && scale >= NANO && i64::try_from(amount).is_ok() {
        let shifted_ends = || {
            // The digits without the point, as upstream tests them.
            let shifted: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
            shifted.ends_with(b"000") || shifted.first() == Some(&b'0')
        };
        // Upstream's quick test of whether the text is canonical already. It does not find all such texts.
        let is_kept = match format {
            Format::Binary => exponent % 10 == 0 && value & 7 != 0,
            Format::Decimal | Format::Exponent => scale % 3 == 0 && !shifted_ends(),
        };
        if is_kept {
            return Some(Cow::Borrowed(text));
        }
        return Some(Cow::Owned(print(amount, is_negative, scale, format)));
    }
    let (mut amount, mut scale) = (amount, if value == 0 { 0 } else { scale });
    // Amounts below a nano are rounded away from zero.
    if scale < NANO {
        let places = u32::try_from(NANO - scale).ok()?;
        amount = 10u128.checked_pow(places).map_or(u128::from(amount > 0), |divisor| amount.div_ceil(divisor));
        scale = NANO;
    }
    let mut format = format;
    // Upstream reduces larger binary amounts to the largest int64, and prints those below one as decimal.
    if format == Format::Binary {
        let one = power(scale)?;
        let most = u128::from(i64::MAX.unsigned_abs());
        if amount.div_ceil(one) > most {
            (amount, scale) = (most, 0);
        } else if amount > 0 && amount < one {
            format = Format::Decimal;
        }
    }
    Some(Cow::Owned(print(amount, is_negative, scale, format)))
}

/// How many units of a scale are one: 10 to the power of `-scale`, or 1 if the scale is not negative. `None` if the
/// number is too large.
fn power(scale: i32) -> Option<u128> {
    10u128.checked_pow(u32::try_from(-scale.min(0)).ok()?)
}

/// Splits a text after its leading digits.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// The format and the exponent of a suffix such as `Ki`; `None` for an unknown suffix. The exponent is a power of two
/// for a binary suffix, otherwise a power of ten.
fn interpret(suffix: &str) -> Option<(Format, i64)> {
    let of = |table: &[(&str, i32)]| {
        table.iter().find(|(name, _)| *name == suffix).map(|(_, exponent)| i64::from(*exponent))
    };
    if let Some(exponent) = of(&DECIMAL) {
        return Some((Format::Decimal, exponent));
    }
    if let Some(exponent) = of(&BINARY) {
        return Some((Format::Binary, exponent));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Format::Exponent, exponent))
}

/// The canonical text of `amount` times 10 to the power of `scale`: no more digits than needed, and an exponent that
/// has a suffix. A binary amount is already multiplied by its power of two.
fn print(amount: u128, is_negative: bool, scale: i32, format: Format) -> String {
    let sign = if is_negative { "-" } else { "" };
    if amount == 0 {
        return "0".to_owned();
    }
    // A whole binary amount of at least 1024. Upstream prints other binary amounts as decimal.
    if format == Format::Binary
        && let Some(one) = power(scale)
        && amount >= one.saturating_mul(1024)
        && amount.is_multiple_of(one)
    {
        let (mut number, mut exponent) = (amount / one, 0);
        while number >= 1024 && number.is_multiple_of(1024) {
            number /= 1024;
            exponent += 10;
        }
        let suffix = BINARY.iter().find(|(_, power)| *power == exponent).map_or("", |(name, _)| *name);
        return format!("{sign}{number}{suffix}");
    }
    let (mut number, mut exponent) = (amount, scale);
    while number.is_multiple_of(10) {
        number /= 10;
        exponent += 1;
    }
    let mut zeros = String::new();
    while exponent % 3 != 0 {
        zeros.push('0');
        exponent -= 1;
    }
    let suffix = match format {
        Format::Exponent if exponent == 0 => String::new(),
        Format::Exponent => format!("e{exponent}"),
        // Upstream has no suffix for larger exponents, and prints none.
        Format::Decimal | Format::Binary => {
            DECIMAL.iter().find(|(_, power)| *power == exponent).map_or("", |(name, _)| *name).to_owned()
        }
    };
    format!("{sign}{number}{zeros}{suffix}")
}
