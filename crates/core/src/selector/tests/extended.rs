//! Field selectors with the operators of fieldcache.

use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::{collection, sample};

use crate::selector::{FieldRequirement, FieldSelector, Operator};

fn list(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

/// A selector, its fields with their operators, and what the row is about.
type Row<'r> = (&'r str, &'r [(&'r str, Operator)], &'r str);

#[test]
fn every_operator_is_read_with_its_operand() {
    use Operator::{DoesNotExist, Exists, GreaterOrEqual, GreaterThan, In, LessOrEqual, LessThan, NotIn, StartsWith};
    let equal = Operator::equal_to;
    let rows: [Row; 27] = [
        ("k", &[("k", Exists)], "a name alone"),
        ("!k", &[("k", DoesNotExist)], "a name after an exclamation mark"),
        (" ! k ", &[("k", DoesNotExist)], "spaces around a name"),
        ("k in (b,a,b)", &[("k", In(list(&["a", "b"])))], "a set is sorted and has no repetition"),
        ("k notin (a)", &[("k", NotIn(list(&["a"])))], "a set of one value"),
        ("k in(a)", &[("k", In(list(&["a"])))], "no space before a parenthesis"),
        ("  k  in  (  a  ,  b  )  ", &[("k", In(list(&["a", "b"])))], "spaces around values"),
        ("k in ()", &[("k", In(list(&[""])))], "empty parentheses have one empty value, as in label selectors"),
        ("k in (,a)", &[("k", In(list(&["", "a"])))], "an empty value"),
        ("k in (a b)", &[("k", In(list(&["a b"])))], "a space within a value"),
        (r"k in (\ a\ , b\,c)", &[("k", In(list(&[" a ", "b,c"])))], "escaped spaces and commas"),
        (r"k in (\(\),\\\=)", &[("k", In(list(&["()", r"\="])))], "escaped parentheses and signs"),
        ("k>5", &[("k", GreaterThan(5))], "greater"),
        ("k > -5", &[("k", GreaterThan(-5))], "spaces around a sign, and a negative integer"),
        ("k<5,j", &[("j", Exists), ("k", LessThan(5))], "less, and another term"),
        ("k>=5,j", &[("j", Exists), ("k", GreaterOrEqual(5))], "at least"),
        ("k<=5,j", &[("j", Exists), ("k", LessOrEqual(5))], "at most"),
        ("k^=ab,j", &[("j", Exists), ("k", StartsWith("ab".into()))], "a prefix"),
        (r"k^=a\,b,j", &[("j", Exists), ("k", StartsWith("a,b".into()))], "a prefix with a comma"),
        ("k^= a,j", &[("j", Exists), ("k", StartsWith(" a".into()))], "the spaces of a prefix count, as of a value"),
        ("k=a,j", &[("j", Exists), ("k", equal("a"))], "upstream's operator beside one of fieldcache"),
        ("k==a,j", &[("j", Exists), ("k", equal("a"))], "the long form of ="),
        ("k= a,j", &[("j", Exists), ("k", equal(" a"))], "the spaces of a value count"),
        ("k=x(y,j", &[("j", Exists), ("k", equal("x(y"))], "parentheses of a value are not a set"),
        ("k!=,j", &[("j", Exists), ("k", Operator::not_equal_to(""))], "an empty value"),
        (",k,,j,", &[("j", Exists), ("k", Exists)], "empty terms are left out"),
        ("in", &[("in", Exists)], "a field with the name of an operator"),
    ];
    for (text, expected, reason) in rows {
        let selector = FieldSelector::parse(text).unwrap_or_else(|error| panic!("{reason}: {text}: {error}"));
        let found: Vec<_> =
            selector.requirements.iter().map(|one| (one.label.as_str(), one.operator.clone())).collect();
        assert_eq!(found, expected, "{reason}: {text}");
        assert!(selector.is_extended, "{reason}: {text}");
        assert_eq!(selector.extended, None, "{reason}: {text}");
    }
}

