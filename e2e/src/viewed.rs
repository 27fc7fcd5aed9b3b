//! An operator beside a control plane that caches resources and shows all of them in one View.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::certificates::Identity;
use crate::control_plane::{ControlPlane, kubeconfig};
use crate::eventually::eventually;
use crate::fieldcache::Fieldcache;
use crate::http::Endpoint;
use crate::kubectl::Kubectl;
use crate::objects;
use crate::run_directory::RunDirectory;

/// The View's name.
pub const VIEW: &str = "all";
const SOON: Duration = Duration::from_secs(60);

/// A running operator whose View is ready.
#[derive(Debug)]
pub struct Viewed {
    /// The operator.
    pub operator: Fieldcache,
    // After the operator, which is to be gone first.
    folder: RunDirectory,
}

impl Viewed {
    /// Starts it for a resource of this group and plural name.
    ///
    /// # Errors
    /// When something that is needed cannot be had.
    pub async fn start(control_plane: &ControlPlane, group: &str, plural: &str) -> Result<Viewed> {
        Box::pin(Viewed::create(control_plane, &[(group, plural)], "Eventual")).await
    }

    /// Starts it for resources of these groups and plural names. `consistency` is that of the View.
    ///
    /// # Errors
    /// When something that is needed cannot be had.
    pub async fn create(control_plane: &ControlPlane, resources: &[(&str, &str)], consistency: &str) -> Result<Viewed> {
        let shown: Vec<Value> =
            resources.iter().map(|(group, plural)| json!({ "group": group, "resource": plural })).collect();
        Box::pin(Viewed::with_resources(control_plane, &shown, consistency)).await
    }

    /// Starts it for these resources of the View, with `group` and `resource`. `consistency` is that of the View.
    ///
    /// # Errors
    /// When something that is needed cannot be had.
    pub async fn with_resources(control_plane: &ControlPlane, shown: &[Value], consistency: &str) -> Result<Viewed> {
        let client = control_plane.client();
        let kubectl = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
        kubectl.succeed(&["apply", "--server-side", "-k", concat!(env!("CARGO_MANIFEST_DIR"), "/../crds")]).await?;
        let folder = RunDirectory::create("viewed")?;
        let arguments = ["--namespace", "default", "--identity", "one"].map(str::to_owned);
        let operator = Box::pin(Fieldcache::operator(control_plane.kubeconfig(), folder.path(), arguments)).await?;
        let view = json!({
            "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": VIEW },
            "spec": { "resources": shown, "consistency": consistency },
        });
        let caches = shown.iter().map(|resource| {
            let [group, plural] = ["group", "resource"].map(|member| resource[member].as_str().unwrap_or_default());
            let dot = if group.is_empty() { "" } else { "." };
            json!({
                "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache",
                "metadata": { "name": format!("{plural}{dot}{group}") }, "spec": { "group": group, "resource": plural },
            })
        });
        let path = |kind: &str| format!("/apis/fieldcache.dev/v1alpha1/{kind}");
        for (kind, objects) in [("fieldcaches", caches.collect()), ("views", vec![view])] {
            eventually("the kind is served", SOON, async || {
                ensure!(client.get(&path(kind)).await?.status == 200, "not yet");
                Ok(())
            })
            .await?;
            for object in &objects {
                objects::create(&client, &path(kind), object).await?;
            }
        }
        kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", &format!("view/{VIEW}")]).await?;
        Ok(Viewed { operator, folder })
    }

    /// A kubeconfig document whose server is the View, with this user.
    ///
    /// # Errors
    /// When the authority of the operator cannot be read.
    pub fn kubeconfig_of(&self, identity: &Identity) -> Result<Value> {
        Ok(kubeconfig(&self.base(), Some(&self.authority()?), Some(identity)))
    }

    /// A kubeconfig document whose server is the View, without a user.
    ///
    /// # Errors
    /// When the authority of the operator cannot be read.
    pub fn kubeconfig(&self) -> Result<Value> {
        Ok(kubeconfig(&self.base(), Some(&self.authority()?), None))
    }

    /// The View, queried by a user with a certificate.
    ///
    /// # Errors
    /// When the authority of the operator cannot be read, or the certificate is none.
    pub fn endpoint(&self, identity: &Identity) -> Result<Endpoint> {
        Endpoint::secure(&self.base(), &self.authority()?, Some(identity))
    }

    fn authority(&self) -> Result<String> {
        std::fs::read_to_string(self.folder.path().join("ca.crt")).context("reading the authority of the operator")
    }

    /// The URL of the View.
    #[must_use]
    pub fn base(&self) -> String {
        format!("{}/apis/view.fieldcache.dev/v1alpha1/views/{VIEW}/proxy", self.operator.address())
    }
}
