//! The selectable fields of built-in types, as data.
//!
//! Upstream keeps two lists that do not always agree: the labels that a kind's conversion function accepts (kubernetes
//! `pkg/apis/*/conversion.go`, AddFieldLabelConversionFunc) and the values that its registry strategy fills in
//! (`pkg/registry/*/strategy.go`, ToSelectableFields). One row here has both, for Kubernetes 1.32 to 1.37, with the
//! path of the value in the JSON of the wire. It replaces the declarative tags that KEP-4358 leaves to later.
//! A kind without a row accepts metadata.name and metadata.namespace, on cluster-scoped objects too.

use crate::model::Scope;
use crate::model::quote;

/// A kind with selectable fields of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct BuiltInFields {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Versions that share the row.
    pub versions: &'static [&'static str],
    /// Kind.
    pub kind: &'static str,
    /// Whether metadata.namespace is accepted; metadata.name always is.
    pub namespace: bool,
    /// The error for a label that is not accepted.
    pub refusal: LabelErrorFormat,
    /// Accepted labels besides metadata.name and metadata.namespace.
    pub labels: &'static [Label],
}

/// A label that a kind accepts.
#[derive(Debug, PartialEq, Eq)]
pub struct Label {
    /// The label.
    pub label: &'static str,
    /// What it reads.
    pub source: LabelSource,
}

