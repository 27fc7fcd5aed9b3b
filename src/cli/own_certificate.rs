//! The certificate that the operator makes for itself: kept in a folder or in memory, and renewed in time.
//!
//! What is due when is [`crate::access::self_made`]'s. With several replicas each has its own; one for all is kept in a
//! Secret, which is not here.

#![expect(clippy::disallowed_methods, reason = "the folder of --cert-dir and the time of certificates")]

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use tokio::time::sleep;

use crate::access::certificates::Requested;
use crate::access::self_made::{Due, FILES, SelfMade, due, renew};
use crate::server::tls::{Replacer, Tls};

/// How often it is looked at what is due. Clocks are set, so a far time is not waited for in one piece.
const LOOK_EVERY: Duration = Duration::from_secs(3600);

/// What is held, and who is to know.
pub(super) struct OwnCertificate {
    folder: Option<PathBuf>,
    names: Vec<String>,
    held: SelfMade,
    replacer: Replacer,
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl OwnCertificate {
    /// Takes what the folder holds, if it is of use, and makes what is missing.
    ///
    /// # Errors
    /// Says which folder cannot be used.
    pub(super) fn open(folder: Option<PathBuf>, more_names: &[String]) -> anyhow::Result<(OwnCertificate, Tls)> {
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        names.extend_from_slice(more_names);
        let found = folder.as_deref().map(read).transpose()?.flatten();
        let held = renew(now(), found.clone(), &names).context("making a certificate")?;
        if let (Some(folder), true) = (&folder, found.as_ref() != Some(&held)) {
            write(folder, &held)?;
        }
        let (tls, replacer) = Tls::in_memory(&held.serving.certificate, &held.serving.key, Requested::verifier())?;
        Ok((OwnCertificate { folder, names, held, replacer }, tls))
    }

    /// Renews it whenever that is due.
    pub(super) async fn keep(mut self) -> ! {
        loop {
            sleep(LOOK_EVERY).await;
            if matches!(due(now(), Some(&self.held), &self.names), Due::Nothing { .. }) {
                continue;
            }
            if let Err(error) = self.renew() {
                let problem = format!("{error:#}");
                tracing::error!(problem, "the serving certificate cannot be renewed, keeping the old one");
            }
        }
    }

    fn renew(&mut self) -> anyhow::Result<()> {
        let renewed = renew(now(), Some(self.held.clone()), &self.names)?;
        if let Some(folder) = &self.folder {
            write(folder, &renewed)?;
        }
        self.replacer.replace(&renewed.serving.certificate, &renewed.serving.key)?;
        self.held = renewed;
        tracing::info!("serving with a new certificate of our own");
        Ok(())
    }
}

fn read(folder: &Path) -> anyhow::Result<Option<SelfMade>> {
    let mut files: [String; 4] = Default::default();
    for (name, text) in FILES.iter().zip(&mut files) {
        match fs::read_to_string(folder.join(name)) {
            Ok(read) => *text = read,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| {
                    format!("--cert-dir: {} cannot be read; name a folder of this user", folder.join(name).display())
                });
            }
        }
    }
    Ok(SelfMade::read(&files))
}

/// Each by renaming, so that nobody reads half of one.
fn write(folder: &Path, held: &SelfMade) -> anyhow::Result<()> {
    let failed = || format!("--cert-dir: {} cannot be written; name a folder of this user", folder.display());
    fs::create_dir_all(folder).with_context(failed)?;
    for (name, text) in FILES.iter().zip(held.files()) {
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
