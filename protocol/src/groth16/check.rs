//! The pairing check: whether proofs hold.
//!
//! A proof (A, B, C) for inputs x holds when `e(A, B) = e(α, β) · e(IC(x), γ) · e(C, δ)`. For many
//! proofs of one key, each equation is raised to a random power of its own, and the equations are
//! multiplied. The pairings with the key's points and the final exponentiation are then computed
//! once for the whole batch. With 128 random bits a batch with a false proof passes once in 2¹²⁸
//! tries, for any other proofs in the batch.
//!
//! A wrong product does not show which proof is false. Then each proof of the batch is checked
//! alone, so that a proof is in at most one batch and is checked alone at most once, whatever its
//! neighbours are. Halving the batch until each false proof is found would be cheaper for one false
//! proof, and several times as expensive for many.
//!
//! A batch is computed in eight lanes where the processor can ([`selfsame_lanes`]), which makes it
//! so cheap that a smaller batch pays. Elsewhere, the lines of the proofs' own points of G2 are
//! computed once for the batch and for the checks alone.

use ark_bn254::{Bn254, Fq12, Fr, G1Affine, G1Projective, G2Affine};
use ark_ec::CurveGroup;
use ark_ec::bn::G2Prepared;
use ark_ec::pairing::{MillerLoopOutput, Pairing};
use ark_ec::scalar_mul::glv::GLVConfig;
use ark_ff::{AdditiveGroup, One};

use super::key::{Coefficient, PreparedKey};
use super::lanes;
use super::proof::{Proof, ProofError, ProofWords};
use selfsame_lanes::LANES;

/// The fewest proofs that are checked as a batch without lanes. The final exponentiation and the
/// pairings with the key's points are a large part of the cost of a smaller batch; when it fails,
/// each of its proofs would cost more than 1.3 times as much as alone
/// (`docs/benchmarks-parts.md`).
pub const SMALLEST_BATCH: usize = 32;

/// The same with lanes. A failed batch of so few costs each of its proofs 1.2 times as much as
/// alone.
pub const SMALLEST_BATCH_IN_LANES: usize = LANES;

/// The lines of a proof's point of G2, which its pairing needs.
type Lines = G2Prepared<ark_bn254::Config>;

/// A proof and the public inputs that it claims to prove.
#[derive(Clone, Debug)]
pub struct Claim {
    pub(super) proof: Proof,
    pub(super) inputs: Vec<Fr>,
}

/// A claim whose proof is not decoded. Many of them are decoded in less time together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedClaim {
    words: ProofWords,
    inputs: Vec<Fr>,
}

impl EncodedClaim {
    /// The words of a proof with its public inputs, in the circuit's order.
    pub fn new(words: ProofWords, inputs: Vec<Fr>) -> Self {
        Self { words, inputs }
    }

    /// Decodes one proof.
    ///
    /// # Errors
    /// The words are not a valid proof.
    pub fn decode(self) -> Result<Claim, ProofError> {
        Ok(Claim { proof: self.words.decode()?, inputs: self.inputs })
    }

    /// Decodes many proofs, see [`ProofWords::decode_all`].
    pub fn decode_all(claims: Vec<Self>) -> Vec<Result<Claim, ProofError>> {
        let words: Vec<ProofWords> = claims.iter().map(|claim| claim.words).collect();
        let proofs = ProofWords::decode_all(&words);
        std::iter::zip(claims, proofs).map(|(Self { inputs, .. }, proof)| Ok(Claim { proof: proof?, inputs })).collect()
    }
}

/// A claim has the wrong number of public inputs. They are counted, because the equation alone does
/// not detect a missing or a surplus input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} public inputs are given; proofs of this key have {expected}")]
pub struct InputCountError {
    /// Number of public inputs of the claim.
    pub found: usize,
    /// Number of public inputs that the key needs.
    pub expected: usize,
}

impl Claim {
    /// A proof with its public inputs, in the circuit's order.
    pub fn new(proof: Proof, inputs: Vec<Fr>) -> Self {
        Self { proof, inputs }
    }

    /// The proof.
    pub fn proof(&self) -> Proof {
        self.proof
    }

    /// How many public inputs it has.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }
}

