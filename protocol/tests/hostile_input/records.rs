//! Binary records. For every type:
//!
//! - a valid value is decoded from its encoding, and from no shorter or longer bytes;
//! - any bytes are rejected, or they are the only encoding of the decoded value;
//! - the same holds for the bytes of valid values after damage;
//! - memory stays in proportion to the bytes, for any lengths that they claim.

use std::fmt::Debug;

use alloy_primitives::hex;
use proptest::prelude::*;
use proptest::sample::Index;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::encoding::{DecodeError, Encoding, decode, encode};
use selfsame_protocol::events::EventId;
use selfsame_protocol::events::record::{EventPosition, LogEntry, RecordedEvent};
use selfsame_protocol::gateway::GatewayErrorCode;
use selfsame_protocol::groups::live_roots::{LiveRoots, leaves_at};
use selfsame_protocol::groups::names::{Day, FieldNumber, GroupId, MemberNumber, RollName, SecretHash};
use selfsame_protocol::groups::records::{
    AwaitedRollRecord, CodeRecord, EnrolmentKey, GroupRecord, LiveRootRecord, MemberKey, MemberRecord, PageRecord,
    PageRootKey, PartKey, RollKey, RollPageKey, RollPageRecord, RollRecord, SealedRecord, Standing, StoredLeaf,
};
use selfsame_protocol::groups::wire::{SealedContent, SealedSlot};
use selfsame_protocol::ledger::{
    Block, BlockHeader, BlockResult, Entry, Head, Outcome, RequestId, RootRecord, Seal, Tip, is_valid_root,
};
use selfsame_protocol::number::Number;
use selfsame_protocol::registry::{
    Account, Authenticator, CancelRecoveryAgentUpdate, CommitmentCheck, CreateAccount, ExecuteRecoveryAgentUpdate,
    InsertAuthenticator, Lock, Operation, OperationKind, PackedAccount, PendingRecoveryAgent, RecoverAccount,
    RemoveAuthenticator, RuleParameters, UpdateAuthenticator, UpdateRecoveryAgent,
};
use selfsame_protocol::sign_in::accounts::{BrowserPointers, SignInAccount};
use selfsame_protocol::sign_in::authorize::KeptRequest;
use selfsame_protocol::sign_in::claims::{Person, Scopes, VerificationLevel};
use selfsame_protocol::sign_in::pointers::{SealedPointer, StoredLink};
use selfsame_protocol::sign_in::proof_request::{CrossDevice, Initiator, ProofType, SignInRequest};
use selfsame_protocol::sign_in::records::{
    AccessToken, AuthorizationCode, BrowserSession, ClientSession, MOST_SIGN_INS, SigningKey, SigningKeys,
};
use selfsame_protocol::sign_in::response::{ResponseMode, ResponseType, Target};
use selfsame_protocol::sign_in::sealed::{SealedPointers, SealedSession};
use selfsame_protocol::sign_in::transaction::{Answer, OpenedRequest, Transaction};
use selfsame_protocol::signature::Signature;
use selfsame_protocol::time::{UnixMillis, UnixSeconds};
use selfsame_protocol::tree::{Page, PageId};
use selfsame_protocol::verification::directory::ActionKey;
use selfsame_protocol::verification::identity::{ActionRecord, NullifierKey, NullifierRecord, count_verification};
use selfsame_protocol::verification::integrity::IntegrityFinding;
use selfsame_protocol::verification::roots::{RootDecision, RootKey, TrustedRoot, TrustedRoots};
use selfsame_protocol::verification::{Environment, LegacyIdentifier, ProofKind};
use selfsame_protocol::{Address, B256, U256};

use crate::damage::{any_byte_damage, apply_damage};
use crate::memory::{check_memory_in_proportion, memory_of};
use crate::samples::Sample;
use crate::{cases, check_property};

/// Checks that a value is decoded from its encoding, and from no shorter or longer bytes.
fn check_round_trip<T: Encoding + PartialEq + Debug>(value: &T, cut: &Index) -> Result<(), TestCaseError> {
    let mut bytes = encode(value);
    let decoded = decode::<T>(&bytes);
    prop_assert_eq!(decoded.as_ref(), Ok(value));
    if !bytes.is_empty() {
        prop_assert!(decode::<T>(&bytes[..cut.index(bytes.len())]).is_err());
    }
    bytes.push(0);
    prop_assert_eq!(decode::<T>(&bytes), Err(DecodeError::LeftOver(1)));
    Ok(())
}

