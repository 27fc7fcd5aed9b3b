//! Values from a seed: words, numbers, moments, things that are there or not.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

/// splitmix64: small, and the same on every machine.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).expect("a small number")).expect("less than bound")
    }

    /// True so many times in a hundred.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }

    /// The value or null, which is as if the member were missing.
    pub(crate) fn maybe(&mut self, percent: usize, value: impl Into<Value>) -> Value {
        if self.chance(percent) { value.into() } else { Value::Null }
    }

    /// At most `most` things.
    pub(crate) fn list(&mut self, most: usize, mut make: impl FnMut(&mut Dice, usize) -> Value) -> Value {
        let count = self.below(most + 1);
        (0..count).map(|index| make(self, index)).collect()
    }

    pub(crate) fn word(&mut self) -> &'static str {
        self.pick(&["api", "blue", "cache", "db", "edge", "front", "green", "web"])
    }

    /// Labels or another map of texts whose keys are harder to sort than they look.
    pub(crate) fn map(&mut self, most: usize) -> Value {
        let keys = ["app", "app-x", "app.kubernetes.io/name", "tier", "a", "a-b", "a.b", "Zone"];
        let mut map = Map::new();
        for _ in 0..self.below(most + 1) {
            let value = self.pick(&["", "1", "blue", "v1.2", "x_y"]);
            map.insert(self.pick(&keys).to_owned(), value.into());
        }
        Value::Object(map)
    }

    /// A label selector that API servers accept.
    pub(crate) fn selector(&mut self) -> Value {
        let expressions = self.list(3, |dice, _| {
            let key = dice.pick(&["app", "tier", "a-b", "example.com/zone"]);
            match dice.below(4) {
                0 => json!({ "key": key, "operator": "Exists" }),
                1 => json!({ "key": key, "operator": "DoesNotExist" }),
                operator => {
                    let count = 1 + dice.below(3);
                    let values: Vec<&str> = (0..count).map(|_| dice.pick(&["b", "a", "c", ""])).collect();
                    json!({ "key": key, "operator": if operator == 2 { "In" } else { "NotIn" }, "values": values })
                }
            }
        });
        json!({ "matchLabels": self.map(3), "matchExpressions": expressions })
    }

    /// A moment of the last ten years or the next minutes, most of them recent. It is seldom at the turn of a unit, so
    /// that requests to the two sides are rarely in different seconds of it.
    pub(crate) fn moment(&mut self) -> String {
        written(now() - self.ago() * 1_000_000, false)
    }

    /// The same with microseconds.
    pub(crate) fn fine_moment(&mut self) -> String {
        let fraction = i64::try_from(self.below(1_000_000)).expect("a small number");
        written(now() - self.ago() * 1_000_000 - fraction, true)
    }

    fn ago(&mut self) -> i64 {
        let spans = [90, 700, 12_000, 40_000, 200_000, 800_000, 70_000_000, 300_000_000];
        if self.chance(4) {
            return -i64::try_from(self.below(90)).expect("a small number");
        }
        let span = spans[self.below(spans.len())];
        i64::try_from(self.below(span)).expect("a small number")
    }
}

/// A condition.
pub(crate) fn condition(dice: &mut Dice, kind: &str) -> Value {
    let status = dice.pick(&["True", "True", "False", "Unknown"]);
    json!({
        "type": kind, "status": status, "reason": dice.pick(&["Because", "NotSo"]), "message": "as it is",
        "lastTransitionTime": dice.moment(),
    })
}

/// Microseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    i64::try_from(since.as_micros()).expect("it is not that late")
}

/// RFC 3339.
fn written(microseconds: i64, is_fine: bool) -> String {
    let (seconds, fraction) = (microseconds.div_euclid(1_000_000), microseconds.rem_euclid(1_000_000));
    let (mut days, in_day) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let clock = format!("{:02}:{:02}:{:02}", in_day / 3600, in_day / 60 % 60, in_day % 60);
    let fraction = if is_fine { format!(".{fraction:06}") } else { String::new() };
    format!("{year}-{:02}-{:02}T{clock}{fraction}Z", month + 1, days + 1)
}
