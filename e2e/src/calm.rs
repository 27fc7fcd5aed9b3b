//! A quiet cluster of which fieldcache caches every resource: its requests to kube-apiserver meanwhile, and whether its
//! readers are rejected.
//!
//! Its requests are in the audit log of kube-apiserver, under a user of its own. One of the resources is of an
//! aggregated API, whose server is another fieldcache with a folder. A third fieldcache may read the first, and has
//! readers of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::certificates::Authority;
use crate::control_plane::{self, ControlPlane};
use crate::eventually::eventually;
use crate::fieldcache::Fieldcache;
use crate::http::Request;
use crate::objects;
use crate::run_directory::RunDirectory;
use crate::workload::definition;

/// The user of fieldcache's requests.
const USER: &str = "fieldcache-in-calm";
/// Its readers list each resource this often.
const PACE: Duration = Duration::from_secs(2);
const SOON: Duration = Duration::from_secs(120);
/// Of the aggregated API. kube-apiserver itself is configured not to serve the group.
pub const AGGREGATED: &str = "cronjobs.v1.batch";
/// Resources whose watches send no bookmarks, in addition to events.
const WITHOUT_WATCH_CACHE: &str = "--watch-cache-sizes=configmaps#0,leases.coordination.k8s.io#0";
/// Requests of each sort beside one list a minute and one watch in four minutes: the first ones, and what follows the first missing
/// bookmark.
const AT_FIRST: u64 = 5;

/// What is cached, for how long.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// How long readers list.
    pub length: Duration,
    /// `--max-lag`; `None` for the default.
    pub max_lag: Option<Duration>,
    /// Which resources, as `PLURAL.VERSION.GROUP`; none: all.
    pub only: Vec<String>,
    /// ConfigMaps that there are. Their watches send no bookmarks.
    pub config_maps: usize,
    /// Whether another fieldcache reads the first one. Some of its requests are forwarded to kube-apiserver.
    pub has_chain: bool,
}

/// What fieldcache requested about one resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceRequests {
    /// Watches.
    pub watches: u64,
    /// Lists of the newest state.
    pub lists: u64,
    /// Lists of the self-check, which compares at exactly one version.
    pub checks: u64,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Calm {
    /// How long it was watched.
    pub watched: Duration,
    /// Requests of readers.
    pub requests: u64,
    /// Those that were rejected, by status, with the text of the first.
    pub rejected: BTreeMap<u16, (u64, String)>,
    /// By resource, as `PLURAL.VERSION.GROUP`.
    pub source_requests: BTreeMap<String, SourceRequests>,
}

impl Calm {
    /// What is not as it should be.
    #[must_use]
    pub fn wrong(&self) -> Vec<String> {
        let rejected = self.rejected.iter().map(|(status, (count, text))| {
            format!("{count} of {} requests beside a quiet cluster were answered {status}: {text}", self.requests)
        });
        // A watch lasts five minutes at most, half of that on average. Lists are requests of the comparison, one each
        // minute at most.
        let minutes = self.watched.as_secs() / 60;
        let (lists, watches) = (minutes + AT_FIRST, minutes / 2 + AT_FIRST);
        let source_requests = self
            .source_requests
            .iter()
            .filter(|(_, source_requests)| source_requests.lists > lists || source_requests.watches > watches);
        let source_requests = source_requests.map(|(resource, source_requests)| {
            format!(
                "{resource} cost {} lists and {} watches in {:.0?}, {lists} and {watches} are few enough",
                source_requests.lists, source_requests.watches, self.watched
            )
        });
        rejected.chain(source_requests).collect()
    }
}

impl fmt::Display for Calm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rejected = |status: u16| self.rejected.get(&status).map_or(0, |(count, _)| *count);
        let all: u64 = self.rejected.values().map(|(count, _)| *count).sum();
        write!(
            formatter,
            "{} resources, {} requests in {:.0?}, of which {} were answered 503 and {} otherwise than 200; requests to kube-apiserver \
             by resource, in all and in a minute:",
            self.source_requests.len(),
            self.requests,
            self.watched,
            rejected(503),
            all - rejected(503)
        )?;
        let minutes = self.watched.as_secs_f64() / 60.0;
        for (resource, SourceRequests { watches, lists, checks }) in &self.source_requests {
            let a_minute = (watches + lists) as f64 / minutes;
            write!(
                formatter,
                "\n  {resource}: {watches} watches and {lists} lists, {a_minute:.2} a minute; {checks} lists of self-checks"
            )?;
        }
        Ok(())
    }
}

