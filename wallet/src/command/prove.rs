//! `selfsame wallet prove`, and what makes the proofs of the wallet's account.

use std::io::Write;
use std::path::PathBuf;

use alloy_primitives::U256;
use selfsame_protocol::groups::names::GroupId;
use selfsame_protocol::ids::Nullifier;
use selfsame_protocol::json::to_printable;
use selfsame_protocol::operator::Simulation;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::identity::hash_text;
use selfsame_protocol::verification::integrity::SELFIE_CHECK;
use selfsame_protocol::verification::{Environment, LegacyIdentifier, RelyingPartyId};
use serde_json::Value;

use super::evidence::EvidenceOptions;
use super::{CommandError, DaemonOptions, GuardOptions, Options};
use crate::Random;
use crate::client::{Client, ClientError};
use crate::file::WalletFile;
use crate::groups::{GroupClient, Memberships};
use crate::guard::Guard;
use crate::member::Member;
use crate::operator::Operator;
use crate::person::Person;
use crate::prove::{self, LegacyRequest, ProofParameters, ProveError, SimulatedParty};

#[derive(Clone, Debug, clap::Args)]
pub struct Prove {
    /// The application that requests the proof.
    #[arg(long, value_name = "APP_ID")]
    app: String,
    /// The kind of proof.
    #[arg(long, value_enum, default_value_t = ProofKind::Legacy)]
    kind: ProofKind,
    /// What the proof is for; ignored for sessions.
    #[arg(long, value_name = "TEXT", default_value = "")]
    action: String,
    /// What the proof is bound to.
    #[arg(long, value_name = "TEXT", default_value = "")]
    signal: String,
    /// Make a proof for production. The daemon accepts the simulator's proofs for staging only.
    /// With --group the environment is that of the group.
    #[arg(long)]
    production: bool,
    /// The issuer of the credential of a current proof, by its schema id; 11 for Selfie Check
    /// [default: the daemon's first issuer of staging].
    #[arg(long, value_name = "ID")]
    issuer: Option<u64>,
    /// Prove as a member of this group.
    #[arg(long, value_name = "ID")]
    group: Option<GroupId>,
    /// The credential of a legacy proof, such as `device`, or a group's id or public name [default:
    /// orb, or the group of --group].
    #[arg(long, value_name = "NAME")]
    credential: Option<String>,
    #[command(flatten)]
    evidence: EvidenceOptions,
    #[command(flatten)]
    guard: GuardOptions,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ProofKind {
    /// Protocol version 3.0: a genuine proof.
    Legacy,
    /// Protocol version 4.0, by the simulator.
    Uniqueness,
    /// Uniqueness that is bound to a new session, by the simulator.
    Bound,
    /// Protocol version 4.0 in a session, by the simulator.
    Session,
}

/// Prints a verification request with a proof.
pub async fn prove(
    options: &Options,
    command: Prove,
    random: &mut Random<'_>,
    now: UnixSeconds,
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    let Prove { app, kind, action, signal, production, issuer, group, credential, evidence, guard, daemon } = command;
    let wallet = WalletFile::open(&options.wallet)?;
    if kind != ProofKind::Legacy && (group.is_some() || credential.is_some()) {
        return Err(CommandError::LegacyOnly);
    }
    let mut environment = if production { Environment::Production } else { Environment::Staging };
    let member = match (group, &credential) {
        (Some(group), _) => {
            let member = wallet.member(&group).ok_or(CommandError::NotInGroup { group })?;
            environment = member.environment;
            Some(member)
        }
        (None, Some(name)) => Memberships::new(wallet.members(), None, &[]).choose(environment, &[name])?,
        (None, None) => None,
    };
    let parameters = ProofParameters { app_id: &app, action: &action, signal: &signal, environment, nonce: None };
    if let Some(member) = member {
        let name = credential.as_deref().unwrap_or(member.group.as_str());
        let body = prove_as_member(member, name, &parameters, random).await?;
        return Ok(writeln!(out, "{body}")?);
    }
    let identifier = match &credential {
        Some(name) => LegacyIdentifier::from_name(name)
            .ok_or_else(|| CommandError::NoCredential { name: to_printable(name), environment: environment.name() })?,
        None => prove::LEGACY_IDENTIFIER,
    };
    if kind == ProofKind::Legacy {
        Operator::new(daemon.operator(&wallet))?.check_way_is_safe()?;
    }
    let mut prover = Prover::connect(options, &daemon, guard, &wallet).await?;
    prover.issuer = issuer;
    let mut body = match kind {
        ProofKind::Legacy => prover.prove_legacy(identifier, &parameters, random).await?,
        kind => prover.prove(kind, &parameters, random, now).await?,
    };
    prover.add_evidence(&mut body, &app, environment, &evidence, now)?;
    Ok(writeln!(out, "{body}")?)
}

/// A verification request with a proof of a member, under a name of the group's credential.
pub async fn prove_as_member(
    member: &Member,
    name: &str,
    parameters: &ProofParameters<'_>,
    random: &mut Random<'_>,
) -> Result<Value, CommandError> {
    let client = GroupClient::new(&member.wallet_url)?;
    let proof = client.prove(member, parameters.external_nullifier(), parameters.signal_hash()).await?;
    Ok(prove::legacy_request(name, &proof, parameters, random))
}

/// The wallet's account, for what a member cannot prove.
pub enum Account {
    /// Connected to its daemon.
    Connected(Box<Prover>),
    /// Not connected. A wallet that is a member of groups goes on without.
    Missing(Option<CommandError>),
    /// Not asked for.
    Unasked,
}

impl Account {
    /// Connects to the daemon. When this fails and the wallet is a member of groups, the error is
    /// kept until the account is needed. With a group, no account is needed.
    ///
    /// # Errors
    /// [`CommandError::NotInGroup`], and as [`Prover::connect`] for a wallet without memberships.
    pub async fn connect(
        options: &Options,
        daemon: &DaemonOptions,
        guard: GuardOptions,
        wallet: &WalletFile,
        group: Option<GroupId>,
    ) -> Result<Self, CommandError> {
        if let Some(group) = group {
            wallet.member(&group).ok_or(CommandError::NotInGroup { group })?;
            return Ok(Self::Unasked);
        }
        match Prover::connect(options, daemon, guard, wallet).await {
            Ok(prover) => Ok(Self::Connected(Box::new(prover))),
            Err(error) if wallet.members().is_empty() => Err(error),
            Err(error) => Ok(Self::Missing(Some(error))),
        }
    }

