//! The corpora: deterministic, of the promised sizes and selections, and just what a real kube-apiserver would serve.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::corpus::pods::{Pods, UNIQUE_LABELS};
use e2e::corpus::shirts::{OBJECTS_A_COLOR, PAIR, PAIR_SELECTOR, Shirts};
use e2e::corpus::{Text, load};
use e2e::{compare, objects, unique};
use serde_json::Value;

#[test]
fn shirts_have_the_promised_size_and_compressibility() -> Result<()> {
    for (text, ratios) in [(Text::Varied, 4.6..5.4), (Text::Repeated, 18.0..22.0)] {
        let shirts = Shirts { text, ..Shirts::default() };
        let sample: Vec<String> = (0..3_000).map(|index| shirts.stored(index).to_string()).collect();
        let (size, ratio) = measure(&sample)?;
        println!("shirts, {text:?}: {size:.0} bytes each, {ratio:.2}:1 under zstd at level 3");
        assert!((2_350.0..2_450.0).contains(&size), "{text:?}: {size:.0} bytes each");
        assert!(ratios.contains(&ratio), "{text:?}: {ratio:.2}:1 under zstd at level 3");
    }
    Ok(())
}

#[test]
fn pods_have_the_promised_sizes() -> Result<()> {
    let pods = Pods::default();
    let sample: Vec<String> = (0..2_000).map(|index| pods.stored(index).to_string()).collect();
    let (size, ratio) = measure(&sample)?;
    let smallest = sample.iter().map(String::len).min().unwrap_or_default();
    let largest = sample.iter().map(String::len).max().unwrap_or_default();
    println!("pods: {smallest} to {largest}, {size:.0} bytes each, {ratio:.2}:1 under zstd at level 3");
    assert!(smallest >= 6_000 && largest <= 10_240, "from {smallest} to {largest} bytes");
    Ok(())
}

#[test]
fn shirts_select_what_they_promise() {
    for count in [100, 1_000, 10_000, 20_050] {
        let shirts = Shirts { count, ..Shirts::default() };
        let mut colors: BTreeMap<String, u64> = BTreeMap::new();
        let mut uniques: BTreeMap<String, u64> = BTreeMap::new();
        let mut halves = [0, 0];
        let mut both = 0;
        for object in shirts.objects() {
            let spec = &object["spec"];
            *colors.entry(spec["color"].to_string()).or_default() += 1;
            for field in ["serial", "order"] {
                *uniques.entry(format!("{field} {}", spec[field])).or_default() += 1;
            }
            let selected = PAIR.map(|(name, value)| object["metadata"]["labels"][name] == value);
            halves = [halves[0] + u64::from(selected[0]), halves[1] + u64::from(selected[1])];
            both += u64::from(selected == [true, true]);
        }
        assert_eq!(colors.len() as u64, shirts.colors(), "colours of {count}");
        let most = colors.values().max().copied().unwrap_or_default();
        assert!(most <= OBJECTS_A_COLOR, "{most} objects share a colour among {count}");
        assert!(colors.contains_key("\"blue\""), "blue of {count}");
        assert_eq!(uniques.len() as u64, 2 * count, "unique values of {count}");
        assert_eq!(both, shirts.pair_count(), "the pair of {count}");
        assert!(
            halves.iter().all(|&half| half > count / 6),
            "each half of the pair selects many of {count}: {halves:?}"
        );
    }
    assert_eq!(Shirts::default().colors(), 1_000);
    assert_eq!(Shirts::default().pair_count(), 670);
}

#[test]
fn colors_differ_beyond_a_thousand() {
    let shirts = Shirts::default();
    let colors: std::collections::BTreeSet<String> = (0..10_000).map(|index| shirts.color(index)).collect();
    assert_eq!(colors.len(), 10_000);
}

#[test]
fn the_same_settings_make_the_same_objects() {
    // Pinned, so that figures of different days and machines are about the same bytes.
    let object = Shirts::default().stored(12_345);
    assert_eq!(object, Shirts::default().stored(12_345));
    assert_eq!(fingerprint(&object), PINNED_SHIRT, "{object}");
    let object = Pods::default().stored(12_345);
    assert_eq!(fingerprint(&object), PINNED_POD, "{object}");
    let others = [
        Shirts { seed: 2, ..Shirts::default() }.stored(12_345),
        Shirts { text: Text::Repeated, ..Shirts::default() }.stored(12_345),
        Shirts::default().stored(12_346),
    ];
    for other in others {
        assert_ne!(other["spec"]["description"], Shirts::default().stored(12_345)["spec"]["description"]);
    }
}

const PINNED_SHIRT: u64 = 11_426_339_934_004_835_878;
const PINNED_POD: u64 = 10_946_540_380_240_336_545;

#[tokio::test]
async fn kube_apiserver_serves_a_shirt_as_the_corpus_says() -> Result<()> {
    let client = ControlPlane::shared().await?.client();
    let shirts = Shirts { group: unique::group("corpus"), count: 200, ..Shirts::default() };
    load::shirts(&client, &shirts, |_| {}).await?;
    let list = client.get_json(&shirts.everywhere()).await?;
    let served = by_name(&list);
    assert_eq!(served.len(), 200);
    for index in 0..200 {
        let stored = shirts.stored(index);
        let name = stored["metadata"]["name"].as_str().context("no name")?;
        compare::equal("corpus", &timeless(&stored), "served", &timeless(served[name]))?;
    }
    let blue = client.get_json(&format!("{}?fieldSelector=spec.color%3Dblue", shirts.everywhere())).await?;
    assert_eq!(by_name(&blue).len(), 100);
    let pair = client.get_json(&format!("{}?labelSelector={PAIR_SELECTOR}", shirts.everywhere())).await?;
    assert_eq!(by_name(&pair).len() as u64, shirts.pair_count());
    Ok(())
}

