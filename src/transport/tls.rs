//! TLS of the listener: a certificate and its key from files, loaded again when the files are replaced.
//!
//! TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1 by ALPN, with the provider that the client of the source uses as well. Whether
//! clients show certificates is the caller's to say, by a verifier: `serve` has none, the operator has its own. Sockets
//! are in `listen`; later modules decide which user a client is and what it may do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, InconsistentKeys, ServerConfig};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Encrypted bytes that a connection holds while its socket takes none: two records. They are not counted as unread bytes.
const UNSENT: usize = 32 << 10;

/// How long a handshake may take; Go's clients give up after as long.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the files are checked: certificates are replaced hours before they end.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The response of Go's server to a client that uses plain HTTP.
const PLAIN_HTTP: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Where a certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// PEM: the server's certificate, then those that lead from it to its authority, if any.
    pub certificate: PathBuf,
    /// PEM: the private key of the first certificate; PKCS #8, SEC 1 or PKCS #1, not encrypted.
    pub key: PathBuf,
}

/// Which of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The certificate.
    Certificate,
    /// The key.
    Key,
}

/// Displays its command line option, which is where the user corrects it.
impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Part::Certificate => "--tls-cert-file",
            Part::Key => "--tls-private-key-file",
        })
    }
}

/// Why two files are no certificate with its key; Display names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// It is missing, or may not be read.
    #[error("{part} {} cannot be read ({source}): use an existing file that this user can read", file.display())]
    Unreadable {
        /// The part.
        part: Part,
        /// Its name.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Nothing in it looks like a certificate.
    #[error("--tls-cert-file {} has no certificate: it must be PEM with BEGIN CERTIFICATE", .0.display())]
    NoCertificate(PathBuf),
    /// A certificate in it is broken.
    #[error("--tls-cert-file {} has a certificate that cannot be parsed ({problem}): issue it again", file.display())]
    BadCertificate {
        /// The file.
        file: PathBuf,
        /// The error of the library.
        problem: String,
    },
    /// Nothing in it looks like a key.
    #[error(
        "--tls-private-key-file {} has no private key: it must be PEM with BEGIN PRIVATE KEY, EC PRIVATE KEY or RSA PRIVATE KEY, not encrypted",
        .0.display()
    )]
    NoKey(PathBuf),
    /// A key that cannot sign.
    #[error(
        "--tls-private-key-file {} has a key that cannot be used ({problem}): use an ECDSA key on P-256 or P-384, RSA of 2048 bits or more, or Ed25519",
        file.display()
    )]
    BadKey {
        /// The file.
        file: PathBuf,
        /// The error of the library.
        problem: String,
    },
    /// Two halves of different pairs.
    #[error(
        "the key in --tls-private-key-file {} does not belong to the first certificate in --tls-cert-file {}: use the two files of one pair; the server's certificate comes before its issuers",
        .0.key.display(),
        .0.certificate.display()
    )]
    Mismatch(CertificateFiles),
    /// The library refuses its own defaults.
    #[error("TLS cannot be set up: {0}")]
    Unsupported(#[source] rustls::Error),
}

/// The server's side of TLS.
#[derive(Debug)]
pub struct Tls {
    /// The files that are loaded again; `None` if the certificate does not come from files.
    files: Option<CertificateFiles>,
    /// The files as they were just before they were first read.
    opened: Stamps,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
    requests_client_certificates: bool,
}

/// Replaces the certificate of a server that has it from no file.
#[derive(Clone, Debug)]
pub struct Replacer(Arc<Current>);

/// The certificate in use.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

/// What identifies a replaced file: its modification time and its size. `None`: it does not exist.
type Stamp = Option<(SystemTime, u64)>;
type Stamps = (Stamp, Stamp);

