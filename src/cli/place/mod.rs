//! `fieldcache place`: where a Pod may run and why not elsewhere, why one is pending, and what runs where it could not
//! be placed.
//!
//! [`arguments`] are the options, and `reviews` makes PlacementReviews of them. [`crate::placement`] evaluates these
//! over the same index that the server has. With `--server`, `remote` sends them to a server instead, and
//! `remote_error` explains why a server rejected one. `table` and `node_report` print reviews, and `stored_pods`
//! reports about Pods that already run.

pub mod arguments;
mod node_report;
mod nodes;
mod progress;
mod remote;
mod remote_error;
mod reviewed;
mod reviews;
mod stored_pods;
mod table;
#[cfg(test)]
mod tests;

use anyhow::{Context, anyhow, bail};
use serde_json::Value;

use super::exit::Exit;
use super::output::write_out;
use crate::placement::Options;
use crate::placement::review::{API_VERSION, KIND, PlacementReview};
use crate::placement_service::answer;
use crate::placement_service::answer::{ReviewOutcome, Runtime, Unanswered};
use crate::placement_service::field_validation::FieldValidation;
use crate::placement_service::index::{IndexSnapshot, PlacementIndex, PlacementStores};
use crate::runtime::source::{self, SourceOptions};
use crate::source::kubeconfig::identity;
use arguments::PlaceArguments;
use node_report::NodeDetails;
use nodes::{no_such_stored_node, read_node};
use progress::{PATIENCE, placement_stores};
use reviewed::{ReviewResult, printed};
use reviews::ReviewRequest;

/// Evaluates the placement and prints the result.
///
/// # Errors
/// An option or a file is invalid, the cluster or the server cannot be read, or the Pod could not be created.
pub async fn run(arguments: PlaceArguments) -> anyhow::Result<Exit> {
    let (text, exit) = answer(&arguments).await?;
    write_out(&text)?;
    Ok(exit)
}

/// The text that the command prints, and its exit code: [`Exit::No`] if a Pod does not fit. Reviews each Pod, here or
/// on a server.
///
/// # Errors
/// Those of [`run`].
pub(super) async fn answer(arguments: &PlaceArguments) -> anyhow::Result<(String, Exit)> {
    let requests = reviews::requests(arguments, &own_namespace(arguments))?;
    if remote::is_remote(arguments) {
        return Ok(printed(arguments, &remote::answers(arguments, requests).await?));
    }
    // Reports invalid options before a cluster is read.
    reviews::options(arguments, 0)?;
    let opened = source::open(&arguments.source.location(), &SourceOptions::default()).await?;
    let (registry, name) = (opened.registry.clone(), opened.name.clone());
    let answered = async {
        let catalog = registry.catalog();
        let options = reviews::options(arguments, catalog.version.minor())?;
        let stores = placement_stores(&registry, &catalog).await.with_context(|| name)?;
        let indexed = PlacementIndex::default().at(&stores)?;
        if requests.is_empty() {
            return stored_pods::answer(arguments, &stores, &indexed, &options);
        }
        let mut answers = Vec::new();
        for request in requests {
            let runtime = Runtime::look_up(&request.spec, &catalog, PATIENCE).await;
            answers.push(review(request, arguments.node.as_deref(), &stores, &indexed, &runtime, &options)?);
        }
        Ok(printed(arguments, &answers))
    };
    tokio::select! {
        answered = answered => answered,
        () = opened.following => bail!("internal error: reading the source ended; see the log"),
    }
}

/// The namespace of a Pod without one if `--namespace` is not given: that of the kubeconfig, otherwise `default`. A
/// kubeconfig that cannot be read is reported later, when the cluster is read.
fn own_namespace(arguments: &PlaceArguments) -> String {
    let of_kubeconfig = || match &arguments.source {
        source if source.dir.is_some() || source.server.is_some() => None,
        source => identity(&source.cluster()).ok()?.namespace,
    };
    of_kubeconfig().filter(|namespace| !namespace.is_empty()).unwrap_or_else(|| "default".to_owned())
}

/// Reviews one Pod with local stores. `explained` is the node of `--node`, whose details the result then contains.
///
/// # Errors
/// A node of the request does not exist, or the Pod or workload is missing or invalid.
fn review(
    request: ReviewRequest,
    explained: Option<&str>,
    stores: &PlacementStores,
    indexed: &IndexSnapshot,
    runtime: &Runtime,
    options: &Options,
) -> anyhow::Result<ReviewResult> {
    let spec = &request.spec;
    if let Some(name) = spec.node_names.iter().find(|name| stores.nodes.snapshot.get(name).is_none()) {
        bail!(no_such_stored_node(name, stores));
    }
    let outcome = answer::answer(spec, stores, indexed, runtime, options, FieldValidation::Warn);
    let ReviewOutcome { answer, mut status, .. } = outcome.map_err(|unanswered| match unanswered {
        Unanswered::Invalid(problems) => {
            request.invalid(problems.into_iter().map(|problem| (problem.field, problem.message)).collect())
        }
        unanswered @ (Unanswered::NoPod(_) | Unanswered::Unreadable(_) | Unanswered::Forbidden(_)) => {
            anyhow!("{}{unanswered}", request.place)
        }
    })?;
    status.nodes = answer.nodes(&spec.node_names);
    let details = |name: &str| NodeDetails {
        node: read_node(stores, name),
        tolerations: Ok(answer.pod().spec.tolerations.clone()),
    };
    let about = explained.map(details);
    let ReviewRequest { subject, spec, .. } = request;
    let review = PlacementReview {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        metadata: Value::Null,
        spec,
        status: Some(status),
    };
    Ok(ReviewResult { subject, review, received: None, is_event: false, about })
}
