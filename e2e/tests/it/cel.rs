//! Expressions of `celSelector` beside kube-apiserver's CEL.
//!
//! The table of the evaluator's tests has expressions with their results. Here kube-apiserver evaluates each of them in
//! a ValidatingAdmissionPolicy, and fieldcache as the `celSelector` of a list of the same stored object.
//!
//! A policy has some expressions. A binding that warns makes one dry run show the results of all of them: an expression
//! that is true causes no warning, one that is false a warning with its number, one that fails a warning with its text.
//! kube-apiserver rejects a policy with an expression that does not compile, and names all such expressions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::control_plane::ControlPlane;
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Answer, Client, Request};
use e2e::versions::Kubernetes;
use e2e::{fixtures, objects, unique};
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use serde_json::{Value, json};

const TABLE: &str = include_str!("../../../crates/core/src/cel/testdata/expressions.txt");

/// The line of the table below which kube-apiserver does not know the functions yet in a new policy.
const NEWER: &str = "# Newer than kube-apiserver";

/// How many expressions have to be compared at least.
const LEAST: usize = 500;

/// The expressions of one policy. kube-apiserver shortens warnings to 256 characters each and 4096 together.
const IN_POLICY: usize = 14;

/// Policies and requests at a time.
const AT_ONCE: usize = 4;

const SOON: Duration = Duration::from_secs(60);

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

/// What an expression gives for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    True,
    False,
    Error,
    Compile,
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Outcome::True => "true",
            Outcome::False => "false",
            Outcome::Error => "error",
            Outcome::Compile => "compile",
        })
    }
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// The number of the line.
    line: usize,
    expression: &'static str,
    object: &'static str,
    expected: Outcome,
    /// Whether kube-apiserver rejects the functions of the expression in a new policy.
    is_newer: bool,
}

/// The objects of the table by name, and its expressions.
fn table() -> Result<(BTreeMap<&'static str, Value>, Vec<Case>)> {
    let (mut found, mut cases, mut is_newer) = (BTreeMap::new(), Vec::new(), false);
    for (index, text) in TABLE.lines().enumerate() {
        is_newer |= text.starts_with(NEWER);
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some((name, object)) = text.strip_prefix("object ").and_then(|rest| rest.split_once(' ')) {
            found.insert(name, serde_json::from_str(object)?);
            continue;
        }
        let [expression, object, expected] = text.split(" | ").collect::<Vec<_>>()[..] else {
            bail!("line {} does not have three parts", index + 1);
        };
        let outcomes = [Outcome::True, Outcome::False, Outcome::Error, Outcome::Compile];
        let expected = outcomes.into_iter().find(|outcome| outcome.to_string() == expected);
        let expected = expected.with_context(|| format!("line {}: an unknown result", index + 1))?;
        cases.push(Case { line: index + 1, expression, object, expected, is_newer });
    }
    Ok((found, cases))
}

/// The expression of a validation. A validation has to be of type bool, and many expressions of the table are of a type
/// that is known at evaluation only: as a condition, such an expression has to be a boolean then. The number identifies
/// the expression in the message of its failure. A comment must be the end of an expression.
fn validation(case: &Case) -> Value {
    let expression = case.expression.replace("self", "object");
    let has_comment = expression.starts_with("// ") || expression.contains(" // ");
    let expression = match has_comment {
        true => expression,
        false => format!("{} != 0 && (({expression}) ? true : false)", case.line),
    };
    json!({ "expression": expression, "message": case.line.to_string() })
}

/// A resource of which a table's object is the only object.
struct Stage<'a> {
    client: &'a Client,
    group: &'a str,
    plural: String,
    object: Value,
}

