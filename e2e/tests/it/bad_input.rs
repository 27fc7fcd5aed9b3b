//! Bad input: every fault gets an error that names the thing and the remedy, and takes nothing else down.
//!
//! While the faults of a running server are made, the list and the open watch of another resource go on.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, kubeconfig};
use e2e::eventually::eventually;
use e2e::fieldcache::{Fieldcache, program};
use e2e::http::{Client, Lines};
use e2e::run_directory::RunDirectory;
use e2e::{fixtures, objects, unique};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(30);

/// What a finished fieldcache left.
struct Ended {
    code: i32,
    said: String,
}

/// Runs it to its end.
async fn run(arguments: &[&str]) -> Result<Ended> {
    let directory = RunDirectory::create("bad-input")?;
    let output = Command::new(program()?)
        .args(arguments)
        .env_clear()
        .env("HOME", directory.path())
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(SOON, output).await.with_context(|| format!("{arguments:?} does not end"))??;
    Ok(Ended {
        code: output.status.code().unwrap_or(-1),
        said: format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
    })
}

/// It ends with 2 and names all of these.
async fn fails(arguments: &[&str], named: &[&str]) -> Result<()> {
    let ended = run(arguments).await?;
    ensure!(ended.code == 2, "{arguments:?}: exit code {}: {}", ended.code, ended.said);
    for text in named {
        ensure!(ended.said.contains(text), "{arguments:?} does not say {text:?}: {}", ended.said);
    }
    ensure!(!ended.said.contains("panicked"), "{}", ended.said);
    Ok(())
}

#[tokio::test]
async fn commands_that_cannot_begin_say_why_and_what_to_do() -> Result<()> {
    let directory = RunDirectory::create("bad-files")?;
    let text = |path: &Path| path.display().to_string();
    let missing = text(&directory.path().join("missing.yaml"));
    let no_folder = text(&directory.path().join("nowhere"));
    let broken = text(&directory.write("broken.yaml", "apiVersion: v1\nkind: [\n")?);
    let no_definition = text(&directory.write("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")?);
    let no_config = text(&directory.write("kubeconfig", "just text")?);
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let busy = listener.local_addr()?.to_string();
    // No server listens there, and no other process gets the port.
    let unheard = tokio::net::TcpSocket::new_v4()?;
    unheard.bind("127.0.0.1:0".parse()?)?;
    let gone = unheard.local_addr()?.to_string();
    let unreachable = kubeconfig(&format!("http://{gone}"), None, None);
    let unreachable = text(&directory.write("unreachable", unreachable.to_string())?);
    let folder = directory.path().join("empty");
    std::fs::create_dir(&folder)?;
    let folder = text(&folder);

    fails(&["frobnicate"], &["frobnicate", "--help"]).await?;
    fails(&["serve", "--no-such-option"], &["--no-such-option", "--help"]).await?;
    fails(&["check", &missing], &[&missing]).await?;
    fails(&["check", &broken], &[&broken, "broken.yaml:"]).await?;
    fails(&["check", &no_definition], &["CustomResourceDefinition", &no_definition]).await?;
    fails(&["serve", "--dir", &no_folder], &[&no_folder, "--dir"]).await?;
    fails(&["serve", "--dir", &folder, "--address", &busy], &[&busy, "--address"]).await?;
    fails(&["serve", "--dir", &folder, "--address", "0.0.0.0:0"], &["0.0.0.0:0", "127.0.0.1"]).await?;
    fails(&["serve", "--dir", &folder, "--address", "here"], &["here", "--address"]).await?;
    // The address that it has otherwise may be in use.
    let serve = ["serve", "--address", "127.0.0.1:0", "--kubeconfig"];
    fails(&[&serve[..], &[&*missing]].concat(), &[&missing, "--kubeconfig"]).await?;
    fails(&[&serve[..], &[&*no_config]].concat(), &[&no_config]).await?;
    fails(&[&serve[..], &[&*unreachable]].concat(), &[&gone, "kubeconfig"]).await?;
    fails(&[&serve[..], &[&*unreachable, "--context", "other"]].concat(), &["other", "context"]).await?;
    let metrics = ["serve", "--dir", &folder, "--address", "127.0.0.1:0", "--metrics-address", &busy];
    fails(&metrics, &[&busy, "--metrics-address"]).await?;
    let operator = ["operator", "--address", "127.0.0.1:0", "--kubeconfig"];
    fails(&[&operator[..], &[&*missing]].concat(), &[&missing, "--kubeconfig"]).await?;
    fails(&[&operator[..], &[&*unreachable]].concat(), &[&gone, "kubeconfig"]).await?;
    fails(&["operator", "--address", &busy, "--kubeconfig", &unreachable], &[&busy, "--address"]).await?;
    println!("bad input: 17 commands that cannot begin");
    Ok(())
}

