//! `fieldcache operator` as manifests/ install it, beside a kube-apiserver with RBAC on: with its ServiceAccount's token, and with no
//! right but those of manifests/.

mod agents;
mod aggregation;
mod consumers;
mod credentials;
mod definitions;
mod ends;
mod escapes;
mod less;
mod memory;
mod messages;
mod namespaces;
mod permitted;
mod placement;
mod readiness;
mod replicas;
mod requests;
mod reviews;
mod rights;
mod views;
mod walk_through;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::Client;
use e2e::kubectl::Kubectl;
use e2e::objects;
use e2e::run_directory::RunDirectory;
use e2e::shell::Shell;
use serde_json::{Value, json};

/// What each step may take: CRDs and discovery settle in kube-apiserver first.
const SOON: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "fieldcache-system";
const SHIRTS: &str = "/apis/stable.example.com/v1/shirts";
const CRD: &str = "crd/shirts.stable.example.com";
const SELECTABLE: &str = "/apis/fieldcache.dev/v1alpha1/selectableresources/shirts.stable.example.com";

fn manifests() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests").display().to_string()
}

/// A cluster with manifests/ applied, shirts in it, and no controller that runs the Deployment.
struct Stage {
    control_plane: ControlPlane,
    kubectl: Kubectl,
    folder: RunDirectory,
    manifests: String,
}

impl Stage {
    async fn start() -> Result<Stage> {
        Stage::start_with(Vec::new()).await
    }

    /// With more arguments for kube-apiserver.
    async fn start_with(apiserver_arguments: Vec<String>) -> Result<Stage> {
        let settings = Settings { controller_manager: true, apiserver_arguments, ..Settings::default() };
        let control_plane = ControlPlane::start(settings).await?;
        let kubectl = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
        let stage = Stage { control_plane, kubectl, folder: RunDirectory::create("operator")?, manifests: manifests() };
        // Server-side: every kind is known and every field is right. The definitions first, for the objects of their kinds.
        stage.kubectl.succeed(&["apply", "--server-side", "-k", &stage.manifests]).await?;
        stage.apply("samples/shirts-crd.yaml").await?;
        stage.apply("walk-through/reader.yaml").await?;
        for namespace in ["team-a", "team-b"] {
            stage.kubectl.succeed(&["create", "namespace", namespace]).await?;
        }
        stage.kubectl.succeed(&["wait", "--for=condition=Established", "--timeout=180s", CRD]).await?;
        stage.kubectl.apply_known(&format!("{}/samples/objects/shirts.yaml", stage.manifests)).await?;
        eventually("kubectl knows our kinds", SOON, async || {
            stage.kubectl.succeed(&["get", "fieldcaches,views,selectableresources"]).await
        })
        .await?;
        Ok(stage)
    }

    async fn apply(&self, file: &str) -> Result<String> {
        self.kubectl.succeed(&["apply", "-f", &format!("{}/{file}", self.manifests)]).await
    }

    /// Applies a document of a test's own.
    async fn apply_this(&self, name: &str, document: &Value) -> Result<String> {
        let file = self.folder.write(name, document.to_string())?;
        self.kubectl.succeed(&["apply", "-f", &file.display().to_string()]).await
    }

    /// A kubeconfig with the token of the ServiceAccount that the manifests make, as the README says for a cluster without nodes.
    async fn kubeconfig(&self) -> Result<PathBuf> {
        let shell = Shell::with_kubeconfig(&self.control_plane.kubeconfig_for(self.control_plane.endpoint().base()))?;
        shell.succeed(&format!("set -e\n{}", include_str!("beside.sh"))).await?;
        let kubeconfig = std::fs::read_to_string(shell.home().path().join("operator.kubeconfig"))?;
        self.folder.write("kubeconfig", kubeconfig)
    }

    /// A token of a ServiceAccount; without an audience for the API server itself.
    async fn token(&self, namespace: &str, name: &str, audience: Option<&str>) -> Result<String> {
        let audiences: Vec<&str> = audience.into_iter().collect();
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "audiences": audiences },
        });
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let answer = objects::create(&self.control_plane.client(), &path, &request).await?;
        answer["status"]["token"].as_str().map(str::to_owned).context("a token")
    }

    /// A replica whose certificate is in the folder of this stage.
    async fn operator(&self, identity: &str) -> Result<Fieldcache> {
        let arguments = ["--namespace", NAMESPACE, "--identity", identity].map(str::to_owned);
        Box::pin(Fieldcache::operator(&self.kubeconfig().await?, self.folder.path(), arguments)).await
    }

    /// An administrator, who sends requests to an operator.
    fn administrator(&self, operator: &Fieldcache) -> Result<Client> {
        let administrator = self.control_plane.authority().client("somebody", Some("system:masters"))?;
        Ok(operator.as_client(self.folder.path(), &administrator)?.client())
    }

    /// A condition of an object, by what kubectl calls it.
    async fn condition(&self, object: &str, kind: &str) -> Result<Value> {
        let stored: Value = serde_json::from_str(&self.kubectl.succeed(&["get", object, "-o", "json"]).await?)?;
        let conditions = stored["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition["type"] == kind);
        found.with_context(|| format!("{object} has no condition {kind}: {}", stored["status"]))
    }
}

/// Waits until a replica has what it is to serve.
async fn ready(operator: &Fieldcache, client: &Client) -> Result<()> {
    eventually("the operator is ready", SOON, async || {
        let answer = client.get("/readyz").await?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok(())
    })
    .await
    .with_context(|| operator.process().tail())
}

/// Names of a list's items, as `namespace/name`.
fn names(list: &Value) -> Result<Vec<String>> {
    let name = |item: &Value| {
        let text = |member: &str| item["metadata"][member].as_str().unwrap_or_default().to_owned();
        format!("{}/{}", text("namespace"), text("name"))
    };
    Ok(list["items"].as_array().context("a list has items")?.iter().map(name).collect())
}
