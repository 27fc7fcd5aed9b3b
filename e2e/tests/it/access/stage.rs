//! A control plane that trusts users' certificates, ServiceAccount tokens and a front proxy, and an operator that has
//! only the permissions that its help names.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::certificates::{Authority, Identity};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Endpoint};
use e2e::kubectl::Kubectl;
use e2e::run_directory::RunDirectory;
use e2e::{fixtures, objects};
use serde_json::{Value, json};

pub(crate) const GROUP: &str = "stable.example.com";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Everything that is needed.
pub(crate) struct Stage {
    pub(crate) control_plane: ControlPlane,
    pub(crate) front_proxy: Authority,
    pub(crate) fieldcache: Fieldcache,
    pub(crate) kubeconfig: PathBuf,
    /// Where the operator keeps its own certificate.
    pub(crate) folder: RunDirectory,
}

/// Flags that make kube-apiserver publish a front proxy to servers beside it. Unauthenticated users have access
/// nowhere, so that both sides reject alike.
pub(crate) fn flags(authority_file: &str) -> Vec<String> {
    [
        &format!("--requestheader-client-ca-file={authority_file}"),
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-uid-headers=X-Remote-Uid",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--anonymous-auth=false",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// How long a server may take until it knows of a change.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// The binding that lets the operator read the certificate authorities of clients.
const TRUST: &str = "fieldcache-trust";

impl Stage {
    pub(crate) async fn set() -> Result<Stage> {
        let folder = RunDirectory::create("access")?;
        let front_proxy = Authority::create("front-proxy-ca")?;
        let authority_file = folder.write("front-proxy-ca.crt", front_proxy.certificate())?;
        let settings =
            Settings { apiserver_arguments: flags(&authority_file.display().to_string()), ..Settings::default() };
        let control_plane = ControlPlane::start(settings).await?;
        let client = control_plane.client();
        let none = fixtures::no_conversion();
        objects::create_definition(&client, &fixtures::shirts(GROUP, &none)).await?;
        objects::create_definition(&client, &fixtures::host_ports(GROUP, &none)).await?;
        grant(&client).await?;
        // Its own kinds, without which it is not ready.
        let definitions = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds").display().to_string();
        let kubectl = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
        let applied = kubectl.run(&["apply", "--server-side", "-k", &definitions]).await?;
        ensure!(applied.exit_code == 0, "{}", applied.stderr);
        let (_, document) = control_plane.as_user("fieldcache", None)?;
        let kubeconfig = folder.write("kubeconfig", document.to_string())?;
        let fieldcache = Box::pin(Fieldcache::operator(&kubeconfig, folder.path(), arguments())).await?;
        let asker = fieldcache.client();
        eventually("the operator is ready", SOON, async || asker.get("/readyz").await?.success().map(drop))
            .await
            .with_context(|| fieldcache.process().tail())?;
        Ok(Stage { control_plane, front_proxy, fieldcache, kubeconfig, folder })
    }

    /// A user's certificate.
    pub(crate) fn user(&self, name: &str, group: Option<&str>) -> Result<Identity> {
        self.control_plane.authority().client(name, group)
    }

    /// Both sides, kube-apiserver first, queried with a certificate or without.
    pub(crate) fn sides(&self, identity: Option<&Identity>) -> Result<[Endpoint; 2]> {
        let kube = self.control_plane.endpoint().base();
        let upstream = Endpoint::secure(kube, &self.control_plane.authority().certificate(), identity)?;
        let own = match identity {
            Some(identity) => self.fieldcache.as_client(self.folder.path(), identity)?,
            None => self.fieldcache.endpoint().clone(),
        };
        Ok([upstream, own])
    }

    /// A token of the ServiceAccount `reader` for an audience; `None`: for kube-apiserver.
    pub(crate) async fn token(&self, audience: Option<&str>) -> Result<String> {
        let spec = audience.map_or(json!({}), |audience| json!({ "audiences": [audience] }));
        let path = "/api/v1/namespaces/team/serviceaccounts/reader/token";
        let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec });
        let answer = objects::create(&self.control_plane.client(), path, &request).await?;
        Ok(answer["status"]["token"].as_str().context("a token")?.to_owned())
    }
}

pub(crate) fn arguments() -> Vec<String> {
    let resources = [format!("shirts.v1.{GROUP}"), format!("hostports.v1.{GROUP}"), "pods.v1".to_owned()];
    resources.into_iter().flat_map(|resource| ["--resource".to_owned(), resource]).collect()
}

