//! Finds the kubeconfig as kubectl does, and the identity in it.
//!
//! The kubeconfig is the first of these that exists:
//!
//! - the named file
//! - the files of `KUBECONFIG`, without missing ones, as in client-go's loading rules (kube-rs would reject them)
//! - the file in the home directory
//! - where none of them has a current context, the ServiceAccount of the Pod
//!
//! It reads files and sends no requests; `connection` creates the client.

#![expect(clippy::disallowed_methods, reason = "reads the Pod's namespace where the kubelet puts it")]

use std::env;
use std::path::{Path, PathBuf};

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::cluster_options::{ClusterOptions, ConnectionError, chain};

/// Where the kubelet puts the files of a Pod's ServiceAccount, and where every client looks for them.
pub const SERVICE_ACCOUNT_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The identity of a kubeconfig.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeconfigIdentity {
    /// The user as it is in the kubeconfig, with absolute file names; `{}` when there is none.
    pub user: Value,
    /// The namespace that requests are for unless they name one.
    pub namespace: Option<String>,
}

/// The result of [`find`].
enum Found {
    /// A kubeconfig, and the name of the context to use, which exists in it.
    Kubeconfig(Box<Kubeconfig>, String),
    /// No kubeconfig with a current context, so only the ServiceAccount of the Pod is left.
    Nothing,
}

/// The user and the namespace of the context that `options` select, or else of the Pod's ServiceAccount.
/// `options.server` is ignored: it does not change them.
///
/// # Errors
/// [`ConnectionError::Kubeconfig`] if a kubeconfig is invalid or has no such context, or if there is none and this
/// process does not run in a Pod.
pub fn identity(options: &ClusterOptions) -> Result<KubeconfigIdentity, ConnectionError> {
    let refuse = |cause: String| ConnectionError::Kubeconfig { place: place(options), cause };
    let (kubeconfig, name) = match find(options).map_err(refuse)? {
        Found::Kubeconfig(kubeconfig, name) => (kubeconfig, name),
        Found::Nothing => {
            let folder = Path::new(SERVICE_ACCOUNT_FOLDER);
            let namespace = std::fs::read_to_string(folder.join("namespace")).map_err(|error| {
                refuse(format!("no current context, and this process does not run in a Pod: {error}"))
            })?;
            let user = json!({ "tokenFile": folder.join("token") });
            return Ok(KubeconfigIdentity { user, namespace: Some(namespace.trim().to_owned()) });
        }
    };
    let context = kubeconfig.contexts.into_iter().find(|context| context.name == name);
    let context = context.and_then(|found| found.context).ok_or_else(|| refuse(no_context(&name)))?;
    let named = kubeconfig.auth_infos.into_iter().find(|user| Some(&user.name) == context.user.as_ref());
    let user = match named.and_then(|found| found.auth_info) {
        Some(user) => serde_json::to_value(user).map_err(|error| refuse(error.to_string()))?,
        None => json!({}),
    };
    Ok(KubeconfigIdentity { user, namespace: context.namespace.filter(|namespace| !namespace.is_empty()) })
}

/// The client configuration of the context that `options` select, or else of the Pod's ServiceAccount. `options.server`
/// is not applied.
///
/// # Errors
/// As [`identity`].
pub(super) async fn configuration(options: &ClusterOptions) -> Result<Config, ConnectionError> {
    let refuse = |cause: String| ConnectionError::Kubeconfig { place: place(options), cause };
    match find(options).map_err(refuse)? {
        Found::Kubeconfig(kubeconfig, context) => {
            let selected = KubeConfigOptions { context: Some(context), ..KubeConfigOptions::default() };
            Config::from_custom_kubeconfig(*kubeconfig, &selected).await.map_err(|error| refuse(chain(&error)))
        }
        Found::Nothing => Config::incluster().map_err(|error| {
            refuse(format!("no current context, and this process does not run in a Pod: {}", chain(&error)))
        }),
    }
}

/// Names the kubeconfig in messages.
fn place(options: &ClusterOptions) -> String {
    match &options.kubeconfig {
        Some(path) => path.display().to_string(),
        None => "(from KUBECONFIG, the home directory or the Pod)".to_owned(),
    }
}

/// The error for a missing context.
fn no_context(name: &str) -> String {
    format!("there is no context {name:?}, which is the current context or that of --context")
}

/// Finds the kubeconfig and the context to use. [`Found::Nothing`] if no kubeconfig and no context was named, and there
/// is no current one.
///
/// # Errors
/// Why the kubeconfig cannot be used: it is unreadable, lacks the named context, or was named and has no current one.
fn find(options: &ClusterOptions) -> Result<Found, String> {
    let kubeconfig = match &options.kubeconfig {
        Some(path) => read(path)?,
        None => default_kubeconfig()?,
    };
    let current = || kubeconfig.current_context.clone().filter(|name| !name.is_empty());
    match options.context.clone().or_else(current) {
        Some(context) if !kubeconfig.contexts.iter().any(|known| known.name == context) => Err(no_context(&context)),
        Some(context) => Ok(Found::Kubeconfig(Box::new(kubeconfig), context)),
        None if options.kubeconfig.is_some() => Err("no current context is set, and --context names none".to_owned()),
        None => Ok(Found::Nothing),
    }
}

/// The kubeconfig that kubectl reads without options; empty when there is none.
///
/// # Errors
/// As [`merged`].
fn default_kubeconfig() -> Result<Kubeconfig, String> {
    let listed = env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    let paths: Vec<PathBuf> = match listed {
        Some(listed) => env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect(),
        None => env::home_dir().into_iter().map(|home| home.join(".kube").join("config")).collect(),
    };
    merged(&paths)
}

/// Merges kubeconfig files. Missing ones are skipped, and the first value of a setting wins.
///
/// # Errors
/// A file cannot be read.
pub(super) fn merged(paths: &[PathBuf]) -> Result<Kubeconfig, String> {
    let there = paths.iter().filter(|path| path.exists());
    there.map(|path| read(path)).try_fold(Kubeconfig::default(), |before, next| {
        before.merge(next?).map_err(|error| format!("KUBECONFIG: {}", chain(&error)))
    })
}

/// Reads a file; relative file names in it become absolute.
fn read(path: &Path) -> Result<Kubeconfig, String> {
    let absolute = std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Kubeconfig::read_from(absolute).map_err(|error| chain(&error))
}
