//! What a command leaves: its output, or an error, and the exit status of the program, which is
//! decided here for every error.
//!
//! | status | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | failure, or the answer of a command that checks something is no |
//! | 2 | the command line is wrong (by clap) |
//! | 75 | the daemon cannot start or go on now, and a later start may succeed (`EX_TEMPFAIL` of sysexits.h) |
//! | 78 | a start cannot succeed until an operator changes something: mostly the configuration (`EX_CONFIG`) |
//! | 130 | SIGINT or SIGTERM stopped a command that works long before its end: what a shell shows for SIGINT |
//! | 141 | the reader of the output closed its end: what a shell shows for a process that ends by SIGPIPE |

use std::error::Error;
use std::fmt::Arguments;
use std::io::{self, ErrorKind, Stdout, Write};

use selfsame_actors::{ServiceError, SigningError, WalletOriginError};
use selfsame_cluster::{MembershipError, RemovedError};
use selfsame_interfaces::http::UnixSocketError;
use selfsame_storage::StoreError;
use serde::Serialize;

use crate::backup::BackupError;
use crate::backup::restore::RestoreError;
use crate::chains::ChainSetupError;
use crate::config::ConfigError;
use crate::daemon::DaemonError;
use crate::data_files::SecretFileError;
use crate::logging::LogError;
use crate::prepared::Problems;
use crate::process::{InheritedSocketError, STOPPED};

// Why a command fails.

/// Any error, printed with its own text.
pub type CommandError = Box<dyn std::error::Error + Send + Sync>;

// What the commands print: one writer to the standard output, whose failures are errors.
//
// `println!` panics when the output cannot be written: when a reader such as `head` has closed its
// end, or on a full disk.

/// The standard output. `write!` and `writeln!` work on it; it is not buffered beyond a line.
pub struct Output(Stdout);

