//! Recorded traces of the registry contract, and their replay.
//!
//! A trace is a JSON file: the parameters that the contract was deployed with, and one row for each
//! call in order. A row has the block's `time`, the operation's `kind`, its `request` in the
//! gateway's field names, and either the contract's `error` or the account's state and the tree's
//! root `after` the call. Unknown fields are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use alloy_primitives::{Address, U256};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::commitment::MAX_AUTHENTICATORS;
use crate::eip712::RegistryDomain;
use crate::ids::{Commitment, CompressedKey, LeafIndex, Nonce, PubkeyId};
use crate::ledger::{Block, Entry, MemoryRegistry, Outcome, RequestId};
use crate::registry::{
    CancelRecoveryAgentUpdate, CreateAccount, ExecuteRecoveryAgentUpdate, InsertAuthenticator, Operation,
    OperationKind, RecoverAccount, RemoveAuthenticator, RuleParameters, UpdateAuthenticator, UpdateRecoveryAgent,
};
use crate::time::UnixSeconds;
use crate::tree::Root;
use crate::{address, number, tree};

#[cfg(test)]
mod tests;

/// A recorded trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The registry that the trace's signatures are made for.
    pub domain: RegistryDomain,
    /// The contract's parameters.
    pub rules: RuleParameters,
    /// The calls, in order.
    pub rows: Vec<Row>,
}

/// One recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Time of the call's block.
    pub time: UnixSeconds,
    /// The operation that was called.
    pub operation: Operation,
    /// The contract's answer.
    pub outcome: RowOutcome,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowOutcome {
    /// The call broke the rule with this name.
    Failed(String),
    /// The call was applied; the state after it.
    Applied(AccountState),
}

/// The observable state of an account, and the tree's root.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AccountState {
    /// Leaf index of the account that the call created or changed.
    pub leaf_index: LeafIndex,
    /// Root of the tree after the call.
    pub root: Root,
    /// The account's leaf in the tree.
    pub leaf: Commitment,
    /// The nonce that the account's next signed operation must carry.
    pub signature_nonce: Nonce,
    /// How often the account was recovered.
    #[serde(with = "number")]
    pub recovery_counter: u32,
    /// The zero address when the account has no recovery agent.
    #[serde(with = "address")]
    pub recovery_agent: Address,
    /// The zero address when no update is pending.
    #[serde(with = "address")]
    pub pending_recovery_agent: Address,
    /// The earliest time of the execution; 0 when no update is pending.
    pub execute_after: UnixSeconds,
    /// The slots in use.
    pub authenticators: Vec<AuthenticatorState>,
}

/// An authenticator in its slot.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AuthenticatorState {
    /// The slot, counted from 0; a JSON number in the file.
    #[serde(with = "number::plain")]
    pub pubkey_id: PubkeyId,
    /// The authenticator's address.
    #[serde(with = "address")]
    pub address: Address,
    /// The compressed public key in the slot.
    pub pubkey: CompressedKey,
    /// What the address maps to.
    #[serde(with = "number")]
    pub packed_account_data: U256,
}

/// Why a file is not a valid trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The file as a whole, or one of its parameters.
    #[error("not a trace: {0}")]
    File(String),
    /// One of its rows.
    #[error("row {row}: {reason}")]
    Row {
        /// Counted from 1.
        row: usize,
        /// What is wrong with the row, with the path of the field.
        reason: String,
    },
}

/// A difference between a recorded row and its replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The row, counted from 1.
    pub row: usize,
    /// The row's kind of operation.
    pub kind: OperationKind,
    /// What differs: `outcome`, or the path of a field of the row, such as `after.root`.
    pub field: String,
    /// The recorded value.
    pub expected: String,
    /// The value that the replay gives.
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let Self { row, kind, field, expected, found } = self;
        let kind: &str = kind.into();
        write!(formatter, "row {row} ({kind}): {field} is {found}, the trace has {expected}")
    }
}

/// The shape of the file. Each row is read on its own, so that an error names its row.
#[derive(Deserialize)]
struct File {
    chain_id: u64,
    #[serde(with = "address")]
    verifying_contract: Address,
    tree_depth: usize,
    max_authenticators: u32,
    recovery_agent_update_cooldown: u64,
    rows: Vec<Value>,
}

