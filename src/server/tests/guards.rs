//! What browsers send is refused; what programs send is not.

use http::Method;

use super::{Fixture, SHIRTS};
use crate::server::Settings;
use crate::server::guards::Guard;
use crate::store::HistoryLimits;

fn guarded() -> Fixture {
    let guard = Some(Guard { hosts: vec!["192.168.1.7".to_owned()] });
    Fixture::with(Settings { guard, ..Settings::default() }, HistoryLimits::default())
}

#[tokio::test]
async fn foreign_hosts_origins_and_sites_are_refused() {
    let fixture = guarded();
    for (host, header, expected, why) in [
        ("127.0.0.1:8181", ("x", "y"), None, "the loopback"),
        ("localhost:8181", ("x", "y"), None, "its name"),
        ("LOCALHOST", ("x", "y"), None, "without a port, in capitals"),
        ("[::1]:8181", ("x", "y"), None, "IPv6"),
        ("127.9.9.9", ("x", "y"), None, "all of 127/8"),
        ("192.168.1.7:8181", ("x", "y"), None, "the bound address"),
        ("192.168.1.8:8181", ("x", "y"), Some("Host"), "another address"),
        ("evil.example.com", ("x", "y"), Some("Host"), "a name that was made to resolve here"),
        ("localhost.example.com", ("x", "y"), Some("Host"), "a name that looks alike"),
        ("127.0.0.1:8181@evil.example.com", ("x", "y"), Some("Host"), "a loopback address as user name"),
        ("", ("x", "y"), Some("Host"), "no host"),
        ("127.0.0.1:8181", ("origin", "http://127.0.0.1:8181"), None, "the server's own origin"),
        ("127.0.0.1:8181", ("origin", "http://127.0.0.1:3000"), Some("Origin"), "another port"),
        ("127.0.0.1:8181", ("origin", "https://evil.example.com"), Some("Origin"), "a foreign page"),
        ("127.0.0.1:8181", ("origin", "null"), Some("Origin"), "a page without origin"),
        ("127.0.0.1:8181", ("sec-fetch-site", "none"), None, "typed by a person"),
        ("127.0.0.1:8181", ("sec-fetch-site", "same-origin"), None, "the server's own page"),
        ("127.0.0.1:8181", ("sec-fetch-site", "cross-site"), Some("Sec-Fetch-Site"), "a foreign page's image"),
        ("127.0.0.1:8181", ("sec-fetch-site", "same-site"), Some("Sec-Fetch-Site"), "a page of another port"),
    ] {
        let request = http::Request::builder().uri(SHIRTS).header("host", host).header(header.0, header.1);
        let response = fixture.server.answer(request.body(String::new()).unwrap()).await;
        assert_eq!(response.status().as_u16(), if expected.is_some() { 403 } else { 200 }, "{why}");
        assert!(!response.headers().keys().any(|name| name.as_str().starts_with("access-control")), "{why}");
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&body);
        assert!(expected.is_none_or(|header| text.contains(&format!("\"message\":\"{header} "))), "{why}: {text}");
    }
    let open = Fixture::new();
    let request = http::Request::builder().uri(SHIRTS).header("host", "fieldcache.svc").body(String::new()).unwrap();
    assert_eq!(open.server.answer(request).await.status(), 200, "without a guard every host is served");
}

#[tokio::test]
async fn every_value_of_a_repeated_header_is_checked() {
    let fixture = guarded();
    let own = ("origin", "http://127.0.0.1:8181");
    let foreign = ("origin", "https://evil.example.com");
    for (headers, code, said) in [
        (&[own, own][..], 200, ""),
        (&[own, foreign], 403, "Origin \\\"https://evil.example.com\\\" is not this server"),
        (&[foreign, own], 403, "Origin \\\"https://evil.example.com\\\" is not this server"),
        (&[own, ("origin", "")], 403, "Origin \\\"\\\" is not this server"),
        (&[("sec-fetch-site", "none"), ("sec-fetch-site", "same-origin")], 200, ""),
        (&[("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")], 403, "Sec-Fetch-Site is"),
        (&[("sec-fetch-site", "same-origin, cross-site")], 403, "Sec-Fetch-Site is"),
        (&[("sec-fetch-site", "Cross-Site")], 403, "Sec-Fetch-Site is"),
        (&[("host", "127.0.0.1:8181")], 400, "too many Host headers"),
        (&[("host", "evil.example.com")], 400, "too many Host headers"),
    ] {
        let mut request = http::Request::builder().uri(SHIRTS).header("host", "127.0.0.1:8181");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = fixture.server.answer(request.body(String::new()).unwrap()).await;
        assert_eq!(response.status(), code, "{headers:?}");
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&body);
        assert!(text.contains(said), "{headers:?}: {text}");
    }
    // The URI of HTTP/2 or of a proxy's request names one host, the header another one.
    let uri = format!("http://127.0.0.1:8181{SHIRTS}");
    let request = http::Request::builder().uri(uri).header("host", "evil.example.com").body(String::new()).unwrap();
    assert_eq!(fixture.server.answer(request).await.status(), 403);
    let lengths = [("content-length", "0"), ("content-length", "5")];
    let lengths = [&lengths[..], &[("cookie", "a=b")]].concat();
    assert_eq!(fixture.whole(Method::POST, SHIRTS, &lengths).await.code, 415, "a body without a media type");
}

#[tokio::test]
async fn bodies_without_a_media_type_are_refused_from_browsers() {
    let fixture = guarded();
    let length = ("content-length", "5");
    for (headers, code) in [
        (&[length, ("origin", "http://127.0.0.1:8181")][..], 415),
        (&[length, ("referer", "http://127.0.0.1/")], 415),
        (&[length, ("sec-fetch-site", "none")], 415),
        (&[length, ("sec-fetch-mode", "navigate")], 415),
        (&[("transfer-encoding", "chunked"), ("cookie", "a=b")], 415),
        (&[length], 405),
        (&[("transfer-encoding", "chunked")], 405),
        (&[("content-length", "5"), ("content-type", "application/json")], 405),
        (&[("content-length", "0")], 405),
        (&[], 405),
    ] {
        let answer = fixture.whole(Method::POST, SHIRTS, headers).await;
        assert_eq!(answer.code.as_u16(), code, "{headers:?}: {}", answer.body);
    }
}
