//! The file tree of the image, where there is no container engine. The script that the Dockerfile runs makes it. It
//! must have the expected content, and the operator must run in it as in the Pod of the Deployment. A machine that
//! permits no chroot is reported, not failed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache;
use e2e::http::Endpoint;
use e2e::kubectl::Kubectl;
use e2e::objects;
use e2e::process::{Invocation, Process};
use e2e::run_directory::RunDirectory;
use serde_json::{Value, json};
use tokio::process::Command;

use super::manifests::{NAMESPACE, base, object, repository};

const SOON: Duration = Duration::from_secs(60);

/// What image/run.sh says when it may not.
const NOT_PERMITTED: i32 = 3;

/// The tree of the debug program.
async fn assembled(folder: &RunDirectory) -> Result<PathBuf> {
    let tree = folder.path().join("image-root");
    let made = Command::new(repository("image/assemble.sh")?).arg(fieldcache::program()?).arg(&tree).output().await?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok(tree)
}

/// Paths of all files below `folder`, as from its root.
fn files(folder: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                found.insert(format!("/{}", entry.path().strip_prefix(folder)?.display()));
            }
        }
    }
    Ok(found)
}

/// The instructions of a Dockerfile, stage by stage, continued lines joined.
fn stages(text: &str) -> Vec<Vec<String>> {
    let mut stages: Vec<Vec<String>> = Vec::new();
    let mut instruction = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_suffix('\\') {
            Some(line) => instruction.push_str(line),
            None => {
                instruction.push_str(line);
                if instruction.starts_with("FROM ") {
                    stages.push(Vec::new());
                }
                if let Some(stage) = stages.last_mut() {
                    stage.push(std::mem::take(&mut instruction));
                }
            }
        }
    }
    stages
}

