//! What a View shows of a resource: requirements in addition to the selection of a request, and the parts of objects
//! that are left out.

use std::sync::Arc;

use tokio::sync::watch;

use super::consumer::{ConsumerClaim, ConsumerContext, ConsumerTerms};
use super::requested_parts::RequestedPrunes;
use super::view_definition::ViewPart;
use super::view_namespaces::{FollowedNamespaces, SelectedSince, ViewNamespaces};
use crate::extract::{Extractor, FieldRef, Prune, UnsupportedLabel};
use crate::model::Version;
use crate::query::{FieldTerm, Selection};
use crate::selector::{LabelSelector, Operator, TestedValues};

/// The restriction of a resource by a View: which objects are shown, and which of their fields.
#[derive(Clone, Debug)]
pub struct Restriction {
    /// Label requirements that are added to the selection of each request. Shared, because each watch of each consumer
    /// stores a restriction.
    labels: Arc<LabelSelector>,
    /// Field requirements that are added to the selection of each request, with the named namespaces of the View.
    fields: Arc<[FieldTerm]>,
    /// The requirements that the values of one consumer add; empty before [`Restriction::of_consumer`].
    of_consumer: Selection,
    /// The fields that the View leaves out of objects.
    prune: Arc<Prune>,
    /// For each combination of parts that requests want: `prune` together with what such a request leaves out.
    requested: RequestedPrunes,
    /// Fields that must have a value of the caller, which is not set yet. As long as there is one, no object is shown.
    open: Vec<(FieldRef, ConsumerClaim)>,
    /// The namespaces that each request resolves: the View selects them by labels, or by the permissions of the caller.
    /// `None` if the View does not restrict namespaces, or names them; then `fields` has them.
    namespaces: Option<RequestNamespaces>,
    /// The field with the namespace of an object.
    namespace: FieldRef,
    /// The version of the resource since which the View has this definition.
    since: SelectedSince,
    /// See [`Restriction::ended`].
    ended: watch::Receiver<bool>,
}

/// The namespaces that a View selects by labels, or by the permissions of the caller. Each request resolves them.
#[derive(Clone, Debug)]
enum RequestNamespaces {
    /// The namespaces are not known yet: no object is shown.
    Unresolved,
    /// The namespaces of this request.
    Resolved(FollowedNamespaces),
    /// All namespaces: the caller has the permission for the request itself.
    Unrestricted,
}

impl Restriction {
    /// Compiles the part of a View for one version of its resource. `since` is the version of the resource since which
    /// the View has this definition. `ended` becomes true when the View is replaced or deleted.
    ///
    /// # Errors
    /// The first field that the version does not have.
    pub fn new(
        part: &ViewPart,
        extractor: &Extractor,
        since: SelectedSince,
        ended: watch::Receiver<bool>,
    ) -> Result<Restriction, UnsupportedLabel> {
        let mut fields = Vec::with_capacity(part.fields.len() + 1);
        let mut namespaces = None;
        match &part.namespaces {
            ViewNamespaces::All => {}
            ViewNamespaces::Named(names) => {
                // The values of an `Operator` are sorted.
                let mut names = names.clone();
                names.sort_unstable();
                fields.push(FieldTerm { field: FieldRef::Namespace, operator: Operator::In(names) });
            }
            ViewNamespaces::Selected(_) | ViewNamespaces::Permitted => {
                namespaces = Some(RequestNamespaces::Unresolved);
            }
        }
        for expression in &part.fields {
            let field = extractor.resolve(&expression.key)?;
            fields.push(FieldTerm { field, operator: for_field(extractor, field, &expression.operator) });
        }
        Ok(Restriction {
            labels: Arc::new(part.labels.clone()),
            fields: fields.into(),
            of_consumer: Selection::default(),
            prune: part.prune.clone(),
            requested: RequestedPrunes::default(),
            open: Vec::new(),
            namespaces,
            namespace: match (&*part.group, &*part.resource) {
                // The name of a Namespace is that of the namespace.
                ("", "namespaces") => FieldRef::Name,
                _ => FieldRef::Namespace,
            },
            since,
            ended,
        })
    }

    /// Adds the fields that must have a value of the caller. The values are not set yet.
    ///
    /// # Errors
    /// The first field that the version does not have.
    pub(super) fn with_consumer_fields(
        self,
        terms: &ConsumerTerms,
        extractor: &Extractor,
    ) -> Result<Restriction, UnsupportedLabel> {
        let open = terms.fields.iter().map(|(label, value)| Ok((extractor.resolve(label)?, *value)));
        Ok(Restriction { open: open.collect::<Result<_, _>>()?, ..self })
    }

    /// The restriction for one consumer, with its values set.
    #[must_use]
    pub fn of_consumer(&self, consumer: &ConsumerContext) -> Restriction {
        let mut restriction = Restriction { open: Vec::new(), ..self.clone() };
        for (field, value) in &self.open {
            // A value that the consumer lacks stays unset.
            match consumer.value(*value) {
                Some(text) => restriction.of_consumer.fields.push(FieldTerm::new(*field, Operator::equal_to(text))),
                None => restriction.open.push((*field, *value)),
            }
        }
        restriction.of_consumer.labels.requirements.extend_from_slice(&consumer.labels.requirements);
        restriction
    }