#[tokio::test]
async fn shirts_written_to_etcd_are_ordinary_shirts() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let client = control_plane.client();
    let shirts = Shirts { group: unique::group("corpus"), count: 250, seed: 3, ..Shirts::default() };
    load::shirts_into_etcd(control_plane, &shirts, |_| {}).await?;
    let list = client.get_json(&shirts.everywhere()).await?;
    let served = by_name(&list);
    for index in 0..250 {
        let mut stored = shirts.stored(index);
        let name = stored["metadata"]["name"].as_str().context("no name")?.to_owned();
        stored["metadata"]["resourceVersion"] = served[name.as_str()]["metadata"]["resourceVersion"].clone();
        compare::equal("corpus", &stored, "served", served[name.as_str()])?;
    }
    let blue = client.get_json(&format!("{}?fieldSelector=spec.color%3Dblue", shirts.everywhere())).await?;
    assert_eq!(by_name(&blue).len() as u64, 250_u64.div_ceil(shirts.colors()));

    let path = format!("{}/shirt-0000000", shirts.collection("corpus-0"));
    let patched = objects::merge(&client, &path, &serde_json::json!({ "spec": { "color": "red" } })).await?;
    assert_eq!((&patched["spec"]["color"], &patched["metadata"]["generation"]), (&"red".into(), &2.into()));
    Ok(())
}

#[tokio::test]
async fn kube_apiserver_serves_a_pod_as_the_corpus_says() -> Result<()> {
    let client = ControlPlane::shared().await?.client();
    let pods = Pods { count: 60, ..Pods::default() };
    load::pods(&client, &pods, |_| {}).await?;
    let list = client.get_json(&format!("/api/v1/pods?labelSelector={}", UNIQUE_LABELS[0])).await?;
    let served = by_name(&list);
    assert_eq!(served.len(), 60);
    for index in 0..60 {
        let mut stored = pods.stored(index);
        // Items of typed lists carry neither.
        for name in ["apiVersion", "kind"] {
            stored.as_object_mut().context("a Pod is an object")?.remove(name);
        }
        let name = stored["metadata"]["name"].as_str().context("no name")?;
        compare::equal("corpus", &timeless(&stored), "served", &timeless(served[name]))?;
    }
    Ok(())
}

#[tokio::test]
async fn pods_written_to_etcd_are_ordinary_pods() -> Result<()> {
    // One of its own: the loader waits for a number of Pods, and other tests create some.
    let control_plane = ControlPlane::start(Settings::default()).await?;
    let client = control_plane.client();
    let pods = Pods { count: 250, ..Pods::default() };
    load::pods_into_etcd(&control_plane, &pods, |_| {}).await?;
    let list = client.get_json("/api/v1/pods").await?;
    let served = by_name(&list);
    assert_eq!(served.len(), 250);
    for index in 0..250 {
        let mut stored = pods.stored(index);
        // Items of typed lists carry neither.
        for name in ["apiVersion", "kind"] {
            stored.as_object_mut().context("a Pod is an object")?.remove(name);
        }
        let name = stored["metadata"]["name"].as_str().context("no name")?.to_owned();
        stored["metadata"]["resourceVersion"] = served[name.as_str()]["metadata"]["resourceVersion"].clone();
        compare::equal("corpus", &stored, "served", served[name.as_str()])?;
    }

    let metadata = &pods.object(0)["metadata"];
    let text = |member: &str| metadata[member].as_str().unwrap_or_default();
    let path = format!("{}/{}", pods.collection(text("namespace")), text("name"));
    let label = serde_json::json!({ "metadata": { "labels": { "example.com/tier": "iron" } } });
    let patched = objects::merge(&client, &path, &label).await?;
    assert_eq!(patched["metadata"]["labels"]["example.com/tier"], "iron");
    Ok(())
}

/// Without what every creation makes again.
fn timeless(object: &Value) -> Value {
    let mut object = object.clone();
    for name in ["uid", "resourceVersion", "creationTimestamp"] {
        assert!(object["metadata"][name].is_string(), "no {name}");
        object["metadata"][name] = Value::Null;
    }
    for entry in object["metadata"]["managedFields"].as_array_mut().into_iter().flatten() {
        entry["time"] = Value::Null;
    }
    object
}

fn by_name(list: &Value) -> BTreeMap<&str, &Value> {
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    items.iter().filter_map(|item| Some((item["metadata"]["name"].as_str()?, item))).collect()
}

/// Mean size of the documents, and how well they compress together.
fn measure(documents: &[String]) -> Result<(f64, f64)> {
    let whole = documents.join("\n");
    let compressed = zstd::bulk::compress(whole.as_bytes(), 3)?;
    let ratio = whole.len() as f64 / compressed.len() as f64;
    Ok((whole.len() as f64 / documents.len() as f64, ratio))
}

/// FNV-1a, which is as stable as the corpora must be.
fn fingerprint(object: &Value) -> u64 {
    let text = object.to_string();
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
