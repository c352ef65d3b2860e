//! The guard of wallets that are built on `WalletKit`: a wallet gives a nullifier for ten minutes,
//! and then not again for a year (`walletkit-core`, `storage/cache/nullifiers.rs`).
//!
//! A relying party meets it when it asks a returning person for a proof of uniqueness with the same
//! action. Sessions and legacy proofs have no guard. The memory belongs to an installation of a
//! wallet, not to the account: a second device, and a wallet whose data was lost, give the
//! nullifier again. So it is a file of its own beside the wallet's, with the ending `.nullifiers`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use selfsame_protocol::ids::Nullifier;
use selfsame_protocol::number;
use selfsame_protocol::time::UnixSeconds;
use tempfile::NamedTempFile;

use crate::prove::padded;

/// How long a nullifier is given again after the first time, in seconds, inclusive.
pub const GIVEN_AGAIN: u64 = 600;

/// Age of the first time until which a nullifier is refused, in seconds, inclusive: a year of 365
/// days. The next time counts as a first one.
pub const REFUSED_UNTIL: u64 = 31_536_000;

/// Why the guard does not let a nullifier pass.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The wallet has given the nullifier longer ago than it gives it again.
    #[error(
        "nullifier_replayed: this wallet gave the same proof of uniqueness {age} s ago; it gives one again for \
         {GIVEN_AGAIN} s, and after that not for a year, like the wallets that people have. Ask a returning person for a \
         proof of a session, or try as an installation that lost its memory (--forget), or without the guard (--no-guard)"
    )]
    Replayed {
        /// Seconds since the nullifier was given for the first time.
        age: u64,
    },
    /// The memory cannot be read, written or made durable, or is not one.
    #[error("{}: {source}; remove the file to forget which nullifiers were given", path.display())]
    Memory {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
}

/// The nullifiers that an installation of a wallet has given, and when each was given first.
#[derive(Debug)]
pub struct Guard {
    path: PathBuf,
    given: BTreeMap<Nullifier, UnixSeconds>,
}

impl Guard {
    /// Reads the memory of the installation with this wallet file.
    ///
    /// # Errors
    /// [`GuardError::Memory`].
    pub fn open(wallet: &Path) -> Result<Self, GuardError> {
        let mut path = OsString::from(wallet);
        path.push(".nullifiers");
        let path = PathBuf::from(path);
        let given = match fs::read(&path) {
            Ok(text) => read(&text).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        };
        match given {
            Ok(given) => Ok(Self { path, given }),
            Err(source) => Err(GuardError::Memory { path, source }),
        }
    }

    /// Forgets everything, as an installation whose data was lost.
    ///
    /// # Errors
    /// [`GuardError::Memory`].
    pub fn forget(&mut self) -> Result<(), GuardError> {
        self.given.clear();
        self.write()
    }

    /// Checks that a nullifier may be given now.
    ///
    /// # Errors
    /// [`GuardError::Replayed`].
    pub fn check(&self, nullifier: Nullifier, now: UnixSeconds) -> Result<(), GuardError> {
        match self.age(nullifier, now) {
            Some(age) if age > GIVEN_AGAIN && age <= REFUSED_UNTIL => Err(GuardError::Replayed { age }),
            _ => Ok(()),
        }
    }

    /// Remembers nullifiers that are about to be given. The first time counts: to give one again
    /// does not move it.
    ///
    /// # Errors
    /// [`GuardError::Memory`]; then the nullifiers must not be given.
    pub fn record(&mut self, nullifiers: &[Nullifier], now: UnixSeconds) -> Result<(), GuardError> {
        self.given.retain(|_, first| now.0.saturating_sub(first.0) <= REFUSED_UNTIL);
        for nullifier in nullifiers {
            self.given.entry(*nullifier).or_insert(now);
        }
        self.write()
    }

    fn age(&self, nullifier: Nullifier, now: UnixSeconds) -> Option<u64> {
        self.given.get(&nullifier).map(|first| now.0.saturating_sub(first.0))
    }

