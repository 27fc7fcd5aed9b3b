//! The whole way of a request: which credentials count, in which order, and what is rejected.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};

use super::authentication_config::config_map;
use super::certificates::{authority, client, signed};
use super::{Reviewer, Says, allowed, known, unknown};
use crate::access::authentication::Peer;
use crate::access::counters::{AttemptResult, AuthenticationMethod as By};
use crate::access::{
    AccessControl, AccessError, AccessSettings, AuthorizationScope, AuthorizedRequest, Identity, UnauthenticatedRequest,
};
use crate::request::{Query, RequestInfo};

/// Why a request is rejected whose user is not known.
fn unauthorized() -> AccessError {
    let accepted =
        "use a valid token with the audience fieldcache.dev, or a client certificate that the API server accepts";
    AccessError::Unauthorized(accepted.into())
}

/// Tokens called `token-NAME` are NAME's; all users but mallory may do everything.
pub(super) fn cluster(what: &str, review: &Value) -> Says {
    match what {
        "tokenreviews" => match review["spec"]["token"].as_str().unwrap().strip_prefix("token-") {
            Some(user) => known(user, &["fieldcache.dev"]),
            None => unknown("invalid bearer token"),
        },
        _ => allowed(review["spec"]["user"] != "mallory"),
    }
}

pub(super) fn access(reviewer: &Arc<Reviewer>, data: &Value) -> AccessControl {
    let access = AccessControl::new(reviewer.clone(), AccessSettings::default()).unwrap();
    access.set_authentication_config(data);
    access
}

pub(super) async fn admit(
    access: &AccessControl,
    peer: &Arc<Peer>,
    url: &str,
    pairs: &[(&str, &str)],
) -> Result<AuthorizedRequest, AccessError> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let info = RequestInfo::read(&Method::GET, path, Query::parse(query));
    let arrived = UnauthenticatedRequest {
        peer: Some(peer),
        headers: &headers,
        info: &info,
        known: None,
        scope: AuthorizationScope::Request,
    };
    access.authorize(&arrived).await
}

