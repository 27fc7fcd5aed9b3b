//! Hostile expressions: each is rejected, or ends within its limit of cost. The stack of the thread is that of a small
//! thread, so that a recursion without a bound would overflow it.

use super::super::{CelEvaluation, CelProgram, CelType, EvaluationError, MAX_LENGTH, MAX_LEVELS, MAX_NESTING};

/// Half of the stack that threads have by default. Frames of builds without optimization are several times larger.
const STACK: usize = 1 << 20;

/// The limit of Kubernetes for one expression.
const LIMIT: u64 = 1_000_000;

/// Runs a test with a small stack.
fn with_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(STACK).spawn(test).unwrap().join().unwrap();
}

fn compile(text: &str) -> Result<CelProgram, String> {
    CelProgram::compile(text, &CelType::Dyn).map_err(|error| error.message)
}

fn evaluate(text: &str, object: &str, limit: u64) -> CelEvaluation {
    compile(text).unwrap().evaluate(object.as_bytes(), limit)
}

#[test]
fn long_and_deep_expressions_are_rejected() {
    with_small_stack(|| {
        let deep = 1_000;
        let cases = [
            ("brackets", format!("{}true{}", "(".repeat(deep), ")".repeat(deep)), "recursion limit"),
            ("lists", format!("{}1{}", "[".repeat(deep), "]".repeat(deep)), "recursion limit"),
            ("maps", format!("{}1{}", "{1:".repeat(deep), "}".repeat(deep)), "recursion limit"),
            ("open brackets", "(".repeat(deep), "recursion limit"),
            ("a sum", vec!["1"; deep].join("+"), "recursion limit"),
            ("selections", format!("self{}", ".a".repeat(deep)), "recursion limit"),
            ("indexes", format!("self{}", "[0]".repeat(deep)), "recursion limit"),
            ("calls", format!("self{}", ".size()".repeat(deep)), "recursion limit"),
            ("conditionals", format!("{}true", "true?1:".repeat(deep)), "recursion limit"),
            ("arguments", format!("{}1{}", "size(".repeat(deep), ")".repeat(deep)), "recursion limit"),
            ("mixed chains", "true||false&&".repeat(MAX_LENGTH / 14) + "(", "mismatched input"),
            ("1 MB of text", format!("'{}' == ''", "a".repeat(1 << 20)), "more than the limit of 10240"),
            ("1 MB of brackets", "(".repeat(1 << 20), "more than the limit of 10240"),
            ("1 MB of characters of four bytes", "😀".repeat(1 << 18), "more than the limit of 10240"),
            ("an open text", format!("'{}", "a".repeat(MAX_LENGTH - 1)), "token recognition error"),
            ("a long name", "a".repeat(MAX_LENGTH), "undeclared reference"),
            ("a pattern that is large when compiled", "'a'.matches('((a{100}){100}){100}')".to_owned(), "too large"),
            (
                "a pattern with nested groups",
                format!("'a'.matches('{}')", "(".repeat(4000)),
                "invalid matches argument",
            ),
            ("a long pattern", format!("'a'.matches('{}')", "a".repeat(5000)), "longer than"),
            ("a long number", "1".repeat(MAX_LENGTH), "invalid int literal"),
        ];
        for (name, text, expected) in cases {
            let error = compile(&text).map(|_| ()).expect_err(name);
            assert!(error.contains(expected), "{name}: {error}");
        }
    });
}

#[test]
fn long_expressions_within_the_limits_are_evaluated() {
    with_small_stack(|| {
        let nesting = MAX_NESTING - 2;
        let cases = [
            ("nested brackets", format!("{}true{}", "(".repeat(nesting), ")".repeat(nesting))),
            ("nested lists", format!("{}1{}.size() == 1", "[".repeat(nesting - 1), "]".repeat(nesting - 1))),
            ("a chain of ||", format!("{}true", "false || ".repeat(1_100))),
            ("a chain of &&", format!("{}true", "true && ".repeat(1_250))),
            ("a sum", format!("{} == {}", vec!["1"; MAX_LEVELS - 2].join(" + "), MAX_LEVELS - 2)),
            ("signs", format!("{}true", "!".repeat(10_000))),
            ("a list", format!("7 in [{}7]", "1,".repeat(5_000))),
            (
                "constant conversions",
                format!("{}[{}7]{} != 7", "dyn(".repeat(nesting - 1), "1,".repeat(4_900), ")".repeat(nesting - 1)),
            ),
            ("nested macros", format!("{}true{}", "[1].all(x, ".repeat(nesting / 2 - 1), ")".repeat(nesting / 2 - 1))),
        ];
        for (name, text) in cases {
            assert_eq!(evaluate(&text, "{}", LIMIT).result, Ok(true), "{name}");
        }
    });
}

