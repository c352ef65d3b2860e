//! The data of a stopped daemon: `selfsame registry replay`, `fsck`, `rebuild` and `compare-heads`,
//! and `selfsame store info`.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use selfsame_interfaces::operator::time_text;
use selfsame_protocol::json::from_object;
use selfsame_protocol::ledger::{Head, HeadComparison, SignedHead, compare_heads};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::trace::{Trace, replay};
use selfsame_storage::{
    FamilyInfo, FsckReport, Layout, Restoration, SCHEMA_DRAFT, SCHEMA_VERSION, Store, StoreError, StoreSummary, fsck,
    rebuild,
};
use serde_json::{Value, json};

use super::outcome::{CommandError, Output};
use crate::backup::check_data_folder;
use crate::cli::{Registry, StoreCommand};
use crate::daemon::store_folder;
use crate::process::stop_flag;
use crate::progress::Follower;

/// Size of the block cache of a store that is checked, in bytes.
const FSCK_CACHE: usize = 256 << 20;

/// The longest file of a signed head, in bytes.
const MAX_HEAD: u64 = 64 * 1024;

/// Exit status when two heads cannot be compared.
const NOT_COMPARABLE: u8 = 2;

/// Runs the command.
pub fn run(command: Registry, out: &mut Output) -> Result<ExitCode, CommandError> {
    let is_good = match command {
        Registry::Replay { file, json } => run_replay(&file, json, out)?,
        Registry::Fsck { data, head, scratch, json } => {
            run_fsck(&data, head.as_deref(), scratch.as_deref(), json, out)?
        }
        Registry::Rebuild { data } => run_rebuild(&data, out)?,
        Registry::CompareHeads { first, second, json } => return run_compare_heads(&first, &second, json, out),
    };
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_replay(file: &Path, json: bool, out: &mut Output) -> Result<bool, CommandError> {
    let text = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let trace = Trace::parse(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let differences = replay(&trace);
    if json {
        let differences: Vec<String> = differences.iter().map(ToString::to_string).collect();
        out.print_json(&json!({"rows": trace.rows.len(), "differences": differences}))?;
        return Ok(differences.is_empty());
    }
    for difference in &differences {
        writeln!(out, "{difference}")?;
    }
    writeln!(out, "{} rows, {} differences", trace.rows.len(), differences.len())?;
    Ok(differences.is_empty())
}

fn run_fsck(
    data: &Path,
    head: Option<&Path>,
    scratch: Option<&Path>,
    json: bool,
    out: &mut Output,
) -> Result<bool, CommandError> {
    #[cfg(feature = "fault-injection")]
    let _faults = selfsame_actors::faults::run_plan_of_environment().map_err(|error| format!("FAILPOINTS: {error}"))?;
    check_data_folder(data)?;
    let head = head.map(read_verified_head).transpose()?;
    let store = match Store::open_existing(&store_folder(data), FSCK_CACHE) {
        // The daemon was killed during its first start: it acknowledged no request, so none is
        // missing.
        Err(error @ StoreError::Empty { .. }) => {
            let mut report = FsckReport::default();
            if let Some(head) = &head {
                report.compare_with_head(None, head)?;
            }
            if !json {
                writeln!(out, "{error}")?;
            }
            return print_report(&report, json, out);
        }
        store => store?,
    };
    // By default the second store lies beside the first: the system's folder for temporary files
    // may be too small for it.
    let mut report = fsck(&store, scratch.unwrap_or(data), &Follower::new(json, stop_flag()?))?;
    if let Some(head) = &head {
        report.compare_with_head(Some(&store), head)?;
    }
    print_report(&report, json, out)
}

/// Prints the result of a check; returns whether nothing is wrong.
fn print_report(report: &FsckReport, json: bool, out: &mut Output) -> Result<bool, CommandError> {
    if json {
        out.print_json(&fsck_json(report))?;
        return Ok(report.is_sound());
    }
    for text in report.texts() {
        writeln!(out, "{text}")?;
    }
    if !report.is_sound() {
        writeln!(
            out,
            "`selfsame registry rebuild` mends what follows from the blocks; for anything else restore a backup with \
             `selfsame restore`"
        )?;
    }
    let groups = match report.groups {
        0 => String::new(),
        groups => format!("{groups} groups with {} members, ", report.members),
    };
    writeln!(
        out,
        "{} blocks, {} applied with {} operations, {} accounts, {} requests queued, {groups}{} findings",
        report.blocks,
        report.applied,
        report.operations,
        report.accounts,
        report.queued,
        report.count()
    )?;
    Ok(report.is_sound())
}

/// A head with a good signature. Whose key it is, the person who kept the head knows.
fn read_verified_head(path: &Path) -> Result<Head, CommandError> {
    let SignedHead { head, .. } = read_head(path)
        .and_then(|head| head.verify().map(|()| head).map_err(|error| error.to_string()))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(head)
}

fn fsck_json(report: &FsckReport) -> Value {
    let FsckReport { blocks, applied, operations, accounts, queued, groups, members, findings, unlisted } = report;
    json!({
        "blocks": blocks, "applied": applied, "operations": operations, "accounts": accounts, "queued": queued,
        "groups": groups, "members": members, "findings": findings, "unlisted": unlisted,
    })
}

fn run_rebuild(data: &Path, out: &mut Output) -> Result<bool, CommandError> {
    #[cfg(feature = "fault-injection")]
    let _faults = selfsame_actors::faults::run_plan_of_environment().map_err(|error| format!("FAILPOINTS: {error}"))?;
    check_data_folder(data)?;
    writeln!(out, "rebuilding; the old store stays until the new one is complete")?;
    let report = rebuild(&store_folder(data), FSCK_CACHE, &Follower::new(false, stop_flag()?))?;
    writeln!(
        out,
        "{} blocks with {} operations, {} accounts, {} requests queued; the store is rebuilt",
        report.blocks, report.operations, report.accounts, report.queued
    )?;
    Ok(true)
}

/// Prints what two heads say about each other.
fn run_compare_heads(first: &Path, second: &Path, json: bool, out: &mut Output) -> Result<ExitCode, CommandError> {
    let read = |path| read_head(path).map_err(|error| format!("{}: {error}", Path::display(path)));
    let compare = || {
        let (first, second) = (read(first)?, read(second)?);
        let comparison = compare_heads(&first, &second).map_err(|error| error.to_string())?;
        Ok::<_, String>((comparison, first, second))
    };
    let compared = compare();
    let (result, status) = match &compared {
        Ok((HeadComparison::Same, ..)) => ("same", ExitCode::SUCCESS),
        Ok((HeadComparison::DifferentHeights, ..)) => ("different_heights", ExitCode::SUCCESS),
        Ok((HeadComparison::Contradiction, ..)) => ("contradiction", ExitCode::FAILURE),
        Err(_) => ("not_comparable", ExitCode::from(NOT_COMPARABLE)),
    };
    match compared {
        Ok((_, first, second)) if json => {
            out.print_json(&json!({"result": result, "heads": [first, second]}))?;
        }
        Err(reason) if json => out.print_json(&json!({"result": result, "reason": reason}))?,
        Ok((HeadComparison::Same, first, _)) => {
            writeln!(out, "no contradiction: both are the head of block {}", first.head.height)?;
        }
        Ok((HeadComparison::DifferentHeights, first, second)) => {
            let (first, second) = (first.head.height, second.head.height);
            writeln!(
                out,
                "no contradiction: the heads are of blocks {first} and {second}; only the blocks between show more"
            )?;
        }
        Ok((HeadComparison::Contradiction, first, second)) => {
            writeln!(out, "contradiction: the registry has signed two different heads of block {}", first.head.height)?;
            writeln!(out, "key {}", first.public_key)?;
            for SignedHead { head, .. } in [first, second] {
                writeln!(out, "block {:#x}, result {:#x}, root {:#x}", head.block_hash, head.result_hash, head.root)?;
            }
        }
        Err(reason) => writeln!(out, "the heads cannot be compared: {reason}")?,
    }
    Ok(status)
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

// `selfsame store info`: what a store holds.

/// Size of the block cache of a store that is looked at, in bytes.
const LOOK_CACHE: usize = 8 << 20;

/// Runs the command.
pub fn run_store(command: StoreCommand, out: &mut Output) -> Result<ExitCode, CommandError> {
    let StoreCommand::Info { data, json } = command;
    let info = StoreInfo::read(&data)?;
    match json {
        true => out.print_json(&info.json())?,
        false => out.print(&info.text())?,
    }
    Ok(ExitCode::SUCCESS)
}

struct StoreInfo {
    summary: StoreSummary,
    accounts: u64,
    restoration: Option<Restoration>,
    families: Vec<FamilyInfo>,
}

impl StoreInfo {
    fn read(data: &Path) -> Result<Self, CommandError> {
        let store = Store::open_read_only(&store_folder(data), LOOK_CACHE)?;
        Ok(Self {
            summary: store.summary()?,
            accounts: store.accounts()?,
            restoration: store.restoration()?,
            families: store.families()?,
        })
    }

    fn json(&self) -> Value {
        let StoreSummary { domain, head, applied_height } = self.summary;
        let family = |FamilyInfo { name, records, file_bytes }: &FamilyInfo| json!({"name": name, "records": records, "file_bytes": file_bytes});
        json!({
            "schema_version": SCHEMA_VERSION,
            "schema_draft": SCHEMA_DRAFT,
            "chain_id": domain.chain_id,
            "verifying_contract": domain.verifying_contract,
            "ledger_height": head.height,
            "last_block_hash": head.hash,
            "last_block_time": head.time,
            "applied_height": applied_height,
            "accounts": self.accounts,
            "restored_from_height": self.restoration.as_ref().map(|mark| mark.height),
            "families": self.families.iter().map(family).collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> String {
        let StoreSummary { domain, head, applied_height } = self.summary;
        let mut lines = vec![
            Layout::PRESENT.to_string(),
            format!("registry {:#x} on chain {}", domain.verifying_contract, domain.chain_id),
        ];
        lines.push(match head.height {
            0 => "no block".to_owned(),
            height => format!("block {height} of {}, {:#x}, {applied_height} applied", time_text(head.time), head.hash),
        });
        lines.push(format!("{} accounts", self.accounts));
        if let Some(mark) = self.restoration.filter(Restoration::is_only_copied) {
            lines.push(format!("the copy in a backup of {}, not restored", time_text(mark.backup_made_at)));
        } else if let Some(Restoration { height, restored_at, confirmation, .. }) = &self.restoration {
            let confirmed = if confirmation.is_some() { "" } else { ", not confirmed" };
            let restored_at: UnixSeconds = *restored_at;
            lines.push(format!("restored on {} from block {height}{confirmed}", time_text(restored_at)));
        }
        lines.push(format!("{:<20}{:>14}{:>16}", "family", "records, about", "bytes in files"));
        let family =
            |FamilyInfo { name, records, file_bytes }: &FamilyInfo| format!("{name:<20}{records:>14}{file_bytes:>16}");
        lines.extend(self.families.iter().map(family));
        lines.join("\n") + "\n"
    }
}
