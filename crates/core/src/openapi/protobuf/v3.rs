//! The messages of `openapi.v3.Document` as data: field numbers of gnostic-models `openapiv3/OpenAPIv3.proto`.
//!
//! Kubernetes documents do not use callbacks, links, OAuth flows and header encodings. These are not described here and
//! are reported as skipped.

use serde_json::Value;

use super::message::ValueType;

type Fields = &'static [(&'static str, u32, &'static ValueType)];

/// A message of these fields; `extensions` is the number of its field for `x-*`.
const fn record(fields: Fields, extensions: u32) -> ValueType {
    ValueType::Record { fields, named: None, extensions }
}

/// A choice between the thing itself (1) and a reference to it (2).
macro_rules! or_reference {
    ($shape:ident) => {
        ValueType::Choice(|value| Some(if value.get("$ref").is_some() { (2, &REFERENCE) } else { (1, &$shape) }))
    };
}

static TEXTS: ValueType = ValueType::List(&ValueType::Text);

/// The root message.
pub static DOCUMENT: ValueType = record(
    &[
        ("openapi", 1, &ValueType::Text),
        ("info", 2, &INFO),
        ("servers", 3, &ValueType::List(&SERVER)),
        ("paths", 4, &PATHS),
        ("components", 5, &COMPONENTS),
        ("security", 6, &SECURITY),
        ("tags", 7, &ValueType::List(&TAG)),
        ("externalDocs", 8, &EXTERNAL_DOCS),
    ],
    9,
);

static INFO: ValueType = record(
    &[
        ("title", 1, &ValueType::Text),
        ("description", 2, &ValueType::Text),
        ("termsOfService", 3, &ValueType::Text),
        ("contact", 4, &CONTACT),
        ("license", 5, &LICENSE),
        ("version", 6, &ValueType::Text),
        ("summary", 8, &ValueType::Text),
    ],
    7,
);

static CONTACT: ValueType =
    record(&[("name", 1, &ValueType::Text), ("url", 2, &ValueType::Text), ("email", 3, &ValueType::Text)], 4);

static LICENSE: ValueType = record(&[("name", 1, &ValueType::Text), ("url", 2, &ValueType::Text)], 3);

static EXTERNAL_DOCS: ValueType = record(&[("description", 1, &ValueType::Text), ("url", 2, &ValueType::Text)], 3);

static SERVER: ValueType = record(&[("url", 1, &ValueType::Text), ("description", 2, &ValueType::Text)], 4);

static TAG: ValueType = record(
    &[("name", 1, &ValueType::Text), ("description", 2, &ValueType::Text), ("externalDocs", 3, &EXTERNAL_DOCS)],
    4,
);

static SECURITY: ValueType = ValueType::List(&ValueType::Named(&ValueType::Texts));

static PATHS: ValueType =
    ValueType::Record { fields: &[], named: Some((1, |key| key.starts_with('/'), &PATH_ITEM)), extensions: 2 };

static PATH_ITEM: ValueType = record(
    &[
        ("$ref", 1, &ValueType::Text),
        ("summary", 2, &ValueType::Text),
        ("description", 3, &ValueType::Text),
        ("get", 4, &OPERATION),
        ("put", 5, &OPERATION),
        ("post", 6, &OPERATION),
        ("delete", 7, &OPERATION),
        ("options", 8, &OPERATION),
        ("head", 9, &OPERATION),
        ("patch", 10, &OPERATION),
        ("trace", 11, &OPERATION),
        ("servers", 12, &ValueType::List(&SERVER)),
        ("parameters", 13, &PARAMETERS),
    ],
    14,
);

