//! etcd and kube-apiserver on free loopback ports, ready in seconds; optionally kube-controller-manager.
//!
//! Tests share one control plane per test binary ([`ControlPlane::shared`]) and use separate names ([`crate::unique`]).
//! A test that stops components or needs other settings starts its own. There is no kubelet and no scheduler: Pods stay
//! as they are written. The ServiceAccount admission plugin is off, so that Pods can be created without a controller
//! manager. RBAC is on, so every user except the administrator needs permissions. etcd does not wait for the disk.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::certificates::{Authority, Identity, signing_keys};
use crate::components::{Component, locate};
use crate::eventually::eventually;
use crate::http::{Client, Endpoint, Request};
use crate::ports;
use crate::process::{Invocation, Process};
use crate::run_directory::RunDirectory;

/// How long a start may take: seconds when the machine is idle, but tests of several binaries may start at once.
const START_DEADLINE: Duration = Duration::from_secs(120);

/// What may differ between control planes.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Serve every API, alpha and beta ones included, instead of the default ones.
    pub all_apis: bool,
    /// Run kube-controller-manager too: aggregated ClusterRoles, garbage collection, namespace deletion.
    pub controller_manager: bool,
    /// More arguments for kube-apiserver.
    pub apiserver_arguments: Vec<String>,
}

/// A running control plane; dropping it kills its processes and removes its data.
pub struct ControlPlane {
    settings: Settings,
    ports: Ports,
    authority: Authority,
    administrator: Identity,
    endpoint: Endpoint,
    kubeconfig: PathBuf,
    controller_manager: Option<Process>,
    apiserver: Process,
    etcd: Process,
    // Fields are dropped in this order: the data goes after the processes that write it.
    directory: RunDirectory,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    etcd: u16,
    apiserver: u16,
    controller_manager: u16,
}

