//! The table of the OpenAPI endpoints, row by row.

use std::io::Read as _;

use futures::FutureExt as _;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Bytes, HeaderMap, HeaderName, HeaderValue, Needed, Request, Response, answer};
use crate::registry::documents::StaticDocuments;

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V2_PROTOBUF_AT: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
const V3_PROTOBUF_AT: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";

fn documents() -> StaticDocuments {
    let filler = "long enough to be compressed. ".repeat(100);
    let v2 = json!({"swagger": "2.0", "info": {"title": "t", "version": filler}, "paths": {}});
    let v3 = json!({"openapi": "3.0.0", "info": {"title": "t", "version": "v"}, "paths": {}});
    StaticDocuments::new(
        Box::new(move || v2.clone()),
        [("apis/apps/v1".to_owned(), Box::new(move || v3.clone()) as crate::registry::documents::Build)],
    )
}

fn request(set: &StaticDocuments, method: &Method, url: &str, headers: &[(&str, &str)]) -> Response<Bytes> {
    let (path, query) = url.split_once('?').map_or((url, None), |(path, query)| (path, Some(query)));
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let needed = Needed::fetch(path, set).now_or_never().unwrap().unwrap();
    let now = "2028-02-29T10:20:30Z".parse::<Timestamp>().unwrap();
    answer(&Request { method, prefix: "/base", path, query, headers: &map, now }, &needed)
}

fn get(set: &StaticDocuments, url: &str, headers: &[(&str, &str)]) -> Response<Bytes> {
    request(set, &Method::GET, url, headers)
}

fn header<'a>(response: &'a Response<Bytes>, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

