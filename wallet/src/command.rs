//! `selfsame wallet …`: the commands and their output.
//!
//! Every command works on one wallet file ([`crate::file`]). A second authenticator or a recovery
//! agent has a wallet file of its own, made by `wallet new`, so that it can act afterwards.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};

use alloy_primitives::Address;
use selfsame_protocol::ids::{LeafIndex, PubkeyId};
use selfsame_protocol::indexer::PendingRecoveryAgentResponse;
use selfsame_protocol::sign_in::proof_request::Initiator;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::Environment;
use selfsame_protocol::{address, number};
use serde_json::Value;

use crate::Random;
use crate::account::{AccountError, Registry, Report};
use crate::client::{Client, ClientError};
use crate::file::{FileError, WalletFile};
use crate::head::{CheckedHead, HeadCheckError, LONGEST_WALK, check_head};
use crate::keys::{AuthenticatorKey, SeedError};
use crate::operations::{AccountState, OperationError, Step, create_account};
use crate::operator::{Operator, OperatorError};
use crate::prove::{self, LegacyRequest, ProofParameters, ProveError, SimulatedParty};
use crate::sign_in::{RequestError, SignInRequest, SignInSession, printable};

const DEFAULT_GATEWAY: &str = "http://127.0.0.1:8082";
const DEFAULT_INDEXER: &str = "http://127.0.0.1:8083";

/// The development authenticator: makes and changes accounts with real keys and signatures.
#[derive(Clone, Debug, clap::Args)]
pub struct WalletCommand {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, clap::Args)]
struct Options {
    /// The wallet file that acts: one authenticator's keys.
    #[arg(long, global = true, env = "WALLET_FILE", value_name = "FILE", default_value = "selfsame-wallet.json")]
    wallet: PathBuf,
    /// The gateway [default: the wallet file's; for a new wallet http://127.0.0.1:8082].
    #[arg(long, global = true, env = "WALLET_GATEWAY", value_name = "URL")]
    gateway: Option<String>,
    /// The indexer [default: the wallet file's; for a new wallet http://127.0.0.1:8083].
    #[arg(long, global = true, env = "WALLET_INDEXER", value_name = "URL")]
    indexer: Option<String>,
    /// How long to wait for an operation to become final.
    #[arg(long, global = true, value_name = "DURATION", default_value = "1m")]
    timeout: humantime::Duration,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// Make a new authenticator and keep its keys in a file that only you can read.
    New,
    /// Show the wallet and its account, or another account.
    Show {
        /// The account to show; this wallet's when left out.
        #[arg(long, value_name = "N", value_parser = number::parse::<LeafIndex>)]
        leaf_index: Option<LeafIndex>,
    },
    /// Print a verification request with a proof by this wallet, ready for the verification
    /// endpoint.
    Prove(Prove),
    /// Answer a sign-in with a proof by this wallet.
    SignIn(SignIn),
    #[command(flatten)]
    Change(Change),
}

#[derive(Clone, Debug, clap::Args)]
struct Prove {
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
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Clone, Debug, clap::Args)]
struct DaemonOptions {
    /// The daemon's operator interface: with --dev it trusts the root of the wallet's own tree; it
    /// serves the simulator's seed.
    #[arg(long, env = "WALLET_OPERATOR", value_name = "URL", default_value = "http://127.0.0.1:8084")]
    operator: String,
    /// The daemon's data folder, which holds the operator's token.
    #[arg(long, value_name = "DIR", env = "SELFSAME_DATA_DIR", default_value = "selfsame-data")]
    data: PathBuf,
}

