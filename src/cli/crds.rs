//! `fieldcache crds`: the CustomResourceDefinitions of our own kinds, for `kubectl apply -f -`.

use serde_json::json;

use super::exit::Exit;
use super::low::{CrdsArguments, Output};
use super::output::write_out;
use crate::kinds::definitions;
use crate::server::yaml;

/// Prints them.
///
/// # Errors
/// A closed pipe and the like.
pub fn run(arguments: &CrdsArguments) -> anyhow::Result<Exit> {
    write_out(&text(arguments.output))?;
    Ok(Exit::Done)
}

/// As text in one of the forms.
pub(super) fn text(output: Output) -> String {
    let definitions = definitions::all();
    match output {
        Output::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": definitions});
            format!("{list:#}\n")
        }
        Output::Name => {
            let names = definitions.iter().map(definitions::name);
            names.map(|name| format!("customresourcedefinition.apiextensions.k8s.io/{name}\n")).collect()
        }
        // There are no columns to show: what people do with it is apply it.
        Output::Yaml | Output::Table | Output::Wide => {
            definitions.iter().map(|definition| format!("---\n{}", yaml_of(definition))).collect()
        }
    }
}

/// One document in the form that kubectl writes, but for what Go escapes for the sake of HTML: people are to read the rules.
pub(crate) fn yaml_of(document: &serde_json::Value) -> String {
    let text = String::from_utf8_lossy(&yaml::from_json(document.to_string().as_bytes())).into_owned();
    // No text of ours has a backslash in front of a `u`.
    text.replace("\\u0026", "&").replace("\\u003c", "<").replace("\\u003e", ">")
}
