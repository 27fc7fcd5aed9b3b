//! Printers (table rows of `kubectl get`) of role bindings and certificates.

use std::borrow::Cow;

use serde_json::json;

use crate::json::Json;

use super::column::{AGE, NAME, string};
use super::kind::{PrintedRow, Printer};
use super::read::{items, name, text, text_or};
use super::text::{labels, subjects};
use super::time::{Moment, age, human_duration};

fn role_bindings(object: Json<'_>, now: Moment) -> PrintedRow {
    let role = object.at("roleRef");
    PrintedRow::new(vec![
        name(object),
        json!(format!("{}/{}", text(role.at("kind")), text(role.at("name")))),
        age(object, now),
        json!(subjects(object, "User")),
        json!(subjects(object, "Group")),
        json!(subjects(object, "ServiceAccount")),
    ])
}

fn certificate_signing_requests(object: Json<'_>, now: Moment) -> PrintedRow {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let lasts = spec.at("expirationSeconds").as_i64().map_or_else(|| "<none>".to_owned(), human_duration);
    let has = |kind: &str| items(status.at("conditions")).any(|condition| text(condition.at("type")) == kind);
    let mut state = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !text(status.at("certificate")).is_empty() {
        state.push_str(",Issued");
    }
    PrintedRow::new(vec![
        name(object),
        age(object, now),
        json!(text_or(spec.at("signerName"), "<none>")),
        json!(text(spec.at("username"))),
        json!(lasts),
        json!(state),
    ])
}

fn cluster_trust_bundles(object: Json<'_>, _now: Moment) -> PrintedRow {
    PrintedRow::new(vec![name(object), json!(text_or(object.at("spec").at("signerName"), "<none>"))])
}

fn pod_certificate_requests(object: Json<'_>, _now: Moment) -> PrintedRow {
    let spec = object.at("spec");
    let states = items(object.at("status").at("conditions")).map(|condition| text(condition.at("type")));
    // Of several such conditions, the last one counts.
    let state = states.filter(|state| matches!(&**state, "Issued" | "Denied" | "Failed")).last();
    let state = state.unwrap_or(Cow::Borrowed("Pending"));
    let member = |member: &str| json!(text(spec.at(member)));
    PrintedRow::new(vec![
        name(object),
        member("podName"),
        member("serviceAccountName"),
        member("nodeName"),
        member("signerName"),
        json!(state),
        json!(labels(spec.at("unverifiedUserAnnotations"))),
    ])
}

/// Prints CertificateSigningRequest.
pub const CERTIFICATE_SIGNING_REQUEST: Printer = Printer {
    columns: &[
        NAME,
        AGE,
        string(
            "SignerName",
            "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. \
                 If empty, it will be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n    \
                 \"kubernetes.io/kube-apiserver-client-kubelet\".\n 2. If it's a kubelet serving certificate, it is \
                 assigned\n    \"kubernetes.io/kubelet-serving\".\n 3. Otherwise, it is assigned \
                 \"kubernetes.io/legacy-unknown\".\nDistribution of trust for signers happens out of band. You can \
                 select on this field using `spec.signerName`.",
        ),
        string("Requestor", "Base64-encoded PKCS#10 CSR data"),
        string(
            "RequestedDuration",
            "expirationSeconds is the requested duration of validity of the issued certificate. The \
                 certificate signer may issue a certificate with a different validity duration so a client must \
                 check the delta between the notBefore and and notAfter fields in the issued certificate to \
                 determine the actual duration.\n\nThe v1.22+ in-tree implementations of the well-known Kubernetes \
                 signers will honor this field as long as the requested duration is not greater than the maximum \
                 duration they will honor per the --cluster-signing-duration CLI flag to the Kubernetes controller \
                 manager.\n\nCertificate signers may not honor this field for various reasons:\n\n  1. Old signer \
                 that is unaware of the field (such as the in-tree\n     implementations prior to v1.22)\n  2. \
                 Signer whose configured maximum is shorter than the requested duration\n  3. Signer whose \
                 configured minimum is longer than the requested duration\n\nThe minimum valid value for \
                 expirationSeconds is 600, i.e. 10 minutes.",
        ),
        string("Condition", "Conditions applied to the request, such as approval or denial."),
    ],
    print: certificate_signing_requests,
    order: None,
};

