//! Valid values of every type that is read from a client or from a record.

use std::fmt::Debug;

use ark_bn254::Fr;
use ark_ff::PrimeField;
use proptest::prelude::*;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::encoding::{decode, encode};
use selfsame_protocol::events::EventId;
use selfsame_protocol::events::record::{
    AccountLinkedEvent, Cause, EventPosition, LogEntry, MemberEvent, RecordedEvent, TrustedRootEvent,
    VerificationEvent, VerifiedNullifier,
};
use selfsame_protocol::gateway::{
    AccountCreation, BlockResponse, ConfigResponse, GatewayErrorCode, GatewayRequestState, GatewayStatusResponse,
    HealthResponse, ServiceApiError, ValidRootResponse,
};
use selfsame_protocol::groups::enrolment::MemberChangeKind;
use selfsame_protocol::groups::names::{Day, FieldNumber, GroupId, GroupKey, MemberNumber, RollName, SecretHash};
use selfsame_protocol::groups::records::{
    AwaitedRollRecord, CodeRecord, EnrolmentKey, GroupRecord, LiveRootRecord, MemberKey, MemberRecord, PageRecord,
    PageRootKey, PartKey, RollKey, RollPageKey, RollPageRecord, RollRecord, SealedRecord, Standing, StoredLeaf,
};
use selfsame_protocol::groups::wire::{HexText, SealedContent, SealedSlot, SlotKind};
use selfsame_protocol::ids::{Commitment, CompressedKey, LeafIndex, Nonce, Nullifier, PubkeyId};
use selfsame_protocol::indexer::{
    AddressQuery, AffineKey, AuthenticatorPubkeysResponse, AuthenticatorsResponse, CompatInclusionProofResponse,
    InclusionProofResponse, IndexerErrorCode, LeafIndexQuery, PackedAccountResponse, PendingRecoveryAgentResponse,
    RecoveryAgentResponse, RootResponse, SignatureNonceResponse,
};
use selfsame_protocol::ledger::{
    Block, BlockHeader, BlockResult, Entry, Head, HeadSignature, Outcome, RegistryPublicKey, RequestId, RootRecord,
    Seal, SealedHeader, SealedResult, SignedHead, Tip,
};
use selfsame_protocol::registry::{
    Account, Authenticator, CancelRecoveryAgentUpdate, CommitmentCheck, CreateAccount, ExecuteRecoveryAgentUpdate,
    InsertAuthenticator, Lock, Operation, OperationKind, PackedAccount, PendingRecoveryAgent, RecoverAccount,
    RemoveAuthenticator, RuleParameters, UpdateAuthenticator, UpdateRecoveryAgent,
};
use selfsame_protocol::sign_in::accounts::{AskedAccount, BrowserPointers, CurrentProofs, Pointer, SignInAccount};
use selfsame_protocol::sign_in::asks::{Ask, FirstPurpose};
use selfsame_protocol::sign_in::attaching::Attachable;
use selfsame_protocol::sign_in::authorize::KeptRequest;
use selfsame_protocol::sign_in::claims::{Person, Scopes, VerificationLevel};
use selfsame_protocol::sign_in::openings::{AskedElsewhere, OpeningId, ShortId};
use selfsame_protocol::sign_in::pointers::{SealedPointer, StoredLink};
use selfsame_protocol::sign_in::proof_request::{
    CrossDevice, Initiator, ProofType, SignInProof, SignInRequest, WalletFailure,
};
use selfsame_protocol::sign_in::records::{
    AccessToken, AuthorizationCode, BrowserSession, ClientSession, CodeUse, RedemptionError, SigningKey, SigningKeys,
};
use selfsame_protocol::sign_in::response::{ResponseMode, ResponseType, Target};
use selfsame_protocol::sign_in::sealed::{SealedPointers, SealedResponse, SealedSession};
use selfsame_protocol::sign_in::transaction::{Answer, DigitCheck, OpenedRequest, Transaction};
use selfsame_protocol::signature::Signature;
use selfsame_protocol::time::{UnixMillis, UnixSeconds};
use selfsame_protocol::tree::{Page, PageId, ROWS, Root};
use selfsame_protocol::verification::directory::ActionKey;
use selfsame_protocol::verification::identity::{ActionRecord, NullifierKey, NullifierRecord};
use selfsame_protocol::verification::integrity::IntegrityFinding;
use selfsame_protocol::verification::request::SessionId;
use selfsame_protocol::verification::roots::{RootDecision, RootKey, RootTrust, TrustedRoot};
use selfsame_protocol::verification::{Environment, LegacyIdentifier, ProofKind, RelyingPartyId};
use selfsame_protocol::{Address, B256, U256};
use strum::IntoEnumIterator;

