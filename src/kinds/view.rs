//! View: a selection over stores with its own URL, and optionally a grant of access.

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::absence::Absence;
use super::conditions::Conditions;
use super::selectors::{FieldSelectorSpec, LabelSelectorSpec};

/// What the View shows, and to which users.
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
    doc = "View shows a selection of cached resources, read-only, under a URL of its own. The URL can be the server of any kubeconfig. For clients of this URL, no objects exist outside of the selection.",
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
        description = "Whose permissions apply"
    ),
    printcolumn(
        name = "Consistency",
        type_ = "string",
        json_path = ".spec.consistency",
        description = "Consistency of reads",
        priority = 1
    ),
    printcolumn(
        name = "URL",
        type_ = "string",
        json_path = ".status.endpoint.url",
        description = "URL of the View",
        priority = 1
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Reason of the Ready condition"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        description = "Human-readable message of the Ready condition",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.authorization == 'Caller' || self.resources.all(shown, !has(shown.permittedNamespaces) || !shown.permittedNamespaces)",
    "message": "permittedNamespaces needs authorization Caller: it shows the namespaces in which the caller has the permission itself",
    "fieldPath": ".resources",
}, {
    "rule": "self.authorization == 'Caller' || !has(self.consumer) || (!has(self.consumer.matchLabelKeys) || size(self.consumer.matchLabelKeys) == 0) && (!has(self.consumer.mismatchLabelKeys) || size(self.consumer.mismatchLabelKeys) == 0)",
    "message": "matchLabelKeys and mismatchLabelKeys need authorization Caller: they use labels that anyone with update permission on the Pod can change, so they are not a security boundary",
    "fieldPath": ".consumer",
}]))]
pub struct ViewSpec {
    /// The resources that the View shows, 1 to 8, each once.
    #[schemars(length(min = 1, max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group", "resource"]))]
    pub resources: Vec<ViewResource>,
    /// Restricts the selection by values of the caller, so that each caller sees its own part. Absent: the selection is
    /// the same for all callers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<Consumer>,
    /// Whose permissions apply.
    ///
    /// Caller, the default: the caller needs the same permissions as without the View, in each namespace that the View
    /// shows.
    ///
    /// View: the permission to `use` the View is enough, so its users can read objects that they cannot read elsewhere.
    /// To create or update such a View, a user needs the permission to list and watch its resources in all namespaces.
    #[serde(default)]
    pub authorization: Authorization,
    /// Consistency of reads.
    ///
    /// Eventual, the default: the state of the store, usually some milliseconds behind the API server.
    ///
    /// Strong: at least as new as the state of the API server when the request arrives. A read takes up to 1.4 seconds
    /// longer if the store must first catch up with the API server.
    #[serde(default)]
    pub consistency: Consistency,
    /// Paths of fields in the stored object that this release does not know, because the CRD is of a newer release. The
    /// restrictions of these fields cannot be enforced.
    #[serde(skip)]
    #[schemars(skip)]
    pub unknown: Vec<String>,
    /// Why the spec is not in memory: then the other fields are empty. `None`: the spec is in memory.
    #[serde(skip)]
    #[schemars(skip)]
    pub absent: Option<Absence>,
}

