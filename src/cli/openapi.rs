//! `fieldcache openapi`: writes a generated OpenAPI document.

#![expect(clippy::disallowed_methods, reason = "writes the file that --output-file names")]

use anyhow::{Context, bail};

use super::exit::Exit;
use super::low::{OpenapiArguments, OpenapiVersion};
use super::output::write_out;
use super::source;
use crate::model::GroupVersion;

/// Writes the document to standard output or a file.
///
/// # Errors
/// The source cannot be read, or has no such document.
pub async fn run(arguments: OpenapiArguments) -> anyhow::Result<Exit> {
    if arguments.openapi_version == OpenapiVersion::V2 && arguments.group_version.is_some() {
        bail!("--group-version goes with --openapi-version v3: the v2 document is one for all groups");
    }
    let opened = source::open(&arguments.source, &source::FollowOptions::default()).await?;
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
    let text = format!("{}\n", String::from_utf8_lossy(&json));
    match &arguments.output_file {
        None => write_out(&text)?,
        Some(path) => std::fs::write(path, text).with_context(|| format!("--output-file {}", path.display()))?,
    }
    Ok(Exit::Done)
}
