//! The table of built-in kinds and the documents made of it.

use std::collections::BTreeSet;
use std::iter;

use serde_json::{Value, json};

use super::kind::{BuiltinKind, ZeroValues};
use super::schemas::{published, shared, structural_schema, v2_document, v3_document};
use super::served::{ServedKind, find, group_versions, served_kinds};
use super::table::kinds;
use crate::crd::Crd;
use crate::extract::FieldRef;
use crate::model::{GroupVersion, Gvr, Scope};
use crate::openapi::{GROUP_VERSION_KIND, SelectableEntry, protobuf, selectable, v2, v3};

fn of_resource(name: &str) -> Option<&'static ServedKind> {
    let gvr = Gvr::parse(name).unwrap();
    served_kinds().iter().find(|known| known.gvr() == gvr)
}

#[test]
fn kinds_and_resources_are_unique_and_grouped() {
    let names: BTreeSet<_> = served_kinds().iter().map(|kind| (kind.row.group, kind.version, kind.row.kind)).collect();
    let resources: BTreeSet<_> = served_kinds().iter().map(ServedKind::gvr).collect();
    assert_eq!((names.len(), resources.len()), (served_kinds().len(), served_kinds().len()));
    let mut runs: Vec<GroupVersion> = served_kinds().iter().map(ServedKind::group_version).collect();
    runs.dedup();
    assert_eq!(runs, group_versions(), "the kinds of a group-version are adjacent");
    for run in runs {
        let plurals: Vec<_> =
            served_kinds().iter().filter(|kind| kind.group_version() == run).map(|kind| kind.row.plural).collect();
        assert!(plurals.is_sorted(), "{run}: {plurals:?}");
    }
}

#[test]
fn the_table_matches_kubectl_api_resources() {
    for (resource, kind, list_kind, singular, scope, short_names, categories, has_status) in [
        ("pods.v1", "Pod", "PodList", "pod", Scope::Namespaced, &["po"][..], &["all"][..], true),
        ("nodes.v1", "Node", "NodeList", "node", Scope::Cluster, &["no"], &[], true),
        ("endpoints.v1", "Endpoints", "EndpointsList", "endpoints", Scope::Namespaced, &["ep"], &[], false),
        ("secrets.v1", "Secret", "SecretList", "secret", Scope::Namespaced, &[], &[], false),
        (
            "deployments.v1.apps",
            "Deployment",
            "DeploymentList",
            "deployment",
            Scope::Namespaced,
            &["deploy"],
            &["all"],
            true,
        ),
        (
            "horizontalpodautoscalers.v2.autoscaling",
            "HorizontalPodAutoscaler",
            "HorizontalPodAutoscalerList",
            "horizontalpodautoscaler",
            Scope::Namespaced,
            &["hpa"],
            &["all"],
            true,
        ),
        (
            "storageclasses.v1.storage.k8s.io",
            "StorageClass",
            "StorageClassList",
            "storageclass",
            Scope::Cluster,
            &["sc"],
            &[],
            false,
        ),
        (
            "customresourcedefinitions.v1.apiextensions.k8s.io",
            "CustomResourceDefinition",
            "CustomResourceDefinitionList",
            "customresourcedefinition",
            Scope::Cluster,
            &["crd", "crds"],
            &["api-extensions"],
            true,
        ),
        (
            "resourceslices.v1.resource.k8s.io",
            "ResourceSlice",
            "ResourceSliceList",
            "resourceslice",
            Scope::Cluster,
            &[],
            &[],
            false,
        ),
    ] {
        let known = of_resource(resource).unwrap();
        assert_eq!((known.row.kind, known.list_kind(), &*known.singular()), (kind, list_kind, singular), "{resource}");
        assert_eq!((known.row.scope, known.row.has_status), (scope, has_status), "{resource}");
        assert_eq!((known.row.short_names, known.row.categories), (short_names, categories), "{resource}");
        assert!(find(known.row.group, known.version, kind).is_some(), "{resource}");
    }
    for absent in [
        "componentstatuses.v1",
        "subjectaccessreviews.v1.authorization.k8s.io",
        "clustertrustbundles.v1beta1.certificates.k8s.io",
    ] {
        assert!(of_resource(absent).is_none(), "{absent}");
    }
}

