//! Whether the admission policies that protect Views with `authorization: View` are in force.
//!
//! Such a View shows its users objects that they may not read elsewhere. So only users who may read a resource may
//! write such a View of it, or a FieldCache, which defines what the View selects by. ValidatingAdmissionPolicies check
//! the author at each write; the author is not known later. A replica serves such Views only while each policy and each
//! binding is exactly that of this release. It repairs nothing itself: a permission to write admission policies would
//! be a permission to do everything.
//!
//! If fieldcache may not read the policies for some seconds, it treats them as missing. If the API server does not
//! respond, the last known state applies. No object is disclosed by that, because reviews of the permission to use a
//! View fail then as well.
//!
//! Not covered: the author of an object that was written while its policy was absent. README describes what to do then.

use futures::stream::select_all;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
};
use kube::runtime::reflector::Store;
use kube::runtime::watcher::Config;
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Duration, Instant};

use super::reflector;
use crate::manifest::yaml::{self, Syntax};

/// The policies, each followed by its binding, as they are applied.
pub const MANIFEST: &str = include_str!("../../manifests/view-policy.yaml");

/// The names of the policies, in the order of [`MANIFEST`]. A binding has the name of its policy.
pub const NAMES: [&str; 2] = ["views.fieldcache.dev", "fieldcaches.fieldcache.dev"];

/// `Ok`: the policies are in force. `Err`: what is wrong and what to do about it, as sentences without a final full
/// stop.
pub type PolicyState = Result<(), String>;

/// The state before the policies were read: an error, so that no View with `authorization: View` is served.
pub fn unread() -> PolicyState {
    Err(format!("the ValidatingAdmissionPolicies {} and their bindings have not been read yet", NAMES.join(" and ")))
}

/// A policy and its binding, as this release requires them.
#[derive(Clone, Debug, PartialEq)]
pub struct RequiredPolicy {
    name: &'static str,
    policy: ValidatingAdmissionPolicySpec,
    binding: ValidatingAdmissionPolicyBindingSpec,
}

impl RequiredPolicy {
    /// Reads [`MANIFEST`].
    ///
    /// # Errors
    /// The manifest does not have exactly the policies of [`NAMES`] with their bindings.
    pub fn read_all() -> Result<Vec<RequiredPolicy>, String> {
        let (documents, broken) = yaml::documents(MANIFEST.as_bytes(), Syntax::Yaml);
        if let Some(broken) = broken.first() {
            return Err(broken.to_string());
        }
        if documents.len() != 2 * NAMES.len() {
            let (found, expected) = (documents.len(), 2 * NAMES.len());
            return Err(format!("manifests/view-policy.yaml has {found} documents instead of {expected}"));
        }
        let mut values = documents.into_iter().map(|document| document.value);
        let mut required = Vec::with_capacity(NAMES.len());
        for name in NAMES {
            let (Some(policy), Some(binding)) = (values.next(), values.next()) else {
                return Err(format!("manifests/view-policy.yaml lacks {name}"));
            };
            let policy: ValidatingAdmissionPolicy = typed(policy)?;
            let binding: ValidatingAdmissionPolicyBinding = typed(binding)?;
            if policy.name_any() != name || binding.name_any() != name {
                return Err(format!("manifests/view-policy.yaml lacks {name}, or has other documents before it"));
            }
            let policy = policy.spec.ok_or_else(|| format!("the policy {name} has no spec"))?;
            required.push(RequiredPolicy { name, policy, binding: binding.spec });
        }
        Ok(required)
    }

    /// The name of the policy and of its binding.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Compares the policy and its binding with those of the cluster; `None`: the cluster does not have the object.
    ///
    /// # Errors
    /// The object that is missing, is being deleted or differs, and what to do.
    pub fn check(
        &self,
        policy: Option<&ValidatingAdmissionPolicy>,
        binding: Option<&ValidatingAdmissionPolicyBinding>,
    ) -> PolicyState {
        let name = self.name;
        let consequence = "Views with authorization View are not served, because without these policies, authors of Views and FieldCaches could make objects visible that they may not read themselves. Apply manifests/view-policy.yaml of this release. Then review the Views with authorization View, and the FieldCaches, that were written in the meantime";
        let missing = |kind: &str| Err(format!("there is no {kind} {name}. {consequence}"));
        let differs = |kind: &str| Err(format!("the {kind} {name} differs from that of this release. {consequence}"));
        let Some(policy) = policy.filter(|policy| policy.metadata.deletion_timestamp.is_none()) else {
            return missing("ValidatingAdmissionPolicy");
        };
        let Some(binding) = binding.filter(|binding| binding.metadata.deletion_timestamp.is_none()) else {
            return missing("ValidatingAdmissionPolicyBinding");
        };
        if policy.spec.as_ref() != Some(&self.policy) {
            return differs("ValidatingAdmissionPolicy");
        }
        if binding.spec != self.binding {
            return differs("ValidatingAdmissionPolicyBinding");
        }
        Ok(())
    }
}

/// Decodes a document of the manifest.
fn typed<Kind: DeserializeOwned>(document: Value) -> Result<Kind, String> {
    serde_json::from_value(document).map_err(|error| error.to_string())
}

/// A required policy, with the policy and the binding of this name in the cluster.
struct FollowedPolicy {
    required: RequiredPolicy,
    policies: Store<ValidatingAdmissionPolicy>,
    bindings: Store<ValidatingAdmissionPolicyBinding>,
    policy_access: ReadAccess,
    binding_access: ReadAccess,
}

