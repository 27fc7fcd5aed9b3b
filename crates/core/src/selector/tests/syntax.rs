//! Label keys, label values, names, and Go's quotes.

use proptest::prelude::{prop_assert_eq, proptest};
use regex::Regex;

use crate::model::quote;
use crate::selector::syntax::{
    dns_1035_label_errors, dns_label_errors, dns_subdomain_errors, label_key_errors, label_value_errors,
    path_segment_errors,
};

#[test]
fn keys_values_and_names_are_accepted_or_rejected_by_the_documented_rules() {
    let name_63 = "n".repeat(63);
    let prefix_253 = vec!["p".repeat(62); 4].join(".") + "pp";
    assert_eq!(prefix_253.len(), 253, "the test's own prefix");
    for (text, is_key, why) in [
        ("a", true, "one character"),
        ("A-b_c.9", true, "all inner characters"),
        (&*name_63, true, "63 bytes"),
        (&format!("{name_63}n"), false, "64 bytes"),
        (&format!("{prefix_253}/a"), true, "a prefix of 253 bytes"),
        (&format!("{prefix_253}p/a"), false, "a prefix of 254 bytes"),
        ("kubernetes.io/a", true, "a prefix"),
        ("Kubernetes.io/a", false, "upper case in the prefix"),
        ("a..b/c", false, "an empty label in the prefix"),
        ("-a", false, "a dash in front"),
        ("a.", false, "a dot behind"),
        ("", false, "nothing"),
        ("é", false, "not ASCII"),
        ("a b", false, "a blank"),
    ] {
        assert_eq!(label_key_errors(text).is_empty(), is_key, "{why}: {text}");
    }
    assert!(label_value_errors("").is_empty(), "the empty value is allowed");
    assert_eq!(dns_label_errors("a.b"), ["must not contain dots"]);
    assert_eq!(
        dns_label_errors("A"),
        [
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
          with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
          '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        ]
    );
    assert_eq!(
        dns_subdomain_errors("A"),
        [
            r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ]
    );
    assert_eq!(path_segment_errors(".."), ["may not be '..'"]);
    assert_eq!(path_segment_errors("a/b%"), ["may not contain '/'", "may not contain '%'"]);
    assert!(path_segment_errors("system:node").is_empty(), "RBAC names have colons");
    assert!(dns_1035_label_errors("a-1").is_empty() && !dns_1035_label_errors("1-a").is_empty(), "RFC 1035");
}

#[test]
fn quotes_are_those_of_go() {
    for (text, quoted) in [
        ("plain 'é' 漢", "\"plain 'é' 漢\""),
        ("\"\\", r#""\"\\""#),
        ("\u{7}\u{8}\u{c}\n\r\t\u{b}", r#""\a\b\f\n\r\t\v""#),
        ("\0\u{1b}\u{7f}", r#""\x00\x1b\x7f""#),
        ("\u{85}\u{a0}\u{2028}\u{feff}", r#""\u0085\u00a0\u2028\ufeff""#),
        ("\u{e0001}", r#""\U000e0001""#),
        ("e\u{301}", "\"e\u{301}\""),
    ] {
        assert_eq!(quote(text), quoted);
    }
}

proptest! {
    #[test]
    fn the_byte_loops_agree_with_the_expressions_in_the_messages(text in "[aZ9._/é-]{0,8}") {
        let matches = |pattern: &str| Regex::new(&format!("^(?:{pattern})$")).unwrap().is_match(&text);
        let name = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
        let subdomain = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
        prop_assert_eq!(label_value_errors(&text).is_empty(), matches(&format!("({name})?")));
        prop_assert_eq!(label_key_errors(&text).is_empty(), matches(&format!("({subdomain}/)?{name}")));
        prop_assert_eq!(dns_subdomain_errors(&text).is_empty(), matches(subdomain));
        prop_assert_eq!(dns_label_errors(&text).is_empty(), matches("[a-z0-9]([-a-z0-9]*[a-z0-9])?"));
        prop_assert_eq!(dns_1035_label_errors(&text).is_empty(), matches("[a-z]([-a-z0-9]*[a-z0-9])?"));
    }
}