pub(super) fn peer(chain: &[&CertificateDer<'static>]) -> Arc<Peer> {
    let chain = chain.iter().map(|certificate| (*certificate).clone()).collect();
    Arc::new(Peer::new(Some(IpAddr::from([10, 0, 0, 1])), chain))
}

const TOKEN: (&str, &str) = ("authorization", "Bearer token-tom");
const WRONG: (&str, &str) = ("authorization", "Bearer wrong");
const REMOTE: (&str, &str) = ("x-remote-user", "rita");

#[tokio::test(start_paused = true)]
async fn the_first_authenticator_with_a_user_wins_and_a_failure_does_not_stop_the_next() {
    let (users, proxies, stranger) = (authority("users"), authority("proxies"), authority("stranger"));
    let alice = signed(&client("alice"), &users);
    let proxy = signed(&client("proxy"), &proxies);
    let unlisted = signed(&client("unlisted"), &proxies);
    let foreign = signed(&client("alice"), &stranger);
    let nameless = signed(&client(""), &users);
    let reviewer = Reviewer::new(cluster);
    let access = access(&reviewer, &config_map(&users.pem(), &proxies.pem()));
    type Row<'a> = (&'a [&'a CertificateDer<'static>], &'a [(&'a str, &'a str)], Option<&'a str>, &'a str);
    let rows: [Row<'_>; 21] = [
        (&[], &[], None, "nothing"),
        (&[], &[TOKEN], Some("tom"), "a token"),
        (&[], &[WRONG], None, "an invalid token"),
        (&[], &[("authorization", "Basic YTpi")], None, "a password"),
        (&[], &[REMOTE], None, "a front proxy's header alone"),
        (&[], &[REMOTE, TOKEN], Some("tom"), "the header does not count"),
        (&[&alice], &[], Some("alice"), "a certificate"),
        (&[&alice], &[TOKEN], Some("alice"), "a certificate before a token"),
        (&[&alice], &[WRONG], Some("alice"), "a certificate beside an invalid token"),
        (&[&alice], &[REMOTE], Some("alice"), "a user's certificate is no front proxy's"),
        (&[&foreign], &[], None, "a certificate of an unknown authority"),
        (&[&foreign], &[TOKEN], Some("tom"), "a token beside it"),
        (&[&foreign], &[WRONG], None, "two invalid ones"),
        (&[&foreign], &[REMOTE], None, "a front proxy's header beside it"),
        (&[&proxy], &[REMOTE], Some("rita"), "a front proxy"),
        (&[&proxy], &[REMOTE, TOKEN], Some("rita"), "a front proxy before a token"),
        (&[&proxy], &[REMOTE, WRONG], Some("rita"), "a front proxy beside an invalid token"),
        (&[&proxy], &[TOKEN], Some("tom"), "a front proxy that names no user"),
        (&[&proxy], &[], None, "a front proxy on its own behalf"),
        (&[&unlisted], &[REMOTE], None, "a certificate of the front proxies' authority with another name"),
        (&[&nameless], &[], None, "a certificate without a name"),
    ];
    for (chain, headers, expected, what) in rows {
        let found = admit(&access, &peer(chain), "/api/v1/pods", headers).await;
        match expected {
            Some(user) => {
                let admitted = found.unwrap_or_else(|refusal| panic!("{what}: {refusal:?}"));
                assert_eq!(admitted.identity.user, user, "{what}");
                assert!(admitted.identity.groups.contains(&"system:authenticated".to_owned()), "{what}");
            }
            None => assert_eq!(found.unwrap_err(), unauthorized(), "{what}"),
        }
    }
    let success = |by: By| access.counts().authentications(by, AttemptResult::Success);
    assert_eq!([By::FrontProxy, By::Certificate, By::Token, By::None].map(success), [3, 4, 4, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_user_is_recognized_without_a_review_where_none_is_needed() {
    let (users, proxies) = (authority("users"), authority("proxies"));
    let alice = signed(&client("alice"), &users);
    let proxy = signed(&client("proxy"), &proxies);
    let reviewer = Reviewer::new(cluster);
    let access = access(&reviewer, &config_map(&users.pem(), &proxies.pem()));
    admit(&access, &peer(&[]), "/api", &[TOKEN]).await.unwrap();
    let before = reviewer.count();
    let new = ("authorization", "Bearer token-new");
    let nobody = ("x-remote-user", "system:anonymous");
    type Row<'a> = (&'a [&'a CertificateDer<'static>], &'a [(&'a str, &'a str)], Option<&'a str>, &'a str, &'a str);
    let rows: [Row<'_>; 8] = [
        (&[&alice], &[], Some("alice"), "alice", "a certificate"),
        (&[&proxy], &[REMOTE], Some("rita"), "front proxy proxy", "a front proxy's header"),
        (&[&proxy], &[nobody], None, "front proxy proxy", "a front proxy's header that names no user"),
        (&[&proxy], &[TOKEN], Some("tom"), "front proxy proxy", "a token that a front proxy passes on"),
        (&[], &[TOKEN], Some("tom"), "tom", "a token that is cached"),
        (&[], &[new], None, "", "a token that is not"),
        (&[], &[REMOTE], None, "", "a front proxy's header alone"),
        (&[], &[], None, "", "nothing"),
    ];
    for (chain, pairs, user, connection, what) in rows {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let peer = peer(chain);
        let recognized = access.authenticate_locally(Some(&peer), &headers);
        assert_eq!(recognized.user().map(|identity| &*identity.user), user, "{what}");
        let identity = Identity { user: user.unwrap_or_default().to_owned(), ..Identity::default() };
        let counts_for = access.connection_user(Some(&peer), &identity);
        assert_eq!(counts_for, connection, "the user of the connection: {what}");
    }
    assert_eq!(reviewer.count(), before);
}

#[tokio::test(start_paused = true)]
async fn anonymous_callers_get_health_only_and_invalid_credentials_nothing() {
    let reviewer = Reviewer::new(cluster);
    let access = access(&reviewer, &config_map("", ""));
    for path in ["/livez", "/readyz", "/healthz", "/readyz?verbose"] {
        assert!(admit(&access, &peer(&[]), path, &[]).await.is_ok(), "{path}");
        assert_eq!(admit(&access, &peer(&[]), path, &[WRONG]).await.unwrap_err(), unauthorized(), "{path}");
    }
    for path in ["/", "/version", "/api", "/readyz/ping", "/openapi/v3", "/metrics", "/api/v1/pods"] {
        assert_eq!(admit(&access, &peer(&[]), path, &[]).await.unwrap_err(), unauthorized(), "{path}");
    }
    let nobody = known("system:anonymous", &["fieldcache.dev"]);
    reviewer.now(move |_, _| nobody.clone());
    assert_eq!(
        admit(&access, &peer(&[]), "/api", &[TOKEN]).await.unwrap_err(),
        unauthorized(),
        "reviewed as the anonymous user"
    );
}

#[tokio::test(start_paused = true)]
async fn impersonation_is_rejected_with_the_reason() {
    let reviewer = Reviewer::new(cluster);
    let access = access(&reviewer, &config_map("", ""));
    for header in ["Impersonate-User", "impersonate-group", "Impersonate-Uid", "Impersonate-Extra-Scopes"] {
        let refusal = admit(&access, &peer(&[]), "/api/v1/pods", &[TOKEN, (header, "bob")]).await.unwrap_err();
        assert_eq!(refusal, AccessError::Impersonation(header.to_ascii_lowercase()), "{header}");
        let refusal = admit(&access, &peer(&[]), "/api/v1/pods", &[(header, "bob")]).await.unwrap_err();
        assert_eq!(refusal, unauthorized(), "{header} of the anonymous user");
    }
    let received = reviewer.received();
    assert!(received.iter().all(|(what, _)| what != "subjectaccessreviews"), "{received:?}");
}

#[tokio::test(start_paused = true)]
async fn a_rejection_has_kube_apiservers_message() {
    let reviewer = Reviewer::new(cluster);
    let access = access(&reviewer, &config_map("", ""));
    let rows = [
        (
            "/api/v1/pods",
            r#"pods is forbidden: User "mallory" cannot list resource "pods" in API group "" at the cluster scope"#,
        ),
        (
            "/apis/g.example/v1/namespaces/n/shirts/s",
            r#"shirts.g.example "s" is forbidden: User "mallory" cannot get resource "shirts" in API group "g.example" in the namespace "n""#,
        ),
        (
            "/apis/g.example/v1/shirts?watch=1&fieldSelector=metadata.name%3Ds",
            r#"shirts.g.example "s" is forbidden: User "mallory" cannot watch resource "shirts" in API group "g.example" at the cluster scope"#,
        ),
        (
            "/api/v1/namespaces/n/pods/p/log",
            r#"pods "p" is forbidden: User "mallory" cannot get resource "pods/log" in API group "" in the namespace "n""#,
        ),
        (
            "/api/v1/namespaces/n/status",
            r#"namespaces "n" is forbidden: User "mallory" cannot get resource "namespaces/status" in API group "" in the namespace "n""#,
        ),
        ("/version", r#"forbidden: User "mallory" cannot get path "/version""#),
        ("/a<b>&c", r#"forbidden: User "mallory" cannot get path "/a&lt;b&gt;&amp;c""#),
    ];
    for (url, expected) in rows {
        let refusal = admit(&access, &peer(&[]), url, &[("authorization", "Bearer token-mallory")]).await.unwrap_err();
        let AccessError::Forbidden(forbidden) = refusal else { panic!("{url}: {refusal:?}") };
        assert_eq!(forbidden.message(), expected, "{url}");
    }
    let why = Says::Answer(201, json!({"kind": "SubjectAccessReview", "status": {"reason": "no <such> rule"}}));
    reviewer.now(move |what, review| if what == "tokenreviews" { cluster(what, review) } else { why.clone() });
    let AccessError::Forbidden(forbidden) = admit(&access, &peer(&[]), "/x", &[TOKEN]).await.unwrap_err() else {
        panic!()
    };
    assert_eq!(forbidden.message(), r#"forbidden: User "tom" cannot get path "/x": no <such> rule"#);
}

#[tokio::test(start_paused = true)]
async fn without_the_api_server_requests_are_rejected_with_two_different_errors() {
    let users = authority("users");
    let alice = signed(&client("alice"), &users);
    let reviewer = Reviewer::new(cluster);
    let access = access(&reviewer, &config_map(&users.pem(), ""));
    reviewer.now(|_, _| Says::Nothing("refused"));
    assert_eq!(admit(&access, &peer(&[]), "/api", &[TOKEN]).await.unwrap_err(), AccessError::AuthenticatorUnavailable);
    assert_eq!(admit(&access, &peer(&[&alice]), "/api", &[]).await.unwrap_err(), AccessError::AuthorizerUnavailable);
    assert!(admit(&access, &peer(&[]), "/livez", &[]).await.is_ok(), "we live all the same");
    reviewer.now(cluster);
    assert!(admit(&access, &peer(&[&alice]), "/api", &[]).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn until_the_client_authorities_are_loaded_no_certificate_is_rejected_as_invalid() {
    let users = authority("users");
    let alice = signed(&client("alice"), &users);
    let access = AccessControl::new(Reviewer::new(cluster), AccessSettings::default()).unwrap();
    type Row<'a> = (&'a [&'a CertificateDer<'static>], &'a [(&'a str, &'a str)], &'a str, Option<AccessError>, &'a str);
    let rows: [Row<'_>; 7] = [
        (&[&alice], &[], "/api", Some(AccessError::AuthoritiesNotLoaded), "a certificate"),
        (
            &[&alice],
            &[TOKEN],
            "/api",
            Some(AccessError::AuthoritiesNotLoaded),
            "the certificate may be a front proxy's, which comes before a token",
        ),
        (
            &[&alice],
            &[WRONG],
            "/api",
            Some(AccessError::AuthoritiesNotLoaded),
            "nor does it say yet that the token is invalid",
        ),
        (&[&alice], &[], "/readyz", None, "it learns that this is not ready"),
        (&[], &[TOKEN], "/api", None, "tokens are reviewed by the API server"),
        (&[], &[WRONG], "/api", Some(unauthorized()), "an invalid token"),
        (&[], &[], "/api", Some(unauthorized()), "nobody"),
    ];
    for (chain, headers, url, expected, why) in rows {
        assert_eq!(admit(&access, &peer(chain), url, headers).await.err(), expected, "{url}: {why}");
    }
    assert_eq!(access.counts().authentications(By::Certificate, AttemptResult::Error), 3);
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_verified_again_when_authorities_change() {
    let (before, after) = (authority("users"), authority("users"));
    let alice = signed(&client("alice"), &before);
    let reviewer = Reviewer::new(cluster);
    let access = access(&reviewer, &config_map(&before.pem(), ""));
    let peer = peer(&[&alice]);
    assert!(admit(&access, &peer, "/api", &[]).await.is_ok());
    let data = config_map(&after.pem(), "");
    access.set_authentication_config(&data);
    assert_eq!(admit(&access, &peer, "/api", &[]).await.unwrap_err(), unauthorized());
}

#[tokio::test(start_paused = true)]
async fn fields_of_field_caches_are_not_sent_in_reviews() {
    let reviewer = Reviewer::new(cluster);
    let settings = AccessSettings { known_field: Arc::new(|_, label| label != "size"), ..AccessSettings::default() };
    let access = AccessControl::new(reviewer.clone(), settings).unwrap();
    let url = "/apis/g/v1/shirts?fieldSelector=size%3DM,spec.color%3Dblue";
    assert!(admit(&access, &peer(&[]), url, &[TOKEN]).await.is_ok());
    let received = reviewer.received();
    let (_, review) = received.iter().find(|(what, _)| what == "subjectaccessreviews").unwrap();
    let requirements = &review["spec"]["resourceAttributes"]["fieldSelector"]["requirements"];
    assert_eq!(*requirements, json!([{"key": "spec.color", "operator": "In", "values": ["blue"]}]));
}
