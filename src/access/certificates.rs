//! Client certificates: optional, with proof of the key in the TLS handshake, and verified against authorities with each request.
//!
//! As in kube-apiserver, TLS accepts every certificate whose key the client has ([`DeferredClientVerifier`]). Each request is then verified
//! against the current authorities ([`CertificateAuthorities`]; apiserver `authentication/request/x509`). Authorities can therefore change
//! while connections are open, and an unknown certificate does not prevent authentication by token. webpki verifies chains. Unlike Go, it
//! does not support ECDSA on P-521 and RSA below 2048 bits.

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

/// The key of extra under which kube-apiserver reports the certificate of a user.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// `.1.3.6.1.4.1.57683.2`, a user's uid in the subject (apimachinery `apis/asn1`).
const UID: &str = "1.3.6.1.4.1.57683.2";

const COMMON_NAME: &str = "2.5.4.3";
const ORGANIZATION: &str = "2.5.4.10";

/// Accepts every certificate whose key the client has. Its authority is verified with each request.
#[derive(Debug)]
pub struct DeferredClientVerifier {
    algorithms: WebPkiSupportedAlgorithms,
}

impl DeferredClientVerifier {
    /// The verifier of a listener.
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

    /// None: clients then send the certificate that they have. Authorities change, and these hints cannot.
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
    /// The verifier of all anchors, used while none has expired.
    verifier: Arc<dyn ClientCertVerifier>,
}

#[derive(Clone, Debug)]
struct TrustAnchor {
    certificate: CertificateDer<'static>,
    /// The first and the last second of its validity, since 1970.
    valid: (i64, i64),
}

/// Why a bundle of authorities is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateAuthoritiesError {
    /// The bundle has no certificate.
    #[error("it has no certificate")]
    Empty,
    /// A certificate cannot be read.
    #[error("its certificate {number} cannot be read: {problem}")]
    Broken {
        /// Its position, from 1.
        number: usize,
        /// The error of the library.
        problem: String,
    },
}

impl CertificateAuthorities {
    /// Reads PEM.
    ///
    /// # Errors
    /// [`CertificateAuthoritiesError`]. One invalid certificate makes the whole bundle invalid, since a part of it would authenticate only some users.
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

    /// Checks that a chain, the client's own certificate first, leads to one of these authorities and is valid for a client now.
    ///
    /// # Errors
    /// The error of the library.
    pub fn check(&self, chain: &[CertificateDer<'static>], now: UnixTime) -> Result<(), String> {
        let Some((own, between)) = chain.split_first() else { return Err("no certificate".to_owned()) };
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let is_valid = |anchor: &&TrustAnchor| (anchor.valid.0..=anchor.valid.1).contains(&seconds);
        // Go checks the validity of the authority too, which webpki does not.
        let verifier = if self.anchors.iter().all(|anchor| is_valid(&anchor)) {
            self.verifier.clone()
        } else {
            let valid: Vec<TrustAnchor> = self.anchors.iter().filter(is_valid).cloned().collect();
            verifier(&self.provider, &valid)?
        };
        verifier.verify_client_cert(own, between, now).map(|_| ()).map_err(|error| error.to_string())
    }
}

/// A verifier of client certificates that trusts these anchors.
fn verifier(provider: &Arc<CryptoProvider>, anchors: &[TrustAnchor]) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for anchor in anchors {
        roots.add(anchor.certificate.clone()).map_err(|error| error.to_string())?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    builder.build().map_err(|error| error.to_string())
}

/// The subject of a certificate. It is not verified here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSubject {
    /// The last of its common names; empty if it has none.
    pub common_name: String,
    /// All organizations, in their order.
    pub organizations: Vec<String>,
    /// Kubernetes' attribute for a uid. With several uids, or an empty one, the certificate authenticates no user.
    pub uids: Vec<String>,
    /// The end of its validity, in seconds since 1970.
    pub not_after: i64,
}

impl CertificateSubject {
    /// Reads the subject of a certificate.
    ///
    /// # Errors
    /// The error of the library; or a name has a string type that is not supported, such as T61String. Go reads such a name, so to skip it
    /// could put another name in its place.
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

    /// The user of the certificate; `None` without a common name.
    ///
    /// # Errors
    /// If the subject has several uids, or an empty one.
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