    /// What makes the account's proofs.
    ///
    /// # Errors
    /// Why there is no account.
    pub fn prover(&mut self) -> Result<&mut Prover, CommandError> {
        match self {
            Self::Connected(prover) => Ok(prover),
            Self::Missing(error) => Err(error.take().unwrap_or(CommandError::AccountUnasked)),
            Self::Unasked => Err(CommandError::AccountUnasked),
        }
    }

    /// The daemon's simulation, if the wallet is connected to one that has it.
    pub fn simulation(&self) -> Option<&Simulation> {
        match self {
            Self::Connected(prover) => prover.simulation.as_ref(),
            Self::Missing(_) | Self::Unasked => None,
        }
    }
}

/// What the proofs of one run of a command are made with.
pub struct Prover {
    /// The person of the wallet's account.
    pub person: Person,
    /// The root that the account's inclusion proof leads to.
    pub root: Root,
    /// The daemon's simulation; `None` when it has none.
    pub simulation: Option<Simulation>,
    operator: Operator,
    /// Base address of the operator interface.
    operator_url: String,
    /// The data folder with the operator's token.
    data: PathBuf,
    /// `None` without a guard.
    guard: Option<Guard>,
    /// The bound of the credential's first issue that current proofs have to show.
    pub issued_since: Option<UnixSeconds>,
    /// The issuer of the credential of current proofs; the daemon's first without it.
    issuer: Option<u64>,
}

impl Prover {
    /// Asks the daemon for its simulation, and the indexer for the inclusion proof of the wallet's
    /// account.
    ///
    /// # Errors
    /// [`CommandError::NoAccount`] when the wallet is not an authenticator of an account.
    pub async fn connect(
        options: &Options,
        daemon: &DaemonOptions,
        guard: GuardOptions,
        wallet: &WalletFile,
    ) -> Result<Self, CommandError> {
        let (operator_url, data) = (daemon.operator(wallet).to_owned(), daemon.data(wallet).to_owned());
        let operator = Operator::new(&operator_url)?;
        let simulation = match operator.simulation().await {
            Err(ClientError::Service { status: 404, .. }) => None,
            simulation => Some(simulation?),
        };
        let indexer = options.indexer.as_deref().unwrap_or(&wallet.indexer);
        let client = Client::new(&wallet.gateway, indexer)?;
        let address = wallet.key.address();
        let Some(packed) = client.packed_account(address).await? else {
            let (wallet, indexer) = (wallet.path().to_owned(), indexer.to_owned());
            return Err(CommandError::NoAccount { address, wallet, indexer });
        };
        let proof = client.inclusion_proof(packed.leaf_index).await?;
        let seed = simulation.as_ref().map_or("", |simulation| &simulation.seed);
        let (person, root) = Person::of_account(seed, &proof, &wallet.key).map_err(ProveError::from)?;
        let guard = guard.open(wallet)?;
        let (issued_since, issuer) = (None, None);
        Ok(Self { person, root, simulation, operator, operator_url, data, guard, issued_since, issuer })
    }

    /// A verification request with a proof. For a legacy proof, a daemon with `--dev` trusts its
    /// root afterwards.
    pub async fn prove(
        &mut self,
        kind: ProofKind,
        parameters: &ProofParameters<'_>,
        random: &mut Random<'_>,
        now: UnixSeconds,
    ) -> Result<Value, CommandError> {
        if kind == ProofKind::Legacy {
            return self.prove_legacy(prove::LEGACY_IDENTIFIER, parameters, random).await;
        }
        let party = self.party(parameters.app_id)?;
        if kind == ProofKind::Session {
            return Ok(prove::session(&self.person, parameters, &party, random)?);
        }
        let nullifier = self.check_unused(party.rp_id, hash_text(parameters.action), now)?;
        let body = match kind {
            ProofKind::Bound => prove::bound_uniqueness(&self.person, parameters, &party, random)?,
            _ => prove::uniqueness(&self.person, parameters, &party, random)?,
        };
        self.remember(&[nullifier], now)?;
        Ok(body)
    }

