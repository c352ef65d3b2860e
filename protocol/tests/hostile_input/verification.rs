//! Verification requests: their shape, their numbers, and which recorded proofs still hold after
//! changes to the request around them.

use std::convert::Infallible;
use std::sync::OnceLock;

use proptest::prelude::*;
use selfsame_protocol::U256;
use selfsame_protocol::commitment::PublicKey;
use selfsame_protocol::groth16::{EncodedClaim, PreparedKey, VerificationKey};
use selfsame_protocol::groups::names::{GroupId, RollName};
use selfsame_protocol::ids::Nullifier;
use selfsame_protocol::json::from_object;
use selfsame_protocol::number::Number;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::directory::{AdmissionError, Directory, Issuer, RelyingParty};
use selfsame_protocol::verification::identity::{hash_text, hash_to_field};
use selfsame_protocol::verification::integrity::SELFIE_CHECK;
use selfsame_protocol::verification::items::{TrustedData, check_items};
use selfsame_protocol::verification::request::{
    CurrentItem, LONGEST_TEXT, MAX_AGE, MOST_RESPONSES, Proofs, VerificationRequest,
};
use selfsame_protocol::verification::roots::{RootAge, UntrustedRoot};
use selfsame_protocol::verification::{Environment, LegacyIdentifier, ProofKind, RelyingPartyId};
use serde_json::{Value, json};

use crate::cases;
use crate::damage::{any_text, with_changed_characters};
use crate::json::{any_json, any_json_damage, any_literal};
use crate::memory::check_memory_in_proportion;
use crate::numbers::number_of_digits;
use crate::samples::{any_number, modulus};

const APP: &str = "app_staging_169e21f6afc84b304749830067809632";
const RELYING_PARTY: &str = "rp_0387df34f862cd4e";
const NOW: u64 = 1_783_000_000;

