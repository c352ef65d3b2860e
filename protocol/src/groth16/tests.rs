use ark_bn254::{Fq, Fq2, Fr, G1Affine, G2Affine};
use ark_ec::bn::BnConfig;
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{AdditiveGroup, PrimeField};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::key::{CURRENT_INPUTS, LEGACY_INPUTS};
use super::point::{compress_g1, compress_g2, coordinate_number, decompress_g1, decompress_g2, g1, g2};
use super::simulator::Simulator;
use super::*;
use crate::keccak256;
use crate::tree::field_element;

const SIGN_IN: &str = include_str!("../../vectors/v3_depth30_signin_mock.json");
const VERIFY_USER: &str = include_str!("../../vectors/v3_depth30_verify_user.json");
const UNVERIFIED: &str = include_str!("../../vectors/v3_unverified_portal_proof_mock.json");
const SESSION: &str = include_str!("../../vectors/v4_session.json");
const BOUND: &str = include_str!("../../vectors/v4_uniqueness_bound_to_session.json");

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn value(value: &Value) -> U256 {
    crate::number::parse(value.as_str().expect("text")).expect("a number")
}

fn element(of: &Value) -> Fr {
    field_element(&value(of)).expect("an element")
}

fn legacy(text: &str) -> Claim {
    let case = json(text);
    let digits = case["proof"].as_str().expect("text").strip_prefix("0x").expect("hex");
    let words = std::array::from_fn(|index| U256::from_str_radix(&digits[index * 64..][..64], 16).expect("hex"));
    let inputs = ["root", "nullifier_hash", "signal_hash", "external_nullifier"].map(|name| element(&case[name]));
    Claim::new(Proof::from_legacy(&words).expect("a proof"), inputs.to_vec())
}

fn current(text: &str) -> Claim {
    let case = json(text);
    let words = std::array::from_fn(|index| value(&case["proof"][index]));
    let inputs = case["public_inputs"].as_array().expect("a list").iter().map(element).collect();
    Claim::new(Proof::from_current(&words).expect("a proof"), inputs)
}

fn prepare(key: &VerificationKey) -> PreparedKey {
    PreparedKey::new(key)
}

/// Pseudo-random coefficients that repeat for the same seed.
fn coefficients(seed: u64) -> impl FnMut() -> u128 {
    let mut drawn = 0u64;
    move || {
        drawn += 1;
        let bytes = keccak256([seed.to_be_bytes(), drawn.to_be_bytes()].concat());
        u128::from_be_bytes(std::array::from_fn(|index| bytes[index]))
    }
}

fn scalar(seed: u64) -> Fr {
    Fr::from_be_bytes_mod_order(&keccak256(seed.to_be_bytes()).0)
}

#[test]
fn the_built_in_keys_match_the_verifier_contract() {
    let constants = &json(include_str!("../../vectors/vk_v4_verifier_sol.json"))["constants"];
    let number = |name: &str| value(&constants[name]);
    let key = VerificationKey::current();
    assert_eq!(key.input_count(), CURRENT_INPUTS);
    assert_eq!(g1(&number("ALPHA_X"), &number("ALPHA_Y")), Ok(key.alpha));
    // The contract holds the other three points negated.
    for (name, point) in [("BETA", key.beta), ("GAMMA", key.gamma), ("DELTA", key.delta)] {
        let [x0, x1, y0, y1] =
            ["X_0", "X_1", "Y_0", "Y_1"].map(|coordinate| number(&format!("{name}_NEG_{coordinate}")));
        assert_eq!(g2([&x0, &x1], [&y0, &y1]), Ok(-point), "{name}");
    }
    assert_eq!(g1(&number("CONSTANT_X"), &number("CONSTANT_Y")), Ok(key.inputs[0]));
    for index in 0..CURRENT_INPUTS {
        let (x, y) = (number(&format!("PUB_{index}_X")), number(&format!("PUB_{index}_Y")));
        assert_eq!(g1(&x, &y), Ok(key.inputs[index + 1]), "input {index}");
    }
    assert_eq!(VerificationKey::legacy().input_count(), LEGACY_INPUTS);
}

#[test]
fn recorded_legacy_proofs_hold() {
    let key = prepare(VerificationKey::legacy());
    for (text, expected) in [(SIGN_IN, true), (VERIFY_USER, true), (UNVERIFIED, false)] {
        assert_eq!(key.holds(&legacy(text)), Ok(expected));
    }
    let all = [SIGN_IN, UNVERIFIED, VERIFY_USER].map(legacy);
    assert_eq!(key.which_hold(&all, &mut coefficients(1)), Ok(vec![true, false, true]));
}

