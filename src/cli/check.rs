//! `fieldcache check`: validates CustomResourceDefinitions offline, with kube-apiserver's rules, and warns of fields
//! that kube-apiserver would accept and not serve.

#![expect(clippy::disallowed_methods, reason = "reads the files that were named")]

use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::arguments::CheckArguments;
use super::crds::crd_name;
use super::exit::Exit;
use super::output::{Printed, printed, write_out};
use crate::crd::Crd;
use crate::extract::validation::{self, CrdValidation, StatusCause};
use crate::manifest::yaml::{Syntax, documents};

/// Validates every CustomResourceDefinition in the files, skips other kinds, and prints the results. [`Exit::No`] if a
/// definition is rejected.
///
/// # Errors
/// A file cannot be read or parsed, or no file has a CustomResourceDefinition.
pub fn run(arguments: &CheckArguments) -> anyhow::Result<Exit> {
    let (text, exit) = answer(arguments)?;
    write_out(&text)?;
    Ok(exit)
}

/// The text that the command prints, and its exit code: [`Exit::No`] if a definition is rejected.
///
/// # Errors
/// Those of [`run`].
pub(super) fn answer(arguments: &CheckArguments) -> anyhow::Result<(String, Exit)> {
    let mut checked = Vec::new();
    for file in &arguments.files {
        checked.extend(check_file(file)?);
    }
    if checked.is_empty() {
        bail!("there is no CustomResourceDefinition in {}", list(arguments));
    }
    let is_accepted = checked.iter().all(|checked| checked.validation.is_accepted());
    Ok((printed(&checked, arguments.output), if is_accepted { Exit::Done } else { Exit::No }))
}

impl Printed for Vec<Checked> {
    fn document(&self) -> Value {
        self.iter().map(Checked::json).collect()
    }

    fn table(&self, is_wide: bool) -> String {
        self.iter().map(|checked| checked.text(is_wide)).collect()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|checked| crd_name(&checked.name)).collect()
    }
}

/// The names of the files, separated by commas.
fn list(arguments: &CheckArguments) -> String {
    arguments.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// A CustomResourceDefinition and the result of its validation.
struct Checked {
    file: String,
    /// Its position among the documents of the file, from 1.
    document: usize,
    /// The line of the file at which its document begins, from 1.
    line: usize,
    name: String,
    /// The number of valid selectable fields of all versions.
    fields: usize,
    validation: CrdValidation,
}

/// Validates every CustomResourceDefinition of a file; `-` is standard input. Skips documents of other kinds.
///
/// # Errors
/// The file, or a CustomResourceDefinition in it, cannot be read or parsed.
fn check_file(path: &Path) -> anyhow::Result<Vec<Checked>> {
    let file = path.display().to_string();
    let mut bytes = Vec::new();
    if file == "-" {
        std::io::stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
    } else {
        bytes = std::fs::read(path).with_context(|| format!("{file} cannot be read"))?;
    }
    let form = if file.ends_with(".json") { Syntax::Json } else { Syntax::Yaml };
    let (documents, broken) = documents(&bytes, form);
    if let Some(broken) = broken.first() {
        bail!("{file}:{}: {}", broken.line, broken.cause);
    }
    let mut checked = Vec::new();
    for (index, document) in documents.iter().enumerate() {
        let value = &document.value;
        if value["kind"] != "CustomResourceDefinition" {
            continue;
        }
        let api_version = value["apiVersion"].as_str().unwrap_or_default();
        if api_version != "apiextensions.k8s.io/v1" {
            bail!(
                "{file}:{}: apiVersion {api_version:?} of a CustomResourceDefinition is not supported; use apiextensions.k8s.io/v1",
                document.line
            );
        }
        let crd = Crd::read(value).with_context(|| format!("{file}:{}", document.line))?;
        // `None`: validated as a new definition, not as an update of a stored one.
        let mut validation = validation::validate(&crd, None);
        validation.warnings.extend(validation::unknown_fields(value));
        checked.push(Checked {
            file: file.clone(),
            document: index + 1,
            line: document.line,
            name: crd.name.clone(),
            fields: validation.versions.iter().map(|version| version.accepted.len()).sum(),
            validation,
        });
    }
    Ok(checked)
}

impl Checked {
    /// The result as JSON.
    fn json(&self) -> Value {
        let cause =
            |cause: &StatusCause| json!({"reason": cause.reason, "field": cause.field, "message": cause.message});
        let warning = |warning: &validation::FieldWarning| json!({"version": warning.version, "jsonPath": warning.json_path, "message": warning.message});
        json!({
            "file": self.file, "document": self.document, "name": self.name, "accepted": self.validation.is_accepted(),
            "causes": self.validation.causes.iter().map(cause).collect::<Vec<_>>(),
            "warnings": self.validation.warnings.iter().map(warning).collect::<Vec<_>>(),
        })
    }

    /// The result as lines of text: accepted or rejected, causes and warnings. The wide form also lists the selectable
    /// fields of each version.
    fn text(&self, is_wide: bool) -> String {
        let verdict = match self.validation.causes.len() {
            0 => format!("accepted, selectable fields: {}", self.fields),
            1 => "rejected for 1 reason".to_owned(),
            count => format!("rejected for {count} reasons"),
        };
        let mut text = format!("{}:{}: {}: {verdict}\n", self.file, self.line, self.name);
        for version in self.validation.versions.iter().filter(|_| is_wide) {
            for field in &version.accepted {
                let _ = writeln!(text, "  {}: {} ({})", version.name, field.label, field.kind);
            }
        }
        for cause in &self.validation.causes {
            let _ = writeln!(text, "  {}: {}", cause.field, cause.message);
            if !cause.hint.is_empty() {
                let _ = writeln!(text, "    {}", cause.hint);
            }
        }
        for warning in &self.validation.warnings {
            let place: Vec<&str> =
                [&*warning.version, &*warning.json_path].into_iter().filter(|part| !part.is_empty()).collect();
            let place = if place.is_empty() { String::new() } else { format!("{}: ", place.join(" ")) };
            let _ = writeln!(text, "  warning: {place}{}", warning.message);
        }
        text
    }
}