impl ControlPlane {
    /// The control plane that all tests of this binary share, with default settings. The first test that needs it
    /// starts it.
    ///
    /// # Errors
    /// When it did not start; every later asker gets the same error at once.
    pub async fn shared() -> Result<&'static ControlPlane> {
        static SHARED: OnceCell<Result<ControlPlane, String>> = OnceCell::const_new();
        let started = SHARED
            .get_or_init(async || ControlPlane::start(Settings::default()).await.map_err(|error| format!("{error:#}")));
        started.await.as_ref().map_err(|error| anyhow!("the shared control plane did not start: {error}"))
    }

    /// Starts one and waits until it serves.
    ///
    /// # Errors
    /// When a component is not built, ends, or is not ready in time; with the tails of the logs.
    pub async fn start(settings: Settings) -> Result<ControlPlane> {
        for _ in 1..ports::ATTEMPTS {
            match Box::pin(ControlPlane::attempt(settings.clone())).await? {
                Attempt::Ready(control_plane) => return Ok(*control_plane),
                Attempt::PortTaken => {}
            }
        }
        bail!("no free ports: taken by others {} times between being found free and being used", ports::ATTEMPTS)
    }

    async fn attempt(settings: Settings) -> Result<Attempt> {
        let ports = Ports { etcd: ports::free()?, apiserver: ports::free()?, controller_manager: ports::free()? };
        let directory = RunDirectory::create("control-plane")?;
        let authority = Authority::create("fieldcache-e2e")?;
        let administrator = authority.client("admin", Some("system:masters"))?;
        let server = authority.server("kube-apiserver", &["kubernetes", "kubernetes.default.svc"])?;
        directory.write("ca.crt", authority.certificate())?;
        directory.write("server.crt", server.certificate)?;
        directory.write("server.key", server.key)?;
        let (private, public) = signing_keys()?;
        directory.write("service-account.key", private)?;
        directory.write("service-account.pub", public)?;
        let base = format!("https://127.0.0.1:{}", ports.apiserver);
        let endpoint = Endpoint::secure(&base, &authority.certificate(), Some(&administrator))?;
        let kubeconfig_document = kubeconfig(&base, Some(&authority.certificate()), Some(&administrator));
        let kubeconfig = directory.write("kubeconfig", kubeconfig_document.to_string())?;

        let etcd = Process::start("etcd", &etcd_invocation(ports, directory.path())?, directory.path())?;
        let apiserver = start_apiserver(&settings, ports, directory.path())?;
        let mut control_plane = ControlPlane {
            settings,
            ports,
            authority,
            administrator,
            endpoint,
            kubeconfig,
            controller_manager: None,
            apiserver,
            etcd,
            directory,
        };
        match control_plane.complete().await {
            Ok(()) => Ok(Attempt::Ready(Box::new(control_plane))),
            Err(_) if control_plane.port_was_taken() => Ok(Attempt::PortTaken),
            Err(error) => Err(error.context(control_plane.tails())),
        }
    }

    /// kube-apiserver, queried as the administrator.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The certificate of the administrator.
    #[must_use]
    pub fn administrator(&self) -> &Identity {
        &self.administrator
    }

    /// A new client of kube-apiserver as the administrator; one a test, for it belongs to the test's runtime.
    #[must_use]
    pub fn client(&self) -> Client {
        self.endpoint.client()
    }

    /// A kubeconfig file of the administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// kube-apiserver, queried as another user, with a kubeconfig document for the same. The user has no permissions
    /// until RBAC grants some.
    ///
    /// # Errors
    /// When the cryptography library refuses.
    pub fn as_user(&self, user: &str, group: Option<&str>) -> Result<(Endpoint, Value)> {
        let identity = self.authority.client(user, group)?;
        let authority = self.authority.certificate();
        let endpoint = Endpoint::secure(self.endpoint.base(), &authority, Some(&identity))?;
        Ok((endpoint, kubeconfig(self.endpoint.base(), Some(&authority), Some(&identity))))
    }

    /// A kubeconfig document of the administrator for another address that serves with the same authority or none (plain HTTP).
    #[must_use]
    pub fn kubeconfig_for(&self, base: &str) -> Value {
        kubeconfig(base, Some(&self.authority.certificate()), Some(&self.administrator))
    }

    /// The authority that signed the serving certificate and signs client certificates.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The kube-apiserver process, for accounting.
    #[must_use]
    pub fn apiserver(&self) -> &Process {
        &self.apiserver
    }

    /// Where etcd serves, in plain text and open to every process here; its JSON gateway is below `/v3`.
    #[must_use]
    pub fn etcd_address(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.etcd)
    }

    /// The etcd process, for accounting.
    #[must_use]
    pub fn etcd(&self) -> &Process {
        &self.etcd
    }

    /// etcd's own HTTP address, which requires no credentials.
    ///
    /// # Errors
    /// As [`Endpoint::plain`].
    pub fn etcd_endpoint(&self) -> Result<Endpoint> {
        Endpoint::plain(&format!("http://127.0.0.1:{}", self.ports.etcd))
    }

    /// Kills kube-apiserver; its address refuses connections until [`ControlPlane::start_apiserver`].
    pub fn stop_apiserver(&self) {
        self.apiserver.kill();
    }

    /// Starts kube-apiserver again at the same address and waits until it serves.
    ///
    /// # Errors
    /// When it does not.
    pub async fn start_apiserver(&mut self) -> Result<()> {
        self.apiserver.kill();
        self.apiserver = start_apiserver(&self.settings, self.ports, self.directory.path())?;
        self.ready().await.with_context(|| self.tails())
    }

    /// Kills etcd; what it has committed stays. kube-apiserver fails until [`ControlPlane::start_etcd`].
    pub fn stop_etcd(&self) {
        self.etcd.kill();
    }

    /// Starts etcd again with its data and at its address, and waits until kube-apiserver serves.
    ///
    /// # Errors
    /// When that does not happen.
    pub async fn start_etcd(&mut self) -> Result<()> {
        self.etcd.kill();
        self.etcd =
            Process::start("etcd", &etcd_invocation(self.ports, self.directory.path())?, self.directory.path())?;
        self.ready().await.with_context(|| self.tails())
    }

    /// Makes etcd forget all revisions before this one, and requests the last of those, which must be gone.
    ///
    /// # Errors
    /// When etcd refuses, or still knows it.
    pub async fn compact_etcd(&self, revision: u64) -> Result<()> {
        let body = json!({ "revision": revision.to_string(), "physical": true });
        let request = Request::new(Method::POST, "/v3/kv/compaction").json(&body);
        let client = self.etcd_endpoint()?.client();
        let answer = client.send(request).await?;
        // Another test that shares it may have made it forget more.
        if !answer.text().contains("required revision has been compacted") {
            answer.success().context("compacting etcd")?;
        }
        // Any key will do: the revision is looked at first.
        let body = json!({ "key": "AA==", "revision": revision.saturating_sub(1).max(1).to_string() });
        let answer = client.send(Request::new(Method::POST, "/v3/kv/range").json(&body)).await?;
        ensure!(answer.text().contains("compacted"), "etcd still knows what was before {revision}: {}", answer.text());
        Ok(())
    }

    /// Waits for kube-apiserver, then starts and awaits kube-controller-manager if it is wanted.
    async fn complete(&mut self) -> Result<()> {
        self.ready().await?;
        if self.settings.controller_manager {
            // It reads this when it starts, and gives up when it is missing.
            let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
            self.answers(&self.client(), path).await?;
            let invocation = controller_manager_invocation(self.ports, self.directory.path())?;
            let process = Process::start("kube-controller-manager", &invocation, self.directory.path())?;
            self.controller_manager = Some(process);
            let base = format!("https://127.0.0.1:{}", self.ports.controller_manager);
            let endpoint = Endpoint::secure(&base, &self.authority.certificate(), Some(&self.administrator))?;
            self.answers(&endpoint.client(), "/healthz").await?;
        }
        Ok(())
    }

    async fn ready(&self) -> Result<()> {
        let client = self.client();
        // The default namespace is made by kube-apiserver itself, some moments after it calls itself ready.
        for path in ["/readyz", "/api/v1/namespaces/default"] {
            self.answers(&client, path).await?;
        }
        Ok(())
    }

    async fn answers(&self, client: &Client, path: &str) -> Result<()> {
        let answered = eventually(path, START_DEADLINE, async || {
            // A process that has ended ends the waiting too.
            let processes = [&self.etcd, &self.apiserver].into_iter().chain(&self.controller_manager);
            if let Some(ended) = processes.map(Process::ensure_running).find_map(Result::err) {
                return Ok(Err(ended));
            }
            client.get(path).await?.success().map(|_| Ok(()))
        });
        answered.await?
    }

    fn port_was_taken(&self) -> bool {
        let processes = [&self.etcd, &self.apiserver].into_iter().chain(&self.controller_manager);
        processes.into_iter().any(|process| process.tail().contains("address already in use"))
    }

    fn tails(&self) -> String {
        let processes = [&self.etcd, &self.apiserver].into_iter().chain(&self.controller_manager);
        processes.into_iter().map(Process::tail).collect()
    }
}

