//! Texts that the cells of several kinds share: labels, selectors, containers, lists that are cut.

use std::borrow::Cow;

use serde_json::Value;

use crate::json::Json;
use crate::selector::syntax::{label_key_errors, label_value_errors};

use super::read::{items, members, text, texts};

/// A map of texts as `a=1,b=2`, `<none>` when it is empty (apimachinery `labels.FormatLabels`). The printed pairs are
/// sorted, not the keys: `a-b=1` precedes `a=1`.
pub(super) fn labels(map: Json<'_>) -> String {
    let mut pairs: Vec<String> = members(map).map(|(key, value)| format!("{key}={}", text(value))).collect();
    pairs.sort_unstable();
    or_none(pairs.join(","))
}

/// A label selector; `<none>` when it is absent or empty, `<error>` when it is invalid (apimachinery `meta/v1`
/// FormatLabelSelector).
pub(super) fn selector(value: Json<'_>) -> String {
    bare_selector(value).map_or_else(|| "<error>".to_owned(), or_none)
}

/// A label selector in its text form, empty when it is absent or empty; `None` when it is invalid.
///
/// Unlike the text of [`crate::selector::label`], a set of one value stays a set, and a repeated value is repeated.
pub(super) fn bare_selector(value: Json<'_>) -> Option<String> {
    let mut requirements: Vec<(Cow<'_, str>, String)> = Vec::new();
    for (key, value) in members(value.at("matchLabels")) {
        if !label_value_errors(&text(value)).is_empty() {
            return None;
        }
        let printed = format!("{key}={}", text(value));
        requirements.push((key, printed));
    }
    for expression in items(value.at("matchExpressions")) {
        let key = text(expression.at("key"));
        let mut values = texts(expression.at("values"));
        if values.iter().any(|value| !label_value_errors(value).is_empty()) {
            return None;
        }
        values.sort_unstable();
        let printed = match (&*text(expression.at("operator")), values.is_empty()) {
            ("In", false) => format!("{key} in ({})", values.join(",")),
            ("NotIn", false) => format!("{key} notin ({})", values.join(",")),
            ("Exists", true) => key.clone().into_owned(),
            ("DoesNotExist", true) => format!("!{key}"),
            _ => return None,
        };
        requirements.push((key, printed));
    }
    if requirements.iter().any(|(key, _)| !label_key_errors(key).is_empty()) {
        return None;
    }
    requirements.sort_by(|(left, _), (right, _)| left.cmp(right));
    Some(requirements.into_iter().map(|(_, printed)| printed).collect::<Vec<_>>().join(","))
}

/// A label selector as Go prints the struct (its generated method String): upstream prints the parameters of a policy
/// binding like this.
pub(super) fn selector_struct(value: Json<'_>) -> String {
    let mut expressions = String::new();
    for expression in items(value.at("matchExpressions")) {
        let (key, operator) = (text(expression.at("key")), text(expression.at("operator")));
        let values = texts(expression.at("values")).join(" ");
        expressions.push_str(&format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},"));
    }
    let pairs: String =
        members(value.at("matchLabels")).map(|(key, value)| format!("{key}: {},", text(value))).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{pairs}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

/// The text, or `otherwise` if it is empty.
pub(super) fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text }
}

/// The text, or `<none>` if it is empty.
pub(super) fn or_none(text: String) -> String {
    or(text, "<none>")
}

/// The two cells with the names and the images of the containers. `pod` is the spec of a pod or of a pod template.
pub(super) fn containers(pod: Json<'_>) -> [Value; 2] {
    let join = |member: &str| {
        let listed: Vec<Cow<'_, str>> =
            items(pod.at("containers")).map(|container| text(container.at(member))).collect();
        Value::from(listed.join(","))
    };
    [join("name"), join("image")]
}

/// At most three entries, joined by commas, and how many more there are; `<unset>` if there is none, or only an empty
/// one.
pub(super) fn at_most_three(mut entries: impl Iterator<Item = String>) -> String {
    const SHOWN: usize = 3;
    let shown = entries.by_ref().take(SHOWN).collect::<Vec<_>>().join(",");
    match entries.count() {
        0 => or(shown, "<unset>"),
        more => format!("{shown} + {more} more..."),
    }
}

/// Access modes in their short forms, each once, in a fixed order.
pub(super) fn access_modes(modes: Json<'_>) -> String {
    let modes = texts(modes);
    [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")]
        .into_iter()
        .filter(|(mode, _)| modes.iter().any(|other| other == mode))
        .map(|(_, short)| short)
        .collect::<Vec<_>>()
        .join(",")
}

/// A quantity, which the API server sends in its canonical form; `0` if it is absent.
pub(super) fn quantity(value: Json<'_>) -> String {
    match value.as_number() {
        Some(number) => number.to_string(),
        None => value.as_str().map_or_else(|| "0".to_owned(), Cow::into_owned),
    }
}

/// The text in lower case, as Go converts it: character by character, without rules that depend on neighbours.
pub(super) fn lower(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// The subjects of a role binding that are of one kind, joined by commas.
pub(super) fn subjects(object: Json<'_>, kind: &str) -> String {
    let listed = items(object.at("subjects")).filter(|subject| text(subject.at("kind")) == kind).map(|subject| {
        let name = text(subject.at("name"));
        if kind == "ServiceAccount" { format!("{}/{name}", text(subject.at("namespace"))) } else { name.into_owned() }
    });
    listed.collect::<Vec<_>>().join(", ")
}
