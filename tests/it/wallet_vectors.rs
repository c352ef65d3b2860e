//! `docs/wallet-vectors.json`, the worked examples for authors of wallets, against the rules of the
//! daemon; and `docs/wallets.md` and `docs/wallet-sign-in.md` against the examples.

use std::fs;
use std::path::Path;

use alloy_primitives::{Address, B256, U256, hex, keccak256};
use ark_bn254::Fr;
use ark_ff::{BigInt, PrimeField};
use selfsame_protocol::commitment::{commitment, decompress_slots};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::ids::{CompressedKey, LeafIndex};
use selfsame_protocol::registry::Operation;
use selfsame_protocol::tree::{Root, empty_node, hash_pair};
use selfsame_protocol::verification::identity::{external_nullifier, hash_text, hash_to_field, text_bytes};
use selfsame_protocol::{address, number};
use selfsame_wallet::keys::AuthenticatorKey;
use selfsame_wallet::person::Person;
use selfsame_wallet::prove::{Session, nullifier};
use serde::de::DeserializeOwned;
use serde_json::Value;
use zeroize::Zeroizing;

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)).expect("a document")
}

/// The examples of one calculation.
fn examples(name: &str) -> Value {
    let vectors: Value = serde_json::from_str(&document("wallet-vectors.json")).expect("JSON");
    vectors.get(name).cloned().unwrap_or_else(|| panic!("there are no examples of {name}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn parse<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"))
}

fn to_number(value: &Value) -> U256 {
    number::parse(text(value)).expect("a number")
}

fn key(seed: &str) -> AuthenticatorKey {
    AuthenticatorKey::from_seed(Zeroizing::new(parse::<B256>(&seed.into()).0)).expect("a key")
}

/// The key of an address that the examples use.
fn key_of(address: &str) -> AuthenticatorKey {
    let keys = examples("keys");
    let known = list(&keys).iter().find(|key| key["address"] == address);
    key(text(&known.unwrap_or_else(|| panic!("no key has the address {address}"))["seed"]))
}

fn domain() -> RegistryDomain {
    let domain = examples("domain");
    RegistryDomain {
        chain_id: domain["chain_id"].as_u64().expect("a number"),
        verifying_contract: address::parse(text(&domain["registry_address"])).expect("an address"),
    }
}

#[test]
fn the_permutations_are_those_of_the_published_instances() {
    fn permute<const T: usize>(input: &[Value], permutation: fn(&mut [Fr; T])) -> Vec<U256> {
        let words = input.iter().map(|word| Fr::from_bigint(BigInt(*to_number(word).as_limbs())).expect("below p"));
        let mut state: [Fr; T] = words.collect::<Vec<_>>().try_into().expect("as many words");
        permutation(&mut state);
        state.iter().map(|word| U256::from_limbs(word.into_bigint().0)).collect()
    }
    let examples = examples("poseidon2");
    for example in list(&examples) {
        let input = list(&example["input"]);
        let output = match input.len() {
            2 => permute(input, taceo_poseidon2::bn254::t2::permutation_in_place),
            16 => permute(input, taceo_poseidon2::bn254::t16::permutation_in_place),
            width => panic!("no permutation has {width} words"),
        };
        assert_eq!(output, list(&example["output"]).iter().map(to_number).collect::<Vec<_>>());
    }
}

#[test]
fn keys_come_from_their_seeds() {
    for example in list(&examples("keys")) {
        let authenticator = key(text(&example["seed"])).authenticator();
        assert_eq!(address::text(&authenticator.address), example["address"]);
        assert_eq!(number::canonical(authenticator.compressed_key()), example["compressed"]);
        let (x, y) = authenticator.public_key.coordinates();
        assert_eq!((x.to_string(), y.to_string()), (text(&example["x"]).to_owned(), text(&example["y"]).to_owned()));
    }
}

#[test]
fn commitments_are_those_of_their_slots() {
    for example in list(&examples("commitments")) {
        let slots = decompress_slots(parse::<Vec<Option<CompressedKey>>>(&example["slots"])).expect("keys");
        assert_eq!(number::canonical(commitment(&slots)), example["commitment"], "{example}");
    }
}

#[test]
fn the_path_leads_up_through_its_nodes() {
    let path = examples("hash_path");
    let leaf_index: u64 = number::parse(text(&path["leaf_index"])).expect("a number");
    let mut node: B256 = parse(&path["leaf"]);
    let levels = list(&path["siblings"]).iter().zip(list(&path["nodes"]));
    assert_eq!(levels.len(), 3);
    for (level, (sibling, expected)) in levels.enumerate() {
        let sibling = parse(sibling);
        let is_right = leaf_index >> level & 1 == 1;
        node = if is_right { hash_pair(&sibling, &node) } else { hash_pair(&node, &sibling) };
        assert_eq!(node, parse::<B256>(expected), "level {level}");
    }
    let empty = examples("empty_tree");
    assert_eq!(parse::<Root>(&empty["root"]), Root::empty());
    assert_eq!(empty_node(empty["depth"].as_u64().expect("a number") as usize), Root::empty().0);
}

