//! Groth16: points, proofs, keys. An accepted value has one spelling, and only recorded proofs
//! hold.

use std::sync::OnceLock;

use ark_bn254::{Fq, Fr, G1Affine, G2Affine};
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::PrimeField;
use proptest::prelude::*;
use selfsame_protocol::groth16::key::{CURRENT_INPUTS, LEGACY_INPUTS};
use selfsame_protocol::groth16::point::{
    PointError, compress_g1, compress_g2, coordinate_number, decompress_g1, decompress_g2, g1, g2,
};
use selfsame_protocol::groth16::simulator::Simulator;
use selfsame_protocol::groth16::{Claim, PreparedKey, Proof, VerificationKey, number};
use selfsame_protocol::tree::field_element;
use selfsame_protocol::{U256, keccak256};
use serde_json::Value;

use crate::cases;
use crate::json::{any_json, any_json_damage};
use crate::memory::check_memory_in_proportion;
use crate::samples::{any_element, any_number};

/// The modulus of the curve's base field.
fn modulus() -> U256 {
    U256::from_limbs(Fq::MODULUS.0)
}

fn read_json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn value(of: &Value) -> U256 {
    selfsame_protocol::number::parse(of.as_str().expect("text")).expect("a number")
}

fn element(of: U256) -> Fr {
    field_element(&of).expect("an element")
}

/// The prepared key; it is computed once.
fn legacy_key() -> &'static PreparedKey {
    static KEY: OnceLock<PreparedKey> = OnceLock::new();
    KEY.get_or_init(|| PreparedKey::new(VerificationKey::legacy()))
}

fn current_key() -> &'static PreparedKey {
    static KEY: OnceLock<PreparedKey> = OnceLock::new();
    KEY.get_or_init(|| PreparedKey::new(VerificationKey::current()))
}

/// The words and inputs of a recorded proof.
type RecordedProof<const WORDS: usize> = ([U256; WORDS], Vec<Fr>);

fn legacy(text: &str) -> RecordedProof<8> {
    let case = read_json(text);
    let digits = case["proof"].as_str().expect("text").trim_start_matches("0x");
    let words = std::array::from_fn(|index| U256::from_str_radix(&digits[index * 64..][..64], 16).expect("hex"));
    let names = ["root", "nullifier_hash", "signal_hash", "external_nullifier"];
    (words, names.map(|name| element(value(&case[name]))).to_vec())
}

fn current(text: &str) -> RecordedProof<4> {
    let case = read_json(text);
    let words = std::array::from_fn(|index| value(&case["proof"][index]));
    (words, case["public_inputs"].as_array().expect("a list").iter().map(|input| element(value(input))).collect())
}

/// The recorded legacy proofs, in either of their two encodings.
fn any_legacy() -> BoxedStrategy<RecordedProof<8>> {
    let plain = [
        legacy(include_str!("../../vectors/v3_depth30_verify_user.json")),
        legacy(include_str!("../../vectors/v3_depth30_signin_mock.json")),
    ];
    let compressed = plain.clone().map(|(words, inputs)| {
        let [a, b1, b0, c] = Proof::from_legacy(&words).expect("a proof").to_current();
        ([a, b1, b0, c, U256::ZERO, U256::ZERO, U256::ZERO, U256::ZERO], inputs)
    });
    prop::sample::select([plain, compressed].concat()).boxed()
}

fn any_current() -> BoxedStrategy<RecordedProof<4>> {
    prop::sample::select(vec![
        current(include_str!("../../vectors/v4_session.json")),
        current(include_str!("../../vectors/v4_uniqueness_bound_to_session.json")),
    ])
    .boxed()
}

/// One change of the words of a proof. A single change cannot give the malleated copy of the proof,
/// because that copy differs in two points.
#[derive(Clone, Debug)]
enum WordDamage {
    FlipBit(usize, usize),
    AddModulus(usize, u64),
    Swap(usize, usize),
    Copy(usize, usize),
    Replace(usize, U256),
}

impl WordDamage {
    fn any(words: usize) -> BoxedStrategy<Self> {
        let word = move || 0..words;
        prop_oneof![
            4 => (word(), 0..256usize).prop_map(|(word, bit)| Self::FlipBit(word, bit)),
            2 => (word(), 1..6u64).prop_map(|(word, times)| Self::AddModulus(word, times)),
            1 => (word(), word()).prop_map(|(one, other)| Self::Swap(one, other)),
            1 => (word(), word()).prop_map(|(from, to)| Self::Copy(from, to)),
            2 => (word(), any_coordinate()).prop_map(|(word, number)| Self::Replace(word, number)),
        ]
        .boxed()
    }

