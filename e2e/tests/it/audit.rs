//! The operator's audit log beside kube-apiserver's own: the same requests are logged alike. The other part is what no
//! other place may show. Names, selectors and tokens are in no metric and in no line of the log, also where every
//! request is logged. And what happens when the log cannot be written: requests that need it get 503, until it can be
//! written again.

use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::certificates::Identity;
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Endpoint, Request};
use e2e::kubectl::Kubectl;
use e2e::run_directory::RunDirectory;
use e2e::{fixtures, objects};
use http::Method;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(60);
const GROUP: &str = "stable.example.com";
const SHIRTS: &str = "/apis/stable.example.com/v1/shirts";
const VIEW: &str = "/apis/view.fieldcache.dev/v1alpha1/views/telltale-view/proxy";

/// Names that occur nowhere else, so that any place that shows them is found.
const NAMES: [&str; 9] = [
    "telltale-object",
    "telltale-label",
    "telltale-field",
    "telltale-user",
    "telltale-stranger",
    "telltale-token",
    "telltale-agent",
    "telltale-view",
    "telltale-missing",
];

struct Stage {
    control_plane: ControlPlane,
    operator: Fieldcache,
    folder: RunDirectory,
    upstream_log: PathBuf,
}

impl Stage {
    /// With these further arguments for the operator.
    async fn set(folder: RunDirectory, arguments: &[&str]) -> Result<Stage> {
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{ "level": "Metadata" }],
        });
        let policy = folder.write("policy.json", policy.to_string())?;
        let upstream_log = folder.path().join("kube-apiserver-audit.log");
        let apiserver_arguments = vec![
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", upstream_log.display()),
            "--audit-log-mode=blocking".to_owned(),
        ];
        let control_plane = ControlPlane::start(Settings { apiserver_arguments, ..Settings::default() }).await?;
        let client = control_plane.client();
        objects::create_definition(&client, &fixtures::shirts(GROUP, &fixtures::no_conversion())).await?;
        for (name, label) in [("telltale-object", "telltale-label"), ("two", "red")] {
            let object = json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": "Shirt",
                "metadata": { "name": name, "labels": { "tone": label } }, "spec": { "color": "telltale-field" },
            });
            objects::create(&client, SHIRTS, &object).await?;
        }
        grant(&client).await?;
        let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds").display().to_string();
        let kubectl = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
        kubectl.succeed(&["apply", "--server-side", "-k", &definitions]).await?;
        let own = ["--namespace", "default", "--metrics-address", "127.0.0.1:0", "--log-level", "debug"];
        let own = own.iter().chain(arguments).map(|argument| (*argument).to_owned());
        let operator = Box::pin(Fieldcache::operator(control_plane.kubeconfig(), folder.path(), own)).await?;
        let cache = json!({
            "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache", "metadata": { "name": format!("shirts.{GROUP}") },
            "spec": { "group": GROUP, "resource": "shirts" },
        });
        for kind in ["fieldcaches", "views"] {
            let path = format!("/apis/fieldcache.dev/v1alpha1/{kind}");
            eventually(&path, SOON, async || client.get_json(&path).await).await?;
        }
        objects::create(&client, "/apis/fieldcache.dev/v1alpha1/fieldcaches", &cache).await?;
        let view = json!({
            "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": "telltale-view" },
            "spec": { "resources": [{ "group": GROUP, "resource": "shirts" }] },
        });
        objects::create(&client, "/apis/fieldcache.dev/v1alpha1/views", &view).await?;
        let stage = Stage { control_plane, operator, folder, upstream_log };
        let (_, administrator) = stage.sides(&stage.user("administrator", Some("system:masters"))?)?;
        eventually("the View is served", SOON, async || {
            let answer = administrator.client().get(&format!("{VIEW}{SHIRTS}")).await?;
            ensure!(answer.status == 200, "{answer:?}");
            Ok(())
        })
        .await
        .with_context(|| stage.operator.process().tail())?;
        Ok(stage)
    }

    fn user(&self, name: &str, group: Option<&str>) -> Result<Identity> {
        self.control_plane.authority().client(name, group)
    }

    /// kube-apiserver and the operator, queried by a user.
    fn sides(&self, identity: &Identity) -> Result<(Endpoint, Endpoint)> {
        let base = self.control_plane.endpoint().base();
        let upstream = Endpoint::secure(base, &self.control_plane.authority().certificate(), Some(identity))?;
        Ok((upstream, self.operator.as_client(self.folder.path(), identity)?))
    }

    /// Where the operator's metrics are.
    async fn metrics(&self) -> Result<String> {
        let address = |line: &str| Some(line.split_once("metrics: ")?.1.split_once("/metrics")?.0.to_owned());
        self.operator.process().line("the line with the metrics' address", SOON, address).await
    }

    /// The events of a request, reported by both sides, kube-apiserver first.
    async fn reported(&self, id: &str, stages: usize) -> Result<[Vec<Value>; 2]> {
        eventually("both have logged it", SOON, async || {
            let upstream = events_of(&std::fs::read_to_string(&self.upstream_log)?, id)?;
            let own = events_of(&self.operator.process().stdout()?, id)?;
            ensure!(upstream.len() == stages && own.len() == stages, "{upstream:?} and {own:?}");
            Ok([upstream, own])
        })
        .await
    }
}

