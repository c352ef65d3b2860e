//! Carries an operation out: reads the account, submits, waits until the request is final, then
//! checks the services' answers.
//!
//! The wallet verifies what it can. Before it signs, it recomputes the account's commitment from
//! the account's keys. Afterwards, the receipt must show the submitted operation, and the inclusion
//! proof must lead from the new commitment to the tree's root.

use std::time::Duration;

use alloy_primitives::Address;
use selfsame_protocol::commitment::{PublicKeyError, decompress_slots};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::gateway::GatewayRequestState;
use selfsame_protocol::ids::{Commitment, LeafIndex, Nonce, PubkeyId};
use selfsame_protocol::indexer::{AuthenticatorsResponse, InclusionProofResponse};
use selfsame_protocol::json::to_printable;
use selfsame_protocol::ledger::{Outcome, Receipt, ReceiptError, RequestId};
use selfsame_protocol::registry::OperationKind;
use selfsame_protocol::tree::{self, Root};

use crate::Random;
use crate::client::{Client, ClientError};
use crate::keys::Authenticator;
use crate::operations::{AccountState, OperationError, Step};

/// The version of the registry's rules that this wallet signs for.
const REGISTRY_VERSION: &str = "v1";

/// Why an operation was not carried out, or its effect was not verified.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// A call of the gateway or the indexer failed, or the request was not final in time.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The operation cannot be built from the account's state, or cannot be signed.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The gateway serves another version of the registry's rules than this wallet signs for. Holds
    /// that version as the gateway wrote it, without control characters, at most 1000 characters.
    #[error("the registry's rules are version `{0}`; this wallet signs for {REGISTRY_VERSION}")]
    RegistryVersion(String),
    /// The indexer has no account for this address: it is not, or no longer, an authenticator's.
    #[error("{0:#x} is not an authenticator of any account")]
    NoAccount(Address),
    /// The indexer's lists of public keys and addresses differ in length, or a slot has only a key
    /// or only an address.
    #[error(
        "the indexer's slots of account {of:#x} are inconsistent: a slot needs both a key and an address, or neither"
    )]
    SlotLists {
        /// Leaf index of the account.
        of: LeafIndex,
    },
    /// A public key in the indexer's answer is not a valid compressed key.
    #[error("the public key in slot {pubkey_id} does not decode: {error}")]
    PublicKey {
        /// The first slot whose key does not decode, counted from 0.
        pubkey_id: PubkeyId,
        /// Why the key does not decode.
        error: PublicKeyError,
    },
    /// The commitment that the indexer states is not that of the account's public keys.
    #[error(
        "the indexer says the commitment of account {leaf_index:#x} is {stated:#x}, its public keys make {computed:#x}; \
         nothing is signed for such an account"
    )]
    Commitment {
        /// Leaf index of the account.
        leaf_index: LeafIndex,
        /// The commitment in the indexer's answer.
        stated: Commitment,
        /// The commitment that the wallet computed from the public keys in the same answer.
        computed: Commitment,
    },
    /// The request is final in the state `failed`: the operation broke a rule when its block was
    /// applied.
    #[error("{request_id} failed: {error}")]
    Failed {
        /// Id of the request.
        request_id: RequestId,
        /// The gateway's reason, without control characters, at most 1000 characters.
        error: String,
    },
    /// The receipt is not consistent in itself.
    #[error("the receipt of {request_id} is not valid: {error}")]
    Receipt {
        /// Id of the request that the receipt was asked for.
        request_id: RequestId,
        /// Which of the receipt's hashes, paths and encodings does not fit.
        error: ReceiptError,
    },
    /// The receipt is consistent in itself, but does not show that the submitted operation was
    /// applied: it is of another request, operation, block or account, or its outcome is a failure.
    #[error("the receipt of {request_id} does not match: {what}")]
    OtherReceipt {
        /// Id of the request that the receipt was asked for.
        request_id: RequestId,
        /// What does not match.
        what: &'static str,
    },
    /// The indexer's inclusion proof does not lead from the account's commitment to its root, is of
    /// another account or other public keys, or the gateway does not confirm that its root is
    /// valid.
    #[error("the inclusion proof of account {leaf_index:#x} is not valid: {what}")]
    InclusionProof {
        /// Leaf index of the account.
        leaf_index: LeafIndex,
        /// What is wrong with the proof.
        what: &'static str,
    },
}

/// A registry that operations are signed for, reached through its gateway and indexer.
#[derive(Clone, Debug)]
pub struct Registry {
    client: Client,
    domain: RegistryDomain,
}

