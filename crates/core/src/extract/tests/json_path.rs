//! Templates of printer columns. `e2e/tests/it/printers/json_path.rs` compares thousands of random ones with client-go.

use serde_json::{Value, json};

use crate::crd::Crd;
use crate::extract::Prune;
use crate::extract::json_path::search::{FoundValue, Search};
use crate::extract::json_path::{InvalidTemplate, JsonPath, Literal, unreadable_columns};
use crate::json::tree::Tree;
use fieldcache_testing::nested::{MAX_LEVELS, Nested, Nesting, on_worker_stack};

/// The first result as JSON; `None` when there is none.
fn first(path: &str, object: &str) -> Option<Value> {
    let tree = Tree::read(object.as_bytes()).unwrap();
    let path = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    match Search::new(&tree).first(&path)? {
        FoundValue::Node(id) => Some(serde_json::from_slice(tree.bytes(id)).unwrap()),
        FoundValue::Literal(Literal::Text(text)) => Some(json!({"text": String::from_utf8_lossy(text)})),
        FoundValue::Literal(Literal::Int(int)) => Some(json!({"int": int})),
        FoundValue::Literal(Literal::Float(float)) => Some(json!({"float": float})),
        FoundValue::Literal(Literal::Bool(bool)) => Some(json!({"bool": bool})),
        FoundValue::Byte(byte) => Some(json!({"byte": byte})),
    }
}

fn object() -> String {
    json!({
        "spec": {
            "color": "blue", "n": null, "empty": [], "dotted.name": "d", "it": {"a": 1}, "": "nameless",
            "list": [{"a": 1, "t": "x"}, {"a": 2}, {"a": 3, "t": "y"}],
            "mixed": [{"v": 1}, {"v": "1"}, {"v": 1.5}, {"v": null}, {"v": [1]}],
            "deep": {"a": {"name": "first", "b": {"name": "second"}}, "list": [{"name": "third"}]},
        },
        "status": {"conditions": [
            {"type": "Synced", "status": "False"}, {"type": "Ready", "status": "True", "n": 3}]},
    })
    .to_string()
}

