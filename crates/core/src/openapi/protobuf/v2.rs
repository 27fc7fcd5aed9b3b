//! The messages of `openapi.v2.Document` as data: field numbers of gnostic-models `openapiv2/OpenAPIv2.proto`.
//!
//! Kubernetes documents do not use file schemas, or security definitions other than API keys and basic authentication.
//! These are not described here and are reported as skipped.

use serde_json::Value;

use super::message::ValueType;

type Fields = &'static [(&'static str, u32, &'static ValueType)];

/// A message of these fields; `extensions` is the number of its field for `x-*`.
const fn record(fields: Fields, extensions: u32) -> ValueType {
    ValueType::Record { fields, named: None, extensions }
}

static TEXTS: ValueType = ValueType::List(&ValueType::Text);
static ANYS: ValueType = ValueType::List(&ValueType::Yaml);

/// The root message.
pub static DOCUMENT: ValueType = record(
    &[
        ("swagger", 1, &ValueType::Text),
        ("info", 2, &INFO),
        ("host", 3, &ValueType::Text),
        ("basePath", 4, &ValueType::Text),
        ("schemes", 5, &TEXTS),
        ("consumes", 6, &TEXTS),
        ("produces", 7, &TEXTS),
        ("paths", 8, &PATHS),
        ("definitions", 9, &ValueType::Named(&SCHEMA)),
        ("parameters", 10, &ValueType::Named(&PARAMETER)),
        ("responses", 11, &ValueType::Named(&RESPONSE)),
        ("security", 12, &SECURITY),
        ("securityDefinitions", 13, &ValueType::Named(&SECURITY_DEFINITION)),
        ("tags", 14, &ValueType::List(&TAG)),
        ("externalDocs", 15, &EXTERNAL_DOCS),
    ],
    16,
);

static INFO: ValueType = record(
    &[
        ("title", 1, &ValueType::Text),
        ("version", 2, &ValueType::Text),
        ("description", 3, &ValueType::Text),
        ("termsOfService", 4, &ValueType::Text),
        ("contact", 5, &CONTACT),
        ("license", 6, &LICENSE),
    ],
    7,
);

static CONTACT: ValueType =
    record(&[("name", 1, &ValueType::Text), ("url", 2, &ValueType::Text), ("email", 3, &ValueType::Text)], 4);

static LICENSE: ValueType = record(&[("name", 1, &ValueType::Text), ("url", 2, &ValueType::Text)], 3);

static EXTERNAL_DOCS: ValueType = record(&[("description", 1, &ValueType::Text), ("url", 2, &ValueType::Text)], 3);

static TAG: ValueType = record(
    &[("name", 1, &ValueType::Text), ("description", 2, &ValueType::Text), ("externalDocs", 3, &EXTERNAL_DOCS)],
    4,
);

static SECURITY: ValueType = ValueType::List(&ValueType::Named(&ValueType::Texts));

static SECURITY_DEFINITION: ValueType = ValueType::Choice(|value| match value.get("type").and_then(Value::as_str) {
    Some("basic") => Some((1, &BASIC)),
    _ => Some((2, &API_KEY)),
});

static BASIC: ValueType = record(&[("type", 1, &ValueType::Text), ("description", 2, &ValueType::Text)], 3);

static API_KEY: ValueType = record(
    &[
        ("type", 1, &ValueType::Text),
        ("name", 2, &ValueType::Text),
        ("in", 3, &ValueType::Text),
        ("description", 4, &ValueType::Text),
    ],
    5,
);

static PATHS: ValueType =
    ValueType::Record { fields: &[], named: Some((2, |key| key.starts_with('/'), &PATH_ITEM)), extensions: 1 };