/// Caches a quiet cluster, and reads it.
///
/// # Errors
/// When something that is needed cannot be had.
pub async fn observe(settings: &Settings) -> Result<Calm> {
    let directory = RunDirectory::create("calm")?;
    // One line a request, when it comes.
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
        "omitStages": ["ResponseStarted", "ResponseComplete", "Panic"], "rules": [{ "level": "Metadata" }],
    });
    let policy = directory.write("policy.json", policy.to_string())?;
    let log = directory.path().join("audit.log");
    let apiserver_arguments = vec![
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
        WITHOUT_WATCH_CACHE.to_owned(),
        "--runtime-config=batch/v1=false".to_owned(),
    ];
    let control_plane = Box::pin(ControlPlane::start(control_plane::Settings {
        apiserver_arguments,
        ..control_plane::Settings::default()
    }))
    .await?;
    let client = control_plane.client();
    objects::create_definition(&client, &definition("calm.example.com")).await?;
    let _aggregated = aggregate(&control_plane, &directory).await?;
    for number in 0..settings.config_maps {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("calm-{number}") } });
        objects::create(&client, "/api/v1/namespaces/default/configmaps", &map).await?;
    }
    let mut resources = resources(&control_plane).await?;
    for name in &settings.only {
        ensure!(resources.contains_key(name), "{name} is not among {:?}", resources.keys());
    }
    resources.retain(|name, _| settings.only.is_empty() || settings.only.contains(name));

    let (_, document) = control_plane.as_user(USER, Some("system:masters"))?;
    let kubeconfig = directory.write("kubeconfig", document.to_string())?;
    let mut arguments: Vec<String> =
        resources.keys().flat_map(|name| ["--resource", name]).map(str::to_owned).collect();
    if let Some(lag) = settings.max_lag {
        arguments.extend(["--max-lag".to_owned(), format!("{}s", lag.as_secs())]);
    }
    let source = |name: &str, value: String| ["--pass-through", "off", name, &value].map(str::to_owned);
    let near = source("--kubeconfig", kubeconfig.display().to_string()).into_iter().chain(arguments.clone());
    let near = Box::pin(Fieldcache::serve(near)).await?;
    loaded(&near).await?;
    let mut readers = vec![("", near.client())];
    let far = if settings.has_chain {
        let far = source("--server", near.address().to_owned()).into_iter().chain(arguments);
        let far = Box::pin(Fieldcache::serve(far)).await?;
        loaded(&far).await?;
        Some(far)
    } else {
        None
    };
    readers.extend(far.as_ref().map(|far| ("through a chain, ", far.client())));
    let (began, mut requests, mut rejected) = (Instant::now(), 0, BTreeMap::new());
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while began.elapsed() < settings.length {
        pace.tick().await;
        for path in resources.values() {
            for (what, reader) in &readers {
                let answer = reader.get(path).await?;
                requests += 1;
                if answer.status != 200 {
                    let text = || format!("{what}{path} after {:.0?}: {}", began.elapsed(), answer.text());
                    rejected.entry(answer.status.as_u16()).or_insert_with(|| (0, text())).0 += 1;
                }
            }
        }
    }
    let watched = began.elapsed();
    let mut source_requests: BTreeMap<String, SourceRequests> =
        resources.keys().map(|name| (name.clone(), SourceRequests::default())).collect();
    let by_path: BTreeMap<&str, &str> = resources.iter().map(|(name, path)| (&**path, &**name)).collect();
    for line in std::fs::read_to_string(&log)?.lines() {
        let event: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let (path, query) = {
            let uri = event["requestURI"].as_str().unwrap_or_default();
            uri.split_once('?').unwrap_or((uri, ""))
        };
        let Some(counts) = by_path.get(path).and_then(|name| source_requests.get_mut(*name)) else { continue };
        if event["user"]["username"] != USER {
            continue;
        }
        match event["verb"].as_str() {
            Some("watch") => counts.watches += 1,
            // A list of the newest state is one page.
            _ if query.contains("resourceVersionMatch=Exact") || query.contains("continue=") => counts.checks += 1,
            _ => counts.lists += 1,
        }
    }
    Ok(Calm { watched, requests, rejected, source_requests })
}

