//! What a person types: a shell with the real kubectl, the program, and the program as kubectl's plugin on its path.
//!
//! Its home is its own, and so is its environment: a kubeconfig is where kubectl finds it without an option.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;
use tokio::time::timeout;

use crate::components::{Component, locate};
use crate::fieldcache;
use crate::kubectl::Finished;
use crate::pod;
use crate::process::Invocation;
use crate::run_directory::RunDirectory;

/// A shell.
#[derive(Debug)]
pub struct Shell {
    home: RunDirectory,
    environment: Vec<(String, String)>,
    /// The folder, host and port of [`pod::within`].
    pod: Option<(PathBuf, String, String)>,
}

impl Shell {
    /// The shell of a user with this kubeconfig (a document) in `KUBECONFIG`.
    ///
    /// # Errors
    /// When kubectl or the program has not been built.
    pub fn with_kubeconfig(kubeconfig: &serde_json::Value) -> Result<Shell> {
        let mut shell = Shell::bare()?;
        let path = shell.home.write("kubeconfig", kubeconfig.to_string())?;
        shell.environment.push(("KUBECONFIG".to_owned(), path.display().to_string()));
        Ok(shell)
    }

    /// In a Pod; see [`pod::within`].
    ///
    /// # Errors
    /// As [`Shell::with_kubeconfig`].
    pub fn in_pod(folder: &Path, host: &str, port: &str) -> Result<Shell> {
        Ok(Shell { pod: Some((folder.to_owned(), host.to_owned(), port.to_owned())), ..Shell::bare()? })
    }

    fn bare() -> Result<Shell> {
        let home = RunDirectory::create("shell")?;
        let programs = home.path().join("bin");
        std::fs::create_dir(&programs).context("creating a folder for programs")?;
        let program = fieldcache::program()?;
        for (name, file) in
            [("kubectl", locate(Component::Kubectl)?), ("fieldcache", program.clone()), ("kubectl-fieldcache", program)]
        {
            symlink(&file, programs.join(name)).with_context(|| format!("linking {}", file.display()))?;
        }
        let environment = vec![
            ("HOME".to_owned(), home.path().display().to_string()),
            ("PATH".to_owned(), format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display())),
        ];
        Ok(Shell { home, environment, pod: None })
    }

    /// Its home, which is its working directory too.
    #[must_use]
    pub fn home(&self) -> &RunDirectory {
        &self.home
    }

    /// Runs a script to its end, whatever its exit code.
    ///
    /// # Errors
    /// When it cannot be started or still runs after ten minutes.
    pub async fn run(&self, script: &str) -> Result<Finished> {
        const DEADLINE: Duration = Duration::from_secs(600);
        let mut invocation = Invocation::new(PathBuf::from("/usr/bin/env")).arguments(["bash", "-c", script]);
        invocation.environment.clone_from(&self.environment);
        if let Some((folder, host, port)) = &self.pod {
            invocation = pod::within(folder, host, port, &invocation)?;
        }
        let output = Command::new(&invocation.program)
            .args(&invocation.arguments)
            .env_clear()
            .envs(invocation.environment)
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(DEADLINE, output).await.with_context(|| script.to_owned())?.context(script.to_owned())?;
        Ok(Finished {
            exit_code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs a script and returns its standard output.
    ///
    /// # Errors
    /// As [`Shell::run`], and when its exit code is not 0: then with its standard error.
    pub async fn succeed(&self, script: &str) -> Result<String> {
        let finished = self.run(script).await?;
        ensure!(finished.exit_code == 0, "{script}: exit code {}: {}", finished.exit_code, finished.stderr);
        Ok(finished.stdout)
    }

    /// Runs a script that must end with this exit code, and say all of this on its standard error; returns that.
    ///
    /// # Errors
    /// As [`Shell::run`], and when it does not.
    pub async fn fail(&self, script: &str, exit_code: i32, expected: &[&str]) -> Result<String> {
        let finished = self.run(script).await?;
        ensure!(finished.exit_code == exit_code, "{script}: {finished:?}");
        for part in expected {
            ensure!(finished.stderr.contains(part), "{script} does not say {part:?}: {}", finished.stderr);
        }
        Ok(finished.stderr)
    }
}