/// The operation that a body of an endpoint is.
fn operation(endpoint: &str, body: &Value) -> Operation {
    match endpoint {
        "/update-authenticator" => Operation::UpdateAuthenticator(parse(body)),
        "/insert-authenticator" => Operation::InsertAuthenticator(parse(body)),
        "/remove-authenticator" => Operation::RemoveAuthenticator(parse(body)),
        "/recover-account" => Operation::RecoverAccount(parse(body)),
        "/initiate-recovery-agent-update" => Operation::UpdateRecoveryAgent(parse(body)),
        "/cancel-recovery-agent-update" => Operation::CancelRecoveryAgentUpdate(parse(body)),
        endpoint => panic!("{endpoint} takes no signed operation"),
    }
}

#[test]
fn digests_and_signatures_are_those_of_the_operations() {
    let domain = domain();
    assert_eq!(domain.separator(), parse::<B256>(&examples("domain")["separator"]));
    let examples = examples("signatures");
    assert_eq!(list(&examples).len(), 6);
    for example in list(&examples) {
        let operation = operation(text(&example["endpoint"]), &example["body"]);
        let digest = domain.signing_digest(&operation).expect("a signed operation");
        assert_eq!(digest, parse::<B256>(&example["digest"]), "{example}");
        let signature = operation.signature().expect("a signature");
        let signer = key_of(text(&example["signer"]));
        assert_eq!(signature.recover(&digest), Ok(signer.address()), "{example}");
        assert_eq!(*signature, signer.sign(&digest).expect("a signature"), "{example}");
    }
}

/// The digest as a reader of the page computes it: from the type's text, and from the field of the
/// body that has the name of each field.
#[test]
fn digests_follow_from_the_texts_of_the_types() {
    let separator = domain().separator();
    let page = document("wallets.md");
    for example in list(&examples("signatures")) {
        let written = text(&example["type"]);
        assert!(page.lines().any(|line| line == written), "the page does not have {written}");
        let (_, fields) = written.trim_end_matches(')').split_once('(').expect("a type");
        let mut encoded = keccak256(written).to_vec();
        for field in fields.split(',') {
            let (kind, name) = field.split_once(' ').expect("type and name");
            let value = text(&example["body"][snake_case(name)]);
            let word: U256 = match kind {
                "address" => {
                    address::parse(value).map(|address: Address| address.into_word().into()).expect("an address")
                }
                _ => number::parse(value).expect("a number"),
            };
            encoded.extend(word.to_be_bytes::<32>());
        }
        let digest = keccak256([&[0x19, 1], separator.as_slice(), keccak256(encoded).as_slice()].concat());
        assert_eq!(digest, parse::<B256>(&example["digest"]), "{written}");
    }
}

fn snake_case(name: &str) -> String {
    let separated = |letter: char| {
        if letter.is_ascii_uppercase() { format!("_{}", letter.to_ascii_lowercase()) } else { letter.into() }
    };
    name.chars().map(separated).collect()
}

#[test]
fn texts_hash_to_the_field_as_shown() {
    for example in list(&examples("hash_to_field")) {
        let bytes = text_bytes(text(&example["text"]));
        assert_eq!(hex::encode_prefixed(&bytes), example["bytes"], "{example}");
        assert_eq!(number::padded(&hash_to_field(&bytes).into()), example["hash"], "{example}");
    }
    for example in list(&examples("external_nullifiers")) {
        let hash = external_nullifier(text(&example["app_id"]), text(&example["action"]));
        assert_eq!(number::padded(&hash.into()), example["external_nullifier"], "{example}");
    }
    let sign_in = examples("sign_in");
    for name in ["signal", "action"] {
        let hash = hash_text(text(&sign_in[name]));
        assert_eq!(number::padded(&hash.into()), sign_in[format!("{name}_hash")], "{name}");
    }
}

#[test]
fn the_simulators_nullifiers_belong_to_accounts() {
    for example in list(&examples("simulated_nullifiers")) {
        let person = Person::assumed(text(&example["seed"]), parse(&example["leaf_index"]));
        let nullifier = nullifier(&person, parse(&example["rp_id"]), hash_text(text(&example["action"])));
        assert_eq!(number::padded(&nullifier.0.into()), example["nullifier"], "{example}");
    }
}

#[test]
fn the_simulators_sessions_belong_to_accounts() {
    for example in list(&examples("simulated_sessions")) {
        let (seed, leaf_index) = (text(&example["seed"]), parse::<LeafIndex>(&example["leaf_index"]));
        let (rp_id, id) = (parse(&example["rp_id"]), text(&example["session_id"]));
        let session = Session::open(&Person::assumed(seed, leaf_index), rp_id, id);
        assert_eq!(session.map(|session| session.id()).as_deref(), Some(id), "{example}");
        let other = Person::assumed(seed, LeafIndex(leaf_index.0 + 1));
        assert_eq!(Session::open(&other, rp_id, id), None, "{example}");
    }
}

/// Values of the pages that the file has too cannot differ from it.
#[test]
fn the_pages_show_values_of_the_examples_only() {
    let page = document("wallets.md") + &document("wallet-sign-in.md");
    let vectors = document("wallet-vectors.json");
    let mut shown = 0;
    for word in page.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| word.len() >= 40) {
        if word.starts_with("0x") {
            assert!(vectors.contains(word), "{word}");
            shown += 1;
        }
    }
    assert!(shown >= 2, "{shown}");
    let parts: serde_json::Map<String, Value> = serde_json::from_str(&vectors).expect("an object");
    for part in parts.keys() {
        assert!(page.contains(&format!("`{part}`")), "no heading names {part}");
    }
}
