//! Proofs: equal to those of `semaphore-rs`, and accepted by the daemon's verifier.

use selfsame_protocol::U256;
use selfsame_protocol::groth16::{Claim, PreparedKey, Proof as CheckedProof, VerificationKey};
use selfsame_prover::field::Scalar;
use selfsame_prover::prove::prove_witness;
use selfsame_prover::witness::{PUBLIC_WIRES, Witness};
use selfsame_prover::{Error, Input, Poseidon, Proof, prove};
use semaphore_rs::protocol::{generate_nullifier_hash, generate_proof_rng};
use serde_json::{Value, json};

use super::circuit::witness;
use super::*;

/// Whether the daemon's verifier accepts a proof for these inputs: root, nullifier, signal hash,
/// external nullifier.
pub fn is_accepted(words: &[[u8; 32]; 8], inputs: [[u8; 32]; 4]) -> bool {
    let Ok(proof) = CheckedProof::from_legacy(&words.map(U256::from_be_bytes)) else { return false };
    let inputs = inputs.iter().map(|input| Fr::from_be_bytes_mod_order(input)).collect();
    let key = PreparedKey::new(VerificationKey::legacy());
    key.holds(&Claim::new(proof, inputs)).expect("four inputs")
}

fn inputs(request: &Request, proof: &Proof) -> [[u8; 32]; 4] {
    [proof.root, proof.nullifier, request.signal_hash, request.external_nullifier]
}

/// With the numbers that blind it, a proof is determined: the proofs are equal word by word. The
/// daemon refuses each with another bit. TEST_PROVER_PROOFS chooses how many; what they are made of
/// is compared for many more statements in `circuit.rs`.
#[test]
fn proofs_are_those_of_semaphore_rs_for_the_same_randomness() {
    let (key, poseidon) = (key(), Poseidon::new());
    let check = |seed| {
        let mut random = ChaCha20Rng::seed_from_u64(seed);
        let mut statement = Statement::at_random(&mut random);
        // What `semaphore-rs` draws from the same stream.
        let mut same = random.clone();
        statement.request.randomness = [(); 2].map(|()| wide(Fr::rand(&mut same)));
        let external_nullifier = statement.external_nullifier.into();
        let signal_hash = statement.signal_hash.into();
        let theirs =
            generate_proof_rng(&statement.identity, &statement.path, external_nullifier, signal_hash, &mut random);
        let semaphore_rs::protocol::Proof(a, b, c) = theirs.expect("a proof");
        let words = [a.0, a.1, b.0[0], b.0[1], b.1[0], b.1[1], c.0, c.1];
        let ours = prove(key, &poseidon, &statement.request).expect("a proof");
        assert_eq!(ours.words, words.map(|word| word.to_be_bytes::<32>()), "seed {seed}");
        let nullifier = generate_nullifier_hash(&statement.identity, external_nullifier);
        assert_eq!(ours.nullifier, nullifier.to_be_bytes::<32>(), "seed {seed}");
        let mut node = statement.identity.commitment();
        for branch in &statement.path.0 {
            node = match branch {
                Branch::Left(sibling) => semaphore_rs_poseidon::poseidon::hash2(node, *sibling),
                Branch::Right(sibling) => semaphore_rs_poseidon::poseidon::hash2(*sibling, node),
            };
        }
        assert_eq!(ours.root, node.to_be_bytes::<32>(), "seed {seed}");
        let right = inputs(&statement.request, &ours);
        assert!(is_accepted(&ours.words, right), "seed {seed}");
        let (mut wrong_words, mut wrong) = (ours.words, right);
        wrong_words[random.gen_range(0..8)][random.gen_range(0..32)] ^= 1 << random.gen_range(0..8);
        wrong[random.gen_range(0..4)][random.gen_range(0..32)] ^= 1 << random.gen_range(0..8);
        assert!(!is_accepted(&wrong_words, right) && !is_accepted(&ours.words, wrong), "seed {seed}");
    };
    check_seeds(cases("TEST_PROVER_PROOFS", 64), check);
}

/// A request with fixed numbers.
fn request() -> Request {
    let number = |value: u64| Fr::from(value);
    let siblings = std::array::from_fn(|level| number(100 + level as u64));
    let mut request = Statement::new([7, 5, 11, 13].map(number), 0b1101, siblings).request;
    request.randomness = [std::array::from_fn(|i| i as u8 + 1), std::array::from_fn(|i| 255 - i as u8)];
    request
}

#[test]
fn the_daemon_accepts_a_proof_for_its_own_inputs_only() {
    let (request, poseidon) = (request(), Poseidon::new());
    let proof = prove(key(), &poseidon, &request).expect("a proof");
    let right = inputs(&request, &proof);
    assert!(is_accepted(&proof.words, right));
    for input in 0..4 {
        let mut wrong = right;
        wrong[input][31] ^= 1;
        assert!(!is_accepted(&proof.words, wrong), "input {input}");
    }
    // Other random bytes give another proof for the same statement.
    let mut other = request.clone();
    other.randomness[0][40] ^= 1;
    let other = prove(key(), &poseidon, &other).expect("a proof");
    assert!(other.words != proof.words && is_accepted(&other.words, right));
    assert_eq!((other.root, other.nullifier), (proof.root, proof.nullifier));
}

