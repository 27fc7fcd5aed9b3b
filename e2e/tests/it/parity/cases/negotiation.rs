//! Media types, PartialObjectMetadata, pretty printing, YAML, compression.

use super::super::case::{Case, exact, get};

const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const PARTIALS: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

pub fn cases() -> Vec<Case> {
    let shirts = "/apis/shop.example.com/v1/namespaces/a/shirts";
    let one = "/apis/shop.example.com/v1/namespaces/a/shirts/x";
    let big = "/api/v1/namespaces/big/configmaps";
    let half = "/api/v1/namespaces/big/configmaps?labelSelector=half%3Done";
    vec![
        get("partial/list", shirts).accept(PARTIALS),
        get("partial/selected by a field", "/apis/shop.example.com/v1/shirts?fieldSelector=spec.color%3Dblue").accept(PARTIALS),
        get("partial/page", "/apis/shop.example.com/v1/shirts?limit=2").accept(PARTIALS),
        get("partial/empty", "/apis/shop.example.com/v1/namespaces/nowhere/shirts").accept(PARTIALS),
        get("partial/built-in list", "/api/v1/namespaces/work/pods").accept(PARTIALS),
        get("partial/cluster-scoped list", "/apis/shop.example.com/v1/banners").accept(PARTIALS),
        exact("partial/single", one).accept(PARTIAL),
        exact("partial/built-in single", "/api/v1/namespaces/work/pods/web").accept(PARTIAL),
        exact("partial/absent", "/apis/shop.example.com/v1/namespaces/a/shirts/no")
            .accept("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"),
        get("partial/list with the form of one", shirts).accept(PARTIAL),
        exact("partial/single with the form of lists", one).accept(PARTIALS),
        get("partial/built-in list with the form of one", "/api/v1/namespaces/work/pods").accept(PARTIAL),
        get("partial/v1beta1", shirts).accept("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1"),
        get("partial/as the metadata client asks", shirts).accept(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
        ),
        get("media/none", shirts),
        get("media/anything", shirts).accept("*/*"),
        get("media/any application", shirts).accept("application/*"),
        get("media/empty", shirts).accept(""),
        get("media/html", shirts).accept("text/html"),
        get("media/html, built-in", "/api/v1/namespaces/work/pods").accept("text/html"),
        get("media/text of any kind", shirts).accept("text/*"),
        get("media/image, else json", shirts).accept("image/png, application/json"),
        get("media/quality", shirts).accept("text/html;q=1.0, application/json;q=0.1"),
        get("media/quality prefers yaml", one).accept("application/json;q=0.5, application/yaml;q=0.9"),
        get("media/charset", shirts).accept("application/json;charset=utf-8"),
        get("media/unknown parameter", shirts).accept("application/json;colour=red"),
        get("media/upper case", shirts).accept("Application/JSON"),
        get("media/protobuf of a custom resource", shirts).accept("application/vnd.kubernetes.protobuf"),
        get("media/protobuf of a custom resource, else anything", shirts).accept("application/vnd.kubernetes.protobuf, */*"),
        get("media/protobuf of a built-in", "/api/v1/namespaces/work/configmaps").accept("application/vnd.kubernetes.protobuf"),
        get("media/protobuf of a built-in, else json", "/api/v1/namespaces/work/configmaps")
            .accept("application/vnd.kubernetes.protobuf,application/json"),
        get("media/cbor", shirts).accept("application/cbor"),
        get("media/cbor, else json", shirts).accept("application/cbor,application/json"),
        get("media/stream of a list", shirts).accept("application/json;stream=watch"),
        get("media/unknown stream", shirts).accept("application/json;stream=river"),
        get("media/dynamic client", shirts).accept("application/json"),
        exact("media/single html", one).accept("text/html"),
        exact("media/absent and html", "/apis/shop.example.com/v1/namespaces/a/shirts/no").accept("text/html"),
        exact("yaml/single", one).accept("application/yaml"),
        exact("yaml/every character", "/apis/shop.example.com/v1/namespaces/ab/shirts/x").accept("application/yaml"),
        exact("yaml/escaped value", "/apis/shop.example.com/v1/namespaces/a-b/shirts/x-y").accept("application/yaml"),
        exact("yaml/built-in", "/api/v1/namespaces/work/pods/web").accept("application/yaml"),
        get("yaml/list", "/apis/shop.example.com/v1/banners").accept("application/yaml"),
        exact("yaml/absent", "/apis/shop.example.com/v1/namespaces/a/shirts/no").accept("application/yaml"),
        get("pretty/parameter", "/apis/shop.example.com/v1/namespaces/a/shirts?pretty=true"),
        get("pretty/parameter 1", "/apis/shop.example.com/v1/namespaces/a/shirts?pretty=1"),
        get("pretty/empty parameter", "/apis/shop.example.com/v1/namespaces/a/shirts?pretty="),
        get("pretty/agent curl", shirts).header("user-agent", "curl/8.9.1"),
        get("pretty/agent browser", shirts).header("user-agent", "Mozilla/5.0 (X11; Linux x86_64)"),
        get("pretty/agent curl, refused by the parameter", "/apis/shop.example.com/v1/namespaces/a/shirts?pretty=false")
            .header("user-agent", "curl/8.9.1"),
        exact("pretty/error", "/apis/shop.example.com/v1/namespaces/a/shirts/no?pretty=true"),
        get("gzip/large", big).header("accept-encoding", "gzip"),
        get("gzip/large, not asked for", big),
        get("gzip/large, with a quality", big).header("accept-encoding", "gzip;q=1.0"),
        get("gzip/large, among others", big).header("accept-encoding", "br, gzip"),
        get("gzip/large, others only", big).header("accept-encoding", "br, deflate"),
        get("gzip/large, anything", big).header("accept-encoding", "*"),
        get("gzip/below the threshold", half).header("accept-encoding", "gzip"),
        get("gzip/small", shirts).header("accept-encoding", "gzip"),
        get("gzip/large yaml", big).header("accept-encoding", "gzip").accept("application/yaml"),
        get("gzip/large metadata", big).header("accept-encoding", "gzip").accept(PARTIALS),
        get("gzip/large error", "/api/v1/namespaces/big/configmaps?fieldSelector=data.x%3Dy").header("accept-encoding", "gzip"),
    ]
}