    fn apply<const WORDS: usize>(&self, mut words: [U256; WORDS]) -> [U256; WORDS] {
        match *self {
            Self::FlipBit(word, bit) => words[word] ^= U256::from(1) << bit,
            Self::AddModulus(word, times) => {
                words[word] = words[word].wrapping_add(modulus().wrapping_mul(U256::from(times)))
            }
            Self::Swap(one, other) => words.swap(one, other),
            Self::Copy(from, to) => words[to] = words[from],
            Self::Replace(word, number) => words[word] = number,
        }
        words
    }
}

/// Numbers for coordinates and compressed points: any number, numbers near the modulus and its
/// multiples, and numbers of real points.
fn any_coordinate() -> BoxedStrategy<U256> {
    let near = (0..5u64, 0..4u64).prop_map(|(times, above)| {
        modulus().wrapping_mul(U256::from(times)).wrapping_add(U256::from(above)).wrapping_sub(U256::from(2))
    });
    prop_oneof![
        4 => any_number().prop_map(|number| number % modulus()),
        1 => any_number(),
        1 => near,
        1 => any::<u64>().prop_map(|seed| compress_g1(&point(seed))),
    ]
    .boxed()
}

/// Whether the coordinates are below the modulus and belong to a point of G1, by the curve's
/// equation y² = x³ + 3.
fn is_on_curve(x: U256, y: U256) -> bool {
    let times = |a: U256, b: U256| a.mul_mod(b, modulus());
    let right_side = times(times(x, x), x).add_mod(U256::from(3), modulus());
    x < modulus() && y < modulus() && times(y, y) == right_side
}

fn scalar(seed: u64) -> Fr {
    Fr::from_be_bytes_mod_order(&keccak256(seed.to_be_bytes()).0)
}