/// One wire with another value, or one factor of a constraint: there is a proof, and the daemon
/// refuses it.
#[test]
fn proofs_of_wrong_witnesses_are_refused_by_the_daemon() {
    let mut random = random();
    let (request, poseidon) = (request(), Poseidon::new());
    let right = witness(&request);
    let proof = prove_witness(key(), &right, &request.randomness).expect("a proof");
    assert_eq!(proof, prove(key(), &poseidon, &request).expect("a proof"));
    for case in 0..cases("TEST_PROVER_WRONG", 12) {
        let mut wrong = witness(&request);
        let Witness { wires, a, b } = &mut wrong;
        let values = [wires, a, b];
        let values = &mut **values.into_iter().nth(case % 3).expect("a list");
        // The first wire is the number one. Public inputs are what the verifier is given.
        let place = random.gen_range(PUBLIC_WIRES..values.len());
        values[place] = values[place] + Scalar::small(1);
        let proof = prove_witness(key(), &wrong, &request.randomness).expect("a proof");
        assert!(!is_accepted(&proof.words, inputs(&request, &proof)), "list {} place {place}", case % 3);
    }
}

/// The path of the fixture: a request with its proof, which the test in Node.js makes again.
const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../prover/fixture.json");

/// `UPDATE_FIXTURE=1` writes it.
#[test]
fn the_fixture_has_the_native_proof() {
    let mut request = request();
    let proof = prove(key(), &Poseidon::new(), &request).expect("a proof");
    assert!(is_accepted(&proof.words, inputs(&request, &proof)));
    request.root = Some(proof.root);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let fixture = json!({
        "request": {
            "nullifierSeed": hex(&request.nullifier_seed),
            "trapdoor": hex(&request.trapdoor),
            "position": request.position,
            "siblings": request.siblings.each_ref().map(|sibling| hex(sibling)).to_vec(),
            "externalNullifier": hex(&request.external_nullifier),
            "signalHash": hex(&request.signal_hash),
            "randomness": hex(&request.randomness.concat()),
            "root": hex(&proof.root),
        },
        "root": hex(&proof.root),
        "nullifier": hex(&proof.nullifier),
        "proof": hex(&proof.words.concat()),
    });
    if std::env::var_os("UPDATE_FIXTURE").is_some() {
        std::fs::write(FIXTURE, format!("{fixture:#}\n")).expect("written");
    }
    let written: Value = serde_json::from_slice(&std::fs::read(FIXTURE).expect("a fixture")).expect("JSON");
    assert_eq!(written, fixture);
}

#[test]
fn wrong_requests_are_named_errors() {
    let poseidon = Poseidon::new();
    let modulus = {
        let mut modulus = bytes(-Fr::from(1));
        modulus[31] += 1;
        modulus
    };
    let check = |change: &dyn Fn(&mut Request), error: Error, name: &str| {
        let mut request = request();
        change(&mut request);
        assert_eq!(prove(key(), &poseidon, &request), Err(error));
        assert_eq!(error.to_string(), name);
    };
    let not_in_field = Error::NotInField;
    check(&|r| r.nullifier_seed = modulus, not_in_field(Input::NullifierSeed), "nullifier_seed_not_in_field");
    check(&|r| r.trapdoor = modulus, not_in_field(Input::Trapdoor), "trapdoor_not_in_field");
    check(&|r| r.siblings[29] = modulus, not_in_field(Input::Sibling), "sibling_not_in_field");
    check(&|r| r.siblings[0] = [255; 32], not_in_field(Input::Sibling), "sibling_not_in_field");
    check(&|r| r.root = Some(modulus), not_in_field(Input::Root), "root_not_in_field");
    check(
        &|r| r.external_nullifier = modulus,
        not_in_field(Input::ExternalNullifier),
        "external_nullifier_not_in_field",
    );
    check(&|r| r.signal_hash = modulus, not_in_field(Input::SignalHash), "signal_hash_not_in_field");
    check(&|r| r.position = 1 << DEPTH, Error::PositionOutsideTree, "position_outside_tree");
    check(&|r| r.root = Some([1; 32]), Error::PathNotOfRoot, "path_not_of_root");
    check(&|r| r.randomness[0] = [0; 48], Error::NotRandom, "not_random");
    check(&|r| r.randomness[1] = wide(Fr::from(0)), Error::NotRandom, "not_random");
    check(&|r| r.randomness[1] = r.randomness[0], Error::NotRandom, "not_random");
    // The modulus itself is zero.
    let zero = [&[0; 16], &modulus[..]].concat();
    check(&|r| r.randomness[1].copy_from_slice(&zero), Error::NotRandom, "not_random");
}

#[test]
fn a_path_of_another_position_is_an_error() {
    let poseidon = Poseidon::new();
    let mut request = request();
    request.root = Some(prove(key(), &poseidon, &request).expect("a proof").root);
    assert!(prove(key(), &poseidon, &request).is_ok());
    for level in [0, 1, 29] {
        let mut other = request.clone();
        other.position ^= 1 << level;
        assert_eq!(prove(key(), &poseidon, &other), Err(Error::PathNotOfRoot), "level {level}");
    }
}

#[test]
fn cut_and_damaged_keys_are_named_errors() {
    let read = |file: &[u8]| ProvingKey::read(file).map(|_| ()).map_err(Error::name);
    for length in [0, 1, 32, KEY.len() / 2, KEY.len() - 1] {
        assert_eq!(read(&KEY[..length]), Err("key_length"));
    }
    assert_eq!(read(&[KEY, &[0]].concat()), Err("key_length"));
    let mut random = random();
    for place in [0, 40, 300, 2_000, KEY.len() - 1, random.gen_range(0..KEY.len())] {
        let mut damaged = KEY.to_vec();
        damaged[place] ^= 1 << random.gen_range(0..8);
        assert_eq!(read(&damaged), Err("key_damaged"), "byte {place}");
    }
}
