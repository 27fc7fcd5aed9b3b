//! Timestamps and durations: reading, writing, and the parts of a date.
//!
//! Time zones are those of the time zone database that is compiled into the program, UTC, and offsets such as `+02:00`.

use jiff::tz::TimeZoneDatabase;

use super::failure::{EvalError, Failure};

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timestamp {
    /// The whole seconds since the start of 1970 in UTC; negative before.
    pub(super) seconds: i64,
    /// The nanoseconds after `seconds`: less than a second.
    pub(super) nanos: u32,
}

/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;

/// The first second of the year 1 and the last one of the year 9999: the range of timestamps.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;

/// Seconds of a day.
const DAY: i64 = 86_400;

/// The maximum number of hours, and of minutes, of an offset from UTC. Upstream has no limit.
const MOST_OFFSET: i64 = 1_000_000;

impl Timestamp {
    /// The timestamp of these seconds and nanoseconds. An error (overflow) outside of the years 1 to 9999.
    pub(super) fn new(seconds: i64, nanos: u32) -> Result<Timestamp, Failure> {
        if (FIRST..=LAST).contains(&seconds) {
            Ok(Timestamp { seconds, nanos })
        } else {
            Err(EvalError::Overflow("timestamp").into())
        }
    }

    /// The timestamp that is later by a duration in nanoseconds, which can be negative. An error (overflow) outside of
    /// the years 1 to 9999.
    pub(super) fn plus(self, duration: i64) -> Result<Timestamp, Failure> {
        let nanos = i64::from(self.nanos) + duration.rem_euclid(SECOND);
        let seconds = self.seconds.checked_add(duration.div_euclid(SECOND) + nanos / SECOND);
        let seconds = seconds.ok_or(EvalError::Overflow("timestamp"))?;
        Timestamp::new(seconds, u32::try_from(nanos % SECOND).unwrap_or(0))
    }

    /// The duration since another timestamp, in nanoseconds; negative if that one is later. An error (overflow) above
    /// 292 years, which do not fit into 64 bits.
    pub(super) fn since(self, other: Timestamp) -> Result<i64, Failure> {
        let seconds = i128::from(self.seconds) - i128::from(other.seconds);
        let nanos = seconds * i128::from(SECOND) + i128::from(self.nanos) - i128::from(other.nanos);
        i64::try_from(nanos).map_err(|_| EvalError::Overflow("duration").into())
    }

    /// The parts of the date in a time zone: its name or an offset, as for [`offset_of`]; `None`: UTC.
    pub(super) fn parts(self, zone: Option<&str>) -> Result<Parts, Failure> {
        let seconds = self.seconds + zone.map_or(Ok(0), |zone| offset_of(zone, self.seconds))?;
        let days = seconds.div_euclid(DAY);
        let second = seconds.rem_euclid(DAY);
        let (year, month, day) = date_of(days);
        let day_of_year = days - days_of(year, 1, 1);
        Ok(Parts {
            year,
            month,
            day,
            day_of_year,
            // 1970 began on a Thursday; Sunday is 0.
            day_of_week: (days + 4).rem_euclid(7),
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            milliseconds: i64::from(self.nanos / 1_000_000),
        })
    }

    /// The text of RFC 3339 in UTC, as Go writes it: the fraction of the second has no zeros at the end.
    pub(super) fn to_text(self) -> String {
        let (year, month, day) = date_of(self.seconds.div_euclid(DAY));
        let second = self.seconds.rem_euclid(DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let mut fraction = String::new();
        if self.nanos > 0 {
            fraction = format!(".{:09}", self.nanos);
            fraction.truncate(fraction.trim_end_matches('0').len());
        }
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
    }
}

/// The parts of a date.
pub(super) struct Parts {
    pub(super) year: i64,
    /// From 1.
    pub(super) month: i64,
    /// The day of the month, from 1.
    pub(super) day: i64,
    /// From 0.
    pub(super) day_of_year: i64,
    /// From 0, which is Sunday.
    pub(super) day_of_week: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) milliseconds: i64,
}