#[test]
fn recorded_current_proofs_hold() {
    let key = prepare(VerificationKey::current());
    let session = current(SESSION);
    assert_eq!(key.holds(&session), Ok(true));
    let bound = current(BOUND);
    assert_eq!(key.holds(&bound), Ok(true));
    // A proof that is bound to a session is not a uniqueness proof.
    let mut unbound = bound.clone();
    unbound.inputs[14] = Fr::ZERO;
    assert_eq!(key.holds(&unbound), Ok(false));
    let all = [session, unbound, bound];
    assert_eq!(key.which_hold(&all, &mut coefficients(2)), Ok(vec![true, false, true]));
}

#[test]
fn a_proof_fails_when_any_input_changes() {
    for (key, claim) in [
        (VerificationKey::legacy(), legacy(VERIFY_USER)),
        (VerificationKey::legacy(), legacy(SIGN_IN)),
        (VerificationKey::current(), current(SESSION)),
    ] {
        let key = prepare(key);
        for index in 0..key.input_count() {
            let mut changed = claim.clone();
            changed.inputs[index] += Fr::from(1u64);
            assert_eq!(key.holds(&changed), Ok(false), "input {index}");
        }
    }
}

#[test]
fn a_proof_alone_has_the_same_answer_on_one_thread_and_on_two() {
    let generator = G1Affine::generator();
    for (key, claim) in
        [(VerificationKey::legacy(), legacy(VERIFY_USER)), (VerificationKey::current(), current(SESSION))]
    {
        let key = prepare(key);
        let mut changed = vec![(claim.clone(), true); 5];
        changed[1].0.inputs[0] += Fr::from(1u64);
        changed[2].0.proof.a = (claim.proof.a + generator).into_affine();
        changed[3].0.proof.b = -claim.proof.b;
        changed[4].0.proof.c = (claim.proof.c + generator).into_affine();
        changed[1..].iter_mut().for_each(|(_, holds)| *holds = false);
        for threads in [1, 2] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads start");
            for (index, (claim, holds)) in changed.iter().enumerate() {
                let answer = pool.install(|| key.holds(claim));
                assert_eq!(answer, Ok(*holds), "claim {index} on {threads} threads");
            }
        }
    }
}

#[test]
fn a_wrong_number_of_inputs_is_an_error() {
    let key = prepare(VerificationKey::current());
    let claim = current(SESSION);
    let mut fewer = claim.clone();
    fewer.inputs.pop();
    let mut more = claim.clone();
    more.inputs.push(Fr::ZERO);
    for (claim, found) in [(&fewer, 14), (&more, 16)] {
        let error = InputCountError { found, expected: 15 };
        assert_eq!(key.holds(claim), Err(error));
        assert_eq!(key.which_hold(&[current(SESSION), claim.clone()], &mut coefficients(3)), Err(error));
    }
}

#[test]
fn a_proof_fails_under_another_key() {
    let simulator = Simulator::from_seed(b"seed", CURRENT_INPUTS);
    let key = prepare(&simulator.verification_key());
    let strange = current(SESSION);
    let prove = |number: u64| {
        let inputs: Vec<Fr> = (0..15).map(|index| scalar(number * 100 + index)).collect();
        let proof = simulator.prove(&inputs, [scalar(number), scalar(number + 1)]).expect("15 inputs");
        Claim::new(proof, inputs)
    };
    assert_eq!(key.holds(&prove(1)), Ok(true));
    assert_eq!(key.holds(&strange), Ok(false));
    assert_eq!(prepare(VerificationKey::current()).holds(&prove(1)), Ok(false));
    let batch = [prove(1), prove(2), strange, prove(3)];
    assert_eq!(key.which_hold(&batch, &mut coefficients(4)), Ok(vec![true, true, false, true]));
    let other = Simulator::from_seed(b"another seed", CURRENT_INPUTS);
    assert_eq!(prepare(&other.verification_key()).holds(&prove(1)), Ok(false));
    assert_eq!(simulator.prove(&[], [scalar(1); 2]), Err(InputCountError { found: 0, expected: 15 }));
}

