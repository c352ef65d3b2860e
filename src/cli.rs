//! The command line.

mod apps;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use selfsame_protocol::events::record::EventPosition;
use selfsame_protocol::groups::names::{GroupId, MemberNumber, RollName};
use selfsame_protocol::sign_in::accounts::SubjectKind;
use selfsame_protocol::sign_in::attaching::KeptProofs;
use selfsame_protocol::verification::LegacyIdentifier;

use crate::backup::restore::SeenBlock;
use crate::operator_client::OperatorOptions;
use crate::prepared::ConfigSource;

pub use apps::{App, NewApp};

/// Self-hosted identity service for proof of personhood.
#[derive(Debug, Parser)]
#[command(name = "selfsame", version, about, max_term_width = 110)]
pub struct Arguments {
    /// The subcommand, which is required.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommand.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon
    Serve(Serve),
    /// Look at the configuration without a start
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check the registry's rules and its store
    #[command(subcommand)]
    Registry(Registry),
    /// Set up applications
    #[command(subcommand)]
    App(App),
    /// What is followed from public chains
    #[command(subcommand)]
    Chain(ChainCommand),
    /// The trusted roots of a running daemon
    #[command(subcommand)]
    Roots(Roots),
    /// The keys that the daemon signs ID tokens with
    #[command(subcommand)]
    Keys(Keys),
    /// The accounts of people who sign in to applications
    #[command(subcommand)]
    Account(Account),
    /// The groups of a running daemon: who their members are
    #[command(subcommand)]
    Group(Group),
    /// The page of the web wallet, in which members of groups keep their secrets
    #[command(subcommand)]
    WalletPage(WalletPageCommand),
    /// The webhooks of a running daemon
    #[command(subcommand)]
    Webhooks(Webhooks),
    /// The replicas of a cluster
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Let a running daemon read its configuration again, as SIGHUP does; exit status 78 if the new
    /// one is refused, and the old one stays in force
    Reload {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// The store of a data folder
    #[command(subcommand)]
    Store(StoreCommand),
    /// Make a backup of a running daemon, or check one
    #[command(args_conflicts_with_subcommands = true)]
    Backup(Backup),
    /// Make a data folder from a backup
    Restore(Restore),
    /// How a running daemon is doing; exit status 1 when it is not ready, or something needs
    /// attention
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Exit status 1 only when the daemon is not ready, whatever needs attention: for probes,
        /// which must not end a daemon whose backups fail
        #[arg(long)]
        ready: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Print the completions of a shell, to be loaded by it
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the man pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder, which has to exist
        folder: PathBuf,
    },
    /// The development authenticator: make keys, create and change accounts, make proofs
    #[cfg(feature = "wallet")]
    Wallet(selfsame_wallet::command::WalletCommand),
    /// The same, which only programs with the feature `wallet` have
    #[cfg(not(feature = "wallet"))]
    #[command(hide = true, disable_help_flag = true)]
    Wallet {
        /// The arguments, which are not read
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
}

/// `selfsame serve`.
#[derive(Debug, Default, Args)]
pub struct Serve {
    /// Where the configuration is
    #[command(flatten)]
    pub source: ConfigSource,
    /// Start the service's clock at this time, for example 2027-01-01T00:00:00Z; it runs on from
    /// there
    #[arg(long, value_name = "RFC3339", requires = "dev", value_parser = time)]
    pub clock: Option<Duration>,
}

/// `selfsame config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check the configuration and the files that it names, as a start does; opens neither the
    /// store nor a port. Exit status 78 if a start would be refused
    Check {
        /// Print JSON: `problems` and `warnings`
        #[arg(long)]
        json: bool,
        /// Where the configuration is
        #[command(flatten)]
        source: ConfigSource,
    },
    /// Print the effective configuration as TOML: every setting with its value and, as a comment,
    /// where it came from. Secrets are hidden
    Dump {
        /// Where the configuration is
        #[command(flatten)]
        source: ConfigSource,
        /// Print JSON: `settings`, and `origins` by the path of each key
        #[arg(long)]
        json: bool,
    },
    /// Print a JSON Schema of the configuration file, with which editors complete and check keys.
    /// It is looser than `selfsame config check`
    Schema,
}

