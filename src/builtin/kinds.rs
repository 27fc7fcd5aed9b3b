//! The table of built-in kinds, in the order in which kube-apiserver lists their groups.
//!
//! Group, version, kind, list kind, plural and scope are k8s-openapi's constants; the rest is written down here from
//! the storage of each resource (kubernetes `pkg/registry/*/*/storage/storage.go`: ShortNames, Categories, status).

use k8s_openapi::api::{
    admissionregistration::v1 as admissionregistration, apps::v1 as apps, autoscaling::v1 as autoscaling_v1,
    autoscaling::v2 as autoscaling, batch::v1 as batch, certificates::v1 as certificates,
    coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery, events::v1 as events,
    flowcontrol::v1 as flowcontrol, networking::v1 as networking, node::v1 as node, policy::v1 as policy,
    rbac::v1 as rbac, resource::v1 as resource, scheduling::v1 as scheduling, storage::v1 as storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration;
use k8s_openapi::{ClusterResourceScope, ListableResource, NamespaceResourceScope};
use schemars::{JsonSchema, SchemaGenerator};

use crate::model::{GroupVersion, Gvr, Scope};

/// One built-in kind in one version.
#[derive(Clone, Copy, Debug)]
pub struct BuiltinKind {
    /// Group, empty for core.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Kind of a list.
    pub list_kind: &'static str,
    /// Plural name: the resource.
    pub plural: &'static str,
    /// Scope.
    pub scope: Scope,
    /// Short names.
    pub short_names: &'static [&'static str],
    /// Categories.
    pub categories: &'static [&'static str],
    /// Whether it has a status subresource.
    pub has_status: bool,
    /// Adds its schema, and those it refers to, to a generator. For `schemas`.
    pub(super) add_schema: fn(&mut SchemaGenerator),
    /// Names its definition, such as `io.k8s.api.core.v1.Pod`. For `schemas`.
    pub(super) definition: fn() -> std::borrow::Cow<'static, str>,
}

impl BuiltinKind {
    /// The singular name: the kind in lower case, for every built-in kind.
    pub fn singular(&self) -> String {
        self.kind.to_lowercase()
    }

    /// The resource.
    pub fn gvr(&self) -> Gvr {
        Gvr::new(self.group, self.version, self.plural)
    }

    /// Its group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group, self.version)
    }

    /// The name of its definition in OpenAPI documents.
    pub fn definition(&self) -> std::borrow::Cow<'static, str> {
        (self.definition)()
    }
}

