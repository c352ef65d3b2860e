//! JSON bodies of gateway and indexer, requests and answers. For every type:
//!
//! - a valid value round-trips through its text;
//! - any JSON, and the text of a valid value after hostile changes, is rejected with a short
//!   reason, or is read as a value that its own text gives again;
//! - memory stays in proportion to the text.
//!
//! Requests are also compared with a second reader, which is written from
//! `docs/interfaces/gateway.md` and `docs/interfaces/indexer.md`.

use std::fmt::Debug;

use proptest::prelude::*;
use selfsame_protocol::U256;
use selfsame_protocol::gateway::{
    BlockResponse, ConfigResponse, GatewayErrorCode, GatewayStatusResponse, HealthResponse, ServiceApiError,
    ValidRootResponse, check_request,
};
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::indexer::{
    AddressQuery, AuthenticatorPubkeysResponse, AuthenticatorsResponse, CompatInclusionProofResponse,
    InclusionProofResponse, IndexerErrorCode, LeafIndexQuery, PackedAccountResponse, PendingRecoveryAgentResponse,
    RecoveryAgentResponse, RootResponse, SignatureNonceResponse,
};
use selfsame_protocol::json::{BodyError, from_object};
use selfsame_protocol::ledger::SignedHead;
use selfsame_protocol::registry::{
    CancelRecoveryAgentUpdate, CreateAccount, ExecuteRecoveryAgentUpdate, InsertAuthenticator, Operation,
    RecoverAccount, RemoveAuthenticator, RuleParameters, UpdateAuthenticator, UpdateRecoveryAgent,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::damage::{ByteDamage, any_byte_damage, any_text, apply_damage};
use crate::json::{any_json, any_json_damage};
use crate::memory::check_memory_in_proportion;
use crate::numbers::{hex_bytes, numeric_string};
use crate::samples::Sample;
use crate::{cases, check_property};

/// Reads a body, and checks that memory is in proportion to the body, and that an error is short
/// and begins with the path of the field.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<Option<T>, TestCaseError> {
    match check_memory_in_proportion(body.len(), || from_object::<T>(body))? {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            prop_assert!(error.to_string().chars().count() < 400, "{}", error);
            if let BodyError::Field { path, message } = error {
                prop_assert!(message.starts_with(&path), "{} {}", path, message);
            }
            Ok(None)
        }
    }
}

/// The text of a body, printed as text.
struct BodyText(Vec<u8>);

impl Debug for BodyText {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(formatter, "{}", self.0.escape_ascii())
    }
}

/// The text of any JSON, damaged or not.
fn any_body() -> BoxedStrategy<BodyText> {
    let text = |(value, damages): (Value, Option<Vec<ByteDamage>>)| {
        BodyText(apply_damage(value.to_string().as_bytes(), &damages.unwrap_or_default()))
    };
    (any_json(), prop::option::of(any_byte_damage())).prop_map(text).boxed()
}

/// The text of documents after hostile changes.
fn hostile_bodies(documents: BoxedStrategy<Value>) -> BoxedStrategy<BodyText> {
    (documents, any_json_damage()).prop_map(|(document, json_damage)| BodyText(json_damage.apply(&document))).boxed()
}

/// Checks that a value round-trips through its text.
fn check_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> Result<(), TestCaseError> {
    let text = serde_json::to_vec(value).expect("JSON");
    let found = read::<T>(&text)?;
    prop_assert_eq!(found.as_ref(), Some(value));
    Ok(())
}

/// Checks that the body is rejected, or is an object and read as a value that round-trips through
/// its text.
fn check_rejected_or_stable<T: Serialize + DeserializeOwned + PartialEq + Debug>(
    body: &[u8],
) -> Result<(), TestCaseError> {
    if let Some(value) = read::<T>(body)? {
        prop_assert!(serde_json::from_slice::<Value>(body).is_ok_and(|value| value.is_object()));
        check_round_trip(&value)?;
    }
    Ok(())
}

macro_rules! bodies {
    ($($module:ident: $type:ty),* $(,)?) => {$(
        mod $module {
            use super::*;

            #[test]
            fn values_round_trip_through_their_text() {
                check_property(<$type>::any(), |value| check_round_trip(&value));
            }

            #[test]
            fn any_json_is_rejected_or_stable() {
                check_property(any_body(), |BodyText(text)| check_rejected_or_stable::<$type>(&text));
            }

            #[test]
            fn hostile_bodies_are_rejected_or_stable() {
                let documents = <$type>::any().prop_map(|value| serde_json::to_value(value).expect("JSON"));
                check_property(hostile_bodies(documents.boxed()), |BodyText(text)| check_rejected_or_stable::<$type>(&text));
            }
        }
    )*};
}