/// An operation that the gateway accepted.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// Id that the gateway assigned to the request.
    pub request_id: RequestId,
    /// Kind of the operation, as the gateway answered.
    pub kind: OperationKind,
    step: Step,
}

/// An operation that the gateway reports as finalized.
#[derive(Clone, Debug)]
pub struct Finalized {
    /// Id that the gateway assigned to the request.
    pub request_id: RequestId,
    /// Hash of its block, in the gateway's form.
    pub transaction_hash: String,
    step: Step,
}

/// An operation that was carried out and verified.
#[derive(Clone, Debug)]
pub struct Report {
    /// The receipt, verified.
    pub receipt: Receipt,
    /// The account after the operation.
    pub account: AccountState,
    /// The root that the account's inclusion proof was verified against; the gateway has confirmed
    /// that it is valid.
    pub root: Root,
}

impl Registry {
    /// Reads the chain and the contract that operations are signed for from the gateway.
    ///
    /// # Errors
    /// [`AccountError::RegistryVersion`] for another version of the rules than this wallet's.
    pub async fn connect(client: Client) -> Result<Self, AccountError> {
        let config = client.config().await?;
        if config.registry_version != REGISTRY_VERSION {
            return Err(AccountError::RegistryVersion(to_printable(&config.registry_version)));
        }
        let domain = RegistryDomain { chain_id: config.chain_id, verifying_contract: config.registry_address };
        Ok(Self { client, domain })
    }

    /// The chain and the contract that signatures are made for.
    pub fn domain(&self) -> &RegistryDomain {
        &self.domain
    }

    /// Sets the token that the gateway may ask for when an account is created.
    pub fn set_creation_token(&mut self, token: Option<String>) {
        self.client.creation_token = token;
    }

    /// The client of the gateway and the indexer.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The account of an authenticator's address.
    ///
    /// # Errors
    /// [`AccountError::NoAccount`] when the address is not an authenticator's; otherwise as
    /// [`Registry::account`].
    pub async fn account_of(&self, address: Address) -> Result<AccountState, AccountError> {
        let packed = self.client.packed_account(address).await?.ok_or(AccountError::NoAccount(address))?;
        self.account(packed.leaf_index).await
    }

    /// An account, as operations are built from it. Its commitment is recomputed from its keys and
    /// compared.
    ///
    /// # Errors
    /// [`AccountError::SlotLists`], [`AccountError::PublicKey`] and [`AccountError::Commitment`]
    /// when the indexer's answers do not fit together.
    pub async fn account(&self, leaf_index: LeafIndex) -> Result<AccountState, AccountError> {
        let nonce = self.client.signature_nonce(leaf_index).await?;
        let authenticators = self.client.authenticators(leaf_index).await?;
        account_state(leaf_index, nonce, &authenticators)
    }

    /// Submits an operation under a new random idempotency key.
    pub async fn submit(&self, step: Step, random: &mut Random<'_>) -> Result<Accepted, AccountError> {
        let mut idempotency_key = [0; 32];
        random(&mut idempotency_key);
        let answer = self.client.submit(&step.operation, &idempotency_key).await?;
        Ok(Accepted { request_id: answer.request_id, kind: answer.kind, step })
    }

    /// Waits until an accepted operation is final.
    ///
    /// # Errors
    /// [`AccountError::Failed`] when the operation broke a rule when its block was applied,
    /// [`ClientError::NotFinal`] when the request is not final within `patience`.
    pub async fn wait(&self, accepted: Accepted, patience: Duration) -> Result<Finalized, AccountError> {
        let Accepted { request_id, step, .. } = accepted;
        match self.client.wait_final(request_id, patience).await?.status {
            GatewayRequestState::Failed { error, .. } => {
                Err(AccountError::Failed { request_id, error: to_printable(&error) })
            }
            GatewayRequestState::Finalized { tx_hash } => {
                Ok(Finalized { request_id, transaction_hash: to_printable(&tx_hash), step })
            }
            _ => Err(ClientError::NotFinal { request_id, patience }.into()),
        }
    }

