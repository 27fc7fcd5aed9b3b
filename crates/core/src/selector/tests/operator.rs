//! Operators: their meaning and their dialects, one row each.

use crate::selector::{Dialect, Escapes, OperandError, Operator, OperatorName, TestedValues};

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

/// An operator, its text on a label, and the dialects that have it.
type Row = (Operator, &'static str, &'static [Dialect]);

fn rows() -> [Row; 11] {
    use Dialect::{KubernetesFieldText, NodeSelector, Requirement, View};
    [
        (Operator::equal_to("5"), "k=5", &[KubernetesFieldText, Requirement, NodeSelector, View]),
        (Operator::In(texts(&["5", "a"])), "k in (5,a)", &[KubernetesFieldText, Requirement, NodeSelector, View]),
        (Operator::not_equal_to("5"), "k!=5", &[KubernetesFieldText, Requirement, NodeSelector, View]),
        (Operator::NotIn(texts(&["5", "a"])), "k notin (5,a)", &[KubernetesFieldText, Requirement, NodeSelector, View]),
        (Operator::Exists, "k", &[Requirement, NodeSelector, View]),
        (Operator::DoesNotExist, "!k", &[Requirement, NodeSelector, View]),
        (Operator::GreaterThan(4), "k>4", &[NodeSelector]),
        (Operator::LessThan(6), "k<6", &[NodeSelector]),
        (Operator::GreaterOrEqual(5), "k>=5", &[]),
        (Operator::LessOrEqual(5), "k<=5", &[]),
        (Operator::StartsWith("a".to_owned()), "k^=a", &[]),
    ]
}

#[test]
fn every_operator_has_a_row() {
    for (position, name) in OperatorName::ALL.into_iter().enumerate() {
        assert_eq!(name as usize, position, "compact selections count on the order");
        assert!(rows().iter().any(|(operator, ..)| operator.name() == name), "{name:?}");
    }
}

#[test]
fn dialects_have_the_operators_of_kubernetes() {
    for (operator, text, dialects) in rows() {
        assert_eq!(operator.text("k", Escapes::NONE).to_string(), text);
        let name = operator.name();
        for dialect in [Dialect::KubernetesFieldText, Dialect::Requirement, Dialect::NodeSelector, Dialect::View] {
            let expected = dialects.contains(&dialect).then_some(name);
            assert_eq!(OperatorName::read(name.as_str(), dialect), expected, "{name:?} {dialect:?}");
        }
    }
    assert_eq!(OperatorName::read("in", Dialect::View), None);
}

#[test]
fn an_operator_holds_for_labels_and_fields() {
    // Values of a label (absent, empty, 5, a, 6), then those of a field (none, empty, 5, a and 6).
    let expected = [
        ([false, false, true, false, false], [false, false, true, false]),
        ([false, false, true, true, false], [false, false, true, true]),
        ([true, true, false, true, true], [true, true, false, true]),
        ([true, true, false, false, true], [true, true, false, false]),
        ([false, true, true, true, true], [false, false, true, true]),
        ([true, false, false, false, false], [true, true, false, false]),
        ([false, false, true, false, true], [false, false, true, true]),
        ([false, false, true, false, false], [false, false, true, false]),
        ([false, false, true, false, true], [false, false, true, true]),
        ([false, false, true, false, false], [false, false, true, false]),
        ([false, false, false, true, false], [false, false, false, true]),
    ];
    for ((operator, text, _), (labels, fields)) in rows().into_iter().zip(expected) {
        let of_label = [None, Some(""), Some("5"), Some("a"), Some("6")].map(|value| operator.matches_label(value));
        assert_eq!(of_label, labels, "label {text}");
        let of_field = [&[][..], &[""], &["5"], &["a", "6"]]
            .map(|values| operator.matches_field(|found| values.iter().any(|value| found(value))));
        assert_eq!(of_field, fields, "field {text}");
        match operator.values() {
            TestedValues::Listed(values) => assert_eq!(values, operator.listed(), "{text}"),
            TestedValues::Any => assert!(operator.accepts(""), "{text}"),
            TestedValues::Integers(range) => {
                for value in 3..8 {
                    assert_eq!(range.contains(&value), operator.accepts(&value.to_string()), "{text} {value}");
                }
            }
            TestedValues::WithPrefix(prefix) => assert!(operator.accepts(prefix) && !operator.accepts("5"), "{text}"),
        }
    }
}

#[test]
fn operands_are_checked_and_sorted() {
    for (name, values, expected) in [
        (OperatorName::In, &["b", "a", "b"][..], Ok(Operator::In(texts(&["a", "b"])))),
        (OperatorName::NotIn, &["a"], Ok(Operator::not_equal_to("a"))),
        (OperatorName::NotIn, &[], Err(OperandError::Missing)),
        (OperatorName::Exists, &[], Ok(Operator::Exists)),
        (OperatorName::DoesNotExist, &["a"], Err(OperandError::Forbidden)),
        (OperatorName::GreaterThan, &["5"], Ok(Operator::GreaterThan(5))),
        (OperatorName::LessThan, &["five"], Err(OperandError::NotInteger("five".to_owned()))),
        (OperatorName::LessThan, &["5", "6"], Err(OperandError::NotOne)),
        (OperatorName::GreaterOrEqual, &["-5"], Ok(Operator::GreaterOrEqual(-5))),
        (OperatorName::LessOrEqual, &[], Err(OperandError::NotOne)),
        (OperatorName::StartsWith, &["a"], Ok(Operator::StartsWith("a".to_owned()))),
        (OperatorName::StartsWith, &[""], Err(OperandError::Missing)),
        (OperatorName::StartsWith, &["a", "b"], Err(OperandError::NotOne)),
    ] {
        assert_eq!(name.with_values(texts(values)), expected, "{name:?} {values:?}");
    }
}

#[test]
fn bounds_beyond_all_integers_select_nothing() {
    for operator in [Operator::GreaterThan(i64::MAX), Operator::LessThan(i64::MIN)] {
        assert_eq!(operator.values(), TestedValues::Listed(&[]), "{operator:?}");
        assert!(!operator.accepts(&i64::MAX.to_string()) && !operator.accepts(&i64::MIN.to_string()), "{operator:?}");
    }
}

#[test]
fn the_narrower_of_two_bounds_implies_the_other() {
    use Operator::{GreaterOrEqual, LessOrEqual, LessThan, StartsWith};
    let prefix = |text: &str| StartsWith(text.to_owned());
    for (one, other, expected, reason) in [
        (GreaterOrEqual(3), GreaterOrEqual(5), Some(GreaterOrEqual(5)), "the higher lower bound"),
        (LessOrEqual(3), LessOrEqual(5), Some(LessOrEqual(3)), "the lower upper bound"),
        (prefix("ab"), prefix("a"), Some(prefix("ab")), "the longer prefix"),
        (prefix("ab"), prefix("b"), None, "prefixes that exclude each other on one value"),
        (LessOrEqual(3), LessThan(5), None, "different operators"),
    ] {
        assert_eq!(one.narrower(&other), expected, "{reason}");
        assert_eq!(other.narrower(&one), expected, "{reason}, in the other order");
    }
}
