//! What an object of a built-in kind has when nothing is set in it: the members that its Go type always writes.
//!
//! A bookmark is such an object with a version (apiserver `storage/cacher/cacher.go`). The members are those that Kubernetes 1.36
//! writes (`k8s.io/api`, fields without `omitempty` or `omitzero`); kinds that are not listed have none. Custom kinds never do.

/// Group, kind, version (empty for every one), and the members as they stand after the metadata.
pub(crate) const EMPTY: [(&str, &str, &str, &str); 60] = [
    (
        "",
        "Event",
        "",
        r#""involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":"""#,
    ),
    ("", "LimitRange", "", r#""spec":{"limits":null}"#),
    ("", "Namespace", "", r#""spec":{},"status":{}"#),
    (
        "",
        "Node",
        "",
        r#""spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}"#,
    ),
    ("", "PersistentVolume", "", r#""spec":{},"status":{}"#),
    ("", "PersistentVolumeClaim", "", r#""spec":{"resources":{}},"status":{}"#),
    ("", "Pod", "", r#""spec":{"containers":null},"status":{}"#),
    ("", "PodTemplate", "", r#""template":{"metadata":{},"spec":{"containers":null}}"#),
    ("", "ReplicationController", "", r#""spec":{},"status":{"replicas":0}"#),
    ("", "ResourceQuota", "", r#""spec":{},"status":{}"#),
    ("", "Service", "", r#""spec":{},"status":{"loadBalancer":{}}"#),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy", "", r#""spec":{}"#),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding", "", r#""spec":{}"#),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "", r#""spec":{},"status":{}"#),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", "", r#""spec":{}"#),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "",
        r#""spec":{"group":"","names":{"plural":"","kind":""},"scope":"","versions":null},"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":null}"#,
    ),
    (
        "apiregistration.k8s.io",
        "APIService",
        "",
        r#""spec":{"groupPriorityMinimum":0,"versionPriority":0},"status":{}"#,
    ),
    ("apps", "ControllerRevision", "", r#""data":null,"revision":0"#),
    (
        "apps",
        "DaemonSet",
        "",
        r#""spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"updateStrategy":{}},"status":{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,"numberReady":0}"#,
    ),
    (
        "apps",
        "Deployment",
        "",
        r#""spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}"#,
    ),
    (
        "apps",
        "ReplicaSet",
        "",
        r#""spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}}},"status":{"replicas":0}"#,
    ),
    (
        "apps",
        "StatefulSet",
        "",
        r#""spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"serviceName":"","updateStrategy":{}},"status":{"replicas":0,"availableReplicas":0}"#,
    ),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        "v1",
        r#""spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},"status":{"currentReplicas":0,"desiredReplicas":0}"#,
    ),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        "v2",
        r#""spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},"status":{"desiredReplicas":0,"currentMetrics":null}"#,
    ),
    (
        "batch",
        "CronJob",
        "",
        r#""spec":{"schedule":"","jobTemplate":{"metadata":{},"spec":{"template":{"metadata":{},"spec":{"containers":null}}}}},"status":{}"#,
    ),
    ("batch", "Job", "", r#""spec":{"template":{"metadata":{},"spec":{"containers":null}}},"status":{}"#),
    ("certificates.k8s.io", "CertificateSigningRequest", "", r#""spec":{"request":null,"signerName":""},"status":{}"#),
    ("certificates.k8s.io", "ClusterTrustBundle", "", r#""spec":{"trustBundle":""}"#),
    (
        "certificates.k8s.io",
        "PodCertificateRequest",
        "",
        r#""spec":{"signerName":"","podName":"","podUID":"","serviceAccountName":"","serviceAccountUID":"","nodeName":"","nodeUID":"","pkixPublicKey":null,"proofOfPossession":null,"stubPKCS10Request":null},"status":{}"#,
    ),
    ("coordination.k8s.io", "Lease", "", r#""spec":{}"#),
    ("coordination.k8s.io", "LeaseCandidate", "", r#""spec":{"leaseName":"","binaryVersion":""}"#),
    ("discovery.k8s.io", "EndpointSlice", "", r#""addressType":"","endpoints":null,"ports":null"#),
    (
        "events.k8s.io",
        "Event",
        "",
        r#""eventTime":null,"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null"#,
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "FlowSchema",
        "",
        r#""spec":{"priorityLevelConfiguration":{"name":""},"matchingPrecedence":0},"status":{}"#,
    ),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", "", r#""spec":{"type":""},"status":{}"#),
    ("internal.apiserver.k8s.io", "StorageVersion", "", r#""spec":{},"status":{}"#),
    ("networking.k8s.io", "IPAddress", "", r#""spec":{}"#),
    ("networking.k8s.io", "Ingress", "", r#""spec":{},"status":{"loadBalancer":{}}"#),
    ("networking.k8s.io", "IngressClass", "", r#""spec":{}"#),
    ("networking.k8s.io", "NetworkPolicy", "", r#""spec":{"podSelector":{}}"#),
    ("networking.k8s.io", "ServiceCIDR", "", r#""spec":{},"status":{}"#),
    ("node.k8s.io", "RuntimeClass", "", r#""handler":"""#),
    (
        "policy",
        "PodDisruptionBudget",
        "",
        r#""spec":{},"status":{"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0,"expectedPods":0}"#,
    ),
    ("rbac.authorization.k8s.io", "ClusterRole", "", r#""rules":null"#),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", "", r#""roleRef":{"apiGroup":"","kind":"","name":""}"#),
    ("rbac.authorization.k8s.io", "Role", "", r#""rules":null"#),
    ("rbac.authorization.k8s.io", "RoleBinding", "", r#""roleRef":{"apiGroup":"","kind":"","name":""}"#),
    ("resource.k8s.io", "DeviceClass", "", r#""spec":{}"#),
    ("resource.k8s.io", "DeviceTaintRule", "", r#""spec":{"taint":{"key":"","effect":""}},"status":{}"#),
    ("resource.k8s.io", "ResourceClaim", "", r#""spec":{"devices":{"requests":null}},"status":{}"#),
    ("resource.k8s.io", "ResourceClaimTemplate", "", r#""spec":{"metadata":{},"spec":{"devices":{"requests":null}}}"#),
    ("resource.k8s.io", "ResourcePoolStatusRequest", "", r#""spec":{"driver":""}"#),
    (
        "resource.k8s.io",
        "ResourceSlice",
        "",
        r#""spec":{"driver":"","pool":{"name":"","generation":0,"resourceSliceCount":0}}"#,
    ),
    ("scheduling.k8s.io", "PriorityClass", "", r#""value":0"#),
    ("storage.k8s.io", "CSIDriver", "", r#""spec":{}"#),
    ("storage.k8s.io", "CSINode", "", r#""spec":{"drivers":null}"#),
    ("storage.k8s.io", "CSIStorageCapacity", "", r#""storageClassName":"""#),
    ("storage.k8s.io", "StorageClass", "", r#""provisioner":"""#),
    (
        "storage.k8s.io",
        "VolumeAttachment",
        "",
        r#""spec":{"attacher":"","source":{},"nodeName":""},"status":{"attached":false}"#,
    ),
    ("storage.k8s.io", "VolumeAttributesClass", "", r#""driverName":"""#),
];

/// The members besides kind, apiVersion and metadata, without braces; empty when there are none.
pub(crate) fn members(group: &str, version: &str, kind: &str) -> &'static str {
    let is_meant =
        |row: &&(&str, &str, &str, &str)| (row.0, row.1) == (group, kind) && (row.2.is_empty() || row.2 == version);
    EMPTY.iter().find(is_meant).map_or("", |row| row.3)
}
