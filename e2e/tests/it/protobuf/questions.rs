//! Questions made by hand: what upstream's fuzzers do not write, documents, lists and events.

use anyhow::{Context, Result, ensure};
use fieldcache::protobuf::Encoder;
use fieldcache::protobuf::envelope::{List, ListFields, ProtobufEnvelope, begin_event};
use serde_json::{Value, json};

use super::judge::Judge;
use super::{encoded, table};

/// What is in a Pod that has everything that is special.
pub(super) const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","creationTimestamp":"2026-01-02T03:04:05Z",
"managedFields":[{"manager":"m","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{}}}}],
"labels":{"b":"2","a":"1","c":"3"},"finalizers":["one","two"]},
"spec":{"containers":[{"name":"first","image":"i","ports":[{"containerPort":80,"protocol":"TCP"}],
"resources":{"limits":{"memory":"128Mi","cpu":"500m"}},"livenessProbe":{"httpGet":{"path":"/","port":"http"}},
"readinessProbe":{"tcpSocket":{"port":8080}},"securityContext":{"runAsNonRoot":true}},{"name":"second"}],
"volumes":[{"name":"v","configMap":{"name":"c","defaultMode":420}}],"terminationGracePeriodSeconds":30,"restartPolicy":"Always"},
"status":{"phase":"Running","startTime":"2026-01-02T03:04:05Z"}}"#;

/// Objects that JSON can hold.
pub(super) const OBJECTS: [&str; 26] = [
    POD,
    // Members in another order than that of fields, maps that are not sorted, and white space.
    r#" { "spec" : { "restartPolicy" : "Never" , "containers" : [ ] } , "metadata" : { "labels" : { "z" : "1" , "é" : "2" , "a" : "3" ,
    "" : "4" } , "name" : "x" } , "apiVersion" : "v1" , "kind" : "Pod" } "#,
    // Null everywhere.
    r#"{"apiVersion":"v1","kind":"Pod","metadata":null,"spec":{"containers":[null,{"name":null,"resources":null,"ports":[null]}],
    "nodeSelector":null,"tolerations":null,"terminationGracePeriodSeconds":null},"status":null}"#,
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":null},"creationTimestamp":null,"finalizers":[null]}}"#,
    r#"{"apiVersion":"v1","kind":"Secret","data":{"b":null,"a":"","c":"AAEC/w=="},"immutable":false,"type":"Opaque"}"#,
    r#"{"apiVersion":"v1","kind":"Secret","data":{"x":"YQ==","w":"YWI="},"stringData":{"k":"v"}}"#,
    // Escapes, keys with escapes, and texts of other scripts.
    r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"\u0061":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00","k\"":"\ud800"},"metadata":{"name":"é😀"}}"#,
    r#"{"apiVersion":"v1","kind":"ConfigMap","binaryData":{"k":"aGVsbG8="},"\u0064ata":{"a":"b"}}"#,
    // Quantities that are not canonical.
    r#"{"apiVersion":"v1","kind":"ResourceQuota","spec":{"hard":{"a":"1000m","b":"0.5","c":"1024Mi","d":"1.5Gi","e":".5","f":"+1","g":"01",
    "h":"1.500","i":"1e3","j":"1E3","k":"1000E","l":"0Ki","m":"-0","n":"1.","o":"12e-3","p":"0.1n","q":"-0.1n","r":"1.1Ki","s":"1024Ki"}}}"#,
    r#"{"apiVersion":"v1","kind":"ResourceQuota","spec":{"hard":{"a":5,"b":1.5,"c":-3,"d":" 7 ","e":"9223372036854775807","f":"9223372036854775808",
    "g":"8Ei","h":"16Ei","i":"1023Ki","j":"1048576","k":"100000","l":"123456789012345678901234","m":"0.0000001","n":"1e-10","o":null}}}"#,
    r#"{"apiVersion":"v1","kind":"ResourceQuota","spec":{"hard":{"a":"0.1Ki","b":"0.0009765625Mi","c":"-1Ki","d":"-1.5Gi","e":"999.9Ki","f":"1e21",
    "g":"10","h":"100k","i":"1e1","j":"3e100","k":"2048","l":"8Ki","m":"+2Gi","n":"007Mi","o":"1e0"}}}"#,
    // Times.
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"creationTimestamp":"2026-01-02T03:04:05.999999999+05:30","deletionTimestamp":"1969-12-31T23:59:59.5Z"}}"#,
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"creationTimestamp":"0001-01-01T00:00:00Z","deletionTimestamp":"0001-01-01T00:00:00Z"}}"#,
    r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","spec":{"renewTime":"2026-01-02T03:04:05.123456Z","acquireTime":"0001-01-01T00:00:00.000000Z"}}"#,
    r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","spec":{"renewTime":"1969-12-31T23:59:59.000001Z","leaseDurationSeconds":-1}}"#,
    // Numbers or texts.
    r#"{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","spec":{"minAvailable":"50%","maxUnavailable":-1}}"#,
    r#"{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","spec":{"minAvailable":0,"maxUnavailable":""}}"#,
    // Any JSON.
    r#"{"apiVersion":"apps/v1","kind":"ControllerRevision","data":{"b" : [1, 2.50, null],"a":"<&>"},"revision":9007199254740993}"#,
    r#"{"apiVersion":"apps/v1","kind":"ControllerRevision","data":null,"revision":-9223372036854775808}"#,
    // Templates of claims have a kind in JSON, and none in protobuf.
    r#"{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"volumeClaimTemplates":[{"kind":"PersistentVolumeClaim","apiVersion":"v1",
    "metadata":{"name":"c"},"spec":{"resources":{"requests":{"storage":"1Gi"}}}}],"serviceName":"s"}}"#,
    // Schemas.
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"group":"g","versions":[{"name":"v1","served":true,
    "schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"b":{"type":"array","items":{"type":"string"}},
    "a":{"items":[{"type":"string"}],"maximum":1.5,"minimum":-0,"enum":["a",1,null,{"x" : 1}],"default":{"a" : null}},
    "c":{"additionalProperties":false},"d":{"additionalProperties":true},"e":{"additionalProperties":{"type":"integer"}},
    "f":{"dependencies":{"y":["a","b"],"x":{"type":"string"},"z":null},"$ref":"","example":"x"}}}}}]},"status":{"conditions":null}}"#,
    // Documents.
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"NotFound","details":{"name":"x","kind":"pods",
    "causes":[{"reason":"r","message":"m","field":"f"}],"retryAfterSeconds":1},"code":404}"#,
    r#"{"kind":"APIVersions","apiVersion":"v1","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"10.0.0.1:443"}]}"#,
    r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod",
    "verbs":["get","list"],"shortNames":["po"],"storageVersionHash":"x="},{"name":"x","verbs":[],"kind":"X"},{"name":"y","verbs":null,"kind":"Y"}]}"#,
    r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],
    "preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}]}"#,
    r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{"name":"apps","creationTimestamp":null},
    "versions":[{"version":"v1","freshness":"Current","resources":[{"resource":"deployments","responseKind":{"group":"","version":"","kind":"Deployment"},
    "scope":"Namespaced","singularResource":"deployment","verbs":["get"],"subresources":[{"subresource":"scale","responseKind":null,"verbs":["get"]}]}]}]}]}"#,
];

