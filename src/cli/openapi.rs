//! `fieldcache openapi`: writes a generated OpenAPI document.

#![expect(clippy::disallowed_methods, reason = "writes the file that --output-file names")]

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde::Deserialize;

use super::arguments::{OpenapiArguments, OpenapiVersion};
use super::exit::Exit;
use super::output::{TextTable, printable, write_out};
use super::shared_arguments::OutputFormat;
use crate::model::GroupVersion;
use crate::runtime::source::{self, SourceOptions};
use crate::wire::yaml;

/// Writes the document to standard output or a file.
///
/// # Errors
/// The source cannot be read, or has no such document.
pub async fn run(arguments: OpenapiArguments) -> anyhow::Result<Exit> {
    if arguments.openapi_version == OpenapiVersion::V2 && arguments.group_version.is_some() {
        bail!("--group-version needs --openapi-version v3: the v2 document contains all groups");
    }
    let opened = source::open(&arguments.source.location(), &SourceOptions::default()).await?;
    let Some(documents) = opened.registry.catalog().documents.clone() else {
        bail!("{} has no OpenAPI documents", opened.name);
    };
    let v3 = async || documents.v3().await.map_err(anyhow::Error::msg);
    let json = match (arguments.openapi_version, &arguments.group_version) {
        (OpenapiVersion::V2, _) => documents.v2().await.map_err(anyhow::Error::msg)?.document().json.clone(),
        (OpenapiVersion::V3, None) => v3().await?.index().json.clone(),
        (OpenapiVersion::V3, Some(text)) => {
            let Some(group_version) = GroupVersion::parse(text) else {
                bail!(
                    "--group-version {text:?} is not GROUP/VERSION, such as stable.example.com/v1, or v1 for the core group"
                );
            };
            match v3().await?.v3(&group_version.path()) {
                Some(forms) => forms.document().json.clone(),
                None => bail!(
                    "{} serves no group and version {text:?}; `fieldcache openapi` without --group-version lists those it serves",
                    opened.name
                ),
            }
        }
    };
    let text = text(&json, arguments.output)?;
    match &arguments.output_file {
        None => write_out(&text)?,
        Some(path) => std::fs::write(path, text).with_context(|| format!("--output-file {}", path.display()))?,
    }
    Ok(Exit::Done)
}

/// A document in the given format. JSON is printed as it is served, in one line, and YAML is converted without parsing
/// the document into a value: documents may be nested deeper than serde_json parses.
///
/// # Errors
/// A table or names are requested, and the document cannot be parsed.
pub(super) fn text(json: &[u8], output: OutputFormat) -> anyhow::Result<String> {
    Ok(match output {
        OutputFormat::Json => format!("{}\n", String::from_utf8_lossy(json)),
        OutputFormat::Yaml => String::from_utf8_lossy(&yaml::from_json(json)).into_owned(),
        OutputFormat::Name => {
            let names: String = Summary::read(json)?.names().into_iter().map(|name| format!("{name}\n")).collect();
            printable(&names).into_owned()
        }
        OutputFormat::Table | OutputFormat::Wide => Summary::read(json)?.table(output == OutputFormat::Wide).print(),
    })
}

/// The parts of a document that tables and names show: those of an index are its documents, those of other documents
/// their schemas.
#[derive(Debug, Default, Deserialize)]
struct Summary {
    /// The documents of an index.
    #[serde(default)]
    paths: BTreeMap<String, Part>,
    /// The definitions of v2.
    definitions: Option<BTreeMap<String, Schema>>,
    /// The components of v3.
    components: Option<Components>,
}

#[derive(Debug, Default, Deserialize)]
struct Part {
    #[serde(default, rename = "serverRelativeURL")]
    url: String,
}

#[derive(Debug, Default, Deserialize)]
struct Components {
    #[serde(default)]
    schemas: BTreeMap<String, Schema>,
}

#[derive(Debug, Default, Deserialize)]
struct Schema {
    #[serde(default, rename = "x-kubernetes-selectable-fields")]
    fields: Vec<Field>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Field {
    #[serde(default)]
    field_path: String,
}

impl Summary {
    /// Parses a document.
    ///
    /// # Errors
    /// The document is nested too deep, or is not OpenAPI.
    fn read(json: &[u8]) -> anyhow::Result<Summary> {
        serde_json::from_slice(json).context("cannot parse the OpenAPI document; -o json prints it unchanged")
    }

    /// The definitions of OpenAPI v2, or the schemas of v3; `None` for an index.
    fn schemas(&self) -> Option<&BTreeMap<String, Schema>> {
        self.definitions.as_ref().or(self.components.as_ref().map(|components| &components.schemas))
    }

    /// The names of schemas, or the values that `--group-version` accepts.
    fn names(&self) -> Vec<String> {
        let group_version = |path: &String| path.trim_start_matches("apis/").trim_start_matches("api/").to_owned();
        match self.schemas() {
            Some(schemas) => schemas.keys().cloned().collect(),
            None => self.paths.keys().map(group_version).collect(),
        }
    }

    /// The table of schemas with selectable fields; the wide form has all schemas. For an index, the table of its
    /// documents; the wide form has their URLs.
    fn table(&self, is_wide: bool) -> TextTable {
        let Some(schemas) = self.schemas() else {
            let mut table = TextTable::new(if is_wide { &["GROUP VERSION", "URL"] } else { &["GROUP VERSION"] });
            for (name, part) in self.names().into_iter().zip(self.paths.values()) {
                table.push(if is_wide { vec![name, part.url.clone()] } else { vec![name] });
            }
            return table;
        };
        let mut table = TextTable::new(&["SCHEMA", "SELECTABLE FIELDS"]);
        for (name, schema) in schemas.iter().filter(|(_, schema)| is_wide || !schema.fields.is_empty()) {
            let fields: Vec<&str> = schema.fields.iter().map(|field| &*field.field_path).collect();
            table.push(vec![name.clone(), fields.join(",")]);
        }
        table
    }
}
