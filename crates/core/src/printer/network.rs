//! Printers (table rows of `kubectl get`) of services and their endpoints, and of networking.k8s.io.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::json;

use crate::json::Json;

use super::column::{AGE, NAME, string};
use super::kind::{PrintedRow, Printer};
use super::read::{integer, is_empty, is_set, items, name, pointer_or, text, text_or, texts};
use super::text::{at_most_three, labels, lower, or_none, selector};
use super::time::{Moment, age};

fn services(object: Json<'_>, now: Moment) -> PrintedRow {
    let spec = object.at("spec");
    // An object of a folder may have the older field clusterIP only.
    let internal = items(spec.at("clusterIPs")).next().unwrap_or(spec.at("clusterIP"));
    let internal = text_or(internal, "<none>");
    let ports = items(spec.at("ports")).map(|port| {
        let (number, protocol) = (integer(port.at("port")), text(port.at("protocol")));
        match integer(port.at("nodePort")) {
            1.. => format!("{number}:{}/{protocol}", integer(port.at("nodePort"))),
            _ => format!("{number}/{protocol}"),
        }
    });
    PrintedRow::new(vec![
        name(object),
        json!(text(spec.at("type"))),
        json!(internal),
        json!(external_addresses(object)),
        json!(or_none(ports.collect::<Vec<_>>().join(","))),
        age(object, now),
        json!(labels(spec.at("selector"))),
    ])
}

