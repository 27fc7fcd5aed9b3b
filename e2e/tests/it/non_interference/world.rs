//! One of the two clusters: a control plane, an operator, and what has been written.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Endpoint, Protocol};
use e2e::kubectl::Kubectl;
use e2e::objects;
use e2e::random::Random;
use e2e::run_directory::RunDirectory;
use serde_json::{Value, json};

use super::etcd::{Etcd, exchange, varint};
use super::hidden::Secrets;
use super::versions::Versions;
use super::visible::{self, Change, NODES, PODS, SAME, TONES, key, pod_name};

const SOON: Duration = Duration::from_secs(120);
const VIEWS: &str = "/apis/fieldcache.dev/v1alpha1/views";

/// The client.
const READER: &str = "reader-of-views";

/// The user who may read the caps of one namespace.
const TENANT: &str = "reader-of-caps";

/// 2020-01-02T03:04:05Z, as protobuf has it.
const LONG_AGO: u64 = 1_577_934_245;

pub(crate) struct World {
    pub(crate) secrets: Secrets,
    control_plane: ControlPlane,
    operator: Fieldcache,
    etcd: Etcd,
    folder: RunDirectory,
    written: Mutex<Written>,
}

/// What has been written by now.
struct Written {
    hidden: Random,
    versions: Versions,
    /// The bytes of pods, with their changing parts as they were created.
    pods: Vec<Vec<u8>>,
}

impl World {
    /// A cluster with everything in it that is seen first, and an operator.
    pub(crate) async fn start(secrets: Secrets) -> Result<World> {
        let folder = RunDirectory::create("non-interference")?;
        let control_plane = ControlPlane::start(Settings::default()).await?;
        let client = control_plane.client();
        objects::create_definition(&client, &secrets.definition()).await?;
        for definition in secrets.more_definitions() {
            objects::create_definition(&client, &definition).await?;
        }
        let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds").display().to_string();
        let kubectl = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
        kubectl.succeed(&["apply", "--server-side", "-k", &definitions]).await?;
        // Without it nothing is served to a user who may read nothing but the Views.
        let policy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/view-policy.yaml").display().to_string();
        kubectl.succeed(&["apply", "--server-side", "-f", &policy]).await?;
        grant(&client).await?;
        let etcd = Etcd::new(control_plane.etcd_endpoint()?.client());
        let mut pods = Vec::new();
        for number in 0..PODS {
            let path = "/api/v1/namespaces/default/pods";
            let name = pod_name(number);
            let created = objects::create(&client, path, &visible::pod(&secrets, &name)).await?;
            let status = json!({ "status": { "podIP": format!("10.0.{}.{number}", secrets.count), "podIPs": [{ "ip": format!("10.0.{}.{number}", secrets.count) }] } });
            objects::merge(&client, &format!("{path}/{name}/status"), &status).await?;
            let mut bytes = etcd.get(&format!("/registry/pods/default/{name}")).await?;
            // What kube-apiserver makes of its own, as long as it was.
            let uid = created["metadata"]["uid"].as_str().context("a uid")?;
            exchange(&mut bytes, uid.as_bytes(), Random::from_seed(4, number as u64).uid().as_bytes())?;
            let time: jiff_seconds::Seconds =
                created["metadata"]["creationTimestamp"].as_str().context("a time")?.try_into()?;
            exchange(&mut bytes, &varint(time.0), &varint(LONG_AGO))?;
            pods.push(bytes);
        }
        etcd.advance_to(secrets.first_revision).await?;
        let own = ["--namespace", "default"].map(str::to_owned);
        let operator = Box::pin(Fieldcache::operator(control_plane.kubeconfig(), folder.path(), own)).await?;
        let written =
            Written { hidden: Random::from_seed(secrets.count as u64, 5), versions: Versions::default(), pods };
        let world = World { secrets, control_plane, operator, etcd, folder, written: Mutex::new(written) };
        for _ in 0..secrets.count * 2 {
            world.hide().await?;
        }
        Ok(world)
    }

