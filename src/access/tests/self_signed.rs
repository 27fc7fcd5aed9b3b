//! A certificate of our own through the years: what is due when, and that clients with an old bundle are never lost.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;

use crate::access::self_signed::{Due, SelfSignedCertificate, due, renew};

const DAY: u64 = 86_400;
const START: u64 = 1_780_000_000;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Whether a client that trusts a bundle takes a certificate for a name.
fn accepts(bundle: &str, certificate_and_key: &SelfSignedCertificate, name: &str, now: u64) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let certificate = CertificateDer::from_pem_slice(certificate_and_key.serving.certificate.as_bytes()).unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
    let name = name.to_owned().try_into().unwrap();
    verifier.verify_server_cert(&certificate, &[], &name, &[], now).map(|_| ()).map_err(|error| error.to_string())
}

#[test]
fn what_is_made_is_accepted_under_each_of_its_names() {
    let names = names(&["fieldcache.example.svc", "127.0.0.1", "::1"]);
    let certificate_and_key = renew(START, None, &names).unwrap();
    for name in &names {
        assert_eq!(accepts(&certificate_and_key.bundle(), &certificate_and_key, name, START), Ok(()), "{name}");
    }
    assert!(accepts(&certificate_and_key.bundle(), &certificate_and_key, "other.example.svc", START).is_err());
    let stranger = renew(START, None, &names).unwrap();
    assert!(accepts(&stranger.bundle(), &certificate_and_key, "127.0.0.1", START).is_err(), "another authority");
    assert!(matches!(due(START, Some(&certificate_and_key), &names), Due::Nothing { .. }));
    assert_eq!(
        renew(START, Some(certificate_and_key.clone()), &names).unwrap(),
        certificate_and_key,
        "nothing is made that is not due"
    );
    assert!(!format!("{certificate_and_key:?}").contains("PRIVATE KEY"), "keys are not shown");
}

#[test]
fn an_unusable_certificate_is_replaced() {
    let wanted = names(&["a.example", "127.0.0.1"]);
    let certificate_and_key = renew(START, None, &wanted).unwrap();
    let other = renew(START, None, &wanted).unwrap();
    let serving_of_other = SelfSignedCertificate { serving: other.serving.clone(), ..certificate_and_key.clone() };
    let mut foreign_key = certificate_and_key.clone();
    foreign_key.serving.key = other.serving.key.clone();
    let mut broken = certificate_and_key.clone();
    broken.authorities[0].certificate = "words".to_owned();
    let serving = |signer| Due::Serving { signer };
    let rows = [
        (None, START, Due::Everything, "nothing held"),
        (Some(broken), START, Due::Everything, "a broken authority"),
        (
            Some(SelfSignedCertificate { authorities: vec![], ..certificate_and_key.clone() }),
            START,
            Due::Everything,
            "no authority",
        ),
        (Some(serving_of_other), START, serving(0), "of another authority"),
        (Some(foreign_key), START, serving(0), "a key that is not its own"),
        (
            Some(certificate_and_key.clone()),
            START + 59 * DAY,
            Due::Nothing { until: 0 },
            "before two thirds of its life",
        ),
        (Some(certificate_and_key.clone()), START + 61 * DAY, serving(0), "after them"),
        (
            Some(certificate_and_key.clone()),
            START + 2400 * DAY,
            serving(0),
            "before two thirds of the authority's life",
        ),
        (Some(certificate_and_key.clone()), START + 2500 * DAY, Due::Authority, "after them"),
        (Some(certificate_and_key.clone()), START + 3651 * DAY, Due::Everything, "slept through its life"),
        (Some(certificate_and_key.clone()), START - DAY, serving(0), "a clock that was set back"),
    ];
    for (certificate_and_key, now, expected, what) in rows {
        match (due(now, certificate_and_key.as_ref(), &wanted), &expected) {
            (Due::Nothing { until }, Due::Nothing { .. }) => assert!(until > now, "{what}"),
            (found, _) => assert_eq!(found, expected, "{what}"),
        }
    }
    assert_eq!(due(START, Some(&certificate_and_key), &names(&["a.example", "b.example"])), serving(0), "another name");
}

#[test]
fn readers_of_the_bundle_twice_a_decade_stay_connected_for_twenty_years() {
    let wanted = names(&["a.example"]);
    let mut certificate_and_key = None;
    let (mut bundle, mut read, mut made) = (String::new(), START, 0);
    for day in 0..20 * 365 {
        let now = START + day * DAY;
        let before = certificate_and_key.clone();
        if !matches!(due(now, certificate_and_key.as_ref(), &wanted), Due::Nothing { .. }) {
            certificate_and_key = Some(renew(now, certificate_and_key, &wanted).unwrap());
        }
        let current = certificate_and_key.as_ref().unwrap();
        made += u32::from(before.as_ref() != Some(current));
        // A year and a half: shorter than the time for which an authority is known before it signs.
        if bundle.is_empty() || now - read > 550 * DAY {
            (bundle, read) = (current.bundle(), now);
        }
        assert_eq!(accepts(&bundle, current, "a.example", now), Ok(()), "day {day}");
        assert!(current.authorities.len() <= 2, "day {day}");
        let files = current.files();
        assert_eq!(SelfSignedCertificate::read(&files).as_ref(), Some(current), "day {day}: written and read back");
    }
    assert!((20 * 6..20 * 7).contains(&made), "about six a year: {made}");
}

#[test]
fn files_that_do_not_belong_together_are_not_read() {
    let certificate_and_key = renew(START, None, &names(&["a.example"])).unwrap();
    let [certificate, key, bundle, keys] = certificate_and_key.files();
    let text = |text: &str| text.to_owned();
    let rows = [
        ([certificate.clone(), key.clone(), bundle.clone(), text("")], "no key of the authority"),
        ([certificate.clone(), key.clone(), text(""), keys.clone()], "no authority"),
        ([certificate, key, format!("{bundle}{bundle}"), keys], "a key too few"),
    ];
    for (files, what) in rows {
        assert_eq!(SelfSignedCertificate::read(&files), None, "{what}");
    }
}