/// A resource, and the conditions that its objects must meet to be shown. All conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.namespaceSelector) || !has(self.namespaces) || size(self.namespaces) == 0",
        "message": "set namespaces or namespaceSelector, not both",
        "fieldPath": ".namespaceSelector",
    },
    {
        "rule": "!has(self.permittedNamespaces) || !self.permittedNamespaces || !has(self.namespaceSelector) && (!has(self.namespaces) || size(self.namespaces) == 0)",
        "message": "set only one of namespaces, namespaceSelector and permittedNamespaces",
        "fieldPath": ".permittedNamespaces",
    },
]))]
pub struct ViewResource {
    /// The API group of the resource. Empty, which is the default, for the core group.
    #[serde(default)]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [{
        "rule": "self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
        "message": "must be an API group such as stable.example.com, without a version, or empty for the core group",
    }]))]
    pub group: String,
    /// The plural name of the resource, in lower case, such as shirts. A FieldCache must cache the resource.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = [{
        "rule": "self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "message": "must be the plural name of a resource such as shirts: in lower case, without a group or subresource",
    }]))]
    pub resource: String,
    /// Show only objects in these namespaces. The View shows no objects in other namespaces. One list or one watch
    /// reads all of these namespaces, with one resourceVersion. Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "set"), inner(length(min = 1, max = 63), pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")))]
    pub namespaces: Vec<String>,
    /// Show only objects in namespaces with these labels. This requires a FieldCache of namespaces without a scope.
    /// Must not be set together with namespaces or permittedNamespaces. Absent or empty: no restriction.
    ///
    /// When a namespace starts or stops to match, the watches of the View end with 410 (Expired), and clients list
    /// again.
    ///
    /// With authorization Caller, a read of all namespaces requires the permission in all namespaces of the cluster, or
    /// in each namespace that matches. If no namespace matches, or more than 256, it requires the permission in all
    /// namespaces of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelectorSpec>,
    /// Show only objects of namespaces in which the caller has the permission to list the resource; for a watch, to
    /// watch it. For the resource namespaces: only the Namespaces that the caller may get. Callers with the permission in
    /// all namespaces see all. For other callers, the namespaces whose RoleBindings name them are reviewed, at most 4096.
    /// This needs a FieldCache of rolebindings.rbac.authorization.k8s.io without a scope. When the permissions of the
    /// caller change, its watches of the View end with 410 (Expired), and clients list again. A changed RoleBinding is
    /// noticed within a second, a changed Role within five minutes. Only with authorization Caller. Must not be set
    /// together with namespaces or namespaceSelector. Absent or false: no restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permitted_namespaces: Option<bool>,
    /// Show only objects with these labels. Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelectorSpec>,
    /// Show only objects with these values of selectable fields. Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelectorSpec>,
    /// Parts of the objects that the View does not show, and that no selector can use, such as .spec.secret. Absent or
    /// empty: whole objects are shown.
    ///
    /// Each item is a path of field names. Write a name with a dot in brackets and quotes:
    /// .metadata.annotations['example.com/key']. Below a list, the path applies to each element. A path applies to all
    /// served versions of the resource. Labels cannot be left out. All paths of prune and keep together have at most
    /// 256 names.
    ///
    /// If prune is not empty, the View also leaves out copies of data inside the object: the names of the pruned fields
    /// in metadata.managedFields, and the annotations in which tools store the applied object. These are annotations of
    /// kubectl apply (kubectl.kubernetes.io/last-applied-configuration), kapp, Rancher, OpenShift, Banzai Cloud and
    /// kube-apiserver. The condition Pruned lists the annotations.
    ///
    /// The View shows other copies, such as copies in other annotations, in status or in embedded objects, unless they
    /// are pruned too. .metadata.annotations prunes all annotations. Other resources also contain copies:
    /// ControllerRevisions, ReplicaSets of earlier templates, Events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        inner(length(min = 2, max = 512), pattern(r#"^([.][^][.'"]+)([.][^][.'"]+|\[('[^']+'|"[^"]+")\])*$"#)),
        extend("x-kubernetes-list-type" = "set", "x-kubernetes-validations" = [{
            "rule": "self.all(path, !path.matches('^[.](apiVersion|kind|metadata([.](name|namespace|uid|resourceVersion)|[[].(name|namespace|uid|resourceVersion).[]])?)$') && !path.matches('^[.]metadata([.]labels([.[]|$)|[[].labels.[]])'))",
            "message": "apiVersion, kind, metadata.name, metadata.namespace, metadata.uid, metadata.resourceVersion and metadata.labels cannot be left out: clients identify and select objects by them",
        }])
    )]
    pub prune: Vec<String>,
    /// Parts of the objects that the View shows, such as .spec.color. The View leaves out everything else, as with
    /// prune, and no selector can use it. Absent or empty: everything is kept, except what prune names.
    ///
    /// The paths are written as those of prune. If both are set, the View shows what keep names and prune does not.
    /// apiVersion, kind, metadata.name, metadata.namespace, metadata.uid and metadata.resourceVersion are shown in any
    /// case.
    ///
    /// Label selectors of clients can use only labels that are kept; .metadata.labels keeps all labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        inner(length(min = 2, max = 512), pattern(r#"^([.][^][.'"]+)([.][^][.'"]+|\[('[^']+'|"[^"]+")\])*$"#)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub keep: Vec<String>,
}

