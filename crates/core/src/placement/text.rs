//! A review with its reports of nodes as JSON text, written without building the reports first.
//!
//! The text equals that of the documents, byte by byte; a property test checks it. It has its own code because a list
//! of five thousand nodes is megabytes of text with few different parts. The common part of rejections (plugin, reason,
//! message and term) is written once and copied, without values in between. Reports for tables come from
//! [`super::answer`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::answer::PlacementResult;
use super::evaluate::{Cause, NodeRejection, NodeVerdict};
use super::explain::Reporter;
use super::reason::RejectionReason;
use super::review::{PlacementReview, TermReference};

/// The end of the text of a review without reports. The brackets after `nodes` close it, the status and the review.
const END: &[u8] = b"\"nodes\":[]}}";

/// The approximate length of a node's report, in bytes.
const BYTES_OF_A_NODE: usize = 320;

impl PlacementResult {
    /// A review as JSON text. Its status has the reports of this result for the requested nodes, instead of its own.
    ///
    /// # Errors
    /// The review cannot be serialized.
    pub fn text_of(&self, mut review: PlacementReview) -> Result<Vec<u8>, serde_json::Error> {
        if let Some(status) = &mut review.status {
            status.nodes = Vec::new();
        }
        let head = serde_json::to_vec(&review)?;
        // INVARIANT: `nodes` is the last member of a status, and `status` that of a review. One without status has
        // none.
        let Some(head) = head.strip_suffix(END) else { return Ok(head) };
        let verdicts = self.listed(&review.spec.node_names);
        let mut text = Vec::with_capacity(head.len() + END.len() + verdicts.len() * BYTES_OF_A_NODE);
        text.extend_from_slice(head);
        text.extend_from_slice(b"\"nodes\":");
        let mut writer = Writer { answer: self, reporter: self.reporter(), text, beginnings: BTreeMap::new() };
        writer.list(&verdicts, Writer::node)?;
        writer.text.extend_from_slice(b"}}");
        Ok(writer.text)
    }
}

/// Identifies the beginning that the JSON of several rejections has in common: the reason, whether the affinity comes
/// from the scheduler's configuration, and the term by its address.
type Beginning = (RejectionReason, bool, usize);

/// Appends the reports of a result to a JSON text.
struct Writer<'answer> {
    answer: &'answer PlacementResult,
    reporter: Reporter<'answer>,
    text: Vec<u8>,
    /// Where each beginning was first written in the text. The value keeps the term alive, so that no other term gets
    /// its address.
    beginnings: BTreeMap<Beginning, (Range<usize>, Option<Arc<TermReference>>)>,
}

impl<'answer> Writer<'answer> {
    /// Appends text as it is.
    fn raw(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    /// Writes a list; `write` writes each item.
    fn list<T>(
        &mut self,
        items: &[T],
        mut write: impl FnMut(&mut Self, &T) -> Result<(), serde_json::Error>,
    ) -> Result<(), serde_json::Error> {
        self.raw("[");
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.raw(",");
            }
            write(self, item)?;
        }
        self.raw("]");
        Ok(())
    }

    /// Writes a string that consists of several parts.
    fn string(&mut self, parts: &[&str]) -> Result<(), serde_json::Error> {
        let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
        if !parts.iter().all(|part| part.bytes().all(is_plain)) {
            return serde_json::to_writer(&mut self.text, &parts.concat());
        }
        self.raw("\"");
        for part in parts {
            self.raw(part);
        }
        self.raw("\"");
        Ok(())
    }

    /// Writes the report of a node.
    fn node(&mut self, verdict: &&'answer NodeVerdict) -> Result<(), serde_json::Error> {
        let answer = self.answer;
        let name = answer.cluster.nodes.get(verdict.node as usize).map_or("", |place| &place.name);
        self.raw("{\"name\":");
        self.string(&[name])?;
        self.raw(if verdict.fits() { ",\"fits\":true" } else { ",\"fits\":false" });
        let rejections = answer.evaluation.rejections(verdict);
        if !rejections.is_empty() {
            self.raw(",\"rejections\":");
            self.list(rejections, |writer, rejection| writer.rejection(verdict, rejection))?;
        }
        for (index, score) in answer.evaluation.scores(verdict).enumerate() {
            self.raw(if index == 0 { ",\"scores\":[" } else { "," });
            self.raw("{\"plugin\":");
            self.string(&[score.plugin.as_str()])?;
            for (member, value) in [("raw", score.raw), ("normalized", score.normalized), ("weight", score.weight)] {
                self.raw(",\"");
                self.raw(member);
                self.raw("\":");
                serde_json::to_writer(&mut self.text, &value)?;
            }
            self.raw("}");
        }
        if answer.evaluation.scores(verdict).next().is_some() {
            self.raw("]");
        }
        self.raw("}");
        Ok(())
    }

    /// Writes a rejection.
    fn rejection(&mut self, verdict: &NodeVerdict, rejection: &NodeRejection) -> Result<(), serde_json::Error> {
        let details = self.answer.details(verdict, rejection, &mut self.reporter);
        self.beginning(verdict, rejection, details.term)?;
        if let Some(taint) = details.taint {
            self.raw(",\"taint\":");
            self.string(&[&taint.to_string()])?;
        }
        if let Some(label) = details.label {
            self.raw(",\"label\":");
            self.string(&label.parts())?;
        }
        if let Some(pod) = details.pod {
            self.raw(",\"pod\":");
            self.string(&[pod])?;
        }
        self.raw("}");
        Ok(())
    }

    /// Writes the beginning of a rejection, up to its term. Copies the text of an earlier rejection of the same reason
    /// and term.
    fn beginning(
        &mut self,
        verdict: &NodeVerdict,
        rejection: &NodeRejection,
        term: Option<Arc<TermReference>>,
    ) -> Result<(), serde_json::Error> {
        let reason = rejection.reason;
        let address = term.as_ref().map_or(0, |term| Arc::as_ptr(term).addr());
        let key = (reason, rejection.cause == Cause::Enforced, address);
        // The message about a taint may name the taint, so it is written for each node.
        let is_shared = !matches!(rejection.cause, Cause::Taint(_));
        if let Some((written, _)) = self.beginnings.get(&key).filter(|_| is_shared) {
            self.text.extend_from_within(written.clone());
            return Ok(());
        }
        let start = self.text.len();
        let message = self.answer.message_of(verdict, rejection);
        let members =
            [("plugin", reason.plugin().as_str()), ("kind", reason.kind().as_str()), ("reason", reason.as_str())];
        for ((member, value), before) in members.into_iter().zip(["{\"", ",\"", ",\""]) {
            self.raw(before);
            self.raw(member);
            self.raw("\":");
            self.string(&[value])?;
        }
        self.raw(",\"message\":");
        self.string(&[&message])?;
        if let Some(term) = &term {
            self.raw(",\"term\":");
            serde_json::to_writer(&mut self.text, &**term)?;
        }
        self.beginnings.insert(key, (start..self.text.len(), term));
        Ok(())
    }
}
