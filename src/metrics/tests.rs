//! What a scrape reads, as text: the golden files are the formats as a scraper meets them.
//!
//! `UPDATE_GOLDEN=1` rewrites them.

#![expect(clippy::disallowed_methods, reason = "golden files")]

mod dashboard;
mod scrapers;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, header};
use http_body_util::BodyExt;
use prometheus_client::collector::Collector;
use serde_json::json;

use super::certificate::CertificateCollector;
use super::conditions::ConditionsCollector;
use super::format::ExpositionFormat;
use super::process::ProcessStats;
use super::{Metrics, Scrapers, format};
use crate::access::self_signed;
use crate::crd::Crd;
use crate::extract::Extractor;
use crate::flow_control::Limits;
use crate::flow_control::limit::LimitSettings;
use crate::model::{Gvr, Key, Scope, Version};
use crate::operator::reported::{MOST_OBJECTS, ReportedConditions, ReportedKind};
use crate::operator::status::{ConditionStatus, Finding};
use crate::query::AccessPath;
use crate::registry::{
    Catalog, CheckOutcome, LoadState, Registry, Resource, ResourceOrigin, UnreadableNames, VersionInfo,
};
use crate::server::guards::Guard;
use crate::server::request_metrics::{AnswerPath, RequestMetrics, RequestOutcome, Verb};
use crate::store::{HistoryLimits, Store};
use crate::transport::tls;
use crate::transport::tls::Tls;

fn resource(plural: &str) -> Resource {
    let crd = Crd::read(&json!({
        "metadata": {"name": format!("{plural}.stable.example.com")},
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": "Shirt"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "color": {"type": "string"}, "size": {"type": "integer"}}}}}},
                "selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}],
            }],
        },
    }))
    .unwrap();
    Resource {
        gvr: crd.gvr("v1"),
        kind: "Shirt".to_owned(),
        list_kind: "ShirtList".to_owned(),
        singular: String::new(),
        scope: Scope::Namespaced,
        short_names: Arc::new([]),
        categories: Arc::new([]),
        subresources: Arc::new([]),
        storage_version_hash: String::new(),
        origin: ResourceOrigin::Custom,
        printer_columns: Arc::new([]),
        deprecation_warning: None,
        definition: String::new(),
        extractor: Extractor::custom_resource(&crd, "v1"),
        state: Arc::default(),
        partial_store: None,
        view_restriction: None,
        dropped: Default::default(),
    }
}

/// Three shirts of two colors and two sizes, one of them changed once.
fn store(resource: &Resource) -> Store {
    let shirt = |name: &str, version: u64, color: &str, size: u64| {
        let text = format!(
            "{{\"metadata\":{{\"labels\":{{\"app\":\"secret-{name}\",\"tier\":\"web\"}},\"name\":\"{name}\",\"namespace\":\
             \"a\",\"resourceVersion\":\"{version}\"}},\"spec\":{{\"color\":\"{color}\",\"size\":{size}}}}}"
        );
        resource.extractor.extract(Bytes::from(text)).unwrap()
    };
    let mut store = Store::new(HistoryLimits::default());
    let records = vec![shirt("x", 1, "blue", 7), shirt("y", 2, "blue", 8), shirt("z", 3, "red", 8)];
    store.replace(&records, Version::new(3));
    store.apply(&shirt("x", 4, "green", 7));
    store
}

/// Shirts are loaded, hats are not; some requests have been answered.
fn metrics(guard: Option<Guard>) -> (Metrics, Arc<Resource>, Arc<Resource>) {
    metrics_with(Scrapers::Anonymous(guard))
}

