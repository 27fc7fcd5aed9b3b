//! fieldcache as it is measured: one release build, one configuration, and what this build offers.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::fieldcache::{Fieldcache, program};
use e2e::generator::child::Program;
use e2e::http::{Client, Endpoint};
use serde_json::{Map, Value};

/// How long a first sync may take, on a slow machine and with a debug build.
const SYNC_DEADLINE: Duration = Duration::from_secs(600);

/// How long an update may take to be visible.
const VISIBLE_DEADLINE: Duration = Duration::from_secs(600);

/// What the build can do that not every build can.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offered {
    /// Serving over TLS.
    pub(crate) tls: bool,
    /// A port for metrics.
    pub(crate) metrics: bool,
    /// Turning the self-check off.
    pub(crate) self_check: bool,
}

impl Offered {
    /// Reads the program's own help.
    pub(crate) fn by_this_build() -> Result<Offered> {
        let output =
            Command::new(program()?).args(["serve", "--help"]).output().context("reading the help of fieldcache")?;
        let help = String::from_utf8_lossy(&output.stdout).into_owned();
        let offers = |option: &str| help.contains(option);
        Ok(Offered {
            tls: offers("--tls-cert-file"),
            metrics: offers("--metrics-address"),
            self_check: offers("--self-check-interval"),
        })
    }
}

/// The program that is a generator: this one, started as one.
pub(crate) fn generator_program() -> Result<Program> {
    let file = std::env::current_exe().context("finding this program")?;
    Ok(Program { file, arguments: vec!["generator".to_owned()] })
}

/// A running fieldcache under measurement.
pub(crate) struct Own {
    /// The program.
    pub(crate) fieldcache: Fieldcache,
    /// The client that sends requests to it.
    pub(crate) client: Client,
    metrics: Option<Client>,
}

/// A certificate for it, in files.
pub(crate) struct Tls<'a> {
    /// The certificate.
    pub(crate) certificate: &'a Path,
    /// Its key.
    pub(crate) key: &'a Path,
    /// The authority that signed it, PEM.
    pub(crate) authority: &'a str,
}

impl Own {
    /// Starts it; `source` says what it reads.
    pub(crate) async fn start(source: &[String], offered: Offered, tls: Option<Tls<'_>>) -> Result<Own> {
        let mut arguments = source.to_vec();
        let mut metrics = None;
        if offered.metrics {
            // Found free, released, and taken again by the program. No other process takes ports here meanwhile.
            let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            arguments.extend(["--metrics-address".to_owned(), format!("127.0.0.1:{port}")]);
            metrics = Some(Endpoint::plain(&format!("http://127.0.0.1:{port}"))?.client());
        }
        let fieldcache = match tls {
            None => Fieldcache::serve(arguments).await?,
            Some(tls) => Fieldcache::serve_tls(arguments, tls.certificate, tls.key, tls.authority).await?,
        };
        Ok(Own { client: fieldcache.client(), fieldcache, metrics })
    }

    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.fieldcache.process().id()
    }

    /// Waits until the list at `path` is served complete, which starts its load; fails unless it has `count` objects.
    pub(crate) async fn synced(&self, path: &str, count: u64) -> Result<()> {
        let found = eventually("fieldcache serves the list", SYNC_DEADLINE, async || {
            self.fieldcache.process().ensure_running()?;
            let list = self.client.get_json(&format!("{path}?limit=1")).await?;
            let items = list["items"].as_array().map_or(0, Vec::len) as u64;
            Ok(items + list["metadata"]["remainingItemCount"].as_u64().unwrap_or_default())
        });
        let found = found.await?;
        ensure!(found == count, "fieldcache serves {found} of {count} objects");
        Ok(())
    }

    /// The version of the list at `path`.
    pub(crate) async fn version(&self, path: &str) -> Result<u64> {
        let list = self.client.get_json(&format!("{path}?limit=1")).await?;
        list["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).context("a list has a version")
    }

    /// Waits until a list shows at least this version.
    pub(crate) async fn shows(&self, path: &str, version: u64) -> Result<()> {
        eventually("the last change is visible", VISIBLE_DEADLINE, async || {
            self.fieldcache.process().ensure_running()?;
            let shown = self.version(path).await?;
            ensure!(shown >= version, "the list shows {shown} of {version}");
            Ok(())
        })
        .await
    }

    /// Metrics whose name speaks of bytes; empty where the build has none.
    pub(crate) async fn byte_metrics(&self) -> Result<Map<String, Value>> {
        let Some(metrics) = &self.metrics else { return Ok(Map::new()) };
        let text = metrics.get("/metrics").await?.success()?.text();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.rsplit_once(' '));
        let pairs = pairs.filter(|(name, _)| name.contains("_bytes") && !name.contains("_bucket"));
        Ok(pairs.map(|(name, value)| (name.to_owned(), Value::from(value))).collect())
    }
}
