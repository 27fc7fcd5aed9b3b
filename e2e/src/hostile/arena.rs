//! The servers and clients of the attacks: one control plane that all families share. Each family also has an operator
//! of its own, with a well-behaved client beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::bystander::Bystander;
use super::line::Line;
use super::wire::Dialer;
use super::{Family, memory};
use crate::control_plane::{ControlPlane, Settings, kubeconfig};
use crate::eventually::eventually;
use crate::fieldcache::Fieldcache;
use crate::http::{Client, Endpoint};
use crate::kubectl::Kubectl;
use crate::run_directory::RunDirectory;
use crate::{fixtures, objects};

/// The group of the well-behaved client's shirts.
const CALM_GROUP: &str = "calm.example.com";
/// The group of the hostile resources.
pub const GROUP: &str = "hostile.example.com";
/// The resource that hostile objects belong to.
pub const ANYTHINGS: &str = "anythings";
/// The namespace of hostile objects.
pub const NAMESPACE: &str = "team-a";
/// A namespace that the tenant may not read.
pub const OTHER_NAMESPACE: &str = "team-b";
/// A View of all hostile objects that prunes paths into their free-form parts.
pub const VIEW: &str = "pruned";
/// Connections of one operator, few enough that an attacker reaches the limit.
pub const CONNECTIONS: usize = 300;
/// How long a server may take until it knows of a change.
pub const SOON: Duration = Duration::from_secs(60);

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const OWN: &str = "/apis/fieldcache.dev/v1alpha1";

/// The client that sends requests to the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// May read everything.
    Administrator,
    /// May read hostile objects in [`NAMESPACE`].
    Tenant,
    /// Authenticated, without any permission.
    Stranger,
    /// May read the well-behaved client's shirts.
    Calm,
}

/// One operator under attack.
pub struct Arena {
    family: Family,
    control_plane: &'static ControlPlane,
    folder: RunDirectory,
    /// Between kube-apiserver and the operator.
    line: Arc<Line>,
    operator: Option<Fieldcache>,
    bystander: Option<Bystander>,
}

impl Arena {
    /// Starts an operator and the well-behaved client.
    ///
    /// # Errors
    /// If one of them does not start.
    pub async fn open(family: Family) -> Result<Arena> {
        let control_plane = control_plane().await?;
        let folder = RunDirectory::create("hostile")?;
        let line = Line::start(control_plane.client()).await?;
        let mut arena = Arena { family, control_plane, folder, line, operator: None, bystander: None };
        Box::pin(arena.reopen()).await?;
        Ok(arena)
    }

    /// Replaces the operator and the well-behaved client.
    ///
    /// # Errors
    /// If one of them does not start.
    pub async fn reopen(&mut self) -> Result<()> {
        self.bystander = None;
        self.operator = None;
        self.line.be_honest();
        // Hostile sources speak through the line; in other families it would only be in the way.
        let document = match self.family {
            Family::Sources => kubeconfig(&self.line.address(), None, None),
            _ => self.control_plane.kubeconfig_for(self.control_plane.endpoint().base()),
        };
        let file = self.folder.write("kubeconfig", document.to_string())?;
        let mut arguments = ["--namespace", "default", "--identity", "one"].map(str::to_owned).to_vec();
        arguments.extend(["--max-connections".to_owned(), CONNECTIONS.to_string()]);
        // Less than by default, so that the bounds of the cases show whether it holds.
        arguments.extend(["--max-unread-bytes", "64Mi"].map(str::to_owned));
        let operator = Box::pin(Fieldcache::operator(&file, self.folder.path(), arguments)).await?;
        let endpoint = operator.as_client(self.folder.path(), &identity(self.control_plane, User::Calm)?)?;
        self.operator = Some(operator);
        let calm = format!("/apis/{CALM_GROUP}/v1/shirts");
        let administrator = self.client(User::Administrator)?;
        let mut paths = vec![calm.clone(), self.collection()];
        if self.family != Family::Sources {
            paths.push(format!("{}{}", view(), self.collection()));
        }
        let ready = eventually("the operator serves everything", SOON, async || {
            for path in &paths {
                administrator.get(path).await?.success()?;
            }
            Ok(())
        });
        ready.await.with_context(|| self.tail())?;
        // What is made once, at the first request, is no growth of an attack.
        for path in ["/openapi/v2", "/openapi/v3", "/apis"] {
            administrator.get(path).await?;
        }
        let bystander = Box::pin(Bystander::start(self.control_plane.client(), endpoint, &calm)).await?;
        bystander.check().await.context("the well-behaved client alone")?;
        self.bystander = Some(bystander);
        Ok(())
    }

