//! Files in the data folder that hold a secret each, for the owner of the folder alone.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use alloy_primitives::hex;
use selfsame_actors::Random;

/// Changing calls of the operator interface carry this file's text.
pub const OPERATOR_TOKEN: &str = "operator.token";

/// The simulator's secrets are made from this file's text.
pub const SIMULATOR_SEED: &str = "simulator.seed";

/// A secret that cannot be read or made.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct SecretFileError {
    pub path: PathBuf,
    pub error: io::Error,
}

/// Reads the secret in a file, or makes the file with a new one: 32 random bytes in hex, mode 600.
pub fn secret_file(path: &Path, random: &dyn Random) -> Result<String, SecretFileError> {
    let failed = |error| SecretFileError { path: path.to_owned(), error };
    match read_secret(path) {
        Err(SecretFileError { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    let mut bytes = [0; 32];
    random.fill(&mut bytes);
    let secret = hex::encode(bytes);
    write_whole(path, format!("{secret}\n").as_bytes()).map_err(failed)?;
    Ok(secret)
}

/// Writes a file of its owner's that is there with all its text or not at all, also if this process dies meanwhile.
fn write_whole(path: &Path, text: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    // Left by somebody who died in here.
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(text)?;
    file.sync_all()?;
    // Fails where there is a file by now: what another process gave out as the secret stays.
    std::fs::hard_link(&beside, path)?;
    std::fs::remove_file(&beside)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Reads the secret in a file.
pub fn read_secret(path: &Path) -> Result<String, SecretFileError> {
    let failed = |error| SecretFileError { path: path.to_owned(), error };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let secret = text.trim();
    if secret.is_empty() {
        let empty = "it is empty; take it away, and the daemon makes a new one at its start";
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, empty)));
    }
    Ok(secret.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use selfsame_actors::SystemRandom;

    use super::*;

    #[test]
    fn a_secret_is_made_once() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let path = folder.path().join("secret");
        let secret = secret_file(&path, &SystemRandom).expect("made");
        assert_eq!(secret.len(), 64);
        assert_eq!(secret_file(&path, &SystemRandom).expect("read"), secret);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing else is left");
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(path.with_extension("new"), "half of a sec").expect("written");
        let secret = secret_file(&path, &SystemRandom).expect("made, though an earlier one was cut off");
        assert_eq!(secret.len(), 64);
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&path, "\n").expect("written");
        assert!(secret_file(&path, &SystemRandom).expect_err("refused").to_string().contains("it is empty"));
    }
}
