//! Client certificates: optional, with proof of the key in the TLS handshake, and verified against authorities with
//! each request.
//!
//! As in kube-apiserver, TLS accepts every certificate whose key the client has ([`DeferredClientVerifier`]). Each
//! request is then verified against the current authorities ([`CertificateAuthorities`]; apiserver
//! `authentication/request/x509`). Authorities can therefore change while connections are open, and an unknown
//! certificate does not prevent authentication by token. webpki verifies chains; what Go requires of their issuers
//! beyond that is in [`IssuerRules`]. Unlike Go, webpki does not support ECDSA on P-521 and RSA below 2048 bits.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use sha2::{Digest, Sha256};
use webpki::{EndEntityCert, KeyUsage, VerifiedPath, anchor_from_trusted_cert};
use x509_parser::prelude::{FromDer, X509Certificate, X509Error, X509Version};

use super::identity::Identity;

/// The key in `extra` of a user under which kube-apiserver reports the certificate.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// `.1.3.6.1.4.1.57683.2`, a user's uid in the subject (apimachinery `apis/asn1`).
const UID: &str = "1.3.6.1.4.1.57683.2";

const COMMON_NAME: &str = "2.5.4.3";
const ORGANIZATION: &str = "2.5.4.10";

/// Accepts every certificate whose key the client has. Whether it leads to an authority is verified with each request.
#[derive(Debug)]
pub struct DeferredClientVerifier {
    algorithms: WebPkiSupportedAlgorithms,
}

impl DeferredClientVerifier {
    /// The verifier for the TLS listener.
    pub fn verifier() -> Arc<dyn ClientCertVerifier> {
        Arc::new(DeferredClientVerifier { algorithms: ring::default_provider().signature_verification_algorithms })
    }
}

/// Most intermediate certificates of a client. The search for a path to an authority tries their combinations, and
/// reads each certificate again at every step. With a thousand of them it takes seconds, for a client that has not
/// authenticated.
pub const MOST_INTERMEDIATES: usize = 4;

/// Most bytes of the certificates of a client.
pub const LONGEST_CHAIN: usize = 16 << 10;

impl ClientCertVerifier for DeferredClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// No hints: clients then send the certificate that they have. The hints of a listener are fixed, but the
    /// authorities can change.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    /// Checks only the number and the length of the certificates; see [`DeferredClientVerifier`].
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
    algorithms: WebPkiSupportedAlgorithms,
    anchors: Vec<TrustAnchor<'static>>,
    /// The validity and the rules of each anchor, in the same order.
    authorities: Vec<Authority>,
}

/// The parts of an authority's certificate that webpki does not check.
#[derive(Clone, Debug)]
struct Authority {
    /// The first and the last second of its validity, since 1970.
    valid: (i64, i64),
    rules: IssuerRules,
}

/// What a certificate may issue, by Go's rules (`crypto/x509`, CheckSignatureFrom, isValid and checkChainForKeyUsage).
/// webpki does not check the key usage of issuers, and of an authority it checks only the name and the key.
#[derive(Clone, Copy, Debug)]
struct IssuerRules {
    /// It may sign certificates.
    signs: bool,
    /// The certificates below it may be those of clients.
    for_clients: bool,
    /// The most intermediate certificates below it; `None`: no limit.
    most_below: Option<u32>,
}

impl IssuerRules {
    /// Reads the rules from the extensions of a certificate.
    ///
    /// # Errors
    /// An extension cannot be read.
    fn from_certificate(certificate: &X509Certificate<'_>) -> Result<IssuerRules, String> {
        let error = |error: X509Error| error.to_string();
        let constraints = certificate.basic_constraints().map_err(error)?.map(|extension| extension.value);
        let key_usage = certificate.key_usage().map_err(error)?.map(|extension| extension.value);
        let extended = certificate.extended_key_usage().map_err(error)?.map(|extension| extension.value);
        // Certificates had no extensions before version 3.
        let is_authority = match constraints {
            Some(constraints) => constraints.ca,
            None => certificate.version() != X509Version::V3,
        };
        Ok(IssuerRules {
            // A key usage without any bit restricts nothing, as in Go.
            signs: is_authority && key_usage.is_none_or(|usage| usage.flags == 0 || usage.key_cert_sign()),
            for_clients: extended.is_none_or(|usage| usage.any || usage.client_auth),
            most_below: constraints.and_then(|constraints| constraints.path_len_constraint),
        })
    }

    /// Whether the certificate may issue that of a client, with `below` intermediate certificates between both.
    fn permit(self, below: usize) -> bool {
        let is_short = self.most_below.is_none_or(|most| u32::try_from(below).is_ok_and(|below| below <= most));
        self.signs && self.for_clients && is_short
    }
}

/// Why a bundle of authorities is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateAuthoritiesError {
    /// The bundle has no certificate.
    #[error("there is no PEM certificate")]
    Empty,
    /// A certificate cannot be read.
    #[error("PEM certificate {number} cannot be read: {problem}")]
    Broken {
        /// Its position, from 1.
        number: usize,
        /// The error of the library.
        problem: String,
    },
}

