//! Combined requirements, compared with all requirements one by one.

use crate::query::simplify::{Values, simplified};
use crate::selector::Operator;

const TEXTS: [&str; 8] = ["", "a", "ab", "abc", "b", "5", "7", "07"];

fn operators() -> Vec<Operator> {
    let list = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    let mut operators = vec![
        Operator::In(Vec::new()),
        Operator::In(list(&["", "a"])),
        Operator::In(list(&["5", "a", "ab"])),
        Operator::NotIn(list(&[""])),
        Operator::NotIn(list(&["5", "a"])),
        Operator::NotIn(list(&["ab", "b"])),
        Operator::Exists,
        Operator::DoesNotExist,
        Operator::GreaterThan(5),
        Operator::GreaterOrEqual(5),
        Operator::LessThan(7),
        Operator::LessOrEqual(5),
    ];
    operators.extend(["a", "ab", "abc", "b"].map(|prefix| Operator::StartsWith(prefix.to_owned())));
    operators
}

/// Whether a subject with these texts meets the requirement.
fn is_met(operator: &Operator, values: Values, texts: &[&str]) -> bool {
    match values {
        Values::OneLabel => operator.matches_label(texts.first().copied()),
        Values::OneOfField | Values::Several => operator.matches_field(|found| texts.iter().any(|text| found(text))),
    }
}

#[test]
fn combined_requirements_select_what_all_of_them_select() {
    let operators = operators();
    let one = TEXTS.map(|text| vec![text]).to_vec();
    let mut several = one.clone();
    several.extend(TEXTS.iter().flat_map(|left| TEXTS.map(|right| vec![*left, right])));
    several.push(Vec::new());
    let mut labels = one.clone();
    labels.push(Vec::new());
    for (values, subjects) in [(Values::OneLabel, labels), (Values::OneOfField, one), (Values::Several, several)] {
        for (first, second) in operators.iter().flat_map(|first| operators.iter().map(move |second| (first, second))) {
            for third in &operators {
                let terms = [first, second, third, first].map(|operator| ((), operator.clone()));
                let kept = simplified(terms.into_iter(), |()| values);
                for texts in &subjects {
                    let expected = [first, second, third].iter().all(|operator| is_met(operator, values, texts));
                    let found = kept.iter().all(|((), operator)| is_met(operator, values, texts));
                    assert_eq!(found, expected, "{first:?}, {second:?}, {third:?} of {texts:?}: {kept:?}");
                }
            }
        }
    }
}

#[test]
fn a_subject_keeps_at_most_one_requirement_of_a_kind() {
    let prefixes = |first: &str, count: usize| -> Vec<Operator> {
        let nested = (1..=count).map(|length| Operator::StartsWith("a".repeat(length)));
        std::iter::once(Operator::StartsWith(first.to_owned())).chain(nested).collect()
    };
    let longest = |count: usize| Operator::StartsWith("a".repeat(count));
    let starts = |text: &str| Operator::StartsWith(text.to_owned());
    let nothing = Operator::In(Vec::new());
    for (what, values, operators, expected) in [
        ("an unrelated prefix and many nested ones", Values::OneOfField, prefixes("0", 120), vec![nothing.clone()]),
        ("the same for a label", Values::OneLabel, prefixes("0", 120), vec![nothing.clone()]),
        ("nested ones", Values::OneOfField, prefixes("a", 120), vec![longest(120)]),
        ("a field of several values", Values::Several, prefixes("0", 120), vec![starts("0"), longest(120)]),
        (
            "the lowest one is not the shortest",
            Values::Several,
            vec![starts("ab"), starts("a"), starts("abc"), starts("abb")],
            vec![starts("abb"), starts("abc")],
        ),
        (
            "a set and a prefix",
            Values::OneOfField,
            vec![starts("a"), Operator::In(vec!["ab".to_owned(), "b".to_owned()]), Operator::not_equal_to("x")],
            vec![Operator::equal_to("ab")],
        ),
        (
            "sets of a label",
            Values::OneLabel,
            vec![Operator::equal_to("a"), Operator::equal_to("b"), Operator::Exists],
            vec![nothing],
        ),
    ] {
        let kept = simplified(operators.into_iter().map(|operator| ((), operator)), |()| values);
        let kept: Vec<Operator> = kept.into_iter().map(|((), operator)| operator).collect();
        assert_eq!(kept, expected, "{what}");
    }
}
