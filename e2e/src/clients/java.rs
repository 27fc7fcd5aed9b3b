//! The informers of two Java clients, fabric8's and the official one, built with Maven. `make test` does without it: see [`crate::fabric8`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{Tool, find, run};
use crate::process::Invocation;
use crate::run_directory::cache_directory;

const JAVA: Tool = ("java", &["-version"], "install a JDK 17 or newer");
const MAVEN: Tool = ("mvn", &["--version"], "install Maven 3.8 or newer");

/// The names of the clients, and their main classes.
const CLIENTS: [(&str, &str); 2] =
    [("fabric8", "dev.fieldcache.e2e.Informer"), ("official", "dev.fieldcache.e2e.Official")];

/// Builds them, and returns their names and how they are started; their own arguments follow.
///
/// # Errors
/// When a tool is missing or fails.
pub fn build() -> Result<[(&'static str, Invocation); 2]> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/java/pom.xml");
    let built: PathBuf = cache_directory().join("clients/java");
    fs::create_dir_all(&built).with_context(|| format!("creating {}", built.display()))?;
    let java = find(JAVA)?;
    let mut maven = Command::new(find(MAVEN)?);
    maven.args(["--quiet", "--batch-mode", "--file"]).arg(project);
    run(maven.arg(format!("-Doutput={}", built.display())).arg("compile")).context("building the Java informers")?;
    let classes = format!("{}:{}", built.join("classes").display(), built.join("lib/*").display());
    Ok(CLIENTS.map(|(name, main)| (name, Invocation::new(java.clone()).arguments(["-cp", &classes, main]))))
}
