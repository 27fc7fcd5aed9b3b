//! Printers (table rows of `kubectl get`) of volumes, their claims, and storage.k8s.io.

use std::borrow::Cow;

use serde_json::json;

use crate::json::Json;

use super::column::{AGE, NAME, boolean, integer as integer_column, string};
use super::kind::{PrintedRow, Printer};
use super::read::{count, flag, is_being_deleted, is_set, items, name, pointer_or, text, texts};
use super::text::{access_modes, or_none, quantity};
use super::time::{Moment, age};

/// The annotation for the class, from before spec had a field for it.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The name of the storage class of a volume or claim; empty without one. The old annotation has precedence over
/// `spec.storageClassName`, as in Kubernetes.
fn class(object: Json<'_>) -> Cow<'_, str> {
    let annotation = object.at("metadata").at("annotations").at(CLASS_ANNOTATION);
    annotation.as_str().unwrap_or_else(|| text(object.at("spec").at("storageClassName")))
}

/// The phase of a volume or claim, or `Terminating` once its deletion has begun.
fn phase(object: Json<'_>) -> Cow<'_, str> {
    if is_being_deleted(object) { Cow::Borrowed("Terminating") } else { text(object.at("status").at("phase")) }
}

fn persistent_volumes(object: Json<'_>, now: Moment) -> PrintedRow {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let claim = spec.at("claimRef");
    let claim = if is_set(claim) {
        format!("{}/{}", text(claim.at("namespace")), text(claim.at("name")))
    } else {
        String::new()
    };
    PrintedRow::new(vec![
        name(object),
        json!(quantity(spec.at("capacity").at("storage"))),
        json!(access_modes(spec.at("accessModes"))),
        json!(text(spec.at("persistentVolumeReclaimPolicy"))),
        json!(phase(object)),
        json!(claim),
        json!(class(object)),
        json!(pointer_or(spec.at("volumeAttributesClassName"), "<unset>")),
        json!(text(status.at("reason"))),
        age(object, now),
        json!(pointer_or(spec.at("volumeMode"), "<unset>")),
    ])
}

fn persistent_volume_claims(object: Json<'_>, now: Moment) -> PrintedRow {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let volume = text(spec.at("volumeName"));
    let (capacity, modes) = if volume.is_empty() {
        // The claim is not bound yet.
        (String::new(), String::new())
    } else {
        (quantity(status.at("capacity").at("storage")), access_modes(status.at("accessModes")))
    };
    PrintedRow::new(vec![
        name(object),
        json!(phase(object)),
        json!(volume),
        json!(capacity),
        json!(modes),
        json!(class(object)),
        json!(pointer_or(spec.at("volumeAttributesClassName"), "<unset>")),
        age(object, now),
        json!(pointer_or(spec.at("volumeMode"), "<unset>")),
    ])
}

fn storage_classes(object: Json<'_>, now: Moment) -> PrintedRow {
    let annotations = object.at("metadata").at("annotations");
    let marks = ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    let is_default = marks.iter().any(|mark| text(annotations.at(mark)) == "true");
    let shown = format!("{}{}", text(object.at("metadata").at("name")), if is_default { " (default)" } else { "" });
    PrintedRow::new(vec![
        json!(shown),
        json!(text(object.at("provisioner"))),
        json!(pointer_or(object.at("reclaimPolicy"), "Delete")),
        json!(pointer_or(object.at("volumeBindingMode"), "Immediate")),
        json!(flag(object.at("allowVolumeExpansion"))),
        age(object, now),
    ])
}

fn volume_attributes_classes(object: Json<'_>, now: Moment) -> PrintedRow {
    PrintedRow::new(vec![name(object), json!(text(object.at("driverName"))), age(object, now)])
}

fn volume_attachments(object: Json<'_>, now: Moment) -> PrintedRow {
    let spec = object.at("spec");
    PrintedRow::new(vec![
        name(object),
        json!(text(spec.at("attacher"))),
        json!(text(spec.at("source").at("persistentVolumeName"))),
        json!(text(spec.at("nodeName"))),
        json!(flag(object.at("status").at("attached"))),
        age(object, now),
    ])
}

fn csi_nodes(object: Json<'_>, now: Moment) -> PrintedRow {
    PrintedRow::new(vec![name(object), json!(count(object.at("spec").at("drivers"))), age(object, now)])
}

fn csi_drivers(object: Json<'_>, now: Moment) -> PrintedRow {
    let spec = object.at("spec");
    let requests = if is_set(spec.at("tokenRequests")) {
        items(spec.at("tokenRequests")).map(|request| text(request.at("audience"))).collect::<Vec<_>>().join(",")
    } else {
        "<unset>".to_owned()
    };
    PrintedRow::new(vec![
        name(object),
        json!(spec.at("attachRequired").as_bool().unwrap_or(true)),
        json!(flag(spec.at("podInfoOnMount"))),
        json!(flag(spec.at("storageCapacity"))),
        json!(requests),
        json!(flag(spec.at("requiresRepublish"))),
        json!(or_none(texts(spec.at("volumeLifecycleModes")).join(","))),
        age(object, now),
    ])
}

/// Prints PersistentVolumeClaim.
pub const PERSISTENT_VOLUME_CLAIM: Printer = Printer {
    columns: &[
        NAME,
        string("Status", "phase represents the current phase of PersistentVolumeClaim."),
        string("Volume", "volumeName is the binding reference to the PersistentVolume backing this claim."),
        string("Capacity", "capacity represents the actual resources of the underlying volume."),
        string(
            "Access Modes",
            "accessModes contains the actual access modes the volume backing the PVC has. More info: \
                 https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes-1",
        ),
        string("StorageClass", "StorageClass of the pvc"),
        string("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
        AGE,
        string(
            "VolumeMode",
            "volumeMode defines what type of volume is required by the claim. Value of Filesystem is implied \
                 when not included in claim spec.",
        )
        .wide(),
    ],
    print: persistent_volume_claims,
    order: None,
};

/// Prints PersistentVolume.
pub const PERSISTENT_VOLUME: Printer = Printer {
    columns: &[
        NAME,
        string(
            "Capacity",
            "capacity is the description of the persistent volume's resources and capacity. More info: \
                 https://kubernetes.io/docs/concepts/storage/persistent-volumes#capacity",
        ),
        string(
            "Access Modes",
            "accessModes contains all ways the volume can be mounted. More info: \
                 https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes",
        ),
        string(
            "Reclaim Policy",
            "persistentVolumeReclaimPolicy defines what happens to a persistent volume when released from its \
                 claim. Valid options are Retain (default for manually created PersistentVolumes), Delete (default \
                 for dynamically provisioned PersistentVolumes), and Recycle (deprecated). Recycle must be \
                 supported by the volume plugin underlying this PersistentVolume. More info: \
                 https://kubernetes.io/docs/concepts/storage/persistent-volumes#reclaiming",
        ),
        string(
            "Status",
            "phase indicates if a volume is available, bound to a claim, or released by a claim. More info: \
                 https://kubernetes.io/docs/concepts/storage/persistent-volumes#phase",
        ),
        string(
            "Claim",
            "claimRef is part of a bi-directional binding between PersistentVolume and PersistentVolumeClaim. \
                 Expected to be non-nil when bound. claim.VolumeName is the authoritative bind between PV and PVC. \
                 More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#binding",
        ),
        string("StorageClass", "StorageClass of the pv"),
        string("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
        string(
            "Reason",
            "reason is a brief CamelCase string that describes any failure and is meant for machine parsing \
                 and tidy display in the CLI.",
        ),
        AGE,
        string(
            "VolumeMode",
            "volumeMode defines if a volume is intended to be used with a formatted filesystem or to remain in \
                 raw block state. Value of Filesystem is implied when not included in spec.",
        )
        .wide(),
    ],
    print: persistent_volumes,
    order: None,
};

/// Prints CSIDriver.
pub const CSI_DRIVER: Printer = Printer {
    columns: &[
        NAME,
        boolean(
            "AttachRequired",
            "attachRequired indicates this CSI volume driver requires an attach operation (because it \
                 implements the CSI ControllerPublishVolume() method), and that the Kubernetes attach detach \
                 controller should call the attach volume interface which checks the volumeattachment status and \
                 waits until the volume is attached before proceeding to mounting. The CSI external-attacher \
                 coordinates with CSI volume driver and updates the volumeattachment status when the attach \
                 operation is complete. If the value is specified to false, the attach operation will be skipped. \
                 Otherwise the attach operation will be called.\n\nThis field is immutable.",
        ),
        boolean(
            "PodInfoOnMount",
            "podInfoOnMount indicates this CSI volume driver requires additional pod information (like \
                 podName, podUID, etc.) during mount operations, if set to true. If set to false, pod information \
                 will not be passed on mount. Default is false.\n\nThe CSI driver specifies podInfoOnMount as part \
                 of driver deployment. If true, Kubelet will pass pod information as VolumeContext in the CSI \
                 NodePublishVolume() calls. The CSI driver is responsible for parsing and validating the \
                 information passed in as VolumeContext.\n\nThe following VolumeContext will be passed if \
                 podInfoOnMount is set to true. This list might grow, but the prefix will be used. \
                 \"csi.storage.k8s.io/pod.name\": pod.Name \"csi.storage.k8s.io/pod.namespace\": pod.Namespace \
                 \"csi.storage.k8s.io/pod.uid\": string(pod.UID) \"csi.storage.k8s.io/ephemeral\": \"true\" if the \
                 volume is an ephemeral inline volume\n                                defined by a \
                 CSIVolumeSource, otherwise \"false\"\n\n\"csi.storage.k8s.io/ephemeral\" is a new feature in \
                 Kubernetes 1.16. It is only required for drivers which support both the \"Persistent\" and \
                 \"Ephemeral\" VolumeLifecycleMode. Other drivers can leave pod info disabled and/or ignore this \
                 field. As Kubernetes 1.15 doesn't support this field, drivers can only support one mode when \
                 deployed on such a cluster and the deployment determines which mode that is, for example via a \
                 command line parameter of the driver.\n\nThis field was immutable in Kubernetes < 1.29 and now is \
                 mutable.",
        ),
        boolean(
            "StorageCapacity",
            "storageCapacity indicates that the CSI volume driver wants pod scheduling to consider the storage \
                 capacity that the driver deployment will report by creating CSIStorageCapacity objects with \
                 capacity information, if set to true.\n\nThe check can be enabled immediately when deploying a \
                 driver. In that case, provisioning new volumes with late binding will pause until the driver \
                 deployment has published some suitable CSIStorageCapacity object.\n\nAlternatively, the driver can \
                 be deployed with the field unset or false and it can be flipped later when storage capacity \
                 information has been published.\n\nThis field was immutable in Kubernetes <= 1.22 and now is \
                 mutable.",
        ),
        string(
            "TokenRequests",
            "tokenRequests indicates the CSI driver needs pods' service account tokens it is mounting volume \
                 for to do necessary authentication. Kubelet will pass the tokens in VolumeContext in the CSI \
                 NodePublishVolume calls. The CSI driver should parse and validate the following VolumeContext: \
                 \"csi.storage.k8s.io/serviceAccount.tokens\": {\n  \"<audience>\": {\n    \"token\": <token>,\n    \
                 \"expirationTimestamp\": <expiration timestamp in RFC3339>,\n  },\n  ...\n}\n\nNote: Audience in \
                 each TokenRequest should be different and at most one token is empty string. To receive a new \
                 token after expiry, RequiresRepublish can be used to trigger NodePublishVolume periodically.",
        ),
        boolean(
            "RequiresRepublish",
            "requiresRepublish indicates the CSI driver wants `NodePublishVolume` being periodically called to \
                 reflect any possible change in the mounted volume. This field defaults to false.\n\nNote: After a \
                 successful initial NodePublishVolume call, subsequent calls to NodePublishVolume should only \
                 update the contents of the volume. New mount points will not be seen by a running container.",
        ),
        string(
            "Modes",
            "volumeLifecycleModes defines what kind of volumes this CSI volume driver supports. The default if \
                 the list is empty is \"Persistent\", which is the usage defined by the CSI specification and \
                 implemented in Kubernetes via the usual PV/PVC mechanism.\n\nThe other mode is \"Ephemeral\". In \
                 this mode, volumes are defined inline inside the pod spec with CSIVolumeSource and their lifecycle \
                 is tied to the lifecycle of that pod. A driver has to be aware of this because it is only going to \
                 get a NodePublishVolume call for such a volume.\n\nFor more information about implementing this \
                 mode, see https://kubernetes-csi.github.io/docs/ephemeral-local-volumes.html A driver can support \
                 one or more of these modes and more modes may be added in the future.\n\nThis field is beta. This \
                 field is immutable.",
        ),
        AGE,
    ],
    print: csi_drivers,
    order: None,
};

/// Prints CSINode.
pub const CSI_NODE: Printer = Printer {
    columns: &[
        NAME,
        integer_column("Drivers", "Drivers indicates the number of CSI drivers registered on the node"),
        AGE,
    ],
    print: csi_nodes,
    order: None,
};

/// Prints StorageClass.
pub const STORAGE_CLASS: Printer = Printer {
    columns: &[
        NAME,
        string("Provisioner", "provisioner indicates the type of the provisioner."),
        string(
            "ReclaimPolicy",
            "reclaimPolicy controls the reclaimPolicy for dynamically provisioned PersistentVolumes of this \
                 storage class. Defaults to Delete.",
        ),
        string(
            "VolumeBindingMode",
            "volumeBindingMode indicates how PersistentVolumeClaims should be provisioned and bound.  When \
                 unset, VolumeBindingImmediate is used. This field is only honored by servers that enable the \
                 VolumeScheduling feature.",
        ),
        string("AllowVolumeExpansion", "allowVolumeExpansion shows whether the storage class allow volume expand."),
        AGE,
    ],
    print: storage_classes,
    order: None,
};

/// Prints VolumeAttachment.
pub const VOLUME_ATTACHMENT: Printer = Printer {
    columns: &[
        NAME,
        string(
            "Attacher",
            "attacher indicates the name of the volume driver that MUST handle this request. This is the name \
                 returned by GetPluginName().",
        )
        .of_names(),
        string("PV", "persistentVolumeName represents the name of the persistent volume to attach."),
        string("Node", "nodeName represents the node that the volume should be attached to."),
        boolean(
            "Attached",
            "attached indicates the volume is successfully attached. This field must only be set by the entity \
                 completing the attach operation, i.e. the external-attacher.",
        ),
        AGE,
    ],
    print: volume_attachments,
    order: None,
};

/// Prints VolumeAttributesClass.
pub const VOLUME_ATTRIBUTES_CLASS: Printer = Printer {
    columns: &[NAME, string("DriverName", "Name of the CSI driver This field is immutable."), AGE],
    print: volume_attributes_classes,
    order: None,
};
