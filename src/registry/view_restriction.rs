//! What a View shows of a resource: selections in addition to that of a request, and what is left out of objects.

use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

use super::consumer::{ConsumerClaim, ConsumerContext, ConsumerTerms};
use super::view_definition::ViewPart;
use crate::extract::{Extractor, FieldRef, Prune, UnsupportedLabel};
use crate::query::{FieldTerm, Selection};
use crate::selector::{LabelSelector, Operator, TestedValues};

/// The restriction of a resource by a View: which objects are shown, and which of their fields.
#[derive(Clone, Debug)]
pub struct Restriction {
    /// Added to the selection of each request. Shared, because each watch of each consumer stores a restriction.
    labels: Arc<LabelSelector>,
    fields: Arc<[FieldTerm]>,
    /// The selection that the values of one consumer add.
    of_consumer: Selection,
    /// The fields that are left out of objects.
    prune: Arc<Prune>,
    /// The same and metadata.managedFields; empty before the first request that leaves these out.
    prune_and_managed_fields: Arc<OnceLock<Arc<Prune>>>,
    /// Fields that must have a value of the caller, as long as that value is not set. With any of them, no object is
    /// shown.
    open: Vec<(FieldRef, ConsumerClaim)>,
    /// See [`Restriction::ended`].
    ended: watch::Receiver<bool>,
}

impl Restriction {
    /// Compiles the part of a View for one version of its resource. `ended` becomes true when the View ends.
    ///
    /// # Errors
    /// The first field that the version does not have.
    pub fn new(
        part: &ViewPart,
        extractor: &Extractor,
        ended: watch::Receiver<bool>,
    ) -> Result<Restriction, UnsupportedLabel> {
        let mut fields = Vec::with_capacity(part.fields.len() + 1);
        if !part.namespaces.is_empty() {
            // The values of an `Operator` are sorted.
            let mut namespaces = part.namespaces.clone();
            namespaces.sort_unstable();
            let operator = Operator::In(namespaces);
            fields.push(FieldTerm { field: FieldRef::Namespace, operator });
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
            prune_and_managed_fields: Arc::default(),
            open: Vec::new(),
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

    /// Restricts the selection of a request to the shown objects.
    #[must_use]
    pub fn restrict(&self, mut selection: Selection) -> Selection {
        for labels in [&*self.labels, &self.of_consumer.labels] {
            selection.labels.requirements.extend_from_slice(&labels.requirements);
        }
        selection.fields.extend_from_slice(&self.fields);
        selection.fields.extend_from_slice(&self.of_consumer.fields);
        if !self.open.is_empty() {
            // Invariant: a value that was not set shows nothing, rather than everything.
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
    }

    /// The fields that are left out of objects. The restrictions of all consumers share the value.
    pub fn prune(&self) -> &Arc<Prune> {
        &self.prune
    }

    /// The fields that are pruned, and metadata.managedFields. The restrictions of all consumers share this value too.
    pub fn prune_and_managed_fields(&self) -> Arc<Prune> {
        self.prune_and_managed_fields.get_or_init(|| Arc::new(self.prune.and_managed_fields())).clone()
    }

    /// A receiver that becomes true when the View is replaced or deleted.
    pub fn ended(&self) -> watch::Receiver<bool> {
        self.ended.clone()
    }
}

/// The operator to use for a field: `operator` itself, except for Exists and DoesNotExist on a field that has one value
/// at most. If such a field is missing, its value is the empty string. So Exists becomes "not equal to the empty
/// string" and DoesNotExist "equal to it", which the index answers without a union of all values.
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
