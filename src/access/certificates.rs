//! Client certificates: asked for but not needed, proven in the handshake, judged with the request.
//!
//! As kube-apiserver does it: TLS takes whatever certificate a client shows, if the client proves that it has the key
//! ([`DeferredClientVerifier`]), and the request is then held against the authorities of that moment ([`CertificateAuthorities`]; apiserver
//! `authentication/request/x509`). So authorities can change while connections live, and a certificate that nobody knows
//! harms nobody who has a token. Chains are checked by webpki; ECDSA on P-521 and RSA below 2048 bits, which Go would take, are not known to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::identity::Identity;

/// Under this key kube-apiserver tells which certificate a user came with.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// `.1.3.6.1.4.1.57683.2`, a user's uid in the subject (apimachinery `apis/asn1`).
const UID: &str = "1.3.6.1.4.1.57683.2";

const COMMON_NAME: &str = "2.5.4.3";
const ORGANIZATION: &str = "2.5.4.10";

/// Takes every certificate whose key the client has; who signed it is asked later.
#[derive(Debug)]
pub struct DeferredClientVerifier {
    algorithms: WebPkiSupportedAlgorithms,
}

impl DeferredClientVerifier {
    /// For a listener.
    pub fn verifier() -> Arc<dyn ClientCertVerifier> {
        Arc::new(DeferredClientVerifier { algorithms: ring::default_provider().signature_verification_algorithms })
    }
}

/// Most intermediate certificates of a client. The search for a path to an authority tries their combinations, and reads each
/// certificate again at every step: with a thousand of them it takes seconds, for a client that has authenticated nothing.
pub const MOST_INTERMEDIATES: usize = 4;

/// Most bytes of the certificates of a client.
pub const LONGEST_CHAIN: usize = 16 << 10;

impl ClientCertVerifier for DeferredClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// None: clients then show what they have. The authorities change, and these cannot.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let bytes = own.len() + intermediates.iter().map(|certificate| certificate.len()).sum::<usize>();
        if intermediates.len() > MOST_INTERMEDIATES || bytes > LONGEST_CHAIN {
            return Err(Error::General(format!(
                "the client sent {} intermediate certificates and {bytes} bytes of certificates; at most {MOST_INTERMEDIATES} and \
                 {LONGEST_CHAIN} are accepted",
                intermediates.len()
            )));
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Authorities that sign client certificates.
#[derive(Clone, Debug)]
pub struct CertificateAuthorities {
    provider: Arc<CryptoProvider>,
    anchors: Vec<TrustAnchor>,
    /// Of all anchors, for as long as none has expired.
    verifier: Arc<dyn ClientCertVerifier>,
}

#[derive(Clone, Debug)]
struct TrustAnchor {
    certificate: CertificateDer<'static>,
    /// Seconds since 1970, first and last.
    valid: (i64, i64),
}

/// Why a text holds no authorities.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateAuthoritiesError {
    /// There is no certificate in it.
    #[error("it holds no certificate")]
    Empty,
    /// One in it cannot be read.
    #[error("certificate {number} of it cannot be read: {problem}")]
    Broken {
        /// Which, from 1.
        number: usize,
        /// What the library said.
        problem: String,
    },
}

