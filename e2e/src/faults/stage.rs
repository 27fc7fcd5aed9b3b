//! Where faults happen: a control plane, fieldcache that reads it through one proxy, clients that read fieldcache through another, and a
//! resource of their own.
//!
//! Faults are begun and ended here; one that takes a moment to take hold does not end before it has. fieldcache is started again as a
//! kubelet would: as often as it takes, while faults go on.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::fault::{Fault, Side, SystemFault};
use super::proxy::Proxy;
use crate::accounting::is_stopped;
use crate::control_plane::{ControlPlane, Settings};
use crate::eventually::eventually;
use crate::fieldcache::Fieldcache;
use crate::history::Recorder;
use crate::http::Client;
use crate::objects;
use crate::process::Process;
use crate::unique;
use crate::workload::{NAMESPACES, Resource, definition};

/// How long a step may take that takes seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// One attempt to start fieldcache.
const ATTEMPT: Duration = Duration::from_secs(10);

/// A control plane for faults.
pub enum Plane {
    /// One that others use too.
    Shared(&'static ControlPlane),
    /// One of one's own.
    Own(Box<ControlPlane>),
}

impl Plane {
    /// The one that schedules share that leave it alone; the first schedule that needs it starts it.
    ///
    /// # Errors
    /// When it did not start; every later asker gets the same error at once.
    pub async fn shared() -> Result<Plane> {
        static SHARED: OnceCell<Result<ControlPlane, String>> = OnceCell::const_new();
        let started = SHARED.get_or_init(async || start().await.map_err(|error| format!("{error:#}")));
        let shared = started.await.as_ref();
        Ok(Plane::Shared(shared.map_err(|error| anyhow!("the control plane for faults did not start: {error}"))?))
    }

    /// A new one.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn own() -> Result<Plane> {
        Ok(Plane::Own(Box::new(start().await?)))
    }

    /// Whichever it is.
    #[must_use]
    pub fn control_plane(&self) -> &ControlPlane {
        match self {
            Plane::Shared(control_plane) => control_plane,
            Plane::Own(control_plane) => control_plane,
        }
    }

    fn own_control_plane(&mut self) -> Result<&mut ControlPlane> {
        match self {
            Plane::Own(control_plane) => Ok(control_plane),
            Plane::Shared(_) => Err(anyhow!("this fault needs a control plane of its own")),
        }
    }
}

async fn start() -> Result<ControlPlane> {
    let control_plane = Box::pin(ControlPlane::start(Settings::default())).await?;
    let writer = control_plane.client();
    for namespace in NAMESPACES {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        objects::create(&writer, "/api/v1/namespaces", &namespace).await?;
    }
    Ok(control_plane)
}

/// What a schedule runs on.
pub struct Stage {
    plane: Plane,
    writer: Client,
    resource: Resource,
    definition: Value,
    source: Proxy,
    clients: Proxy,
    fieldcache: Fieldcache,
    /// Whether fieldcache is meant to run now.
    runs: bool,
    /// Whether it has served since it was started.
    serves: bool,
    /// The process of it that was suspended.
    paused: Option<u32>,
    /// What it said when it ended after it had served, without a signal.
    crashes: Vec<String>,
    recorder: Rc<Recorder>,
}

impl Stage {
    /// Defines a resource, begins to record its history, and starts fieldcache with these further arguments.
    ///
    /// # Errors
    /// When something does not start.
    pub async fn set(plane: Plane, arguments: &[&str]) -> Result<Stage> {
        let control_plane = plane.control_plane();
        let writer = control_plane.client();
        let group = unique::group("faults");
        let (resource, definition) = (Resource::gadgets(&group), definition(&group));
        objects::create_definition(&writer, &definition).await?;
        let recorder = Recorder::start(&control_plane.etcd_endpoint()?, &resource.etcd_prefix()).await?;
        let source = Proxy::of_requests(control_plane.endpoint()).await?;
        source.note_lists(&resource.path(""));
        let own = ["--server", source.endpoint().base(), "--resource", &resource.argument()].map(str::to_owned);
        let arguments = own.into_iter().chain(arguments.iter().map(|argument| (*argument).to_owned()));
        let fieldcache = Box::pin(Fieldcache::serve(arguments)).await?;
        let clients = Proxy::of_requests(fieldcache.endpoint()).await?;
        let recorder = Rc::new(recorder);
        Ok(Stage {
            plane,
            writer,
            resource,
            definition,
            source,
            clients,
            fieldcache,
            runs: true,
            serves: true,
            paused: None,
            crashes: Vec::new(),
            recorder,
        })
    }

