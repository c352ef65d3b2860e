//! `selfsame wallet sign-in`.

use std::io::Write;

use selfsame_protocol::groups::names::GroupId;
use selfsame_protocol::json::to_printable;
use selfsame_protocol::sign_in::proof_request::Initiator;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::LegacyIdentifier;
use serde_json::Value;

use super::answer::{Answer, answer};
use super::prove::{Account, ProofKind, Prover, prove_as_member};
use super::{CommandError, DaemonOptions, GuardOptions, Options, ask, has_terminal, instant};
use crate::Random;
use crate::bridge::is_connector_uri;
use crate::file::WalletFile;
use crate::groups::{ChoiceError, MemberProofError, Memberships};
use crate::guard::GuardError;
use crate::member::{Member, MemberError};
use crate::prove::ProofParameters;
use crate::sign_in::{AskedProof, Onward, Place, SignInRequest, SignInSession, printable};

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
    /// Sign in as a member of this group [default: the group that the request asks for; without an
    /// account, the only group].
    #[arg(long, value_name = "ID")]
    group: Option<GroupId>,
    #[command(flatten)]
    guard: GuardOptions,
    #[command(flatten)]
    daemon: DaemonOptions,
}

impl SignIn {
    /// The same for a connector URI.
    fn into_answer(self) -> Result<Answer, CommandError> {
        let Self { url, refuse, yes, issuer, same_device, group, guard, daemon } = self;
        let given = [("--issuer", issuer.is_some()), ("--same-device", same_device)];
        match given.into_iter().find_map(|(option, is_given)| is_given.then_some(option)) {
            Some(option) => Err(CommandError::NotOfConnector { option }),
            None => Ok(Answer::new(url, refuse, yes, group, guard, daemon)),
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
    let SignIn { url, refuse, yes, issuer, same_device, group, guard, daemon } = command;
    let mut wallet = WalletFile::open(&options.wallet)?;
    if !yes && !refuse && !has_terminal() {
        return Err(CommandError::NoTerminal);
    }
    // A sign-in is begun and shown only when there is a person who can sign in.
    let mut account = match refuse {
        true => Account::Unasked,
        false => Account::connect(options, &daemon, guard, &wallet, group).await?,
    };
    let session = SignInSession::open(&url).await?;
    if refuse {
        if refuse_unverified(&session, out).await?
            && let Some(target) = session.complete().await?
        {
            writeln!(out, "{target}")?;
        }
        return Ok(());
    }
    let Some(request) = trusted_request(&session, &mut wallet, issuer.as_deref(), yes, out).await? else {
        refuse_unverified(&session, out).await?;
        return Ok(());
    };
    let asked = AskedProof::of(&request)?;
    describe_request(&printable(&request), out)?;
    let is_alone = matches!(account, Account::Missing(Some(CommandError::NoAccount { .. })));
    let member = match member_for(&wallet, group, &request, asked, is_alone) {
        Ok(member) => member,
        Err(error) => {
            session.give_up(&request, "credential_unavailable").await?;
            return Err(error.into());
        }
    };
    if let Some(member) = member {
        writeln!(out, "the proof would be one of a member of {}", member.group)?;
    }
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
    let onward = match member {
        Some(member) => answer_as_member(&session, &request, member, &parameters, place, random).await?,
        None => {
            let proved = match account.prover() {
                Ok(prover) => prove_account(prover, &request, asked, &parameters, random, now()).await,
                Err(error) => Err(error),
            };
            let body = match proved {
                Ok(Some(body)) => body,
                Ok(None) => {
                    session.give_up(&request, "credential_unavailable").await?;
                    let only = to_printable(request.identifier.as_deref().unwrap_or_default());
                    return Ok(writeln!(out, "refused: this wallet has no credential {only}")?);
                }
                Err(error) => {
                    // The person's browser says what helps.
                    if let Some(code) = code_of(&error) {
                        session.give_up(&request, code).await?;
                    }
                    return Err(error);
                }
            };
            session.answer_from(&request, &body, place).await?
        }
    };
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

/// The membership that a sign-in asks for: by the only credential that it accepts, or when it
/// accepts any, by the choice of the command line or the lack of an account.
fn member_for<'a>(
    wallet: &'a WalletFile,
    group: Option<GroupId>,
    request: &SignInRequest,
    asked: AskedProof<'_>,
    is_alone: bool,
) -> Result<Option<&'a Member>, ChoiceError> {
    let memberships = Memberships::new(wallet.members(), group, &[]);
    match (asked, &request.identifier) {
        (AskedProof::Legacy, Some(only)) => memberships.choose(request.environment, &[only]),
        (AskedProof::Legacy, None) => memberships.choose_any(request.environment, is_alone),
        // A member makes legacy proofs only.
        _ => memberships.choose(request.environment, &[]),
    }
}

/// Answers a sign-in as a member of a group. When the root has ended meanwhile, the proof is made
/// again once.
async fn answer_as_member(
    session: &SignInSession,
    request: &SignInRequest,
    member: &Member,
    parameters: &ProofParameters<'_>,
    place: Place,
    random: &mut Random<'_>,
) -> Result<Onward, CommandError> {
    let name = request.identifier.as_deref().unwrap_or(member.group.as_str());
    let mut is_again = false;
    loop {
        let body = match prove_as_member(member, name, parameters, random).await {
            Ok(body) => body,
            Err(error) => {
                if let Some(code) = code_of(&error) {
                    session.give_up(request, code).await?;
                }
                return Err(error);
            }
        };
        match session.answer_from(request, &body, place).await {
            Err(error) if !is_again && matches!(error.code(), Some("invalid_merkle_root" | "root_too_old")) => {
                is_again = true;
            }
            onward => return Ok(onward?),
        }
    }
}

/// A verification request with a proof of the account; `None` when it has not the only credential
/// that the request accepts.
async fn prove_account(
    prover: &mut Prover,
    request: &SignInRequest,
    asked: AskedProof<'_>,
    parameters: &ProofParameters<'_>,
    random: &mut Random<'_>,
    now: UnixSeconds,
) -> Result<Option<Value>, CommandError> {
    prover.issued_since = request.genesis_issued_at_min;
    if let (AskedProof::Legacy, Some(only)) = (asked, &request.identifier) {
        let Some(identifier) = LegacyIdentifier::from_name(only) else { return Ok(None) };
        return prover.prove_legacy(identifier, parameters, random).await.map(Some);
    }
    if let Some(only) = &request.identifier
        && prover.party(&request.app_id)?.identifier != *only
    {
        return Ok(None);
    }
    let body = match asked {
        AskedProof::Legacy => prover.prove(ProofKind::Legacy, parameters, random, now).await?,
        AskedProof::Uniqueness => prover.prove(ProofKind::Uniqueness, parameters, random, now).await?,
        AskedProof::BoundUniqueness => prover.prove(ProofKind::Bound, parameters, random, now).await?,
        AskedProof::Session(id) => prover.prove_session(id, parameters, random)?,
    };
    Ok(Some(body))
}

/// The code with which the issuer is told why there is no proof; `None` for what the person can
/// repair and try again.
fn code_of(error: &CommandError) -> Option<&'static str> {
    match error {
        CommandError::Guard(GuardError::Replayed { .. }) => Some("nullifier_replayed"),
        CommandError::MemberProof(MemberProofError::Member(
            MemberError::NoLeaf { .. } | MemberError::NotOnRoll { .. },
        )) => Some("credential_unavailable"),
        _ => None,
    }
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
