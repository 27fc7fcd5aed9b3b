//! What a View shows of a resource: selections in addition to that of a request, and what is left out of objects.

use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

use super::consumer::{ConsumerClaim, ConsumerContext, ConsumerTerms};
use super::view_definition::ViewPart;
use crate::extract::{Extractor, FieldRef, Prune, UnsupportedLabel};
use crate::query::{FieldTerm, Selection};
use crate::selector::{LabelSelector, Operator, TestedValues};

/// How a resource is seen through a View.
#[derive(Clone, Debug)]
pub struct Restriction {
    /// In addition to what a request selects; the same for all consumers, each of whose watches stores a restriction.
    labels: Arc<LabelSelector>,
    fields: Arc<[FieldTerm]>,
    /// The selection that one consumer adds.
    of_consumer: Selection,
    prune: Arc<Prune>,
    /// The same and metadata.managedFields, when a request has asked for that.
    prune_and_managed_fields: Arc<OnceLock<Arc<Prune>>>,
    /// Fields whose values are those of the caller. Until they are set, nothing is shown.
    open: Vec<(FieldRef, ConsumerClaim)>,
    ended: watch::Receiver<bool>,
}

impl Restriction {
    /// Compiles a part of a View for a version of the resource.
    ///
    /// # Errors
    /// The first field that the version does not offer.
    pub fn new(
        part: &ViewPart,
        extractor: &Extractor,
        ended: watch::Receiver<bool>,
    ) -> Result<Restriction, UnsupportedLabel> {
        let mut fields = Vec::with_capacity(part.fields.len() + 1);
        if !part.namespaces.is_empty() {
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

    /// Adds fields that take their values from the caller.
    ///
    /// # Errors
    /// The first field that the version does not offer.
    pub(super) fn with_open(
        self,
        terms: &ConsumerTerms,
        extractor: &Extractor,
    ) -> Result<Restriction, UnsupportedLabel> {
        let open = terms.fields.iter().map(|(label, value)| Ok((extractor.resolve(label)?, *value)));
        Ok(Restriction { open: open.collect::<Result<_, _>>()?, ..self })
    }

    /// The restriction for one consumer, with the values of its token.
    #[must_use]
    pub fn of_consumer(&self, consumer: &ConsumerContext) -> Restriction {
        let mut restriction = Restriction { open: Vec::new(), ..self.clone() };
        for (field, value) in &self.open {
            // A value that the consumer lacks stays open.
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

    /// Whether the restriction leaves objects out.
    pub fn is_selective(&self) -> bool {
        !self.labels.requirements.is_empty()
            || !self.fields.is_empty()
            || self.of_consumer.is_selective()
            || !self.open.is_empty()
    }

    /// The fields that are pruned. All versions of this restriction for consumers share it.
    pub fn prune(&self) -> &Arc<Prune> {
        &self.prune
    }

    /// The fields that are pruned, and metadata.managedFields. All versions of this restriction share it too.
    pub fn prune_and_managed_fields(&self) -> Arc<Prune> {
        self.prune_and_managed_fields.get_or_init(|| Arc::new(self.prune.and_managed_fields())).clone()
    }

    /// Becomes true when the View is replaced or deleted.
    pub fn ended(&self) -> watch::Receiver<bool> {
        self.ended.clone()
    }
}

/// The operator for a field with one value, empty when missing. Exists becomes "not empty": the lists of values
/// answer that without a union of all of them.
fn for_field(extractor: &Extractor, field: FieldRef, operator: &Operator) -> Operator {
    let is_many = matches!(field, FieldRef::Field(index) if extractor.is_many(index));
    match operator.values() {
        TestedValues::Any if !is_many && operator.is_negative() => Operator::equal_to(""),
        TestedValues::Any if !is_many => Operator::not_equal_to(""),
        TestedValues::Listed(_) | TestedValues::Any | TestedValues::Accepted => operator.clone(),
    }
}
