//! The watch scripts, by subject. The whole list is [`all`].

mod bookmarks;
mod changes;
mod initial;
mod legacy;
pub(crate) mod random;
mod refusals;
mod shapes;
mod starts;
mod transitions;

use serde_json::{Value, json};

use super::fixtures;
use super::script::{Reach, Script, Step, Watch};
use super::stage::LIVE;

/// Every script. The slow ones (ends by time, waits for a version that does not come) stand first, so that they play beside the rest.
pub(crate) fn all(seed: u64) -> Vec<Script> {
    let mut scripts = refusals::scripts();
    scripts.extend(starts::scripts());
    scripts.extend(bookmarks::scripts());
    scripts.extend(initial::scripts());
    scripts.extend(legacy::scripts());
    scripts.extend(transitions::scripts());
    scripts.extend(shapes::scripts());
    scripts.extend(changes::scripts());
    scripts.extend(random::scripts(seed));
    scripts
}

const SHIRTS: &str = "/apis/live.example.com/v1/namespaces/{ns}/shirts";
const BANNERS: &str = "/apis/live.example.com/v1/banners";

fn script(name: &str, steps: Vec<Step>) -> Script {
    Script { name: name.to_owned(), steps }
}

fn shirt(name: &str, labels: Value, spec: Value) -> Step {
    Step::Create(SHIRTS.to_owned(), fixtures::shirt(LIVE, name, &labels, &spec))
}

/// A shirt of a colour without further labels.
fn colored(name: &str, color: &str) -> Step {
    shirt(name, json!({}), json!({ "color": color }))
}

fn set(name: &str, patch: Value) -> Step {
    Step::Merge(format!("{SHIRTS}/{name}"), patch)
}

fn color(name: &str, color: &str) -> Step {
    set(name, json!({ "spec": { "color": color } }))
}

fn label(name: &str, key: &str, value: Option<&str>) -> Step {
    set(name, json!({ "metadata": { "labels": { key: value } } }))
}

fn delete(name: &str) -> Step {
    Step::Delete(format!("{SHIRTS}/{name}"))
}

fn settle() -> Step {
    Step::Settle(SHIRTS.to_owned())
}

/// A watch of the namespace's shirts with these parameters besides `watch=1`.
fn watch(name: &str, query: &str) -> Step {
    at(name, &format!("{SHIRTS}?watch=1{query}"), Reach::LastChange)
}

/// The same, read until the server ends it.
fn ending(name: &str, query: &str) -> Step {
    at(name, &format!("{SHIRTS}?watch=1{query}"), Reach::End)
}

fn at(name: &str, path: &str, reach: Reach) -> Step {
    Step::Watch(Watch { name: name.to_owned(), path: path.to_owned(), headers: Vec::new(), reach })
}

fn accept(step: Step, value: &'static str) -> Step {
    with_header(step, "accept", value)
}

fn with_header(step: Step, name: &'static str, value: &'static str) -> Step {
    match step {
        Step::Watch(mut watch) => {
            watch.headers.push((name, value));
            Step::Watch(watch)
        }
        other => other,
    }
}