    /// Checks the receipt of a finalized operation and the inclusion proof of its account.
    ///
    /// # Errors
    /// [`AccountError::Receipt`], [`AccountError::OtherReceipt`] and
    /// [`AccountError::InclusionProof`].
    pub async fn check(&self, finalized: Finalized) -> Result<Report, AccountError> {
        let receipt = self.client.receipt(finalized.request_id).await?;
        let leaf_index = check_receipt(&receipt, &finalized, &self.domain)?;
        let account = AccountState { leaf_index, ..finalized.step.after };
        let proof = self.client.inclusion_proof(leaf_index).await?;
        check_inclusion(&proof, &account)?;
        if !self.client.is_valid_root(proof.root).await? {
            let what = "the gateway does not accept its root";
            return Err(AccountError::InclusionProof { leaf_index, what });
        }
        Ok(Report { receipt, account, root: proof.root })
    }

    /// [`Registry::submit`], [`Registry::wait`] and [`Registry::check`] in one call.
    pub async fn carry_out(
        &self,
        step: Step,
        random: &mut Random<'_>,
        patience: Duration,
    ) -> Result<Report, AccountError> {
        let accepted = self.submit(step, random).await?;
        let finalized = self.wait(accepted, patience).await?;
        self.check(finalized).await
    }
}

/// The account in the indexer's answers; an error when its commitment is not that of its keys.
fn account_state(
    leaf_index: LeafIndex,
    nonce: Nonce,
    answer: &AuthenticatorsResponse,
) -> Result<AccountState, AccountError> {
    let AuthenticatorsResponse { authenticator_pubkeys: keys, authenticator_addresses: addresses, .. } = answer;
    let fit =
        keys.len() == addresses.len() && keys.iter().zip(addresses).all(|(key, of)| key.is_some() == of.is_some());
    if !fit {
        return Err(AccountError::SlotLists { of: leaf_index });
    }
    let keys = decompress_slots(keys.iter().copied())
        .map_err(|slot| AccountError::PublicKey { pubkey_id: slot.pubkey_id, error: slot.error })?;
    let slots = addresses
        .iter()
        .zip(keys)
        .map(|(address, key)| address.zip(key).map(|(address, public_key)| Authenticator { address, public_key }));
    let account = AccountState::new(leaf_index, slots.collect(), nonce);
    if account.commitment != answer.offchain_signer_commitment {
        let stated = answer.offchain_signer_commitment;
        return Err(AccountError::Commitment { leaf_index, stated, computed: account.commitment });
    }
    Ok(account)
}

/// Verifies a receipt, and that it belongs to the finalized operation. Returns the account's leaf
/// index.
fn check_receipt(receipt: &Receipt, finalized: &Finalized, domain: &RegistryDomain) -> Result<LeafIndex, AccountError> {
    let Finalized { request_id, transaction_hash, step } = finalized;
    let request_id = *request_id;
    receipt.verify().map_err(|error| AccountError::Receipt { request_id, error })?;
    let same =
        |condition: bool, what| if condition { Ok(()) } else { Err(AccountError::OtherReceipt { request_id, what }) };
    let body = serde_json::to_value(&step.operation).unwrap_or_default();
    same(receipt.request_id == request_id, "another request")?;
    same(receipt.kind == step.operation.kind() && receipt.operation.body == body, "another operation")?;
    let hash = selfsame_protocol::gateway::transaction_hash(&receipt.block.hash);
    same(hash == *transaction_hash, "another block than the state named")?;
    same(receipt.block.header.domain == *domain, "its block belongs to another registry")?;
    let Outcome::Applied { leaf_index } = receipt.outcome.outcome else {
        return Err(AccountError::OtherReceipt { request_id, what: "its outcome is a failure" });
    };
    let expected = step.operation.leaf_index().unwrap_or(leaf_index);
    same(leaf_index == expected, "its outcome names another account")?;
    Ok(leaf_index)
}

/// Verifies that an inclusion proof leads from the account's commitment to its root.
fn check_inclusion(proof: &InclusionProofResponse, account: &AccountState) -> Result<(), AccountError> {
    let leaf_index = account.leaf_index;
    let holds = |condition: bool, what| {
        if condition { Ok(()) } else { Err(AccountError::InclusionProof { leaf_index, what }) }
    };
    let path = proof.path();
    holds(proof.leaf_index == leaf_index, "it is of another account")?;
    let shown = |path: &tree::InclusionPath| path.root_from(&account.commitment.leaf()) == path.root;
    holds(path.is_some(), "it does not have 30 siblings")?;
    holds(path.as_ref().is_some_and(shown), "it does not lead from the account's commitment to the root")?;
    let keys = account.slots.iter().map(|slot| slot.as_ref().map(Authenticator::compressed_key));
    holds(keys.eq(proof.authenticator_pubkeys.iter().copied()), "its public keys are not the account's")
}
