//! Services, endpoints, ingresses, policies.

use serde_json::{Value, json};

use super::super::dice::Dice;
use super::{Draft, Kind, cluster_wide, namespaced};

pub(super) const KINDS: &[Kind] = &[
    namespaced("v1", "Endpoints", "endpoints", 40, endpoints),
    namespaced("v1", "Service", "services", 60, service),
    namespaced("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", 40, slice),
    cluster_wide("networking.k8s.io/v1", "IngressClass", "ingressclasses", 15, class),
    namespaced("networking.k8s.io/v1", "Ingress", "ingresses", 40, ingress),
    namespaced("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", 25, policy),
    cluster_wide("networking.k8s.io/v1", "ServiceCIDR", "servicecidrs", 0, class),
];

fn ports(dice: &mut Dice, least: usize) -> Value {
    let count = least + dice.below(3);
    (0..count)
        .map(|index| {
            let protocol = dice.pick(&["TCP", "UDP", "SCTP"]);
            json!({ "name": format!("p{index}"), "port": 80 + index, "protocol": dice.maybe(60, protocol) })
        })
        .collect()
}

fn balancers(dice: &mut Dice) -> Value {
    dice.list(3, |dice, index| match dice.below(3) {
        0 => json!({ "ip": format!("192.0.2.{}", 9 - index) }),
        1 => json!({ "hostname": format!("{}-{index}.a-rather-long-name.example.com", dice.word()) }),
        _ => json!({ "ip": format!("192.0.2.{}", dice.below(3)), "hostname": "both.example.com" }),
    })
}

fn service(dice: &mut Dice) -> Draft {
    let external: Vec<String> = (0..dice.below(3)).map(|index| format!("198.51.100.{}", 7 - index)).collect();
    let selector = dice.map(3);
    let balancers = balancers(dice);
    let spec = match dice.below(6) {
        0 => json!({ "type": "ExternalName", "externalName": format!("{}.example.com", dice.word()) }),
        1 => json!({ "clusterIP": "None", "ports": ports(dice, 0), "selector": selector }),
        2 => json!({ "type": "NodePort", "ports": ports(dice, 1), "externalIPs": external, "selector": selector }),
        3 => json!({ "ports": ports(dice, 1), "externalIPs": external, "selector": selector }),
        _ => {
            let node_ports = dice.maybe(50, false);
            json!({ "type": "LoadBalancer", "ports": ports(dice, 1), "externalIPs": external, "selector": selector,
                    "allocateLoadBalancerNodePorts": node_ports })
        }
    };
    let is_balanced = spec["type"] == "LoadBalancer";
    let draft = Draft::new(json!({ "spec": spec }));
    if is_balanced && dice.chance(75) {
        return draft.status(json!({ "loadBalancer": { "ingress": balancers } }));
    }
    draft
}

fn addresses(dice: &mut Dice, most: usize) -> Value {
    let family = dice.chance(70);
    dice.list(most, |dice, index| {
        let number = dice.below(90) + index * 100;
        if family {
            json!(format!("10.2.{}.{}", number / 100, number % 100 + 1))
        } else {
            json!(format!("fd00::{}", number + 1))
        }
    })
}

fn endpoints(dice: &mut Dice) -> Draft {
    let subsets = dice.list(3, |dice, _| {
        let addresses = addresses(dice, 4);
        let addresses: Vec<Value> =
            addresses.as_array().into_iter().flatten().map(|address| json!({ "ip": address })).collect();
        let waiting = json!([{ "ip": "10.9.9.9" }]);
        let no_address = addresses.is_empty();
        let count = dice.below(3);
        json!({
            "addresses": addresses, "ports": ports(dice, count),
            "notReadyAddresses": if no_address || dice.chance(30) { waiting } else { Value::Null },
        })
    });
    Draft::new(json!({ "subsets": subsets }))
}

fn slice(dice: &mut Dice) -> Draft {
    let family = dice.pick(&["IPv4", "IPv6", "FQDN"]);
    let ports = dice.list(5, |dice, index| {
        let (number, name) = (dice.below(9000) + 1, format!("p{index}"));
        json!({ "port": dice.maybe(75, number), "name": dice.maybe(85, name), "protocol": "TCP" })
    });
    let endpoints = dice.list(5, |dice, index| {
        let count = 1 + dice.below(2);
        let addresses: Vec<String> = (0..count)
            .map(|second| match family {
                "IPv4" => format!("10.3.{index}.{}", second + 1),
                "IPv6" => format!("fd00::{}", index * 2 + second + 1),
                _ => format!("host-{index}-{second}.example.com"),
            })
            .collect();
        let ready = dice.chance(50);
        json!({ "addresses": addresses, "conditions": { "ready": dice.maybe(70, ready) } })
    });
    Draft::new(json!({ "addressType": family, "ports": ports, "endpoints": endpoints }))
}

fn ingress(dice: &mut Dice) -> Draft {
    let backend = json!({ "service": { "name": "x", "port": { "number": 80 } } });
    let rules = dice.list(6, |dice, index| {
        let host = format!("{}-{index}.example.com", dice.word());
        let paths = json!([{ "path": "/", "pathType": "Prefix", "backend": backend }]);
        json!({ "host": dice.maybe(75, host), "http": { "paths": paths } })
    });
    let tls = dice.maybe(40, json!([{ "hosts": ["a.example.com"], "secretName": "s" }]));
    let class = dice.pick(&["nginx", "other"]);
    let spec =
        json!({ "rules": rules, "defaultBackend": backend, "tls": tls, "ingressClassName": dice.maybe(60, class) });
    let draft = Draft::new(json!({ "spec": spec }));
    if dice.chance(70) { draft.status(json!({ "loadBalancer": { "ingress": balancers(dice) } })) } else { draft }
}

fn class(dice: &mut Dice) -> Draft {
    let group = dice.pick(&["example.com", "k8s.example.com"]);
    let parameters =
        json!({ "kind": "Settings", "name": dice.word(), "apiGroup": dice.maybe(60, group), "scope": "Cluster" });
    let mark = dice.pick(&["true", "false"]);
    let annotations = json!({ "ingressclass.kubernetes.io/is-default-class": dice.maybe(50, mark) });
    let annotations =
        if annotations["ingressclass.kubernetes.io/is-default-class"].is_null() { json!({}) } else { annotations };
    Draft::new(json!({
        "metadata": { "annotations": annotations },
        "spec": { "controller": format!("example.com/{}", dice.word()), "parameters": dice.maybe(60, parameters) },
    }))
}

fn policy(dice: &mut Dice) -> Draft {
    let selector = if dice.chance(25) { json!({}) } else { dice.selector() };
    Draft::new(json!({ "spec": { "podSelector": selector, "policyTypes": ["Ingress"] } }))
}
