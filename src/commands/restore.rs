//! `selfsame restore`: makes a data folder from a backup.

use std::process::ExitCode;

use selfsame_actors::{Clock, SystemClock};

use super::error::CommandError;
use super::output::Output;
use crate::backup::restore::{Restored, Statement, restore};
use crate::cli::Restore;
use crate::progress::Follower;
use crate::sign_in::setup::read_key_cipher;
use crate::stop_signal::stop_flag;

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
pub fn run(options: Restore, out: &mut Output) -> Result<ExitCode, CommandError> {
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
