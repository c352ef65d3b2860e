//! `selfsame registry replay` and `selfsame registry fsck`.

use std::path::Path;
use std::process::ExitCode;

use selfsame_protocol::registry::trace::{Trace, replay};
use selfsame_storage::{Store, StoreError, fsck};

use super::CommandError;
use crate::cli::Registry;
use crate::daemon::store_folder;

/// Memory for cached blocks of a store that is checked.
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
        // Killed at its very first start: nothing was acknowledged, nothing is wrong.
        Err(error @ StoreError::Empty { .. }) => {
            println!("{error}\n0 blocks, 0 faults");
            return Ok(true);
        }
        store => store?,
    };
    // Beside the store: the rebuilt copy is as large as the original, which a folder for temporary files may not hold.
    let scratch = data.join(format!("fsck-{}", std::process::id()));
    let report = fsck(&store, &scratch);
    remove(&scratch)?;
    let report = report?;
    for fault in &report.faults {
        println!("{fault}");
    }
    println!(
        "{} blocks, {} applied with {} operations, {} accounts, {} requests queued, {} faults",
        report.blocks,
        report.applied,
        report.operations,
        report.accounts,
        report.queued,
        report.faults.len()
    );
    Ok(report.faults.is_empty())
}

fn remove(scratch: &Path) -> Result<(), StoreError> {
    match std::fs::remove_dir_all(scratch) {
        // What was wrong was found before it was made.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|error| StoreError::Open { path: scratch.to_owned(), reason: error.to_string() }),
    }
}
