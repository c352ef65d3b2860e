//! The registry's key, and the signed head of the newest applied block.
//!
//! # Why a registry never signs two heads of one height
//!
//! A signed head cannot be taken back, so what it states must still be true after any failure. Only
//! the tip of the published snapshot is signed, and four facts make that tip final:
//!
//! 1. *The block is durable.* The tree maintainer applies only blocks that it has read from the
//!    ledger. A ledger shows a block only when the block is durable
//!    ([`selfsame_storage::LedgerReader::block`]): RocksDB syncs its log before it makes a synced
//!    write visible, and what it finds in a log when a store is opened it writes to synced files
//!    before it answers. So a block whose append failed is either not visible or durable.
//! 2. *There is no other block of that height.* A ledger appends only the block after its head, one
//!    at a time, and reads the head from the store when an append has failed. No block is deleted.
//! 3. *Applying the block again gives the same head.* Applied blocks are not synced, so a loss of
//!    power may undo some. The sealed blocks are applied again before the service answers
//!    ([`super::tree_maintainer::Applier::catch_up`]), and a block carries everything that its
//!    result depends on: domain, time, rule parameters and operations.
//! 4. *The snapshot is applied.* It is taken after the commit of the block, and the marks of
//!    [`super::publication::Publication`] only grow.
//!
//! So the store needs no record of what was signed, and no write waits for a signature. What breaks
//! the argument is outside of the service: a disk that does not honour a sync, or an operator who
//! restores an old backup. The registry then continues a shorter chain, and clients that kept a
//! later head find out.
//!
//! The key is durable before it is used for the first time: it is used only once it was read back
//! from the store.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Head, RegistryKey, SignedHead};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{RecordKey, RecordKind, RecordWrite, Records, StoreError, StoredRecord};
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use super::reader::Reader;
use crate::clock::Random;
use crate::key_cipher::{KeyCipher, is_encrypted};

/// The record of the registry's key: PKCS#8 in DER, or its encryption.
pub(crate) const KEY: RecordKey = RecordKey { kind: RecordKind::RegistryKey, id: B256::ZERO };

/// The name under which the key is encrypted, so that no other encrypted key can take its place.
const KEY_NAME: &str = "registry key";

/// Why the head cannot be signed. Contains nothing of the private key.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HeadSigningError {
    /// The stored key is encrypted, and there is no key to decrypt it with.
    #[error("the stored registry key is encrypted; set sign_in.key_encryption_key_file")]
    Encrypted,
    /// The stored key was encrypted with another key, or was changed.
    #[error("the stored registry key cannot be decrypted with the key in sign_in.key_encryption_key_file")]
    Decrypt,
    /// The stored key is not an Ed25519 key.
    #[error("the stored registry key cannot be read")]
    Unreadable,
    /// The cryptographic library failed.
    #[error("the cryptographic library failed to make, encrypt or use the registry key")]
    Library,
    /// The key could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Signs the head of the newest applied block, each at most once.
pub(crate) struct HeadSigner {
    reader: Arc<Reader>,
    records: Arc<dyn Records>,
    random: Arc<dyn Random>,
    cipher: Option<Arc<KeyCipher>>,
    /// The key, once it was read from the store.
    key: ArcSwapOption<RegistryKey>,
    /// The newest head that was signed since the start.
    newest: Mutex<Option<Arc<SignedHead>>>,
}

impl HeadSigner {
    pub fn new(
        reader: Arc<Reader>,
        records: Arc<dyn Records>,
        random: Arc<dyn Random>,
        cipher: Option<Arc<KeyCipher>>,
    ) -> Self {
        Self { reader, records, random, cipher, key: ArcSwapOption::empty(), newest: Mutex::default() }
    }