/// What a label reads.
#[derive(Debug, PartialEq, Eq)]
pub enum LabelSource {
    /// A value of the object.
    Value {
        /// Paths on the wire, the first one with a non-empty text counts; `[0]` is the first element of a list.
        paths: &'static [&'static str],
        /// `string`, `integer` or `boolean`.
        kind: &'static str,
        /// The text when no path has one.
        when_absent: &'static str,
        /// Whether the published form names that text although it is empty.
        names_default: bool,
        /// For users; given where the label alone would mislead.
        description: &'static str,
    },
    /// Another label; not published.
    Alias(&'static str),
    /// Nothing: reads as the empty text on every object; not published.
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

const fn text(label: &'static str, paths: &'static [&'static str]) -> Label {
    described(label, paths, "")
}

const fn described(label: &'static str, paths: &'static [&'static str], description: &'static str) -> Label {
    value(label, paths, "string", "", description)
}

const fn value(
    label: &'static str,
    paths: &'static [&'static str],
    kind: &'static str,
    when_absent: &'static str,
    description: &'static str,
) -> Label {
    let names_default = !when_absent.is_empty();
    Label { label, source: LabelSource::Value { paths, kind, when_absent, names_default, description } }
}

/// The table, in alphabetical order of group and kind.
pub const TABLE: &[BuiltInFields] = &[
    BuiltInFields {
        group: "",
        versions: &["v1"],
        kind: "Event",
        namespace: true,
        refusal: LabelErrorFormat::NotSupported,
        labels: &[
            text("involvedObject.kind", &[".involvedObject.kind"]),
            text("involvedObject.namespace", &[".involvedObject.namespace"]),
            text("involvedObject.name", &[".involvedObject.name"]),
            text("involvedObject.uid", &[".involvedObject.uid"]),
            text("involvedObject.apiVersion", &[".involvedObject.apiVersion"]),
            text("involvedObject.resourceVersion", &[".involvedObject.resourceVersion"]),
            text("involvedObject.fieldPath", &[".involvedObject.fieldPath"]),
            text("reason", &[".reason"]),
            text("reportingComponent", &[".reportingComponent"]),
            described(
                "source",
                &[".source.component", ".reportingComponent"],
                "The value of source.component or, where that is empty, of reportingComponent.",
            ),
            text("type", &[".type"]),
        ],
    },
    BuiltInFields {
        group: "",
        versions: &["v1"],
        kind: "Namespace",
        namespace: false,
        refusal: LabelErrorFormat::NotSupported,
        labels: &[text("status.phase", &[".status.phase"])],
    },
    BuiltInFields {
        group: "",
        versions: &["v1"],
        kind: "Node",
        namespace: false,
        refusal: LabelErrorFormat::NotSupported,
        labels: &[value("spec.unschedulable", &[".spec.unschedulable"], "boolean", "false", "")],
    },
    BuiltInFields {
        group: "",
        versions: &["v1"],
        kind: "Pod",
        namespace: true,
        refusal: LabelErrorFormat::NotSupported,
        labels: &[
            text("spec.nodeName", &[".spec.nodeName"]),
            Label { label: "spec.host", source: LabelSource::Alias("spec.nodeName") },
            text("spec.restartPolicy", &[".spec.restartPolicy"]),
            text("spec.schedulerName", &[".spec.schedulerName"]),
            text("spec.serviceAccountName", &[".spec.serviceAccountName"]),
            value("spec.hostNetwork", &[".spec.hostNetwork"], "boolean", "false", ""),
            text("status.phase", &[".status.phase"]),
            Label {
                label: "status.podIP",
                source: LabelSource::Value {
                    paths: &[".status.podIPs[0].ip", ".status.podIP"],
                    kind: "string",
                    when_absent: "",
                    names_default: true,
                    description: "The first of status.podIPs; a Pod's further addresses are not selectable.",
                },
            },
            Label { label: "status.podIPs", source: LabelSource::NeverPopulated },
            text("status.nominatedNodeName", &[".status.nominatedNodeName"]),
        ],
    },
    BuiltInFields {
        group: "",
        versions: &["v1"],
        kind: "ReplicationController",
        namespace: true,
        refusal: LabelErrorFormat::NotSupported,
        labels: &[value("status.replicas", &[".status.replicas"], "integer", "0", "")],
    },
    BuiltInFields {
        group: "",
        versions: &["v1"],
        kind: "Secret",
        namespace: true,
        refusal: LabelErrorFormat::NotSupported,
        labels: &[text("type", &[".type"])],
    },
    BuiltInFields {
        group: "",
        versions: &["v1"],
        kind: "Service",
        namespace: true,
        refusal: LabelErrorFormat::NotSupported,
        labels: &[text("spec.clusterIP", &[".spec.clusterIP"]), text("spec.type", &[".spec.type"])],
    },
    BuiltInFields {
        group: "batch",
        versions: &["v1"],
        kind: "Job",
        namespace: true,
        refusal: LabelErrorFormat::NotSupportedForJob,
        labels: &[value(
            "status.successful",
            &[".status.succeeded"],
            "integer",
            "0",
            "The value of status.succeeded, which is not selectable under its own name.",
        )],
    },
    BuiltInFields {
        group: "certificates.k8s.io",
        versions: &["v1"],
        kind: "CertificateSigningRequest",
        namespace: false,
        refusal: LabelErrorFormat::NotSupported,
        labels: &[text("spec.signerName", &[".spec.signerName"])],
    },
    BuiltInFields {
        group: "certificates.k8s.io",
        versions: &["v1beta1", "v1alpha1"],
        kind: "ClusterTrustBundle",
        namespace: false,
        refusal: LabelErrorFormat::NotSupported,
        labels: &[text("spec.signerName", &[".spec.signerName"])],
    },
    BuiltInFields {
        group: "certificates.k8s.io",
        versions: &["v1beta1", "v1alpha1"],
        kind: "PodCertificateRequest",
        namespace: false,
        refusal: LabelErrorFormat::NotSupported,
        labels: &[
            text("spec.signerName", &[".spec.signerName"]),
            text("spec.podName", &[".spec.podName"]),
            text("spec.nodeName", &[".spec.nodeName"]),
        ],
    },
    BuiltInFields {
        group: "events.k8s.io",
        versions: &["v1"],
        kind: "Event",
        namespace: true,
        refusal: LabelErrorFormat::NotSupported,
        labels: &[
            text("regarding.kind", &[".regarding.kind"]),
            text("regarding.namespace", &[".regarding.namespace"]),
            text("regarding.name", &[".regarding.name"]),
            text("regarding.uid", &[".regarding.uid"]),
            text("regarding.apiVersion", &[".regarding.apiVersion"]),
            text("regarding.resourceVersion", &[".regarding.resourceVersion"]),
            text("regarding.fieldPath", &[".regarding.fieldPath"]),
            text("reason", &[".reason"]),
            text("reportingController", &[".reportingController"]),
            text("type", &[".type"]),
        ],
    },
    BuiltInFields {
        group: "resource.k8s.io",
        versions: &["v1", "v1beta2", "v1beta1", "v1alpha3"],
        kind: "ResourceSlice",
        namespace: false,
        refusal: LabelErrorFormat::NotSupportedForResourceSlice,
        labels: &[text("spec.nodeName", &[".spec.nodeName"]), text("spec.driver", &[".spec.driver"])],
    },
];

/// The row of a kind; `None` for the many without one.
pub fn find(group: &str, version: &str, kind: &str) -> Option<&'static BuiltInFields> {
    TABLE.iter().find(|row| row.group == group && row.kind == kind && row.versions.contains(&version))
}

/// One entry of `x-kubernetes-selectable-fields` in KEP-4358's form for built-in types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// fieldPath.
    pub field_path: &'static str,
    /// default: the value when the source is absent; given when it is not empty, or to stress that it is.
    pub default: Option<&'static str>,
    /// description: given where the label alone would mislead.
    pub description: Option<&'static str>,
}

/// What a built-in kind publishes: metadata.name and metadata.namespace first, where they are accepted. Aliases and
/// labels that are never populated are accepted but not published.
pub fn published(group: &str, version: &str, kind: &str, scope: Scope) -> Vec<Published> {
    let row = find(group, version, kind);
    let mut entries = vec![Published { field_path: "metadata.name", default: None, description: None }];
    if row.is_none_or(|row| row.namespace) {
        let is_empty = scope == Scope::Cluster;
        entries.push(Published {
            field_path: "metadata.namespace",
            default: is_empty.then_some(""),
            description: is_empty.then_some("Accepted, but always empty: objects of this kind have no namespace."),
        });
    }
    for label in row.map_or(&[][..], |row| row.labels) {
        if let LabelSource::Value { when_absent, names_default, description, .. } = label.source {
            entries.push(Published {
                field_path: label.label,
                default: names_default.then_some(when_absent),
                description: (!description.is_empty()).then_some(description),
            });
        }
    }
    entries
}
