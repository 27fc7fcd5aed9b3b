//! TLS over real sockets: both protocols, replaced certificates, files that are none, peers that are no clients.
#![expect(clippy::disallowed_methods, reason = "certificates are files, and connections are tasks")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::listen::{Running, request, run_listener};
use super::{Fixture, SHIRTS};
use crate::server::Settings;
use crate::server::guards::Guard;
use crate::store::HistoryLimits;
use crate::transport::listen::Listener;
use crate::transport::tls::{CertificateFiles, Tls, TlsError, no_client_certificates};

/// An RSA key that signs nothing but this test's certificate.
const RSA_KEY: &str = include_str!("testdata/rsa.key");
const RSA_CERTIFICATE: &str = include_str!("testdata/rsa.crt");

/// How many files were written.
static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// A certificate and its key in a directory that goes with the test.
struct Files {
    directory: PathBuf,
    files: CertificateFiles,
}

impl Files {
    fn new() -> Files {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("fieldcache-tls-{}-{number}", std::process::id()));
        // The system gives the numbers of processes again.
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        let files = CertificateFiles { certificate: directory.join("tls.crt"), key: directory.join("tls.key") };
        Files { directory, files }
    }

    fn write(&self, certificate: &str, key: &str) {
        // By renaming, as a volume of a Secret changes.
        for (file, text) in [(&self.files.certificate, certificate), (&self.files.key, key)] {
            let staged = self.directory.join("staged");
            std::fs::write(&staged, text).unwrap();
            // Changes are seen by the time, which two files that are written at once may have in common.
            let minutes = WRITTEN.fetch_add(1, Ordering::Relaxed);
            let time = SystemTime::now() + Duration::from_secs(60 * minutes as u64);
            std::fs::File::options().write(true).open(&staged).and_then(|file| file.set_modified(time)).unwrap();
            std::fs::rename(&staged, file).unwrap();
        }
    }

    async fn open(&self) -> Result<Tls, TlsError> {
        Tls::open(self.files.clone(), no_client_certificates()).await
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A self-signed certificate for localhost and its key in PKCS #8.
fn pair(key: &KeyPair) -> (String, String) {
    let parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (parameters.self_signed(key).unwrap().pem(), key.serialize_pem())
}

fn new_pair() -> (String, String) {
    pair(&KeyPair::generate().unwrap())
}

async fn run(fixture: &Fixture, files: &Files) -> Running {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    run_listener(fixture, listener.with_tls(files.open().await.unwrap()))
}

/// A connection of a client that trusts this certificate alone and offers these protocols.
async fn connect(running: &Running, certificate: &str, protocols: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(certificate.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(running.address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
}

async fn end(running: Running) {
    running.stop.send(()).unwrap();
    running.task.await.unwrap();
}

#[tokio::test]
async fn a_page_without_tls_is_not_of_this_server() {
    let settings = Settings { guard: Some(Guard::default()), ..Settings::default() };
    let fixture = Fixture::with(settings, HistoryLimits::default());
    let files = Files::new();
    let (certificate, key) = new_pair();
    files.write(&certificate, &key);
    let running = run(&fixture, &files).await;
    for (origin, code) in [("https://localhost:8181", 200), ("http://localhost:8181", 403)] {
        let mut stream = connect(&running, &certificate, &["http/1.1"]).await.unwrap();
        let head =
            format!("GET {SHIRTS} HTTP/1.1\r\nHost: localhost:8181\r\nOrigin: {origin}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = [0; 12];
        stream.read_exact(&mut response).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&response), format!("HTTP/1.1 {code}"), "{origin}");
    }
    end(running).await;
}

#[tokio::test]
async fn both_protocols_answer_alike_and_alpn_decides() {
    let mut fixture = Fixture::new();
    fixture.put("default", "x", "blue");
    let expected = fixture.get(SHIRTS).await.body;
    let files = Files::new();
    let (certificate, key) = new_pair();
    files.write(&certificate, &key);
    let running = run(&fixture, &files).await;

    let stream = connect(&running, &certificate, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    assert_eq!(stream.get_ref().1.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    let (mut two, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let second = tokio::spawn(connection);
    let stream = connect(&running, &certificate, &["http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let (mut one, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let first = tokio::spawn(connection);

    let over_one = one.send_request(request(SHIRTS)).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    let over_two = two.send_request(request(SHIRTS)).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    assert_eq!((&over_one, &over_two), (&Bytes::from(expected.clone()), &Bytes::from(expected)));

    let watch: http::Request<Empty<Bytes>> = request(&format!("{SHIRTS}?watch=1&resourceVersion=101"));
    let mut watch = two.send_request(watch).await.unwrap().into_body();
    fixture.put("default", "y", "blue");
    let line = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(line.starts_with(b"{\"type\":\"ADDED\""));
    end(running).await;
    let rest = watch.collect().await.expect("a clean end, not a broken connection").to_bytes();
    assert!(rest.is_empty(), "{rest:?}");
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_replaced_certificate_is_served() {
    let fixture = Fixture::new();
    let files = Files::new();
    let (old, new) = (new_pair(), new_pair());
    files.write(&old.0, &old.1);
    let running = run(&fixture, &files).await;
    connect(&running, &old.0, &[]).await.unwrap();
    connect(&running, &new.0, &[]).await.expect_err("not yet");

    files.write(&new.0, &new.1);
    let deadline = Instant::now() + Duration::from_secs(30);
    while let Err(error) = connect(&running, &new.0, &[]).await {
        assert!(Instant::now() < deadline, "the new certificate never came: {error}");
        sleep(Duration::from_millis(100)).await;
    }
    connect(&running, &old.0, &[]).await.expect_err("the old one is not served any more");
    end(running).await;
}

#[tokio::test(start_paused = true)]
async fn half_a_pair_changes_nothing() {
    let fixture = Fixture::new();
    let files = Files::new();
    let (old, new) = (new_pair(), new_pair());
    files.write(&old.0, &old.1);
    let running = run(&fixture, &files).await;
    for (certificate, key) in [(&new.0, &old.1), (&old.0, &new.1), (&"nothing".to_owned(), &old.1)] {
        files.write(certificate, key);
        // Several looks, in paused time.
        sleep(Duration::from_secs(60)).await;
        connect(&running, &old.0, &[]).await.expect("the pair that was opened is still served");
    }
    files.write(&new.0, &new.1);
    sleep(Duration::from_secs(60)).await;
    connect(&running, &new.0, &[]).await.expect("the new pair is served");
    end(running).await;
}

#[tokio::test]
async fn keys_of_every_usual_kind_and_form_serve() {
    let mut rows = vec![("RSA, PKCS #1", RSA_CERTIFICATE.to_owned(), RSA_KEY.to_owned())];
    for (kind, algorithm) in
        [("P-256", &PKCS_ECDSA_P256_SHA256), ("P-384", &PKCS_ECDSA_P384_SHA384), ("Ed25519", &PKCS_ED25519)]
    {
        let (certificate, key) = pair(&KeyPair::generate_for(algorithm).unwrap());
        rows.push((kind, certificate, key));
    }
    rows.push((
        "P-256, SEC 1",
        include_str!("testdata/sec1.crt").to_owned(),
        include_str!("testdata/sec1.key").to_owned(),
    ));
    let (certificate, key) = new_pair();
    rows.push(("a chain", format!("{certificate}{}", new_pair().0), key));
    for (kind, certificate, key) in rows {
        let files = Files::new();
        files.write(&certificate, &key);
        let running = run(&Fixture::new(), &files).await;
        connect(&running, &certificate, &["http/1.1"]).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        end(running).await;
    }
}

#[tokio::test]
async fn wrong_files_are_refused_with_file_and_remedy() {
    let (certificate, key) = new_pair();
    let other = new_pair().1;
    let broken = certificate.replacen("MII", "AII", 1);
    let garbled = certificate.lines().enumerate().map(|(line, text)| if line == 1 { "*" } else { text });
    let garbled = garbled.collect::<Vec<_>>().join("\n");
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let no_key = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
    for (case, certificate, key, expected) in [
        (
            "the key twice",
            &*key,
            &*key,
            "--tls-cert-file CRT has no certificate: it must be PEM with BEGIN CERTIFICATE",
        ),
        ("an empty file", "", &*key, "--tls-cert-file CRT has no certificate: it must be PEM with BEGIN CERTIFICATE"),
        ("no DER", &*broken, &*key, "--tls-cert-file CRT has a certificate that cannot be parsed ("),
        ("no base 64", &*garbled, &*key, "--tls-cert-file CRT has a certificate that cannot be parsed ("),
        (
            "the certificate twice",
            &*certificate,
            &*certificate,
            "--tls-private-key-file KEY has no private key: it must",
        ),
        ("an encrypted key", &*certificate, &*encrypted, "--tls-private-key-file KEY has no private key: it must"),
        ("a key that is none", &*certificate, no_key, "--tls-private-key-file KEY has a key that cannot be used ("),
        (
            "another's key",
            &*certificate,
            &*other,
            "the key in --tls-private-key-file KEY does not belong to the first certificate in --tls-cert-file CRT: use",
        ),
    ] {
        let files = Files::new();
        files.write(certificate, key);
        let error = files.open().await.err().unwrap_or_else(|| panic!("{case} was taken"));
        let name = |file: &PathBuf| file.display().to_string();
        let text =
            error.to_string().replace(&name(&files.files.certificate), "CRT").replace(&name(&files.files.key), "KEY");
        assert!(text.starts_with(expected), "{case}: {text}");
    }
    let files = Files::new();
    let error = files.open().await.err().unwrap().to_string();
    assert!(error.starts_with("--tls-cert-file ") && error.contains("tls.crt cannot be read (No such file"), "{error}");
    std::fs::write(&files.files.certificate, &certificate).unwrap();
    let error = files.open().await.err().unwrap().to_string();
    assert!(
        error.starts_with("--tls-private-key-file ") && error.contains("tls.key cannot be read (No such file"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn only_the_peer_without_a_handshake_loses_its_connection() {
    let fixture = Fixture::new();
    let files = Files::new();
    let (certificate, key) = new_pair();
    files.write(&certificate, &key);
    let running = run(&fixture, &files).await;

    let mut plain = TcpStream::connect(running.address).await.unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // What the server did not read may make the end a reset, after its words.
    let _ = plain.read_to_end(&mut answer).await;
    let expected = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    assert_eq!(String::from_utf8(answer).unwrap(), expected);

    let mut silent = TcpStream::connect(running.address).await.unwrap();
    let started = Instant::now();
    let mut nothing = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(60), silent.read_to_end(&mut nothing)).await;
    assert!(ended.is_ok() && nothing.is_empty(), "still open after a minute, or received something");
    assert!(started.elapsed() >= Duration::from_secs(10), "a slow client has its ten seconds");

    let waiting = TcpStream::connect(running.address).await.unwrap();
    connect(&running, &certificate, &["http/1.1"]).await.expect("others are served");
    let started = Instant::now();
    end(running).await;
    assert!(started.elapsed() < Duration::from_secs(5), "the end does not wait for handshakes");
    drop(waiting);
}
