//! Crash-safe creation of files and folders.
//!
//! The name of a file or a folder is durable only after a sync of the folder that holds it; a sync
//! of the file itself is not enough.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Creates a folder and its missing parents with mode 0700, and syncs the folder that holds each.
/// An existing folder keeps its mode.
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
            // A start that was interrupted before its sync may have created the folder, so its
            // parent is synced again. The error is ignored, because the daemon may lack the right
            // to open the parent of a folder that the operator created.
            let _ = sync_folder(parent_dir(path));
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Writes a file with mode 0600, durably and atomically: after a crash, `path` holds either all of
/// `text` or what it held before.
pub fn make_file(path: &Path, text: &str) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    // An interrupted call may have left its unfinished file.
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // `create_new` never opens a file that another user placed here and could read.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(unfinished, path)?;
    sync_folder(parent_dir(path))
}

/// Makes all earlier creations, renames and removals in a folder durable.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// The folder that holds a path; `.` for a path of one name.
pub fn parent_dir(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
