//! `fieldcache place`: where a Pod may run and why not elsewhere, why one is pending, and what runs where it could not be placed.
//!
//! [`arguments`] is what was typed, `questions` what is asked; the answers are [`crate::placement`]'s over the same index that
//! the server has. `table` and `reasoning` print reviews, `standing` what already runs.

pub mod arguments;
mod questions;
mod reasoning;
mod standing;
mod table;
#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio::time::{interval, timeout};

use super::exit::Exit;
use super::output::{write_out, yaml};
use super::source::{self, FollowOptions};
use crate::placement::review::{API_VERSION, KIND, PlacementReview};
use crate::placement::{Answer, Node, Options};
use crate::registry::{Catalog, LiveState, Registry};
use crate::server::placement_review::answering::{self, Runtime, Unanswered};
use crate::server::placement_review::index::{Copies, Indexed, PlacementIndex};
use crate::source::kubeconfig::identity;
use arguments::{PlaceArguments, PlaceOutput};
use questions::Question;

/// How long nodes, Pods and namespaces may take to be read: large clusters take a minute.
const PATIENCE: Duration = Duration::from_secs(600);

/// Prints it.
///
/// # Errors
/// What cannot be read, or is no Pod that could be created.
pub async fn run(arguments: PlaceArguments) -> anyhow::Result<Exit> {
    let (text, exit) = answer(&arguments).await?;
    write_out(&text)?;
    Ok(exit)
}

pub(super) async fn answer(arguments: &PlaceArguments) -> anyhow::Result<(String, Exit)> {
    let questions = questions::questions(arguments, &own_namespace(arguments))?;
    // Told before a cluster is read.
    questions::options(arguments, 0)?;
    let opened = source::open(&arguments.source, &FollowOptions::default()).await?;
    let (registry, name) = (opened.registry.clone(), opened.name.clone());
    let answered = async {
        let catalog = registry.catalog();
        let options = questions::options(arguments, catalog.version.minor())?;
        let copies = copies(&registry, &catalog).await.with_context(|| name)?;
        let indexed = PlacementIndex::default().at(&copies);
        if questions.is_empty() {
            return standing::answer(arguments, &copies, &indexed, &options);
        }
        let mut answers = Vec::new();
        for question in questions {
            let runtime = Runtime::of(&question.spec, &catalog, PATIENCE).await;
            answers.push(review(question, &copies, &indexed, &runtime, &options)?);
        }
        Ok(printed(arguments, &copies, &answers))
    };
    tokio::select! {
        answered = answered => answered,
        () = opened.following => bail!("the source met a defect while it was read"),
    }
}

/// The namespace of people who name none.
fn own_namespace(arguments: &PlaceArguments) -> String {
    let of_kubeconfig = || match &arguments.source {
        source if source.dir.is_some() || source.server.is_some() => None,
        source => identity(&source::cluster_options(source)).ok()?.namespace,
    };
    of_kubeconfig().filter(|namespace| !namespace.is_empty()).unwrap_or_else(|| "default".to_owned())
}

/// Reads what is needed, telling a terminal how far it is.
async fn copies(registry: &Registry, catalog: &Catalog) -> anyhow::Result<Copies> {
    let reading = Copies::of(catalog, PATIENCE);
    tokio::pin!(reading);
    let mut ticks = interval(Duration::from_millis(500));
    let is_terminal = std::io::stderr().is_terminal();
    let mut has_shown = false;
    loop {
        if let Ok(copies) = timeout(Duration::from_millis(500), &mut reading).await {
            if has_shown {
                progress("");
            }
            return Ok(copies?);
        }
        ticks.tick().await;
        if is_terminal {
            has_shown = true;
            progress(&loading(registry));
        }
    }
}

#[expect(clippy::print_stderr, reason = "progress is for the person at the terminal")]
fn progress(text: &str) {
    eprint!("\r\x1b[K{text}");
}

