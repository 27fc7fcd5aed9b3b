//! Credentials of long responses: reviewed again once for all holders, and ended when they are not valid any more.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::Method;
use rcgen::date_time_ymd;
use rustls::pki_types::UnixTime;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::admission::{access, admit, cluster, peer};
use super::authentication_config::config_map;
use super::certificates::{authority, client, signed};
use super::{Reviewer, Says, allowed, known, unknown};
use crate::access::attributes::{Attributes, RequiredPermissions};
use crate::access::authentication::Peer;
use crate::access::lease::{AuthorizationLease, EVERY, Lease};
use crate::access::{AccessControl, AccessSettings};
use crate::request::{Query, RequestInfo};

const PODS: &str = "/api/v1/pods?watch=1";
const TOM: (&str, &str) = ("authorization", "Bearer token-tom");

/// Waits until it ends; when that was, or `None` while it holds for so long.
async fn ended_within(lease: AuthorizationLease, most: Duration) -> Option<Instant> {
    let end = async {
        loop {
            match lease.due() {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
            if !lease.renew().await {
                return Instant::now();
            }
        }
    };
    timeout(most, end).await.ok()
}

/// Allows everything; the token is decided by the test.
fn with_token(decide: impl Fn(&str) -> Says + Send + Sync + 'static) -> impl Fn(&str, &Value) -> Says + Send + Sync {
    move |what, review| match what {
        "tokenreviews" => decide(review["spec"]["token"].as_str().unwrap()),
        _ => allowed(true),
    }
}

fn reviews(reviewer: &Reviewer) -> usize {
    reviewer.received().iter().filter(|(what, _)| what == "tokenreviews").count()
}

#[tokio::test(start_paused = true)]
async fn watches_of_a_token_that_is_not_valid_any_more_end_within_five_minutes() {
    let reviewer = Reviewer::new(cluster);
    let access = access(&reviewer, &config_map("", ""));
    let admitted = admit(&access, &peer(&[]), PODS, &[TOM]).await.unwrap();
    let hour = Duration::from_secs(3600);
    let watches = || futures::future::join_all((0..100).map(|_| ended_within(admitted.lease(), hour)));
    let before = reviews(&reviewer);
    assert!(watches().await.iter().all(Option::is_none), "they go on while it is valid");
    let in_an_hour = reviews(&reviewer) - before;
    assert!((12..=17).contains(&in_an_hour), "{in_an_hour} reviews in an hour, for 100 watches");
    let deleted = Instant::now();
    reviewer.now(with_token(|_| unknown("the ServiceAccount is deleted")));
    let ended = watches().await;
    assert!(ended.iter().flatten().count() == 100, "{ended:?}");
    let latest = ended.into_iter().flatten().max().unwrap().duration_since(deleted);
    assert!(latest <= Duration::from_secs(300), "{latest:?}");
    assert_eq!(access.counts().revocations(), 100);
}

#[tokio::test(start_paused = true)]
async fn what_is_cached_of_a_token_does_not_extend_its_watches() {
    let reviewer = Reviewer::new(cluster);
    let access = Arc::new(access(&reviewer, &config_map("", "")));
    let admitted = admit(&access, &peer(&[]), PODS, &[TOM]).await.unwrap();
    // Of the token alone: its permissions are due at times of their own.
    let nothing = RequiredPermissions::for_request(Arc::new(
        Attributes::from_request(&RequestInfo::read(&Method::GET, "/livez", Query::default())).unwrap(),
    ));
    let lease = admitted.leases.lease(&admitted.credential, &admitted.identity, &nothing);
    let due = lease.due().unwrap();
    // Just before, a request has the token cached for ten seconds more.
    sleep_until(due - Duration::from_secs(2)).await;
    assert!(admit(&access, &peer(&[]), PODS, &[TOM]).await.is_ok());
    reviewer.now(with_token(|_| unknown("deleted")));
    sleep_until(due).await;
    assert!(!lease.renew().await);
    assert!(admit(&access, &peer(&[]), PODS, &[TOM]).await.is_err(), "and the next request does not use it either");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_means_another_user_now_ends_its_watches() {
    let reviewer = Reviewer::new(cluster);
    let access = access(&reviewer, &config_map("", ""));
    let admitted = admit(&access, &peer(&[]), PODS, &[TOM]).await.unwrap();
    reviewer.now(with_token(|_| known("tim", &["fieldcache.dev"])));
    assert!(ended_within(admitted.lease(), Duration::from_secs(301)).await.is_some());
}

/// A token that claims to expire in so many seconds.
fn expiring(seconds: u64) -> String {
    let encoded = |document: Value| BASE64_URL_SAFE_NO_PAD.encode(document.to_string());
    let claims = json!({"exp": UnixTime::now().as_secs() + seconds});
    format!("{}.{}.signature", encoded(json!({"alg": "RS256"})), encoded(claims))
}

#[tokio::test(start_paused = true)]
async fn a_token_is_reviewed_when_its_time_is_over() {
    let begun = Instant::now();
    let reviewer = Reviewer::new(with_token(|_| known("tom", &["fieldcache.dev"])));
    let access = access(&reviewer, &config_map("", ""));
    let header = format!("Bearer {}", expiring(100));
    let lease = admit(&access, &peer(&[]), PODS, &[("authorization", &header)]).await.unwrap().lease();
    // What the API server says counts: while it allows for a difference of clocks, so does this server.
    let tolerant = ended_within(lease.clone(), Duration::from_secs(130)).await;
    assert_eq!(tolerant, None);
    assert_eq!(reviews(&reviewer), 2, "one review at its claimed end");
    reviewer.now(with_token(|_| unknown("expired")));
    let ended = ended_within(lease, Duration::from_secs(200)).await.unwrap().duration_since(begun);
    assert!(ended <= Duration::from_secs(170), "a minute after its claimed end at most: {ended:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_bridged_for_a_minute_but_not_beyond_the_time_of_a_token() {
    for (header, from, to, why) in [
        ("Bearer token-tom".to_owned(), 280, 360, "a token without a time of its own"),
        (format!("Bearer {}", expiring(100)), 99, 115, "one whose time is over meanwhile"),
    ] {
        let reviewer = Reviewer::new(with_token(|_| known("tom", &["fieldcache.dev"])));
        let access = access(&reviewer, &config_map("", ""));
        let lease = admit(&access, &peer(&[]), PODS, &[("authorization", &header)]).await.unwrap().lease();
        let begun = Instant::now();
        reviewer.now(|_, _| Says::Nothing("refused"));
        let ended = ended_within(lease, Duration::from_secs(1000)).await.unwrap().duration_since(begun).as_secs();
        assert!((from..to).contains(&ended), "{why}: {ended} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_certificate_ends_its_watches_with_itself_and_with_its_authority() {
    let (users, others) = (authority("users"), authority("users"));
    let reviewer = Reviewer::new(cluster);
    let access = access(&reviewer, &config_map(&users.pem(), ""));
    let now = UnixTime::now().as_secs();
    let mut brief = client("alice");
    brief.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(now + 1000);
    let brief = signed(&brief, &users);
    let lease = admit(&access, &peer(&[&brief]), PODS, &[]).await.unwrap().lease();
    let begun = Instant::now();
    let ended = ended_within(lease, Duration::from_secs(4000)).await.unwrap().duration_since(begun).as_secs();
    assert!((995..=1001).contains(&ended), "at its notAfter: {ended} s");

    let long = signed(&client("alice"), &users);
    let lease = admit(&access, &peer(&[&long]), PODS, &[]).await.unwrap().lease();
    assert_eq!(ended_within(lease.clone(), Duration::from_secs(4000)).await, None, "it goes on while it is trusted");
    let data = config_map(&others.pem(), "");
    access.set_authentication_config(&data);
    assert!(ended_within(lease, Duration::from_secs(301)).await.is_some(), "its authority is trusted no longer");
}

#[tokio::test(start_paused = true)]
async fn a_front_proxy_vouches_as_long_as_its_own_certificate_is_trusted() {
    let (proxies, others) = (authority("proxies"), authority("proxies"));
    let reviewer = Reviewer::new(cluster);
    let access = access(&reviewer, &config_map("", &proxies.pem()));
    let proxy = signed(&client("proxy"), &proxies);
    let lease = admit(&access, &peer(&[&proxy]), PODS, &[("x-remote-user", "rita")]).await.unwrap().lease();
    assert_eq!(ended_within(lease.clone(), Duration::from_secs(4000)).await, None);
    let data = config_map("", &others.pem());
    access.set_authentication_config(&data);
    assert!(ended_within(lease, Duration::from_secs(301)).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn checks_that_are_due_together_are_few_at_a_time_and_end_no_watch() {
    let answered: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let times = answered.clone();
    let decide = with_token(|token| known(token, &["fieldcache.dev"]));
    let reviewer = Reviewer::new(move |what, review| {
        times.lock().unwrap().push(Instant::now());
        decide(what, review)
    });
    let access = AccessControl::new(reviewer.clone(), AccessSettings::default()).unwrap();
    let begin = async |number: u8| {
        let peer = Arc::new(Peer::new(Some(IpAddr::from([10, 0, 0, number])), Vec::new()));
        let header = format!("Bearer user-{number}");
        admit(&access, &peer, PODS, &[("authorization", &header)]).await.unwrap().lease()
    };
    let leases = futures::future::join_all((0..200).map(begin)).await;
    answered.lock().unwrap().clear();
    // None of them is looked at until all are due.
    sleep(EVERY).await;
    let held = futures::future::join_all(leases.into_iter().map(|lease| ended_within(lease, Duration::from_secs(200))));
    assert!(held.await.iter().all(Option::is_none));
    // An answer takes a second, so those of one second were in progress together.
    let answered = answered.lock().unwrap().clone();
    let second = Duration::from_millis(900);
    let together = |first: &Instant| answered.iter().filter(|time| (*first..*first + second).contains(time)).count();
    let most = answered.iter().map(together).max().unwrap();
    assert!(answered.len() >= 400 && most <= 20, "{most} of {} at a time", answered.len());
}

#[tokio::test(start_paused = true)]
async fn a_lease_counts_more_than_the_text_of_its_permission() {
    let reviewer = Reviewer::new(cluster);
    let access = access(&reviewer, &config_map("", ""));
    let admitted = admit(&access, &peer(&[]), PODS, &[TOM]).await.unwrap();
    let text =
        reviewer.received().iter().find(|(what, _)| what == "subjectaccessreviews").unwrap().1["spec"].to_string();
    let counted = admitted.lease().held_bytes();
    assert!(counted >= text.len() + size_of::<Lease>(), "{counted} bytes for a text of {}", text.len());
}
