//! Verification keys: reading from JSON, checking, preparing.

use std::sync::OnceLock;

use ark_bn254::{Bn254, Fq, Fr, G1Affine, G1Projective, G2Affine};
use ark_ec::bn::G2Prepared;
use ark_ec::scalar_mul::glv::GLVConfig;
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{AdditiveGroup, BigInteger, PrimeField};
use serde::Deserialize;
use serde_json::json;

use super::point::{self, PointError};
use crate::U256;
use crate::number::{self, NumberError};

/// Public inputs of a legacy proof: root, nullifier, signal hash, external nullifier.
pub const LEGACY_INPUTS: usize = 4;

/// Public inputs of a current proof; [`crate::verification::items::CurrentInputs`] lists them.
pub const CURRENT_INPUTS: usize = 15;

/// The most public inputs of a key. It bounds the memory of the key's tables (0.5 MiB for each
/// input).
const MOST_INPUTS: usize = 64;

/// A Groth16 verification key. Its points are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationKey {
    pub(super) alpha: G1Affine,
    pub(super) beta: G2Affine,
    pub(super) gamma: G2Affine,
    pub(super) delta: G2Affine,
    /// One point for the constant, one for each public input.
    pub(super) inputs: Vec<G1Affine>,
}

/// Why a text is not a valid verification key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is not JSON, or lacks a field of a key. Holds the message of the JSON reader.
    #[error("it is not the JSON of a Groth16 verification key: {0}")]
    NotJson(String),
    /// The key is not for Groth16 on BN254.
    #[error("it is a key of {protocol} on {curve}; only groth16 on bn128 is checked here")]
    OtherScheme {
        /// The field `protocol`, which must be `groth16`.
        protocol: String,
        /// The field `curve`, which must be `bn128` or `bn254`, two names of one curve.
        curve: String,
    },
    /// `IC` does not have one point more than `nPublic`, or `nPublic` is more than 64.
    #[error("nPublic is {announced}, but IC has {points} points; it must have one more than there are public inputs")]
    InputCount {
        /// The number in `nPublic`.
        announced: usize,
        /// Number of points in `IC`.
        points: usize,
    },
    /// The key is for another number of public inputs than proofs of its kind have.
    #[error("it is for {found} public inputs; proofs of its kind have {expected}")]
    OtherInputs {
        /// Number of public inputs of the key.
        found: usize,
        /// Number of public inputs of a proof: [`LEGACY_INPUTS`] or [`CURRENT_INPUTS`].
        expected: usize,
    },
    /// A coordinate is not a number of at most 256 bits.
    #[error("{point}: {error}")]
    Number {
        /// Name of the point in the JSON, such as `vk_alpha_1` or `IC[3]`.
        point: String,
        /// Why the text is not a number.
        error: NumberError,
    },
    /// The third coordinate of a point is not 1.
    #[error("{point}: the third coordinate must be 1")]
    NotAffine {
        /// Name of the point in the JSON, such as `vk_alpha_1` or `IC[3]`.
        point: String,
    },
    /// The coordinates are numbers and not those of a valid point.
    #[error("{point}: {error}")]
    Point {
        /// Name of the point in the JSON, such as `vk_alpha_1` or `IC[3]`.
        point: String,
        /// Why the point is not valid.
        error: PointError,
    },
}

/// The JSON that circuit tools write: numbers as decimal texts, points with a third coordinate that
/// is 1.
#[derive(Deserialize)]
struct KeyJson {
    protocol: String,
    curve: String,
    #[serde(rename = "nPublic")]
    public_inputs: usize,
    vk_alpha_1: [String; 3],
    vk_beta_2: [[String; 2]; 3],
    vk_gamma_2: [[String; 2]; 3],
    vk_delta_2: [[String; 2]; 3],
    #[serde(rename = "IC")]
    inputs: Vec<[String; 3]>,
}