fn rule(group: &str, resource: &str, verbs: &[&str], names: &[&str]) -> Value {
    let mut rule = json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs });
    if !names.is_empty() {
        rule["resourceNames"] = json!(names);
    }
    rule
}

/// Binds rules cluster-wide, or in a namespace, to a subject.
async fn bind(client: &Client, name: &str, namespace: Option<&str>, rules: &[Value], subject: &Value) -> Result<()> {
    let (kind, place) = match namespace {
        Some(namespace) => ("Role", format!("{RBAC}/namespaces/{namespace}/")),
        None => ("ClusterRole", format!("{RBAC}/")),
    };
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": { "name": name }, "rules": rules });
    let plural = format!("{}s", kind.to_lowercase());
    objects::create(client, &format!("{place}{plural}"), &role).await?;
    refer(client, name, &place, (kind, name), subject).await
}

async fn refer(client: &Client, name: &str, place: &str, role: (&str, &str), subject: &Value) -> Result<()> {
    // A binding in a namespace may refer to a ClusterRole.
    let kind = if place.contains("/namespaces/") { "RoleBinding" } else { "ClusterRoleBinding" };
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1 },
        "subjects": [subject],
    });
    objects::create(client, &format!("{place}{}s", kind.to_lowercase()), &binding).await?;
    Ok(())
}

fn operator() -> Value {
    json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "fieldcache" })
}

/// Lets the operator read the certificate authorities of clients.
pub(crate) async fn grant_trust(client: &Client) -> Result<()> {
    let reader = ("Role", "extension-apiserver-authentication-reader");
    refer(client, TRUST, &format!("{RBAC}/namespaces/kube-system/"), reader, &operator()).await
}

/// Takes that right from it.
pub(crate) async fn revoke_trust(client: &Client) -> Result<()> {
    objects::delete(client, &format!("{RBAC}/namespaces/kube-system/rolebindings/{TRUST}")).await?;
    Ok(())
}

async fn grant(client: &Client) -> Result<()> {
    for name in ["team", "other"] {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        objects::create(client, "/api/v1/namespaces", &namespace).await?;
    }
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "reader" } });
    objects::create(client, "/api/v1/namespaces/team/serviceaccounts", &account).await?;
    for name in ["one", "two"] {
        let object = json!({ "apiVersion": format!("{GROUP}/v1"), "kind": "Shirt", "metadata": { "name": name }, "spec": { "color": "blue" } });
        objects::create(client, &format!("/apis/{GROUP}/v1/shirts"), &object).await?;
        let object = json!({ "apiVersion": format!("{GROUP}/v1"), "kind": "HostPort", "metadata": { "name": name }, "hostPort": "a:1" });
        objects::create(client, &format!("/apis/{GROUP}/v1/namespaces/team/hostports"), &object).await?;
    }
    let user = |name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name });
    let group = |name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name });
    let reads = ["get", "list", "watch"];
    let all = |resource: &str| rule(GROUP, resource, &reads, &[]);
    // The operator itself, as its help says.
    let own = operator();
    let definitions = rule("apiextensions.k8s.io", "customresourcedefinitions", &reads, &[]);
    bind(
        client,
        "fieldcache",
        None,
        &[
            definitions,
            rule("fieldcache.dev", "fieldcaches", &reads, &[]),
            rule("fieldcache.dev", "views", &reads, &[]),
            all("shirts"),
            all("hostports"),
            rule("", "pods", &reads, &[]),
        ],
        &own,
    )
    .await?;
    refer(client, "fieldcache-delegator", &format!("{RBAC}/"), ("ClusterRole", "system:auth-delegator"), &own).await?;
    grant_trust(client).await?;
    // The user of the requests.
    bind(client, "alice", Some("team"), &[all("hostports")], &user("alice")).await?;
    bind(client, "bob", None, &[rule(GROUP, "shirts", &reads, &["one"])], &user("bob")).await?;
    bind(client, "dave", None, &[rule(GROUP, "shirts", &["get"], &[])], &user("dave")).await?;
    bind(client, "team", None, &[all("shirts"), rule("", "pods", &["list"], &[])], &group("team")).await?;
    let account = json!({ "kind": "ServiceAccount", "name": "reader", "namespace": "team" });
    bind(client, "reader", Some("team"), &[all("hostports"), rule("", "pods/log", &["get"], &[])], &account).await
}
