//! Conditions of our kinds: metav1.Condition, with the bounds of kube-apiserver's own types.
//!
//! The controllers define the types and reasons of conditions.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{Schema, SchemaGenerator, json_schema};

/// Most conditions of one object.
pub const MAX_CONDITIONS: usize = 16;
/// Longest message of a condition, in characters.
pub const MAX_MESSAGE: usize = 32_768;
/// Longest reason of a condition, in characters.
pub const MAX_REASON: usize = 1_024;

/// The list of conditions. One of a type; writers with different field managers each own theirs.
#[derive(Debug)]
pub(super) struct Conditions;

impl schemars::JsonSchema for Conditions {
    fn schema_name() -> Cow<'static, str> {
        "Conditions".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "maxItems": MAX_CONDITIONS,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "description": "One aspect of the object's state.",
                "required": ["lastTransitionTime", "message", "reason", "status", "type"],
                "properties": {
                    "lastTransitionTime": {
                        "type": "string",
                        "format": "date-time",
                        "description": "When the status of the condition changed last.",
                    },
                    "message": {
                        "type": "string",
                        "maxLength": MAX_MESSAGE,
                        "description": "Human-readable details of the last transition, and the remedy if there is one.",
                    },
                    "observedGeneration": {
                        "type": "integer",
                        "format": "int64",
                        "minimum": 0,
                        "description": "The metadata.generation of the last transition. If it is lower than the object's, the latest spec has not been processed yet.",
                    },
                    "reason": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": MAX_REASON,
                        "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                        "description": "Reason of the last transition, as one CamelCase word.",
                    },
                    "status": {
                        "type": "string",
                        "enum": ["True", "False", "Unknown"],
                        "description": "Whether the condition holds: True, False or Unknown.",
                    },
                    "type": {
                        "type": "string",
                        "maxLength": 316,
                        "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                        "description": "Type of the condition, in CamelCase.",
                    },
                },
            },
        })
    }
}

/// The condition of type `kind`; `None` where there is none.
pub fn condition<'c>(conditions: &'c [Condition], kind: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}
