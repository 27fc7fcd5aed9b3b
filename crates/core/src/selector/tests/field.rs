//! Field selector text.

use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, proptest};

use crate::selector::field::{escape_value, unescape_value};
use crate::selector::{FieldRequirement, FieldSelector, Operator, OperatorName};

#[test]
fn every_error_has_the_words_of_kube_apiserver() {
    for (text, message, offset) in [
        ("spec.x", "invalid selector: 'spec.x'; can't understand 'spec.x'", 0),
        ("!spec.x", "invalid selector: '!spec.x'; can't understand '!spec.x'", 0),
        ("a in (b)", "invalid selector: 'a in (b)'; can't understand 'a in (b)'", 0),
        ("a>1", "invalid selector: 'a>1'; can't understand 'a>1'", 0),
        ("c=1,b,a=1", "invalid selector: 'c=1,b,a=1'; can't understand 'b'", 4),
        ("zz,aa", "invalid selector: 'zz,aa'; can't understand 'aa'", 3),
        ("a=b=c", "invalid field selector: unescaped character in value: 61", 3),
        ("a===b", "invalid field selector: unescaped character in value: 61", 3),
        ("a!==b", "invalid field selector: unescaped character in value: 61", 3),
        (r"a=x\y", r"invalid field selector: invalid escape sequence: \y", 3),
        (r"a=x\", r"invalid field selector: invalid escape sequence: \", 3),
        (r"a=\é", r"invalid field selector: invalid escape sequence: \é", 2),
        (r"zz=\y,aa=\x", r"invalid field selector: invalid escape sequence: \x", 9),
    ] {
        let error = FieldSelector::parse_as_kubernetes(text, usize::MAX).unwrap_err();
        assert_eq!((&*error.message, error.offset), (message, offset), "{text}");
    }
}

/// Label, operator, value.
type Term<'a> = (&'a str, OperatorName, &'a str);

#[test]
fn what_is_accepted_is_split_literally_and_sorted() {
    let equals = OperatorName::In;
    let differs = OperatorName::NotIn;
    let rows: [(&str, &[Term]); 20] = [
        ("", &[]),
        (",", &[]),
        (",,", &[]),
        ("=", &[]),
        ("==", &[]),
        ("!=", &[]),
        ("a=x,,", &[("a", equals, "x")]),
        ("=X", &[("", equals, "X")]),
        ("a=", &[("a", equals, "")]),
        ("a!=", &[("a", differs, "")]),
        (" spec.x=X", &[(" spec.x", equals, "X")]),
        ("spec.x =X", &[("spec.x ", equals, "X")]),
        ("spec.x= X", &[("spec.x", equals, " X")]),
        ("zz=1,aa=2", &[("aa", equals, "2"), ("zz", equals, "1")]),
        ("a=x,a=y", &[("a", equals, "x"), ("a", equals, "y")]),
        ("a==b,a=a", &[("a", equals, "a"), ("a", equals, "b")]),
        (r"a=\\\,\=", &[("a", equals, r"\,=")]),
        (r"a\,b=c", &[(r"a\,b", equals, "c")]),
        ("a!b!=c", &[("a!b", differs, "c")]),
        ("a=<nil>", &[("a", equals, "<nil>")]),
    ];
    for (text, expected) in rows {
        let selector = FieldSelector::parse(text).unwrap();
        let found: Vec<Term> = selector
            .requirements
            .iter()
            .map(|requirement| (&*requirement.label, requirement.operator.name(), &*requirement.operator.listed()[0]))
            .collect();
        assert_eq!(found, expected, "{text:?}");
    }
}

#[test]
fn values_are_escaped_where_a_selector_needs_it() {
    assert_eq!(escape_value(r"a,b=c\d é"), r"a\,b\=c\\d é");
}

fn requirement() -> impl Strategy<Value = FieldRequirement> {
    ("[a-z.!]{0,5}[a-z]", any::<bool>(), "[a-c,=\\\\! é]{0,6}").prop_map(|(label, equal, value)| FieldRequirement {
        label,
        operator: if equal { Operator::equal_to(value) } else { Operator::not_equal_to(value) },
    })
}

proptest! {
    #[test]
    fn a_printed_selector_reads_back(requirements in prop::collection::vec(requirement(), 0..5)) {
        let text = requirements.iter().map(FieldRequirement::to_string).collect::<Vec<_>>().join(",");
        let selector = FieldSelector::parse(&text).map_err(|error| {
            proptest::test_runner::TestCaseError::fail(format!("{text:?}: {error}"))
        })?;
        let mut expected: Vec<String> = requirements.iter().map(FieldRequirement::to_string).collect();
        expected.sort();
        prop_assert_eq!(selector.to_string(), expected.join(","));
        for requirement in &requirements {
            prop_assert!(selector.requirements.contains(requirement), "{:?} in {:?}", requirement, selector);
        }
        prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn no_text_breaks_the_parser_and_accepted_ones_print_back(text in "[ab=!,\\\\é]{0,16}") {
        match FieldSelector::parse(&text) {
            Ok(selector) => prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector)),
            Err(error) => prop_assert!(error.offset <= text.len()),
        }
    }

    #[test]
    fn an_escaped_value_is_read_back(value in any::<String>()) {
        prop_assert_eq!(unescape_value(&escape_value(&value)), Ok(value));
    }
}

#[test]
fn the_number_of_terms_can_be_bounded() {
    let text = "b!=1,,a=2,c=3";
    assert_eq!(FieldSelector::parse_at_most(text, 3), FieldSelector::parse(text));
    // The rest is not read.
    let error = FieldSelector::parse_at_most(&format!("{text},d"), 3).unwrap_err();
    let expected = "the field selector has more than 3 terms: send several requests";
    assert_eq!((&*error.message, error.offset), (expected, text.len() + 1));
}