/// A line cannot be written to the standard output.
#[derive(Debug, thiserror::Error)]
#[error("the output cannot be written: {0}")]
pub struct OutputError(#[from] pub io::Error);

impl OutputError {
    /// Whether the reader has closed its end and so wants no more.
    pub fn is_closed_pipe(&self) -> bool {
        self.0.kind() == ErrorKind::BrokenPipe
    }
}

impl Output {
    /// The standard output of this process.
    pub fn standard() -> Self {
        Self(io::stdout())
    }

    /// What `write!` and `writeln!` call.
    pub fn write_fmt(&mut self, text: Arguments<'_>) -> Result<(), OutputError> {
        Ok(self.0.write_fmt(text)?)
    }

    /// Writes a text as it is.
    pub fn print(&mut self, text: &str) -> Result<(), OutputError> {
        Ok(self.0.write_all(text.as_bytes())?)
    }

    /// Writes a value as JSON for programs, with a line for each field.
    pub fn print_json(&mut self, value: &impl Serialize) -> Result<(), OutputError> {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
        writeln!(self, "{text}")
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) -> Result<(), OutputError> {
        Ok(self.0.flush()?)
    }

    /// The writer, for code that prints through one.
    #[cfg(feature = "wallet")]
    pub fn writer(&mut self) -> &mut (dyn Write + Send) {
        &mut self.0
    }
}

/// An error that no other status is for.
pub const FAILURE: u8 = 1;
/// A later start may succeed without a change.
pub const TEMPORARY: u8 = 75;
/// The operator has to change something: the configuration, a permission, the data folder.
pub const CONFIGURATION: u8 = 78;
/// The reader of the output has closed its end.
pub const CLOSED_PIPE: u8 = 141;

/// The exit status for an error of a command.
pub fn status_of(error: &(dyn Error + 'static)) -> u8 {
    if let Some(error) = error.downcast_ref::<DaemonError>() {
        of_daemon(error)
    } else if let Some(error) = error.downcast_ref::<StoreError>() {
        of_store(error)
    } else if let Some(error) = error.downcast_ref::<BackupError>() {
        of_backup(error)
    } else if let Some(RestoreError::Backup(error)) = error.downcast_ref::<RestoreError>() {
        of_backup(error)
    } else if let Some(error) = error.downcast_ref::<OutputError>() {
        if error.is_closed_pipe() { CLOSED_PIPE } else { FAILURE }
    } else if error.is::<ConfigError>()
        || error.is::<Problems>()
        || matches!(error.downcast_ref(), Some(LogError::Filter(_)))
        || error.is::<ChainSetupError>()
        || error.is::<InheritedSocketError>()
    {
        CONFIGURATION
    } else {
        of_wallet(error)
    }
}

#[cfg(feature = "wallet")]
fn of_wallet(error: &(dyn Error + 'static)) -> u8 {
    use selfsame_wallet::command::CommandError;

    match error.downcast_ref::<CommandError>() {
        Some(CommandError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => CLOSED_PIPE,
        _ => FAILURE,
    }
}

#[cfg(not(feature = "wallet"))]
fn of_wallet(_: &(dyn Error + 'static)) -> u8 {
    FAILURE
}

fn of_daemon(error: &DaemonError) -> u8 {
    match error {
        // The configured data folder is a backup.
        DaemonError::Prepare(_) | DaemonError::Backup(BackupError::Target { .. }) => CONFIGURATION,
        // Another start has the same sockets, and the same addresses.
        DaemonError::StraySocket { .. }
        | DaemonError::StoreLost { .. }
        | DaemonError::Inherited(_)
        | DaemonError::Routes(_) => CONFIGURATION,
        DaemonError::Backup(_) => FAILURE,
        DaemonError::Store(error) => of_start(error),
        DaemonError::Service(error) => of_service(error),
        DaemonError::WalletOrigin(WalletOriginError::Store(error)) => of_store(error),
        DaemonError::WalletOrigin(WalletOriginError::Other { .. }) => CONFIGURATION,
        DaemonError::Socket(error) => of_socket(error),
        DaemonError::DataFolder { error, .. }
        | DaemonError::Listen { error, .. }
        | DaemonError::ClusterListen { error, .. }
        | DaemonError::Secret(SecretFileError { error, .. }) => of_io(error),
        DaemonError::Membership(error) => of_membership(error),
        // The next start copies the store of another replica.
        DaemonError::Removed(RemovedError::LeftBehind(_)) => TEMPORARY,
        // A restart by the service manager would undo what the operator decided, or serve wrong
        // data for a moment.
        DaemonError::Removed(
            RemovedError::Removed | RemovedError::ClusterLost | RemovedError::NameTaken(_) | RemovedError::Apart { .. },
        ) => CONFIGURATION,
        DaemonError::Server(_) => FAILURE,
    }
}

/// For a store that a daemon does not start with. What an operator has to mend or confirm first
/// would be the same after each restart.
fn of_start(error: &StoreError) -> u8 {
    match error {
        StoreError::Unconfirmed { .. }
        | StoreError::NotRestored { .. }
        | StoreError::OtherLayout { .. }
        | StoreError::NeedsMigration { .. }
        | StoreError::RebuildInterrupted { .. }
        | StoreError::NotRebuildable { .. }
        | StoreError::Damaged { .. }
        | StoreError::Missing { .. }
        | StoreError::Gap { .. }
        | StoreError::LedgerDiverged { .. } => CONFIGURATION,
        // The reason of the operating system is there as text only.
        StoreError::Database(_) | StoreError::Open { .. } | StoreError::Folder { .. }
            if error.to_string().contains("Permission denied") =>
        {
            CONFIGURATION
        }
        error => of_store(error),
    }
}

fn of_membership(error: &MembershipError) -> u8 {
    match error {
        MembershipError::Etcd(_) | MembershipError::NoPeer(_) => TEMPORARY,
        MembershipError::Store(error) => of_start(error),
        MembershipError::Folder { error, .. } => of_io(error),
        MembershipError::OtherCluster { .. }
        | MembershipError::LostCluster { .. }
        | MembershipError::HasData
        | MembershipError::OtherRegistry { .. }
        | MembershipError::NameTaken { .. }
        | MembershipError::NotAlone { .. } => CONFIGURATION,
    }
}

/// For the commands that work with backups.
fn of_backup(error: &BackupError) -> u8 {
    match error {
        BackupError::Stopped => STOPPED,
        BackupError::Store(error) => of_store(error),
        BackupError::Target { .. } | BackupError::File { .. } | BackupError::Manifest(_) => FAILURE,
    }
}

fn of_store(error: &StoreError) -> u8 {
    match error {
        StoreError::InUse { .. } | StoreError::NoRoom { .. } | StoreError::NoRoomForCopy { .. } => TEMPORARY,
        StoreError::Stopped => STOPPED,
        StoreError::OtherRegistry { .. } | StoreError::Replaced { .. } => CONFIGURATION,
        StoreError::Replica(error) if error.is_transient() => TEMPORARY,
        StoreError::Database(_) | StoreError::Open { .. } if error.is_out_of_space() => TEMPORARY,
        StoreError::Database(_)
        | StoreError::NotInMemory
        | StoreError::Open { .. }
        | StoreError::Claimed { .. }
        | StoreError::Empty { .. }
        | StoreError::Damaged { .. }
        | StoreError::Missing { .. }
        | StoreError::Gap { .. }
        | StoreError::LedgerDiverged { .. }
        | StoreError::Ledger { .. }
        | StoreError::RebuildInterrupted { .. }
        | StoreError::NotRebuildable { .. }
        | StoreError::Unconfirmed { .. }
        | StoreError::NotRestored { .. }
        | StoreError::OtherLayout { .. }
        | StoreError::NeedsMigration { .. }
        | StoreError::Folder { .. }
        | StoreError::Threads(_)
        | StoreError::UnfitBlock { .. }
        | StoreError::StaleCommit { .. }
        | StoreError::Replica(_)
        | StoreError::Records { .. }
        | StoreError::Panicked
        | StoreError::Closing => FAILURE,
        #[cfg(feature = "fault-injection")]
        StoreError::Injected { .. } => FAILURE,
    }
}

fn of_service(error: &ServiceError) -> u8 {
    match error {
        ServiceError::Store(error) => of_start(error),
        // The next start opens the store again.
        ServiceError::WritesRefused { .. } => TEMPORARY,
        // The file of the key that the stored keys were encrypted with is not the configured one,
        // or the stored keys are damaged.
        ServiceError::SigningKeys(
            SigningError::Encrypted(_) | SigningError::Decrypt(_) | SigningError::Unreadable(_),
        ) => CONFIGURATION,
        ServiceError::Subjects(_) | ServiceError::Groups(_) => CONFIGURATION,
        ServiceError::SigningKeys(_)
        | ServiceError::Parts { .. }
        | ServiceError::Start { .. }
        | ServiceError::GaveUp { .. }
        | ServiceError::Stuck { .. } => FAILURE,
    }
}

fn of_socket(error: &UnixSocketError) -> u8 {
    match error {
        UnixSocketError::Path(_) | UnixSocketError::NotASocket { .. } => CONFIGURATION,
        UnixSocketError::InUse { .. } => TEMPORARY,
        UnixSocketError::Refused { error, .. } => of_io(error),
    }
}

/// An address that is in use is given up by another process, one that is not there yet comes with
/// its network, and room on a disk can be made. A permission that is missing stays so.
fn of_io(error: &io::Error) -> u8 {
    match error.kind() {
        ErrorKind::AddrInUse
        | ErrorKind::AddrNotAvailable
        | ErrorKind::StorageFull
        | ErrorKind::QuotaExceeded
        | ErrorKind::ResourceBusy
        | ErrorKind::OutOfMemory => TEMPORARY,
        ErrorKind::PermissionDenied | ErrorKind::NotADirectory => CONFIGURATION,
        _ => FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use selfsame_protocol::Address;
    use selfsame_storage::Layout;

    use super::*;

    #[test]
    fn every_kind_of_error_has_its_status() {
        let path = PathBuf::from("x");
        let listen = |kind: ErrorKind| DaemonError::Listen {
            interface: "gateway",
            address: ([127, 0, 0, 1], 1).into(),
            error: kind.into(),
        };
        let folder =
            |kind: ErrorKind| DaemonError::DataFolder { path: path.clone(), call: "mkdir", error: kind.into() };
        let other = StoreError::OtherRegistry {
            stored_chain_id: 1,
            stored_contract: Address::ZERO,
            chain_id: 2,
            contract: Address::ZERO,
        };
        let full = StoreError::Open { path: path.clone(), reason: "IO error: No space left on device: x".to_owned() };
        let forbidden =
            StoreError::Open { path: path.clone(), reason: "IO error: Permission denied: x/LOCK".to_owned() };
        let damaged = StoreError::Open { path: path.clone(), reason: "Corruption: x".to_owned() };
        let no_room = StoreError::NoRoom { folder: path.clone(), needed: 2, free: 1 };
        let found = Layout { schema: 9, draft: None };
        let signing = |error| DaemonError::Service(ServiceError::SigningKeys(error));
        let unreadable = ConfigError::Unreadable { file: path.clone(), error: ErrorKind::NotFound.into() };
        let cases: Vec<(Box<dyn Error>, u8)> = vec![
            (Box::new(unreadable), 78),
            (
                Box::new(DaemonError::WalletOrigin(WalletOriginError::Other {
                    stored: "https://a.example".to_owned(),
                    configured: "https://b.example".to_owned(),
                })),
                78,
            ),
            (Box::new(DaemonError::WalletOrigin(WalletOriginError::Store(StoreError::Closing))), 1),
            (Box::new(DaemonError::Service(ServiceError::Subjects(selfsame_actors::SubjectConflicts(Vec::new())))), 78),
            (Box::new(ConfigError::Invalid(Vec::new())), 78),
            (Box::new(ChainSetupError::TooFewNodes { chain: String::new(), agree: 2, nodes: 1 }), 78),
            (Box::new(listen(ErrorKind::AddrInUse)), 75),
            (Box::new(listen(ErrorKind::AddrNotAvailable)), 75),
            (Box::new(listen(ErrorKind::PermissionDenied)), 78),
            (Box::new(folder(ErrorKind::StorageFull)), 75),
            (Box::new(folder(ErrorKind::PermissionDenied)), 78),
            (Box::new(folder(ErrorKind::NotFound)), 1),
            (Box::new(DaemonError::Store(StoreError::InUse { path: path.clone() })), 75),
            (Box::new(StoreError::InUse { path: path.clone() }), 75),
            (Box::new(no_room), 75),
            (Box::new(StoreError::Stopped), 130),
            (Box::new(BackupError::Stopped), 130),
            (Box::new(RestoreError::Backup(BackupError::Store(StoreError::Stopped))), 130),
            (Box::new(DaemonError::Store(StoreError::OtherLayout { found, known: Layout::PRESENT })), 78),
            (Box::new(StoreError::OtherLayout { found, known: Layout::PRESENT }), 1),
            (Box::new(DaemonError::Store(StoreError::RebuildInterrupted { path: path.clone() })), 78),
            (Box::new(DaemonError::Service(ServiceError::Store(StoreError::Gap { height: 2 }))), 78),
            (Box::new(StoreError::NeedsMigration { found: 1, known: 2 }), 1),
            (Box::new(DaemonError::Store(other)), 78),
            (Box::new(DaemonError::Store(full)), 75),
            (Box::new(DaemonError::Store(damaged)), 1),
            (Box::new(DaemonError::Store(forbidden)), 78),
            (Box::new(DaemonError::Socket(UnixSocketError::InUse { path: path.clone() })), 75),
            (Box::new(DaemonError::Socket(UnixSocketError::NotASocket { path })), 78),
            (Box::new(DaemonError::Service(ServiceError::WritesRefused { error: StoreError::Closing })), 75),
            (Box::new(signing(SigningError::Decrypt("k".to_owned()))), 78),
            (Box::new(signing(SigningError::Unreadable("k".to_owned()))), 78),
            (Box::new(signing(SigningError::Load("k".to_owned()))), 1),
            (Box::new(DaemonError::Server(None)), 1),
            (Box::new(OutputError(ErrorKind::BrokenPipe.into())), 141),
            (Box::new(OutputError(ErrorKind::StorageFull.into())), 1),
            (Box::new(io::Error::other("anything else")), 1),
        ];
        for (error, status) in cases {
            assert_eq!(status_of(&*error), status, "{error}");
        }
    }
}
