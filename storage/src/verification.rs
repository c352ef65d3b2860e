//! The records of the verification endpoint: nullifiers, actions that came to be, trusted roots that the operator added.

use selfsame_protocol::verification::directory::ActionKey;
use selfsame_protocol::verification::nullifiers::{ActionRecord, NullifierKey, NullifierRecord};
use selfsame_protocol::verification::roots::TrustedRoot;

use crate::database::{Changes, Read, Store};
use crate::error::StoreError;
use crate::group_commit::Conditions;
use crate::schema::family;

/// What a verified request leaves behind, written only if the records are still those that it was decided on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifiedRequest {
    /// Each nullifier with its record as it was read, and as it is to be.
    pub nullifiers: Vec<(NullifierKey, Option<NullifierRecord>, NullifierRecord)>,
    /// The action, if there was no record of it.
    pub new_action: Option<(ActionKey, ActionRecord)>,
}

impl VerifiedRequest {
    /// The conditions and the changes.
    pub fn into_changes(self) -> (Conditions, Changes) {
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        for (key, before, after) in &self.nullifiers {
            conditions.expect(&family::NULLIFIERS, key, before.as_ref());
            changes.put(&family::NULLIFIERS, key, after);
        }
        if let Some((key, record)) = &self.new_action {
            conditions.expect(&family::ACTIONS, key, None);
            changes.put(&family::ACTIONS, key, record);
        }
        (conditions, changes)
    }
}

impl Store {
    /// What is known about a nullifier.
    pub fn nullifier(&self, key: &NullifierKey) -> Result<Option<NullifierRecord>, StoreError> {
        self.database().get(&family::NULLIFIERS, key)
    }

    /// An action that came to be with its first proof.
    pub fn action(&self, key: &ActionKey) -> Result<Option<ActionRecord>, StoreError> {
        self.database().get(&family::ACTIONS, key)
    }

    /// The roots that the operator added.
    pub fn trusted_roots(&self) -> Result<Vec<TrustedRoot>, StoreError> {
        self.database().records(&family::TRUSTED_ROOTS)?.map(|record| record.map(|(root, ())| root)).collect()
    }

    /// The changes that add a trusted root; adding it again changes nothing.
    pub fn trust_root(root: &TrustedRoot) -> Changes {
        let mut changes = Changes::default();
        changes.put(&family::TRUSTED_ROOTS, root, &());
        changes
    }
}
