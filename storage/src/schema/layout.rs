//! The layout of a store's records: a store says it, and a program reads no other.

use std::fmt;

use selfsame_protocol::encode_fields;

/// Version of the layout. Releases count from 1; until the first one it is 0.
pub const SCHEMA_VERSION: u32 = 0;

/// Number of the layout among those of its version that were not released; 0 for a released one.
/// Every change of what is stored raises it: a key, a value, a family, an entry of the journal.
pub const SCHEMA_DRAFT: u32 = 3;

/// The layout of a store, as the store says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its version.
    pub schema: u32,
    /// Its draft. `None` in stores of the builds that did not count drafts yet: no released program
    /// made them.
    pub draft: Option<u32>,
}

encode_fields!(Layout { schema, draft });

impl Layout {
    /// The layout of this program.
    pub const PRESENT: Self = Self { schema: SCHEMA_VERSION, draft: Some(SCHEMA_DRAFT) };
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "schema {}", self.schema)?;
        match self.draft {
            None | Some(0) => Ok(()),
            Some(draft) => write!(f, ", draft {draft}"),
        }
    }
}
