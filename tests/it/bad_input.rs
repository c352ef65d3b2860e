//! Malformed bodies at every route that takes a body: each is refused with a JSON error that names
//! the field, and the daemon keeps working.

use alloy_primitives::{Address, U256, keccak256};
use selfsame_interfaces::interface::Interface;
use selfsame_protocol::ids::PubkeyId;
use selfsame_wallet::operations::create_account;
use serde_json::{Map, Value, json};

use crate::http_contract::{GATEWAY_GETS, GATEWAY_POSTS, INDEXER_POSTS, MISSING_OPERATIONS};
use crate::registry_client::{RawHttpConnection, RegistryClient};
use crate::test_accounts::key;

/// The kind of value that a field holds.
#[derive(Clone, Copy, PartialEq)]
enum FieldKind {
    Number { bits: u32 },
    Address,
    Signature,
    Addresses,
    Numbers,
    Optional(&'static FieldKind),
}

use FieldKind::{Address as Addr, Addresses, Number, Numbers, Optional, Signature};

const BITS_32: FieldKind = Number { bits: 32 };
const BITS_64: FieldKind = Number { bits: 64 };
const BITS_256: FieldKind = Number { bits: 256 };

const ADDRESS: &str = "0x71a4fb49dcddadfed612b153b000fbab994ed6af";

/// The fields of every body.
fn fields(path: &str) -> Vec<(&'static str, FieldKind)> {
    let signed = [("leaf_index", BITS_64), ("signature", Signature), ("nonce", BITS_256)];
    let commitments = [("old_offchain_signer_commitment", BITS_256), ("new_offchain_signer_commitment", BITS_256)];
    let new = [("new_authenticator_address", Addr), ("pubkey_id", BITS_32), ("new_authenticator_pubkey", BITS_256)];
    let with =
        |more: &[&[(&'static str, FieldKind)]]| signed.iter().chain(more.iter().copied().flatten()).copied().collect();
    match path.trim_start_matches("/compat") {
        "/create-account" => vec![
            ("recovery_address", Optional(&Addr)),
            ("authenticator_addresses", Addresses),
            ("authenticator_pubkeys", Numbers),
            ("offchain_signer_commitment", BITS_256),
        ],
        "/update-authenticator" => with(&[&commitments, &new, &[("old_authenticator_address", Addr)]]),
        "/insert-authenticator" => with(&[&commitments, &new]),
        "/remove-authenticator" => with(&[
            &commitments,
            &[
                ("authenticator_address", Addr),
                ("pubkey_id", Optional(&BITS_32)),
                ("authenticator_pubkey", Optional(&BITS_256)),
            ],
        ]),
        "/recover-account" => with(&[
            &commitments,
            &[("new_authenticator_address", Addr), ("new_authenticator_pubkey", Optional(&BITS_256))],
        ]),
        "/initiate-recovery-agent-update" => with(&[&[("new_recovery_agent", Addr)]]),
        "/cancel-recovery-agent-update" => with(&[]),
        "/packed-account" => vec![("authenticator_address", Addr)],
        _ => vec![("leaf_index", BITS_64)],
    }
}

/// A valid value of a kind.
fn good_value(kind: FieldKind) -> Value {
    match kind {
        Number { .. } => json!("0x9"),
        Addr => json!(ADDRESS),
        Signature => json!(format!("0x{}", "1".repeat(130))),
        Addresses => json!([ADDRESS]),
        Numbers => json!(["0x9"]),
        Optional(kind) => good_value(*kind),
    }
}

/// A body that parses. The rules may still refuse it.
fn good_body(path: &str) -> Map<String, Value> {
    fields(path).into_iter().map(|(name, kind)| (name.to_owned(), good_value(kind))).collect()
}

/// Values that no field of this kind accepts.
fn bad_values(kind: FieldKind) -> Vec<Value> {
    let scalars = [json!(5), json!(0), json!(-1), json!(5.5), json!(true), json!({}), json!({"pk": "0x1"})];
    let text = || scalars.clone().into_iter().chain([json!(null), json!([]), json!(["0x1"]), json!([[[]]])]);
    let texts = |texts: Vec<String>| text().chain(texts.into_iter().map(Value::from)).collect();
    match kind {
        Number { bits } => {
            let largest = U256::MAX >> (256 - bits as usize);
            let decimal = match bits {
                32 => "4294967296".to_owned(),
                64 => "18446744073709551616".to_owned(),
                _ => "115792089237316195423570985008687907853269984665640564039457584007913129639936".to_owned(),
            };
            let mut bad =
                vec![decimal, format!("{largest:#x}0"), "9".repeat(60_000), format!("0x{}", "f".repeat(60_000))];
            bad.extend(
                [
                    "", " ", "\t\n", "0x", "0X", " 0x ", "-1", "+1", "-0", "1_000", "1,000", "1 000", "1.0", "1e3",
                    "ff", "0xg",
                ]
                .map(String::from),
            );
            bad.extend(
                ["0x 1", "0x-1", "0x1_0", "0b1", "0o7", "٣", "1\0", "\0", "NaN", "null", "\"1\""].map(String::from),
            );
            texts(bad)
        }
        Addr => {
            let digits = &ADDRESS[2..];
            texts(vec![
                String::new(),
                "0x".to_owned(),
                digits[1..].to_owned(),
                format!("0x{}", &digits[1..]),
                format!("{digits}0"),
                format!("0X{digits}"),
                format!(" {digits}"),
                format!("{ADDRESS} "),
                format!("0x{}g", &digits[1..]),
                format!("0x{}é", &digits[2..]),
                format!("0x0x{}", &digits[2..]),
                format!("0x{}\0", &digits[1..]),
            ])
        }
        Signature => texts(vec![
            String::new(),
            "0x".to_owned(),
            "0x9".to_owned(),
            "1".repeat(128),
            "1".repeat(129),
            "1".repeat(131),
            "1".repeat(132),
            format!("0X{}", "1".repeat(130)),
            format!(" {}", "1".repeat(130)),
            format!("{}g", "1".repeat(129)),
            format!("{}é", "1".repeat(128)),
        ]),
        Addresses | Numbers => {
            let item = if kind == Addresses { Addr } else { BITS_256 };
            let good = good_value(item);
            let mut bad: Vec<Value> =
                scalars.into_iter().chain([json!(null), good.clone(), json!({"0": good})]).collect();
            bad.extend(bad_values(item).into_iter().map(|value| json!([good, value])));
            bad
        }
        // `null` means the same as an absent field.
        Optional(kind) => bad_values(*kind).into_iter().filter(|value| !value.is_null()).collect(),
    }
}

/// The routes that take a body, with their URLs.
fn routes(client: &RegistryClient) -> Vec<(String, String)> {
    let gateway = GATEWAY_POSTS.iter().filter(|path| !MISSING_OPERATIONS.contains(path));
    let gateway = gateway.map(|path| ((*path).to_owned(), client.daemon.gateway(path)));
    let indexer = INDEXER_POSTS.iter().flat_map(|path| [(*path).to_owned(), format!("/compat{path}")]);
    gateway.chain(indexer.map(|path| (path.clone(), client.daemon.indexer(&path)))).collect()
}

#[tokio::test]
async fn errors_name_missing_and_malformed_fields() {
    let client = RegistryClient::start().await;
    client.create(&[&key("alice")], Address::ZERO).await;
    let before = client.standing().await;
    for (path, url) in routes(&client) {
        let good = good_body(&path);
        for (name, kind) in fields(&path) {
            let mut body = good.clone();
            body.remove(name);
            if !matches!(kind, Optional(_)) {
                let answer = client.post(url.clone(), json!(body).to_string()).await;
                let message = answer.expect_error(400, "bad_request");
                assert_eq!(message, format!("missing field `{name}`"), "{path}");
            }
            for value in bad_values(kind) {
                body.insert(name.to_owned(), value.clone());
                let answer = client.post(url.clone(), json!(body).to_string()).await;
                // A slot that does not fit its field is out of bounds like slot 7.
                let is_slot = name == "pubkey_id" && value.as_str().is_some_and(|text| text.len() > 9);
                if is_slot {
                    let message = answer.expect_error(400, "pubkey_id_out_of_bounds");
                    let expected =
                        "PubkeyIdOutOfBounds: pubkey_id is 2^32 or greater; an account has 7 slots, counted from 0";
                    assert_eq!(message, expected, "{path}");
                    continue;
                }
                let message = answer.expect_error(400, "bad_request");
                let shown: String = value.to_string().chars().take(100).collect();
                assert!(message.starts_with(name), "{path}: {name} = {shown}: {message}");
                assert!(message.chars().count() < 400, "{path}: {name} = {shown}: {message}");
            }
        }
    }
    assert_eq!(client.standing().await, before);
    client.assert_works().await;
}

/// Bodies that are malformed as a whole, made from a good one.
fn broken(good: &Map<String, Value>) -> Vec<Vec<u8>> {
    let text = json!(good).to_string();
    let (name, value) = good.iter().next().expect("a field");
    let inner = &text[1..text.len() - 1];
    let mut bodies: Vec<Vec<u8>> = [
        String::new(),
        " ".to_owned(),
        "{".to_owned(),
        "}".to_owned(),
        format!("[{text}]"),
        "[]".to_owned(),
        json!(text).to_string(),
        "null".to_owned(),
        "5".to_owned(),
        "true".to_owned(),
        format!("{text}x"),
        format!("{text}{text}"),
        format!("{text},"),
        format!("{text}\0"),
        format!("\0{text}"),
        format!("// comment\n{text}"),
        format!("{{{inner},}}"),
        format!("{{,{inner}}}"),
        format!("{{{inner},\"{name}\":{value}}}"),
        format!("{{\"{name}\":{value},{inner}}}"),
        format!("{{{inner},\"\\u{:04x}{}\":{value}}}", name.as_bytes()[0], &name[1..]),
        format!("{{{inner},\"x\":{{\"y\":1,\"y\":1}}}}"),
        format!("{{{inner},\"x\":[[{{\"y\":1,\"y\":1}}]]}}"),
        format!("{{{inner},\"x\":{}}}", "[".repeat(30_000)),
        format!("{{{inner},\"x\":{}{}}}", "[".repeat(30_000), "]".repeat(30_000)),
        format!("{{{inner},\"x\":{}1{}}}", "{\"x\":".repeat(8_000), "}".repeat(8_000)),
        format!("{{{inner},\"x\":1e999999}}"),
        format!("{{{inner},\"x\":NaN}}"),
        format!("{{{inner},\"x\":-Infinity}}"),
        format!("{{{inner},\"x\":01}}"),
        format!("{{{inner},\"x\":+1}}"),
        format!("{{{inner},\"x\":'y'}}"),
        format!("{{{inner},x:1}}"),
        format!("{{{inner},\"x\":\"\\ud800\"}}"),
        format!("{{{inner},\"x\":\"\\x41\"}}"),
        format!("{{{inner},\"x\":\"line\nbreak\"}}"),
        format!("{{{inner},\"x\":\"\0\"}}"),
    ]
    .map(String::into_bytes)
    .into();
    bodies.push([b"{\"x\":\"\xff\",", inner.as_bytes(), b"}"].concat());
    bodies.push([b"{\"x\":\"\xed\xa0\x80\",", inner.as_bytes(), b"}"].concat());
    bodies.push(text.encode_utf16().flat_map(u16::to_be_bytes).collect());
    bodies.extend((1..text.len()).step_by(11).map(|end| text.as_bytes()[..end].to_vec()));
    bodies
}

#[tokio::test]
async fn bodies_other_than_json_objects_are_refused() {
    let client = RegistryClient::start().await;
    let before = client.standing().await;
    for (path, url) in routes(&client) {
        for body in broken(&good_body(&path)) {
            let shown = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
            let answer = client.post(url.clone(), body).await;
            let message = answer.expect_error(400, "bad_request");
            let says_so =
                message.starts_with("the body is not valid JSON: ") || message == "the body must be a JSON object";
            assert!(says_so, "{path} {shown}: {message}");
        }
    }
    assert_eq!(client.standing().await, before);
    client.assert_works().await;
}

#[tokio::test]
async fn the_indexer_reads_numbers_and_addresses_in_every_spelling() {
    let client = RegistryClient::start().await;
    let alice = key("alice");
    client.create(&[&alice], Address::ZERO).await;
    let long = format!("0x{}1", "0".repeat(60_000));
    for spelling in ["1", "01", "0001", "0x1", "0X1", "0x01", " 1 ", "\t0x1\n", "\u{2003}1", long.as_str()] {
        let answer = client.query("/signature-nonce", json!({"leaf_index": spelling, "unknown": [null]})).await;
        assert_eq!(answer.body, json!({"signature_nonce": "0x0"}), "{answer:?}");
    }
    let largest = ["18446744073709551615", "0xFfFfffffffffffff"];
    for spelling in largest {
        let answer = client.query("/inclusion-proof", json!({"leaf_index": spelling})).await;
        assert_eq!(answer.expect_error(404, "not_found"), "no account has leaf index 0xffffffffffffffff");
    }
    let escaped = r#"{"\u006ceaf_index":"\u0030x1"}"#;
    assert_eq!(client.post(client.daemon.indexer("/signature-nonce"), escaped).await.status, 200);
    let digits = format!("{:x}", alice.address());
    let checksummed = alice.address().to_checksum(None);
    // A wrong EIP-55 checksum is accepted.
    let inverted: String = checksummed[2..]
        .chars()
        .map(|c| if c.is_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
        .collect();
    let upper = digits.to_uppercase();
    for spelling in [
        digits.clone(),
        format!("0x{digits}"),
        checksummed,
        format!("0x{inverted}"),
        upper.clone(),
        format!("0x{upper}"),
    ] {
        let answer = client.query("/packed-account", json!({"authenticator_address": spelling})).await;
        assert_eq!(answer.body, json!({"packed_account_data": "0x1"}), "{answer:?}");
    }
}

#[tokio::test]
async fn the_gateway_reads_every_spelling_as_the_same_request() {
    let client = RegistryClient::start_holding(2).await;
    let [alice, bob, tablet] = ["alice", "bob", "tablet"].map(key);
    let [alices, _] = client.create_pair([&alice, &bob]).await;
    let step = alices.insert(&client.domain(), &alice, tablet.authenticator(), PubkeyId(1)).expect("a valid operation");
    let good = serde_json::to_value(&step.operation).expect("JSON");
    let url = || client.daemon.gateway("/insert-authenticator");
    let accepted = client.post(url(), good.to_string()).await;
    let request_id = accepted.request_id();

    let text = |name: &str| good[name].as_str().expect("a text").to_owned();
    let decimal = |name: &str| text(name).parse::<U256>().expect("a number").to_string();
    let (commitment, public_key) = ("new_offchain_signer_commitment", "new_authenticator_pubkey");
    let (address, signature) = (text("new_authenticator_address"), text("signature"));
    let spellings = [
        ("leaf_index", decimal("leaf_index")),
        ("leaf_index", format!(" 0X0{}\n", &text("leaf_index")[2..])),
        ("nonce", "0".to_owned()),
        ("nonce", "0x00".to_owned()),
        ("pubkey_id", "1".to_owned()),
        ("pubkey_id", "0x00000000001".to_owned()),
        (commitment, decimal(commitment)),
        (commitment, text(commitment).to_uppercase().replacen("0X", "0x", 1)),
        (public_key, decimal(public_key)),
        (public_key, text(public_key).to_uppercase()),
        ("new_authenticator_address", address[2..].to_owned()),
        ("new_authenticator_address", address[2..].to_uppercase()),
        ("signature", signature[2..].to_owned()),
        ("signature", signature[2..].to_uppercase()),
        ("unknown", "key".to_owned()),
    ];
    for (name, spelling) in spellings {
        let mut body = good.clone();
        body[name] = json!(spelling);
        let answer = client.post(url(), body.to_string()).await;
        let message = answer.expect_error(400, "duplicate_request_in_flight");
        assert!(message.contains(request_id), "{name} = {spelling}: {message}");
    }
}

#[tokio::test]
async fn the_v_of_a_signature_has_four_spellings() {
    let client = RegistryClient::start().await;
    let alice = key("alice");
    let mut alices = client.create(&[&alice], Address::ZERO).await;
    let mut seen = std::collections::HashSet::new();
    for nonce in 0_u8..12 {
        let agent = Address::repeat_byte(nonce + 1);
        let step = alices.update_recovery_agent(&client.domain(), &alice, agent).expect("a valid operation");
        let mut body = serde_json::to_value(&step.operation).expect("JSON");
        let signature = body["signature"].as_str().expect("a text").to_owned();
        let v = if signature.ends_with("1b") { ["1b", "00"] } else { ["1c", "01"] };
        let v = v[usize::from(nonce % 2)];
        seen.insert(v);
        body["signature"] = json!(format!("{}{v}", &signature[..130]));
        let answer = client.post(client.daemon.gateway("/initiate-recovery-agent-update"), body.to_string()).await;
        assert_eq!(answer.status, 200, "{v}: {answer:?}");
        assert_eq!(client.final_state(answer.request_id()).await["state"], "finalized");
        alices = step.after;
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[tokio::test]
async fn an_absent_a_null_and_a_zero_recovery_address_mean_the_same() {
    let client = RegistryClient::start().await;
    for (name, agent) in [("a", None), ("b", Some(json!(null))), ("c", Some(json!(Address::ZERO)))] {
        let step = create_account(&[key(name).authenticator()], Address::ZERO);
        let mut body = serde_json::to_value(&step.operation).expect("JSON");
        body.as_object_mut().expect("an object").remove("recovery_address");
        if let Some(agent) = agent {
            body["recovery_address"] = agent;
        }
        let answer = client.post(client.daemon.gateway("/create-account"), body.to_string()).await;
        assert_eq!(client.final_state(answer.request_id()).await["state"], "finalized", "{name}");
        let leaf_index = client.leaf_index(key(name).address()).await;
        let answer = client.query("/recovery-agent", json!({"leaf_index": leaf_index.to_string()})).await;
        assert_eq!(answer.body, json!({"recovery_agent": Address::ZERO}));
    }
}

/// Mutations of bytes that are the same in every run.
struct MutationChoices {
    seed: u64,
    rolled: Vec<u8>,
}

impl MutationChoices {
    fn byte(&mut self) -> u8 {
        if self.rolled.is_empty() {
            self.seed += 1;
            self.rolled = keccak256(self.seed.to_be_bytes()).to_vec();
        }
        self.rolled.pop().unwrap_or_default()
    }

    fn below(&mut self, limit: usize) -> usize {
        let number = u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()]);
        number as usize % limit.max(1)
    }

    /// Changes a few positions of `bytes`.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        const PIECES: [&[u8]; 16] = [
            b"\"", b"{", b"}", b"[", b"]", b":", b",", b"null", b"0x", b"-1", b"\0", b"\\u0000", b"\xff", b"1e9",
            b"[[[[", b"\"\":",
        ];
        for _ in 0..=self.below(4) {
            let place = self.below(bytes.len() + 1);
            let end = (place + self.below(12)).min(bytes.len());
            match self.below(6) {
                0 if place < bytes.len() => bytes[place] ^= 1 << self.below(8),
                1 => bytes.insert(place, self.byte()),
                2 => drop(bytes.splice(place..place, PIECES[self.below(PIECES.len())].iter().copied())),
                3 => drop(bytes.drain(place..end)),
                4 => {
                    let copy = bytes[place..end].to_vec();
                    let to = self.below(bytes.len() + 1);
                    bytes.splice(to..to, copy);
                }
                _ => bytes.truncate(place),
            }
        }
    }
}

#[tokio::test]
async fn mutated_bodies_are_answered_and_change_nothing_else() {
    let client = RegistryClient::start().await;
    let domain = client.domain();
    let [alice, tablet] = ["alice", "tablet"].map(key);
    let alices = client.create(&[&alice], Address::ZERO).await;
    let insert =
        alices.insert(&domain, &alice, tablet.authenticator(), PubkeyId(1)).expect("a valid operation").operation;
    let insert = serde_json::to_value(insert).expect("JSON");
    let mut gateway = RawHttpConnection::open(client.daemon.addresses[Interface::Gateway]).await;
    let mut indexer = RawHttpConnection::open(client.daemon.addresses[Interface::Indexer]).await;
    let routes = routes(&client);
    let mut choices = MutationChoices { seed: 0, rolled: Vec::new() };
    let mut refused = 0;
    for round in 0..4000 {
        let (path, url) = &routes[round % routes.len()];
        let good = if path == "/insert-authenticator" { insert.clone() } else { json!(good_body(path)) };
        let mut body = good.to_string().into_bytes();
        choices.mutate(&mut body);
        let is_gateway = *url == client.daemon.gateway(path);
        let connection = if is_gateway { &mut gateway } else { &mut indexer };
        connection.post(path, &body).await;
        // Every answer is checked to be JSON and, unless it is a success, an error object.
        let answer = connection.answer().await;
        let shown = String::from_utf8_lossy(&body);
        assert!(matches!(answer.status, 200 | 400 | 404 | 409), "{path} {shown}: {answer:?}");
        refused += usize::from(answer.status != 200);
    }
    assert!(refused > 3000, "{refused}");

    let mut paths: Vec<Vec<u8>> = GATEWAY_GETS.iter().map(|path| path.as_bytes().to_vec()).collect();
    paths.push(b"/is-valid-root?root=0x1".to_vec());
    paths.push(b"/status/gw_00000000-0000-4000-8000-000000000000?wait=0".to_vec());
    for round in 0..1000 {
        let mut path = paths[round % paths.len()].clone();
        choices.mutate(&mut path);
        // hyper refuses these characters as HTTP and closes the connection. Without them the
        // interface answers.
        path.retain(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(byte));
        gateway
            .send([b"GET /", path.strip_prefix(b"/").unwrap_or(&path), b" HTTP/1.1\r\nhost: h\r\n\r\n"].concat())
            .await;
        let answer = gateway.answer().await;
        assert!(matches!(answer.status, 200 | 400 | 404), "{answer:?}");
    }
    client.assert_works().await;
}
