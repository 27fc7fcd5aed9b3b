//! A self-signed serving certificate and its authority: when they are renewed, and how they are made.
//!
//! It is used when the operator gets no certificate. [`due`] is a pure function of the time and of the current state.
//! [`renew`] does what is due and returns the new state. The caller stores the state (in a Secret, a folder or memory)
//! and decides which replica renews it.
//!
//! Clients must know an authority long before it signs a certificate: kubeconfigs and APIServices contain copies of the
//! bundle, which are updated at unknown times. So a new authority is made and published when a third of the life of its
//! predecessor remains. It signs when a sixth remains.

use std::net::IpAddr;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

const DAY: u64 = 24 * 60 * 60;

/// How long an authority is valid: users store kubeconfigs with its certificate.
const AUTHORITY_DAYS: u64 = 3650;

/// How long a serving certificate is valid.
const SERVING_DAYS: u64 = 90;

/// Clocks differ: certificates begin this long before now.
const BACKDATED: u64 = 60 * 60;

/// The keys of the Secret, or the names of the files in the folder. The first two are those of a TLS Secret in
/// Kubernetes.
pub const FILES: [&str; 4] = ["tls.crt", "tls.key", "ca.crt", "ca.key"];

/// A certificate and its key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The key, PKCS #8.
    pub key: String,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pair").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// The serving certificate and its authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfSignedCertificate {
    /// One authority, or two while clients learn the newer one; the older first.
    pub authorities: Vec<Pair>,
    /// The serving certificate, signed by one of the authorities.
    pub serving: Pair,
}

/// What is due, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// A new authority and a certificate signed by it, because there are no valid ones.
    Everything,
    /// A further authority, because the newest has passed two thirds of its life.
    Authority,
    /// A new serving certificate, signed by authority `signer`.
    Serving {
        /// The index of the authority, from 0.
        signer: usize,
    },
    /// Nothing, until a time.
    Nothing {
        /// In seconds since 1970.
        until: u64,
    },
}

/// Why a certificate cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SelfSignedError {
    /// The library that creates certificates returned an error.
    #[error("cannot create a self-signed certificate: {0}")]
    Library(#[from] rcgen::Error),
    /// A further renewal is due directly after all steps of one.
    #[error("internal error: the new self-signed certificate is not valid")]
    Endless,
}

/// The parts of a certificate that decide whether it has to be renewed.
struct Facts {
    /// The notBefore, in seconds since 1970.
    begins: u64,
    /// The notAfter, in seconds since 1970.
    ends: u64,
    /// The name of the issuer, DER.
    issuer: Vec<u8>,
    /// The name of the subject, DER.
    subject: Vec<u8>,
    key_identifier: Option<Vec<u8>>,
    authority_key_identifier: Option<Vec<u8>>,
    /// The DNS names and IP addresses for which the certificate is valid.
    names: Vec<String>,
}

impl Facts {
    /// Reads a certificate and its key; `None` if they do not parse or do not belong together.
    fn read(pair: &Pair) -> Option<Facts> {
        use x509_parser::extensions::ParsedExtension;
        let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).ok()?;
        let (_, parsed) = X509Certificate::from_der(&certificate).ok()?;
        let key = KeyPair::from_pem(&pair.key).ok()?;
        // The key must be that of the certificate.
        if rcgen::PublicKeyData::subject_public_key_info(&key) != parsed.public_key().raw {
            return None;
        }
        let seconds = |time: i64| u64::try_from(time).unwrap_or(0);
        let mut facts = Facts {
            begins: seconds(parsed.validity().not_before.timestamp()),
            ends: seconds(parsed.validity().not_after.timestamp()),
            issuer: parsed.issuer().as_raw().to_vec(),
            subject: parsed.subject().as_raw().to_vec(),
            key_identifier: None,
            authority_key_identifier: None,
            names: Vec::new(),
        };
        for extension in parsed.extensions() {
            let extension = extension.parsed_extension();
            if let ParsedExtension::SubjectKeyIdentifier(identifier) = extension {
                facts.key_identifier = Some(identifier.0.to_vec());
            } else if let ParsedExtension::AuthorityKeyIdentifier(identifier) = extension {
                facts.authority_key_identifier = identifier.key_identifier.as_ref().map(|current| current.0.to_vec());
            } else if let ParsedExtension::SubjectAlternativeName(names) = extension {
                facts.names = names.general_names.iter().filter_map(name).collect();
            }
        }
        Some(facts)
    }

    /// How long the certificate is valid, in seconds.
    fn life(&self) -> u64 {
        self.ends.saturating_sub(self.begins)
    }

    /// The time at which `sixths` of the validity are left, in seconds since 1970.
    fn time_with_sixths_left(&self, sixths: u64) -> u64 {
        self.ends.saturating_sub(self.life() / 6 * sixths)
    }

    /// Whether this authority issued the certificate `other`, by subject and key identifiers. The signature is not
    /// verified.
    fn has_issued(&self, other: &Facts) -> bool {
        self.subject == other.issuer
            && self.key_identifier.is_some()
            && self.key_identifier == other.authority_key_identifier
    }
}