#[test]
fn groups_are_in_the_order_of_apis_and_versions_by_preference() {
    let names: Vec<String> = group_versions().iter().map(ToString::to_string).collect();
    assert_eq!(
        names,
        [
            "v1",
            "apiregistration.k8s.io/v1",
            "apps/v1",
            "events.k8s.io/v1",
            "autoscaling/v2",
            "autoscaling/v1",
            "batch/v1",
            "certificates.k8s.io/v1",
            "networking.k8s.io/v1",
            "policy/v1",
            "rbac.authorization.k8s.io/v1",
            "storage.k8s.io/v1",
            "admissionregistration.k8s.io/v1",
            "apiextensions.k8s.io/v1",
            "scheduling.k8s.io/v1",
            "coordination.k8s.io/v1",
            "node.k8s.io/v1",
            "discovery.k8s.io/v1",
            "resource.k8s.io/v1",
            "flowcontrol.apiserver.k8s.io/v1",
        ]
    );
}

/// Every reference of a document leads somewhere.
fn assert_closed(document: &Value, whole: &Value) {
    match document {
        Value::Object(object) => {
            if let Some(Value::String(reference)) = object.get("$ref") {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(whole.pointer(pointer).is_some(), "{reference} leads nowhere");
            }
            object.values().for_each(|member| assert_closed(member, whole));
        }
        Value::Array(items) => items.iter().for_each(|item| assert_closed(item, whole)),
        _ => {}
    }
}

#[test]
fn every_document_is_closed_and_fits_its_message() {
    for group_version in group_versions() {
        let document = v3_document(&group_version).unwrap();
        assert_closed(&document, &document);
        let (_, skipped) = protobuf::encode(&protobuf::v3::DOCUMENT, &document);
        assert_eq!(skipped, [], "{group_version}");
    }
    let document = v2_document();
    assert_closed(&document, &document);
    assert_eq!(protobuf::encode(&protobuf::v2::DOCUMENT, &document).1, []);
    assert!(v3_document(&GroupVersion::new("apps", "v1beta1")).is_none());
}

#[test]
fn kubectl_explain_finds_every_kind() {
    for kind in served_kinds() {
        let document = v3_document(&kind.group_version()).unwrap();
        let wanted = json!({"group": kind.row.group, "version": kind.version, "kind": kind.row.kind});
        let namespace = if kind.row.scope == Scope::Namespaced { "/namespaces/{namespace}" } else { "" };
        let path = format!("/{}{namespace}/{}/{{name}}", kind.group_version().path(), kind.row.plural);
        assert_eq!(document["paths"][&path]["get"][GROUP_VERSION_KIND], wanted, "{path}");
        let definition = &document["components"]["schemas"][&*kind.definition()];
        assert_eq!(definition[GROUP_VERSION_KIND], json!([wanted]), "{path}");
    }
}

