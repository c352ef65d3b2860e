//! JSON bodies of gateway and indexer, requests and answers. For every type:
//!
//! - a valid value comes back from its text;
//! - any JSON, and the text of a valid value after hostile changes, is refused with a short reason or read as a value
//!   that its own text gives again;
//! - memory stays in proportion to the text.
//!
//! Requests are also compared with a second reader, which is written from the tables of the description.

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
use selfsame_protocol::registry::{
    CancelRecoveryAgentUpdate, CreateAccount, ExecuteRecoveryAgentUpdate, InsertAuthenticator, Operation,
    RecoverAccount, RemoveAuthenticator, RuleParameters, UpdateAuthenticator, UpdateRecoveryAgent,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::damage::{Damage, any_text, damaged, damages};
use crate::json::{any_json, hostilities};
use crate::memory::in_proportion;
use crate::numbers::{hex_bytes, numeric_string};
use crate::samples::Sample;
use crate::{always, cases};

/// Reads a body in memory that is in proportion; a refusal is short and begins with the field.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<Option<T>, TestCaseError> {
    match in_proportion(body.len(), || from_object::<T>(body))? {
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

/// The text of a body, shown as text.
struct Body(Vec<u8>);

impl Debug for Body {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(formatter, "{}", self.0.escape_ascii())
    }
}

/// The text of any JSON, damaged or not.
fn any_body() -> BoxedStrategy<Body> {
    let text = |(value, damages): (Value, Option<Vec<Damage>>)| {
        Body(damaged(value.to_string().as_bytes(), &damages.unwrap_or_default()))
    };
    (any_json(), prop::option::of(damages())).prop_map(text).boxed()
}

/// The text of documents after hostile changes.
fn hostile_bodies(documents: BoxedStrategy<Value>) -> BoxedStrategy<Body> {
    (documents, hostilities()).prop_map(|(document, hostility)| Body(hostility.apply(&document))).boxed()
}

/// The value comes back from its text.
fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> Result<(), TestCaseError> {
    let text = serde_json::to_vec(value).expect("JSON");
    let found = read::<T>(&text)?;
    prop_assert_eq!(found.as_ref(), Some(value));
    Ok(())
}

/// The body is refused, or is an object and read as a value that its own text gives again.
fn is_refused_or_stable<T: Serialize + DeserializeOwned + PartialEq + Debug>(body: &[u8]) -> Result<(), TestCaseError> {
    if let Some(value) = read::<T>(body)? {
        prop_assert!(serde_json::from_slice::<Value>(body).is_ok_and(|value| value.is_object()));
        comes_back(&value)?;
    }
    Ok(())
}

macro_rules! bodies {
    ($($module:ident: $type:ty),* $(,)?) => {$(
        mod $module {
            use super::*;

            #[test]
            fn come_back() {
                always(<$type>::any(), |value| comes_back(&value));
            }

            #[test]
            fn any_json_is_refused_or_stable() {
                always(any_body(), |Body(text)| is_refused_or_stable::<$type>(&text));
            }

            #[test]
            fn hostile_ones_are_refused_or_stable() {
                let documents = <$type>::any().prop_map(|value| serde_json::to_value(value).expect("JSON"));
                always(hostile_bodies(documents.boxed()), |Body(text)| is_refused_or_stable::<$type>(&text));
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

/// What a field of a request is, in the words of the description.
#[derive(Clone, Copy)]
enum Field {
    Number(u32),
    /// Absent and null mean zero.
    NumberOrZero(u32),
    Numbers,
    Address,
    /// Absent, null and the zero address mean nobody.
    AddressOrNobody,
    Addresses,
    Signature,
}

use Field::{Address, AddressOrNobody, Addresses, Number, NumberOrZero, Numbers, Signature};

const OLD_COMMITMENT: (&str, Field) = ("old_offchain_signer_commitment", Number(256));
const NEW_COMMITMENT: (&str, Field) = ("new_offchain_signer_commitment", Number(256));
const LEAF_INDEX: (&str, Field) = ("leaf_index", Number(64));
const NONCE: (&str, Field) = ("nonce", Number(256));
const SIGNED: (&str, Field) = ("signature", Signature);

impl Field {
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
            AddressOrNobody => {
                let address = value.map_or(Some(Value::Null), |value| bytes(20, value))?;
                let is_nobody =
                    address.as_str().is_some_and(|text| text.trim_start_matches("0x").trim_matches('0').is_empty());
                Some(if is_nobody { Value::Null } else { address })
            }
        }
    }
}

/// A request is accepted exactly when each of its fields is well-formed, and is written in canonical form. Keys that
/// are not the request's own do not matter.
fn means_what_it_says<T: Serialize + DeserializeOwned + Into<Operation>>(
    body: &[u8],
    fields: &[(&str, Field)],
) -> Result<(), TestCaseError> {
    let read = read::<T>(body)?;
    // That no key occurs twice is another law's matter.
    let document = from_object::<Value>(body).ok();
    let expected = document.as_ref().and_then(Value::as_object).and_then(|document| {
        let field = |(name, field): &(&str, Field)| Some(((*name).to_owned(), field.read(document.get(*name))?));
        fields.iter().map(field).collect::<Option<Map<_, _>>>()
    });
    let found = read.as_ref().map(|request| serde_json::to_value(request).expect("JSON"));
    prop_assert_eq!(found, expected.map(Value::from));
    if let Some(request) = read {
        // What is read can be judged.
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
                let law = |Body(text)| means_what_it_says::<$type>(&text, &[$($field),*]);
                always(hostile_bodies(documents.boxed()), law);
            }
        )*
    };
}

requests! {
    account_creations_mean_what_they_say: CreateAccount = [
        ("recovery_address", AddressOrNobody),
        ("authenticator_addresses", Addresses),
        ("authenticator_pubkeys", Numbers),
        ("offchain_signer_commitment", Number(256)),
    ],
    authenticator_updates_mean_what_they_say: UpdateAuthenticator = [
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
    authenticator_insertions_mean_what_they_say: InsertAuthenticator = [
        LEAF_INDEX,
        ("new_authenticator_address", Address),
        OLD_COMMITMENT,
        NEW_COMMITMENT,
        SIGNED,
        NONCE,
        ("pubkey_id", Number(32)),
        ("new_authenticator_pubkey", Number(256)),
    ],
    authenticator_removals_mean_what_they_say: RemoveAuthenticator = [
        LEAF_INDEX,
        ("authenticator_address", Address),
        OLD_COMMITMENT,
        NEW_COMMITMENT,
        SIGNED,
        NONCE,
        ("pubkey_id", NumberOrZero(32)),
        ("authenticator_pubkey", NumberOrZero(256)),
    ],
    account_recoveries_mean_what_they_say: RecoverAccount = [
        LEAF_INDEX,
        ("new_authenticator_address", Address),
        OLD_COMMITMENT,
        NEW_COMMITMENT,
        SIGNED,
        NONCE,
        ("new_authenticator_pubkey", NumberOrZero(256)),
    ],
    recovery_agent_updates_mean_what_they_say: UpdateRecoveryAgent =
        [LEAF_INDEX, ("new_recovery_agent", Address), SIGNED, NONCE],
    recovery_agent_cancellations_mean_what_they_say: CancelRecoveryAgentUpdate = [LEAF_INDEX, SIGNED, NONCE],
    recovery_agent_executions_mean_what_they_say: ExecuteRecoveryAgentUpdate = [LEAF_INDEX],
}

/// A JSON text that may have keys twice, which a value cannot.
#[derive(Clone, Debug)]
enum Text {
    Scalar(&'static str),
    List(Vec<Text>),
    /// Keys with how they are spelt: plainly, or the first character as an escape.
    Object(Vec<(String, bool, Text)>),
}

impl Text {
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

    /// A body is accepted exactly when it is an object and no object in it has a key twice, however the keys are
    /// spelt.
    #[test]
    fn keys_occur_once(text in Text::any()) {
        let body = text.write();
        match from_object::<Value>(body.as_bytes()) {
            Ok(value) => {
                prop_assert!(!text.has_doubled_keys());
                prop_assert!(value.is_object());
                prop_assert_eq!(value, serde_json::from_str::<Value>(&body).expect("JSON"));
            }
            Err(BodyError::NotAnObject) => prop_assert!(!matches!(text, Text::Object(_)) && !text.has_doubled_keys()),
            Err(BodyError::NotJson(reason)) => prop_assert!(text.has_doubled_keys() && reason.starts_with("key `")),
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    /// Any bytes behind, before and inside a body: only white space around it is accepted.
    #[test]
    fn text_around_a_body(before in "[ \t\r\n]{0,3}|.{1,3}", behind in "[ \t\r\n]{0,3}|.{1,3}") {
        let is_white = |text: &str| text.bytes().all(|byte| b" \t\r\n".contains(&byte));
        let read = from_object::<LeafIndexQuery>(format!("{before}{{\"leaf_index\":\"1\"}}{behind}").as_bytes());
        prop_assert_eq!(read.is_ok(), is_white(&before) && is_white(&behind));
    }

    /// Any bytes at all.
    #[test]
    fn any_bytes_are_no_body(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let value = read::<Value>(&bytes)?;
        prop_assert_eq!(value.is_some(), serde_json::from_slice::<Value>(&bytes).is_ok_and(|value| value.is_object()));
    }

    /// An inclusion proof is a path only where its numbers are those of the tree: a leaf below its capacity, thirty
    /// siblings and a root below the field's modulus. Otherwise two proofs would show the same.
    #[test]
    fn inclusion_proofs_that_are_paths(
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

/// Ten thousand levels at every place of a body are refused without a stack for them.
#[test]
fn deep_nesting() {
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
