//! `selfsame wallet …`: the commands and their output.
//!
//! Every command works on one wallet file ([`crate::file`]). A second authenticator or a recovery
//! agent has a wallet file of its own, made by `wallet new`, so that it can act afterwards.

mod answer;
mod evidence;
mod group;
mod prove;
mod sign_in;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use alloy_primitives::Address;
use selfsame_protocol::bridge::wire::Rejection;
use selfsame_protocol::groups::names::GroupId;
use selfsame_protocol::ids::{LeafIndex, PubkeyId};
use selfsame_protocol::indexer::PendingRecoveryAgentResponse;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::{address, number};

use crate::Random;
use crate::account::{AccountError, Registry, Report};
use crate::bridge::{BridgeError, ConnectorError};
use crate::bundle::BundleError;
use crate::client::{Client, ClientError};
use crate::file::{FileError, Services, WalletFile};
use crate::groups::{ChoiceError, LinkError, MemberProofError};
use crate::guard::{Guard, GuardError};
use crate::head::{CheckedHead, HeadCheckError, LONGEST_WALK, check_head};
use crate::keys::{AuthenticatorKey, SeedError};
use crate::member::MemberError;
use crate::operations::{AccountState, OperationError, Step, create_account};
use crate::operator::{Operator, OperatorError};
use crate::prove::ProveError;
use crate::sign_in::{RequestError, UnknownProof};
use answer::Answer;
use group::GroupAction;
use prove::Prove;
use sign_in::SignIn;

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

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// Make a new authenticator and keep its keys in a file that only you can read. The file
    /// remembers the addresses and the data folder that are given here.
    New(DaemonOptions),
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
    /// Answer the request of an application's page, which a client kit has put on a bridge.
    Answer(Answer),
    /// Be a member of a group, which an organization runs with its daemon.
    #[command(subcommand)]
    Group(GroupAction),
    #[command(flatten)]
    Change(Change),
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

/// Where a command gets the time from.
#[derive(Clone, Copy)]
pub struct Clocks<'a> {
    /// Measures how long an operation took.
    pub monotonic: &'a (dyn Fn() -> Instant + Sync),
    /// The time of day, which requests expire by.
    pub unix: &'a (dyn Fn() -> UnixSeconds + Sync),
}

/// Runs a command and prints each step when it is done. `random` makes keys and idempotency keys.
///
/// # Errors
/// A [`CommandError`] that says what was wrong. The gateway carries out an accepted operation even
/// when the command fails afterwards.
pub async fn run(
    command: WalletCommand,
    random: &mut Random<'_>,
    clocks: &Clocks<'_>,
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    let WalletCommand { options, action } = command;
    match action {
        Action::New(daemon) => new(&options, daemon, random, out),
        Action::SignIn(command) => sign_in::sign_in(&options, command, random, clocks.unix, out).await,
        Action::Answer(command) => answer::answer(&options, command, random, clocks.unix, out).await,
        Action::Group(action) => group::group(&options, action, random, out).await,
        Action::Prove(command) => prove::prove(&options, command, random, (clocks.unix)(), out).await,
        Action::Show { leaf_index } => show(&options, leaf_index, out).await,
        Action::Change(change) => change_account(&options, change, random, clocks.monotonic, out).await,
    }
}

