//! The throw-away certificate authority of one control plane.
//!
//! It issues what a test needs and nothing lives longer than the run; nothing here is a model for production.

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
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
