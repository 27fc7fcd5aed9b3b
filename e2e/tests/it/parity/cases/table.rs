//! Table: columns of every type, values that are missing or of another type, includeObject, single objects, errors.

use super::super::case::{Case, exact, get};

const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

pub(crate) fn cases() -> Vec<Case> {
    let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    vec![
        get("table/list", "/apis/shop.example.com/v1/shirts").accept(TABLE),
        get("table/list as kubectl asks", "/apis/shop.example.com/v1/namespaces/a/shirts?limit=500").accept(kubectl),
        get("table/v1beta1 alone", "/apis/shop.example.com/v1/namespaces/a/shirts")
            .accept("application/json;as=Table;v=v1beta1;g=meta.k8s.io"),
        get("table/selected", "/apis/shop.example.com/v1/shirts?fieldSelector=spec.color%3Dblue").accept(TABLE),
        get("table/page", "/apis/shop.example.com/v1/shirts?limit=3").accept(TABLE),
        get("table/selected page", "/apis/shop.example.com/v1/shirts?limit=1&labelSelector=app%3Dshop").accept(TABLE),
        get("table/empty", "/apis/shop.example.com/v1/namespaces/nowhere/shirts").accept(TABLE),
        get("table/no columns in the definition", "/apis/shop.example.com/v1beta1/shirts").accept(TABLE),
        get("table/cluster-scoped", "/apis/shop.example.com/v1/banners").accept(TABLE),
        exact("table/single", "/apis/shop.example.com/v1/namespaces/a/shirts/x").accept(TABLE),
        exact("table/single, whole object", "/apis/shop.example.com/v1/namespaces/a/shirts/x?includeObject=Object")
            .accept(TABLE),
        exact("table/absent", "/apis/shop.example.com/v1/namespaces/a/shirts/no").accept(kubectl),
        exact("table/absent, only tables accepted", "/apis/shop.example.com/v1/namespaces/a/shirts/no").accept(TABLE),
        get("table/includeObject=Object", "/apis/shop.example.com/v1/shirts?includeObject=Object").accept(TABLE),
        get("table/includeObject=Metadata", "/apis/shop.example.com/v1/shirts?includeObject=Metadata").accept(TABLE),
        get("table/includeObject=None", "/apis/shop.example.com/v1/shirts?includeObject=None").accept(TABLE),
        get("table/includeObject empty", "/apis/shop.example.com/v1/namespaces/a/shirts?includeObject=").accept(TABLE),
        get("table/includeObject unknown", "/apis/shop.example.com/v1/shirts?includeObject=Bogus").accept(kubectl),
        get("table/includeObject without a table", "/apis/shop.example.com/v1/namespaces/a/shirts?includeObject=Bogus"),
        get("table/error as kubectl asks", "/apis/shop.example.com/v1/shirts?fieldSelector=spec.nope%3Dx")
            .accept(kubectl),
        get("table/from version 0", "/apis/shop.example.com/v1/shirts?resourceVersion=0").accept(TABLE),
        exact("table/history", "/apis/shop.example.com/v1/shirts?resourceVersion={middle}&resourceVersionMatch=Exact")
            .accept(TABLE),
        get("table/as yaml", "/apis/shop.example.com/v1/banners")
            .accept("application/yaml;as=Table;g=meta.k8s.io;v=v1"),
        get("table/unknown version of it", "/apis/shop.example.com/v1/banners")
            .accept("application/json;as=Table;g=meta.k8s.io;v=v9"),
        get("table/unknown group of it", "/apis/shop.example.com/v1/banners")
            .accept("application/json;as=Table;g=example.com;v=v1"),
        get("table/unknown version, json accepted", "/apis/shop.example.com/v1/banners")
            .accept("application/json;as=Table;g=meta.k8s.io;v=v9,application/json"),
        get("table/built-in pods", "/api/v1/pods").accept(TABLE),
        get("table/built-in pods as kubectl asks", "/api/v1/namespaces/work/pods?limit=500").accept(kubectl),
        get("table/built-in page", "/api/v1/namespaces/work/pods?limit=2").accept(TABLE),
        get("table/built-in selected", "/api/v1/pods?fieldSelector=status.phase%3DSucceeded").accept(TABLE),
        get("table/built-in whole objects", "/api/v1/namespaces/work/pods?includeObject=Object").accept(TABLE),
        get("table/built-in no objects", "/api/v1/namespaces/work/pods?includeObject=None").accept(TABLE),
        get("table/built-in v1beta1", "/api/v1/namespaces/work/pods")
            .accept("application/json;as=Table;v=v1beta1;g=meta.k8s.io"),
        get("table/built-in as yaml", "/api/v1/namespaces/work/services")
            .accept("application/yaml;as=Table;g=meta.k8s.io;v=v1"),
        get("table/built-in empty", "/api/v1/namespaces/nowhere/pods").accept(TABLE),
        exact("table/built-in single", "/api/v1/namespaces/work/pods/web-2").accept(TABLE),
        exact("table/built-in single status", "/api/v1/namespaces/work/pods/web-2/status").accept(TABLE),
        exact("table/built-in single as kubectl asks", "/api/v1/nodes/node-2").accept(kubectl),
        get("table/built-in events", "/api/v1/namespaces/work/events").accept(TABLE),
        get("table/built-in new events", "/apis/events.k8s.io/v1/namespaces/work/events").accept(TABLE),
        get("table/built-in jobs", "/apis/batch/v1/jobs").accept(TABLE),
        get("table/built-in volumes", "/api/v1/persistentvolumes").accept(TABLE),
        get("table/built-in definitions", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions").accept(TABLE),
        get("table/built-in, sorted page", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas?limit=4").accept(TABLE),
        get("table/built-in, empty, no printer", "/api/v1/limitranges").accept(TABLE),
    ]
}