#[test]
fn definitions_have_the_form_of_kubernetes() {
    let pod = &published()["io.k8s.api.core.v1.Pod"];
    let reference = json!([{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}]);
    assert_eq!(pod["properties"]["spec"]["allOf"], reference, "a described reference is wrapped");
    assert_eq!(pod.get("required"), None);
    let quantity = &published()["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!(quantity["oneOf"], json!([{"type": "string"}, {"type": "number"}]));
    let list = &published()["io.k8s.api.core.v1.PodList"];
    assert_eq!(list["properties"]["items"]["items"]["$ref"], "#/components/schemas/io.k8s.api.core.v1.Pod");
    assert_eq!(list["required"], json!(["items"]));
    assert_eq!(published()["io.k8s.api.core.v1.SecretKeySelector"]["required"], json!(["key"]), "name is optional");
    let v2 = v2_document();
    let v2_quantity = &v2["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!(v2_quantity["type"], "string");
    assert_eq!(v2_quantity.get("oneOf"), None);
}

#[test]
fn a_schema_for_checking_has_no_reference_left() {
    let pod = structural_schema("", "v1", "Pod").unwrap();
    assert!(!pod.to_string().contains("$ref"));
    let port =
        pod.pointer("/properties/spec/properties/containers/items/properties/ports/items/properties/containerPort");
    assert_eq!(port.unwrap()["type"], "integer");
    let image_description = pod.pointer("/properties/spec/properties/containers/items/properties/image").unwrap();
    assert_eq!(*image_description, json!({"type": "string"}), "texts are left out");
    let crd = structural_schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
    let inner = crd.pointer(
        "/properties/spec/properties/versions/items/properties/schema/properties/openAPIV3Schema/properties/not",
    );
    assert_eq!(*inner.unwrap(), json!({"x-kubernetes-preserve-unknown-fields": true}), "a schema in itself ends");
    assert!(structural_schema("apps", "v1", "Pod").is_none());
}

#[test]
fn custom_resources_and_fields_come_on_top() {
    let crd = Crd::read(&json!({
        "metadata": {"name": "shirts.stable.example.com"},
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced", "names": {"plural": "shirts", "kind": "Shirt"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
                "subresources": {"scale": {}}, "selectableFields": [{"jsonPath": ".spec.color"}]}],
        }
    }))
    .unwrap();
    let document = v3::custom_resources(&[&crd], "stable.example.com", "v1", &shared()).unwrap();
    assert_closed(&document, &document);
    let metadata = &document["components"]["schemas"]["com.example.stable.v1.Shirt"]["properties"]["apiVersion"];
    assert!(metadata["description"].is_string(), "texts of meta/v1 are there");

    let mut whole = v2_document();
    v2::merge(&mut whole, &[&crd], &shared());
    assert_closed(&whole, &whole);
    let entry = SelectableEntry { field_path: "metadata.name".to_owned(), default: None, description: None };
    let changed = selectable::annotate(&mut whole, &|group, version, kind| {
        find(group, version, kind).map(|_| vec![entry.clone()])
    });
    assert_eq!(changed, 2 * served_kinds().len(), "every kind and its list");
}

#[test]
fn every_kind_accepts_its_name_and_publishes_its_labels() {
    let mut without_namespace = BTreeSet::new();
    for kind in served_kinds() {
        let plan = super::extractor(kind.row.group, kind.version, kind.row.kind);
        assert_eq!(plan.resolve("metadata.name"), Ok(FieldRef::Name), "{}", kind.row.kind);
        if plan.resolve("metadata.namespace").is_err() {
            without_namespace.insert(kind.row.kind);
        }
        let entries = super::published_fields(kind.row.group, kind.version, kind.row.kind, kind.row.scope);
        let published: Vec<&str> = entries.iter().map(|entry| entry.field_path).collect();
        let namespace = plan.accepts_namespace().then_some("metadata.namespace");
        let fields = plan.fields().iter().map(|field| field.label.as_str());
        let accepted: Vec<&str> = iter::once("metadata.name").chain(namespace).chain(fields).collect();
        assert_eq!(published, accepted, "{}", kind.row.kind);
    }
    let refusing = ["CertificateSigningRequest", "Namespace", "Node", "ResourceSlice"];
    assert_eq!(without_namespace, BTreeSet::from(refusing), "kinds whose conversion refuses it");
}

