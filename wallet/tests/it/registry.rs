//! A registry in memory: every operation immediately becomes a block, by the real rules.

use std::collections::HashMap;
use std::convert::Infallible;

use alloy_primitives::{Address, U256, address};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::gateway::{
    BlockResponse, ConfigResponse, GatewayRequestState, GatewayStatusResponse, ValidRootResponse, transaction_hash,
};
use selfsame_protocol::ids::{LeafIndex, Nonce};
use selfsame_protocol::indexer::{
    AddressQuery, AuthenticatorsResponse, InclusionProofResponse, LeafIndexQuery, PackedAccountResponse,
    PendingRecoveryAgentResponse, RecoveryAgentResponse, SignatureNonceResponse,
};
use selfsame_protocol::ledger::{
    Block, Entry, Head, Outcome, Receipt, RegistryKey, RequestId, SignedHead, Tip, apply_block, recover_signers,
};
use selfsame_protocol::registry::{Account, CommitmentCheck, Operation, PackedAccount, RegistryView, RuleParameters};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::{DEPTH, Page, PageId, PageSource, inclusion_path};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::server::{CannedAnswer, ReceivedRequest};

const DOMAIN: RegistryDomain =
    RegistryDomain { chain_id: 31337, verifying_contract: address!("cf7ed3acca5a467e9e704c703e8d87f634fb0fc9") };

/// Rules that enforce commitments and have no cooldown for recovery agents.
const RULES: RuleParameters = RuleParameters {
    max_authenticators: 7,
    recovery_agent_update_cooldown: 0,
    root_validity_window: 3600,
    commitment_check: CommitmentCheck::Enforce,
};

#[derive(Clone, Default)]
pub struct InMemoryRegistry {
    accounts: HashMap<LeafIndex, Account>,
    addresses: HashMap<Address, PackedAccount>,
    pages: HashMap<PageId, Page>,
    tip: Tip,
    receipts: HashMap<RequestId, Receipt>,
    /// The blocks, from height 1 on.
    pub blocks: Vec<BlockResponse>,
    /// The secret of the key that signs the heads.
    pub seed: [u8; 32],
}

impl RegistryView for InMemoryRegistry {
    type Error = Infallible;
    fn account(&self, leaf_index: LeafIndex) -> Result<Option<Account>, Infallible> {
        Ok(self.accounts.get(&leaf_index).cloned())
    }
    fn packed_account(&self, address: Address) -> Result<Option<PackedAccount>, Infallible> {
        Ok(self.addresses.get(&address).copied())
    }
    fn next_leaf_index(&self) -> Result<LeafIndex, Infallible> {
        Ok(LeafIndex(self.accounts.len() as u64 + 1))
    }
}

impl PageSource for InMemoryRegistry {
    type Error = Infallible;
    fn page(&self, id: PageId) -> Result<Option<Page>, Infallible> {
        Ok(self.pages.get(&id).cloned())
    }
}

impl InMemoryRegistry {
    /// Answers a request as gateway and indexer would.
    pub fn answer(&mut self, request: &ReceivedRequest) -> CannedAnswer {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let body = &request.body;
        match path.rsplit_once('/').expect("a path") {
            ("", "config") => CannedAnswer::ok(ConfigResponse {
                chain_id: DOMAIN.chain_id,
                registry_address: DOMAIN.verifying_contract,
                registry_version: "v1".to_owned(),
                max_authenticators: RULES.max_authenticators,
                tree_depth: DEPTH as u32,
                root_validity_window: RULES.root_validity_window,
                create_account: None,
            }),
            ("/status", request_id) => self.status(request_id.parse().expect("an id")),
            ("/receipt", request_id) => {
                CannedAnswer::ok(&self.receipts[&request_id.parse::<RequestId>().expect("an id")])
            }
            ("", "head") => CannedAnswer::ok(self.signed_head()),
            ("/block", height) => {
                let height: usize = height.parse().expect("a height");
                match height.checked_sub(1).and_then(|index| self.blocks.get(index)) {
                    Some(block) => CannedAnswer::ok(block),
                    None => CannedAnswer::error(404, "not_found", "the ledger has no such block"),
                }
            }
            ("", "is-valid-root") => {
                CannedAnswer::ok(ValidRootResponse { valid: query == format!("root={:#x}", self.tip.root) })
            }
            ("", "packed-account") => match self.addresses.get(&read::<AddressQuery>(body).authenticator_address) {
                Some(packed) => CannedAnswer::ok(PackedAccountResponse { packed_account_data: packed.to_number() }),
                None => CannedAnswer::error(400, "account_does_not_exist", "no account has that address"),
            },
            ("", "create-account") => self.submit(Operation::CreateAccount(read(body))),
            ("", "update-authenticator") => self.submit(Operation::UpdateAuthenticator(read(body))),
            ("", "insert-authenticator") => self.submit(Operation::InsertAuthenticator(read(body))),
            ("", "remove-authenticator") => self.submit(Operation::RemoveAuthenticator(read(body))),
            ("", "recover-account") => self.submit(Operation::RecoverAccount(read(body))),
            ("", "initiate-recovery-agent-update") => self.submit(Operation::UpdateRecoveryAgent(read(body))),
            ("", "cancel-recovery-agent-update") => self.submit(Operation::CancelRecoveryAgentUpdate(read(body))),
            ("", "execute-recovery-agent-update") => self.submit(Operation::ExecuteRecoveryAgentUpdate(read(body))),
            ("", query) => self.account_query(query, read::<LeafIndexQuery>(body).leaf_index),
            _ => CannedAnswer::error(404, "not_found", path),
        }
    }