#[test]
fn one_bad_proof_among_sixty_four_is_found() {
    let simulator = Simulator::from_seed(b"batch", 4);
    let key = prepare(&simulator.verification_key());
    let mut claims: Vec<Claim> = (0..64u64)
        .map(|number| {
            let inputs: Vec<Fr> = (0..4).map(|index| scalar(number * 10 + index)).collect();
            let proof = simulator.prove(&inputs, [scalar(number), scalar(number + 64)]).expect("4 inputs");
            Claim::new(proof, inputs)
        })
        .collect();
    assert_eq!(key.which_hold(&claims, &mut coefficients(5)), Ok(vec![true; 64]));
    claims[37].inputs[2] += Fr::from(1u64);
    let expected: Vec<bool> = (0..64).map(|index| index != 37).collect();
    assert_eq!(key.which_hold(&claims, &mut coefficients(5)), Ok(expected));
    // Two errors that would cancel out without coefficients.
    let (c0, c1) = (claims[0].proof.c, claims[1].proof.c);
    let shift = G1Affine::generator() * scalar(9);
    claims[0].proof.c = (c0.into_group() + shift).into_affine();
    claims[1].proof.c = (c1.into_group() - shift).into_affine();
    let hold = key.which_hold(&claims[..3], &mut coefficients(6));
    assert_eq!(hold, Ok(vec![false, false, true]));
}

/// A coefficient is drawn for each proof of each batch, so that the draws count how often proofs
/// are in a batch.
#[test]
fn a_proof_is_in_at_most_one_batch_whatever_its_neighbours_are() {
    let simulator = Simulator::from_seed(b"neighbours", 4);
    let key = prepare(&simulator.verification_key());
    let claim = |number: u64, is_bad: bool| {
        let mut inputs: Vec<Fr> = (0..4).map(|index| scalar(10 * number + index)).collect();
        let proof = simulator.prove(&inputs, [scalar(number + 1), scalar(number + 2)]).expect("4 inputs");
        inputs[1] += Fr::from(u64::from(is_bad));
        Claim::new(proof, inputs)
    };
    for (count, bad_every) in [(64, 1), (64, 2), (64, 64), (48, 3), (33, 1), (16, 2), (3, 1), (1, 1)] {
        let claims: Vec<Claim> = (0..count).map(|number| claim(number, number % bad_every == 0)).collect();
        let (mut drawn, mut random) = (0, coefficients(count));
        let hold = key.which_hold(&claims, &mut || {
            drawn += 1;
            random()
        });
        let expected: Vec<bool> = (0..count).map(|number| number % bad_every != 0).collect();
        assert_eq!(hold, Ok(expected));
        assert!(drawn <= count, "{drawn} coefficients for {count} proofs, one in {bad_every} bad");
    }
}

#[test]
fn malleated_copies_of_a_proof_hold() {
    let key = prepare(VerificationKey::legacy());
    let mut claim = legacy(VERIFY_USER);
    let original = claim.proof;
    claim.proof = Proof { a: -original.a, b: -original.b, c: original.c };
    assert_ne!(claim.proof.to_legacy(), original.to_legacy());
    assert_eq!(key.holds(&claim), Ok(true));
}

#[test]
fn compression_matches_the_recorded_proof() {
    let case = json(include_str!("../../vectors/v3_compression_roundtrip.json"));
    let flat: [U256; 8] = std::array::from_fn(|index| value(&case["flat"][index]));
    let compressed: [U256; 4] = std::array::from_fn(|index| value(&case["compressed"][index]));
    let proof = Proof::from_legacy(&flat).expect("a proof");
    assert_eq!(proof.to_legacy(), flat);
    assert_eq!(proof.to_current(), compressed);
    assert_eq!(Proof::from_current(&compressed), Ok(proof));
    let [a, b1, b0, c] = compressed;
    let zero = U256::ZERO;
    assert_eq!(Proof::from_legacy(&[a, b1, b0, c, zero, zero, zero, zero]), Ok(proof));
}

#[test]
fn a_proof_with_swapped_words_is_rejected() {
    let [ax, ay, bx1, bx0, by1, by0, cx, cy] = legacy(VERIFY_USER).proof.to_legacy();
    let real_first = [ax, ay, bx0, bx1, by0, by1, cx, cy];
    let off_curve = |point| proof::ProofError { point, error: PointError::NotOnCurve };
    assert_eq!(Proof::from_legacy(&real_first), Err(off_curve('B')));
    assert_eq!(Proof::from_legacy(&[ay, ax, bx1, bx0, by1, by0, cx, cy]), Err(off_curve('A')));
    assert_eq!(Proof::from_legacy(&[ax, ay, bx1, bx0, by1, by0, cy, cx]), Err(off_curve('C')));
}

