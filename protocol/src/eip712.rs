//! The typed data (EIP-712) that authenticators and recovery agents sign.

use alloy_primitives::{Address, B256};
use alloy_sol_types::{Eip712Domain, SolStruct, eip712_domain};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::registry::Operation;

mod typed {
    //! The contract's types. Their names are part of their hashes.
    alloy_sol_types::sol! {
        struct UpdateAuthenticator {
            uint64 leafIndex;
            address oldAuthenticatorAddress;
            address newAuthenticatorAddress;
            uint32 pubkeyId;
            uint256 newAuthenticatorPubkey;
            uint256 newOffchainSignerCommitment;
            uint256 nonce;
        }
        struct InsertAuthenticator {
            uint64 leafIndex;
            address newAuthenticatorAddress;
            uint32 pubkeyId;
            uint256 newAuthenticatorPubkey;
            uint256 newOffchainSignerCommitment;
            uint256 nonce;
        }
        struct RemoveAuthenticator {
            uint64 leafIndex;
            address authenticatorAddress;
            uint32 pubkeyId;
            uint256 authenticatorPubkey;
            uint256 newOffchainSignerCommitment;
            uint256 nonce;
        }
        struct RecoverAccount {
            uint64 leafIndex;
            address newAuthenticatorAddress;
            uint256 newAuthenticatorPubkey;
            uint256 newOffchainSignerCommitment;
            uint256 nonce;
        }
        struct InitiateRecoveryAgentUpdate {
            uint64 leafIndex;
            address newRecoveryAgent;
            uint256 nonce;
        }
        struct CancelRecoveryAgentUpdate {
            uint64 leafIndex;
            uint256 nonce;
        }
    }
}

/// The registry that signatures are made for: `WorldIDRegistry`, version `1.0`, on a chain, at an
/// address. The domain of a store does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegistryDomain {
    /// Chain id of EIP-155: the domain's `chainId`.
    #[schema(example = 480)]
    pub chain_id: u64,
    /// Address of the registry contract: the domain's `verifyingContract`.
    #[serde(with = "crate::address")]
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{40}$", example = "0xcf7ed3acca5a467e9e704c703e8d87f634fb0fc9")]
    pub verifying_contract: Address,
}

crate::encode_fields!(RegistryDomain { chain_id, verifying_contract });

impl RegistryDomain {
    fn eip712(&self) -> Eip712Domain {
        eip712_domain! {
            name: "WorldIDRegistry",
            version: "1.0",
            chain_id: self.chain_id,
            verifying_contract: self.verifying_contract,
        }
    }

    /// The domain separator of EIP-712.
    pub fn separator(&self) -> B256 {
        self.eip712().separator()
    }

