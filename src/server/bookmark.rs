//! The object of a bookmark: a kind, an apiVersion and metadata, and of built-in kinds what Go writes of an empty object.
//!
//! kube-apiserver makes a bookmark from an empty value of the resource's type, and a Go struct's members that are neither
//! pointers nor marked as omitted when empty are written all the same. No client reads them, but typed decoders that ask for
//! a required member find it. The table is that of Kubernetes 1.36; a kind that is not in it has no such members, or is not
//! known here. When bookmarks are sent is decided in `watch`.

use std::time::Duration;

use crate::model::Version;
use crate::registry::chain::LAG_ANNOTATION;
use crate::registry::{Resource, ResourceOrigin};

use super::encode::{write_string, write_type};

/// What an empty object has: apiVersion, kind, members after metadata. In the order of the names.
const EMPTY: [(&str, &str, &str); 54] = [
    (
        "v1",
        "Event",
        r#""involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":"""#,
    ),
    ("v1", "LimitRange", r#""spec":{"limits":null}"#),
    ("v1", "Namespace", r#""spec":{},"status":{}"#),
    (
        "v1",
        "Node",
        r#""spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}"#,
    ),
    ("v1", "PersistentVolume", r#""spec":{},"status":{}"#),
    ("v1", "PersistentVolumeClaim", r#""spec":{"resources":{}},"status":{}"#),
    ("v1", "Pod", r#""spec":{"containers":null},"status":{}"#),
    ("v1", "PodTemplate", r#""template":{"metadata":{},"spec":{"containers":null}}"#),
    ("v1", "ReplicationController", r#""spec":{},"status":{"replicas":0}"#),
    ("v1", "ResourceQuota", r#""spec":{},"status":{}"#),
    ("v1", "Service", r#""spec":{},"status":{"loadBalancer":{}}"#),
    ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", r#""spec":{}"#),
    ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding", r#""spec":{}"#),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", r#""spec":{},"status":{}"#),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", r#""spec":{}"#),
    (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        r#""spec":{"group":"","names":{"plural":"","kind":""},"scope":"","versions":null},"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":null}"#,
    ),
    ("apiregistration.k8s.io/v1", "APIService", r#""spec":{"groupPriorityMinimum":0,"versionPriority":0},"status":{}"#),
    ("apps/v1", "ControllerRevision", r#""data":null,"revision":0"#),
    (
        "apps/v1",
        "DaemonSet",
        r#""spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"updateStrategy":{}},"status":{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,"numberReady":0}"#,
    ),
    (
        "apps/v1",
        "Deployment",
        r#""spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}"#,
    ),
    (
        "apps/v1",
        "ReplicaSet",
        r#""spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}}},"status":{"replicas":0}"#,
    ),
    (
        "apps/v1",
        "StatefulSet",
        r#""spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"serviceName":"","updateStrategy":{}},"status":{"replicas":0,"availableReplicas":0}"#,
    ),
    (
        "autoscaling/v1",
        "HorizontalPodAutoscaler",
        r#""spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},"status":{"currentReplicas":0,"desiredReplicas":0}"#,
    ),
    (
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        r#""spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},"status":{"desiredReplicas":0,"currentMetrics":null}"#,
    ),
    (
        "batch/v1",
        "CronJob",
        r#""spec":{"schedule":"","jobTemplate":{"metadata":{},"spec":{"template":{"metadata":{},"spec":{"containers":null}}}}},"status":{}"#,
    ),
    ("batch/v1", "Job", r#""spec":{"template":{"metadata":{},"spec":{"containers":null}}},"status":{}"#),
    ("certificates.k8s.io/v1", "CertificateSigningRequest", r#""spec":{"request":null,"signerName":""},"status":{}"#),
    ("coordination.k8s.io/v1", "Lease", r#""spec":{}"#),
    ("discovery.k8s.io/v1", "EndpointSlice", r#""addressType":"","endpoints":null,"ports":null"#),
    (
        "events.k8s.io/v1",
        "Event",
        r#""eventTime":null,"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null"#,
    ),
    (
        "flowcontrol.apiserver.k8s.io/v1",
        "FlowSchema",
        r#""spec":{"priorityLevelConfiguration":{"name":""},"matchingPrecedence":0},"status":{}"#,
    ),
    ("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration", r#""spec":{"type":""},"status":{}"#),
    ("networking.k8s.io/v1", "IPAddress", r#""spec":{}"#),
    ("networking.k8s.io/v1", "Ingress", r#""spec":{},"status":{"loadBalancer":{}}"#),
    ("networking.k8s.io/v1", "IngressClass", r#""spec":{}"#),
    ("networking.k8s.io/v1", "NetworkPolicy", r#""spec":{"podSelector":{}}"#),
    ("networking.k8s.io/v1", "ServiceCIDR", r#""spec":{},"status":{}"#),
    ("node.k8s.io/v1", "RuntimeClass", r#""handler":"""#),
    (
        "policy/v1",
        "PodDisruptionBudget",
        r#""spec":{},"status":{"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0,"expectedPods":0}"#,
    ),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", r#""rules":null"#),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", r#""roleRef":{"apiGroup":"","kind":"","name":""}"#),
    ("rbac.authorization.k8s.io/v1", "Role", r#""rules":null"#),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", r#""roleRef":{"apiGroup":"","kind":"","name":""}"#),
    ("resource.k8s.io/v1", "DeviceClass", r#""spec":{}"#),
    ("resource.k8s.io/v1", "ResourceClaim", r#""spec":{"devices":{"requests":null}},"status":{}"#),
    ("resource.k8s.io/v1", "ResourceClaimTemplate", r#""spec":{"metadata":{},"spec":{"devices":{"requests":null}}}"#),
    (
        "resource.k8s.io/v1",
        "ResourceSlice",
        r#""spec":{"driver":"","pool":{"name":"","generation":0,"resourceSliceCount":0}}"#,
    ),
    ("scheduling.k8s.io/v1", "PriorityClass", r#""value":0"#),
    ("storage.k8s.io/v1", "CSIDriver", r#""spec":{}"#),
    ("storage.k8s.io/v1", "CSINode", r#""spec":{"drivers":null}"#),
    ("storage.k8s.io/v1", "CSIStorageCapacity", r#""storageClassName":"""#),
    ("storage.k8s.io/v1", "StorageClass", r#""provisioner":"""#),
    (
        "storage.k8s.io/v1",
        "VolumeAttachment",
        r#""spec":{"attacher":"","source":{},"nodeName":""},"status":{"attached":false}"#,
    ),
    ("storage.k8s.io/v1", "VolumeAttributesClass", r#""driverName":"""#),
];

/// As which kind of object a bookmark is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// That of the resource.
    Own,
    /// PartialObjectMetadata of this version of meta.k8s.io.
    Partial(&'a str),
}

/// What a bookmark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Everything up to here has been told.
    pub at: Version,
    /// Whether it ends the initial events.
    pub ends_initial_events: bool,
    /// For another fieldcache: how old the proof is.
    pub lag: Option<Duration>,
}

impl Mark {
    /// Writes its object.
    pub fn write(&self, resource: &Resource, kind: Kind<'_>, out: &mut Vec<u8>) {
        let own_version = resource.gvr.api_version();
        let is_custom = resource.origin == ResourceOrigin::Custom;
        let is_own = kind == Kind::Own;
        match kind {
            Kind::Own if is_custom => {
                out.extend_from_slice(b"{\"apiVersion\":");
                write_string(&own_version, out);
                out.extend_from_slice(b",\"kind\":");
                write_string(&resource.kind, out);
            }
            Kind::Own => write_type(&resource.kind, &own_version, out),
            Kind::Partial(version) => write_type("PartialObjectMetadata", &format!("meta.k8s.io/{version}"), out),
        }
        let mut annotations = self.annotations();
        // The conversion of this one kind leaves a trace in its metadata.
        if !is_custom && resource.kind == "DaemonSet" && own_version == "apps/v1" {
            annotations.push(("deprecated.daemonset.template.generation", "0".to_owned()));
        }
        // In the order of their names, as Go writes a map.
        annotations.sort_unstable();
        let mut written = Vec::new();
        for (name, value) in &annotations {
            written.extend_from_slice(if written.is_empty() { b"\"annotations\":{" } else { b"," });
            write_string(name, &mut written);
            written.push(b':');
            write_string(value, &mut written);
        }
        if !written.is_empty() {
            written.push(b'}');
        }
        let version = format!("\"resourceVersion\":\"{}\"", self.at);
        // Members of custom resources are in the order of their names, those of Go types in that of the type.
        let mut members = [written, version.into_bytes()];
        if !(is_custom && is_own) {
            members.reverse();
        }
        out.extend_from_slice(b",\"metadata\":{");
        out.extend_from_slice(&members.join(if annotations.is_empty() { &b""[..] } else { b"," }));
        out.push(b'}');
        if is_own
            && !is_custom
            && let Some(empty) = empty_members(&own_version, &resource.kind)
        {
            out.push(b',');
            out.extend_from_slice(empty.as_bytes());
        }
        out.push(b'}');
    }

    fn annotations(&self) -> Vec<(&'static str, String)> {
        let end = self.ends_initial_events.then(|| ("k8s.io/initial-events-end", "true".to_owned()));
        let lag = self.lag.map(|lag| (LAG_ANNOTATION, lag.as_millis().to_string()));
        end.into_iter().chain(lag).collect()
    }
}

fn empty_members(api_version: &str, kind: &str) -> Option<&'static str> {
    EMPTY.iter().find(|(version, name, _)| *version == api_version && *name == kind).map(|(_, _, members)| *members)
}

#[cfg(test)]
mod tests {
    use super::EMPTY;

    #[test]
    fn the_table_is_members_of_an_object_each_once() {
        let mut names: Vec<(&str, &str)> = EMPTY.iter().map(|(version, kind, _)| (*version, *kind)).collect();
        for (version, kind, members) in EMPTY {
            let object: serde_json::Value = serde_json::from_str(&format!("{{{members}}}")).unwrap();
            let is_empty = object.as_object().is_none_or(serde_json::Map::is_empty);
            assert!(!is_empty, "{version} {kind}: {members}");
        }
        names.dedup();
        assert_eq!(names.len(), EMPTY.len(), "a kind stands twice");
    }
}
