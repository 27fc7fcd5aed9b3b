//! Lists that arrive in chunks, cut anywhere; and parts of them without an end.

use bytes::Bytes;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof};
use proptest::{prop_assert_eq, proptest};

use crate::source::pages::{Page, PageEnd, PageError};
use crate::source::watch_decoder::list_page;

/// Reads a page that arrives in these chunks.
fn read<'c>(chunks: impl IntoIterator<Item = &'c [u8]>) -> Result<(Vec<Bytes>, PageEnd), PageError> {
    let (mut page, mut items) = (Page::default(), Vec::new());
    for chunk in chunks {
        page.push(Bytes::copy_from_slice(chunk));
        while let Some(item) = page.next_item()? {
            items.push(item);
        }
    }
    Ok((items, page.finish()?))
}

#[test]
fn broken_lists_are_rejected() {
    for text in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"items":[]}"#,
        r#"{"metadata":{"resourceVersion":"7"}}"#,
        r#"{"metadata":{"resourceVersion":"x"},"items":[]}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[{}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[{}]"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[{},]}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[,{}]}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[{}{}]}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[{}}]}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[}]}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items" []}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[]}}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[],"items":[{}]}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[]} {"#,
    ] {
        assert!(read([text.as_bytes()]).is_err(), "{text}");
    }
    let (items, end) = read([&br#"{"items":null,"metadata":{"resourceVersion":"7","continue":"t"}}"#[..]]).unwrap();
    assert_eq!((items.len(), end.version.number(), &*end.next), (0, 7, "t"));
}

#[test]
fn a_part_without_an_end_is_rejected() {
    let megabyte = |byte: u8| vec![byte; 1 << 20];
    let rows: [(&str, &str, Vec<u8>, usize); 6] = [
        ("an item that is a string", r#"{"items":[""#, megabyte(b'x'), 65),
        ("a text in an item", r#"{"items":[{"a":""#, megabyte(b'x'), 65),
        ("white space between items", r#"{"items":["#, megabyte(b' '), 2),
        ("the name of a member", r#"{""#, megabyte(b'x'), 2),
        ("metadata", r#"{"metadata":{"continue":""#, megabyte(b'x'), 2),
        ("white space around", "", megabyte(b' '), 2),
    ];
    for (what, begin, chunk, most) in rows {
        let mut page = Page::default();
        page.push(Bytes::copy_from_slice(begin.as_bytes()));
        assert_eq!(page.next_item(), Ok(None), "{what}");
        let chunk = Bytes::from(chunk);
        let ended = (0..most).find_map(|_| {
            page.push(chunk.clone());
            page.next_item().err()
        });
        assert!(matches!(ended, Some(PageError::TooLong { .. })), "{what}: {ended:?}");
    }
}

fn items() -> impl Strategy<Value = Vec<String>> {
    let item = prop_oneof![
        Just("{}".to_owned()),
        Just("[]".to_owned()),
        Just("null".to_owned()),
        Just("-1.5e3".to_owned()),
        Just(r#""a\\\"]},""#.to_owned()),
        Just(r#"{"items":[{"a":"]"},{"b":"\\"}],"metadata":{}}"#.to_owned()),
        (0usize..2_000).prop_map(|depth| format!("{}{}", "[".repeat(depth + 1), "]".repeat(depth + 1))),
        (1usize..2_000).prop_map(|depth| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth))),
    ];
    prop::collection::vec(item, 0..6)
}

proptest! {
    /// Whatever the cuts, the page is what it is as a whole.
    #[test]
    fn cuts_change_nothing(
        items in items(),
        gap in prop::sample::select(vec!["", " ", "\n\t"]),
        is_last in any::<bool>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let items = format!("{gap}\"items\"{gap}:{gap}[{gap}{}{gap}]", items.join(&format!("{gap},{gap}")));
        let metadata = r#""kind":"items","metadata":{"resourceVersion":"7","continue":"x\u0041"}"#;
        let (first, second) = if is_last { (metadata, &*items) } else { (&*items, metadata) };
        let text = format!("{{{first},{second}}}\n").into_bytes();
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len())).collect();
        places.sort_unstable();
        let (mut chunks, mut from) = (Vec::new(), 0);
        for place in places.into_iter().chain([text.len()]) {
            chunks.push(&text[from..place]);
            from = place;
        }
        let whole = list_page(&Bytes::copy_from_slice(&text)).unwrap();
        let (found, end) = read(chunks).unwrap();
        prop_assert_eq!(found, whole.items);
        prop_assert_eq!(end, PageEnd { version: whole.version, next: whole.next, remaining: whole.remaining });
    }
}