#[derive(Deserialize)]
struct FileRow {
    time: UnixSeconds,
    kind: OperationKind,
    request: Value,
    error: Option<String>,
    after: Option<AccountState>,
}

impl Trace {
    /// Reads a trace.
    ///
    /// # Errors
    /// The first malformed field, with the number of its row when it is in a row.
    pub fn parse(json: &[u8]) -> Result<Self, TraceError> {
        let value = serde_json::from_slice(json).map_err(|error| TraceError::File(error.to_string()))?;
        let file: File = read(value).map_err(TraceError::File)?;
        if file.tree_depth != tree::DEPTH {
            let reason = format!("tree_depth is {}; it must be {}", file.tree_depth, tree::DEPTH);
            return Err(TraceError::File(reason));
        }
        if !(1..=MAX_AUTHENTICATORS as u32).contains(&file.max_authenticators) {
            let reason =
                format!("max_authenticators is {}; it must be 1 to {MAX_AUTHENTICATORS}", file.max_authenticators);
            return Err(TraceError::File(reason));
        }
        let row = |(row, value)| Row::parse(value).map_err(|reason| TraceError::Row { row, reason });
        Ok(Self {
            domain: RegistryDomain { chain_id: file.chain_id, verifying_contract: file.verifying_contract },
            rules: RuleParameters {
                max_authenticators: file.max_authenticators,
                recovery_agent_update_cooldown: file.recovery_agent_update_cooldown,
                ..RuleParameters::default()
            },
            rows: (1..).zip(file.rows).map(row).collect::<Result<_, _>>()?,
        })
    }
}

impl Row {
    fn parse(value: Value) -> Result<Self, String> {
        let row: FileRow = read(value)?;
        let outcome = match (row.error, row.after) {
            (Some(rule), None) => RowOutcome::Failed(rule),
            (None, Some(state)) => RowOutcome::Applied(state),
            _ => return Err("a row has either `error` or `after`".to_owned()),
        };
        let operation = read_operation(row.kind, row.request).map_err(|reason| format!("request: {reason}"))?;
        Ok(Self { time: row.time, operation, outcome })
    }

    /// Seals the row's operation into a block of its own, applies the block and returns the
    /// differences from the row.
    fn replay(&self, number: usize, trace: &Trace, registry: &mut MemoryRegistry) -> Vec<Difference> {
        let request_id = RequestId::from_random((number as u128).to_be_bytes());
        let entries = vec![Entry { request_id, operation: self.operation.clone() }];
        let block = Block::seal(&registry.tip.seal, trace.domain, self.time, trace.rules, entries);
        let effects = registry.apply(&block, &trace.domain);
        effects.outcomes.iter().flat_map(|outcome| self.compare(number, &RowOutcome::of(outcome, registry))).collect()
    }

    fn compare(&self, row: usize, found: &RowOutcome) -> Vec<Difference> {
        let kind = self.operation.kind();
        let difference = |field: &str, expected: &str, found: &str| Difference {
            row,
            kind,
            field: field.to_owned(),
            expected: expected.to_owned(),
            found: found.to_owned(),
        };
        match (&self.outcome, found) {
            (RowOutcome::Applied(expected), RowOutcome::Applied(found)) => {
                let (expected, found) = (expected.fields(), found.fields());
                let names: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
                let value =
                    |fields: &BTreeMap<_, String>, name| fields.get(name).map_or("absent", String::as_str).to_owned();
                names
                    .into_iter()
                    .map(|name| difference(name, &value(&expected, name), &value(&found, name)))
                    .filter(|difference| difference.expected != difference.found)
                    .collect()
            }
            (expected, found) if expected == found => Vec::new(),
            (expected, found) => vec![difference("outcome", expected.name(), found.name())],
        }
    }
}