#[test]
fn paths_find_what_client_go_finds() {
    let object = object();
    let found = |value: Value| Some(value);
    for (path, expected, why) in [
        (".spec.color", found(json!("blue")), "names"),
        ("$.spec.color", found(json!("blue")), "the current object"),
        ("@ .spec .color", found(json!("blue")), "spaces"),
        ("spec.color", None, "a word without meaning"),
        ("", found(serde_json::from_str(&object).unwrap()), "the object itself"),
        (".", None, "a name that is empty"),
        (".spec.", found(json!("nameless")), "a name that is empty"),
        (".spec.nope", None, "absent"),
        (".spec.color.deeper", None, "in a text"),
        (".spec['color']", found(json!("blue")), "quoted"),
        (".spec.dotted\\.name", found(json!("d")), "escaped"),
        (".spec['dotted\\.name']", found(json!("d")), "quoted and escaped"),
        (".spec['dotted.name']", None, "quotes hide no dot"),
        (".spec['it.a']", found(json!(1)), "quotes hide no dot"),
        (".spec['*']", found(json!("nameless")), "quotes hide no asterisk"),
        (".spec.list[1].a", found(json!(2)), "an index"),
        (".spec.list[-1].a", found(json!(3)), "an index from the end"),
        (".spec.list[].a", found(json!(1)), "no index is the first"),
        (".spec.list[5].a", None, "out of bounds"),
        (".spec.list[-4].a", None, "out of bounds"),
        (".spec.empty[0]", None, "out of bounds"),
        (".spec.empty[*]", None, "empty"),
        (".spec.list[*].a", found(json!(1)), "all"),
        (".spec.list[-1:].a", found(json!(3)), "the last"),
        (".spec.list[-2:].a", found(json!(2)), "the last two"),
        (".spec.list[1:2].a", found(json!(2)), "a slice"),
        (".spec.list[:2].a", found(json!(1)), "a slice"),
        (".spec.list[:9].a", None, "too long a slice"),
        (".spec.list[2:1].a", None, "backwards"),
        (".spec.list[1:1].a", None, "none"),
        (".spec.list[::2].t", found(json!("x")), "every second"),
        (".spec.list[1::2].a", found(json!(2)), "every second from"),
        (".spec.list[::-1].a", None, "backwards"),
        (".spec.list[::0].a", None, "no step"),
        (".spec.list[2,0].a", found(json!(3)), "a union"),
        (".spec.list[9,0].a", None, "a union with an error"),
        (".spec['nope','color']", found(json!("blue")), "a union of names"),
        (".spec.list[-1, 0]['t', 'a']", found(json!("y")), "two unions"),
        ("..name", found(json!("first")), "descent, objects before what is in them"),
        (".spec.deep..name", found(json!("first")), "descent below"),
        (".spec..list[0].a", Some(json!(1)), "descent to lists, one of which has something else"),
        (".spec.deep..list[0].name", found(json!("third")), "descent to lists"),
        (".spec.deep...name", found(json!("first")), "three dots are two"),
        (".spec.deep..['name']", found(json!("first")), "descent to quoted names"),
        (".spec.it.*", found(json!(1)), "any member"),
        (".spec.color.*", found(json!({"byte": 98})), "bytes of a text"),
        (".spec.n[0]", None, "null has no elements"),
        (".spec.color[0]", None, "a text has no elements"),
        (".status.conditions[?(@.type==\"Ready\")].status", found(json!("True")), "a filter"),
        (".status.conditions[?(@.type=='Ready')].status", found(json!("True")), "a filter"),
        (".status.conditions[?(@.type != 'Synced')].n", found(json!(3)), "a filter"),
        (".status.conditions[?(@.n==3)].type", found(json!("Ready")), "of integers"),
        (".status.conditions[?(@.n)].type", found(json!("Ready")), "of presence"),
        (".status.conditions[?('Ready'==@.type)].n", found(json!(3)), "the other way round"),
        (".status.conditions[?(@.type==\"Nope\")].status", None, "no element passes"),
        (".spec.list[?(@.a>1)].a", found(json!(2)), "order"),
        (".spec.list[?(@.a>=@.a)].a", found(json!(1)), "two paths"),
        (".spec.list[?(@.a==1.0)].a", None, "an integer with a fraction"),
        (".spec.list[?(@.a==\"1\")].a", None, "an integer with a text"),
        (".spec.list[?(@.t==\"x\")].a", found(json!(1)), "elements without the member are skipped"),
        (".spec.list[?(@.a=1)].a", None, "no operator"),
        (".spec.list[?(@.nope=1)].a", None, "no operator, not noticed"),
        (".spec.list[?(nope)].a", found(json!(1)), "presence hides errors: what came into the step is there"),
        (".spec.list[?(@[7])].a", found(json!(1)), "presence hides errors: what came into the step is there"),
        (".spec.list[?(end)].a", None, "presence hides errors: end leaves nothing"),
        (".spec.mixed[?(@.v==1)].v", None, "one that cannot be compared"),
        (".spec.it[?(@.a==1)]", None, "no list"),
        (".spec.n[?(@.a==1)]", None, "null is no list for a filter"),
        (".spec.n[?(@.a==1)].x}{.spec.color", None, "of the first template"),
        (".spec.color}{.spec.n", found(json!("blue")), "of the first template"),
        (".spec.color} and {.spec.empty[3]", None, "an error in the second"),
        (".spec.color}}", found(json!("blue")), "text behind"),
        ("'a\\'b\\n'", found(json!({"text": "a'b\n"})), "text"),
        ("\"\\u00e9\\x41\\101\"", found(json!({"text": "éAA"})), "escapes"),
        (".spec.list[*].a 7", found(json!({"int": 7})), "one for each"),
        (".nope 7", None, "one for each"),
        (".nope 'a'", found(json!({"text": "a"})), "text is always there"),
        ("-1.5", found(json!({"float": -1.5})), "a float"),
        ("99999999999999999999", found(json!({"float": 1e20})), "a long integer"),
        ("true", found(json!({"bool": true})), "a boolean"),
        ("range .spec.list[*]}{.a}{end", None, "depends on the past"),
        (".spec.list[?(range)]", None, "depends on the past"),
        (".spec.empty[?(range)]", None, "nothing to follow it for"),
        (".spec.list[0:0][?(nope==1)].a}{.spec.color", None, "nothing found is no error"),
    ] {
        assert_eq!(first(path, &object), expected, "{path}: {why}");
    }
}

