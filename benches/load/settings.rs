//! The sizes of a run, from the environment variables `LOAD_…`.

use std::path::PathBuf;
use std::time::Duration;

use crate::Failure;
use crate::client::Pace;

/// Creations for which bodies are made before the measurements, for each second that one may take:
/// more than are made a second, once alone, and twice at half that rate beside reads.
const CREATIONS_PER_SECOND: u32 = 80_000;

/// The sizes of a run.
pub struct Settings {
    /// The most accounts that are created.
    pub accounts: usize,
    /// The most authenticators that are inserted.
    pub inserts: usize,
    /// Different calls of each read, which are repeated until the time is over.
    pub reads: u64,
    pub connections: usize,
    /// The time of a measurement.
    pub limit: Duration,
    pub folder: PathBuf,
    /// A store that is made first, or was made by an earlier run.
    pub large: Option<LargeStore>,
}

/// The store on which a run begins.
#[derive(Clone)]
pub struct LargeStore {
    /// Its accounts.
    pub accounts: u64,
    /// The folder of the daemon's data, which is kept.
    pub data: PathBuf,
}

impl Settings {
    /// As many calls as there can be.
    pub fn pace(&self) -> Pace {
        Pace { connections: self.connections, limit: self.limit, repeats: false, per_second: None }
    }

    pub fn from_environment() -> Result<Self, Failure> {
        let number = |name: &str, default: u32| match std::env::var(name) {
            Ok(text) => text.parse().map_err(|_| format!("{name} is {text:?}, it must be a whole number")),
            Err(_) => Ok(default),
        };
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let seconds = number("LOAD_SECONDS", 8)?;
        let accounts = number("LOAD_ACCOUNTS", seconds.saturating_mul(CREATIONS_PER_SECOND))?.max(1) as usize;
        let large = match (number("LOAD_LARGE", 0)?, folder("LOAD_DATA")) {
            (0, None) => None,
            (accounts, Some(data)) if accounts > 0 => Some(LargeStore { accounts: accounts.into(), data }),
            _ => return Err("LOAD_LARGE (accounts) and LOAD_DATA (a folder) are given together".into()),
        };
        Ok(Self {
            accounts,
            inserts: (number("LOAD_INSERTS", 20_000)? as usize).min(accounts),
            reads: number("LOAD_READS", 20_000)?.max(1).into(),
            connections: number("LOAD_CONNECTIONS", 64)?.max(1) as usize,
            limit: Duration::from_secs(seconds.into()),
            folder: folder("LOAD_FOLDER").unwrap_or_else(std::env::temp_dir),
            large,
        })
    }
}
