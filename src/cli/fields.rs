//! `fieldcache fields`: which fields are selectable in kube-apiserver and in this server.

use anyhow::bail;
use serde_json::{Value, json};

use super::arguments::FieldsArguments;
use super::exit::Exit;
use super::output::{Printed, TextTable, printed, write_out};
use crate::extract::Origin;
use crate::registry::{Catalog, Resource};
use crate::runtime::resource_name::Names;
use crate::runtime::source::{self, SourceOptions};

/// Prints the fields of one resource, or of all resources with fields.
///
/// # Errors
/// The source cannot be read, or serves no such resource.
pub async fn run(arguments: FieldsArguments) -> anyhow::Result<Exit> {
    write_out(&answer(&arguments).await?)?;
    Ok(Exit::Done)
}

/// The text that the command prints.
///
/// # Errors
/// Those of [`run`].
pub(super) async fn answer(arguments: &FieldsArguments) -> anyhow::Result<String> {
    let opened = source::open(&arguments.source.location(), &SourceOptions::default()).await?;
    let catalog = opened.registry.catalog();
    let wanted = match &arguments.resource {
        Some(name) => {
            let found = find(&catalog, name);
            if found.is_empty() {
                bail!(
                    "{} serves no resource {name:?}; `fieldcache fields` without a name lists all resources that have selectable fields",
                    opened.name
                );
            }
            found
        }
        None => catalog
            .resources()
            .filter(|resource| !resource.extractor.fields().is_empty())
            .map(|found| &**found)
            .collect(),
    };
    let rows: Vec<Row> = wanted.into_iter().flat_map(rows).collect();
    Ok(printed(&rows, arguments.output))
}

impl Printed for Vec<Row> {
    fn document(&self) -> Value {
        self.iter().map(Row::json).collect()
    }

    fn table(&self, is_wide: bool) -> String {
        table(self, is_wide).print()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|row| format!("{}/{}", row.resource, row.field)).collect()
    }
}

/// A field of a resource, as it is printed.
struct Row {
    resource: String,
    field: String,
    kind: String,
    allowed: Vec<String>,
    format: String,
    default: Option<String>,
    origin: &'static str,
    json_path: String,
    description: String,
}

impl Row {
    /// The row as JSON.
    fn json(&self) -> Value {
        let mut value = json!({
            "resource": self.resource, "fieldPath": self.field, "type": self.kind, "origin": self.origin,
            "jsonPath": self.json_path,
        });
        if !self.allowed.is_empty() {
            value["enum"] = json!(self.allowed);
        }
        if let Some(default) = &self.default {
            value["default"] = json!(default);
        }
        for (name, text) in [("format", &self.format), ("description", &self.description)] {
            if !text.is_empty() {
                value[name] = json!(text);
            }
        }
        value
    }
}

/// The rows of a resource: metadata.name; metadata.namespace, if a field selector may name it; then its own selectable
/// fields.
fn rows(resource: &Resource) -> Vec<Row> {
    let name = resource.gvr.to_string();
    let metadata = |field: &str| Row {
        resource: name.clone(),
        field: field.to_owned(),
        kind: "string".to_owned(),
        allowed: Vec::new(),
        format: String::new(),
        default: None,
        origin: "Metadata",
        json_path: format!(".{field}"),
        description: String::new(),
    };
    let mut rows = vec![metadata("metadata.name")];
    if resource.extractor.accepts_namespace() {
        rows.push(metadata("metadata.namespace"));
    }
    rows.extend(resource.extractor.fields().iter().map(|field| Row {
        resource: name.clone(),
        field: field.label.clone(),
        kind: field.kind.clone(),
        allowed: field.allowed.to_vec(),
        format: field.format.clone(),
        default: field.default.clone(),
        origin: match field.origin {
            Origin::CustomResourceDefinition => "CustomResourceDefinition",
            Origin::FieldCache => "FieldCache",
            Origin::BuiltIn => "BuiltIn",
        },
        json_path: field.json_path.clone(),
        description: field.description.clone(),
    }));
    rows
}

/// The rows as a table. The wide form also has the columns FORMAT, PATH and DESCRIPTION.
fn table(rows: &[Row], is_wide: bool) -> TextTable {
    let mut table = match is_wide {
        false => TextTable::new(&["RESOURCE", "FIELD", "TYPE", "DEFAULT", "VALUES", "ORIGIN"]),
        true => TextTable::new(&[
            "RESOURCE",
            "FIELD",
            "TYPE",
            "DEFAULT",
            "VALUES",
            "ORIGIN",
            "FORMAT",
            "PATH",
            "DESCRIPTION",
        ]),
    };
    for row in rows {
        let mut cells = vec![
            row.resource.clone(),
            row.field.clone(),
            row.kind.clone(),
            row.default.clone().unwrap_or_default(),
            row.allowed.join(","),
            row.origin.to_owned(),
        ];
        if is_wide {
            cells.extend([row.format.clone(), row.json_path.clone(), row.description.clone()]);
        }
        table.push(cells);
    }
    table
}

/// The resources with this name: plural, singular, kind or short name, with version and group if needed. Empty if there
/// are none.
fn find<'a>(catalog: &'a Catalog, name: &str) -> Vec<&'a Resource> {
    catalog.resources().map(|resource| &**resource).filter(|resource| Names::from(*resource).contain(name)).collect()
}
