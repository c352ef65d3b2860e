//! `selfsame wallet prove` and `selfsame wallet sign-in`.

use std::io::Write;
use std::path::PathBuf;

use alloy_primitives::U256;
use selfsame_protocol::ids::Nullifier;
use selfsame_protocol::operator::Simulation;
use selfsame_protocol::sign_in::proof_request::Initiator;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::identity::hash_text;
use selfsame_protocol::verification::integrity::SELFIE_CHECK;
use selfsame_protocol::verification::{Environment, LegacyIdentifier, RelyingPartyId};
use serde_json::Value;

use super::answer::{Answer, answer};
use super::evidence::EvidenceOptions;
use super::{CommandError, DaemonOptions, GuardOptions, Options, ask, has_terminal, instant};
use crate::Random;
use crate::bridge::is_connector_uri;
use crate::client::{Client, ClientError};
use crate::file::WalletFile;
use crate::guard::{Guard, GuardError};
use crate::operator::Operator;
use crate::person::Person;
use crate::prove::{self, LegacyRequest, ProofParameters, ProveError, SimulatedParty};
use crate::sign_in::{AskedProof, Onward, Place, SignInRequest, SignInSession, printable};

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
    #[arg(long)]
    production: bool,
    /// The issuer of the credential of a current proof, by its schema id; 11 for Selfie Check
    /// [default: the daemon's first issuer of staging].
    #[arg(long, value_name = "ID")]
    issuer: Option<u64>,
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
    let Prove { app, kind, action, signal, production, issuer, evidence, guard, daemon } = command;
    let wallet = WalletFile::open(&options.wallet)?;
    let environment = if production { Environment::Production } else { Environment::Staging };
    let parameters = ProofParameters { app_id: &app, action: &action, signal: &signal, environment, nonce: None };
    if kind == ProofKind::Legacy {
        Operator::new(daemon.operator(&wallet))?.check_way_is_safe()?;
    }
    let mut prover = Prover::connect(options, &daemon, guard, &wallet).await?;
    prover.issuer = issuer;
    let mut body = prover.prove(kind, &parameters, random, now).await?;
    prover.add_evidence(&mut body, &app, environment, &evidence, now)?;
    Ok(writeln!(out, "{body}")?)
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
            let LegacyRequest { root, body } = prove::legacy(&self.person, parameters, random)?;
            self.trust(root, parameters.environment, prove::LEGACY_IDENTIFIER).await?;
            return Ok(body);
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
    fn party(&self, app_id: &str) -> Result<SimulatedParty, CommandError> {
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

// `selfsame wallet sign-in`.

#[derive(Clone, Debug, clap::Args)]
pub struct SignIn {
    /// The address in the page's QR code, a link of the page for a wallet, or a whole authorization
    /// URL. For the last, the wallet also acts as the browser and prints where the browser would be
    /// sent. After an address from the QR code, and a link that ends in #there, the wallet prints
    /// digits to type where the sign-in began; after #here, the address that the browser of this
    /// device opens. A connector URI is answered as by `wallet answer`: a sign-in only with its
    /// option --as-public-wallet.
    #[arg(value_name = "LINK")]
    url: String,
    /// Refuse the sign-in instead of answering with a proof.
    #[arg(long)]
    refuse: bool,
    /// Answer without asking, also the first request of an issuer; for programs.
    #[arg(long)]
    yes: bool,
    /// The only issuer whose request is answered [default: those that this wallet has trusted].
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// The link was opened on the device where the browser is, not scanned from another screen: the
    /// sign-in continues only at the address that is printed. It wins over what the link says.
    /// Always so for an authorization URL, and for a link that ends in #here.
    #[arg(long)]
    same_device: bool,
    #[command(flatten)]
    guard: GuardOptions,
    #[command(flatten)]
    daemon: DaemonOptions,
}

impl SignIn {
    /// The same for a connector URI.
    fn into_answer(self) -> Result<Answer, CommandError> {
        let Self { url, refuse, yes, issuer, same_device, guard, daemon } = self;
        let given = [("--issuer", issuer.is_some()), ("--same-device", same_device)];
        match given.into_iter().find_map(|(option, is_given)| is_given.then_some(option)) {
            Some(option) => Err(CommandError::NotOfConnector { option }),
            None => Ok(Answer::new(url, refuse, yes, guard, daemon)),
        }
    }
}

/// Answers a sign-in with a proof, or refuses it.
pub async fn sign_in(
    options: &Options,
    command: SignIn,
    random: &mut Random<'_>,
    now: &(dyn Fn() -> UnixSeconds + Sync),
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    if is_connector_uri(&command.url) {
        return answer(options, command.into_answer()?, random, now, out).await;
    }
    let SignIn { url, refuse, yes, issuer, same_device, guard, daemon } = command;
    let mut wallet = WalletFile::open(&options.wallet)?;
    if !yes && !refuse && !has_terminal() {
        return Err(CommandError::NoTerminal);
    }
    // A sign-in is begun and shown only when there is a person who can sign in.
    let mut prover = match refuse {
        true => None,
        false => Some(Prover::connect(options, &daemon, guard, &wallet).await?),
    };
    let session = SignInSession::open(&url).await?;
    let Some(prover) = &mut prover else {
        if refuse_unverified(&session, out).await?
            && let Some(target) = session.complete().await?
        {
            writeln!(out, "{target}")?;
        }
        return Ok(());
    };
    let Some(request) = trusted_request(&session, &mut wallet, issuer.as_deref(), yes, out).await? else {
        refuse_unverified(&session, out).await?;
        return Ok(());
    };
    let asked = AskedProof::of(&request)?;
    describe_request(&printable(&request), out)?;
    let place = place(&session, same_device, out)?;
    if !yes && !ask("Answer with a proof?", out)? {
        session.refuse(&request).await?;
        return Ok(writeln!(out, "refused")?);
    }
    let parameters = ProofParameters {
        app_id: &request.app_id,
        action: &request.action,
        signal: &request.signal,
        environment: request.environment,
        nonce: Some(request.nonce),
    };
    prover.issued_since = request.genesis_issued_at_min;
    if let Some(only) = &request.identifier
        && prover.party(&request.app_id)?.identifier != *only
    {
        session.give_up(&request, "credential_unavailable").await?;
        return Ok(writeln!(
            out,
            "refused: this wallet has no credential {}",
            selfsame_protocol::json::to_printable(only)
        )?);
    }
    let proved = match asked {
        AskedProof::Legacy => prover.prove(ProofKind::Legacy, &parameters, random, now()).await,
        AskedProof::Uniqueness => prover.prove(ProofKind::Uniqueness, &parameters, random, now()).await,
        AskedProof::BoundUniqueness => prover.prove(ProofKind::Bound, &parameters, random, now()).await,
        AskedProof::Session(id) => prover.prove_session(id, &parameters, random),
    };
    let body = match proved {
        // The person's browser says what helps.
        Err(error @ CommandError::Guard(GuardError::Replayed { .. })) => {
            session.give_up(&request, "nullifier_replayed").await?;
            return Err(error);
        }
        proved => proved?,
    };
    let onward = session.answer_from(&request, &body, place).await?;
    writeln!(out, "proved")?;
    if session.is_browser() {
        if let Some(target) = session.complete_at(onward.return_url()).await? {
            writeln!(out, "{target}")?;
        }
        return Ok(());
    }
    match onward {
        Onward::Open(return_url) => writeln!(out, "open this in the browser of this device: {return_url}")?,
        Onward::Type(digits) => writeln!(out, "Type {digits} on the screen where you began")?,
        Onward::ByItself if place == Place::There => {
            writeln!(out, "no digits are needed: the screen where you began goes on by itself")?;
        }
        Onward::ByItself => {}
    }
    Ok(())
}

/// Where the person opened the link. The option comes before the link, because the person gave it
/// for this sign-in. A session that acts as the browser is on its device, whatever the link says.
fn place(session: &SignInSession, same_device: bool, out: &mut dyn Write) -> Result<Place, CommandError> {
    let by_link = session.place();
    if !same_device && !session.is_browser() {
        return Ok(by_link);
    }
    if by_link == Place::There {
        let reason = if same_device { "--same-device was given" } else { "the wallet acts as the browser" };
        writeln!(
            out,
            "the link says that the browser is on another device, and {reason}, which wins: answered as on the \
             browser's device"
        )?;
    }
    Ok(Place::Here)
}

/// Refuses a request that is not verified. Returns whether the refusal was sent.
async fn refuse_unverified(session: &SignInSession, out: &mut (dyn Write + Send)) -> Result<bool, CommandError> {
    let is_sent = session.refuse_unverified().await?;
    match is_sent {
        true => writeln!(out, "refused")?,
        false => writeln!(
            out,
            "refused; nothing was sent, because the request names an answer_url of another origin than its own"
        )?,
    }
    Ok(is_sent)
}

/// The request as a trusted issuer signed it; `None` when the owner does not trust its issuer. A
/// new issuer is trusted from now on.
async fn trusted_request(
    session: &SignInSession,
    wallet: &mut WalletFile,
    wanted: Option<&str>,
    yes: bool,
    out: &mut (dyn Write + Send),
) -> Result<Option<SignInRequest>, CommandError> {
    if let Some(issuer) = wanted {
        return Ok(Some(session.verify(issuer.trim_end_matches('/')).await?));
    }
    let issuer = session.claimed_issuer()?;
    let is_new = !wallet.issuers.contains(&issuer);
    if is_new && !yes {
        writeln!(out, "this wallet has never answered a request of {issuer}")?;
        if !ask("Trust this issuer from now on?", out)? {
            return Ok(None);
        }
    }
    let request = session.verify(&issuer).await?;
    if is_new {
        wallet.trust_issuer(&issuer)?;
    }
    Ok(Some(request))
}

/// Shows who asks for what, and what began the sign-in.
fn describe_request(request: &SignInRequest, out: &mut dyn Write) -> Result<(), CommandError> {
    writeln!(out, "{} asks for: {}", request.app_name, request.scopes)?;
    writeln!(out, "application {}, answer to {}", request.app_id, request.redirect_host)?;
    let Initiator { network, user_agent, time } = &request.initiator;
    writeln!(out, "begun {} from {network} with {user_agent:?}", instant(*time))?;
    Ok(())
}
