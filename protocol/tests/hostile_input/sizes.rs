//! Inputs larger than any listener accepts: every parser needs time and memory in proportion to the
//! input.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use selfsame_protocol::encoding::decode;
use selfsame_protocol::groth16::VerificationKey;
use selfsame_protocol::json::from_object;
use selfsame_protocol::ledger::{Block, Receipt, RequestId};
use selfsame_protocol::registry::CreateAccount;
use selfsame_protocol::sign_in::{Parameters, authorize};
use selfsame_protocol::signature::Signature;
use selfsame_protocol::trace::Trace;
use selfsame_protocol::verification::RelyingPartyId;
use selfsame_protocol::verification::identity::hash_text;
use selfsame_protocol::verification::request::VerificationRequest;
use selfsame_protocol::{U256, address, number};
use serde_json::{Value, json};

use crate::memory::memory_of;
use crate::samples::modulus;

/// The size of each input in bytes.
const SIZE: usize = 1 << 20;

/// The processor time of this thread, which does not pass while others have the processor.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A piece of text repeated to one MiB, between a prefix and a suffix.
fn repeat_to_size(before: &str, piece: &str, after: &str) -> String {
    format!("{before}{}{after}", piece.repeat(SIZE / piece.len()))
}

/// An input would take minutes if a parser were quadratic, because that needs a million times a
/// million steps.
#[test]
fn large_inputs_take_time_and_memory_in_proportion() {
    type Parser = fn(&str);
    let text: [Parser; 9] = [
        |text| drop(number::parse::<u32>(text)),
        |text| drop(number::parse::<U256>(text)),
        |text| drop(address::parse(text)),
        |text| drop(Signature::parse(text)),
        |text| drop(text.parse::<RequestId>()),
        |text| drop(text.parse::<RelyingPartyId>()),
        |text| assert!(hash_text(text) < modulus()),
        |text| drop((authorize::is_challenge(text), authorize::is_verifier(text), authorize::challenge(text))),
        |text| {
            for name in ["nonce", "session_id", "action", "protocol_version", "responses"] {
                let item = json!({"proof": text, "identifier": text});
                let body = json!({"protocol_version": "4.0", "nonce": "1", "responses": [item], name: text});
                drop(VerificationRequest::read(&body));
            }
        },
    ];
    let bytes: [Parser; 8] = [
        |text| drop(Parameters::parse(text.as_bytes())),
        |text| drop(from_object::<Value>(text.as_bytes())),
        |text| drop(from_object::<CreateAccount>(text.as_bytes())),
        |text| drop(from_object::<Receipt>(text.as_bytes())),
        |text| drop(Trace::parse(text.as_bytes())),
        |text| drop(VerificationKey::from_json(text, 4)),
        |text| drop(decode::<Block>(text.as_bytes())),
        |text| drop(decode::<Vec<Option<String>>>(text.as_bytes())),
    ];
    let texts = [
        repeat_to_size("", "9", ""),
        repeat_to_size("", "0", "1"),
        repeat_to_size("0x", "0", "1"),
        repeat_to_size("0x", "f", ""),
        repeat_to_size("", " ", "1"),
        repeat_to_size("session_", "\u{3000}", ""),
        repeat_to_size("rp_", "é", ""),
    ];
    let bodies = [
        repeat_to_size("{\"a\":[", "0,", "0]}"),
        repeat_to_size("{\"a\":[", "{},", "0]}"),
        repeat_to_size("{\"a\":\"", "\\u0000", "\"}"),
        repeat_to_size("{\"a\":\"", "\\ud800\\udc00", "\"}"),
        repeat_to_size("{\"a\":", "9", "}"),
        repeat_to_size("{\"a\":1e", "9", "}"),
        repeat_to_size("{\"authenticator_addresses\":[", "\"0xfa24c331aee0e12af13e749af1a06f835c5142b5\",", "0]}"),
        repeat_to_size("{\"authenticator_pubkeys\":[", "\"0x1\",", "0]}"),
        repeat_to_size("", "[", ""),
        repeat_to_size("", "{\"a\":", ""),
        repeat_to_size("a=", "%00", ""),
        repeat_to_size("", "state=1&", ""),
        repeat_to_size("", "&", ""),
        repeat_to_size("", "=&", ""),
        repeat_to_size("\0\0\0\u{1}", "\0", ""),
        repeat_to_size("\u{7f}\u{7f}\u{7f}\u{7f}", "\u{1}", ""),
        // As many different keys as fit.
        format!("{{{}\"z\":0}}", (0..SIZE / 12).map(|key| format!("\"{key:x}\":0,")).collect::<String>()),
        (0..SIZE / 8).map(|key| format!("{key:x}=0&")).collect(),
    ];
    let all = text.iter().flat_map(|parse| texts.iter().map(move |text| (parse, text)));
    let all = all.chain(bytes.iter().flat_map(|parse| texts.iter().chain(&bodies).map(move |text| (parse, text))));
    for (parse, text) in all {
        let before = processor_time();
        let ((), most) = memory_of(|| parse(text));
        let (beginning, taken) = (text.chars().take(30).collect::<String>(), processor_time() - before);
        assert!(taken < Duration::from_secs(20), "{taken:?} for {beginning:?}…");
        assert!(most < 256 * text.len(), "{most} bytes of memory for {} of {beginning:?}…", text.len());
    }
}