/// Restricts the selection by values of the caller. A caller without one of these values gets 403.
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
    /// Selectable fields, each with the value of the caller's own token that it must have. Absent or empty: no
    /// restriction.
    ///
    /// For NodeName, PodName and PodUID, the token must be bound to a Pod. PodName and ServiceAccountName are unique
    /// only within a namespace, so use them together with Namespace. With authorization View, the condition
    /// ConsumerNamespaced warns if Namespace is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub fields: Vec<ConsumerField>,
    /// Keys of labels that an object must have with the same value as the caller's own Pod. Keys of labels that the Pod
    /// does not have are ignored. Only with authorization Caller, because labels of Pods are not a security boundary.
    /// Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "set"), inner(length(min = 1, max = 317)))]
    pub match_label_keys: Vec<String>,
    /// Keys of labels that an object must not have with the same value as the caller's own Pod. Keys of labels that the
    /// Pod does not have are ignored. Only with authorization Caller. Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "set"), inner(length(min = 1, max = 317)))]
    pub mismatch_label_keys: Vec<String>,
}

/// A selectable field, and the value of the caller's token that it must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerField {
    /// The name of the field in field selectors, such as spec.nodeName.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,
    /// The value of the caller's token: NodeName, PodName, PodUID, Namespace or ServiceAccountName.
    pub value: ConsumerValue,
}

/// A claim of a caller's token.
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

/// Whose permissions apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Authorization {
    /// The caller's own, for each resource and namespace.
    #[default]
    Caller,
    /// The permission to use the View.
    View,
}

/// Consistency of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Consistency {
    /// The state of the store.
    #[default]
    Eventual,
    /// At least as fresh as the request.
    Strong,
}

super::string_enum::string_enum!(ConsumerValue, ["NodeName", "PodName", "PodUID", "Namespace", "ServiceAccountName"]);
super::string_enum::string_enum!(Authorization, ["Caller", "View"]);
super::string_enum::string_enum!(Consistency, ["Eventual", "Strong"]);

/// The observed state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ViewStatus {
    /// Accepted: the spec is valid.
    ///
    /// Ready: the View is served at its endpoint.
    ///
    /// Pruned: which copies of the left-out data the View leaves out as well, such as managedFields and annotations, and
    /// where copies can remain. Only with prune or keep.
    ///
    /// ConsumerNamespaced, only as False and only with authorization View: spec.consumer.fields uses PodName or
    /// ServiceAccountName without Namespace. A user who may create Pods or ServiceAccounts in another namespace can then
    /// choose the name, and so what the View shows. Add a field with the value Namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Conditions")]
    pub conditions: Vec<Condition>,
    /// Where the View is served. `fieldcache kubeconfig NAME` prints a kubeconfig for it.
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
    /// The CA certificates that sign the certificate of the server, as PEM in base64. Absent: the CAs that the client
    /// trusts by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ca_bundle")]
    pub ca_bundle: Option<ByteString>,
}

/// The schema of caBundle.
fn ca_bundle(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "format": "byte", "maxLength": 262_144})
}
