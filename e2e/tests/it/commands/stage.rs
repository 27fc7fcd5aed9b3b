//! A cluster with shirts, people and ServiceAccounts, and an operator that serves shirts and Pods.
//!
//! The operator is configured which resources to cache, and another holder has its Lease for as long as a test lasts.
//! So it serves and writes no status, and tests can write those of Views by hand.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::control_plane::{ControlPlane, Settings, kubeconfig};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::objects;
use e2e::run_directory::RunDirectory;
use e2e::shell::Shell;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// How long anything may take here.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Where the operator serves in a cluster, by the name in its certificate.
pub(crate) const SERVICE: &str = "fieldcache.fieldcache-system.svc";

/// All shirts.
pub(crate) const SHIRTS: &str = "/apis/stable.example.com/v1/shirts";

/// Everything that is needed.
pub(crate) struct Stage {
    pub(crate) control_plane: ControlPlane,
    pub(crate) operator: Fieldcache,
    /// Of the operator's certificate: `ca.crt`.
    pub(crate) folder: RunDirectory,
}

/// A file of the project.
pub(crate) fn repository(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path).display().to_string()
}

const PREPARE: &str = r#"
set -e
kubectl apply --server-side -k MANIFESTS/../crds
kubectl apply -f MANIFESTS/samples/shirts-crd.yaml
kubectl wait --for=condition=Established --timeout=180s crd/shirts.stable.example.com
for namespace in team-a team-b fieldcache-system; do kubectl create namespace $namespace; done
for kind in shirts views; do
  for look in $(seq 150); do if kubectl get $kind; then break; else sleep 0.2; fi; done
done
kubectl apply -f MANIFESTS/samples/objects/shirts.yaml
for account in reader writer nobody; do kubectl -n team-a create serviceaccount $account; done
kubectl create clusterrole shirts-reader --verb=get,list,watch --resource=shirts.stable.example.com,pods
kubectl create clusterrolebinding shirts-reader --clusterrole=shirts-reader --user=alice --serviceaccount=team-a:reader
kubectl create clusterrole shirts-writer --verb=patch --resource=shirts.stable.example.com
kubectl create clusterrolebinding shirts-writer --clusterrole=shirts-writer --serviceaccount=team-a:writer
kubectl create clusterrole views-reader --verb=get --resource=views.fieldcache.dev
kubectl create clusterrolebinding views-reader --clusterrole=views-reader --user=alice --serviceaccount=team-a:reader
kubectl apply -f - <<END
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: fieldcache, namespace: fieldcache-system}
spec: {holderIdentity: a-test, leaseDurationSeconds: 86400}
END
"#;