    /// A verification request with a legacy proof of a credential, whose root a daemon with `--dev`
    /// trusts afterwards.
    pub async fn prove_legacy(
        &self,
        identifier: LegacyIdentifier,
        parameters: &ProofParameters<'_>,
        random: &mut Random<'_>,
    ) -> Result<Value, CommandError> {
        let LegacyRequest { root, body } = prove::legacy_of(&self.person, identifier, parameters, random)?;
        self.trust(root, parameters.environment, identifier).await?;
        Ok(body)
    }

    /// A verification request with a proof in the session of this id. Sessions have no guard.
    ///
    /// # Errors
    /// [`ProveError::OtherSession`] in [`CommandError::Prove`].
    pub fn prove_session(
        &self,
        id: &str,
        parameters: &ProofParameters<'_>,
        random: &mut Random<'_>,
    ) -> Result<Value, CommandError> {
        let party = self.party(parameters.app_id)?;
        Ok(prove::session_of_id(&self.person, id, parameters, &party, random)?)
    }

    /// The simulated relying party of an application.
    pub fn party(&self, app_id: &str) -> Result<SimulatedParty, CommandError> {
        let no_simulator = || CommandError::NoSimulator { operator: self.operator_url.clone() };
        let simulation = self.simulation.clone().ok_or_else(no_simulator)?;
        if let Some(issuer) = self.issuer {
            let known = simulation.issuers.iter().find(|known| known.id == issuer);
            let identifier = known.and_then(|known| known.identifiers.first());
            let identifier = identifier.ok_or(CommandError::NoSuchIssuer { issuer })?;
            let party = SimulatedParty::of_issuer(&simulation, app_id, issuer, identifier, self.root);
            return Ok(party.map_err(|error| self.name_daemon(error))?.issued_since(self.issued_since));
        }
        let party = SimulatedParty::of(simulation, app_id, self.root).map_err(|error| self.name_daemon(error))?;
        Ok(party.issued_since(self.issued_since))
    }

    /// Adds the score of Selfie Check, an integrity bundle and the word about facts to a request.
    fn add_evidence(
        &self,
        body: &mut Value,
        app_id: &str,
        environment: Environment,
        options: &EvidenceOptions,
        now: UnixSeconds,
    ) -> Result<(), CommandError> {
        let is_selfie_check = body["responses"][0]["issuer_schema_id"] == SELFIE_CHECK;
        if is_selfie_check {
            body["responses"][0]["sybil_score"] = options.score().into();
        }
        let evidence = options.evidence(&self.person, self.simulation.as_ref(), environment.into(), is_selfie_check)?;
        if let Some(maker) = &evidence.bundle {
            let parties = self.simulation.as_ref().map(|simulation| &*simulation.relying_parties).unwrap_or_default();
            let party = parties.iter().find(|party| party.app_id == app_id).map(|party| party.rp_id);
            let audience = party.unwrap_or_else(|| RelyingPartyId::derived_from(app_id)).to_string();
            body["integrity_bundle"] = maker.make(body, &audience, now)?;
        }
        if let Some(attested) = evidence.identity_attested {
            body["identity_attested"] = attested.into();
        }
        Ok(())
    }

    /// The nullifier of a proof of uniqueness, which the guard lets pass.
    ///
    /// # Errors
    /// [`CommandError::Guard`].
    pub fn check_unused(
        &self,
        rp_id: RelyingPartyId,
        action: U256,
        now: UnixSeconds,
    ) -> Result<Nullifier, CommandError> {
        let nullifier = prove::nullifier(&self.person, rp_id, action);
        if let Some(guard) = &self.guard {
            guard.check(nullifier, now)?;
        }
        Ok(nullifier)
    }

    /// Has the guard remember nullifiers that are about to be given.
    ///
    /// # Errors
    /// [`CommandError::Guard`].
    pub fn remember(&mut self, nullifiers: &[Nullifier], now: UnixSeconds) -> Result<(), CommandError> {
        match &mut self.guard {
            Some(guard) => Ok(guard.record(nullifiers, now)?),
            None => Ok(()),
        }
    }

    /// Has the daemon trust the root of a legacy proof.
    ///
    /// # Errors
    /// [`CommandError::Operator`].
    pub async fn trust(
        &self,
        root: Root,
        environment: Environment,
        identifier: LegacyIdentifier,
    ) -> Result<(), CommandError> {
        Ok(self.operator.trust_simulated_root(root, environment, identifier, &self.data).await?)
    }

    /// Says which daemon does not know an application: it may be another one than the person means.
    fn name_daemon(&self, error: ProveError) -> CommandError {
        match error {
            ProveError::UnknownApplication { app_id } => {
                CommandError::OtherDaemon { app_id, operator: self.operator_url.clone() }
            }
            error => error.into(),
        }
    }
}