/// Checks that the bytes are rejected or are the encoding of the decoded value, and that decoding
/// takes memory in proportion.
fn check_rejected_or_canonical<T: Encoding + PartialEq + Debug>(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(value) = check_memory_in_proportion(bytes.len(), || decode::<T>(bytes))? {
        prop_assert_eq!(encode(&value), bytes, "{:?}", value);
    }
    Ok(())
}

/// Bytes, printed as hex digits.
struct RecordBytes(Vec<u8>);

impl Debug for RecordBytes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.write_str(&hex::encode(&self.0))
    }
}

/// Records after damage.
fn damaged_records(encoded: BoxedStrategy<Vec<u8>>) -> BoxedStrategy<RecordBytes> {
    (encoded, any_byte_damage()).prop_map(|(bytes, damages)| RecordBytes(apply_damage(&bytes, &damages))).boxed()
}

/// Bytes that resemble a record more often than random bytes do: small tags, small and false
/// counts.
fn any_bytes() -> BoxedStrategy<RecordBytes> {
    let piece = prop_oneof![
        4 => any::<u8>().prop_map(|byte| vec![byte]),
        3 => (0..10u8).prop_map(|byte| vec![byte]),
        1 => (0..4u8).prop_map(|count| vec![0, 0, 0, count]),
        1 => Just(vec![0xff; 4]),
        1 => any::<[u8; 32]>().prop_map(|word| word.to_vec()),
    ];
    prop::collection::vec(piece, 0..120).prop_map(|pieces| RecordBytes(pieces.concat())).boxed()
}

macro_rules! records {
    ($($module:ident: $type:ty),* $(,)?) => {$(
        mod $module {
            use super::*;

            #[test]
            fn values_round_trip_through_their_encoding() {
                check_property((<$type>::any(), any::<Index>()).boxed(), |(value, cut)| check_round_trip(&value, &cut));
            }

            #[test]
            fn any_bytes_are_rejected_or_canonical() {
                check_property(any_bytes(), |RecordBytes(bytes)| check_rejected_or_canonical::<$type>(&bytes));
            }

            #[test]
            fn damaged_records_are_rejected_or_canonical() {
                let encoded = <$type>::any().prop_map(|value| encode(&value)).boxed();
                check_property(damaged_records(encoded), |RecordBytes(bytes)| check_rejected_or_canonical::<$type>(&bytes));
            }
        }
    )*};
}

records! {
    numbers_of_8_bits: u8,
    numbers_of_32_bits: u32,
    numbers_of_64_bits: u64,
    numbers_of_256_bits: U256,
    hashes: B256,
    addresses: Address,
    texts: String,
    byte_lists: Vec<u8>,
    text_lists: Vec<String>,
    options: Option<u64>,
    nested_lists: Vec<Option<Vec<u32>>>,
    pairs: (u64, Vec<String>),
    signatures: Signature,
    accounts: Account,
    authenticators: Authenticator,
    pending_recovery_agents: PendingRecoveryAgent,
    packed_accounts: PackedAccount,
    account_creations: CreateAccount,
    authenticator_updates: UpdateAuthenticator,
    authenticator_insertions: InsertAuthenticator,
    authenticator_removals: RemoveAuthenticator,
    account_recoveries: RecoverAccount,
    recovery_agent_updates: UpdateRecoveryAgent,
    recovery_agent_cancellations: CancelRecoveryAgentUpdate,
    recovery_agent_executions: ExecuteRecoveryAgentUpdate,
    operation_kinds: OperationKind,
    operations: Operation,
    locks: Lock,
    commitment_checks: CommitmentCheck,
    rule_parameters: RuleParameters,
    registry_domains: RegistryDomain,
    gateway_error_codes: GatewayErrorCode,
    request_ids: RequestId,
    entries: Entry,
    block_headers: BlockHeader,
    blocks: Block,
    seals: Seal,
    outcomes: Outcome,
    block_results: BlockResult,
    root_records: RootRecord,
    tips: Tip,
    heads: Head,
    page_ids: PageId,
    pages: Page,
    environments: Environment,
    proof_kinds: ProofKind,
    integrity_findings: IntegrityFinding,
    legacy_identifiers: LegacyIdentifier,
    action_keys: ActionKey,
    nullifier_keys: NullifierKey,
    nullifier_records: NullifierRecord,
    action_records: ActionRecord,
    event_ids: EventId,
    event_positions: EventPosition,
    recorded_events: RecordedEvent,
    log_entries: LogEntry,
    group_ids: GroupId,
    roll_names: RollName,
    member_numbers: MemberNumber,
    days: Day,
    secret_hashes: SecretHash,
    field_numbers: FieldNumber,
    groups: GroupRecord,
    member_keys: MemberKey,
    standings: Standing,
    members: MemberRecord,
    codes: CodeRecord,
    enrolment_keys: EnrolmentKey,
    group_parts: PartKey,
    stored_leaves: StoredLeaf,
    group_pages: PageRecord,
    live_roots: LiveRootRecord,
    page_root_keys: PageRootKey,
    roll_keys: RollKey,
    rolls: RollRecord,
    roll_page_keys: RollPageKey,
    roll_pages: RollPageRecord,
    awaited_rolls: AwaitedRollRecord,
    sealed_slots: SealedSlot,
    sealed_contents: SealedContent,
    sealed_copies: SealedRecord,
    root_keys: RootKey,
    root_decisions: RootDecision,
    scopes: Scopes,
    verification_levels: VerificationLevel,
    people: Person,
    response_modes: ResponseMode,
    response_types: ResponseType,
    targets: Target,
    kept_requests: KeptRequest,
    answers: Answer,
    initiators: Initiator,
    rules_for_other_devices: CrossDevice,
    proof_types: ProofType,
    sign_in_requests: SignInRequest,
    opened_requests: OpenedRequest,
    transactions: Transaction,
    authorization_codes: AuthorizationCode,
    access_tokens: AccessToken,
    client_sessions: ClientSession,
    browser_sessions: BrowserSession,
    sealed_sessions: SealedSession,
    sign_in_accounts: SignInAccount,
    pointers: BrowserPointers,
    sealed_pointers: SealedPointers,
    sealed_pointer: SealedPointer,
    links: StoredLink,
    signing_key_records: SigningKey,
    signing_keys: SigningKeys,
}