impl PreparedKey {
    /// Whether one proof holds.
    ///
    /// # Errors
    /// The claim has the wrong number of public inputs.
    pub fn holds(&self, claim: &Claim) -> Result<bool, InputCountError> {
        self.check_input_count(claim)?;
        Ok(self.holds_alone(claim, claim.proof.b))
    }

    /// Which of many proofs hold, in the order of `claims`. [`SMALLEST_BATCH`] or more (in lanes,
    /// [`SMALLEST_BATCH_IN_LANES`]) are checked as a batch, and alone when the batch fails. Each
    /// call of `coefficient` must return 128 bits from a cryptographic random source; it is called
    /// once for each proof of a batch.
    ///
    /// # Errors
    /// A claim has the wrong number of public inputs. Then none of the proofs is checked.
    pub fn which_hold(
        &self,
        claims: &[Claim],
        coefficient: &mut impl FnMut() -> u128,
    ) -> Result<Vec<bool>, InputCountError> {
        if !lanes::are_available() {
            return self.which_hold_in_scalars(claims, coefficient);
        }
        claims.iter().try_for_each(|claim| self.check_input_count(claim))?;
        if claims.len() >= SMALLEST_BATCH_IN_LANES {
            let coefficients = draw(claims, coefficient);
            let points = Points::of(claims);
            let multiplied = points.batch(&coefficients).multiply();
            if multiplied.is_some_and(|(product, c)| self.is_batch_good(claims, &coefficients, product, c)) {
                return Ok(vec![true; claims.len()]);
            }
        }
        Ok(claims.iter().map(|claim| self.holds_alone(claim, claim.proof.b)).collect())
    }

    /// The same as [`PreparedKey::which_hold`] on a processor without lanes.
    ///
    /// # Errors
    /// A claim has the wrong number of public inputs. Then none of the proofs is checked.
    pub fn which_hold_in_scalars(
        &self,
        claims: &[Claim],
        coefficient: &mut impl FnMut() -> u128,
    ) -> Result<Vec<bool>, InputCountError> {
        claims.iter().try_for_each(|claim| self.check_input_count(claim))?;
        if claims.len() < SMALLEST_BATCH {
            return Ok(claims.iter().map(|claim| self.holds_alone(claim, claim.proof.b)).collect());
        }
        let coefficients = draw(claims, coefficient);
        let lines: Vec<Lines> = claims.iter().map(|claim| claim.proof.b.into()).collect();
        let (product, c) = multiply_in_scalars(claims, &lines, &coefficients);
        if self.is_batch_good(claims, &coefficients, product, c) {
            return Ok(vec![true; claims.len()]);
        }
        Ok(std::iter::zip(claims, lines).map(|(claim, lines)| self.holds_alone(claim, lines)).collect())
    }

    fn check_input_count(&self, claim: &Claim) -> Result<(), InputCountError> {
        let (found, expected) = (claim.inputs.len(), self.input_count());
        if found == expected { Ok(()) } else { Err(InputCountError { found, expected }) }
    }

    /// The loop of the proof's own points and that of the key's points run at the same time, where
    /// the rayon pool that it is called in has two threads. One loop for all of them shares its
    /// squarings, which takes less on one thread.
    fn holds_alone(&self, claim: &Claim, lines: impl Into<Lines> + Send) -> bool {
        let Proof { a, c, .. } = claim.proof;
        let inputs = || self.combine(Fr::one(), &claim.inputs).into_affine();
        let [gamma, delta] = [&self.ark.gamma_g2_neg_pc, &self.ark.delta_g2_neg_pc];
        let product = match rayon::current_num_threads() {
            1 => Bn254::multi_miller_loop([a, inputs(), c], [lines.into(), gamma.clone(), delta.clone()]),
            _ => {
                let of_proof = || Bn254::multi_miller_loop([a], [lines]);
                let of_key = || Bn254::multi_miller_loop([inputs(), c], [gamma.clone(), delta.clone()]);
                let (of_proof, of_key) = rayon::join(of_proof, of_key);
                MillerLoopOutput(of_proof.0 * of_key.0)
            }
        };
        // Every combination of points has a pairing, so there is always a result.
        Bn254::final_exponentiation(product).is_some_and(|paired| paired.0 == self.ark.alpha_g1_beta_g2)
    }