/// Every user called telltale-user may read shirts, and the ServiceAccount `scraper` the metrics.
async fn grant(client: &Client) -> Result<()> {
    let api = "rbac.authorization.k8s.io";
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "scraper" } });
    objects::create(client, "/api/v1/namespaces/default/serviceaccounts", &account).await?;
    let rows = [
        (
            "shirts",
            json!({ "apiGroups": [GROUP], "resources": ["shirts"], "verbs": ["get", "list", "watch"] }),
            json!({ "apiGroup": api, "kind": "User", "name": "telltale-user" }),
        ),
        (
            "fieldcache-metrics-reader",
            json!({ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }),
            json!({ "kind": "ServiceAccount", "name": "scraper", "namespace": "default" }),
        ),
    ];
    for (name, rule, subject) in rows {
        let metadata = json!({ "name": name });
        let role =
            json!({ "apiVersion": format!("{api}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": [rule] });
        objects::create(client, &format!("/apis/{api}/v1/clusterroles"), &role).await?;
        let binding = json!({
            "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": { "apiGroup": api, "kind": "ClusterRole", "name": name }, "subjects": [subject],
        });
        objects::create(client, &format!("/apis/{api}/v1/clusterrolebindings"), &binding).await?;
    }
    Ok(())
}

/// The events with this id; any client that writes them may be in the middle of the last.
fn events_of(log: &str, id: &str) -> Result<Vec<Value>> {
    let complete = log.rsplit_once('\n').map_or("", |(complete, _)| complete);
    let lines = complete.lines().map(|line| serde_json::from_str(line).with_context(|| format!("no event: {line}")));
    lines.filter(|event: &Result<Value>| event.as_ref().map_or(true, |event| event["auditID"] == id)).collect()
}

