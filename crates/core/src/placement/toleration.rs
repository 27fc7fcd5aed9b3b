//! Matches taints with tolerations: rejection, lower score, and eviction with its time.
//!
//! After `ToleratesTaint` of `k8s.io/api/core/v1/toleration.go` and the taint eviction controller
//! (`pkg/controller/tainteviction`). Where taints come from is [`super::condition`].

use super::node::Taint;
use super::pod::Toleration;

/// The effect of a taint that rejects new Pods without a toleration.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// The effect of a taint that lowers the score of the node for Pods without a toleration.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
/// The effect of a taint that rejects new Pods without a toleration, and evicts running ones.
pub const NO_EXECUTE: &str = "NoExecute";

/// Whether a toleration covers a taint. `comparison`: whether the operators `Gt` and `Lt` are enabled (feature gate
/// TaintTolerationComparisonOperators). Otherwise, they cover nothing.
pub fn tolerates(toleration: &Toleration, taint: &Taint, comparison: bool) -> bool {
    if !toleration.effect.is_empty() && toleration.effect != taint.effect {
        return false;
    }
    if !toleration.key.is_empty() && toleration.key != taint.key {
        return false;
    }
    let bounds = || Some((canonical_integer(&taint.value)?, canonical_integer(&toleration.value)?));
    match &*toleration.operator {
        "" | "Equal" => toleration.value == taint.value,
        "Exists" => true,
        "Gt" => comparison && bounds().is_some_and(|(taint, bound)| taint > bound),
        "Lt" => comparison && bounds().is_some_and(|(taint, bound)| taint < bound),
        _ => false,
    }
}

/// Parses an integer in canonical decimal form: without `+`, leading zeros and `-0`. `None` for any other text, or if
/// the number does not fit in 64 bits.
pub(super) fn canonical_integer(text: &str) -> Option<i64> {
    is_canonical_integer(text).then(|| text.parse().ok()).flatten()
}

/// Whether a text is an integer of any size without plus sign and leading zeros, and not `-0`.
pub(super) fn is_canonical_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let starts_well = text == "0" || digits.bytes().next().is_some_and(|first| matches!(first, b'1'..=b'9'));
    starts_well && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// Whether some toleration covers a taint. `comparison`: whether the operators `Gt` and `Lt` are enabled (feature gate
/// TaintTolerationComparisonOperators).
pub fn is_tolerated(tolerations: &[Toleration], taint: &Taint, comparison: bool) -> bool {
    tolerations.iter().any(|toleration| tolerates(toleration, taint, comparison))
}

/// Whether a taint rejects a new pod that does not tolerate it.
pub fn rejects_new_pods(taint: &Taint) -> bool {
    taint.effect == NO_SCHEDULE || taint.effect == NO_EXECUTE
}

/// When a running pod leaves a node because of its NoExecute taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Never: there is no such taint, or all are tolerated without limit.
    Never,
    /// As soon as the taint eviction controller sees the Pod and the taint.
    Now,
    /// This many seconds after the taint eviction controller first saw the Pod and the taint; at least one. The
    /// controller ignores the taint's `timeAdded`.
    After(i64),
}

/// The eviction of a running pod by the taints of its node. `comparison`: whether the operators `Gt` and `Lt` are
/// enabled (feature gate TaintTolerationComparisonOperators).
///
/// For each taint, the first toleration that covers it decides, even if a later one has no time limit.
pub fn eviction(taints: &[Taint], tolerations: &[Toleration], comparison: bool) -> Eviction {
    let mut seconds: Option<i64> = None;
    for taint in taints.iter().filter(|taint| taint.effect == NO_EXECUTE) {
        let first = tolerations.iter().find(|toleration| tolerates(toleration, taint, comparison));
        let Some(first) = first else { return Eviction::Now };
        if let Some(limit) = first.toleration_seconds {
            seconds = Some(seconds.map_or(limit, |least| least.min(limit)));
        }
    }
    match seconds {
        None => Eviction::Never,
        Some(limit) if limit <= 0 => Eviction::Now,
        Some(limit) => Eviction::After(limit),
    }
}