impl VerificationKey {
    /// The legacy protocol's key, for identity trees of depth 30.
    pub fn legacy() -> &'static Self {
        static KEY: OnceLock<VerificationKey> = OnceLock::new();
        KEY.get_or_init(|| builtin(include_str!("../../keys/legacy.json"), LEGACY_INPUTS))
    }

    /// The current protocol's key.
    pub fn current() -> &'static Self {
        static KEY: OnceLock<VerificationKey> = OnceLock::new();
        KEY.get_or_init(|| builtin(include_str!("../../keys/current.json"), CURRENT_INPUTS))
    }

    /// Reads a key for proofs with `inputs` public inputs and checks all of it.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn from_json(text: &str, inputs: usize) -> Result<Self, KeyError> {
        let json: KeyJson = serde_json::from_str(text).map_err(|error| KeyError::NotJson(error.to_string()))?;
        if json.protocol != "groth16" || !["bn128", "bn254"].contains(&json.curve.as_str()) {
            return Err(KeyError::OtherScheme { protocol: json.protocol, curve: json.curve });
        }
        if json.public_inputs > MOST_INPUTS || json.inputs.len() != json.public_inputs + 1 {
            return Err(KeyError::InputCount { announced: json.public_inputs, points: json.inputs.len() });
        }
        if json.public_inputs != inputs {
            return Err(KeyError::OtherInputs { found: json.public_inputs, expected: inputs });
        }
        let input = |(index, point): (usize, &[String; 3])| read_g1(&format!("IC[{index}]"), point);
        Ok(Self {
            alpha: read_g1("vk_alpha_1", &json.vk_alpha_1)?,
            beta: read_g2("vk_beta_2", &json.vk_beta_2)?,
            gamma: read_g2("vk_gamma_2", &json.vk_gamma_2)?,
            delta: read_g2("vk_delta_2", &json.vk_delta_2)?,
            inputs: json.inputs.iter().enumerate().map(input).collect::<Result<_, _>>()?,
        })
    }

    /// The text that [`VerificationKey::from_json`] reads, for example that of a simulator's key
    /// for another program.
    pub fn to_json(&self) -> String {
        let Self { alpha, beta, gamma, delta, inputs } = self;
        json!({
            "protocol": "groth16",
            "curve": "bn128",
            "nPublic": self.input_count(),
            "vk_alpha_1": write_g1(alpha),
            "vk_beta_2": write_g2(beta),
            "vk_gamma_2": write_g2(gamma),
            "vk_delta_2": write_g2(delta),
            "IC": inputs.iter().map(write_g1).collect::<Vec<_>>(),
        })
        .to_string()
    }

    /// How many public inputs proofs of this key have.
    pub fn input_count(&self) -> usize {
        self.inputs.len() - 1
    }
}

fn write_g1(point: &G1Affine) -> [String; 3] {
    [decimal(&point.x), decimal(&point.y), "1".to_owned()]
}

fn write_g2(point: &G2Affine) -> [[String; 2]; 3] {
    let [x, y] = [&point.x, &point.y].map(|coordinate| [decimal(&coordinate.c0), decimal(&coordinate.c1)]);
    [x, y, ["1".to_owned(), "0".to_owned()]]
}

fn decimal(coordinate: &Fq) -> String {
    coordinate.into_bigint().to_string()
}

/// Reads a key that is compiled into the program. A test reads it too, so reading it does not fail.
#[expect(clippy::expect_used, reason = "a constant that a test reads")]
fn builtin(text: &str, inputs: usize) -> VerificationKey {
    VerificationKey::from_json(text, inputs).expect("a key of the program")
}

fn read_g1(name: &str, [x, y, z]: &[String; 3]) -> Result<G1Affine, KeyError> {
    if z != "1" {
        return Err(KeyError::NotAffine { point: name.to_owned() });
    }
    point::g1(&read(name, x)?, &read(name, y)?).map_err(|error| KeyError::Point { point: name.to_owned(), error })
}

fn read_g2(name: &str, [x, y, z]: &[[String; 2]; 3]) -> Result<G2Affine, KeyError> {
    if z != &["1", "0"] {
        return Err(KeyError::NotAffine { point: name.to_owned() });
    }
    let [x0, x1, y0, y1] = [&x[0], &x[1], &y[0], &y[1]].map(|text| read(name, text));
    point::g2([&x0?, &x1?], [&y0?, &y1?]).map_err(|error| KeyError::Point { point: name.to_owned(), error })
}

fn read(name: &str, text: &str) -> Result<U256, KeyError> {
    number::parse(text).map_err(|error| KeyError::Number { point: name.to_owned(), error })
}

/// A verification key with the values that do not depend on the proof, computed once.
pub struct PreparedKey {
    pub(super) ark: ark_groth16::PreparedVerifyingKey<Bn254>,
    pub(super) beta: G2Prepared<ark_bn254::Config>,
    tables: OnceLock<Vec<Multiples>>,
}

