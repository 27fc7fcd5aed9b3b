//! The throw-away certificate authority of one control plane.
//!
//! It issues what a test needs and nothing lives longer than the run; nothing here is a model for production.

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SigningKey as _,
};

/// A certificate and its private key, both PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS #8.
    pub key: String,
}

/// A self-signed authority with an ECDSA P-256 key.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// When the cryptography library refuses.
    pub fn create(name: &str) -> Result<Authority> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?).context("making a CA")?;
        Ok(Authority { issuer })
    }

    /// Its own certificate, PEM.
    #[must_use]
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for a server at 127.0.0.1, `localhost` and the names given.
    ///
    /// # Errors
    /// When the cryptography library refuses.
    pub fn server(&self, common_name: &str, more_names: &[&str]) -> Result<Identity> {
        let mut names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        names.extend(more_names.iter().map(|&name| name.to_owned()));
        let mut parameters = CertificateParams::new(names)?;
        parameters.distinguished_name.push(DnType::CommonName, common_name);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(parameters)
    }

    /// A certificate by which kube-apiserver knows its holder as `user`, member of `group`.
    ///
    /// # Errors
    /// When the cryptography library refuses.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Identity> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, user);
        // A DistinguishedName keeps one value a type, hence one group. Memberships beyond that are given by RBAC.
        if let Some(group) = group {
            parameters.distinguished_name.push(DnType::OrganizationName, group);
        }
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(parameters)
    }

    fn issue(&self, mut parameters: CertificateParams) -> Result<Identity> {
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &self.issuer).context("signing a certificate")?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// A key pair for signing service account tokens, both PEM: the private half in PKCS #8, then the public half.
///
/// # Errors
/// When the cryptography library refuses.
pub fn signing_keys() -> Result<(String, String)> {
    let pair = KeyPair::generate()?;
    Ok((pair.serialize_pem(), pair.public_key_pem()))
}

/// A JSON Web Token of these claims, signed with a key of [`signing_keys`]: ES256 of RFC 7518.
///
/// # Errors
/// When the key is none, or the cryptography library refuses.
pub fn signed_token(private_key: &str, claims: &serde_json::Value) -> Result<String> {
    let pair = KeyPair::from_pem(private_key)?;
    let part = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let signed = format!("{}.{}", part(br#"{"alg":"ES256"}"#), part(claims.to_string().as_bytes()));
    let signature = raw_signature(&pair.sign(signed.as_bytes())?).context("a signature of two numbers")?;
    Ok(format!("{signed}.{}", part(&signature)))
}

/// The two numbers of a DER signature, each in 32 bytes, as JSON Web Signatures have them.
fn raw_signature(der: &[u8]) -> Option<Vec<u8>> {
    let mut rest = der.get(2..)?;
    let mut raw = Vec::with_capacity(64);
    for _ in 0..2 {
        let length = usize::from(*rest.get(1)?);
        let number = rest.get(2..2 + length)?;
        rest = rest.get(2 + length..)?;
        let number = number.strip_prefix(&[0]).unwrap_or(number);
        raw.extend(std::iter::repeat_n(0, 32_usize.checked_sub(number.len())?));
        raw.extend_from_slice(number);
    }
    Some(raw)
}
