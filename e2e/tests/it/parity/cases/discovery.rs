//! Discovery in both forms, the version, health, and what is nowhere.

use http::Method;

use super::super::case::{Case, Reading, get};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

pub fn cases() -> Vec<Case> {
    let both = "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io,application/json";
    vec![
        get("discovery/api", "/api"),
        get("discovery/apis", "/apis"),
        get("discovery/group", "/apis/shop.example.com"),
        get("discovery/built-in group", "/apis/batch"),
        get("discovery/group version", "/apis/shop.example.com/v1"),
        get("discovery/other group version", "/apis/shop.example.com/v1beta1"),
        get("discovery/core", "/api/v1"),
        get("discovery/built-in group version", "/apis/batch/v1"),
        get("discovery/aggregated api", "/api").accept(AGGREGATED),
        get("discovery/aggregated apis", "/apis").accept(AGGREGATED),
        get("discovery/aggregated, parameters in another order", "/apis").accept(both),
        get("discovery/aggregated, not changed", "/apis").accept(AGGREGATED).reading(Reading::SecondTime),
        get("discovery/aggregated api, not changed", "/api").accept(AGGREGATED).reading(Reading::SecondTime),
        get("discovery/v2beta1 alone", "/apis")
            .accept("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"),
        get("discovery/api as html", "/api").accept("text/html"),
        get("discovery/group version as html", "/apis/shop.example.com/v1").accept("text/html"),
        get("discovery/group version as yaml", "/apis/shop.example.com").accept("application/yaml"),
        get("discovery/unknown group", "/apis/nowhere.example.com"),
        get("discovery/unknown version", "/apis/shop.example.com/v7"),
        get("discovery/unknown version of core", "/api/v7"),
        get("discovery/unknown resource", "/apis/shop.example.com/v1/socks"),
        get("discovery/unknown resource of core", "/api/v1/socks"),
        get("discovery/unknown resource of a built-in group", "/apis/batch/v1/socks"),
        get("discovery/resource of an unknown group", "/apis/nowhere.example.com/v1/shirts"),
        get("discovery/unknown path", "/nowhere"),
        get("discovery/trailing slash", "/apis/shop.example.com/v1/"),
        get("discovery/head", "/apis/shop.example.com/v1").method(Method::HEAD),
        get("discovery/version", "/version"),
        get("discovery/healthz", "/healthz"),
        get("discovery/livez", "/livez"),
        get("discovery/readyz", "/readyz"),
        get("discovery/readyz ping", "/readyz/ping"),
        get("discovery/readyz unknown check", "/readyz/nowhere"),
    ]
}
