//! `selfsame store info`: what a store holds.

use std::path::Path;
use std::process::ExitCode;

use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{FamilyInfo, Layout, Restoration, SCHEMA_DRAFT, SCHEMA_VERSION, Store, StoreSummary};
use serde_json::{Value, json};

use super::error::CommandError;
use super::output::Output;
use crate::backup::make::time_text;
use crate::cli::StoreCommand;
use crate::daemon::store_folder;

/// Size of the block cache of a store that is looked at, in bytes.
const CACHE: usize = 8 << 20;

/// Runs the command.
pub fn run(command: StoreCommand, out: &mut Output) -> Result<ExitCode, CommandError> {
    let StoreCommand::Info { data, json } = command;
    let info = Info::read(&data)?;
    match json {
        true => out.print_json(&info.json())?,
        false => out.print(&info.text())?,
    }
    Ok(ExitCode::SUCCESS)
}

struct Info {
    summary: StoreSummary,
    accounts: u64,
    restoration: Option<Restoration>,
    families: Vec<FamilyInfo>,
}

impl Info {
    fn read(data: &Path) -> Result<Self, CommandError> {
        let store = Store::open_read_only(&store_folder(data), CACHE)?;
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