    /// Takes everything down but the control plane.
    #[must_use]
    pub fn strike(self) -> Plane {
        self.plane
    }

    /// The control plane.
    #[must_use]
    pub fn control_plane(&self) -> &ControlPlane {
        self.plane.control_plane()
    }

    /// What is written and read.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// What truly happens.
    #[must_use]
    pub fn recorder(&self) -> Rc<Recorder> {
        self.recorder.clone()
    }

    /// Between the API server and fieldcache.
    #[must_use]
    pub fn source(&self) -> &Proxy {
        &self.source
    }

    /// Between fieldcache and its clients.
    #[must_use]
    pub fn clients(&self) -> &Proxy {
        &self.clients
    }

    /// The program under test.
    #[must_use]
    pub fn fieldcache(&self) -> &Fieldcache {
        &self.fieldcache
    }

    /// Begins a fault.
    ///
    /// # Errors
    /// When that is not possible.
    pub async fn begin(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Line(Side::Source, fault) => self.source.begin(fault),
            Fault::Line(Side::Clients, fault) => self.clients.begin(fault),
            Fault::System(fault) => self.begin_system(fault).await.with_context(|| format!("beginning: {fault}"))?,
        }
        Ok(())
    }

    async fn begin_system(&mut self, fault: SystemFault) -> Result<()> {
        match fault {
            SystemFault::KillFieldcache => {
                (self.runs, self.serves) = (false, false);
                self.fieldcache.kill();
            }
            SystemFault::StopFieldcache => {
                (self.runs, self.serves) = (false, false);
                // Between two attempts to start without a source there is no process to notify.
                if let Err(error) = self.fieldcache.stop().await
                    && self.fieldcache.process().exit_code()?.is_none_or(|code| code == 0)
                {
                    return Err(error);
                }
            }
            SystemFault::PauseFieldcache if self.fieldcache.process().exit_code()?.is_some() => {}
            SystemFault::PauseFieldcache => {
                self.paused = Some(self.fieldcache.process().id());
                self.fieldcache.process().signal("STOP")?;
            }
            SystemFault::KillApiserver => self.plane.own_control_plane()?.stop_apiserver(),
            SystemFault::PauseApiserver => self.plane.own_control_plane()?.apiserver().signal("STOP")?,
            SystemFault::KillEtcd => self.plane.own_control_plane()?.stop_etcd(),
            SystemFault::PauseEtcd => self.plane.own_control_plane()?.etcd().signal("STOP")?,
            // What all recording clients have seen; etcd does not forget the present.
            SystemFault::Compact => {
                let reached = self.recorder.progress()?.1;
                self.control_plane().compact_etcd(reached).await?;
            }
            SystemFault::DeleteDefinition => {
                objects::delete(&self.writer, &self.definition_path()).await?;
            }
            SystemFault::UnserveVersion => self.serve_version(false).await?,
        }
        Ok(())
    }

    /// Whether something has met a fault of a line; those of programs and data are seen to when they end.
    #[must_use]
    pub fn has_met(&self, fault: Fault) -> bool {
        match fault {
            Fault::Line(Side::Source, fault) => self.source.met().contains_key(&fault),
            Fault::Line(Side::Clients, fault) => self.clients.met().contains_key(&fault),
            Fault::System(_) => true,
        }
    }

    /// Ends a fault.
    ///
    /// # Errors
    /// When what was taken away does not come back.
    pub async fn end(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Line(Side::Source, fault) => self.source.end(fault),
            Fault::Line(Side::Clients, fault) => self.clients.end(fault),
            Fault::System(fault) => self.end_system(fault).await.with_context(|| format!("ending: {fault}"))?,
        }
        Ok(())
    }

    async fn end_system(&mut self, fault: SystemFault) -> Result<()> {
        match fault {
            SystemFault::KillFieldcache | SystemFault::StopFieldcache => {
                self.runs = true;
                self.tend().await?;
            }
            SystemFault::PauseFieldcache => {
                // Without a source it may have ended just then, and been started again since.
                if self.paused.take() == Some(self.fieldcache.process().id()) {
                    resume(self.fieldcache.process()).await?;
                }
            }
            SystemFault::KillApiserver => self.plane.own_control_plane()?.start_apiserver().await?,
            SystemFault::PauseApiserver => resume(self.plane.own_control_plane()?.apiserver()).await?,
            SystemFault::KillEtcd => self.plane.own_control_plane()?.start_etcd().await?,
            SystemFault::PauseEtcd => resume(self.plane.own_control_plane()?.etcd()).await?,
            SystemFault::Compact => {}
            SystemFault::DeleteDefinition => {
                let path = self.definition_path();
                eventually("the definition is gone", PATIENCE, async || {
                    ensure!(self.writer.get(&path).await?.status == StatusCode::NOT_FOUND, "it is still there");
                    Ok(())
                })
                .await?;
                objects::create_definition(&self.writer, &self.definition).await?;
            }
            SystemFault::UnserveVersion => {
                let path = self.resource.path("");
                eventually("the version is not served", PATIENCE, async || {
                    ensure!(self.writer.get(&path).await?.status == StatusCode::NOT_FOUND, "it still is");
                    Ok(())
                })
                .await?;
                self.serve_version(true).await?;
                objects::served(&self.writer, &self.definition).await?;
            }
        }
        Ok(())
    }

    /// Starts fieldcache if it is meant to run and does not; one attempt, which a fault may foil.
    ///
    /// # Errors
    /// When the operating system does not say whether it runs.
    pub async fn tend(&mut self) -> Result<()> {
        let Some(code) = self.fieldcache.process().exit_code()?.filter(|_| self.runs) else { return Ok(()) };
        if std::mem::take(&mut self.serves) {
            self.crashes.push(format!("fieldcache ended by itself, code {code}\n{}", self.fieldcache.process().tail()));
        }
        // Without a source it ends before it serves; the next attempt comes soon.
        self.serves = matches!(timeout(ATTEMPT, self.fieldcache.start_again()).await, Ok(Ok(())));
        Ok(())
    }

    /// What fieldcache said each time that it ended by itself.
    #[must_use]
    pub fn crashes(&self) -> &[String] {
        &self.crashes
    }

    /// Whether fieldcache runs, if it is meant to.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.fieldcache.process().ensure_running().is_ok()
    }

    fn definition_path(&self) -> String {
        format!("{}/{}", objects::DEFINITIONS, self.definition["metadata"]["name"].as_str().unwrap_or_default())
    }

    async fn serve_version(&self, served: bool) -> Result<()> {
        let mut versions = self.definition["spec"]["versions"].clone();
        versions[0]["served"] = served.into();
        objects::merge(&self.writer, &self.definition_path(), &json!({ "spec": { "versions": versions } })).await?;
        Ok(())
    }
}

/// Lets a process go on that was suspended, once it does. One that has ended before the signal has nothing to go on with.
async fn resume(process: &Process) -> Result<()> {
    eventually("the process is suspended", PATIENCE, async || {
        ensure!(process.exit_code()?.is_some() || is_stopped(process.id())?, "it does not yet");
        Ok(())
    })
    .await?;
    process.signal("CONT")
}
