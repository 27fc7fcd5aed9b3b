//! Parts of Pods that are changed in many places.

use serde_json::Value;

pub(crate) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(crate) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// The items of a member; none if it is absent.
pub(crate) fn items<'value>(value: &'value mut Value, member: &str) -> &'value mut [Value] {
    value.get_mut(member).and_then(Value::as_array_mut).map_or(&mut [], |items| items)
}

/// Removes a member; what is no object has none.
pub(crate) fn remove(value: &mut Value, member: &str) {
    if let Some(members) = value.as_object_mut() {
        members.remove(member);
    }
}

/// Every pod affinity term of a Pod, with where it is: podAffinity or podAntiAffinity, and whether it is required.
pub(crate) fn each_pod_term(pod: &mut Value, mut change: impl FnMut((&str, bool), &mut Value)) {
    for member in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = pod.pointer_mut(&format!("/spec/affinity/{member}")) else { continue };
        for term in items(affinity, REQUIRED) {
            change((member, true), term);
        }
        for weighted in items(affinity, PREFERRED) {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                change((member, false), term);
            }
        }
    }
}

/// The required node selector terms of a Pod.
pub(crate) fn node_terms(pod: &mut Value) -> Option<&mut Vec<Value>> {
    pod.pointer_mut(&format!("/spec/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms"))?.as_array_mut()
}

/// Every requirement on labels in node affinity, required or preferred.
pub(crate) fn each_node_requirement(pod: &mut Value, mut change: impl FnMut(&mut Value)) {
    for term in node_terms(pod).into_iter().flatten() {
        items(term, "matchExpressions").iter_mut().for_each(&mut change);
    }
    let Some(affinity) = pod.pointer_mut("/spec/affinity/nodeAffinity") else { return };
    for preferred in items(affinity, PREFERRED) {
        if let Some(term) = preferred.get_mut("preference") {
            items(term, "matchExpressions").iter_mut().for_each(&mut change);
        }
    }
}

/// Every toleration of a Pod.
pub(crate) fn tolerations(pod: &mut Value) -> &mut [Value] {
    pod.get_mut("spec").map_or(&mut [], |spec| items(spec, "tolerations"))
}
