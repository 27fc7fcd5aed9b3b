//! labelSelector: its grammar with every error text, and what it selects.

use super::super::case::{Case, get};
use super::super::dimension::{Dimension, product};

pub(crate) fn cases() -> Vec<Case> {
    let long_name = "n".repeat(64);
    let long_prefix = format!("{}.com/x", "p".repeat(260));
    let mut rows: Vec<(&str, &str)> = vec![
        ("equal", "app=shop"),
        ("equal, twice", "app==shop"),
        ("not equal, also without the key", "tier!=front"),
        ("in", "tier in (front,back)"),
        ("in with blanks", "  tier   in\t( front , back ) "),
        ("not in", "tier notin (front)"),
        ("exists", "tier"),
        ("does not exist", "!tier"),
        ("does not exist, blank", "! tier"),
        ("several", "app=shop,tier in (front,middle),!empty,rank"),
        ("contradiction", "app=shop,app=depot"),
        ("same twice", "app=shop,app=shop"),
        ("greater", "rank>9"),
        ("greater than a negative number", "rank>-6"),
        ("less", "rank<10"),
        ("less and greater", "rank<11,rank>9"),
        ("empty value", "empty="),
        ("not the empty value", "empty!="),
        ("in the empty set", "empty in ()"),
        ("in with an empty member", "tier in (front,,back)"),
        ("in with an empty end", "tier in (front,)"),
        ("in with two empty ends", "tier in (front,,)"),
        ("key with a prefix", "example.com/team=red"),
        ("in as key", "in in (in)"),
        ("notin as key", "notin=in"),
        ("empty selector", ""),
        ("blanks alone", "   "),
        ("value in upper case", "app=SHOP"),
        ("number as value", "rank=10"),
        ("key of one digit", "1=1"),
        ("error: trailing comma", "app=shop,"),
        ("error: leading comma", ",app=shop"),
        ("error: doubled comma", "app=shop,,tier"),
        ("error: comma alone", ","),
        ("error: no operator", "app shop"),
        ("error: after the value", "app=shop tier=front"),
        ("error: open parenthesis", "tier in (front"),
        ("error: no parenthesis", "tier in front"),
        ("error: in without a set", "tier in"),
        ("error: parenthesis alone", "("),
        ("error: equals in a set", "tier in (=)"),
        ("error: three equals", "app===shop"),
        ("error: value twice", "app=shop=shop"),
        ("error: operator alone", "=shop"),
        ("error: not alone", "!"),
        ("error: not with an operator", "!app=shop"),
        ("error: bad key", "-bad=x"),
        ("error: bad key exists", "bad_"),
        ("error: bad value", "app=-bad"),
        ("error: bad member", "tier in (ok,-bad)"),
        ("error: blank within a value", "app=a b"),
        ("error: unicode key", "größe=x"),
        ("error: unicode value", "app=größe"),
        ("error: bad prefix", "Example.COM/x=y"),
        ("error: empty prefix", "/x=y"),
        ("error: two slashes", "a/b/c=y"),
        ("error: empty name", "example.com/=y"),
        ("error: greater than no number", "rank>ten"),
        ("error: greater than nothing", "rank>"),
        ("error: greater than too much", "rank>99999999999999999999"),
        ("error: greater or equal", "rank>=5"),
        ("error: not with tilde", "app~shop"),
        ("error: brackets", "app=[shop]"),
        ("error: apostrophes", "app='shop'"),
        ("other blanks", "app\n=\rshop"),
        ("no-break blank", "app\u{a0}=shop"),
        ("blanks around operators", "app  ==  shop , ! empty"),
        ("in without blanks", "tier in(front)"),
        ("notin without members", "tier notin ()"),
        ("value that is an operator", "app=in"),
        ("value twice in a set", "tier in (front,front)"),
        ("error: key alone after not", "!a b"),
        ("error: not in a set", "tier in (!front)"),
        ("error: set of sets", "tier in ((front))"),
        ("error: in with an operator", "tier in =front"),
        ("error: closing parenthesis", "tier)"),
        ("error: set without a comma", "tier in (front back)"),
        ("error: greater than two", "rank>1,2"),
        ("error: equals and a set", "tier=(front)"),
        ("error: key of dots", "..=x"),
        ("error: nothing but a comma and a blank", " , "),
        ("error: zero byte", "app=\0"),
    ];
    let long_value = format!("app={}", "v".repeat(64));
    let fitting_value = format!("app={}", "v".repeat(63));
    let long_key = format!("{long_name}=x");
    rows.push(("error: key too long", &long_key));
    rows.push(("error: value too long", &long_value));
    rows.push(("longest value", &fitting_value));
    let long_prefix = format!("{long_prefix}=y");
    rows.push(("error: prefix too long", &long_prefix));
    let selectors: Vec<(&str, Option<&str>)> =
        rows.into_iter().map(|(what, selector)| (what, Some(selector))).collect();
    let mut cases = product(
        "label",
        &[
            Dimension::paths("of", [("shirts", super::SHIRTS), ("pods", "/api/v1/namespaces/work/pods")]),
            Dimension::values("labelSelector", selectors),
        ],
    );
    // What an operator does to every kind of value, also those no label of the suite has.
    let keys = ["app", "rank", "empty", "nothing"];
    let operators = ["=", "!=", " in ", " notin ", ">", "<"];
    let values = ["shop", "10", "", "-1"];
    let mut selectors = Vec::new();
    for key in keys {
        for operator in operators {
            for value in values {
                let value = if operator.ends_with("in ") { format!("({value})") } else { value.to_owned() };
                selectors.push(format!("{key}{operator}{value}"));
            }
        }
    }
    cases.extend(product(
        "label operator",
        &[
            Dimension::paths("", [("shirts", super::SHIRTS)]),
            Dimension::values("labelSelector", selectors.iter().map(|selector| (&**selector, Some(&**selector)))),
        ],
    ));
    cases.extend(
        [
            ("on a built-in", "/api/v1/pods?labelSelector=app%20in%20%28web%2Chost%29"),
            ("cluster-scoped", "/apis/shop.example.com/v1/banners?labelSelector=side%3Dl"),
            ("plus is a blank", "/apis/shop.example.com/v1/shirts?labelSelector=tier+in+(front)"),
            ("bad escape in the query", "/apis/shop.example.com/v1/shirts?labelSelector=a%zz"),
            ("of an unknown namespace", "/apis/shop.example.com/v1/namespaces/nowhere/shirts?labelSelector=app"),
        ]
        .map(|(what, path)| get(&format!("label path/{what}"), path)),
    );
    cases
}
