//! Volumes, claims and storage.k8s.io.

use serde_json::{Map, Value, json};

use super::super::dice::Dice;
use super::{Draft, Kind, cluster_wide, namespaced};

pub(super) const KINDS: &[Kind] = &[
    namespaced("v1", "PersistentVolumeClaim", "persistentvolumeclaims", 40, claim),
    cluster_wide("v1", "PersistentVolume", "persistentvolumes", 40, volume),
    cluster_wide("storage.k8s.io/v1", "CSIDriver", "csidrivers", 25, driver),
    cluster_wide("storage.k8s.io/v1", "CSINode", "csinodes", 8, csi_node),
    namespaced("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities", 3, capacity),
    cluster_wide("storage.k8s.io/v1", "StorageClass", "storageclasses", 25, class),
    cluster_wide("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments", 12, attachment),
    cluster_wide("storage.k8s.io/v1", "VolumeAttributesClass", "volumeattributesclasses", 5, attributes_class),
];

fn modes(dice: &mut Dice) -> Value {
    if dice.chance(15) {
        return json!(["ReadWriteOncePod"]);
    }
    let modes = ["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce"];
    let mut picked: Vec<&str> = modes.into_iter().filter(|_| dice.chance(50)).collect();
    if picked.is_empty() {
        picked.push("ReadWriteOnce");
    }
    json!(picked)
}

fn annotations(dice: &mut Dice, key: &str, value: &str, percent: usize) -> Value {
    let mut annotations = Map::new();
    if dice.chance(percent) {
        annotations.insert(key.to_owned(), value.into());
    }
    Value::Object(annotations)
}

fn volume(dice: &mut Dice) -> Draft {
    let (policy, class) = (dice.pick(&["Retain", "Delete", "Recycle"]), dice.pick(&["fast", "slow"]));
    let claim = json!({ "namespace": super::NAMESPACE, "name": dice.word(), "kind": "PersistentVolumeClaim" });
    let mode = dice.pick(&["Block", "Filesystem"]);
    let spec = json!({
        "capacity": { "storage": dice.pick(&["1Gi", "1500M", "0.5Gi", "10737418240"]) },
        "accessModes": modes(dice), "csi": { "driver": "example.com", "volumeHandle": "x" },
        "persistentVolumeReclaimPolicy": if policy == "Recycle" { Value::Null } else { dice.maybe(70, policy) },
        "storageClassName": dice.maybe(70, class), "claimRef": dice.maybe(50, claim), "volumeMode": dice.maybe(50, mode),
        "volumeAttributesClassName": dice.maybe(30, "gold"),
    });
    let (phase, reason) = (dice.pick(&["Pending", "Available", "Bound", "Released", "Failed"]), dice.word());
    let annotations = annotations(dice, "volume.beta.kubernetes.io/storage-class", "by-annotation", 20);
    Draft::new(json!({ "metadata": { "annotations": annotations }, "spec": spec }))
        .status(json!({ "phase": phase, "reason": dice.maybe(30, reason) }))
        .going(dice, 15)
}

fn claim(dice: &mut Dice) -> Draft {
    let (class, mode) = (dice.pick(&["fast", ""]), dice.pick(&["Block", "Filesystem"]));
    let spec = json!({
        "accessModes": modes(dice), "resources": { "requests": { "storage": "1Gi" } },
        "storageClassName": dice.maybe(60, class), "volumeMode": dice.maybe(50, mode),
        "volumeName": dice.maybe(60, "some-volume"), "volumeAttributesClassName": dice.maybe(30, "gold"),
    });
    let size = json!({ "storage": dice.pick(&["2Gi", "2048Mi", "3G"]) });
    let status = json!({
        "phase": dice.pick(&["Pending", "Bound", "Lost"]), "capacity": dice.maybe(70, size), "accessModes": modes(dice),
    });
    let annotations = annotations(dice, "volume.beta.kubernetes.io/storage-class", "by-annotation", 15);
    Draft::new(json!({ "metadata": { "annotations": annotations }, "spec": spec })).status(status).going(dice, 15)
}

fn class(dice: &mut Dice) -> Draft {
    let (policy, binding, grows) =
        (dice.pick(&["Retain", "Delete"]), dice.pick(&["Immediate", "WaitForFirstConsumer"]), dice.chance(50));
    let key =
        dice.pick(&["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]);
    let value = dice.pick(&["true", "true", "false"]);
    Draft::new(json!({
        "metadata": { "annotations": annotations(dice, key, value, 60) },
        "provisioner": format!("{}.example.com/x", dice.word()),
        "reclaimPolicy": dice.maybe(60, policy), "volumeBindingMode": dice.maybe(60, binding),
        "allowVolumeExpansion": dice.maybe(60, grows),
    }))
}

fn attributes_class(dice: &mut Dice) -> Draft {
    Draft::new(json!({ "driverName": format!("{}.example.com", dice.word()), "parameters": { "iops": "1" } }))
}

fn attachment(dice: &mut Dice) -> Draft {
    let attached = dice.chance(50);
    Draft::new(json!({ "spec": {
        "attacher": format!("{}.example.com", dice.word()), "nodeName": format!("node-{}", dice.below(3)),
        "source": { "persistentVolumeName": dice.word() },
    } }))
    .status(json!({ "attached": attached }))
}

fn csi_node(dice: &mut Dice) -> Draft {
    let drivers = dice.list(4, |_, index| json!({ "name": format!("d{index}"), "nodeID": "x", "topologyKeys": [] }));
    Draft::new(json!({ "spec": { "drivers": drivers } }))
}

fn driver(dice: &mut Dice) -> Draft {
    let mut flag = || {
        let value = dice.chance(50);
        dice.maybe(60, value)
    };
    let (attach, info, capacity, republish) = (flag(), flag(), flag(), flag());
    let requests =
        dice.list(3, |dice, index| json!({ "audience": format!("{}-{index}", dice.word()), "expirationSeconds": 900 }));
    let modes = dice.list(2, |_, index| json!(["Persistent", "Ephemeral"][index]));
    Draft::new(json!({ "spec": {
        "attachRequired": attach, "podInfoOnMount": info, "storageCapacity": capacity, "requiresRepublish": republish,
        "tokenRequests": dice.maybe(60, requests), "volumeLifecycleModes": dice.maybe(60, modes),
    } }))
}

fn capacity(dice: &mut Dice) -> Draft {
    Draft::new(json!({ "storageClassName": dice.word(), "capacity": "1Gi" }))
}
