//! Whether Views that give rights are written under our admission policy.
//!
//! A View with `authorization: View` shows its users what they may not read elsewhere, so only who may read it may write it. That is
//! asked by a ValidatingAdmissionPolicy, when a View is written and of who writes it: later nobody knows any more. The policy and its
//! binding are applied with everything else; a replica serves such Views only while both are as it knows them. It puts nothing
//! right itself: who may write admission policies may do everything, and fieldcache may not.
//!
//! Rights that were taken away count like a policy that is gone; an API server that does not answer does not, for then nobody is asked
//! who may use a View either, and without an answer nobody may.
//!
//! What this cannot tell: who wrote a View in a time when the policy was not there. README says what to do then.

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
};
use kube::runtime::watcher::Config;
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

use super::world;
use crate::manifest::yaml::{self, Form};

/// The policy and its binding, as they are applied.
pub const MANIFEST: &str = include_str!("../../manifests/view-policy.yaml");

/// The name of both.
pub const NAME: &str = "views.fieldcache.dev";

/// Fine, or what is wrong and what to do about it: a sentence without a full stop.
pub type PolicyState = Result<(), String>;

/// What is known before anything has been read.
pub fn unread() -> PolicyState {
    Err(format!("the ValidatingAdmissionPolicy {NAME} and its binding have not been read yet"))
}

/// Both as they have to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    policy: ValidatingAdmissionPolicySpec,
    binding: ValidatingAdmissionPolicyBindingSpec,
}

impl Wanted {
    /// Reads [`MANIFEST`].
    ///
    /// # Errors
    /// Says so when it does not hold both.
    pub fn read() -> Result<Wanted, String> {
        let (documents, broken) = yaml::documents(MANIFEST.as_bytes(), Form::Yaml);
        if let Some(broken) = broken.first() {
            return Err(broken.to_string());
        }
        let [policy, binding] = <[_; 2]>::try_from(documents).map_err(|_| "it is not two documents".to_owned())?;
        let policy: ValidatingAdmissionPolicy = typed(policy.value)?;
        let binding: ValidatingAdmissionPolicyBinding = typed(binding.value)?;
        let policy = policy.spec.ok_or_else(|| "the policy has no spec".to_owned())?;
        Ok(Wanted { policy, binding: binding.spec })
    }

    /// Holds what is there against it.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(
        &self,
        policy: Option<&ValidatingAdmissionPolicy>,
        binding: Option<&ValidatingAdmissionPolicyBinding>,
    ) -> PolicyState {
        let apply = "apply manifests/view-policy.yaml of this release, and look at who has written Views with authorization View since";
        let missing =
            |kind: &str| Err(format!("there is no {kind} {NAME}, so anybody could have written this View: {apply}"));
        let differs = |kind: &str| {
            Err(format!(
                "the {kind} {NAME} is not that of this release, so it may let anybody write this View: {apply}"
            ))
        };
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

fn typed<Kind: DeserializeOwned>(document: Value) -> Result<Kind, String> {
    serde_json::from_value(document).map_err(|error| error.to_string())
}

/// Tells how it stands, for as long as it is polled.
pub async fn follow(client: Client, state: watch::Sender<PolicyState>) {
    let wanted = match Wanted::read() {
        Ok(wanted) => wanted,
        Err(problem) => {
            // A defect of ours: a test reads it. Nothing is served by it.
            let _ = state.send_replace(Err(format!("this release does not know its own admission policy: {problem}")));
            return std::future::pending().await;
        }
    };
    let named = Config::default().fields(&format!("metadata.name={NAME}"));
    let (policies, policy_changes) = world::follow_strictly::<ValidatingAdmissionPolicy>(client.clone(), named.clone());
    let (bindings, binding_changes) = world::follow_strictly::<ValidatingAdmissionPolicyBinding>(client, named);
    let policy_changes = policy_changes.map(|change| (0, change));
    let binding_changes = binding_changes.map(|change| (1, change));
    let mut changes = std::pin::pin!(futures::stream::select(policy_changes, binding_changes));
    let mut may_read = [true, true];
    while let Some((which, change)) = changes.next().await {
        may_read[which] = change.is_ok();
        let now = if may_read == [true, true] {
            // Both must have been listed once; what is then not there is missing.
            let (Some(_), Some(_)) =
                (policies.wait_until_ready().now_or_never(), bindings.wait_until_ready().now_or_never())
            else {
                continue;
            };
            let policy = policies.state().into_iter().find(|policy| policy.name_any() == NAME);
            let binding = bindings.state().into_iter().find(|binding| binding.name_any() == NAME);
            wanted.check(policy.as_deref(), binding.as_deref())
        } else {
            Err(format!(
                "the ValidatingAdmissionPolicy {NAME} or its binding may not be read: grant the rights of manifests/rbac.yaml"
            ))
        };
        state.send_if_modified(|held| {
            let differs = *held != now;
            if differs {
                if let Err(problem) = &now {
                    tracing::warn!(problem, "Views with authorization View are not served");
                }
                *held = now;
            }
            differs
        });
    }
}
