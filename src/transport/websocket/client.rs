//! Reads the frames of a client, and drops their data, because a watch has no input from its client.
//!
//! kube-apiserver drops messages of up to 32 MiB each, any number of them. Here a frame may have [`LONGEST_FRAME`]
//! bytes, and all frames of a connection together have an allowance that grows with time ([`GROWTH`]). The allowance is
//! enough for a client that sends a PING each second. Payloads are not unmasked, except the payloads of PINGs, which
//! PONGs repeat. So text is not checked to be UTF-8.

use tokio::time::Instant;

use super::frame::{CloseCode, LONGEST_CONTROL, Opcode};

/// The longest payload of a frame, in bytes.
const LONGEST_FRAME: u64 = 64 << 10;

/// The maximum number of bytes that a client may send at once. A connection begins with this allowance, and the
/// allowance does not grow beyond it.
const ALLOWANCE: u64 = 128 << 10;

/// The growth of the allowance, in bytes a second.
const GROWTH: u64 = 1 << 10;

/// The bytes that each frame takes from the allowance in addition to its payload.
const FRAME: u64 = 64;

/// The longest head of a frame: two bytes, eight of the length, and four of the mask.
const LONGEST_HEAD: usize = 14;

/// A frame of the client to which the server must react.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientSignal {
    /// A PING with this payload.
    Ping(Vec<u8>),
    /// The client closes the WebSocket.
    Close,
}

/// The state of a client's frames.
#[derive(Debug)]
pub(super) struct ClientFrames {
    /// The head of the next frame, as far as it has arrived.
    head: Vec<u8>,
    /// The frame whose payload is being read.
    frame: Option<Frame>,
    /// Whether a message has begun whose last frame has not begun yet.
    is_within_message: bool,
    /// The bytes that the client could still send at the given time.
    allowance: (u64, Instant),
}

/// A frame whose payload is being read.
#[derive(Debug)]
struct Frame {
    opcode: Opcode,
    mask: [u8; 4],
    /// The bytes of the payload that have not arrived.
    left: u64,
    /// The payload of a PING, as far as it has arrived, without its mask.
    payload: Vec<u8>,
}

impl Default for ClientFrames {
    fn default() -> ClientFrames {
        let allowance = (ALLOWANCE, Instant::now());
        ClientFrames { head: Vec::new(), frame: None, is_within_message: false, allowance }
    }
}

impl ClientFrames {
    /// Reads the next bytes of the client, up to the next signal, and removes what it has read from `bytes`. `None`:
    /// all bytes are read, and they have no complete signal.
    ///
    /// # Errors
    /// The code with which the server must close: a frame is invalid or too long, or the client sends too much.
    pub(super) fn read(&mut self, bytes: &mut &[u8]) -> Result<Option<ClientSignal>, CloseCode> {
        loop {
            if let Some(frame) = &mut self.frame {
                let length = bytes.len().min(usize::try_from(frame.left).unwrap_or(usize::MAX));
                let (part, rest) = bytes.split_at(length);
                *bytes = rest;
                frame.left -= length as u64;
                // The mask of four bytes repeats over the whole payload, of which `part` can be a later piece.
                if frame.opcode == Opcode::Ping {
                    let at = frame.payload.len();
                    let mask = frame.mask.iter().cycle().skip(at % 4);
                    frame.payload.extend(part.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
                }
                if frame.left > 0 {
                    return Ok(None);
                }
                let frame = self.frame.take();
                match frame.map(|frame| (frame.opcode, frame.payload)) {
                    Some((Opcode::Ping, payload)) => return Ok(Some(ClientSignal::Ping(payload))),
                    Some((Opcode::Close, _)) => return Ok(Some(ClientSignal::Close)),
                    Some((Opcode::Continuation | Opcode::Text | Opcode::Binary | Opcode::Pong, _)) | None => {}
                }
            }
            // The length of the head depends on its second byte, so it is determined again after more bytes.
            let needed = head_length(&self.head);
            let length = bytes.len().min(needed - self.head.len());
            let (part, rest) = bytes.split_at(length);
            *bytes = rest;
            self.head.extend_from_slice(part);
            if head_length(&self.head) > self.head.len() {
                if bytes.is_empty() {
                    return Ok(None);
                }
                continue;
            }
            self.frame = Some(self.begin()?);
        }
    }

    /// Decodes the complete head in `self.head` (RFC 6455, 5.2), and takes the frame from the allowance.
    ///
    /// # Errors
    /// Those of [`ClientFrames::read`].
    fn begin(&mut self) -> Result<Frame, CloseCode> {
        let invalid = Err(CloseCode::ProtocolError);
        let head = std::mem::take(&mut self.head);
        let [first, second, rest @ ..] = &head[..] else { return invalid };
        let (is_last, reserved, is_masked) = (first & 0x80 != 0, first & 0x70, second & 0x80 != 0);
        let Some(opcode) = Opcode::from_number(first & 0xf) else { return invalid };
        let Some((length, mask)) = rest.split_last_chunk::<4>() else { return invalid };
        // A length must have the shortest form (RFC 6455, 5.2), and its first bit must not be set.
        let left = match (second & 0x7f, length) {
            (short @ 0..=125, []) => u64::from(short),
            (126, [high, low]) => u64::from(u16::from_be_bytes([*high, *low])),
            (127, long) => u64::from_be_bytes(long.try_into().map_err(|_| CloseCode::ProtocolError)?),
            _ => return invalid,
        };
        let is_shortest = match second & 0x7f {
            126 => left > LONGEST_CONTROL as u64,
            127 => (1 << 16..1 << 63).contains(&left),
            _ => true,
        };
        if reserved != 0 || !is_masked || !is_shortest {
            return invalid;
        }
        if opcode.is_control() {
            if !is_last || left > LONGEST_CONTROL as u64 {
                return invalid;
            }
        } else {
            let continues = opcode == Opcode::Continuation;
            if continues != self.is_within_message {
                return invalid;
            }
            self.is_within_message = !is_last;
        }
        if left > LONGEST_FRAME {
            return Err(CloseCode::TooBig);
        }
        if !self.pay(FRAME + left) {
            return Err(CloseCode::PolicyViolation);
        }
        Ok(Frame { opcode, mask: *mask, left, payload: Vec::new() })
    }

    /// Takes `bytes` from the allowance of the client. Returns false if the allowance is smaller.
    fn pay(&mut self, bytes: u64) -> bool {
        let (left, at) = self.allowance;
        let now = Instant::now();
        let grown = u64::try_from((now - at).as_millis()).unwrap_or(u64::MAX).saturating_mul(GROWTH) / 1000;
        // If the allowance has grown by less than a byte, the old time is kept, so that it counts for the next frame.
        let at = if grown > 0 { now } else { at };
        match left.saturating_add(grown).min(ALLOWANCE).checked_sub(bytes) {
            Some(left) => {
                self.allowance = (left, at);
                true
            }
            None => false,
        }
    }
}

/// The length, in bytes, of the head of a frame that begins with the bytes `head`. Without the second byte, the result
/// is 2, the shortest length. It is also 2 for an unmasked frame: that is invalid, so it is rejected at once.
fn head_length(head: &[u8]) -> usize {
    let Some(second) = head.get(1) else { return 2 };
    if second & 0x80 == 0 {
        return 2;
    }
    match second & 0x7f {
        126 => 8,
        127 => LONGEST_HEAD,
        _ => 6,
    }
}
