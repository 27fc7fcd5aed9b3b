//! Protobuf OpenAPI documents, read by the decoder Go clients use.
//!
//! The decoder is Google's gnostic-models in the Go program `openapi-check`. Rust has no equivalent, and a decoder of
//! our own would repeat our own mistakes.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::components::{Component, locate};

/// Which document a protobuf message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Swagger 2, `/openapi/v2`.
    V2,
    /// OpenAPI 3, `/openapi/v3/...`.
    V3,
}

/// What to print of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The document that the message encodes.
    Document,
    /// The message itself, in protobuf's JSON: an extension is the YAML text that was on the wire.
    Message,
}

/// Decodes a document.
///
/// # Errors
/// When the program has not been built or does not understand the bytes.
pub fn decode(form: Form, view: View, protobuf: &[u8]) -> Result<Value> {
    let form = match form {
        Form::V2 => "v2",
        Form::V3 => "v3",
    };
    check(view, &[form], protobuf)
}

/// The Swagger 2 document as client-go's discovery client gets it from the server of a kubeconfig.
///
/// # Errors
/// When the program has not been built or client-go fails.
pub fn client_go_v2(kubeconfig: &Path, view: View) -> Result<Value> {
    check(view, &["client-v2", &kubeconfig.display().to_string()], &[])
}

/// The OpenAPI 3 document of one path, such as `apis/apps/v1`, as client-go gets it.
///
/// # Errors
/// When the program has not been built or client-go fails.
pub fn client_go_v3(kubeconfig: &Path, path: &str, view: View) -> Result<Value> {
    check(view, &["client-v3", &kubeconfig.display().to_string(), path], &[])
}

fn check(view: View, arguments: &[&str], input: &[u8]) -> Result<Value> {
    let mut command = Command::new(locate(Component::OpenapiCheck)?);
    if view == View::Message {
        command.arg("-message");
    }
    command.args(arguments).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("starting openapi-check")?;
    let mut stdin = child.stdin.take().context("a piped standard input must be there")?;
    // The program reads all its input before it writes, so writing first cannot block on it. If it ends early, its own
    // error says more than ours.
    let _ = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().context("waiting for openapi-check")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("openapi-check printed no JSON")
}
