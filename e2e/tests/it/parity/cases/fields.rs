//! fieldSelector on custom resources: grammar, escapes, values, versions, scopes.

use super::super::case::{Case, get};
use super::super::dimension::{Dimension, escape, product};

pub(crate) fn cases() -> Vec<Case> {
    let shirts = "/apis/shop.example.com/v1/shirts";
    let namespaced = "/apis/shop.example.com/v1/namespaces/a/shirts";
    let other = "/apis/shop.example.com/v1beta1/shirts";
    let banners = "/apis/shop.example.com/v1/banners";
    let rows: Vec<(&str, &str, &str)> = vec![
        ("string", shirts, "spec.color=blue"),
        ("string, twice equal", shirts, "spec.color==blue"),
        ("string, case matters", shirts, "spec.color=Blue"),
        ("not equal, also when missing", shirts, "spec.color!=blue"),
        ("integer", shirts, "spec.quantity=2"),
        ("integer zero", shirts, "spec.quantity=0"),
        ("integer, another text", shirts, "spec.quantity=02"),
        ("integer, large", shirts, "spec.quantity=12345678"),
        ("integer, missing", shirts, "spec.quantity="),
        ("boolean", shirts, "spec.branded=true"),
        ("boolean false is not missing", shirts, "spec.branded=false"),
        ("boolean missing", shirts, "spec.branded="),
        ("boolean, another text", shirts, "spec.branded=True"),
        ("missing or empty", shirts, "spec.note="),
        ("neither missing nor empty", shirts, "spec.note!="),
        ("several", shirts, "spec.color=blue,spec.quantity=2"),
        ("contradiction", shirts, "spec.color=blue,spec.color=green"),
        ("same twice", shirts, "spec.color=blue,spec.color=blue"),
        ("escapes", shirts, r"spec.color=a\,b\=c\\d"),
        ("escapes, not equal", shirts, r"spec.color!=a\,b\=c\\d"),
        ("a value of every kind of character", shirts, "spec.color=red <&> \u{2028}"),
        ("leading blank of a value", shirts, "spec.color= blue"),
        ("empty terms", shirts, "spec.color=blue,,"),
        ("comma alone", shirts, ","),
        ("equals alone", shirts, "="),
        ("empty", shirts, ""),
        ("metadata.name", shirts, "metadata.name=x"),
        ("metadata.name, twice equal", shirts, "metadata.name==x-y"),
        ("metadata.name, not", shirts, "metadata.name!=x"),
        ("metadata.name, contradiction", shirts, "metadata.name=x,metadata.name=x-y"),
        ("metadata.name, same twice", shirts, "metadata.name=x,metadata.name=x"),
        ("metadata.name with a slash", shirts, "metadata.name=a/b"),
        ("metadata.name empty", shirts, "metadata.name="),
        ("metadata.namespace", shirts, "metadata.namespace=a-b"),
        ("metadata.namespace, not", shirts, "metadata.namespace!=a"),
        ("both names", shirts, "metadata.namespace=a,metadata.name=x"),
        ("in a namespace, its own", namespaced, "metadata.namespace=a"),
        ("in a namespace, another", namespaced, "metadata.namespace=ab"),
        ("in a namespace, by name", namespaced, "metadata.name=x.y"),
        ("in a namespace, by name and field", namespaced, "metadata.name=x,spec.color=green"),
        ("in a namespace, by absent name", namespaced, "metadata.name=no"),
        ("in a namespace, name that is none", namespaced, "metadata.name=.."),
        ("other version, shared field", other, "spec.color=blue"),
        ("other version, its own field", other, "spec.size=S"),
        ("other version, its own field, default", other, "spec.size=M"),
        ("error: field of the other version", shirts, "spec.size=S"),
        ("error: other version, field not there", other, "spec.quantity=2"),
        ("cluster-scoped", banners, "spec.text=sale"),
        ("cluster-scoped, empty", banners, "spec.text="),
        ("cluster-scoped, by name", banners, "metadata.name=left"),
        ("error: cluster-scoped, namespace", banners, "metadata.namespace=a"),
        ("error: unknown field", shirts, "spec.nope=x"),
        ("error: unknown field, leading dot", shirts, ".spec.color=blue"),
        ("error: unknown field first in text order", shirts, "zz=1,aa=2"),
        ("error: leading blank of a field", shirts, " spec.color=blue"),
        ("error: trailing blank of a field", shirts, "spec.color =blue"),
        ("error: blank after a comma", shirts, "spec.color=blue, spec.quantity=2"),
        // What fieldcache reads otherwise is tested in `operators`.
        ("error: no operator", shirts, "spec.color blue"),
        ("error: no operator, second term", shirts, "spec.color=blue,spec.note x"),
        ("error: not", shirts, "!spec.color x"),
        ("error: in", shirts, "spec.color in blue"),
        ("error: a word", shirts, "spec.quantity exists"),
        ("error: three equals", shirts, "spec.color===blue"),
        ("error: equals in a value", shirts, "spec.color=a=b"),
        ("error: bad escape", shirts, r"spec.color=a\b"),
        ("error: escape at the end", shirts, r"spec.color=a\"),
        ("error: empty label", shirts, "=blue"),
        ("error: empty label, not", shirts, "!=blue"),
        ("error: metadata.labels", shirts, "metadata.labels=x"),
        ("error: metadata.uid", shirts, "metadata.uid=x"),
        ("error: a parent of a field", shirts, "spec=x"),
    ];
    let mut cases: Vec<Case> = rows
        .into_iter()
        .map(|(what, collection, selector)| {
            get(&format!("field/{what}"), &format!("{collection}?fieldSelector={}", escape(selector)))
        })
        .collect();
    // Every kind of field with every kind of value by every operator.
    let fields = ["spec.color", "spec.quantity", "spec.branded", "spec.note", "metadata.name", "metadata.namespace"];
    let values = ["", "2", "true", "blue", "x", "a", r"a\,b"];
    let mut selectors = Vec::new();
    for field in fields {
        for operator in ["=", "==", "!="] {
            selectors.extend(values.iter().map(|value| format!("{field}{operator}{value}")));
        }
    }
    cases.extend(product(
        "field operator",
        &[
            Dimension::paths("of", [("a namespace", namespaced)]),
            Dimension::values("fieldSelector", selectors.iter().map(|selector| (&**selector, Some(&**selector)))),
        ],
    ));
    cases.extend(product(
        "field grammar",
        &[
            Dimension::paths("of", [("shirts", shirts), ("banners", banners), ("pods", "/api/v1/pods")]),
            Dimension::values(
                "fieldSelector",
                [
                    ",",
                    ",,",
                    "=",
                    "==",
                    "!=",
                    "!",
                    "a b",
                    "a=b=c",
                    "metadata.name=a\\",
                    r"metadata.name=a\b",
                    "metadata.name a",
                    "metadata.name ~ a",
                    " metadata.name=a",
                    "metadata.name =a",
                    "metadata.name= a",
                    "metadata.name=a,",
                    ",metadata.name=a",
                    "metadata.name=a,metadata.name!=a",
                    "metadata.name=a;b",
                    "metadata.name in a",
                    "metadata.name===a",
                    "metadata.name!==a",
                    "metadata.name=a!=b",
                    "Metadata.name=a",
                    "metadata.name=\u{e9}",
                    "metadata.labels=a",
                    "metadata.uid=a",
                    "name=a",
                    "kind=a",
                    "spec=a",
                    "nope=1,also=2",
                ]
                .map(|selector| (selector, Some(selector))),
            ),
        ],
    ));
    cases.extend([
        get(
            "field path/with a label selector",
            "/apis/shop.example.com/v1/shirts?fieldSelector=spec.color%3Dblue&labelSelector=tier%3Dback",
        ),
        get(
            "field path/in a namespace with a label selector",
            "/apis/shop.example.com/v1/namespaces/ab/shirts?fieldSelector=spec.branded%3Dtrue&labelSelector=app",
        ),
        get(
            "field path/from version 0",
            "/apis/shop.example.com/v1/shirts?fieldSelector=spec.color%3Dblue&resourceVersion=0",
        ),
        get(
            "field path/unknown, from a version in the future",
            "/apis/shop.example.com/v1/shirts?fieldSelector=spec.nope%3Dblue&resourceVersion={future}",
        ),
    ]);
    cases
}
