//! `selfsame wallet answer`: the request of an application's page, from its bridge and back.

use std::io::Write;

use alloy_primitives::Address;
use selfsame_protocol::address;
use selfsame_protocol::bridge::request::{BridgeRequest, CurrentAsked, Purpose};
use selfsame_protocol::bridge::wire::{CodeSet, Rejection, RejectionCode};
use selfsame_protocol::groups::names::GroupId;
use selfsame_protocol::json::to_printable;
use selfsame_protocol::operator::Simulation;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::identity::external_nullifier;
use selfsame_protocol::verification::{Environment, RelyingPartyId};
use serde_json::Value;

use super::evidence::EvidenceOptions;
use super::prove::Account;
use super::{CommandError, DaemonOptions, GuardOptions, Options, ask, has_terminal, instant};
use crate::Random;
use crate::bridge::answer::{
    Choice, Chooser, Credentials, MemberChoice, check_no_link_proof, choose_member, current_answer, legacy_answer,
    legacy_body,
};
use crate::bridge::{self, BridgeClient, BridgeError, return_url};
use crate::file::WalletFile;
use crate::groups::{GroupClient, MemberProofError, Memberships};
use crate::guard::GuardError;
use crate::member::{Member, MemberError};
use crate::prove::ProveError;

#[derive(Clone, Debug, clap::Args)]
pub struct Answer {
    /// The connector URI in the page's QR code or link. Put it in quotes: a shell would end the
    /// command at `&`.
    uri: String,
    /// Refuse the request instead of answering with a proof.
    #[arg(long, conflicts_with = "yes")]
    refuse: bool,
    /// Answer without asking; for programs.
    #[arg(long)]
    yes: bool,
    /// Answer only a request that is signed with the relying party's key, which has this address.
    #[arg(long, value_name = "ADDRESS", value_parser = address::parse)]
    rp_key: Option<Address>,
    /// A credential that this wallet has, such as `orb` or `passport`, or a group's id or public
    /// name; may be repeated [default: all, a group before what the account could prove].
    #[arg(long, value_name = "NAME")]
    credential: Vec<String>,
    /// Answer as a member of this group only.
    #[arg(long, value_name = "ID")]
    group: Option<GroupId>,
    /// With --yes, say that a person is present when the application asks for it.
    #[arg(long)]
    present: bool,
    /// Show the URL that leads back to the application also when it has this scheme. Such a URL
    /// starts a program.
    #[arg(long, value_name = "SCHEME")]
    return_scheme: Option<String>,
    /// Play a wallet of the public, which also answers a sign-in that it is asked for over a
    /// bridge. Without this option the wallet does not: over a bridge it cannot see that an issuer
    /// asks, and any page can hand on the request of another one's sign-in.
    #[arg(long)]
    as_public_wallet: bool,
    #[command(flatten)]
    evidence: EvidenceOptions,
    #[command(flatten)]
    guard: GuardOptions,
    #[command(flatten)]
    daemon: DaemonOptions,
}

impl Answer {
    /// An answer with every credential, to a request of any relying party.
    pub fn new(
        uri: String,
        refuse: bool,
        yes: bool,
        group: Option<GroupId>,
        guard: GuardOptions,
        daemon: DaemonOptions,
    ) -> Self {
        let (rp_key, credential, return_scheme) = (None, Vec::new(), None);
        let (present, as_public_wallet, evidence) = (false, false, EvidenceOptions::default());
        Self {
            uri,
            refuse,
            yes,
            rp_key,
            credential,
            group,
            present,
            return_scheme,
            as_public_wallet,
            evidence,
            guard,
            daemon,
        }
    }
}