    /// The digest that the operation's signature must be over; `None` for the kinds that are not
    /// signed.
    pub fn signing_digest(&self, operation: &Operation) -> Option<B256> {
        let domain = self.eip712();
        Some(match operation {
            Operation::CreateAccount(_) | Operation::ExecuteRecoveryAgentUpdate(_) => return None,
            Operation::UpdateAuthenticator(operation) => typed::UpdateAuthenticator {
                leafIndex: operation.leaf_index.0,
                oldAuthenticatorAddress: operation.old_authenticator_address,
                newAuthenticatorAddress: operation.new_authenticator_address,
                pubkeyId: operation.pubkey_id.0,
                newAuthenticatorPubkey: operation.new_authenticator_pubkey.0,
                newOffchainSignerCommitment: operation.new_offchain_signer_commitment.0,
                nonce: operation.nonce.0,
            }
            .eip712_signing_hash(&domain),
            Operation::InsertAuthenticator(operation) => typed::InsertAuthenticator {
                leafIndex: operation.leaf_index.0,
                newAuthenticatorAddress: operation.new_authenticator_address,
                pubkeyId: operation.pubkey_id.0,
                newAuthenticatorPubkey: operation.new_authenticator_pubkey.0,
                newOffchainSignerCommitment: operation.new_offchain_signer_commitment.0,
                nonce: operation.nonce.0,
            }
            .eip712_signing_hash(&domain),
            Operation::RemoveAuthenticator(operation) => typed::RemoveAuthenticator {
                leafIndex: operation.leaf_index.0,
                authenticatorAddress: operation.authenticator_address,
                pubkeyId: operation.pubkey_id.0,
                authenticatorPubkey: operation.authenticator_pubkey.0,
                newOffchainSignerCommitment: operation.new_offchain_signer_commitment.0,
                nonce: operation.nonce.0,
            }
            .eip712_signing_hash(&domain),
            Operation::RecoverAccount(operation) => typed::RecoverAccount {
                leafIndex: operation.leaf_index.0,
                newAuthenticatorAddress: operation.new_authenticator_address,
                newAuthenticatorPubkey: operation.new_authenticator_pubkey.0,
                newOffchainSignerCommitment: operation.new_offchain_signer_commitment.0,
                nonce: operation.nonce.0,
            }
            .eip712_signing_hash(&domain),
            Operation::UpdateRecoveryAgent(operation) => typed::InitiateRecoveryAgentUpdate {
                leafIndex: operation.leaf_index.0,
                newRecoveryAgent: operation.new_recovery_agent,
                nonce: operation.nonce.0,
            }
            .eip712_signing_hash(&domain),
            Operation::CancelRecoveryAgentUpdate(operation) => {
                typed::CancelRecoveryAgentUpdate { leafIndex: operation.leaf_index.0, nonce: operation.nonce.0 }
                    .eip712_signing_hash(&domain)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{address, b256};

    #[test]
    fn the_domain_separator_matches_the_recorded_value() {
        let domain = RegistryDomain {
            chain_id: 31337,
            verifying_contract: address!("cf7ed3acca5a467e9e704c703e8d87f634fb0fc9"),
        };
        assert_eq!(domain.separator(), b256!("06c55914aa594277453b5d7216ec3b61d4147cd369396cdc1c9c7c5f774f3b62"));
    }

    #[test]
    fn type_strings_match_the_contract() {
        let table = [
            (
                typed::UpdateAuthenticator::eip712_encode_type(),
                "UpdateAuthenticator(uint64 leafIndex,address oldAuthenticatorAddress,address newAuthenticatorAddress,uint32 pubkeyId,uint256 newAuthenticatorPubkey,uint256 newOffchainSignerCommitment,uint256 nonce)",
            ),
            (
                typed::InsertAuthenticator::eip712_encode_type(),
                "InsertAuthenticator(uint64 leafIndex,address newAuthenticatorAddress,uint32 pubkeyId,uint256 newAuthenticatorPubkey,uint256 newOffchainSignerCommitment,uint256 nonce)",
            ),
            (
                typed::RemoveAuthenticator::eip712_encode_type(),
                "RemoveAuthenticator(uint64 leafIndex,address authenticatorAddress,uint32 pubkeyId,uint256 authenticatorPubkey,uint256 newOffchainSignerCommitment,uint256 nonce)",
            ),
            (
                typed::RecoverAccount::eip712_encode_type(),
                "RecoverAccount(uint64 leafIndex,address newAuthenticatorAddress,uint256 newAuthenticatorPubkey,uint256 newOffchainSignerCommitment,uint256 nonce)",
            ),
            (
                typed::InitiateRecoveryAgentUpdate::eip712_encode_type(),
                "InitiateRecoveryAgentUpdate(uint64 leafIndex,address newRecoveryAgent,uint256 nonce)",
            ),
            (
                typed::CancelRecoveryAgentUpdate::eip712_encode_type(),
                "CancelRecoveryAgentUpdate(uint64 leafIndex,uint256 nonce)",
            ),
        ];
        for (ours, contract) in table {
            assert_eq!(ours, contract);
        }
    }
}
