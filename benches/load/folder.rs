//! The folder of a run.

use std::io;
use std::path::Path;

use tempfile::TempDir;

/// How the name of such a folder begins. The id of the run's process follows.
const PREFIX: &str = "selfsame-load-";

/// Makes a folder for this run in `parent`, which is removed when the value is dropped. First
/// removes those of runs that were killed: the copy of a large store has gigabytes.
pub fn of_this_run(parent: &Path) -> io::Result<TempDir> {
    for entry in std::fs::read_dir(parent)? {
        let entry = entry?;
        if entry.file_name().to_str().and_then(process_of).is_some_and(has_ended) {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    tempfile::Builder::new().prefix(&format!("{PREFIX}{}-", std::process::id())).tempdir_in(parent)
}

/// The process of the run that made a folder with this name; `None` when the folder is no run's.
fn process_of(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

/// Whether it is known that a process has ended: where there is a Linux `/proc`.
fn has_ended(process: u32) -> bool {
    let processes = Path::new("/proc");
    processes.join("self").exists() && !processes.join(process.to_string()).exists()
}
