//! The pairing check: whether proofs hold.
//!
//! A proof (A, B, C) for inputs x holds when `e(A, B) = e(α, β) · e(IC(x), γ) · e(C, δ)`. For many
//! proofs of one key, each equation is raised to a random power of its own, and the equations are
//! multiplied. The pairings with the key's points and the final exponentiation are then computed
//! once for the whole batch. With 128 random bits a batch with a false proof passes once in 2¹²⁸
//! tries, for any other proofs in the batch. A wrong product does not show which proof is false, so
//! the batch is halved until each false proof is found.

use ark_bn254::{Bn254, Fr, G1Affine, G1Projective};
use ark_ec::pairing::Pairing;
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{AdditiveGroup, One};
use ark_groth16::Groth16;

use super::key::PreparedKey;
use super::proof::Proof;

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
}

impl PreparedKey {
    /// Whether one proof holds.
    ///
    /// # Errors
    /// The claim has the wrong number of public inputs.
    pub fn holds(&self, claim: &Claim) -> Result<bool, InputCountError> {
        self.check_input_count(claim)?;
        Ok(self.holds_alone(claim))
    }

    /// Which of many proofs hold, in the order of `claims`. Each call of `coefficient` must return
    /// 128 bits from a cryptographic random source.
    ///
    /// # Errors
    /// A claim has the wrong number of public inputs. Then none of the proofs is checked.
    pub fn which_hold(
        &self,
        claims: &[Claim],
        coefficient: &mut impl FnMut() -> u128,
    ) -> Result<Vec<bool>, InputCountError> {
        claims.iter().try_for_each(|claim| self.check_input_count(claim))?;
        let mut hold = Vec::with_capacity(claims.len());
        self.divide(claims, false, coefficient, &mut hold);
        Ok(hold)
    }

    fn check_input_count(&self, claim: &Claim) -> Result<(), InputCountError> {
        let (found, expected) = (claim.inputs.len(), self.input_count());
        if found == expected { Ok(()) } else { Err(InputCountError { found, expected }) }
    }

    /// Appends the answers of `claims` to `hold` and returns whether all of them hold. With
    /// `some_fail` the caller has found that at least one of them fails, and the product is not
    /// checked again: a product of good proofs does not fail, so when the left half of a failed
    /// batch holds, the right half has a false proof.
    fn divide(
        &self,
        claims: &[Claim],
        some_fail: bool,
        coefficient: &mut impl FnMut() -> u128,
        hold: &mut Vec<bool>,
    ) -> bool {
        let all_hold = !some_fail
            && match claims {
                [] => true,
                [alone] => self.holds_alone(alone),
                many => self.all_hold(many, coefficient),
            };
        if all_hold || claims.len() < 2 {
            hold.resize(hold.len() + claims.len(), all_hold);
            return all_hold;
        }
        let (left, right) = claims.split_at(claims.len() / 2);
        let left_holds = self.divide(left, false, coefficient, hold);
        self.divide(right, left_holds, coefficient, hold);
        false
    }

    fn holds_alone(&self, claim: &Claim) -> bool {
        let inputs = self.combine(Fr::one(), &claim.inputs);
        let proof = claim.proof.to_ark();
        // This call returns no error in practice, because every combination of points has a
        // pairing.
        Groth16::<Bn254>::verify_proof_with_prepared_inputs(&self.ark, &proof, &inputs).unwrap_or(false)
    }

    fn all_hold(&self, claims: &[Claim], coefficient: &mut impl FnMut() -> u128) -> bool {
        let mut constant = Fr::ZERO;
        let mut inputs = vec![Fr::ZERO; self.input_count()];
        let mut c = G1Projective::ZERO;
        let mut left = Vec::with_capacity(claims.len() + 3);
        for claim in claims {
            let power = coefficient();
            let limbs = [power as u64, (power >> 64) as u64];
            let power = Fr::from(power);
            constant += power;
            for (sum, input) in std::iter::zip(&mut inputs, &claim.inputs) {
                *sum += power * input;
            }
            c += claim.proof.c.mul_bigint(limbs);
            left.push(claim.proof.a.mul_bigint(limbs));
        }
        left.extend([self.combine(constant, &inputs), c, self.alpha() * -constant]);
        let left: Vec<G1Affine> = G1Projective::normalize_batch(&left);
        let right = claims.iter().map(|claim| claim.proof.b.into());
        let fixed = [&self.ark.gamma_g2_neg_pc, &self.ark.delta_g2_neg_pc, &self.beta].map(Clone::clone);
        Bn254::multi_pairing(left, right.chain(fixed)).0.is_one()
    }
}