impl Stage<'_> {
    /// The path of the collection.
    fn path(&self) -> String {
        format!("/apis/{}/v1/namespaces/default/{}", self.group, self.plural)
    }

    /// Creates the resource, whose schema allows each member. A dry run creates the object, so it does not exist yet.
    async fn set_up(&self) -> Result<()> {
        let kind = self.object["kind"].as_str().unwrap_or_default();
        let version = json!({
            "name": "v1", "served": true, "storage": true,
            "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
        });
        let names = (&*self.plural, &*kind.to_lowercase(), kind);
        let definition = fixtures::definition(self.group, "Namespaced", names, &[version], &fixtures::no_conversion());
        objects::create_definition(self.client, &definition).await
    }

    /// What kube-apiserver finds for the expressions of one policy, by line.
    async fn judge(&self, number: usize, cases: &[Case]) -> Result<BTreeMap<usize, Outcome>> {
        let name = format!("p{number}.{}", self.group);
        let mut found = BTreeMap::new();
        let mut left: Vec<Case> = cases.to_vec();
        loop {
            let mut validations: Vec<Value> = left.iter().map(validation).collect();
            // It shows when the policy is in force.
            validations.push(json!({ "expression": "false", "message": "in force" }));
            let policy = json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingAdmissionPolicy",
                "metadata": { "name": name },
                "spec": {
                    "failurePolicy": "Fail",
                    "matchConstraints": { "resourceRules": [{
                        "apiGroups": [self.group], "apiVersions": ["v1"], "operations": ["CREATE"],
                        "resources": [self.plural],
                    }] },
                    // A request evaluates one policy.
                    "matchConditions": [{
                        "name": "one",
                        "expression": format!("request.options.?fieldManager.orValue('') == 'p{number}'"),
                    }],
                    "validations": validations,
                },
            });
            let answer = self.client.send(Request::new(Method::POST, POLICIES).json(&policy)).await?;
            if answer.status.is_success() {
                break;
            }
            let rejected = rejected(&answer)?;
            ensure!(!rejected.is_empty(), "a policy: {}", answer.text());
            for index in &rejected {
                let case = left.get(*index).context("the last validation is valid")?;
                found.insert(case.line, Outcome::Compile);
            }
            let mut index = 0..;
            left.retain(|_| index.next().is_some_and(|index| !rejected.contains(&index)));
        }
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": name },
            "spec": { "policyName": name, "validationActions": ["Warn"] },
        });
        objects::create(self.client, BINDINGS, &binding).await?;
        let path = format!("{}?dryRun=All&fieldManager=p{number}", self.path());
        let warnings = eventually("the policy is in force", SOON, async || {
            let answer = self.client.send(Request::new(Method::POST, &*path).json(&self.object)).await?.success()?;
            let warnings: Vec<String> = answer.headers.get_all("warning").iter().map(warning).collect();
            ensure!(warnings.iter().any(|text| text.ends_with(": in force")), "{warnings:?}");
            Ok(warnings)
        })
        .await?;
        let mut outcomes: BTreeMap<usize, Outcome> = BTreeMap::new();
        for warning in &warnings {
            // Others warn too, for example of the names of finalizers.
            let Some((_, message)) = warning.split_once(&format!("with binding '{name}': ")) else { continue };
            let failed = message.strip_prefix("expression '").and_then(|text| text.split_once(" != 0 && "));
            match (message.parse(), failed) {
                (Ok(line), _) => outcomes.insert(line, Outcome::False),
                (_, Some((line, _))) => outcomes.insert(line.parse()?, Outcome::Error),
                (_, None) if message == "in force" => None,
                (_, None) => bail!("an unknown warning: {warning}"),
            };
        }
        found.extend(left.iter().map(|case| (case.line, Outcome::True)));
        found.extend(outcomes);
        Ok(found)
    }

    /// What fieldcache answers to a list with the expression, and whether it warns of a failure.
    async fn ask(&self, fieldcache: &Client, case: &Case) -> Result<(Outcome, bool)> {
        let path = format!("{}?celSelector={}", self.path(), escaped(case.expression));
        let answer = fieldcache.get(&path).await?;
        let warns = answer.header("warning").is_some_and(|text| text.contains("celSelector failed"));
        match answer.status.as_u16() {
            400 => return Ok((Outcome::Compile, false)),
            200 => {}
            status => bail!("{status}: {}", answer.text()),
        }
        match answer.json()?["items"].as_array().map(Vec::len) {
            Some(1) => Ok((Outcome::True, warns)),
            Some(0) => Ok((if warns { Outcome::Error } else { Outcome::False }, warns)),
            count => bail!("{count:?} items"),
        }
    }
}

