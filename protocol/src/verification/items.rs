//! The checks of an item before the pairing check: its numbers, root, issuer and time. An item that
//! passes them becomes an [`EncodedClaim`], which decoding the proof and the pairing check decide.

use std::sync::Arc;

use ark_bn254::Fr;

use super::directory::{Admitted, Directory, Issuer, OtherCredential, ScoreBounds};
use super::fields::quote;
use super::identity::{Environment, LegacyCredential, LegacyIdentifier, ProofKind, external_nullifier};
use super::request::{CurrentItem, LegacyItem, Proofs};
use super::roots::{RootAge, UntrustedRoot};
use crate::U256;
use crate::commitment::PublicKey;
use crate::groth16::{EncodedClaim, ProofError, ProofWords};
use crate::groups::names::{GroupId, RollName};
use crate::ids::Nullifier;
use crate::time::UnixSeconds;
use crate::tree::{DEPTH, Root, field_element};

/// How long before now a current proof's `expires_at_min` may be, in seconds, inclusive.
pub const EXPIRATION_TOLERANCE: u64 = 18_000;

/// The code of a legacy proof that holds in the application's other environment: of its result, and
/// of the answer.
pub const OTHER_ENVIRONMENT: &str = "environment_mismatch";

/// How long the public system takes to publish a root after a credential was issued, in minutes.
const MINING_MINUTES: u64 = 60;

/// The most significant byte of a session's action; that of a hashed action is 0.
const SESSION_PREFIX: u8 = 2;

/// The roots that proofs can be made against, and the keys that are not configured.
pub trait TrustedData {
    /// Why the data cannot be read now.
    type Error;
    /// The age of a legacy root that is trusted for a credential.
    fn legacy(
        &self,
        environment: Environment,
        identifier: LegacyIdentifier,
        root: Root,
    ) -> Result<Result<RootAge, UntrustedRoot>, Self::Error>;
    /// The age of a live root of a group; `None` when it is not live.
    fn group(&self, group: GroupId, environment: Environment, root: Root) -> Result<Option<RootAge>, Self::Error>;
    /// The root of a roll of a group; `None` when the roll is not taken.
    fn roll(&self, group: GroupId, roll: &RollName) -> Result<Option<Root>, Self::Error>;
    /// Whether a current root is valid.
    fn is_current(&self, environment: Environment, root: Root) -> Result<bool, Self::Error>;
    /// The key of an issuer whose key the configuration leaves to a chain; `None` when the chain
    /// has none.
    fn issuer_key(&self, environment: Environment, issuer_schema_id: u64) -> Result<Option<PublicKey>, Self::Error>;
}

