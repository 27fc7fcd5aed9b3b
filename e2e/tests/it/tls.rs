//! `fieldcache serve` over TLS, to clients that verify it: kubectl, curl's and kubectl's lines of the greeting, both protocols.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::certificates::{Authority, Identity};
use e2e::eventually::eventually;
use e2e::fieldcache::{self, Fieldcache};
use e2e::http::{Protocol, Request};
use e2e::kubectl::Kubectl;
use e2e::process::{Invocation, Process};
use e2e::run_directory::RunDirectory;

const SOON: Duration = Duration::from_secs(30);

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests/samples");

const BLUE: &str = "/apis/stable.example.com/v1/shirts?fieldSelector=spec.color%3Dblue";

/// Puts a pair in place by renaming, as a volume of a Secret changes.
fn replace(directory: &RunDirectory, identity: &Identity) -> Result<()> {
    for (name, text) in [("tls.crt", &identity.certificate), ("tls.key", &identity.key)] {
        std::fs::rename(directory.write("staged", text)?, directory.path().join(name))?;
    }
    Ok(())
}

#[tokio::test]
async fn kubectl_and_both_protocols_read_over_tls_and_a_new_certificate_is_taken() -> Result<()> {
    let directory = RunDirectory::create("tls")?;
    let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
    let authority = Authority::create("first")?;
    replace(&directory, &authority.server("fieldcache", &[])?)?;
    let trusted = authority.certificate();
    let folder = ["--dir".to_owned(), SAMPLES.to_owned()];
    let served = Fieldcache::serve_tls(folder, &certificate, &key, &trusted);
    let fieldcache = Box::pin(served).await?;
    ensure!(fieldcache.address().starts_with("https://127.0.0.1:"), "{}", fieldcache.address());

    let mut bodies = Vec::new();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = fieldcache.endpoint().clone().speaking(protocol).client();
        let mut watch = client.watch(&format!("{BLUE}&watch=1")).await?;
        let added = watch.event(SOON).await?;
        ensure!(added["type"] == "ADDED", "{protocol:?}: {added}");
        bodies.push(client.get(BLUE).await?.success()?.body);
        let foreign = Request::get(BLUE).header("origin", "https://example.com");
        let refused = client.send(foreign).await?;
        ensure!(refused.status == 403, "{protocol:?}: browsers are kept out over TLS as well: {}", refused.status);
    }
    ensure!(bodies[0] == bodies[1], "the protocols differ");

    // By the server's own certificate, which is what the greeting says, and by the authority's.
    let greeting = fieldcache.process().stdout()?;
    let line = format!(
        "kubectl --server {} --token none --certificate-authority {}",
        fieldcache.address(),
        certificate.display()
    );
    ensure!(greeting.contains(&line), "{greeting}");
    let authority_file = directory.write("ca.crt", &trusted)?;
    for file in [&certificate, &authority_file] {
        let kubectl = Kubectl::with_server_and_authority(fieldcache.address(), file)?;
        let names =
            kubectl.succeed(&["get", "shirts", "-A", "--field-selector", "spec.color=blue", "-o", "name"]).await?;
        ensure!(names.lines().count() == 3, "{names}");
    }
    let stranger = directory.write("stranger.crt", Authority::create("stranger")?.certificate())?;
    let refused =
        Kubectl::with_server_and_authority(fieldcache.address(), &stranger)?.run(&["get", "shirts", "-A"]).await?;
    ensure!(refused.exit_code == 1 && refused.stderr.contains("x509"), "{}", refused.stderr);

    let next = Authority::create("second")?;
    replace(&directory, &next.server("fieldcache", &[])?)?;
    let next_file = directory.write("next.crt", next.certificate())?;
    eventually("the new certificate is served", SOON, async || {
        let kubectl = Kubectl::with_server_and_authority(fieldcache.address(), &next_file)?;
        kubectl.succeed(&["get", "shirts", "-A"]).await.map(|_| ())
    })
    .await?;
    fieldcache.process().ensure_running()
}

#[tokio::test]
async fn a_certificate_that_cannot_be_served_is_refused_at_the_start() -> Result<()> {
    let directory = RunDirectory::create("tls-wrong")?;
    let authority = Authority::create("wrong")?;
    let (one, other) = (authority.server("one", &[])?, authority.server("other", &[])?);
    let certificate = directory.write("one.crt", &one.certificate)?.display().to_string();
    let key = directory.write("other.key", &other.key)?.display().to_string();
    let rows = [
        (vec!["--tls-cert-file", &certificate], "--tls-private-key-file <FILE>".to_owned()),
        (vec!["--tls-private-key-file", &key], "--tls-cert-file <FILE>".to_owned()),
        (
            vec!["--tls-cert-file", &certificate, "--tls-private-key-file", &key],
            format!(
                "the key in --tls-private-key-file {key} does not belong to the first certificate in --tls-cert-file {certificate}"
            ),
        ),
        (
            vec!["--tls-cert-file", &key, "--tls-private-key-file", &key],
            format!("--tls-cert-file {key} has no certificate: it must be PEM with BEGIN CERTIFICATE"),
        ),
        (
            vec!["--tls-cert-file", "/nowhere/tls.crt", "--tls-private-key-file", &key],
            "--tls-cert-file /nowhere/tls.crt cannot be read".to_owned(),
        ),
    ];
    for (options, expected) in rows {
        let invocation = Invocation::new(fieldcache::program()?)
            .arguments(["serve", "--address", "127.0.0.1:0", "--dir", SAMPLES])
            .arguments(options.iter().copied());
        let process = Process::start("refused", &invocation, directory.path())?;
        ensure!(process.ended(SOON).await? == 2, "{options:?}");
        let said = process.stderr().context("its words")?;
        ensure!(said.contains(&expected), "{options:?} does not say {expected:?}:\n{said}");
    }
    Ok(())
}
