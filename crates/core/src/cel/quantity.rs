//! Quantities of Kubernetes as exact numbers (apimachinery `pkg/api/resource/quantity.go`).
//!
//! A quantity is a number of billionths (10^-9). Smaller fractions are rounded up to a billionth, as upstream.
//! Quantities above 10^29 are not read; upstream reads them.

use std::cmp::Ordering;

use super::failure::{EvalError, Failure};

/// A quantity, in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quantity(i128);

/// The quantity 1, in billionths.
const UNIT: i128 = 1_000_000_000;

/// The factor of each suffix, in billionths.
const SUFFIXES: [(&str, i128); 16] = [
    ("", UNIT),
    ("n", 1),
    ("u", 1_000),
    ("m", 1_000_000),
    ("k", 1_000 * UNIT),
    ("M", 1_000_000 * UNIT),
    ("G", 1_000_000_000 * UNIT),
    ("T", 1_000_000_000_000 * UNIT),
    ("P", 1_000_000_000_000_000 * UNIT),
    ("E", 1_000_000_000_000_000_000 * UNIT),
    ("Ki", UNIT << 10),
    ("Mi", UNIT << 20),
    ("Gi", UNIT << 30),
    ("Ti", UNIT << 40),
    ("Pi", UNIT << 50),
    ("Ei", UNIT << 60),
];

/// The maximum number of digits before and after the point together, without zeros at both ends. So all digits fit into
/// 128 bits.
const MOST_DIGITS: usize = 36;

impl Quantity {
    /// Reads a quantity such as `1.5Gi`, `100m` or `-1e3`; `None` for other texts, and for quantities out of range.
    pub(super) fn parse(text: &str) -> Option<Quantity> {
        let (is_negative, rest) = match text.strip_prefix(['-', '+']) {
            Some(rest) => (text.starts_with('-'), rest),
            None => (false, text),
        };
        let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        if whole.len() + fraction.len() > MOST_DIGITS {
            return None;
        }
        // The number is `digits / 10^places`.
        let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
        let places = i32::try_from(fraction.len()).ok()?;
        let known = SUFFIXES.iter().find(|(name, _)| *name == suffix);
        let value = match known {
            Some((_, factor)) => scale(product(digits, *factor, places)?, 0)?,
            None => {
                let exponent = suffix.strip_prefix(['e', 'E'])?;
                let has_digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if has_digits.is_empty() || !has_digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                let exponent: i32 = exponent.parse().ok().filter(|exponent: &i32| exponent.abs() <= 100)?;
                scale(digits, exponent + 9 - places)?
            }
        };
        Some(Quantity(if is_negative { -value } else { value }))
    }

    /// The quantity of an integer.
    pub(super) fn of_int(int: i64) -> Quantity {
        Quantity(i128::from(int) * UNIT)
    }

    /// -1 for a negative quantity, 0 for zero, and 1 for a positive one.
    pub(super) fn sign(self) -> i64 {
        match self.0.cmp(&0) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }

    /// The quantity as an integer; `None` if it has a fraction or does not fit into 64 bits.
    pub(super) fn as_integer(self) -> Option<i64> {
        if self.0 % UNIT == 0 { i64::try_from(self.0 / UNIT).ok() } else { None }
    }

    /// The quantity as a floating-point number, which is approximate.
    pub(super) fn as_float(self) -> f64 {
        if self.0 % UNIT == 0 { (self.0 / UNIT) as f64 } else { self.0 as f64 / UNIT as f64 }
    }

    /// The sum; an error (overflow) if it does not fit into 128 bits.
    pub(super) fn plus(self, other: Quantity) -> Result<Quantity, Failure> {
        self.0.checked_add(other.0).map(Quantity).ok_or_else(|| EvalError::Overflow("quantity").into())
    }

    /// The difference; an error (overflow) if it does not fit into 128 bits.
    pub(super) fn minus(self, other: Quantity) -> Result<Quantity, Failure> {
        self.0.checked_sub(other.0).map(Quantity).ok_or_else(|| EvalError::Overflow("quantity").into())
    }
}

/// `digits * factor / 10^places`, rounded up; `None` if it does not fit into 128 bits. No argument is negative.
fn product(digits: i128, factor: i128, places: i32) -> Option<i128> {
    let divisor = 10i128.checked_pow(u32::try_from(places).ok()?)?;
    // If the product does not fit, the integer and the fraction are multiplied one by one.
    match digits.checked_mul(factor) {
        Some(product) => Some(div_up(product, divisor)),
        None => (digits / divisor)
            .checked_mul(factor)?
            .checked_add(div_up((digits % divisor).checked_mul(factor)?, divisor)),
    }
}

/// `value * 10^exponent`, rounded up; `None` if it does not fit into 128 bits. The value is not negative.
fn scale(value: i128, exponent: i32) -> Option<i128> {
    let power = 10i128.checked_pow(exponent.unsigned_abs());
    match (value, power) {
        (0, _) => Some(0),
        (value, Some(power)) if exponent >= 0 => value.checked_mul(power),
        (value, Some(power)) => Some(div_up(value, power)),
        // The value is less than a billionth, so it is rounded up to one.
        (_, None) if exponent < 0 => Some(1),
        (_, None) => None,
    }
}

/// A quotient of two numbers that are not negative, rounded up.
fn div_up(value: i128, divisor: i128) -> i128 {
    value / divisor + i128::from(value % divisor != 0)
}
