//! Renews the operator's self-signed certificate, which is stored in a Secret, in a folder or in memory.
//!
//! [`crate::access::self_signed`] decides when the certificate and its CA are due for renewal. Replicas share a
//! certificate in a Secret: the first replica that finds something due renews it, and the others load it. In a folder
//! or in memory, each replica has its own.

#![expect(clippy::disallowed_methods, reason = "the folder of --cert-dir and the time of certificates")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::access::certificates::DeferredClientVerifier;
use crate::access::self_signed::{Due, FILES, SelfSignedCertificate, due, renew};
use crate::operator::api_error::described;
use crate::transport::tls::{Replacer, Tls};

/// How often this replica checks whether a renewal is due, and whether another replica has renewed something. It does
/// not sleep until the next renewal, because clocks change.
const CHECK_EVERY: Duration = Duration::from_secs(300);
/// The number of attempts to write the Secret that may conflict with other replicas before renewal fails.
const ATTEMPTS: usize = 5;

/// Where the certificate is stored.
pub(super) enum CertificateStore {
    /// In the memory of this process.
    Memory,
    /// In files of this folder.
    Folder(PathBuf),
    /// In the Secret of this name, which replicas share.
    Secret(Box<Api<Secret>>, String),
}

impl CertificateStore {
    /// A store in a Secret of this namespace.
    pub(super) fn secret(client: Client, namespace: &str, name: String) -> CertificateStore {
        CertificateStore::Secret(Box::new(Api::namespaced(client, namespace)), name)
    }
}

/// The current certificate, where it is stored, and the listener that serves with it.
pub(super) struct CertificateRenewer {
    store: CertificateStore,
    /// The DNS names and IP addresses of the certificate.
    names: Vec<String>,
    current: SelfSignedCertificate,
    /// Replaces the certificate of the listener.
    replacer: Replacer,
    /// The current CA certificates, as PEM.
    authorities: watch::Sender<Vec<u8>>,
}

/// The current time in seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl CertificateRenewer {
    /// Loads the stored certificate if it is valid, renews what is due, and returns the renewer with the TLS
    /// configuration. `more_names` are DNS names and IP addresses in addition to those of localhost.
    ///
    /// # Errors
    /// Names the folder or Secret that cannot be read or written.
    pub(super) async fn open(
        store: CertificateStore,
        more_names: &[String],
    ) -> anyhow::Result<(CertificateRenewer, Tls)> {
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        names.extend_from_slice(more_names);
        let current = load_and_renew(&store, &names).await?;
        let (tls, replacer) =
            Tls::in_memory(&current.serving.certificate, &current.serving.key, DeferredClientVerifier::verifier())?;
        let authorities = watch::Sender::new(bundle(&current));
        Ok((CertificateRenewer { store, names, current, replacer, authorities }, tls))
    }

    /// The CA certificates, as PEM. The receiver is notified when they are renewed.
    pub(super) fn authorities(&self) -> watch::Receiver<Vec<u8>> {
        self.authorities.subscribe()
    }

    /// Renews the certificate when that is due, and loads what another replica has renewed.
    pub(super) async fn run(mut self) -> ! {
        loop {
            sleep(CHECK_EVERY).await;
            if let Err(error) = self.check().await {
                let problem = format!("{error:#}");
                tracing::error!(problem, "cannot renew the serving certificate, serving with the old one");
            }
        }
    }

    /// Reads the stored certificate, renews it if that is due, and serves with it if it is new.
    async fn check(&mut self) -> anyhow::Result<()> {
        // Another replica may have renewed a Secret. A folder belongs to this replica.
        let is_own = !matches!(self.store, CertificateStore::Secret(..));
        if is_own && matches!(due(now(), Some(&self.current), &self.names), Due::Nothing { .. }) {
            return Ok(());
        }
        let found = match self.store {
            CertificateStore::Memory => renew(now(), Some(self.current.clone()), &self.names)
                .context("cannot create a self-signed certificate")?,
            CertificateStore::Folder(_) | CertificateStore::Secret(..) => {
                load_and_renew(&self.store, &self.names).await?
            }
        };
        if found != self.current {
            self.replacer.replace(&found.serving.certificate, &found.serving.key)?;
            self.authorities.send_replace(bundle(&found));
            self.current = found;
            tracing::info!("serving with a renewed self-signed certificate");
        }
        Ok(())
    }
}

/// All CA certificates in one PEM bundle. It includes the next CA before that signs, so that clients already trust it.
fn bundle(current: &SelfSignedCertificate) -> Vec<u8> {
    current.authorities.iter().map(|authority| &*authority.certificate).collect::<String>().into_bytes()
}