    /// Whether the product of the equations, each raised to its coefficient, holds. `product` is
    /// that of the values of Miller's loops of the proofs' points A and B, `c` the sum of their
    /// points C.
    pub(super) fn is_batch_good(
        &self,
        claims: &[Claim],
        coefficients: &[Coefficient],
        product: Fq12,
        c: G1Projective,
    ) -> bool {
        let mut constant = Fr::ZERO;
        let mut inputs = vec![Fr::ZERO; self.input_count()];
        for (claim, coefficient) in std::iter::zip(claims, coefficients) {
            let scalar = coefficient.scalar();
            constant += scalar;
            for (sum, input) in std::iter::zip(&mut inputs, &claim.inputs) {
                *sum += scalar * input;
            }
        }
        let left = [self.combine(constant, &inputs), c, self.alpha() * -constant];
        let right = [&self.ark.gamma_g2_neg_pc, &self.ark.delta_g2_neg_pc, &self.beta];
        let of_key = Bn254::multi_miller_loop(G1Projective::normalize_batch(&left), right.into_iter().cloned());
        let paired = Bn254::final_exponentiation(MillerLoopOutput(product * of_key.0));
        paired.is_some_and(|paired| paired.0.is_one())
    }
}

/// A coefficient for each claim.
fn draw(claims: &[Claim], coefficient: &mut impl FnMut() -> u128) -> Vec<Coefficient> {
    claims.iter().map(|_| Coefficient::new(coefficient())).collect()
}

/// The points of a batch's proofs.
pub(super) struct Points {
    a: Vec<G1Affine>,
    b: Vec<G2Affine>,
    c: Vec<G1Affine>,
}

impl Points {
    pub(super) fn of(claims: &[Claim]) -> Self {
        Self {
            a: claims.iter().map(|claim| claim.proof.a).collect(),
            b: claims.iter().map(|claim| claim.proof.b).collect(),
            c: claims.iter().map(|claim| claim.proof.c).collect(),
        }
    }

    pub(super) fn batch<'a>(&'a self, coefficients: &'a [Coefficient]) -> lanes::Batch<'a> {
        lanes::Batch { a: &self.a, b: &self.b, c: &self.c, coefficients }
    }
}

/// What [`lanes::Batch::multiply`] computes, without lanes.
fn multiply_in_scalars(claims: &[Claim], lines: &[Lines], coefficients: &[Coefficient]) -> (Fq12, G1Projective) {
    let multiplied = |point, coefficient| Multiplied { coefficient, addends: addends(point) };
    let proofs = || std::iter::zip(claims, coefficients);
    let a: Vec<G1Projective> =
        proofs().map(|(claim, coefficient)| sum_of_multiples(&[multiplied(claim.proof.a, coefficient)])).collect();
    let c: Vec<Multiplied> = proofs().map(|(claim, coefficient)| multiplied(claim.proof.c, coefficient)).collect();
    let a: Vec<G1Affine> = G1Projective::normalize_batch(&a);
    (Bn254::multi_miller_loop(a, lines.iter().cloned()).0, sum_of_multiples(&c))
}

/// A point to be multiplied.
struct Multiplied<'a> {
    coefficient: &'a Coefficient,
    addends: [G1Affine; 3],
}

/// P, λP and (1 + λ)P. The last one is -λ²P, because 1 + λ + λ² = 0.
fn addends(point: G1Affine) -> [G1Affine; 3] {
    let second = ark_bn254::g1::Config::endomorphism_affine(&point);
    [point, second, -ark_bn254::g1::Config::endomorphism_affine(&second)]
}

/// The sum of points, each multiplied by its coefficient. All products share their doublings
/// (Straus' trick), which only a sum allows.
fn sum_of_multiples(points: &[Multiplied]) -> G1Projective {
    let mut sum = G1Projective::ZERO;
    for bit in (0..u64::BITS).rev() {
        sum.double_in_place();
        for Multiplied { coefficient: Coefficient { low, high }, addends } in points {
            match (low >> bit & 1, high >> bit & 1) {
                (0, 0) => {}
                (1, 0) => sum += addends[0],
                (0, _) => sum += addends[1],
                (_, _) => sum += addends[2],
            }
        }
    }
    sum
}