/// Makes [`ItemCode`] from the one table of the codes and their names.
macro_rules! item_codes {
    ($($(#[$description:meta])+ $code:ident = $name:expr,)+) => {
        /// The code of an item's failure, as the verification interface answers it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ItemCode {
            $($(#[$description])+ $code,)+
        }

        impl ItemCode {
            /// Every code, in the order of their numbers.
            pub const ALL: [Self; [$(Self::$code),+].len()] = [$(Self::$code),+];

            /// The code in answers and metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)+
                }
            }
        }
    };
}

item_codes! {
    /// The application or the action does not accept the credential.
    IdentifierNotAccepted = "identifier_not_accepted",
    /// The score of Selfie Check is not one that the action takes.
    ScoreNotAccepted = "sybil_score_not_accepted",
    /// A number of a legacy item is too large.
    InvalidFormat = "invalid_format",
    /// The legacy root is unknown, or that of another credential.
    InvalidMerkleRoot = "invalid_merkle_root",
    /// The legacy root was replaced too long ago.
    RootTooOld = "root_too_old",
    /// A number of a current item is not accepted.
    InvalidPublicInput = "invalid_public_input",
    /// The action is not one of a session.
    InvalidAction = "invalid_action",
    /// The current root is unknown.
    InvalidRoot = "invalid_root",
    /// The issuer is unknown, or of another credential.
    InvalidCredentialIssuer = "invalid_credential_issuer",
    /// The item has expired.
    OutdatedNullifier = "outdated_nullifier",
    /// The proof holds in the other environment.
    OtherEnvironment = OTHER_ENVIRONMENT,
    /// The proof does not decode, or does not hold.
    InvalidProof = "invalid_proof",
}

/// Why an item failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// The application or the action does not accept the item's credential.
    #[error("{restricted_by} accepts {accepted}, not {given}; ask for a proof of an accepted credential")]
    IdentifierNotAccepted {
        /// The entry that does not accept it: `application` and its id, or `action` and its text in
        /// quotes.
        restricted_by: String,
        /// The identifiers that it accepts, joined with ` or `.
        accepted: String,
        /// The item's identifier in quotes, cut to 80 characters.
        given: String,
    },
    /// The action does not accept the item's score.
    #[error("the action takes scores {accepted}, not {given}")]
    ScoreNotAccepted {
        /// The scores that it accepts.
        accepted: ScoreBounds,
        /// The item's score.
        given: u64,
    },
    /// A number of a legacy item is not below the modulus of BN254's scalar field.
    #[error("{field} is not below the modulus of the scalar field; send the number as the wallet made it")]
    LegacyNumber {
        /// The field of the item, or `external nullifier`.
        field: &'static str,
    },
    /// The words of a legacy proof are not the points of a proof.
    #[error("proof does not decode, {0}; send the proof as the wallet made it")]
    LegacyProof(ProofError),
    /// The legacy root is not trusted in this environment.
    #[error("merkle_root is not a known root of {environment}; ask for a new proof", environment = .0.name())]
    UnknownLegacyRoot(Environment),
    /// The contract that publishes the roots of the credential's tree has not published the root,
    /// or longer ago than roots are kept.
    #[error(
        "merkle_root is not a root that {source_name} published lately; if the credential is new, its root may be published within {MINING_MINUTES} minutes: try again then, otherwise ask for a new proof"
    )]
    UnpublishedRoot {
        /// The contract's name.
        source_name: Arc<str>,
    },
    /// The legacy root is trusted in this environment, for other credentials.
    #[error(
        "merkle_root is a root of {expected}, not of {given}; identifier must name the credential that the proof is for",
        expected = LegacyIdentifier::names(expected), given = given.name()
    )]
    RootOfOtherCredential {
        /// The credentials that the root is trusted for.
        expected: Vec<LegacyIdentifier>,
        /// The credential that the item names.
        given: LegacyIdentifier,
    },
    /// The root is not a live one of the group.
    #[error(
        "merkle_root is not a live root of the group {0}; ask for a new proof; the member may have been removed or \
         replaced"
    )]
    NotLiveInGroup(GroupId),
    /// The root is not that of the roll that the action counts.
    #[error(
        "merkle_root is not the root of roll {roll} of the group {group}, which alone counts for the action; ask for a \
         proof with the leaf that the member had when the roll was taken"
    )]
    NotTheRoll {
        /// The group.
        group: GroupId,
        /// The roll.
        roll: RollName,
    },
    /// The action counts a roll that was not taken, or that was removed.
    #[error("roll {roll} of the group {group}, which alone counts for the action, is not taken; ask again when it is")]
    RollNotTaken {
        /// The group.
        group: GroupId,
        /// The roll.
        roll: RollName,
    },
    /// The legacy root was replaced longer ago than the item allows.
    #[error("merkle_root was replaced {age} seconds ago, max_age allows {max_age}; ask for a new proof")]
    RootTooOld {
        /// Seconds since the root was replaced.
        age: u64,
        /// The greatest age that the item allows, in seconds, inclusive.
        max_age: u64,
    },
    /// A number of a current item is not below the modulus of BN254's scalar field, or the
    /// session's commitment is 0.
    #[error("{field} is {problem}")]
    CurrentNumber {
        /// The number: its path in the item or the request, such as `proof[4]`. For a value that
        /// the daemon adds it is `a public input`.
        field: &'static str,
        /// What is wrong, as the end of a sentence that begins with the field.
        problem: &'static str,
    },
    /// The most significant byte of a session item's action, a number of 32 bytes, is not 2.
    #[error("session_nullifier[1] does not begin with byte 02; it is not the action of a session")]
    NotASessionAction,
    /// The root of a current proof is not valid (`docs/interfaces/proofs.md`, "Roots").
    #[error(
        "the root in proof[4] is not the newest and was not replaced within the validity window; ask for a new proof"
    )]
    UnknownCurrentRoot,
    /// No issuer of the environment has the item's issuer schema id.
    #[error("issuer_schema_id {id} is not a registered issuer of {environment}", environment = .environment.name())]
    UnknownIssuer {
        /// The issuer schema id that the item names.
        id: u64,
        /// The environment of the request.
        environment: Environment,
    },
    /// The contract that the issuer's key is followed from has no key of it.
    #[error("issuer {id} of {environment} has no key: it is not registered on the chain, or was removed", environment = .environment.name())]
    IssuerWithoutKey {
        /// The issuer schema id that the item names.
        id: u64,
        /// The environment of the request.
        environment: Environment,
    },
    /// The item's identifier is not one of the issuer's.
    #[error("issuer {id} issues {expected}, not {given}; identifier and issuer_schema_id must belong together")]
    OtherIdentifier {
        /// The issuer schema id that the item names.
        id: u64,
        /// The identifiers of the issuer, joined with ` or `.
        expected: String,
        /// The item's identifier in quotes, cut to 80 characters.
        given: String,
    },
    /// `expires_at_min` is more than [`EXPIRATION_TOLERANCE`] seconds ago.
    #[error("expires_at_min {expires_at_min} is more than {EXPIRATION_TOLERANCE} seconds ago; ask for a new proof")]
    Expired {
        /// The time that the item names.
        expires_at_min: UnixSeconds,
    },
    /// The words of a current proof are not the points of a proof.
    #[error("proof does not decode, {0}; send the proof as the wallet made it")]
    CurrentProof(ProofError),
    /// The item names an earlier time of the credential's first issue than the action takes.
    #[error(
        "credential_genesis_issued_at_min {given} is before {least}, the genesis_issued_at_min of the action; ask for a proof with the action's bound"
    )]
    IssuedTooEarly {
        /// The time that the item names.
        given: UnixSeconds,
        /// The action's bound.
        least: UnixSeconds,
    },
    /// The proof holds in the application's other environment.
    #[error(
        "the proof is one of {holds_in}, the request names {given}; send environment {holds_in:?}, or ask for a proof of {given}",
        holds_in = holds_in.name()
    )]
    OtherEnvironment {
        /// The environment in which the proof holds.
        holds_in: Environment,
        /// The environment as the request names it.
        given: &'static str,
    },
    /// The pairing check failed: the proof is not one for these public inputs.
    #[error(
        "the proof does not hold for these inputs; check that app, action, signal, nonce and environment are those it was made for"
    )]
    DoesNotHold,
}

