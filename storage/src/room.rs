//! Whether a disk has room for what is about to be written.

use std::path::Path;

use crate::error::StoreError;

/// Checks that the file system of a folder has room for so many bytes, for a process without
/// special rights.
///
/// # Errors
/// [`StoreError::NoRoom`], with both numbers; [`StoreError::Folder`] when the file system cannot
/// be asked.
pub(crate) fn ensure_room(folder: &Path, needed: u64) -> Result<(), StoreError> {
    let found = rustix::fs::statvfs(folder)
        .map_err(|error| StoreError::Folder { path: folder.to_owned(), reason: error.to_string() })?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if free < needed {
        return Err(StoreError::NoRoom { folder: folder.to_owned(), needed, free });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_room_is_refused_with_both_numbers() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        ensure_room(folder.path(), 0).expect("nothing always has room");
        let error = ensure_room(folder.path(), u64::MAX).expect_err("too little room");
        let StoreError::NoRoom { needed, free, .. } = error else { panic!("{error}") };
        assert!(needed == u64::MAX && free > 0 && free < needed, "{free}");
        let text = error.to_string();
        let path = folder.path().display();
        let expected = format!("needs {needed} bytes in {path}, where {free} bytes are free; make room, or name");
        assert!(text.contains(&expected), "{text}");
        let missing = ensure_room(&folder.path().join("none"), 0).expect_err("no such folder");
        assert!(matches!(missing, StoreError::Folder { .. }), "{missing}");
    }
}