/// The numbers of the validations that a rejected policy's answer names.
fn rejected(answer: &Answer) -> Result<BTreeSet<usize>> {
    let status = answer.json()?;
    let causes = status["details"]["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let index = |cause: &Value| {
        let field = cause["field"].as_str()?;
        let rest = field.strip_prefix("spec.validations[")?.strip_suffix("].expression")?;
        rest.parse().ok()
    };
    causes.iter().map(|cause| index(cause).with_context(|| format!("a cause: {cause}"))).collect()
}

/// The text of a Warning header.
fn warning(header: &http::HeaderValue) -> String {
    let text = String::from_utf8_lossy(header.as_bytes()).into_owned();
    let text = text.strip_prefix("299 - \"").and_then(|rest| rest.strip_suffix('"')).unwrap_or(&text);
    text.replace("\\\"", "\"").replace("\\\\", "\\")
}

/// A value of the query, with all bytes escaped that are not letters or digits.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_have_the_results_of_kube_apiserver() -> Result<()> {
    // Older versions do not have all functions.
    if Kubernetes::under_test()?.minor() < Kubernetes::USUAL.minor() {
        return Ok(());
    }
    let control_plane = ControlPlane::shared().await?;
    let client = control_plane.client();
    let group = unique::group("cel");
    let (found, cases) = table()?;
    let mut stages: BTreeMap<&str, Stage<'_>> = BTreeMap::new();
    for (name, mut object) in found {
        if object["kind"].is_null() {
            object["kind"] = format!("Of{name}").into();
        }
        object["apiVersion"] = format!("{group}/v1").into();
        if object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = name.into();
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.insert("namespace".to_owned(), "default".into());
        }
        let stage = Stage { client: &client, group: &group, plural: format!("of{name}"), object };
        stage.set_up().await?;
        stages.insert(name, stage);
    }

    // Those that kube-apiserver is expected to reject are in policies of their own: others are sent once.
    let mut of_policies: BTreeMap<(&str, bool), Vec<Case>> = BTreeMap::new();
    for case in &cases {
        let is_rejected = case.is_newer || case.expected == Outcome::Compile;
        of_policies.entry((case.object, is_rejected)).or_default().push(*case);
    }
    let policies: Vec<(&str, Vec<Case>)> = of_policies
        .iter()
        .flat_map(|((object, _), cases)| cases.chunks(IN_POLICY).map(|cases| (*object, cases.to_vec())))
        .collect();
    let judged: Vec<BTreeMap<usize, Outcome>> = stream::iter(policies.iter().enumerate())
        .map(|(number, (object, cases))| stages[object].judge(number, cases))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let theirs: BTreeMap<usize, Outcome> = judged.into_iter().flatten().collect();
    for stage in stages.values() {
        objects::create(&client, &stage.path(), &stage.object).await?;
    }

    let resources: Vec<String> = stages.values().map(|stage| format!("{}.v1.{group}", stage.plural)).collect();
    let resources: Vec<&str> = resources.iter().map(String::as_str).collect();
    let fieldcache = Box::pin(Fieldcache::serve_cluster(control_plane.kubeconfig(), &resources)).await?;
    let (mut faults, mut counts, mut silent) = (Vec::new(), BTreeMap::new(), 0);
    for case in &cases {
        let theirs = *theirs.get(&case.line).with_context(|| format!("line {} has no result", case.line))?;
        let (ours, _) = stages[case.object].ask(&fieldcache.client(), case).await?;
        let Case { line, expression, expected, .. } = case;
        let reference = if case.is_newer { Outcome::Compile } else { *expected };
        if theirs != reference {
            faults.push(format!("line {line}: {expression}: kube-apiserver: {theirs}, the table: {reference}"));
        }
        match (ours, expected) {
            (ours, expected) if ours == *expected => {}
            // An index can exclude the object without an evaluation, so that nothing is counted.
            (Outcome::False, Outcome::Error) => silent += 1,
            _ => faults.push(format!("line {line}: {expression}: fieldcache: {ours}, the table: {expected}")),
        }
        if !case.is_newer {
            *counts.entry(theirs).or_insert(0_usize) += 1;
        }
    }
    println!("cel: {counts:?}; {silent} failures without a warning");
    ensure!(faults.is_empty(), "{} differ:\n{}", faults.len(), faults.join("\n"));
    ensure!(counts.values().sum::<usize>() >= LEAST, "only {counts:?} were compared");
    ensure!(counts.len() == 4, "each result occurs: {counts:?}");
    Ok(())
}
