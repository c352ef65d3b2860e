//! Every rule of the registry, broken over HTTP: status, code, and a message with the rule's name
//! and the values.

use std::time::Duration;

use alloy_primitives::{Address, U256, uint};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::ids::{Commitment, CompressedKey, LeafIndex, Nonce, PubkeyId};
use selfsame_protocol::registry::{
    CancelRecoveryAgentUpdate, CommitmentCheck, CreateAccount, ExecuteRecoveryAgentUpdate, InsertAuthenticator,
    Operation, RecoverAccount, RemoveAuthenticator, UpdateAuthenticator, UpdateRecoveryAgent,
};
use selfsame_protocol::signature::Signature;
use selfsame_wallet::keys::AuthenticatorKey;
use selfsame_wallet::operations::{AccountState, OperationError, Step, UNSIGNED, create_account, sign};
use serde_json::json;

use crate::harness::START;
use crate::registry_client::RegistryClient;
use crate::test_accounts::key;

/// The modulus of the field that commitments live in.
const MODULUS: U256 = uint!(0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001_U256);
/// The order of secp256k1's group.
const ORDER: U256 = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);

/// An operation that must be refused, the code, and the message.
type RefusedOperation = (Operation, &'static str, String);

/// The operation of a step, as its own type.
macro_rules! operation {
    ($kind:ident, $step:expr) => {{
        let step: Result<Step, OperationError> = $step;
        match step.expect("a valid operation").operation {
            Operation::$kind(operation) => operation,
            other => panic!("{other:?}"),
        }
    }};
}

/// Four accounts on which every rule can be broken.
struct RuleAccounts {
    client: RegistryClient,
    domain: RegistryDomain,
    /// The account has `alice` alone first, then two keys: nonce 1.
    alices: AccountState,
    alice: AuthenticatorKey,
    tablet: AuthenticatorKey,
    bobs: AccountState,
    bob: AuthenticatorKey,
    /// The account was recovered from `lost` to `carol`.
    carols: AccountState,
    carol: AuthenticatorKey,
    lost: AuthenticatorKey,
    /// An update of the account's recovery agent is pending.
    daves: AccountState,
    dave: AuthenticatorKey,
    agent: AuthenticatorKey,
    stranger: AuthenticatorKey,
}

impl RuleAccounts {
    async fn make() -> Self {
        let client = RegistryClient::start().await;
        let domain = client.domain();
        let [alice, tablet, bob, carol, lost] = ["alice", "tablet", "bob", "carol", "lost"].map(key);
        let [dave, agent, stranger] = ["dave", "agent", "stranger"].map(key);
        let alices = client.create(&[&alice], agent.address()).await;
        let alices = client.carry_out(alices.insert(&domain, &alice, tablet.authenticator(), PubkeyId(1))).await;
        let bobs = client.create(&[&bob], Address::ZERO).await;
        let carols = client.create(&[&lost], agent.address()).await;
        let carols = client.carry_out(carols.recover(&domain, &agent, carol.authenticator())).await;
        let daves = client.create(&[&dave], Address::ZERO).await;
        let daves = client.carry_out(daves.update_recovery_agent(&domain, &dave, agent.address())).await;
        Self { client, domain, alices, alice, tablet, bobs, bob, carols, carol, lost, daves, dave, agent, stranger }
    }

    fn sign(&self, operation: impl Into<Operation>, signer: &AuthenticatorKey) -> Operation {
        sign(&self.domain, operation.into(), signer).expect("signed")
    }

    /// Sends every row, which must be refused without an effect. Then `good` must be accepted.
    async fn refuse(&self, rows: Vec<RefusedOperation>, good: Operation) {
        let before = self.client.standing().await;
        for (operation, code, message) in rows {
            let answer = self.client.submit(&operation).await;
            assert_eq!(answer.expect_error(400, code), message, "{operation:?}");
        }
        assert_eq!(self.client.standing().await, before);
        let accepted = self.client.submit(&good).await;
        assert_eq!((accepted.status, &accepted.body["status"]), (200, &json!({"state": "queued"})), "{accepted:?}");
        assert_eq!(self.client.final_state(accepted.request_id()).await["state"], "finalized");
    }

    /// The rows that the checks of signer, leaf index and nonce refuse, for an operation on alice's
    /// account whose three values are set by `with`. `tablet` and `bob` are other signers; `tablet`
    /// belongs to the same account.
    fn signer_rows(&self, with: impl Fn(LeafIndex, Signature, Nonce) -> Operation) -> Vec<RefusedOperation> {
        let leaf_index = self.alices.leaf_index;
        let signed = |signer, leaf_index, nonce: u64| self.sign(with(leaf_index, UNSIGNED, Nonce::from(nonce)), signer);
        let signature = *signed(&self.alice, leaf_index, 1).signature().expect("signed");
        let bad = |signature| with(leaf_index, signature, Nonce::from(1));
        let (stranger, lost, bob) = (self.stranger.address(), self.lost.address(), self.bob.address());
        vec![
            (bad(with_v(signature, 29)), "bad_request", invalid_signature()),
            (bad(Signature([0; 65])), "bad_request", invalid_signature()),
            (
                bad(high_s(signature)),
                "bad_request",
                "ECDSAInvalidSignatureS: the signature's s is in the upper half of the group order; send the low-s form"
                    .to_owned(),
            ),
            (
                signed(&self.stranger, leaf_index, 1),
                "authenticator_does_not_exist",
                format!("AuthenticatorDoesNotExist: address {stranger:#x} is not an authenticator of any account"),
            ),
            (
                signed(&self.lost, leaf_index, 1),
                "bad_request",
                format!("MismatchedRecoveryCounter: address {lost:#x} was revoked when its account was recovered"),
            ),
            (
                signed(&self.bob, leaf_index, 1),
                "bad_request",
                format!(
                    "MismatchedLeafIndex: the signature recovers to {bob:#x}, which is an authenticator of leaf index \
                     0x2, not 0x1"
                ),
            ),
            (signed(&self.alice, leaf_index, 0), "mismatched_signature_nonce", nonce_message(0, 1)),
            (signed(&self.alice, leaf_index, 7), "mismatched_signature_nonce", nonce_message(7, 1)),
        ]
    }
}

fn nonce_message(stated: u64, expected: u64) -> String {
    format!("MismatchedSignatureNonce: nonce is {stated}, the account's next nonce is {expected}")
}

fn invalid_signature() -> String {
    "ECDSAInvalidSignature: the signature does not recover to an address; v must be 0, 1, 27 or 28, r and s those of a \
     signature"
        .to_owned()
}

fn with_v(mut signature: Signature, v: u8) -> Signature {
    signature.0[64] = v;
    signature
}

/// The other valid signature of the same signer: s mirrored, v flipped.
fn high_s(Signature(mut bytes): Signature) -> Signature {
    let s = ORDER - U256::from_be_slice(&bytes[32..64]);
    bytes[32..64].copy_from_slice(&s.to_be_bytes::<32>());
    bytes[64] ^= 7;
    Signature(bytes)
}

fn no_account(leaf_index: u64) -> String {
    format!("AccountDoesNotExist: no account has leaf index {leaf_index:#x}")
}

fn already_in_use(address: Address) -> String {
    format!("AuthenticatorAddressAlreadyInUse: address {address:#x} already belongs to an account")
}

fn not_below_the_field(commitment: U256) -> String {
    format!("ValueGreaterThanSnarkScalarField: the commitment {commitment:#x} is not below the scalar field's modulus")
}

fn out_of_bounds(pubkey_id: u64) -> String {
    format!("PubkeyIdOutOfBounds: pubkey id {pubkey_id} is out of bounds; an account has 7 slots, counted from 0")
}

const LEAF_ZERO: &str = "leaf_index: leaf 0 is reserved and belongs to no account";
const ZERO_OLD: &str = "old_offchain_signer_commitment: the commitment is zero; send the commitment to the public keys";
const ZERO_NEW: &str = "new_offchain_signer_commitment: the commitment is zero; send the commitment to the public keys";
const ZERO_ADDRESS: &str = "ZeroAddress: the zero address cannot be an authenticator";
const SAME_LEAF: &str = "NewLeafCannotEqualOldLeaf: the new commitment equals the old one";
const NONE_PENDING: &str = "NoPendingRecoveryAgentUpdate: no recovery agent update is pending";

fn wrong_leaf(stated: u64, actual: Commitment) -> String {
    format!("LeafDoesNotExist: the account's commitment is {actual:#x}, not {stated:#x}")
}

#[tokio::test]
async fn create_account_enforces_its_rules() {
    let accounts = RuleAccounts::make().await;
    let new = accounts.stranger.authenticator();
    let good = operation!(CreateAccount, Ok(create_account(&[new], Address::ZERO)));
    let many: Vec<Address> = (1..=8).map(Address::repeat_byte).collect();
    let (bob, stranger) = (accounts.bob.address(), new.address);
    let one = CompressedKey(U256::ONE);
    let two = vec![one; 2];
    let create = |addresses: &[Address], keys: &[CompressedKey]| CreateAccount {
        authenticator_addresses: addresses.to_vec(),
        authenticator_pubkeys: keys.to_vec(),
        ..good.clone()
    };
    let rows: Vec<RefusedOperation> = vec![
        (create(&many, &[one; 8]).into(), "pubkey_id_out_of_bounds", out_of_bounds(7)),
        (
            create(&[], &[]).into(),
            "bad_request",
            "EmptyAddressArray: an account needs at least one authenticator address".to_owned(),
        ),
        (
            create(&[stranger], &two).into(),
            "bad_request",
            "MismatchingArrayLengths: there are 1 authenticator_addresses and 2 authenticator_pubkeys; each address \
             needs one key"
                .to_owned(),
        ),
        (create(&[stranger, Address::ZERO], &two).into(), "bad_request", ZERO_ADDRESS.to_owned()),
        (create(&[stranger, stranger], &two).into(), "authenticator_already_exists", already_in_use(stranger)),
        (create(&[stranger, bob], &two).into(), "authenticator_already_exists", already_in_use(bob)),
        (
            CreateAccount { offchain_signer_commitment: Commitment(MODULUS), ..good.clone() }.into(),
            "bad_request",
            not_below_the_field(MODULUS),
        ),
        (
            CreateAccount { offchain_signer_commitment: Commitment(U256::ZERO), ..good.clone() }.into(),
            "bad_request",
            "offchain_signer_commitment: the commitment is zero; send the commitment to the public keys".to_owned(),
        ),
    ];
    // A new account may use an address that a recovery left behind.
    let lost = create_account(&[accounts.lost.authenticator()], Address::ZERO).operation;
    accounts.refuse(rows, lost).await;
}

#[tokio::test]
async fn update_authenticator_enforces_its_rules() {
    let accounts = RuleAccounts::make().await;
    let (alices, alice, tablet) = (&accounts.alices, &accounts.alice, &accounts.tablet);
    let stranger = accounts.stranger.authenticator();
    let good = operation!(UpdateAuthenticator, alices.update(&accounts.domain, alice, stranger));
    let row = |operation: UpdateAuthenticator, code, message: String| (accounts.sign(operation, alice), code, message);
    let mut rows: Vec<RefusedOperation> = vec![
        row(UpdateAuthenticator { leaf_index: LeafIndex(0), ..good.clone() }, "bad_request", LEAF_ZERO.to_owned()),
        row(UpdateAuthenticator { leaf_index: LeafIndex(99), ..good.clone() }, "bad_request", no_account(99)),
        row(
            UpdateAuthenticator { new_authenticator_address: Address::ZERO, ..good.clone() },
            "bad_request",
            ZERO_ADDRESS.to_owned(),
        ),
        row(
            UpdateAuthenticator { new_authenticator_address: tablet.address(), ..good.clone() },
            "authenticator_already_exists",
            already_in_use(tablet.address()),
        ),
        // Whether the new address is in use is checked first, and an address that is equal to the
        // old one usually is.
        row(
            UpdateAuthenticator { new_authenticator_address: alice.address(), ..good.clone() },
            "authenticator_already_exists",
            already_in_use(alice.address()),
        ),
        row(
            UpdateAuthenticator { old_authenticator_address: stranger.address, ..good.clone() },
            "bad_request",
            format!(
                "ReusedAuthenticatorAddress: the new authenticator address is the old one, {:#x}",
                stranger.address
            ),
        ),
        (
            accounts.sign(good.clone(), tablet),
            "bad_request",
            format!(
                "MismatchedAuthenticatorSigner: the signature recovers to {:#x}, not to the old authenticator {:#x}",
                tablet.address(),
                alice.address()
            ),
        ),
        row(
            UpdateAuthenticator { pubkey_id: PubkeyId(1), ..good.clone() },
            "bad_request",
            "MismatchedPubkeyId: pubkey id is 1, the authenticator's slot is 0".to_owned(),
        ),
        row(
            UpdateAuthenticator { old_offchain_signer_commitment: Commitment(U256::ZERO), ..good.clone() },
            "bad_request",
            ZERO_OLD.to_owned(),
        ),
        row(
            UpdateAuthenticator { new_offchain_signer_commitment: Commitment(U256::ZERO), ..good.clone() },
            "bad_request",
            ZERO_NEW.to_owned(),
        ),
        row(
            UpdateAuthenticator { new_offchain_signer_commitment: alices.commitment, ..good.clone() },
            "bad_request",
            SAME_LEAF.to_owned(),
        ),
        row(
            UpdateAuthenticator { new_offchain_signer_commitment: Commitment(U256::MAX), ..good.clone() },
            "bad_request",
            not_below_the_field(U256::MAX),
        ),
        row(
            UpdateAuthenticator { old_offchain_signer_commitment: Commitment(U256::from(5)), ..good.clone() },
            "bad_request",
            wrong_leaf(5, alices.commitment),
        ),
    ];
    rows.extend(accounts.signer_rows(|leaf_index, signature, nonce| {
        UpdateAuthenticator { leaf_index, signature, nonce, ..good.clone() }.into()
    }));
    accounts.refuse(rows, good.into()).await;
}

#[tokio::test]
async fn insert_authenticator_enforces_its_rules() {
    let accounts = RuleAccounts::make().await;
    let (alices, alice) = (&accounts.alices, &accounts.alice);
    let stranger = accounts.stranger.authenticator();
    let good = operation!(InsertAuthenticator, alices.insert(&accounts.domain, alice, stranger, PubkeyId(2)));
    let row = |operation: InsertAuthenticator, code, message: String| (accounts.sign(operation, alice), code, message);
    let (bob, carol) = (accounts.bob.address(), accounts.carol.address());
    let mut rows: Vec<RefusedOperation> = vec![
        row(InsertAuthenticator { leaf_index: LeafIndex(0), ..good.clone() }, "bad_request", LEAF_ZERO.to_owned()),
        row(
            InsertAuthenticator { leaf_index: LeafIndex(99), ..good.clone() },
            "bad_request",
            format!(
                "MismatchedLeafIndex: the signature recovers to {:#x}, which is an authenticator of leaf index 0x1, not \
                 0x63",
                alice.address()
            ),
        ),
        row(
            InsertAuthenticator { new_authenticator_address: Address::ZERO, ..good.clone() },
            "bad_request",
            ZERO_ADDRESS.to_owned(),
        ),
        row(
            InsertAuthenticator { new_authenticator_address: bob, ..good.clone() },
            "authenticator_already_exists",
            already_in_use(bob),
        ),
        row(
            InsertAuthenticator { new_authenticator_address: carol, ..good.clone() },
            "authenticator_already_exists",
            already_in_use(carol),
        ),
        row(
            InsertAuthenticator { pubkey_id: PubkeyId(7), ..good.clone() },
            "pubkey_id_out_of_bounds",
            out_of_bounds(7),
        ),
        row(
            InsertAuthenticator { pubkey_id: PubkeyId(u32::MAX), ..good.clone() },
            "pubkey_id_out_of_bounds",
            out_of_bounds(u32::MAX.into()),
        ),
        row(
            InsertAuthenticator { pubkey_id: PubkeyId(1), ..good.clone() },
            "pubkey_id_in_use",
            "PubkeyIdInUse: slot 1 already holds an authenticator".to_owned(),
        ),
        row(
            InsertAuthenticator { old_offchain_signer_commitment: Commitment(U256::ZERO), ..good.clone() },
            "bad_request",
            ZERO_OLD.to_owned(),
        ),
        row(
            InsertAuthenticator { new_offchain_signer_commitment: Commitment(U256::ZERO), ..good.clone() },
            "bad_request",
            ZERO_NEW.to_owned(),
        ),
        row(
            InsertAuthenticator { new_offchain_signer_commitment: alices.commitment, ..good.clone() },
            "bad_request",
            SAME_LEAF.to_owned(),
        ),
        row(
            InsertAuthenticator { new_offchain_signer_commitment: Commitment(MODULUS), ..good.clone() },
            "bad_request",
            not_below_the_field(MODULUS),
        ),
        row(
            InsertAuthenticator { old_offchain_signer_commitment: Commitment(U256::from(5)), ..good.clone() },
            "bad_request",
            wrong_leaf(5, alices.commitment),
        ),
    ];
    rows.extend(accounts.signer_rows(|leaf_index, signature, nonce| {
        InsertAuthenticator { leaf_index, signature, nonce, ..good.clone() }.into()
    }));
    accounts.refuse(rows, good.into()).await;
}

#[tokio::test]
async fn remove_authenticator_enforces_its_rules() {
    let accounts = RuleAccounts::make().await;
    let (alices, alice, tablet) = (&accounts.alices, &accounts.alice, accounts.tablet.address());
    let good = operation!(RemoveAuthenticator, alices.remove(&accounts.domain, alice, tablet));
    let row = |operation: RemoveAuthenticator, code, message: String| (accounts.sign(operation, alice), code, message);
    let (stranger, bob, lost) = (accounts.stranger.address(), accounts.bob.address(), accounts.lost.address());
    let of_carol = RemoveAuthenticator {
        leaf_index: accounts.carols.leaf_index,
        authenticator_address: lost,
        pubkey_id: PubkeyId(0),
        ..good.clone()
    };
    let mut rows: Vec<RefusedOperation> = vec![
        row(RemoveAuthenticator { leaf_index: LeafIndex(0), ..good.clone() }, "bad_request", LEAF_ZERO.to_owned()),
        row(
            RemoveAuthenticator { authenticator_address: stranger, ..good.clone() },
            "authenticator_does_not_exist",
            format!("AuthenticatorDoesNotExist: address {stranger:#x} is not an authenticator of any account"),
        ),
        row(
            RemoveAuthenticator { authenticator_address: bob, ..good.clone() },
            "authenticator_does_not_belong_to_account",
            format!(
                "AuthenticatorDoesNotBelongToAccount: address {bob:#x} belongs to the account with leaf index 0x2, not \
                 0x1"
            ),
        ),
        row(
            RemoveAuthenticator { pubkey_id: PubkeyId(0), ..good.clone() },
            "bad_request",
            "MismatchedPubkeyId: pubkey id is 0, the authenticator's slot is 1".to_owned(),
        ),
        (
            accounts.sign(of_carol, &accounts.carol),
            "bad_request",
            format!("MismatchedRecoveryCounter: address {lost:#x} was revoked when its account was recovered"),
        ),
        row(
            RemoveAuthenticator { old_offchain_signer_commitment: Commitment(U256::ZERO), ..good.clone() },
            "bad_request",
            ZERO_OLD.to_owned(),
        ),
        row(
            RemoveAuthenticator { new_offchain_signer_commitment: Commitment(U256::ZERO), ..good.clone() },
            "bad_request",
            ZERO_NEW.to_owned(),
        ),
        row(
            RemoveAuthenticator { new_offchain_signer_commitment: alices.commitment, ..good.clone() },
            "bad_request",
            SAME_LEAF.to_owned(),
        ),
        row(
            RemoveAuthenticator { new_offchain_signer_commitment: Commitment(MODULUS), ..good.clone() },
            "bad_request",
            not_below_the_field(MODULUS),
        ),
        row(
            RemoveAuthenticator { old_offchain_signer_commitment: Commitment(U256::from(5)), ..good.clone() },
            "bad_request",
            wrong_leaf(5, alices.commitment),
        ),
    ];
    rows.extend(accounts.signer_rows(|leaf_index, signature, nonce| {
        RemoveAuthenticator { leaf_index, signature, nonce, ..good.clone() }.into()
    }));
    accounts.refuse(rows, good.into()).await;
}

#[tokio::test]
async fn recover_account_enforces_its_rules() {
    let accounts = RuleAccounts::make().await;
    let (alices, agent, bob) = (&accounts.alices, &accounts.agent, &accounts.bob);
    let good = operation!(RecoverAccount, alices.recover(&accounts.domain, agent, accounts.stranger.authenticator()));
    let row = |operation: RecoverAccount, code, message: String| (accounts.sign(operation, agent), code, message);
    let of_bob =
        operation!(RecoverAccount, accounts.bobs.recover(&accounts.domain, agent, accounts.stranger.authenticator()));
    let rows: Vec<RefusedOperation> = vec![
        row(RecoverAccount { leaf_index: LeafIndex(0), ..good.clone() }, "bad_request", LEAF_ZERO.to_owned()),
        row(RecoverAccount { leaf_index: LeafIndex(99), ..good.clone() }, "bad_request", no_account(99)),
        row(
            RecoverAccount { nonce: Nonce(U256::from(4)), ..good.clone() },
            "mismatched_signature_nonce",
            nonce_message(4, 1),
        ),
        row(of_bob, "bad_request", "RecoveryNotEnabled: the account has no recovery agent".to_owned()),
        (
            accounts.sign(good.clone(), &accounts.alice),
            "bad_request",
            format!("InvalidSignature: the signature is not the recovery agent's, {:#x}", agent.address()),
        ),
        (
            RecoverAccount { signature: with_v(good.signature, 29), ..good.clone() }.into(),
            "bad_request",
            invalid_signature(),
        ),
        row(
            RecoverAccount { new_authenticator_address: Address::ZERO, ..good.clone() },
            "bad_request",
            ZERO_ADDRESS.to_owned(),
        ),
        row(
            RecoverAccount { new_authenticator_address: bob.address(), ..good.clone() },
            "authenticator_already_exists",
            already_in_use(bob.address()),
        ),
        row(
            RecoverAccount { old_offchain_signer_commitment: Commitment(U256::ZERO), ..good.clone() },
            "bad_request",
            ZERO_OLD.to_owned(),
        ),
        row(
            RecoverAccount { new_offchain_signer_commitment: Commitment(U256::ZERO), ..good.clone() },
            "bad_request",
            ZERO_NEW.to_owned(),
        ),
        row(
            RecoverAccount { new_offchain_signer_commitment: alices.commitment, ..good.clone() },
            "bad_request",
            SAME_LEAF.to_owned(),
        ),
        row(
            RecoverAccount { new_offchain_signer_commitment: Commitment(MODULUS), ..good.clone() },
            "bad_request",
            not_below_the_field(MODULUS),
        ),
        row(
            RecoverAccount { old_offchain_signer_commitment: Commitment(U256::from(5)), ..good.clone() },
            "bad_request",
            wrong_leaf(5, alices.commitment),
        ),
    ];
    accounts.refuse(rows, good.into()).await;
}

#[tokio::test]
async fn update_recovery_agent_enforces_its_rules() {
    let accounts = RuleAccounts::make().await;
    let (alices, alice) = (&accounts.alices, &accounts.alice);
    let good = operation!(
        UpdateRecoveryAgent,
        alices.update_recovery_agent(&accounts.domain, alice, accounts.stranger.address())
    );
    let row = |operation: UpdateRecoveryAgent, code, message: String| (accounts.sign(operation, alice), code, message);
    let mut rows: Vec<RefusedOperation> = vec![
        row(UpdateRecoveryAgent { leaf_index: LeafIndex(0), ..good.clone() }, "bad_request", LEAF_ZERO.to_owned()),
        row(UpdateRecoveryAgent { leaf_index: LeafIndex(99), ..good.clone() }, "bad_request", no_account(99)),
    ];
    rows.extend(accounts.signer_rows(|leaf_index, signature, nonce| {
        UpdateRecoveryAgent { leaf_index, signature, nonce, ..good.clone() }.into()
    }));
    accounts.refuse(rows, good.into()).await;
}

#[tokio::test]
async fn execute_recovery_agent_update_enforces_its_rules() {
    let accounts = RuleAccounts::make().await;
    let execute = |leaf_index| Operation::from(ExecuteRecoveryAgentUpdate { leaf_index });
    let daves = accounts.daves.leaf_index;
    let cooldown = Duration::from_secs(14 * 24 * 3600);
    let execute_after = (START + cooldown).as_secs();
    let last_moment = cooldown - Duration::from_secs(1);
    accounts.client.daemon.clock.advance(last_moment);
    let rows: Vec<RefusedOperation> = vec![
        (execute(LeafIndex(0)), "bad_request", LEAF_ZERO.to_owned()),
        (execute(LeafIndex(99)), "bad_request", no_account(99)),
        (execute(accounts.alices.leaf_index), "bad_request", NONE_PENDING.to_owned()),
        (
            execute(daves),
            "bad_request",
            format!(
                "RecoveryAgentUpdateStillInCooldown: the recovery agent update can be executed from {execute_after} on; \
                 the time is {} (Unix seconds)",
                execute_after - 1
            ),
        ),
    ];
    let other = accounts.bobs.update_recovery_agent(&accounts.domain, &accounts.bob, accounts.agent.address());
    accounts.refuse(rows, other.expect("a valid operation").operation).await;
    accounts.client.daemon.clock.advance(Duration::from_secs(1));
    accounts.client.carry_out(Ok(accounts.daves.execute_recovery_agent_update())).await;
}

#[tokio::test]
async fn cancel_recovery_agent_update_enforces_its_rules() {
    let accounts = RuleAccounts::make().await;
    let (domain, alice) = (&accounts.domain, &accounts.alice);
    let cancel = |leaf_index, nonce: u64| CancelRecoveryAgentUpdate {
        leaf_index,
        signature: UNSIGNED,
        nonce: Nonce(U256::from(nonce)),
    };
    let daves = accounts.daves.leaf_index;
    let rows: Vec<RefusedOperation> = vec![
        (accounts.sign(cancel(LeafIndex(0), 1), alice), "bad_request", LEAF_ZERO.to_owned()),
        (accounts.sign(cancel(LeafIndex(99), 1), alice), "bad_request", no_account(99)),
        (accounts.sign(cancel(LeafIndex(1), 1), alice), "bad_request", NONE_PENDING.to_owned()),
        (cancel(daves, 1).into(), "bad_request", invalid_signature()),
        (
            accounts.sign(cancel(daves, 1), alice),
            "bad_request",
            format!(
                "MismatchedLeafIndex: the signature recovers to {:#x}, which is an authenticator of leaf index 0x1, not \
                 {daves:#x}",
                alice.address()
            ),
        ),
        (accounts.sign(cancel(daves, 3), &accounts.dave), "mismatched_signature_nonce", nonce_message(3, 1)),
    ];
    let good = accounts.daves.cancel_recovery_agent_update(domain, &accounts.dave).expect("a valid operation");
    accounts.refuse(rows, good.operation).await;
}

#[tokio::test]
async fn an_enforced_commitment_must_be_that_of_the_keys() {
    let client = RegistryClient::start_with(|config| config.registry.commitment_check = CommitmentCheck::Enforce).await;
    let step = create_account(&[key("alice").authenticator()], Address::ZERO);
    let expected = step.after.commitment;
    let good = operation!(CreateAccount, Ok(step));
    let stated = CreateAccount { offchain_signer_commitment: Commitment(U256::from(5)), ..good.clone() };
    assert_eq!(
        client.submit(&stated.into()).await.expect_error(400, "bad_request"),
        format!(
            "MismatchedCommitment: the commitment is 0x5, that of the account's public keys would be {expected:#x}"
        )
    );
    let no_key = CreateAccount { authenticator_pubkeys: vec![CompressedKey(U256::MAX)], ..good.clone() };
    assert_eq!(
        client.submit(&no_key.into()).await.expect_error(400, "bad_request"),
        "InvalidAuthenticatorPubkey: the public key of slot 0 does not decode: a coordinate is not below the field's \
         modulus"
    );
    assert_eq!(client.submit(&good.into()).await.status, 200);
}
