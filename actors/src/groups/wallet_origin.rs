//! The origin of the web wallet, which is for life: browsers keep the passkeys and the secrets of
//! members for it, and have none of them at another one.
//!
//! The first service that serves the page writes its origin into the store. From then on the store
//! decides, until the operator says that the page has moved.

use selfsame_storage::{Decision, StoreError};

use super::group_keeper::{ATTEMPTS, decided};
use super::handle::GroupsHandle;

/// What became of the web wallet's origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettledOrigin {
    /// The store had it.
    Known,
    /// The store had none, and has it now.
    New,
    /// The store had the one that the operator named, and has the new one now.
    Moved,
}

/// Why the web wallet is not served at an origin.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WalletOriginError {
    /// The passkeys of members belong to another origin.
    #[error(
        "the store says that the web wallet is at {stored}, and the configuration says {configured}: members' passkeys \
         belong to {stored} and do not work elsewhere. Set urls.wallet_url = {stored:?}; or, if the page has to move and \
         the members have their recovery codes, set wallet.moved_from = {stored:?}"
    )]
    Other {
        /// The origin in the store.
        stored: String,
        /// That of the configuration.
        configured: String,
    },
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl GroupsHandle {
    /// Checks that the web wallet may be served at an origin, and writes the first one, and one
    /// that takes the place of `moved_from`. It is durable when this returns.
    ///
    /// # Errors
    /// [`WalletOriginError`].
    pub async fn settle_wallet_origin(
        &self,
        origin: &str,
        moved_from: Option<&str>,
    ) -> Result<SettledOrigin, WalletOriginError> {
        let records = &self.state.records;
        // Another replica may have written it.
        self.state.catching_up.find().await.map_err(StoreError::from)?;
        for _ in 0..ATTEMPTS {
            let stored = self.state.read_records(|records| records.wallet_origin()).await?;
            let settled = match &stored {
                None => SettledOrigin::New,
                Some(stored) if stored == origin => return Ok(SettledOrigin::Known),
                Some(stored) if Some(stored.as_str()) == moved_from => SettledOrigin::Moved,
                Some(stored) => {
                    let (stored, configured) = (stored.clone(), origin.to_owned());
                    return Err(WalletOriginError::Other { stored, configured });
                }
            };
            let write = |decided| records.write_wallet_origin(stored.as_deref(), origin, decided);
            if decided(write).await? == Decision::Written {
                return Ok(settled);
            }
        }
        Err(StoreError::Closing.into())
    }
}