impl ItemError {
    /// Whether the item failed because its root is unknown, which can change at any time.
    pub fn is_unknown_root(&self) -> bool {
        let is_public =
            matches!(self, Self::UnknownLegacyRoot(_) | Self::UnpublishedRoot { .. } | Self::UnknownCurrentRoot);
        is_public || matches!(self, Self::NotLiveInGroup(_) | Self::NotTheRoll { .. } | Self::RollNotTaken { .. })
    }

    /// The failure of an item whose proof does not decode.
    pub fn of_proof(kind: ProofKind, error: ProofError) -> Self {
        match kind {
            ProofKind::Legacy => Self::LegacyProof(error),
            ProofKind::Current => Self::CurrentProof(error),
        }
    }

    /// The code in the item's result.
    pub fn code(&self) -> ItemCode {
        match self {
            Self::IdentifierNotAccepted { .. } => ItemCode::IdentifierNotAccepted,
            Self::ScoreNotAccepted { .. } => ItemCode::ScoreNotAccepted,
            Self::LegacyNumber { .. } => ItemCode::InvalidFormat,
            Self::UnknownLegacyRoot(_) | Self::UnpublishedRoot { .. } | Self::RootOfOtherCredential { .. } => {
                ItemCode::InvalidMerkleRoot
            }
            Self::NotLiveInGroup(_) | Self::NotTheRoll { .. } | Self::RollNotTaken { .. } => {
                ItemCode::InvalidMerkleRoot
            }
            Self::RootTooOld { .. } => ItemCode::RootTooOld,
            Self::CurrentNumber { .. } | Self::IssuedTooEarly { .. } => ItemCode::InvalidPublicInput,
            Self::NotASessionAction => ItemCode::InvalidAction,
            Self::UnknownCurrentRoot => ItemCode::InvalidRoot,
            Self::UnknownIssuer { .. } | Self::IssuerWithoutKey { .. } | Self::OtherIdentifier { .. } => {
                ItemCode::InvalidCredentialIssuer
            }
            Self::Expired { .. } => ItemCode::OutdatedNullifier,
            Self::OtherEnvironment { .. } => ItemCode::OtherEnvironment,
            Self::LegacyProof(_) | Self::CurrentProof(_) | Self::DoesNotHold => ItemCode::InvalidProof,
        }
    }