/// `selfsame store`.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// What a store holds: schema, registry, heights, and what each family of records takes.
    /// Changes nothing, also beside a running daemon
    Info {
        /// Data folder: the store and the operator's token
        #[arg(long, value_name = "DIR", env = "SELFSAME_DATA_DIR", default_value = "selfsame-data")]
        data: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `selfsame registry`.
#[derive(Debug, Subcommand)]
pub enum Registry {
    /// Run a recorded trace through the rules and the tree, one block for each row; exit status 1
    /// if any row differs
    Replay {
        /// Trace (JSON)
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read every record of a stopped store, rebuild what follows from its blocks and compare; exit
    /// status 1 if anything is wrong
    Fsck {
        /// Data folder: the store and the operator's token
        #[arg(long, value_name = "DIR", env = "SELFSAME_DATA_DIR", default_value = "selfsame-data")]
        data: PathBuf,
        /// A signed head that the registry gave out (JSON of GET /head), kept outside of the data
        /// folder: its history must be in the store
        #[arg(long, value_name = "FILE")]
        head: Option<PathBuf>,
        /// Where the second store is made, and removed at the end; by default the data folder
        #[arg(long, value_name = "DIR")]
        scratch: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make accounts, tree, roots and everything else that follows from the blocks of a stopped
    /// store again, from the blocks
    Rebuild {
        /// Data folder: the store and the operator's token
        #[arg(long, value_name = "DIR", env = "SELFSAME_DATA_DIR", default_value = "selfsame-data")]
        data: PathBuf,
    },
    /// Compare two signed heads, as GET /head of the gateway answers; exit status 1 if they prove
    /// that the registry has two histories, 2 if they cannot be compared
    CompareHeads {
        /// A signed head (JSON)
        first: PathBuf,
        /// Another signed head of the same registry (JSON)
        second: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `selfsame backup`.
#[derive(Debug, Args)]
pub struct Backup {
    /// Another thing to do than to make a backup.
    #[command(subcommand)]
    pub command: Option<BackupCommand>,
    /// The folder that the daemon makes the backup in: a folder of the daemon's machine, missing or
    /// empty, best on another disk; a relative path counts from here
    #[arg(value_name = "DIR", required = true)]
    pub folder: Option<PathBuf>,
    /// Address of the operator interface, and the folder of its token
    #[command(flatten)]
    pub options: OperatorOptions,
}

/// What else there is to do with backups.
#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Compare a backup with its manifest, and read its store; exit status 1 if anything differs.
    /// Changes nothing, and needs no running daemon
    Verify {
        /// The backup's folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Also rebuild accounts, tree and roots from the blocks of the backup and compare, as
        /// `registry fsck` does
        #[arg(long)]
        deep: bool,
        /// For --deep: where a second store is made, as large as the first, and removed; by default
        /// the folder that the backup is in
        #[arg(long, value_name = "DIR", requires = "deep")]
        scratch: Option<PathBuf>,
        /// The file of sign_in.key_encryption_key_file: check that a daemon with this key has made
        /// the backup, and that nobody has changed it since
        #[arg(long, value_name = "FILE")]
        key_encryption_key_file: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `selfsame restore`.
#[derive(Debug, Args)]
pub struct Restore {
    /// The backup's folder
    #[arg(value_name = "DIR")]
    pub backup: PathBuf,
    /// The new data folder, missing or empty; or one that was restored from the same backup, to
    /// confirm it
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Height or hash of the last block that clients have seen: the daemon does not start before
    /// this is said
    #[arg(long, value_name = "HEIGHT")]
    pub clients_have_seen: Option<SeenBlock>,
    /// The file of sign_in.key_encryption_key_file: restore only a backup that a daemon with this
    /// key has made, and that nobody has changed since
    #[arg(long, value_name = "FILE")]
    pub key_encryption_key_file: Option<PathBuf>,
    /// Restore even when clients have seen blocks that the backup lacks: leaf indexes are given out
    /// again, removed authenticators are valid again, nullifiers are accepted again
    #[arg(long, requires = "clients_have_seen")]
    pub accept_loss: bool,
}

/// `selfsame webhooks`.
#[derive(Debug, Subcommand)]
pub enum Webhooks {
    /// Show how each webhook of the configuration is doing
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Show the events that a webhook has not accepted in all attempts, at most a hundred
    DeadLetters {
        /// The webhook's id in the configuration
        id: String,
        /// Begin behind the dead letter at this position, for example 12.0
        #[arg(long, value_name = "POSITION")]
        after: Option<EventPosition>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Send the dead letters of a webhook again, a thousand at most
    Retry {
        /// The webhook's id in the configuration
        id: String,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Remove the dead letters of a webhook
    Discard {
        /// The webhook's id in the configuration
        id: String,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
}

/// `selfsame roots`.
#[derive(Debug, Subcommand)]
pub enum Roots {
    /// Trust a root from now on
    Add {
        /// The root, as a number: decimal, or 0x and hex digits
        root: String,
        /// The kind of proofs that are made against it
        #[arg(long, value_parser = ["legacy", "current"])]
        kind: String,
        /// The environment whose proofs may be made against it
        #[arg(long, value_parser = ["production", "staging"])]
        environment: String,
        /// For a legacy root: a credential that all members of its tree have; may be repeated
        #[arg(long = "identifier", value_name = "NAME", value_parser = LegacyIdentifier::ALL.map(LegacyIdentifier::name))]
        identifiers: Vec<String>,
        /// When the root became known, for example 2027-01-01T00:00:00Z; now by default
        #[arg(long, value_name = "RFC3339")]
        time: Option<String>,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Take a root back: no proof against it passes from now on
    Remove {
        /// The root, as a number: decimal, or 0x and hex digits
        root: String,
        /// The kind of proofs that are made against it
        #[arg(long, value_parser = ["legacy", "current"])]
        kind: String,
        /// The environment whose proofs may be made against it
        #[arg(long, value_parser = ["production", "staging"])]
        environment: String,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Show the trusted roots: kind, environment, time, credentials (- for a current root), root
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
}

/// `selfsame chain`.
#[derive(Debug, Subcommand)]
pub enum ChainCommand {
    /// Show what a running daemon follows; exit status 1 if a contract is not followed up to now
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Ask every configured node once, and show what would be followed; exit status 1 if a node
    /// cannot be used. Needs no running daemon
    Check {
        /// Configuration file (TOML)
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// `selfsame wallet-page`.
#[derive(Debug, Subcommand)]
pub enum WalletPageCommand {
    /// Compare every file of the page at an address, and its policy, with those of this program;
    /// exit status 1 if one differs. Needs no running daemon here
    Check {
        /// The address of the page, like https://wallet.example
        url: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `selfsame cluster`.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show the replicas as a running one sees them: who leads, how far each one is; exit status 1
    /// if one does not run or no one leads
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Remove a replica that does not come back; one that runs ends itself
    Remove {
        /// The replica's name, as `cluster status` shows it
        name: String,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Make the store of a stopped replica that of a daemon that is alone. What it holds stays;
    /// what the other replicas write from now on does not reach it
    Leave {
        /// Data folder of the stopped replica
        #[arg(long, value_name = "DIR", default_value = "selfsame-data")]
        data: PathBuf,
    },
}

/// `selfsame keys`.
#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Show the signing keys: id, state, since when it is published
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Remove a key at once, for example a stolen one: nothing that it signed is accepted any more
    Revoke {
        /// The key's id, as `keys list` shows it
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        kid: Option<String>,
        /// Remove all keys from the data folder of a stopped daemon, also keys that it cannot
        /// decrypt; it makes new ones when it starts
        #[arg(long)]
        all: bool,
        /// Remove the key that signs the registry's heads, too; wallets that know it refuse the
        /// registry then
        #[arg(long, requires = "all")]
        registry_key: bool,
        /// End every sign-in up to now: codes, access tokens and browser sessions
        #[arg(long)]
        end_sessions: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Let the next key sign, and publish a new next key
    Rotate {
        /// Rotate even when clients may not have fetched the next key yet
        #[arg(long)]
        now: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
}

/// `selfsame account`.
#[derive(Debug, Subcommand)]
pub enum Account {
    /// Show what a running daemon knows of an account, to answer a question of the person: when it
    /// was made, when a proof was last given, with which credential. The audit trail has it
    Show {
        /// The application
        app: String,
        /// The person's `sub`, as the application has it
        sub: String,
        /// The environment of the account, if it is not that of the application's sign-ins
        #[arg(long, value_parser = ["production", "staging"])]
        environment: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Choose which current proofs belong to an account of legacy proofs, for good: of two persons
    /// who both gave theirs, or none, so that those that somebody else has attached sign in no more
    Link {
        /// The application
        app: String,
        /// The person's `sub`, as the application has it
        sub: String,
        /// The proofs that were given first, those of the person who said that the first ones are
        /// not theirs, or none: then the account has its legacy proofs alone
        #[arg(long, value_parser = KeptProofs::ALL.map(KeptProofs::name))]
        keep: String,
        /// You know that two persons have given theirs. Without it, `first` and `none` drop no
        /// proofs of a second person, which may have come since you looked
        #[arg(long)]
        of_two: bool,
        /// The environment of the account, if it is not that of the application's sign-ins
        #[arg(long, value_parser = ["production", "staging"])]
        environment: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Give new accounts of an application another kind of `sub` than its first account decided.
    /// Existing accounts keep theirs, so the application then has both kinds, and a person who
    /// signed in without an account becomes another one. Set `subject` of the application, too
    Subjects {
        /// The application
        app: String,
        /// What the `sub` of a new account is: a keyed hash of its nullifier, or the nullifier
        #[arg(long, value_parser = SubjectKind::ALL.map(SubjectKind::name))]
        to: String,
        /// The environment of the accounts, if it is not that of the application's sign-ins
        #[arg(long, value_parser = ["production", "staging"])]
        environment: Option<String>,
        /// Write into the store of a stopped daemon, in its data folder
        #[arg(long)]
        stopped: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
}

/// `selfsame group`.
#[derive(Debug, Subcommand)]
pub enum Group {
    /// Show the groups of the configuration: members, invitations, live roots, rolls
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Make links for the member numbers of a list that were never invited, or a new link for one
    /// number. A number has one link: a new one ends the older
    Invite {
        /// The id of the group
        group: GroupId,
        /// The list: a CSV file in UTF-8 whose header has a column `member`; other columns are not
        /// read
        #[arg(
            long,
            value_name = "FILE",
            required_unless_present = "member",
            conflicts_with = "member",
            requires = "links"
        )]
        from: Option<PathBuf>,
        /// The file that the links are written to, a CSV with the header `member,link`. It must not
        /// be there yet; only its owner can read it
        #[arg(long = "out", value_name = "FILE", requires = "from")]
        links: Option<PathBuf>,
        /// Also make new links for those who have not joined
        #[arg(long, requires = "from")]
        again: bool,
        /// Print a new link for this number, also when it is a member's or a former one's
        #[arg(long, value_name = "NUMBER")]
        member: Option<MemberNumber>,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Show the member numbers: how each stands, since when, the day of its first invitation,
    /// whether it has an open link
    Members {
        /// The id of the group
        group: GroupId,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Remove a member: from now on no proof of theirs passes, except for actions whose roll has
    /// them
    Remove {
        /// The id of the group
        group: GroupId,
        /// The member number
        #[arg(long, value_name = "NUMBER")]
        member: MemberNumber,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Take a roll: keep the list of members of this moment, for the actions that count it
    Roll {
        /// The id of the group
        group: GroupId,
        /// The name of the roll
        name: RollName,
        /// Remove the roll instead; one that an action counts is not removed
        #[arg(long)]
        remove: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Show the rolls of a group: day, members, positions, root
    Rolls {
        /// The id of the group
        group: GroupId,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
    /// Write all member numbers into a CSV file: how each stands, and the days of its invitation
    /// and of its last change
    Export {
        /// The id of the group
        group: GroupId,
        /// The file. It must not be there yet; only its owner can read it
        #[arg(long = "out", value_name = "FILE")]
        file: PathBuf,
        /// Address of the operator interface, and the folder of its token
        #[command(flatten)]
        options: OperatorOptions,
    },
}

/// A time in RFC 3339 form as time since the Unix epoch.
fn time(text: &str) -> Result<Duration, String> {
    let time: SystemTime = humantime::parse_rfc3339(text)
        .map_err(|_| "not a time; write it in UTC like 2027-01-01T00:00:00Z".to_owned())?;
    time.duration_since(UNIX_EPOCH).map_err(|_| "before 1970".to_owned())
}