/// A DNS name or an IP address of a certificate as text; `None` for other names.
fn name(name: &GeneralName<'_>) -> Option<String> {
    if let GeneralName::DNSName(name) = name {
        return Some((*name).to_owned());
    }
    let GeneralName::IPAddress(bytes) = name else { return None };
    let address: IpAddr = match bytes.len() {
        4 => <[u8; 4]>::try_from(*bytes).ok()?.into(),
        _ => <[u8; 16]>::try_from(*bytes).ok()?.into(),
    };
    Some(address.to_string())
}

/// What is due at `now`, in seconds since 1970, for a server with these `names` (DNS names and addresses). `current`:
/// the certificate so far; `None`: there is none.
pub fn due(now: u64, current: Option<&SelfSignedCertificate>, names: &[String]) -> Due {
    let Some(current) = current else { return Due::Everything };
    let authorities: Option<Vec<Facts>> = current.authorities.iter().map(Facts::read).collect();
    let Some(authorities) = authorities.filter(|authorities| !authorities.is_empty()) else { return Due::Everything };
    let youngest = authorities.len() - 1;
    if authorities[youngest].ends <= now {
        return Due::Everything;
    }
    if authorities[youngest].time_with_sixths_left(2) <= now {
        return Due::Authority;
    }
    // The oldest signs until a sixth of its life is left.
    let can_sign = |authority: &Facts| authority.time_with_sixths_left(1) > now;
    let signer = authorities.iter().position(can_sign).unwrap_or(youngest);
    let serving = Facts::read(&current.serving);
    let is_good = |serving: &Facts| {
        let has = |name: &String| serving.names.contains(name);
        authorities[signer].has_issued(serving)
            && serving.time_with_sixths_left(2) > now
            && serving.begins <= now
            && names.iter().all(has)
    };
    let Some(serving) = serving.filter(is_good) else { return Due::Serving { signer } };
    let changes = [
        serving.time_with_sixths_left(2),
        authorities[youngest].time_with_sixths_left(2),
        authorities[signer].time_with_sixths_left(1),
    ];
    Due::Nothing { until: changes.into_iter().filter(|time| *time > now).min().unwrap_or(now) }
}

/// Renews what is due at `now`, in seconds since 1970, for a server with these `names`: the serving certificate, or the
/// authority. Returns `current` unchanged if nothing is due.
///
/// # Errors
/// A certificate cannot be created, for instance because a name is invalid.
pub fn renew(
    now: u64,
    current: Option<SelfSignedCertificate>,
    names: &[String],
) -> Result<SelfSignedCertificate, SelfSignedError> {
    let mut current = current;
    // At most one step for the authority, one for the serving certificate, and one to find that nothing is due.
    for _ in 0..3 {
        current = Some(match (due(now, current.as_ref(), names), current) {
            (Due::Nothing { .. }, Some(current)) => return Ok(current),
            (Due::Authority, Some(mut current)) => {
                current.authorities.retain(|pair| Facts::read(pair).is_some_and(|facts| facts.ends > now));
                current.authorities.push(authority(now)?);
                current
            }
            (Due::Serving { signer }, Some(mut current)) => {
                current.serving = serving(now, &current.authorities[signer], names)?;
                current
            }
            (_, _) => {
                let authority = authority(now)?;
                let serving = serving(now, &authority, names)?;
                SelfSignedCertificate { authorities: vec![authority], serving }
            }
        });
    }
    Err(SelfSignedError::Endless)
}