/// Answers the request with a proof, or tells the application the reason for having none.
pub async fn answer(
    options: &Options,
    command: Answer,
    random: &mut Random<'_>,
    now: &(dyn Fn() -> UnixSeconds + Sync),
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    // The bridge hands the request out once, so whatever can fail without it comes before.
    let wallet = WalletFile::open(&options.wallet)?;
    if !command.yes && !command.refuse && !has_terminal() {
        return Err(CommandError::NoTerminal);
    }
    let bridge = BridgeClient::new(bridge::parse(&command.uri)?)?;
    let mut account = match command.refuse {
        true => Account::Unasked,
        false => Account::connect(options, &command.daemon, command.guard, &wallet, command.group).await?,
    };
    let memberships = Memberships::new(wallet.members(), command.group, &command.credential);
    let task = Task { command: &command, bridge, now, members: wallet.members(), memberships };
    let text = match task.bridge.fetch().await {
        // The application may have the right key, and then learns that this failed.
        Err(BridgeError::Cipher(error)) => {
            let rejection = Rejection::new(RejectionCode::MalformedRequest, BridgeError::Cipher(error));
            return task.reject(rejection.into(), CodeSet::Present, random, out).await;
        }
        fetched => fetched?,
    };
    let request = BridgeRequest::read(&text);
    let codes = request.as_ref().map_or(CodeSet::Present, BridgeRequest::codes);
    if command.refuse {
        return task.refuse(codes, random, out).await;
    }
    let request = match request {
        Ok(request) => request,
        Err(rejection) => return task.reject(rejection.into(), codes, random, out).await,
    };
    match task.make(&request, &mut account, random, out).await {
        Ok(Some(made)) => {
            task.bridge.answer(&made.body, random).await?;
            writeln!(out, "answered with {}", made.description)?;
            task.show_return_url(&request, out)
        }
        Ok(None) => task.refuse(codes, random, out).await,
        Err(error) => task.reject(error, codes, random, out).await,
    }
}

/// An answer that is ready to be handed over.
struct MadeAnswer {
    body: Value,
    /// What is proved, for people.
    description: String,
}

/// One run of the command.
struct Task<'a> {
    command: &'a Answer,
    bridge: BridgeClient,
    now: &'a (dyn Fn() -> UnixSeconds + Sync),
    /// All memberships of the wallet.
    members: &'a [Member],
    /// Those that may answer.
    memberships: Memberships<'a>,
}

