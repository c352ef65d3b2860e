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
//! proof, and several times as expensive for many. The lines of the proof's own point of G2 are
//! computed once for both.

use ark_bn254::{Bn254, Fr, G1Affine, G1Projective};
use ark_ec::bn::G2Prepared;
use ark_ec::pairing::Pairing;
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{AdditiveGroup, One};

use super::key::PreparedKey;
use super::proof::Proof;

/// The fewest proofs that are checked as a batch. The final exponentiation and the pairings with
/// the key's points are a large part of the cost of a smaller batch; when it fails, each of its
/// proofs would cost more than 1.3 times as much as alone (`docs/benchmarks.md`).
pub const SMALLEST_BATCH: usize = 32;

/// The lines of a proof's point of G2, which its pairing needs.
type Lines = G2Prepared<ark_bn254::Config>;

/// A proof and the public inputs that it claims to prove.
#[derive(Clone, Debug)]
pub struct Claim {
    pub(super) proof: Proof,
    pub(super) inputs: Vec<Fr>,
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
        Ok(self.holds_alone(claim, claim.proof.b.into()))
    }

    /// Which of many proofs hold, in the order of `claims`. [`SMALLEST_BATCH`] or more are checked
    /// as a batch, and alone when the batch fails. Each call of `coefficient` must return 128 bits
    /// from a cryptographic random source; it is called once for each proof of a batch.
    ///
    /// # Errors
    /// A claim has the wrong number of public inputs. Then none of the proofs is checked.
    pub fn which_hold(
        &self,
        claims: &[Claim],
        coefficient: &mut impl FnMut() -> u128,
    ) -> Result<Vec<bool>, InputCountError> {
        claims.iter().try_for_each(|claim| self.check_input_count(claim))?;
        if claims.len() < SMALLEST_BATCH {
            return Ok(claims.iter().map(|claim| self.holds_alone(claim, claim.proof.b.into())).collect());
        }
        let lines: Vec<Lines> = claims.iter().map(|claim| claim.proof.b.into()).collect();
        if self.all_hold(claims, &lines, coefficient) {
            return Ok(vec![true; claims.len()]);
        }
        Ok(std::iter::zip(claims, lines).map(|(claim, lines)| self.holds_alone(claim, lines)).collect())
    }

    fn check_input_count(&self, claim: &Claim) -> Result<(), InputCountError> {
        let (found, expected) = (claim.inputs.len(), self.input_count());
        if found == expected { Ok(()) } else { Err(InputCountError { found, expected }) }
    }

    fn holds_alone(&self, claim: &Claim, lines: Lines) -> bool {
        let inputs = self.combine(Fr::one(), &claim.inputs).into_affine();
        let left = [claim.proof.a, inputs, claim.proof.c];
        let right = [lines, self.ark.gamma_g2_neg_pc.clone(), self.ark.delta_g2_neg_pc.clone()];
        // Every combination of points has a pairing, so there is always a result.
        let paired = Bn254::final_exponentiation(Bn254::multi_miller_loop(left, right));
        paired.is_some_and(|paired| paired.0 == self.ark.alpha_g1_beta_g2)
    }

    fn all_hold(&self, claims: &[Claim], lines: &[Lines], coefficient: &mut impl FnMut() -> u128) -> bool {
        let mut constant = Fr::ZERO;
        let mut inputs = vec![Fr::ZERO; self.input_count()];
        let mut powers = Vec::with_capacity(claims.len());
        let mut left = Vec::with_capacity(claims.len() + 3);
        for claim in claims {
            let power = coefficient();
            powers.push(power);
            left.push(claim.proof.a.mul_bigint([power as u64, (power >> 64) as u64]));
            let power = Fr::from(power);
            constant += power;
            for (sum, input) in std::iter::zip(&mut inputs, &claim.inputs) {
                *sum += power * input;
            }
        }
        let c = sum_of_multiples(claims, &powers);
        left.extend([self.combine(constant, &inputs), c, self.alpha() * -constant]);
        let left: Vec<G1Affine> = G1Projective::normalize_batch(&left);
        let fixed = [&self.ark.gamma_g2_neg_pc, &self.ark.delta_g2_neg_pc, &self.beta];
        Bn254::multi_pairing(left, lines.iter().chain(fixed).cloned()).0.is_one()
    }
}

/// The sum of the proofs' points C, each multiplied by its power. All products share their
/// doublings (Straus' trick), which only a sum allows.
fn sum_of_multiples(claims: &[Claim], powers: &[u128]) -> G1Projective {
    let mut sum = G1Projective::ZERO;
    for bit in (0..u128::BITS).rev() {
        sum.double_in_place();
        for (claim, power) in std::iter::zip(claims, powers) {
            if power >> bit & 1 == 1 {
                sum += claim.proof.c;
            }
        }
    }
    sum
}
