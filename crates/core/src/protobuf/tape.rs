//! The positions of the values of an object: a tape of [`Slot`]s that reading fills and writing follows.
//!
//! A message is one slot for each of its parts, with the part's length, and one for each of its fields. Items of lists
//! and members of maps are chains of slots. Each item or member begins with a link: a slot whose place is that of the
//! next item or member. The slot of a scalar points to its bytes in the JSON. If the JSON does not contain them in that
//! form, it points into a buffer of texts. The slot of a field that [`super::memo`] has points to the memo instead.

use super::table::MessageId;

/// A place and a length in bytes. The place of a scalar is an offset in the JSON, or in the buffer of texts
/// ([`IN_TEXTS`]). That of a message or a chain is an index on the tape, and that of a cached field is an entry of the
/// memo ([`IN_MEMO`]). Place 0 means absent: no value is there, because the JSON begins with a bracket, and the tape with
/// an unused slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) place: u32,
    pub(super) length: u32,
}

impl Slot {
    pub(super) const ABSENT: Slot = Slot { place: 0, length: 0 };

    pub(super) fn is_absent(self) -> bool {
        self.place == 0
    }

    /// A slot for a field whose encoding is in an entry of the memo, `length` bytes.
    pub(super) fn in_memo(entry: usize, length: usize) -> Slot {
        Slot { place: IN_MEMO | entry as u32, length: length as u32 }
    }

    /// The entry of the memo that has the field; `None` if the field is not in the memo.
    pub(super) fn memo_entry(self) -> Option<usize> {
        (self.place & IN_MEMO == IN_MEMO).then_some((self.place & !IN_MEMO) as usize)
    }
}

/// Set in places that are in the buffer of texts instead of in the JSON.
const IN_TEXTS: u32 = 1 << 31;

/// Both bits are set in places that are entries of the memo.
const IN_MEMO: u32 = 3 << 30;

/// The maximum number of bytes in the buffer of texts, so that their places differ from those of the memo.
const MOST_TEXTS: usize = 1 << 30;

/// The message of the whole object.
#[derive(Clone, Copy, Debug)]
pub(super) struct TapeNode {
    pub(super) message: MessageId,
    /// Where its slots begin on the tape.
    pub(super) place: u32,
    /// The length of its encoding, in bytes.
    pub(super) length: u32,
}

/// The tape of one object, with the data besides the JSON that its slots point to.
#[derive(Default)]
pub(super) struct Buffers {
    pub(super) tape: Vec<Slot>,
    /// Encoded values that the JSON does not contain in that form.
    pub(super) texts: Vec<u8>,
    /// The places of the members of the maps that are being read, for sorting them.
    pub(super) members: Vec<u32>,
}

impl Buffers {
    /// Clears all buffers, and frees those with a capacity of more than `kept` bytes.
    pub(super) fn clear(&mut self, kept: usize) {
        self.tape.clear();
        self.texts.clear();
        self.members.clear();
        if self.tape.capacity() * size_of::<Slot>() > kept {
            self.tape = Vec::new();
        }
        if self.texts.capacity() > kept {
            self.texts = Vec::new();
        }
        if self.members.capacity() * size_of::<u32>() > kept {
            self.members = Vec::new();
        }
        self.tape.push(Slot::ABSENT);
    }

    /// `count` slots of the tape, from this place on.
    pub(super) fn slots(&self, place: u32, count: usize) -> &[Slot] {
        &self.tape[place as usize..place as usize + count]
    }

    /// The bytes of a slot: a part of the JSON, or of the buffer.
    pub(super) fn bytes<'b>(&'b self, slot: Slot, json: &'b [u8]) -> &'b [u8] {
        let (bytes, start) =
            if slot.place & IN_TEXTS == 0 { (json, slot.place) } else { (&*self.texts, slot.place & !IN_TEXTS) };
        &bytes[start as usize..start as usize + slot.length as usize]
    }

    /// The slot of the bytes from `start` to the end of the buffer of texts; `None` when the buffer is too large.
    pub(super) fn text_from(&self, start: usize) -> Option<Slot> {
        let end = self.texts.len();
        (end < MOST_TEXTS).then(|| Slot { place: start as u32 | IN_TEXTS, length: (end - start) as u32 })
    }
}
