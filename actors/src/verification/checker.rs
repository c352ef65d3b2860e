//! Checks whether proofs hold.

use selfsame_protocol::groth16::{Claim, InputCountError, PreparedKey};

use crate::clock::Random;

/// Checks which of several proofs of one key hold. Runs on a worker's thread. When it panics, the
/// callers get the error that their proofs were not checked.
pub trait ProofChecker: Send + Sync + 'static {
    /// Returns whether each claim holds, in the claims' order.
    ///
    /// # Errors
    /// When a claim has another number of public inputs than the key.
    fn which_hold(
        &self,
        key: &PreparedKey,
        claims: &[Claim],
        random: &dyn Random,
    ) -> Result<Vec<bool>, InputCountError>;
}

/// Checks the pairing equation of Groth16.
#[derive(Clone, Copy, Debug, Default)]
pub struct PairingChecker;

impl ProofChecker for PairingChecker {
    fn which_hold(
        &self,
        key: &PreparedKey,
        claims: &[Claim],
        random: &dyn Random,
    ) -> Result<Vec<bool>, InputCountError> {
        key.which_hold(claims, &mut || {
            let mut bytes = [0; 16];
            random.fill(&mut bytes);
            u128::from_le_bytes(bytes)
        })
    }
}
