//! What a check of a store found.

use super::reading::Merge;

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsckReport {
    /// Blocks in the ledger.
    pub blocks: u64,
    /// Blocks that were applied; the next start of the daemon applies the others.
    pub applied: u64,
    /// Operations in the applied blocks.
    pub operations: u64,
    /// Accounts.
    pub accounts: u64,
    /// Requests in the queue.
    pub queued: u64,
    /// What is wrong, one text per finding: the first [`FsckReport::MAX_FINDINGS`], and that of a
    /// comparison with a head.
    pub findings: Vec<String>,
    /// Number of further findings.
    pub unlisted: u64,
}

impl FsckReport {
    /// Most findings that a report lists. A damaged store can have millions.
    pub const MAX_FINDINGS: usize = 100;

    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    /// Number of findings, listed or not.
    pub fn count(&self) -> u64 {
        self.findings.len() as u64 + self.unlisted
    }

    /// The findings, and a last text that says how many are not listed.
    pub fn texts(&self) -> Vec<String> {
        let mut texts = self.findings.clone();
        if self.unlisted > 0 {
            texts.push(format!("{} more findings", self.unlisted));
        }
        texts
    }
}

/// What a part of a check found: the first [`FsckReport::MAX_FINDINGS`], and how many more.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    pub listed: Vec<String>,
    pub unlisted: u64,
}

impl Findings {
    pub fn add(&mut self, finding: String) {
        if self.listed.len() < FsckReport::MAX_FINDINGS {
            self.listed.push(finding);
        } else {
            self.unlisted += 1;
        }
    }
}

impl Merge for Findings {
    fn append(&mut self, next: Self) {
        next.listed.into_iter().for_each(|finding| self.add(finding));
        self.unlisted += next.unlisted;
    }
}
