//! The messages of `openapi.v3.Document` as data: field numbers of gnostic-models `openapiv3/OpenAPIv3.proto`.
//!
//! Callbacks, links, OAuth flows and header encodings have no user in a Kubernetes document and are not described: they
//! are reported as skipped.

use serde_json::Value;

use super::message::Shape;

type Fields = &'static [(&'static str, u32, &'static Shape)];

const fn record(fields: Fields, extensions: u32) -> Shape {
    Shape::Record { fields, named: None, extensions }
}

/// A choice between the thing itself (1) and a reference to it (2).
macro_rules! or_reference {
    ($shape:ident) => {
        Shape::Choice(|value| Some(if value.get("$ref").is_some() { (2, &REFERENCE) } else { (1, &$shape) }))
    };
}

static TEXTS: Shape = Shape::List(&Shape::Text);

/// The root message.
pub static DOCUMENT: Shape = record(
    &[
        ("openapi", 1, &Shape::Text),
        ("info", 2, &INFO),
        ("servers", 3, &Shape::List(&SERVER)),
        ("paths", 4, &PATHS),
        ("components", 5, &COMPONENTS),
        ("security", 6, &SECURITY),
        ("tags", 7, &Shape::List(&TAG)),
        ("externalDocs", 8, &EXTERNAL_DOCS),
    ],
    9,
);

static INFO: Shape = record(
    &[
        ("title", 1, &Shape::Text),
        ("description", 2, &Shape::Text),
        ("termsOfService", 3, &Shape::Text),
        ("contact", 4, &CONTACT),
        ("license", 5, &LICENSE),
        ("version", 6, &Shape::Text),
        ("summary", 8, &Shape::Text),
    ],
    7,
);

static CONTACT: Shape = record(&[("name", 1, &Shape::Text), ("url", 2, &Shape::Text), ("email", 3, &Shape::Text)], 4);

static LICENSE: Shape = record(&[("name", 1, &Shape::Text), ("url", 2, &Shape::Text)], 3);

static EXTERNAL_DOCS: Shape = record(&[("description", 1, &Shape::Text), ("url", 2, &Shape::Text)], 3);

static SERVER: Shape = record(&[("url", 1, &Shape::Text), ("description", 2, &Shape::Text)], 4);

static TAG: Shape =
    record(&[("name", 1, &Shape::Text), ("description", 2, &Shape::Text), ("externalDocs", 3, &EXTERNAL_DOCS)], 4);

static SECURITY: Shape = Shape::List(&Shape::Named(&Shape::Texts));

static PATHS: Shape =
    Shape::Record { fields: &[], named: Some((1, |key| key.starts_with('/'), &PATH_ITEM)), extensions: 2 };

static PATH_ITEM: Shape = record(
    &[
        ("$ref", 1, &Shape::Text),
        ("summary", 2, &Shape::Text),
        ("description", 3, &Shape::Text),
        ("get", 4, &OPERATION),
        ("put", 5, &OPERATION),
        ("post", 6, &OPERATION),
        ("delete", 7, &OPERATION),
        ("options", 8, &OPERATION),
        ("head", 9, &OPERATION),
        ("patch", 10, &OPERATION),
        ("trace", 11, &OPERATION),
        ("servers", 12, &Shape::List(&SERVER)),
        ("parameters", 13, &PARAMETERS),
    ],
    14,
);

static OPERATION: Shape = record(
    &[
        ("tags", 1, &TEXTS),
        ("summary", 2, &Shape::Text),
        ("description", 3, &Shape::Text),
        ("externalDocs", 4, &EXTERNAL_DOCS),
        ("operationId", 5, &Shape::Text),
        ("parameters", 6, &PARAMETERS),
        ("requestBody", 7, &REQUEST_BODY_OR_REFERENCE),
        ("responses", 8, &RESPONSES),
        ("deprecated", 10, &Shape::Flag),
        ("security", 11, &SECURITY),
        ("servers", 12, &Shape::List(&SERVER)),
    ],
    13,
);

static REFERENCE: Shape =
    record(&[("$ref", 1, &Shape::Text), ("summary", 2, &Shape::Text), ("description", 3, &Shape::Text)], 0);

static PARAMETERS: Shape = Shape::List(&PARAMETER_OR_REFERENCE);

static PARAMETER_OR_REFERENCE: Shape = or_reference!(PARAMETER);

static PARAMETER: Shape = record(
    &[
        ("name", 1, &Shape::Text),
        ("in", 2, &Shape::Text),
        ("description", 3, &Shape::Text),
        ("required", 4, &Shape::Flag),
        ("deprecated", 5, &Shape::Flag),
        ("allowEmptyValue", 6, &Shape::Flag),
        ("style", 7, &Shape::Text),
        ("explode", 8, &Shape::Flag),
        ("allowReserved", 9, &Shape::Flag),
        ("schema", 10, &SCHEMA_OR_REFERENCE),
        ("example", 11, &Shape::Yaml),
        ("examples", 12, &Shape::Named(&EXAMPLE_OR_REFERENCE)),
        ("content", 13, &MEDIA_TYPES),
    ],
    14,
);

static HEADER_OR_REFERENCE: Shape = or_reference!(HEADER);

static HEADER: Shape = record(
    &[
        ("description", 1, &Shape::Text),
        ("required", 2, &Shape::Flag),
        ("deprecated", 3, &Shape::Flag),
        ("allowEmptyValue", 4, &Shape::Flag),
        ("style", 5, &Shape::Text),
        ("explode", 6, &Shape::Flag),
        ("allowReserved", 7, &Shape::Flag),
        ("schema", 8, &SCHEMA_OR_REFERENCE),
        ("example", 9, &Shape::Yaml),
        ("examples", 10, &Shape::Named(&EXAMPLE_OR_REFERENCE)),
        ("content", 11, &MEDIA_TYPES),
    ],
    12,
);