impl SelfSignedCertificate {
    /// The bundle for clients: the certificates of all authorities, PEM.
    pub fn bundle(&self) -> String {
        self.authorities.iter().map(|authority| &*authority.certificate).collect()
    }

    /// The contents of [`FILES`], in their order.
    pub fn files(&self) -> [String; 4] {
        let keys = self.authorities.iter().map(|authority| &*authority.key).collect();
        [self.serving.certificate.clone(), self.serving.key.clone(), self.bundle(), keys]
    }

    /// Reads the contents of [`FILES`], in their order. `None` if there is no authority, or not one key for each. The
    /// certificates are not parsed here.
    pub fn read(files: &[String; 4]) -> Option<SelfSignedCertificate> {
        let [certificate, key, bundle, keys] = files;
        let (certificates, keys) = (blocks(bundle), blocks(keys));
        if certificates.is_empty() || certificates.len() != keys.len() {
            return None;
        }
        let pair = |(certificate, key)| Pair { certificate, key };
        let authorities = certificates.into_iter().zip(keys).map(pair).collect();
        Some(SelfSignedCertificate {
            authorities,
            serving: Pair { certificate: certificate.clone(), key: key.clone() },
        })
    }
}

/// Splits a text into its PEM blocks, each up to the end of its line `-----END`.
fn blocks(text: &str) -> Vec<String> {
    let ends = text.match_indices("-----END ").filter_map(|(at, _)| Some(at + text[at..].find('\n')? + 1));
    let mut begun = 0;
    ends.map(|end| text[std::mem::replace(&mut begun, end)..end].to_owned()).collect()
}

/// The parameters that authorities and serving certificates share: valid for `days` from `now`, in seconds since 1970.
fn parameters(now: u64, days: u64) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    let at = |seconds: u64| date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
    parameters.not_before = at(now.saturating_sub(BACKDATED));
    parameters.not_after = at(now + days * DAY);
    parameters
}

/// Creates a certificate authority that is valid from `now`, in seconds since 1970, for [`AUTHORITY_DAYS`].
fn authority(now: u64) -> Result<Pair, SelfSignedError> {
    let mut parameters = parameters(now, AUTHORITY_DAYS);
    // The name contains the time, so that two authorities in one bundle differ.
    parameters.distinguished_name.push(DnType::CommonName, format!("fieldcache-ca@{now}"));
    // It signs serving certificates, and no further authorities.
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate()?;
    let certificate = parameters.self_signed(&key)?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Creates a serving certificate for these names (DNS names and addresses), signed by the authority and valid from
/// `now`, in seconds since 1970, for [`SERVING_DAYS`].
///
/// # Errors
/// A name is not a valid DNS name, or the key of the authority cannot be read.
fn serving(now: u64, authority: &Pair, names: &[String]) -> Result<Pair, SelfSignedError> {
    let mut parameters = parameters(now, SERVING_DAYS);
    parameters.distinguished_name.push(DnType::CommonName, format!("fieldcache@{now}"));
    parameters.subject_alt_names = names
        .iter()
        .map(|name| match name.parse::<IpAddr>() {
            Ok(address) => Ok(SanType::IpAddress(address)),
            Err(_) => Ok(SanType::DnsName(name.as_str().try_into()?)),
        })
        .collect::<Result<_, rcgen::Error>>()?;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // `Facts::has_issued` finds the authority by this extension.
    parameters.use_authority_key_identifier_extension = true;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, KeyPair::from_pem(&authority.key)?)?;
    let key = KeyPair::generate()?;
    let certificate = parameters.signed_by(&key, &issuer)?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}