    /// Keeps what is kept, and opens these Views. Everything that was written before is seen, nothing of how it came about.
    pub(crate) async fn open(&self, views: &[Value]) -> Result<()> {
        let client = self.control_plane.client();
        for cache in self.secrets.field_caches() {
            objects::create(&client, "/apis/fieldcache.dev/v1alpha1/fieldcaches", &cache).await?;
        }
        for view in views {
            objects::create(&client, VIEWS, view).await?;
        }
        let user_client = self.endpoint()?.client();
        for view in views {
            let name = view["metadata"]["name"].as_str().context("a name")?;
            for path in ["/apis/stable.example.com/v1/shirts", "/api/v1/pods", "/apis/stable.example.com/v1/hats"] {
                eventually("the View is served", SOON, async || {
                    let answer = user_client.get(&format!("{}{path}", prefix(name))).await?;
                    ensure!(answer.status == 200, "{name}: {answer:?}");
                    Ok(())
                })
                .await
                .with_context(|| self.operator.process().tail())?;
            }
        }
        let tenant = self.tenant()?.client();
        let caps = format!("/apis/{}/v1/namespaces/{SAME}/caps", visible::GROUP);
        eventually("the caps are served", SOON, async || tenant.get_json(&caps).await.map(drop)).await?;
        let user_client = self.administrator()?.client();
        // The schemas are published when the control plane gets to it; until then both would have none.
        eventually("the schemas are published", SOON, async || {
            let document = user_client.get_json("/openapi/v3/apis/stable.example.com/v1").await?;
            ensure!(document.to_string().contains("x-kubernetes-selectable-fields"), "not yet");
            Ok(())
        })
        .await
        .with_context(|| self.operator.process().tail())
    }

    /// Adds a kind that no client sees, and waits until the operator has heard of it.
    pub(crate) async fn add_hidden_kind(&self) -> Result<()> {
        objects::create_definition(&self.control_plane.client(), &Secrets::late_definition()).await?;
        let user_client = self.endpoint_of("somebody", Some("system:masters"))?.client();
        eventually("the schema is published", SOON, async || {
            let documents = user_client.get_json("/openapi/v3/apis/stable.example.com/v1").await?;
            ensure!(documents.to_string().contains("Sock"), "not yet");
            Ok(())
        })
        .await
        .with_context(|| self.tail())
    }

    /// Replaces a View by another of its name, which ends what is watched through it.
    pub(crate) async fn replace(&self, view: &Value) -> Result<()> {
        let name = view["metadata"]["name"].as_str().context("a name")?;
        objects::merge(&self.control_plane.client(), &format!("{VIEWS}/{name}"), &json!({ "spec": view["spec"] }))
            .await?;
        Ok(())
    }

    /// The operator, with a client that may use Views and nothing else.
    pub(crate) fn endpoint(&self) -> Result<Endpoint> {
        self.endpoint_of(READER, None)
    }

    /// The operator, with a client that may read one namespace at the root.
    pub(crate) fn tenant(&self) -> Result<Endpoint> {
        self.endpoint_of(TENANT, None)
    }

    /// The operator, with a client that may do everything.
    pub(crate) fn administrator(&self) -> Result<Endpoint> {
        self.endpoint_of("somebody", Some("system:masters"))
    }

    fn endpoint_of(&self, user: &str, group: Option<&str>) -> Result<Endpoint> {
        let identity = self.control_plane.authority().client(user, group)?;
        Ok(self.operator.as_client(self.folder.path(), &identity)?.speaking(Protocol::Http2))
    }

