//! TLS of the listener: a certificate and its key from files, loaded again when the files are replaced.
//!
//! Supports TLS 1.2 and 1.3, and HTTP/2 and HTTP/1.1 by ALPN, with the same cryptography as the client of the source.
//! The caller passes a verifier, which decides whether clients need certificates. `listen` has the sockets. Other
//! modules authenticate and authorize clients.

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

/// The maximum encrypted bytes that a connection buffers while its socket is full: two records. No limit counts them
/// as unread bytes.
const UNSENT: usize = 32 << 10;

/// The timeout of a handshake, which is that of Go's clients.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the files are checked for changes. Certificates are replaced hours before they expire.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The response of Go's server to a client that uses plain HTTP.
const PLAIN_HTTP: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// The files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// PEM: the server's certificate, then the intermediate certificates up to its CA, if any.
    pub certificate: PathBuf,
    /// PEM: the private key of the first certificate; PKCS #8, SEC 1 or PKCS #1, not encrypted.
    pub key: PathBuf,
}

/// One of the two files of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The certificate.
    Certificate,
    /// The key.
    Key,
}

/// Displays the command line option that sets the file.
impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Part::Certificate => "--tls-cert-file",
            Part::Key => "--tls-private-key-file",
        })
    }
}

/// Why a certificate and a key cannot be used. Each message contains the remedy.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file is missing, or cannot be read.
    #[error("{part} {} cannot be read ({source}): use an existing file that this user can read", file.display())]
    Unreadable {
        /// Which file.
        part: Part,
        /// The path of the file.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file has no certificate in PEM.
    #[error("--tls-cert-file {} has no certificate: it must be PEM with BEGIN CERTIFICATE", .0.display())]
    NoCertificate(PathBuf),
    /// A certificate in the file cannot be parsed, or cannot be used with the key.
    #[error("--tls-cert-file {} has a certificate that cannot be parsed ({problem}): issue it again", file.display())]
    BadCertificate {
        /// The file.
        file: PathBuf,
        /// The error of the library.
        problem: String,
    },
    /// The file has no private key in PEM.
    #[error(
        "--tls-private-key-file {} has no private key: it must be PEM with BEGIN PRIVATE KEY, EC PRIVATE KEY or RSA PRIVATE KEY, not encrypted",
        .0.display()
    )]
    NoKey(PathBuf),
    /// The key is of a kind or size that is not supported.
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
    /// The certificate and the key do not belong together.
    #[error(
        "the key in --tls-private-key-file {} does not belong to the first certificate in --tls-cert-file {}: use the two files of one pair; the server's certificate comes before its issuers",
        .0.key.display(),
        .0.certificate.display()
    )]
    Mismatch(CertificateFiles),
    /// The TLS library rejects its own default configuration.
    #[error("TLS cannot be set up: {0}")]
    Unsupported(#[source] rustls::Error),
}

/// The server's side of TLS.
#[derive(Debug)]
pub struct Tls {
    /// The files that are loaded again; `None` if the certificate does not come from files.
    files: Option<CertificateFiles>,
    /// What identified the files just before they were first read.
    opened: Stamps,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
}

/// Replaces the certificate of a server whose certificate does not come from files.
#[derive(Clone, Debug)]
pub struct Replacer(Arc<Current>);

/// The certificate in use.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

/// The modification time and the size of a file, which change when it is replaced. `None`: the file cannot be read.
type Stamp = Option<(SystemTime, u64)>;
/// The stamps of the certificate file and the key file.
type Stamps = (Stamp, Stamp);

