//! The messages of `openapi.v2.Document` as data: field numbers of gnostic-models `openapiv2/OpenAPIv2.proto`.
//!
//! Security definitions other than API keys and basic authentication, and file schemas, have no user in a Kubernetes
//! document and are not described: they are reported as skipped.

use serde_json::Value;

use super::message::Shape;

type Fields = &'static [(&'static str, u32, &'static Shape)];

const fn record(fields: Fields, extensions: u32) -> Shape {
    Shape::Record { fields, named: None, extensions }
}

static TEXTS: Shape = Shape::List(&Shape::Text);
static ANYS: Shape = Shape::List(&Shape::Yaml);

/// The root message.
pub static DOCUMENT: Shape = record(
    &[
        ("swagger", 1, &Shape::Text),
        ("info", 2, &INFO),
        ("host", 3, &Shape::Text),
        ("basePath", 4, &Shape::Text),
        ("schemes", 5, &TEXTS),
        ("consumes", 6, &TEXTS),
        ("produces", 7, &TEXTS),
        ("paths", 8, &PATHS),
        ("definitions", 9, &Shape::Named(&SCHEMA)),
        ("parameters", 10, &Shape::Named(&PARAMETER)),
        ("responses", 11, &Shape::Named(&RESPONSE)),
        ("security", 12, &SECURITY),
        ("securityDefinitions", 13, &Shape::Named(&SECURITY_DEFINITION)),
        ("tags", 14, &Shape::List(&TAG)),
        ("externalDocs", 15, &EXTERNAL_DOCS),
    ],
    16,
);

static INFO: Shape = record(
    &[
        ("title", 1, &Shape::Text),
        ("version", 2, &Shape::Text),
        ("description", 3, &Shape::Text),
        ("termsOfService", 4, &Shape::Text),
        ("contact", 5, &CONTACT),
        ("license", 6, &LICENSE),
    ],
    7,
);

static CONTACT: Shape = record(&[("name", 1, &Shape::Text), ("url", 2, &Shape::Text), ("email", 3, &Shape::Text)], 4);

static LICENSE: Shape = record(&[("name", 1, &Shape::Text), ("url", 2, &Shape::Text)], 3);

static EXTERNAL_DOCS: Shape = record(&[("description", 1, &Shape::Text), ("url", 2, &Shape::Text)], 3);

static TAG: Shape =
    record(&[("name", 1, &Shape::Text), ("description", 2, &Shape::Text), ("externalDocs", 3, &EXTERNAL_DOCS)], 4);

static SECURITY: Shape = Shape::List(&Shape::Named(&Shape::Texts));

static SECURITY_DEFINITION: Shape = Shape::Choice(|value| match value.get("type").and_then(Value::as_str) {
    Some("basic") => Some((1, &BASIC)),
    _ => Some((2, &API_KEY)),
});

static BASIC: Shape = record(&[("type", 1, &Shape::Text), ("description", 2, &Shape::Text)], 3);

static API_KEY: Shape = record(
    &[("type", 1, &Shape::Text), ("name", 2, &Shape::Text), ("in", 3, &Shape::Text), ("description", 4, &Shape::Text)],
    5,
);

static PATHS: Shape =
    Shape::Record { fields: &[], named: Some((2, |key| key.starts_with('/'), &PATH_ITEM)), extensions: 1 };

static PATH_ITEM: Shape = record(
    &[
        ("$ref", 1, &Shape::Text),
        ("get", 2, &OPERATION),
        ("put", 3, &OPERATION),
        ("post", 4, &OPERATION),
        ("delete", 5, &OPERATION),
        ("options", 6, &OPERATION),
        ("head", 7, &OPERATION),
        ("patch", 8, &OPERATION),
        ("parameters", 9, &PARAMETERS),
    ],
    10,
);

static OPERATION: Shape = record(
    &[
        ("tags", 1, &TEXTS),
        ("summary", 2, &Shape::Text),
        ("description", 3, &Shape::Text),
        ("externalDocs", 4, &EXTERNAL_DOCS),
        ("operationId", 5, &Shape::Text),
        ("produces", 6, &TEXTS),
        ("consumes", 7, &TEXTS),
        ("parameters", 8, &PARAMETERS),
        ("responses", 9, &RESPONSES),
        ("schemes", 10, &TEXTS),
        ("deprecated", 11, &Shape::Flag),
        ("security", 12, &SECURITY),
    ],
    13,
);