/// A record that claims more items than it has is rejected, and at most the record's own size is
/// reserved for the items.
#[test]
fn a_claimed_count_reserves_at_most_the_size_of_the_record() {
    fn check_reserved_memory<T: Encoding>(claim: u32, filling: u8) {
        let bytes = [&claim.to_be_bytes()[..], &vec![filling; 1 << 20]].concat();
        let (decoded, most) = memory_of(|| decode::<T>(&bytes).is_ok());
        assert!(!decoded, "{claim} of {}", std::any::type_name::<T>());
        assert!(most <= 2 * bytes.len(), "{most} bytes for {claim} of {}", std::any::type_name::<T>());
    }
    for claim in [u32::MAX, 1 << 31, 1 << 24, (1 << 20) + 1] {
        check_reserved_memory::<String>(claim, b'a');
        check_reserved_memory::<Vec<u8>>(claim, 1);
        check_reserved_memory::<Vec<u64>>(claim, 1);
        check_reserved_memory::<Vec<Address>>(claim, 1);
        // Decoding fails at the first item: 255 is not a tag of these types, and a text of 2³²
        // bytes ends early.
        check_reserved_memory::<Vec<String>>(claim, 255);
        check_reserved_memory::<Vec<Entry>>(claim, 255);
        check_reserved_memory::<Vec<Operation>>(claim, 255);
        check_reserved_memory::<Vec<Lock>>(claim, 255);
        check_reserved_memory::<Vec<Option<Authenticator>>>(claim, 255);
        check_reserved_memory::<Vec<ClientSession>>(claim, 255);
        check_reserved_memory::<Vec<SigningKey>>(claim, 255);
    }
}

/// The tree has six rows of pages, and a row has thirty-two times the pages of the row above.
#[test]
fn a_page_id_is_valid_only_for_a_page_of_the_tree() {
    for row in 0..=u8::MAX {
        for index in [0, 1, 31, 32, 33, (1 << 25) - 1, 1 << 25, u32::MAX] {
            let id = PageId { row, index };
            let is_page = row < 6 && u64::from(index) < 1 << (5 * row);
            let decoded = decode::<PageId>(&encode(&id));
            assert_eq!(decoded.is_ok(), is_page, "{id:?}");
            if let Ok(id) = decoded {
                assert_eq!(encode(&Page::empty(id)).len(), Page::ENCODED_LENGTH);
            }
        }
    }
}

/// A commitment has positions for seven keys. Rules that allow more would let an account have keys
/// that no commitment covers, and slots up to the largest pubkey id.
#[test]
fn rule_parameters_allow_one_to_seven_authenticators() {
    for max_authenticators in [0, 1, 6, 7, 8, 255, u32::MAX] {
        let rules = RuleParameters { max_authenticators, ..RuleParameters::default() };
        let is_allowed = (1..=7).contains(&max_authenticators);
        assert_eq!(decode::<RuleParameters>(&encode(&rules)).is_ok(), is_allowed, "{max_authenticators}");
        let json = serde_json::to_string(&rules).expect("JSON");
        assert_eq!(serde_json::from_str::<RuleParameters>(&json).is_ok(), is_allowed, "{max_authenticators}");
    }
}

