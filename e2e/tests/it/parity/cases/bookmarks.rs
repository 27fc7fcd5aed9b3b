//! The bookmark that ends the initial events, of every built-in resource: it has the members that its Go type writes even when empty.

use super::super::case::{Case, Reading};
use super::super::dimension::{Dimension, product};

pub(crate) fn cases() -> Vec<Case> {
    let resources = [
        "/api/v1/configmaps",
        "/api/v1/endpoints",
        "/api/v1/events",
        "/api/v1/limitranges",
        "/api/v1/namespaces",
        "/api/v1/nodes",
        "/api/v1/persistentvolumeclaims",
        "/api/v1/persistentvolumes",
        "/api/v1/pods",
        "/api/v1/podtemplates",
        "/api/v1/replicationcontrollers",
        "/api/v1/resourcequotas",
        "/api/v1/secrets",
        "/api/v1/serviceaccounts",
        "/api/v1/services",
        "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
        "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/apiregistration.k8s.io/v1/apiservices",
        "/apis/apps/v1/controllerrevisions",
        "/apis/apps/v1/daemonsets",
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/replicasets",
        "/apis/apps/v1/statefulsets",
        "/apis/autoscaling/v1/horizontalpodautoscalers",
        "/apis/autoscaling/v2/horizontalpodautoscalers",
        "/apis/batch/v1/cronjobs",
        "/apis/batch/v1/jobs",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        "/apis/coordination.k8s.io/v1/leases",
        "/apis/discovery.k8s.io/v1/endpointslices",
        "/apis/events.k8s.io/v1/events",
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
        "/apis/networking.k8s.io/v1/ingressclasses",
        "/apis/networking.k8s.io/v1/ingresses",
        "/apis/networking.k8s.io/v1/ipaddresses",
        "/apis/networking.k8s.io/v1/networkpolicies",
        "/apis/networking.k8s.io/v1/servicecidrs",
        "/apis/node.k8s.io/v1/runtimeclasses",
        "/apis/policy/v1/poddisruptionbudgets",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/rolebindings",
        "/apis/rbac.authorization.k8s.io/v1/roles",
        "/apis/resource.k8s.io/v1/deviceclasses",
        "/apis/resource.k8s.io/v1/resourceclaims",
        "/apis/resource.k8s.io/v1/resourceclaimtemplates",
        "/apis/resource.k8s.io/v1/resourceslices",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/apis/storage.k8s.io/v1/csidrivers",
        "/apis/storage.k8s.io/v1/csinodes",
        "/apis/storage.k8s.io/v1/csistoragecapacities",
        "/apis/storage.k8s.io/v1/storageclasses",
        "/apis/storage.k8s.io/v1/volumeattachments",
        "/apis/storage.k8s.io/v1/volumeattributesclasses",
        "/apis/shop.example.com/v1/shirts",
        "/apis/shop.example.com/v1/banners",
    ];
    // Nothing is selected: what a control plane makes for itself is not determined.
    let query = "?watch=1&allowWatchBookmarks=true&labelSelector=no%3Dthing&timeoutSeconds=5";
    let paths: Vec<(String, String)> = resources
        .iter()
        .map(|path| (path.rsplitn(4, '/').take(3).collect::<Vec<_>>().join(" of "), format!("{path}{query}")))
        .collect();
    let mut all = product(
        "bookmark",
        &[
            Dimension::readings(&[("initial", Reading::Events)]),
            Dimension::paths("", paths.iter().map(|(name, path)| (&**name, &**path))),
        ],
    );
    let forms = [
        ("table", Some(super::TABLE)),
        ("metadata", Some(super::PARTIAL)),
        ("table of v1beta1", Some("application/json;as=Table;g=meta.k8s.io;v=v1beta1")),
    ];
    let pods = format!("/api/v1/pods{query}");
    let shirts = format!("/apis/shop.example.com/v1/shirts{query}");
    all.extend(product(
        "bookmark",
        &[
            Dimension::readings(&[("initial", Reading::Events)]),
            Dimension::paths("of", [("pods", &*pods), ("shirts", &*shirts)]),
            Dimension::header("accept", forms),
            Dimension::parameter("includeObject", &["Object", "Metadata", "None"]),
        ],
    ));
    all
}