    /// The restriction for one request, with the namespaces that the View selects by labels or permissions.
    #[must_use]
    pub fn within(&self, namespaces: FollowedNamespaces) -> Restriction {
        Restriction { namespaces: Some(RequestNamespaces::Resolved(namespaces)), ..self.clone() }
    }

    /// The restriction for a request that the permissions of its caller permit as it is. The View shows the namespaces
    /// in which its caller has the permission.
    #[must_use]
    pub fn within_permitted(&self) -> Restriction {
        Restriction { namespaces: Some(RequestNamespaces::Unrestricted), ..self.clone() }
    }

    /// The namespaces that the View selects for the request, by labels or permissions. `None` if the View does not
    /// select namespaces so, if they are not known yet, or if the request needs no restriction.
    pub fn namespaces(&self) -> Option<&FollowedNamespaces> {
        match &self.namespaces {
            Some(RequestNamespaces::Resolved(namespaces)) => Some(namespaces),
            Some(RequestNamespaces::Unresolved | RequestNamespaces::Unrestricted) | None => None,
        }
    }

    /// The version since which lists show the same objects: the definition and the namespaces are the same since then.
    /// See [`SelectedSince`].
    pub fn since(&self) -> Version {
        let namespaces_since = self.namespaces().map(|namespaces| namespaces.set().since.version());
        namespaces_since.unwrap_or_default().max(self.since.version())
    }

    /// Permits lists and watches from `version` on; see [`SelectedSince::lower`].
    pub fn lower_since(&self, awaited: Version, version: Version) {
        self.since.lower(awaited, version);
        if let Some(namespaces) = self.namespaces() {
            namespaces.set().since.lower(awaited, version);
        }
    }

    /// Restricts the selection of a request to the shown objects.
    #[must_use]
    pub fn restrict(&self, mut selection: Selection) -> Selection {
        for labels in [&*self.labels, &self.of_consumer.labels] {
            selection.labels.requirements.extend_from_slice(&labels.requirements);
        }
        selection.fields.extend_from_slice(&self.fields);
        selection.fields.extend_from_slice(&self.of_consumer.fields);
        let mut is_open = !self.open.is_empty();
        match &self.namespaces {
            None | Some(RequestNamespaces::Unrestricted) => {}
            Some(RequestNamespaces::Unresolved) => is_open = true,
            Some(RequestNamespaces::Resolved(namespaces)) => {
                if let Some(names) = &namespaces.set().names {
                    let operator = Operator::In(names.to_vec());
                    selection.fields.push(FieldTerm { field: self.namespace, operator });
                }
            }
        }
        if is_open {
            // A value that is not set must show nothing, rather than everything. No name is in the empty list.
            let operator = Operator::In(Vec::new());
            selection.fields.push(FieldTerm { field: FieldRef::Name, operator });
        }
        selection
    }

    /// Whether the restriction may leave objects out.
    pub fn is_selective(&self) -> bool {
        !self.labels.requirements.is_empty()
            || !self.fields.is_empty()
            || self.of_consumer.is_selective()
            || !self.open.is_empty()
            || self.restricts_namespaces()
    }

    /// Whether objects of some namespaces may be left out because each request resolves the namespaces.
    fn restricts_namespaces(&self) -> bool {
        match &self.namespaces {
            None | Some(RequestNamespaces::Unrestricted) => false,
            Some(RequestNamespaces::Unresolved) => true,
            Some(RequestNamespaces::Resolved(namespaces)) => namespaces.set().names.is_some(),
        }
    }

    /// The fields that are left out of objects. The restrictions of all consumers share the value.
    pub fn prune(&self) -> &Arc<Prune> {
        &self.prune
    }

    /// For each combination of parts that requests want: what the View and the request leave out. The restrictions of
    /// all consumers share the values.
    pub(super) fn requested_prunes(&self) -> &RequestedPrunes {
        &self.requested
    }

    /// A receiver that becomes true when the View is replaced or deleted.
    pub fn ended(&self) -> watch::Receiver<bool> {
        self.ended.clone()
    }
}

/// The operator to use for a field: `operator` itself, except for Exists and DoesNotExist on a field that has one value
/// at most. If such a field is missing, its value is the empty string. So Exists becomes "not equal to the empty
/// string", and DoesNotExist becomes "equal to the empty string". The index answers these without a union of all
/// values.
fn for_field(extractor: &Extractor, field: FieldRef, operator: &Operator) -> Operator {
    let is_many = matches!(field, FieldRef::Field(index) if extractor.is_many(index));
    match operator.values() {
        TestedValues::Any if !is_many && operator.is_negative() => Operator::equal_to(""),
        TestedValues::Any if !is_many => Operator::not_equal_to(""),
        TestedValues::Listed(_) | TestedValues::Any | TestedValues::Integers(_) | TestedValues::WithPrefix(_) => {
            operator.clone()
        }
    }
}
