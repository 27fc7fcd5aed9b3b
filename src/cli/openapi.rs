//! To come.
use super::exit::Exit;
use super::low::OpenapiArguments;
/// To come.
///
/// # Errors
/// Always.
pub async fn run(_: OpenapiArguments) -> anyhow::Result<Exit> {
    anyhow::bail!("openapi is not there yet")
}