#[tokio::test]
async fn credentials_that_are_refused_say_so() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let directory = RunDirectory::create("credentials")?;
    let base = control_plane.endpoint().base();
    let mut expired = kubeconfig(base, Some(&control_plane.authority().certificate()), None);
    // A token that was valid until 2001, and whose signature it is unknown.
    expired["users"][0]["user"]["token"] =
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJqYW5lIiwiZXhwIjoxMDAwMDAwMDAwfQ.c2lnbmF0dXJl".into();
    let expired = directory.write("expired", expired.to_string())?.display().to_string();
    fails(
        &["serve", "--address", "127.0.0.1:0", "--kubeconfig", &expired],
        &[base, "401", "credentials", "renew", "kubeconfig"],
    )
    .await?;
    println!("bad input: 1 kubeconfig with expired credentials");
    Ok(())
}

/// The resource nothing is done to.
struct Neighbour {
    client: Client,
    path: String,
    watch: Lines,
    written: usize,
}

impl Neighbour {
    async fn begin(client: Client, path: String) -> Result<Neighbour> {
        let watch = client.watch(&format!("{path}?fieldSelector=spec.color%3Dblue&watch=1")).await?;
        Ok(Neighbour { client, path, watch, written: 0 })
    }

    /// One more object comes through the watch that has been open all the time, and is in the list.
    async fn goes_on(&mut self, write: impl AsyncFnOnce(&Value) -> Result<()>) -> Result<()> {
        self.written += 1;
        let name = format!("n{}", self.written);
        let group_version = self.path.trim_start_matches("/apis/").trim_end_matches("/shirts").to_owned();
        let object = json!({
            "apiVersion": group_version, "kind": "Shirt", "metadata": { "name": name }, "spec": { "color": "blue" },
        });
        write(&object).await?;
        let event = self.watch.event(SOON).await.context("the neighbour's watch")?;
        ensure!(event["type"] == "ADDED" && event["object"]["metadata"]["name"] == name.as_str(), "{event}");
        let list = self.client.get_json(&format!("{}?fieldSelector=spec.color%3Dblue", self.path)).await?;
        ensure!(list["items"].as_array().is_some_and(|items| items.len() == self.written), "{list}");
        Ok(())
    }
}

#[tokio::test]
async fn faults_in_a_folder_are_reported_by_file_and_line_and_the_rest_goes_on() -> Result<()> {
    let directory = RunDirectory::create("faulty")?;
    let folder = directory.path().join("served");
    std::fs::create_dir(&folder)?;
    let put = |name: &str, content: &str| -> Result<()> {
        std::fs::rename(directory.write("staged", content)?, folder.join(name))?;
        Ok(())
    };
    let (group, other) = (unique::group("neighbour"), unique::group("faulty"));
    put("neighbour.json", &fixtures::shirts(&group, &fixtures::no_conversion()).to_string())?;
    let fieldcache = Box::pin(Fieldcache::serve_folder(&folder)).await?;
    let client = fieldcache.client();
    let mut neighbour = Neighbour::begin(client.clone(), format!("/apis/{group}/v1/shirts")).await?;
    let write = async |object: &Value| {
        put(&format!("{}.json", object["metadata"]["name"].as_str().unwrap_or_default()), &object.to_string())
    };
    neighbour.goes_on(write).await?;

    // File, content, and what is reported of it.
    let mut bad_path = fixtures::shirts(&other, &fixtures::no_conversion());
    bad_path["spec"]["versions"][0]["selectableFields"][0]["jsonPath"] = "spec.color".into();
    let bad_path = bad_path.to_string();
    let shirt = |name: &str, rest: &str| {
        format!(
            "apiVersion: {group}/v1\nkind: Shirt\nmetadata: {{name: {name}}}\nspec: {{color: blue}}\n---\napiVersion: {group}/v1\nkind: Shirt\n{rest}"
        )
    };
    let wrong_type = shirt("good1", "metadata: {name: wrong-type}\nspec: {quantity: many}\n");
    let wrong_label = shirt("good2", "metadata: {name: wrong-label, labels: {team: 'not valid!'}}\n");
    let unknown_kind = "apiVersion: nobody.example.com/v1\nkind: Nothing\nmetadata: {name: x}\n";
    let rows: [(&str, &str, &[&str]); 7] = [
        ("broken.yaml", "apiVersion: v1\nkind: [\n", &["broken.yaml:"]),
        ("tabs.yaml", "a:\n\tb: 1\n", &["tabs.yaml:2"]),
        ("broken.json", "{\"apiVersion\": }", &["broken.json:1"]),
        ("bad-path.json", &bad_path, &["bad-path.json:1", "expected [ or . but got: spec", "\".spec.color\""]),
        ("wrong-type.yaml", &wrong_type, &["wrong-type.yaml:6", "wrong-type", "quantity", "integer"]),
        ("wrong-label.yaml", &wrong_label, &["wrong-label.yaml:6", "wrong-label", "metadata.labels"]),
        ("unknown-kind.yaml", unknown_kind, &["unknown-kind.yaml:1", "Nothing"]),
    ];
    for (file, content, reported) in rows {
        put(file, content)?;
        eventually(&format!("{file} is reported"), SOON, async || {
            let stderr = fieldcache.process().stderr()?;
            for text in reported {
                ensure!(
                    stderr.lines().any(|line| line.contains(file) && line.contains(text)),
                    "{text:?} is not reported: {stderr}"
                );
            }
            Ok(())
        })
        .await?;
        // The right objects of the same file are served.
        if content.contains("name: good") {
            let name = if content.contains("good1") { "good1" } else { "good2" };
            neighbour.written += 1;
            let event = neighbour.watch.event(SOON).await?;
            ensure!(event["object"]["metadata"]["name"] == name, "{event}");
        }
        neighbour.goes_on(write).await.with_context(|| format!("after {file}"))?;
    }

    // The definition with one bad path is served with its other fields.
    let path = format!("/apis/{other}/v1/shirts");
    client.get_json(&format!("{path}?fieldSelector=spec.quantity%3D1")).await?;
    let refused = client.get(&format!("{path}?fieldSelector=spec.color%3Dblue")).await?;
    ensure!(refused.status.as_u16() == 400, "{}", refused.text());

    requests(&client, &format!("/apis/{group}/v1/shirts")).await?;
    neighbour.goes_on(write).await.context("after bad requests")?;
    println!("bad input: 7 faulty files");
    Ok(())
}

