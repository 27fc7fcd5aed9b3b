//! Which clients take part, each with a selection of its own.

use e2e::clients::Toolkit;

use e2e::selection::Selection;
use e2e::workload::{NAMESPACES, Resource};

use super::GROUP;

/// How kube-rs gets its initial state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    ListWatch,
    StreamingList,
}

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Program {
    /// The test's own loop, without selection.
    Raw,
    /// kube-rs, within the test.
    KubeRs(Strategy),
    /// A program of `e2e/clients`.
    Process {
        toolkit: Toolkit,
        arguments: &'static [&'static str],
        environment: &'static [(&'static str, &'static str)],
    },
}

/// One client.
#[derive(Debug, Clone)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) program: Program,
    pub(crate) resource: Resource,
    pub(crate) selection: Selection,
    /// Whether its watches are short, so that it resumes many times.
    pub(crate) resumes: bool,
    /// Whether it requests bookmarks and resumes from them.
    pub(crate) bookmarks: bool,
}

const WATCH_LIST: &[(&str, &str)] = &[("KUBE_FEATURE_WatchListClient", "true")];
const NO_WATCH_LIST: &[(&str, &str)] = &[("KUBE_FEATURE_WatchListClient", "false")];

/// All of them.
pub(crate) fn contenders() -> Vec<Contender> {
    let [left, right] = NAMESPACES;
    let gadgets = || Resource::gadgets(GROUP);
    let all = Selection::everything;
    let go = |arguments, environment| Program::Process { toolkit: Toolkit::Go, arguments, environment };
    let with_selection = |name, program, resource, selection| Contender {
        name,
        program,
        resource,
        selection,
        resumes: false,
        bookmarks: true,
    };
    let resuming = |contender| Contender { resumes: true, ..contender };
    let without_bookmarks = |contender| Contender { bookmarks: false, ..contender };
    vec![
        with_selection("raw-gadgets", Program::Raw, gadgets(), all()),
        with_selection("raw-pods", Program::Raw, Resource::pods(), all()),
        with_selection(
            "client-go-dynamic-watch-list",
            go(&["-client=dynamic"], WATCH_LIST),
            gadgets(),
            all().field("spec.color", "blue"),
        ),
        resuming(with_selection(
            "client-go-dynamic-list",
            go(&["-client=dynamic", "-timeout-seconds=4"], NO_WATCH_LIST),
            gadgets(),
            all().within(left).field("spec.size", "L").label_is_not("tier", "b"),
        )),
        resuming(with_selection(
            "client-go-typed-watch-list",
            go(&["-client=typed", "-timeout-seconds=4"], WATCH_LIST),
            Resource::pods(),
            all().within(right).field("status.phase", "Running"),
        )),
        with_selection(
            "client-go-typed-list",
            go(&["-client=typed"], NO_WATCH_LIST),
            Resource::pods(),
            all().label("tier", "a").field_is_not("status.phase", "Failed"),
        ),
        resuming(with_selection(
            "client-go-metadata-watch-list",
            go(&["-client=metadata", "-timeout-seconds=5"], WATCH_LIST),
            gadgets(),
            all().label("color", "blue").field_is_not("spec.size", "S"),
        )),
        with_selection(
            "client-go-metadata-list",
            go(&["-client=metadata"], NO_WATCH_LIST),
            Resource::pods(),
            all().within(left).field("status.phase", "Running").label_is_not("tier", "c"),
        ),
        // Operators of field selectors that kube-apiserver does not have.
        with_selection(
            "client-go-dynamic-operators",
            go(&["-client=dynamic"], WATCH_LIST),
            gadgets(),
            all().field_in("spec.color", &["blue", "red"]).field_at_least("spec.weight", 5),
        ),
        resuming(with_selection(
            "client-go-typed-operators",
            go(&["-client=typed", "-timeout-seconds=4"], NO_WATCH_LIST),
            Resource::pods(),
            all()
                .field_not_in("status.phase", &["Failed", "Pending"])
                .field_not_in("metadata.name", &["w0-1", "w1-2", "w2-3"]),
        )),
        resuming(with_selection(
            "kube-rs-operators",
            Program::KubeRs(Strategy::ListWatch),
            gadgets(),
            all().within(right).field_below("spec.weight", 12).field_starts_with("spec.color", "b"),
        )),
        resuming(with_selection(
            "python-operators",
            Program::Process { toolkit: Toolkit::Python, arguments: &["-timeout-seconds=4"], environment: &[] },
            Resource::pods(),
            all()
                .field_is_present("status.phase")
                .field_is_absent("spec.nodeName")
                .field_in("metadata.namespace", &NAMESPACES),
        )),
        with_selection(
            "controller-runtime",
            go(&["-client=manager"], &[]),
            gadgets(),
            all().label("tier", "a").field("spec.color", "blue"),
        ),
        resuming(with_selection(
            "kube-rs-list-watch",
            Program::KubeRs(Strategy::ListWatch),
            gadgets(),
            all().within(right).label_is_not("color", "red").field("spec.size", "L"),
        )),
        resuming(with_selection(
            "kube-rs-streaming-list",
            Program::KubeRs(Strategy::StreamingList),
            Resource::pods(),
            all().label("tier", "a").field("status.phase", "Running"),
        )),
        resuming(with_selection(
            "python",
            Program::Process { toolkit: Toolkit::Python, arguments: &["-timeout-seconds=4"], environment: &[] },
            Resource::pods(),
            all().label("color", "blue").field_is_not("status.phase", "Pending"),
        )),
        without_bookmarks(resuming(with_selection(
            "javascript",
            Program::Process { toolkit: Toolkit::JavaScript, arguments: &["-timeout-seconds=4"], environment: &[] },
            gadgets(),
            all().within(left).label("tier", "a").field_is_not("spec.color", "green"),
        ))),
    ]
}