use crate::damage::any_text;

/// A type whose valid values can be generated.
pub trait Sample: Clone + Debug + Sized + 'static {
    /// Any valid value; values at the bounds are more frequent than in a uniform choice.
    fn any() -> BoxedStrategy<Self>;
}

/// The modulus of the scalar field.
pub fn modulus() -> U256 {
    U256::from_limbs(Fr::MODULUS.0)
}

/// Numbers of 256 bits: small, large, near powers of two and near the field's modulus.
pub fn any_number() -> BoxedStrategy<U256> {
    let anything = any::<[u64; 4]>().prop_map(U256::from_limbs);
    let near = |number: U256| {
        (0..3u64).prop_map(move |above| number.wrapping_sub(U256::from(1)).wrapping_add(U256::from(above)))
    };
    prop_oneof![
        3 => anything,
        2 => any::<u64>().prop_map(U256::from),
        1 => (0..256usize).prop_flat_map(move |bit| near(U256::from(1) << bit)),
        1 => near(modulus()),
        1 => near(U256::ZERO),
    ]
    .boxed()
}

/// A number below the field's modulus.
pub fn any_element() -> BoxedStrategy<U256> {
    any_number().prop_map(|number| number % modulus()).boxed()
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Sample for $integer {
            fn any() -> BoxedStrategy<Self> {
                let greatest = <$integer>::MAX - 1..=<$integer>::MAX;
                prop_oneof![2 => any::<$integer>(), 1 => 0..10 as $integer, 1 => greatest].boxed()
            }
        }
    )*};
}
integers!(u8, u32, u64);

macro_rules! mapped {
    ($($type:ty = $strategy:expr),* $(,)?) => {$(
        impl Sample for $type {
            fn any() -> BoxedStrategy<Self> {
                $strategy.boxed()
            }
        }
    )*};
}

/// Any value of a field, whose type follows from its struct.
macro_rules! field {
    ($name:ident) => {
        Sample::any()
    };
}

/// A struct whose fields may have any value of their types.
macro_rules! fields {
    ($($name:ident { $($field:ident),* $(,)? })*) => {$(
        impl Sample for $name {
            fn any() -> BoxedStrategy<Self> {
                ($(field!($field),)*).prop_map(|($($field,)*)| Self { $($field),* }).boxed()
            }
        }
    )*};
}

/// One of an enum's variants.
macro_rules! one_of {
    ($($name:ident: $values:expr;)*) => {$(
        impl Sample for $name {
            fn any() -> BoxedStrategy<Self> {
                prop::sample::select($values.to_vec()).boxed()
            }
        }
    )*};
}