static OPERATION: ValueType = record(
    &[
        ("tags", 1, &TEXTS),
        ("summary", 2, &ValueType::Text),
        ("description", 3, &ValueType::Text),
        ("externalDocs", 4, &EXTERNAL_DOCS),
        ("operationId", 5, &ValueType::Text),
        ("parameters", 6, &PARAMETERS),
        ("requestBody", 7, &REQUEST_BODY_OR_REFERENCE),
        ("responses", 8, &RESPONSES),
        ("deprecated", 10, &ValueType::Flag),
        ("security", 11, &SECURITY),
        ("servers", 12, &ValueType::List(&SERVER)),
    ],
    13,
);

static REFERENCE: ValueType =
    record(&[("$ref", 1, &ValueType::Text), ("summary", 2, &ValueType::Text), ("description", 3, &ValueType::Text)], 0);

static PARAMETERS: ValueType = ValueType::List(&PARAMETER_OR_REFERENCE);

static PARAMETER_OR_REFERENCE: ValueType = or_reference!(PARAMETER);

static PARAMETER: ValueType = record(
    &[
        ("name", 1, &ValueType::Text),
        ("in", 2, &ValueType::Text),
        ("description", 3, &ValueType::Text),
        ("required", 4, &ValueType::Flag),
        ("deprecated", 5, &ValueType::Flag),
        ("allowEmptyValue", 6, &ValueType::Flag),
        ("style", 7, &ValueType::Text),
        ("explode", 8, &ValueType::Flag),
        ("allowReserved", 9, &ValueType::Flag),
        ("schema", 10, &SCHEMA_OR_REFERENCE),
        ("example", 11, &ValueType::Yaml),
        ("examples", 12, &ValueType::Named(&EXAMPLE_OR_REFERENCE)),
        ("content", 13, &MEDIA_TYPES),
    ],
    14,
);

static HEADER_OR_REFERENCE: ValueType = or_reference!(HEADER);

static HEADER: ValueType = record(
    &[
        ("description", 1, &ValueType::Text),
        ("required", 2, &ValueType::Flag),
        ("deprecated", 3, &ValueType::Flag),
        ("allowEmptyValue", 4, &ValueType::Flag),
        ("style", 5, &ValueType::Text),
        ("explode", 6, &ValueType::Flag),
        ("allowReserved", 7, &ValueType::Flag),
        ("schema", 8, &SCHEMA_OR_REFERENCE),
        ("example", 9, &ValueType::Yaml),
        ("examples", 10, &ValueType::Named(&EXAMPLE_OR_REFERENCE)),
        ("content", 11, &MEDIA_TYPES),
    ],
    12,
);

static EXAMPLE_OR_REFERENCE: ValueType = or_reference!(EXAMPLE);

static EXAMPLE: ValueType = record(
    &[
        ("summary", 1, &ValueType::Text),
        ("description", 2, &ValueType::Text),
        ("value", 3, &ValueType::Yaml),
        ("externalValue", 4, &ValueType::Text),
    ],
    5,
);

static REQUEST_BODY_OR_REFERENCE: ValueType = or_reference!(REQUEST_BODY);

static REQUEST_BODY: ValueType =
    record(&[("description", 1, &ValueType::Text), ("content", 2, &MEDIA_TYPES), ("required", 3, &ValueType::Flag)], 4);

static MEDIA_TYPES: ValueType = ValueType::Named(&MEDIA_TYPE);

static MEDIA_TYPE: ValueType = record(
    &[
        ("schema", 1, &SCHEMA_OR_REFERENCE),
        ("example", 2, &ValueType::Yaml),
        ("examples", 3, &ValueType::Named(&EXAMPLE_OR_REFERENCE)),
    ],
    5,
);

static RESPONSES: ValueType = ValueType::Record {
    fields: &[("default", 1, &RESPONSE_OR_REFERENCE)],
    named: Some((2, |key| key != "default" && !key.starts_with("x-"), &RESPONSE_OR_REFERENCE)),
    extensions: 3,
};

static RESPONSE_OR_REFERENCE: ValueType = or_reference!(RESPONSE);

static RESPONSE: ValueType = record(
    &[
        ("description", 1, &ValueType::Text),
        ("headers", 2, &ValueType::Named(&HEADER_OR_REFERENCE)),
        ("content", 3, &MEDIA_TYPES),
    ],
    5,
);