impl Tls {
    /// Loads a certificate from files. `clients` decides whether clients need certificates, and verifies these.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub async fn open(files: CertificateFiles, clients: Arc<dyn ClientCertVerifier>) -> Result<Tls, TlsError> {
        // Before the files are read, so that `follow` notices a change during that.
        let opened = stamps(&files).await;
        let first = load(&files, &provider()).await?;
        Tls::with_certificate(Some(files), opened, first, clients)
    }

    /// Serves with a certificate that is not in files, until the returned [`Replacer`] replaces it. `certificate`:
    /// PEM, with the intermediate certificates up to its CA; `key`: PEM; `clients`: as in [`Tls::open`].
    ///
    /// # Errors
    /// [`TlsError`], which names the file `(in memory)`.
    pub fn in_memory(
        certificate: &str,
        key: &str,
        clients: Arc<dyn ClientCertVerifier>,
    ) -> Result<(Tls, Replacer), TlsError> {
        let first = parse_pair(&in_memory_names(), certificate.as_bytes(), key.as_bytes(), &provider())?;
        let tls = Tls::with_certificate(None, Stamps::default(), first, clients)?;
        let replacer = Replacer(tls.current.clone());
        Ok((tls, replacer))
    }

    /// The configuration of a server that begins with the certificate `first`. `files`, `opened`: as in the fields of
    /// [`Tls`]; `clients`: as in [`Tls::open`].
    ///
    /// # Errors
    /// [`TlsError::Unsupported`].
    fn with_certificate(
        files: Option<CertificateFiles>,
        opened: Stamps,
        first: Arc<CertifiedKey>,
        clients: Arc<dyn ClientCertVerifier>,
    ) -> Result<Tls, TlsError> {
        let current = Arc::new(Current(RwLock::new(first)));
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unsupported)?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Some clients prefer AES-256, which costs more CPU without a benefit here. Go's server prefers AES-128 too.
        config.ignore_client_order = true;
        Ok(Tls { files, opened, current, config: Arc::new(config) })
    }

    /// The same configuration for another listener. Only the original reloads files, for both listeners: see
    /// [`Tls::follow`].
    #[must_use]
    pub fn shared(&self) -> Tls {
        Tls { files: None, opened: Stamps::default(), current: self.current.clone(), config: self.config.clone() }
    }

    /// The current certificate of the server, without its issuers. Never `None`, because an empty file is not loaded.
    pub fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.current.0.read().unwrap_or_else(PoisonError::into_inner).cert.first().cloned()
    }

    /// Performs the handshake within [`HANDSHAKE_TIMEOUT`]. `None` after a failure, which is logged at level debug; the
    /// connection is then closed. A client that uses plain HTTP gets a response that says so.
    pub(crate) async fn accept(&self, mut stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let handshake = async {
            let mut first = [0];
            stream.peek(&mut first).await?;
            // TLS begins with the byte 22. A letter is the beginning of plain HTTP.
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

    /// Reloads the files whenever they change, forever. If the new certificate cannot be used, this logs a warning,
    /// and the previous one stays in use.
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
            match load(files, &provider).await {
                Ok(key) => {
                    self.current.replace(key);
                    tracing::info!(file = %files.certificate.display(), "serving with the new certificate");
                }
                // This also happens if only one file of a pair has been replaced. The next check finds the other one
                // changed.
                Err(error) => {
                    tracing::warn!(%error, "the new certificate cannot be used, keeping the old one")
                }
            }
        }
    }
}

impl Current {
    /// Uses another certificate for new connections.
    fn replace(&self, key: Arc<CertifiedKey>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = key;
    }
}

impl Replacer {
    /// Uses another certificate for new connections. `certificate`, `key`: as in [`Tls::in_memory`].
    ///
    /// # Errors
    /// [`TlsError`]; the previous certificate stays in use.
    pub fn replace(&self, certificate: &str, key: &str) -> Result<(), TlsError> {
        self.0.replace(parse_pair(&in_memory_names(), certificate.as_bytes(), key.as_bytes(), &provider())?);
        Ok(())
    }
}

/// The file names in errors about a certificate that is not in files.
fn in_memory_names() -> CertificateFiles {
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

/// The cryptography library, with AES-128 as the first choice of each TLS version. It is passed explicitly, because a
/// dependency may change the default of the process.
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

/// Reads and checks the files of a certificate and its key.
async fn load(files: &CertificateFiles, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = read_file(Part::Certificate, &files.certificate).await?;
    // The certificate is checked before the key is read, so its error comes first.
    parse_chain(files, &chain)?;
    let key = read_file(Part::Key, &files.key).await?;
    parse_pair(files, &chain, &key, provider)
}

/// Parses a certificate chain from PEM. `files`: for errors.
fn parse_chain(files: &CertificateFiles, chain: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bad_certificate = |problem: String| TlsError::BadCertificate { file: files.certificate.clone(), problem };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| bad_certificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(files.certificate.clone()));
    }
    Ok(chain)
}

/// Parses a certificate chain and its key from PEM, and checks that they belong together. `files`: for errors.
fn parse_pair(
    files: &CertificateFiles,
    chain: &[u8],
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = parse_chain(files, chain)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey(files.key.clone()))?;
    let key = provider
        .key_provider
        .load_private_key(key)
        .map_err(|error| TlsError::BadKey { file: files.key.clone(), problem: error.to_string() })?;
    let pair = CertifiedKey::new(chain, key);
    match pair.keys_match() {
        // Unknown: the library cannot compare keys of this kind.
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(Arc::new(pair)),
        Err(rustls::Error::InconsistentKeys(_)) => Err(TlsError::Mismatch(files.clone())),
        Err(error) => Err(TlsError::BadCertificate { file: files.certificate.clone(), problem: error.to_string() }),
    }
}

/// Reads a file. `part`: which one it is, for the error.
async fn read_file(part: Part, file: &Path) -> Result<Vec<u8>, TlsError> {
    tokio::fs::read(file).await.map_err(|source| TlsError::Unreadable { part, file: file.to_owned(), source })
}

/// The current stamps of both files.
async fn stamps(files: &CertificateFiles) -> Stamps {
    (stamp(&files.certificate).await, stamp(&files.key).await)
}

/// The current stamp of a file.
async fn stamp(file: &Path) -> Stamp {
    let metadata = tokio::fs::metadata(file).await.ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
