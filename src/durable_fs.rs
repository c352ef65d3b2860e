//! Crash-safe creation of files and folders.
//!
//! The name of a file or a folder is durable only after a sync of the folder that holds it; a sync
//! of the file itself is not enough.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The mode of a folder that only its owner uses.
const PRIVATE: u32 = 0o700;

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

/// Makes all earlier creations, renames and removals in a folder durable. Some file systems (SMB,
/// 9p, some in user space) have no sync of a folder and answer `EINVAL`; there, names are as
/// durable as the file system makes them.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    match File::open(path)?.sync_all() {
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// Makes the mode of a folder 0700, if it is not. A file system may have no modes (vfat, CIFS), or
/// not let this user change them; then the folder keeps its mode, and the log has a warning when
/// other users may read what is in it.
pub fn make_private(path: &Path) -> io::Result<()> {
    let mode = || Ok::<_, io::Error>(std::fs::metadata(path)?.permissions().mode() & 0o777);
    if mode()? == PRIVATE {
        return Ok(());
    }
    match std::fs::set_permissions(path, Permissions::from_mode(PRIVATE)) {
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => {
            if mode()? & 0o077 != 0 {
                let message = "chmod is refused, and other users may read this folder; set its mode to 700, or mount its \
                               file system so that only the daemon's user can read it";
                tracing::warn!(path = %path.display(), %error, message);
            }
            Ok(())
        }
        set => set,
    }
}

/// The folder that holds a path; `.` for a path of one name.
pub fn parent_dir(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
