//! Fields of affinity and tolerations that the Kubernetes API does not have, which an API server drops with a warning.
//!
//! People copy fields from proposals: requiredDuringSchedulingRequiredDuringExecution was never built, matchLabelSelector
//! became matchLabelKeys. A dropped field changes where a Pod may run, so that silence would be an answer to another
//! question. Other parts of a Pod are not looked at.

use serde_json::Value;

use crate::selector::{Problem, Reason};

/// The shape of a document: which members an object may have, and what they are.
#[derive(Clone, Copy)]
enum Shape {
    /// Anything: not looked into.
    Any,
    /// A list of these.
    List(&'static Shape),
    /// An object with these members.
    Object(&'static [(&'static str, Shape)]),
}

const REQUIREMENT: Shape = Shape::Object(&[("key", Shape::Any), ("operator", Shape::Any), ("values", Shape::Any)]);
const LABEL_SELECTOR: Shape =
    Shape::Object(&[("matchLabels", Shape::Any), ("matchExpressions", Shape::List(&REQUIREMENT))]);
const NODE_TERM: Shape =
    Shape::Object(&[("matchExpressions", Shape::List(&REQUIREMENT)), ("matchFields", Shape::List(&REQUIREMENT))]);
const POD_TERM: Shape = Shape::Object(&[
    ("labelSelector", LABEL_SELECTOR),
    ("namespaces", Shape::Any),
    ("namespaceSelector", LABEL_SELECTOR),
    ("topologyKey", Shape::Any),
    ("matchLabelKeys", Shape::Any),
    ("mismatchLabelKeys", Shape::Any),
]);
const POD_AFFINITY: Shape = Shape::Object(&[
    ("requiredDuringSchedulingIgnoredDuringExecution", Shape::List(&POD_TERM)),
    (
        "preferredDuringSchedulingIgnoredDuringExecution",
        Shape::List(&Shape::Object(&[("weight", Shape::Any), ("podAffinityTerm", POD_TERM)])),
    ),
]);
const AFFINITY: Shape = Shape::Object(&[
    (
        "nodeAffinity",
        Shape::Object(&[
            (
                "requiredDuringSchedulingIgnoredDuringExecution",
                Shape::Object(&[("nodeSelectorTerms", Shape::List(&NODE_TERM))]),
            ),
            (
                "preferredDuringSchedulingIgnoredDuringExecution",
                Shape::List(&Shape::Object(&[("weight", Shape::Any), ("preference", NODE_TERM)])),
            ),
        ]),
    ),
    ("podAffinity", POD_AFFINITY),
    ("podAntiAffinity", POD_AFFINITY),
]);
const TOLERATION: Shape = Shape::Object(&[
    ("key", Shape::Any),
    ("operator", Shape::Any),
    ("value", Shape::Any),
    ("effect", Shape::Any),
    ("tolerationSeconds", Shape::Any),
]);

/// What does not have the shape of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Misfits {
    /// Warnings in the words of an API server.
    pub(super) unknown: Vec<String>,
    /// A list where an object belongs, or the other way round: such a document is refused. Told here because serde would
    /// take a list for the members of an object in their order.
    pub(super) misshapen: Vec<Problem>,
}

/// Looks through the affinity and the tolerations of a Pod or pod template whose spec stands at `path`.
pub(super) fn misfits(document: &Value, path: &str) -> Misfits {
    let mut found = Misfits::default();
    let pod = Shape::Object(&[]);
    for (value, path) in [
        (Some(document), path.trim_end_matches("spec").trim_end_matches('.')),
        (document.get("metadata"), "metadata"),
        (document.get("spec"), path),
    ] {
        if let Some(value) = value.filter(|value| !value.is_object()) {
            walk(value, pod, path, &mut found);
        }
    }
    let Some(spec) = document.get("spec") else { return found };
    if let Some(affinity) = spec.get("affinity") {
        walk(affinity, AFFINITY, &format!("{path}.affinity"), &mut found);
    }
    if let Some(tolerations) = spec.get("tolerations") {
        walk(tolerations, Shape::List(&TOLERATION), &format!("{path}.tolerations"), &mut found);
    }
    found
}

fn walk(value: &Value, shape: Shape, path: &str, found: &mut Misfits) {
    let expected = match (shape, value) {
        (_, Value::Null)
        | (Shape::Any, _)
        | (Shape::List(_), Value::Array(_))
        | (Shape::Object(_), Value::Object(_)) => None,
        (Shape::List(_), _) => Some("must be a list"),
        (Shape::Object(_), _) => Some("must be an object"),
    };
    found.misshapen.extend(expected.map(|expected| Problem::with_value(Reason::TypeInvalid, path, value, expected)));
    match (shape, value) {
        (Shape::List(item), Value::Array(values)) => {
            for (index, value) in values.iter().enumerate() {
                walk(value, *item, &format!("{path}[{index}]"), found);
            }
        }
        (Shape::Object(members), Value::Object(values)) => {
            for (name, value) in values {
                let path = format!("{path}.{name}");
                match members.iter().find(|(member, _)| member == name) {
                    Some((_, shape)) => walk(value, *shape, &path, found),
                    None => found.unknown.push(format!("unknown field {}{}", crate::model::quote(&path), hint(name))),
                }
            }
        }
        _ => {}
    }
}

/// What a proposal's field became.
fn hint(name: &str) -> &'static str {
    match name {
        "requiredDuringSchedulingRequiredDuringExecution" => {
            " (never built: what no longer fits keeps running; `fieldcache place --misplaced` finds it)"
        }
        "matchLabelSelector" | "matchLabelSelectors" => " (use matchLabelKeys and mismatchLabelKeys)",
        _ => "",
    }
}
