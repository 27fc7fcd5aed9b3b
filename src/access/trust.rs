//! Watches the ConfigMap `kube-system/extension-apiserver-authentication`: the certificate authorities of clients and of front proxies.
//!
//! The format is upstream's (apiserver `server/options/authentication.go` and `authentication/request/headerrequest`). An invalid part is left out
//! as a whole, and logged: without an authority, no certificate is valid. If the ConfigMap is deleted, the last state stays, as upstream:
//! kube-apiserver creates it again.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::certificates::Authorities;
use crate::registry::upstream::Upstream;

/// One object of the namespace: its state, and then its changes.
const WATCH: &str = "/api/v1/namespaces/kube-system/configmaps?watch=true&timeoutSeconds=300&fieldSelector=metadata.name%3Dextension-apiserver-authentication";

/// Longer than the watch itself.
const LONGEST_WATCH: Duration = Duration::from_secs(330);

/// Pauses before the next try, doubled from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// Bundles of authorities are some kilobytes, and etcd holds no object above this.
const LONGEST_LINE: usize = 4 << 20;

/// What the cluster trusts at a moment.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Of users' certificates.
    pub clients: Option<Authorities>,
    /// Who may say on whose behalf it asks.
    pub front_proxy: Option<FrontProxy>,
    /// Counts the changes, from 0, which is nothing known yet.
    pub generation: u64,
}

/// Whom to believe who a request is from.
#[derive(Clone, Debug)]
pub struct FrontProxy {
    /// Of its certificate.
    pub authorities: Authorities,
    /// Common names of its certificate; none: any.
    pub allowed_names: Vec<String>,
    /// Headers with the user's name; the first that has a value counts.
    pub user_headers: Vec<HeaderName>,
    /// Headers with the uid; likewise.
    pub uid_headers: Vec<HeaderName>,
    /// Headers with groups; all count.
    pub group_headers: Vec<HeaderName>,
    /// Beginnings of headers with other attributes, in lower case; all count.
    pub extra_prefixes: Vec<String>,
}

impl Trust {
    /// Reads `data` of the ConfigMap; with it, what was left out and why.
    pub fn read(data: &Value) -> (Trust, Vec<String>) {
        let mut problems = Vec::new();
        let mut authorities = |key: &str| {
            let text = data[key].as_str().filter(|text| !text.is_empty())?;
            match Authorities::read(text) {
                Ok(authorities) => Some(authorities),
                Err(error) => {
                    problems.push(format!("{key}: {error}"));
                    None
                }
            }
        };
        let clients = authorities("client-ca-file");
        let proxies = authorities("requestheader-client-ca-file");
        let front_proxy = proxies.and_then(|authorities| match FrontProxy::read(data, authorities) {
            Ok(front_proxy) => Some(front_proxy),
            Err(problem) => {
                problems.push(problem);
                None
            }
        });
        (Trust { clients, front_proxy, generation: 0 }, problems)
    }
}

impl FrontProxy {
    fn read(data: &Value, authorities: Authorities) -> Result<FrontProxy, String> {
        let texts = |key: &str| -> Result<Vec<String>, String> {
            let Some(text) = data[key].as_str().filter(|text| !text.is_empty()) else { return Ok(Vec::new()) };
            serde_json::from_str(text).map_err(|error| format!("{key}: it is no list of texts: {error}"))
        };
        let headers = |key: &str| -> Result<Vec<HeaderName>, String> {
            let parse =
                |text: &String| text.trim().parse().map_err(|_| format!("{key}: {text:?} is no name of a header"));
            texts(key)?.iter().map(parse).collect()
        };
        let lower = |text: String| text.trim().to_ascii_lowercase();
        let extra_prefixes: Vec<String> = texts("requestheader-extra-headers-prefix")?.into_iter().map(lower).collect();
        if extra_prefixes.iter().any(String::is_empty) {
            return Err("requestheader-extra-headers-prefix: an empty one would take every header".to_owned());
        }
        Ok(FrontProxy {
            authorities,
            allowed_names: texts("requestheader-allowed-names")?,
            user_headers: headers("requestheader-username-headers")?,
            uid_headers: headers("requestheader-uid-headers")?,
            group_headers: headers("requestheader-group-headers")?,
            extra_prefixes,
        })
    }
}

/// Follows the ConfigMap for as long as it is polled.
pub async fn follow(upstream: &dyn Upstream, trust: &watch::Sender<Arc<Trust>>) -> ! {
    let mut pause = FIRST_PAUSE;
    let mut told = String::new();
    loop {
        let before = trust.borrow().generation;
        let ended = timeout(LONGEST_WATCH, watch_once(upstream, trust)).await;
        if let Ok(Err(problem)) = ended {
            if problem != told {
                tracing::warn!(
                    problem,
                    "whom the cluster trusts cannot be read from ConfigMap kube-system/extension-apiserver-authentication; \
                     the Role extension-apiserver-authentication-reader of kube-system gives the right"
                );
                told = problem;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
        if trust.borrow().generation != before {
            (pause, told) = (FIRST_PAUSE, String::new());
        }
        // Also after one that ended well: should each end at once, that is as often as it is begun again.
        sleep(FIRST_PAUSE).await;
    }
}

/// One watch: the state first, then every change; done when the API server ends it.
async fn watch_once(upstream: &dyn Upstream, trust: &watch::Sender<Arc<Trust>>) -> Result<(), String> {
    let mut request = Request::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
    *request.uri_mut() = http::Uri::from_static(WATCH);
    let response = upstream.send(request).await?;
    if response.status() != StatusCode::OK {
        return Err(format!("the API server answers {}", response.status().as_u16()));
    }
    let mut body = response.into_body();
    let mut received = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| error.to_string())?;
        received.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        while let Some(end) = received.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = received.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).map_err(|error| error.to_string())?;
            take(&event, trust)?;
        }
        if received.len() > LONGEST_LINE {
            return Err("an event is too long".to_owned());
        }
    }
    Ok(())
}

fn take(event: &Value, trust: &watch::Sender<Arc<Trust>>) -> Result<(), String> {
    match event["type"].as_str() {
        Some("ADDED" | "MODIFIED") => {}
        Some("ERROR") => return Err(event["object"]["message"].as_str().unwrap_or("the watch failed").to_owned()),
        _ => return Ok(()),
    }
    let (mut read, problems) = Trust::read(&event["object"]["data"]);
    for problem in problems {
        tracing::warn!(problem, "a part of ConfigMap kube-system/extension-apiserver-authentication is of no use");
    }
    if trust.borrow().generation == 0 {
        tracing::info!("whom the cluster trusts has been read");
    }
    trust.send_modify(|held| {
        read.generation = held.generation + 1;
        *held = Arc::new(read);
    });
    Ok(())
}
