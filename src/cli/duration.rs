//! Durations as people type them, in the form of Go and so of every Kubernetes flag: `5m`, `1h30m`, `500ms`, `0`.
//!
//! Without fractions and without a sign: no option here means one.

use std::time::Duration;

/// Units, those first that another one begins like.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];

/// Reads one.
///
/// # Errors
/// Says what it should look like.
pub fn parse(text: &str) -> Result<Duration, String> {
    let refused = || format!("{text:?} is no duration such as 5m, 90s, 1h30m or 0");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut milliseconds: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| refused())?;
        let of_unit = |(unit, length): &(&str, u64)| Some((rest[digits..].strip_prefix(unit)?, *length));
        let (behind, length) = UNITS.iter().find_map(of_unit).ok_or_else(refused)?;
        let part = number.checked_mul(length).ok_or_else(refused)?;
        milliseconds = milliseconds.checked_add(part).ok_or_else(refused)?;
        rest = behind;
    }
    if text.is_empty() { Err(refused()) } else { Ok(Duration::from_millis(milliseconds)) }
}