bodies! {
    account_creations: CreateAccount,
    authenticator_updates: UpdateAuthenticator,
    authenticator_insertions: InsertAuthenticator,
    authenticator_removals: RemoveAuthenticator,
    account_recoveries: RecoverAccount,
    recovery_agent_updates: UpdateRecoveryAgent,
    recovery_agent_cancellations: CancelRecoveryAgentUpdate,
    recovery_agent_executions: ExecuteRecoveryAgentUpdate,
    leaf_index_queries: LeafIndexQuery,
    address_queries: AddressQuery,
    gateway_errors: ServiceApiError<GatewayErrorCode>,
    indexer_errors: ServiceApiError<IndexerErrorCode>,
    status_answers: GatewayStatusResponse,
    config_answers: ConfigResponse,
    valid_root_answers: ValidRootResponse,
    health_answers: HealthResponse,
    block_answers: BlockResponse,
    signed_heads: SignedHead,
    inclusion_proofs: InclusionProofResponse,
    compatible_inclusion_proofs: CompatInclusionProofResponse,
    packed_accounts: PackedAccountResponse,
    signature_nonces: SignatureNonceResponse,
    public_key_answers: AuthenticatorPubkeysResponse,
    authenticator_answers: AuthenticatorsResponse,
    recovery_agents: RecoveryAgentResponse,
    pending_recovery_agents: PendingRecoveryAgentResponse,
    root_answers: RootResponse,
}

/// The type of a request's field in `docs/interfaces/gateway.md`.
#[derive(Clone, Copy)]
enum RequestField {
    Number(u32),
    /// Absent and null mean zero.
    NumberOrZero(u32),
    Numbers,
    Address,
    /// Absent, null and the zero address mean no address.
    OptionalAddress,
    Addresses,
    Signature,
}

use RequestField::{Address, Addresses, Number, NumberOrZero, Numbers, OptionalAddress, Signature};

const OLD_COMMITMENT: (&str, RequestField) = ("old_offchain_signer_commitment", Number(256));
const NEW_COMMITMENT: (&str, RequestField) = ("new_offchain_signer_commitment", Number(256));
const LEAF_INDEX: (&str, RequestField) = ("leaf_index", Number(64));
const NONCE: (&str, RequestField) = ("nonce", Number(256));
const SIGNED: (&str, RequestField) = ("signature", Signature);

impl RequestField {
    /// The canonical form of the field's value in an answer; `None` when it is malformed.
    fn read(self, value: Option<&Value>) -> Option<Value> {
        let value = value.filter(|value| !value.is_null());
        let number = |bits, value: &Value| Some(json!(format!("{:#x}", numeric_string(value.as_str()?, bits)?)));
        let bytes = |length, value: &Value| {
            let digits: Vec<String> =
                hex_bytes(value.as_str()?, length)?.iter().map(|byte| format!("{byte:02x}")).collect();
            Some(json!(format!("0x{}", digits.concat())))
        };
        let list = |item: &dyn Fn(&Value) -> Option<Value>| value?.as_array()?.iter().map(item).collect();
        match self {
            Number(bits) => number(bits, value?),
            NumberOrZero(bits) => value.map_or(Some(json!("0x0")), |value| number(bits, value)),
            Numbers => list(&|item| number(256, item)),
            Address => bytes(20, value?),
            Addresses => list(&|item| bytes(20, item)),
            Signature => bytes(65, value?),
            OptionalAddress => {
                let address = value.map_or(Some(Value::Null), |value| bytes(20, value))?;
                let is_absent =
                    address.as_str().is_some_and(|text| text.trim_start_matches("0x").trim_matches('0').is_empty());
                Some(if is_absent { Value::Null } else { address })
            }
        }
    }
}

/// Checks that a request is accepted exactly when each of its fields is well-formed, and that it is
/// written in canonical form. Keys of other requests have no effect.
fn check_meaning<T: Serialize + DeserializeOwned + Into<Operation>>(
    body: &[u8],
    fields: &[(&str, RequestField)],
) -> Result<(), TestCaseError> {
    let read = read::<T>(body)?;
    // Repeated keys are the subject of another property.
    let document = from_object::<Value>(body).ok();
    let expected = document.as_ref().and_then(Value::as_object).and_then(|document| {
        let field = |(name, field): &(&str, RequestField)| Some(((*name).to_owned(), field.read(document.get(*name))?));
        fields.iter().map(field).collect::<Option<Map<_, _>>>()
    });
    let found = read.as_ref().map(|request| serde_json::to_value(request).expect("JSON"));
    prop_assert_eq!(found, expected.map(Value::from));
    if let Some(request) = read {
        // The checks of an accepted request do not panic.
        let operation: Operation = request.into();
        let _ = check_request(&operation, &RuleParameters::default());
        let locks = operation.locks();
        prop_assert!(locks.is_sorted() && locks.windows(2).all(|pair| pair[0] != pair[1]));
    }
    Ok(())
}