    /// How many answers through Views the audit log has.
    pub(crate) fn audited(&self) -> Result<usize> {
        let log = self.operator.process().stdout()?;
        Ok(log.lines().filter(|line| line.contains(r#""stage":"ResponseComplete""#) && line.contains(READER)).count())
    }

    /// Its address, without the scheme.
    pub(crate) fn host(&self) -> &str {
        self.operator.address().trim_start_matches("https://")
    }

    pub(crate) fn tail(&self) -> String {
        self.operator.process().tail()
    }

    /// Versions by what has been seen of them.
    pub(crate) fn versions(&self) -> Versions {
        self.locked(|written| written.versions.clone())
    }

    fn locked<Kind>(&self, change: impl FnOnce(&mut Written) -> Kind) -> Kind {
        change(&mut self.written.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Makes a change that is seen, after some that are not.
    pub(crate) async fn change(&self, change: &Change) -> Result<()> {
        for _ in 0..self.locked(|written| written.hidden.below(self.secrets.churn + 1)) {
            self.hide().await?;
        }
        let revision = match change {
            Change::Shirt { namespace, name, seed, color } => {
                let shirt = visible::shirt(&self.secrets, namespace, name, *seed, color);
                self.etcd.put(&key("shirts", Some(namespace), name), shirt.to_string().as_bytes()).await?
            }
            Change::Hat { name, seed } => {
                self.etcd.put(&key("hats", None, name), visible::hat(name, *seed).to_string().as_bytes()).await?
            }
            Change::Cap { name, seed } => {
                let cap = visible::cap(name, *seed).to_string();
                self.etcd.put(&key("caps", Some(SAME), name), cap.as_bytes()).await?
            }
            Change::Pod { number, tone, node } => {
                let mut bytes = self.locked(|written| written.pods[*number].clone());
                if *tone != TONES[0] {
                    exchange(&mut bytes, TONES[0].as_bytes(), tone.as_bytes())?;
                }
                if *node != NODES[0] {
                    exchange(&mut bytes, NODES[0].as_bytes(), node.as_bytes())?;
                }
                self.etcd.put(&format!("/registry/pods/default/{}", pod_name(*number)), &bytes).await?
            }
            Change::Delete { plural, namespace, name } => self.etcd.delete(&key(plural, *namespace, name)).await?,
        };
        self.locked(|written| written.versions.push(revision));
        Ok(())
    }

    /// Makes a change that no client may see.
    pub(crate) async fn hide(&self) -> Result<()> {
        let (key, object) = self.locked(|written| self.secrets.object(&mut written.hidden));
        match object {
            Some(object) => self.etcd.put(&key, object.to_string().as_bytes()).await.map(drop),
            // It need not be there.
            None => {
                let _ = self.etcd.delete(&key).await;
                Ok(())
            }
        }
    }

    /// Waits until the View shows the last change, whichever of the kinds it is of.
    pub(crate) async fn settled(&self, view: &str) -> Result<()> {
        let client = self.endpoint()?.client();
        // Each kind has a version of its own: one more change of each, which both clusters make.
        let versions = self.versions();
        for path in ["/apis/stable.example.com/v1/shirts", "/api/v1/pods", "/apis/stable.example.com/v1/hats"] {
            let last = versions.last().context("a change")?;
            let query = format!("limit=1&resourceVersion={last}&resourceVersionMatch=NotOlderThan");
            client.read(&format!("{}{path}?{query}", prefix(view))).await.with_context(|| self.tail())?;
        }
        Ok(())
    }
}

/// The right to use every View, and no other.
async fn grant(client: &Client) -> Result<()> {
    let api = "rbac.authorization.k8s.io";
    let metadata = json!({ "name": READER });
    let rule = json!({ "apiGroups": ["fieldcache.dev"], "resources": ["views"], "verbs": ["use"] });
    let role =
        json!({ "apiVersion": format!("{api}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": [rule] });
    objects::create(client, &format!("/apis/{api}/v1/clusterroles"), &role).await?;
    let binding = json!({
        "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata,
        "roleRef": { "apiGroup": api, "kind": "ClusterRole", "name": READER }, "subjects": [{ "apiGroup": api, "kind": "User", "name": READER }],
    });
    objects::create(client, &format!("/apis/{api}/v1/clusterrolebindings"), &binding).await?;
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SAME } });
    objects::create(client, "/api/v1/namespaces", &namespace).await?;
    let metadata = json!({ "name": TENANT });
    let rule = json!({ "apiGroups": [visible::GROUP], "resources": ["caps"], "verbs": ["get", "list", "watch"] });
    let role = json!({ "apiVersion": format!("{api}/v1"), "kind": "Role", "metadata": metadata, "rules": [rule] });
    objects::create(client, &format!("/apis/{api}/v1/namespaces/{SAME}/roles"), &role).await?;
    let binding = json!({
        "apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": metadata,
        "roleRef": { "apiGroup": api, "kind": "Role", "name": TENANT }, "subjects": [{ "apiGroup": api, "kind": "User", "name": TENANT }],
    });
    objects::create(client, &format!("/apis/{api}/v1/namespaces/{SAME}/rolebindings"), &binding).await?;
    Ok(())
}

/// What precedes paths inside of a View.
pub(crate) fn prefix(view: &str) -> String {
    format!("/apis/view.fieldcache.dev/v1alpha1/views/{view}/proxy")
}

/// Times as they are written, in seconds.
mod jiff_seconds {
    use anyhow::{Context, Error, Result};

    pub(super) struct Seconds(pub(super) u64);

    impl TryFrom<&str> for Seconds {
        type Error = Error;

        /// Reads `2026-01-02T03:04:05Z`.
        fn try_from(text: &str) -> Result<Seconds> {
            let part = |from: usize, to: usize| -> Result<i64> {
                text.get(from..to).context("too short")?.parse().context("no number")
            };
            let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
            // Days since 1970, as Hinnant's days_from_civil counts them.
            let year = if month <= 2 { year - 1 } else { year };
            let era = year.div_euclid(400);
            let year_of_era = year - era * 400;
            let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
            let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
            let days = era * 146_097 + day_of_era - 719_468;
            let seconds = days * 86_400 + part(11, 13)? * 3_600 + part(14, 16)? * 60 + part(17, 19)?;
            Ok(Seconds(u64::try_from(seconds)?))
        }
    }
}