#[test]
fn expensive_evaluations_exceed_their_limit() {
    with_small_stack(|| {
        let numbers = format!(r#"{{"l":[{}0],"s":"{}"}}"#, "1,".repeat(20_000), "a".repeat(100_000));
        // A text that doubles in each of 30 nested macros.
        let doubled = (0..30).fold("'aaaaaaaaaa'".to_owned(), |text, _| format!("[{text}].map(x, x + x)[0]"));
        let cases = [
            ("nested macros", "self.l.all(a, self.l.all(b, a + b >= 0))".to_owned(), "self.l.all(b, a + b >= 0)"),
            ("a list in a macro", "self.l.all(a, !(5 in self.l))".to_owned(), ""),
            ("a text that doubles", format!("{doubled} == ''"), ""),
            ("a replacement", "self.s.replace('a', self.s) == ''".to_owned(), "self.s.replace('a', self.s)"),
            ("an empty replacement", "self.s.replace('', self.s) == ''".to_owned(), "self.s.replace('', self.s)"),
            ("a separator", "self.l.map(x, '').join(self.s) == ''".to_owned(), "self.l.map(x, '').join(self.s)"),
            ("a pattern", "self.l.all(a, !self.s.matches('a*b'))".to_owned(), ""),
            ("a pattern that is not a literal", "self.l.all(a, !self.s.matches('a*b' + string(a)))".to_owned(), ""),
            ("all matches", "self.l.all(a, self.s.findAll('a').size() > 0)".to_owned(), ""),
            ("a range", "lists.range(1000000000).size() > 0".to_owned(), "lists.range(1000000000)"),
            ("an index of a long list", "self.l.all(a, self.l[20000] == 0)".to_owned(), ""),
            ("the size of a long list", "self.l.all(a, self.l.size() > 0)".to_owned(), ""),
            ("the size of a long text", "self.l.all(a, self.s.size() > 0)".to_owned(), ""),
            ("lists that double", "self.l.all(a, (self.l + self.l).size() > 0)".to_owned(), ""),
            ("distinct", "lists.range(20000).distinct().size() > 0".to_owned(), ""),
            ("equality of long lists", "self.l.all(a, self.l == self.l)".to_owned(), ""),
            ("splitting", "self.l.all(a, self.s.split('').size() > 0)".to_owned(), ""),
            ("a format of a list", "self.l.all(a, '%s'.format([self.l]).size() > 0)".to_owned(), ""),
            (
                "a format of texts",
                format!("self.l.all(a, '{}'.format([{}'x']).size() > 0)", "%s".repeat(21), "self.s,".repeat(20)),
                "",
            ),
            ("sorting by a key", "self.l.all(a, self.l.sortBy(x, x).size() > 0)".to_owned(), ""),
            ("maps out of entries", "self.l.all(a, self.l.transformMapEntry(i, v, {i: v}).size() > 0)".to_owned(), ""),
            ("the last element", "self.l.all(a, self.l.last().hasValue())".to_owned(), ""),
            ("URLs", "self.l.all(a, !isURL(self.s))".to_owned(), ""),
            ("versions", "self.l.all(a, !isSemver(self.s))".to_owned(), ""),
            (
                "named formats",
                "self.l.all(a, format.dns1123Label().validate(self.s).hasValue())".to_owned(),
                "format.dns1123Label().validate(self.s)",
            ),
        ];
        for (name, text, part) in cases {
            let found = evaluate(&text, &numbers, LIMIT);
            let Err(EvaluationError::OverLimit { expression, limit: LIMIT }) = &found.result else {
                panic!("{name}: {found:?}");
            };
            let is_named = part.is_empty() || expression == part;
            assert!(is_named, "{name}: the error names {expression}");
        }
    });
}

#[test]
fn types_that_share_their_parts_stay_small() {
    with_small_stack(|| {
        // The type of each map has the one before twice, as that of its keys and of its values.
        let doubled = |element: &str| format!("[{element}]{}", ".map(a, {a: a})".repeat(45));
        for text in [
            format!("[{}, {}].size() == 2", doubled("1"), doubled("2")),
            format!("{} == {}", doubled("1"), doubled("2")),
            format!("sets.contains({}, {})", doubled("1"), doubled("2")),
            format!("(true ? {} : {}).size() == 1", doubled("1"), doubled("2")),
        ] {
            assert!(compile(&text).is_ok(), "{text}");
        }
        // Six levels are known.
        let six = format!("[1]{}", ".map(a, {a: a})".repeat(5));
        let error = compile(&format!("{six} == 'x'")).unwrap_err();
        assert!(error.contains("map(map(map(map(map(int, int)"), "{error}");
        let error = compile(&format!("{six}.map(a, 1 + size({}a))", "a, ".repeat(2_000))).unwrap_err();
        assert!(error.len() < 10_000 && error.contains(", ...)"), "{} bytes: {error}", error.len());
    });
}

#[test]
fn long_keys_are_not_repeated_for_each_reference() {
    let key = "😀".repeat(1_800);
    let text =
        format!("self.spec['{key}'].all(v, [{}v].all(w, [{}w].size() > 0))", "v, ".repeat(600), "w, ".repeat(80));
    let program = compile(&text).unwrap();
    // Collecting the paths of all references would take hundreds of megabytes.
    let error = program.check_cost(10).unwrap_err();
    assert_eq!(error.field, None, "a path of this length is of no use in an error");
    assert_eq!(program.unindexed(&Default::default(), 5), Vec::<String>::new());
    let short = compile("self.spec.items.all(v, self.spec.others.all(w, v.a == w.b)) && self.spec.last == 1").unwrap();
    assert_eq!(short.check_cost(10).unwrap_err().field.as_deref(), Some("$.spec.items[*].a"));
    assert_eq!(short.unindexed(&Default::default(), 2), ["$.spec.items[*].a", "$.spec.others[*].b"]);
}

#[test]
fn an_exceeded_limit_is_not_absorbed() {
    for text in ["self.l.all(a, a == 1) || true", "false && self.l.all(a, a == 1)", "true || self.l.all(a, a == 1)"] {
        let found = evaluate(text, r#"{"l":[1,1,1,1,1,1,1,1]}"#, 20).result;
        let is_decided_before = text.starts_with("false") || text.starts_with("true");
        assert_eq!(matches!(found, Err(EvaluationError::OverLimit { .. })), !is_decided_before, "{text}: {found:?}");
    }
}

#[test]
fn values_nested_deeply_are_compared_without_overflow() {
    with_small_stack(|| {
        let deep = format!(r#"{{"a":{}1{}}}"#, "[".repeat(5000), "]".repeat(5000));
        let found = evaluate("self.a == self.a", &deep, LIMIT).result;
        assert!(matches!(found, Err(EvaluationError::Failed(_))), "{found:?}");
        assert_eq!(evaluate("self.a.size() == 1", &deep, LIMIT).result, Ok(true));
        let found = evaluate("'%s'.format([self.a]) == ''", &deep, LIMIT).result;
        assert!(matches!(found, Err(EvaluationError::Failed(_))), "{found:?}");
    });
}

#[test]
fn objects_that_are_not_json_are_an_error() {
    for object in ["", "{", "[1", "nul", r#"{"a":"\q"}"#, "\u{1}"] {
        let found = evaluate("self.a == 'x'", object, LIMIT).result;
        assert!(matches!(found, Err(EvaluationError::Failed(_))), "{object}: {found:?}");
    }
}