fn vector(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn value(of: &Value) -> U256 {
    selfsame_protocol::number::parse(of.as_str().expect("text")).expect("a number")
}

/// A request with the recorded legacy proof.
fn legacy() -> Value {
    let case = vector(include_str!("../../vectors/v3_depth30_verify_user.json"));
    json!({
        "protocol_version": "3.0", "nonce": "n", "action": "verify-user", "environment": "staging",
        "action_description": "An action", "user_presence_completed": true,
        "responses": [{
            "identifier": "orb", "merkle_root": case["root"], "nullifier": case["nullifier_hash"], "max_age": 3600,
            "proof": case["proof"], "signal_hash": case["signal_hash"],
        }],
    })
}

/// A request with the recorded session proof.
fn session() -> Value {
    let case = vector(include_str!("../../vectors/v4_session.json"));
    let named = &case["named"];
    let commitment = named["session_id_commitment"].as_str().expect("text").trim_start_matches("0x");
    json!({
        "protocol_version": "4.0", "nonce": named["nonce"],
        "session_id": format!("session_{commitment}01{}", "0".repeat(62)),
        "responses": [{
            "identifier": "proof_of_human", "issuer_schema_id": 1,
            "session_nullifier": [named["nullifier"], named["action"]],
            "expires_at_min": value(&named["expires_at_min"]).to::<u64>(), "signal_hash": named["signal_hash"],
            "credential_genesis_issued_at_min": 0, "proof": case["proof"],
        }],
    })
}

/// A request with the recorded uniqueness proof and another action than the proof's action.
fn uniqueness() -> Value {
    let case = vector(include_str!("../../vectors/v4_uniqueness_bound_to_session.json"));
    let named = &case["named"];
    json!({
        "protocol_version": "4.0", "nonce": named["nonce"], "action": "an action",
        "responses": [{
            "identifier": "proof_of_human", "issuer_schema_id": "0x1", "nullifier": named["nullifier"],
            "expires_at_min": value(&named["expires_at_min"]).to::<u64>(), "proof": case["proof"],
        }],
    })
}

/// The same with the session that the proof is bound to.
fn bound() -> Value {
    let mut request = uniqueness();
    request["proof_type"] = json!("uniqueness");
    request["session_id"] = session()["session_id"].clone();
    request["responses"][0]["signal_hash"] = session()["responses"][0]["signal_hash"].clone();
    request
}

/// The bound request as it is read, with the proof's own action, whose text is unknown.
fn bound_with_its_action() -> VerificationRequest {
    let named = vector(include_str!("../../vectors/v4_uniqueness_bound_to_session.json"))["named"].clone();
    let mut read = VerificationRequest::read(&bound()).expect("a request");
    let Proofs::Uniqueness { items, .. } = &mut read.proofs else { panic!("uniqueness") };
    items[0].action = value(&named["action"]);
    read
}

fn any_request() -> BoxedStrategy<Value> {
    let with_more = |mut request: Value| {
        let item = request["responses"][0].clone();
        request["responses"] = vec![item; 3].into();
        request
    };
    let requests = vec![legacy(), session(), uniqueness(), bound(), with_more(legacy()), with_more(session())];
    prop::sample::select(requests).boxed()
}

/// `0x` and hex digits, or decimal digits, of any length. A number with more than 256 bits is read
/// as the greatest number.
fn number(text: &str) -> Option<U256> {
    let digits: Vec<char> = text.chars().collect();
    match &digits[..] {
        ['0', 'x', digits @ ..] => up_to_256_bits(digits, 16),
        digits => up_to_256_bits(digits, 10),
    }
}

fn up_to_256_bits(digits: &[char], radix: u32) -> Option<U256> {
    let are_digits = !digits.is_empty() && digits.iter().all(|digit| digit.is_digit(radix));
    are_digits.then(|| number_of_digits(digits, radix, 256).unwrap_or(U256::MAX))
}

/// Hex digits with or without `0x`, at most 64.
fn hex(text: &str) -> Option<U256> {
    let digits: Vec<char> = text.strip_prefix("0x").unwrap_or(text).chars().collect();
    (digits.len() <= 64).then(|| up_to_256_bits(&digits, 16)).flatten()
}

/// Checks that a request is rejected with the path of a field and a short message, or has
/// everything that a request must have.
fn check_judgement(request: &Value) -> Result<Option<VerificationRequest>, TestCaseError> {
    let length = request.to_string().len();
    let read = match check_memory_in_proportion(length, || VerificationRequest::read(request))? {
        Ok(read) => read,
        Err(error) => {
            prop_assert!(error.detail.chars().count() < 800, "{}", error);
            prop_assert_eq!(error.attribute.is_some(), request.is_object());
            return Ok(None);
        }
    };
    let named = read.proofs.identifiers_and_nullifiers();
    prop_assert!((1..=MOST_RESPONSES).contains(&named.len()));
    let texts = named.iter().map(|(identifier, _)| *identifier).chain(read.proofs.action());
    prop_assert!(texts.into_iter().all(|text| text.len() <= LONGEST_TEXT));
    prop_assert_eq!(read.user_presence_completed, request["user_presence_completed"] == json!(true));
    let items = request["responses"].as_array().expect("a list");
    for ((_, nullifier), item) in named.iter().zip(items) {
        let text = item["nullifier"].as_str().or(item["session_nullifier"][0].as_str()).unwrap_or_default();
        let value = if matches!(read.proofs, Proofs::Legacy { .. }) { hex(text) } else { number(text) };
        prop_assert_eq!(Some(nullifier.0), value);
    }
    match &read.proofs {
        Proofs::Legacy { action, items } => {
            prop_assert!(!action.is_empty() && request["protocol_version"] == "3.0");
            prop_assert!(items.iter().all(|item| MAX_AGE.contains(&item.max_age)));
        }
        Proofs::Uniqueness { action, items, .. } => {
            prop_assert!(!action.is_empty() && items.iter().all(|item| item.action == hash_text(action)));
            let session_id = read.proofs.session_id();
            prop_assert_eq!(session_id.map(|id| id.text.as_str()), request["session_id"].as_str());
            prop_assert!(
                session_id.is_none_or(|id| id.commitment < modulus() && request["proof_type"] == "uniqueness")
            );
        }
        Proofs::Session { session_id, .. } => {
            prop_assert_eq!(Some(session_id.text.as_str()), request["session_id"].as_str());
            prop_assert!(session_id.commitment < modulus());
        }
    }
    Ok(Some(read))
}

/// Roots that trust every root.
struct AllRootsTrusted;

impl TrustedData for AllRootsTrusted {
    type Error = Infallible;
    fn legacy(
        &self,
        _: Environment,
        _: LegacyIdentifier,
        _: Root,
    ) -> Result<Result<RootAge, UntrustedRoot>, Infallible> {
        Ok(Ok(RootAge::Newest))
    }
    fn group(&self, _: GroupId, _: Environment, _: Root) -> Result<Option<RootAge>, Infallible> {
        Ok(Some(RootAge::Newest))
    }
    fn roll(&self, _: GroupId, _: &RollName) -> Result<Option<Root>, Infallible> {
        Ok(None)
    }
    fn is_current(&self, _: Environment, _: Root) -> Result<bool, Infallible> {
        Ok(true)
    }
    fn issuer_key(&self, _: Environment, _: u64) -> Result<Option<PublicKey>, Infallible> {
        Ok(None)
    }
}

/// The relying parties of the recorded proofs, in both environments.
fn directory() -> &'static Directory {
    static DIRECTORY: OnceLock<Directory> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let named = &vector(include_str!("../../vectors/v4_session.json"))["named"];
        let key = |name: &str| {
            let [x, y] = ["x", "y"].map(|axis| value(&named[format!("{name}_pubkey_{axis}")]));
            PublicKey::from_coordinates(&x, &y).expect("a key")
        };
        let relying_party = |app_id: &str, rp_id: RelyingPartyId| RelyingParty {
            rp_id,
            app_id: app_id.to_owned(),
            name: "Example".to_owned(),
            integration_url: None,
            is_active: true,
            has_active_application: true,
            environments: Environment::ALL.to_vec(),
            accept_legacy: true,
            only_configured_actions: false,
            accepted_identifiers: None,
            require_integrity: false,
            oprf_public_key: Some(key("oprf")),
            follows_oprf_key_in: Vec::new(),
            signing: None,
            secrets: Vec::new(),
        };
        let issuer = Issuer {
            id: 1,
            identifiers: vec!["proof_of_human".to_owned()],
            environments: Environment::ALL.to_vec(),
            public_key: Some(key("issuer")),
        };
        let parties = [
            relying_party(APP, RelyingPartyId::derived_from(APP)),
            relying_party("app_session", RELYING_PARTY.parse().expect("an id")),
        ];
        let keys = Environment::ALL.into_iter().flat_map(|place| ProofKind::ALL.map(|kind| (place, kind)));
        Directory::new(parties, [], [issuer], keys)
    })
}