#[derive(Clone, Debug, clap::Args)]
struct SignIn {
    /// The URL in the page's QR code, or a whole authorization URL. For the latter, the wallet also
    /// acts as the browser and prints where the browser would be sent.
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
    daemon: DaemonOptions,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ProofKind {
    /// Protocol version 3.0: a genuine proof.
    Legacy,
    /// Protocol version 4.0, by the simulator.
    Uniqueness,
    /// Protocol version 4.0 in a session, by the simulator.
    Session,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Change {
    /// Create an account with this wallet as its only authenticator.
    CreateAccount {
        /// The agent that may recover the account; no agent when left out.
        #[arg(long, value_name = "ADDRESS", value_parser = address::parse)]
        recovery_agent: Option<Address>,
        /// The token that the gateway's operator gave out, if it asks for one.
        #[arg(long, value_name = "TOKEN")]
        creation_token: Option<String>,
    },
    /// Add another wallet to the account.
    Insert {
        /// The wallet file to add, made by `wallet new`.
        #[arg(long, value_name = "FILE")]
        new_wallet: PathBuf,
        /// The free slot to put it in; the lowest when left out.
        #[arg(long, value_name = "N")]
        slot: Option<u32>,
    },
    /// Replace this wallet by another one, in its slot.
    Update {
        /// The wallet file that takes over, made by `wallet new`.
        #[arg(long, value_name = "FILE")]
        new_wallet: PathBuf,
    },
    /// Remove an authenticator from the account.
    Remove {
        /// The authenticator's address; this wallet's own is allowed.
        #[arg(value_name = "ADDRESS", value_parser = address::parse)]
        authenticator: Address,
    },
    /// As the recovery agent, give an account to a new wallet; all its authenticators are revoked.
    Recover {
        /// The account.
        #[arg(long, value_name = "N", value_parser = number::parse::<LeafIndex>)]
        leaf_index: LeafIndex,
        /// The wallet file that gets the account, made by `wallet new`.
        #[arg(long, value_name = "FILE")]
        new_wallet: PathBuf,
    },
    /// Change who may recover the account.
    #[command(subcommand)]
    RecoveryAgent(RecoveryAgentChange),
}

#[derive(Clone, Debug, clap::Subcommand)]
enum RecoveryAgentChange {
    /// Ask for a new recovery agent; it takes office by `execute` once the cooldown has passed.
    Set {
        /// The agent's address; the zero address ends recovery.
        #[arg(value_name = "ADDRESS", value_parser = address::parse)]
        agent: Address,
    },
    /// Put the pending recovery agent in office. Needs no signature, so any wallet may do it.
    Execute {
        /// The account; this wallet's when left out.
        #[arg(long, value_name = "N", value_parser = number::parse::<LeafIndex>)]
        leaf_index: Option<LeafIndex>,
    },
    /// Drop the pending recovery agent.
    Cancel,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A wallet file cannot be created or read: this wallet's, or the new wallet's.
    #[error(transparent)]
    File(#[from] FileError),
    /// The random bytes for a new wallet are not a valid seed.
    #[error("no wallet can be made: {0}")]
    Seed(#[from] SeedError),
    /// Reading an account, or building, submitting or verifying an operation failed. Holds every
    /// [`ClientError`] and [`OperationError`] too.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The registry's signed head does not continue the history that the wallet has seen, or is not
    /// valid.
    #[error(transparent)]
    Head(#[from] HeadCheckError),
    /// The proof for a verification request or a sign-in cannot be made.
    #[error(transparent)]
    Prove(#[from] ProveError),
    /// The root of a legacy proof cannot be added to the daemon's trusted roots.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// The sign-in request cannot be trusted.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The command would have to ask, and there is no terminal.
    #[error("sign-in asks before it answers, and there is no terminal; give --yes to answer without being asked")]
    NoTerminal,
    /// A line of the command's output cannot be written, or the answer to a question cannot be
    /// read.
    #[error("the terminal cannot be used: {0}")]
    Output(#[from] io::Error),
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        AccountError::from(error).into()
    }
}

impl From<OperationError> for CommandError {
    fn from(error: OperationError) -> Self {
        AccountError::from(error).into()
    }
}

/// Runs a command and prints each step when it is done. `random` makes keys and idempotency keys,
/// `clock` measures how long an operation took.
///
/// # Errors
/// A [`CommandError`] that says what was wrong. The gateway carries out an accepted operation even
/// when the command fails afterwards.
pub async fn run(
    command: WalletCommand,
    random: &mut Random<'_>,
    clock: &(dyn Fn() -> Instant + Sync),
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    let WalletCommand { options, action } = command;
    match action {
        Action::New => new(&options, random, out),
        Action::SignIn(command) => sign_in(&options, command, random, out).await,
        Action::Prove(command) => prove(&options, command, random, out).await,
        Action::Show { leaf_index } => show(&options, leaf_index, out).await,
        Action::Change(change) => change_account(&options, change, random, clock, out).await,
    }
}

fn new(options: &Options, random: &mut Random<'_>, out: &mut dyn Write) -> Result<(), CommandError> {
    let gateway = options.gateway.as_deref().unwrap_or(DEFAULT_GATEWAY);
    let indexer = options.indexer.as_deref().unwrap_or(DEFAULT_INDEXER);
    Client::new(gateway, indexer)?;
    let key = AuthenticatorKey::generate(random)?;
    let wallet = WalletFile::create(&options.wallet, key, gateway, indexer)?;
    describe_wallet(&wallet, out)
}

async fn show(
    options: &Options,
    leaf_index: Option<LeafIndex>,
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    let mut wallet = WalletFile::open(&options.wallet)?;
    describe_wallet(&wallet, out)?;
    let registry = connect(options, &mut wallet, out).await?;
    let account = match leaf_index {
        Some(leaf_index) => registry.account(leaf_index).await,
        None => registry.account_of(wallet.key.address()).await,
    };
    match account {
        Ok(account) => describe_account(&registry, &account, &wallet, out).await,
        Err(AccountError::NoAccount(_)) => Ok(writeln!(out, "this wallet is not an authenticator of an account")?),
        Err(error) => Err(error.into()),
    }
}

async fn prove(
    options: &Options,
    command: Prove,
    random: &mut Random<'_>,
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    let Prove { app, kind, action, signal, production, daemon } = command;
    let wallet = WalletFile::open(&options.wallet)?;
    let environment = if production { Environment::Production } else { Environment::Staging };
    let parameters = ProofParameters { app_id: &app, action: &action, signal: &signal, environment, nonce: None };
    let body = proof(options, &daemon, &wallet, kind, &parameters, random).await?;
    Ok(writeln!(out, "{body}")?)
}

/// A verification request with a proof. For a legacy proof, a daemon with `--dev` trusts its root
/// afterwards.
async fn proof(
    options: &Options,
    daemon: &DaemonOptions,
    wallet: &WalletFile,
    kind: ProofKind,
    parameters: &ProofParameters<'_>,
    random: &mut Random<'_>,
) -> Result<Value, CommandError> {
    let operator = Operator::new(&daemon.operator)?;
    if matches!(kind, ProofKind::Legacy) {
        let LegacyRequest { root, body } = prove::legacy(&wallet.key, parameters, random)?;
        operator.trust_simulated_root(root, parameters.environment, prove::LEGACY_IDENTIFIER, &daemon.data).await?;
        return Ok(body);
    }
    let indexer = options.indexer.as_deref().unwrap_or(&wallet.indexer);
    let root = Client::new(&wallet.gateway, indexer)?.root().await?.root;
    let party = SimulatedParty::of(operator.simulation().await?, parameters.app_id, root)?;
    Ok(match kind {
        ProofKind::Session => prove::session(&wallet.key, parameters, &party, random)?,
        _ => prove::uniqueness(&wallet.key, parameters, &party, random)?,
    })
}

async fn sign_in(
    options: &Options,
    command: SignIn,
    random: &mut Random<'_>,
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    let SignIn { url, refuse, yes, issuer, same_device, daemon } = command;
    let mut wallet = WalletFile::open(&options.wallet)?;
    if !yes && !refuse && !io::stdin().is_terminal() {
        return Err(CommandError::NoTerminal);
    }
    let session = SignInSession::open(&url).await?;
    let mut return_url = None;
    if refuse {
        if !refuse_unverified(&session, out).await? {
            return Ok(());
        }
    } else {
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
        let body = proof(options, &daemon, &wallet, kind, &parameters, random).await?;
        return_url = session.answer_from(&request, &body, same_device || session.is_browser()).await?;
        writeln!(out, "proved")?;
    }
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

/// Asks the person at the terminal; only `y` and `yes` are consent.
fn ask(question: &str, out: &mut dyn Write) -> Result<bool, CommandError> {
    write!(out, "{question} [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

async fn change_account(
    options: &Options,
    change: Change,
    random: &mut Random<'_>,
    clock: &(dyn Fn() -> Instant + Sync),
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    let mut wallet = WalletFile::open(&options.wallet)?;
    let mut registry = connect(options, &mut wallet, out).await?;
    if let Change::CreateAccount { creation_token, .. } = &change {
        registry.set_creation_token(creation_token.clone());
    }
    let step = build(change, &registry, &wallet.key).await?;
    let started = clock();
    let accepted = registry.submit(step, random).await?;
    writeln!(out, "accepted request {} ({})", accepted.request_id, <&str>::from(accepted.kind))?;
    let finalized = registry.wait(accepted, options.timeout.into()).await?;
    let elapsed = Duration::from_millis(clock().duration_since(started).as_millis() as u64);
    let block = &finalized.transaction_hash;
    writeln!(out, "finalized in block {block} after {}", humantime::format_duration(elapsed))?;
    let Report { receipt, account, root } = registry.check(finalized).await?;
    let (position, height) = (receipt.operation.position, receipt.block.header.height);
    writeln!(out, "receipt verified: operation {position} of block {height}")?;
    writeln!(out, "inclusion proof verified against root {root:#x}")?;
    let head = check_head(&registry, &mut wallet, Some((height, receipt.block.hash))).await?;
    describe_head(&head, out)?;
    describe_account(&registry, &account, &wallet, out).await
}

/// Builds the operation from the account's present state, and signs it.
async fn build(change: Change, registry: &Registry, key: &AuthenticatorKey) -> Result<Step, CommandError> {
    let domain = registry.domain();
    let own_account = || registry.account_of(key.address());
    let authenticator = |wallet: PathBuf| WalletFile::open(&wallet).map(|wallet| wallet.key.authenticator());
    Ok(match change {
        Change::CreateAccount { recovery_agent, .. } => {
            create_account(&[key.authenticator()], recovery_agent.unwrap_or_default())
        }
        Change::Insert { new_wallet, slot } => {
            let new = authenticator(new_wallet)?;
            let account = own_account().await?;
            account.insert(domain, key, new, slot.map_or_else(|| account.lowest_free_slot(), PubkeyId))?
        }
        Change::Update { new_wallet } => {
            let new = authenticator(new_wallet)?;
            own_account().await?.update(domain, key, new)?
        }
        Change::Remove { authenticator } => own_account().await?.remove(domain, key, authenticator)?,
        Change::Recover { leaf_index, new_wallet } => {
            let new = authenticator(new_wallet)?;
            registry.account(leaf_index).await?.recover(domain, key, new)?
        }
        Change::RecoveryAgent(RecoveryAgentChange::Set { agent }) => {
            own_account().await?.update_recovery_agent(domain, key, agent)?
        }
        Change::RecoveryAgent(RecoveryAgentChange::Execute { leaf_index }) => {
            let account = match leaf_index {
                Some(leaf_index) => registry.account(leaf_index).await?,
                None => own_account().await?,
            };
            account.execute_recovery_agent_update()
        }
        Change::RecoveryAgent(RecoveryAgentChange::Cancel) => {
            own_account().await?.cancel_recovery_agent_update(domain, key)?
        }
    })
}

/// Connects to the registry. The first connection fixes the registry that the wallet signs for, and
/// the key of its heads. Later the registry must continue the history of the head in the file.
async fn connect(
    options: &Options,
    wallet: &mut WalletFile,
    out: &mut (dyn Write + Send),
) -> Result<Registry, CommandError> {
    let gateway = options.gateway.as_deref().unwrap_or(&wallet.gateway);
    let indexer = options.indexer.as_deref().unwrap_or(&wallet.indexer);
    let registry = Registry::connect(Client::new(gateway, indexer)?).await?;
    wallet.pin_registry(*registry.domain())?;
    describe_gaps(&check_head(&registry, wallet, None).await?, out)?;
    Ok(registry)
}

fn describe_head(head: &CheckedHead, out: &mut dyn Write) -> Result<(), CommandError> {
    let CheckedHead { height, seen, not_linked } = head;
    let continued = |seen: &u64| *seen > 0 && seen != height && !not_linked.contains(seen);
    match seen.filter(continued) {
        Some(seen) => writeln!(out, "signed head of block {height} verified, it continues block {seen}")?,
        None => writeln!(out, "signed head of block {height} verified")?,
    }
    describe_gaps(head, out)
}

/// Names the blocks that the head may continue without a check of the blocks between.
fn describe_gaps(head: &CheckedHead, out: &mut dyn Write) -> Result<(), CommandError> {
    for height in &head.not_linked {
        writeln!(
            out,
            "block {height} is more than {LONGEST_WALK} blocks before the head: the blocks between were not checked"
        )?;
    }
    Ok(())
}

fn describe_wallet(wallet: &WalletFile, out: &mut dyn Write) -> Result<(), CommandError> {
    writeln!(out, "wallet {}", wallet.path().display())?;
    writeln!(out, "address {:#x}", wallet.key.address())?;
    writeln!(out, "public key {:#x}", wallet.key.authenticator().compressed_key())?;
    Ok(())
}

async fn describe_account(
    registry: &Registry,
    account: &AccountState,
    wallet: &WalletFile,
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    let leaf_index = account.leaf_index;
    writeln!(out, "leaf index {leaf_index:#x}, nonce {}", account.nonce)?;
    for (pubkey_id, slot) in account.slots.iter().enumerate() {
        match slot {
            Some(slot) if slot.address == wallet.key.address() => {
                writeln!(out, "slot {pubkey_id}: {:#x} (this wallet)", slot.address)?;
            }
            Some(slot) => writeln!(out, "slot {pubkey_id}: {:#x}", slot.address)?,
            None => writeln!(out, "slot {pubkey_id}: removed")?,
        }
    }
    let agent = registry.client().recovery_agent(leaf_index).await?;
    if !agent.is_zero() {
        writeln!(out, "recovery agent {agent:#x}")?;
    }
    let pending = registry.client().pending_recovery_agent(leaf_index).await?;
    let PendingRecoveryAgentResponse { pending_recovery_agent, execute_after } = pending;
    if execute_after != UnixSeconds(0) {
        let from = instant(execute_after);
        writeln!(out, "recovery agent {pending_recovery_agent:#x} can take office from {from} on")?;
    }
    Ok(())
}

/// A time as a date (RFC 3339); after the year 9999 as Unix seconds.
fn instant(time: UnixSeconds) -> String {
    const YEAR_10000: UnixSeconds = UnixSeconds(253_402_300_800);
    if time < YEAR_10000 {
        humantime::format_rfc3339_seconds(UNIX_EPOCH + time.since_epoch()).to_string()
    } else {
        format!("{time} (Unix seconds)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_printed_as_dates_up_to_the_year_9999() {
        assert_eq!(instant(UnixSeconds(0)), "1970-01-01T00:00:00Z");
        assert_eq!(instant(UnixSeconds(253_402_300_799)), "9999-12-31T23:59:59Z");
        assert_eq!(instant(UnixSeconds(253_402_300_800)), "253402300800 (Unix seconds)");
        assert_eq!(instant(UnixSeconds::NEVER), "18446744073709551615 (Unix seconds)");
    }
}