    /// The field of the request that the item failed for, where it is not one of the item.
    pub fn attribute(&self) -> Option<&'static str> {
        matches!(self, Self::OtherEnvironment { .. }).then_some("environment")
    }
}

/// Checks every item of an admitted request. The results are in the items' order. The proofs of the
/// claims are not decoded: the caller decodes those of several requests together, and an item whose
/// proof does not decode fails with [`ItemError::of_proof`].
///
/// # Errors
/// When the roots could not be read.
pub fn check_items<Data: TrustedData>(
    proofs: &Proofs,
    admitted: &Admitted,
    directory: &Directory,
    trusted: &Data,
    now: UnixSeconds,
) -> Result<Vec<Result<EncodedClaim, ItemError>>, Data::Error> {
    match proofs {
        Proofs::Legacy { action, items } => {
            let external_nullifier = external_nullifier(&admitted.relying_party.app_id, action);
            items.iter().map(|item| check_legacy(item, external_nullifier, admitted, directory, trusted)).collect()
        }
        Proofs::Uniqueness { nonce, items, .. } | Proofs::Session { nonce, items, .. } => {
            let session = proofs.session_id().map(|session_id| session_id.commitment);
            let is_uniqueness = matches!(proofs, Proofs::Uniqueness { .. });
            let checker = CurrentChecker { admitted, directory, trusted, now, nonce: *nonce, session, is_uniqueness };
            items.iter().map(|item| checker.check(item)).collect()
        }
    }
}

/// Checks a legacy item. The claim has the public inputs in the circuit's order: root, nullifier,
/// signal hash, external nullifier. A proof that does not decode is reported before a root that is
/// not trusted, so where the root fails, the proof is decoded here.
fn check_legacy<Data: TrustedData>(
    item: &LegacyItem,
    external_nullifier: U256,
    admitted: &Admitted,
    directory: &Directory,
    trusted: &Data,
) -> Result<Result<EncodedClaim, ItemError>, Data::Error> {
    let environment = admitted.environment;
    let group = directory.group_of(environment, item.identifier);
    let accepted = match group {
        Some(group) => check_group(admitted, item.identifier, group, directory),
        None => check_identifier(admitted, item.identifier.name()),
    };
    let claim = match accepted.and_then(|()| legacy_claim(item, external_nullifier)) {
        Ok(claim) => claim,
        Err(failure) => return Ok(Err(failure)),
    };
    let roll = admitted.action.as_ref().and_then(|action| action.roll.as_ref());
    let checked = match (group, roll, item.identifier) {
        (Some(group), Some(roll), _) => check_roll(item, group, roll, trusted.roll(group, roll)?),
        (Some(group), None, _) => check_live_root(item, group, trusted.group(group, environment, item.merkle_root)?),
        (None, None, LegacyCredential::Public(identifier)) => {
            check_root_age(item, environment, identifier, trusted.legacy(environment, identifier, item.merkle_root)?)
        }
        // A group's id in another environment, or an action whose group is not configured any more.
        (None, ..) => Err(ItemError::UnknownLegacyRoot(environment)),
    };
    Ok(match checked {
        Ok(()) => Ok(claim),
        Err(failure) => Err(claim.decode().err().map_or(failure, ItemError::LegacyProof)),
    })
}