fn new(
    options: &Options,
    daemon: DaemonOptions,
    random: &mut Random<'_>,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let or = |given: &Option<String>, default: &str| given.clone().unwrap_or_else(|| default.to_owned());
    let gateway = or(&options.gateway, DEFAULT_GATEWAY);
    let indexer = or(&options.indexer, DEFAULT_INDEXER);
    Client::new(&gateway, &indexer)?;
    let DaemonOptions { operator, data } = daemon;
    if let Some(operator) = &operator {
        Operator::new(operator)?;
    }
    // The wallet may be used from another folder.
    let data = data.map(std::path::absolute).transpose()?;
    let key = AuthenticatorKey::generate(random)?;
    let wallet = WalletFile::create(&options.wallet, key, Services { gateway, indexer, operator, data })?;
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

// The options that several commands have.

const DEFAULT_OPERATOR: &str = "http://127.0.0.1:8084";
const DEFAULT_DATA: &str = "selfsame-data";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// The wallet file that acts: one authenticator's keys.
    #[arg(long, global = true, env = "WALLET_FILE", value_name = "FILE", default_value = "selfsame-wallet.json")]
    pub wallet: PathBuf,
    /// The gateway [default: the wallet file's; for a new wallet http://127.0.0.1:8082].
    #[arg(long, global = true, env = "WALLET_GATEWAY", value_name = "URL")]
    pub gateway: Option<String>,
    /// The indexer [default: the wallet file's; for a new wallet http://127.0.0.1:8083].
    #[arg(long, global = true, env = "WALLET_INDEXER", value_name = "URL")]
    pub indexer: Option<String>,
    /// How long to wait for an operation to become final.
    #[arg(long, global = true, value_name = "DURATION", default_value = "1m")]
    pub timeout: humantime::Duration,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DaemonOptions {
    /// The daemon's operator interface: with --dev it trusts the root of the wallet's own tree; it
    /// serves the simulator's seed [default: the wallet file's, otherwise http://127.0.0.1:8084].
    #[arg(long, env = "WALLET_OPERATOR", value_name = "URL")]
    pub operator: Option<String>,
    /// The daemon's data folder, which holds the operator's token [default: the wallet file's,
    /// otherwise selfsame-data].
    #[arg(long, value_name = "DIR", env = "SELFSAME_DATA_DIR")]
    pub data: Option<PathBuf>,
}

impl DaemonOptions {
    /// The operator interface: that of the command line, else that of the wallet file.
    pub fn operator<'a>(&'a self, wallet: &'a WalletFile) -> &'a str {
        self.operator.as_deref().or(wallet.operator.as_deref()).unwrap_or(DEFAULT_OPERATOR)
    }

    /// The data folder, chosen in the same way.
    pub fn data<'a>(&'a self, wallet: &'a WalletFile) -> &'a Path {
        self.data.as_deref().or(wallet.data.as_deref()).unwrap_or(Path::new(DEFAULT_DATA))
    }
}

/// How the wallet remembers the nullifiers that it gives.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct GuardOptions {
    /// Give a nullifier however often it was given. Without this option the wallet gives it for ten
    /// minutes and then not for a year, like the wallets that people have.
    #[arg(long)]
    no_guard: bool,
    /// Forget first which nullifiers were given, as an installation that lost its memory.
    #[arg(long, conflicts_with = "no_guard")]
    forget: bool,
}

impl GuardOptions {
    /// The guard of a wallet's installation; `None` without one.
    ///
    /// # Errors
    /// [`GuardError::Memory`].
    pub fn open(self, wallet: &WalletFile) -> Result<Option<Guard>, GuardError> {
        if self.no_guard {
            return Ok(None);
        }
        let mut guard = Guard::open(wallet.path())?;
        if self.forget {
            guard.forget()?;
        }
        Ok(Some(guard))
    }
}

