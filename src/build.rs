//! Which build of the program runs: its version, and the commit of its sources.

use std::fmt::{self, Display};

use serde::Serialize;
use utoipa::ToSchema;

/// A build of the program. Its text is what `selfsame --version` shows behind the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Build {
    /// The version in `Cargo.toml`, for example `0.1.0`.
    pub version: &'static str,
    /// The commit of the sources, abbreviated, with `-dirty` behind it when files differed from the
    /// commit. `None` when the program was built in another way than by `make`, or not in a clone.
    pub commit: Option<&'static str>,
    /// The day of that commit in UTC, for example `2027-01-31`.
    pub commit_date: Option<&'static str>,
}

impl Build {
    /// The build from this commit and its day. An empty text means that it is not known.
    pub fn of_commit(commit: Option<&'static str>, commit_date: Option<&'static str>) -> Self {
        let is_known = |text: &&str| !text.is_empty();
        let commit = commit.filter(is_known);
        // A day without its commit says nothing.
        let commit_date = commit_date.filter(is_known).filter(|_| commit.is_some());
        Self { version: env!("CARGO_PKG_VERSION"), commit, commit_date }
    }
}

impl Default for Build {
    /// The build from a commit that is not known.
    fn default() -> Self {
        Self::of_commit(None, None)
    }
}

impl Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.commit, self.commit_date) {
            (Some(commit), Some(date)) => write!(f, "{} ({commit}, {date})", self.version),
            (Some(commit), None) => write!(f, "{} ({commit})", self.version),
            (None, _) => write!(f, "{} (commit not known)", self.version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_names_its_commit_or_says_that_it_is_not_known() {
        let version = env!("CARGO_PKG_VERSION");
        for (commit, date, expected) in [
            (Some("0123abc"), Some("2027-01-31"), " (0123abc, 2027-01-31)"),
            (Some("0123abc-dirty"), None, " (0123abc-dirty)"),
            (Some(""), Some(""), " (commit not known)"),
            (Some(""), Some("2027-01-31"), " (commit not known)"),
            (None, None, " (commit not known)"),
        ] {
            let build = Build::of_commit(commit, date);
            assert_eq!(build.to_string(), format!("{version}{expected}"), "{commit:?} {date:?}");
        }
    }
}
