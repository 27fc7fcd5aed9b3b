//! Moments: points in time, as RFC 3339 writes them. No clock is read here: the caller passes the current time.

/// A point in time: microseconds since 1970, which is as fine as the API server's times are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(i64);

const MICROSECONDS: i64 = 1_000_000;

/// The longest duration of Go's `time.Duration`, in seconds. Longer ones are reduced to it.
const LONGEST: i64 = i64::MAX / 1_000_000_000;

/// [`Moment::ZERO`] in seconds since 1970.
pub const SECONDS_OF_ZERO: i64 = -62_135_596_800;

/// The number of digits of the last year that Go's seconds reach.
const LONGEST_YEAR: usize = 12;

impl Moment {
    /// A moment in microseconds since 1970.
    pub fn of_microseconds(microseconds: i64) -> Moment {
        Moment(microseconds)
    }

    /// Go's zero time: the first second of the year 1.
    pub const ZERO: Moment = Moment(SECONDS_OF_ZERO * MICROSECONDS);

    /// Reads RFC 3339 as Go's `time.Parse` does. The hour may have one digit, a comma may precede the fraction, and an
    /// offset may be of 24 hours or 60 minutes. Lower-case letters, and days that a month does not have, are invalid.
    /// Digits beyond a microsecond are ignored. `None` for other texts.
    pub fn parse(text: &str) -> Option<Moment> {
        let mut rest = text.as_bytes();
        let year = number(&mut rest, 4)?;
        let (seconds, microseconds) = parse_after_year(year, rest)?;
        Some(Moment(seconds * MICROSECONDS + i64::from(microseconds)))
    }

    /// Whole seconds since `earlier`, truncated towards zero, within the range of Go.
    pub fn seconds_since(self, earlier: Moment) -> i64 {
        (self.0.saturating_sub(earlier.0) / MICROSECONDS).clamp(-LONGEST, LONGEST)
    }
}

/// Seconds since 1970, and the microseconds after them, of a time with any year, as Go writes it; `None` for other
/// texts. A year before 0 has a sign, and one after 9999 more than four digits. RFC 3339 does not permit such years,
/// but an offset, or an encoding that counts seconds, can produce them.
pub fn seconds_of_any_year(text: &str) -> Option<(i64, u32)> {
    let (is_negative, mut rest) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let digits = rest.iter().take_while(|digit| digit.is_ascii_digit()).count();
    if !(4..=LONGEST_YEAR).contains(&digits) {
        return None;
    }
    let year = number(&mut rest, digits)?;
    parse_after_year(if is_negative { -year } else { year }, rest)
}

/// Parses the part of a time after its year, `-01-02T03:04:05Z`. Returns seconds since 1970 and the microseconds after
/// them, or `None` for other texts. Seconds wrap around as in Go.
fn parse_after_year(year: i64, mut rest: &[u8]) -> Option<(i64, u32)> {
    let month = number(skip(&mut rest, b'-')?, 2)?;
    let day = number(skip(&mut rest, b'-')?, 2)?;
    skip(&mut rest, b'T')?;
    let hour_digits = if rest.get(1).is_some_and(u8::is_ascii_digit) { 2 } else { 1 };
    let hour = number(&mut rest, hour_digits)?;
    let minute = number(skip(&mut rest, b':')?, 2)?;
    let second = number(skip(&mut rest, b':')?, 2)?;
    let mut fraction = 0;
    if let [b'.' | b',', digits @ ..] = rest
        && digits.first().is_some_and(u8::is_ascii_digit)
    {
        let length = digits.iter().take_while(|digit| digit.is_ascii_digit()).count();
        let microseconds = digits[..length].iter().chain([b'0'; 6].iter()).take(6);
        fraction = microseconds.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        rest = &digits[length..];
    }
    let offset = match rest.split_first()? {
        (b'Z', zone) => {
            rest = zone;
            0
        }
        (sign @ (b'+' | b'-'), zone) => {
            rest = zone;
            let hours = number(&mut rest, 2)?;
            let minutes = number(skip(&mut rest, b':')?, 2)?;
            if hours > 24 || minutes > 60 {
                return None;
            }
            (hours * 60 + minutes) * if *sign == b'+' { 60 } else { -60 }
        }
        _ => return None,
    };
    let is_valid = rest.is_empty()
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour <= 23
        && minute <= 59
        && second <= 59;
    let in_day = hour * 3600 + minute * 60 + second - offset;
    is_valid.then_some((days_since_1970(year, month, day).wrapping_mul(86_400).wrapping_add(in_day), fraction))
}

/// Consumes a number of exactly this many digits; `None` if there are fewer.
fn number(rest: &mut &[u8], digits: usize) -> Option<i64> {
    let (number, after) = rest.split_at_checked(digits)?;
    *rest = after;
    number.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0')))
}

/// Consumes a separator, and returns `rest` for the next call; `None` if another byte is next.
fn skip<'r, 't>(rest: &'r mut &'t [u8], separator: u8) -> Option<&'r mut &'t [u8]> {
    let (first, following) = rest.split_first()?;
    (*first == separator).then_some(())?;
    *rest = following;
    Some(rest)
}

/// The number of days of a month.
fn days_in(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The days since 1970-01-01 in the Gregorian calendar. The calculation lets years begin in March, so that a leap day
/// is the last day of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days_in_year = (153 * month + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + days_in_year - 719_468
}