/// The numbers that an item's proof covers. Numbers that the service decides are not included: the
/// relying party, the environment, and the age of a root.
fn statements(request: &VerificationRequest) -> Vec<Vec<U256>> {
    let current = |nonce: U256, session: U256, item: &CurrentItem| {
        vec![
            nonce,
            session,
            item.nullifier.0,
            item.action,
            item.signal_hash,
            item.root.widen(),
            U256::from(item.issuer_schema_id),
            item.expires_at_min.widen(),
            item.credential_genesis_issued_at_min.unwrap_or_default().widen(),
        ]
    };
    match &request.proofs {
        Proofs::Legacy { action, items } => items
            .iter()
            .map(|item| vec![hash_text(action), item.merkle_root.widen(), item.nullifier.0, item.signal_hash])
            .collect(),
        Proofs::Uniqueness { nonce, items, .. } | Proofs::Session { nonce, items, .. } => {
            let session = request.proofs.session_id().map_or(U256::ZERO, |session_id| session_id.commitment);
            items.iter().map(|item| current(*nonce, session, item)).collect()
        }
    }
}

/// Replaces the number at a place that current items of all types have.
fn change_current(item: &mut CurrentItem, place: usize, number: U256) {
    let small = u64::try_from(number >> 192).expect("64 bits");
    match place {
        2 => item.nullifier = Nullifier(number),
        4 => item.signal_hash = number,
        5 => item.root = Root::from_number(number),
        6 => item.issuer_schema_id = small,
        7 => item.expires_at_min = UnixSeconds(NOW.saturating_add(small)),
        _ => item.credential_genesis_issued_at_min = Some(UnixSeconds(small)),
    }
}

