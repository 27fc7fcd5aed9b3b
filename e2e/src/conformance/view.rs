//! Tests of the other suites whose reads go to a View of an operator. A View takes no writes, and nearly every test writes what it
//! reads. So a relay sends the reads of cached resources to the View, and everything else to kube-apiserver.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Result, ensure};
use http::Method;

use super::{Outcomes, Side, Suite, controller_runtime, kubernetes, python};
use crate::control_plane::ControlPlane;
use crate::relay::{Exchange, Relay};
use crate::viewed::Viewed;

/// The package of controller-runtime whose specs read.
pub const PACKAGE: &str = "cache";

/// The suites with tests that read.
const SUITES: [Suite; 3] = [Suite::Kubernetes, Suite::ControllerRuntime, Suite::Python];

/// What the operator caches: group, version and plural name. A View has at most eight resources.
const RESOURCES: [(&str, &str, &str); 8] = [
    ("", "v1", "configmaps"),
    ("", "v1", "namespaces"),
    ("", "v1", "nodes"),
    ("", "v1", "pods"),
    ("", "v1", "podtemplates"),
    ("", "v1", "secrets"),
    ("apps", "v1", "deployments"),
    ("coordination.k8s.io", "v1", "leases"),
];

/// An operator with a View, and the relay in front of it.
pub struct Front {
    relay: Relay,
    // After the relay, which sends to it.
    _viewed: Viewed,
}

impl Front {
    /// Starts them beside a control plane.
    ///
    /// # Errors
    /// When the operator or its View does not become ready.
    pub async fn start(control_plane: &ControlPlane) -> Result<Front> {
        let resources: Vec<(&str, &str)> = RESOURCES.iter().map(|(group, _, plural)| (*group, *plural)).collect();
        // The tests read what they have just written, and these writes do not go through the operator.
        let viewed = Box::pin(Viewed::create(control_plane, &resources, "Strong")).await?;
        let administrator = control_plane.authority().client("reader", Some("system:masters"))?;
        let view = viewed.endpoint(&administrator)?;
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let relay = Relay::between(address, control_plane.endpoint(), &view, is_read).await?;
        Ok(Front { relay, _viewed: viewed })
    }

    /// The base URL of the relay.
    #[must_use]
    pub fn base(&self) -> String {
        self.relay.base()
    }

    /// Checks that the View was queried.
    ///
    /// # Errors
    /// When no request went to it, so that nothing was compared.
    pub fn check(&self) -> Result<()> {
        let path = |exchange: &Exchange| exchange.path.split('?').next().unwrap_or_default().to_owned();
        let reads = self.relay.exchanges().iter().filter(|exchange| is_read(&Method::GET, &path(exchange))).count();
        ensure!(reads > 0, "no request of the suite went to the View");
        Ok(())
    }
}

/// Whether this is a list, a watch or a get of a resource that the operator caches.
#[must_use]
pub fn is_read(method: &Method, path: &str) -> bool {
    let mut segments = path.trim_start_matches('/').split('/');
    let group = match segments.next() {
        Some("api") => Some(""),
        Some("apis") => segments.next(),
        _ => None,
    };
    let (Some(group), Some(version)) = (group, segments.next()) else { return false };
    let rest: Vec<&str> = segments.collect();
    let plural = match rest.as_slice() {
        ["namespaces", _, plural] | ["namespaces", _, plural, _] => plural,
        [plural] | [plural, _] => plural,
        _ => return false,
    };
    *method == Method::GET && RESOURCES.contains(&(group, version, plural))
}

/// Runs tests of the other suites, directly or with their reads at a View. A name starts with the suite. `is_wanted` says whether a suite
/// can have chosen tests, `choose` chooses among names.
///
/// # Errors
/// When a suite cannot be run.
pub async fn run(
    side: Side,
    at_once: usize,
    is_wanted: impl Fn(&str) -> bool,
    choose: impl Fn(&[String]) -> Result<Vec<String>>,
) -> Result<Outcomes> {
    let side = if side == Side::Through { Side::View } else { side };
    let mut outcomes = Outcomes::new();
    for suite in SUITES.into_iter().filter(|suite| is_wanted(suite.name())) {
        let start = format!("{}: ", suite.name());
        let found = match suite {
            Suite::Kubernetes => {
                let names: Vec<String> =
                    kubernetes::names().await?.iter().map(|name| format!("{start}{name}")).collect();
                let names = choose(&names)?;
                let names: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix(&start)).collect();
                if names.is_empty() {
                    Outcomes::new()
                } else {
                    Box::pin(kubernetes::run(side, &names, at_once)).await?
                }
            }
            Suite::ControllerRuntime => Box::pin(controller_runtime::run(side, &[PACKAGE])).await?,
            _ => Box::pin(python::run(side)).await?,
        };
        let found: Outcomes = found.into_iter().map(|(name, outcome)| (format!("{start}{name}"), outcome)).collect();
        let names = choose(&found.keys().cloned().collect::<Vec<_>>())?;
        outcomes.extend(found.into_iter().filter(|(name, _)| names.contains(name)));
    }
    Ok(outcomes)
}
