//! Moments and the time between two of them in a person's words (apimachinery `util/duration`, client-go's and the printers'
//! `translateTimestampSince`). No clock is read here: what is "now" comes from the caller.

use serde_json::Value;

/// A point in time: microseconds since 1970, which is as fine as the API server's times are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(i64);

const MICROSECONDS: i64 = 1_000_000;

/// The longest time that Go's `time.Duration` can hold, in seconds; longer ones are cut to it.
const LONGEST: i64 = i64::MAX / 1_000_000_000;

impl Moment {
    /// From microseconds since 1970.
    pub fn of_microseconds(microseconds: i64) -> Moment {
        Moment(microseconds)
    }

    /// Reads RFC 3339, of which API servers send `2024-01-02T03:04:05Z` and `2024-01-02T03:04:05.000006Z`. What is finer than
    /// a microsecond is cut off.
    pub fn parse(text: &str) -> Option<Moment> {
        let (date, rest) = text.split_at_checked(10)?;
        let mut parts = date.splitn(3, '-').map(digits);
        let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
        let (clock, rest) = rest.strip_prefix(['T', 't'])?.split_at_checked(8)?;
        let mut parts = clock.splitn(3, ':').map(digits);
        let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
        let (fraction, zone) = match rest.strip_prefix('.') {
            None => (0, rest),
            Some(rest) => {
                let length = rest.bytes().take_while(u8::is_ascii_digit).count();
                let (fraction, zone) = rest.split_at(length);
                let (kept, _) = fraction.split_at(length.min(6));
                let scale = 10_i64.checked_pow(u32::try_from(6 - kept.len()).ok()?)?;
                (digits(kept)? * scale, zone)
            }
        };
        let offset = match zone.split_at_checked(1)? {
            ("Z" | "z", "") => 0,
            (sign, offset) => {
                let (hours, minutes) = offset.split_once(':')?;
                let minutes = digits(hours)? * 60 + digits(minutes)?;
                match sign {
                    "+" => minutes * 60,
                    "-" => -minutes * 60,
                    _ => return None,
                }
            }
        };
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
        seconds.checked_mul(MICROSECONDS)?.checked_add(fraction).map(Moment)
    }

    /// Whole seconds from `earlier` to this, cut towards zero, as far as Go can count.
    pub fn seconds_since(self, earlier: Moment) -> i64 {
        (self.0.saturating_sub(earlier.0) / MICROSECONDS).clamp(-LONGEST, LONGEST)
    }
}

fn digits(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Days from 1970-01-01 in the calendar of today; years begin in March here, so that a leap day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days_in_year = (153 * month + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + days_in_year - 719_468
}

/// A number of seconds in at most three digits and two units (apimachinery `util/duration` HumanDuration).
pub fn human_duration(seconds: i64) -> String {
    let two = |large: i64, large_unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{large}{large_unit}") } else { format!("{large}{large_unit}{small}{small_unit}") }
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let years = days / 365;
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

/// The time since a moment in an object; `<unknown>` where it is absent or null.
pub(super) fn since(value: &Value, now: Moment) -> String {
    match value.as_str().and_then(Moment::parse) {
        Some(moment) => human_duration(now.seconds_since(moment)),
        None => "<unknown>".to_owned(),
    }
}

/// The cell of an object's age.
pub(super) fn age(object: &Value, now: Moment) -> Value {
    Value::from(since(&object["metadata"]["creationTimestamp"], now))
}