/// A point of the curve that is outside the subgroup of G2.
fn outside_the_subgroup() -> G2Affine {
    let mut x = Fq2::new(Fq::from(1u64), Fq::ZERO);
    loop {
        match G2Affine::get_point_from_x_unchecked(x, true) {
            Some(point) if !point.is_in_correct_subgroup_assuming_on_curve() => return point,
            _ => x.c0 += Fq::from(1u64),
        }
    }
}

#[test]
fn invalid_points_are_rejected() {
    let modulus = U256::from_limbs(Fq::MODULUS.0);
    let (zero, one, two) = (U256::ZERO, U256::from(1), U256::from(2));
    assert_eq!(g1(&one, &two), Ok(G1Affine::generator()));
    for ((x, y), error) in [
        ((zero, zero), PointError::Infinity),
        ((one, one), PointError::NotOnCurve),
        ((modulus + one, two), PointError::NotCanonical),
        ((one, modulus + two), PointError::NotCanonical),
        ((modulus, modulus), PointError::NotCanonical),
        ((U256::MAX, U256::MAX), PointError::NotCanonical),
    ] {
        assert_eq!(g1(&x, &y), Err(error), "{x} {y}");
    }
    for (word, error) in [
        (zero, PointError::Infinity),
        // Another text of infinity: no point has x = 0.
        (one, PointError::NotOnCurve),
        (modulus << 1, PointError::NotCanonical),
        (U256::MAX, PointError::NotCanonical),
    ] {
        assert_eq!(decompress_g1(&word), Err(error), "{word}");
    }

    let outside = outside_the_subgroup();
    let words = [outside.x.c0, outside.x.c1, outside.y.c0, outside.y.c1].map(|value| coordinate_number(&value));
    let [x0, x1, y0, y1] = &words;
    assert_eq!(g2([x0, x1], [y0, y1]), Err(PointError::NotInSubgroup));
    assert_eq!(g2([x1, x0], [y0, y1]), Err(PointError::NotOnCurve));
    assert_eq!(g2([&(x0 + modulus), x1], [y0, y1]), Err(PointError::NotCanonical));
    assert_eq!(g2([&zero, &zero], [&zero, &zero]), Err(PointError::Infinity));
    let (real, imaginary) = compress_g2(&outside);
    assert_eq!(decompress_g2(&real, &imaginary), Err(PointError::NotInSubgroup));

    let (real, imaginary) = compress_g2(&G2Affine::generator());
    assert_eq!(decompress_g2(&real, &imaginary), Ok(G2Affine::generator()));
    assert_eq!(decompress_g2(&(real ^ one), &imaginary), Ok(-G2Affine::generator()));
    assert_eq!(decompress_g2(&(real ^ two), &imaginary), Err(PointError::NotOnCurve));
    assert_eq!(decompress_g2(&real, &(imaginary + modulus)), Err(PointError::NotCanonical));
    assert_eq!(decompress_g2(&zero, &zero), Err(PointError::Infinity));
}

/// The equation of the subgroup check says that η(P) = 0 for η = x + 1 + xψ + xψ² - 2xψ³, where
/// ψ² = tψ - p. The order of such a point divides the norm of η and the number of points.
#[test]
fn only_points_of_the_subgroup_fulfil_the_equation_of_the_subgroup_check() {
    type Wide = alloy_primitives::Uint<1024, 16>;
    let wide = |limbs: &[u64]| Wide::from_limbs_slice(limbs);
    let x = wide(ark_bn254::Config::X);
    let (p, r) = (wide(&Fq::MODULUS.0), wide(&Fr::MODULUS.0));
    let trace = Wide::from(6) * x * x + Wide::from(1);
    assert_eq!(p + Wide::from(1) - trace, r);
    // With ψ² = tψ - p and ψ³ = (t² - p)ψ - tp, η is 1 + x - xp + 2xtp less (2x(t² - p) - xt - x)ψ.
    let constant = Wide::from(1) + x + Wide::from(2) * x * trace * p - x * p;
    let factor = Wide::from(2) * x * (trace * trace - p) - x * trace - x;
    // The norm of a - bψ is a² - abt + b²p.
    let norm = constant * constant + factor * factor * p - constant * factor * trace;
    let number_of_points = r * (Wide::from(2) * p - r);
    assert_eq!(norm.gcd(number_of_points), r);
}

