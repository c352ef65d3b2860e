//! Files and folders that are there when they are believed to be, whenever the power fails.
//!
//! A file's name, and a folder's, is on disk when the folder that it is in was synced; syncing the file itself is not enough.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Makes a folder for its owner alone, with those that it lies in; one that is there is left as it is.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let make = || DirBuilder::new().mode(0o700).create(path);
    let mut made = make();
    if matches!(&made, Err(error) if error.kind() == ErrorKind::NotFound) && path.parent().is_some() {
        make_folder(parent_dir(path))?;
        made = make();
    }
    match made {
        Ok(()) => sync_folder(parent_dir(path)),
        Err(_) if path.is_dir() => {
            // Perhaps by a start that was cut off before its sync. Around a folder that somebody else made there may be one that
            // is not for us to sync.
            let _ = sync_folder(parent_dir(path));
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Makes a file for its owner alone. It has this text or is not there, never a part of it.
pub fn make_file(path: &Path, text: &str) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    // One that was cut off may be there.
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Made anew: what somebody else has put there would be his to read.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(unfinished, path)?;
    sync_folder(parent_dir(path))
}

/// What was made, renamed or removed in a folder stays so.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// The folder that a path is in.
pub fn parent_dir(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