    /// The well-behaved client.
    #[must_use]
    pub fn bystander(&self) -> &Bystander {
        self.bystander.as_ref().expect("an arena is open") // Set by every constructor.
    }

    /// The operator.
    #[must_use]
    pub fn operator(&self) -> &Fieldcache {
        self.operator.as_ref().expect("an arena is open") // Set by every constructor.
    }

    /// The API server between the real one and the operator, in [`Family::Sources`].
    #[must_use]
    pub fn line(&self) -> &Arc<Line> {
        &self.line
    }

    /// The process under attack.
    ///
    /// # Errors
    /// If it has ended.
    pub fn process_id(&self) -> Result<u32> {
        self.operator().process().ensure_running()?;
        Ok(self.operator().process().id())
    }

    /// The exit code of the operator once it has ended.
    ///
    /// # Errors
    /// If the operating system does not say.
    pub fn exit_code(&self) -> Result<Option<i32>> {
        self.operator().process().exit_code()
    }

    /// Its anonymous memory now.
    ///
    /// # Errors
    /// If it has ended.
    pub fn anonymous_bytes(&self) -> Result<u64> {
        memory::anonymous(self.process_id()?)
    }

    /// The end of its log.
    #[must_use]
    pub fn tail(&self) -> String {
        self.operator.as_ref().map(|operator| operator.process().tail()).unwrap_or_default()
    }

    /// kube-apiserver, as the administrator.
    #[must_use]
    pub fn source(&self) -> Client {
        self.control_plane.client()
    }

    /// The operator, as a user.
    ///
    /// # Errors
    /// If a certificate cannot be made.
    pub fn endpoint(&self, user: User) -> Result<Endpoint> {
        self.operator().as_client(self.folder.path(), &identity(self.control_plane, user)?)
    }

    /// A client of the operator, as a user.
    ///
    /// # Errors
    /// If a certificate cannot be made.
    pub fn client(&self, user: User) -> Result<Client> {
        Ok(self.endpoint(user)?.client())
    }

    /// Raw connections to the operator, as a user or, with `None`, without credentials.
    ///
    /// # Errors
    /// If a certificate cannot be made.
    pub fn dialer(&self, user: Option<User>) -> Result<Dialer> {
        match user {
            Some(user) => Dialer::for_endpoint(&self.endpoint(user)?),
            None => Dialer::for_endpoint(self.operator().endpoint()),
        }
    }

    /// The operator without credentials.
    #[must_use]
    pub fn anonymous(&self) -> Endpoint {
        self.operator().endpoint().clone()
    }

