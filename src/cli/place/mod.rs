//! `fieldcache place`: where a Pod may run and why not elsewhere, why one is pending, and what runs where it could not be placed.
//!
//! [`arguments`] is what was typed, `questions` what is asked; the answers are [`crate::placement`]'s over the same index that
//! the server has, or a server's own, where `asking` sends it the questions and `refusal` says why it has none. `table` and
//! `reasoning` print reviews, `standing` what already runs.

pub mod arguments;
mod asking;
mod questions;
mod reasoning;
mod refusal;
mod standing;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde_json::{Value, json};
use tokio::time::{interval, timeout};

use super::exit::Exit;
use super::output::{Printed, printed as text_of, write_out};
use super::source::{self, FollowOptions};
use crate::placement::pod::Toleration;
use crate::placement::review::{API_VERSION, KIND, PlacementReview};
use crate::placement::{Node, Options};
use crate::registry::{Catalog, LoadState, Registry};
use crate::server::placement_review::NO_EVENT;
use crate::server::placement_review::answering::{self, Outcome, Runtime, Unanswered};
use crate::server::placement_review::field_validation::FieldValidation;
use crate::server::placement_review::index::{Copies, Indexed, PlacementIndex};
use crate::source::kubeconfig::identity;
use arguments::PlaceArguments;
use asking::MOST_NAMED;
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
    if asking::asks_server(arguments) {
        return Ok(printed(arguments, &asking::answers(arguments, questions).await?));
    }
    // Told before a cluster is read.
    questions::options(arguments, 0)?;
    let opened = source::open(&arguments.source, &FollowOptions::default()).await?;
    let (registry, name) = (opened.registry.clone(), opened.name.clone());
    let answered = async {
        let catalog = registry.catalog();
        let options = questions::options(arguments, catalog.version.minor())?;
        let copies = copies(&registry, &catalog).await.with_context(|| name)?;
        let indexed = PlacementIndex::default().at(&copies)?;
        if questions.is_empty() {
            return standing::answer(arguments, &copies, &indexed, &options);
        }
        let mut answers = Vec::new();
        for question in questions {
            let runtime = Runtime::of(&question.spec, &catalog, PATIENCE).await;
            answers.push(review(question, arguments.node.as_deref(), &copies, &indexed, &runtime, &options)?);
        }
        Ok(printed(arguments, &answers))
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
        LoadState::Loading(progress) => Some(format!("{}: {progress}", resource.gvr.resource)),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// A review and what was found.
struct Answered {
    subject: String,
    review: PlacementReview,
    /// The document as a server sent it.
    received: Option<Value>,
    /// Whether only that was told which the Pod's event would say.
    is_event: bool,
    /// Of `--node`.
    about: Option<About>,
}

/// What the reasoning about one node shows besides the review; where it is not known, why not.
struct About {
    node: Result<Node, String>,
    tolerations: Result<Vec<Toleration>, String>,
}

fn review(
    question: Question,
    reasoned: Option<&str>,
    copies: &Copies,
    indexed: &Indexed,
    runtime: &Runtime,
    options: &Options,
) -> anyhow::Result<Answered> {
    let spec = &question.spec;
    if let Some(name) = spec.node_names.iter().find(|name| copies.nodes.snapshot.get(name).is_none()) {
        bail!(nodes_there(name, copies));
    }
    let outcome = answering::answer(spec, copies, indexed, runtime, options, FieldValidation::Warn);
    let Outcome { answer, mut status, .. } = outcome.map_err(|unanswered| match unanswered {
        Unanswered::Invalid(problems) => {
            question.invalid(problems.into_iter().map(|problem| (problem.field, problem.message)).collect())
        }
        unanswered => anyhow!("{}{unanswered}", question.place),
    })?;
    status.nodes = answer.nodes(&spec.node_names);
    let about = |name: &str| About { node: node(copies, name), tolerations: Ok(answer.pod().spec.tolerations.clone()) };
    let about = reasoned.map(about);
    let Question { subject, spec, .. } = question;
    let review = PlacementReview {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        metadata: Value::Null,
        spec,
        status: Some(status),
    };
    Ok(Answered { subject, review, received: None, is_event: false, about })
}

/// That a node is not there, and which are.
fn nodes_there(name: &str, copies: &Copies) -> String {
    let some: Vec<String> = node_names(copies).take(MOST_NAMED).collect();
    no_such_node(name, &some, copies.nodes.snapshot.len() as u64)
}

fn no_such_node(name: &str, some: &[String], all: u64) -> String {
    let others = match (some.len() as u64, all) {
        (_, 0) => "there is none at all".to_owned(),
        (0, all) => format!("there are {all} others"),
        (shown, all) if shown < all => format!("there are {}, … ({all})", some.join(", ")),
        _ => format!("there are {}", some.join(", ")),
    };
    format!("there is no node {name:?}: {others}")
}

fn node_names(copies: &Copies) -> impl Iterator<Item = String> {
    copies.nodes.snapshot.range(std::ops::Bound::Unbounded).map(|(_, object)| object.key().to_owned())
}

/// A node as it is stored.
fn node(copies: &Copies, name: &str) -> Result<Node, String> {
    let stored = copies.nodes.snapshot.get(name).ok_or("there is no such node")?;
    Node::read(&stored.json()).map_err(|error| error.to_string())
}

fn printed(arguments: &PlaceArguments, answers: &[Answered]) -> (String, Exit) {
    let fits = |answered: &Answered| match (&answered.review.status, &arguments.node) {
        (Some(status), _) if answered.is_event => status.message.ends_with(NO_EVENT),
        (Some(status), Some(_)) => status.nodes.iter().any(|node| node.fits),
        (Some(status), None) => status.feasible > 0,
        (None, _) => false,
    };
    let exit = if answers.iter().all(fits) { Exit::Done } else { Exit::No };
    (text_of(&Answers { arguments, answers }, arguments.output), exit)
}

/// Reviews, to be printed.
struct Answers<'a> {
    arguments: &'a PlaceArguments,
    answers: &'a [Answered],
}

