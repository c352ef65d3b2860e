//! The answer to a request: which credentials to prove, and the object that the client kits read.

use std::collections::BTreeSet;

use selfsame_protocol::U256;
use selfsame_protocol::bridge::request::{AskedItem, BridgeRequest, CurrentAsked, LegacyAsked, Level, Purpose};
use selfsame_protocol::bridge::wire::{Rejection, RejectionCode};
use selfsame_protocol::operator::{SimulatedIssuer, Simulation};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::Environment;
use selfsame_protocol::verification::identity::external_nullifier;
use selfsame_protocol::verification::integrity::SELFIE_CHECK;
use serde_json::{Value, json};

use crate::Random;
use crate::groups::Memberships;
use crate::member::{Member, MemberError};
use crate::person::Person;
use crate::prove::{
    self, CREDENTIAL_EXPIRY, CurrentProof, LegacyProof, ProveError, Session, SimulatedParty, Statement,
};

/// Issuer of selfies. The client kits expect a claim in an answer with this credential: its score.
pub(super) const SELFIE_ISSUER: u64 = SELFIE_CHECK;

/// The credentials that the wallet says it has.
#[derive(Clone, Debug, Default)]
pub struct Credentials(Option<BTreeSet<String>>);

impl Credentials {
    /// Only the credentials with these names, or every credential when there is no name.
    pub fn only(names: Vec<String>) -> Self {
        Self((!names.is_empty()).then(|| names.into_iter().collect()))
    }

    fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.contains(name))
    }

    fn has_level(&self, level: Level) -> bool {
        self.has(level.name()) || self.has(level.credential().name())
    }
}

/// What the wallet answers with.
#[derive(Debug)]
pub enum Choice<'a> {
    /// One legacy proof of this level.
    Legacy {
        /// The level, which may be stronger than the one asked for.
        level: Level,
        /// The hash of the signal.
        signal_hash: U256,
    },
    /// Current proofs.
    Current(CurrentChoice<'a>),
}

/// The current proofs that the wallet answers with.
#[derive(Debug)]
pub struct CurrentChoice<'a> {
    /// The request.
    pub asked: &'a CurrentAsked,
    /// The credentials to prove, in the order of the request.
    pub items: Vec<&'a AskedItem>,
    /// The session that the proofs are in or bound to; `None` for proofs of uniqueness that are
    /// bound to none.
    pub session: Option<Session>,
}

impl Choice<'_> {
    /// Whether one of the proofs is of Selfie Check.
    pub fn is_selfie_check(&self) -> bool {
        match self {
            Self::Legacy { .. } => false,
            Self::Current(choice) => choice.items.iter().any(|item| item.issuer_schema_id == SELFIE_ISSUER),
        }
    }

    /// What is proved, for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Legacy { level, .. } => format!("a legacy proof of {}", level.name()),
            Self::Current(choice) => {
                let names: Vec<_> = choice.items.iter().map(|item| item.identifier.as_str()).collect();
                format!("a current proof of {}", names.join(", "))
            }
        }
    }
}

/// What the choice of an answer depends on, besides the request.
pub struct Chooser<'a> {
    /// The person of the wallet's account, whose sessions these are.
    pub person: &'a Person,
    /// The credentials that the wallet says it has.
    pub credentials: &'a Credentials,
    /// The daemon's simulation; `None` when it has none.
    pub simulation: Option<&'a Simulation>,
    /// The time.
    pub now: UnixSeconds,
    /// Whether the wallet says something about facts that a page asks for.
    pub attests_facts: bool,
}

