//! Integrity bundles with one change each: none is good, and none makes an error of the service.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::StreamExt;
use futures_util::stream;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::integrity::keys::KeySet;
use selfsame_protocol::verification::integrity::simulator::SimulatedKey;
use selfsame_protocol::verification::integrity::{IntegrityRules, Platform};
use selfsame_protocol::verification::request::VerificationRequest;
use selfsame_wallet::bundle::{Device, sign_token};
use serde_json::{Value, json};

use crate::harness::{START, seeds, variable};
use crate::verification_cases::CasePlayer;

/// How many changed bundles are judged; `TEST_BUNDLES` sets another number.
const BUNDLES: usize = 5_000;

/// How many are sent to a daemon; `TEST_BUNDLES` sets another number here, too.
const SENT: usize = 400;

/// How many of them are on the way at a time.
const OPEN: usize = 16;

/// Choices that follow from a seed (SplitMix64).
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// A request with a good bundle.
struct Good {
    body: Value,
    /// Whether the bundle speaks of the entries, and not of the nonce alone.
    speaks_of_entries: bool,
    platform: Platform,
}

fn key_set() -> KeySet {
    let mut key = SimulatedKey::of_issuer("staging").expect("a key").point().to_jwk();
    key["kid"] = json!("key_staging");
    KeySet::read(json!({ "keys": [key] }).to_string().as_bytes()).expect("a key set")
}

/// Whether a body is a request whose bundle holds.
fn is_good(body: &Value, keys: &KeySet) -> bool {
    let Ok(request) = VerificationRequest::read(body) else { return false };
    let rules = IntegrityRules {
        issuer: "attestation.worldcoin.dev",
        audiences: vec!["rp_ae569966006aca98".to_owned()],
        now: UnixSeconds(START.as_secs()),
        clock_tolerance: 30,
    };
    request.integrity_bundle.is_some_and(|bundle| bundle.judge(keys, &rules).is_ok())
}

async fn good_requests(player: &mut CasePlayer) -> Vec<Good> {
    let mut requests = Vec::new();
    for (name, platform) in [("android", Platform::Android), ("ios", Platform::Ios)] {
        let items = |several: bool| if several { json!([{"issuer": 11, "score": 12}, {}]) } else { json!([{}]) };
        for (kind, version, several) in [
            ("uniqueness", 1, false),
            ("uniqueness", 2, true),
            ("session", 2, true),
            ("bound", 2, false),
            ("legacy", 1, false),
        ] {
            let make = json!({
                "kind": kind, "app": "both", "action": "mutations", "environment": "staging", "items": items(several),
            });
            let body = player.with_bundle(make, json!({"version": version, "platform": name})).await;
            let speaks_of_entries = version == 2 || kind == "legacy";
            requests.push(Good { body, speaks_of_entries, platform });
        }
    }
    requests
}