#[test]
fn malformed_templates_are_rejected_with_a_reason() {
    let index = |text: &str| InvalidTemplate::Index(text.to_owned());
    for (path, expected) in [
        (".a[0", InvalidTemplate::Bracket),
        (".a['b'", InvalidTemplate::Bracket),
        (".a[0\n]", InvalidTemplate::Bracket),
        (".a[\"b\"]", index("\"b\"")),
        (".a[x]", index("x")),
        (".a[-]", index("-")),
        (".a[+1]", index("+1")),
        (".a[ 1 ]", index(" 1 ")),
        (".a[1:2:3:4]", index("1:2:3:4")),
        (".a[99999999999999999999]", index("99999999999999999999")),
        (".a[1,x]", index("x")),
        (".a[1,]..b....c", InvalidTemplate::Recursive),
        ("..*", InvalidTemplate::Letter('*')),
        (".a*b|", InvalidTemplate::Action),
        ("*", InvalidTemplate::Letter('*')),
        (".a,b", InvalidTemplate::Letter(',')),
        (".a\n", InvalidTemplate::Action),
        (".a}{.b\\", InvalidTemplate::Action),
        (".a[?(@.b]", InvalidTemplate::Filter),
        (".a[?(@.b)", InvalidTemplate::Filter),
        (".a[?(@.b==')].c", InvalidTemplate::Filter),
        (".a[?(@.b=~'c')]", InvalidTemplate::Letter('~')),
        (".a[?(==1)]", InvalidTemplate::Letter('=')),
        (".a[?(@.b==)]", InvalidTemplate::Letter('=')),
        (".a[?(@[?(@.b)])]", InvalidTemplate::Filter),
        ("'a", InvalidTemplate::Quote),
        ("'a\\'", InvalidTemplate::Quote),
        ("'\\q'", InvalidTemplate::Escape),
        ("'\\\"'", InvalidTemplate::Escape),
        ("'\\ud800'", InvalidTemplate::Escape),
        ("'\\400'", InvalidTemplate::Escape),
        ("1.2.3", InvalidTemplate::Number("1.2.3".to_owned())),
        ("+", InvalidTemplate::Number("+".to_owned())),
    ] {
        match JsonPath::parse(path) {
            // Characters without meaning are part of a name.
            Ok(_) => assert_eq!((path, &expected), (".a*b|", &InvalidTemplate::Action)),
            Err(found) => assert_eq!(found, expected, "{path}"),
        }
    }
}

#[test]
fn columns_that_are_not_shown_are_named() {
    let version = |name: &str, paths: &[&str]| {
        let column = |path: &&str| json!({ "name": "x", "type": "string", "jsonPath": path });
        json!({
            "name": name, "served": true, "storage": name == "v1",
            "additionalPrinterColumns": paths.iter().map(column).collect::<Vec<Value>>(),
        })
    };
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "shirts.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "shirts", "kind": "Shirt" },
            "versions": [version("v1", &[".a", "..b", ".c[0:1]"]), version("v2", &[".a", ".b[", ".c["])],
        },
    });
    assert_eq!(
        unreadable_columns(&Crd::read(&crd).unwrap()),
        [
            "spec.versions[1].additionalPrinterColumns[1].jsonPath: \".b[\": a bracket is not closed; as on the API server, this \
          column and those after it are not shown"
        ]
    );
}

#[test]
fn filters_in_filters_are_read_to_a_bound() {
    for levels in [2, 8, 10, 1_000, 100_000] {
        for (open, close) in [
            ("[?(@", "==1)]"),
            ("[?(@.a\"", ".\")]"),
            ("[?(@.a\"[?(@.b'", ".')].\")]"),
            ("[", "]"),
            ("..a", "[0]"),
            ("[0,", "]"),
        ] {
            let path = format!(".a{}.b{}", open.repeat(levels), close.repeat(levels));
            let found = on_worker_stack(|| {
                JsonPath::parse(&path).map(|path| {
                    let tree = Tree::read(b"{\"a\":[1,{\"b\":1}]}").unwrap();
                    Search::new(&tree).first(&path).is_some()
                })
            });
            assert_ne!(found, Ok(true), "{levels} of {open}");
        }
    }
    let twice = ".l[?(@.a\"[?(@.b'c)'.d)].\")].e";
    assert!(JsonPath::parse(twice).is_ok(), "quotes make it possible");
}