impl Chooser<'_> {
    /// Chooses what to answer with: current proofs where they are asked for and can be made,
    /// otherwise a legacy proof where one is accepted.
    ///
    /// # Errors
    /// A [`Rejection`] with the code for the application.
    pub fn choose<'a>(&self, request: &'a BridgeRequest, random: &mut Random<'_>) -> Result<Choice<'a>, Rejection> {
        if !self.attests_facts {
            check_attributes(request)?;
        }
        let legacy = request.legacy.as_ref().map(|asked| self.legacy(asked));
        let Some(asked) = &request.current else {
            let reason = "the request asks for a legacy proof, and says that it accepts none";
            return legacy.unwrap_or_else(|| Err(Rejection::new(RejectionCode::NoCurrentProof, reason)));
        };
        if let Some(simulation) = self.simulation {
            check_party(request, asked, simulation)?;
        }
        let current = self.current(request, asked, random);
        match (current, legacy) {
            (Err(_), Some(Ok(legacy))) => Ok(legacy),
            (current, _) => current,
        }
    }

    fn legacy<'a>(&self, asked: &LegacyAsked) -> Result<Choice<'a>, Rejection> {
        let level = asked.level.accepted().iter().copied().find(|level| self.credentials.has_level(*level));
        let missing = || {
            let accepted: Vec<_> = asked.level.accepted().iter().map(|level| level.name()).collect();
            let reason =
                format!("the request asks for a legacy proof of {}, and this wallet has none", accepted.join(" or "));
            Rejection::new(RejectionCode::CredentialUnavailable, reason)
        };
        Ok(Choice::Legacy { level: level.ok_or_else(missing)?, signal_hash: asked.signal_hash })
    }

    fn current<'a>(
        &self,
        request: &BridgeRequest,
        asked: &'a CurrentAsked,
        random: &mut Random<'_>,
    ) -> Result<Choice<'a>, Rejection> {
        if request.environment.environment() == Environment::Production {
            let reason = "the request is for production, and this wallet's current proofs are for staging only; set \
                          `environment` to \"staging\" in the page's client kit";
            return Err(Rejection::new(RejectionCode::InvalidNetwork, reason));
        }
        let not_possible = |reason: String| Rejection::new(RejectionCode::NoCurrentProof, reason);
        let simulation = self.simulation.ok_or_else(|| {
            not_possible("the daemon has no simulator, so that this wallet can make no current proof".to_owned())
        })?;
        let party = simulation.relying_parties.iter().find(|party| party.app_id == request.app_id);
        if party.is_none_or(|party| party.oprf_public_key.is_none()) {
            let error = ProveError::NoOprfKey { app_id: request.app_id.clone() };
            return Err(not_possible(error.to_string()));
        }
        let items = self.items(asked, &simulation.issuers)?;
        let session = match &asked.purpose {
            Purpose::Uniqueness { binds_session: false, .. } => None,
            Purpose::Uniqueness { binds_session: true, .. } | Purpose::NewSession => {
                Some(Session::create(self.person, asked.rp_id, random))
            }
            Purpose::Session { id } => Some(Session::open(self.person, asked.rp_id, id).ok_or_else(|| {
                Rejection::new(RejectionCode::CredentialUnavailable, ProveError::OtherSession { rp_id: asked.rp_id })
            })?),
        };
        Ok(Choice::Current(CurrentChoice { asked, items, session }))
    }

    /// The credentials to prove, in the order of the request.
    fn items<'a>(&self, asked: &'a CurrentAsked, issuers: &[SimulatedIssuer]) -> Result<Vec<&'a AskedItem>, Rejection> {
        let is_issued = |item: &AskedItem| {
            issuers
                .iter()
                .any(|issuer| issuer.id == item.issuer_schema_id && issuer.identifiers.contains(&item.identifier))
        };
        let is_available = |item: &AskedItem| {
            let in_time = item.expires_at_min <= CREDENTIAL_EXPIRY && item.genesis_issued_at_min <= self.now;
            in_time && is_issued(item) && self.credentials.has(&item.identifier)
        };
        let available: BTreeSet<_> =
            asked.items.iter().filter(|item| is_available(item)).map(|item| item.identifier.as_str()).collect();
        let selected = match &asked.constraints {
            Some(constraints) => constraints.select(&|identifier: &str| available.contains(identifier)),
            None => (available.len() == asked.items.len()).then(|| available.clone()),
        };
        let selected = selected.ok_or_else(|| {
            let names: Vec<_> = asked.items.iter().map(|item| item.identifier.as_str()).collect();
            let reason = format!(
                "this wallet does not have the credentials that the request asks for ({}); the daemon's [[issuers]] must \
                 issue them for staging",
                names.join(", ")
            );
            Rejection::new(RejectionCode::CredentialUnavailable, reason)
        })?;
        Ok(asked.items.iter().filter(|item| selected.contains(item.identifier.as_str())).collect())
    }
}