/// How long the API server must reject all reads before the permission to read counts as missing. An API server that
/// starts rejects all requests for a moment, until it has read its roles. Until then the last known state applies, as
/// while the API server does not respond.
const REJECTED_FOR: Duration = Duration::from_secs(5);

/// Whether fieldcache may read the policy or the binding.
#[derive(Clone, Copy, Debug, Default)]
struct ReadAccess {
    /// The time of the first of the latest reads that were rejected; `None`: the last read was permitted.
    rejected_since: Option<Instant>,
    /// Whether reads have been rejected for long enough to report it.
    is_rejected: bool,
}

impl ReadAccess {
    /// Records whether the API server permitted a read. Failures other than a missing permission are never passed here.
    /// Sets `is_rejected` when reads have been rejected for [`REJECTED_FOR`].
    fn record_read(&mut self, is_permitted: bool, now: Instant) {
        if is_permitted {
            *self = ReadAccess::default();
            return;
        }
        let since = *self.rejected_since.get_or_insert(now);
        self.is_rejected = now.saturating_duration_since(since) >= REJECTED_FOR;
    }
}

/// Which object of a [`FollowedPolicy`] has changed.
#[derive(Clone, Copy)]
enum Part {
    Policy,
    Binding,
}

impl FollowedPolicy {
    /// The state of the policy. `None` until the policy and its binding have been listed once, unless fieldcache may
    /// not read them.
    fn state(&self) -> Option<PolicyState> {
        let name = self.required.name();
        if self.policy_access.is_rejected || self.binding_access.is_rejected {
            return Some(Err(format!(
                "fieldcache has no permission to read the ValidatingAdmissionPolicy {name} or its binding: grant the permissions of manifests/rbac.yaml"
            )));
        }
        self.policies.wait_until_ready().now_or_never()?.ok()?;
        self.bindings.wait_until_ready().now_or_never()?.ok()?;
        let policy = self.policies.state().into_iter().find(|policy| policy.name_any() == name);
        let binding = self.bindings.state().into_iter().find(|binding| binding.name_any() == name);
        Some(self.required.check(policy.as_deref(), binding.as_deref()))
    }
}

/// The combined state of several policies: the first problem, or `Ok` if all are in force. `None` if there is no
/// problem and one of them has not been read yet.
fn combine(states: impl IntoIterator<Item = Option<PolicyState>>) -> Option<PolicyState> {
    let mut all = Some(Ok(()));
    for state in states {
        match state {
            Some(Err(problem)) => return Some(Err(problem)),
            Some(Ok(())) => {}
            None => all = None,
        }
    }
    all
}

/// Follows the policies and their bindings, and sends their combined state to `state`, for as long as it is polled.
pub async fn follow(client: Client, state: watch::Sender<PolicyState>) {
    let required = match RequiredPolicy::read_all() {
        Ok(required) => required,
        Err(problem) => {
            // An internal error of this program, which a test excludes. Views with authorization View are not served
            // until their admission policies are in place.
            let _ = state.send_replace(Err(format!(
                "this release of fieldcache cannot read its own admission policies: {problem}"
            )));
            return std::future::pending().await;
        }
    };
    let (mut followed, mut changes) = (Vec::new(), Vec::new());
    for (index, required) in required.into_iter().enumerate() {
        // One watch for each name: RBAC grants list and watch by name only for a selector of that one name.
        let named = Config::default().fields(&format!("metadata.name={}", required.name()));
        let (policies, policy_changes) =
            reflector::follow_strictly::<ValidatingAdmissionPolicy>(client.clone(), named.clone());
        let (bindings, binding_changes) =
            reflector::follow_strictly::<ValidatingAdmissionPolicyBinding>(client.clone(), named);
        changes.push(policy_changes.map(move |change| (index, Part::Policy, change)).boxed());
        changes.push(binding_changes.map(move |change| (index, Part::Binding, change)).boxed());
        let (policy_access, binding_access) = (ReadAccess::default(), ReadAccess::default());
        followed.push(FollowedPolicy { required, policies, bindings, policy_access, binding_access });
    }
    let mut changes = select_all(changes);
    while let Some((index, part, change)) = changes.next().await {
        if let Some(changed) = followed.get_mut(index) {
            match part {
                Part::Policy => changed.policy_access.record_read(change.is_ok(), Instant::now()),
                Part::Binding => changed.binding_access.record_read(change.is_ok(), Instant::now()),
            }
        }
        let Some(now) = combine(followed.iter().map(FollowedPolicy::state)) else { continue };
        state.send_if_modified(|current| {
            let differs = *current != now;
            if differs {
                if let Err(problem) = &now {
                    tracing::warn!(
                        problem,
                        "Views with authorization View are not served until their admission policies are in place"
                    );
                }
                *current = now;
            }
            differs
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_counts_when_it_lasts() {
        let begun = Instant::now();
        let rows = [
            (0, false, false, "the API server starts"),
            (1, false, false, "it still does"),
            (2, true, false, "it has read its roles"),
            (3, false, false, "a new rejection"),
            (7, false, false, "less than 5 s later"),
            (8, false, true, "it has lasted"),
            (9, true, false, "the permission is granted again"),
        ];
        let mut access = ReadAccess::default();
        for (second, is_permitted, is_rejected, why) in rows {
            access.record_read(is_permitted, begun + Duration::from_secs(second));
            assert_eq!(access.is_rejected, is_rejected, "{why}");
        }
    }
}
