//! The next pod of a workload: a pod template with the controller's additions, before the API server gets the Pod.
//!
//! Values that only a controller has (the hash of a template, the revision) cannot be computed here. The pod is
//! therefore of a new revision, and [`NEW_REVISION`] represents a value that no pod has yet. [`super::admission`] adds
//! what the API server adds. Sources: the controllers under `pkg/controller` of each kind, for DaemonSets
//! `daemon/util/daemonset_util.go`.

use serde::Deserialize;
use serde_json::Value;

use super::condition::{
    DISK_PRESSURE, MEMORY_PRESSURE, NETWORK_UNAVAILABLE, NOT_READY, PID_PRESSURE, UNREACHABLE, UNSCHEDULABLE,
};
use super::pod::{Metadata, Pod, PodSpec, Toleration, null_as_default};
use super::toleration::{NO_EXECUTE, NO_SCHEDULE};

/// Replaces values that only a controller has, such as the hash of a new template. Hashes of Kubernetes have no
/// vowels, so no existing Pod has this value.
pub const NEW_REVISION: &str = "new";

/// The reason why a document cannot be read as a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// The kind is unknown or has no pod template.
    #[error(
        "{kind:?} is not a supported workload: use a Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, \
         ReplicationController or PodTemplate"
    )]
    UnknownKind {
        /// The kind that the document states.
        kind: String,
    },
    /// The workload cannot be read.
    #[error("cannot read the {kind}: {message}")]
    Unreadable {
        /// Its kind.
        kind: String,
        /// The error.
        message: String,
    },
}

/// A workload's next pod, before admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The kind of the workload.
    pub kind: String,
    /// The pod template as it is written, for [`super::validate::template`].
    pub template: Pod,
    /// The path of the template, such as `spec.template`.
    pub template_path: &'static str,
    /// The Pod that the controller would send.
    pub pod: Pod,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    #[serde(deserialize_with = "null_as_default")]
    kind: String,
    #[serde(deserialize_with = "null_as_default")]
    metadata: Metadata,
}

/// The path of the Pod template in a workload of this kind; `None` if the kind is not a supported workload.
fn template_path(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicationController" => "spec.template",
        "CronJob" => "spec.jobTemplate.spec.template",
        "PodTemplate" => "template",
        _ => return None,
    })
}

impl Workload {
    /// Reads a workload, and derives its next Pod from the template.
    ///
    /// # Errors
    /// The kind is not a supported workload, the template is missing, or a field has a wrong type.
    pub fn read(document: &Value) -> Result<Workload, WorkloadError> {
        let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let template_path = template_path(&kind).ok_or_else(|| WorkloadError::UnknownKind { kind: kind.clone() })?;
        let unreadable =
            |error: serde_json::Error| WorkloadError::Unreadable { kind: kind.clone(), message: error.to_string() };
        let head: Document = Document::deserialize(document).map_err(unreadable)?;
        let template = template_path.split('.').try_fold(document, |value, member| value.get(member));
        let template = match template {
            Some(template) if !template.is_null() => Pod::deserialize(template).map_err(unreadable)?,
            _ => {
                return Err(WorkloadError::Unreadable { kind, message: format!("{template_path} is missing") });
            }
        };
        let mut pod = Pod { metadata: template.metadata.clone(), spec: template.spec.clone(), ..Pod::default() };
        // Controllers ignore the name and the uid of a template.
        pod.metadata.name.clear();
        pod.metadata.uid.clear();
        pod.metadata.namespace.clone_from(&head.metadata.namespace);
        complete(&mut pod, &head.kind, &head.metadata, document);
        Ok(Workload { kind, template, template_path, pod })
    }
}

/// Adds to a Pod what the controller of this kind adds: name, labels and tolerations. `owner` is the metadata of the
/// workload, `document` the whole workload.
fn complete(pod: &mut Pod, kind: &str, owner: &Metadata, document: &Value) {
    let labels = &mut pod.metadata.labels;
    let mut set = |key: &str, value: &str| labels.insert(key.to_owned(), value.to_owned());
    match kind {
        "Deployment" => {
            set("pod-template-hash", NEW_REVISION);
        }
        "StatefulSet" => {
            let ordinal = document.pointer("/spec/ordinals/start").and_then(Value::as_i64).unwrap_or_default();
            let name = format!("{}-{ordinal}", owner.name);
            set("controller-revision-hash", NEW_REVISION);
            set("statefulset.kubernetes.io/pod-name", &name);
            set("apps.kubernetes.io/pod-index", &ordinal.to_string());
            // The Pod of that name may exist: then the result is where it would run if it were created again.
            pod.metadata.name = name;
        }
        "DaemonSet" => {
            set("controller-revision-hash", NEW_REVISION);
            // The generation of a new DaemonSet; each change of its template increases it.
            set("pod-template-generation", "1");
            add_daemon_tolerations(&mut pod.spec);
        }
        "Job" => {
            let uid = if owner.uid.is_empty() { NEW_REVISION } else { &owner.uid };
            set("batch.kubernetes.io/controller-uid", uid);
            set("controller-uid", uid);
            set("batch.kubernetes.io/job-name", &owner.name);
            set("job-name", &owner.name);
            if document.pointer("/spec/completionMode").and_then(Value::as_str) == Some("Indexed") {
                set("batch.kubernetes.io/job-completion-index", "0");
            }
        }
        "CronJob" => {
            // The Job's name carries the time of its start.
            let job = format!("{}-{NEW_REVISION}", owner.name);
            set("batch.kubernetes.io/controller-uid", NEW_REVISION);
            set("controller-uid", NEW_REVISION);
            set("batch.kubernetes.io/job-name", &job);
            set("job-name", &job);
        }
        _ => {}
    }
}

/// Adds the tolerations that the DaemonSet controller gives to its Pods. They have no time limit: an equal toleration
/// of the template loses its `tolerationSeconds`.
pub fn add_daemon_tolerations(spec: &mut PodSpec) {
    let mut wanted = vec![
        (NOT_READY, NO_EXECUTE),
        (UNREACHABLE, NO_EXECUTE),
        (DISK_PRESSURE, NO_SCHEDULE),
        (MEMORY_PRESSURE, NO_SCHEDULE),
        (PID_PRESSURE, NO_SCHEDULE),
        (UNSCHEDULABLE, NO_SCHEDULE),
    ];
    if spec.host_network {
        wanted.push((NETWORK_UNAVAILABLE, NO_SCHEDULE));
    }
    for (key, effect) in wanted {
        let toleration = Toleration {
            key: key.to_owned(),
            operator: "Exists".to_owned(),
            effect: effect.to_owned(),
            ..Toleration::default()
        };
        let is_same = |given: &Toleration| Toleration { toleration_seconds: None, ..given.clone() } == toleration;
        let mut is_given = false;
        for given in spec.tolerations.iter_mut().filter(|given| is_same(given)) {
            given.toleration_seconds = None;
            is_given = true;
        }
        if !is_given {
            spec.tolerations.push(toleration);
        }
    }
}
