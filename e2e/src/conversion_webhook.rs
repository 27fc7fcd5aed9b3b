//! The webhook behind the two-version fixtures, with an authority of its own.
//!
//! It serves every control plane: a CustomResourceDefinition names its address and authority itself ([`ConversionWebhook::conversion`]).

use std::time::Duration;

use anyhow::{Result, anyhow};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::certificates::Authority;
use crate::components::{Component, locate};
use crate::process::{Invocation, Process};
use crate::run_directory::RunDirectory;

/// A running webhook.
pub struct ConversionWebhook {
    address: String,
    authority: Authority,
    process: Process,
    // After the process, which is to be gone first.
    _directory: RunDirectory,
}

impl ConversionWebhook {
    /// The one all tests of this binary share.
    ///
    /// # Errors
    /// When it did not start.
    pub async fn shared() -> Result<&'static ConversionWebhook> {
        static SHARED: OnceCell<Result<ConversionWebhook, String>> = OnceCell::const_new();
        let started =
            SHARED.get_or_init(async || ConversionWebhook::start().await.map_err(|error| format!("{error:#}")));
        started.await.as_ref().map_err(|error| anyhow!("the shared conversion webhook did not start: {error}"))
    }

    /// Starts one.
    ///
    /// # Errors
    /// When it is not built or does not serve in time.
    pub async fn start() -> Result<ConversionWebhook> {
        let directory = RunDirectory::create("conversion-webhook")?;
        let authority = Authority::create("conversion-webhook")?;
        let identity = authority.server("conversion-webhook", &[])?;
        let certificate = directory.write("server.crt", identity.certificate)?;
        let key = directory.write("server.key", identity.key)?;
        let invocation = Invocation::new(locate(Component::ConversionWebhook)?)
            .arguments([format!("-cert={}", certificate.display()), format!("-key={}", key.display())]);
        let process = Process::start("conversion-webhook", &invocation, directory.path())?;
        let address = process
            .line("the webhook's address", Duration::from_secs(30), |line| {
                line.strip_prefix("listening on ").map(str::to_owned)
            })
            .await?;
        Ok(ConversionWebhook { address, authority, process, _directory: directory })
    }

    /// `spec.conversion` of a CustomResourceDefinition that this webhook converts.
    #[must_use]
    pub fn conversion(&self) -> Value {
        json!({
            "strategy": "Webhook",
            "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {
                    "url": format!("https://{}/convert", self.address),
                    "caBundle": BASE64_STANDARD.encode(self.authority.certificate()),
                },
            },
        })
    }

    /// Its process, for stopping it under a running test.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }
}