/// Without what differs from request to request; kube-apiserver names the binding that gives a right, and its API server's own extras.
fn comparable(mut event: Value) -> Value {
    for member in ["requestReceivedTimestamp", "stageTimestamp"] {
        event[member] = json!(event[member].as_str().map(str::len));
    }
    if let Some(annotations) = event["annotations"].as_object_mut() {
        annotations.remove("authorization.k8s.io/reason");
        annotations.retain(|name, _| name.starts_with("authorization.k8s.io/") || name.starts_with("view."));
    }
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_logged_as_by_kube_apiserver_and_nowhere_else() -> Result<()> {
    let stage = Box::pin(Stage::set(RunDirectory::create("audit")?, &["--audit-policy", "all"])).await?;
    let (user, stranger) = (stage.user("telltale-user", Some("team"))?, stage.user("telltale-stranger", None)?);
    let watch = format!("{SHIRTS}?watch=true&timeoutSeconds=1&fieldSelector=spec.color%3Dtelltale-field");
    let rows = [
        (&user, Method::GET, SHIRTS.to_owned(), 200, 1),
        (&user, Method::GET, format!("{SHIRTS}?labelSelector=tone%3Dtelltale-label&limit=1"), 200, 1),
        (&user, Method::GET, format!("{SHIRTS}?fieldSelector=metadata.name%3Dtelltale-object"), 200, 1),
        (&user, Method::GET, format!("{SHIRTS}/telltale-object"), 200, 1),
        (&user, Method::GET, format!("{SHIRTS}/telltale-missing"), 404, 1),
        (&user, Method::GET, format!("{SHIRTS}?fieldSelector=spec.none%3Dtelltale-field"), 400, 1),
        (&user, Method::GET, format!("{SHIRTS}?limit=telltale-field"), 400, 1),
        (&user, Method::GET, watch, 200, 2),
        (&user, Method::GET, "/apis".to_owned(), 200, 1),
        (&user, Method::GET, format!("/apis/{GROUP}/v1"), 200, 1),
        (&user, Method::GET, "/version".to_owned(), 200, 1),
        (&stranger, Method::GET, SHIRTS.to_owned(), 403, 1),
        (&stranger, Method::GET, format!("{SHIRTS}/telltale-object"), 403, 1),
        (&stranger, Method::GET, format!("{SHIRTS}?watch=1"), 403, 2),
        (&stranger, Method::GET, "/nowhere".to_owned(), 403, 1),
        (&user, Method::POST, SHIRTS.to_owned(), 403, 1),
    ];
    let mut differences = Vec::new();
    for (number, (identity, method, path, code, stages)) in rows.into_iter().enumerate() {
        let id = format!("00000000-0000-4000-a000-{number:012}");
        let (upstream, own) = stage.sides(identity)?;
        for side in [upstream, own] {
            let request = Request::new(method.clone(), &path)
                .header("audit-id", &id)
                .header("user-agent", "telltale-agent/1.0")
                .header("content-type", "application/json");
            let answer = side.client().send(request).await?;
            ensure!(answer.status == code, "{method} {path}: {answer:?}");
        }
        // A watch that is refused never began here, so it is reported once.
        let [upstream, own] = if stages == 2 && code != 200 {
            eventually("both have logged it", SOON, async || {
                let own = events_of(&stage.operator.process().stdout()?, &id)?;
                let upstream = events_of(&std::fs::read_to_string(&stage.upstream_log)?, &id)?;
                ensure!(
                    !own.is_empty() && upstream.iter().any(|event| event["stage"] == "ResponseComplete"),
                    "{own:?} {upstream:?}"
                );
                Ok([upstream.into_iter().filter(|event| event["stage"] == "ResponseComplete").collect(), own])
            })
            .await?
        } else {
            stage.reported(&id, stages).await?
        };
        let [upstream, own] = [upstream, own].map(|events| events.into_iter().map(comparable).collect::<Vec<_>>());
        if upstream != own {
            differences.push(format!("{method} {path}:\n  {}\n  {}", json!(upstream), json!(own)));
        }
    }
    ensure!(differences.is_empty(), "{}", differences.join("\n"));

    // Through a View, with a token, and wrong ones.
    let (_, own) = stage.sides(&user)?;
    let client = own.client();
    client.get_json(&format!("{VIEW}{SHIRTS}?labelSelector=tone%3Dtelltale-label")).await?;
    client.watch(&format!("{VIEW}{SHIRTS}?watch=true")).await?.event(SOON).await?;
    ensure!(client.get(&format!("{VIEW}{SHIRTS}/telltale-missing")).await?.status == 404, "missing");
    let wrong = stage.operator.endpoint().clone().with_token("telltale-token")?.client();
    ensure!(wrong.get(&format!("{VIEW}{SHIRTS}")).await?.status == 401, "wrong");
    let events = eventually("the log has the View", SOON, async || {
        let lines = stage.operator.process().stdout()?;
        let events = lines.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
        let views: Vec<&Value> =
            events.iter().filter(|event| event["annotations"]["view.fieldcache.dev/view"] == "telltale-view").collect();
        ensure!(views.iter().any(|event| event["responseStatus"]["code"] == 401), "{views:?}");
        Ok(events.len())
    })
    .await?;
    ensure!(events > 20, "standard output is the log's alone, and has {events} events");

    // Only users with the permission get metrics, and metrics contain none of it. What is logged of each request has no
    // token.
    let authority = std::fs::read_to_string(stage.folder.path().join("ca.crt"))?;
    let metrics = Endpoint::secure(&stage.metrics().await?, &authority, None)?;
    let token = async |name: &str| -> Result<String> {
        let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "audiences": ["fieldcache.dev"] } });
        let path = format!("/api/v1/namespaces/default/serviceaccounts/{name}/token");
        let answer = objects::create(&stage.control_plane.client(), &path, &request).await?;
        Ok(answer["status"]["token"].as_str().context("a token")?.to_owned())
    };
    let other = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "other" } });
    objects::create(&stage.control_plane.client(), "/api/v1/namespaces/default/serviceaccounts", &other).await?;
    let (scraper, other) = (token("scraper").await?, token("other").await?);
    ensure!(metrics.client().get("/metrics").await?.status == 401, "nobody");
    ensure!(
        metrics.clone().with_token(&other)?.client().get("/metrics").await?.status == 403,
        "without the permission"
    );
    let scrape = metrics.clone().with_token(&scraper)?.client().get("/metrics").await?.success()?.text();
    let logged = stage.operator.process().stderr()?;
    let tokens = [&*scraper, &*other];
    // The conditions of Views are named by the View, and nothing else is.
    let (conditions, others): (Vec<&str>, Vec<&str>) =
        scrape.lines().partition(|line| line.starts_with("fieldcache_view_condition{name=\"telltale-view\","));
    ensure!(!conditions.is_empty(), "the conditions of the View: {scrape}");
    for name in NAMES.iter().chain(&tokens).chain(&["tone", "spec.color="]) {
        let reported = others.iter().find(|line| line.contains(name));
        ensure!(reported.is_none(), "a metric reveals {name}: {reported:?}");
    }
    for token in tokens {
        let line = logged.lines().find(|line| line.contains(token));
        ensure!(line.is_none(), "the log reveals a token: {line:?}");
    }
    ensure!(scrape.contains("fieldcache_audit_event_total{result=\"written\"}"), "{scrape}");
    ensure!(logged.contains("answered"), "requests are logged at this level: {logged}");
    stage.operator.process().ensure_running()
}