macro_rules! requests {
    ($($name:ident: $type:ty = [$($field:expr),* $(,)?]),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                let documents = <$type>::any().prop_map(|value| serde_json::to_value(value).expect("JSON"));
                let property = |BodyText(text)| check_meaning::<$type>(&text, &[$($field),*]);
                check_property(hostile_bodies(documents.boxed()), property);
            }
        )*
    };
}

requests! {
    account_creations_agree_with_a_second_reader: CreateAccount = [
        ("recovery_address", OptionalAddress),
        ("authenticator_addresses", Addresses),
        ("authenticator_pubkeys", Numbers),
        ("offchain_signer_commitment", Number(256)),
    ],
    authenticator_updates_agree_with_a_second_reader: UpdateAuthenticator = [
        LEAF_INDEX,
        ("old_authenticator_address", Address),
        ("new_authenticator_address", Address),
        OLD_COMMITMENT,
        NEW_COMMITMENT,
        SIGNED,
        NONCE,
        ("pubkey_id", Number(32)),
        ("new_authenticator_pubkey", Number(256)),
    ],
    authenticator_insertions_agree_with_a_second_reader: InsertAuthenticator = [
        LEAF_INDEX,
        ("new_authenticator_address", Address),
        OLD_COMMITMENT,
        NEW_COMMITMENT,
        SIGNED,
        NONCE,
        ("pubkey_id", Number(32)),
        ("new_authenticator_pubkey", Number(256)),
    ],
    authenticator_removals_agree_with_a_second_reader: RemoveAuthenticator = [
        LEAF_INDEX,
        ("authenticator_address", Address),
        OLD_COMMITMENT,
        NEW_COMMITMENT,
        SIGNED,
        NONCE,
        ("pubkey_id", NumberOrZero(32)),
        ("authenticator_pubkey", NumberOrZero(256)),
    ],
    account_recoveries_agree_with_a_second_reader: RecoverAccount = [
        LEAF_INDEX,
        ("new_authenticator_address", Address),
        OLD_COMMITMENT,
        NEW_COMMITMENT,
        SIGNED,
        NONCE,
        ("new_authenticator_pubkey", NumberOrZero(256)),
    ],
    recovery_agent_updates_agree_with_a_second_reader: UpdateRecoveryAgent =
        [LEAF_INDEX, ("new_recovery_agent", Address), SIGNED, NONCE],
    recovery_agent_cancellations_agree_with_a_second_reader: CancelRecoveryAgentUpdate = [LEAF_INDEX, SIGNED, NONCE],
    recovery_agent_executions_agree_with_a_second_reader: ExecuteRecoveryAgentUpdate = [LEAF_INDEX],
}

/// A JSON text that may repeat keys, which a `Value` cannot.
#[derive(Clone, Debug)]
enum JsonText {
    Scalar(&'static str),
    List(Vec<JsonText>),
    /// Keys, whether their first character is written as an escape, and values.
    Object(Vec<(String, bool, JsonText)>),
}

impl JsonText {
    fn any() -> BoxedStrategy<Self> {
        let scalar = prop::sample::select(vec!["null", "true", "-0", "1.5e3", "18446744073709551616", "\"\"", "\"a\""]);
        scalar
            .prop_map(Self::Scalar)
            .prop_recursive(4, 20, 4, |inner| {
                let key = prop_oneof![4 => "[abé]", 1 => any_text()];
                prop_oneof![
                    prop::collection::vec(inner.clone(), 0..4).prop_map(Self::List),
                    prop::collection::vec((key, any::<bool>(), inner), 0..4).prop_map(Self::Object),
                ]
            })
            .boxed()
    }