fn check_attributes(request: &BridgeRequest) -> Result<(), Rejection> {
    let reason = "the request asks for facts about the person, such as an age, and this wallet attests none";
    match request.asks_for_attributes {
        true => Err(Rejection::new(RejectionCode::FeatureUnavailable, reason)),
        false => Ok(()),
    }
}

/// Every level.
const LEVELS: [Level; 5] = [Level::Orb, Level::SecureDocument, Level::Document, Level::Device, Level::Face];

/// The answer of a wallet as a member of a group: a legacy proof.
#[derive(Debug)]
pub struct MemberChoice<'a> {
    /// The membership.
    pub member: &'a Member,
    /// The level that the answer names: the group's public name; the one that is asked for when the
    /// group has none.
    pub level: Level,
    /// The hash of the signal.
    pub signal_hash: U256,
}

impl MemberChoice<'_> {
    /// What is proved, for people.
    pub fn describe(&self) -> String {
        format!("a legacy proof of {}, as a member of {}", self.level.name(), self.member.group)
    }
}

/// Chooses the membership that a request asks for: by the group's id among its credentials, or by
/// the group's public name as its level. `None` when it asks for none of the wallet's.
///
/// # Errors
/// A [`Rejection`] with the code for the application.
pub fn choose_member<'a>(
    request: &BridgeRequest,
    memberships: &Memberships<'a>,
) -> Result<Option<MemberChoice<'a>>, Rejection> {
    let items = request.current.iter().flat_map(|asked| &asked.items).map(|item| item.identifier.as_str());
    let levels = request.legacy.iter().flat_map(|asked| asked.level.accepted()).map(|level| level.credential().name());
    // A member makes legacy proofs only.
    let names: Vec<_> = if request.legacy.is_some() { items.chain(levels).collect() } else { Vec::new() };
    let unavailable = |error| Rejection::new(RejectionCode::CredentialUnavailable, error);
    let member = memberships.choose(request.environment.environment(), &names).map_err(unavailable)?;
    let (Some(member), Some(asked)) = (member, &request.legacy) else { return Ok(None) };
    check_attributes(request)?;
    let is_name = |level: &Level| member.legacy_identifier == Some(level.credential());
    let level = LEVELS.into_iter().find(is_name).unwrap_or(asked.level);
    Ok(Some(MemberChoice { member, level, signal_hash: asked.signal_hash }))
}

/// Checks that a request does not ask for the statement of a link proof of one of the wallet's
/// groups, whatever it hashes to get there.
///
/// # Errors
/// A [`Rejection`] with [`RejectionCode::FeatureUnavailable`].
pub fn check_no_link_proof(request: &BridgeRequest, members: &[Member]) -> Result<(), Rejection> {
    let of_current = request.current.as_ref().and_then(|asked| match asked.purpose {
        Purpose::Uniqueness { action, .. } => Some(action),
        Purpose::NewSession | Purpose::Session { .. } => None,
    });
    let of_legacy = external_nullifier(&request.app_id, &request.action);
    let asked: Vec<_> = of_current.into_iter().chain([of_legacy]).collect();
    match members.iter().find(|member| asked.iter().any(|asked| member.is_link_proof(*asked))) {
        Some(member) => {
            let error = MemberError::LinkProof { group: member.group };
            Err(Rejection::new(RejectionCode::FeatureUnavailable, error))
        }
        None => Ok(()),
    }
}