#[tokio::test]
async fn the_tree_is_what_the_dockerfile_copies() -> Result<()> {
    let folder = RunDirectory::create("image")?;
    let tree = assembled(&folder).await?;
    let mut expected = files(&repository("image/root")?)?;
    expected.insert("/usr/bin/fieldcache".to_owned());
    // The loader reports the libraries in another way than it does to the script.
    let said = Command::new(tree.join("usr/bin/fieldcache")).env("LD_TRACE_LOADED_OBJECTS", "1").output().await?;
    let said = String::from_utf8(said.stdout)?;
    expected.extend(said.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned));
    let actual = files(&tree)?;
    ensure!(actual == expected, "{actual:?} instead of {expected:?}");
    ensure!(
        ["/etc/passwd", "/etc/group", "/etc/nsswitch.conf"].iter().all(|file| actual.contains(*file)),
        "{actual:?}"
    );
    for file in &actual {
        let mode = fs::metadata(tree.join(&file[1..]))?.permissions().mode() & 0o7777;
        let is_run = !file.starts_with("/etc/");
        ensure!(mode == if is_run { 0o755 } else { 0o644 }, "{file}: {mode:o}");
    }

    // The Dockerfile: the second stage is this tree and says which user runs which program of it.
    let text = fs::read_to_string(repository("Dockerfile")?)?;
    let [build, image] = &stages(&text)[..] else { anyhow::bail!("two stages are expected: {text}") };
    let has = |stage: &[String], instruction: &str| stage.iter().any(|actual| actual == instruction);
    ensure!(has(build, "RUN image/assemble.sh target/release/fieldcache /image-root"), "{build:?}");
    ensure!(image[0] == "FROM scratch", "{image:?}");
    let copies: Vec<&String> =
        image.iter().filter(|line| line.starts_with("COPY ") || line.starts_with("ADD ")).collect();
    ensure!(copies == ["COPY --from=build /image-root /"], "{copies:?}");
    ensure!(!image.iter().any(|line| line.starts_with("RUN ")), "there is no shell to run anything: {image:?}");
    ensure!(has(image, r#"ENTRYPOINT ["/usr/bin/fieldcache"]"#), "{image:?}");

    // One user, everywhere; one toolchain.
    let passwd = fs::read_to_string(tree.join("etc/passwd"))?;
    let line = passwd.lines().find(|line| line.starts_with("fieldcache:")).context("a user")?;
    let [user, group] = [2, 3].map(|part| line.split(':').nth(part).unwrap_or_default());
    ensure!(has(image, &format!("USER {user}:{group}")), "{line} is not the user of the image: {image:?}");
    let all = base().await?;
    let context = &object(&all, "Deployment", "fieldcache")?["spec"]["template"]["spec"]["securityContext"];
    let numbers = ["runAsUser", "runAsGroup"].map(|field| context[field].to_string());
    ensure!(numbers == [user, group], "{line} is not the user of the Deployment: {context}");
    let toolchain = fs::read_to_string(repository("rust-toolchain.toml")?)?;
    let channel = toolchain.split('"').nth(1).context("a channel")?;
    ensure!(build[0].starts_with(&format!("FROM rust:{channel}-")), "{} is not Rust {channel}", build[0]);
    Ok(())
}

#[tokio::test]
async fn the_dockerfile_builds_from_what_it_copies() -> Result<()> {
    let text = fs::read_to_string(repository("Dockerfile")?)?;
    let ignored = fs::read_to_string(repository(".dockerignore")?)?;
    let folder = RunDirectory::create("image-source")?;
    let mut copied = Vec::new();
    let stages = stages(&text);
    let copies = stages[0].iter().filter_map(|line| line.strip_prefix("COPY "));
    for copy in copies {
        let words: Vec<&str> = copy.split_whitespace().collect();
        let (target, sources) = words.split_last().context("COPY names something")?;
        for source in sources {
            ensure!(ignored.lines().any(|line| line == format!("!{source}")), ".dockerignore leaves {source} out");
            let path = repository(source)?;
            let into = match target.strip_suffix('/') {
                Some(into) => folder.path().join(into).join(path.file_name().context("a name")?),
                None => folder.path().join(target),
            };
            fs::create_dir_all(into.parent().context("a folder")?)?;
            let done = Command::new("cp").arg("-r").arg(&path).arg(&into).status().await?;
            ensure!(done.success(), "copying {source}");
            copied.push(*source);
        }
    }
    let left: Vec<&str> =
        ignored.lines().filter_map(|line| line.strip_prefix('!')).filter(|path| !copied.contains(path)).collect();
    ensure!(left.is_empty(), "{left:?} are sent to the engine and not copied");
    // Cargo finds the workspace, every dependency as locked, and the program to build.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"];
    let said = Command::new(cargo).args(arguments).current_dir(folder.path()).output().await?;
    ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let metadata: Value = serde_json::from_slice(&said.stdout)?;
    let packages = metadata["packages"].as_array().context("packages")?;
    let targets = packages.iter().filter(|package| package["name"] == "fieldcache").flat_map(|package| {
        package["targets"].as_array().into_iter().flatten().map(|target| (&target["kind"][0], &target["src_path"]))
    });
    let programs: Vec<&str> =
        targets.filter(|(kind, _)| *kind == "bin").filter_map(|(_, path)| path.as_str()).collect();
    let [program] = programs[..] else { anyhow::bail!("one program is expected: {programs:?}") };
    ensure!(Path::new(program).exists(), "{program} is not copied");
    Ok(())
}

/// Says that this machine cannot do what was to be tested.
#[expect(clippy::print_stdout, reason = "a test that could not do its work must not look as if it had")]
fn is_not_permitted(code: Option<i32>, words: &str) -> bool {
    let is_not_permitted = code == Some(NOT_PERMITTED);
    if is_not_permitted {
        println!("the image's tree has not been entered on this machine: {words}");
    }
    is_not_permitted
}

#[tokio::test]
async fn the_program_answers_in_the_tree() -> Result<()> {
    let folder = RunDirectory::create("image")?;
    let tree = assembled(&folder).await?;
    let outside = Command::new(fieldcache::program()?).arg("--version").output().await?;
    let inside = Command::new(repository("image/run.sh")?).arg(&tree).arg("--version").output().await?;
    let words = String::from_utf8_lossy(&inside.stderr);
    if is_not_permitted(inside.status.code(), &words) {
        return Ok(());
    }
    ensure!(inside.status.success() && inside.stdout == outside.stdout, "{words}{inside:?}");
    Ok(())
}

/// The Deployment's arguments, at free ports of the loopback.
fn arguments(container: &Value) -> Result<Vec<String>> {
    let arguments = container["args"].as_array().context("arguments")?.iter().filter_map(Value::as_str);
    let arguments = arguments.map(|argument| match argument.split_once('=') {
        Some((flag @ ("--address" | "--metrics-address" | "--health-address"), _)) => format!("{flag}=127.0.0.1:0"),
        _ => argument.replace("$(POD_NAMESPACE)", NAMESPACE).replace("$(POD_NAME)", "fieldcache-0"),
    });
    let arguments: Vec<String> = arguments.collect();
    ensure!(!arguments.iter().any(|argument| argument.contains("$(")), "{arguments:?}");
    Ok(arguments)
}

/// What a kubelet mounts into a container: the ServiceAccount, and names.
fn mount(tree: &Path, token: &str, authority: &str) -> Result<()> {
    let account = tree.join("var/run/secrets/kubernetes.io/serviceaccount");
    fs::create_dir_all(&account)?;
    for (file, text) in [("token", token), ("ca.crt", authority), ("namespace", NAMESPACE)] {
        fs::write(account.join(file), text)?;
    }
    fs::write(tree.join("etc/hosts"), "127.0.0.1 kubernetes.default.svc\n")?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_lives_in_the_tree_as_in_a_pod_of_the_deployment() -> Result<()> {
    let folder = RunDirectory::create("image")?;
    let tree = assembled(&folder).await?;
    let run = repository("image/run.sh")?;
    let tried = Command::new(&run).arg(&tree).arg("--version").output().await?;
    if is_not_permitted(tried.status.code(), &String::from_utf8_lossy(&tried.stderr)) {
        return Ok(());
    }
    let settings = Settings { controller_manager: true, ..Settings::default() };
    let control_plane = Box::pin(ControlPlane::start(settings)).await?;
    let kubectl = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
    kubectl.succeed(&["apply", "--server-side", "-k", &repository("manifests")?.display().to_string()]).await?;
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/fieldcache/token");
    let answer = objects::create(&control_plane.client(), &path, &request).await?;
    mount(&tree, answer["status"]["token"].as_str().context("a token")?, &control_plane.authority().certificate())?;

    let all = base().await?;
    let pod = &object(&all, "Deployment", "fieldcache")?["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let port = control_plane.endpoint().base().rsplit(':').next().context("a port")?.to_owned();
    let invocation = Invocation::new(run)
        .arguments([tree.display().to_string()])
        .arguments(arguments(container)?)
        .environment("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
        .environment("KUBERNETES_SERVICE_PORT", port);
    let operator = Process::start("operator", &invocation, folder.path())?;
    let address = operator.line("the line with its address", SOON, fieldcache::address).await?;
    let metrics = |line: &str| Some(line.split_once("metrics: ")?.1.split_once("/metrics")?.0.to_owned());
    let metrics = operator.line("the line with the metrics' address", SOON, metrics).await?;

    // A client anywhere in the cluster: by the Service's name and the authority in the Secret, with a certificate of the cluster.
    let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/fieldcache-serving-certificate");
    let secret = control_plane.client().get_json(&path).await?;
    let mut kubeconfig = control_plane.kubeconfig_for(&address);
    let cluster = &mut kubeconfig["clusters"][0]["cluster"];
    cluster["certificate-authority-data"] = secret["data"]["ca.crt"].clone();
    cluster["tls-server-name"] = json!(format!("fieldcache.{NAMESPACE}.svc"));
    let client = Kubectl::with_kubeconfig(&folder.write("kubeconfig", kubeconfig.to_string())?)?;
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().with_context(|| format!("{probe} has a path"))?;
        let answered = eventually(probe, SOON, async || client.succeed(&["get", "--raw", path]).await);
        let answered = answered.await.with_context(|| operator.tail())?;
        ensure!(answered == "ok", "{probe}: {answered}");
    }
    eventually("the Lease is held by the Pod", SOON, async || {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/fieldcache");
        let lease = control_plane.client().get_json(&path).await?;
        ensure!(lease["spec"]["holderIdentity"] == "fieldcache-0", "{lease}");
        Ok(())
    })
    .await
    .with_context(|| operator.tail())?;

    // What the dashboard shows is what this operator counts.
    let authority = secret["data"]["ca.crt"].as_str().context("an authority")?;
    let authority = String::from_utf8(base64::Engine::decode(&base64::prelude::BASE64_STANDARD, authority)?)?;
    let administrator = control_plane.authority().client("somebody", Some("system:masters"))?;
    let scraper = Endpoint::secure(&metrics, &authority, Some(&administrator))?.client();
    let scrape = scraper.get("/metrics").await?.success()?.text();
    let dashboard = fs::read_to_string(repository("manifests/components/dashboard/fieldcache.json")?)?;
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let names: BTreeSet<&str> =
        dashboard.split(|letter| !is_name(letter)).filter(|word| word.starts_with("fieldcache_")).collect();
    ensure!(names.len() > 20, "{names:?}");
    for name in names {
        let family = name.trim_end_matches("_bucket");
        ensure!(scrape.contains(&format!("\n# TYPE {family} ")), "the operator has no {name}");
    }

    // Reported to end, it ends by itself within what the kubelet gives it.
    operator.signal("TERM")?;
    let grace = pod["terminationGracePeriodSeconds"].as_u64().context("a grace period")?;
    let code = operator.ended(Duration::from_secs(2 * grace)).await?;
    ensure!(code == 0, "{code}: {}", operator.tail());
    Ok(())
}
