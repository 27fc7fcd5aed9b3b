//! Quantities, compared with the results of upstream's reader and printer.

use crate::protobuf::quantity::canonical;

#[test]
fn quantities_are_as_upstream_prints_them() {
    for (text, expected) in [
        ("0", "0"),
        ("00", "0"),
        ("-0", "0"),
        ("0Ki", "0"),
        ("1", "1"),
        ("+1", "+1"),
        ("01", "01"),
        ("1.", "1."),
        ("1.500", "1.500"),
        ("1.5", "1500m"),
        (".5", "500m"),
        ("1000m", "1"),
        ("1000", "1k"),
        ("100000", "100k"),
        ("1e3", "1e3"),
        ("1e1", "10"),
        ("12e-3", "12e-3"),
        ("1024Ki", "1Mi"),
        ("1025Ki", "1025Ki"),
        ("8Ki", "8Ki"),
        ("1.5Gi", "1536Mi"),
        ("0.1Ki", "102400m"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("16Ei", "9223372036854775807"),
        ("1000E", "1"),
        (" 7 ", "7"),
        ("1500Mi", "1500Mi"),
        ("1e1000002", "1e1000002"),
        ("1e-9999999999", "1e-9999999999"),
        ("999999999999999999999999999999999999999999", "999999999999999999999999999999999999999999"),
    ] {
        assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn texts_that_are_no_quantities_are_rejected() {
    for text in ["", "x", "1x", "1.2.3", "1Kii", "--1", "1e", "Ki1", "1 1", "1e99999999999999999999"] {
        assert_eq!(canonical(text), None, "{text}");
    }
}
