//! What every suite runs on: a control plane of its own, fieldcache in front of it or not, and programs that run to their end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Side;
use super::view::Front;
use crate::control_plane::{ControlPlane, Settings, kubeconfig};
use crate::fieldcache::{self, Fieldcache};
use crate::process::{Invocation, Process};
use crate::run_directory::RunDirectory;

/// What is in front of the control plane.
enum Server {
    Nothing,
    Serve(Fieldcache),
    View(Front),
}

/// A control plane for one side of a suite.
pub struct Bed {
    server: Server,
    kubeconfig: PathBuf,
    // After what is in front, which reads from it.
    control_plane: ControlPlane,
    directory: RunDirectory,
}

impl Bed {
    /// Starts it, with fieldcache in front of it when `side` says so.
    ///
    /// # Errors
    /// When a component is not built or does not start.
    pub async fn start(side: Side, settings: Settings) -> Result<Bed> {
        let directory = RunDirectory::create("conformance")?;
        let control_plane = Box::pin(ControlPlane::start(settings)).await?;
        let (server, document) = match side {
            Side::Direct => (Server::Nothing, control_plane.kubeconfig_for(control_plane.endpoint().base())),
            Side::Through => {
                let fieldcache = Box::pin(in_front_of(&control_plane, &directory)).await?;
                let document = control_plane.kubeconfig_for(fieldcache.address());
                (Server::Serve(fieldcache), document)
            }
            Side::View => {
                let front = Box::pin(Front::start(&control_plane)).await?;
                let document = kubeconfig(&front.base(), None, None);
                (Server::View(front), document)
            }
        };
        let kubeconfig = directory.write("kubeconfig", document.to_string())?;
        Ok(Bed { server, kubeconfig, control_plane, directory })
    }

    /// The kubeconfig of the administrator for this side.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The base URL of the server on this side.
    #[must_use]
    pub fn address(&self) -> String {
        match &self.server {
            Server::Nothing => self.control_plane.endpoint().base().to_owned(),
            Server::Serve(fieldcache) => fieldcache.address().to_owned(),
            Server::View(front) => front.base(),
        }
    }

    /// Checks, after a suite, that it talked to what it is to be compared with.
    ///
    /// # Errors
    /// When no request went to the View of [`Side::View`].
    pub fn check(&self) -> Result<()> {
        match &self.server {
            Server::View(front) => front.check(),
            Server::Nothing | Server::Serve(_) => Ok(()),
        }
    }

    /// A directory for what the suite reads and writes.
    #[must_use]
    pub fn directory(&self) -> &RunDirectory {
        &self.directory
    }

    /// The environment that every program of a suite gets: a home of its own, and the components on its path.
    ///
    /// # Errors
    /// When the components are not built.
    pub fn environment(&self) -> Result<Vec<(String, String)>> {
        environment(self.directory.path())
    }
}

/// fieldcache in front of a control plane, over TLS as kube-apiserver is: Go's clients for plain HTTP differ in what tests look at.
async fn in_front_of(control_plane: &ControlPlane, directory: &RunDirectory) -> Result<Fieldcache> {
    let authority = control_plane.authority();
    let server = authority.server("fieldcache", &["localhost"])?;
    let certificate = directory.write("tls.crt", server.certificate)?;
    let key = directory.write("tls.key", server.key)?;
    let cluster = ["--pass-through", "all", "--kubeconfig", &control_plane.kubeconfig().display().to_string()];
    Fieldcache::serve_tls(cluster.map(str::to_owned), &certificate, &key, &authority.certificate()).await
}

/// A home for a program, and the components on its path.
///
/// # Errors
/// When the components are not built.
pub fn environment(home: &Path) -> Result<Vec<(String, String)>> {
    let kubectl = crate::components::locate(crate::components::Component::Kubectl)?;
    let binaries = kubectl.parent().context("a program is in a directory")?;
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", binaries.display());
    Ok(vec![("HOME".to_owned(), home.display().to_string()), ("PATH".to_owned(), path)])
}

/// The variable that puts fieldcache in front of servers that integration tests start, when `side` says so.
///
/// # Errors
/// When fieldcache is not built.
pub fn in_front(side: Side) -> Result<Vec<(String, String)>> {
    Ok(match side {
        Side::Direct => Vec::new(),
        Side::View => bail!("integration tests have a server each: they are not run with a View"),
        Side::Through => vec![("FIELDCACHE_PROGRAM".to_owned(), fieldcache::program()?.display().to_string())],
    })
}

/// Runs a program to its end, with its outputs in `directory`, and returns what it wrote to its standard output.
///
/// # Errors
/// When it does not end before the deadline. Its exit code is not looked at: reports say what failed.
pub async fn finish(name: &str, invocation: &Invocation, directory: &Path, deadline: Duration) -> Result<String> {
    let process = Process::start(name, invocation, directory)?;
    process.ended(deadline).await?;
    process.stdout()
}
