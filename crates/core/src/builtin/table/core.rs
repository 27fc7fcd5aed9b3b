//! The built-in kinds of the core group.

use k8s_openapi::api::core::v1 as core;

use super::super::deprecation::{Deprecation, Replacement};
use super::super::kind::{BuiltinKind, UNLISTED, ZeroValues};
use super::super::served_version::ServedVersion;
use crate::extract::builtin::{BuiltinFields, LabelErrorFormat, LabelSource, SelectableLabel, described, text, value};
use crate::model::Scope;
use crate::printer;
use crate::schema::metadata::NameRule;

use super::shared::{ALL, served};

pub(super) const KINDS: &[BuiltinKind] = &[
    BuiltinKind {
        group: "",
        kind: "ComponentStatus",
        plural: "componentstatuses",
        scope: Scope::Cluster,
        printer: &printer::cluster::COMPONENT_STATUS,
        deprecations: &[Deprecation { version: "v1", since: 19, removed: None, replacement: Replacement::None }],
        ..UNLISTED
    },
    BuiltinKind {
        group: "",
        kind: "ConfigMap",
        plural: "configmaps",
        scope: Scope::Namespaced,
        short_names: &["cm"],
        printer: &printer::cluster::CONFIG_MAP,
        versions: served![core::ConfigMap],
        ..UNLISTED
    },
    BuiltinKind {
        group: "",
        kind: "Endpoints",
        plural: "endpoints",
        scope: Scope::Namespaced,
        short_names: &["ep"],
        printer: &printer::network::ENDPOINTS,
        deprecations: &[Deprecation {
            version: "v1",
            since: 33,
            removed: None,
            replacement: Replacement::Other("discovery.k8s.io/v1 EndpointSlice"),
        }],
        versions: served![core::Endpoints],
        ..UNLISTED
    },
    BuiltinKind {
        group: "",
        kind: "Event",
        plural: "events",
        scope: Scope::Namespaced,
        short_names: &["ev"],
        fields: Some(&BuiltinFields {
            versions: &["v1"],
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
                    "The value of source.component, or of reportingComponent if that is empty.",
                ),
                text("type", &[".type"]),
            ],
        }),
        zero_values: ZeroValues::OfAll(
            r#""involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":"""#,
        ),
        printer: &printer::events::CORE_EVENT,
        versions: served![core::Event],
        ..UNLISTED
    },
    BuiltinKind {
        group: "",
        kind: "LimitRange",
        plural: "limitranges",
        scope: Scope::Namespaced,
        short_names: &["limits"],
        zero_values: ZeroValues::OfAll(r#""spec":{"limits":null}"#),
        printer: printer::shared::NAME_AND_CREATION,
        versions: served![core::LimitRange],
        ..UNLISTED
    },
    BuiltinKind {
        group: "",
        kind: "Namespace",
        plural: "namespaces",
        scope: Scope::Cluster,
        short_names: &["ns"],
        has_status: true,
        name_rule: NameRule::DnsLabel,
        fields: Some(&BuiltinFields {
            versions: &["v1"],
            namespace: false,
            refusal: LabelErrorFormat::NotSupported,
            labels: &[text("status.phase", &[".status.phase"])],
        }),
        zero_values: ZeroValues::OfAll(r#""spec":{},"status":{}"#),
        printer: &printer::cluster::NAMESPACE,
        versions: served![core::Namespace],
        ..UNLISTED
    },
    BuiltinKind {
        group: "",
        kind: "Node",
        plural: "nodes",
        scope: Scope::Cluster,
        short_names: &["no"],
        has_status: true,
        fields: Some(&BuiltinFields {
            versions: &["v1"],
            namespace: false,
            refusal: LabelErrorFormat::NotSupported,
            labels: &[value("spec.unschedulable", &[".spec.unschedulable"], "boolean", "false", "")],
        }),
        zero_values: ZeroValues::OfAll(
            r#""spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}"#,
        ),
        printer: &printer::cluster::NODE,
        versions: served![core::Node],
        ..UNLISTED
    },
    BuiltinKind {
        group: "",
        kind: "PersistentVolumeClaim",
        plural: "persistentvolumeclaims",
        scope: Scope::Namespaced,
        short_names: &["pvc"],
        has_status: true,
        zero_values: ZeroValues::OfAll(r#""spec":{"resources":{}},"status":{}"#),
        printer: &printer::storage::PERSISTENT_VOLUME_CLAIM,
        versions: served![core::PersistentVolumeClaim],
        ..UNLISTED
    },
    BuiltinKind {
        group: "",
        kind: "PersistentVolume",
        plural: "persistentvolumes",
        scope: Scope::Cluster,
        short_names: &["pv"],
        has_status: true,
        zero_values: ZeroValues::OfAll(r#""spec":{},"status":{}"#),
        printer: &printer::storage::PERSISTENT_VOLUME,
        versions: served![core::PersistentVolume],
        ..UNLISTED
    },
    BuiltinKind {
        group: "",
        kind: "Pod",
        plural: "pods",
        scope: Scope::Namespaced,
        short_names: &["po"],
        categories: ALL,
        has_status: true,
        fields: Some(&BuiltinFields {
            versions: &["v1"],
            namespace: true,
            refusal: LabelErrorFormat::NotSupported,
            labels: &[
                text("spec.nodeName", &[".spec.nodeName"]),
                SelectableLabel { label: "spec.host", source: LabelSource::Alias("spec.nodeName") },
                text("spec.restartPolicy", &[".spec.restartPolicy"]),
                text("spec.schedulerName", &[".spec.schedulerName"]),
                text("spec.serviceAccountName", &[".spec.serviceAccountName"]),
                value("spec.hostNetwork", &[".spec.hostNetwork"], "boolean", "false", ""),
                text("status.phase", &[".status.phase"]),
                SelectableLabel {
                    label: "status.podIP",
                    source: LabelSource::Value {
                        paths: &[".status.podIPs[0].ip", ".status.podIP"],
                        kind: "string",
                        when_absent: "",
                        names_default: true,
                        description: "The first address of status.podIPs. The other addresses of a Pod are not selectable.",
                    },
                },
                SelectableLabel { label: "status.podIPs", source: LabelSource::NeverPopulated },
                text("status.nominatedNodeName", &[".status.nominatedNodeName"]),
            ],
        }),
        zero_values: ZeroValues::OfAll(r#""spec":{"containers":null},"status":{}"#),
        printer: &printer::pods::POD,
        versions: served![core::Pod],
        ..UNLISTED
    },
    BuiltinKind {
        group: "",
        kind: "PodTemplate",
        plural: "podtemplates",
        scope: Scope::Namespaced,
        zero_values: ZeroValues::OfAll(r#""template":{"metadata":{},"spec":{"containers":null}}"#),
        printer: &printer::pods::POD_TEMPLATE,
        versions: served![core::PodTemplate],
        ..UNLISTED
    },
    BuiltinKind {
        group: "",
        kind: "ReplicationController",
        plural: "replicationcontrollers",
        scope: Scope::Namespaced,
        short_names: &["rc"],
        categories: ALL,
        has_status: true,
        fields: Some(&BuiltinFields {
            versions: &["v1"],
            namespace: true,
            refusal: LabelErrorFormat::NotSupported,
            labels: &[value("status.replicas", &[".status.replicas"], "integer", "0", "")],
        }),
        zero_values: ZeroValues::OfAll(r#""spec":{},"status":{"replicas":0}"#),
        printer: &printer::workloads::REPLICATION_CONTROLLER,
        versions: served![core::ReplicationController],
        ..UNLISTED
    },
    BuiltinKind {
        group: "",
        kind: "ResourceQuota",
        plural: "resourcequotas",
        scope: Scope::Namespaced,
        short_names: &["quota"],
        has_status: true,
        zero_values: ZeroValues::OfAll(r#""spec":{},"status":{}"#),
        printer: &printer::cluster::RESOURCE_QUOTA,
        versions: served![core::ResourceQuota],
        ..UNLISTED
    },
    BuiltinKind {
        group: "",
        kind: "Secret",
        plural: "secrets",
        scope: Scope::Namespaced,
        fields: Some(&BuiltinFields {
            versions: &["v1"],
            namespace: true,
            refusal: LabelErrorFormat::NotSupported,
            labels: &[text("type", &[".type"])],
        }),
        printer: &printer::cluster::SECRET,
        versions: served![core::Secret],
        ..UNLISTED
    },
    BuiltinKind {
        group: "",
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        scope: Scope::Namespaced,
        short_names: &["sa"],
        printer: &printer::cluster::SERVICE_ACCOUNT,
        versions: served![core::ServiceAccount],
        ..UNLISTED
    },
    BuiltinKind {
        group: "",
        kind: "Service",
        plural: "services",
        scope: Scope::Namespaced,
        short_names: &["svc"],
        categories: ALL,
        has_status: true,
        name_rule: NameRule::Dns1035Label,
        fields: Some(&BuiltinFields {
            versions: &["v1"],
            namespace: true,
            refusal: LabelErrorFormat::NotSupported,
            labels: &[text("spec.clusterIP", &[".spec.clusterIP"]), text("spec.type", &[".spec.type"])],
        }),
        zero_values: ZeroValues::OfAll(r#""spec":{},"status":{"loadBalancer":{}}"#),
        printer: &printer::network::SERVICE,
        versions: served![core::Service],
        ..UNLISTED
    },
];