/// Every kind. Groups in the order of kube-apiserver's `/apis`, the core group first; versions of a group in the order of
/// preference; kinds of a group-version by plural name, as discovery lists them.
pub const KINDS: &[BuiltinKind] = &[
    kind::<core::ConfigMap>(&["cm"], NONE),
    kind::<core::Endpoints>(&["ep"], NONE),
    kind::<core::Event>(&["ev"], NONE),
    kind::<core::LimitRange>(&["limits"], NONE),
    with_status(kind::<core::Namespace>(&["ns"], NONE)),
    with_status(kind::<core::Node>(&["no"], NONE)),
    with_status(kind::<core::PersistentVolumeClaim>(&["pvc"], NONE)),
    with_status(kind::<core::PersistentVolume>(&["pv"], NONE)),
    with_status(kind::<core::Pod>(&["po"], ALL)),
    kind::<core::PodTemplate>(NONE, NONE),
    with_status(kind::<core::ReplicationController>(&["rc"], ALL)),
    with_status(kind::<core::ResourceQuota>(&["quota"], NONE)),
    kind::<core::Secret>(NONE, NONE),
    kind::<core::ServiceAccount>(&["sa"], NONE),
    with_status(kind::<core::Service>(&["svc"], ALL)),
    with_status(kind::<apiregistration::APIService>(NONE, API_EXTENSIONS)),
    kind::<apps::ControllerRevision>(NONE, NONE),
    with_status(kind::<apps::DaemonSet>(&["ds"], ALL)),
    with_status(kind::<apps::Deployment>(&["deploy"], ALL)),
    with_status(kind::<apps::ReplicaSet>(&["rs"], ALL)),
    with_status(kind::<apps::StatefulSet>(&["sts"], ALL)),
    kind::<events::Event>(&["ev"], NONE),
    with_status(kind::<autoscaling::HorizontalPodAutoscaler>(&["hpa"], ALL)),
    with_status(kind::<autoscaling_v1::HorizontalPodAutoscaler>(&["hpa"], ALL)),
    with_status(kind::<batch::CronJob>(&["cj"], ALL)),
    with_status(kind::<batch::Job>(NONE, ALL)),
    with_status(kind::<certificates::CertificateSigningRequest>(&["csr"], NONE)),
    kind::<networking::IngressClass>(NONE, NONE),
    with_status(kind::<networking::Ingress>(&["ing"], NONE)),
    kind::<networking::IPAddress>(&["ip"], NONE),
    kind::<networking::NetworkPolicy>(&["netpol"], NONE),
    with_status(kind::<networking::ServiceCIDR>(NONE, NONE)),
    with_status(kind::<policy::PodDisruptionBudget>(&["pdb"], NONE)),
    kind::<rbac::ClusterRoleBinding>(NONE, NONE),
    kind::<rbac::ClusterRole>(NONE, NONE),
    kind::<rbac::RoleBinding>(NONE, NONE),
    kind::<rbac::Role>(NONE, NONE),
    kind::<storage::CSIDriver>(NONE, NONE),
    kind::<storage::CSINode>(NONE, NONE),
    kind::<storage::CSIStorageCapacity>(NONE, NONE),
    kind::<storage::StorageClass>(&["sc"], NONE),
    with_status(kind::<storage::VolumeAttachment>(NONE, NONE)),
    kind::<storage::VolumeAttributesClass>(&["vac"], NONE),
    kind::<admissionregistration::MutatingAdmissionPolicy>(NONE, API_EXTENSIONS),
    kind::<admissionregistration::MutatingAdmissionPolicyBinding>(NONE, API_EXTENSIONS),
    kind::<admissionregistration::MutatingWebhookConfiguration>(NONE, API_EXTENSIONS),
    with_status(kind::<admissionregistration::ValidatingAdmissionPolicy>(NONE, API_EXTENSIONS)),
    kind::<admissionregistration::ValidatingAdmissionPolicyBinding>(NONE, API_EXTENSIONS),
    kind::<admissionregistration::ValidatingWebhookConfiguration>(NONE, API_EXTENSIONS),
    with_status(kind::<apiextensions::CustomResourceDefinition>(&["crd", "crds"], API_EXTENSIONS)),
    kind::<scheduling::PriorityClass>(&["pc"], NONE),
    kind::<coordination::Lease>(NONE, NONE),
    kind::<node::RuntimeClass>(NONE, NONE),
    kind::<discovery::EndpointSlice>(NONE, NONE),
    kind::<resource::DeviceClass>(NONE, NONE),
    with_status(kind::<resource::ResourceClaim>(NONE, NONE)),
    kind::<resource::ResourceClaimTemplate>(NONE, NONE),
    kind::<resource::ResourceSlice>(NONE, NONE),
    with_status(kind::<flowcontrol::FlowSchema>(NONE, NONE)),
    with_status(kind::<flowcontrol::PriorityLevelConfiguration>(NONE, NONE)),
];

const NONE: &[&str] = &[];
const ALL: &[&str] = &["all"];
const API_EXTENSIONS: &[&str] = &["api-extensions"];

/// The kind of that group, version and kind.
pub fn of_kind(group: &str, version: &str, kind: &str) -> Option<&'static BuiltinKind> {
    KINDS.iter().find(|known| known.group == group && known.version == version && known.kind == kind)
}

/// Group-versions in the order of [`KINDS`].
pub fn group_versions() -> Vec<GroupVersion> {
    let mut found: Vec<GroupVersion> = Vec::new();
    for kind in KINDS {
        if !found.iter().any(|known| known.group == kind.group && known.version == kind.version) {
            found.push(kind.group_version());
        }
    }
    found
}

/// A scope of k8s-openapi as a value.
trait Scoped {
    const SCOPE: Scope;
}

impl Scoped for NamespaceResourceScope {
    const SCOPE: Scope = Scope::Namespaced;
}

impl Scoped for ClusterResourceScope {
    const SCOPE: Scope = Scope::Cluster;
}

const fn kind<K>(short_names: &'static [&'static str], categories: &'static [&'static str]) -> BuiltinKind
where
    K: ListableResource + JsonSchema,
    K::Scope: Scoped,
{
    BuiltinKind {
        group: K::GROUP,
        version: K::VERSION,
        kind: K::KIND,
        list_kind: K::LIST_KIND,
        plural: K::URL_PATH_SEGMENT,
        scope: <K::Scope as Scoped>::SCOPE,
        short_names,
        categories,
        has_status: false,
        add_schema: |generator| {
            generator.subschema_for::<K>();
        },
        definition: K::schema_name,
    }
}

const fn with_status(kind: BuiltinKind) -> BuiltinKind {
    BuiltinKind { has_status: true, ..kind }
}