impl Tls {
    /// Reads the files. `clients` decides whether clients need certificates, and which.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub async fn open(files: CertificateFiles, clients: Arc<dyn ClientCertVerifier>) -> Result<Tls, TlsError> {
        let opened = stamps(&files).await;
        let first = read(&files, &provider()).await?;
        Tls::with(Some(files), opened, first, clients)
    }

    /// Serves with this certificate until it is replaced: a certificate with those that lead to its authority, and
    /// its key, PEM.
    ///
    /// # Errors
    /// [`TlsError`], which names the file `(in memory)`.
    pub fn in_memory(
        certificate: &str,
        key: &str,
        clients: Arc<dyn ClientCertVerifier>,
    ) -> Result<(Tls, Replacer), TlsError> {
        let first = pair(&in_memory(), certificate.as_bytes(), key.as_bytes(), &provider())?;
        let tls = Tls::with(None, Stamps::default(), first, clients)?;
        let replacer = Replacer(tls.current.clone());
        Ok((tls, replacer))
    }

    /// A configuration that serves the current certificate.
    fn with(
        files: Option<CertificateFiles>,
        opened: Stamps,
        first: Arc<CertifiedKey>,
        clients: Arc<dyn ClientCertVerifier>,
    ) -> Result<Tls, TlsError> {
        let requests_certificates = clients.offer_client_auth();
        let current = Arc::new(Current(RwLock::new(first)));
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unsupported)?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Some clients name the dearer AES-256 first, which protects nothing here better; Go's server prefers AES-128 too.
        config.ignore_client_order = true;
        Ok(Tls {
            files,
            opened,
            current,
            config: Arc::new(config),
            requests_client_certificates: requests_certificates,
        })
    }

    /// Shares the certificate with another listener. One [`Tls::follow`] is enough for both.
    #[must_use]
    pub fn shared(&self) -> Tls {
        Tls {
            files: None,
            opened: Stamps::default(),
            current: self.current.clone(),
            config: self.config.clone(),
            requests_client_certificates: self.requests_client_certificates,
        }
    }

    /// The current certificate of the server.
    pub fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.current.0.read().unwrap_or_else(PoisonError::into_inner).cert.first().cloned()
    }

    /// Whether the server requests a certificate from clients.
    pub(crate) fn requests_client_certificates(&self) -> bool {
        self.requests_client_certificates
    }

    /// Shakes hands within ten seconds. A failure ends this connection only, and is logged at level debug.
    pub(crate) async fn accept(&self, mut stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let handshake = async {
            let mut first = [0];
            stream.peek(&mut first).await?;
            // TLS begins with the byte 22. What begins with a letter is HTTP in the clear.
            if first[0].is_ascii_uppercase() {
                stream.write_all(PLAIN_HTTP).await?;
                return Err(io::Error::other("the client speaks plain HTTP"));
            }
            TlsAcceptor::from(self.config.clone()).accept(stream).await
        };
        match timeout(HANDSHAKE_TIMEOUT, handshake).await.unwrap_or_else(|elapsed| Err(elapsed.into())) {
            Ok(mut stream) => {
                stream.get_mut().1.set_buffer_limit(Some(UNSENT));
                Some(stream)
            }
            Err(error) => {
                tracing::debug!(%error, "TLS handshake failed");
                None
            }
        }
    }

    /// Loads the files again whenever they change. An unusable certificate is logged, and the previous one stays in
    /// use.
    pub(crate) async fn follow(&self) -> ! {
        let files = match &self.files {
            Some(files) => files,
            None => std::future::pending::<&CertificateFiles>().await,
        };
        let mut seen = self.opened;
        let provider = provider();
        loop {
            sleep(LOOK_EVERY).await;
            let now = stamps(files).await;
            if now == seen {
                continue;
            }
            seen = now;
            match read(files, &provider).await {
                Ok(key) => {
                    self.current.replace(key);
                    tracing::info!(file = %files.certificate.display(), "serving with the new certificate");
                }
                // Also between the two replacements of a pair; the next look finds the other file changed.
                Err(error) => {
                    tracing::warn!(%error, "the new certificate cannot be used, keeping the old one")
                }
            }
        }
    }
}

impl Current {
    /// Replaces the certificate for new connections.
    fn replace(&self, key: Arc<CertifiedKey>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = key;
    }
}

impl Replacer {
    /// Serves new connections with another certificate.
    ///
    /// # Errors
    /// [`TlsError`]; then the one before it stays.
    pub fn replace(&self, certificate: &str, key: &str) -> Result<(), TlsError> {
        self.0.replace(pair(&in_memory(), certificate.as_bytes(), key.as_bytes(), &provider())?);
        Ok(())
    }
}

/// Names for errors about a certificate that is not in files.
fn in_memory() -> CertificateFiles {
    CertificateFiles { certificate: "(in memory)".into(), key: "(in memory)".into() }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// A verifier that requests no client certificates.
pub fn no_client_certificates() -> Arc<dyn ClientCertVerifier> {
    WebPkiClientVerifier::no_client_auth()
}

/// The cryptography. It is named, because a dependency may set the process-wide default. AES-128 comes first in each
/// version.
fn provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| {
        let is_cheap = matches!(
            suite.suite(),
            CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        );
        (suite.tls13().is_none(), !is_cheap)
    });
    provider
}

/// Reads and checks certificate and key.
async fn read(files: &CertificateFiles, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = read_file(Part::Certificate, &files.certificate).await?;
    // In this order, since a user corrects the first wrong one first.
    read_chain(files, &chain)?;
    let key = read_file(Part::Key, &files.key).await?;
    pair(files, &chain, &key, provider)
}

/// Parses a certificate chain.
fn read_chain(files: &CertificateFiles, chain: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bad_certificate = |problem: String| TlsError::BadCertificate { file: files.certificate.clone(), problem };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| bad_certificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(files.certificate.clone()));
    }
    Ok(chain)
}

/// A certificate chain with its key, which must match.
fn pair(
    files: &CertificateFiles,
    chain: &[u8],
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = read_chain(files, chain)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey(files.key.clone()))?;
    let key = provider
        .key_provider
        .load_private_key(key)
        .map_err(|error| TlsError::BadKey { file: files.key.clone(), problem: error.to_string() })?;
    let pair = CertifiedKey::new(chain, key);
    match pair.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(Arc::new(pair)),
        Err(rustls::Error::InconsistentKeys(_)) => Err(TlsError::Mismatch(files.clone())),
        Err(error) => Err(TlsError::BadCertificate { file: files.certificate.clone(), problem: error.to_string() }),
    }
}

async fn read_file(part: Part, file: &Path) -> Result<Vec<u8>, TlsError> {
    tokio::fs::read(file).await.map_err(|source| TlsError::Unreadable { part, file: file.to_owned(), source })
}

/// Modification times and lengths of both files.
async fn stamps(files: &CertificateFiles) -> Stamps {
    (stamp(&files.certificate).await, stamp(&files.key).await)
}

/// Modification time and length of a file.
async fn stamp(file: &Path) -> Stamp {
    let metadata = tokio::fs::metadata(file).await.ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