static PATH_ITEM: ValueType = record(
    &[
        ("$ref", 1, &ValueType::Text),
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

static OPERATION: ValueType = record(
    &[
        ("tags", 1, &TEXTS),
        ("summary", 2, &ValueType::Text),
        ("description", 3, &ValueType::Text),
        ("externalDocs", 4, &EXTERNAL_DOCS),
        ("operationId", 5, &ValueType::Text),
        ("produces", 6, &TEXTS),
        ("consumes", 7, &TEXTS),
        ("parameters", 8, &PARAMETERS),
        ("responses", 9, &RESPONSES),
        ("schemes", 10, &TEXTS),
        ("deprecated", 11, &ValueType::Flag),
        ("security", 12, &SECURITY),
    ],
    13,
);

static PARAMETERS: ValueType = ValueType::List(&PARAMETER_OR_REFERENCE);

static PARAMETER_OR_REFERENCE: ValueType =
    ValueType::Choice(|value| Some(if value.get("$ref").is_some() { (2, &REFERENCE) } else { (1, &PARAMETER) }));

static REFERENCE: ValueType = record(&[("$ref", 1, &ValueType::Text), ("description", 2, &ValueType::Text)], 0);

static PARAMETER: ValueType = ValueType::Choice(|value| {
    let is_body = value.get("in").and_then(Value::as_str) == Some("body");
    Some(if is_body { (1, &BODY_PARAMETER) } else { (2, &OTHER_PARAMETER) })
});

static BODY_PARAMETER: ValueType = record(
    &[
        ("description", 1, &ValueType::Text),
        ("name", 2, &ValueType::Text),
        ("in", 3, &ValueType::Text),
        ("required", 4, &ValueType::Flag),
        ("schema", 5, &SCHEMA),
    ],
    6,
);

static OTHER_PARAMETER: ValueType = ValueType::Choice(|value| match value.get("in").and_then(Value::as_str) {
    Some("header") => Some((1, &HEADER_OR_PATH_PARAMETER)),
    Some("formData") => Some((2, &FORM_OR_QUERY_PARAMETER)),
    Some("path") => Some((4, &HEADER_OR_PATH_PARAMETER)),
    _ => Some((3, &FORM_OR_QUERY_PARAMETER)),
});

static HEADER_OR_PATH_PARAMETER: ValueType = record(
    &[
        ("required", 1, &ValueType::Flag),
        ("in", 2, &ValueType::Text),
        ("description", 3, &ValueType::Text),
        ("name", 4, &ValueType::Text),
        ("type", 5, &ValueType::Text),
        ("format", 6, &ValueType::Text),
        ("items", 7, &ITEMS),
        ("collectionFormat", 8, &ValueType::Text),
        ("default", 9, &ValueType::Yaml),
        ("maximum", 10, &ValueType::Double),
        ("exclusiveMaximum", 11, &ValueType::Flag),
        ("minimum", 12, &ValueType::Double),
        ("exclusiveMinimum", 13, &ValueType::Flag),
        ("maxLength", 14, &ValueType::Integer),
        ("minLength", 15, &ValueType::Integer),
        ("pattern", 16, &ValueType::Text),
        ("maxItems", 17, &ValueType::Integer),
        ("minItems", 18, &ValueType::Integer),
        ("uniqueItems", 19, &ValueType::Flag),
        ("enum", 20, &ANYS),
        ("multipleOf", 21, &ValueType::Double),
    ],
    22,
);

static FORM_OR_QUERY_PARAMETER: ValueType = record(
    &[
        ("required", 1, &ValueType::Flag),
        ("in", 2, &ValueType::Text),
        ("description", 3, &ValueType::Text),
        ("name", 4, &ValueType::Text),
        ("allowEmptyValue", 5, &ValueType::Flag),
        ("type", 6, &ValueType::Text),
        ("format", 7, &ValueType::Text),
        ("items", 8, &ITEMS),
        ("collectionFormat", 9, &ValueType::Text),
        ("default", 10, &ValueType::Yaml),
        ("maximum", 11, &ValueType::Double),
        ("exclusiveMaximum", 12, &ValueType::Flag),
        ("minimum", 13, &ValueType::Double),
        ("exclusiveMinimum", 14, &ValueType::Flag),
        ("maxLength", 15, &ValueType::Integer),
        ("minLength", 16, &ValueType::Integer),
        ("pattern", 17, &ValueType::Text),
        ("maxItems", 18, &ValueType::Integer),
        ("minItems", 19, &ValueType::Integer),
        ("uniqueItems", 20, &ValueType::Flag),
        ("enum", 21, &ANYS),
        ("multipleOf", 22, &ValueType::Double),
    ],
    23,
);

static ITEMS: ValueType = record(
    &[
        ("type", 1, &ValueType::Text),
        ("format", 2, &ValueType::Text),
        ("items", 3, &ITEMS),
        ("collectionFormat", 4, &ValueType::Text),
        ("default", 5, &ValueType::Yaml),
        ("maximum", 6, &ValueType::Double),
        ("exclusiveMaximum", 7, &ValueType::Flag),
        ("minimum", 8, &ValueType::Double),
        ("exclusiveMinimum", 9, &ValueType::Flag),
        ("maxLength", 10, &ValueType::Integer),
        ("minLength", 11, &ValueType::Integer),
        ("pattern", 12, &ValueType::Text),
        ("maxItems", 13, &ValueType::Integer),
        ("minItems", 14, &ValueType::Integer),
        ("uniqueItems", 15, &ValueType::Flag),
        ("enum", 16, &ANYS),
        ("multipleOf", 17, &ValueType::Double),
    ],
    18,
);

static HEADER: ValueType = record(
    &[
        ("type", 1, &ValueType::Text),
        ("format", 2, &ValueType::Text),
        ("items", 3, &ITEMS),
        ("collectionFormat", 4, &ValueType::Text),
        ("default", 5, &ValueType::Yaml),
        ("enum", 16, &ANYS),
        ("description", 18, &ValueType::Text),
    ],
    19,
);

static RESPONSES: ValueType = ValueType::Record {
    fields: &[],
    named: Some((1, |key| !key.starts_with("x-"), &RESPONSE_OR_REFERENCE)),
    extensions: 2,
};

static RESPONSE_OR_REFERENCE: ValueType =
    ValueType::Choice(|value| Some(if value.get("$ref").is_some() { (2, &REFERENCE) } else { (1, &RESPONSE) }));

static RESPONSE: ValueType = record(
    &[
        ("description", 1, &ValueType::Text),
        ("schema", 2, &ValueType::Wrapped(&SCHEMA)),
        ("headers", 3, &ValueType::Named(&HEADER)),
        ("examples", 4, &ValueType::Named(&ValueType::Yaml)),
    ],
    5,
);

static SCHEMA: ValueType = record(
    &[
        ("$ref", 1, &ValueType::Text),
        ("format", 2, &ValueType::Text),
        ("title", 3, &ValueType::Text),
        ("description", 4, &ValueType::Text),
        ("default", 5, &ValueType::Yaml),
        ("multipleOf", 6, &ValueType::Double),
        ("maximum", 7, &ValueType::Double),
        ("exclusiveMaximum", 8, &ValueType::Flag),
        ("minimum", 9, &ValueType::Double),
        ("exclusiveMinimum", 10, &ValueType::Flag),
        ("maxLength", 11, &ValueType::Integer),
        ("minLength", 12, &ValueType::Integer),
        ("pattern", 13, &ValueType::Text),
        ("maxItems", 14, &ValueType::Integer),
        ("minItems", 15, &ValueType::Integer),
        ("uniqueItems", 16, &ValueType::Flag),
        ("maxProperties", 17, &ValueType::Integer),
        ("minProperties", 18, &ValueType::Integer),
        ("required", 19, &TEXTS),
        ("enum", 20, &ANYS),
        ("additionalProperties", 21, &ADDITIONAL_PROPERTIES),
        ("type", 22, &ValueType::Texts),
        ("items", 23, &ValueType::Wrapped(&SCHEMA)),
        ("allOf", 24, &ValueType::List(&SCHEMA)),
        ("properties", 25, &ValueType::Named(&SCHEMA)),
        ("discriminator", 26, &ValueType::Text),
        ("readOnly", 27, &ValueType::Flag),
        ("xml", 28, &XML),
        ("externalDocs", 29, &EXTERNAL_DOCS),
        ("example", 30, &ValueType::Yaml),
    ],
    31,
);

static ADDITIONAL_PROPERTIES: ValueType =
    ValueType::Choice(|value| Some(if value.is_boolean() { (2, &ValueType::Flag) } else { (1, &SCHEMA) }));

static XML: ValueType = record(
    &[
        ("name", 1, &ValueType::Text),
        ("namespace", 2, &ValueType::Text),
        ("prefix", 3, &ValueType::Text),
        ("attribute", 4, &ValueType::Flag),
        ("wrapped", 5, &ValueType::Flag),
    ],
    6,
);