#[test]
fn the_accept_header_chooses_the_encoding() {
    let set = documents();
    for (accept, v2, v3) in [
        (None, "application/json", "application/json"),
        (Some("*/*"), "application/json", "application/json"),
        (Some("application/*"), "application/json", "application/json"),
        (Some("application/json"), "application/json", "application/json"),
        (Some("application/json;charset=utf-8, text/html"), "application/json", "application/json"),
        (Some(V2_PROTOBUF), V2_PROTOBUF, ""),
        (Some(V2_PROTOBUF_AT), V2_PROTOBUF, ""),
        (Some(V3_PROTOBUF), "", V3_PROTOBUF),
        (Some(V3_PROTOBUF_AT), "", V3_PROTOBUF),
        (
            Some("application/json;q=0.5, application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
            V2_PROTOBUF,
            "application/json",
        ),
        (Some("*/*, application/com.github.proto-openapi.spec.v3@v1.0+protobuf"), "application/json", V3_PROTOBUF),
        (Some("application/json;q=0"), "", ""),
        (Some("application/yaml"), "", ""),
        (Some("text/plain"), "", ""),
        (Some("nonsense"), "", ""),
    ] {
        for (url, expected) in [("/v2", v2), ("/v3/apis/apps/v1", v3)] {
            let headers: Vec<(&str, &str)> = accept.map(|accept| ("accept", accept)).into_iter().collect();
            let response = get(&set, url, &headers);
            let status = if expected.is_empty() { 406 } else { 200 };
            assert_eq!(response.status(), status, "{url} {accept:?}");
            assert_eq!(header(&response, "content-type").unwrap_or_default(), expected, "{url} {accept:?}");
            assert_eq!(response.body().is_empty(), expected.is_empty(), "{url} {accept:?}");
            assert_eq!(header(&response, "cache-control"), Some("no-cache, private"), "{url} {accept:?}");
        }
    }
}

#[test]
fn both_encodings_carry_the_hash_of_the_json() {
    let set = documents();
    for (url, protobuf, document) in
        [("/v2", V2_PROTOBUF, &*set.v2), ("/v3/apis/apps/v1", V3_PROTOBUF, set.v3.v3("apis/apps/v1").unwrap())]
    {
        let tag = format!("\"{}\"", document.document().hash);
        assert_eq!(document.document().hash, crate::openapi::hash::sha512(&document.document().json), "{url}");
        for accept in ["application/json", protobuf] {
            assert_eq!(header(&get(&set, url, &[("accept", accept)]), "etag"), Some(&*tag), "{url} {accept}");
        }
        assert_ne!(get(&set, url, &[]).body(), get(&set, url, &[("accept", protobuf)]).body(), "{url}");
    }
}

#[test]
fn vary_names_what_the_answer_depends_on() {
    let set = documents();
    let vary = |url: &str, accept: &str| -> Vec<String> {
        let response = get(&set, url, &[("accept", accept)]);
        response.headers().get_all("vary").iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    };
    assert_eq!(vary("/v2", "*/*"), ["Accept-Encoding", "Accept"]);
    assert_eq!(vary("/v2", "text/html"), ["Accept-Encoding", "Accept"]);
    assert_eq!(vary("/v3", "*/*"), [""; 0]);
    assert_eq!(vary("/v3/apis/apps/v1", "*/*"), ["Accept"]);
    assert_eq!(vary("/v3/apis/apps/v1", "text/html"), ["Accept"]);
}

#[test]
fn only_v2_is_compressed_and_only_for_clients_that_accept_it() {
    let set = documents();
    for (url, coding, compressed) in [
        ("/v2", "gzip", true),
        ("/v2", "deflate, gzip;q=0.5", true),
        ("/v2", "gzip;q=0", false),
        ("/v2", "identity", false),
        ("/v3", "gzip", false),
        ("/v3/apis/apps/v1", "gzip", false),
    ] {
        let response = get(&set, url, &[("accept-encoding", coding)]);
        let expected = compressed.then_some("gzip");
        assert_eq!(header(&response, "content-encoding"), expected, "{url} {coding}");
        if compressed {
            let mut text = Vec::new();
            flate2::read::GzDecoder::new(&**response.body()).read_to_end(&mut text).unwrap();
            assert_eq!(Bytes::from(text), set.v2.document().json, "{coding}");
        }
    }
}

#[test]
fn the_index_is_json_labelled_as_text_for_every_accept_header() {
    let set = documents();
    let response = get(&set, "/v3", &[("accept", "application/json")]);
    let content_type = header(&response, "content-type");
    assert_eq!((response.status().as_u16(), content_type), (200, Some("text/plain; charset=utf-8")));
    let index: Value = serde_json::from_slice(response.body()).unwrap();
    let hash = &set.v3.v3("apis/apps/v1").unwrap().document().hash;
    assert_eq!(
        index,
        json!({"paths": {"apis/apps/v1": {"serverRelativeURL": format!("/openapi/v3/apis/apps/v1?hash={hash}")}}})
    );
    assert_eq!(header(&response, "etag"), None, "the aggregator gives none");
    assert_eq!(header(&response, "last-modified"), Some("Tue, 29 Feb 2028 10:20:30 GMT"));
}

#[test]
fn a_hash_makes_an_answer_immutable_and_a_stale_one_moves() {
    let set = documents();
    let hash = &set.v3.v3("apis/apps/v1").unwrap().document().hash;
    let current = format!("/v3/apis/apps/v1?hash={hash}");
    let response = get(&set, &current, &[]);
    assert_eq!(response.status(), 200);
    assert_eq!(header(&response, "cache-control"), Some("public, immutable"));
    assert_eq!(header(&response, "expires"), Some("Wed, 28 Feb 2029 10:20:30 UTC"));

    let none = get(&set, "/v3/apis/apps/v1?hash=", &[]);
    assert_eq!((none.status().as_u16(), header(&none, "expires")), (200, None), "an empty hash is none");

    for (stale, method) in [("0", Method::GET), (&*hash.to_lowercase(), Method::GET), ("0", Method::HEAD)] {
        let response = request(&set, &method, &format!("/v3/apis/apps/v1?hash={stale}"), &[]);
        assert_eq!(response.status(), 301, "{stale}");
        let location = format!("/base/openapi/v3/apis/apps/v1?hash={hash}");
        assert_eq!(header(&response, "location"), Some(&*location), "{stale}");
        assert_eq!(header(&response, "cache-control"), Some("no-cache, private"), "{stale}");
        assert!(response.body().is_empty(), "{stale}");
    }
}

#[test]
fn a_known_document_is_not_sent_again() {
    let set = documents();
    let hash = &set.v3.v3("apis/apps/v1").unwrap().document().hash;
    let current = format!("/v3/apis/apps/v1?hash={hash}");
    for (url, tag, status) in [
        ("/v2", format!("\"{}\"", set.v2.document().hash), 304),
        ("/v2", format!("W/\"{}\"", set.v2.document().hash), 304),
        ("/v2", "*".to_owned(), 304),
        ("/v2", set.v2.document().hash.clone(), 200),
        ("/v2", "\"other\"".to_owned(), 200),
        (&*current, format!("\"x\", \"{hash}\""), 304),
        ("/v3/apis/apps/v1?hash=stale", format!("\"{hash}\""), 301),
    ] {
        let response = get(&set, url, &[("if-none-match", &tag)]);
        assert_eq!(response.status(), status, "{url} {tag}");
        assert_eq!(response.body().is_empty(), status != 200, "{url} {tag}");
    }
    let response = get(&set, &current, &[("if-none-match", &format!("\"{hash}\""))]);
    assert_eq!(header(&response, "cache-control"), Some("public, immutable"), "a 304 keeps the cache headers");
    assert_eq!(header(&response, "content-type"), None);
}

#[test]
fn unknown_paths_are_refused_without_a_body() {
    let set = documents();
    for url in ["/v3/apis/apps/v2", "/v3/apis/apps/v1/", "/v3/", "/v2/", ""] {
        let response = get(&set, url, &[]);
        assert_eq!(response.status(), 404, "{url}");
        assert!(response.body().is_empty(), "{url}");
    }
}

#[test]
fn every_method_but_head_is_answered_like_get() {
    let set = documents();
    for method in [Method::OPTIONS, Method::POST, Method::DELETE] {
        let response = request(&set, &method, "/v2", &[]);
        assert_eq!((response.status().as_u16(), response.body()), (200, &set.v2.document().json), "{method}");
    }
}

#[test]
fn the_time_is_that_of_the_first_response_and_used_only_without_a_tag() {
    let set = documents();
    for (url, headers, status) in [
        ("/v2", vec![("if-modified-since", "Tue, 29 Feb 2028 10:20:30 GMT")], 304),
        ("/v2", vec![("if-modified-since", "Wed, 01 Mar 2028 00:00:00 GMT")], 304),
        ("/v2", vec![("if-modified-since", "Tue, 29 Feb 2028 10:20:29 GMT")], 200),
        ("/v2", vec![("if-modified-since", "yesterday")], 200),
        ("/v2", vec![("if-modified-since", "Wed, 01 Mar 2028 00:00:00 GMT"), ("if-none-match", "\"other\"")], 200),
        ("/v3", vec![("if-modified-since", "Tue, 29 Feb 2028 10:20:30 GMT")], 304),
        ("/v3/apis/apps/v1", vec![("if-modified-since", "Tue, 29 Feb 2028 10:20:30 GMT")], 304),
    ] {
        let response = get(&set, url, &headers);
        assert_eq!(response.status(), status, "{url} {headers:?}");
        let has_date = header(&response, "last-modified").is_some();
        assert_eq!(has_date, status == 200 || url == "/v3", "{url} {headers:?}: where there is a tag, it is enough");
    }
}

#[test]
fn head_says_the_length_and_sends_nothing() {
    let set = documents();
    let response = request(&set, &Method::HEAD, "/v2", &[]);
    assert_eq!(header(&response, "content-length"), Some(&*set.v2.document().json.len().to_string()));
    assert!(response.body().is_empty());
}

#[test]
fn a_range_is_cut_out_of_the_whole() {
    let set = documents();
    let whole = set.v3.v3("apis/apps/v1").unwrap().document().json.clone();
    let length = whole.len();
    for (range, status, expected) in [
        ("bytes=0-3", 206, whole.slice(0..4)),
        ("bytes=10-", 206, whole.slice(10..)),
        ("bytes=-5", 206, whole.slice(length - 5..)),
        ("bytes=0-99999", 206, whole.clone()),
        ("bytes=99999-", 416, Bytes::new()),
        ("bytes=0-1,3-4", 200, whole.clone()),
        ("lines=0-1", 200, whole.clone()),
    ] {
        let response = get(&set, "/v3/apis/apps/v1", &[("range", range)]);
        assert_eq!(response.status(), status, "{range}");
        assert_eq!(response.body(), &expected, "{range}");
    }
    let response = get(&set, "/v3/apis/apps/v1", &[("range", "bytes=0-3")]);
    assert_eq!(header(&response, "content-range"), Some(&*format!("bytes 0-3/{length}")));
}

#[test]
fn nothing_is_built_before_it_is_requested() {
    let set = StaticDocuments::new(
        Box::new(|| panic!("built")),
        [("api/v1".to_owned(), Box::new(|| json!({"openapi": "3.0.0"})) as crate::registry::documents::Build)],
    );
    assert_eq!(get(&set, "/v3", &[]).status(), 200);
    assert_eq!(get(&set, "/v3/api/v1", &[]).status(), 200);
}
