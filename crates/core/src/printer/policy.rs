//! Printers (table rows of `kubectl get`) of admission policies and webhooks, and of API priority and fairness.

use std::borrow::Cow;

use serde_json::json;

use crate::json::Json;

use super::column::{AGE, NAME, integer as integer_column, string};
use super::kind::{PrintedRow, Printer, SortKey};
use super::read::{condition, count, integer, is_set, name, text};
use super::text::selector_struct;
use super::time::{Moment, age};

fn webhook_configurations(object: Json<'_>, now: Moment) -> PrintedRow {
    PrintedRow::new(vec![name(object), json!(count(object.at("webhooks"))), age(object, now)])
}

fn validating_admission_policies(object: Json<'_>, now: Moment) -> PrintedRow {
    policy_row(object, "validations", now)
}

fn mutating_admission_policies(object: Json<'_>, now: Moment) -> PrintedRow {
    policy_row(object, "mutations", now)
}

/// The row of an admission policy. `rules` is the name of the list in its spec that is counted.
fn policy_row(object: Json<'_>, rules: &str, now: Moment) -> PrintedRow {
    let spec = object.at("spec");
    let parameter = spec.at("paramKind");
    let parameter = if is_set(parameter) {
        format!("{}/{}", text(parameter.at("apiVersion")), text(parameter.at("kind")))
    } else {
        "<unset>".to_owned()
    };
    PrintedRow::new(vec![name(object), json!(count(spec.at(rules))), json!(parameter), age(object, now)])
}

fn policy_bindings(object: Json<'_>, now: Moment) -> PrintedRow {
    let spec = object.at("spec");
    let parameter = spec.at("paramRef");
    let parameter = match (&*text(parameter.at("namespace")), &*text(parameter.at("name"))) {
        (_, "") if is_set(parameter.at("selector")) => selector_struct(parameter.at("selector")),
        (_, "") => "<unset>".to_owned(),
        ("", parameter) => format!("*/{parameter}"),
        (namespace, parameter) => format!("{namespace}/{parameter}"),
    };
    PrintedRow::new(vec![name(object), json!(text(spec.at("policyName"))), json!(parameter), age(object, now)])
}

fn flow_schemas(object: Json<'_>, now: Moment) -> PrintedRow {
    let spec = object.at("spec");
    let distinguisher = spec.at("distinguisherMethod");
    let distinguisher = if is_set(distinguisher) { text(distinguisher.at("type")) } else { Cow::Borrowed("<none>") };
    PrintedRow::new(vec![
        name(object),
        json!(text(spec.at("priorityLevelConfiguration").at("name"))),
        json!(integer(spec.at("matchingPrecedence"))),
        json!(distinguisher),
        age(object, now),
        json!(condition(object, "Dangling").map_or(Cow::Borrowed("?"), |condition| text(condition.at("status")))),
    ])
}

/// The sort key of a FlowSchema: FlowSchemas are listed in the order in which they are matched (kubernetes
/// `pkg/apis/flowcontrol/util`).
pub(super) fn flow_schema_order(object: Json<'_>) -> SortKey {
    (integer(object.at("spec").at("matchingPrecedence")), text(object.at("metadata").at("name")).into_owned())
}

fn priority_level_configurations(object: Json<'_>, now: Moment) -> PrintedRow {
    let limited = object.at("spec").at("limited");
    let queuing = limited.at("limitResponse").at("queuing");
    // The cell of a number in `holder`, which may be missing.
    let of = |holder: Json<'_>, member: &str| {
        if is_set(holder) { json!(integer(holder.at(member))) } else { json!("<none>") }
    };
    PrintedRow::new(vec![
        name(object),
        json!(text(object.at("spec").at("type"))),
        of(limited, "nominalConcurrencyShares"),
        of(queuing, "queues"),
        of(queuing, "handSize"),
        of(queuing, "queueLengthLimit"),
        age(object, now),
    ])
}

/// Prints MutatingAdmissionPolicy.
pub const MUTATING_ADMISSION_POLICY: Printer = Printer {
    columns: &[
        NAME,
        integer_column("Mutations", "Mutation indicates the number of mutations rules defined in this configuration"),
        string("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"),
        AGE,
    ],
    print: mutating_admission_policies,
    order: None,
};