impl RowOutcome {
    fn of(outcome: &Outcome, registry: &MemoryRegistry) -> Self {
        match outcome {
            Outcome::Failed { rule, .. } => Self::Failed(rule.clone()),
            Outcome::Applied { leaf_index } => Self::Applied(AccountState::of(*leaf_index, registry)),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Failed(rule) => rule,
            Self::Applied(_) => "applied",
        }
    }
}

impl AccountState {
    /// The state of an account that an operation has just made or changed.
    fn of(leaf_index: LeafIndex, registry: &MemoryRegistry) -> Self {
        let account = &registry.accounts[&leaf_index];
        let (pending_recovery_agent, execute_after) = account
            .pending_recovery_agent
            .as_ref()
            .map_or((Address::ZERO, UnixSeconds(0)), |pending| (pending.agent, pending.execute_after));
        let authenticators = (0..).map(PubkeyId).zip(&account.slots).filter_map(|(pubkey_id, slot)| {
            slot.as_ref().map(|authenticator| AuthenticatorState {
                pubkey_id,
                address: authenticator.address,
                pubkey: authenticator.public_key,
                packed_account_data: registry
                    .addresses
                    .get(&authenticator.address)
                    .map_or(U256::ZERO, |packed| packed.to_number()),
            })
        });
        Self {
            leaf_index,
            root: registry.tip.root,
            leaf: account.commitment,
            signature_nonce: Nonce::from(account.nonce),
            recovery_counter: account.recovery_counter,
            recovery_agent: account.recovery_agent,
            pending_recovery_agent,
            execute_after,
            authenticators: authenticators.collect(),
        }
    }

    /// Every field by its path in the row.
    fn fields(&self) -> BTreeMap<String, String> {
        let account = [
            ("leaf_index", number::canonical(self.leaf_index)),
            ("root", number::padded(&self.root.0)),
            ("leaf", number::canonical(self.leaf)),
            ("signature_nonce", number::canonical(self.signature_nonce)),
            ("recovery_counter", number::canonical(self.recovery_counter)),
            ("recovery_agent", address::text(&self.recovery_agent)),
            ("pending_recovery_agent", address::text(&self.pending_recovery_agent)),
            ("execute_after", self.execute_after.to_string()),
        ];
        let mut fields = BTreeMap::from(account.map(|(name, value)| (format!("after.{name}"), value)));
        for authenticator in &self.authenticators {
            let slot = [
                ("address", address::text(&authenticator.address)),
                ("pubkey", number::canonical(authenticator.pubkey)),
                ("packed_account_data", number::canonical(authenticator.packed_account_data)),
            ];
            let pubkey_id = authenticator.pubkey_id;
            fields.extend(slot.map(|(name, value)| (format!("after.authenticators[{pubkey_id}].{name}"), value)));
        }
        fields
    }
}

/// Replays a trace from an empty registry, with one block for each row, and compares the outcome,
/// the account and the root of each row. Each row continues from the replayed state, not from the
/// recorded one.
pub fn replay(trace: &Trace) -> Vec<Difference> {
    let mut registry = MemoryRegistry::default();
    (1..).zip(&trace.rows).flat_map(|(number, row)| row.replay(number, trace, &mut registry)).collect()
}

fn read_operation(kind: OperationKind, request: Value) -> Result<Operation, String> {
    Ok(match kind {
        OperationKind::CreateAccount => read::<CreateAccount>(request)?.into(),
        OperationKind::UpdateAuthenticator => read::<UpdateAuthenticator>(request)?.into(),
        OperationKind::InsertAuthenticator => read::<InsertAuthenticator>(request)?.into(),
        OperationKind::RemoveAuthenticator => read::<RemoveAuthenticator>(request)?.into(),
        OperationKind::UpdateRecoveryAgent => read::<UpdateRecoveryAgent>(request)?.into(),
        OperationKind::CancelRecoveryAgentUpdate => read::<CancelRecoveryAgentUpdate>(request)?.into(),
        OperationKind::ExecuteRecoveryAgentUpdate => read::<ExecuteRecoveryAgentUpdate>(request)?.into(),
        OperationKind::RecoverAccount => read::<RecoverAccount>(request)?.into(),
    })
}

/// Reads a value; the error begins with the path of the field.
fn read<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error| error.to_string())
}