/// Words of proofs whose points are wrong in all ways, and of good ones.
fn words_of_many_kinds() -> Vec<ProofWords> {
    let modulus = U256::from_limbs(Fq::MODULUS.0);
    let (zero, one) = (U256::ZERO, U256::from(1));
    let good = [legacy(SIGN_IN).proof, legacy(VERIFY_USER).proof, current(SESSION).proof];
    let outside = outside_the_subgroup();
    let (outside_b0, outside_b1) = compress_g2(&outside);
    let outside = [outside.x.c1, outside.x.c0, outside.y.c1, outside.y.c0].map(|value| coordinate_number(&value));
    let mut words = Vec::new();
    for proof in good {
        let (plain, compressed) = (proof.to_legacy(), proof.to_current());
        let [a, b1, b0, c] = compressed;
        words.extend([ProofWords::Legacy(plain), ProofWords::Current(compressed)]);
        words.push(ProofWords::Legacy([a, b1, b0, c, zero, zero, zero, zero]));
        for index in 0..plain.len() {
            for changed in [zero, one, plain[index] + one, plain[index] + modulus, modulus, U256::MAX] {
                let mut plain = plain;
                plain[index] = changed;
                words.push(ProofWords::Legacy(plain));
            }
        }
        for index in 0..compressed.len() {
            let word = compressed[index];
            for changed in
                [zero, one, word ^ one, word ^ (one << 1), word + (one << 2), modulus << 1, modulus << 2, U256::MAX]
            {
                let mut compressed = compressed;
                compressed[index] = changed;
                words.push(ProofWords::Current(compressed));
            }
        }
        let [ax, ay, _, _, _, _, cx, cy] = plain;
        words.push(ProofWords::Legacy([ax, ay, outside[0], outside[1], outside[2], outside[3], cx, cy]));
        words.push(ProofWords::Current([a, outside_b1, outside_b0, c]));
        words.push(ProofWords::Current([zero, outside_b1, outside_b0, U256::MAX]));
        words.push(ProofWords::Current([a, zero, zero, zero]));
    }
    words
}

#[test]
fn proofs_are_decoded_together_as_they_are_alone() {
    let words = words_of_many_kinds();
    let alone: Vec<_> = words.iter().map(ProofWords::decode).collect();
    assert_eq!(ProofWords::decode_all(&words), alone);
    let scalar_powers = |elements: &[Fq]| elements.iter().map(|element| point::root_power(*element)).collect();
    let in_scalars = |points: &[G2Affine]| points.iter().map(point::is_in_subgroup).collect();
    assert_eq!(proof::decode_together(&words, scalar_powers, in_scalars), alone);
    for count in [0, 1, 2, 9] {
        assert_eq!(ProofWords::decode_all(&words[..count]), alone[..count]);
    }
    for error in [PointError::Infinity, PointError::NotCanonical, PointError::NotOnCurve, PointError::NotInSubgroup] {
        assert!(alone.iter().any(|proof| proof.is_err_and(|found| found.error == error)), "{error}");
    }
    assert!(alone.iter().filter(|proof| proof.is_ok()).count() >= 9);
}