impl Stage {
    /// The one of all tests, made by the first test that needs it.
    ///
    /// # Errors
    /// When it could not be made; every asker gets the same error.
    pub(crate) async fn shared() -> Result<&'static Stage> {
        static SHARED: OnceCell<Result<Stage, String>> = OnceCell::const_new();
        let make = async || {
            let stage = Box::pin(Stage::without_cache()).await?;
            // Views show what a FieldCache names.
            let cache = repository("manifests/walk-through/shirts-cache.yaml");
            stage.administrator()?.succeed(&format!("kubectl apply -f {cache}")).await?;
            Ok(stage)
        };
        let made = SHARED.get_or_init(async || make().await.map_err(|error: anyhow::Error| format!("{error:#}")));
        made.await.as_ref().map_err(|error| anyhow!("the stage of the commands: {error}"))
    }

    /// One of its own, in which no FieldCache names the shirts.
    ///
    /// # Errors
    /// When it could not be made.
    pub(crate) async fn without_cache() -> Result<Stage> {
        let control_plane = ControlPlane::start(Settings::default()).await?;
        let folder = RunDirectory::create("commands")?;
        let administrator = Shell::with_kubeconfig(&control_plane.kubeconfig_for(control_plane.endpoint().base()))?;
        administrator.succeed(&PREPARE.replace("MANIFESTS", &repository("manifests"))).await?;
        let arguments = ["--resource", "shirts.v1.stable.example.com", "--resource", "pods.v1", "--tls-name", SERVICE]
            .map(str::to_owned);
        let operator = Box::pin(Fieldcache::operator(control_plane.kubeconfig(), folder.path(), arguments)).await?;
        let identity = control_plane.authority().client("alice", None)?;
        let client = operator.as_client(folder.path(), &identity)?.client();
        let serving = eventually("the shirts are served", SOON, async || client.get_json(SHIRTS).await);
        serving.await.with_context(|| operator.process().tail())?;
        Ok(Stage { control_plane, operator, folder })
    }

    /// A shell of the cluster's administrator.
    pub(crate) fn administrator(&self) -> Result<Shell> {
        Shell::with_kubeconfig(&self.control_plane.kubeconfig_for(self.control_plane.endpoint().base()))
    }

    /// A kubeconfig of the person alice, who has a certificate, in the namespace team-b.
    pub(crate) fn alice(&self) -> Result<Value> {
        let (_, mut document) = self.control_plane.as_user("alice", None)?;
        document["contexts"][0]["context"]["namespace"] = json!("team-b");
        Ok(document)
    }

    /// A token of a ServiceAccount in team-a, for the operator or, without an audience, for kube-apiserver.
    pub(crate) async fn token(&self, account: &str, audience: Option<&str>) -> Result<String> {
        let spec = audience.map_or(json!({}), |audience| json!({ "audiences": [audience] }));
        let path = format!("/api/v1/namespaces/team-a/serviceaccounts/{account}/token");
        let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec });
        let answer = objects::create(&self.control_plane.client(), &path, &request).await?;
        Ok(answer["status"]["token"].as_str().context("a token")?.to_owned())
    }

    /// A kubeconfig for kube-apiserver of a user with a token.
    pub(crate) fn with_token(&self, token: &str) -> Value {
        let authority = self.control_plane.authority().certificate();
        let mut document = kubeconfig(self.control_plane.endpoint().base(), Some(&authority), None);
        document["users"][0]["user"] = json!({ "token": token });
        document
    }

    /// The folder that a Pod of a ServiceAccount of team-a has for kube-apiserver.
    pub(crate) async fn pod_folder(&self, account: &str) -> Result<RunDirectory> {
        let folder = RunDirectory::create("service-account")?;
        folder.write("token", self.token(account, None).await?)?;
        folder.write("ca.crt", self.control_plane.authority().certificate())?;
        folder.write("namespace", "team-a")?;
        Ok(folder)
    }

    /// Makes a View of all shirts that no client has read yet.
    pub(crate) async fn create_view(&self, administrator: &Shell, name: &str) -> Result<()> {
        let view = json!({
            "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": name },
            "spec": { "resources": [{ "group": "stable.example.com", "resource": "shirts" }] },
        });
        administrator.home().write("view.json", view.to_string())?;
        administrator.succeed("kubectl apply -f view.json").await?;
        let identity = self.control_plane.authority().client("administrator", Some("system:masters"))?;
        let client = self.operator.as_client(self.folder.path(), &identity)?.client();
        let inside = format!("/apis/view.fieldcache.dev/v1alpha1/views/{name}/proxy/apis");
        let serving = eventually("the View is served", SOON, async || client.get(&inside).await?.success().map(drop));
        serving.await.with_context(|| self.operator.process().tail())
    }

    /// Writes a View's status as an operator would.
    pub(crate) async fn write_status(
        &self,
        administrator: &Shell,
        view: &str,
        ready: (&str, &str, &str),
        endpoint: &Value,
    ) -> Result<()> {
        let (status, reason, message) = ready;
        let ready = json!({
            "type": "Ready", "status": status, "reason": reason, "message": message, "observedGeneration": 1,
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        });
        let status = json!({ "status": { "conditions": [ready], "endpoint": endpoint } });
        administrator.home().write("status.json", status.to_string())?;
        let patch = format!("kubectl patch view {view} --subresource=status --type=merge --patch-file status.json");
        administrator.succeed(&patch).await.map(drop)
    }

    /// Makes a View that is served at this URL, by a server with the operator's certificate.
    pub(crate) async fn serve_view(&self, administrator: &Shell, name: &str, url: &str) -> Result<()> {
        self.create_view(administrator, name).await?;
        let endpoint = json!({ "url": url, "caBundle": BASE64_STANDARD.encode(self.authority()?) });
        self.write_status(administrator, name, ("True", "Served", ""), &endpoint).await
    }

    /// The operator's own authority, PEM.
    pub(crate) fn authority(&self) -> Result<String> {
        std::fs::read_to_string(self.folder.path().join("ca.crt")).context("reading the operator's authority")
    }
}

/// Host and port of an address.
pub(crate) fn host_and_port(address: &str) -> Result<(&str, &str)> {
    address.trim_start_matches("https://").rsplit_once(':').context("an address has a port")
}
