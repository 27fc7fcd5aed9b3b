//! Corpus (i): shirts of 2.4 KB each, as served.
//!
//! There are four selectable fields: `spec.color`, with 100 objects a value, `spec.serial` and `spec.order`, with a
//! separate value for each object, and the integer `spec.quantity`, with 100 values. Of the labels, the pair [`PAIR`] selects 670 of 100,000; each half of it selects
//! many more.

use serde_json::{Value, json};

use super::managed_fields::{Shape, entry};
use super::{Text, time, words};
use crate::random::Random;

/// How many objects share a colour, whatever the size of the corpus. So the same request has the same hits at every
/// size.
pub const OBJECTS_A_COLOR: u64 = 100;

/// The two labels which together select 0.67 % of the corpus.
pub const PAIR: [(&str, &str); 2] = [("example.com/campaign", "autumn"), ("example.com/channel", "outlet")];

/// The label selector of [`PAIR`].
pub const PAIR_SELECTOR: &str = "example.com/campaign=autumn,example.com/channel=outlet";

/// The paragraphs of a repeated corpus.
const PARAGRAPHS: u64 = 4;

/// What distinguishes one corpus from another.
#[derive(Debug, Clone)]
pub struct Shirts {
    /// The API group of the kind.
    pub group: String,
    /// How many there are.
    pub count: u64,
    /// How much of the text is new.
    pub text: Text,
    /// The seed.
    pub seed: u64,
}

impl Default for Shirts {
    fn default() -> Shirts {
        Shirts { group: "corpus.example.com".to_owned(), count: 100_000, text: Text::Varied, seed: 1 }
    }
}