proptest! {
    #![proptest_config(cases())]

    /// Operations on a decoded record do not panic, for any times and counters.
    #[test]
    fn signing_keys_of_any_content_can_be_rotated(
        keys in SigningKeys::any(),
        new in SigningKey::any(),
        now in u64::any(),
        lifetime in u64::any(),
    ) {
        let rotated = keys.rotate(new, UnixSeconds(now), lifetime, true).expect("a forced rotation succeeds");
        prop_assert!(rotated.keys.len() <= keys.keys.len() + 1);
        prop_assert!(rotated.without_expired(UnixSeconds(now), lifetime).keys.len() <= rotated.keys.len());
        let _ =
            (rotated.current(), rotated.next(), keys.rotate(SigningKey::clone(&rotated.keys[0]), UnixSeconds(now), lifetime, false));
    }

    /// A browser's session stays bounded and keeps the newest sign-in of each client.
    #[test]
    fn a_browser_session_stays_bounded(
        sessions in prop::collection::vec(ClientSession::any(), 0..80),
        last in ClientSession::any(),
    ) {
        let session = BrowserSession { clients: sessions }.with(last.clone());
        prop_assert!(session.clients.len() <= MOST_SIGN_INS);
        let kept = session.of(&last.client_id, last.proof, last.environment).last();
        prop_assert_eq!(kept, Some(&last));
    }

    /// Ages of roots, validity windows and counters do not overflow.
    #[test]
    fn roots_and_nullifiers_of_any_age_do_not_overflow(
        roots in prop::collection::vec(TrustedRoot::any(), 0..6),
        root in RootRecord::any(),
        record in NullifierRecord::any(),
        now in u64::any(),
        window in u64::any(),
        limit in u64::any(),
    ) {
        let trusted = TrustedRoots::new(roots, []);
        for TrustedRoot { key, trust } in trusted.to_vec() {
            for identifier in trust.identifiers.iter().filter(|_| key.kind == ProofKind::Legacy) {
                let age = trusted.legacy_age(key.environment, *identifier, key.root, UnixSeconds(now), |_| None);
                prop_assert!(age.is_ok());
            }
            trusted.is_current(key.environment, key.root, UnixSeconds(now), window);
            trusted.is_outdated(&key, UnixSeconds(now), window);
        }
        prop_assert!(is_valid_root(Some(&root), UnixSeconds(now), window) || root.replaced_at.is_some());
        let again = count_verification(Some(&record), limit, UnixMillis(now), true);
        prop_assert_eq!(again.is_ok(), limit == 0 || record.verifications < limit);
    }

    /// Days of any number have a text, and roots of any version and time an age.
    #[test]
    fn days_and_live_roots_of_any_content_do_not_overflow(
        day in Day::any(),
        more in u32::any(),
        roots in prop::collection::btree_map(u64::any(), LiveRootRecord::any(), 0..6),
        pages in prop::collection::vec((u32::any(), u64::any(), FieldNumber::any()), 0..6),
        leaves in Vec::<StoredLeaf>::any(),
        (version, root, first_ended, now) in (u64::any(), LiveRootRecord::any(), Option::<u64>::any(), u64::any()),
    ) {
        prop_assert_eq!(day.plus(more).to_string().len(), 10);
        prop_assert_eq!(leaves_at(&leaves, version).len(), leaves.len());
        let live = LiveRoots::new(roots.clone(), pages.clone());
        let now = UnixSeconds(now);
        for record in roots.values() {
            prop_assert!(live.age(record.root, now).is_some());
        }
        for (_, _, page) in &pages {
            live.page_with(*page);
        }
        live.next((version, root), first_ended, &[(0, FieldNumber::ZERO)], now);
    }

    /// The slots of an account decode, or the error names the slot that does not. The packed number
    /// has its three parts at their positions.
    #[test]
    fn accounts_of_any_content_decode_or_name_the_slot(account in Account::any(), packed in PackedAccount::any()) {
        if let Err(error) = account.decoded_keys() {
            prop_assert!(error.pubkey_id.index() < account.slots.len());
        }
        let number = packed.to_number();
        prop_assert_eq!(number >> 224, U256::from(packed.recovery_counter));
        prop_assert_eq!((number >> 192) & U256::from(u32::MAX), packed.pubkey_id.widen());
        prop_assert_eq!(number & ((U256::from(1) << 192) - U256::from(1)), packed.leaf_index.widen());
    }
}