static EXAMPLE_OR_REFERENCE: Shape = or_reference!(EXAMPLE);

static EXAMPLE: Shape = record(
    &[
        ("summary", 1, &Shape::Text),
        ("description", 2, &Shape::Text),
        ("value", 3, &Shape::Yaml),
        ("externalValue", 4, &Shape::Text),
    ],
    5,
);

static REQUEST_BODY_OR_REFERENCE: Shape = or_reference!(REQUEST_BODY);

static REQUEST_BODY: Shape =
    record(&[("description", 1, &Shape::Text), ("content", 2, &MEDIA_TYPES), ("required", 3, &Shape::Flag)], 4);

static MEDIA_TYPES: Shape = Shape::Named(&MEDIA_TYPE);

static MEDIA_TYPE: Shape = record(
    &[
        ("schema", 1, &SCHEMA_OR_REFERENCE),
        ("example", 2, &Shape::Yaml),
        ("examples", 3, &Shape::Named(&EXAMPLE_OR_REFERENCE)),
    ],
    5,
);

static RESPONSES: Shape = Shape::Record {
    fields: &[("default", 1, &RESPONSE_OR_REFERENCE)],
    named: Some((2, |key| key != "default" && !key.starts_with("x-"), &RESPONSE_OR_REFERENCE)),
    extensions: 3,
};

static RESPONSE_OR_REFERENCE: Shape = or_reference!(RESPONSE);

static RESPONSE: Shape = record(
    &[
        ("description", 1, &Shape::Text),
        ("headers", 2, &Shape::Named(&HEADER_OR_REFERENCE)),
        ("content", 3, &MEDIA_TYPES),
    ],
    5,
);

static COMPONENTS: Shape = record(
    &[
        ("schemas", 1, &Shape::Named(&SCHEMA_OR_REFERENCE)),
        ("responses", 2, &Shape::Named(&RESPONSE_OR_REFERENCE)),
        ("parameters", 3, &Shape::Named(&PARAMETER_OR_REFERENCE)),
        ("examples", 4, &Shape::Named(&EXAMPLE_OR_REFERENCE)),
        ("requestBodies", 5, &Shape::Named(&REQUEST_BODY_OR_REFERENCE)),
        ("headers", 6, &Shape::Named(&HEADER_OR_REFERENCE)),
        ("securitySchemes", 7, &Shape::Named(&SECURITY_SCHEME_OR_REFERENCE)),
    ],
    10,
);

static SECURITY_SCHEME_OR_REFERENCE: Shape = or_reference!(SECURITY_SCHEME);

static SECURITY_SCHEME: Shape = record(
    &[
        ("type", 1, &Shape::Text),
        ("description", 2, &Shape::Text),
        ("name", 3, &Shape::Text),
        ("in", 4, &Shape::Text),
        ("scheme", 5, &Shape::Text),
        ("bearerFormat", 6, &Shape::Text),
        ("openIdConnectUrl", 8, &Shape::Text),
    ],
    9,
);

static SCHEMA_OR_REFERENCE: Shape = or_reference!(SCHEMA);

static SCHEMAS: Shape = Shape::List(&SCHEMA_OR_REFERENCE);

static SCHEMA: Shape = record(
    &[
        ("nullable", 1, &Shape::Flag),
        ("discriminator", 2, &DISCRIMINATOR),
        ("readOnly", 3, &Shape::Flag),
        ("writeOnly", 4, &Shape::Flag),
        ("xml", 5, &XML),
        ("externalDocs", 6, &EXTERNAL_DOCS),
        ("example", 7, &Shape::Yaml),
        ("deprecated", 8, &Shape::Flag),
        ("title", 9, &Shape::Text),
        ("multipleOf", 10, &Shape::Double),
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
        ("maxProperties", 21, &Shape::Integer),
        ("minProperties", 22, &Shape::Integer),
        ("required", 23, &TEXTS),
        ("enum", 24, &Shape::List(&Shape::Yaml)),
        ("type", 25, &Shape::Text),
        ("allOf", 26, &SCHEMAS),
        ("oneOf", 27, &SCHEMAS),
        ("anyOf", 28, &SCHEMAS),
        ("not", 29, &SCHEMA),
        ("items", 30, &Shape::Wrapped(&SCHEMA_OR_REFERENCE)),
        ("properties", 31, &Shape::Named(&SCHEMA_OR_REFERENCE)),
        ("additionalProperties", 32, &ADDITIONAL_PROPERTIES),
        ("default", 33, &DEFAULT),
        ("description", 34, &Shape::Text),
        ("format", 35, &Shape::Text),
    ],
    36,
);

static ADDITIONAL_PROPERTIES: Shape =
    Shape::Choice(|value| Some(if value.is_boolean() { (2, &Shape::Flag) } else { (1, &SCHEMA_OR_REFERENCE) }));

static DEFAULT: Shape = Shape::Choice(|value| match value {
    Value::Number(_) => Some((1, &Shape::Double)),
    Value::Bool(_) => Some((2, &Shape::Flag)),
    Value::String(_) => Some((3, &Shape::Text)),
    Value::Null | Value::Array(_) | Value::Object(_) => None,
});

static DISCRIMINATOR: Shape =
    record(&[("propertyName", 1, &Shape::Text), ("mapping", 2, &Shape::Named(&Shape::Text))], 3);

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
