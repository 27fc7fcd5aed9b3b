//! Kubernetes' scripts `test/cmd`, which run kubectl; `e2e/conformance/kubectl/test-cmd.sh` runs the chosen functions of them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::build;
use super::run::{Bed, environment, finish};
use super::{Outcome, Outcomes, Side, directory};
use crate::components::{Component, locate};
use crate::control_plane::Settings;
use crate::process::Invocation;
use crate::run_directory::RunDirectory;

const DEADLINE: Duration = Duration::from_secs(45 * 60);

/// The token of the administrator in the scripts.
const TOKENS: &str = "admin-token,admin,admin,system:masters\n";

/// The parts of the sources that the scripts read.
const PARTS: [&str; 4] = ["hack", "test/cmd", "test/fixtures", "third_party/forked/shell2junit"];

/// The names of all functions that the scripts run.
///
/// # Errors
/// When the sources are missing.
pub fn names() -> Result<Vec<String>> {
    let script = build::module("k8s.io/kubernetes")?.join("test/cmd/legacy-script.sh");
    let text = std::fs::read_to_string(&script).with_context(|| format!("reading {}", script.display()))?;
    let words = text.lines().filter_map(|line| line.trim().strip_prefix("record_command run_"));
    let mut names: Vec<String> = words.map(|word| format!("run_{}", word.trim())).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// Runs these functions.
///
/// # Errors
/// When a component is not built or does not start.
pub async fn run(side: Side, chosen: &[&str]) -> Result<Outcomes> {
    let written = RunDirectory::create("conformance-kubectl")?;
    let tokens = written.write("tokens.csv", TOKENS)?;
    let without = "StorageObjectInUseProtection,DefaultStorageClass,DefaultTolerationSeconds";
    let settings = Settings {
        controller_manager: true,
        apiserver_arguments: vec![
            format!("--token-auth-file={}", tokens.display()),
            "--authorization-mode=RBAC,AlwaysAllow".to_owned(),
            format!("--disable-admission-plugins={without},MutatingAdmissionWebhook,ValidatingAdmissionWebhook"),
        ],
        ..Settings::default()
    };
    let bed = Bed::start(side, settings).await?;
    let address = bed.address();
    let (_, port) = address.rsplit_once(':').context("an address has a port")?;

    let sources = build::module("k8s.io/kubernetes")?;
    let working = bed.directory().path().join("kubernetes");
    for part in PARTS {
        build::copy_files(&sources.join(part), &working.join(part))?;
    }
    let kubectl = locate(Component::Kubectl)?;
    let binaries = kubectl.parent().context("a program is in a directory")?;
    std::fs::create_dir_all(working.join("_output")).context("making the directory of the components")?;
    std::os::unix::fs::symlink(binaries, working.join("_output/bin")).context("linking the components")?;
    let home = bed.directory().path().join("home");
    std::fs::create_dir_all(&home).context("making a home")?;
    let names = bed.directory().write("chosen", chosen.join("\n"))?;
    let mut invocation = Invocation::new("/bin/bash".into())
        .arguments(["-c", "cd \"$0\" && exec /bin/bash \"$@\" 2>&1", &working.display().to_string()])
        .arguments([directory().join("kubectl/test-cmd.sh").display().to_string()])
        .arguments([names.display().to_string(), port.to_owned()]);
    invocation.environment.extend(environment(&home)?);
    let output = finish("test-cmd", &invocation, bed.directory().path(), DEADLINE).await?;
    let outcomes = read(&output);
    let end = || output.lines().rev().take(20).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n");
    ensure!(!outcomes.is_empty(), "the scripts ended before the first function:\n{}", end());
    Ok(outcomes)
}

/// The outcomes in what the script prints; the words of a failure are the last lines before it.
fn read(output: &str) -> Outcomes {
    const WORDS: usize = 8;
    let mut outcomes = Outcomes::new();
    let mut said: Vec<&str> = Vec::new();
    for line in output.lines() {
        let Some(rest) = line.strip_prefix("outcome: ") else {
            said.push(line);
            continue;
        };
        let mut words = rest.split(' ');
        let (verdict, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let outcome = match verdict {
            "passed" => Outcome::Passed,
            _ => Outcome::Failed(said[said.len().saturating_sub(WORDS)..].join("\n")),
        };
        outcomes.insert(name.to_owned(), outcome);
        said.clear();
    }
    outcomes
}
