//! `selfsame backup`: makes a backup through the running daemon, or checks one; `selfsame restore`:
//! makes a data folder from one.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use selfsame_actors::{Clock, KeyCipher, SystemClock};
use selfsame_protocol::operator::{Backup, BackupProgress, BackupState, NewBackup};
use selfsame_storage::{Phase, Progress};
use serde_json::{Value, json};

use super::block_on;
use super::outcome::{CommandError, Output};
use crate::backup::Manifest;
use crate::backup::restore::{Restored, Statement, Verification, restore, verify, verify_deeply};
use crate::cli::{self, BackupCommand, Restore};
use crate::operator_client::OperatorOptions;
use crate::process::stop_flag;
use crate::progress::Follower;
use crate::setup::sign_in::read_key_cipher;

/// Size of the block cache of a store that is checked deeply, in bytes.
const FSCK_CACHE: usize = 256 << 20;

/// What a running backup says about itself.
const MAKING: Phase = Phase { name: "making the backup", unit: "bytes" };

/// Runs the command.
pub fn run(command: cli::Backup, out: &mut Output) -> Result<ExitCode, CommandError> {
    match command {
        cli::Backup {
            command: Some(BackupCommand::Verify { folder, deep, scratch, key_encryption_key_file, json }),
            ..
        } => {
            let key = key_encryption_key_file.as_deref().map(read_key_cipher).transpose()?;
            run_verify(&folder, deep.then_some(scratch), key.as_deref(), json, out)
        }
        cli::Backup { folder, options, .. } => block_on(make(folder.unwrap_or_default(), options, out)),
    }
}

async fn make(folder: PathBuf, options: OperatorOptions, out: &mut Output) -> Result<ExitCode, CommandError> {
    let folder = std::path::absolute(folder)?;
    let folder = folder.to_str().ok_or("the name of the folder is not UTF-8")?.to_owned();
    // A signal ends the command and not the backup, which the daemon makes.
    let follower = Follower::new(false, Arc::default());
    let mut backup: Backup = options.post("/backups", &NewBackup { folder }).await?;
    // Each answer comes when the backup has ended, or after a few seconds.
    while backup.state == BackupState::Running {
        if let Some(BackupProgress { done, total }) = backup.progress {
            follower.report(MAKING, done, total);
        }
        backup = options.get(&format!("/backups/{}", backup.id)).await?;
    }
    drop(follower);
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

fn run_verify(
    folder: &Path,
    deep: Option<Option<PathBuf>>,
    key: Option<&KeyCipher>,
    json: bool,
    out: &mut Output,
) -> Result<ExitCode, CommandError> {
    let follower = Follower::new(json, stop_flag()?);
    let Verification { manifest, mut problems } = verify(folder, key, &follower)?;
    if let Some(scratch) = deep.filter(|_| problems.is_empty()) {
        let beside = std::path::absolute(folder)?;
        let scratch = scratch.as_deref().or(beside.parent()).unwrap_or(folder);
        problems = verify_deeply(folder, FSCK_CACHE, scratch, &follower)?;
    }
    drop(follower);
    let status = if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if json {
        out.print_json(&verification_json(manifest.as_ref(), &problems))?;
        return Ok(status);
    }
    for problem in &problems {
        writeln!(out, "{problem}")?;
    }
    if let Some(manifest) = manifest {
        writeln!(out, "{}\n{}", summary(&manifest), authenticity(&manifest, key.is_some(), problems.is_empty()))?;
    }
    writeln!(out, "{} problems", problems.len())?;
    Ok(status)
}

/// The result for programs: the members of the manifest but its files, and their number and size.
fn verification_json(manifest: Option<&Manifest>, problems: &[String]) -> Value {
    let manifest = manifest.map(|manifest| {
        json!({
            "made_at": manifest.made_at,
            "program_version": manifest.program_version,
            "schema_version": manifest.schema_version,
            "chain_id": manifest.chain_id,
            "verifying_contract": manifest.verifying_contract,
            "ledger_height": manifest.ledger_height,
            "last_block_hash": manifest.last_block_hash,
            "applied_height": manifest.applied_height,
            "files": manifest.files.len(),
            "size": manifest.total_size(),
            "authenticated": manifest.mac.is_some(),
        })
    });
    json!({"problems": problems, "backup": manifest})
}

/// Whether it is known who made a backup, in a line.
fn authenticity(manifest: &Manifest, is_checked: bool, is_good: bool) -> &'static str {
    match (manifest.mac, is_checked) {
        (_, true) if is_good => "made by a daemon with this key",
        (_, true) => "not shown to be made by a daemon with this key",
        (Some(_), false) => "authenticated, and not checked: give --key-encryption-key-file",
        (None, false) => "not authenticated: who can write the files could have made them",
    }
}

/// What a manifest says, in two lines.
fn summary(manifest: &Manifest) -> String {
    format!(
        "backup of {} by selfsame {}, schema {}, registry {:#x} on chain {}\nblock {}, {:#x}, {} applied, {} files, \
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

// `selfsame restore`: makes a data folder from a backup.

/// What every restore forgets, in words for the operator.
const FORGOTTEN: &str = "\
what was acknowledged later is not in it, whatever clients have seen:
- nullifiers: a person whose proof was accepted since counts as new, and can act a second time; nothing shows who
- nonces of signed requests that were used since: a request with one of them is accepted once more
- trusted roots that were added or removed since: compare `selfsame roots list` with what you decided
- accepted requests that were in no block yet: their clients have to send them again
these were ended, because the backup does not know whether they were used or revoked since:
- all sign-in transactions, authorization codes, access tokens and browser sessions
- all signing keys: the daemon makes new ones when it starts, and clients fetch them";

/// Runs the command.
pub fn run_restore(options: Restore, out: &mut Output) -> Result<ExitCode, CommandError> {
    #[cfg(feature = "fault-injection")]
    let _faults = selfsame_actors::faults::run_plan_of_environment().map_err(|error| format!("FAILPOINTS: {error}"))?;
    let Restore { backup, data, clients_have_seen, accept_loss, key_encryption_key_file } = options;
    let key = key_encryption_key_file.as_deref().map(read_key_cipher).transpose()?;
    let statement = Statement { clients_have_seen, accepts_loss: accept_loss };
    let follower = Follower::new(false, stop_flag()?);
    let Restored { manifest, mark, is_new } =
        restore(&backup, &data, statement, key.as_deref(), SystemClock.unix_seconds(), &follower)?;
    drop(follower);
    let (backup, data) = (backup.display(), data.display());
    if is_new {
        writeln!(out, "{data} was restored from the backup of {} in {backup}", manifest.made_at)?;
        writeln!(out, "its last block is {}, {:#x}", mark.height, mark.block_hash)?;
        writeln!(out, "{FORGOTTEN}")?;
    }
    match mark.confirmation {
        None => writeln!(
            out,
            "the daemon does not start on it before you say which block clients have seen last:\n\
             selfsame restore {backup} --data {data} --clients-have-seen HEIGHT"
        ),
        Some(confirmation) if confirmation.is_loss_accepted => writeln!(
            out,
            "confirmed: you accept that blocks after {} are lost, although clients have seen some. The registry seals \
             other blocks in their place; wallets that know a lost block refuse it, and can prove the two histories",
            mark.height
        ),
        Some(_) => writeln!(out, "confirmed: the backup has every block that clients have seen; start the daemon"),
    }?;
    Ok(ExitCode::SUCCESS)
}
