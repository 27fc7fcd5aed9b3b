//! Conditions of fieldcache's kinds: metav1.Condition, with the bounds of kube-apiserver's own types.
//!
//! The controllers define the types and reasons of conditions.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{Schema, SchemaGenerator, json_schema};

/// The maximum number of conditions of one object.
pub const MAX_CONDITIONS: usize = 16;
/// The maximum length of a condition's message, in characters.
pub const MAX_MESSAGE: usize = 32_768;
/// The maximum length of a condition's reason, in characters.
pub const MAX_REASON: usize = 1_024;

/// The schema of a list of conditions, with at most one of each type. Each field manager owns the conditions that it
/// writes.
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
                        "description": "When the status of the condition last changed.",
                    },
                    "message": {
                        "type": "string",
                        "maxLength": MAX_MESSAGE,
                        "description": "Human-readable details of the status, and the remedy if there is one.",
                    },
                    "observedGeneration": {
                        "type": "integer",
                        "format": "int64",
                        "minimum": 0,
                        "description": "The metadata.generation that this condition was evaluated for. If it is lower than the object's, the latest spec has not been evaluated yet.",
                    },
                    "reason": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": MAX_REASON,
                        "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                        "description": "Reason for the status, as one CamelCase word.",
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

/// The condition of type `kind`; `None` if there is none.
pub fn condition<'c>(conditions: &'c [Condition], kind: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}
