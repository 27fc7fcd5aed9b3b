//! Client certificates: chains held against authorities, subjects read as Go reads them.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, UnixTime};

use crate::access::certificates::{
    CertificateAuthorities, CertificateAuthoritiesError, CertificateSubject, DeferredClientVerifier, LONGEST_CHAIN,
    MOST_INTERMEDIATES,
};

/// Some hours after the beginning of a year.
fn at(year: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs((year - 1970) * 31_557_600 + 40_000))
}

pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;

pub(crate) fn authority(name: &str) -> Authority {
    authority_until(name, 2096)
}

fn authority_until(name: &str, year: i32) -> Authority {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    (parameters.not_before, parameters.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(year, 1, 1));
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

/// What makes a client's certificate.
pub(crate) fn client(name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    (parameters.not_before, parameters.not_after) = (date_time_ymd(2021, 1, 1), date_time_ymd(2095, 1, 1));
    parameters
}

pub(crate) fn signed(parameters: &CertificateParams, by: &Authority) -> CertificateDer<'static> {
    parameters.signed_by(&KeyPair::generate().unwrap(), by).unwrap().der().clone()
}

#[test]
fn a_chain_is_good_when_it_leads_to_an_authority_for_a_client_now() {
    let (known, stranger, old) = (authority("known"), authority("known"), authority_until("old", 2030));
    let authorities = CertificateAuthorities::read(&format!("{}{}", known.pem(), old.pem())).unwrap();
    let parameters = client("alice");
    let mut server = client("alice");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let mut any_use = client("alice");
    any_use.extended_key_usages = Vec::new();
    let mut between = CertificateParams::default();
    between.distinguished_name.push(DnType::CommonName, "between");
    between.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    between.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let between = CertifiedIssuer::signed_by(between, KeyPair::generate().unwrap(), &known).unwrap();
    let below = signed(&parameters, &between);
    let rows = [
        (vec![signed(&parameters, &known)], at(2026), true, "of the authority"),
        (vec![signed(&parameters, &stranger)], at(2026), false, "of another one with the same name"),
        (vec![signed(&server, &known)], at(2026), false, "for a server"),
        (vec![signed(&any_use, &known)], at(2026), true, "for anything"),
        (vec![signed(&parameters, &known)], at(2020), false, "not yet"),
        (vec![signed(&parameters, &known)], at(2095), false, "not any more"),
        (vec![signed(&parameters, &old)], at(2026), true, "of the second authority"),
        (vec![signed(&parameters, &old)], at(2031), false, "of an authority that has expired"),
        (vec![signed(&parameters, &known)], at(2031), true, "beside an authority that has expired"),
        (vec![below.clone(), between.der().clone()], at(2026), true, "by way of another certificate"),
        (vec![below], at(2026), false, "by way of one that was not shown"),
        (vec![], at(2026), false, "nothing"),
    ];
    for (chain, now, expected, what) in rows {
        let found = authorities.check(&chain, now);
        assert_eq!(found.is_ok(), expected, "{what}: {found:?}");
    }
}

/// Go looks at these restrictions of issuers, webpki does not.
#[test]
fn an_issuer_signs_only_what_its_certificate_permits() {
    let issuer = |name: &str, change: &dyn Fn(&mut CertificateParams)| {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        change(&mut parameters);
        parameters
    };
    let plain = |_: &mut CertificateParams| {};
    let no_signing = |parameters: &mut CertificateParams| parameters.key_usages = vec![KeyUsagePurpose::CrlSign];
    let any_key_usage = |parameters: &mut CertificateParams| parameters.key_usages = Vec::new();
    let no_authority = |parameters: &mut CertificateParams| parameters.is_ca = IsCa::ExplicitNoCa;
    let uses = |uses: &'static [ExtendedKeyUsagePurpose]| {
        move |parameters: &mut CertificateParams| parameters.extended_key_usages = uses.to_vec()
    };
    let servers = uses(&[ExtendedKeyUsagePurpose::ServerAuth]);
    let clients = uses(&[ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]);
    let anything = uses(&[ExtendedKeyUsagePurpose::Any]);
    let length = |most: u8| {
        move |parameters: &mut CertificateParams| parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(most))
    };
    let (none_below, one_below) = (length(0), length(1));
    type Change<'a> = &'a dyn Fn(&mut CertificateParams);
    let rows: [(Change<'_>, Option<Change<'_>>, bool, &str); 16] = [
        (&plain, None, true, "an authority"),
        (&plain, Some(&plain), true, "an intermediate certificate"),
        (&no_signing, None, false, "an authority that may not sign"),
        (&any_key_usage, None, true, "an authority without key usage"),
        (&plain, Some(&no_signing), false, "an intermediate certificate that may not sign"),
        (&no_authority, None, false, "a certificate that is no authority"),
        (&plain, Some(&no_authority), false, "an intermediate certificate that is no authority"),
        (&servers, None, false, "an authority for servers"),
        (&clients, None, true, "an authority for clients too"),
        (&anything, Some(&clients), true, "an authority for anything"),
        (&plain, Some(&servers), false, "an intermediate certificate for servers"),
        (&servers, Some(&clients), false, "an authority for servers above one for clients"),
        (&none_below, None, true, "no intermediate certificates, and there are none"),
        (&none_below, Some(&plain), false, "no intermediate certificates, and there is one"),
        (&one_below, Some(&plain), true, "one intermediate certificate"),
        (&plain, Some(&none_below), true, "none below the intermediate certificate"),
    ];
    for (root, between, expected, what) in rows {
        let root = CertifiedIssuer::self_signed(issuer("root", root), KeyPair::generate().unwrap()).unwrap();
        let authorities = CertificateAuthorities::read(&root.pem()).unwrap();
        let chain = match between {
            None => vec![signed(&client("alice"), &root)],
            Some(between) => {
                let key = KeyPair::generate().unwrap();
                let between = CertifiedIssuer::signed_by(issuer("between", between), key, &root).unwrap();
                let own = client("alice").signed_by(&KeyPair::generate().unwrap(), &between).unwrap();
                vec![own.der().clone(), between.der().clone()]
            }
        };
        let found = authorities.check(&chain, at(2026));
        assert_eq!(found.is_ok(), expected, "{what}: {found:?}");
    }
}

