//! Fields of FieldCaches: lists and watches by some value, and what happens when an object has too many.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;

use super::{ALL_SHIRTS, Answer, Fixture, catalog, custom};
use crate::extract::extra::{FieldRequest, TargetResource, accept};
use crate::model::Scope;
use crate::registry::Resource;
use crate::server::Settings;
use crate::store::HistoryLimits;

/// Shirts that can be selected by the images of their steps.
fn fixture() -> Fixture {
    fixture_with(Settings::default())
}

pub(super) fn fixture_with(settings: Settings) -> Fixture {
    let mut fixture = Fixture::with(settings, HistoryLimits::default());
    let base = custom("shirts", "Shirt", Scope::Namespaced, false);
    let request = FieldRequest {
        name: "images".to_owned(),
        json_path: Some("$.spec.steps[*].image".to_owned()),
        printer_column: None,
    };
    let outcome = accept(&[request], &TargetResource { extractor: &base.extractor, schema: None, columns: &[] });
    let plan = base.extractor.with_extra(&outcome.fields).unwrap();
    fixture.shirts.resource = Arc::new(Resource { extractor: plan, ..base });
    fixture.registry.replace(catalog(&[&fixture.shirts, &fixture.hats, &fixture.pods]), |_| None);
    fixture.shirts.publish();
    fixture
}

impl Fixture {
    fn put_images(&mut self, name: &str, images: &[&str]) -> u64 {
        self.put_images_in("default", name, images)
    }

    pub(super) fn put_images_in(&mut self, namespace: &str, name: &str, images: &[&str]) -> u64 {
        let version = self.next_version();
        let steps: Vec<String> = images.iter().map(|image| format!("{{\"image\":\"{image}\"}}")).collect();
        let text = format!(
            "{{\"apiVersion\":\"stable.example.com/v1\",\"kind\":\"Shirt\",\"metadata\":{{\"name\":\"{name}\",\"namespace\":\
             \"{namespace}\",\"resourceVersion\":\"{version}\"}},\"spec\":{{\"steps\":[{}]}}}}",
            steps.join(",")
        );
        let record = self.shirts.resource.extractor.extract(Bytes::from(text)).unwrap();
        self.shirts.store.apply(&record);
        self.shirts.publish();
        version
    }

    async fn selected(&self, selector: &str) -> Answer {
        self.get(&format!("{ALL_SHIRTS}?fieldSelector={selector}")).await
    }
}

fn too_many() -> Vec<String> {
    (0..65).map(|index| format!("i{index}")).collect()
}

#[tokio::test(start_paused = true)]
async fn lists_are_by_some_value_and_by_none() {
    let mut fixture = fixture();
    fixture.put_images("ab", &["a", "b", "a"]);
    fixture.put_images("b", &["b"]);
    fixture.put_images("none", &[]);
    for (selector, expected) in [
        ("images%3Da", &["default/ab"][..]),
        ("images%3Db", &["default/ab", "default/b"]),
        ("images%3D%3Db,images%3Da", &["default/ab"]),
        ("images!%3Da", &["default/b", "default/none"]),
        ("images!%3Da,images!%3Db", &["default/none"]),
        ("images%3Dc", &[]),
        ("images%3D", &[]),
        ("metadata.name%3Db,images%3Db", &["default/b"]),
    ] {
        let answer = fixture.selected(selector).await;
        assert_eq!(
            (answer.code, answer.names()),
            (StatusCode::OK, expected.iter().map(|name| (*name).to_owned()).collect()),
            "{selector}"
        );
    }
    let explained = fixture.get(&format!("{ALL_SHIRTS}?fieldSelector=images%3Db&explain=true")).await;
    assert_eq!(explained.explanation()["plan"], "images=b (2)");
    assert_eq!(explained.explanation()["path"], "index");
    let unknown = fixture.selected("image%3Db").await;
    assert_eq!((unknown.code, &*unknown.message()), (StatusCode::BAD_REQUEST, "field label not supported: image"));
}

#[tokio::test(start_paused = true)]
async fn watches_see_objects_enter_and_leave_by_some_value() {
    let mut fixture = fixture();
    fixture.put_images("x", &["a"]);
    let mut with_b = fixture.watch(&format!("{ALL_SHIRTS}?watch=1&fieldSelector=images%3Db")).await;
    let mut without_b = fixture.watch(&format!("{ALL_SHIRTS}?watch=1&fieldSelector=images!%3Db")).await;
    assert_eq!(without_b.line().await, "ADDED default/x@101");
    for (images, with, without) in [
        (&["a", "b"][..], "ADDED default/x@102", "DELETED default/x@102"),
        (&["b", "c"], "MODIFIED default/x@103", ""),
        (&["c"], "DELETED default/x@104", "ADDED default/x@104"),
        (&[], "", "MODIFIED default/x@105"),
    ] {
        fixture.put_images("x", images);
        for (watched, expected) in [(&mut with_b, with), (&mut without_b, without)] {
            if expected.is_empty() {
                watched.expect_silence().await;
            } else {
                assert_eq!(watched.line().await, expected, "{images:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_with_more_values_than_are_indexed_is_selected_like_any_other() {
    let mut fixture = fixture();
    fixture.put_images("a", &["a"]);
    let watch = |selector: &str| format!("{ALL_SHIRTS}?watch=1&fieldSelector={selector}");
    let mut with_a = fixture.watch(&watch("images%3Da")).await;
    let mut with_i9 = fixture.watch(&watch("images%3Di9")).await;
    let mut without_i9 = fixture.watch(&watch("images!%3Di9")).await;
    assert_eq!(with_a.line().await, "ADDED default/a@101");
    assert_eq!(without_i9.line().await, "ADDED default/a@101");

    let too_many = too_many();
    fixture.put_images("x", &too_many.iter().map(String::as_str).collect::<Vec<_>>());
    for (selector, expected) in [
        ("images%3Da", &["default/a"][..]),
        ("images!%3Da", &["default/x"]),
        ("images%3Di9", &["default/x"]),
        ("images!%3Di9", &["default/a"]),
        ("images%3Di64,images%3Di0", &["default/x"]),
        ("images%3Di65", &[]),
        ("metadata.name%3Dx,images!%3Di65", &["default/x"]),
    ] {
        let answer = fixture.selected(selector).await;
        assert_eq!(
            (answer.code, answer.names()),
            (StatusCode::OK, expected.iter().map(|name| (*name).to_owned()).collect()),
            "{selector}"
        );
    }
    let explained = fixture.get(&format!("{ALL_SHIRTS}?fieldSelector=images%3Da&explain=true")).await;
    assert_eq!(explained.explanation()["plan"], "images=a (2) & compared one by one (1)");
    assert_eq!(with_i9.line().await, "ADDED default/x@102");

    fixture.put_images("x", &["a"]);
    assert_eq!(fixture.selected("images%3Da").await.names(), ["default/a", "default/x"]);
    assert_eq!(with_a.line().await, "ADDED default/x@103");
    assert_eq!(with_i9.line().await, "DELETED default/x@103");
    assert_eq!(without_i9.line().await, "ADDED default/x@103");
    let mut resumed = fixture.watch(&format!("{}&resourceVersion=101", watch("images%3Di9"))).await;
    assert_eq!(resumed.line().await, "ADDED default/x@102", "a resumed watch sees what was in between");
    assert_eq!(resumed.line().await, "DELETED default/x@103");
}