/// Prints MutatingAdmissionPolicyBinding.
pub const MUTATING_ADMISSION_POLICY_BINDING: Printer = Printer {
    columns: &[
        NAME,
        string("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
        string("ParamRef", "ParamRef indicates the param resource which sets the configuration param"),
        AGE,
    ],
    print: policy_bindings,
    order: None,
};

/// Prints MutatingWebhookConfiguration.
pub const MUTATING_WEBHOOK_CONFIGURATION: Printer = Printer {
    columns: &[
        NAME,
        integer_column("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"),
        AGE,
    ],
    print: webhook_configurations,
    order: None,
};

/// Prints ValidatingAdmissionPolicy.
pub const VALIDATING_ADMISSION_POLICY: Printer = Printer {
    columns: &[
        NAME,
        integer_column(
            "Validations",
            "Validations indicates the number of validation rules defined in this configuration",
        ),
        string("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"),
        AGE,
    ],
    print: validating_admission_policies,
    order: None,
};

/// Prints ValidatingAdmissionPolicyBinding.
pub const VALIDATING_ADMISSION_POLICY_BINDING: Printer = Printer {
    columns: &[
        NAME,
        string("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
        string("ParamRef", "ParamRef indicates the param resource which sets the configuration param"),
        AGE,
    ],
    print: policy_bindings,
    order: None,
};

/// Prints ValidatingWebhookConfiguration.
pub const VALIDATING_WEBHOOK_CONFIGURATION: Printer = Printer {
    columns: &[
        NAME,
        integer_column("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"),
        AGE,
    ],
    print: webhook_configurations,
    order: None,
};

/// Prints FlowSchema.
pub const FLOW_SCHEMA: Printer = Printer {
    columns: &[
        NAME,
        string("PriorityLevel", "`name` is the name of the priority level configuration being referenced Required."),
        string(
            "MatchingPrecedence",
            "`matchingPrecedence` is used to choose among the FlowSchemas that match a given request. The \
                 chosen FlowSchema is among those with the numerically lowest (which we take to be logically \
                 highest) MatchingPrecedence.  Each MatchingPrecedence value must be ranged in [1,10000]. Note that \
                 if the precedence is not specified, it will be set to 1000 as default.",
        ),
        string(
            "DistinguisherMethod",
            "`distinguisherMethod` defines how to compute the flow distinguisher for requests that match this \
                 schema. `nil` specifies that the distinguisher is disabled and thus will always be the empty \
                 string.",
        ),
        AGE,
        string("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
    ],
    print: flow_schemas,
    order: Some(flow_schema_order),
};

/// Prints PriorityLevelConfiguration.
pub const PRIORITY_LEVEL_CONFIGURATION: Printer = Printer {
    columns: &[
        NAME,
        string(
            "Type",
            "`type` indicates whether this priority level is subject to limitation on request execution.  A \
                 value of `\"Exempt\"` means that requests of this priority level are not subject to a limit (and \
                 thus are never queued) and do not detract from the capacity made available to other priority \
                 levels.  A value of `\"Limited\"` means that (a) requests of this priority level _are_ subject to \
                 limits and (b) some of the server's limited capacity is made available exclusively to this \
                 priority level. Required.",
        ),
        string(
            "NominalConcurrencyShares",
            "`nominalConcurrencyShares` (NCS) contributes to the computation of the NominalConcurrencyLimit \
                 (NominalCL) of this level. This is the number of execution seats available at this priority level. \
                 This is used both for requests dispatched from this priority level as well as requests dispatched \
                 from other priority levels borrowing seats from this level. The server's concurrency limit \
                 (ServerCL) is divided among the Limited priority levels in proportion to their NCS \
                 values:\n\nNominalCL(i)  = ceil( ServerCL * NCS(i) / sum_ncs ) sum_ncs = sum[priority level k] \
                 NCS(k)\n\nBigger numbers mean a larger nominal concurrency limit, at the expense of every other \
                 priority level.\n\nIf not specified, this field defaults to a value of 30.\n\nSetting this field \
                 to zero supports the construction of a \"jail\" for this priority level that is used to hold some \
                 request(s)",
        ),
        string(
            "Queues",
            "`queues` is the number of queues for this priority level. The queues exist independently at each \
                 apiserver. The value must be positive.  Setting it to 1 effectively precludes shufflesharding and \
                 thus makes the distinguisher method of associated flow schemas irrelevant.  This field has a \
                 default value of 64.",
        ),
        string(
            "HandSize",
            "`handSize` is a small positive number that configures the shuffle sharding of requests into \
                 queues.  When enqueuing a request at this priority level the request's flow identifier (a string \
                 pair) is hashed and the hash value is used to shuffle the list of queues and deal a hand of the \
                 size specified here.  The request is put into one of the shortest queues in that hand. `handSize` \
                 must be no larger than `queues`, and should be significantly smaller (so that a few heavy flows do \
                 not saturate most of the queues).  See the user-facing documentation for more extensive guidance \
                 on setting this field.  This field has a default value of 8.",
        ),
        string(
            "QueueLengthLimit",
            "`queueLengthLimit` is the maximum number of requests allowed to be waiting in a given queue of \
                 this priority level at a time; excess requests are rejected.  This value must be positive.  If not \
                 specified, it will be defaulted to 50.",
        ),
        AGE,
    ],
    print: priority_level_configurations,
    order: None,
};