/// Any client may send any certificates, and the search for a path tries their combinations.
#[test]
fn long_chains_are_rejected_in_the_handshake() {
    let own = signed(&client("alice"), &authority("any"));
    let filler = |bytes: usize| CertificateDer::from(vec![0x30; bytes]);
    for (intermediates, bytes, is_taken, what) in [
        (0, 0, true, "none"),
        (MOST_INTERMEDIATES, 1_000, true, "as many as may be"),
        (MOST_INTERMEDIATES + 1, 2, false, "one more"),
        (1_800, 2, false, "hundreds of small ones"),
        (1, LONGEST_CHAIN, false, "a long one"),
    ] {
        let chain: Vec<_> = (0..intermediates).map(|_| filler(bytes)).collect();
        let taken = DeferredClientVerifier::verifier().verify_client_cert(&own, &chain, at(2026));
        assert_eq!(taken.is_ok(), is_taken, "{what}: {taken:?}");
    }
}

#[test]
fn a_bundle_that_cannot_be_read_whole_is_no_bundle() {
    let pem = authority("a").pem();
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (text, expected) in [(String::new(), None), ("words".to_owned(), None), (format!("{pem}{broken}"), Some(2))] {
        match (CertificateAuthorities::read(&text), expected) {
            (Err(CertificateAuthoritiesError::Empty), None) => {}
            (Err(CertificateAuthoritiesError::Broken { number, .. }), Some(expected)) => assert_eq!(number, expected),
            (found, _) => panic!("{text:?}: {found:?}"),
        }
    }
    assert!(CertificateAuthorities::read(&format!("# first\n{pem}\n# second\n{pem}")).is_ok());
}

#[test]
fn a_subject_is_read_as_go_reads_it() {
    let authority = authority("a");
    let mut parameters = client("alice");
    let name = &mut parameters.distinguished_name;
    name.push(DnType::OrganizationName, "first");
    // A second attribute of the type; the library keeps one of each of its own names.
    name.push(DnType::CustomDnType(vec![2, 5, 4, 10]), DnValue::PrintableString("second".try_into().unwrap()));
    name.push(DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), "u-7");
    let certificate = signed(&parameters, &authority);
    let subject = CertificateSubject::read(&certificate).unwrap();
    assert_eq!(
        (&*subject.common_name, &*subject.organizations),
        ("alice", &["first".to_owned(), "second".to_owned()][..])
    );
    let identity = subject.identity(&certificate).unwrap().unwrap();
    assert_eq!((&*identity.user, &*identity.uid), ("alice", "u-7"));
    assert_eq!(identity.groups, ["first", "second", "system:authenticated"]);
    let id = &identity.extra["authentication.kubernetes.io/credential-id"][0];
    assert!(id.len() == "X509SHA256=".len() + 64 && id.starts_with("X509SHA256="), "{id}");

    parameters.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 3]), "bob");
    let certificate = signed(&parameters, &authority);
    assert_eq!(CertificateSubject::read(&certificate).unwrap().common_name, "bob", "the last name counts");

    // What is not read must not leave the name before it in its place.
    for (kind, value) in [
        (3, DnValue::TeletexString("nobody".try_into().unwrap())),
        (3, DnValue::BmpString("nobody".try_into().unwrap())),
        (10, DnValue::BmpString("group".try_into().unwrap())),
    ] {
        let mut unread = client("alice");
        unread.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, kind]), value);
        let problem = CertificateSubject::read(&signed(&unread, &authority)).unwrap_err();
        assert!(problem.contains(&format!("2.5.4.{kind}")), "{problem}");
    }

    let nameless = signed(&client(""), &authority);
    assert_eq!(CertificateSubject::read(&nameless).unwrap().identity(&nameless), Ok(None));
    let mut odd = client("alice");
    odd.distinguished_name.push(DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), "");
    let odd = signed(&odd, &authority);
    assert!(CertificateSubject::read(&odd).unwrap().identity(&odd).is_err(), "an empty uid belongs to no user");
    assert!(CertificateSubject::read(&CertificateDer::from(vec![0x30, 0x01])).is_err());
}
