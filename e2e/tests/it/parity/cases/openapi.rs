//! OpenAPI documents of the definitions, their HTTP, and their protobuf forms.

use e2e::openapi::Form;
use http::Method;

use super::super::case::{Case, Reading, get};

const V2: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const V2_DOTTED: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V3: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
const V3_DOTTED: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

pub(crate) fn cases() -> Vec<Case> {
    let document = "/openapi/v3/apis/shop.example.com/v1";
    vec![
        get("openapi/v3 index", "/openapi/v3").reading(Reading::Index),
        get("openapi/v3 document", document),
        get("openapi/v3 document of the other version", "/openapi/v3/apis/shop.example.com/v1beta1"),
        get("openapi/v3 document with its hash", "apis/shop.example.com/v1").reading(Reading::Hashed),
        get("openapi/v3 document with a stale hash", "/openapi/v3/apis/shop.example.com/v1?hash=ABC"),
        get("openapi/v3 document with a stale hash, head", "/openapi/v3/apis/shop.example.com/v1?hash=ABC")
            .method(Method::HEAD),
        get("openapi/v3 document, head", document).method(Method::HEAD),
        get("openapi/v3 document, not changed", document).reading(Reading::SecondTime),
        get("openapi/v3 document as protobuf", document).accept(V3).reading(Reading::Protobuf(Form::V3)),
        get("openapi/v3 document as protobuf, dotted", document).accept(V3_DOTTED).reading(Reading::Protobuf(Form::V3)),
        get("openapi/v3 document as html", document).accept("text/html"),
        get("openapi/v3 document, gzip", document).header("accept-encoding", "gzip"),
        get("openapi/v3 of an unknown group", "/openapi/v3/apis/nowhere.example.com/v1"),
        get("openapi/v3 with a trailing slash", "/openapi/v3/"),
        get("openapi/v2", "/openapi/v2"),
        get("openapi/v2, gzip", "/openapi/v2").header("accept-encoding", "gzip"),
        get("openapi/v2 as protobuf", "/openapi/v2").accept(V2).reading(Reading::Protobuf(Form::V2)),
        get("openapi/v2 as protobuf, dotted", "/openapi/v2").accept(V2_DOTTED).reading(Reading::Protobuf(Form::V2)),
        get("openapi/v2 as html", "/openapi/v2").accept("text/html"),
        get("openapi/v2, not changed", "/openapi/v2").reading(Reading::SecondTime),
        get("openapi/v2, head", "/openapi/v2").method(Method::HEAD),
    ]
}