impl Task<'_> {
    /// Checks the request, asks the person, and makes the proofs; `None` when the person refuses.
    async fn make(
        &self,
        request: &BridgeRequest,
        account: &mut Account,
        random: &mut Random<'_>,
        out: &mut (dyn Write + Send),
    ) -> Result<Option<MadeAnswer>, CommandError> {
        self.check(request)?;
        if let Some(choice) = choose_member(request, &self.memberships)? {
            return self.make_as_member(request, &choice, account.simulation(), out).await;
        }
        let prover = account.prover()?;
        let (person, simulation) = (&prover.person, prover.simulation.as_ref());
        let signing_key = self.signing_key(request, simulation);
        if let Some(expected) = signing_key {
            check_signer(request.current.as_ref(), expected)?;
        }
        let credentials = Credentials::only(self.command.credential.clone());
        let attests_facts = self.command.evidence.attests_facts();
        let chooser = Chooser { person, credentials: &credentials, simulation, now: (self.now)(), attests_facts };
        let choice = chooser.choose(request, random)?;
        let description = choice.describe();
        self.describe(request, signing_key, &description, out)?;
        if !self.command.yes && !ask("Answer with a proof?", out)? {
            return Ok(None);
        }
        // The person may have thought about it for longer than the request lives.
        if let Some(asked) = &request.current {
            asked.check_time((self.now)())?;
        }
        let (environment, is_selfie_check) = (request.environment, choice.is_selfie_check());
        let evidence = self.command.evidence.evidence(person, simulation, environment, is_selfie_check)?;
        let body = match (&choice, simulation) {
            (Choice::Legacy { level, signal_hash }, _) => {
                let (root, body) = legacy_answer(person, request, *level, *signal_hash)?;
                prover.trust(root, request.environment.environment(), level.credential()).await?;
                body
            }
            (Choice::Current(choice), Some(simulation)) => {
                let now = (self.now)();
                let unused = match choice.asked.purpose {
                    Purpose::Uniqueness { action, .. } => vec![prover.check_unused(choice.asked.rp_id, action, now)?],
                    Purpose::NewSession | Purpose::Session { .. } => Vec::new(),
                };
                let body = current_answer(person, request, choice, simulation, prover.root, random)?;
                prover.remember(&unused, now)?;
                body
            }
            // Without a simulation no current proof is chosen.
            (Choice::Current(_), None) => return Err(ProveError::NoIssuer.into()),
        };
        let audience = audience(request, prover.simulation.as_ref()).to_string();
        let body = evidence.add_to(body, request, &audience, (self.now)())?;
        Ok(Some(MadeAnswer { body, description }))
    }

    /// The same for a proof as a member of a group, which needs no account.
    async fn make_as_member(
        &self,
        request: &BridgeRequest,
        choice: &MemberChoice<'_>,
        simulation: Option<&Simulation>,
        out: &mut (dyn Write + Send),
    ) -> Result<Option<MadeAnswer>, CommandError> {
        let signing_key = self.signing_key(request, simulation);
        if let Some(expected) = signing_key {
            check_signer(request.current.as_ref(), expected)?;
        }
        let MemberChoice { member, level, signal_hash } = choice;
        let description = choice.describe();
        self.describe(request, signing_key, &description, out)?;
        if !self.command.yes && !ask("Answer with a proof?", out)? {
            return Ok(None);
        }
        if let Some(asked) = &request.current {
            asked.check_time((self.now)())?;
        }
        let asked = external_nullifier(&request.app_id, &request.action);
        let proof = GroupClient::new(&member.wallet_url)?.prove(member, asked, *signal_hash).await?;
        Ok(Some(MadeAnswer { body: legacy_body(request, *level, &proof), description }))
    }

    /// Checks what does not depend on the daemon: that it is no sign-in and no link proof, the
    /// time, and the person's presence.
    fn check(&self, request: &BridgeRequest) -> Result<(), Rejection> {
        if request.is_sign_in() && !self.command.as_public_wallet {
            let reason = "the request asks for the statement that signs in, and over a bridge nothing shows that an issuer \
                          asks for it: this wallet signs in by `selfsame wallet sign-in` and the address of the issuer's \
                          own signed request; `selfsame wallet answer --as-public-wallet` plays a wallet that answers here too";
            return Err(Rejection::new(RejectionCode::FeatureUnavailable, reason));
        }
        check_no_link_proof(request, self.members)?;
        if let Some(asked) = &request.current {
            asked.check_time((self.now)())?;
        }
        if request.requires_presence && self.command.yes && !self.command.present {
            let reason = "the request asks that a person be present; answer at a terminal, or give --present";
            return Err(Rejection::new(RejectionCode::UserPresenceFailed, reason));
        }
        Ok(())
    }

    /// The key that the request has to be signed with: that of the command line, else that of the
    /// daemon's configuration; `None` when neither knows one.
    fn signing_key(&self, request: &BridgeRequest, simulation: Option<&Simulation>) -> Option<Address> {
        let asked = request.current.as_ref().map(|asked| asked.rp_id);
        let parties = simulation.map(|simulation| &*simulation.relying_parties).unwrap_or_default();
        let party = parties.iter().find(|party| Some(party.rp_id) == asked);
        let configured = party.map(|party| party.signing_key).filter(|key| !key.is_zero());
        self.command.rp_key.or(configured)
    }

    /// Shows who asks for what. Every text is the page's, and any page can name any application.
    fn describe(
        &self,
        request: &BridgeRequest,
        signing_key: Option<Address>,
        choice: &str,
        out: &mut dyn Write,
    ) -> Result<(), CommandError> {
        let BridgeRequest { app_id, action, action_description, environment, .. } = request;
        writeln!(out, "{:?} asks for a proof", to_printable(app_id))?;
        match request.current.as_ref().map(|asked| &asked.purpose) {
            Some(Purpose::NewSession) => writeln!(out, "to begin a session")?,
            Some(Purpose::Session { id }) => writeln!(out, "for the session {:?}", to_printable(id))?,
            Some(Purpose::Uniqueness { .. }) | None if action.is_empty() => writeln!(out, "to sign in")?,
            Some(Purpose::Uniqueness { .. }) | None => writeln!(out, "for the action {:?}", to_printable(action))?,
        }
        if let Some(Purpose::Uniqueness { binds_session: true, .. }) =
            request.current.as_ref().map(|asked| &asked.purpose)
        {
            writeln!(out, "and to begin a session")?;
        }
        if !action_description.is_empty() {
            writeln!(out, "described as {:?}", to_printable(action_description))?;
        }
        match &request.current {
            Some(asked) => {
                writeln!(out, "relying party {}, {}", asked.rp_id, describe_signer(asked, signing_key))?;
                for item in &asked.items {
                    if let Some(signal) = &item.signal {
                        writeln!(out, "bound to {}", describe_signal(signal))?;
                    }
                }
                writeln!(out, "open until {}", instant(asked.expires_at))?;
            }
            None => writeln!(out, "not signed by a relying party")?,
        }
        let client_kit = request.client_kit.as_deref().unwrap_or("a client kit without a name");
        let bridge = &self.bridge.connector().bridge;
        writeln!(out, "for {}, by {:?} through {bridge}", environment.name(), to_printable(client_kit))?;
        if environment.environment() == Environment::Production {
            writeln!(out, "the proof of this development wallet is not one of a real person")?;
        }
        Ok(writeln!(out, "the answer would be {}", to_printable(choice))?)
    }

    fn show_return_url(&self, request: &BridgeRequest, out: &mut dyn Write) -> Result<(), CommandError> {
        let of_link = self.bridge.connector().return_to.as_deref();
        match return_url(of_link, request.return_to.as_deref(), self.command.return_scheme.as_deref()) {
            Ok(Some(url)) => writeln!(out, "return to {url}")?,
            Ok(None) => {}
            Err(reason) => writeln!(out, "the URL that leads back to the application is not shown: {reason}")?,
        }
        Ok(())
    }

    /// Tells the application that the person refuses.
    async fn refuse(
        &self,
        codes: CodeSet,
        random: &mut Random<'_>,
        out: &mut (dyn Write + Send),
    ) -> Result<(), CommandError> {
        let rejection = Rejection::new(RejectionCode::UserRejected, "refused");
        self.bridge.reject(&rejection, codes, random).await?;
        Ok(writeln!(out, "refused")?)
    }

    /// Tells the application why there is no proof, and fails with the error.
    async fn reject(
        &self,
        error: CommandError,
        codes: CodeSet,
        random: &mut Random<'_>,
        out: &mut (dyn Write + Send),
    ) -> Result<(), CommandError> {
        let code = match &error {
            CommandError::Rejected(rejection) => rejection.code,
            CommandError::Guard(GuardError::Replayed { .. }) => RejectionCode::NullifierReplayed,
            CommandError::MemberProof(MemberProofError::Member(error)) => match error {
                MemberError::NoLeaf { .. } | MemberError::NotOnRoll { .. } => RejectionCode::CredentialUnavailable,
                MemberError::LinkProof { .. } => RejectionCode::FeatureUnavailable,
                _ => RejectionCode::GenericError,
            },
            CommandError::NoAccount { .. } => RejectionCode::CredentialUnavailable,
            CommandError::Operator(_) | CommandError::MemberProof(_) => RejectionCode::InclusionProofFailed,
            _ => RejectionCode::GenericError,
        };
        match self.bridge.reject(&Rejection::new(code, &error), codes, random).await {
            Ok(()) => writeln!(out, "the application was told: {}", code.name(codes))?,
            Err(untold) => writeln!(out, "the application could not be told: {untold}")?,
        }
        Err(error)
    }
}

