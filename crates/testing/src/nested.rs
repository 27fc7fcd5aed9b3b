//! Deeply nested JSON, and a thread with the stack of a worker.
//!
//! Go's encoding/json accepts 10,000 levels, so an API server stores objects of that depth and every reader of bytes
//! meets them. A function that calls itself once for each level overflows the stack, which ends the process. A test
//! that takes bytes therefore includes [`texts`], and runs on [`on_worker_stack`].

use std::thread;

use proptest::prelude::{Just, Strategy, any};
use proptest::{collection, prop_oneof, sample};

/// Levels that Go's encoding/json accepts.
pub const MAX_LEVELS: usize = 10_000;

/// The stack of a tokio worker.
pub const WORKER_STACK: usize = 2 << 20;

/// Runs on a thread with the stack of a worker. A stack overflow ends the test process.
pub fn on_worker_stack<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(WORKER_STACK).spawn_scoped(scope, run).expect("a thread starts");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Which containers nest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nesting {
    /// `[[[…]]]`
    Lists,
    /// `{"a":{"a":…}}`
    Maps,
    /// One and the other, in a repeated pattern: true is a list.
    Mixed(Vec<bool>),
}

/// One value inside many containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nested {
    /// Levels of containers.
    pub depth: usize,
    /// Their kind.
    pub shape: Nesting,
    /// Keys of the maps, used in turn.
    pub keys: Vec<&'static str>,
    /// The innermost value, as JSON.
    pub leaf: &'static str,
    /// A value behind the nested one, in every so many levels; 0 is none.
    pub sibling_every: usize,
}

impl Nested {
    /// A value without siblings, under the key `a`.
    pub fn new(depth: usize, shape: Nesting) -> Nested {
        Nested { depth, shape, keys: vec!["a"], leaf: "1", sibling_every: 0 }
    }

    /// Whether the container at a level is a list.
    pub fn is_list(&self, level: usize) -> bool {
        match &self.shape {
            Nesting::Lists => true,
            Nesting::Maps => false,
            Nesting::Mixed(pattern) => pattern[level % pattern.len()],
        }
    }

    /// As compact JSON. This is a loop, so that the generator itself needs no stack.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for level in 0..self.depth {
            if self.is_list(level) {
                text.push('[');
            } else {
                text.push_str(&format!("{{\"{}\":", self.keys[level % self.keys.len()]));
            }
        }
        text.push_str(self.leaf);
        for level in (0..self.depth).rev() {
            let has_sibling = self.sibling_every > 0 && level % self.sibling_every == 0;
            text.push_str(match (self.is_list(level), has_sibling) {
                (true, true) => ",\"s\"]",
                (true, false) => "]",
                (false, true) => ",\"s\":[0]}",
                (false, false) => "}",
            });
        }
        text
    }
}

/// Values of 100 to `most` levels: lists, maps, and both mixed, with these keys.
pub fn values(most: usize, keys: &'static [&'static str]) -> impl Strategy<Value = Nested> {
    let edges: Vec<usize> = [100, 126, 127, 128, 129, 1000, most].into_iter().filter(|depth| *depth <= most).collect();
    let depths = prop_oneof![1 => sample::select(edges), 2 => 100..=most];
    let shapes = prop_oneof![
        Just(Nesting::Lists),
        Just(Nesting::Maps),
        collection::vec(any::<bool>(), 2..10).prop_map(Nesting::Mixed),
    ];
    let keys = prop_oneof![
        sample::select(keys).prop_map(|key| vec![key]),
        Just(keys.to_vec()),
        collection::vec(sample::select(keys), 1..6),
    ];
    let leaves = sample::select(&["1", "null", "\"t\"", "[]", "{}", "\"\\u005b\\\"\"", "1.0"][..]);
    (depths, shapes, keys, leaves, 0..4usize).prop_map(|(depth, shape, keys, leaf, sibling_every)| Nested {
        // An empty container as the leaf is one more level.
        depth: if matches!(leaf, "[]" | "{}") { depth - 1 } else { depth },
        shape,
        keys,
        leaf,
        sibling_every,
    })
}

/// The same, as JSON. With a sibling the innermost level can hold one more list, so `most` counts it.
pub fn texts(most: usize, keys: &'static [&'static str]) -> impl Strategy<Value = String> {
    values(most - 1, keys).prop_map(|nested| nested.text())
}

#[test]
fn nested_values_are_json_of_that_depth() {
    let mixed = Nested { sibling_every: 1, keys: vec!["a", "b"], ..Nested::new(3, Nesting::Mixed(vec![true, false])) };
    assert_eq!(mixed.text(), r#"[{"b":[1,"s"],"s":[0]},"s"]"#);
    assert_eq!(Nested::new(3, Nesting::Lists).text(), "[[[1]]]");
    assert_eq!(Nested::new(2, Nesting::Maps).text(), r#"{"a":{"a":1}}"#);
}
