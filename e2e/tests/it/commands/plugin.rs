//! The program as kubectl finds and runs it.

use anyhow::{Result, ensure};
use e2e::shell::Shell;

use super::stage::{Stage, host_and_port};

const FIELDS: [&str; 6] =
    ["metadata.name", "metadata.namespace", "spec.color", "spec.size", "spec.quantity", "spec.branded"];

#[tokio::test]
async fn kubectl_runs_the_program_as_its_plugin() -> Result<()> {
    let stage = Stage::shared().await?;
    let shell = stage.administrator()?;
    let listed = shell.succeed("kubectl plugin list").await?;
    ensure!(listed.lines().any(|line| line.ends_with("/kubectl-fieldcache")), "{listed}");
    let help = shell.succeed("kubectl fieldcache fields --help").await?;
    ensure!(help.contains("Usage: kubectl fieldcache fields [OPTIONS] [RESOURCE]"), "{help}");
    let all = shell.succeed("kubectl fieldcache --help").await?;
    ensure!(["fields", "kubeconfig", "advise"].iter().all(|name| all.contains(&format!("\n  {name}"))), "{all}");
    let table = shell.succeed("kubectl fieldcache fields shirts").await?;
    ensure!(table.starts_with("RESOURCE ") && table.contains(" spec.color "), "{table}");

    // The kubeconfig is the one that kubectl itself reads.
    let base = "kubectl fieldcache fields shirts -o name";
    for (script, why) in [
        (base.to_owned(), "KUBECONFIG"),
        (format!("KUBECONFIG=missing:kubeconfig {base}"), "of which a missing part is passed over"),
        (format!("mkdir .kube && cp kubeconfig .kube/config && unset KUBECONFIG && {base}"), "the home directory's"),
        (format!("unset KUBECONFIG && {base} --kubeconfig kubeconfig"), "one that is named"),
        (format!("unset KUBECONFIG && {base} --context e2e"), "a context that is named"),
    ] {
        let said = shell.succeed(&script).await?;
        let fields: Vec<&str> =
            said.lines().filter_map(|line| line.strip_prefix("shirts.v1.stable.example.com/")).collect();
        ensure!(fields == FIELDS, "{why}: {said}");
    }
    let folder = stage.pod_folder("reader").await?;
    let (host, port) = host_and_port(stage.control_plane.endpoint().base())?;
    let pod = Shell::in_pod(folder.path(), host, port)?;
    let named = pod.succeed("kubectl get shirts -A -o name | wc -l").await?;
    ensure!(named.trim() == "6", "kubectl itself in a Pod: {named}");

    // Errors name what can be typed here, and their exit code comes through.
    shell.fail("kubectl fieldcache fields shoes", 2, &["kubectl fieldcache: ", "`kubectl fieldcache fields`"]).await?;
    shell.fail("fieldcache fields shoes", 2, &["fieldcache: ", "; `fieldcache fields` without a name"]).await?;
    shell.fail("kubectl fieldcache fields --nothing", 2, &["Usage: kubectl fieldcache fields"]).await?;
    Ok(())
}