mapped! {
    () = Just(()),
    bool = any::<bool>(),
    String = any_text(),
    U256 = any_number(),
    B256 = prop_oneof![
        4 => any::<[u8; 32]>().prop_map(B256::from),
        1 => Just(B256::ZERO),
        1 => any_element().prop_map(B256::from),
    ],
    Address = prop_oneof![4 => any::<[u8; 20]>().prop_map(Address::from), 1 => Just(Address::ZERO)],
    [u8; 16] = any::<[u8; 16]>(),
    Signature = any::<[u8; 65]>().prop_map(Signature),
    HeadSignature = any::<[u8; 64]>().prop_map(Self),
    RegistryPublicKey = B256::any().prop_map(Self),
    RequestId = any::<[u8; 16]>().prop_map(|bytes| decode(&bytes).expect("16 bytes")),
    LeafIndex = u64::any().prop_map(Self),
    RelyingPartyId = u64::any().prop_map(Self),
    EventId = any::<[u8; 16]>().prop_map(Self),
    RecordedEvent = prop_oneof![
        VerificationEvent::any().prop_map(Self::Verification),
        TrustedRootEvent::any().prop_map(Self::TrustedRoot),
        MemberEvent::any().prop_map(Self::Member),
        AccountLinkedEvent::any().prop_map(Self::AccountLinked),
    ],
    GroupId = "[a-z0-9_-]{1,32}".prop_map(|text| text.parse().expect("an id")),
    RollName = "[a-z0-9._-]{1,64}".prop_map(|text| text.parse().expect("a name")),
    MemberNumber = prop_oneof!["[!-~]{1,64}", "[а-я]{1,16} [а-я]{1,15}"]
        .prop_map(|text: String| text.parse().expect("a member number")),
    GroupKey = any::<[u8; 32]>().prop_map(Self),
    SecretHash = any::<[u8; 32]>().prop_map(Self),
    FieldNumber = any_element().prop_map(Self),
    Day = u32::any().prop_map(Self),
    HexText = prop::collection::vec(any::<u8>(), 0..40).prop_map(Self),
    Cause = prop_oneof![
        (EventId::any(), RecordedEvent::any()).prop_map(|(id, event)| Self::Recorded(id, event)),
        u64::any().prop_map(Self::Block),
    ],
    PubkeyId = u32::any().prop_map(Self),
    CompressedKey = U256::any().prop_map(Self),
    Commitment = U256::any().prop_map(Self),
    Nonce = U256::any().prop_map(Self),
    Root = B256::any().prop_map(Self),
    Nullifier = U256::any().prop_map(Self),
    UnixSeconds = u64::any().prop_map(Self),
    UnixMillis = u64::any().prop_map(Self),
    GatewayErrorCode = prop::sample::select(GatewayErrorCode::iter().collect::<Vec<_>>()),
    IndexerErrorCode = prop::sample::select(IndexerErrorCode::iter().collect::<Vec<_>>()),
    OperationKind = prop::sample::select(OperationKind::iter().collect::<Vec<_>>()),
    Lock = prop_oneof![LeafIndex::any().prop_map(Self::LeafIndex), Address::any().prop_map(Self::Address)],
    Operation = prop_oneof![
        CreateAccount::any().prop_map(Self::from),
        UpdateAuthenticator::any().prop_map(Self::from),
        InsertAuthenticator::any().prop_map(Self::from),
        RemoveAuthenticator::any().prop_map(Self::from),
        RecoverAccount::any().prop_map(Self::from),
        UpdateRecoveryAgent::any().prop_map(Self::from),
        CancelRecoveryAgentUpdate::any().prop_map(Self::from),
        ExecuteRecoveryAgentUpdate::any().prop_map(Self::from),
    ],
    RuleParameters = (1..=7u32, u64::any(), u64::any(), CommitmentCheck::any()).prop_map(
        |(max_authenticators, recovery_agent_update_cooldown, root_validity_window, commitment_check)| Self {
            max_authenticators, recovery_agent_update_cooldown, root_validity_window, commitment_check,
        }
    ),
    Outcome = prop_oneof![
        LeafIndex::any().prop_map(|leaf_index| Self::Applied { leaf_index }),
        (String::any(), GatewayErrorCode::any()).prop_map(|(rule, code)| Self::Failed { rule, code }),
    ],
    PageId = (0..ROWS as u8, any::<u32>()).prop_map(|(row, index)| Self { row, index: index % (1 << (5 * row)) }),
    Page = any::<[[u8; 32]; 62]>().prop_map(|nodes| decode(nodes.as_flattened()).expect("62 nodes")),
    AccountCreation = Just(Self::Token),
    Answer = prop_oneof![
        Person::any().prop_map(Self::Proved),
        Just(Self::Refused),
        prop::sample::select(WalletFailure::ALL.to_vec()).prop_map(Self::Failed),
        Just(Self::Pointed),
    ],
    Ask = prop_oneof![
        Just(Self::Legacy),
        Just(Self::Uniqueness),
        (Option::<UnixSeconds>::any(), FirstPurpose::any())
            .prop_map(|(issued_since, purpose)| Self::First { issued_since, purpose }),
    ],
    FirstPurpose = prop_oneof![
        Just(Self::MakesAccount),
        Just(Self::FindsAccount),
        Person::any().prop_map(Self::AttachesTo),
    ],
    CodeUse = prop_oneof![
        any::<[u8; 32]>().prop_map(|hash| Self::Token(B256::from(hash))),
        RedemptionError::any().prop_map(Self::Refused),
    ],
    ShortId = any::<[u8; 10]>().prop_map(Self),
    OpeningId = (any_text(), ShortId::any()).prop_map(|(secret, id)| Self::of(&secret, id)),
    Transaction = ((ShortId::any(), KeptRequest::any(), [(); 3].map(|()| B256::any()), Initiator::any(), Option::<AskedAccount>::any()),
        (any::<[u8; 2]>(), Ask::any(), Vec::<Attachable>::any(), any::<[bool; 2]>()), (UnixSeconds::any(), Option::<UnixSeconds>::any(), Option::<OpenedRequest>::any()),
        (Vec::<Option<OpeningId>>::any(), Vec::<AskedElsewhere>::any(), Option::<OpeningId>::any(), Option::<Pointer>::any()),
        (Option::<Answer>::any(), Option::<B256>::any(), Option::<DigitCheck>::any(), Option::<SealedResponse>::any()))
        .prop_map(|(first, ([extensions, refused], ask, attachable, [is_continued, is_chosen]), (ends_at, opened_at, opened), openings, last)| {
            let (challenges, elsewhere, answered_at, pointer) = openings;
            let (short_id, request, [secret_hash, signal, challenge_seed], initiator, account) = first;
            let (answer, return_hash, digits, response) = last;
            Self {
                short_id, request, secret_hash, signal, challenge_seed, challenges, account, ask, attachable, is_continued, is_chosen, elsewhere,
                initiator, ends_at, extensions, opened_at, opened, refused, answer, answered_at, pointer, return_hash, digits, response,
            }
        }),
    Scopes = any::<[bool; 2]>().prop_map(|[email, profile]| Self { email, profile }),
    ResponseType = prop::sample::select(Self::SUPPORTED.to_vec())
        .prop_map(|text| Self::parse(text).expect("supported")),
    // The credential of a group has one level.
    Person = (B256::any(), VerificationLevel::any(), Option::<GroupId>::any(), UnixSeconds::any()).prop_map(
        |(subject, level, group, auth_time)| {
            let level = group.map_or(level, |_| VerificationLevel::Device);
            Self { subject, level, group, auth_time }
        }
    ),
    // A tuple has at most twelve strategies.
    SignInRequest = ([(); 5].map(|()| String::any()), U256::any(), Vec::<String>::any(), Environment::any(),
        UnixSeconds::any(), [(); 2].map(|()| String::any()), Initiator::any(), CrossDevice::any(),
        (Option::<ProofType>::any(), [(); 2].map(|()| Option::<String>::any()), Option::<UnixSeconds>::any())).prop_map(
        |(texts, nonce, protocol_versions, environment, expires_at, places, initiator, cross_device, session)| {
            let [app_id, app_name, action, signal, scopes] = texts;
            let [answer_url, redirect_host] = places;
            let (proof_type, [session_id, identifier], genesis_issued_at_min) = session;
            Self {
                app_id, app_name, action, signal, nonce, protocol_versions, environment, scopes, expires_at,
                answer_url, redirect_host, initiator, cross_device, proof_type, session_id,
                genesis_issued_at_min, identifier,
            }
        }
    ),
    SealedHeader = (BlockHeader::any(), B256::any()).prop_map(|(header, hash)| Self { header, hash }),
    SealedResult = (BlockResult::any(), B256::any()).prop_map(|(result, hash)| Self { result, hash }),
    GatewayRequestState = prop_oneof![
        Just(Self::Queued),
        Just(Self::Batching),
        String::any().prop_map(|tx_hash| Self::Submitted { tx_hash }),
        String::any().prop_map(|tx_hash| Self::Finalized { tx_hash }),
        (String::any(), Sample::any()).prop_map(|(error, error_code)| Self::Failed { error, error_code }),
    ],
    AffineKey = (String::any(), String::any()).prop_map(|(x, y)| Self { pk: [x, y] }),
}