#[test]
fn deprecated_kinds_are_warned_of_from_their_release_on() {
    let admission = "admissionregistration.k8s.io";
    for (group, version, kind, minor, expected) in [
        ("", "v1", "Endpoints", 32, None),
        (
            "",
            "v1",
            "Endpoints",
            33,
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        ),
        ("", "v1", "ComponentStatus", 32, Some("v1 ComponentStatus is deprecated in v1.19+")),
        ("resource.k8s.io", "v1", "ResourceClaim", 37, None),
        ("resource.k8s.io", "v1beta2", "ResourceClaim", 35, None),
        (
            "resource.k8s.io",
            "v1beta2",
            "ResourceClaim",
            36,
            Some("resource.k8s.io/v1beta2 ResourceClaim is deprecated in v1.36+, unavailable in v1.39+"),
        ),
        (
            admission,
            "v1beta1",
            "MutatingAdmissionPolicy",
            37,
            Some(
                "admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicy is deprecated in v1.37+, unavailable in v1.40+; use \
                 admissionregistration.k8s.io/v1 MutatingAdmissionPolicy",
            ),
        ),
        (
            "storage.k8s.io",
            "v1alpha1",
            "VolumeAttributesClass",
            33,
            Some("storage.k8s.io/v1alpha1 VolumeAttributesClass is deprecated in v1.32+, unavailable in v1.35+"),
        ),
        (
            "storage.k8s.io",
            "v1alpha1",
            "VolumeAttributesClass",
            34,
            Some(
                "storage.k8s.io/v1alpha1 VolumeAttributesClass is deprecated in v1.32+, unavailable in v1.35+; use \
                 storage.k8s.io/v1 VolumeAttributesClass",
            ),
        ),
    ] {
        let warning = super::deprecation_warning(group, version, kind, minor);
        assert_eq!(warning.as_deref(), expected, "{group}/{version} {kind} in 1.{minor}");
    }
}

#[test]
fn the_table_and_k8s_openapi_state_the_same_names() {
    for kind in served_kinds() {
        let row = kind.row;
        let (group, name, plural, scope) = kind.served.names;
        assert_eq!((row.group, row.kind, row.plural), (group, name, plural), "{}", kind.gvr());
        let is_namespaced = scope().ends_with("NamespaceResourceScope");
        assert_eq!(row.scope == Scope::Namespaced, is_namespaced, "{}: {}", kind.gvr(), scope());
    }
}

#[test]
fn every_kind_has_one_row_and_every_fact_of_it_is_meaningful() {
    let (mut names, mut resources) = (BTreeSet::new(), BTreeSet::new());
    for row in kinds() {
        let what = format!("{}/{}", row.group, row.kind);
        assert!(names.insert((row.group, row.kind)), "{what} has two rows");
        assert!(resources.insert((row.group, row.plural)), "{what}: two kinds are called {}", row.plural);
        let zero_values: Vec<&str> = match row.zero_values {
            ZeroValues::OfAll("") => Vec::new(),
            ZeroValues::OfAll(members) => vec![members],
            ZeroValues::OfVersions(rows) => rows.iter().map(|(_, members)| *members).collect(),
        };
        for members in zero_values {
            let object: Value = serde_json::from_str(&format!("{{{members}}}")).expect(&what);
            assert!(object.as_object().is_some_and(|members| !members.is_empty()), "{what}");
        }
        for deprecation in row.deprecations {
            assert!(deprecation.removed.is_none_or(|removed| removed > deprecation.since), "{what}");
            let warning = super::deprecation_warning(row.group, deprecation.version, row.kind, deprecation.since);
            assert!(warning.is_some(), "{what}: {deprecation:?}");
        }
        if let Some(fields) = row.fields {
            assert!(!fields.versions.is_empty() && !fields.labels.is_empty(), "{what}");
        }
    }
    let zero_values = super::zero_values;
    assert_eq!(zero_values("", "v1", "ConfigMap"), "", "all of its members can be left out");
    assert_eq!(zero_values("stable.example.com", "v1", "Pod"), "", "a custom kind of the same name");
    let [old, new] = ["v1", "v2"].map(|version| zero_values("autoscaling", version, "HorizontalPodAutoscaler"));
    assert!(old.contains("currentReplicas") && new.contains("currentMetrics"), "versions differ: {old} {new}");
    let of_fields: Vec<&BuiltinKind> = kinds().filter(|row| row.fields.is_some()).collect();
    assert_eq!(of_fields.len(), 13, "upstream's kinds with selectable fields of their own");
}