/// The external addresses of a Service, by its type: its externalIPs, and those of its load balancers or its external
/// name.
fn external_addresses(object: Json<'_>) -> String {
    let spec = object.at("spec");
    let listed = texts(spec.at("externalIPs"));
    match &*text(spec.at("type")) {
        "ClusterIP" | "NodePort" => or_none(listed.join(",")),
        "LoadBalancer" => {
            let mut addresses: Vec<Cow<'_, str>> = load_balancer_addresses(object).into_iter().collect();
            addresses.extend(listed);
            if addresses.is_empty() { "<pending>".to_owned() } else { addresses.join(",") }
        }
        "ExternalName" => text(spec.at("externalName")).into_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// The addresses of the load balancers in the status: the IP of each, or its host name if it has no IP.
fn load_balancer_addresses(object: Json<'_>) -> BTreeSet<Cow<'_, str>> {
    let ingress = items(object.at("status").at("loadBalancer").at("ingress"));
    ingress
        .filter_map(|point| [text(point.at("ip")), text(point.at("hostname"))].into_iter().find(|one| !one.is_empty()))
        .collect()
}

fn endpoints(object: Json<'_>, now: Moment) -> PrintedRow {
    const SHOWN: usize = 3;
    let mut shown: Vec<String> = Vec::new();
    // The number of pairs of an address and a port. They are counted, not listed, because there may be very many.
    let mut all: usize = 0;
    for subset in items(object.at("subsets")) {
        let addresses = || items(subset.at("addresses")).map(|address| text(address.at("ip")));
        let ports = items(subset.at("ports")).map(|port| Some(integer(port.at("port"))));
        let no_port = is_empty(subset.at("ports")).then_some(None);
        let each = ports.chain(no_port);
        all = all.saturating_add(addresses().count().saturating_mul(each.clone().count()));
        let listed = each.flat_map(|port| {
            addresses().map(move |address| match port {
                None => address.into_owned(),
                Some(port) if address.contains(':') => format!("[{address}]:{port}"),
                Some(port) => format!("{address}:{port}"),
            })
        });
        shown.extend(listed.take(SHOWN - shown.len()));
    }
    let cell = match all.saturating_sub(SHOWN) {
        _ if is_empty(object.at("subsets")) => "<none>".to_owned(),
        0 => shown.join(","),
        more => format!("{} + {more} more...", shown.join(",")),
    };
    PrintedRow::new(vec![name(object), json!(cell), age(object, now)])
}

fn endpoint_slices(object: Json<'_>, now: Moment) -> PrintedRow {
    let ports = items(object.at("ports")).map(|port| match port.at("port").as_i64() {
        Some(number) => number.to_string(),
        None => pointer_or(port.at("name"), "*").into_owned(),
    });
    let addresses = items(object.at("endpoints"))
        .flat_map(|endpoint| items(endpoint.at("addresses")))
        .map(|address| text(address).into_owned());
    PrintedRow::new(vec![
        name(object),
        json!(text(object.at("addressType"))),
        json!(at_most_three(ports)),
        json!(at_most_three(addresses)),
        age(object, now),
    ])
}

fn ingresses(object: Json<'_>, now: Moment) -> PrintedRow {
    let spec = object.at("spec");
    let ports = if is_empty(spec.at("tls")) { "80" } else { "80, 443" };
    let addresses: Vec<Cow<'_, str>> = load_balancer_addresses(object).into_iter().collect();
    PrintedRow::new(vec![
        name(object),
        json!(pointer_or(spec.at("ingressClassName"), "<none>")),
        json!(hosts(spec.at("rules"))),
        json!(addresses.join(",")),
        json!(ports),
        age(object, now),
    ])
}

/// The cell with at most three hosts of the rules, and `*` if no rule has a host. As upstream, the count after `+`
/// includes every rule after three, with or without a host. It is shown if a rule follows the third host.
fn hosts(rules: Json<'_>) -> String {
    const SHOWN: usize = 3;
    let mut listed: Vec<Cow<'_, str>> = Vec::new();
    let mut has_more = false;
    for rule in items(rules) {
        has_more |= listed.len() == SHOWN;
        if !has_more && !text(rule.at("host")).is_empty() {
            listed.push(text(rule.at("host")));
        }
    }
    match (listed.is_empty(), has_more) {
        (true, _) => "*".to_owned(),
        (false, true) => format!("{} + {} more...", listed.join(","), rules.count() - SHOWN),
        (false, false) => listed.join(","),
    }
}

fn ingress_classes(object: Json<'_>, now: Moment) -> PrintedRow {
    let spec = object.at("spec");
    let is_default =
        text(object.at("metadata").at("annotations").at("ingressclass.kubernetes.io/is-default-class")) == "true";
    let shown = format!("{}{}", text(object.at("metadata").at("name")), if is_default { " (default)" } else { "" });
    let parameters = spec.at("parameters");
    let shown_parameters = if is_set(parameters) {
        let group = parameters.at("apiGroup").as_str().map(|group| format!(".{group}")).unwrap_or_default();
        format!("{}{group}/{}", text(parameters.at("kind")), text(parameters.at("name")))
    } else {
        "<none>".to_owned()
    };
    PrintedRow::new(vec![json!(shown), json!(text(spec.at("controller"))), json!(shown_parameters), age(object, now)])
}

fn network_policies(object: Json<'_>, now: Moment) -> PrintedRow {
    PrintedRow::new(vec![name(object), json!(selector(object.at("spec").at("podSelector"))), age(object, now)])
}

fn service_cidrs(object: Json<'_>, now: Moment) -> PrintedRow {
    PrintedRow::new(vec![name(object), json!(texts(object.at("spec").at("cidrs")).join(",")), age(object, now)])
}

fn ip_addresses(object: Json<'_>, now: Moment) -> PrintedRow {
    let parent = object.at("spec").at("parentRef");
    let shown = if is_set(parent) {
        let (group, resource) = (text(parent.at("group")), text(parent.at("resource")));
        let mut shown = lower(&resource);
        if !group.is_empty() {
            shown = format!("{shown}.{}", lower(&group));
        }
        for part in [text(parent.at("namespace"))].into_iter().filter(|namespace| !namespace.is_empty()) {
            shown = format!("{shown}/{part}");
        }
        format!("{shown}/{}", text(parent.at("name")))
    } else {
        "<none>".to_owned()
    };
    // One cell more than there are columns, as upstream.
    PrintedRow::new(vec![name(object), json!(shown), age(object, now)])
}

/// Prints Endpoints.
pub const ENDPOINTS: Printer = Printer {
    columns: &[
        NAME,
        string(
            "Endpoints",
            "The set of all endpoints is the union of all subsets. Addresses are placed into subsets according \
                 to the IPs they share. A single address with multiple ports, some of which are ready and some of \
                 which are not (because they come from different containers) will result in the address being \
                 displayed in different subsets for the different ports. No address will appear in both Addresses \
                 and NotReadyAddresses in the same subset. Sets of addresses and ports that comprise a service.",
        ),
        AGE,
    ],
    print: endpoints,
    order: None,
};

/// Prints Service.
pub const SERVICE: Printer = Printer {
    columns: &[
        NAME,
        string(
            "Type",
            "type determines how the Service is exposed. Defaults to ClusterIP. Valid options are \
                 ExternalName, ClusterIP, NodePort, and LoadBalancer. \"ClusterIP\" allocates a cluster-internal IP \
                 address for load-balancing to endpoints. Endpoints are determined by the selector or if that is \
                 not specified, by manual construction of an Endpoints object or EndpointSlice objects. If \
                 clusterIP is \"None\", no virtual IP is allocated and the endpoints are published as a set of \
                 endpoints rather than a virtual IP. \"NodePort\" builds on ClusterIP and allocates a port on every \
                 node which routes to the same endpoints as the clusterIP. \"LoadBalancer\" builds on NodePort and \
                 creates an external load-balancer (if supported in the current cloud) which routes to the same \
                 endpoints as the clusterIP. \"ExternalName\" aliases this service to the specified externalName. \
                 Several other fields do not apply to ExternalName services. More info: \
                 https://kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-types",
        ),
        string(
            "Cluster-IP",
            "clusterIP is the IP address of the service and is usually assigned randomly. If an address is \
                 specified manually, is in-range (as per system configuration), and is not in use, it will be \
                 allocated to the service; otherwise creation of the service will fail. This field may not be \
                 changed through updates unless the type field is also being changed to ExternalName (which \
                 requires this field to be blank) or the type field is being changed from ExternalName (in which \
                 case this field may optionally be specified, as describe above).  Valid values are \"None\", empty \
                 string (\"\"), or a valid IP address. Setting this to \"None\" makes a \"headless service\" (no \
                 virtual IP), which is useful when direct endpoint connections are preferred and proxying is not \
                 required.  Only applies to types ClusterIP, NodePort, and LoadBalancer. If this field is specified \
                 when creating a Service of type ExternalName, creation will fail. This field will be wiped when \
                 updating a Service to type ExternalName. More info: \
                 https://kubernetes.io/docs/concepts/services-networking/service/#virtual-ips-and-service-proxies",
        ),
        string(
            "External-IP",
            "externalIPs is a list of IP addresses for which nodes in the cluster will also accept traffic for \
                 this service.  These IPs are not managed by Kubernetes.  The user is responsible for ensuring that \
                 traffic arrives at a node with this IP.  A common example is external load-balancers that are not \
                 part of the Kubernetes system.",
        ),
        string(
            "Port(s)",
            "The list of ports that are exposed by this service. More info: \
                 https://kubernetes.io/docs/concepts/services-networking/service/#virtual-ips-and-service-proxies",
        ),
        AGE,
        string(
            "Selector",
            "Route service traffic to pods with label keys and values matching this selector. If empty or not \
                 present, the service is assumed to have an external process managing its endpoints, which \
                 Kubernetes will not modify. Only applies to types ClusterIP, NodePort, and LoadBalancer. Ignored \
                 if type is ExternalName. More info: \
                 https://kubernetes.io/docs/concepts/services-networking/service/",
        )
        .wide(),
    ],
    print: services,
    order: None,
};

/// Prints EndpointSlice.
pub const ENDPOINT_SLICE: Printer = Printer {
    columns: &[
        NAME,
        string(
            "AddressType",
            "addressType specifies the type of address carried by this EndpointSlice. All addresses in this \
                 slice must be the same type. This field is immutable after creation. The following address types \
                 are currently supported: * IPv4: Represents an IPv4 Address. * IPv6: Represents an IPv6 Address. * \
                 FQDN: Represents a Fully Qualified Domain Name. (Deprecated) The EndpointSlice controller only \
                 generates, and kube-proxy only processes, slices of addressType \"IPv4\" and \"IPv6\". No \
                 semantics are defined for the \"FQDN\" type.",
        ),
        string(
            "Ports",
            "ports specifies the list of network ports exposed by each endpoint in this slice. Each port must \
                 have a unique name. Each slice may include a maximum of 100 ports. Services always have at least 1 \
                 port, so EndpointSlices generated by the EndpointSlice controller will likewise always have at \
                 least 1 port. EndpointSlices used for other purposes may have an empty ports list.",
        ),
        string(
            "Endpoints",
            "endpoints is a list of unique endpoints in this slice. Each slice may include a maximum of 1000 \
                 endpoints.",
        ),
        AGE,
    ],
    print: endpoint_slices,
    order: None,
};

/// Prints IngressClass.
pub const INGRESS_CLASS: Printer = Printer {
    columns: &[
        NAME,
        string("Controller", "Controller that is responsible for handling this class"),
        string("Parameters", "A reference to a resource with additional parameters"),
        AGE,
    ],
    print: ingress_classes,
    order: None,
};

/// Prints Ingress.
pub const INGRESS: Printer = Printer {
    columns: &[
        NAME,
        string("Class", "The name of the IngressClass resource that should be used for additional configuration"),
        string("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
        string("Address", "Address is a list containing ingress points for the load-balancer"),
        string("Ports", "Ports of TLS configurations that open"),
        AGE,
    ],
    print: ingresses,
    order: None,
};

/// Prints IPAddress.
pub const IP_ADDRESS: Printer = Printer {
    columns: &[
        NAME,
        string(
            "ParentRef",
            "ParentRef references the resource that an IPAddress is attached to. An IPAddress must reference a \
                 parent object.",
        ),
    ],
    print: ip_addresses,
    order: None,
};

/// Prints NetworkPolicy.
pub const NETWORK_POLICY: Printer = Printer {
    columns: &[
        NAME,
        string(
            "Pod-Selector",
            "podSelector selects the pods to which this NetworkPolicy object applies. The array of rules is \
                 applied to any pods selected by this field. An empty selector matches all pods in the policy's \
                 namespace. Multiple network policies can select the same set of pods. In this case, the ingress \
                 rules for each are combined additively. This field is optional. If it is not specified, it \
                 defaults to an empty selector.",
        ),
        AGE,
    ],
    print: network_policies,
    order: None,
};

/// Prints ServiceCIDR.
pub const SERVICE_CIDR: Printer = Printer {
    columns: &[
        NAME,
        string(
            "CIDRs",
            "CIDRs defines the IP blocks in CIDR notation (e.g. \"192.168.0.0/24\" or \"2001:db8::/64\") from \
                 which to assign service cluster IPs. Max of two CIDRs is allowed, one of each IP family. This \
                 field is immutable.",
        ),
        AGE,
    ],
    print: service_cidrs,
    order: None,
};