    /// A folder for files of a case.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A token of a ServiceAccount for the operator.
    ///
    /// # Errors
    /// If kube-apiserver does not make it.
    pub async fn token(&self) -> Result<String> {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "audiences": ["fieldcache.dev"] },
        });
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/reader/token");
        let answer = objects::create(&self.source(), &path, &request).await?;
        answer["status"]["token"].as_str().map(str::to_owned).context("a token")
    }

    /// The collection of hostile objects, of all namespaces.
    #[must_use]
    pub fn collection(&self) -> String {
        format!("/apis/{GROUP}/v1/{ANYTHINGS}")
    }

    /// The collection in a namespace.
    #[must_use]
    pub fn collection_in(&self, namespace: &str) -> String {
        format!("/apis/{GROUP}/v1/namespaces/{namespace}/{ANYTHINGS}")
    }

    /// Creates a hostile object with this JSON text as its `spec`.
    ///
    /// # Errors
    /// If kube-apiserver rejects it.
    pub async fn create(&self, name: &str, spec: &str) -> Result<()> {
        let text = format!(
            r#"{{"apiVersion":"{GROUP}/v1","kind":"Anything","metadata":{{"name":"{name}","namespace":"{NAMESPACE}"}},"spec":{spec}}}"#
        );
        self.create_text(&text).await
    }

    /// Creates a hostile object from its whole JSON text.
    ///
    /// # Errors
    /// If kube-apiserver rejects it.
    pub async fn create_text(&self, text: &str) -> Result<()> {
        let mut request = crate::http::Request::new(http::Method::POST, self.collection_in(NAMESPACE));
        request.body = text.to_owned().into();
        let answer = self.source().send(request.header("content-type", "application/json")).await?;
        let status = answer.status;
        answer.success().map(drop).map_err(|_| anyhow!("kube-apiserver rejected it: {status}"))
    }

    /// Waits until the operator serves an object.
    ///
    /// # Errors
    /// If it does not.
    pub async fn arrives(&self, name: &str) -> Result<()> {
        let client = self.client(User::Administrator)?;
        let path = format!("{}/{name}", self.collection_in(NAMESPACE));
        eventually("the operator serves the object", SOON, async || {
            self.process_id()?;
            let answer = client.get(&path).await?;
            ensure!(answer.status == 200, "{}", answer.status);
            Ok(())
        })
        .await
    }

    /// Waits until the operator no longer serves an object.
    ///
    /// # Errors
    /// If it does.
    pub async fn leaves(&self, name: &str) -> Result<()> {
        let client = self.client(User::Administrator)?;
        let path = format!("{}/{name}", self.collection_in(NAMESPACE));
        eventually("the operator no longer serves the object", SOON, async || {
            self.process_id()?;
            let answer = client.get(&path).await?;
            ensure!(answer.status == 404, "{}", answer.status);
            Ok(())
        })
        .await
    }

    /// Creates an object with a label in a namespace that the tenant may not read.
    ///
    /// # Errors
    /// If kube-apiserver rejects it.
    pub async fn create_hidden(&self, name: &str, label: &str) -> Result<()> {
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Anything",
            "metadata": { "name": name, "namespace": OTHER_NAMESPACE, "labels": { label: "true" } },
            "spec": { "color": label },
        });
        objects::create(&self.source(), &self.collection_in(OTHER_NAMESPACE), &object).await.map(drop)
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// If kube-apiserver does not delete it.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let path = format!("{}/{name}", self.collection_in(NAMESPACE));
        objects::delete(&self.source(), &path).await.map(drop)
    }

    /// Creates `count` objects of some 200 KB each and waits until the operator serves them.
    ///
    /// # Errors
    /// If one is rejected.
    pub async fn fill(&self, count: usize) -> Result<()> {
        // A case that failed leaves its objects.
        self.empty().await?;
        for number in 0..count {
            let text = format!(
                r#"{{"apiVersion":"{GROUP}/v1","kind":"Anything","metadata":{{"name":"large-{number}","namespace":"{NAMESPACE}","labels":{{"large":"true"}}}},"spec":{{"free":"{}"}}}}"#,
                "x".repeat(200_000)
            );
            self.create_text(&text).await?;
        }
        self.arrives(&format!("large-{}", count.saturating_sub(1))).await
    }

    /// Deletes what [`Arena::fill`] made.
    ///
    /// # Errors
    /// If kube-apiserver does not.
    pub async fn empty(&self) -> Result<()> {
        let path = format!("{}?labelSelector=large%3Dtrue", self.collection_in(NAMESPACE));
        objects::delete(&self.source(), &path).await.map(drop)
    }
}

/// The path of the View of hostile objects.
#[must_use]
pub fn view() -> String {
    format!("/apis/view.fieldcache.dev/v1alpha1/views/{VIEW}/proxy")
}

fn identity(control_plane: &ControlPlane, user: User) -> Result<crate::certificates::Identity> {
    let (name, group) = match user {
        User::Administrator => ("administrator", Some("system:masters")),
        User::Tenant => ("tenant", None),
        User::Stranger => ("stranger", None),
        User::Calm => ("calm", None),
    };
    control_plane.authority().client(name, group)
}

/// The control plane of all families in this process, with everything they need.
async fn control_plane() -> Result<&'static ControlPlane> {
    static SHARED: OnceCell<Result<ControlPlane, String>> = OnceCell::const_new();
    let started = SHARED.get_or_init(async || {
        let made = async {
            let control_plane = ControlPlane::start(Settings::default()).await?;
            Box::pin(furnish(&control_plane)).await?;
            Ok(control_plane)
        };
        made.await.map_err(|error: anyhow::Error| format!("{error:#}"))
    });
    started.await.as_ref().map_err(|error| anyhow!("the control plane of the hostile suite did not start: {error}"))
}