impl Sample for [u8; 12] {
    fn any() -> BoxedStrategy<Self> {
        any::<Self>().boxed()
    }
}

impl<T: Sample> Sample for Option<T> {
    fn any() -> BoxedStrategy<Self> {
        prop::option::of(T::any()).boxed()
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn any() -> BoxedStrategy<Self> {
        prop::collection::vec(T::any(), 0..5).boxed()
    }
}

impl<A: Sample, B: Sample> Sample for (A, B) {
    fn any() -> BoxedStrategy<Self> {
        (A::any(), B::any()).boxed()
    }
}

impl<Code: Sample> Sample for ServiceApiError<Code> {
    fn any() -> BoxedStrategy<Self> {
        (Code::any(), String::any()).prop_map(|(code, message)| Self { code, message }).boxed()
    }
}

one_of! {
    MemberChangeKind: [Self::Joined, Self::Replaced, Self::Removed];
    Standing: [Self::Invited, Self::Member, Self::Leaving, Self::Left, Self::Removed];
    SlotKind: [Self::Passkey, Self::Code];
    CommitmentCheck: [Self::Off, Self::Enforce];
    Environment: Self::ALL;
    ProofKind: Self::ALL;
    IntegrityFinding: [Self::NoBundle, Self::NotChecked, Self::Verified];
    ProofType: [Self::Uniqueness, Self::Session];
    SignInProof: [Self::Account, Self::Legacy, Self::Current];
    LegacyIdentifier: Self::ALL;
    VerificationLevel: [Self::Orb, Self::Device];
    CrossDevice: [Self::Allow, Self::Deny];
    RedemptionError: [
        Self::RedirectUri, Self::NoVerifier, Self::NeedlessVerifier, Self::WrongVerifier,
    ];
    ResponseMode: [Self::Query, Self::Fragment, Self::FormPost];
}

fields! {
    CreateAccount { recovery_address, authenticator_addresses, authenticator_pubkeys, offchain_signer_commitment }
    UpdateAuthenticator {
        leaf_index, old_authenticator_address, new_authenticator_address, old_offchain_signer_commitment,
        new_offchain_signer_commitment, signature, nonce, pubkey_id, new_authenticator_pubkey,
    }
    InsertAuthenticator {
        leaf_index, new_authenticator_address, old_offchain_signer_commitment, new_offchain_signer_commitment,
        signature, nonce, pubkey_id, new_authenticator_pubkey,
    }
    RemoveAuthenticator {
        leaf_index, authenticator_address, old_offchain_signer_commitment, new_offchain_signer_commitment, signature,
        nonce, pubkey_id, authenticator_pubkey,
    }
    RecoverAccount {
        leaf_index, new_authenticator_address, old_offchain_signer_commitment, new_offchain_signer_commitment,
        signature, nonce, new_authenticator_pubkey,
    }
    UpdateRecoveryAgent { leaf_index, new_recovery_agent, signature, nonce }
    CancelRecoveryAgentUpdate { leaf_index, signature, nonce }
    ExecuteRecoveryAgentUpdate { leaf_index }
    Account { commitment, slots, recovery_agent, pending_recovery_agent, nonce, recovery_counter }
    Authenticator { address, public_key }
    PendingRecoveryAgent { agent, execute_after }
    PackedAccount { recovery_counter, pubkey_id, leaf_index }
    RegistryDomain { chain_id, verifying_contract }
    Head { domain, height, block_hash, result_hash, root, time }
    SignedHead { head, public_key, signature }
    Entry { request_id, operation }
    BlockHeader { height, previous_hash, time, count, operations_root, rules, domain }
    Block { header, entries }
    Seal { height, hash, time }
    BlockResult { block_hash, root_before, root_after, outcomes_root, previous_result_hash }
    RootRecord { height, replaced_at }
    Tip { seal, result_hash, root }
    ActionKey { application, environment, action }
    NullifierKey { action, nullifier }
    NullifierRecord { created_at, verifications, user_presence_completed, told_at }
    VerifiedNullifier { nullifier, first_verified_at, uses }
    VerificationEvent {
        app_id, rp_id, environment, kind, action, session_id, nonce, identifiers, nullifier, user_presence_completed,
        integrity, sybil_score,
    }
    TrustedRootEvent { root, environment, kind, added_at }
    MemberEvent { group, member, change, day }
    AccountLinkedEvent { app_id, subject, is_disputed }
    LogEntry { time, cause }
    EventPosition { sequence, index }
    GroupRecord { group_key, revision, version, size, members, invited, open_codes, root }
    MemberKey { group, member }
    MemberRecord {
        standing, invited_on, changed_on, position, leaf, enrolment, replacement_hash, replaced_on, open_code,
    }
    CodeRecord { group, member, expires_on, used_for, copy }
    EnrolmentKey { group, nullifier }
    PartKey { group, number }
    StoredLeaf { leaf, since }
    PageRecord { leaves, root }
    LiveRootRecord { root, size, replaced_at }
    PageRootKey { group, page, since }
    RollKey { group, name }
    RollRecord { taken_on, size, members, root, page_roots }
    RollPageKey { group, root }
    RollPageRecord { leaves }
    AwaitedRollRecord { at, is_taken }
    SealedSlot { kind, iv, key }
    SealedContent { iv, sealed, slots }
    SealedRecord { content, version, handles, write_key_hash, made_on, is_kept, made_with }
    ActionRecord { action, created_at }
    RootKey { environment, kind, root }
    RootTrust { time, identifiers }
    RootDecision { trust }
    TrustedRoot { key, trust }
    Target { redirect_uri, mode, state }
    KeptRequest { client_id, target, response_type, scopes, nonce, code_challenge, expected_subject }
    Initiator { network, user_agent, time }
    OpenedRequest { request, signed }
    DigitCheck { expected, wrong }
    SealedResponse { given_at, code_hash, is_error, nonce, ciphertext }
    AuthorizationCode { client_id, redirect_uri, person, scopes, nonce, code_challenge, valid_until, used_for }
    AccessToken { client_id, person, scopes, issued_at }
    ClientSession { client_id, proof, environment, person, scopes, redirect_uri, response_type }
    BrowserSession { clients }
    SealedSession { nonce, ciphertext }
    SessionId { text, commitment }
    SignInAccount {
        id, subject, legacy, current, disputed_by, identifier, generation, firsts, codes, created_on, human_at
    }
    CurrentProofs { nullifier, session, attached_at }
    AskedAccount { subject, session, generation }
    AskedElsewhere { opening, account }
    Attachable { subject, generation }
    Pointer { client_id, environment, subject, generation, legacy_since }
    BrowserPointers { pointers }
    SealedPointers { nonce, ciphertext }
    SealedPointer { nonce, ciphertext }
    StoredLink { valid_until, pointer }
    SigningKey { id, public_key, private_key, published_at, promoted_at, retired_at }
    SigningKeys { keys, sessions_ended_at }
    GatewayStatusResponse { request_id, kind, status }
    ConfigResponse {
        chain_id, registry_address, registry_version, max_authenticators, tree_depth, root_validity_window, create_account,
    }
    ValidRootResponse { valid }
    HealthResponse { success }
    BlockResponse { block, result, request_ids }
    LeafIndexQuery { leaf_index }
    AddressQuery { authenticator_address }
    InclusionProofResponse { leaf_index, root, siblings, authenticator_pubkeys }
    CompatInclusionProofResponse { leaf_index, root, siblings, authenticator_pubkeys }
    PackedAccountResponse { packed_account_data }
    SignatureNonceResponse { signature_nonce }
    AuthenticatorPubkeysResponse { authenticator_pubkeys, offchain_signer_commitment }
    AuthenticatorsResponse {
        authenticator_pubkeys, authenticator_addresses, offchain_signer_commitment, recovery_counter,
    }
    RecoveryAgentResponse { recovery_agent }
    PendingRecoveryAgentResponse { pending_recovery_agent, execute_after }
    RootResponse { root, leaf_count, height, block_hash, result_hash, timestamp }
}

/// A block of up to six entries as it is sealed, with a result and outcomes that applying it could
/// give.
pub fn any_sealed_block() -> BoxedStrategy<(Block, BlockResult, Vec<Outcome>)> {
    let entries = prop::collection::vec((Entry::any(), Outcome::any()), 1..7);
    let fields = (Seal::any(), RegistryDomain::any(), UnixSeconds::any(), RuleParameters::any());
    (fields, entries, BlockResult::any())
        .prop_map(|((seal, domain, now, rules), entries, result)| {
            let (entries, outcomes): (Vec<Entry>, Vec<Outcome>) = entries.into_iter().unzip();
            let block = Block::seal(&seal, domain, now, rules, entries);
            let leaves: Vec<_> = outcomes.iter().map(encode).collect();
            let outcomes_root = selfsame_protocol::ledger::merkle_root(&leaves);
            let result = BlockResult { block_hash: block.header.hash(), outcomes_root, ..result };
            (block, result, outcomes)
        })
        .boxed()
}