/// Checks that the request names the relying party of its application.
fn check_party(request: &BridgeRequest, asked: &CurrentAsked, simulation: &Simulation) -> Result<(), Rejection> {
    let unknown = |reason: String| Err(Rejection::new(RejectionCode::UnknownRp, reason));
    let party = simulation.relying_parties.iter().find(|party| party.app_id == request.app_id);
    match party {
        None => unknown(ProveError::UnknownApplication { app_id: request.app_id.clone() }.to_string()),
        Some(party) if party.rp_id != asked.rp_id => unknown(format!(
            "the request is of {}, and the application {} is of {}",
            asked.rp_id, request.app_id, party.rp_id
        )),
        Some(_) => Ok(()),
    }
}

/// Makes the legacy proof and the answer with it. The daemon must trust the proof's root.
///
/// # Errors
/// [`ProveError::Legacy`].
pub fn legacy_answer(
    person: &Person,
    request: &BridgeRequest,
    level: Level,
    signal_hash: U256,
) -> Result<(Root, Value), ProveError> {
    let external_nullifier = external_nullifier(&request.app_id, &request.action);
    let proof = prove::legacy_proof(person, level.credential(), external_nullifier, signal_hash)?;
    Ok((proof.root, legacy_body(request, level, &proof)))
}

/// The answer with a legacy proof.
pub fn legacy_body(request: &BridgeRequest, level: Level, proof: &LegacyProof) -> Value {
    // Client kits 1 and 2 send all keys on to the verification interface, so there are no others.
    let answer = json!({
        "proof": proof.words,
        "merkle_root": prove::padded(proof.root.to_number()),
        "nullifier_hash": prove::padded(proof.nullifier),
        "verification_level": level.name(),
    });
    with_presence(answer, request)
}

/// Makes the current proofs and the answer with them.
///
/// # Errors
/// A [`ProveError`].
pub fn current_answer(
    person: &Person,
    request: &BridgeRequest,
    choice: &CurrentChoice<'_>,
    simulation: &Simulation,
    root: Root,
    random: &mut Random<'_>,
) -> Result<Value, ProveError> {
    let CurrentChoice { asked, items, session } = choice;
    let mut responses = Vec::with_capacity(items.len());
    for item in items {
        let AskedItem { identifier, issuer_schema_id, expires_at_min, .. } = item;
        let party = SimulatedParty::of_issuer(simulation, &request.app_id, *issuer_schema_id, identifier, root)?;
        let statement = Statement {
            signal_hash: item.signal_hash(),
            nonce: asked.nonce,
            expires_at_min: *expires_at_min,
            credential_genesis_issued_at_min: item.genesis_issued_at_min,
        };
        let (proof, name, nullifier) = match (&asked.purpose, session) {
            (Purpose::Uniqueness { action, binds_session }, session) if *binds_session == session.is_some() => {
                let session = session.as_ref();
                let proof = prove::uniqueness_proof(person, *action, session, &statement, &party, random)?;
                (proof, "nullifier", format!("nil_{:064x}", proof.nullifier))
            }
            (Purpose::NewSession | Purpose::Session { .. }, Some(session)) => {
                let proof = prove::session_proof(person, session, &statement, &party, random)?;
                (proof, "session_nullifier", format!("snil_{:064x}{:064x}", proof.nullifier, proof.action))
            }
            _ => return Err(ProveError::Input),
        };
        let mut response = json!({
            "identifier": identifier,
            "issuer_schema_id": issuer_schema_id,
            "proof": words(&proof),
            "expires_at_min": expires_at_min,
        });
        response[name] = nullifier.into();
        if *issuer_schema_id == SELFIE_ISSUER {
            response["claims"] = json!([prove::padded(U256::ZERO)]);
        }
        responses.push(response);
    }
    let mut answer = json!({"id": asked.id, "version": 1, "responses": responses});
    if let Some(session) = session {
        answer["session_id"] = session.id().into();
    }
    Ok(with_presence(answer, request))
}

/// The five words of a proof as one text of hex digits.
fn words(proof: &CurrentProof) -> String {
    proof.words.iter().map(|word| format!("{word:064x}")).collect()
}

/// Says that a person was present, where the request asks for it. The caller has checked it.
fn with_presence(mut answer: Value, request: &BridgeRequest) -> Value {
    if request.requires_presence {
        answer["user_presence_completed"] = true.into();
    }
    answer
}