    fn has_doubled_keys(&self) -> bool {
        match self {
            Self::Scalar(_) => false,
            Self::List(items) => items.iter().any(Self::has_doubled_keys),
            Self::Object(entries) => {
                let is_double = |index: usize| entries[..index].iter().any(|(key, ..)| *key == entries[index].0);
                entries.iter().any(|(.., value)| value.has_doubled_keys()) || (0..entries.len()).any(is_double)
            }
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Scalar(text) => (*text).to_owned(),
            Self::List(items) => format!("[{}]", items.iter().map(Self::write).collect::<Vec<_>>().join(",")),
            Self::Object(entries) => {
                let entry = |(key, is_escaped, value): &(String, bool, Self)| {
                    let units = || key.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
                    let key = if *is_escaped { format!("\"{}\"", units()) } else { json!(key).to_string() };
                    format!("{key}: {}", value.write())
                };
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

proptest! {
    #![proptest_config(cases())]

    /// A body is accepted exactly when it is an object and no object in it repeats a key, with or
    /// without escapes in the keys.
    #[test]
    fn bodies_with_a_repeated_key_are_rejected(text in JsonText::any()) {
        let body = text.write();
        match from_object::<Value>(body.as_bytes()) {
            Ok(value) => {
                prop_assert!(!text.has_doubled_keys());
                prop_assert!(value.is_object());
                prop_assert_eq!(value, serde_json::from_str::<Value>(&body).expect("JSON"));
            }
            Err(BodyError::NotAnObject) => prop_assert!(!matches!(text, JsonText::Object(_)) && !text.has_doubled_keys()),
            Err(BodyError::NotJson(reason)) => prop_assert!(text.has_doubled_keys() && reason.starts_with("key `")),
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    /// Only white space is accepted before and after a body, and a byte order mark at its start
    /// (RFC 8259, section 8.1).
    #[test]
    fn only_white_space_may_surround_a_body(
        before in "\u{feff}?[ \t\r\n]{0,3}|.{1,3}",
        after in "[ \t\r\n]{0,3}|.{1,3}",
    ) {
        let is_white = |text: &str| text.bytes().all(|byte| b" \t\r\n".contains(&byte));
        let read = from_object::<LeafIndexQuery>(format!("{before}{{\"leaf_index\":\"1\"}}{after}").as_bytes());
        let unmarked = before.strip_prefix('\u{feff}').unwrap_or(&before);
        prop_assert_eq!(read.is_ok(), is_white(unmarked) && is_white(&after));
    }

    /// Any bytes are rejected, unless they are a JSON object.
    #[test]
    fn any_bytes_are_rejected_unless_they_are_a_json_object(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let value = read::<Value>(&bytes)?;
        prop_assert_eq!(value.is_some(), serde_json::from_slice::<Value>(&bytes).is_ok_and(|value| value.is_object()));
    }

    /// An inclusion proof is a path only when its numbers are those of the tree: a leaf index below
    /// the tree's capacity, and thirty siblings and a root below the field's modulus. Otherwise two
    /// different proofs could show the same path.
    #[test]
    fn an_inclusion_proof_is_a_path_only_with_numbers_of_the_tree(
        leaf_index in prop_oneof![0..1u64 << 31, u64::any()],
        root in Sample::any(),
        siblings in prop_oneof![4 => Just(30), 1 => 0..40usize]
            .prop_flat_map(|count| prop::collection::vec(Sample::any(), count)),
    ) {
        let answer = InclusionProofResponse { leaf_index: LeafIndex(leaf_index), root, siblings, authenticator_pubkeys: Vec::new() };
        let is_node = |node: &selfsame_protocol::B256| U256::from_be_bytes(node.0) < crate::samples::modulus();
        let is_path = leaf_index < 1 << 30
            && answer.siblings.len() == 30
            && answer.siblings.iter().all(is_node)
            && is_node(&root.0);
        let path = answer.path();
        prop_assert_eq!(path.is_some(), is_path);
        if let Some(path) = path {
            prop_assert_eq!((path.leaf_index, path.root, path.siblings.to_vec()), (LeafIndex(leaf_index), root, answer.siblings));
        }
    }
}

/// Ten thousand levels of nesting at any position of a body are rejected without a deep stack.
#[test]
fn deep_nesting_is_rejected() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"leaf_index\":", "}]")] {
        let deep = open.repeat(10_000) + "1" + &close.repeat(10_000);
        for body in
            [deep.clone(), format!("{{\"leaf_index\":{deep}}}"), format!("{{\"leaf_index\":\"1\",\"x\":{deep}}}")]
        {
            assert!(matches!(from_object::<LeafIndexQuery>(body.as_bytes()), Err(BodyError::NotJson(_))));
            assert!(matches!(from_object::<Value>(body.as_bytes()), Err(BodyError::NotJson(_))));
        }
    }
}
