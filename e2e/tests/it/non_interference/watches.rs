//! Watches through the View while both clusters change: every line of each must be the same.
//!
//! Bookmarks within a stream come when time goes by, and are not compared; the one that ends the initial events is.

#![expect(clippy::disallowed_methods, reason = "silence is a time in which nothing comes")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use e2e::http::{Client, Next};
use e2e::random::Random;
use http::Method;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::outcome::{self, WINDOW};
use super::script::ViewProbe;
use super::visible::{GROUP, name};
use super::world::{World, prefix};

/// How long all streams have to be silent before they are taken to have said everything.
const SILENCE: Duration = Duration::from_millis(1500);

/// How long the one cluster's streams may stay behind the other's.
const DEADLINE: Duration = Duration::from_secs(60);

/// What a watch has sent.
#[derive(Clone, Default)]
pub(crate) struct Sent(Arc<Mutex<Vec<String>>>);

impl Sent {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn push(&self, line: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// So many watches, from now on or from changes that have been.
pub(crate) fn watches(seed: u64, count: usize, changes: usize) -> Vec<ViewProbe> {
    let mut random = Random::from_seed(seed, 7);
    let random = &mut random;
    (0..count)
        .map(|_| {
            let namespace = random.choose(&["team-a", "team-b", "team-alpha", "team-omega"]);
            let shirts = format!("/apis/{GROUP}/v1/namespaces/{namespace}/shirts");
            let path = match random.below(12) {
                0..=4 => format!("/apis/{GROUP}/v1/shirts"),
                5 | 6 => shirts,
                7 | 8 => "/api/v1/pods".to_owned(),
                9 => format!("/apis/{GROUP}/v1/hats"),
                10 => format!("/apis/{GROUP}/v1/watch/shirts"),
                _ => format!("/apis/{GROUP}/v1/watch/namespaces/{namespace}/shirts/{}", name(random.below(28))),
            };
            let mut query = vec!["watch=true".to_owned()];
            let of_kind: &[&str] = if path.contains("pods") {
                &[
                    "spec.nodeName%3Dnode-shown",
                    "spec.nodeName!%3Dnode-shown",
                    "metadata.name%3Dpod-1",
                    "status.podIP%3D10.0.12.1",
                ]
            } else if path.contains("hats") {
                &["spec.brim%3Dwide", "spec.brim!%3Dwide", "metadata.name%3Dwool-1"]
            } else {
                &[
                    "spec.color%3Dblue",
                    "spec.color!%3Dblue",
                    "spec.color%3Dred",
                    "spec.size%3DXL",
                    "tags%3Dtag-1",
                    "tags!%3Dtag-2",
                    "spec.color%3Dalpha",
                ]
            };
            if random.below(2) == 0 && !path.contains("/watch/namespaces") {
                query.push(format!("fieldSelector={}", random.choose(of_kind)));
            }
            if random.below(4) == 0 {
                query.push(format!(
                    "labelSelector={}",
                    random.choose(&["tier%3Dweb", "tier!%3Dweb", "tone%3Ddark", "!alpha", "omega"])
                ));
            }
            match random.below(5) {
                0 => query.push("resourceVersion=0".to_owned()),
                1 | 2 => query.push(format!("resourceVersion={{version:{}}}", changes - 1)),
                3 => query.push(
                    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true".to_owned(),
                ),
                _ => {}
            }
            let accept = match random.below(4) {
                0 => "application/json;as=Table;g=meta.k8s.io;v=v1",
                1 => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                _ => "application/json",
            };
            ViewProbe {
                method: Method::GET,
                path: format!("{path}?{}", query.join("&")),
                headers: vec![("accept", accept.to_owned())],
            }
        })
        .collect()
}

/// All watches on one cluster, being read.
pub(crate) struct Watched {
    pub(crate) sent: Vec<Sent>,
    readers: Vec<JoinHandle<Result<()>>>,
}

impl Watched {
    pub(crate) async fn open(world: &World, watches: &[ViewProbe]) -> Result<Watched> {
        let client = world.endpoint()?.client();
        let versions = world.versions();
        let (mut sent, mut readers) = (Vec::new(), Vec::new());
        for probe in watches {
            let request = probe.request(&prefix(WINDOW), &versions);
            let (client, kept): (Client, Sent) = (client.clone(), Sent::default());
            let mut lines = client.open(request).await.with_context(|| probe.path.clone())?;
            kept.push(format!("{} {:?}", lines.status, lines.headers.get("content-type")));
            sent.push(kept.clone());
            readers.push(tokio::spawn(async move {
                loop {
                    match lines.next(DEADLINE).await? {
                        Next::Line(line) => kept.push(String::from_utf8_lossy(&line).into_owned()),
                        Next::End => {
                            kept.push("the end".to_owned());
                            return Ok(());
                        }
                        Next::Nothing => {}
                    }
                }
            }));
        }
        Ok(Watched { sent, readers })
    }

    /// Waits until every stream has ended.
    pub(crate) async fn ended(self) -> Result<Vec<Sent>> {
        for reader in self.readers {
            tokio::time::timeout(DEADLINE, reader).await.context("a watch did not end")???;
        }
        Ok(self.sent)
    }
}

/// Waits until both clusters' streams have sent equally much and are silent, or the one does not catch up with the other.
pub(crate) async fn silent(one: &Watched, other: &Watched) {
    let counts = || -> (Vec<usize>, Vec<usize>) {
        (one.sent.iter().map(Sent::count).collect(), other.sent.iter().map(Sent::count).collect())
    };
    let (begun, mut since, mut last) = (Instant::now(), Instant::now(), counts());
    while since.elapsed() < SILENCE || (last.0 != last.1 && begun.elapsed() < DEADLINE) {
        sleep(Duration::from_millis(100)).await;
        let now = counts();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

/// What a watch sent, to be compared.
pub(crate) fn comparable(lines: &[String], world: &World) -> String {
    let versions = world.versions();
    let is_change = |line: &&String| !line.starts_with(r#"{"type":"BOOKMARK""#) || line.contains("initial-events-end");
    let lines = lines.iter().filter(is_change).map(|line| outcome::line(line, &versions, WINDOW));
    lines.collect::<Vec<_>>().join("\n")
}