    /// Replaces the file, durably.
    fn write(&self) -> Result<(), GuardError> {
        let folder = self.path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let write = || {
            let mut file = NamedTempFile::new_in(folder)?;
            let given: BTreeMap<String, UnixSeconds> =
                self.given.iter().map(|(nullifier, first)| (padded(nullifier.0), *first)).collect();
            serde_json::to_writer_pretty(&mut file, &given)?;
            file.write_all(b"\n")?;
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|error| error.error)?;
            fs::File::open(folder)?.sync_all()
        };
        write().map_err(|source| GuardError::Memory { path: self.path.clone(), source })
    }
}

/// Reads a memory: the nullifiers, each with the time at which it was given first.
fn read(text: &[u8]) -> Result<BTreeMap<Nullifier, UnixSeconds>, String> {
    let given: BTreeMap<String, UnixSeconds> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let entry = |(nullifier, first): (String, UnixSeconds)| Ok((Nullifier(number::parse(&nullifier)?), first));
    given.into_iter().map(entry).collect::<Result<_, number::NumberError>>().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use selfsame_protocol::U256;

    use super::*;

    const NULLIFIER: Nullifier = Nullifier(U256::ONE);
    const START: u64 = 1_800_000_000;

    fn at(second: u64) -> UnixSeconds {
        UnixSeconds(START + second)
    }

    #[test]
    fn a_nullifier_is_given_for_ten_minutes_and_then_not_for_a_year() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let wallet = folder.path().join("wallet.json");
        Guard::open(&wallet).expect("no memory yet").record(&[NULLIFIER], at(0)).expect("recorded");
        #[rustfmt::skip]
        let table = [
            (0, true), (600, true), (601, false), (31_536_000, false), (31_536_001, true),
        ];
        for (second, is_given) in table {
            let guard = Guard::open(&wallet).expect("the memory is read");
            assert_eq!(guard.check(NULLIFIER, at(second)).is_ok(), is_given, "{second}");
            assert!(guard.check(Nullifier(U256::from(2)), at(second)).is_ok(), "another nullifier at {second}");
        }
        // A clock that was set back does not lock a person out.
        let guard = Guard::open(&wallet).expect("the memory is read");
        assert!(guard.check(NULLIFIER, UnixSeconds(START - 1)).is_ok());
    }

    #[test]
    fn the_first_time_counts_and_a_year_later_another_first_time() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let mut guard = Guard::open(&folder.path().join("wallet.json")).expect("no memory yet");
        guard.record(&[NULLIFIER], at(0)).expect("recorded");
        guard.record(&[NULLIFIER], at(600)).expect("recorded");
        assert!(matches!(guard.check(NULLIFIER, at(601)), Err(GuardError::Replayed { age: 601 })));
        guard.record(&[NULLIFIER], at(31_536_001)).expect("recorded");
        assert!(guard.check(NULLIFIER, at(31_536_601)).is_ok());
        assert!(guard.check(NULLIFIER, at(31_536_602)).is_err());
    }

    #[test]
    fn the_memory_is_its_owners_and_of_one_installation() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let wallet = folder.path().join("wallet.json");
        let mut guard = Guard::open(&wallet).expect("no memory yet");
        guard.record(&[NULLIFIER], at(0)).expect("recorded");
        let path = folder.path().join("wallet.json.nullifiers");
        let mode = fs::metadata(&path).expect("the file has metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let other = Guard::open(&folder.path().join("other.json")).expect("no memory yet");
        assert!(other.check(NULLIFIER, at(601)).is_ok());
        guard.forget().expect("forgotten");
        let guard = Guard::open(&wallet).expect("the memory is read");
        assert!(guard.check(NULLIFIER, at(601)).is_ok());
        fs::write(&path, "not a memory").expect("the file is written");
        let message = Guard::open(&wallet).expect_err("not a memory").to_string();
        assert!(message.contains("wallet.json.nullifiers") && message.contains("remove the file"), "{message}");
    }
}
