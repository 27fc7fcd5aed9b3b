//! Access, admission, fairness, devices.

use serde_json::{Value, json};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::super::dice::Dice;
use super::{Draft, Kind, NAMESPACE, cluster_wide, namespaced};

pub(super) const KINDS: &[Kind] = &[
    cluster_wide("certificates.k8s.io/v1", "CertificateSigningRequest", "certificatesigningrequests", 25, request),
    cluster_wide("certificates.k8s.io/v1beta1", "ClusterTrustBundle", "clustertrustbundles", 2, bundle),
    cluster_wide("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", 20, cluster_binding),
    cluster_wide("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", 3, role),
    namespaced("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", 25, binding),
    namespaced("rbac.authorization.k8s.io/v1", "Role", "roles", 3, role),
    cluster_wide(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        5,
        webhooks,
    ),
    cluster_wide(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        5,
        webhooks,
    ),
    cluster_wide(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        12,
        validating_policy,
    ),
    cluster_wide(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        25,
        validating_binding,
    ),
    cluster_wide(
        "admissionregistration.k8s.io/v1",
        "MutatingAdmissionPolicy",
        "mutatingadmissionpolicies",
        12,
        mutating_policy,
    ),
    cluster_wide(
        "admissionregistration.k8s.io/v1",
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        12,
        mutating_binding,
    ),
    cluster_wide("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "flowschemas", 15, flow_schema),
    cluster_wide(
        "flowcontrol.apiserver.k8s.io/v1",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        15,
        priority_level,
    ),
    cluster_wide("resource.k8s.io/v1", "DeviceClass", "deviceclasses", 2, device_class),
    cluster_wide("resource.k8s.io/v1beta2", "DeviceTaintRule", "devicetaintrules", 8, taint_rule),
    namespaced("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", 20, resource_claim),
    namespaced("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates", 2, claim_template),
    cluster_wide("resource.k8s.io/v1", "ResourceSlice", "resourceslices", 8, slice),
];

fn subjects(dice: &mut Dice) -> Value {
    dice.list(5, |dice, _| {
        let name = dice.word();
        match dice.pick(&["User", "Group", "ServiceAccount"]) {
            "ServiceAccount" => json!({ "kind": "ServiceAccount", "name": name, "namespace": NAMESPACE }),
            kind => json!({ "kind": kind, "name": name, "apiGroup": "rbac.authorization.k8s.io" }),
        }
    })
}

fn binding(dice: &mut Dice) -> Draft {
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": dice.pick(&["Role", "ClusterRole"]), "name": dice.word() });
    Draft::new(json!({ "roleRef": role, "subjects": subjects(dice) }))
}

fn cluster_binding(dice: &mut Dice) -> Draft {
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": dice.word() });
    Draft::new(json!({ "roleRef": role, "subjects": subjects(dice) }))
}

fn role(_dice: &mut Dice) -> Draft {
    Draft::new(json!({ "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }] }))
}

fn bundle(_dice: &mut Dice) -> Draft {
    let certificate = e2e::certificates::Authority::create("bundle").expect("an authority").certificate();
    Draft::new(json!({ "spec": { "trustBundle": certificate } }))
}

fn request(dice: &mut Dice) -> Draft {
    let key = rcgen::KeyPair::generate().expect("a key");
    let parameters = rcgen::CertificateParams::new(Vec::<String>::new()).expect("parameters");
    let request = parameters.serialize_request(&key).expect("a request").pem().expect("PEM");
    let seconds = 600 + dice.below(9_000_000);
    let spec = json!({
        "signerName": format!("example.com/{}", dice.word()), "usages": ["client auth"],
        "request": BASE64_STANDARD.encode(request), "expirationSeconds": dice.maybe(60, seconds),
    });
    let mut draft = Draft::new(json!({ "spec": spec }));
    let is = |kind: &str| json!({ "type": kind, "status": "True", "reason": "Tested", "message": "x" });
    let verdict = dice.pick(&["Approved", "Denied", "none"]);
    let mut conditions = Vec::new();
    if verdict != "none" {
        conditions.push(is(verdict));
        draft.patches.push(("approval", json!({ "status": { "conditions": conditions } })));
    }
    if dice.chance(30) {
        conditions.push(is("Failed"));
        draft = draft.status(json!({ "conditions": conditions }));
    } else if verdict == "Approved" && dice.chance(60) {
        let certificate = e2e::certificates::Authority::create("issued").expect("an authority").certificate();
        draft = draft.status(json!({ "certificate": BASE64_STANDARD.encode(certificate) }));
    }
    draft
}

fn webhooks(dice: &mut Dice) -> Draft {
    let webhooks = dice.list(3, |_, index| {
        json!({
            "name": format!("hook-{index}.example.com"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Ignore", "clientConfig": { "url": "https://127.0.0.1:1/hook" },
            "rules": [{ "apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"] }],
        })
    });
    Draft::new(json!({ "webhooks": webhooks }))
}

fn constraints() -> Value {
    json!({ "resourceRules": [{
        "apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"],
    }] })
}

fn parameter_kind(dice: &mut Dice) -> Value {
    let version = dice.pick(&["v1", "example.com/v1"]);
    dice.maybe(60, json!({ "apiVersion": version, "kind": "ConfigMap" }))
}

fn validating_policy(dice: &mut Dice) -> Draft {
    let count = 1 + dice.below(4);
    let validations: Vec<Value> = (0..count).map(|_| json!({ "expression": "true" })).collect();
    Draft::new(json!({ "spec": {
        "failurePolicy": "Ignore", "paramKind": parameter_kind(dice), "matchConstraints": constraints(), "validations": validations,
    } }))
}

fn mutating_policy(dice: &mut Dice) -> Draft {
    let count = 1 + dice.below(3);
    let mutation = json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": "Object{}" } });
    let mutations: Vec<Value> = (0..count).map(|_| mutation.clone()).collect();
    Draft::new(json!({ "spec": {
        "failurePolicy": "Ignore", "reinvocationPolicy": "Never", "paramKind": parameter_kind(dice),
        "matchConstraints": constraints(), "mutations": mutations,
    } }))
}

fn reference(dice: &mut Dice) -> Value {
    let parameter = match dice.below(4) {
        0 => return Value::Null,
        1 => json!({ "selector": dice.selector() }),
        _ => json!({ "name": dice.word() }),
    };
    let mut parameter = parameter;
    parameter["parameterNotFoundAction"] = "Allow".into();
    parameter["namespace"] = dice.maybe(50, NAMESPACE);
    parameter
}

fn validating_binding(dice: &mut Dice) -> Draft {
    Draft::new(json!({ "spec": {
        "policyName": format!("absent-{}", dice.word()), "validationActions": ["Warn"], "paramRef": reference(dice),
    } }))
}

fn mutating_binding(dice: &mut Dice) -> Draft {
    Draft::new(json!({ "spec": { "policyName": format!("absent-{}", dice.word()), "paramRef": reference(dice) } }))
}

fn flow_schema(dice: &mut Dice) -> Draft {
    let method = json!({ "type": dice.pick(&["ByUser", "ByNamespace"]) });
    let spec = json!({
        "priorityLevelConfiguration": { "name": dice.pick(&["workload-low", "absent"]) },
        "matchingPrecedence": 1 + dice.below(9000), "distinguisherMethod": dice.maybe(60, method),
    });
    Draft::new(json!({ "spec": spec }))
}

fn priority_level(dice: &mut Dice) -> Draft {
    let (shares, seats) = (dice.below(90), 1 + dice.below(9));
    let queues = json!({ "queues": 9 + dice.below(60), "handSize": dice.maybe(60, 2), "queueLengthLimit": dice.maybe(60, seats) });
    let response = match dice.below(3) {
        0 => json!({ "type": "Reject" }),
        _ => json!({ "type": "Queue", "queuing": queues }),
    };
    let limited = json!({ "nominalConcurrencyShares": dice.maybe(60, shares), "limitResponse": response });
    Draft::new(json!({ "spec": { "type": "Limited", "limited": limited } }))
}

fn device_class(_dice: &mut Dice) -> Draft {
    Draft::new(json!({ "spec": {} }))
}

fn taint_rule(dice: &mut Dice) -> Draft {
    let (value, added) = (dice.word(), dice.moment());
    Draft::new(json!({ "spec": {
        "deviceSelector": { "driver": "example.com" },
        "taint": { "key": "example.com/broken", "value": dice.maybe(60, value), "effect": dice.pick(&["NoSchedule", "NoExecute"]),
                   "timeAdded": dice.maybe(50, added) },
    } }))
}

fn claim_spec() -> Value {
    json!({ "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "x.example.com" } }] } })
}

fn resource_claim(dice: &mut Dice) -> Draft {
    let draft = Draft::new(json!({ "spec": claim_spec() })).going(dice, 30);
    let mut status = json!({ "allocation": { "devices": { "results": [
        { "request": "r", "driver": "example.com", "pool": "p", "device": "d" },
    ] } } });
    if dice.chance(50) {
        status["reservedFor"] = json!([{ "resource": "pods", "name": "p", "uid": "u" }]);
    }
    if dice.chance(60) { draft.status(status) } else { draft }
}

fn claim_template(_dice: &mut Dice) -> Draft {
    Draft::new(json!({ "spec": { "spec": claim_spec() } }))
}

fn slice(dice: &mut Dice) -> Draft {
    let pool = json!({ "name": dice.word(), "generation": 1, "resourceSliceCount": 1 });
    let mut spec = json!({ "driver": format!("{}.example.com", dice.word()), "pool": pool });
    if dice.chance(60) {
        spec["nodeName"] = format!("node-{}", dice.below(3)).into();
    } else {
        spec["allNodes"] = true.into();
    }
    Draft::new(json!({ "spec": spec }))
}
