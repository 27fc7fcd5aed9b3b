//! Floats as Go prints them (strconv `ftoa.go`): the shortest digits that read back, with or without an exponent.

/// Formats a float as `%v` and `%g`, and as YAML: with an exponent below 1e-4 and from 1e+06 on.
pub fn general(float: f64) -> String {
    with_exponent(float, -4..6)
}

/// Formats a float as Go's encoding/json: with an exponent below 1e-6 and from 1e+21 on, without a leading zero in a
/// negative exponent.
pub fn json(float: f64) -> String {
    let text = with_exponent(float, -6..21);
    match text.split_once("e-0") {
        Some((digits, exponent)) => format!("{digits}e-{exponent}"),
        None => text,
    }
}

/// Formats a float with an exponent, unless its decimal exponent is in the range `plain`.
fn with_exponent(float: f64, plain: std::ops::Range<i32>) -> String {
    // The shortest form that reads back, whose exponent has no sign and no padding.
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if float == 0.0 || plain.contains(&exponent) {
        return format!("{float}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::{general, json};

    #[test]
    fn floats_are_printed_as_go_prints_them() {
        for (float, as_general, as_json) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (1.0, "1", "1"),
            (-1.5, "-1.5", "-1.5"),
            (100_000.0, "100000", "100000"),
            (999_999.9, "999999.9", "999999.9"),
            (1e6, "1e+06", "1000000"),
            (1_234_567.5, "1.2345675e+06", "1234567.5"),
            (1e20, "1e+20", "100000000000000000000"),
            (1e21, "1e+21", "1e+21"),
            (1.5e100, "1.5e+100", "1.5e+100"),
            (0.0001, "0.0001", "0.0001"),
            (0.00001, "1e-05", "0.00001"),
            (0.000001, "1e-06", "0.000001"),
            (0.000_000_12, "1.2e-07", "1.2e-7"),
            (1e-10, "1e-10", "1e-10"),
            (f64::MAX, "1.7976931348623157e+308", "1.7976931348623157e+308"),
            (5e-324, "5e-324", "5e-324"),
        ] {
            assert_eq!((&*general(float), &*json(float)), (as_general, as_json), "{float:?}");
        }
    }
}
