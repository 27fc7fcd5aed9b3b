//! The built-in kinds of the groups with a name, which are all groups except core.

use k8s_openapi::{
    api::{
        admissionregistration::v1 as admissionregistration, apps::v1 as apps, autoscaling::v1 as autoscaling_v1,
        autoscaling::v2 as autoscaling, batch::v1 as batch, certificates::v1 as certificates,
        coordination::v1 as coordination, discovery::v1 as discovery, events::v1 as events,
        flowcontrol::v1 as flowcontrol, networking::v1 as networking, node::v1 as node, policy::v1 as policy,
        rbac::v1 as rbac, resource::v1 as resource, scheduling::v1 as scheduling, storage::v1 as storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
    kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration,
};

use super::super::deprecation::{Deprecation, Replacement};
use super::super::kind::{BuiltinKind, UNLISTED, ZeroValues};
use super::super::served_version::ServedVersion;
use crate::extract::builtin::{BuiltinFields, LabelErrorFormat, text, value};
use crate::model::Scope;
use crate::printer;
use crate::schema::metadata::NameRule;

use super::shared::{ALL, API_EXTENSIONS, served};

pub(super) const KINDS: &[BuiltinKind] = &[
    // apiregistration.k8s.io.
    BuiltinKind {
        group: "apiregistration.k8s.io",
        kind: "APIService",
        plural: "apiservices",
        scope: Scope::Cluster,
        categories: API_EXTENSIONS,
        has_status: true,
        name_rule: NameRule::PathSegment,
        zero_values: ZeroValues::OfAll(r#""spec":{"groupPriorityMinimum":0,"versionPriority":0},"status":{}"#),
        printer: &printer::cluster::API_SERVICE,
        versions: served![apiregistration::APIService],
        ..UNLISTED
    },
    // apps.
    BuiltinKind {
        group: "apps",
        kind: "ControllerRevision",
        plural: "controllerrevisions",
        scope: Scope::Namespaced,
        zero_values: ZeroValues::OfAll(r#""data":null,"revision":0"#),
        printer: &printer::workloads::CONTROLLER_REVISION,
        versions: served![apps::ControllerRevision],
        ..UNLISTED
    },
    BuiltinKind {
        group: "apps",
        kind: "DaemonSet",
        plural: "daemonsets",
        scope: Scope::Namespaced,
        short_names: &["ds"],
        categories: ALL,
        has_status: true,
        zero_values: ZeroValues::OfAll(
            r#""spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"updateStrategy":{}},"status":{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,"numberReady":0}"#,
        ),
        printer: &printer::workloads::DAEMON_SET,
        versions: served![apps::DaemonSet],
        ..UNLISTED
    },
    BuiltinKind {
        group: "apps",
        kind: "Deployment",
        plural: "deployments",
        scope: Scope::Namespaced,
        short_names: &["deploy"],
        categories: ALL,
        has_status: true,
        zero_values: ZeroValues::OfAll(
            r#""spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}"#,
        ),
        printer: &printer::workloads::DEPLOYMENT,
        versions: served![apps::Deployment],
        ..UNLISTED
    },
    BuiltinKind {
        group: "apps",
        kind: "ReplicaSet",
        plural: "replicasets",
        scope: Scope::Namespaced,
        short_names: &["rs"],
        categories: ALL,
        has_status: true,
        zero_values: ZeroValues::OfAll(
            r#""spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}}},"status":{"replicas":0}"#,
        ),
        printer: &printer::workloads::REPLICA_SET,
        versions: served![apps::ReplicaSet],
        ..UNLISTED
    },
    BuiltinKind {
        group: "apps",
        kind: "StatefulSet",
        plural: "statefulsets",
        scope: Scope::Namespaced,
        short_names: &["sts"],
        categories: ALL,
        has_status: true,
        zero_values: ZeroValues::OfAll(
            r#""spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"serviceName":"","updateStrategy":{}},"status":{"replicas":0,"availableReplicas":0}"#,
        ),
        printer: &printer::workloads::STATEFUL_SET,
        versions: served![apps::StatefulSet],
        ..UNLISTED
    },
    // events.k8s.io.
    BuiltinKind {
        group: "events.k8s.io",
        kind: "Event",
        plural: "events",
        scope: Scope::Namespaced,
        short_names: &["ev"],
        fields: Some(&BuiltinFields {
            versions: &["v1"],
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
        }),
        zero_values: ZeroValues::OfAll(
            r#""eventTime":null,"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null"#,
        ),
        printer: &printer::events::EVENT,
        versions: served![events::Event],
        ..UNLISTED
    },
    // autoscaling.
    BuiltinKind {
        group: "autoscaling",
        kind: "HorizontalPodAutoscaler",
        plural: "horizontalpodautoscalers",
        scope: Scope::Namespaced,
        short_names: &["hpa"],
        categories: ALL,
        has_status: true,
        zero_values: ZeroValues::OfVersions(&[
            (
                "v1",
                r#""spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},"status":{"currentReplicas":0,"desiredReplicas":0}"#,
            ),
            (
                "v2",
                r#""spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},"status":{"desiredReplicas":0,"currentMetrics":null}"#,
            ),
        ]),
        printer: &printer::autoscaling::HORIZONTAL_POD_AUTOSCALER,
        versions: served![autoscaling::HorizontalPodAutoscaler, autoscaling_v1::HorizontalPodAutoscaler],
        ..UNLISTED
    },
    // batch.
    BuiltinKind {
        group: "batch",
        kind: "CronJob",
        plural: "cronjobs",
        scope: Scope::Namespaced,
        short_names: &["cj"],
        categories: ALL,
        has_status: true,
        zero_values: ZeroValues::OfAll(
            r#""spec":{"schedule":"","jobTemplate":{"metadata":{},"spec":{"template":{"metadata":{},"spec":{"containers":null}}}}},"status":{}"#,
        ),
        printer: &printer::workloads::CRON_JOB,
        versions: served![batch::CronJob],
        ..UNLISTED
    },
    BuiltinKind {
        group: "batch",
        kind: "Job",
        plural: "jobs",
        scope: Scope::Namespaced,
        categories: ALL,
        has_status: true,
        fields: Some(&BuiltinFields {
            versions: &["v1"],
            namespace: true,
            refusal: LabelErrorFormat::NotSupportedForJob,
            labels: &[value(
                "status.successful",
                &[".status.succeeded"],
                "integer",
                "0",
                "The value of status.succeeded, which is not selectable under its own name.",
            )],
        }),
        zero_values: ZeroValues::OfAll(r#""spec":{"template":{"metadata":{},"spec":{"containers":null}}},"status":{}"#),
        printer: &printer::workloads::JOB,
        versions: served![batch::Job],
        ..UNLISTED
    },
    // certificates.k8s.io.
    BuiltinKind {
        group: "certificates.k8s.io",
        kind: "CertificateSigningRequest",
        plural: "certificatesigningrequests",
        scope: Scope::Cluster,
        short_names: &["csr"],
        has_status: true,
        fields: Some(&BuiltinFields {
            versions: &["v1"],
            namespace: false,
            refusal: LabelErrorFormat::NotSupported,
            labels: &[text("spec.signerName", &[".spec.signerName"])],
        }),
        zero_values: ZeroValues::OfAll(r#""spec":{"request":null,"signerName":""},"status":{}"#),
        printer: &printer::access::CERTIFICATE_SIGNING_REQUEST,
        versions: served![certificates::CertificateSigningRequest],
        ..UNLISTED
    },
    BuiltinKind {
        group: "certificates.k8s.io",
        kind: "ClusterTrustBundle",
        plural: "clustertrustbundles",
        scope: Scope::Cluster,
        name_rule: NameRule::PathSegment,
        fields: Some(&BuiltinFields {
            versions: &["v1beta1", "v1alpha1"],
            namespace: false,
            refusal: LabelErrorFormat::NotSupported,
            labels: &[text("spec.signerName", &[".spec.signerName"])],
        }),
        zero_values: ZeroValues::OfAll(r#""spec":{"trustBundle":""}"#),
        printer: &printer::access::CLUSTER_TRUST_BUNDLE,
        deprecations: &[
            Deprecation { version: "v1alpha1", since: 34, removed: Some(37), replacement: Replacement::None },
            Deprecation { version: "v1beta1", since: 37, removed: Some(40), replacement: Replacement::V1 },
        ],
        ..UNLISTED
    },
    BuiltinKind {
        group: "certificates.k8s.io",
        kind: "PodCertificateRequest",
        plural: "podcertificaterequests",
        scope: Scope::Namespaced,
        fields: Some(&BuiltinFields {
            versions: &["v1beta1", "v1alpha1"],
            namespace: false,
            refusal: LabelErrorFormat::NotSupported,
            labels: &[
                text("spec.signerName", &[".spec.signerName"]),
                text("spec.podName", &[".spec.podName"]),
                text("spec.nodeName", &[".spec.nodeName"]),
            ],
        }),
        zero_values: ZeroValues::OfAll(
            r#""spec":{"signerName":"","podName":"","podUID":"","serviceAccountName":"","serviceAccountUID":"","nodeName":"","nodeUID":"","pkixPublicKey":null,"proofOfPossession":null,"stubPKCS10Request":null},"status":{}"#,
        ),
        printer: &printer::access::POD_CERTIFICATE_REQUEST,
        deprecations: &[Deprecation { version: "v1beta1", since: 37, removed: Some(40), replacement: Replacement::V1 }],
        ..UNLISTED
    },
    // networking.k8s.io.
    BuiltinKind {
        group: "networking.k8s.io",
        kind: "IngressClass",
        plural: "ingressclasses",
        scope: Scope::Cluster,
        zero_values: ZeroValues::OfAll(r#""spec":{}"#),
        printer: &printer::network::INGRESS_CLASS,
        versions: served![networking::IngressClass],
        ..UNLISTED
    },
    BuiltinKind {
        group: "networking.k8s.io",
        kind: "Ingress",
        plural: "ingresses",
        scope: Scope::Namespaced,
        short_names: &["ing"],
        has_status: true,
        zero_values: ZeroValues::OfAll(r#""spec":{},"status":{"loadBalancer":{}}"#),
        printer: &printer::network::INGRESS,
        versions: served![networking::Ingress],
        ..UNLISTED
    },
    BuiltinKind {
        group: "networking.k8s.io",
        kind: "IPAddress",
        plural: "ipaddresses",
        scope: Scope::Cluster,
        short_names: &["ip"],
        zero_values: ZeroValues::OfAll(r#""spec":{}"#),
        printer: &printer::network::IP_ADDRESS,
        deprecations: &[
            Deprecation { version: "v1alpha1", since: 30, removed: Some(33), replacement: Replacement::None },
            Deprecation { version: "v1beta1", since: 34, removed: Some(37), replacement: Replacement::None },
        ],
        versions: served![networking::IPAddress],
        ..UNLISTED
    },
    BuiltinKind {
        group: "networking.k8s.io",
        kind: "NetworkPolicy",
        plural: "networkpolicies",
        scope: Scope::Namespaced,
        short_names: &["netpol"],
        zero_values: ZeroValues::OfAll(r#""spec":{"podSelector":{}}"#),
        printer: &printer::network::NETWORK_POLICY,
        versions: served![networking::NetworkPolicy],
        ..UNLISTED
    },
    BuiltinKind {
        group: "networking.k8s.io",
        kind: "ServiceCIDR",
        plural: "servicecidrs",
        scope: Scope::Cluster,
        has_status: true,
        zero_values: ZeroValues::OfAll(r#""spec":{},"status":{}"#),
        printer: &printer::network::SERVICE_CIDR,
        deprecations: &[
            Deprecation { version: "v1alpha1", since: 30, removed: Some(33), replacement: Replacement::None },
            Deprecation { version: "v1beta1", since: 34, removed: Some(37), replacement: Replacement::None },
        ],
        versions: served![networking::ServiceCIDR],
        ..UNLISTED
    },
    // policy.
    BuiltinKind {
        group: "policy",
        kind: "PodDisruptionBudget",
        plural: "poddisruptionbudgets",
        scope: Scope::Namespaced,
        short_names: &["pdb"],
        has_status: true,
        zero_values: ZeroValues::OfAll(
            r#""spec":{},"status":{"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0,"expectedPods":0}"#,
        ),
        printer: &printer::workloads::POD_DISRUPTION_BUDGET,
        versions: served![policy::PodDisruptionBudget],
        ..UNLISTED
    },
    // rbac.authorization.k8s.io.
    BuiltinKind {
        group: "rbac.authorization.k8s.io",
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        scope: Scope::Cluster,
        name_rule: NameRule::PathSegment,
        zero_values: ZeroValues::OfAll(r#""roleRef":{"apiGroup":"","kind":"","name":""}"#),
        printer: &printer::access::CLUSTER_ROLE_BINDING,
        versions: served![rbac::ClusterRoleBinding],
        ..UNLISTED
    },
    BuiltinKind {
        group: "rbac.authorization.k8s.io",
        kind: "ClusterRole",
        plural: "clusterroles",
        scope: Scope::Cluster,
        name_rule: NameRule::PathSegment,
        zero_values: ZeroValues::OfAll(r#""rules":null"#),
        printer: printer::shared::NAME_AND_CREATION,
        versions: served![rbac::ClusterRole],
        ..UNLISTED
    },
    BuiltinKind {
        group: "rbac.authorization.k8s.io",
        kind: "RoleBinding",
        plural: "rolebindings",
        scope: Scope::Namespaced,
        name_rule: NameRule::PathSegment,
        zero_values: ZeroValues::OfAll(r#""roleRef":{"apiGroup":"","kind":"","name":""}"#),
        printer: &printer::access::ROLE_BINDING,
        versions: served![rbac::RoleBinding],
        ..UNLISTED
    },
    BuiltinKind {
        group: "rbac.authorization.k8s.io",
        kind: "Role",
        plural: "roles",
        scope: Scope::Namespaced,
        name_rule: NameRule::PathSegment,
        zero_values: ZeroValues::OfAll(r#""rules":null"#),
        printer: printer::shared::NAME_AND_CREATION,
        versions: served![rbac::Role],
        ..UNLISTED
    },
    // storage.k8s.io.
    BuiltinKind {
        group: "storage.k8s.io",
        kind: "CSIDriver",
        plural: "csidrivers",
        scope: Scope::Cluster,
        zero_values: ZeroValues::OfAll(r#""spec":{}"#),
        printer: &printer::storage::CSI_DRIVER,
        versions: served![storage::CSIDriver],
        ..UNLISTED
    },
    BuiltinKind {
        group: "storage.k8s.io",
        kind: "CSINode",
        plural: "csinodes",
        scope: Scope::Cluster,
        zero_values: ZeroValues::OfAll(r#""spec":{"drivers":null}"#),
        printer: &printer::storage::CSI_NODE,
        versions: served![storage::CSINode],
        ..UNLISTED
    },
    BuiltinKind {
        group: "storage.k8s.io",
        kind: "CSIStorageCapacity",
        plural: "csistoragecapacities",
        scope: Scope::Namespaced,
        zero_values: ZeroValues::OfAll(r#""storageClassName":"""#),
        printer: printer::shared::NAME_AND_CREATION,
        versions: served![storage::CSIStorageCapacity],
        ..UNLISTED
    },
    BuiltinKind {
        group: "storage.k8s.io",
        kind: "StorageClass",
        plural: "storageclasses",
        scope: Scope::Cluster,
        short_names: &["sc"],
        zero_values: ZeroValues::OfAll(r#""provisioner":"""#),
        printer: &printer::storage::STORAGE_CLASS,
        versions: served![storage::StorageClass],
        ..UNLISTED
    },
    BuiltinKind {
        group: "storage.k8s.io",
        kind: "VolumeAttachment",
        plural: "volumeattachments",
        scope: Scope::Cluster,
        has_status: true,
        zero_values: ZeroValues::OfAll(
            r#""spec":{"attacher":"","source":{},"nodeName":""},"status":{"attached":false}"#,
        ),
        printer: &printer::storage::VOLUME_ATTACHMENT,
        versions: served![storage::VolumeAttachment],
        ..UNLISTED
    },
    BuiltinKind {
        group: "storage.k8s.io",
        kind: "VolumeAttributesClass",
        plural: "volumeattributesclasses",
        scope: Scope::Cluster,
        short_names: &["vac"],
        zero_values: ZeroValues::OfAll(r#""driverName":"""#),
        printer: &printer::storage::VOLUME_ATTRIBUTES_CLASS,
        deprecations: &[
            Deprecation { version: "v1alpha1", since: 32, removed: Some(35), replacement: Replacement::V1Since(34) },
            Deprecation { version: "v1beta1", since: 34, removed: Some(37), replacement: Replacement::V1 },
        ],
        versions: served![storage::VolumeAttributesClass],
        ..UNLISTED
    },
    // admissionregistration.k8s.io.
    BuiltinKind {
        group: "admissionregistration.k8s.io",
        kind: "MutatingAdmissionPolicy",
        plural: "mutatingadmissionpolicies",
        scope: Scope::Cluster,
        categories: API_EXTENSIONS,
        zero_values: ZeroValues::OfAll(r#""spec":{}"#),
        printer: &printer::policy::MUTATING_ADMISSION_POLICY,
        deprecations: &[
            Deprecation { version: "v1alpha1", since: 35, removed: Some(38), replacement: Replacement::None },
            Deprecation { version: "v1beta1", since: 37, removed: Some(40), replacement: Replacement::V1 },
        ],
        versions: served![admissionregistration::MutatingAdmissionPolicy],
        ..UNLISTED
    },
    BuiltinKind {
        group: "admissionregistration.k8s.io",
        kind: "MutatingAdmissionPolicyBinding",
        plural: "mutatingadmissionpolicybindings",
        scope: Scope::Cluster,
        categories: API_EXTENSIONS,
        zero_values: ZeroValues::OfAll(r#""spec":{}"#),
        printer: &printer::policy::MUTATING_ADMISSION_POLICY_BINDING,
        deprecations: &[
            Deprecation { version: "v1alpha1", since: 35, removed: Some(38), replacement: Replacement::None },
            Deprecation { version: "v1beta1", since: 37, removed: Some(40), replacement: Replacement::V1 },
        ],
        versions: served![admissionregistration::MutatingAdmissionPolicyBinding],
        ..UNLISTED
    },
    BuiltinKind {
        group: "admissionregistration.k8s.io",
        kind: "MutatingWebhookConfiguration",
        plural: "mutatingwebhookconfigurations",
        scope: Scope::Cluster,
        categories: API_EXTENSIONS,
        printer: &printer::policy::MUTATING_WEBHOOK_CONFIGURATION,
        versions: served![admissionregistration::MutatingWebhookConfiguration],
        ..UNLISTED
    },
    BuiltinKind {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingAdmissionPolicy",
        plural: "validatingadmissionpolicies",
        scope: Scope::Cluster,
        categories: API_EXTENSIONS,
        has_status: true,
        zero_values: ZeroValues::OfAll(r#""spec":{},"status":{}"#),
        printer: &printer::policy::VALIDATING_ADMISSION_POLICY,
        deprecations: &[Deprecation {
            version: "v1beta1",
            since: 31,
            removed: Some(34),
            replacement: Replacement::None,
        }],
        versions: served![admissionregistration::ValidatingAdmissionPolicy],
        ..UNLISTED
    },
    BuiltinKind {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingAdmissionPolicyBinding",
        plural: "validatingadmissionpolicybindings",
        scope: Scope::Cluster,
        categories: API_EXTENSIONS,
        zero_values: ZeroValues::OfAll(r#""spec":{}"#),
        printer: &printer::policy::VALIDATING_ADMISSION_POLICY_BINDING,
        deprecations: &[Deprecation {
            version: "v1beta1",
            since: 31,
            removed: Some(34),
            replacement: Replacement::None,
        }],
        versions: served![admissionregistration::ValidatingAdmissionPolicyBinding],
        ..UNLISTED
    },
    BuiltinKind {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingWebhookConfiguration",
        plural: "validatingwebhookconfigurations",
        scope: Scope::Cluster,
        categories: API_EXTENSIONS,
        printer: &printer::policy::VALIDATING_WEBHOOK_CONFIGURATION,
        versions: served![admissionregistration::ValidatingWebhookConfiguration],
        ..UNLISTED
    },
    // apiextensions.k8s.io.
    BuiltinKind {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        scope: Scope::Cluster,
        short_names: &["crd", "crds"],
        categories: API_EXTENSIONS,
        has_status: true,
        zero_values: ZeroValues::OfAll(
            r#""spec":{"group":"","names":{"plural":"","kind":""},"scope":"","versions":null},"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":null}"#,
        ),
        printer: printer::shared::NAME_AND_CREATION,
        versions: served![apiextensions::CustomResourceDefinition],
        ..UNLISTED
    },
    // scheduling.k8s.io.
    BuiltinKind {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        plural: "priorityclasses",
        scope: Scope::Cluster,
        short_names: &["pc"],
        zero_values: ZeroValues::OfAll(r#""value":0"#),
        printer: &printer::cluster::PRIORITY_CLASS,
        versions: served![scheduling::PriorityClass],
        ..UNLISTED
    },
    // coordination.k8s.io.
    BuiltinKind {
        group: "coordination.k8s.io",
        kind: "LeaseCandidate",
        plural: "leasecandidates",
        scope: Scope::Namespaced,
        zero_values: ZeroValues::OfAll(r#""spec":{"leaseName":"","binaryVersion":""}"#),
        printer: &printer::cluster::LEASE_CANDIDATE,
        deprecations: &[
            Deprecation { version: "v1alpha2", since: 35, removed: Some(38), replacement: Replacement::None },
            Deprecation { version: "v1beta1", since: 36, removed: Some(39), replacement: Replacement::None },
        ],
        ..UNLISTED
    },
    BuiltinKind {
        group: "coordination.k8s.io",
        kind: "Lease",
        plural: "leases",
        scope: Scope::Namespaced,
        zero_values: ZeroValues::OfAll(r#""spec":{}"#),
        printer: &printer::cluster::LEASE,
        versions: served![coordination::Lease],
        ..UNLISTED
    },
    // node.k8s.io.
    BuiltinKind {
        group: "node.k8s.io",
        kind: "RuntimeClass",
        plural: "runtimeclasses",
        scope: Scope::Cluster,
        zero_values: ZeroValues::OfAll(r#""handler":"""#),
        printer: &printer::cluster::RUNTIME_CLASS,
        versions: served![node::RuntimeClass],
        ..UNLISTED
    },
    // discovery.k8s.io.
    BuiltinKind {
        group: "discovery.k8s.io",
        kind: "EndpointSlice",
        plural: "endpointslices",
        scope: Scope::Namespaced,
        zero_values: ZeroValues::OfAll(r#""addressType":"","endpoints":null,"ports":null"#),
        printer: &printer::network::ENDPOINT_SLICE,
        versions: served![discovery::EndpointSlice],
        ..UNLISTED
    },
    // resource.k8s.io.
    BuiltinKind {
        group: "resource.k8s.io",
        kind: "DeviceClass",
        plural: "deviceclasses",
        scope: Scope::Cluster,
        zero_values: ZeroValues::OfAll(r#""spec":{}"#),
        deprecations: &[
            Deprecation { version: "v1beta1", since: 35, removed: Some(38), replacement: Replacement::None },
            Deprecation { version: "v1beta2", since: 36, removed: Some(39), replacement: Replacement::None },
        ],
        versions: served![resource::DeviceClass],
        ..UNLISTED
    },
    BuiltinKind {
        group: "resource.k8s.io",
        kind: "DeviceTaintRule",
        plural: "devicetaintrules",
        scope: Scope::Cluster,
        zero_values: ZeroValues::OfAll(r#""spec":{"taint":{"key":"","effect":""}},"status":{}"#),
        printer: &printer::devices::DEVICE_TAINT_RULE,
        deprecations: &[Deprecation {
            version: "v1alpha3",
            since: 36,
            removed: Some(39),
            replacement: Replacement::None,
        }],
        ..UNLISTED
    },
    BuiltinKind {
        group: "resource.k8s.io",
        kind: "ResourceClaim",
        plural: "resourceclaims",
        scope: Scope::Namespaced,
        has_status: true,
        zero_values: ZeroValues::OfAll(r#""spec":{"devices":{"requests":null}},"status":{}"#),
        printer: &printer::devices::RESOURCE_CLAIM,
        deprecations: &[
            Deprecation { version: "v1beta1", since: 35, removed: Some(38), replacement: Replacement::None },
            Deprecation { version: "v1beta2", since: 36, removed: Some(39), replacement: Replacement::None },
        ],
        versions: served![resource::ResourceClaim],
        ..UNLISTED
    },
    BuiltinKind {
        group: "resource.k8s.io",
        kind: "ResourceClaimTemplate",
        plural: "resourceclaimtemplates",
        scope: Scope::Namespaced,
        zero_values: ZeroValues::OfAll(r#""spec":{"metadata":{},"spec":{"devices":{"requests":null}}}"#),
        deprecations: &[
            Deprecation { version: "v1beta1", since: 35, removed: Some(38), replacement: Replacement::None },
            Deprecation { version: "v1beta2", since: 36, removed: Some(39), replacement: Replacement::None },
        ],
        versions: served![resource::ResourceClaimTemplate],
        ..UNLISTED
    },
    BuiltinKind {
        group: "resource.k8s.io",
        kind: "ResourcePoolStatusRequest",
        plural: "resourcepoolstatusrequests",
        scope: Scope::Cluster,
        zero_values: ZeroValues::OfAll(r#""spec":{"driver":""}"#),
        printer: &printer::devices::RESOURCE_POOL_STATUS_REQUEST,
        ..UNLISTED
    },
    BuiltinKind {
        group: "resource.k8s.io",
        kind: "ResourceSlice",
        plural: "resourceslices",
        scope: Scope::Cluster,
        fields: Some(&BuiltinFields {
            versions: &["v1", "v1beta2", "v1beta1", "v1alpha3"],
            namespace: false,
            refusal: LabelErrorFormat::NotSupportedForResourceSlice,
            labels: &[text("spec.nodeName", &[".spec.nodeName"]), text("spec.driver", &[".spec.driver"])],
        }),
        zero_values: ZeroValues::OfAll(
            r#""spec":{"driver":"","pool":{"name":"","generation":0,"resourceSliceCount":0}}"#,
        ),
        printer: &printer::devices::RESOURCE_SLICE,
        deprecations: &[
            Deprecation { version: "v1beta1", since: 35, removed: Some(38), replacement: Replacement::None },
            Deprecation { version: "v1beta2", since: 36, removed: Some(39), replacement: Replacement::None },
        ],
        versions: served![resource::ResourceSlice],
        ..UNLISTED
    },
    // flowcontrol.apiserver.k8s.io.
    BuiltinKind {
        group: "flowcontrol.apiserver.k8s.io",
        kind: "FlowSchema",
        plural: "flowschemas",
        scope: Scope::Cluster,
        has_status: true,
        zero_values: ZeroValues::OfAll(
            r#""spec":{"priorityLevelConfiguration":{"name":""},"matchingPrecedence":0},"status":{}"#,
        ),
        printer: &printer::policy::FLOW_SCHEMA,
        versions: served![flowcontrol::FlowSchema],
        ..UNLISTED
    },
    BuiltinKind {
        group: "flowcontrol.apiserver.k8s.io",
        kind: "PriorityLevelConfiguration",
        plural: "prioritylevelconfigurations",
        scope: Scope::Cluster,
        has_status: true,
        zero_values: ZeroValues::OfAll(r#""spec":{"type":""},"status":{}"#),
        printer: &printer::policy::PRIORITY_LEVEL_CONFIGURATION,
        versions: served![flowcontrol::PriorityLevelConfiguration],
        ..UNLISTED
    },
    // internal.apiserver.k8s.io.
    BuiltinKind {
        group: "internal.apiserver.k8s.io",
        kind: "StorageVersion",
        plural: "storageversions",
        scope: Scope::Cluster,
        zero_values: ZeroValues::OfAll(r#""spec":{},"status":{}"#),
        printer: &printer::cluster::STORAGE_VERSION,
        ..UNLISTED
    },
    // storagemigration.k8s.io.
    BuiltinKind {
        group: "storagemigration.k8s.io",
        kind: "StorageVersionMigration",
        plural: "storageversionmigrations",
        scope: Scope::Cluster,
        deprecations: &[
            Deprecation { version: "v1alpha1", since: 33, removed: Some(36), replacement: Replacement::None },
            Deprecation { version: "v1beta1", since: 37, removed: Some(40), replacement: Replacement::V1 },
        ],
        ..UNLISTED
    },
];