impl Shirts {
    /// The definition of the kind.
    #[must_use]
    pub fn definition(&self) -> Value {
        let text = json!({ "type": "string" });
        let number = json!({ "type": "integer" });
        let texts = json!({ "type": "array", "items": text });
        let schema = json!({ "type": "object", "properties": {
            "spec": { "type": "object", "required": ["color", "serial", "order"], "properties": {
                "color": text, "serial": text, "order": text, "size": text, "quantity": number, "branded": { "type": "boolean" },
                "description": text, "care": texts,
                "material": { "type": "object", "properties": { "fabric": text, "weight": number, "origin": text } },
                "supplier": { "type": "object", "properties": { "name": text, "address": text, "contract": text } },
            } },
            "status": { "type": "object", "properties": {
                "phase": text, "observedGeneration": number,
                "conditions": { "type": "array", "items": { "type": "object", "properties": {
                    "type": text, "status": text, "reason": text, "message": text, "lastTransitionTime": text,
                } } },
            } },
        } });
        crate::fixtures::definition(
            &self.group,
            "Namespaced",
            ("shirts", "shirt", "Shirt"),
            &[json!({
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema },
                "selectableFields": [
                    { "jsonPath": ".spec.color" }, { "jsonPath": ".spec.serial" }, { "jsonPath": ".spec.order" },
                    { "jsonPath": ".spec.quantity" },
                ],
                "additionalPrinterColumns": [
                    { "name": "Color", "type": "string", "jsonPath": ".spec.color" },
                    { "name": "Size", "type": "string", "jsonPath": ".spec.size" },
                ],
            })],
            &crate::fixtures::no_conversion(),
        )
    }

    /// How many colours there are.
    #[must_use]
    pub fn colors(&self) -> u64 {
        self.count.div_ceil(OBJECTS_A_COLOR).max(1)
    }

    /// The text of colour `index`, below [`Shirts::colors`]; the first is `blue`.
    #[must_use]
    pub fn color(&self, index: u64) -> String {
        words::color(index)
    }

    /// How many objects [`PAIR`] selects.
    #[must_use]
    pub fn pair_count(&self) -> u64 {
        self.count * 670 / 100_000
    }

    /// The namespaces of the objects.
    #[must_use]
    pub fn namespaces(&self) -> Vec<String> {
        (0..NAMESPACES).map(namespace).collect()
    }

    /// The collection in one namespace.
    #[must_use]
    pub fn collection(&self, namespace: &str) -> String {
        format!("/apis/{}/v1/namespaces/{namespace}/shirts", self.group)
    }

    /// The collection of all namespaces.
    #[must_use]
    pub fn everywhere(&self) -> String {
        format!("/apis/{}/v1/shirts", self.group)
    }

    /// All objects, as clients send them.
    pub fn objects(&self) -> impl Iterator<Item = Value> {
        (0..self.count).map(|index| self.object(index))
    }

    /// Object `index` as a client sends it.
    #[must_use]
    pub fn object(&self, index: u64) -> Value {
        let mut random = Random::from_seed(self.seed, index);
        let pair_before = index * self.pair_count() / self.count.max(1);
        let in_pair = (index + 1) * self.pair_count() / self.count.max(1) > pair_before;
        let (campaign, channel) = if in_pair {
            (PAIR[0].1, PAIR[1].1)
        } else {
            let campaign = random.choose(&["spring", "summer", "autumn", "winter"]);
            let channels =
                if campaign == PAIR[0].1 { &["web", "store", "partner"][..] } else { &["web", "store", "outlet"] };
            (campaign, random.choose(channels))
        };
        let size = random.choose(&["S", "M", "L", "XL"]);
        let line = random.choose(&["classic", "sport", "travel", "work", "evening"]);
        json!({
            "apiVersion": format!("{}/v1", self.group),
            "kind": "Shirt",
            "metadata": {
                "name": format!("shirt-{index:07}"),
                "namespace": namespace(index % NAMESPACES),
                "labels": {
                    "app.kubernetes.io/name": "shirt",
                    "app.kubernetes.io/part-of": line,
                    PAIR[0].0: campaign,
                    PAIR[1].0: channel,
                    "example.com/size": size,
                },
                "annotations": { "example.com/digest": self.digest(&mut random, 0) },
            },
            "spec": {
                // Neighbours in the list differ in colour, as in life.
                "color": self.color(index % self.colors()),
                "serial": format!("S-{:08}", index * 7 + 3),
                "order": format!("O-{:010}", index * 1_009 + self.seed % 1_000),
                "size": size,
                "quantity": random.between(0, 99),
                "branded": random.below(2) == 1,
                "description": self.sentence(&mut random, 1, 75),
                "care": [self.sentence(&mut random, 2, 6), self.sentence(&mut random, 3, 6)],
                "material": {
                    "fabric": random.choose(&["cotton", "linen", "wool", "silk", "hemp"]),
                    "weight": random.between(90, 240),
                    "origin": self.sentence(&mut random, 4, 2),
                },
                "supplier": {
                    "name": self.sentence(&mut random, 5, 2),
                    "address": self.sentence(&mut random, 6, 6),
                    "contract": self.digest(&mut random, 7),
                },
            },
            "status": {
                "phase": random.choose(&["Available", "Available", "Available", "Reserved", "Sold"]),
                "observedGeneration": 1,
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "InStock",
                    "message": self.sentence(&mut random, 8, 12),
                    "lastTransitionTime": time(index * 3 % 2_000_000),
                }],
            },
        })
    }

    /// Object `index` as kube-apiserver stores and serves it, created by field manager `corpus`; its resourceVersion is `index` + 1,000.
    #[must_use]
    pub fn stored(&self, index: u64) -> Value {
        const SHAPE: Shape = Shape { keyed_lists: &[], atomic_items: &[], always_there: &["metadata"] };
        let mut object = self.object(index);
        let mut random = Random::from_seed(!self.seed, index);
        let created = time(index / 1_000);
        let mut fields = object.clone();
        if let Value::Object(members) = &mut fields {
            members.remove("apiVersion");
            members.remove("kind");
        }
        if let Value::Object(members) = &mut fields["metadata"] {
            members.remove("name");
            members.remove("namespace");
        }
        let api_version = format!("{}/v1", self.group);
        object["metadata"]["managedFields"] = json!([entry("corpus", &api_version, &created, &SHAPE, &fields)]);
        object["metadata"]["creationTimestamp"] = created.into();
        object["metadata"]["generation"] = 1.into();
        object["metadata"]["resourceVersion"] = (index + 1_000).to_string().into();
        object["metadata"]["uid"] = random.uid().into();
        object
    }

    /// Sixty-four hexadecimal digits for one place of the object; likewise.
    fn digest(&self, random: &mut Random, place: u64) -> String {
        match self.text {
            Text::Varied => random.hexadecimal(64),
            Text::Repeated => self.paragraph(random, place).hexadecimal(64),
        }
    }

    /// A sentence for one place of the object; a repeated corpus has a few for each place.
    fn sentence(&self, random: &mut Random, place: u64, words: usize) -> String {
        match self.text {
            Text::Varied => words::sentence(random, words),
            // It has one word of its own, because no two real texts are equal to the last byte.
            Text::Repeated => {
                let shared = words::sentence(&mut self.paragraph(random, place), words - 1);
                format!("{shared} {}", words::word(random))
            }
        }
    }

    /// The stream behind one of the few texts of one place.
    fn paragraph(&self, random: &mut Random, place: u64) -> Random {
        Random::from_seed(self.seed, u64::MAX - place * PARAGRAPHS - random.below(PARAGRAPHS))
    }
}

/// A handful, as shops have.
const NAMESPACES: u64 = 10;

fn namespace(index: u64) -> String {
    format!("corpus-{index}")
}
