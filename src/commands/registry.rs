//! `selfsame registry replay`, `fsck`, `rebuild` and `compare-heads`.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use selfsame_protocol::json::from_object;
use selfsame_protocol::ledger::{HeadComparison, SignedHead, compare_heads};
use selfsame_protocol::trace::{Trace, replay};
use selfsame_storage::{Store, StoreError, fsck, rebuild};

use super::error::CommandError;
use crate::backup::check_data_folder;
use crate::cli::Registry;
use crate::daemon::store_folder;

/// Size of the block cache of a store that is checked, in bytes.
const FSCK_CACHE: usize = 256 << 20;

/// Blocks from one line of a rebuild's progress to the next.
const BLOCKS_PER_LINE: u64 = 1000;

/// The longest file of a signed head, in bytes.
const MAX_HEAD: u64 = 64 * 1024;

/// Exit status when two heads cannot be compared.
const NOT_COMPARABLE: u8 = 2;

/// Runs the command.
pub fn run(command: Registry) -> Result<ExitCode, CommandError> {
    let is_good = match command {
        Registry::Replay { file } => run_replay(&file)?,
        Registry::Fsck { data } => run_fsck(&data)?,
        Registry::Rebuild { data } => run_rebuild(&data)?,
        Registry::CompareHeads { first, second } => return Ok(run_compare_heads(&first, &second)),
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
    check_data_folder(data)?;
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
    if !report.findings.is_empty() {
        println!(
            "`selfsame registry rebuild` mends what follows from the blocks; for anything else restore a backup with \
             `selfsame restore`"
        );
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

fn run_rebuild(data: &Path) -> Result<bool, CommandError> {
    #[cfg(feature = "fault-injection")]
    let _faults = selfsame_actors::faults::run_plan_of_environment().map_err(|error| format!("FAILPOINTS: {error}"))?;
    check_data_folder(data)?;
    println!("rebuilding; the old store stays until the new one is complete");
    let report = rebuild(&store_folder(data), FSCK_CACHE, |height, last| {
        if height % BLOCKS_PER_LINE == 0 || height == last {
            println!("block {height} of {last}");
        }
    })?;
    println!(
        "{} blocks with {} operations, {} accounts, {} requests queued; the store is rebuilt",
        report.blocks, report.operations, report.accounts, report.queued
    );
    Ok(true)
}

/// Prints what two heads say about each other.
fn run_compare_heads(first: &Path, second: &Path) -> ExitCode {
    let read = |path| read_head(path).map_err(|error| format!("{}: {error}", Path::display(path)));
    let compare = || {
        let (first, second) = (read(first)?, read(second)?);
        let comparison = compare_heads(&first, &second).map_err(|error| error.to_string())?;
        Ok::<_, String>((comparison, first, second))
    };
    match compare() {
        Ok((HeadComparison::Same, first, _)) => {
            println!("no contradiction: both are the head of block {}", first.head.height);
            ExitCode::SUCCESS
        }
        Ok((HeadComparison::DifferentHeights, first, second)) => {
            let (first, second) = (first.head.height, second.head.height);
            println!(
                "no contradiction: the heads are of blocks {first} and {second}; only the blocks between show more"
            );
            ExitCode::SUCCESS
        }
        Ok((HeadComparison::Contradiction, first, second)) => {
            println!("contradiction: the registry has signed two different heads of block {}", first.head.height);
            println!("key {}", first.public_key);
            for SignedHead { head, .. } in [first, second] {
                println!("block {:#x}, result {:#x}, root {:#x}", head.block_hash, head.result_hash, head.root);
            }
            ExitCode::FAILURE
        }
        Err(reason) => {
            println!("the heads cannot be compared: {reason}");
            ExitCode::from(NOT_COMPARABLE)
        }
    }
}

fn read_head(path: &Path) -> Result<SignedHead, String> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_HEAD + 1).read_to_end(&mut text));
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_HEAD {
        return Err(format!("longer than {MAX_HEAD} bytes, so not a signed head"));
    }
    from_object(&text).map_err(|error| error.to_string())
}

fn remove(scratch: &Path) -> Result<(), StoreError> {
    match std::fs::remove_dir_all(scratch) {
        // `fsck` ended before it created the folder.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|error| StoreError::Open { path: scratch.to_owned(), reason: error.to_string() }),
    }
}