/// The same, for these.
fn metrics_with(scrapers: Scrapers) -> (Metrics, Arc<Resource>, Arc<Resource>) {
    let shirts = Arc::new(resource("shirts"));
    shirts.state.publish(LoadState::Ready(store(&shirts).snapshot()));
    shirts.state.count_relist();
    let names = ["a/broken", "a/worse"].map(str::to_owned).into();
    shirts.state.publish_unreadable(UnreadableNames { names, are_all: true });
    for outcome in [CheckOutcome::Ok, CheckOutcome::Ok, CheckOutcome::Mismatch, CheckOutcome::Failed] {
        shirts.state.checks().count(outcome);
    }
    let hats = Arc::new(resource("hats"));
    hats.state.publish(LoadState::Loading("reading".to_owned()));
    let catalog = Catalog::new(Vec::new(), [shirts.clone(), hats.clone()], VersionInfo::default());
    let tally = Arc::new(RequestMetrics::default());
    let list = RequestOutcome {
        verb: Verb::List,
        code: 200,
        path: Some(AnswerPath::Own(AccessPath::Index)),
        has_field_selector: true,
        has_label_selector: false,
    };
    for took in [80, 90, 1_500] {
        tally.count(Some(&shirts.gvr), list, Duration::from_micros(took));
    }
    let refused = RequestOutcome { code: 400, path: None, ..list };
    tally.count(Some(&shirts.gvr), refused, Duration::from_micros(40));
    let watch = RequestOutcome {
        verb: Verb::Watch,
        path: Some(AnswerPath::Own(AccessPath::Scan)),
        has_field_selector: false,
        ..list
    };
    tally.count(Some(&Gvr::new("", "v1", "pods")), watch, Duration::from_secs(2_000));
    let other = RequestOutcome { verb: Verb::Get, code: 404, path: None, ..list };
    tally.count(None, RequestOutcome { has_field_selector: false, ..other }, Duration::from_millis(2));
    let limits = Arc::new(Limits::new(LimitSettings { seats: 32, ..LimitSettings::default() }));
    let others = if matches!(scrapers, Scrapers::Authorized { .. }) { of_operator() } else { Vec::new() };
    (Metrics::new(Arc::new(Registry::new(catalog)), tally, limits, scrapers, others), shirts, hats)
}

/// When the certificate was made, in seconds since 1970, and when it expires.
const MADE_AT: u64 = 1_800_000_000;
const EXPIRES_AT: u64 = MADE_AT + 90 * 86_400;

/// What an operator that leads shows besides.
fn of_operator() -> Vec<Box<dyn Collector>> {
    let certificate = self_signed::renew(MADE_AT, None, &["localhost".to_owned()]).unwrap();
    let (tls, _) =
        Tls::in_memory(&certificate.serving.certificate, &certificate.serving.key, tls::no_client_certificates())
            .unwrap();
    let reported = Arc::new(ReportedConditions::default());
    reported.set_leads(true);
    let finding = |kind, holds| Finding::new(kind, holds, "Reason", "message");
    reported.set(ReportedKind::FieldCache, "pods", &[finding("Ready", ConditionStatus::True)]);
    reported.set(
        ReportedKind::View,
        "own-node",
        &[finding("Accepted", ConditionStatus::True), finding("Ready", ConditionStatus::False)],
    );
    vec![Box::new(CertificateCollector::new(tls)), Box::new(ConditionsCollector::new(reported))]
}