/// Definitions, FieldCaches, a View, namespaces and permissions.
async fn furnish(control_plane: &ControlPlane) -> Result<()> {
    let client = control_plane.client();
    let crds: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds");
    let kubectl = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
    kubectl.succeed(&["apply", "--server-side", "-k", &crds.display().to_string()]).await?;
    let anything = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {
                "color": { "type": "string" },
                "free": { "x-kubernetes-preserve-unknown-fields": true },
                "items": { "type": "array", "items": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": { "name": { "type": "string" } },
                } },
            },
        } } } },
        "selectableFields": [{ "jsonPath": ".spec.color" }],
        "additionalPrinterColumns": [
            { "name": "Color", "type": "string", "jsonPath": ".spec.color" },
            { "name": "Free", "type": "string", "jsonPath": ".spec.free" },
            { "name": "Items", "type": "integer", "jsonPath": ".spec.items[*].name" },
        ],
    });
    let none = fixtures::no_conversion();
    let names = (ANYTHINGS, "anything", "Anything");
    for definition in
        [fixtures::definition(GROUP, "Namespaced", names, &[anything], &none), fixtures::shirts(CALM_GROUP, &none)]
    {
        objects::create_definition(&client, &definition).await?;
    }
    for kind in ["fieldcaches", "views"] {
        let path = format!("{OWN}/{kind}");
        eventually("our kinds are served", SOON, async || client.get(&path).await?.success().map(drop)).await?;
    }
    let extra = json!([{ "name": "names", "jsonPath": "$.spec.items[*].name" }]);
    for (group, resource, fields) in [
        (GROUP, ANYTHINGS, extra),
        (CALM_GROUP, "shirts", json!([])),
        ("", "pods", json!([])),
        ("", "nodes", json!([])),
        ("", "namespaces", json!([])),
    ] {
        cache(&client, group, resource, &fields).await?;
    }
    let view = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": VIEW },
        "spec": { "resources": [{
            "group": GROUP, "resource": ANYTHINGS,
            "prune": [".metadata.managedFields", ".spec.free.secret", ".spec.items.secret", ".spec.more.a.b.c.secret"],
        }] },
    });
    objects::create(&client, &format!("{OWN}/views"), &view).await?;
    for name in [NAMESPACE, OTHER_NAMESPACE] {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        objects::create(&client, "/api/v1/namespaces", &namespace).await?;
    }
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "reader" } });
    objects::create(&client, &format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"), &account).await?;
    let user = |name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name });
    let service_account = json!({ "kind": "ServiceAccount", "name": "reader", "namespace": NAMESPACE });
    // Every authenticated user may create a PlacementReview, which makes its parser reachable.
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "reviews" },
        "rules": [{ "apiGroups": ["view.fieldcache.dev"], "resources": ["placementreviews"], "verbs": ["create"] }],
    });
    objects::create(&client, &format!("{RBAC}/clusterroles"), &role).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "reviews" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reviews" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated" }],
    });
    objects::create(&client, &format!("{RBAC}/clusterrolebindings"), &binding).await?;
    bind(&client, "calm", None, CALM_GROUP, "shirts", &[user("calm")]).await?;
    bind(&client, "tenant", Some(NAMESPACE), GROUP, ANYTHINGS, &[user("tenant"), service_account]).await
}

/// Creates a FieldCache.
///
/// # Errors
/// If kube-apiserver rejects it.
pub async fn cache(client: &Client, group: &str, resource: &str, fields: &Value) -> Result<()> {
    let name = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    let cache = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache", "metadata": { "name": name },
        "spec": { "group": group, "resource": resource, "versions": ["v1"], "selectableFields": fields },
    });
    objects::create(client, &format!("{OWN}/fieldcaches"), &cache).await.map(drop)
}

/// The conditions of a FieldCache.
///
/// # Errors
/// If there is none.
pub async fn conditions(client: &Client, name: &str) -> Result<Vec<Value>> {
    let held = client.get_json(&format!("{OWN}/fieldcaches/{name}")).await?;
    Ok(held["status"]["conditions"].as_array().cloned().unwrap_or_default())
}

/// Deletes a FieldCache.
///
/// # Errors
/// If kube-apiserver does not.
pub async fn uncache(client: &Client, name: &str) -> Result<()> {
    objects::delete(client, &format!("{OWN}/fieldcaches/{name}")).await.map(drop)
}

async fn bind(
    client: &Client,
    name: &str,
    namespace: Option<&str>,
    group: &str,
    resource: &str,
    subjects: &[Value],
) -> Result<()> {
    let (kind, place) = match namespace {
        Some(namespace) => ("Role", format!("{RBAC}/namespaces/{namespace}/")),
        None => ("ClusterRole", format!("{RBAC}/")),
    };
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": { "name": name },
        "rules": [{ "apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"] }],
    });
    objects::create(client, &format!("{place}{}s", kind.to_lowercase()), &role).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"), "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name },
        "subjects": subjects,
    });
    objects::create(client, &format!("{place}{}bindings", kind.to_lowercase()), &binding).await.map(drop)
}