/// Returns which of a request's proofs hold.
fn proofs_that_hold(request: &VerificationRequest) -> Result<Vec<bool>, TestCaseError> {
    static KEYS: OnceLock<[PreparedKey; 2]> = OnceLock::new();
    let [legacy, current] =
        KEYS.get_or_init(|| [VerificationKey::legacy(), VerificationKey::current()].map(PreparedKey::new));
    let (path, key) = match request.proofs.kind() {
        ProofKind::Legacy => (APP, legacy),
        ProofKind::Current => (RELYING_PARTY, current),
    };
    let directory = directory();
    let admitted = match directory.admit(path, request) {
        Ok(admitted) => admitted,
        // These relying parties have no obstacle to admission.
        Err(error) => return Err(TestCaseError::fail(error.to_string())),
    };
    let Ok(items) = check_items(&request.proofs, &admitted, directory, &AllRootsTrusted, UnixSeconds(NOW));
    let holds = |claim: EncodedClaim| claim.decode().is_ok_and(|claim| key.holds(&claim) == Ok(true));
    Ok(items.into_iter().map(|item| item.is_ok_and(holds)).collect())
}

/// The recorded requests with their original values hold.
#[test]
fn recorded_requests_hold_with_their_own_values() {
    for (request, expected) in [(legacy(), true), (session(), true), (uniqueness(), false), (bound(), false)] {
        let read = VerificationRequest::read(&request).expect("a request");
        assert_eq!(proofs_that_hold(&read).expect("admitted"), [expected]);
    }
    assert_eq!(proofs_that_hold(&bound_with_its_action()).expect("admitted"), [true]);
}