/// Without the lines of this very process, and with the estimated sizes left open.
fn lasting(text: &str) -> String {
    let is_estimate = |line: &str| {
        ["held", "order", "history", "index"]
            .iter()
            .any(|part| line.starts_with(&format!("fieldcache_store_{part}_bytes{{")))
    };
    let lines = text.lines().filter(|line| !line.contains("process_")).map(|line| match line.rsplit_once(' ') {
        Some((series, size)) if is_estimate(line) => {
            assert!(size.parse::<u64>().is_ok_and(|size| size > 0), "{line}");
            format!("{series} SIZE\n")
        }
        _ => format!("{line}\n"),
    });
    lines.collect::<String>().replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

#[test]
fn a_scrape_reads_as_written() {
    let (metrics, shirts, _) = metrics(None);
    let _open = shirts.state.open_watch();
    for (format, name) in [(ExpositionFormat::Plain, "plain.txt"), (ExpositionFormat::OpenMetrics, "openmetrics.txt")] {
        let text = lasting(&metrics.text(format));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/metrics/testdata").join(name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, expected, "{name}; if this is meant, run with UPDATE_GOLDEN=1");
    }
}

#[test]
fn no_label_carries_what_users_wrote() {
    let (metrics, _, _) = metrics(None);
    let text = metrics.text(ExpositionFormat::Plain);
    for word in ["secret", "blue", "tier", "\"a\"", "\"x\""] {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

#[test]
fn what_is_not_loaded_or_gone_has_no_series() {
    let (metrics, shirts, hats) = metrics(None);
    assert!(!metrics.text(ExpositionFormat::Plain).contains("hats"), "it is still loading");
    hats.state.count_panic();
    let panicked = "fieldcache_feed_panics_total{group=\"stable.example.com\",version=\"v1\",resource=\"hats\"} 1";
    let text = metrics.text(ExpositionFormat::Plain);
    assert!(text.contains(panicked), "what keeps it from loading is shown: {text}");
    shirts.state.end(crate::registry::GoneReason::NotServed);
    let text = metrics.text(ExpositionFormat::Plain);
    assert!(!text.lines().any(|line| line.starts_with("fieldcache_store_") && line.contains("shirts")), "{text}");
    assert!(text.contains("fieldcache_request_total{verb=\"LIST\""), "what was answered stays counted: {text}");
}

#[test]
fn a_field_that_no_object_has_keeps_its_series() {
    let (metrics, shirts, _) = metrics(None);
    shirts.state.publish(LoadState::Ready(Store::new(HistoryLimits::default()).snapshot()));
    let text = metrics.text(ExpositionFormat::Plain);
    let labels = "group=\"stable.example.com\",version=\"v1\",resource=\"shirts\"";
    for (index, field) in [("field", "spec.color"), ("field", "spec.size"), ("label", ""), ("namespace", "")] {
        for figure in ["values", "bytes"] {
            let series = format!("fieldcache_store_index_{figure}{{{labels},index=\"{index}\",field=\"{field}\"}}");
            assert!(text.contains(&format!("{series} 0\n")), "{series}: {text}");
        }
    }
}

#[test]
fn the_conditions_of_a_leader_and_its_certificate_are_shown() {
    let families = |others: Vec<Box<dyn Collector>>| {
        let mut families = prometheus_client::registry::Registry::default();
        others.into_iter().for_each(|other| families.register_collector(other));
        format::encode(&families, ExpositionFormat::Plain)
    };
    let text = families(of_operator());
    let expires = format!("fieldcache_certificate_expiration_timestamp_seconds {EXPIRES_AT}");
    for line in [
        &*expires,
        "fieldcache_leader 1",
        "fieldcache_fieldcache_condition{name=\"pods\",condition=\"Ready\",status=\"True\"} 1",
        "fieldcache_fieldcache_condition{name=\"pods\",condition=\"Ready\",status=\"False\"} 0",
        "fieldcache_fieldcache_condition{name=\"pods\",condition=\"Ready\",status=\"Unknown\"} 0",
        "fieldcache_view_condition{name=\"own-node\",condition=\"Accepted\",status=\"True\"} 1",
        "fieldcache_view_condition{name=\"own-node\",condition=\"Ready\",status=\"True\"} 0",
        "fieldcache_view_condition{name=\"own-node\",condition=\"Ready\",status=\"False\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }

    let reported = Arc::new(ReportedConditions::default());
    let shown = || families(vec![Box::new(ConditionsCollector::new(reported.clone()))]);
    assert!(shown().contains("fieldcache_leader 0\n") && !shown().contains("status="), "{}", shown());
    let ready = [Finding::new("Ready", ConditionStatus::True, "Ready", "")];
    reported.set_leads(true);
    for number in 0..=MOST_OBJECTS {
        reported.set(ReportedKind::View, &format!("view-{number}"), &ready);
    }
    reported.set(ReportedKind::FieldCache, "pods", &ready);
    assert_eq!(reported.conditions(ReportedKind::View).len(), MOST_OBJECTS, "no more than there may be");
    reported.retain(ReportedKind::View, |name| name == "view-7");
    assert!(shown().contains("view-7") && shown().contains("pods") && !shown().contains("view-8"), "{}", shown());
    reported.set_leads(false);
    assert!(!shown().contains("status="), "another replica shows them: {}", shown());
}

#[test]
fn the_usage_of_a_store_is_what_is_in_it() {
    let resource = resource("shirts");
    let mut store = store(&resource);
    let usage = store.snapshot().usage();
    let snapshot = store.snapshot();
    let json: u64 = ["a/x", "a/y", "a/z"].map(|key| snapshot.get(key).unwrap().length() as u64).iter().sum();
    // What the green shirt was as a blue one is as long as the blue one that is still there.
    let before = snapshot.get("a/y").unwrap().held_bytes() as u64;
    assert_eq!((usage.objects, usage.json_bytes), (3, json));
    assert_eq!(usage.history_changes, 1, "{usage:?}");
    assert!((before..before + 100).contains(&usage.history_bytes), "the state before and the change: {usage:?}");
    assert!(usage.held_bytes > 0 && usage.order_bytes > 0, "{usage:?}");
    let values: BTreeMap<String, u64> =
        usage.attributes.iter().map(|index| (format!("{:?}", index.attribute), index.values)).collect();
    let expected = [("Field(FieldIndex(0))", 3), ("Field(FieldIndex(1))", 2), ("Labels", 4), ("Namespace", 1)];
    assert_eq!(values, expected.map(|(name, values)| (name.to_owned(), values)).into());
    for index in &usage.attributes {
        assert!(index.bytes > 0, "{index:?}");
    }

    for name in ["x", "y", "z"] {
        store.delete(&Key::new("a", name), Version::new(9));
    }
    let empty = store.snapshot().usage();
    assert_eq!((empty.objects, empty.json_bytes, empty.history_changes), (0, 0, 4));
    assert_eq!(empty.attributes, [], "an index without values is gone");
}

#[test]
fn the_plain_format_is_made_of_the_open_one() {
    let open = "# HELP a_requests Some # text.\n# TYPE a_requests counter\n# UNIT a_requests none\na_requests_total 1\n\
                # HELP b Help of b.\n# TYPE b gauge\nb{x=\"# TYPE c counter\"} 2\n# EOF\n";
    let plain = "# HELP a_requests_total Some # text.\n# TYPE a_requests_total counter\na_requests_total 1\n\
                 # HELP b Help of b.\n# TYPE b gauge\nb{x=\"# TYPE c counter\"} 2\n";
    assert_eq!(format::plain(open), plain);
}

#[test]
fn openmetrics_is_returned_when_accept_names_it() {
    // What Prometheus 3 sends.
    let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;\
        version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,*/*;q=0.2";
    for (accept, expected) in [
        (None, ExpositionFormat::Plain),
        (Some("*/*"), ExpositionFormat::Plain),
        (Some("text/plain;version=0.0.4"), ExpositionFormat::Plain),
        (Some(prometheus), ExpositionFormat::OpenMetrics),
        (Some("text/html, Application/OpenMetrics-Text"), ExpositionFormat::OpenMetrics),
        (Some("application/openmetrics-text;q=0, text/plain"), ExpositionFormat::Plain),
        (Some("application/openmetrics-text; q=0.000"), ExpositionFormat::Plain),
        (Some("application/openmetrics-textual"), ExpositionFormat::Plain),
    ] {
        let mut headers = HeaderMap::new();
        if let Some(accept) = accept {
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        }
        assert_eq!(ExpositionFormat::negotiate(&headers), expected, "{accept:?}");
    }
}

#[test]
fn figures_of_the_process_are_read_where_proc_has_them() {
    let stat = "4242 (a ) b) S 1 2 3 0 -1 4194304 900 0 5 0 250 50 7 8 20 0 9 0 12345 99999 2222 18446744073709551615";
    let status = "Name:\ta\nVmPeak:\t   9 kB\nVmRSS:\t    8888 kB\nThreads:\t9\n";
    let system = "cpu  1 2 3\nbtime 1700000000\nprocesses 5\n";
    let whole = ProcessStats {
        cpu_seconds: Some(3.0),
        start_seconds: Some(1_700_000_123.45),
        resident_bytes: Some(8888 * 1024),
        open_files: None,
    };
    for (texts, expected, why) in [
        ([stat, status, system], whole, "all there, with a name that looks like two fields"),
        ([stat, status, ""], ProcessStats { start_seconds: None, ..whole }, "no time of boot"),
        ([stat, "", system], ProcessStats { resident_bytes: None, ..whole }, "no status"),
        (["", status, system], ProcessStats { cpu_seconds: None, start_seconds: None, ..whole }, "no stat"),
        (["1 (a) S 1 2", "VmRSS: much kB", "btime long ago"], ProcessStats::default(), "nothing as expected"),
        (["", "", ""], ProcessStats::default(), "not Linux"),
    ] {
        assert_eq!(ProcessStats::read(texts[0], texts[1], texts[2]), expected, "{why}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn this_process_has_figures() {
    let file = std::fs::File::open("/proc/self/stat").unwrap();
    let figures = ProcessStats::now();
    drop(file);
    assert!(figures.cpu_seconds.is_some_and(|seconds| seconds >= 0.0), "{figures:?}");
    assert!(figures.resident_bytes.is_some_and(|bytes| bytes > 1 << 20), "{figures:?}");
    assert!(figures.open_files.is_some_and(|files| files >= 4), "three standard streams and one file: {figures:?}");
    let now = jiff::Timestamp::now().as_second() as f64;
    assert!(
        figures.start_seconds.is_some_and(|start| start > now - 604_800.0 && start < now + 2.0),
        "{figures:?} at {now}"
    );
}

#[tokio::test]
async fn only_metrics_are_there_and_only_to_be_read() {
    let (metrics, _, _) = metrics(Some(Guard::default()));
    let open = [("accept", "application/openmetrics-text; version=1.0.0")];
    let text = "text/plain; charset=utf-8";
    let plain = "text/plain; version=0.0.4; charset=utf-8";
    for (method, path, headers, code, media_type, begins) in [
        ("GET", "/metrics", &[][..], 200, plain, "# HELP fieldcache_build_info "),
        ("GET", "/metrics?x=y", &[], 200, plain, "# HELP "),
        ("HEAD", "/metrics", &[], 200, plain, ""),
        ("GET", "/metrics", &open, 200, "application/openmetrics-text; version=1.0.0; charset=utf-8", "# HELP "),
        ("POST", "/metrics", &[], 405, text, "only GET and HEAD are allowed"),
        ("GET", "/", &[], 404, text, "only /metrics is served here"),
        ("GET", "/metrics/", &[], 404, text, "only /metrics is served here"),
        ("GET", "/api/v1/pods", &[], 404, text, "only /metrics is served here"),
        ("GET", "/metrics", &[("origin", "http://evil.example")], 403, "application/json", "{\"kind\":\"Status\""),
    ] {
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path);
        for (name, value) in headers.iter().chain(&[("host", "127.0.0.1:9090")]) {
            request = request.header(*name, *value);
        }
        let (parts, body) = metrics.answer(request.body(()).unwrap()).await.into_parts();
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let what = format!("{method} {path} {headers:?}");
        assert_eq!(
            (parts.status.as_u16(), parts.headers[header::CONTENT_TYPE].to_str().unwrap()),
            (code, media_type),
            "{what}"
        );
        assert!(body.starts_with(begins), "{what}: {body}");
        let length: usize = parts.headers[header::CONTENT_LENGTH].to_str().unwrap().parse().unwrap();
        if method == "HEAD" {
            assert!(body.is_empty() && length > 1_000, "{what}: {length}");
        } else {
            assert_eq!(length, body.len(), "{what}");
        }
        assert_eq!(parts.headers.contains_key(header::ALLOW), code == 405, "{what}");
    }
}