#[test]
fn batches_have_the_same_verdicts_in_lanes_and_in_scalars() {
    let simulator = Simulator::from_seed(b"both ways", 3);
    let key = prepare(&simulator.verification_key());
    for (count, bad) in [(8, None), (9, None), (40, None), (8, Some(0)), (19, Some(18)), (40, Some(7))] {
        let claims = (0..count).map(|number| {
            let mut inputs: Vec<Fr> = (0..3).map(|index| scalar(number * 10 + index)).collect();
            let proof = simulator.prove(&inputs, [scalar(number + 1), scalar(number + 2)]).expect("3 inputs");
            inputs[2] += Fr::from(u64::from(bad == Some(number)));
            Claim::new(proof, inputs)
        });
        let claims: Vec<Claim> = claims.collect();
        let expected: Vec<bool> = (0..count).map(|number| bad != Some(number)).collect();
        let mut random = coefficients(count);
        let drawn: Vec<_> = claims.iter().map(|_| super::key::Coefficient::new(random())).collect();
        assert_eq!(key.which_hold_in_scalars(&claims, &mut coefficients(count)), Ok(expected.clone()));
        assert_eq!(key.which_hold(&claims, &mut coefficients(count)), Ok(expected));
        let points = check::Points::of(&claims);
        let (product, c) = selfsame_lanes::Instructions::run(selfsame_lanes::Portable, points.batch(&drawn));
        assert_eq!(key.is_batch_good(&claims, &drawn, product, c), bad.is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn points_survive_compression(seed: u64) {
        let point = (G1Affine::generator() * scalar(seed)).into_affine();
        prop_assert_eq!(decompress_g1(&compress_g1(&point)), Ok(point));
        let point = (G2Affine::generator() * scalar(seed)).into_affine();
        let (real, imaginary) = compress_g2(&point);
        prop_assert_eq!(decompress_g2(&real, &imaginary), Ok(point));
    }

    #[test]
    fn reading_any_words_does_not_panic(words: [[u64; 4]; 8]) {
        let words = words.map(U256::from_limbs);
        let [a, b1, b0, c, ..] = words;
        prop_assert!(Proof::from_legacy(&words).is_err());
        // Some random words are the words of a point.
        let current = ProofWords::Current([a >> 2, b1 >> 3, b0 >> 1, c >> 2]);
        let both = [current, ProofWords::Legacy(words)];
        prop_assert_eq!(ProofWords::decode_all(&both), both.map(|words| words.decode()).to_vec());
    }

    #[test]
    fn exactly_the_bad_proofs_of_a_batch_fail(bad: [bool; 9], seed: u64) {
        let simulator = Simulator::from_seed(b"pattern", 2);
        let claims = bad.iter().zip(0u64..).map(|(bad, number)| {
            let mut inputs = vec![scalar(number), scalar(number + 100)];
            let proof = simulator.prove(&inputs, [scalar(number + 200), scalar(number + 300)]).expect("2 inputs");
            inputs[0] += Fr::from(u64::from(*bad));
            Claim::new(proof, inputs)
        });
        let claims: Vec<Claim> = claims.collect();
        let key = prepare(&simulator.verification_key());
        let hold = key.which_hold(&claims, &mut coefficients(seed)).expect("2 inputs");
        prop_assert_eq!(hold, bad.map(|bad| !bad).to_vec());
    }
}

#[test]
fn a_key_is_read_from_the_text_that_it_is_written_as() {
    let simulated = Simulator::from_seed(b"text", 3).verification_key();
    for key in [VerificationKey::legacy(), VerificationKey::current(), &simulated] {
        assert_eq!(VerificationKey::from_json(&key.to_json(), key.input_count()).as_ref(), Ok(key));
    }
}

#[test]
fn malformed_keys_are_rejected() {
    let good = json(include_str!("../../keys/legacy.json"));
    let read =
        |json: &Value| VerificationKey::from_json(&json.to_string(), LEGACY_INPUTS).map_err(|error| error.to_string());
    assert_eq!(read(&good).as_ref(), Ok(VerificationKey::legacy()));
    let changed = |pointer: &str, value: Value| {
        let mut key = good.clone();
        *key.pointer_mut(pointer).expect("the key has this value") = value;
        read(&key).expect_err("the key is rejected")
    };
    for (pointer, value, message) in [
        ("/protocol", json!("plonk"), "it is a key of plonk on bn128"),
        ("/curve", json!("bls12381"), "it is a key of groth16 on bls12381"),
        ("/nPublic", json!(3), "nPublic is 3, but IC has 5 points"),
        ("/vk_alpha_1/0", json!("1"), "vk_alpha_1: the point is not on the curve"),
        ("/vk_alpha_1/0", json!("x"), "vk_alpha_1: `x` is not a decimal digit"),
        ("/vk_alpha_1/2", json!("2"), "vk_alpha_1: the third coordinate must be 1"),
        ("/vk_alpha_1", json!(["0", "0", "1"]), "vk_alpha_1: it is the point at infinity"),
        ("/vk_beta_2/0/0", json!("1"), "vk_beta_2: the point is not on the curve"),
        ("/vk_delta_2/2", json!(["1", "1"]), "vk_delta_2: the third coordinate must be 1"),
        ("/IC/3/1", json!(U256::MAX.to_string()), "IC[3]: a coordinate is not below the modulus"),
        ("/IC", json!([]), "nPublic is 4, but IC has 0 points"),
        ("/vk_gamma_2", json!(1), "it is not the JSON of a Groth16 verification key"),
    ] {
        let refusal = changed(pointer, value);
        assert!(refusal.starts_with(message), "{refusal}");
    }
    let text = good.to_string();
    let other = VerificationKey::from_json(&text, CURRENT_INPUTS);
    assert_eq!(other, Err(KeyError::OtherInputs { found: 4, expected: 15 }));
    assert!(matches!(VerificationKey::from_json("{", 4), Err(KeyError::NotJson(_))));
}
