//! `fieldcache kubeconfig`: from a View's status to a client that reads.

use anyhow::{Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::shell::Shell;
use serde_json::{Value, json};

use super::stage::{SERVICE, Stage, host_and_port};

const VIEW: &str = "read-shirts";

/// Reads with it as people do: all shirts by name.
const READ: &str = "kubectl --kubeconfig <(fieldcache kubeconfig read-shirts ARGUMENTS) get shirts -A -o name";

fn read(arguments: &str) -> String {
    READ.replace("ARGUMENTS", arguments)
}

#[tokio::test]
async fn a_kubeconfig_for_a_view_reads_with_a_certificate_or_a_token() -> Result<()> {
    let stage = Stage::shared().await?;
    let administrator = stage.administrator()?;
    let own = stage.alice()?;
    let alice = Shell::with_kubeconfig(&own)?;

    // What is not served says why.
    alice.fail("fieldcache kubeconfig read-shirts", 2, &["no View \"read-shirts\"", "kubectl get views"]).await?;
    stage.create_view(&administrator, VIEW).await?;
    alice.fail("kubectl fieldcache kubeconfig read-shirts", 2, &["\"read-shirts\" is not ready: no operator"]).await?;
    let bundle = BASE64_STANDARD.encode(stage.authority()?);
    let address = stage.operator.address();
    let direct = json!({ "url": address, "caBundle": bundle });
    stage.write_status(&administrator, VIEW, ("False", "Loading", "shirts: 3 of 6 objects"), &direct).await?;
    let waiting = ["not ready: Loading: shirts: 3 of 6 objects", "kubectl wait --for=condition=Ready view/read-shirts"];
    alice.fail("fieldcache kubeconfig read-shirts", 2, &waiting).await?;
    stage.write_status(&administrator, VIEW, ("True", "Served", ""), &Value::Null).await?;
    alice.fail("fieldcache kubeconfig read-shirts", 2, &["no endpoint"]).await?;
    stage.write_status(&administrator, VIEW, ("True", "Served", ""), &direct).await?;
    let stranger = stage.with_token(&stage.token("nobody", None).await?);
    Shell::with_kubeconfig(&stranger)?
        .fail("fieldcache kubeconfig read-shirts", 2, &["403", "views", "permission"])
        .await?;

    // A person with a certificate.
    let expected = alice.succeed("kubectl get shirts -A -o name").await?;
    ensure!(expected.lines().count() == 6, "{expected}");
    let finished = alice.run(&read("")).await?;
    ensure!(finished.stdout == expected && finished.stderr.is_empty(), "{finished:?}");
    let json = alice.succeed("kubectl fieldcache kubeconfig read-shirts -o json").await?;
    let document: Value = serde_json::from_str(&json)?;
    ensure!(document["clusters"][0]["cluster"]["server"] == address, "{document}");
    ensure!(document["contexts"][0]["context"]["namespace"] == "team-b", "{document}");
    ensure!(document["users"][0]["user"] == own["users"][0]["user"], "{document}");

    // ServiceAccounts: a token that is requested, and one in a file that the kubelet keeps.
    ensure!(administrator.succeed(&read("--service-account team-a/reader")).await? == expected, "a token requested");
    let refused = administrator.run(&read("--service-account team-a/nobody")).await?;
    ensure!(refused.stderr.contains("system:serviceaccount:team-a:nobody"), "{refused:?}");
    let gone = ["ServiceAccount gone in namespace team-a", "\"gone\" not found"];
    administrator.fail("fieldcache kubeconfig read-shirts --service-account team-a/gone", 2, &gone).await?;
    alice
        .fail("fieldcache kubeconfig read-shirts --service-account team-a/reader", 2, &["create serviceaccounts/token"])
        .await?;
    let folder = stage.pod_folder("reader").await?;
    let token = folder.write("token-for-fieldcache", stage.token("reader", Some("fieldcache.dev")).await?)?;
    let (host, port) = host_and_port(stage.control_plane.endpoint().base())?;
    let pod = Shell::in_pod(folder.path(), host, port)?;
    let script = read(&format!("--token-file {}", token.display()));
    let finished = pod.run(&script).await?;
    ensure!(finished.stdout == expected && finished.stderr.is_empty(), "in a Pod: {finished:?}");
    let document = pod.succeed(&format!("fieldcache kubeconfig read-shirts --token-file {}", token.display())).await?;
    ensure!(document.contains("namespace: team-a") && document.contains("tokenFile: /"), "{document}");
    // The Pod's own token is for kube-apiserver: the operator is not to see it, and rejects it.
    let refused =
        ["its tokenFile is for the API server", "audience fieldcache.dev", "--service-account", "--token-file"];
    pod.fail("fieldcache kubeconfig read-shirts", 2, &refused).await?;
    let finished = pod.run(&read("--allow-api-server-credentials")).await?;
    ensure!(finished.exit_code == 1 && finished.stderr.contains("Unauthorized"), "{finished:?}");

    // Through a port-forward, at another address than the certificate's.
    let service = json!({ "url": format!("https://{SERVICE}"), "caBundle": bundle });
    stage.write_status(&administrator, VIEW, ("True", "Served", ""), &service).await?;
    let finished = alice.run(&read(&format!("--server {address}"))).await?;
    ensure!(finished.stdout == expected && finished.stderr.is_empty(), "a port-forward: {finished:?}");
    let document = alice.succeed(&format!("fieldcache kubeconfig read-shirts --server {address}")).await?;
    ensure!(document.contains(&format!("tls-server-name: {SERVICE}")), "{document}");
    Ok(())
}
