//! The vectors of groups (`protocol/vectors/groups.json`): hashes, identities, paths and link
//! proofs.

use selfsame_prover::field::Scalar;
use selfsame_prover::{Poseidon, prove};
use serde_json::Value;

use super::proofs::is_accepted;
use super::*;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../../protocol/vectors/groups.json")).expect("JSON")
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().expect("a list")
}

/// A number of the vectors, as bytes.
fn number(value: &Value) -> [u8; 32] {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x")).expect("a number in hex");
    assert_eq!(digits.len(), 64);
    std::array::from_fn(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("hex"))
}

fn scalar(value: &Value) -> Scalar {
    Scalar::from_bytes(&number(value)).expect("below the modulus")
}

#[test]
fn hashes_are_those_of_the_vectors() {
    let (vectors, poseidon) = (vectors(), Poseidon::new());
    let constants = &vectors["constants"];
    assert_eq!(poseidon.hash_one(Scalar::small(1)), scalar(&constants["poseidon1_of_1"]));
    assert_eq!(poseidon.hash_two(Scalar::small(1), Scalar::small(2)), scalar(&constants["poseidon2_of_1_2"]));
    let mut zero = Scalar::default();
    for node in list(constants, "zero_nodes") {
        assert_eq!(zero, scalar(node));
        zero = poseidon.hash_two(zero, zero);
    }
    for vector in list(&vectors, "poseidon") {
        let [a, b] = [scalar(&vector["in"][0]), scalar(&vector["in"][1])];
        assert_eq!(poseidon.hash_two(a, b), scalar(&vector["poseidon2"]));
        assert_eq!(poseidon.hash_one(a), scalar(&vector["poseidon1_of_first"]));
    }
}

#[test]
fn paths_of_the_vectors_lead_to_their_roots() {
    let (vectors, poseidon) = (vectors(), Poseidon::new());
    let trees = list(&vectors, "trees").iter();
    let paths = trees.flat_map(|tree| list(tree, "paths").iter().map(move |path| (&tree["root"], path)));
    let mut tried = 0;
    for (expected, path) in paths {
        let position = path["position"].as_u64().expect("a position");
        let siblings = list(path, "siblings");
        assert_eq!(siblings.len(), DEPTH);
        let root = siblings.iter().enumerate().fold(scalar(&path["leaf"]), |node, (level, sibling)| {
            match position >> level & 1 {
                0 => poseidon.hash_two(node, scalar(sibling)),
                _ => poseidon.hash_two(scalar(sibling), node),
            }
        });
        assert_eq!(root, scalar(expected));
        tried += 1;
    }
    assert!(tried > 3, "{tried} paths");
}

/// The prover computes the same root and nullifier as the link proofs of the vectors, and its own
/// proof is accepted in the place of theirs.
#[test]
fn link_proofs_of_the_vectors_are_made_anew() {
    let (vectors, poseidon) = (vectors(), Poseidon::new());
    let zeros: Vec<_> = list(&vectors["constants"], "zero_nodes").iter().map(number).collect();
    let mut made = 0;
    for vector in list(&vectors, "link_proofs") {
        let words = vector["proof"].as_str().expect("a proof");
        let words: [[u8; 32]; 8] =
            std::array::from_fn(|i| number(&Value::from(format!("0x{}", &words[2 + 64 * i..66 + 64 * i]))));
        let inputs =
            ["merkle_root", "nullifier", "signal_hash", "external_nullifier"].map(|name| number(&vector[name]));
        assert!(is_accepted(&words, inputs), "the proof of the vectors");
        // The identity with this secret has the vector's commitment.
        let identity = list(&vectors, "identities").iter().find(|identity| identity["secret"] == vector["secret"]);
        let Some(identity) = identity else { continue };
        let leaves = list(identity, "groups").iter().flat_map(|group| list(group, "leaves"));
        let leaf = leaves.clone().find(|leaf| leaf["commitment"] == vector["commitment"]);
        let Some(leaf) = leaf else { continue };
        let request = Request {
            nullifier_seed: number(&identity["nullifier_seed"]),
            trapdoor: number(&leaf["trapdoor"]),
            position: 0,
            siblings: std::array::from_fn(|level| zeros[level]),
            root: Some(inputs[0]),
            external_nullifier: inputs[3],
            signal_hash: inputs[2],
            randomness: [[1; 48], [2; 48]],
        };
        let proof = prove(key(), &poseidon, &request).expect("a proof");
        assert_eq!((proof.root, proof.nullifier), (inputs[0], inputs[1]));
        assert!(is_accepted(&proof.words, inputs));
        made += 1;
    }
    assert!(made >= 3, "{made} proofs");
}