#[test]
fn an_invalid_operand_is_reported_with_its_operator() {
    for (text, message, offset) in [
        ("k>x", r#"invalid field selector: the operator > needs an integer, not "x""#, 2),
        ("j,k<=1.5", r#"invalid field selector: the operator <= needs an integer, not "1.5""#, 5),
        (
            "k<9223372036854775808,j",
            r#"invalid field selector: the operator < needs an integer, not "9223372036854775808""#,
            2,
        ),
        ("k>", r#"invalid field selector: the operator > needs an integer, not """#, 2),
        (
            "k^=,j",
            "invalid field selector: the operator ^= needs a prefix: use only the name of the field to select objects that have a value",
            3,
        ),
        (r"k^=\x,j", r"invalid field selector: invalid escape sequence: \x", 3),
        ("k in (a,b", "invalid field selector: a list of values has no closing parenthesis", 6),
        ("k in (a=b,c)", r"invalid field selector: write \= in a list of values", 7),
        ("k in ((a),c)", r"invalid field selector: write \( in a list of values", 6),
        (r"k in (a\x,c)", r"invalid field selector: invalid escape sequence: \x", 7),
        // Texts that have no operator of fieldcache keep kube-apiserver's words.
        ("k in", "invalid selector: 'k in'; can't understand 'k in'", 0),
        ("k in a", "invalid selector: 'k in a'; can't understand 'k in a'", 0),
        ("k between (a)", "invalid selector: 'k between (a)'; can't understand 'k between (a)'", 0),
        ("k in (a) b", "invalid selector: 'k in (a) b'; can't understand 'k in (a) b'", 0),
        ("!k in (a)", "invalid selector: '!k in (a)'; can't understand '!k in (a)'", 0),
        ("j k", "invalid selector: 'j k'; can't understand 'j k'", 0),
        ("!", "invalid selector: '!'; can't understand '!'", 0),
        ("(k)", "invalid selector: '(k)'; can't understand '(k)'", 0),
    ] {
        let error = FieldSelector::parse(text).unwrap_err();
        assert_eq!((&*error.message, error.offset), (message, offset), "{text}");
    }
}

#[test]
fn a_text_that_kube_apiserver_can_parse_keeps_its_reading() {
    for (text, extended, reason) in [
        ("k=a", None, "equality"),
        ("k=a>5", None, "signs within a value"),
        ("k=a in (b)", None, "words within a value"),
        ("k>=5", Some("k>=5"), "the label may be `k>`"),
        ("k^=a,j=b", Some("j=b,k^=a"), "the second reading is of all terms"),
        ("k >= 5", Some("k>=5"), "spaces"),
        (" k=a", None, "no operator of fieldcache, so kube-apiserver's error remains"),
        (" k=a,k>=5", Some("k=a,k>=5"), "spaces beside an operator of fieldcache"),
        (r"k in (a\=b)", Some(r"k=a\=b"), "a set of one value prints as ="),
        ("k>=x", None, "not an integer"),
        ("a!b=c", None, "no operator of fieldcache"),
    ] {
        let selector = FieldSelector::parse(text).unwrap_or_else(|error| panic!("{reason}: {text}: {error}"));
        assert_eq!(selector.requirements, FieldSelector::parse_as_kubernetes(text, 9).unwrap().requirements, "{text}");
        let found = selector
            .extended
            .as_ref()
            .map(|requirements| requirements.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
        assert_eq!(found.as_deref(), extended, "{reason}: {text}");
        assert!(!selector.is_extended, "{reason}: {text}");
    }
}

#[test]
fn requirements_of_one_reading_only_are_not_certain() {
    for (text, expected) in [
        ("metadata.name=a", "metadata.name=a"),
        ("metadata.name=a,k>=5", "metadata.name=a"),
        ("k^=x,metadata.name=a", "metadata.name=a"),
        (" metadata.name=a,j=b,k>=5", "j=b"),
        // The set would have the value `b,metadata.name=a`.
        (r"k in (a\=b\,metadata.name\=a)", ""),
        ("k>5,metadata.name=a", "k>5,metadata.name=a"),
    ] {
        let selector = FieldSelector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let certain: Vec<String> = selector.certain().map(ToString::to_string).collect();
        assert_eq!(certain.join(","), expected, "{text}");
    }
}

#[test]
fn long_selectors_are_bounded() {
    let many = |term: &str| [term; 5].join(",");
    for text in [many("k"), many("k>5"), many("k in (a,b,c,d,e,f)")] {
        let error = FieldSelector::parse_at_most(&text, 4).unwrap_err();
        assert_eq!(error.message, "the field selector has more than 4 terms: send several requests", "{text}");
        assert!(FieldSelector::parse_at_most(&text, 5).is_ok(), "{text}");
    }
    // The values of a set are not terms.
    assert!(FieldSelector::parse_at_most("k in (a,b,c,d,e,f)", 1).is_ok());
}

fn operators() -> impl Strategy<Value = Operator> {
    let value = || "[a-c\\\\,=() ]{0,4}";
    let values = || collection::btree_set(value(), 1..4).prop_map(|values| values.into_iter().collect::<Vec<_>>());
    prop_oneof![
        values().prop_map(Operator::In),
        values().prop_map(Operator::NotIn),
        Just(Operator::Exists),
        Just(Operator::DoesNotExist),
        proptest::num::i64::ANY.prop_map(Operator::GreaterThan),
        proptest::num::i64::ANY.prop_map(Operator::LessThan),
        proptest::num::i64::ANY.prop_map(Operator::GreaterOrEqual),
        proptest::num::i64::ANY.prop_map(Operator::LessOrEqual),
        "[a-c\\\\,=() ]{1,4}".prop_map(Operator::StartsWith),
    ]
}

proptest! {
    #[test]
    fn a_printed_selector_is_read_back(terms in collection::vec((sample::select(vec!["k", "spec.size", "in"]), operators()), 0..5)) {
        let requirements: Vec<FieldRequirement> = terms
            .into_iter()
            .map(|(label, operator)| FieldRequirement { label: label.to_owned(), operator })
            .collect();
        let printed = FieldSelector { requirements: requirements.clone(), ..FieldSelector::default() }.to_string();
        let read = FieldSelector::parse(&printed).map_err(|error| proptest::test_runner::TestCaseError::fail(format!("{printed}: {error}")))?;
        // A text that kube-apiserver can parse too has the extended reading as the second one.
        let found = read.extended.unwrap_or(read.requirements);
        prop_assert_eq!(found.len(), requirements.len(), "{}", printed);
        for requirement in requirements {
            prop_assert!(found.contains(&requirement), "{}: {:?}", printed, requirement);
        }
    }

    #[test]
    fn any_text_is_read_or_rejected(text in "[a-c!=<>^(), \\\\in05]{0,24}") {
        // Must return. A reading as kube-apiserver has it comes first.
        let parsed = FieldSelector::parse(&text);
        match FieldSelector::parse_as_kubernetes(&text, usize::MAX) {
            Ok(kubernetes) => prop_assert_eq!(parsed.unwrap().requirements, kubernetes.requirements),
            Err(_) => prop_assert!(parsed.is_err() || parsed.is_ok_and(|selector| selector.is_extended)),
        }
    }

    #[test]
    fn certain_requirements_are_in_both_readings(text in "(metadata.name|k|in|[a!=<>^(), \\\\0]){0,12}") {
        let Ok(selector) = FieldSelector::parse(&text) else { return Ok(()) };
        for requirement in selector.certain() {
            prop_assert!(selector.requirements.contains(requirement));
            if let Some(extended) = &selector.extended {
                prop_assert!(extended.contains(requirement), "{}", text);
            }
        }
    }
}