/// The offset of a time zone from UTC at a time (`seconds` since 1970), in seconds (cel-go `common/types/timestamp.go`,
/// timeZone). `zone`: a name of the time zone database, an offset such as `+02:00`, or `UTC`, `Local` or nothing for
/// UTC.
///
/// # Errors
/// The text is neither the name of a zone, exactly as it is written in the database, nor an offset.
fn offset_of(zone: &str, seconds: i64) -> Result<i64, Failure> {
    let unknown = || EvalError::Other(format!("unknown time zone {:?}", super::lex::excerpt(zone)));
    let Some((hours, minutes)) = zone.split_once(':') else {
        if ["", "UTC", "Local"].contains(&zone) {
            return Ok(0);
        }
        let found = TimeZoneDatabase::bundled().get(zone).ok().filter(|found| found.iana_name() == Some(zone));
        // The range of the library jiff ends a day before the range of CEL.
        let (first, last) = (jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
        let time = jiff::Timestamp::from_second(seconds.clamp(first, last)).map_err(|_| unknown())?;
        return found.map(|found| i64::from(found.to_offset(time).seconds())).ok_or_else(|| unknown().into());
    };
    // As in cel-go, each number can be above the hours of a day or the minutes of an hour.
    let number = |text: &str| text.parse().ok().filter(|number: &i64| number.abs() <= MOST_OFFSET);
    let (hours, minutes) = (number(hours).ok_or_else(unknown)?, number(minutes).ok_or_else(unknown)?);
    Ok(hours * 3600 + if zone.starts_with('-') { -minutes } else { minutes } * 60)
}

/// The number of days from the first day of 1970 to a date of the Gregorian calendar; negative before. The reverse of
/// [`date_of`] for valid dates.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the 29th of February is the last day of a year. An era is 400 years, which
    // have 146,097 days. 719,468 days are between the first of March of the year 0 and 1970.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The year, month and day (from 1) of a number of days since 1970. See [`days_of`] for the method.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Reads a number of exactly `count` digits at the beginning of `rest`, and removes it; `None` if other bytes are
/// there.
fn digits(rest: &mut &[u8], count: usize) -> Option<i64> {
    let (digits, after) = rest.split_at_checked(count)?;
    *rest = after;
    digits.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}

/// Removes a byte at the beginning of `rest`; `None` if another is there.
fn skip(rest: &mut &[u8], byte: u8) -> Option<()> {
    *rest = rest.strip_prefix(&[byte])?;
    Some(())
}

/// Reads a date such as `2024-02-29` at the beginning of `rest`, and removes it. Returns its days since 1970; `None` if
/// it is not a valid date.
fn parse_days(rest: &mut &[u8]) -> Option<i64> {
    let year = digits(rest, 4)?;
    skip(rest, b'-')?;
    let month = digits(rest, 2)?;
    skip(rest, b'-')?;
    let day = digits(rest, 2)?;
    let days = days_of(year, month, day);
    ((1..=12).contains(&month) && day >= 1 && date_of(days) == (year, month, day)).then_some(days)
}

/// Reads a time of RFC 3339 within the years 1 to 9999, such as `2024-02-29T12:00:00.5+02:00`; `None` for other texts.
/// Digits of the second beyond nanoseconds are ignored.
pub(super) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let mut rest = text.as_bytes();
    let days = parse_days(&mut rest)?;
    skip(&mut rest, b'T')?;
    let hour = digits(&mut rest, 2)?;
    skip(&mut rest, b':')?;
    let minute = digits(&mut rest, 2)?;
    skip(&mut rest, b':')?;
    let second = digits(&mut rest, 2)?;
    let mut nanos = 0;
    if let [b'.' | b',', fraction @ ..] = rest {
        let length = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length == 0 {
            return None;
        }
        let digits = fraction[..length].iter().chain([b'0'; 9].iter()).take(9);
        nanos = digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        rest = &fraction[length..];
    }
    let offset = match rest {
        [b'Z'] => 0,
        [sign @ (b'+' | b'-'), rest @ ..] => {
            let mut rest = rest;
            let hours = digits(&mut rest, 2)?;
            skip(&mut rest, b':')?;
            let minutes = digits(&mut rest, 2)?;
            if !rest.is_empty() || hours > 24 || minutes > 60 {
                return None;
            }
            (hours * 3600 + minutes * 60) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Timestamp::new(days * DAY + hour * 3600 + minute * 60 + second - offset, nanos).ok()
}

/// Reads a duration as Go does, such as `1h30m` or `-1.5s`, and returns nanoseconds; `None` for other texts.
pub(super) fn parse_duration(text: &str) -> Option<i64> {
    const UNITS: [(&str, i64); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("h", 3_600 * SECOND),
        // After `ms`, which has the same beginning.
        ("m", 60 * SECOND),
        ("s", SECOND),
    ];
    let (is_negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let (number, after) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || whole.len() > 20 {
            return None;
        }
        let (unit, nanos) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        rest = &after[unit.len()..];
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        // More digits than these do not change the number of nanoseconds.
        let fraction = &fraction[..fraction.len().min(15)];
        let parts: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        let scale = 10i128.pow(u32::try_from(fraction.len()).unwrap_or(0));
        sum = sum.checked_add(whole * i128::from(*nanos) + parts * i128::from(*nanos) / scale)?;
        if sum > i128::from(i64::MAX) + 1 {
            return None;
        }
    }
    i64::try_from(if is_negative { -sum } else { sum }).ok()
}

/// A duration in seconds, as cel-go writes it, such as `-1.5s`.
pub(super) fn duration_text(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let (seconds, rest) = (nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
    let mut fraction = String::new();
    if rest > 0 {
        fraction = format!(".{rest:09}");
        fraction.truncate(fraction.trim_end_matches('0').len());
    }
    format!("{sign}{seconds}{fraction}s")
}