impl CertificateAuthorities {
    /// Reads a bundle of certificates in PEM.
    ///
    /// # Errors
    /// There is no certificate, or one is invalid. One invalid certificate makes the whole bundle invalid, since a part
    /// of it would authenticate only some users.
    pub fn read(pem: &str) -> Result<CertificateAuthorities, CertificateAuthoritiesError> {
        let (mut anchors, mut authorities) = (Vec::new(), Vec::new());
        for (index, certificate) in CertificateDer::pem_slice_iter(pem.as_bytes()).enumerate() {
            let broken = |problem: String| CertificateAuthoritiesError::Broken { number: index + 1, problem };
            let certificate = certificate.map_err(|error| broken(error.to_string()))?;
            let (_, parsed) = X509Certificate::from_der(&certificate).map_err(|error| broken(error.to_string()))?;
            let validity = parsed.validity();
            let valid = (validity.not_before.timestamp(), validity.not_after.timestamp());
            let anchor = anchor_from_trusted_cert(&certificate).map_err(|error| broken(error.to_string()))?;
            anchors.push(anchor.to_owned());
            authorities.push(Authority { valid, rules: IssuerRules::from_certificate(&parsed).map_err(broken)? });
        }
        if anchors.is_empty() {
            return Err(CertificateAuthoritiesError::Empty);
        }
        let algorithms = ring::default_provider().signature_verification_algorithms;
        Ok(CertificateAuthorities { algorithms, anchors, authorities })
    }

    /// Checks that a chain, the client's own certificate first, leads to one of these authorities and is valid for a
    /// client now.
    ///
    /// # Errors
    /// Why the chain is invalid, as a message of the library.
    pub fn check(&self, chain: &[CertificateDer<'static>], now: UnixTime) -> Result<(), String> {
        let Some((own, between)) = chain.split_first() else { return Err("no certificate".to_owned()) };
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let verify_path = |path: &VerifiedPath<'_>| self.verify_issuers(path, seconds);
        let own = EndEntityCert::try_from(own).map_err(|error| error.to_string())?;
        let client = KeyUsage::client_auth();
        // `None`: no revocation lists, as in kube-apiserver.
        own.verify_for_usage(self.algorithms.all, &self.anchors, between, now, client, None, Some(&verify_path))
            .map(|_| ())
            .map_err(|error| error.to_string())
    }

    /// Checks what Go requires of the issuers of a path beyond webpki: that the authority is valid at `now`, in seconds
    /// since 1970, and that [`IssuerRules`] permit each issuer.
    ///
    /// # Errors
    /// An issuer is not permitted, or cannot be read.
    fn verify_issuers(&self, path: &VerifiedPath<'_>, now: i64) -> Result<(), webpki::Error> {
        // The same authority can be listed twice, with other rules.
        let is_anchor = |index: &usize| self.anchors.get(*index).is_some_and(|anchor| anchor == path.anchor());
        let length = path.intermediate_certificates().count();
        let permits = |authority: &Authority| {
            (authority.valid.0..=authority.valid.1).contains(&now) && authority.rules.permit(length)
        };
        let mut authorities = (0..self.anchors.len()).filter(is_anchor).filter_map(|index| self.authorities.get(index));
        if !authorities.any(permits) {
            return Err(webpki::Error::UnknownIssuer);
        }
        for (below, issuer) in path.intermediate_certificates().enumerate() {
            let issuer = issuer.der();
            let (_, parsed) = X509Certificate::from_der(&issuer).map_err(|_| webpki::Error::BadDer)?;
            if !IssuerRules::from_certificate(&parsed).map_err(|_| webpki::Error::BadDer)?.permit(below) {
                return Err(webpki::Error::UnknownIssuer);
            }
        }
        Ok(())
    }
}

/// The subject of a certificate. It is not verified here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSubject {
    /// The last of its common names; empty if it has none.
    pub common_name: String,
    /// All organizations, in their order.
    pub organizations: Vec<String>,
    /// The values of Kubernetes' attribute for a user's uid. With several, or an empty one, the certificate
    /// authenticates no user.
    pub uids: Vec<String>,
    /// The end of its validity, in seconds since 1970.
    pub not_after: i64,
}

impl CertificateSubject {
    /// Reads the subject of a certificate.
    ///
    /// # Errors
    /// The certificate cannot be parsed, or a name has a string type that is not supported, such as T61String. Go reads
    /// such a name, so to skip it could put another name in its place.
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
                format!("the subject has an attribute {kind} that is not a UTF8String, PrintableString, IA5String or NumericString")
            })?;
            match &*kind {
                COMMON_NAME => text.clone_into(&mut subject.common_name),
                ORGANIZATION => subject.organizations.push(text.to_owned()),
                _ => subject.uids.push(text.to_owned()),
            }
        }
        Ok(subject)
    }

    /// The user of `certificate`, of which this is the subject; `None` without a common name.
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
            [_] => return Err("the uid in the subject is empty".to_owned()),
            _ => return Err("the subject has several uids".to_owned()),
        };
        let digest: String = Sha256::digest(certificate).iter().map(|byte| format!("{byte:02x}")).collect();
        let extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={digest}")])]);
        let identity =
            Identity { user: self.common_name.clone(), uid: uid.to_owned(), groups: self.organizations.clone(), extra };
        Ok(Some(identity.authenticated()))
    }
}