/// Puts a link under the path of the audit log; the operator opens what it names before its next write.
fn point(path: &Path, target: &Path) -> Result<()> {
    let next = path.with_extension("next");
    symlink(target, &next)?;
    std::fs::rename(&next, path)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_need_a_log_that_cannot_be_written_get_503() -> Result<()> {
    let folder = RunDirectory::create("audit-full")?;
    let path = folder.path().join("audit.log");
    let (first, second, pipe) = (folder.write("first", "")?, folder.write("second", "")?, folder.path().join("pipe"));
    ensure!(Command::new("mkfifo").arg(&pipe).status()?.success(), "mkfifo");
    point(&path, &first)?;
    let arguments = ["--audit-policy", "views", "--audit-log-path", &path.display().to_string()];
    let stage = Box::pin(Stage::set(folder, &arguments)).await?;
    let (_, own) = stage.sides(&stage.user("administrator", Some("system:masters"))?)?;
    let client = own.client();
    let mut number = 0;
    // The status and the id of a request through the View.
    let mut read_view = async || -> Result<(u16, String)> {
        number += 1;
        let id = format!("request-{number}");
        let answer = client.send(Request::get(format!("{VIEW}{SHIRTS}")).header("audit-id", &id)).await?;
        let text = answer.text();
        let is_shown = text.contains("telltale-object");
        ensure!(is_shown == (answer.status == 200), "{}: {text}", answer.status);
        ensure!(answer.status == 200 || text.contains("the audit log cannot be written"), "{text}");
        Ok((answer.status.as_u16(), id))
    };
    let served = |log: &str| -> Result<Vec<String>> {
        let events =
            log.lines().map(|line| serde_json::from_str::<Value>(line).with_context(|| format!("torn: {line}")));
        let events = events.collect::<Result<Vec<Value>>>()?;
        let served = events.iter().filter(|event| event["responseStatus"]["code"] == 200);
        Ok(served.map(|event| event["auditID"].as_str().unwrap_or_default().to_owned()).collect())
    };
    let (status, id) = read_view().await?;
    ensure!(status == 200, "a log that can be written");
    // The record is there before the response is.
    ensure!(served(&std::fs::read_to_string(&first)?)?.contains(&id), "{id} is missing");

    point(&path, Path::new("/dev/full"))?;
    for _ in 0..3 {
        ensure!(read_view().await?.0 == 503, "a full device");
    }
    ensure!(client.get(SHIRTS).await?.status == 200, "what is not audited");
    ensure!(client.get("/livez").await?.status == 200, "a restart would not help");
    let ready = client.get("/readyz").await?;
    ensure!(ready.status == 500 && ready.text() == "readyz check failed\n", "{ready:?}");
    ensure!(stage.operator.process().stderr()?.contains("the audit log cannot be written"), "it is logged");

    // There is room again. What was rejected is not logged as served.
    point(&path, &second)?;
    let mut expected = Vec::new();
    let recovered = eventually("requests are served again", SOON, async || {
        let ready = client.get("/readyz").await?;
        ensure!(ready.status == 200, "{ready:?}");
        Ok(())
    });
    recovered.await?;
    let (status, id) = read_view().await?;
    ensure!(status == 200, "recovered");
    expected.push(id);
    ensure!(served(&std::fs::read_to_string(&second)?)? == expected, "{expected:?}");

    // A pipe whose reader has stopped: it is filled, then requests are rejected in bounded time.
    point(&path, &pipe)?;
    let mut reader = std::fs::OpenOptions::new().read(true).write(true).open(&pipe)?;
    let mut expected = Vec::new();
    loop {
        let (status, id) = read_view().await?;
        if status == 503 {
            break;
        }
        expected.push(id);
        ensure!(expected.len() < 10_000, "a pipe is bounded");
    }
    ensure!(expected.len() > 10, "{expected:?}");
    // The reader goes on: everything that was served is there, once, in whole lines.
    let last = expected.last().cloned().unwrap_or_default();
    let reading = tokio::task::spawn_blocking(move || -> Result<String> {
        let (mut log, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        while !log.ends_with(b"\n") || !String::from_utf8_lossy(&log).contains(&format!("\"{last}\"")) {
            let length = reader.read(&mut buffer)?;
            log.extend_from_slice(&buffer[..length]);
        }
        Ok(String::from_utf8(log)?)
    });
    let log = tokio::time::timeout(SOON, reading).await.context("the pipe holds every line")???;
    let mut found = served(&log)?;
    found.truncate(expected.len());
    ensure!(found == expected, "{found:?} and not {expected:?}");
    // The reader is gone: the next write breaks, and is tried again elsewhere.
    eventually("no client reads the pipe", SOON, async || {
        ensure!(read_view().await?.0 == 503, "the reader's end is not closed yet");
        Ok(())
    })
    .await?;
    point(&path, &second)?;
    eventually("requests are served once more", SOON, async || {
        let (status, id) = read_view().await?;
        ensure!(status == 200, "{status}");
        ensure!(served(&std::fs::read_to_string(&second)?)?.contains(&id), "{id}");
        Ok(())
    })
    .await?;
    stage.operator.process().ensure_running()
}