/// Prints ClusterTrustBundle.
pub const CLUSTER_TRUST_BUNDLE: Printer = Printer {
    columns: &[
        NAME,
        string(
            "SignerName",
            "signerName indicates the associated signer, if any.\n\nIn order to create or update a \
                 ClusterTrustBundle that sets signerName, you must have the following cluster-scoped permission: \
                 group=certificates.k8s.io resource=signers resourceName=<the signer name> verb=attest.\n\nIf \
                 signerName is not empty, then the ClusterTrustBundle object must be named with the signer name as \
                 a prefix (translating slashes to colons). For example, for the signer name `example.com/foo`, \
                 valid ClusterTrustBundle object names include `example.com:foo:abc` and \
                 `example.com:foo:v1`.\n\nIf signerName is empty, then the ClusterTrustBundle object's name must \
                 not have such a prefix.\n\nList/watch requests for ClusterTrustBundles can filter on this field \
                 using a `spec.signerName=NAME` field selector.",
        ),
    ],
    print: cluster_trust_bundles,
    order: None,
};

/// Prints PodCertificateRequest.
pub const POD_CERTIFICATE_REQUEST: Printer = Printer {
    columns: &[
        NAME,
        string("PodName", "podName is the name of the pod into which the certificate will be mounted."),
        string("ServiceAccountName", "serviceAccountName is the name of the service account the pod is running as."),
        string("NodeName", "nodeName is the name of the node the pod is assigned to."),
        string(
            "SignerName",
            "signerName indicates the requested signer.\n\nAll signer names beginning with `kubernetes.io` are \
                 reserved for use by the Kubernetes project.  There is currently one well-known signer documented \
                 by the Kubernetes project, `kubernetes.io/kube-apiserver-client-pod`, which will issue client \
                 certificates understood by kube-apiserver.  It is currently unimplemented.",
        ),
        string("State", "Is the request Pending, Issued, Denied, or Failed?"),
        string(
            "UnverifiedUserAnnotations",
            "unverifiedUserAnnotations allow pod authors to pass additional information to the signer \
                 implementation.  Kubernetes does not restrict or validate this metadata in any way.\n\nEntries are \
                 subject to the same validation as object metadata annotations, with the addition that all keys \
                 must be domain-prefixed. No restrictions are placed on values, except an overall size limitation \
                 on the entire field.\n\nSigners should document the keys and values they support.  Signers should \
                 deny requests that contain keys they do not recognize.",
        ),
    ],
    print: pod_certificate_requests,
    order: None,
};

/// Prints ClusterRoleBinding.
pub const CLUSTER_ROLE_BINDING: Printer = Printer {
    columns: &[
        NAME,
        string(
            "Role",
            "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be \
                 resolved, the Authorizer must return an error.",
        ),
        AGE,
        string("Users", "Users in the clusterRoleBinding").wide(),
        string("Groups", "Groups in the clusterRoleBinding").wide(),
        string("ServiceAccounts", "ServiceAccounts in the clusterRoleBinding").wide(),
    ],
    print: role_bindings,
    order: None,
};

/// Prints RoleBinding.
pub const ROLE_BINDING: Printer = Printer {
    columns: &[
        NAME,
        string(
            "Role",
            "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. \
                 If the RoleRef cannot be resolved, the Authorizer must return an error.",
        ),
        AGE,
        string("Users", "Users in the roleBinding").wide(),
        string("Groups", "Groups in the roleBinding").wide(),
        string("ServiceAccounts", "ServiceAccounts in the roleBinding").wide(),
    ],
    print: role_bindings,
    order: None,
};
