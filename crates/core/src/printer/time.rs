//! Durations in human-readable form (apimachinery `util/duration`, client-go's and the printers'
//! `translateTimestampSince`). No clock is read here: the caller passes the current time.

use serde_json::Value;

pub use crate::model::Moment;

use crate::json::Json;

impl Moment {
    /// The time in a value; `None` if it is absent or not a time.
    pub(super) fn from_json(value: Json<'_>) -> Option<Moment> {
        value.as_str().and_then(|text| Moment::parse(&text))
    }
}

/// A number of seconds as text with at most two units, such as `5m30s` (apimachinery `util/duration` HumanDuration). As
/// upstream, -1 counts as 0, because clocks differ a little, and less than that is `<invalid>`.
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

/// The time from a moment in an object until `now`; `<unknown>` if the value is absent or not a time.
pub(super) fn since(value: Json<'_>, now: Moment) -> String {
    match Moment::from_json(value) {
        Some(moment) => human_duration(now.seconds_since(moment)),
        None => "<unknown>".to_owned(),
    }
}

/// The cell with the age of an object, counted from metadata.creationTimestamp.
pub(super) fn age(object: Json<'_>, now: Moment) -> Value {
    Value::from(since(object.at("metadata").at("creationTimestamp"), now))
}
