//! `selfsame backup`: makes a backup through the running daemon; `selfsame backup verify` checks
//! one.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use selfsame_protocol::operator::{Backup, BackupState, NewBackup};

use super::block_on;
use super::error::CommandError;
use super::output::Output;
use crate::backup::Manifest;
use crate::backup::verify::{verify, verify_deeply};
use crate::cli;
use crate::cli::BackupCommand;
use crate::operator_client::OperatorOptions;

/// Size of the block cache of a store that is checked deeply, in bytes.
const FSCK_CACHE: usize = 256 << 20;

/// Runs the command.
pub fn run(command: cli::Backup, out: &mut Output) -> Result<ExitCode, CommandError> {
    match command {
        cli::Backup { command: Some(BackupCommand::Verify { folder, deep, scratch }), .. } => {
            run_verify(&folder, deep, scratch.as_deref(), out)
        }
        cli::Backup { folder, options, .. } => block_on(make(folder.unwrap_or_default(), options, out)),
    }
}

async fn make(folder: PathBuf, options: OperatorOptions, out: &mut Output) -> Result<ExitCode, CommandError> {
    let folder = std::path::absolute(folder)?;
    let folder = folder.to_str().ok_or("the name of the folder is not UTF-8")?.to_owned();
    let mut backup: Backup = options.post("/backups", &NewBackup { folder }).await?;
    // Each answer comes when the backup has ended, or after a few seconds.
    while backup.state == BackupState::Running {
        backup = options.get(&format!("/backups/{}", backup.id)).await?;
    }
    let Backup { folder, begun_at, message, content, .. } = backup;
    let Some(content) = content else {
        return Err(format!("the backup was not made: {}", message.unwrap_or_default()).into());
    };
    writeln!(
        out,
        "backup of {begun_at} in {folder}, on the daemon's machine\nblock {}, {:#x}\n{} files, {} bytes, {} ms",
        content.ledger_height, content.last_block_hash, content.files, content.size, content.took_ms
    )?;
    Ok(ExitCode::SUCCESS)
}

fn run_verify(folder: &Path, deep: bool, scratch: Option<&Path>, out: &mut Output) -> Result<ExitCode, CommandError> {
    let verification = verify(folder);
    let mut problems = verification.problems;
    if deep && problems.is_empty() {
        let beside = std::path::absolute(folder)?;
        let beside = scratch.or(beside.parent()).unwrap_or(folder);
        let scratch = beside.join(format!("fsck-{}", std::process::id()));
        let findings = verify_deeply(folder, FSCK_CACHE, &scratch);
        match std::fs::remove_dir_all(&scratch) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("{}: {error}", scratch.display()).into());
            }
            _ => problems.extend(findings?),
        }
    }
    for problem in &problems {
        writeln!(out, "{problem}")?;
    }
    if let Some(manifest) = verification.manifest {
        writeln!(out, "{}", summary(&manifest))?;
    }
    writeln!(out, "{} problems", problems.len())?;
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What a manifest says, in two lines.
fn summary(manifest: &Manifest) -> String {
    format!(
        "backup of {} by selfsame {}, schema version {}, registry {:#x} on chain {}\nblock {}, {:#x}, {} applied, {} files, \
         {} bytes",
        manifest.made_at,
        manifest.program_version,
        manifest.schema_version,
        manifest.verifying_contract,
        manifest.chain_id,
        manifest.ledger_height,
        manifest.last_block_hash,
        manifest.applied_height,
        manifest.files.len(),
        manifest.total_size()
    )
}
