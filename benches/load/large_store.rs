//! Makes a store of many accounts through the code that seals and applies blocks, in minutes: two
//! threads, one ahead of the other, without HTTP, signatures and the wait for each other.

use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

use indicatif::{ProgressBar, ProgressStyle};
use selfsame_actors::{Clock, SystemClock};
use selfsame_protocol::keccak256;
use selfsame_protocol::ledger::{Block, Entry, IdPlace, RequestId, Seal, apply_block};
use selfsame_protocol::registry::{CommitmentCheck, Operation, RuleParameters};
use selfsame_protocol::time::UnixMillis;
use selfsame_storage::{BlockWriter, EmbeddedLedger, GroupCommit, Ledger, LedgerReader, RequestWriter, Store};

use crate::Failure;
use crate::accounts::Accounts;
use crate::daemon::Daemon;
use crate::settings::LargeStore;

/// Operations in a block: the default limit of the daemon.
const BLOCK: u64 = 1024;

/// Blocks that are sealed ahead of the applied ones.
const BLOCKS_AHEAD: usize = 4;

/// The time of the blocks lies this far in the past, so that the records of their requests have
/// expired as in a registry that has grown for years.
const AGE: u64 = 30 * 24 * 3600;

/// Memory for cached blocks of the database's files while the store is made, in bytes.
const BLOCK_CACHE: usize = 1 << 30;

/// Expired records that one sweep deletes.
const SWEEP: usize = 2 * BLOCK as usize;

/// The rules of `selfsame serve --dev`.
const RULES: RuleParameters = RuleParameters {
    max_authenticators: 7,
    recovery_agent_update_cooldown: 14 * 24 * 3600,
    root_validity_window: 3600,
    commitment_check: CommitmentCheck::Off,
};

/// Makes the store, unless an earlier run has, and gives a copy of its data in `copy`.
pub fn provide(large: &LargeStore, accounts: &Accounts, copy: &Path) -> Result<(), Failure> {
    // The daemon makes its keys, and a store for its registry.
    Daemon::start(&large.data)?.stop()?;
    grow(&selfsame::daemon::store_folder(&large.data), large.accounts, accounts)?;
    // A clean stop leaves the files as an operator's daemon does.
    Daemon::start(&large.data)?.stop()?;
    copy_folder(&large.data, copy)
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(to)?;
    std::fs::set_permissions(to, std::fs::metadata(from)?.permissions())?;
    for entry in std::fs::read_dir(from)? {
        let name = entry?.file_name();
        let (entry, to) = (from.join(&name), to.join(&name));
        if entry.is_dir() {
            copy_folder(&entry, &to)?;
        } else if entry.is_file() {
            std::fs::copy(&entry, &to)?;
        }
    }
    Ok(())
}

/// Adds accounts to the store in `folder`, whose daemon has stopped, until it has `count`.
fn grow(folder: &Path, count: u64, accounts: &Accounts) -> Result<(), Failure> {
    let store = Store::open_existing(folder, BLOCK_CACHE)?;
    let present = store.snapshot()?.next_leaf_index().0 - 1;
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} ({per_sec}, {eta} left)")?;
    let bar = ProgressBar::new(count).with_style(style).with_message("making accounts").with_position(present);
    let (commits, committing) = GroupCommit::start(store.clone())?;
    let (sealed, to_apply) = sync_channel(BLOCKS_AHEAD);
    let done = std::thread::scope(|scope| {
        let sealing = scope.spawn(|| -> Result<(), Failure> {
            let ledger = EmbeddedLedger::open(store.clone())?;
            let mut head = ledger.head();
            let mut next = present;
            let mut id = IdPlace::default();
            while next < count {
                let until = count.min(next + BLOCK);
                let now = SystemClock.unix_seconds().minus(AGE);
                let mut entries = Vec::with_capacity(BLOCK as usize);
                for number in next..until {
                    id = id.next(UnixMillis(now.0 * 1000));
                    entries.push(entry(number, id, accounts)?);
                }
                let block = Block::seal(&head, store.domain(), now, RULES, entries);
                let (appended, outcome) = sync_channel(1);
                ledger.append(&block, &commits, Box::new(move |result| drop(appended.send(result))));
                outcome.recv()??;
                (head, next) = (Seal::of(&block.header), until);
                sealed.send(block)?;
            }
            drop(sealed);
            Ok(())
        });
        let applied = apply_all(&store, &commits, to_apply, &bar);
        sealing.join().map_err(|_| "the thread that seals blocks panicked")?.and(applied)
    });
    drop(commits);
    let _ = committing.join();
    bar.finish_and_clear();
    done
}

/// The request that creates the account with a number, counted from 0.
fn entry(number: u64, id: IdPlace, accounts: &Accounts) -> Result<Entry, Failure> {
    let mut random = [0; 8];
    random.copy_from_slice(&keccak256(number.to_be_bytes())[24..]);
    let operation = Operation::CreateAccount(accounts.create(number)?);
    Ok(Entry { request_id: RequestId::from_place(id, random), operation })
}

fn apply_all(store: &Store, commits: &GroupCommit, blocks: Receiver<Block>, bar: &ProgressBar) -> Result<(), Failure> {
    let (writer, requests) = (BlockWriter::new(store.clone()), RequestWriter::new(store.clone(), commits.clone()));
    let now = SystemClock.unix_seconds();
    let ledger = EmbeddedLedger::open(store.clone())?;
    for block in blocks {
        let snapshot = store.snapshot()?;
        let effects = apply_block(&block, &[], &snapshot, snapshot.tip())?;
        writer.commit(&block, &effects)?;
        requests.sweep_requests(now, &ledger, SWEEP)?;
        bar.inc(block.entries.len() as u64);
    }
    Ok(())
}
