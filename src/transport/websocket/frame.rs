//! Frames that the server sends (RFC 6455, 5.2): complete messages, parts of messages, PONG and Close. None is masked.

/// The type of a frame (RFC 6455, 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    /// A further part of a message.
    Continuation = 0x0,
    /// A message that is text, or its first part.
    Text = 0x1,
    /// A message of bytes, or its first part.
    Binary = 0x2,
    /// The last frame that a peer sends.
    Close = 0x8,
    /// A request for PONG.
    Ping = 0x9,
    /// The response to PING, with the same payload.
    Pong = 0xa,
}

impl Opcode {
    /// The opcode with this number; `None` if the number is reserved.
    pub(super) fn from_number(number: u8) -> Option<Opcode> {
        [Opcode::Continuation, Opcode::Text, Opcode::Binary, Opcode::Close, Opcode::Ping, Opcode::Pong]
            .into_iter()
            .find(|opcode| *opcode as u8 == number)
    }

    /// Whether the frame belongs to no message: Close, PING and PONG.
    pub(super) fn is_control(self) -> bool {
        self as u8 & 0x8 != 0
    }
}

/// Why a peer closes a WebSocket (RFC 6455, 7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseCode {
    /// The messages are complete, or the client closes.
    Normal = 1000,
    /// A frame of the client is invalid.
    ProtocolError = 1002,
    /// The client sends more than it may.
    PolicyViolation = 1008,
    /// A frame of the client is too long.
    TooBig = 1009,
    /// The server cannot send the remaining messages.
    InternalError = 1011,
}

/// The maximum length of the payload of a control frame, in bytes (RFC 6455, 5.5). Also the longest payload whose
/// length is in the second byte of the head.
pub(super) const LONGEST_CONTROL: usize = 125;

/// Appends the head of an unmasked frame with a payload of `length` bytes to `out`. `is_last`: the frame is the last
/// one of its message.
pub(crate) fn push_head(opcode: Opcode, is_last: bool, length: usize, out: &mut Vec<u8>) {
    out.push(opcode as u8 | if is_last { 0x80 } else { 0 });
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if length <= LONGEST_CONTROL => out.push(short),
        (_, Ok(medium)) => {
            out.push(126);
            out.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// A PING without a payload.
pub(super) const PING: &[u8] = &[0x80 | Opcode::Ping as u8, 0];

/// The frame that answers a PING with this payload.
pub(super) fn pong(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(2 + payload.len());
    push_head(Opcode::Pong, true, payload.len(), &mut frame);
    frame.extend_from_slice(payload);
    frame
}

/// The Close frame with this code.
pub(super) fn close(code: CloseCode) -> Vec<u8> {
    let mut frame = Vec::with_capacity(4);
    push_head(Opcode::Close, true, 2, &mut frame);
    frame.extend_from_slice(&(code as u16).to_be_bytes());
    frame
}