/// The claim of a legacy item, before its root is looked up.
fn legacy_claim(item: &LegacyItem, external_nullifier: U256) -> Result<EncodedClaim, ItemError> {
    let inputs = [
        ("merkle_root", item.merkle_root.to_number()),
        ("nullifier", item.nullifier.0),
        ("signal_hash", item.signal_hash),
        ("external nullifier", external_nullifier),
    ];
    let inputs: Vec<Fr> = inputs
        .iter()
        .map(|(field, value)| field_element(value).ok_or(ItemError::LegacyNumber { field }))
        .collect::<Result<_, _>>()?;
    Ok(EncodedClaim::new(ProofWords::Legacy(item.proof), inputs))
}

/// Checks the root of a proof for an action that counts a roll: it is the roll's, whatever its age.
fn check_roll(item: &LegacyItem, group: GroupId, roll: &RollName, root: Option<Root>) -> Result<(), ItemError> {
    match root {
        Some(root) if root == item.merkle_root => Ok(()),
        Some(_) => Err(ItemError::NotTheRoll { group, roll: roll.clone() }),
        None => Err(ItemError::RollNotTaken { group, roll: roll.clone() }),
    }
}

fn check_live_root(item: &LegacyItem, group: GroupId, age: Option<RootAge>) -> Result<(), ItemError> {
    check_age(item, age.ok_or(ItemError::NotLiveInGroup(group))?)
}

fn check_root_age(
    item: &LegacyItem,
    environment: Environment,
    identifier: LegacyIdentifier,
    age: Result<RootAge, UntrustedRoot>,
) -> Result<(), ItemError> {
    match age {
        Err(UntrustedRoot::Unknown) => Err(ItemError::UnknownLegacyRoot(environment)),
        Err(UntrustedRoot::Unpublished { source_name }) => Err(ItemError::UnpublishedRoot { source_name }),
        Err(UntrustedRoot::OtherIdentifiers(expected)) => {
            Err(ItemError::RootOfOtherCredential { expected, given: identifier })
        }
        Ok(age) => check_age(item, age),
    }
}

/// Checks that a root is the newest, or was not replaced longer ago than the item allows.
fn check_age(item: &LegacyItem, age: RootAge) -> Result<(), ItemError> {
    match age {
        RootAge::Seconds(age) if age > item.max_age => Err(ItemError::RootTooOld { age, max_age: item.max_age }),
        RootAge::Seconds(_) | RootAge::Newest => Ok(()),
    }
}

/// Checks that the application and the action accept an item's credential.
fn check_identifier(admitted: &Admitted, identifier: &str) -> Result<(), ItemError> {
    admitted.check_identifier(&[identifier], false).map_err(|OtherCredential { restricted_by, accepted }| {
        ItemError::IdentifierNotAccepted { restricted_by, accepted, given: quote(identifier) }
    })
}

/// Checks that the action accepts the score of an item of Selfie Check.
fn check_score(admitted: &Admitted, score: Option<u64>) -> Result<(), ItemError> {
    let (Some(given), Some(action)) = (score, &admitted.action) else { return Ok(()) };
    match action.sybil_scores {
        accepted if accepted.contains(given) => Ok(()),
        accepted => Err(ItemError::ScoreNotAccepted { accepted, given }),
    }
}