#[test]
fn descents_take_objects_of_any_depth_and_bounded_work() {
    for shape in [Nesting::Lists, Nesting::Maps, Nesting::Mixed(vec![true, false])] {
        let nested = Nested { leaf: "{\"name\":\"x\"}", ..Nested::new(MAX_LEVELS - 1, shape.clone()) }.text();
        let found = on_worker_stack(|| (first("..name", &nested), first("..a..a..a..name", &nested)));
        assert_eq!(found.0, Some(json!("x")), "{shape:?}");
        if shape != Nesting::Lists {
            assert_eq!(found.1, None, "{shape:?}: too much work");
        }
    }
    let (long, wide) =
        (format!("[{}0]", "[0],".repeat(200_000)), format!("{{\"a\":[{}{{\"t\":1}}]}}", "{\"t\":0},".repeat(150_000)));
    for (path, object, expected) in [
        ("[*]", &long, Some(json!([0]))),
        ("..[0]", &long, Some(json!([0]))),
        ("[0:][0]", &long, None),
        (&"[0:,0:]".repeat(64), &long, None),
        (&format!("'{}'.*", "a".repeat(1_000_000)), &long, None),
        (".a[?(@.t==1)].t", &wide, Some(json!(1))),
        ("..t", &wide, Some(json!(0))),
        (".a[*]..t..t..t", &wide, None),
    ] {
        assert_eq!(on_worker_stack(|| first(path, object)), expected, "{path:.40}");
    }
    // Columns that search a long list.
    let tree = Tree::read(wide.as_bytes()).unwrap();
    let mut search = Search::new(&tree);
    let path = JsonPath::parse(".a[?(@.t==1)].t").unwrap();
    let found = (0..40).take_while(|_| search.first(&path).is_some()).count();
    assert!((10..40).contains(&found), "{found}");
}

#[test]
fn a_search_that_takes_too_long_ends() {
    // Everything is found twice.
    let json = json!(vec![vec![vec![1; 40]; 40]; 40]).to_string();
    let tree = Tree::read(json.as_bytes()).unwrap();
    let parsed = |path: &str| JsonPath::parse(path).unwrap();
    let path = parsed("[0:,0:][*][*]");
    let mut search = Search::new(&tree);
    assert!(search.first(&path).is_some());
    for _ in 0..1_000 {
        search.first(&path);
    }
    assert!(search.left() < 500_000, "{}", search.left());
    assert!(search.first(&path).is_none(), "cells beyond are empty");
    let mut usual = Search::new(&tree);
    let all = usual.left();
    for _ in 0..20 {
        assert!(usual.first(&parsed("[39][39][39]")).is_some());
    }
    assert!(usual.left() > all - all / 10, "usual columns are far from the bound");
}

