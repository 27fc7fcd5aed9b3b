//! fieldSelector on built-in types: the fields they know, and the three shapes in which they refuse others.

use super::super::case::{Case, get};
use super::super::dimension::escape;

pub(crate) fn cases() -> Vec<Case> {
    let rows = [
        ("pod/nodeName", "/api/v1/pods", "spec.nodeName=node-1"),
        ("pod/nodeName empty", "/api/v1/pods", "spec.nodeName="),
        ("pod/host, an alias", "/api/v1/pods", "spec.host=node-1"),
        ("pod/restartPolicy", "/api/v1/pods", "spec.restartPolicy=Never"),
        ("pod/schedulerName", "/api/v1/pods", "spec.schedulerName!=default-scheduler"),
        ("pod/serviceAccountName", "/api/v1/pods", "spec.serviceAccountName=robot"),
        ("pod/hostNetwork", "/api/v1/pods", "spec.hostNetwork=true"),
        ("pod/hostNetwork absent", "/api/v1/pods", "spec.hostNetwork=false"),
        ("pod/phase", "/api/v1/pods", "status.phase=Running"),
        ("pod/phase, not", "/api/v1/namespaces/work/pods", "status.phase!=Succeeded,status.phase!=Failed"),
        ("pod/podIP", "/api/v1/pods", "status.podIP=10.1.0.2"),
        ("pod/podIPs never match", "/api/v1/pods", "status.podIPs=10.1.0.2"),
        ("pod/nominatedNodeName", "/api/v1/pods", "status.nominatedNodeName="),
        ("pod/names", "/api/v1/pods", "metadata.namespace=work,metadata.name=web"),
        ("pod/refused", "/api/v1/pods", "spec.priority=1"),
        ("node/unschedulable", "/api/v1/nodes", "spec.unschedulable=true"),
        ("node/unschedulable absent", "/api/v1/nodes", "spec.unschedulable=false"),
        ("node/refused namespace", "/api/v1/nodes", "metadata.namespace=x"),
        ("namespace/refused name", "/api/v1/namespaces", "name=a"),
        ("secret/type", "/api/v1/secrets", "type=kubernetes.io/basic-auth"),
        ("secret/refused", "/api/v1/secrets", "spec.type=x"),
        ("service/clusterIP", "/api/v1/services", "spec.clusterIP=10.0.77.7"),
        ("service/headless", "/api/v1/services", "spec.clusterIP=None"),
        ("service/no clusterIP", "/api/v1/services", "spec.clusterIP="),
        ("service/type", "/api/v1/services", "spec.type=ExternalName"),
        ("service/refused", "/api/v1/services", "spec.ports=80"),
        ("event/involvedObject", "/api/v1/namespaces/work/events", "involvedObject.kind=Pod,involvedObject.name=web"),
        ("event/fieldPath", "/api/v1/namespaces/work/events", "involvedObject.fieldPath=spec.containers{web}"),
        ("event/reason", "/api/v1/namespaces/work/events", "reason=Failed"),
        ("event/type", "/api/v1/namespaces/work/events", "type=Normal,reason=Failed"),
        ("event/source", "/api/v1/namespaces/work/events", "source=kubelet"),
        ("event/source, else the reporter", "/api/v1/namespaces/work/events", "source=example.com/reporter"),
        ("event/reportingComponent", "/api/v1/namespaces/work/events", "reportingComponent=example.com/reporter"),
        ("event/refused", "/api/v1/events", "source.component=kubelet"),
        ("new event/regarding", "/apis/events.k8s.io/v1/namespaces/work/events", "regarding.name=web,type=Warning"),
        (
            "new event/reportingController",
            "/apis/events.k8s.io/v1/namespaces/work/events",
            "reportingController=example.com/reporter",
        ),
        ("new event/refused", "/apis/events.k8s.io/v1/namespaces/work/events", "involvedObject.name=web"),
        ("job/successful absent", "/apis/batch/v1/jobs", "status.successful=0"),
        ("job/refused", "/apis/batch/v1/jobs", "status.succeeded=0"),
        ("replication controller/replicas", "/api/v1/replicationcontrollers", "status.replicas=0"),
        ("config map/names", "/api/v1/configmaps", "metadata.name=small,metadata.namespace=work"),
        ("config map/refused", "/api/v1/configmaps", "data.k=v"),
        ("persistent volume/namespace, accepted", "/api/v1/persistentvolumes", "metadata.namespace=x"),
        ("persistent volume/refused", "/api/v1/persistentvolumes", "name=disk"),
        ("replica set/refused", "/apis/apps/v1/replicasets", "status.replicas=0"),
        ("request/signerName", "/apis/certificates.k8s.io/v1/certificatesigningrequests", "spec.signerName=x"),
        ("request/refused", "/apis/certificates.k8s.io/v1/certificatesigningrequests", "metadata.namespace=x"),
        ("slice/nodeName", "/apis/resource.k8s.io/v1/resourceslices", "spec.nodeName=node-1"),
        ("slice/driver", "/apis/resource.k8s.io/v1/resourceslices", "spec.driver!=gpu.example.com"),
        ("slice/refused", "/apis/resource.k8s.io/v1/resourceslices", "metadata.namespace=x"),
        ("definition/refused", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "spec.group=x"),
    ];
    rows.into_iter()
        .map(|(what, collection, selector)| {
            get(&format!("built-in field/{what}"), &format!("{collection}?fieldSelector={}", escape(selector)))
        })
        .chain([
            // Watch scripts make namespaces meanwhile.
            get(
                "built-in field/namespace/phase",
                "/api/v1/namespaces?fieldSelector=status.phase%3DActive&labelSelector=fixture%3Dparity",
            ),
            get("built-in field/namespace/by name", "/api/v1/namespaces?fieldSelector=metadata.name%3Da-b"),
        ])
        .collect()
}