// Why a command of the wallet failed.

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
    /// The wallet has no account, so there is no person to prove.
    #[error(
        "{address:#x} is not, or no longer, an authenticator of an account, so this wallet proves nothing; make an account \
         with `selfsame wallet create-account --wallet {}`, or add this wallet to one with `selfsame wallet insert \
         --new-wallet {}` and a wallet of that account (asked: the indexer at {indexer})",
        wallet.display(), wallet.display()
    )]
    NoAccount {
        /// The wallet's address.
        address: Address,
        /// Path of the wallet file.
        wallet: PathBuf,
        /// Base address of the indexer that was asked.
        indexer: String,
    },
    /// The daemon has no simulator, which makes current proofs.
    #[error(
        "the daemon at {operator} has no simulator, so that no current proof can be made; set verifier.keys.staging.current \
         = \"simulator\" there, or name another daemon with --operator"
    )]
    NoSimulator {
        /// The operator interface that was asked.
        operator: String,
    },
    /// The daemon's simulation has no relying party of the application.
    #[error(
        "the daemon at {operator} has no application {app_id}; add it to [[apps]] there, or name the daemon that has it \
         with --operator"
    )]
    OtherDaemon {
        /// Id of the application that was asked for.
        app_id: String,
        /// The operator interface that was asked.
        operator: String,
    },
    /// No integrity bundle can be made.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The daemon has no simulator, whose attestation issuer signs this wallet's bundles.
    #[error("the daemon has no simulator, so that this wallet can make no integrity bundle; leave --bundle out")]
    NoSimulatedIssuer,
    /// The daemon has no issuer with an id.
    #[error("the daemon has no issuer {issuer} for staging; add it to [[issuers]]")]
    NoSuchIssuer {
        /// The issuer schema id.
        issuer: u64,
    },
    /// The nullifier was given before, or the memory of the nullifiers that were given fails.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// The root of a legacy proof cannot be added to the daemon's trusted roots.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// The sign-in request cannot be trusted.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The sign-in request asks for a proof that this wallet does not know.
    #[error(transparent)]
    UnknownProof(#[from] UnknownProof),
    /// The text is not a connector URI that the wallet can use.
    #[error(transparent)]
    Connector(#[from] ConnectorError),
    /// A request was not fetched from its bridge, or the answer not handed over.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// The request of an application is not answered with a proof.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The text is not a group's link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A member's request or proof is not made.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// A member's proof is not made, or the service of the group does not answer.
    #[error(transparent)]
    MemberProof(#[from] MemberProofError),
    /// No membership answers, although one is wanted.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// The wallet has no such credential.
    #[error("this wallet has no credential {name} in {environment}: it is no public name, and no group of this wallet")]
    NoCredential {
        /// The name; without control characters.
        name: String,
        /// The environment.
        environment: &'static str,
    },
    /// A current proof of a group or of a legacy credential.
    #[error("--group and --credential are for legacy proofs; leave --kind out")]
    LegacyOnly,
    /// The account is needed, and only a group was to answer.
    #[error("the request asks for a proof of this wallet's account, and --group was given")]
    AccountUnasked,
    /// The service of a group refuses a request.
    #[error("{group}: {words} ({error})")]
    GroupRefusal {
        /// The group.
        group: GroupId,
        /// What it means, and what helps.
        words: &'static str,
        /// The answer.
        error: String,
    },
    /// The wallet is not a member of the group.
    #[error("this wallet is not a member of the group {group}; join it with `selfsame wallet group join LINK`")]
    NotInGroup {
        /// The group.
        group: GroupId,
    },
    /// The link is for another group.
    #[error("the link is for the group {link}, not for {group}")]
    OtherGroupsLink {
        /// The group that was named.
        group: GroupId,
        /// The group of the link.
        link: GroupId,
    },
    /// A replacement was begun, and its outcome is unknown.
    #[error(
        "a replacement of the leaf in {group} was begun, and its outcome is unknown; finish it first with `selfsame wallet \
         group replace {group}`"
    )]
    ReplacementUnderWay {
        /// The group.
        group: GroupId,
    },
    /// An option that a connector URI has no place for.
    #[error(
        "{option} does not belong to a connector URI: the request there is signed by no issuer, and its answer says \
         nothing about the device; leave {option} out"
    )]
    NotOfConnector {
        /// The option.
        option: &'static str,
    },
    /// The command would have to ask, and there is no terminal.
    #[error("the wallet asks before it answers, and there is no terminal; give --yes to answer without being asked")]
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

// Asking the person at the terminal, and writing times for people.

/// Whether there is a person to ask.
pub fn has_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Asks the person at the terminal; only `y` and `yes` are consent.
pub fn ask(question: &str, out: &mut dyn Write) -> Result<bool, CommandError> {
    write!(out, "{question} [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// A time as a date (RFC 3339); after the year 9999 as Unix seconds.
pub fn instant(time: UnixSeconds) -> String {
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