static COMPONENTS: ValueType = record(
    &[
        ("schemas", 1, &ValueType::Named(&SCHEMA_OR_REFERENCE)),
        ("responses", 2, &ValueType::Named(&RESPONSE_OR_REFERENCE)),
        ("parameters", 3, &ValueType::Named(&PARAMETER_OR_REFERENCE)),
        ("examples", 4, &ValueType::Named(&EXAMPLE_OR_REFERENCE)),
        ("requestBodies", 5, &ValueType::Named(&REQUEST_BODY_OR_REFERENCE)),
        ("headers", 6, &ValueType::Named(&HEADER_OR_REFERENCE)),
        ("securitySchemes", 7, &ValueType::Named(&SECURITY_SCHEME_OR_REFERENCE)),
    ],
    10,
);

static SECURITY_SCHEME_OR_REFERENCE: ValueType = or_reference!(SECURITY_SCHEME);

static SECURITY_SCHEME: ValueType = record(
    &[
        ("type", 1, &ValueType::Text),
        ("description", 2, &ValueType::Text),
        ("name", 3, &ValueType::Text),
        ("in", 4, &ValueType::Text),
        ("scheme", 5, &ValueType::Text),
        ("bearerFormat", 6, &ValueType::Text),
        ("openIdConnectUrl", 8, &ValueType::Text),
    ],
    9,
);

static SCHEMA_OR_REFERENCE: ValueType = or_reference!(SCHEMA);

static SCHEMAS: ValueType = ValueType::List(&SCHEMA_OR_REFERENCE);

static SCHEMA: ValueType = record(
    &[
        ("nullable", 1, &ValueType::Flag),
        ("discriminator", 2, &DISCRIMINATOR),
        ("readOnly", 3, &ValueType::Flag),
        ("writeOnly", 4, &ValueType::Flag),
        ("xml", 5, &XML),
        ("externalDocs", 6, &EXTERNAL_DOCS),
        ("example", 7, &ValueType::Yaml),
        ("deprecated", 8, &ValueType::Flag),
        ("title", 9, &ValueType::Text),
        ("multipleOf", 10, &ValueType::Double),
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
        ("maxProperties", 21, &ValueType::Integer),
        ("minProperties", 22, &ValueType::Integer),
        ("required", 23, &TEXTS),
        ("enum", 24, &ValueType::List(&ValueType::Yaml)),
        ("type", 25, &ValueType::Text),
        ("allOf", 26, &SCHEMAS),
        ("oneOf", 27, &SCHEMAS),
        ("anyOf", 28, &SCHEMAS),
        ("not", 29, &SCHEMA),
        ("items", 30, &ValueType::Wrapped(&SCHEMA_OR_REFERENCE)),
        ("properties", 31, &ValueType::Named(&SCHEMA_OR_REFERENCE)),
        ("additionalProperties", 32, &ADDITIONAL_PROPERTIES),
        ("default", 33, &DEFAULT),
        ("description", 34, &ValueType::Text),
        ("format", 35, &ValueType::Text),
    ],
    36,
);

static ADDITIONAL_PROPERTIES: ValueType =
    ValueType::Choice(|value| Some(if value.is_boolean() { (2, &ValueType::Flag) } else { (1, &SCHEMA_OR_REFERENCE) }));

static DEFAULT: ValueType = ValueType::Choice(|value| match value {
    Value::Number(_) => Some((1, &ValueType::Double)),
    Value::Bool(_) => Some((2, &ValueType::Flag)),
    Value::String(_) => Some((3, &ValueType::Text)),
    Value::Null | Value::Array(_) | Value::Object(_) => None,
});

static DISCRIMINATOR: ValueType =
    record(&[("propertyName", 1, &ValueType::Text), ("mapping", 2, &ValueType::Named(&ValueType::Text))], 3);

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
