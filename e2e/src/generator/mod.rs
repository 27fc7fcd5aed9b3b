//! A load source for benchmarks: it speaks just enough of the Kubernetes wire for fieldcache to list and watch a corpus from it.
//!
//! kube-apiserver cannot replace it: it cannot hold a million objects here, and it cannot make changes as fast as a
//! reader takes them. It would also spend CPU time on the same two cores. **It is no kube-apiserver, and no test of
//! behaviour may depend on it**. It has no admission, stores only its own small history, and evaluates no selector. It
//! has no resourceVersion across resources, and its pages do not show one state. What it serves is prepared before any
//! clock starts, and it runs as a process of its own, so that its CPU is booked apart.
//!
//! | room | what it is |
//! |---|---|
//! | [`objects`] | the bytes of a corpus, and what a change does to them |
//! | [`source`] | one resource: its objects, its version, who watches it; bursts, rates, relists |
//! | [`documents`] | discovery, definitions, bookmarks and errors as bytes |
//! | [`serve`] | the HTTP side: the requests of readers, and the control path |
//! | [`command`] | its command line, shared by the program `generator` and by the bench that starts itself as one |
//! | [`child`] | the generator as a child process, and how to command it |
//! | [`bare`] | a bare HTTP server that sends the same bytes again and again: the yardstick of a long list |
//! | [`streams`] | a bare HTTP/2 server that writes the same bytes to many open streams: the yardstick of a broadcast |

pub mod bare;
pub mod child;
pub mod command;
pub mod documents;
pub mod objects;
pub mod serve;
pub mod source;
pub mod streams;

use std::sync::Arc;

use anyhow::Result;

use crate::corpus::pods::Pods;
use crate::corpus::shirts::Shirts;
use objects::{Change, prepare};
use source::Source;

/// Where the CustomResourceDefinitions are listed.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The group of the small resources.
pub const SMALL_GROUP: &str = "small.example.com";

/// Objects in each of them.
const SMALL_OBJECTS: usize = 5;

/// What is held.
#[derive(Debug, Clone)]
pub enum Corpus {
    /// Corpus (i).
    Shirts(Shirts),
    /// Corpus (ii).
    Pods(Pods),
}

impl Corpus {
    /// Where all its objects are listed.
    #[must_use]
    pub fn everywhere(&self) -> String {
        match self {
            Corpus::Shirts(shirts) => shirts.everywhere(),
            Corpus::Pods(_) => "/api/v1/pods".to_owned(),
        }
    }

    /// How many objects there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        match self {
            Corpus::Shirts(shirts) => shirts.count,
            Corpus::Pods(pods) => pods.count,
        }
    }
}

/// Resources besides that of the corpus.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Beside {
    /// Small custom resources with a few objects each, which do not change.
    pub small: usize,
    /// Resources like that of the shirts, with as many objects each, in groups of their own. A burst changes them too.
    pub copies: usize,
}

/// The group of a copy of the shirts.
#[must_use]
pub fn copied(shirts: &Shirts, copy: usize) -> Shirts {
    Shirts { group: format!("copy{copy}.{}", shirts.group), ..shirts.clone() }
}

/// A whole generator, filled.
#[derive(Debug)]
pub struct Generator {
    /// The corpus' resource, which is the one that commands are about.
    pub main: Arc<Source>,
    /// The resources that a burst changes: the main one, and its copies.
    pub bursting: Vec<Arc<Source>>,
    /// All resources, by the path that lists them.
    pub resources: Vec<(String, Arc<Source>)>,
    /// Responses of `/api` and `/apis`.
    pub discovery: documents::Discovery,
}

impl Generator {
    /// Prepares the corpus and the resources besides it.
    ///
    /// # Errors
    /// When an object cannot be written as JSON.
    pub fn prepare(corpus: &Corpus, beside: Beside) -> Result<Generator> {
        let small = beside.small;
        let (objects, change, list_kind) = match corpus {
            Corpus::Shirts(shirts) => {
                (prepare(shirts.count, |index| shirts.stored(index))?, Change::SHIRT, "ShirtList")
            }
            Corpus::Pods(pods) => (prepare(pods.count, |index| pods.stored(index))?, Change::POD, "PodList"),
        };
        let main = Arc::new(Source::new(objects, Some(change), list_kind));
        let mut definitions = Vec::new();
        if let Corpus::Shirts(shirts) = corpus {
            definitions.push(shirts.definition());
        }
        definitions.extend((0..small).map(documents::small_definition));
        let mut resources = vec![(corpus.everywhere(), main.clone())];
        let mut bursting = vec![main.clone()];
        if let Corpus::Shirts(shirts) = corpus {
            for copy in (0..beside.copies).map(|copy| copied(shirts, copy)) {
                let objects = prepare(copy.count, |index| copy.stored(index))?;
                let source = Arc::new(Source::new(objects, Some(Change::SHIRT), "ShirtList"));
                definitions.push(copy.definition());
                bursting.push(source.clone());
                resources.push((copy.everywhere(), source));
            }
        }
        for index in 0..small {
            let objects = prepare(SMALL_OBJECTS as u64, |object| documents::small_object(index, object))?;
            let path = format!("/apis/{SMALL_GROUP}/v1/{}", documents::small_plural(index));
            resources.push((path, Arc::new(Source::new(objects, None, "SmallList"))));
        }
        let served = prepare(definitions.len() as u64, |index| {
            documents::established(&definitions[usize::try_from(index).unwrap_or_default()], index)
        })?;
        resources.push((DEFINITIONS.to_owned(), Arc::new(Source::new(served, None, "CustomResourceDefinitionList"))));
        let discovery = documents::Discovery::new(matches!(corpus, Corpus::Pods(_)), &definitions);
        Ok(Generator { main, bursting, resources, discovery })
    }
}