static PARAMETERS: Shape = Shape::List(&PARAMETER_OR_REFERENCE);

static PARAMETER_OR_REFERENCE: Shape =
    Shape::Choice(|value| Some(if value.get("$ref").is_some() { (2, &REFERENCE) } else { (1, &PARAMETER) }));

static REFERENCE: Shape = record(&[("$ref", 1, &Shape::Text), ("description", 2, &Shape::Text)], 0);

static PARAMETER: Shape = Shape::Choice(|value| {
    let is_body = value.get("in").and_then(Value::as_str) == Some("body");
    Some(if is_body { (1, &BODY_PARAMETER) } else { (2, &OTHER_PARAMETER) })
});

static BODY_PARAMETER: Shape = record(
    &[
        ("description", 1, &Shape::Text),
        ("name", 2, &Shape::Text),
        ("in", 3, &Shape::Text),
        ("required", 4, &Shape::Flag),
        ("schema", 5, &SCHEMA),
    ],
    6,
);

static OTHER_PARAMETER: Shape = Shape::Choice(|value| match value.get("in").and_then(Value::as_str) {
    Some("header") => Some((1, &HEADER_OR_PATH_PARAMETER)),
    Some("formData") => Some((2, &FORM_OR_QUERY_PARAMETER)),
    Some("path") => Some((4, &HEADER_OR_PATH_PARAMETER)),
    _ => Some((3, &FORM_OR_QUERY_PARAMETER)),
});

static HEADER_OR_PATH_PARAMETER: Shape = record(
    &[
        ("required", 1, &Shape::Flag),
        ("in", 2, &Shape::Text),
        ("description", 3, &Shape::Text),
        ("name", 4, &Shape::Text),
        ("type", 5, &Shape::Text),
        ("format", 6, &Shape::Text),
        ("items", 7, &ITEMS),
        ("collectionFormat", 8, &Shape::Text),
        ("default", 9, &Shape::Yaml),
        ("maximum", 10, &Shape::Double),
        ("exclusiveMaximum", 11, &Shape::Flag),
        ("minimum", 12, &Shape::Double),
        ("exclusiveMinimum", 13, &Shape::Flag),
        ("maxLength", 14, &Shape::Integer),
        ("minLength", 15, &Shape::Integer),
        ("pattern", 16, &Shape::Text),
        ("maxItems", 17, &Shape::Integer),
        ("minItems", 18, &Shape::Integer),
        ("uniqueItems", 19, &Shape::Flag),
        ("enum", 20, &ANYS),
        ("multipleOf", 21, &Shape::Double),
    ],
    22,
);

static FORM_OR_QUERY_PARAMETER: Shape = record(
    &[
        ("required", 1, &Shape::Flag),
        ("in", 2, &Shape::Text),
        ("description", 3, &Shape::Text),
        ("name", 4, &Shape::Text),
        ("allowEmptyValue", 5, &Shape::Flag),
        ("type", 6, &Shape::Text),
        ("format", 7, &Shape::Text),
        ("items", 8, &ITEMS),
        ("collectionFormat", 9, &Shape::Text),
        ("default", 10, &Shape::Yaml),
        ("maximum", 11, &Shape::Double),
        ("exclusiveMaximum", 12, &Shape::Flag),
        ("minimum", 13, &Shape::Double),
        ("exclusiveMinimum", 14, &Shape::Flag),
        ("maxLength", 15, &Shape::Integer),
        ("minLength", 16, &Shape::Integer),
        ("pattern", 17, &Shape::Text),
        ("maxItems", 18, &Shape::Integer),
        ("minItems", 19, &Shape::Integer),
        ("uniqueItems", 20, &Shape::Flag),
        ("enum", 21, &ANYS),
        ("multipleOf", 22, &Shape::Double),
    ],
    23,
);