impl Printed for Answers<'_> {
    fn document(&self) -> Value {
        document(self.answers)
    }

    /// A line a node, the nearest misses first; the wide form has every reason and every score.
    fn table(&self, is_wide: bool) -> String {
        let one = |answered: &Answered| match (&self.arguments.node, answered.is_event) {
            (_, true) => table::event(&answered.subject, &answered.review),
            (Some(name), false) => reasoning::text(answered, name),
            (None, false) => table::text(&answered.subject, &answered.review, is_wide),
        };
        let footer = self.answers.first().map(|answered| table::footer(&answered.review, is_wide));
        format!("{}{}", self.answers.iter().map(one).collect::<Vec<_>>().join("\n"), footer.unwrap_or_default())
    }

    /// The nodes on which everything fits that was named.
    fn names(&self) -> Vec<String> {
        let fitting = |answered: &Answered| {
            let nodes = answered.review.status.iter().flat_map(|status| &status.nodes);
            nodes.filter(|node| node.fits).map(|node| node.name.clone()).collect::<BTreeSet<_>>()
        };
        let common = self.answers.iter().map(fitting).reduce(|all, one| all.intersection(&one).cloned().collect());
        common.unwrap_or_default().into_iter().map(|name| format!("node/{name}")).collect()
    }
}

/// One review, or a List of them.
fn document(answers: &[Answered]) -> Value {
    let one = |answered: &Answered| answered.received.clone().unwrap_or_else(|| json!(answered.review));
    let mut documents: Vec<Value> = answers.iter().map(one).collect();
    match documents.len() {
        1 => documents.remove(0),
        _ => json!({"apiVersion": "v1", "kind": "List", "items": documents}),
    }
}