enum Attempt {
    Ready(Box<ControlPlane>),
    PortTaken,
}

/// A kubeconfig document with one cluster, one user and one context, as JSON, which every reader of YAML reads.
///
/// `authority` is the CA certificate (PEM); plain HTTP needs neither it nor an identity.
#[must_use]
pub fn kubeconfig(server: &str, authority: Option<&str>, identity: Option<&Identity>) -> Value {
    let mut cluster = json!({ "server": server });
    if let Some(authority) = authority {
        cluster["certificate-authority-data"] = BASE64_STANDARD.encode(authority).into();
    }
    let mut user = json!({});
    if let Some(identity) = identity {
        user["client-certificate-data"] = BASE64_STANDARD.encode(&identity.certificate).into();
        user["client-key-data"] = BASE64_STANDARD.encode(&identity.key).into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "e2e", "cluster": cluster }],
        "users": [{ "name": "e2e", "user": user }],
        "contexts": [{ "name": "e2e", "context": { "cluster": "e2e", "user": "e2e" } }],
        "current-context": "e2e",
    })
}

fn etcd_invocation(ports: Ports, directory: &Path) -> Result<Invocation> {
    let address = format!("http://127.0.0.1:{}", ports.etcd);
    Ok(Invocation::new(locate(Component::Etcd)?).arguments([
        format!("--data-dir={}", directory.join("etcd").display()),
        format!("--listen-client-urls={address}"),
        format!("--advertise-client-urls={address}"),
        // A single member has no peers, so any port will do, and it need not be known.
        "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
        "--unsafe-no-fsync".to_owned(),
        // The corpora fit; the default of 2 GiB is for real disks.
        "--quota-backend-bytes=8589934592".to_owned(),
        "--log-level=warn".to_owned(),
    ]))
}

fn start_apiserver(settings: &Settings, ports: Ports, directory: &Path) -> Result<Process> {
    let file = |name: &str| directory.join(name).display().to_string();
    let mut invocation = Invocation::new(locate(Component::KubeApiserver)?).arguments([
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.apiserver),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--service-account-key-file={}", file("service-account.pub")),
        format!("--service-account-signing-key-file={}", file("service-account.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--watch-cache=true".to_owned(),
    ]);
    // This flag is a list, so that another one would add to it.
    if !settings.apiserver_arguments.iter().any(|argument| argument.starts_with("--authorization-mode")) {
        invocation = invocation.arguments(["--authorization-mode=RBAC"]);
    }
    if settings.all_apis {
        invocation = invocation.arguments(["--runtime-config=api/all=true"]);
    }
    invocation = invocation.arguments(settings.apiserver_arguments.iter().cloned());
    Process::start("kube-apiserver", &invocation, directory)
}

fn controller_manager_invocation(ports: Ports, directory: &Path) -> Result<Invocation> {
    let file = |name: &str| directory.join(name).display().to_string();
    Ok(Invocation::new(locate(Component::KubeControllerManager)?).arguments([
        format!("--kubeconfig={}", file("kubeconfig")),
        format!("--authentication-kubeconfig={}", file("kubeconfig")),
        format!("--authorization-kubeconfig={}", file("kubeconfig")),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.controller_manager),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--root-ca-file={}", file("ca.crt")),
        format!("--service-account-private-key-file={}", file("service-account.key")),
        "--leader-elect=false".to_owned(),
    ]))
}