fn text<'v>(object: &'v Value, name: &str) -> Result<&'v str> {
    object[name].as_str().with_context(|| format!("{name} is missing"))
}

#[test]
fn objects_made_by_hand_are_written_as_upstream_writes_them() -> Result<()> {
    let mut judge = Judge::start()?;
    let mut encoder = Encoder::default();
    let mut faults = Vec::new();
    for json in OBJECTS {
        let object: Value = serde_json::from_str(&json.replace("\\ud800\"", "\""))?;
        let expected = judge.object(json.as_bytes()).with_context(|| json.to_owned())?;
        match encoded(&mut encoder, table()?, text(&object, "apiVersion")?, text(&object, "kind")?, json.as_bytes()) {
            Ok(ours) if ours == expected => {}
            Ok(ours) => {
                let seen = |bytes: &[u8]| judge_text(bytes);
                faults.push(format!("{json}\n  ours   {}\n  theirs {}", seen(&ours), seen(&expected)));
            }
            Err(error) => faults.push(format!("{json}\n  {error}")),
        }
    }
    ensure!(faults.is_empty(), "{} differ:\n{}", faults.len(), faults.join("\n"));
    Ok(())
}

fn judge_text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// Metadata of resources of any kind.
#[test]
fn metadata_of_any_object_is_written_as_upstream_writes_it() -> Result<()> {
    let mut judge = Judge::start()?;
    let mut encoder = Encoder::default();
    let shirt = r#"{"apiVersion":"example.com/v1","kind":"Shirt","metadata":{"annotations":{"b":"1","a":"2"},"name":"s"},"spec":{"any":[{"x":{}}]},"zz":1}"#;
    for json in [shirt, POD] {
        let object: Value = serde_json::from_str(json)?;
        for api_version in ["meta.k8s.io/v1", "meta.k8s.io/v1beta1"] {
            let partial =
                json!({ "apiVersion": api_version, "kind": "PartialObjectMetadata", "metadata": object["metadata"] });
            let expected = judge.object(partial.to_string().as_bytes())?;
            let message = encoder.read(table()?.partial().context("the table must have it")?, json.as_bytes())?;
            let mut ours = Vec::new();
            let envelope = ProtobufEnvelope { api_version, kind: "PartialObjectMetadata" };
            envelope.begin(message.length(), &mut ours);
            message.write(&mut ours);
            ours.extend_from_slice(&fieldcache::protobuf::envelope::END);
            ensure!(ours == expected, "{json}: ours {}, theirs {}", judge_text(&ours), judge_text(&expected));
        }
    }
    Ok(())
}