    /// The signed head of the published snapshot. The first call on a new store makes the key.
    pub async fn signed_head(&self) -> Result<Arc<SignedHead>, HeadSigningError> {
        let key = match self.key.load_full() {
            Some(key) => key,
            None => self.load_key().await?,
        };
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        // Read while the lock is held: the published height only grows, so each caller finds the
        // head of the caller before it or a later one.
        let snapshot = self.reader.snapshot();
        let tip = snapshot.tip();
        if let Some(signed) = newest.as_ref().filter(|signed| signed.head.height == tip.seal.height) {
            return Ok(Arc::clone(signed));
        }
        let signed = Head::new(self.reader.domain(), tip).sign(&key).map_err(|_| HeadSigningError::Library)?;
        Ok(Arc::clone(newest.insert(Arc::new(signed))))
    }

    /// Reads the key from the store; on a new store, makes it first.
    async fn load_key(&self) -> Result<Arc<RegistryKey>, HeadSigningError> {
        let stored = match self.records.get(&KEY)? {
            Some(stored) => stored,
            None => self.make_key().await?,
        };
        let pkcs8 = self.decrypt(&stored.value)?;
        let key = RegistryKey::from_pkcs8(&pkcs8).map_err(|_| HeadSigningError::Unreadable)?;
        if let Some(cipher) = self.cipher.as_deref().filter(|_| !is_encrypted(&stored.value)) {
            // The key was stored before there was a cipher. It stays the same, because clients have
            // pinned it.
            let encrypted = self.encrypt(cipher, &pkcs8)?;
            match self.write(Some(stored), encrypted).await {
                Ok(()) => tracing::info!("the stored registry key is encrypted now"),
                Err(error) => tracing::warn!(%error, "the stored registry key is still not encrypted"),
            }
        }
        let key = Arc::new(key);
        self.key.store(Some(Arc::clone(&key)));
        Ok(key)
    }

    /// Makes a key and writes it, unless another caller was first. Returns the stored key, which is
    /// durable.
    async fn make_key(&self) -> Result<StoredRecord, HeadSigningError> {
        let mut seed = Zeroizing::new([0; 32]);
        self.random.fill(seed.as_mut_slice());
        let key = RegistryKey::from_seed(&seed).map_err(|_| HeadSigningError::Library)?;
        let pkcs8 = key.to_pkcs8().map_err(|_| HeadSigningError::Library)?;
        let value = match self.cipher.as_deref() {
            Some(cipher) => self.encrypt(cipher, pkcs8.as_ref())?,
            None => pkcs8.as_ref().to_vec(),
        };
        self.write(None, value).await?;
        // A write that lost against another caller's left that caller's key.
        let stored = self.records.get(&KEY)?;
        stored.ok_or_else(|| StoreError::Missing { family: "records", what: "the registry's key".to_owned() }.into())
    }

    /// Writes the key's record if it is still as it was read. `Ok` also when it is not.
    async fn write(&self, before: Option<StoredRecord>, value: Vec<u8>) -> Result<(), StoreError> {
        let after = Some(StoredRecord { expires_at: UnixSeconds::NEVER, value });
        let (decided, decision) = oneshot::channel();
        let decided = Box::new(move |result| drop(decided.send(result)));
        self.records.compare_and_write(vec![RecordWrite { key: KEY, before, after }], decided);
        decision.await.unwrap_or(Err(StoreError::Panicked)).map(drop)
    }

    fn encrypt(&self, cipher: &KeyCipher, pkcs8: &[u8]) -> Result<Vec<u8>, HeadSigningError> {
        cipher.encrypt(KEY_NAME, pkcs8, &*self.random).ok_or(HeadSigningError::Library)
    }

    fn decrypt(&self, stored: &[u8]) -> Result<Zeroizing<Vec<u8>>, HeadSigningError> {
        match self.cipher.as_deref() {
            _ if !is_encrypted(stored) => Ok(Zeroizing::new(stored.to_vec())),
            None => Err(HeadSigningError::Encrypted),
            Some(cipher) => cipher.decrypt(KEY_NAME, stored).ok_or(HeadSigningError::Decrypt),
        }
    }
}
