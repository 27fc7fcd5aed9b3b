//! View: a selection over stores under its own URL, and, if wanted, a right.

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::absence::Absence;
use super::conditions::Conditions;
use super::selectors::{FieldSelector, LabelSelector};

/// Most entries of spec.resources.
pub const MAX_RESOURCES: usize = 8;

/// What the View shows, and to whom.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "fieldcache.dev",
    version = "v1alpha1",
    kind = "View",
    plural = "views",
    singular = "view",
    shortname = "fcv",
    category = "fieldcache-dev",
    status = "ViewStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "View shows a selection of cached resources, read-only, under a URL of its own that serves as the server of any kubeconfig. Objects outside of the selection do not exist in it.",
    selectable = ".spec.authorization",
    selectable = ".spec.consistency",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the View is served"
    ),
    printcolumn(
        name = "Authorization",
        type_ = "string",
        json_path = ".spec.authorization",
        description = "Whose rights decide"
    ),
    printcolumn(
        name = "Consistency",
        type_ = "string",
        json_path = ".spec.consistency",
        description = "How fresh answers are",
        priority = 1
    ),
    printcolumn(
        name = "URL",
        type_ = "string",
        json_path = ".status.endpoint.url",
        description = "Where it is served",
        priority = 1
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why it is ready or not"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        description = "The same for people",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.authorization == 'Caller' || !has(self.consumer) || (!has(self.consumer.matchLabelKeys) || size(self.consumer.matchLabelKeys) == 0) && (!has(self.consumer.mismatchLabelKeys) || size(self.consumer.mismatchLabelKeys) == 0)",
    "message": "matchLabelKeys and mismatchLabelKeys follow labels that a Pod's owner may change, so they are no boundary: they need authorization Caller",
    "fieldPath": ".consumer",
}]))]
pub struct ViewSpec {
    /// The resources that the View shows, 1 to 8, each once.
    #[schemars(length(min = 1, max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group", "resource"]))]
    pub resources: Vec<ViewResource>,
    /// Values that the selection takes from who asks, so that each consumer sees its own part. Absent: everybody sees the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<Consumer>,
    /// Whose rights decide. Caller, the default: who asks must be allowed to do the same without the View, in each namespace
    /// that it shows. View: the right to `use` the View is enough, so it shows what its users may not read elsewhere; only who may list and watch the
    /// resources in all namespaces can make such a View.
    #[serde(default)]
    pub authorization: Authorization,
    /// How fresh answers are. Eventual, the default: as the copy is, usually some milliseconds behind the API server. Strong: not
    /// older than the request, which costs up to 1.4 seconds where the API server must be waited for.
    #[serde(default)]
    pub consistency: Consistency,
    /// Paths of members that this release does not know, as the definition of a newer one permits them: what they restrict could not be kept.
    #[serde(skip)]
    #[schemars(skip)]
    pub unknown: Vec<String>,
    /// Why the spec was left out, if it was: then it has no other members.
    #[serde(skip)]
    #[schemars(skip)]
    pub absent: Option<Absence>,
}

/// A resource, and what of it is shown. All parts must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ViewResource {
    /// The API group of the resource. Empty, which is the default, for the core group.
    #[serde(default)]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [{
        "rule": "self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
        "message": "must be an API group such as stable.example.com, without a version, or empty for the core group",
    }]))]
    pub group: String,
    /// The plural name of the resource, in lower case, such as shirts. A FieldCache must name it.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = [{
        "rule": "self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "message": "must be the plural name of a resource such as shirts: in lower case, without a group or subresource",
    }]))]
    pub resource: String,
    /// Show only objects of these namespaces; any other looks empty. Several are one list and one watch with one
    /// resourceVersion. Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "set"), inner(length(min = 1, max = 63), pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")))]
    pub namespaces: Vec<String>,
    /// Show only objects with these labels. Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Show only objects with these values, answered from the indexes. Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// Parts of the objects that the View neither shows nor answers from, such as .spec.secret. Each is a path of member names; a name with
    /// a dot stands in brackets and quotes: .metadata.annotations['example.com/key']. Where a list stands on the way, each of its
    /// elements is meant. Labels cannot be left out. With any path, the View also leaves out copies inside the object: every name under a
    /// path in metadata.managedFields, and the annotations in which kubectl apply
    /// (kubectl.kubernetes.io/last-applied-configuration), kapp, Rancher, OpenShift and kube-apiserver keep what was applied; the condition Pruned
    /// lists them. Copies in other annotations, in status or in embedded objects are shown unless they are pruned too, for example with
    /// .metadata.annotations. Other resources keep copies of their own: ControllerRevisions, ReplicaSets of earlier templates, Events. A
    /// path means the same in each served version of the resource. Absent or empty: whole objects are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        inner(length(min = 2, max = 512), pattern(r#"^([.][^][.'"]+)([.][^][.'"]+|\[('[^']+'|"[^"]+")\])*$"#)),
        extend("x-kubernetes-list-type" = "set", "x-kubernetes-validations" = [{
            "rule": "self.all(path, !path.matches('^[.](apiVersion|kind|metadata([.](name|namespace|uid|resourceVersion)|[[].(name|namespace|uid|resourceVersion).[]])?)$') && !path.matches('^[.]metadata([.]labels([.[]|$)|[[].labels.[]])'))",
            "message": "apiVersion, kind, metadata.name, metadata.namespace, metadata.uid, metadata.resourceVersion and metadata.labels cannot be left out: clients follow and select objects by them",
        }])
    )]
    pub prune: Vec<String>,
}