#[tokio::test]
async fn faults_in_a_cluster_leave_other_resources_alone() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let writer = control_plane.client();
    let fieldcache = Box::pin(Fieldcache::serve_cluster(control_plane.kubeconfig(), &[])).await?;
    let client = fieldcache.client();
    let (group, other) = (unique::group("neighbour"), unique::group("odd"));
    let definition = fixtures::shirts(&group, &fixtures::no_conversion());
    objects::create_definition(&writer, &definition).await?;
    objects::served(&client, &definition).await?;
    let path = format!("/apis/{group}/v1/shirts");
    let mut neighbour = Neighbour::begin(client.clone(), path.clone()).await?;
    let write = async |object: &Value| objects::create(&writer, &path, object).await.map(|_| ());
    neighbour.goes_on(write).await?;
    requests(&client, &path).await?;
    neighbour.goes_on(write).await.context("after bad requests")?;

    // A path that kube-apiserver takes and cannot evaluate: it serves nothing of this kind, and the neighbour lives.
    let mut odd = fixtures::shirts(&other, &fixtures::no_conversion());
    for version in odd["spec"]["versions"].as_array_mut().context("versions")? {
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["a b"] = json!({ "type": "string" });
        version["selectableFields"][1]["jsonPath"] = ".spec.a b".into();
    }
    objects::create_definition(&writer, &odd).await?;
    objects::served(&client, &odd).await?;
    neighbour.goes_on(write).await.context("after a path that cannot be evaluated")?;
    objects::delete(&writer, &format!("{}/shirts.{other}", objects::DEFINITIONS)).await?;
    eventually("the deleted kind is gone", SOON, async || {
        let answer = client.get(&format!("/apis/{other}/v1/shirts")).await?;
        ensure!(answer.status.as_u16() == 404, "{}", answer.status);
        Ok(())
    })
    .await?;
    neighbour.goes_on(write).await.context("after a kind has gone")?;

    fails(
        &[
            "serve",
            "--address",
            "127.0.0.1:0",
            "--kubeconfig",
            &control_plane.kubeconfig().display().to_string(),
            "--resource",
            "nothings.v1.example.com",
        ],
        &["nothings.v1.example.com", "--resource"],
    )
    .await?;
    Ok(())
}

/// Bad requests: a Status that names what is wrong.
async fn requests(client: &Client, path: &str) -> Result<()> {
    let rows = [
        ("?fieldSelector=spec.nosuch%3Dx", 400, "field label not supported: spec.nosuch"),
        ("?fieldSelector=spec.color+x", 400, "invalid selector: 'spec.color x'; can't understand 'spec.color x'"),
        ("?fieldSelector=spec.color%3Da%3Db", 400, "invalid field selector: unescaped character in value: 61"),
        ("?labelSelector=a%20b", 400, "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("?labelSelector=%3D%3D", 400, "found '==', expected: !, identifier, or 'end of string'"),
        ("?continue=nonsense", 400, "continue key is not valid"),
        ("?limit=many", 400, "many"),
        ("?resourceVersion=abc", 400, "invalid resource version"),
        ("?resourceVersionMatch=Exact", 422, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("/nobody", 404, "not found"),
    ];
    for (query, code, message) in rows {
        for watch in [false, true] {
            if watch && (query.starts_with('/') || !query.contains("elector")) {
                continue;
            }
            let requested = format!("{path}{query}{}", if watch { "&watch=1" } else { "" });
            let answer = client.get(&requested).await?;
            let status = answer.json().with_context(|| requested.clone())?;
            ensure!(
                answer.status.as_u16() == code && status["kind"] == "Status",
                "{requested}: {}: {status}",
                answer.status
            );
            let said = status["message"].as_str().unwrap_or_default();
            ensure!(said.contains(message), "{requested}: {said}");
        }
    }
    Ok(())
}