/// The same for the credential of a group, of whose names the item gives one.
fn check_group(
    admitted: &Admitted,
    given: LegacyCredential,
    group: GroupId,
    directory: &Directory,
) -> Result<(), ItemError> {
    let names: Vec<&str> = directory.names_of(group).collect();
    admitted.check_identifier(&names, true).map_err(|OtherCredential { restricted_by, accepted }| {
        let given = match given {
            LegacyCredential::Public(identifier) => format!("{:?} of the group {group}", identifier.name()),
            LegacyCredential::Group(_) => quote(group.as_str()),
        };
        ItemError::IdentifierNotAccepted { restricted_by, accepted, given }
    })
}

/// The values that all items of a current request share.
struct CurrentChecker<'a, Data> {
    admitted: &'a Admitted,
    directory: &'a Directory,
    trusted: &'a Data,
    now: UnixSeconds,
    nonce: U256,
    /// The commitment of the session that the proofs belong to or are bound to.
    session: Option<U256>,
    /// Whether they show uniqueness for an action.
    is_uniqueness: bool,
}

impl<Data: TrustedData> CurrentChecker<'_, Data> {
    fn check(&self, item: &CurrentItem) -> Result<Result<EncodedClaim, ItemError>, Data::Error> {
        if let Err(failure) = self.check_numbers(item) {
            return Ok(Err(failure));
        }
        let environment = self.admitted.environment;
        let is_current = self.trusted.is_current(environment, item.root)?;
        let issuer = match self.check_root_and_issuer(item, is_current) {
            Ok(issuer) => issuer,
            Err(failure) => return Ok(Err(failure)),
        };
        let issuer_key = match issuer.public_key {
            Some(key) => Some(key),
            None => self.trusted.issuer_key(environment, issuer.id)?,
        };
        Ok(self.check_state(item, issuer_key))
    }

    /// Checks that every number is below the modulus of the scalar field, and that the action is of
    /// the request's type.
    fn check_numbers(&self, item: &CurrentItem) -> Result<(), ItemError> {
        check_identifier(self.admitted, &item.identifier)?;
        check_score(self.admitted, item.sybil_score)?;
        let (nullifier, action) = match self.is_uniqueness {
            true => ("nullifier", "action"),
            false => ("session_nullifier[0]", "session_nullifier[1]"),
        };
        let numbers = [
            (nullifier, item.nullifier.0),
            (action, item.action),
            ("signal_hash", item.signal_hash),
            ("nonce", self.nonce),
            ("proof[4]", item.root.to_number()),
        ];
        for (field, value) in numbers {
            if field_element(&value).is_none() {
                let problem = "not below the modulus of the scalar field; send the number as the wallet made it";
                return Err(ItemError::CurrentNumber { field, problem });
            }
        }
        if self.session == Some(U256::ZERO) {
            let problem = "zero in its first half, which cannot be a session's commitment";
            return Err(ItemError::CurrentNumber { field: "session_id", problem });
        }
        // The action of a uniqueness request is a hash, which begins with byte 0 by construction.
        if !self.is_uniqueness && item.action.byte(31) != SESSION_PREFIX {
            return Err(ItemError::NotASessionAction);
        }
        Ok(())
    }

    fn check_root_and_issuer(&self, item: &CurrentItem, is_current: bool) -> Result<&Issuer, ItemError> {
        let (id, environment) = (item.issuer_schema_id, self.admitted.environment);
        if !is_current {
            return Err(ItemError::UnknownCurrentRoot);
        }
        let issuer = self.directory.issuer(id, environment).ok_or(ItemError::UnknownIssuer { id, environment })?;
        if !issuer.identifiers.contains(&item.identifier) {
            let (expected, given) = (issuer.identifiers.join(" or "), quote(&item.identifier));
            return Err(ItemError::OtherIdentifier { id, expected, given });
        }
        Ok(issuer)
    }

    /// The bound of the credential's first issue that the proof must have: the item's own, not
    /// before that of the action. The client kit leaves it out of its result, so an item that names
    /// none has the action's.
    fn genesis_bound(&self, item: &CurrentItem) -> Result<UnixSeconds, ItemError> {
        let of_action = self.admitted.action.as_ref().and_then(|action| action.genesis_issued_at_min);
        match (item.credential_genesis_issued_at_min, of_action) {
            (Some(given), Some(least)) if given < least => Err(ItemError::IssuedTooEarly { given, least }),
            (given, of_action) => Ok(given.or(of_action).unwrap_or_default()),
        }
    }

    /// Checks the issuer's key and the time, and makes the claim. `issuer_key` is `None` when the
    /// issuer has no key.
    fn check_state(&self, item: &CurrentItem, issuer_key: Option<PublicKey>) -> Result<EncodedClaim, ItemError> {
        let CurrentItem { issuer_schema_id: id, expires_at_min, .. } = *item;
        let credential_genesis_issued_at_min = self.genesis_bound(item)?;
        let Admitted { relying_party, oprf_public_key, environment, .. } = self.admitted;
        let issuer_key = issuer_key.ok_or(ItemError::IssuerWithoutKey { id, environment: *environment })?;
        if expires_at_min.plus(EXPIRATION_TOLERANCE) < self.now {
            return Err(ItemError::Expired { expires_at_min });
        }
        let words = ProofWords::Current(item.proof);
        let (issuer_x, issuer_y) = issuer_key.coordinates();
        // A current request of a relying party without an OPRF key does not come here.
        let (oprf_x, oprf_y) = oprf_public_key.map(|key| key.coordinates()).unwrap_or_default();
        let inputs = current_inputs(&CurrentInputs {
            nullifier: item.nullifier,
            issuer_schema_id: id,
            issuer_public_key: [issuer_x, issuer_y],
            expires_at_min,
            credential_genesis_issued_at_min,
            root: item.root,
            rp_id: relying_party.rp_id.0,
            action: item.action,
            oprf_public_key: [oprf_x, oprf_y],
            signal_hash: item.signal_hash,
            nonce: self.nonce,
            session_commitment: self.session.unwrap_or_default(),
        });
        let Some(inputs) = inputs else {
            // A proof that does not decode is reported first.
            words.decode().map_err(ItemError::CurrentProof)?;
            let problem = "not below the modulus of the scalar field";
            return Err(ItemError::CurrentNumber { field: "a public input", problem });
        };
        Ok(EncodedClaim::new(words, inputs))
    }
}

