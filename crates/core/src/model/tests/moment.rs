//! Times as Go reads and writes them. That tables show them as upstream does is tested with the printers.

use proptest::prelude::{ProptestConfig, any, proptest};

use crate::model::Moment;
use crate::model::moment::{SECONDS_OF_ZERO, seconds_of_any_year};

#[test]
fn years_that_rfc_3339_does_not_have_are_read_as_go_writes_them() {
    for (text, expected) in [
        ("2024-01-02T03:04:05.123456Z", Some((1_704_164_645, 123_456))),
        ("0001-01-01T00:00:00Z", Some((SECONDS_OF_ZERO, 0))),
        ("10000-01-01T23:58:59Z", Some((253_402_387_139, 0))),
        ("-0001-12-31T00:01:00.000000Z", Some((-62_167_305_540, 0))),
        ("292277026596-12-04T15:30:07Z", Some((i64::MAX, 0))),
        ("999999999999-12-31T23:59:59Z", Some((-5_336_536_209_586_322_433, 0))),
        ("1000000000000-01-01T00:00:00Z", None),
        ("024-01-02T03:04:05Z", None),
        ("--001-01-02T03:04:05Z", None),
        ("+2024-01-02T03:04:05Z", None),
        ("-", None),
        ("", None),
    ] {
        assert_eq!(seconds_of_any_year(text), expected, "{text}");
        assert!(Moment::parse(text).is_none() || expected.is_some(), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn moments_agree_with_counting_days(seconds in -62_135_596_800_i64..253_402_300_800) {
        // The naive way: years and months one by one.
        let (mut days, in_day) = (seconds.div_euclid(86_400) + 719_162, seconds.rem_euclid(86_400));
        let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let mut year = 1;
        while days >= 365 + i64::from(leap(year)) {
            days -= 365 + i64::from(leap(year));
            year += 1;
        }
        let lengths = [31, 28 + i64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut month = 0;
        while days >= lengths[month] {
            days -= lengths[month];
            month += 1;
        }
        let text = format!(
            "{year:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", month + 1, days + 1, in_day / 3600, in_day / 60 % 60, in_day % 60
        );
        assert_eq!(Moment::parse(&text), Some(Moment::of_microseconds(seconds * 1_000_000)), "{text}");
        assert_eq!(seconds_of_any_year(&text), Some((seconds, 0)), "{text}");
    }

    #[test]
    fn no_text_breaks_the_reading_of_moments(text in any::<String>()) {
        let moment = Moment::parse(&text);
        let _ = seconds_of_any_year(&text);
        assert!(moment.is_none() || text.len() >= 19, "{text}");
    }
}