/// A list that is measured first, and written item by item.
fn listed(api_version: &str, kind: &str, fields: ListFields, meta: &str, items: &[&str]) -> Result<Vec<u8>> {
    let mut encoder = Encoder::default();
    let mut metadata = Vec::new();
    encoder.read(table()?.list_meta().context("the table must have it")?, meta.as_bytes())?.write(&mut metadata);
    let list = List { envelope: ProtobufEnvelope { api_version, kind }, metadata: &metadata, fields };
    let item = match fields {
        ListFields::USUAL => table()?.kind("v1", "Pod"),
        _ => table()?.partial(),
    };
    let item = item.context("the table must have the item")?;
    let mut sum = 0;
    for json in items {
        sum += List::item_length(encoder.read(item, json.as_bytes())?.length());
    }
    let mut out = Vec::new();
    list.begin(sum, &mut out);
    for json in items {
        let message = encoder.read(item, json.as_bytes())?;
        list.begin_item(message.length(), &mut out);
        message.write(&mut out);
    }
    list.end(&mut out);
    ensure!(out.len() == list.length(sum), "the length of the list is wrong");
    Ok(out)
}

#[test]
fn lists_are_written_as_upstream_writes_them() -> Result<()> {
    let mut judge = Judge::start()?;
    let second = r#"{"metadata":{"name":"b"}}"#;
    let metas = ["{}", r#"{"resourceVersion":"17","continue":"abc","remainingItemCount":3}"#];
    let cases = [
        ("v1", "PodList", ListFields::USUAL),
        ("meta.k8s.io/v1beta1", "PartialObjectMetadataList", ListFields::PARTIAL_V1BETA1),
    ];
    for (api_version, kind, fields) in cases {
        for meta in metas {
            for items in [&[][..], &[POD, second][..]] {
                let values = items.iter().map(|item| {
                    let item: Value = serde_json::from_str(item)?;
                    Ok(if fields == ListFields::USUAL { item } else { json!({ "metadata": item["metadata"] }) })
                });
                let values = values.collect::<Result<Vec<Value>>>()?;
                let document = json!({ "apiVersion": api_version, "kind": kind, "items": values,
                    "metadata": serde_json::from_str::<Value>(meta)? });
                let expected = judge.object(document.to_string().as_bytes())?;
                let ours = listed(api_version, kind, fields, meta, items)?;
                ensure!(ours == expected, "{document}: ours {}, theirs {}", judge_text(&ours), judge_text(&expected));
            }
        }
    }
    Ok(())
}

#[test]
fn events_are_framed_as_upstream_frames_them() -> Result<()> {
    let mut judge = Judge::start()?;
    let mut encoder = Encoder::default();
    let bookmark = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"7"}}"#;
    for (event_type, json) in [("ADDED", POD), ("BOOKMARK", bookmark)] {
        let expected = judge.event(format!(r#"{{"type":"{event_type}","object":{json}}}"#).as_bytes())?;
        let object = encoded(&mut encoder, table()?, "v1", "Pod", json.as_bytes())?;
        let mut ours = Vec::new();
        begin_event(event_type, object.len(), &mut ours);
        ours.extend_from_slice(&object);
        ensure!(ours == expected, "ours {}, theirs {}", judge_text(&ours), judge_text(&expected));
    }
    Ok(())
}

/// What upstream decodes of our bytes is what the JSON said.
#[test]
fn upstream_reads_what_was_written() -> Result<()> {
    let mut judge = Judge::start()?;
    let ours = encoded(&mut Encoder::default(), table()?, "v1", "Pod", POD.as_bytes())?;
    let read: Value = serde_json::from_slice(&judge.decoded(&ours)?)?;
    ensure!(read["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "500m", "{read}");
    ensure!(read["metadata"]["managedFields"][0]["fieldsV1"] == json!({ "f:spec": { ".": {} } }), "{read}");
    ensure!(read["spec"]["containers"][1]["name"] == "second", "{read}");
    Ok(())
}