/// The values that the public inputs of a current proof are made of.
#[derive(Clone, Copy, Debug)]
pub struct CurrentInputs {
    /// The nullifier that the item names.
    pub nullifier: Nullifier,
    /// The issuer schema id that the item names.
    pub issuer_schema_id: u64,
    /// Affine coordinates (x, y).
    pub issuer_public_key: [U256; 2],
    /// The lower bound that the proof shows for the credential's expiry.
    pub expires_at_min: UnixSeconds,
    /// The lower bound that the proof shows for the time of the credential's first issue; 0 for no
    /// bound.
    pub credential_genesis_issued_at_min: UnixSeconds,
    /// The root of the account tree that the proof was made against.
    pub root: Root,
    /// The number in the relying party's id.
    pub rp_id: u64,
    /// The hash of the request's action, or the action of a session item.
    pub action: U256,
    /// Affine coordinates (x, y).
    pub oprf_public_key: [U256; 2],
    /// The hash of the signal that the proof is bound to.
    pub signal_hash: U256,
    /// The nonce of the request.
    pub nonce: U256,
    /// 0 for uniqueness proofs that are bound to no session.
    pub session_commitment: U256,
}

/// The fifteen public inputs in the circuit's order; `None` when a number is not below the field's
/// modulus.
pub fn current_inputs(of: &CurrentInputs) -> Option<Vec<Fr>> {
    let inputs = [
        of.nullifier.0,
        U256::from(of.issuer_schema_id),
        of.issuer_public_key[0],
        of.issuer_public_key[1],
        U256::from(of.expires_at_min.0),
        U256::from(of.credential_genesis_issued_at_min.0),
        of.root.to_number(),
        U256::from(DEPTH),
        U256::from(of.rp_id),
        of.action,
        of.oprf_public_key[0],
        of.oprf_public_key[1],
        of.signal_hash,
        of.nonce,
        of.session_commitment,
    ];
    inputs.iter().map(field_element).collect()
}