impl CertificateAuthorities {
    /// Reads PEM.
    ///
    /// # Errors
    /// [`CertificateAuthoritiesError`]. One broken certificate spoils the others: half a bundle would let in half of those who may.
    pub fn read(pem: &str) -> Result<CertificateAuthorities, CertificateAuthoritiesError> {
        let mut anchors = Vec::new();
        for (index, certificate) in CertificateDer::pem_slice_iter(pem.as_bytes()).enumerate() {
            let broken = |problem: String| CertificateAuthoritiesError::Broken { number: index + 1, problem };
            let certificate = certificate.map_err(|error| broken(error.to_string()))?;
            let (_, parsed) = X509Certificate::from_der(&certificate).map_err(|error| broken(error.to_string()))?;
            let validity = parsed.validity();
            let valid = (validity.not_before.timestamp(), validity.not_after.timestamp());
            anchors.push(TrustAnchor { certificate, valid });
        }
        if anchors.is_empty() {
            return Err(CertificateAuthoritiesError::Empty);
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = verifier(&provider, &anchors)
            .map_err(|problem| CertificateAuthoritiesError::Broken { number: anchors.len(), problem })?;
        Ok(CertificateAuthorities { provider, anchors, verifier })
    }

    /// Checks that a chain, the client's own certificate first, leads to one of these, for a client, now.
    ///
    /// # Errors
    /// What is wrong, in the library's words.
    pub fn check(&self, chain: &[CertificateDer<'static>], now: UnixTime) -> Result<(), String> {
        let Some((own, between)) = chain.split_first() else { return Err("no certificate".to_owned()) };
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let is_valid = |anchor: &&TrustAnchor| (anchor.valid.0..=anchor.valid.1).contains(&seconds);
        // Go asks for the authority's own days as well, which webpki does not look at.
        let verifier = if self.anchors.iter().all(|anchor| is_valid(&anchor)) {
            self.verifier.clone()
        } else {
            let valid: Vec<TrustAnchor> = self.anchors.iter().filter(is_valid).cloned().collect();
            verifier(&self.provider, &valid)?
        };
        verifier.verify_client_cert(own, between, now).map(|_| ()).map_err(|error| error.to_string())
    }
}

fn verifier(provider: &Arc<CryptoProvider>, anchors: &[TrustAnchor]) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for anchor in anchors {
        roots.add(anchor.certificate.clone()).map_err(|error| error.to_string())?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    builder.build().map_err(|error| error.to_string())
}

/// Whom a certificate names. Says nothing about whether that is so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSubject {
    /// The last of its common names; empty for none.
    pub common_name: String,
    /// All organizations, in their order.
    pub organizations: Vec<String>,
    /// Kubernetes' own attribute for a uid; more than one, or an empty one, is no user.
    pub uids: Vec<String>,
    /// The end of its validity, in seconds since 1970.
    pub not_after: i64,
}

impl CertificateSubject {
    /// Reads a certificate.
    ///
    /// # Errors
    /// What the library said. A name in a kind of text that is not read, such as a T61String: to Go it is a name, and to skip it could
    /// leave another one in its place.
    pub fn read(certificate: &CertificateDer<'_>) -> Result<CertificateSubject, String> {
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
        let mut subject = CertificateSubject {
            common_name: String::new(),
            organizations: Vec::new(),
            uids: Vec::new(),
            not_after: parsed.validity().not_after.timestamp(),
        };
        for attribute in parsed.subject().iter_attributes() {
            let kind = attribute.attr_type().to_id_string();
            if ![COMMON_NAME, ORGANIZATION, UID].contains(&&*kind) {
                continue;
            }
            let text = attribute.as_str().map_err(|_| {
                format!("its subject has an attribute {kind} that is not a UTF8String, PrintableString, IA5String or NumericString")
            })?;
            match &*kind {
                COMMON_NAME => text.clone_into(&mut subject.common_name),
                ORGANIZATION => subject.organizations.push(text.to_owned()),
                _ => subject.uids.push(text.to_owned()),
            }
        }
        Ok(subject)
    }

    /// The user that a certificate stands for; `None` when it names nobody.
    ///
    /// # Errors
    /// For a subject with several uids, or an empty one.
    pub fn identity(&self, certificate: &CertificateDer<'_>) -> Result<Option<Identity>, String> {
        if self.common_name.is_empty() {
            return Ok(None);
        }
        let uid = match &self.uids[..] {
            [] => "",
            [uid] if !uid.is_empty() => uid,
            [_] => return Err("the uid in its subject is empty".to_owned()),
            _ => return Err("its subject has several uids".to_owned()),
        };
        let digest: String = Sha256::digest(certificate).iter().map(|byte| format!("{byte:02x}")).collect();
        let extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={digest}")])]);
        let identity =
            Identity { user: self.common_name.clone(), uid: uid.to_owned(), groups: self.organizations.clone(), extra };
        Ok(Some(identity.authenticated()))
    }
}
