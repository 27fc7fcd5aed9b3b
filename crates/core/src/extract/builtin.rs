//! Selectable fields of built-in kinds: the types of their table entries. The rows themselves are in `builtin::table`.
//!
//! Upstream has two lists that do not always agree. A kind's conversion function lists the labels that it accepts
//! (kubernetes `pkg/apis/*/conversion.go`, AddFieldLabelConversionFunc). Its registry strategy lists the values that it
//! fills in (`pkg/registry/*/strategy.go`, ToSelectableFields). [`BuiltinFields`] has both, for Kubernetes 1.32 to
//! 1.37, with the path of the value in the JSON of the wire. It replaces the declarative tags that KEP-4358 leaves to
//! later. A kind without them accepts metadata.name and metadata.namespace, on cluster-scoped objects too.

use crate::model::Scope;
use crate::model::quote;

/// The selectable fields of a kind that has some of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct BuiltinFields {
    /// The versions of the kind that have these fields.
    pub versions: &'static [&'static str],
    /// Whether metadata.namespace is accepted; metadata.name always is.
    pub namespace: bool,
    /// The error for a label that is not accepted.
    pub refusal: LabelErrorFormat,
    /// Accepted labels besides metadata.name and metadata.namespace.
    pub labels: &'static [SelectableLabel],
}

/// A label that a kind accepts.
#[derive(Debug, PartialEq, Eq)]
pub struct SelectableLabel {
    /// The label.
    pub label: &'static str,
    /// Where its value comes from.
    pub source: LabelSource,
}

/// Where the value of a label comes from.
#[derive(Debug, PartialEq, Eq)]
pub enum LabelSource {
    /// A value of the object.
    Value {
        /// Paths on the wire, the first one with a non-empty text counts; `[0]` is the first element of a list.
        paths: &'static [&'static str],
        /// `string`, `integer` or `boolean`.
        kind: &'static str,
        /// The text if no path has one.
        when_absent: &'static str,
        /// Whether the published field states `when_absent` as its default.
        names_default: bool,
        /// For users; given where the label alone would mislead.
        description: &'static str,
    },
    /// Another label; not published.
    Alias(&'static str),
    /// No value: the label reads as the empty text on every object; not published.
    NeverPopulated,
}

/// Formats of the errors for labels that are not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelErrorFormat {
    /// Custom resources, and kinds with a conversion function of the usual form.
    NotSupported,
    /// batch Job.
    NotSupportedForJob,
    /// resource.k8s.io ResourceSlice, which names its group and version.
    NotSupportedForResourceSlice,
    /// Kinds without a conversion function.
    NotKnown,
}

impl LabelErrorFormat {
    /// kube-apiserver's message for an unsupported label.
    pub fn message(self, version: &str, label: &str) -> String {
        match self {
            LabelErrorFormat::NotSupported => format!("field label not supported: {label}"),
            LabelErrorFormat::NotSupportedForJob => format!("field label {} not supported for Job", quote(label)),
            LabelErrorFormat::NotSupportedForResourceSlice => {
                format!("field label not supported for resource.k8s.io/{version}, Kind=ResourceSlice: {label}")
            }
            LabelErrorFormat::NotKnown => format!(
                "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                quote(label)
            ),
        }
    }
}

/// A label whose value is a string: the text at the first of `paths` that has one.
pub const fn text(label: &'static str, paths: &'static [&'static str]) -> SelectableLabel {
    described(label, paths, "")
}

/// Like [`text`], with a description for users.
pub const fn described(
    label: &'static str,
    paths: &'static [&'static str],
    description: &'static str,
) -> SelectableLabel {
    value(label, paths, "string", "", description)
}

/// Like [`described`], for values of any type. `kind` is `string`, `integer` or `boolean`; `when_absent` is the text if
/// no path has one.
pub const fn value(
    label: &'static str,
    paths: &'static [&'static str],
    kind: &'static str,
    when_absent: &'static str,
    description: &'static str,
) -> SelectableLabel {
    let names_default = !when_absent.is_empty();
    SelectableLabel { label, source: LabelSource::Value { paths, kind, when_absent, names_default, description } }
}

/// One entry of `x-kubernetes-selectable-fields` in KEP-4358's form for built-in types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedField {
    /// fieldPath.
    pub field_path: &'static str,
    /// default: the value when the source is absent; given when it is not empty, or to stress that it is.
    pub default: Option<&'static str>,
    /// description: given where the label alone would mislead.
    pub description: Option<&'static str>,
}

/// The selectable fields that a built-in kind publishes: first metadata.name, and metadata.namespace if it is accepted.
/// Aliases and labels that are never populated are accepted but not published. `row` is `None` for a kind without
/// fields of its own.
pub fn published(row: Option<&'static BuiltinFields>, scope: Scope) -> Vec<PublishedField> {
    let mut entries = vec![PublishedField { field_path: "metadata.name", default: None, description: None }];
    if row.is_none_or(|row| row.namespace) {
        let is_empty = scope == Scope::Cluster;
        entries.push(PublishedField {
            field_path: "metadata.namespace",
            default: is_empty.then_some(""),
            description: is_empty.then_some("Accepted, but always empty: objects of this kind have no namespace."),
        });
    }
    for label in row.map_or(&[][..], |row| row.labels) {
        if let LabelSource::Value { when_absent, names_default, description, .. } = label.source {
            entries.push(PublishedField {
                field_path: label.label,
                default: names_default.then_some(when_absent),
                description: (!description.is_empty()).then_some(description),
            });
        }
    }
    entries
}