/// Loads the stored certificate, renews what is due, stores the result if it has changed, and returns it. `names` are
/// the DNS names and IP addresses that the certificate must have. If another replica has changed the Secret meanwhile,
/// loads it again, [`ATTEMPTS`] times in all.
async fn load_and_renew(store: &CertificateStore, names: &[String]) -> anyhow::Result<SelfSignedCertificate> {
    for _ in 0..ATTEMPTS {
        let (found, version) = match store {
            CertificateStore::Memory => (None, None),
            CertificateStore::Folder(folder) => (read_folder(folder)?, None),
            CertificateStore::Secret(api, name) => read_secret(api, name).await?,
        };
        let current = renew(now(), found.clone(), names).context("cannot create a self-signed certificate")?;
        if found.as_ref() == Some(&current) {
            return Ok(current);
        }
        match store {
            CertificateStore::Memory => return Ok(current),
            CertificateStore::Folder(folder) => return write_folder(folder, &current).map(|()| current),
            CertificateStore::Secret(api, name) => {
                if write_secret(api, name, &current, version).await? {
                    return Ok(current);
                }
            }
        }
    }
    bail!(
        "--cert-secret: something else changed the Secret at each of {ATTEMPTS} attempts to write it; make sure that only \
         replicas of fieldcache write it"
    )
}

/// The certificate in the Secret, if it is valid, and the resourceVersion of the Secret, if it exists.
async fn read_secret(api: &Api<Secret>, name: &str) -> anyhow::Result<(Option<SelfSignedCertificate>, Option<String>)> {
    let found = api.get_opt(name).await.map_err(|error| unusable(name, "read", &error))?;
    let Some(secret) = found else { return Ok((None, None)) };
    let data = secret.data.unwrap_or_default();
    let files = FILES
        .map(|file| data.get(file).map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).unwrap_or_default());
    Ok((SelfSignedCertificate::read(&files), secret.metadata.resource_version))
}

/// Writes the Secret, unless it has changed since it was read. Returns false if it has changed. `version` is the
/// resourceVersion that was read; `None`: the Secret did not exist.
async fn write_secret(
    api: &Api<Secret>,
    name: &str,
    current: &SelfSignedCertificate,
    version: Option<String>,
) -> anyhow::Result<bool> {
    let data: BTreeMap<&str, ByteString> =
        FILES.into_iter().zip(current.files()).map(|(file, text)| (file, ByteString(text.into_bytes()))).collect();
    let secret: Secret = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {
            "name": name, "resourceVersion": version,
            "labels": { "app.kubernetes.io/name": "fieldcache", "app.kubernetes.io/managed-by": "fieldcache" },
        },
        "data": data,
    }))?;
    let written = match version {
        Some(_) => api.replace(name, &PostParams::default(), &secret).await,
        None => api.create(&PostParams::default(), &secret).await,
    };
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(unusable(name, "written", &error)),
    }
}

/// The error for a Secret that cannot be used. `what` is `read` or `written`.
fn unusable(name: &str, what: &str, error: &kube::Error) -> anyhow::Error {
    anyhow!(
        "--cert-secret: Secret {name} cannot be {what}: {}; manifests/rbac.yaml grants the permission for it",
        described(error)
    )
}

/// Reads the certificate and its CA from a folder; `None` if a file is missing or invalid.
fn read_folder(folder: &Path) -> anyhow::Result<Option<SelfSignedCertificate>> {
    let mut files: [String; 4] = Default::default();
    for (name, text) in FILES.iter().zip(&mut files) {
        match fs::read_to_string(folder.join(name)) {
            Ok(read) => *text = read,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| {
                    format!(
                        "--cert-dir: {} cannot be read; use a folder that this user can read",
                        folder.join(name).display()
                    )
                });
            }
        }
    }
    Ok(SelfSignedCertificate::read(&files))
}

/// Writes the certificate and its CA to a folder, which is created if it is missing. Each file is written under another
/// name and then renamed, so that no other program reads an incomplete one.
fn write_folder(folder: &Path, current: &SelfSignedCertificate) -> anyhow::Result<()> {
    let failed =
        || format!("--cert-dir: {} cannot be written; use a folder that this user can write to", folder.display());
    fs::create_dir_all(folder).with_context(failed)?;
    for (name, text) in FILES.iter().zip(current.files()) {
        let staged = folder.join(format!(".{name}"));
        let mode = if name.ends_with(".key") { 0o600 } else { 0o644 };
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&staged)
            .with_context(failed)?;
        file.write_all(text.as_bytes()).with_context(failed)?;
        fs::rename(&staged, folder.join(name)).with_context(failed)?;
    }
    Ok(())
}