/// The body with one change after which the bundle does not hold.
fn change(good: &Good, choices: &mut Choices) -> (&'static str, Value) {
    let Good { mut body, speaks_of_entries, platform } =
        Good { body: good.body.clone(), speaks_of_entries: good.speaks_of_entries, platform: good.platform };
    let signature = hex_bytes(&body["integrity_bundle"]["signature"]);
    let token = body["integrity_bundle"]["jwt"].as_str().expect("text").to_owned();
    let what = match choices.below(13) {
        0 => {
            let mut bytes = signature;
            // The data of the authenticator is signed as well.
            let index = choices.below(bytes.len());
            bytes[index] ^= 1 << choices.below(8);
            set_signature(&mut body, &bytes);
            "a bit of the signature"
        }
        1 => {
            let cut = choices.below(signature.len() - 1) + 1;
            set_signature(&mut body, &signature[..cut]);
            "a shorter signature"
        }
        2 => {
            let more = vec![choices.below(256) as u8; choices.below(70) + 1];
            set_signature(&mut body, &[signature, more].concat());
            "a longer signature"
        }
        3 => {
            set_signature(&mut body, &other_der(&signature, platform, choices));
            "another encoding of the signature"
        }
        4 => {
            let mut text = token.into_bytes();
            let index = choices.below(text.len());
            let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=";
            let other = alphabet.iter().copied().filter(|byte| *byte != text[index]).collect::<Vec<_>>();
            text[index] = *choices.one_of(&other);
            body["integrity_bundle"]["jwt"] = String::from_utf8(text).expect("ASCII").into();
            "a character of the token"
        }
        5 => {
            let cut = choices.below(token.len());
            body["integrity_bundle"]["jwt"] = match choices.below(2) {
                0 => token[..cut].into(),
                _ => format!("{}{}{}", &token[..cut], &token[cut / 2..cut], &token[cut..]).into(),
            };
            if body["integrity_bundle"]["jwt"] == json!(token) {
                body["integrity_bundle"]["jwt"] = format!("{token}A").into();
            }
            "a shorter or longer token"
        }
        6 => {
            let time = body["integrity_bundle"]["timestamp"].as_u64().expect("a time");
            let other = match choices.below(4) {
                0 => time.wrapping_add(1 << choices.below(53)) % (1 << 53),
                1 => time.saturating_sub(1 + choices.next() % 400),
                2 => time + 1 + choices.next() % 400,
                _ => choices.next(),
            };
            body["integrity_bundle"]["timestamp"] = other.into();
            "another time"
        }
        7 => {
            body["integrity_bundle"]["jwt"] = resigned(&token, platform, choices).into();
            "a token with another key or claim"
        }
        8 => {
            let (name, other) = *choices.one_of(&[("version", 0), ("signature_format", 1), ("version", 2)]);
            body["integrity_bundle"][name] = match (name, other) {
                ("version", 0) => (3 - body["integrity_bundle"]["version"].as_u64().expect("a number")).into(),
                ("version", _) => choices.next().into(),
                _ if platform == Platform::Ios => "android_keystore".into(),
                _ => "apple_app_attest".into(),
            };
            "another version or format"
        }
        9 if body["protocol_version"] == "4.0" => {
            body["nonce"] = format!("{:#x}", choices.next()).into();
            "another nonce"
        }
        10 if speaks_of_entries => {
            let entries = body["responses"].as_array_mut().expect("entries");
            match choices.below(3) {
                0 if entries.len() > 1 => entries.reverse(),
                1 if entries.len() > 1 => drop(entries.pop()),
                _ => entries.push(entries[0].clone()),
            }
            "another order or number of entries"
        }
        11 if body["responses"][0].get("sybil_score").is_some() => {
            body["responses"][0]["sybil_score"] = match choices.below(3) {
                0 => (13 + choices.next() % (1 << 52)).into(),
                1 => choices.below(12).into(),
                _ => choices.one_of(&[json!(-1), json!(0.5), json!("12"), Value::Null]).clone(),
            };
            "another score"
        }
        _ if speaks_of_entries => {
            let index = choices.below(body["responses"].as_array().expect("entries").len());
            let entry = &mut body["responses"][index];
            let other = json!(format!("{:#x}", choices.next()));
            if entry.get("session_nullifier").is_some() {
                entry["session_nullifier"][choices.below(2)] = other;
            } else if entry["proof"].is_string() {
                let text = entry["proof"].as_str().expect("text").to_owned();
                let last = if text.ends_with('0') { "1" } else { "0" };
                entry["proof"] = format!("{}{last}", &text[..text.len() - 1]).into();
            } else {
                entry["nullifier"] = other;
            }
            "another proof or nullifier"
        }
        _ => {
            body["integrity_bundle"]["jwt"] = resigned(&token, platform, choices).into();
            "a token with another key or claim"
        }
    };
    (what, body)
}

fn hex_bytes(text: &Value) -> Vec<u8> {
    alloy_primitives::hex::decode(text.as_str().expect("text")).expect("hex digits")
}

fn set_signature(body: &mut Value, bytes: &[u8]) {
    body["integrity_bundle"]["signature"] = alloy_primitives::hex::encode(bytes).into();
}

/// Another encoding of a signature, which readers that are not strict take for the same one.
fn other_der(signature: &[u8], platform: Platform, choices: &mut Choices) -> Vec<u8> {
    let mut bytes = signature.to_vec();
    if platform == Platform::Ios {
        // The head of the map, or of its first value, in a longer form.
        return match choices.below(3) {
            0 => [[0xb8, 2].as_slice(), &bytes[1..]].concat(),
            1 => [&bytes[..11], &[0x59, 0], &bytes[12..]].concat(),
            _ => [[0xbf].as_slice(), &bytes[1..], &[0xff]].concat(),
        };
    }
    let first = usize::from(bytes[3]);
    match choices.below(4) {
        // A length in the long form.
        0 => {
            drop(bytes.splice(1..2, [0x81, signature[1]]));
        }
        // A number with a zero before it.
        1 => {
            drop(bytes.splice(3..4, [signature[3] + 1, 0]));
            bytes[1] += 1;
        }
        // The numbers in the other order.
        2 => {
            let (one, two) = bytes[2..].split_at(2 + first);
            bytes = [&signature[..2], two, one].concat();
        }
        // Zero for the first number.
        _ => {
            let rest = bytes.split_off(4 + first);
            bytes = [[0x30, 3 + rest.len() as u8, 2, 1, 0].as_slice(), &rest].concat();
        }
    }
    bytes
}