    fn account_query(&self, query: &str, leaf_index: LeafIndex) -> CannedAnswer {
        let Some(account) = self.accounts.get(&leaf_index) else {
            return CannedAnswer::error(400, "account_does_not_exist", "no account has that leaf index");
        };
        match query {
            "inclusion-proof" => {
                let Ok(path) = inclusion_path(self, leaf_index);
                CannedAnswer::ok(InclusionProofResponse::new(&path, account))
            }
            "signature-nonce" => {
                CannedAnswer::ok(SignatureNonceResponse { signature_nonce: Nonce(U256::from(account.nonce)) })
            }
            "authenticators" => CannedAnswer::ok(AuthenticatorsResponse {
                authenticator_pubkeys: account.public_keys(),
                authenticator_addresses: account.addresses(),
                offchain_signer_commitment: account.commitment,
                recovery_counter: account.recovery_counter,
            }),
            "recovery-agent" => CannedAnswer::ok(RecoveryAgentResponse { recovery_agent: account.recovery_agent }),
            "pending-recovery-agent" => {
                let pending = account.pending_recovery_agent.as_ref();
                CannedAnswer::ok(PendingRecoveryAgentResponse {
                    pending_recovery_agent: pending.map_or(Address::ZERO, |pending| pending.agent),
                    execute_after: pending.map_or(UnixSeconds(0), |pending| pending.execute_after),
                })
            }
            _ => CannedAnswer::error(404, "not_found", query),
        }
    }

    fn submit(&mut self, operation: Operation) -> CannedAnswer {
        let request_id = RequestId::from_random([self.receipts.len() as u8; 16]);
        let kind = operation.kind();
        let receipt = self.seal_block(vec![Entry { request_id, operation }]).expect("one entry");
        self.receipts.insert(request_id, receipt);
        CannedAnswer::ok(GatewayStatusResponse { request_id, kind, status: GatewayRequestState::Queued })
    }

    /// Seals and applies a block, and returns the receipt of its first entry.
    fn seal_block(&mut self, entries: Vec<Entry>) -> Option<Receipt> {
        let request_ids = entries.iter().map(|entry| entry.request_id).collect();
        let block = Block::seal(&self.tip.seal, DOMAIN, UnixSeconds(1_800_000_000), RULES, entries);
        let signers = recover_signers(&block.entries, &DOMAIN);
        let Ok(effects) = apply_block(&block, &signers, self, &self.tip);
        let receipt = Receipt::new(&block, &effects.result, &effects.outcomes, 0);
        let (header, result) = (block.header.into(), Some(effects.result.into()));
        self.blocks.push(BlockResponse { block: header, result, request_ids });
        self.accounts.extend(effects.accounts);
        for (address, mapping) in effects.addresses {
            match mapping {
                Some(packed) => self.addresses.insert(address, packed),
                None => self.addresses.remove(&address),
            };
        }
        self.pages.extend(effects.pages);
        self.tip = effects.tip;
        receipt
    }

    /// Seals blocks without operations.
    pub fn seal_empty_blocks(&mut self, count: u64) {
        for _ in 0..count {
            self.seal_block(Vec::new());
        }
    }

    /// The head, signed with the key of the seed.
    pub fn signed_head(&self) -> SignedHead {
        let key = RegistryKey::from_seed(&self.seed).expect("a key");
        Head::new(DOMAIN, &self.tip).sign(&key).expect("signed")
    }

    fn status(&self, request_id: RequestId) -> CannedAnswer {
        let receipt = &self.receipts[&request_id];
        let status = match receipt.outcome.outcome.clone() {
            Outcome::Applied { .. } => {
                GatewayRequestState::Finalized { tx_hash: transaction_hash(&receipt.block.hash) }
            }
            Outcome::Failed { rule, code } => GatewayRequestState::Failed { error: rule, error_code: Some(code) },
        };
        CannedAnswer::ok(GatewayStatusResponse { request_id, kind: receipt.kind, status })
    }
}

/// The answer of `GET /simulator` of a daemon with one application, which issues `proof_of_human`.
pub fn simulation(app_id: &Value, rp_id: &Value) -> Value {
    let point = json!({"x": "0x1", "y": "0x2"});
    json!({
        "seed": "a seed",
        "issuers": [{"id": 1, "identifiers": ["proof_of_human"], "public_key": point}],
        "relying_parties": [{"app_id": app_id, "rp_id": rp_id, "oprf_public_key": point}],
    })
}

fn read<T: DeserializeOwned>(body: &Value) -> T {
    serde_json::from_value(body.clone()).expect("the body fits the endpoint")
}
