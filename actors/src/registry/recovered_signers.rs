//! The signers of this service's own open requests, so that their signatures are recovered once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::encoding::encode;
use selfsame_protocol::ledger::{Entry, recover_signer};
use selfsame_protocol::registry::{Operation, RecoveredSigner};
use selfsame_protocol::{Address, B256, keccak256};

/// Fewer signatures than this are recovered on the thread that needs them.
const LEAST_IN_PARALLEL: usize = 8;

/// What the signatures of open requests recovered to when this process admitted them.
///
/// The key is the hash of the whole operation, with its signature: a block that comes from
/// elsewhere finds a signer here only for an operation that this process has recovered itself. What
/// is not found, as after a restart, is recovered. Nothing is ever written of it.
#[derive(Default)]
pub(crate) struct RecoveredSigners {
    by_operation: Mutex<HashMap<B256, Address>>,
}

impl RecoveredSigners {
    /// Keeps the signer of an operation until [`RecoveredSigners::forget`]. Does nothing for an
    /// operation that is not signed.
    pub fn keep(&self, operation_hash: B256, signer: RecoveredSigner) {
        if let Some(Ok(signer)) = signer {
            self.lock().insert(operation_hash, signer);
        }
    }

    /// Forgets the signer of an operation.
    pub fn forget(&self, operation_hash: &B256) {
        self.lock().remove(operation_hash);
    }

    /// Forgets all signers.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// The signer of each entry, as [`selfsame_protocol::ledger::recover_signers`] gives them: the
    /// kept ones, and the others recovered on all cores.
    pub fn signers_of(&self, entries: &[Entry], domain: &RegistryDomain) -> Vec<RecoveredSigner> {
        let mut signers: Vec<RecoveredSigner> = vec![None; entries.len()];
        let signed = entries.iter().enumerate().filter(|(_, entry)| entry.operation.signature().is_some());
        let mut unknown = Vec::new();
        let hashes: Vec<_> = signed.map(|(position, entry)| (position, hash_operation(&entry.operation))).collect();
        if hashes.is_empty() {
            return signers;
        }
        {
            let known = self.lock();
            for (position, hash) in hashes {
                match known.get(&hash) {
                    Some(signer) => signers[position] = Some(Ok(*signer)),
                    None => unknown.push(position),
                }
            }
        }
        let recover = |position: usize| (position, recover_signer(&entries[position].operation, domain));
        let recovered: Vec<_> = match unknown.len() < LEAST_IN_PARALLEL {
            true => unknown.into_iter().map(recover).collect(),
            false => unknown.into_par_iter().map(recover).collect(),
        };
        for (position, signer) in recovered {
            signers[position] = signer;
        }
        signers
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<B256, Address>> {
        self.by_operation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hash of an operation's kind and all its fields, the signature among them.
pub(crate) fn hash_operation(operation: &Operation) -> B256 {
    keccak256(encode(operation))
}

#[cfg(test)]
mod tests {
    use selfsame_protocol::U256;
    use selfsame_protocol::ids::{LeafIndex, Nonce};
    use selfsame_protocol::ledger::{RequestId, recover_signers};
    use selfsame_protocol::registry::{CancelRecoveryAgentUpdate, ExecuteRecoveryAgentUpdate};
    use selfsame_protocol::signature::{SecretKey, Signature};
    use zeroize::Zeroizing;

    use super::*;

    const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };

    fn signed(key: u8, leaf_index: u64) -> Operation {
        let (leaf_index, nonce) = (LeafIndex(leaf_index), Nonce(U256::ZERO));
        let unsigned = CancelRecoveryAgentUpdate { leaf_index, signature: Signature([0; 65]), nonce };
        let digest = DOMAIN.signing_digest(&Operation::CancelRecoveryAgentUpdate(unsigned.clone())).expect("a digest");
        let signature =
            SecretKey::from_bytes(&Zeroizing::new([key; 32])).expect("a key").sign(&digest).expect("signed");
        Operation::CancelRecoveryAgentUpdate(CancelRecoveryAgentUpdate { signature, ..unsigned })
    }

    fn entries(operations: Vec<Operation>) -> Vec<Entry> {
        let entry = |(number, operation)| Entry { request_id: RequestId::from_random([number; 16]), operation };
        (0..).zip(operations).map(entry).collect()
    }

    #[test]
    fn kept_signers_are_those_of_their_operations_and_of_no_others() {
        let signers = RecoveredSigners::default();
        let kept = signed(1, 1);
        let stranger = Address::repeat_byte(9);
        signers.keep(hash_operation(&kept), Some(Ok(stranger)));
        // The same request with another signature, and another operation with the same signature.
        let other_signature = signed(2, 1);
        let mut other_operation = kept.clone();
        if let Operation::CancelRecoveryAgentUpdate(operation) = &mut other_operation {
            operation.leaf_index = LeafIndex(2);
        }
        let unsigned = Operation::ExecuteRecoveryAgentUpdate(ExecuteRecoveryAgentUpdate { leaf_index: LeafIndex(1) });
        let entries = entries(vec![kept.clone(), other_signature, other_operation, unsigned]);
        let recovered = recover_signers(&entries, &DOMAIN);
        let found = signers.signers_of(&entries, &DOMAIN);
        assert_eq!(found[0], Some(Ok(stranger)), "what was kept is not recovered again");
        assert_eq!(found[1..], recovered[1..]);
        signers.forget(&hash_operation(&kept));
        assert_eq!(signers.signers_of(&entries, &DOMAIN), recovered);
    }

    #[test]
    fn many_signatures_are_recovered_in_their_order() {
        let signers = RecoveredSigners::default();
        let entries = entries((1..=40).map(|key| signed(key, u64::from(key))).collect());
        assert_eq!(signers.signers_of(&entries, &DOMAIN), recover_signers(&entries, &DOMAIN));
        signers.keep(hash_operation(&entries[3].operation), recover_signer(&entries[3].operation, &DOMAIN));
        assert_eq!(signers.signers_of(&entries, &DOMAIN), recover_signers(&entries, &DOMAIN));
        signers.clear();
        assert_eq!(signers.signers_of(&entries, &DOMAIN), recover_signers(&entries, &DOMAIN));
    }
}
