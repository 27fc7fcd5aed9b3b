//! `fieldcache crds`: the CustomResourceDefinitions of fieldcache's own kinds, for `kubectl apply -f -`.

use serde_json::{Value, json};

use super::arguments::CrdsArguments;
use super::exit::Exit;
use super::output::{Printed, TextTable, printed, write_out};
use crate::kinds::definitions;

/// Prints the CustomResourceDefinitions.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(arguments: &CrdsArguments) -> anyhow::Result<Exit> {
    write_out(&printed(&CrdList, arguments.output))?;
    Ok(Exit::Done)
}

/// The CustomResourceDefinitions, to be printed.
pub(super) struct CrdList;

impl Printed for CrdList {
    fn document(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "List", "items": definitions::all()})
    }

    fn table(&self, is_wide: bool) -> String {
        let mut headers = vec!["NAME", "KIND", "VERSIONS", "SCOPE"];
        if is_wide {
            headers.extend(["SHORT NAMES", "CATEGORIES"]);
        }
        let mut table = TextTable::new(&headers);
        for definition in definitions::all() {
            let spec = &definition["spec"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let texts = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(",");
            let versions: Value =
                spec["versions"].as_array().into_iter().flatten().map(|version| version["name"].clone()).collect();
            let mut cells = vec![
                definitions::name(&definition).to_owned(),
                text(&spec["names"]["kind"]),
                texts(&versions),
                text(&spec["scope"]),
            ];
            if is_wide {
                cells.extend([texts(&spec["names"]["shortNames"]), texts(&spec["names"]["categories"])]);
            }
            table.push(cells);
        }
        table.print()
    }

    fn names(&self) -> Vec<String> {
        definitions::all().iter().map(|definition| crd_name(definitions::name(definition))).collect()
    }
}

/// The name of a CustomResourceDefinition as kubectl prints it with `-o name`.
pub(super) fn crd_name(name: &str) -> String {
    format!("customresourcedefinition.apiextensions.k8s.io/{name}")
}