fn loading(registry: &Registry) -> String {
    let catalog = registry.catalog();
    let texts = catalog.resources().filter_map(|resource| match resource.live.state() {
        LiveState::Loading(progress) => Some(format!("{}: {progress}", resource.gvr.resource)),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// A review and what was found.
struct Answered {
    subject: String,
    review: PlacementReview,
    answer: Answer,
}

fn review(
    question: Question,
    copies: &Copies,
    indexed: &Indexed,
    runtime: &Runtime,
    options: &Options,
) -> anyhow::Result<Answered> {
    let Question { subject, place, spec } = question;
    if let Some(node) = spec.node_names.iter().find(|name| copies.nodes.snapshot.get(name).is_none()) {
        bail!("there is no node {node:?}: {}", nodes_there(copies));
    }
    let (answer, status) = answering::answer(&spec, copies, indexed, runtime, options).map_err(|unanswered| {
        let of_review = unanswered.to_string();
        match unanswered {
            // A manifest is known by its own paths, not by those within the review.
            Unanswered::Invalid(problems) if !place.is_empty() => {
                let within = |field: &str| {
                    let field = field.strip_prefix("spec.pod.").or_else(|| field.strip_prefix("spec.template."));
                    field.map(str::to_owned)
                };
                let lines = problems.into_iter().map(|problem| {
                    let field = within(&problem.field).unwrap_or(problem.field);
                    format!("\n  {field}: {}", problem.message)
                });
                anyhow::anyhow!("{place}{subject} is invalid:{}", lines.collect::<String>())
            }
            _ => anyhow::anyhow!("{place}{of_review}"),
        }
    })?;
    let review = PlacementReview {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        metadata: Value::Null,
        spec,
        status: Some(status),
    };
    Ok(Answered { subject, review, answer })
}

fn nodes_there(copies: &Copies) -> String {
    let snapshot = &copies.nodes.snapshot;
    let names: Vec<String> = node_names(copies).take(10).collect();
    match (names.len(), snapshot.len()) {
        (0, _) => "there is none at all".to_owned(),
        (shown, all) if shown < all => format!("there are {}, … ({all})", names.join(", ")),
        _ => format!("there are {}", names.join(", ")),
    }
}

fn node_names(copies: &Copies) -> impl Iterator<Item = String> {
    copies.nodes.snapshot.range(std::ops::Bound::Unbounded).map(|(_, object)| object.key().to_owned())
}

/// A node as it is stored.
fn node(copies: &Copies, name: &str) -> Option<Node> {
    Node::read(&copies.nodes.snapshot.get(name)?.json()).ok()
}

fn printed(arguments: &PlaceArguments, copies: &Copies, answers: &[Answered]) -> (String, Exit) {
    let fits = |answered: &Answered| match (&answered.review.status, &arguments.node) {
        (Some(status), Some(_)) => status.nodes.iter().any(|node| node.fits),
        (Some(status), None) => status.feasible > 0,
        (None, _) => false,
    };
    let exit = if answers.iter().all(fits) { Exit::Done } else { Exit::No };
    let text = match arguments.output {
        PlaceOutput::Json => format!("{:#}\n", document(answers)),
        PlaceOutput::Yaml => yaml(&document(answers)),
        PlaceOutput::Table | PlaceOutput::Wide => {
            let is_wide = arguments.output == PlaceOutput::Wide;
            let one = |answered: &Answered| match &arguments.node {
                Some(name) => reasoning::text(answered, name, node(copies, name)),
                None => table::text(&answered.subject, &answered.review, is_wide),
            };
            let footer = answers.first().map(|answered| table::footer(&answered.review, is_wide));
            format!("{}{}", answers.iter().map(one).collect::<Vec<_>>().join("\n"), footer.unwrap_or_default())
        }
    };
    (text, exit)
}

/// One review, or a List of them.
fn document(answers: &[Answered]) -> Value {
    let mut documents: Vec<Value> = answers.iter().map(|answered| json!(answered.review)).collect();
    match documents.len() {
        1 => documents.remove(0),
        _ => json!({"apiVersion": "v1", "kind": "List", "items": documents}),
    }
}
