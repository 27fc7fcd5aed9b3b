//! The cost counts the work: of each kind of step, and of random expressions.
//!
//! An evaluation cannot be interrupted, so a cost that is far below the work would be time that nothing bounds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::{collection, prop_assert, proptest, sample};

use super::super::{CelEvaluation, CelProgram, CelType, EvaluationError, EvaluationLimit, TimeLimit};

const LIMIT: u64 = 1_000_000;

/// The length of the long texts of the object, in bytes.
const LONG: usize = 60_000;

fn compile(text: &str) -> Result<CelProgram, String> {
    CelProgram::compile(text, &CelType::Dyn).map_err(|error| error.message)
}

fn evaluate(text: &str, object: &str, limit: impl Into<EvaluationLimit>) -> CelEvaluation {
    compile(text).unwrap().evaluate(object.as_bytes(), limit)
}

/// An object with texts of [`LONG`] bytes: `a` is plain, `e` has escapes, `n` is a number, `d` has many durations, `v`
/// is the end of a version. `w` has 20,000 members, and `k` one with a long key.
fn object() -> String {
    let wide: Vec<String> = (0..20_000).map(|index| format!("\"k{index:05}\":{index}")).collect();
    format!(
        r#"{{"a":"{}","e":"{}","n":{},"d":"{}","w":{{{}}},"k":{{"{}":1}},"ip":"{}","v":"a{}"}}"#,
        "a".repeat(LONG),
        "\\n".repeat(LONG / 2),
        "1".repeat(LONG),
        "0s".repeat(LONG / 2),
        wide.join(","),
        "b".repeat(LONG),
        "1:".repeat(LONG / 2),
        ".a".repeat(LONG / 2),
    )
}