static ITEMS: Shape = record(
    &[
        ("type", 1, &Shape::Text),
        ("format", 2, &Shape::Text),
        ("items", 3, &ITEMS),
        ("collectionFormat", 4, &Shape::Text),
        ("default", 5, &Shape::Yaml),
        ("maximum", 6, &Shape::Double),
        ("exclusiveMaximum", 7, &Shape::Flag),
        ("minimum", 8, &Shape::Double),
        ("exclusiveMinimum", 9, &Shape::Flag),
        ("maxLength", 10, &Shape::Integer),
        ("minLength", 11, &Shape::Integer),
        ("pattern", 12, &Shape::Text),
        ("maxItems", 13, &Shape::Integer),
        ("minItems", 14, &Shape::Integer),
        ("uniqueItems", 15, &Shape::Flag),
        ("enum", 16, &ANYS),
        ("multipleOf", 17, &Shape::Double),
    ],
    18,
);

static HEADER: Shape = record(
    &[
        ("type", 1, &Shape::Text),
        ("format", 2, &Shape::Text),
        ("items", 3, &ITEMS),
        ("collectionFormat", 4, &Shape::Text),
        ("default", 5, &Shape::Yaml),
        ("enum", 16, &ANYS),
        ("description", 18, &Shape::Text),
    ],
    19,
);

static RESPONSES: Shape = Shape::Record {
    fields: &[],
    named: Some((1, |key| !key.starts_with("x-"), &RESPONSE_OR_REFERENCE)),
    extensions: 2,
};

static RESPONSE_OR_REFERENCE: Shape =
    Shape::Choice(|value| Some(if value.get("$ref").is_some() { (2, &REFERENCE) } else { (1, &RESPONSE) }));

static RESPONSE: Shape = record(
    &[
        ("description", 1, &Shape::Text),
        ("schema", 2, &Shape::Wrapped(&SCHEMA)),
        ("headers", 3, &Shape::Named(&HEADER)),
        ("examples", 4, &Shape::Named(&Shape::Yaml)),
    ],
    5,
);

static SCHEMA: Shape = record(
    &[
        ("$ref", 1, &Shape::Text),
        ("format", 2, &Shape::Text),
        ("title", 3, &Shape::Text),
        ("description", 4, &Shape::Text),
        ("default", 5, &Shape::Yaml),
        ("multipleOf", 6, &Shape::Double),
        ("maximum", 7, &Shape::Double),
        ("exclusiveMaximum", 8, &Shape::Flag),
        ("minimum", 9, &Shape::Double),
        ("exclusiveMinimum", 10, &Shape::Flag),
        ("maxLength", 11, &Shape::Integer),
        ("minLength", 12, &Shape::Integer),
        ("pattern", 13, &Shape::Text),
        ("maxItems", 14, &Shape::Integer),
        ("minItems", 15, &Shape::Integer),
        ("uniqueItems", 16, &Shape::Flag),
        ("maxProperties", 17, &Shape::Integer),
        ("minProperties", 18, &Shape::Integer),
        ("required", 19, &TEXTS),
        ("enum", 20, &ANYS),
        ("additionalProperties", 21, &ADDITIONAL_PROPERTIES),
        ("type", 22, &Shape::Texts),
        ("items", 23, &Shape::Wrapped(&SCHEMA)),
        ("allOf", 24, &Shape::List(&SCHEMA)),
        ("properties", 25, &Shape::Named(&SCHEMA)),
        ("discriminator", 26, &Shape::Text),
        ("readOnly", 27, &Shape::Flag),
        ("xml", 28, &XML),
        ("externalDocs", 29, &EXTERNAL_DOCS),
        ("example", 30, &Shape::Yaml),
    ],
    31,
);

static ADDITIONAL_PROPERTIES: Shape =
    Shape::Choice(|value| Some(if value.is_boolean() { (2, &Shape::Flag) } else { (1, &SCHEMA) }));

static XML: Shape = record(
    &[
        ("name", 1, &Shape::Text),
        ("namespace", 2, &Shape::Text),
        ("prefix", 3, &Shape::Text),
        ("attribute", 4, &Shape::Flag),
        ("wrapped", 5, &Shape::Flag),
    ],
    6,
);