/// The relying party that an integrity bundle is for: the one that asks, or that of the
/// application.
fn audience(request: &BridgeRequest, simulation: Option<&Simulation>) -> RelyingPartyId {
    let parties = simulation.map(|simulation| &*simulation.relying_parties).unwrap_or_default();
    let known = parties.iter().find(|party| party.app_id == request.app_id).map(|party| party.rp_id);
    let asked = request.current.as_ref().map(|asked| asked.rp_id);
    asked.or(known).unwrap_or_else(|| RelyingPartyId::derived_from(&request.app_id))
}

fn describe_signer(asked: &CurrentAsked, signing_key: Option<Address>) -> String {
    match (asked.signed().signer(&asked.signature), signing_key) {
        (Ok(signer), Some(_)) => format!("signed with its key {}", address::text(&signer)),
        (Ok(signer), None) => {
            format!("signed with the key {}, which was not checked (--rp-key)", address::text(&signer))
        }
        (Err(_), _) => "with a signature that is not valid".to_owned(),
    }
}

/// Checks that a request is signed with the relying party's key.
fn check_signer(asked: Option<&CurrentAsked>, expected: Address) -> Result<(), Rejection> {
    let invalid = |reason: String| Err(Rejection::new(RejectionCode::InvalidRpSignature, reason));
    let expected_text = address::text(&expected);
    let Some(asked) = asked else {
        return invalid(format!(
            "the request is not signed, and only one that is signed by {expected_text} is answered"
        ));
    };
    match asked.signed().signer(&asked.signature) {
        Ok(signer) if signer == expected => Ok(()),
        Ok(signer) => invalid(format!("the request is signed by {}, not by {expected_text}", address::text(&signer))),
        Err(error) => invalid(format!("the request has no valid signature: {error}")),
    }
}

/// The bytes that a proof is bound to, as text where they are text.
fn describe_signal(signal: &[u8]) -> String {
    match std::str::from_utf8(signal) {
        Ok(text) => format!("the signal {:?}", to_printable(text)),
        Err(_) => format!("the signal 0x{}", to_printable(&alloy_primitives::hex::encode(signal))),
    }
}