proptest! {
    #![proptest_config(cases())]

    /// Any JSON is rejected or is a complete request.
    #[test]
    fn any_json_is_rejected_or_a_complete_request(request in any_json()) {
        prop_assert!(check_judgement(&request)?.is_none());
    }

    /// A valid request after hostile changes is rejected or complete, and only those of its proofs
    /// hold whose statements did not change.
    #[test]
    fn a_hostile_request_proves_nothing_else(request in any_request(), json_damage in any_json_damage()) {
        let text = json_damage.apply(&request);
        let Ok(changed) = check_memory_in_proportion(text.len(), || from_object::<Value>(&text))? else { return Ok(()) };
        let Some(changed) = check_judgement(&changed)? else { return Ok(()) };
        let recorded: Vec<Vec<U256>> = [legacy(), session()]
            .iter()
            .flat_map(|request| statements(&VerificationRequest::read(request).expect("a request")))
            .collect();
        for (holds, statement) in proofs_that_hold(&changed)?.into_iter().zip(statements(&changed)) {
            prop_assert!(!holds || recorded.contains(&statement));
        }
    }

    /// A request has one to sixteen responses, and texts of at most 2048 bytes.
    #[test]
    fn requests_have_bounded_responses_and_texts(is_current: bool, count in 0..40usize, length in prop_oneof![0..10usize, 2040..2060usize]) {
        let mut request = if is_current { uniqueness() } else { legacy() };
        request["responses"] = vec![request["responses"][0].clone(); count].into();
        request["action"] = json!("a".repeat(length));
        request["action_description"] = json!("é".repeat(length / 2));
        let is_bounded = (1..=16).contains(&count) && (1..=2048).contains(&length);
        prop_assert_eq!(check_judgement(&request)?.is_some(), is_bounded);
    }

    /// A recorded proof with another number in one position does not hold.
    #[test]
    fn a_proof_with_another_number_does_not_hold(which in 0..3usize, place in 0..9usize, number in any_number()) {
        let mut read = match which {
            0 => VerificationRequest::read(&legacy()).expect("a request"),
            1 => VerificationRequest::read(&session()).expect("a request"),
            _ => bound_with_its_action(),
        };
        let before = statements(&read);
        match &mut read.proofs {
            Proofs::Legacy { action, items } => match place {
                0..3 => items[0].merkle_root = Root::from_number(number),
                3..5 => items[0].nullifier = Nullifier(number),
                5..7 => items[0].signal_hash = number,
                _ => *action = number.to_string(),
            },
            Proofs::Session { session_id, nonce, items } => match place {
                0 => session_id.commitment = number,
                1 => *nonce = number,
                3 => items[0].action = U256::from(2) << 248 | number >> 8,
                _ => change_current(&mut items[0], place, number),
            },
            Proofs::Uniqueness { session_id, nonce, items, .. } => match (place, session_id) {
                // Odd numbers take the session away.
                (0, session_id) if number.bit(0) => *session_id = None,
                (0, Some(session_id)) => session_id.commitment = number,
                (1, _) => *nonce = number,
                (3, _) => items[0].action = number >> 8,
                _ => change_current(&mut items[0], place, number),
            },
        }
        let is_the_same = statements(&read) == before;
        prop_assert_eq!(proofs_that_hold(&read)?, [is_the_same]);
    }

    /// Numbers of a request are `0x` and hex digits, or decimal digits. Numbers that are too large
    /// have a valid form and fail later.
    #[test]
    fn numbers_of_current_requests_are_hex_or_decimal(text in with_changed_characters(any_literal())) {
        let mut request = uniqueness();
        request["nonce"] = json!(text);
        let nonce = match VerificationRequest::read(&request).map(|request| request.proofs) {
            Ok(Proofs::Uniqueness { nonce, .. }) => Some(nonce),
            _ => None,
        };
        prop_assert_eq!(nonce, number(&text));

        let mut request = uniqueness();
        for name in ["nullifier", "issuer_schema_id", "signal_hash"] {
            request["responses"][0][name] = json!(text);
        }
        request["responses"][0]["proof"] = vec![json!(text); 5].into();
        if number(&text) == Some(U256::from(SELFIE_CHECK)) {
            // The only issuer whose proofs come with a score.
            request["responses"][0]["sybil_score"] = json!(0);
        }
        let found = match VerificationRequest::read(&request).map(|request| request.proofs) {
            Ok(Proofs::Uniqueness { items, .. }) => Some(items[0].clone()),
            _ => None,
        };
        // A nullifier has no more digits than a number of 256 bits.
        let is_short = text.len() <= if text.starts_with("0x") { 66 } else { 78 };
        let expected = number(&text).filter(|_| is_short);
        prop_assert_eq!(found.is_some(), expected.is_some_and(|number| number <= U256::from(u64::MAX)));
        if let (Some(item), Some(number)) = (found, expected) {
            prop_assert_eq!(item.proof.map(|word| word == number), [true; 4]);
            prop_assert_eq!((item.nullifier.0, item.signal_hash, item.root.to_number()), (number, number, number));
            prop_assert_eq!(U256::from(item.issuer_schema_id), number);
        }
    }

    /// Numbers of a legacy request are at most 64 hex digits; its signal hash has them in lower
    /// case after `0x`.
    #[test]
    fn numbers_of_legacy_requests_are_at_most_64_hex_digits(
        text in prop_oneof![with_changed_characters(any_literal()), "(0x|0X)?[0-9a-f]{62,66}".boxed(), "(0x)?[0-9a-fA-F]{0,66}".boxed()],
    ) {
        let item = |name: &str| {
            let mut request = legacy();
            request["responses"][0][name] = json!(text);
            match VerificationRequest::read(&request).map(|request| request.proofs) {
                Ok(Proofs::Legacy { items, .. }) => Some(items[0].clone()),
                _ => None,
            }
        };
        prop_assert_eq!(item("merkle_root").map(|item| item.merkle_root.to_number()), hex(&text));
        prop_assert_eq!(item("nullifier").map(|item| item.nullifier.0), hex(&text));
        let is_lower_case = text.starts_with("0x") && !text.contains(|c: char| c.is_ascii_uppercase());
        prop_assert_eq!(item("signal_hash").map(|item| item.signal_hash), hex(&text).filter(|_| is_lower_case));
    }

    /// The eight words of a legacy proof are read from both of their spellings. A changed spelling
    /// does not give other words.
    #[test]
    fn words_of_legacy_proofs_have_two_spellings(
        words in any::<[[u64; 4]; 8]>(),
        replacement in with_changed_characters(Just("proof".to_owned())),
        at in 0..600usize,
    ) {
        let words = words.map(U256::from_limbs);
        let read = |text: &str| {
            let mut request = legacy();
            request["responses"][0]["proof"] = json!(text);
            match VerificationRequest::read(&request).map(|request| request.proofs) {
                Ok(Proofs::Legacy { items, .. }) => Some(items[0].proof),
                _ => None,
            }
        };
        let packed = format!("0x{}", words.map(|word| format!("{word:064x}")).concat());
        let [a0, a1, b0, b1, b2, b3, c0, c1] = words.map(|word| word.to_string());
        let nested = json!([[a0, a1], [[b0, b1], [b2, b3]], [c0, c1]]).to_string();
        prop_assert_eq!((read(&packed), read(&nested)), (Some(words), Some(words)));
        let replacement = replacement.chars().next().unwrap_or('0');
        for text in [packed, nested] {
            let mut characters: Vec<char> = text.chars().collect();
            let at = at % characters.len();
            characters[at] = replacement;
            let changed = String::from_iter(characters);
            if let Some(found) = read(&changed) {
                let differing = words.iter().zip(found).filter(|(word, found)| *word != found).count();
                prop_assert!(differing <= 1 && (differing == 0 || replacement.is_ascii_hexdigit()));
            }
            let longer = format!("{text}0");
            prop_assert!(read(&longer).is_none());
        }
    }

    /// A session id is `session_` and two numbers of 64 digits below the modulus; the second number
    /// begins with 01. A bound proof of uniqueness has the same ids as a session proof.
    #[test]
    fn session_ids_have_two_numbers_below_the_modulus(
        is_bound: bool,
        text in prop_oneof![
            with_changed_characters("session_0[0-9a-f]{63}01[0-9a-fA-F]{62}").boxed(),
            with_changed_characters("session_[0-9a-f]{128}").boxed(),
            any_literal().boxed(),
        ],
    ) {
        let mut request = if is_bound { bound() } else { session() };
        request["session_id"] = json!(text);
        let digits: Option<Vec<char>> = text.strip_prefix("session_").map(|digits| digits.chars().collect());
        let halves = digits.filter(|digits| digits.len() == 128).and_then(|digits| {
            let number = |digits| number_of_digits(digits, 16, 256).filter(|number| *number < modulus());
            Some((number(&digits[..64])?, number(&digits[64..])?))
        });
        let expected = halves.filter(|(_, seed)| *seed >> 248 == U256::from(1)).map(|(commitment, _)| commitment);
        let read = VerificationRequest::read(&request);
        let found = read.ok().and_then(|request| Some(request.proofs.session_id()?.commitment));
        prop_assert_eq!(found, expected);
    }

    /// Any path names an existing relying party or is rejected.
    #[test]
    fn a_path_names_an_existing_relying_party_or_is_rejected(
        path in prop_oneof![
            any_text().boxed(),
            any_literal().boxed(),
            with_changed_characters(prop::sample::select(vec![APP, RELYING_PARTY, "app_session"]).prop_map(str::to_owned)).boxed()
        ],
    ) {
        match directory().relying_party(&path) {
            Ok(relying_party) => prop_assert!(relying_party.app_id == path || relying_party.rp_id.to_string() == path.to_ascii_lowercase()),
            Err(AdmissionError::UnknownRelyingParty { .. }) => {
                prop_assert!(path.starts_with("app_") || path.parse::<RelyingPartyId>().is_ok())
            }
            Err(error) => {
                prop_assert!(path.parse::<RelyingPartyId>().is_err() && !path.starts_with("app_"));
                prop_assert!(error.to_string().chars().count() < 1200);
            }
        }
    }

    /// The default of a legacy signal hash is the hash of the empty signal, and the hash of any
    /// text can be given.
    #[test]
    fn a_signal_hash_is_the_default_or_the_stated_hash(text in any_text()) {
        let mut request = legacy();
        request["responses"][0]["signal_hash"] = json!(format!("{:#066x}", hash_text(&text)));
        let read = VerificationRequest::read(&request).expect("a hash");
        prop_assert_eq!(statements(&read)[0][3], hash_text(&text));
        request["responses"][0]["signal_hash"] = Value::Null;
        let read = VerificationRequest::read(&request).expect("the default");
        prop_assert_eq!(statements(&read)[0][3], hash_to_field(b""));
    }
}
