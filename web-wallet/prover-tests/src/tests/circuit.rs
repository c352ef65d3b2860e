//! The witness and the constraints, compared with the circuit's own artefacts.

use ark_ff::Zero;
use selfsame_prover::Poseidon;
use selfsame_prover::field::Scalar;
use selfsame_prover::poseidon::FULL_ROUNDS;
use selfsame_prover::witness::{CONSTRAINTS, Inputs, WIRES, Witness};
use semaphore_rs::protocol::generate_witness;

use super::*;
use crate::{make_key, read_artefacts};

#[test]
fn the_key_is_made_from_the_artefacts() {
    let artefacts = read_artefacts().expect("the package has the artefacts");
    assert!(make_key(&artefacts).expect("a key") == KEY, "key.bin is not what make_key writes");
}

/// The prover's witness for a request.
pub(super) fn witness(request: &Request) -> Witness {
    let read = |bytes: &[u8; 32]| Scalar::from_bytes(bytes).expect("below the modulus");
    Witness::new(
        &Poseidon::new(),
        &Inputs {
            nullifier_seed: read(&request.nullifier_seed),
            trapdoor: read(&request.trapdoor),
            position: request.position,
            siblings: request.siblings.each_ref().map(read),
            external_nullifier: read(&request.external_nullifier),
            signal_hash: read(&request.signal_hash),
        },
    )
}

/// All wires are those of the circuit's own program, and all factors of constraints are the linear
/// combinations of the circuit's matrices: what a proof is made of, without the second that making
/// it takes. TEST_PROVER_WITNESSES chooses how many.
#[test]
fn witnesses_and_constraints_are_those_of_the_circuit() {
    let matrices = read_artefacts().expect("the package has the artefacts").matrices;
    assert!(matrices.iter().all(|matrix| matrix.len() == CONSTRAINTS));
    let check = |statement: &Statement, case: &str| {
        let ours = witness(&statement.request);
        let (external_nullifier, signal_hash) = (statement.external_nullifier.into(), statement.signal_hash.into());
        let theirs = generate_witness(&statement.identity, &statement.path, external_nullifier, signal_hash);
        assert_eq!(theirs.len(), WIRES);
        for (wire, (ours, theirs)) in ours.wires.iter().zip(&theirs).enumerate() {
            assert_eq!(ours.to_bytes(), bytes(*theirs), "{case}: wire {wire}");
        }
        assert_eq!([ours.wires.len(), ours.a.len(), ours.b.len()], [WIRES, CONSTRAINTS, CONSTRAINTS]);
        for (matrix, factors) in matrices.iter().zip([&ours.a, &ours.b]) {
            for (row, (terms, factor)) in matrix.iter().zip(factors.iter()).enumerate() {
                let combination: Fr = terms.iter().map(|(factor, wire)| *factor * theirs[*wire]).sum();
                assert_eq!(factor.to_bytes(), bytes(combination), "{case}: constraint {row}");
            }
        }
    };
    let zeros = [Fr::zero(); DEPTH];
    for (case, statement) in [
        ("zeros", Statement::new([Fr::zero(); 4], 0, zeros)),
        ("highest", Statement::new([-Fr::from(1); 4], (1 << DEPTH) - 1, [-Fr::from(1); DEPTH])),
        ("first bit", Statement::new([Fr::from(1); 4], 1, zeros)),
        ("last bit", Statement::new([Fr::from(2); 4], 1 << (DEPTH - 1), zeros)),
    ] {
        check(&statement, case);
    }
    check_seeds(cases("TEST_PROVER_WITNESSES", 64), |seed| {
        let statement = Statement::at_random(&mut ChaCha20Rng::seed_from_u64(seed));
        check(&statement, &format!("seed {seed}"));
    });
}

/// The constants that the prover computes are those that `semaphore-rs` has in its sources.
#[test]
fn hashes_are_those_of_semaphore_rs() {
    let mut random = random();
    let poseidon = Poseidon::new();
    let number = |value: semaphore_rs::Field| Scalar::from_bytes(&value.to_be_bytes()).expect("below the modulus");
    for case in 0..200u64 {
        let [a, b]: [Fr; 2] = match case {
            0..4 => [Fr::from(case & 1), Fr::from(case >> 1)],
            _ => [Fr::rand(&mut random), Fr::rand(&mut random)],
        };
        let one = semaphore_rs_poseidon::poseidon::hash1(a.into());
        assert_eq!(poseidon.hash_one(ours(a)), number(one), "hash of {a}");
        let two = semaphore_rs_poseidon::poseidon::hash2(a.into(), b.into());
        assert_eq!(poseidon.hash_two(ours(a), ours(b)), number(two), "hash of {a} and {b}");
    }
    // The states before the first S-boxes of input zero are the constants.
    let states = poseidon.of_three.states([Scalar::default(); 3]);
    assert_eq!(states[0], semaphore_rs_poseidon::constants::C[0].map(number));
    assert_eq!(states.len(), 2 * FULL_ROUNDS + 57 + 1);
}