impl PreparedKey {
    /// Computes the pairing of alpha and beta and the lines of the fixed points, which takes
    /// milliseconds. The tables of the inputs' points are computed when they are first used, or by
    /// [`PreparedKey::warm_up`].
    pub fn new(key: &VerificationKey) -> Self {
        let VerificationKey { alpha, beta, gamma, delta, inputs } = key.clone();
        let ark = ark_groth16::prepare_verifying_key(&ark_groth16::VerifyingKey {
            alpha_g1: alpha,
            beta_g2: beta,
            gamma_g2: gamma,
            delta_g2: delta,
            gamma_abc_g1: inputs,
        });
        Self { ark, beta: beta.into(), tables: OnceLock::new() }
    }

    /// Computes the tables now, unless they are there: about 10 ms and 0.5 MiB for each input.
    pub fn warm_up(&self) {
        self.tables();
    }

    fn tables(&self) -> &[Multiples] {
        let inputs = self.ark.vk.gamma_abc_g1.iter().skip(1);
        self.tables.get_or_init(|| inputs.map(|point| Multiples::of(*point)).collect())
    }

    /// How many public inputs proofs of this key have.
    pub fn input_count(&self) -> usize {
        self.ark.vk.gamma_abc_g1.len().saturating_sub(1)
    }

    pub(super) fn alpha(&self) -> G1Affine {
        self.ark.vk.alpha_g1
    }

    /// The sum of the key's input points, the first multiplied by `constant` and the others by
    /// `inputs`.
    pub(super) fn combine(&self, constant: Fr, inputs: &[Fr]) -> G1Projective {
        let first = self.ark.vk.gamma_abc_g1.first().copied().unwrap_or(G1Affine::zero());
        let first = if constant == Fr::from(1u64) { first.into_group() } else { first * constant };
        std::iter::zip(self.tables(), inputs).fold(first, |mut sum, (table, input)| {
            table.add_multiple(&mut sum, *input);
            sum
        })
    }
}

/// The multiples `256^i · d` of a point, d from 1 to 255. With them a product by a scalar takes one
/// addition for each byte of the scalar.
struct Multiples(Vec<G1Affine>);

impl Multiples {
    const DIGITS: usize = 255;

    fn of(point: G1Affine) -> Self {
        let mut multiples = Vec::with_capacity(Self::DIGITS * Fr::MODULUS_BIT_SIZE.div_ceil(8) as usize);
        let mut base = point.into_group();
        for _ in 0..Fr::MODULUS_BIT_SIZE.div_ceil(8) {
            let mut multiple = G1Projective::ZERO;
            for _ in 0..Self::DIGITS {
                multiple += base;
                multiples.push(multiple);
            }
            base += multiple;
        }
        Self(G1Projective::normalize_batch(&multiples))
    }

    /// Adds the product of the scalar and the point to `sum`.
    fn add_multiple(&self, sum: &mut G1Projective, scalar: Fr) {
        for (window, digit) in self.0.chunks_exact(Self::DIGITS).zip(scalar.into_bigint().to_bytes_le()) {
            // Digit 0 adds nothing.
            if let Some(multiple) = usize::from(digit).checked_sub(1).and_then(|index| window.get(index)) {
                *sum += multiple;
            }
        }
    }
}

// The random coefficients of a batch.

/// A random coefficient `low + high · λ`. The endomorphism (x, y) ↦ (β·x, y) of G1 multiplies by λ,
/// a third root of 1, and costs one multiplication. So a product by the coefficient takes 64
/// doublings, where a number of 128 bits would take 128.
///
/// Different pairs are different coefficients modulo r, so 128 random bits give one of 2¹²⁸
/// coefficients: the shortest numbers `low` and `high` for which `low + high · λ` is a multiple of
/// r, other than zeros, have 126 bits or more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coefficient {
    pub low: u64,
    pub high: u64,
}

impl Coefficient {
    pub(super) fn new(random: u128) -> Self {
        Self { low: random as u64, high: (random >> 64) as u64 }
    }

    pub(super) fn scalar(self) -> Fr {
        Fr::from(self.low) + ark_bn254::g1::Config::LAMBDA * Fr::from(self.high)
    }
}
