//! `selfsame keys …`: the signing keys of a running daemon, and of the store of a stopped one.

use std::path::Path;
use std::process::ExitCode;

use selfsame_actors::{Clock, SystemClock, revoke_stored_keys};
use selfsame_protocol::operator::{Key, Revoke, Rotate};
use selfsame_storage::Store;

use super::error::CommandError;
use super::output::Output;
use crate::backup::check_data_folder;
use crate::cli::Keys;
use crate::daemon::store_folder;

/// Size of the block cache of the store of a stopped daemon, in bytes: one record is read.
const CACHE: usize = 1 << 20;

/// Runs the command.
pub async fn run(command: Keys, out: &mut Output) -> Result<ExitCode, CommandError> {
    let keys: Vec<Key> = match command {
        Keys::List { json: true, options } => {
            out.print_json(&options.get::<Vec<Key>>("/keys").await?)?;
            return Ok(ExitCode::SUCCESS);
        }
        Keys::List { json: false, options } => options.get("/keys").await?,
        Keys::Rotate { now, options } => options.post("/keys/rotate", &Rotate { now }).await?,
        Keys::Revoke { kid: Some(kid), end_sessions, options, .. } => {
            options.post("/keys/revoke", &Revoke { kid, end_sessions }).await?
        }
        Keys::Revoke { kid: None, end_sessions, registry_key, options, .. } => {
            revoke_all(&options.data, end_sessions, registry_key, out)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    for Key { kid, state, published_at } in keys {
        writeln!(out, "{kid} {state:<8} since {published_at}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes all keys from the store of a stopped daemon. A daemon does not start with keys that it
/// cannot decrypt, so this is the way on when the encryption key is lost.
fn revoke_all(data: &Path, end_sessions: bool, registry_key: bool, out: &mut Output) -> Result<(), CommandError> {
    check_data_folder(data)?;
    let store = Store::open_existing(&store_folder(data), CACHE)?;
    if store.membership()?.is_some() {
        return Err(
            "the store is a replica of a cluster, whose other replicas would keep the keys; revoke them at one \
                    that runs, or make the store alone first: selfsame cluster leave"
                .into(),
        );
    }
    let removed = revoke_stored_keys(&store, SystemClock.unix_seconds(), end_sessions, registry_key)?;
    match removed.is_empty() {
        true => writeln!(out, "no signing keys are stored; the daemon makes some when it starts")?,
        false => {
            for kid in removed {
                writeln!(out, "{kid} removed")?;
            }
            writeln!(out, "the daemon makes new signing keys when it starts")?;
        }
    }
    if registry_key {
        writeln!(out, "the key of the registry's heads is removed; wallets that know it refuse the registry")?;
    }
    if end_sessions {
        writeln!(out, "all sign-ins up to now have ended")?;
    }
    Ok(())
}