fn point(seed: u64) -> G1Affine {
    (G1Affine::generator() * scalar(seed)).into_affine()
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

proptest! {
    #![proptest_config(cases())]

    /// Any word is rejected, or it is the only compressed form of a point of G1, whose coordinates
    /// are below the modulus and accepted as well.
    #[test]
    fn a_point_of_g1_has_one_compressed_word(word in any_coordinate(), sign: bool, y in any_coordinate()) {
        for word in [word, word << 1 | U256::from(u8::from(sign))] {
            let Ok(point) = decompress_g1(&word) else { continue };
            prop_assert_eq!(compress_g1(&point), word);
            let (x, y) = (coordinate_number(&point.x), coordinate_number(&point.y));
            prop_assert!(x < modulus() && y < modulus() && word >> 1 == x);
            prop_assert_eq!(g1(&x, &y), Ok(point));
            prop_assert_eq!(g1(&(x + modulus()), &y), Err(PointError::NotCanonical));
            prop_assert_eq!(decompress_g1(&(word ^ U256::from(1))), Ok(-point));
        }
        prop_assert_eq!(g1(&word, &y).is_ok(), is_on_curve(word, y));
    }

    /// Any two words are rejected, or they are the only compressed form of a point of G2's
    /// subgroup. Points of the curve outside the subgroup are rejected.
    #[test]
    fn a_point_of_g2_has_one_compressed_form(
        words in [any_coordinate(), any_coordinate(), any_coordinate(), any_coordinate()],
        seed: u64,
        bit in 0..512usize,
    ) {
        let [a, b, c, d] = words;
        prop_assert!(g2([&a, &b], [&c, &d]).is_err());
        for real in [a, a << 2, a << 2 | U256::from(1), a << 2 | U256::from(2), a << 2 | U256::from(3)] {
            // A random point is not in the subgroup: the probability is 2⁻²⁵⁴.
            prop_assert!(decompress_g2(&real, &b).is_err());
        }
        let point = (G2Affine::generator() * scalar(seed)).into_affine();
        let (real, imaginary) = compress_g2(&point);
        prop_assert_eq!(decompress_g2(&real, &imaginary), Ok(point));
        let mut changed = [real, imaginary];
        changed[bit / 256] ^= U256::from(1) << (bit % 256);
        let found = decompress_g2(&changed[0], &changed[1]);
        prop_assert!(if bit == 0 { found == Ok(-point) } else { found.is_err() }, "{:?}", found);
        prop_assert_eq!(decompress_g2(&real, &(imaginary + modulus())), Err(PointError::NotCanonical));
    }

    /// Any words are rejected, or they are a proof that gives the same words again. Random words
    /// are never an uncompressed proof.
    #[test]
    fn any_words_are_rejected_or_a_proof_with_the_same_words(words in prop::collection::vec(any_coordinate(), 8), is_compressed: bool) {
        let mut words: [U256; 8] = std::array::from_fn(|index| words[index]);
        if is_compressed {
            words[4..].fill(U256::ZERO);
        }
        prop_assert!(Proof::from_legacy(&words).is_err());
        let [a, b1, b0, c, ..] = words;
        prop_assert!(Proof::from_current(&[a, b1, b0, c]).is_err());
    }

    /// A recorded legacy proof with one change is rejected or does not hold.
    #[test]
    fn damaged_legacy_proofs_do_not_hold(recorded in any_legacy(), damage in WordDamage::any(8)) {
        let (words, inputs) = recorded;
        let changed = damage.apply(words);
        let holds =
            Proof::from_legacy(&changed).is_ok_and(|proof| legacy_key().holds(&Claim::new(proof, inputs)) == Ok(true));
        prop_assert_eq!(holds, changed == words);
    }

    /// A recorded current proof with one change is rejected or does not hold.
    #[test]
    fn damaged_current_proofs_do_not_hold(recorded in any_current(), damage in WordDamage::any(4)) {
        let (words, inputs) = recorded;
        let changed = damage.apply(words);
        let proof = Proof::from_current(&changed);
        if let Ok(proof) = proof {
            prop_assert_eq!(proof.to_current(), changed);
        }
        let holds = proof.is_ok_and(|proof| current_key().holds(&Claim::new(proof, inputs)) == Ok(true));
        prop_assert_eq!(holds, changed == words);
    }

    /// A recorded proof holds only for its own public inputs.
    #[test]
    fn a_proof_holds_only_for_its_own_inputs(
        recorded in any_current(),
        place in 0..CURRENT_INPUTS,
        input in any_element(),
        count in 0..20usize,
    ) {
        let (words, mut inputs) = recorded;
        let proof = Proof::from_current(&words).expect("a proof");
        let same = inputs[place] == element(input);
        inputs[place] = element(input);
        prop_assert_eq!(current_key().holds(&Claim::new(proof, inputs.clone())), Ok(same));
        inputs.resize(count, Fr::from(0u64));
        prop_assert_eq!(current_key().holds(&Claim::new(proof, inputs)).is_ok(), count == CURRENT_INPUTS);
    }

    /// Proofs round-trip through both encodings, and both encodings are read as the same proof.
    #[test]
    fn proofs_round_trip_through_both_encodings(
        inputs in [any_element(), any_element()],
        random in [any_element(), any_element()],
        seed in any::<[u8; 4]>(),
    ) {
        let simulator = Simulator::from_seed(&seed, 2);
        let Ok(proof) = simulator.prove(&inputs.map(element), random.map(element)) else {
            return Err(TestCaseError::fail("two inputs"));
        };
        let [a, b1, b0, c] = proof.to_current();
        prop_assert_eq!(Proof::from_legacy(&proof.to_legacy()), Ok(proof));
        prop_assert_eq!(Proof::from_current(&[a, b1, b0, c]), Ok(proof));
        let zero = U256::ZERO;
        prop_assert_eq!(Proof::from_legacy(&[a, b1, b0, c, zero, zero, zero, zero]), Ok(proof));
        prop_assert!(inputs.iter().all(|input| number(element(*input)) == *input));
    }

    /// Any JSON, and the text of a key after hostile changes, is rejected or is the unchanged key,
    /// because random changes do not give other points of the curve.
    #[test]
    fn a_damaged_key_is_rejected_or_unchanged(json_damage in any_json_damage(), is_current: bool, any in any_json(), inputs in 0..70usize) {
        let (text, key, count) = match is_current {
            true => (include_str!("../../keys/current.json"), VerificationKey::current(), CURRENT_INPUTS),
            false => (include_str!("../../keys/legacy.json"), VerificationKey::legacy(), LEGACY_INPUTS),
        };
        let changed = json_damage.apply(&read_json(text));
        let changed = String::from_utf8_lossy(&changed);
        if let Ok(found) = check_memory_in_proportion(changed.len(), || VerificationKey::from_json(&changed, count))? {
            prop_assert_eq!(found.input_count(), count);
            let document = read_json(&changed);
            prop_assert!(document["vk_alpha_1"][2] == "1" && document["IC"][count][2] == "1");
            // A point that replaces another point of the key is still on the curve. The key is then
            // another key, for which the proof does not hold.
            if found != *key && !is_current {
                let (words, inputs) = legacy(include_str!("../../vectors/v3_depth30_verify_user.json"));
                let claim = Claim::new(Proof::from_legacy(&words).expect("a proof"), inputs);
                prop_assert_eq!(PreparedKey::new(&found).holds(&claim), Ok(false));
            }
        }
        prop_assert!(VerificationKey::from_json(&any.to_string(), inputs).is_err());
    }

    /// Exactly the damaged proofs of a batch fail, at any positions.
    #[test]
    fn exactly_the_damaged_proofs_of_a_batch_fail(
        damages in prop::collection::vec((any_current(), prop::option::of(WordDamage::any(4))), 0..6),
        seed: u64,
    ) {
        let mut expected = Vec::new();
        let mut claims = Vec::new();
        for ((words, inputs), damage) in damages {
            let changed = damage.map_or(words, |damage| damage.apply(words));
            if let Ok(proof) = Proof::from_current(&changed) {
                claims.push(Claim::new(proof, inputs));
                expected.push(changed == words);
            }
        }
        prop_assert_eq!(current_key().which_hold(&claims, &mut coefficients(seed)), Ok(expected));
    }
}