/// A token for the same device that is signed with another key, or has another header or claim.
fn resigned(token: &str, platform: Platform, choices: &mut Choices) -> String {
    let part = |index: usize| -> Value {
        let text = token.split('.').nth(index).expect("three parts");
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).expect("base64url")).expect("JSON")
    };
    let (mut head, mut body) = (part(0), part(1));
    let right = SimulatedKey::of_issuer("staging").expect("a key");
    let wrong = SimulatedKey::of_issuer(&choices.next().to_string()).expect("a key");
    let other = Device::of_seed(&choices.next().to_be_bytes(), platform).expect("a device");
    let now = START.as_secs();
    let key = match choices.below(12) {
        0 => &wrong,
        1 => {
            head["alg"] = choices.one_of(&[json!("none"), json!("HS256"), json!("es256"), Value::Null]).clone();
            &right
        }
        2 => {
            head["kid"] = choices.one_of(&[json!("key_production"), json!(""), json!(7), Value::Null]).clone();
            &right
        }
        3 => {
            head["crit"] = json!(["exp"]);
            &right
        }
        4 => {
            body["iss"] = choices.one_of(&[json!("attestation.worldcoin.org"), json!(""), Value::Null]).clone();
            &right
        }
        5 => {
            body["aud"] = choices.one_of(&[json!("rp_00000000000000aa"), json!([]), json!({}), Value::Null]).clone();
            &right
        }
        6 => {
            body["exp"] =
                choices.one_of(&[json!(now - 30), json!(0), json!(-1), json!("4102444800"), Value::Null]).clone();
            &right
        }
        7 => {
            body["nbf"] = choices.one_of(&[json!(now + 31), json!("0"), Value::Null]).clone();
            &right
        }
        8 => {
            body["pass"] = choices.one_of(&[json!(false), json!("true"), json!(1), Value::Null]).clone();
            &right
        }
        9 => {
            body["platform"] = choices.one_of(&[json!("web"), json!(""), Value::Null]).clone();
            &right
        }
        10 => {
            body["cnf"] = choices.one_of(&[json!({}), json!({"jwk": []}), Value::Null]).clone();
            &right
        }
        _ => {
            body["cnf"]["jwk"] = other.key.point().to_jwk();
            &right
        }
    };
    sign_token(key, &head, &body).expect("signed")
}

#[tokio::test]
async fn no_changed_bundle_is_good() {
    let mut player = CasePlayer::start().await;
    let (good, keys) = (good_requests(&mut player).await, key_set());
    for Good { body, .. } in &good {
        assert!(is_good(body, &keys), "{body}");
    }
    let bundles = variable("TEST_BUNDLES").unwrap_or(BUNDLES);
    let (mut dearest, mut spent) = (Duration::ZERO, Duration::ZERO);
    for seed in seeds("hostile", "no_changed_bundle_is_good") {
        let mut choices = Choices(seed);
        for _ in 0..bundles {
            let (what, body) = change(choices.one_of(&good), &mut choices);
            let began = Instant::now();
            let is_good = is_good(&body, &keys);
            let took = began.elapsed();
            (dearest, spent) = (dearest.max(took), spent + took);
            assert!(!is_good, "{what}: {body}");
        }
    }
    eprintln!("{bundles} bundles: {spent:?} together, the dearest {dearest:?}; a good one {:?}", of_good(&good, &keys));
    player.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_changed_bundle_is_taken_by_a_daemon() {
    let mut player = CasePlayer::start().await;
    let good = good_requests(&mut player).await;
    let sent = variable("TEST_BUNDLES").unwrap_or(SENT);
    for seed in seeds("hostile", "no_changed_bundle_is_taken_by_a_daemon") {
        let mut choices = Choices(seed);
        let changed = (0..sent).map(|_| change(choices.one_of(&good), &mut choices));
        let began = Instant::now();
        let mut answers = stream::iter(changed)
            .map(async |(what, body)| {
                let (status, answer) = player.ask("both", &body).await;
                let code = answer["code"].as_str().unwrap_or_default().to_owned();
                let refusals = [(400, "validation_error"), (403, "integrity_verification_failed")];
                assert!(refusals.contains(&(status, &*code)), "{what}: {status} {answer}: {body}");
                (status, code, what)
            })
            .buffer_unordered(OPEN);
        let mut counts = BTreeMap::new();
        while let Some(answer) = answers.next().await {
            *counts.entry(answer).or_insert(0) += 1;
        }
        eprintln!("{sent} bundles were sent in {:?}: {counts:#?}", began.elapsed());
    }
    // The requests that they were made from are taken all the same.
    for Good { body, .. } in &good {
        let (status, answer) = player.ask("both", body).await;
        assert_eq!((status, &answer["integrity"]), (200, &json!("verified")), "{answer}");
    }
    player.daemon.stop().await;
}

/// The time of a good bundle, which takes two checks of signatures.
fn of_good(good: &[Good], keys: &KeySet) -> Duration {
    let began = Instant::now();
    let count = good.iter().cycle().take(200).filter(|request| is_good(&request.body, keys)).count();
    assert_eq!(count, 200);
    began.elapsed() / 200
}