#[test]
fn a_long_text_that_is_compared_very_often_ends_the_search() {
    let doubled = |times: usize| format!(".a{}[?(@==@)]", "[0,0]".repeat(times));
    for (what, text, times, is_found) in [
        ("escapes", "\\n".repeat(40_000), 8, false),
        ("a text without escapes", "x".repeat(160_000), 11, false),
        ("few comparisons", "\\n".repeat(40_000), 2, true),
        ("short texts", "x".to_owned(), 8, true),
    ] {
        let object = format!(r#"{{"a":{}"{text}"{}}}"#, "[".repeat(times + 1), "]".repeat(times + 1));
        let tree = Tree::read(object.as_bytes()).unwrap();
        let path = JsonPath::parse(&doubled(times)).unwrap();
        let found = Search::new(&tree).first(&path);
        assert_eq!(found.is_some(), is_found, "{what}");
    }
}

/// Every element that a filter tests counts, whether it passes or not, and however little is compared.
#[test]
fn every_test_of_an_element_counts_among_the_visits() {
    let object = format!(r#"{{"a":[[[{}]]]}}"#, vec!["0"; 1_000].join(","));
    let tree = Tree::read(object.as_bytes()).unwrap();
    for filter in ["@<@", "@>1", "@.x", "@.x==1", "1<0", "@"] {
        let path = JsonPath::parse(&format!(".a[0,0][0,0][?({filter})]")).unwrap();
        let mut search = Search::new(&tree);
        let before = search.left();
        search.first(&path);
        let visits = before - search.left();
        assert!(visits >= 4_000 * 2, "{filter}: {visits} visits for 4,000 tests");
    }
    let deep = format!(r#"{{"a":{}{}{}}}"#, "[".repeat(17), vec!["0"; 1_000].join(","), "]".repeat(17));
    let tree = Tree::read(deep.as_bytes()).unwrap();
    let path = JsonPath::parse(&format!(".a{}[?(@<@)]", "[0,0]".repeat(16))).unwrap();
    let mut search = Search::new(&tree);
    search.first(&path);
    assert!(search.left() < 4, "65 million tests end the search: {} visits are left", search.left());
}

/// Long names and literals are compared as often as there are ways to a value.
#[test]
fn long_names_and_literals_count_among_the_visits() {
    let long = "n".repeat(60_000);
    let escaped = "\\n".repeat(60_000);
    // The bound of visits grows with the object.
    let padding = "x".repeat(300_000);
    let nested = |inner: &str| format!(r#"{{"a":{}{inner}{},"b":"{padding}"}}"#, "[".repeat(13), "]".repeat(13));
    let doubled = |last: &str| format!(".a{}{last}", "[0,0]".repeat(13));
    for (what, object, path) in [
        ("a name", nested(&format!(r#"{{"{long}x":1}}"#)), doubled(&format!(".{long}"))),
        ("an escaped name", nested(&format!(r#"{{"{escaped}x":1}}"#)), doubled(&format!("['{}']", long))),
        ("literals", nested("[0]"), doubled(&format!("[?(\"{long}a\"==\"{long}b\")]"))),
    ] {
        let tree = Tree::read(object.as_bytes()).unwrap();
        let path = JsonPath::parse(&path).unwrap();
        assert_eq!(path.ways_if_cheap(), None, "{what}");
        let mut search = Search::new(&tree);
        let before = search.left();
        search.first(&path);
        let (visits, ways) = (before - search.left(), 1 << 13);
        assert!(visits > ways * 100 || search.left() < 10_000, "{what}: {visits} visits");
    }
}

#[test]
fn usual_paths_are_cheap() {
    for path in [
        ".spec.color",
        ".metadata.annotations['example.com/key']",
        ".status.conditions[?(@.type==\"Ready\")].status",
        ".status.conditions[?(@.type=='Ready')].lastTransitionTime",
        ".spec.ports[*].port",
        ".status.addresses[0].address",
        ".spec['a','b']",
        ".spec.rules[*].http.paths[*].backend",
    ] {
        assert!(JsonPath::parse(path).unwrap().ways_if_cheap().is_some(), "{path}");
    }
    for path in ["..name", ".a[0,0][0,0][0,0]", ".a[?(@..b)]", ".a['a','b','c','d','e']"] {
        assert_eq!(JsonPath::parse(path).unwrap().ways_if_cheap(), None, "{path}");
    }
}

#[test]
fn a_path_reads_pruned_parts_wherever_they_are_in_it() {
    let prune = Prune::new([".spec.secret", ".status.conditions.reason", ".deep.a.b"]).unwrap();
    for (path, expected) in [
        (".spec", false),
        (".spec.color", false),
        (".spec.secret", true),
        (".spec.secret.deep", true),
        ("$.spec['secret']", true),
        (".spec['secret.deep']", true),
        (".spec['color','secret']", true),
        (".spec['color','size']", false),
        (".spec.*", true),
        (".spec.*.x", true),
        (".spec[*].x", false),
        (".spec[*].secret", true),
        (".spec[0,1].secret", true),
        (".metadata.*", false),
        (".metadata.*.*", true),
        (".metadata.name.*", false),
        (".status.conditions[0].reason", true),
        (".status.conditions[-1:].reason", true),
        (".status.conditions[-1:].type", false),
        (".status.conditions[*].reason", true),
        (".status.conditions[?(@.type==\"Ready\")].status", false),
        (".status.conditions[?(@.type==\"Ready\")].reason", true),
        (".status.conditions[?(@.reason==\"Lost\")].status", true),
        (".status.conditions[?('Lost'==@.reason)].status", true),
        (".status.conditions[?(@.reason)].status", true),
        (".status.conditions[?(@.reason=1)].status", true),
        (".status.conditions.*.type", true),
        (".deep.*.b", true),
        (".deep.*.c", false),
        (".deep.*.*", true),
        (".deep..c", true),
        (".deep.c..d", false),
        ("..secret", true),
        ("..", true),
        (".spec.color}{.spec.secret", true),
        (".spec.color}{.spec.size", false),
        ("'text'", false),
        ("'text'..", false),
    ] {
        let path = JsonPath::parse(path).unwrap();
        assert_eq!(path.reads_pruned(&prune), expected, "{path:?}");
        assert!(!path.reads_pruned(&Prune::default()), "nothing is left out: {path:?}");
    }
    let kept = Prune::with_kept([".spec.size"], [".spec", ".status.conditions.type"]).unwrap();
    for (path, expected) in [
        (".spec.color", false),
        (".spec.size", true),
        (".spec.*", true),
        (".metadata.name", false),
        (".metadata.creationTimestamp", true),
        (".metadata.*", true),
        (".status.phase", true),
        (".status.conditions[*].type", false),
        (".status.conditions[0].status", true),
        (".status.conditions[?(@.status==\"True\")].type", true),
        (".status.conditions.*", true),
        ("..type", true),
        (".other", true),
    ] {
        assert_eq!(JsonPath::parse(path).unwrap().reads_pruned(&kept), expected, "with kept paths: {path:?}");
    }
    let many = JsonPath::parse(&".*['a','b']".repeat(1_000)).unwrap();
    assert!(many.reads_pruned(&prune));
}