/// Each row has the least cost of the work that one evaluation does.
#[test]
fn each_kind_of_work_is_counted() {
    let long = LONG as u64;
    let rows: [(&str, &str, u64); 43] = [
        ("a plain text is scanned", "self.a != 1", long / 32),
        ("a text with escapes is copied", "self.e != 1", long / 10),
        ("a long number is read", "self.n != 'x'", 800),
        ("an element is read", "[self.e, dyn('x')].all(x, x != 1)", long / 10),
        ("a value of a member is read", "{'a': self.e}.all(k, v, v != 1)", long / 10),
        ("keys are compared", "!(self.k.all(k, k == 'x'))", long / 32),
        ("members are passed", "has(self.w.k19999)", 20_000 / 4),
        ("members are counted", "self.w.size() == 20000", 20_000 / 4),
        ("elements are counted", "self.w.map(k, k).size() == 20000", 20_000),
        ("keys of a member are compared with a long one", "self.a in self.k || true", long / 32),
        ("a long key is compared with an equal one", "self.k.all(k, k in self.k)", long / 10),
        ("a new map is sorted", "self.w.transformMap(k, v, v).size() == 20000", 20_000 * 14),
        ("keys of a new map are compared", "[self.a].all(a, {a: 1, dyn(a + 'b'): 2}[a] == 1)", long / 5),
        ("a macro over a new map copies its keys", "self.w.transformMap(k, v, v).all(k, true)", 20_000 * 18),
        ("the text of a search is read", "!self.a.contains('b')", long / 10),
        ("the part of a search is read", "self.a.contains(self.a)", long / 4),
        ("the part of an index is read", "self.a.indexOf(self.a) == 0", long / 4),
        ("the part of a last index is read", "self.a.lastIndexOf(self.a) == 0", long / 4),
        ("a replaced part is read", "self.a.replace(self.a, '') == ''", long / 2),
        ("empty parts are replaced", "self.a.replace('', '') == self.a", long),
        ("a separator is read", "self.a.split(self.a).size() == 2", long / 4),
        ("characters are separated", "self.a.split('').size() == 60000", long),
        ("a conversion to a number", "double(self.a) == 1.0 || true", 800),
        ("a conversion to a duration", "duration(self.d) == duration('0s')", long),
        ("a conversion to an address", "!isIP(self.ip)", long / 10),
        ("a conversion in a range", "cidr('10.0.0.0/8').containsIP(self.ip) || true", long / 10),
        ("lists are concatenated", "(self.w.map(k, k) + self.w.map(k, k)).size() == 40000", 80_000),
        ("nodes without a cost", "lists.range(1000).all(i, true && true && true && true && true && true)", 4_500),
        ("a pattern of many states", "!self.a.matches('(a.){40}b')", long * 40 / 8),
        ("a pattern that is compiled", "'x'.matches('\\\\pL{1}' + '') ", 16 * 500),
        ("a short pattern that is compiled", "'x'.matches('x' + '')", 500),
        ("tables for a wide class", "'x'.matches('[^a]' + '')", 16 * 500),
        ("characters that ignore case", "'x'.matches('(?i)[b-\\\\x{20000}]' + '')", 16 * 10_000),
        ("all matches read ahead", "self.a.findAll('a.*b|a', 20).size() == 20", 20 * long * 2 / 8),
        ("a literal in a list is not found", "!(1 in [2, 3, 4, 5, 6, 7])", 6),
        ("a URL is read and kept", "isURL('/' + self.a)", long),
        ("a part of a URL is copied", "[url('/' + self.a)].all(u, u.getEscapedPath() == '') || true", long * 14 / 10),
        (
            "the name of a time zone is read",
            "timestamp('2020-01-01T00:00:00Z').getHours(self.a) == 1 || true",
            long / 10,
        ),
        (
            "a port is found in a host",
            "[url('x://' + self.a + ':1')].all(u, lists.range(10).all(i, u.getPort() == '1'))",
            long * 13 / 10 + 10 * long / 10,
        ),
        ("URLs are compared", "[url('/' + self.a)].all(u, u == u)", long * 13 / 10),
        ("a query is copied", "url('/?' + self.a).getQuery().size() == 1", long * 3 / 2),
        ("identifiers of a version are kept", "semver('1.0.0-' + self.v).major() == 1", long * 13 / 10),
        ("versions are compared", "[semver('1.0.0-' + self.v)].all(v, v.compareTo(v) == 0 && v == v)", long * 4),
    ];
    let object = object();
    let mut wrong = Vec::new();
    for (why, text, least) in rows {
        let found = evaluate(text, &object, u64::MAX);
        if found.cost < least {
            wrong.push(format!("{why}: {text} costs {}, at least {least}: {:?}", found.cost, found.result));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A short expression must not become expensive: none of these rows does much work.
#[test]
fn usual_expressions_are_cheap() {
    let rows: [(&str, u64); 6] = [
        ("self.a == 'x'", 5),
        ("self.labels['app'] == 'shop' && self.a.startsWith('x')", 12),
        ("self.items.exists(i, i.name == 'x')", 40),
        ("self.a in ['a', 'b', 'c']", 20),
        ("self.a.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')", 30),
        ("quantity(self.q).isGreaterThan(quantity('1Gi'))", 60),
    ];
    let object = r#"{"a":"web","labels":{"app":"shop"},"items":[{"name":"a"},{"name":"b"},{"name":"x"}],"q":"2Gi"}"#;
    for (text, most) in rows {
        let found = evaluate(text, object, LIMIT);
        assert!(found.result.is_ok() && found.cost <= most, "{text}: {found:?}, at most {most}");
    }
}

/// Each of these took seconds for a cost of less than the limit.
#[test]
fn work_that_was_not_counted_exceeds_the_limit() {
    let rows = [
        ("escaped texts", "lists.range(400).all(i, lists.range(400).all(j, self.e.contains('x') || true))"),
        (
            "macros over a new map",
            "[lists.range(9000).transformMap(i, v, v)].exists(m, lists.range(300).all(i, !m.exists(k, false)))",
        ),
        (
            "macros over entries of a new map",
            "[lists.range(9000).transformMap(i, v, v)].all(m, lists.range(300).all(i, m.all(k, v, true)))",
        ),
        (
            "patterns that are compiled",
            "lists.range(90).all(i, lists.range(90).all(j, '' .matches('\\\\pL' + '') == false))",
        ),
        ("patterns in a list", "lists.range(90).all(i, lists.range(90).all(j, !'0'.matches(['\\\\pL'][0])))"),
        ("a pattern of many states", "lists.range(100).all(i, !self.a.matches('[ab]*a[ab]{400}x'))"),
        ("long parts", "[self.a].all(p, lists.range(300).all(i, p.indexOf(p) == 0))"),
        ("long replaced parts", "[self.a].all(p, lists.range(300).all(i, p.replace(p, '') == ''))"),
        ("durations", "lists.range(300).all(i, duration(self.d) == duration('0s'))"),
        ("URLs", "lists.range(1000).map(i, url('/' + self.a)).size() == 1000"),
        ("parts of a URL", "[url('/' + self.a)].all(u, lists.range(9000).map(i, u.getEscapedPath()).size() == 9000)"),
        ("queries", "[url('/?' + self.a)].all(u, lists.range(9000).map(i, u.getQuery()).size() == 9000)"),
        ("versions", "[semver('1.0.0-' + self.v)].all(v, lists.range(9000).all(i, v.compareTo(v) == 0))"),
    ];
    let object = object();
    for (why, text) in rows {
        let found = evaluate(text, &object, LIMIT);
        let is_over = matches!(found.result, Err(EvaluationError::OverLimit { .. }));
        assert!(is_over, "{why}: {found:?}");
    }
    // A part that is longer than the text is not read.
    let text = "[self.a].all(p, lists.range(50).all(i, 'a'.indexOf(p) == -1 && 'a'.replace(p, '') == 'a'))";
    assert!(evaluate(text, &object, LIMIT).cost < 10_000);
}

#[test]
fn the_memory_of_a_pattern_is_in_proportion_to_its_states() {
    let tail: String = (' '..='~').filter(|character| character.is_ascii_alphanumeric()).collect();
    for (pattern, why) in [
        (format!("(?:[a-j]A|[k-t]B|[u-y]C)[0-9]{tail}"), "hundreds of long literals"),
        (r"\pL{2}".to_owned(), "wide classes"),
        ("(?:a|b|c|d|e|f){100}".to_owned(), "a choice many times"),
        ("()".repeat(1_900), "very many groups"),
        ("x".to_owned(), "a letter"),
    ] {
        let program = CelProgram::compile(&format!("self.matches({pattern:?})"), &CelType::Dyn).unwrap();
        let bytes = program.pattern_bytes();
        assert!((128 << 10..3 << 20).contains(&bytes), "{why}: {bytes} bytes");
    }
}

#[test]
fn literal_patterns_are_bounded_together() {
    let rows = [
        ("one large pattern", "'a'.matches('\\\\pL{6}')".to_owned(), "too large"),
        ("nested repetitions", "'a'.matches('((a{100}){100}){100}')".to_owned(), "too large"),
        ("many patterns", vec!["'a'.matches('\\\\pL')"; 100].join(" || "), "too large together, with"),
        ("many short patterns", vec!["'a'.matches('a')"; 500].join(" || "), "too large together, with"),
        ("many classes", format!("'a'.matches('{}')", "\\\\pL".repeat(100)), "more than 16 classes"),
        ("case", "'a'.matches('(?i)[b-\\\\x{10FFFF}]')".to_owned(), "ignores case"),
        ("a class that ignores case", ["'a'.matches('(?i)\\\\p{Han}')"; 2].join(" || "), "too large together"),
        ("classes beyond ASCII", vec!["'a'.matches('[^a]')"; 100].join(" || "), "too large together"),
        ("case in a group", "'a'.matches('(?i:[\\\\pL\\\\pN])')".to_owned(), "ignores case"),
    ];
    for (why, text, expected) in rows {
        let error = compile(&text).map(|_| ()).expect_err(why);
        assert!(error.contains(expected), "{why}: {error}");
    }
    let rows = [
        vec!["'a'.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')"; 20].join(" || "),
        "'a'.matches('^[a-z]{1,63}$') && 'É'.matches('(?i)^\\\\pL$') || 'é'.matches('(?i)é')".to_owned(),
    ];
    for text in rows {
        assert_eq!(evaluate(&text, "{}", LIMIT).result, Ok(true), "{text}");
    }
}

/// The readings of [`ticking`].
static READINGS: AtomicU64 = AtomicU64::new(0);

/// A clock that moves one millisecond whenever it is read.
fn ticking() -> Duration {
    Duration::from_millis(READINGS.fetch_add(1, Ordering::Relaxed))
}

#[test]
fn an_evaluation_ends_when_its_time_is_over() {
    let time = |most| EvaluationLimit {
        cost: u64::MAX,
        time: Some(TimeLimit { clock: ticking, most: Duration::from_millis(most) }),
    };
    let text = "lists.range(10000).all(i, lists.range(10000).all(j, i + j >= 0)) || true";
    let found = evaluate(text, "{}", time(20));
    let Err(EvaluationError::TooLong { expression }) = &found.result else { panic!("{found:?}") };
    assert!(expression.starts_with("lists.range(10000)") || expression.starts_with("i + j"), "{expression}");
    // The clock is read at least once for so many units.
    assert!(found.cost < 25 * 11_000, "{found:?}");
    assert_eq!(evaluate("1 + 1 == 2", "{}", time(0)).result, Ok(true));
}

/// Texts and lists of an object with `x`, `e` and `l`, and of each other.
fn texts() -> impl Strategy<Value = String> {
    let leaf = sample::select(vec!["self.x", "self.e", "'ab'", "''", "'é'", "self.l[0]", "self.m['k1']"]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left} + {right})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(text, from, to)| format!("{text}.replace({from}, {to}, 500)")),
            inner.clone().prop_map(|text| format!("{text}.upperAscii()")),
            inner.clone().prop_map(|text| format!("strings.quote({text})")),
            (inner.clone(), inner.clone()).prop_map(|(text, by)| format!("{text}.split({by}, 300).join('-')")),
            (inner.clone(), inner.clone()).prop_map(|(text, by)| format!("self.l.map(i, {text}).join({by})")),
            (inner.clone(), inner.clone()).prop_map(|(key, value)| format!(
                "{{dyn({key}): dyn({value}), dyn('b'): dyn('c')}}.map(k, v, v).join(',')"
            )),
            inner.clone().prop_map(|text| format!("self.m.transformMap(k, v, {text}).map(k, k).join('')")),
            inner.clone().prop_map(|text| format!("{text}.findAll('a+').join('')")),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("'%s-%s'.format([{left}, {right}])")),
            inner.clone().prop_map(|text| format!("'%s'.format([[{text}, {text}]])")),
            inner.clone().prop_map(|text| format!("self.l.sortBy(i, i + {text}).join('')")),
            inner.prop_map(|text| format!("[{text}].filter(t, t != 'x').map(t, t + t).distinct().join('')")),
        ]
    })
}

proptest! {
    /// The memory that an evaluation allocates is a measure of its work that the meter does not know.
    #[test]
    fn random_expressions_cost_in_proportion_to_what_they_allocate(
        text in texts(),
        length in prop_oneof![Just(10usize), Just(3_000)],
        items in collection::vec("[a-c\"\\\\é]{0,30}", 1..40),
    ) {
        let Ok(program) = compile(&format!("{text} != 'x'")) else { return Ok(()) };
        let members: serde_json::Map<String, serde_json::Value> =
            items.iter().enumerate().map(|(index, item)| (format!("k{index}"), item.clone().into())).collect();
        let object = serde_json::json!({
            "x": "ab".repeat(length), "e": "a\n\"é".repeat(length), "l": items, "m": members,
        });
        let object = object.to_string();
        let tree = crate::json::tree::Tree::read(object.as_bytes()).unwrap();
        let mut cost = 0;
        let allocated = allocation_counter::measure(|| cost = program.evaluate_tree(&tree, LIMIT).cost);
        let most = 4_096 + cost.saturating_mul(256);
        prop_assert!(allocated.bytes_total <= most, "{text} costs {cost} and allocates {}", allocated.bytes_total);
    }
}