async fn loaded(fieldcache: &Fieldcache) -> Result<()> {
    let client = fieldcache.client();
    eventually("every resource is loaded", SOON, async || client.get("/readyz").await?.success().map(drop))
        .await
        .with_context(|| fieldcache.process().tail())
}

/// Every resource that can be listed and watched, as `PLURAL.VERSION.GROUP`, with the path of its collection.
async fn resources(control_plane: &ControlPlane) -> Result<BTreeMap<String, String>> {
    let client = control_plane.client();
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let mut found = BTreeMap::new();
    for root in ["/api", "/apis"] {
        let document = client.send(Request::get(root).header("accept", accept)).await?.success()?.json()?;
        for group in document["items"].as_array().into_iter().flatten() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in group["versions"].as_array().into_iter().flatten() {
                let version_name = version["version"].as_str().context("a version has a name")?;
                for resource in version["resources"].as_array().into_iter().flatten() {
                    let verbs = resource["verbs"].as_array().cloned().unwrap_or_default();
                    if !["get", "list", "watch"].iter().all(|verb| verbs.contains(&json!(verb))) {
                        continue;
                    }
                    let plural = resource["resource"].as_str().context("a resource has a name")?;
                    let (dot, slash) = if name.is_empty() { ("", "") } else { (".", "/") };
                    found.insert(
                        format!("{plural}.{version_name}{dot}{name}"),
                        format!("{root}{slash}{name}/{version_name}/{plural}"),
                    );
                }
            }
        }
    }
    Ok(found)
}

/// Makes another fieldcache the server of an aggregated API. Its folder must be kept.
async fn aggregate(control_plane: &ControlPlane, directory: &RunDirectory) -> Result<(Fieldcache, RunDirectory)> {
    let authority = Authority::create("aggregated")?;
    let identity = authority.server("aggregated", &["aggregated.default.svc"])?;
    let certificate = directory.write("aggregated.crt", identity.certificate)?;
    let key = directory.write("aggregated.key", identity.key)?;
    let template =
        json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "main:1" }] } });
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "nightly", "namespace": "default" },
        "spec": { "schedule": "0 1 * * *", "jobTemplate": { "spec": { "template": template } } },
    });
    let files = RunDirectory::create("aggregated")?;
    files.write("cron-job.json", cron_job.to_string())?;
    let folder = ["--dir".to_owned(), files.path().display().to_string()];
    let fieldcache = Box::pin(Fieldcache::serve_tls(folder, &certificate, &key, &authority.certificate())).await?;
    let port: u16 = fieldcache.address().rsplit(':').next().context("a port")?.parse()?;
    let client = control_plane.client();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "aggregated" },
        "spec": { "type": "ExternalName", "externalName": "localhost" },
    });
    objects::create(&client, "/api/v1/namespaces/default/services", &service).await?;
    let api_service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": { "name": "v1.batch" },
        "spec": {
            "group": "batch", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "service": { "namespace": "default", "name": "aggregated", "port": port },
            "caBundle": BASE64_STANDARD.encode(authority.certificate()),
        },
    });
    let api_services = "/apis/apiregistration.k8s.io/v1/apiservices";
    objects::create(&client, api_services, &api_service).await?;
    eventually("the aggregated API is discovered", SOON, async || {
        let listed = client.get("/apis/batch/v1/cronjobs").await?;
        ensure!(listed.status == 200, "{}", listed.text());
        let found = resources(control_plane).await?;
        ensure!(
            found.contains_key(AGGREGATED),
            "not yet: {}",
            client.get_json(&format!("{api_services}/v1.batch")).await?
        );
        Ok(())
    })
    .await?;
    Ok((fieldcache, files))
}
