//! `traceparent`: the place of a request in a trace (W3C Trace Context, section 3.2).

use std::fmt;
use std::str::FromStr;

use alloy_primitives::hex;

/// The header's name.
pub const TRACEPARENT: &str = "traceparent";

/// The length of the header's value in version 00, in bytes.
const LENGTH: usize = 55;

/// The caller's place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// Names the trace; not zero.
    pub trace_id: [u8; 16],
    /// Names the caller's step in it; not zero.
    pub parent_id: [u8; 8],
    /// Whether the caller records the trace.
    pub is_sampled: bool,
}

/// A text is not a `traceparent`. A receiver then begins a new trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a traceparent is a version, a trace id, a parent id and flags, in lower-case hexadecimal with hyphens between them"
)]
pub struct InvalidTraceParent;

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    /// Reads version 00, and of a later version the parts that it has in common with it.
    fn from_str(text: &str) -> Result<Self, InvalidTraceParent> {
        let (known, later) = text.split_at_checked(LENGTH).ok_or(InvalidTraceParent)?;
        let mut parts = known.split('-');
        let mut next = || parts.next().ok_or(InvalidTraceParent);
        let [version] = digits::<1>(next()?)?;
        let trace_id = digits::<16>(next()?)?;
        let parent_id = digits::<8>(next()?)?;
        let [flags] = digits::<1>(next()?)?;
        let is_complete = match version {
            0 => later.is_empty(),
            0xff => false,
            _ => later.is_empty() || later.starts_with('-'),
        };
        if !is_complete || trace_id == [0; 16] || parent_id == [0; 8] {
            return Err(InvalidTraceParent);
        }
        Ok(Self { trace_id, parent_id, is_sampled: flags & 1 == 1 })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace_id, parent_id) = (hex::encode(self.trace_id), hex::encode(self.parent_id));
        write!(formatter, "00-{trace_id}-{parent_id}-{:02x}", u8::from(self.is_sampled))
    }
}

/// Lower-case hexadecimal digits of exactly `N` bytes.
fn digits<const N: usize>(text: &str) -> Result<[u8; N], InvalidTraceParent> {
    let is_lower_case = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let mut bytes = [0; N];
    match is_lower_case && text.len() == 2 * N {
        true => hex::decode_to_slice(text, &mut bytes).map(|()| bytes).map_err(|_| InvalidTraceParent),
        false => Err(InvalidTraceParent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_and_written() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-0102030405060708-01";
        let parent: TraceParent = text.parse().unwrap();
        assert!(parent.is_sampled && parent.trace_id[0] == 0x4b && parent.parent_id[7] == 8);
        assert_eq!(parent.to_string(), text);
        for (text, is_sampled) in [
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-0102030405060708-00", false),
            // Unknown flags are ignored.
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-0102030405060708-ff", true),
            // Later versions may have more parts.
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-0102030405060708-01", true),
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-0102030405060708-01-what", true),
        ] {
            assert_eq!(text.parse::<TraceParent>().map(|parent| parent.is_sampled), Ok(is_sampled), "{text}");
        }
    }

    #[test]
    fn any_other_text_is_refused() {
        for text in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0102030405060708",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0102030405060708-01-what",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0102030405060708-01x",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-0102030405060708-01x",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-0102030405060708-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-0102030405060708-01",
            "00-00000000000000000000000000000000-0102030405060708-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-60102030405060708-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47é-0102030405060708-01",
            "00_4bf92f3577b34da6a3ce929d0e0e4736_0102030405060708_01",
        ] {
            assert_eq!(text.parse::<TraceParent>(), Err(InvalidTraceParent), "{text:?}");
        }
    }
}
