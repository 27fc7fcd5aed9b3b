//! Which Kubernetes versions fieldcache reads: the one under test is served, or refused when it is too old.
//!
//! What else may differ between versions is for the suites that compare; `make test-versions` runs them beside each version.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::ControlPlane;
use e2e::fieldcache::{Fieldcache, program};
use e2e::run_directory::RunDirectory;
use e2e::versions::Kubernetes;
use tokio::process::Command;
use tokio::time::timeout;

/// A rejection requests one small document.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_version_is_served_or_refused_by_its_number() -> Result<()> {
    let under_test = Kubernetes::under_test()?;
    let control_plane = ControlPlane::shared().await?;
    let version = control_plane.client().get_json("/version").await?;
    ensure!(version["gitVersion"] == under_test.version()?.as_str(), "the source is {}", version["gitVersion"]);
    if under_test > Kubernetes::TOO_OLD {
        let fieldcache = Fieldcache::serve_cluster(control_plane.kubeconfig(), &[]).await?;
        ensure!(fieldcache.client().get_json("/version").await? == version, "it does not say its source's version");
        println!("version: {} is served", under_test.version()?);
        return Ok(());
    }

    let directory = RunDirectory::create("refused")?;
    let ended = Command::new(program()?)
        .args(["serve", "--address", "127.0.0.1:0", "--kubeconfig"])
        .arg(control_plane.kubeconfig())
        .env_clear()
        .env("HOME", directory.path())
        .current_dir(directory.path())
        .kill_on_drop(true)
        .output();
    let ended = timeout(SOON, ended).await.context("it does not end")??;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.code() == Some(2), "it ended with {}: {said}", ended.status);
    let named = [under_test.version()?, "1.32 and newer".to_owned(), control_plane.endpoint().base().to_owned()];
    for text in named {
        ensure!(said.contains(&text), "it does not say {text:?}: {said}");
    }
    println!("version: {} is refused: {}", under_test.version()?, said.trim());
    Ok(())
}
