//! What a Pod is to the program in it: two environment variables, and files at a fixed place that every client looks at.
//!
//! There is no kubelet here, so [`project`] writes the files of a projected volume. It requests from kube-apiserver
//! what kubelet would request. A program runs [`within`] them in a mount namespace of its own, where nothing else of
//! the file system differs. The path is fixed in client libraries, and no setting changes it. Making such a namespace
//! takes root, or a kernel that lets every user make user namespaces.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::http::Client;
use crate::objects;
use crate::process::Invocation;
use crate::run_directory::RunDirectory;

/// Where clients look for the files of a Pod's ServiceAccount.
pub const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Puts an empty file system over `/var/run`, links the folder into it, and gives this machine the name of the server.
/// Then it becomes the program.
const ENTER: &str = r#"
mount -t tmpfs none /var/run && mkdir -p "$(dirname "$0")" && ln -s "$1" "$0" &&
echo "127.0.0.1 localhost $KUBERNETES_SERVICE_HOST" > /var/run/hosts && mount --bind /var/run/hosts /etc/hosts &&
shift && exec "$@"
"#;

/// The same program where a Pod finds its files and its API server. The files of `folder` are those of the
/// ServiceAccount, and a server of this machine, known by `host`, is the API server.
///
/// # Errors
/// When this machine makes no mount namespaces.
pub fn within(folder: &Path, host: &str, port: &str, invocation: &Invocation) -> Result<Invocation> {
    let mut arguments = namespace()?;
    arguments.extend(["sh".to_owned(), "-c".to_owned(), ENTER.to_owned(), SERVICE_ACCOUNT.to_owned()]);
    arguments.extend([folder.display().to_string(), invocation.program.display().to_string()]);
    arguments.extend(invocation.arguments.iter().cloned());
    Ok(Invocation {
        program: PathBuf::from("/usr/bin/unshare"),
        arguments,
        environment: invocation.environment.clone(),
    }
    .environment("KUBERNETES_SERVICE_HOST", host)
    .environment("KUBERNETES_SERVICE_PORT", port))
}

/// The arguments with which unshare makes a mount namespace here.
fn namespace() -> Result<Vec<String>> {
    let mut said = String::new();
    // As root a user namespace is not needed, and may be forbidden.
    for arguments in [&["--mount"][..], &["--map-root-user", "--mount"]] {
        let mut command = Command::new("/usr/bin/unshare");
        command.args(arguments).args(["mount", "-t", "tmpfs", "none", "/var/run"]);
        let output = command.output().context("running unshare, which is part of util-linux")?;
        if output.status.success() {
            return Ok(arguments.iter().map(|argument| (*argument).to_owned()).collect());
        }
        said.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    bail!(
        "this machine makes no mount namespaces, in which a program could be run as in a Pod: run as root, or allow user namespaces\n{said}"
    )
}

/// Writes the files of a Pod's projected volume into `folder`, as kubelet would: tokens bound to the Pod, keys of ConfigMaps, and its
/// namespace.
///
/// # Errors
/// When there is no such volume, it has a source that this does not know, or kube-apiserver refuses.
pub async fn project(client: &Client, namespace: &str, pod: &str, volume: &str, folder: &RunDirectory) -> Result<()> {
    let pod = client.get_json(&format!("/api/v1/namespaces/{namespace}/pods/{pod}")).await?;
    let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let found = volumes.find(|found| found["name"] == volume).context("the Pod has no such volume")?;
    for source in found["projected"]["sources"].as_array().context("the volume is not a projected one")? {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if let Some(token) = source.get("serviceAccountToken") {
            let metadata = &pod["metadata"];
            let bound = json!({ "kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"] });
            let spec = json!({
                "audiences": [token["audience"]], "expirationSeconds": token["expirationSeconds"], "boundObjectRef": bound,
            });
            let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec });
            let account = text(&pod["spec"]["serviceAccountName"]);
            let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
            let answer = objects::create(client, &path, &request).await?;
            folder.write(&text(&token["path"]), text(&answer["status"]["token"]))?;
        } else if let Some(config_map) = source.get("configMap") {
            let name = text(&config_map["name"]);
            let document = client.get_json(&format!("/api/v1/namespaces/{namespace}/configmaps/{name}")).await?;
            for item in config_map["items"].as_array().context("items")? {
                let value = document["data"][text(&item["key"])].as_str().context("the ConfigMap has no such key")?;
                folder.write(&text(&item["path"]), value)?;
            }
        } else if let Some(items) = source["downwardAPI"]["items"].as_array() {
            for item in items {
                ensure!(item["fieldRef"]["fieldPath"] == "metadata.namespace", "only the namespace is known: {item}");
                folder.write(&text(&item["path"]), namespace)?;
            }
        } else {
            bail!("a source of the volume is not known: {source}");
        }
    }
    Ok(())
}
