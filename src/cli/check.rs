//! To come.
use super::exit::Exit;
use super::low::CheckArguments;
/// To come.
///
/// # Errors
/// Always.
pub fn run(_: &CheckArguments) -> anyhow::Result<Exit> {
    anyhow::bail!("check is not there yet")
}
