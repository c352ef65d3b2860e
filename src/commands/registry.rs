//! `selfsame registry replay` and `selfsame registry fsck`.

use std::path::Path;
use std::process::ExitCode;

use selfsame_protocol::trace::{Trace, replay};
use selfsame_storage::{Store, StoreError, fsck};

use super::error::CommandError;
use crate::cli::Registry;
use crate::daemon::store_folder;

/// Size of the block cache of a store that is checked, in bytes.
const FSCK_CACHE: usize = 256 << 20;

/// Runs the command.
pub fn run(command: Registry) -> Result<ExitCode, CommandError> {
    let is_good = match command {
        Registry::Replay { file } => run_replay(&file)?,
        Registry::Fsck { data } => run_fsck(&data)?,
    };
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_replay(file: &Path) -> Result<bool, CommandError> {
    let text = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let trace = Trace::parse(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let differences = replay(&trace);
    for difference in &differences {
        println!("{difference}");
    }
    println!("{} rows, {} differences", trace.rows.len(), differences.len());
    Ok(differences.is_empty())
}

fn run_fsck(data: &Path) -> Result<bool, CommandError> {
    let store = match Store::open_existing(&store_folder(data), FSCK_CACHE) {
        // The daemon was killed during its first start: it acknowledged no request, so none is
        // missing.
        Err(error @ StoreError::Empty { .. }) => {
            println!("{error}\n0 blocks, 0 findings");
            return Ok(true);
        }
        store => store?,
    };
    // The copy lies beside the store: it is as large as the original, and the system's folder for
    // temporary files may be too small for it.
    let scratch = data.join(format!("fsck-{}", std::process::id()));
    let report = fsck(&store, &scratch);
    remove(&scratch)?;
    let report = report?;
    for finding in &report.findings {
        println!("{finding}");
    }
    println!(
        "{} blocks, {} applied with {} operations, {} accounts, {} requests queued, {} findings",
        report.blocks,
        report.applied,
        report.operations,
        report.accounts,
        report.queued,
        report.findings.len()
    );
    Ok(report.findings.is_empty())
}

fn remove(scratch: &Path) -> Result<(), StoreError> {
    match std::fs::remove_dir_all(scratch) {
        // `fsck` ended before it created the folder.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|error| StoreError::Open { path: scratch.to_owned(), reason: error.to_string() }),
    }
}
