//! `selfsame wallet sign-in`.

use std::io::Write;

use selfsame_protocol::sign_in::proof_request::Initiator;
use selfsame_protocol::time::UnixSeconds;

use super::answer::{Answer, answer};
use super::error::CommandError;
use super::options::{DaemonOptions, GuardOptions, Options};
use super::prove::{ProofKind, Prover};
use super::terminal::{ask, has_terminal, instant};
use crate::Random;
use crate::bridge::connector::is_connector_uri;
use crate::file::WalletFile;
use crate::prove::ProofParameters;
use crate::sign_in::{SignInRequest, SignInSession, printable};

#[derive(Clone, Debug, clap::Args)]
pub struct SignIn {
    /// The URL in the page's QR code, or a whole authorization URL. For the latter, the wallet also
    /// acts as the browser and prints where the browser would be sent. The QR code may also have a
    /// connector URI, which is answered as by `wallet answer`: a sign-in only with its option
    /// --as-public-wallet.
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
    /// The URL was opened on the device where the browser is, not scanned from another screen: the
    /// sign-in continues only at the address that is printed. Always so for an authorization URL.
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
    describe_request(&printable(&request), out)?;
    if !yes && !ask("Answer with a proof?", out)? {
        session.refuse(&request).await?;
        return Ok(writeln!(out, "refused")?);
    }
    let kind = if request.is_legacy() { ProofKind::Legacy } else { ProofKind::Uniqueness };
    let parameters = ProofParameters {
        app_id: &request.app_id,
        action: &request.action,
        signal: &request.signal,
        environment: request.environment,
        nonce: Some(request.nonce),
    };
    let body = prover.prove(kind, &parameters, random, now()).await?;
    let return_url = session.answer_from(&request, &body, same_device || session.is_browser()).await?;
    writeln!(out, "proved")?;
    match (session.complete_at(return_url.as_deref()).await?, return_url) {
        (Some(target), _) => writeln!(out, "{target}")?,
        (None, Some(return_url)) => writeln!(out, "open this in the browser of this device: {return_url}")?,
        (None, None) => {}
    }
    Ok(())
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