/// What is taken from who asks. A value that a caller does not have is refused with 403.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.fields) && size(self.fields) > 0 || has(self.matchLabelKeys) && size(self.matchLabelKeys) > 0 || has(self.mismatchLabelKeys) && size(self.mismatchLabelKeys) > 0",
        "message": "must have fields, matchLabelKeys or mismatchLabelKeys",
    },
    {
        "rule": "!has(self.matchLabelKeys) || !has(self.mismatchLabelKeys) || self.matchLabelKeys.all(key, !(key in self.mismatchLabelKeys))",
        "message": "a label key must not be in both matchLabelKeys and mismatchLabelKeys: nothing could be selected",
    },
]))]
pub struct Consumer {
    /// Selectable fields that must have a value out of the caller's own token. The token must be bound to a Pod for NodeName, PodName
    /// and PodUID. PodName and ServiceAccountName belong to one owner only together with Namespace: with authorization View, the condition
    /// ConsumerNamespaced warns of a View without it. Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub fields: Vec<ConsumerField>,
    /// Keys of labels that must have the same value as on the caller's own Pod; one that the Pod lacks is not asked for. Only
    /// with authorization Caller: a convenience, never a boundary. Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "set"), inner(length(min = 1, max = 317)))]
    pub match_label_keys: Vec<String>,
    /// Keys of labels that must not have the same value as on the caller's own Pod; one that the Pod lacks is not asked for.
    /// Only with authorization Caller. Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "set"), inner(length(min = 1, max = 317)))]
    pub mismatch_label_keys: Vec<String>,
}

/// A field and where its value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerField {
    /// The field, as a field selector names it, such as spec.nodeName.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,
    /// What of the caller's token it must equal: NodeName, PodName, PodUID, Namespace or ServiceAccountName.
    pub value: ConsumerValue,
}

/// A part of a caller's bound token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConsumerValue {
    /// The node on which the caller's Pod runs.
    NodeName,
    /// The name of the caller's Pod.
    PodName,
    /// The uid of the caller's Pod.
    PodUID,
    /// The namespace of the caller's ServiceAccount.
    Namespace,
    /// The name of the caller's ServiceAccount.
    ServiceAccountName,
}

/// Whose rights decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Authorization {
    /// The caller's own, on each resource and namespace.
    #[default]
    Caller,
    /// The right to use the View.
    View,
}

/// How fresh answers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Consistency {
    /// As the copy is.
    #[default]
    Eventual,
    /// Not older than the request.
    Strong,
}

super::definitions::string_enum!(ConsumerValue, ["NodeName", "PodName", "PodUID", "Namespace", "ServiceAccountName"]);
super::definitions::string_enum!(Authorization, ["Caller", "View"]);
super::definitions::string_enum!(Consistency, ["Eventual", "Strong"]);

/// What has become of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ViewStatus {
    /// Accepted: the spec is right and can be served. Ready: the View is served under its endpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Conditions")]
    pub conditions: Vec<Condition>,
    /// Where the View is served. `fieldcache kubeconfig NAME` makes a kubeconfig out of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Endpoint>,
}

/// Where a View is served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// The server URL for a kubeconfig.
    #[schemars(length(max = 2048))]
    pub url: String,
    /// The certificates by which the server is known, PEM in base64. Absent: any that the client trusts anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ca_bundle")]
    pub ca_bundle: Option<ByteString>,
}

fn ca_bundle(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "format": "byte", "maxLength": 262_144})
}
