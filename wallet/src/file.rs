//! The wallet file: one authenticator's seed and the services that it calls, as JSON.
//!
//! The file is readable by its owner only (mode 600); the wallet refuses a file that others can
//! read. It is written whole and durable before the key is used, and again at the first connection,
//! which fixes the registry that the key signs for and the registry's own key, for each newer head
//! of the registry, when an issuer is trusted, and before each change of a membership of a group is
//! asked for and after its answer. It does not name the account: the registry maps the key's
//! address to it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use alloy_primitives::hex;
use selfsame_protocol::address;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::groups::identity::MemberSecret;
use selfsame_protocol::groups::names::GroupId;
use selfsame_protocol::ledger::{RegistryPublicKey, SignedHead};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

use crate::keys::AuthenticatorKey;
use crate::member::Member;

/// Longest wallet file, in bytes.
const MAX_LENGTH: usize = 16 * 1024;

/// Longest issuer that a wallet file names, in bytes.
const MAX_ISSUER: usize = 200;

/// What is wrong with a wallet file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file that was to be created exists. Holds its path.
    #[error("{0} exists already; a wallet is never overwritten, choose another name with --wallet")]
    Exists(PathBuf),
    /// There is no file at this path.
    #[error("there is no wallet {0}; make one with `selfsame wallet new --wallet {0}`")]
    Missing(PathBuf),
    /// The file's mode gives its group or others a permission.
    #[error("{path} has mode {mode:o}, others could read its keys; run `chmod 600 {path}`")]
    ReadableByOthers {
        /// Path of the file.
        path: PathBuf,
        /// The file's permission bits: its mode & 0o777.
        mode: u32,
    },
    /// The path is not a regular file, or its contents are not what [`WalletFile::create`] writes.
    #[error("{path} is not a wallet: {reason}")]
    NotAWallet {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong; it contains no part of the seed.
        reason: String,
    },
    /// The gateway names another registry than the one that the wallet signs for.
    #[error(
        "{path}: this wallet signs for the registry {} of chain {}, the gateway names {} of chain {}; a signature for the \
         other registry could be used there",
        address::text(&pinned.verifying_contract), pinned.chain_id, address::text(&named.verifying_contract), named.chain_id
    )]
    OtherRegistry {
        /// Path of the file.
        path: PathBuf,
        /// The registry in the wallet file.
        pinned: RegistryDomain,
        /// The registry that the gateway names.
        named: RegistryDomain,
    },
    /// The registry signs its heads with another key than the one that the wallet has pinned.
    #[error(
        "{path}: this wallet knows the registry by the key {pinned}, its head is now signed with {named}; either this is \
         another service, or it has lost its store"
    )]
    OtherRegistryKey {
        /// Path of the file.
        path: PathBuf,
        /// The key in the wallet file.
        pinned: RegistryPublicKey,
        /// The key that the head is signed with.
        named: RegistryPublicKey,
    },
    /// The file would be longer than a wallet file may be. It is as it was.
    #[error(
        "{path}: the wallet would be longer than {MAX_LENGTH} bytes, and could not be opened any more; remove entries of \
         its `issuers`, or use another wallet for more groups"
    )]
    TooLong {
        /// Path of the file.
        path: PathBuf,
    },
    /// An issuer is longer than a wallet file can name. It is not trusted.
    #[error("the issuer has {length} bytes; a wallet trusts issuers of at most {MAX_ISSUER} bytes")]
    LongIssuer {
        /// Length of the issuer, in bytes.
        length: usize,
    },
    /// The file cannot be read, written or made durable.
    #[error("{path}: {source}")]
    Io {
        /// Path of the wallet file, also when the error occurred on the temporary file or the
        /// folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

/// Where a wallet finds the services that it calls.
#[derive(Clone, Debug, Default)]
pub struct Services {
    /// The gateway's base address.
    pub gateway: String,
    /// The indexer's base address.
    pub indexer: String,
    /// Base address of the operator interface of the daemon that proofs are made with.
    pub operator: Option<String>,
    /// The data folder of that daemon, which holds the operator's token.
    pub data: Option<PathBuf>,
}

/// The contents of a wallet file.
#[derive(Debug)]
pub struct WalletFile {
    path: PathBuf,
    /// The authenticator.
    pub key: AuthenticatorKey,
    /// The gateway's base address.
    pub gateway: String,
    /// The indexer's base address.
    pub indexer: String,
    /// Base address of the operator interface of the daemon that proofs are made with.
    pub operator: Option<String>,
    /// The data folder of that daemon, which holds the operator's token.
    pub data: Option<PathBuf>,
    /// The registry that the key signs for; `None` before the first connection.
    registry: Option<RegistryDomain>,
    /// The newest head of that registry that the wallet saw, signed with the key that the wallet
    /// expects from then on.
    head: Option<SignedHead>,
    /// The issuers whose sign-in requests the owner trusts.
    pub issuers: Vec<String>,
    /// The owner's memberships of groups, one for each group, in the order of their joining.
    members: Vec<Member>,
}

/// The file's JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    /// The authenticator's only secret: 64 hex digits.
    seed: Zeroizing<String>,
    /// Address of the seed's key, for readers of the file and as a check.
    address: String,
    gateway: String,
    indexer: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operator: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    registry: Option<RegistryDomain>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    head: Option<SignedHead>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    issuers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    members: Vec<Member>,
}

impl WalletFile {
    /// Writes a new wallet file.
    ///
    /// # Errors
    /// [`FileError::Exists`] when a file at `path` exists, and [`FileError::Io`].
    pub fn create(path: &Path, key: AuthenticatorKey, services: Services) -> Result<Self, FileError> {
        let Services { gateway, indexer, operator, data } = services;
        let (registry, head, issuers, members) = (None, None, Vec::new(), Vec::new());
        let path_of = path.to_owned();
        let wallet = Self { path: path_of, key, gateway, indexer, operator, data, registry, head, issuers, members };
        let file = wallet.write_beside()?;
        file.persist_noclobber(path).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => FileError::Exists(path.to_owned()),
            _ => wallet.io(error.error),
        })?;
        wallet.sync_folder()?;
        Ok(wallet)
    }

    /// Fixes the registry that the key signs for, or checks that it is `named`. A gateway that
    /// named another deployment's registry would get signatures that are valid there.
    ///
    /// # Errors
    /// [`FileError::OtherRegistry`] when another registry is fixed, and [`FileError::Io`].
    pub fn pin_registry(&mut self, named: RegistryDomain) -> Result<(), FileError> {
        match self.registry {
            Some(pinned) if pinned == named => Ok(()),
            Some(pinned) => Err(FileError::OtherRegistry { path: self.path.clone(), pinned, named }),
            None => {
                self.registry = Some(named);
                self.replace().inspect_err(|_| self.registry = None)
            }
        }
    }

    /// The newest head of the registry that the wallet saw; `None` before the first connection.
    pub fn head(&self) -> Option<&SignedHead> {
        self.head.as_ref()
    }

    /// Checks that a head is signed with the key of the first head that the wallet saw.
    ///
    /// # Errors
    /// [`FileError::OtherRegistryKey`].
    pub fn check_registry_key(&self, named: &RegistryPublicKey) -> Result<(), FileError> {
        match self.head.map(|head| head.public_key) {
            Some(pinned) if pinned != *named => {
                Err(FileError::OtherRegistryKey { path: self.path.clone(), pinned, named: *named })
            }
            _ => Ok(()),
        }
    }

    /// Keeps a head that the caller has checked as the newest. The first one pins the key that it
    /// is signed with.
    ///
    /// # Errors
    /// [`FileError::OtherRegistryKey`], and [`FileError::Io`]; the file is then as it was.
    pub fn keep_head(&mut self, head: SignedHead) -> Result<(), FileError> {
        self.check_registry_key(&head.public_key)?;
        if self.head == Some(head) {
            return Ok(());
        }
        self.head = Some(head);
        self.replace()
    }

    /// Replaces the file by one with the present contents.
    fn replace(&self) -> Result<(), FileError> {
        let file = self.write_beside()?;
        file.persist(&self.path).map_err(|error| self.io(error.error))?;
        self.sync_folder()
    }

    fn sync_folder(&self) -> Result<(), FileError> {
        File::open(self.folder()).and_then(|folder| folder.sync_all()).map_err(|error| self.io(error))
    }

    /// Reads a wallet file.
    ///
    /// # Errors
    /// Every [`FileError`] except [`FileError::Exists`]. No text of an error contains a part of the
    /// seed.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let io_error = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => FileError::Missing(path.to_owned()),
            _ => FileError::Io { path: path.to_owned(), source },
        };
        let not_a_wallet = |reason: &str| FileError::NotAWallet { path: path.to_owned(), reason: reason.to_owned() };
        let file = File::open(path).map_err(io_error)?;
        let metadata = file.metadata().map_err(io_error)?;
        if !metadata.is_file() {
            return Err(not_a_wallet("not a file"));
        }
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(FileError::ReadableByOthers { path: path.to_owned(), mode });
        }
        // Allocated at full size: growing the buffer would leave copies of the seed in memory.
        let mut text = Zeroizing::new(Vec::with_capacity(MAX_LENGTH + 1));
        file.take(MAX_LENGTH as u64 + 1).read_to_end(&mut text).map_err(io_error)?;
        if text.len() > MAX_LENGTH {
            return Err(not_a_wallet("longer than any wallet"));
        }
        // The parser's own message could quote the seed.
        let contents: Contents = serde_json::from_slice(&text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            not_a_wallet(&format!("line {line}, column {column} is not what `selfsame wallet new` writes"))
        })?;
        let mut seed = Zeroizing::new([0; 32]);
        hex::decode_to_slice(contents.seed.as_str(), seed.as_mut_slice())
            .map_err(|_| not_a_wallet("its seed is not 64 hex digits"))?;
        let key = AuthenticatorKey::from_seed(seed).map_err(|error| not_a_wallet(&error.to_string()))?;
        if contents.address != address::text(&key.address()) {
            return Err(not_a_wallet("its address is not the one of its seed"));
        }
        let Contents { gateway, indexer, operator, data, registry, head, issuers, members, .. } = contents;
        let path = path.to_owned();
        Ok(Self { path, key, gateway, indexer, operator, data, registry, head, issuers, members })
    }

    /// Trusts an issuer from now on. The file is replaced by a new one.
    ///
    /// # Errors
    /// [`FileError::LongIssuer`], [`FileError::TooLong`] and [`FileError::Io`]; the wallet and its
    /// file are then as they were.
    pub fn trust_issuer(&mut self, issuer: &str) -> Result<(), FileError> {
        if issuer.len() > MAX_ISSUER {
            return Err(FileError::LongIssuer { length: issuer.len() });
        }
        self.issuers.push(issuer.to_owned());
        self.replace().inspect_err(|_| drop(self.issuers.pop()))
    }

    /// The memberships of groups.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The membership of a group.
    pub fn member(&self, group: &GroupId) -> Option<&Member> {
        self.members.iter().find(|member| member.group == *group)
    }

    /// The secret that a new membership begins with: that of the newest one, so that a person is
    /// the same to an action that takes several groups. `None` for a wallet that is in no group.
    pub fn member_secret(&self) -> Option<MemberSecret> {
        self.members.last().map(|member| member.leaf.secret.clone())
    }

    /// Keeps a membership in place of the one of the same group. The file is durable with it when
    /// this returns.
    ///
    /// # Errors
    /// [`FileError::TooLong`] and [`FileError::Io`]; the wallet and its file are then as they were.
    pub fn put_member(&mut self, member: Member) -> Result<(), FileError> {
        let mut members = self.members.clone();
        match members.iter_mut().find(|kept| kept.group == member.group) {
            Some(kept) => *kept = member,
            None => members.push(member),
        }
        self.replace_members(members)
    }

    /// Forgets a membership.
    ///
    /// # Errors
    /// As [`WalletFile::put_member`].
    pub fn remove_member(&mut self, group: &GroupId) -> Result<(), FileError> {
        let members = self.members.iter().filter(|member| member.group != *group).cloned().collect();
        self.replace_members(members)
    }

    fn replace_members(&mut self, members: Vec<Member>) -> Result<(), FileError> {
        if members == self.members {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.members, members);
        self.replace().inspect_err(|_| self.members = before)
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's folder.
    fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        }
    }

    /// A complete, durable temporary file (mode 600) in the same folder.
    fn write_beside(&self) -> Result<NamedTempFile, FileError> {
        let contents = Contents {
            seed: Zeroizing::new(hex::encode(self.key.seed())),
            address: address::text(&self.key.address()),
            gateway: self.gateway.clone(),
            indexer: self.indexer.clone(),
            operator: self.operator.clone(),
            data: self.data.clone(),
            registry: self.registry,
            head: self.head,
            issuers: self.issuers.clone(),
            members: self.members.clone(),
        };
        // Bounded, because growing the buffer would leave copies of the seed in memory.
        let mut text = Zeroizing::new([0; MAX_LENGTH]);
        let mut unused = text.as_mut_slice();
        let written = serde_json::to_writer_pretty(&mut unused, &contents).map_err(io::Error::from);
        let written = written.and_then(|()| unused.write_all(b"\n"));
        written.map_err(|error| match error.kind() {
            io::ErrorKind::WriteZero => FileError::TooLong { path: self.path.clone() },
            _ => self.io(error),
        })?;
        let unused = unused.len();
        let text = &text[..MAX_LENGTH - unused];
        let mut file = NamedTempFile::new_in(self.folder()).map_err(|error| self.io(error))?;
        file.write_all(text).and_then(|()| file.as_file().sync_all()).map_err(|error| self.io(error))?;
        Ok(file)
    }

    fn io(&self, source: io::Error) -> FileError {
        FileError::Io { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use selfsame_protocol::ledger::{Head, RegistryKey, Tip};

    use super::*;

    fn wallet(folder: &Path) -> WalletFile {
        let key = AuthenticatorKey::from_seed(Zeroizing::new([7; 32])).expect("a key");
        let services = Services {
            gateway: "http://gateway".to_owned(),
            indexer: "http://indexer".to_owned(),
            operator: Some("http://operator".to_owned()),
            data: Some("/data".into()),
        };
        WalletFile::create(&folder.join("wallet.json"), key, services).expect("the wallet is created")
    }

    #[test]
    fn a_wallet_round_trips_through_its_file() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let created = wallet(folder.path());
        let mode = fs::metadata(created.path()).expect("the file has metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let opened = WalletFile::open(created.path()).expect("the wallet is opened");
        assert_eq!(opened.key.address(), created.key.address());
        assert_eq!((opened.gateway.as_str(), opened.indexer.as_str()), ("http://gateway", "http://indexer"));
        assert_eq!(opened.operator.as_deref(), Some("http://operator"));
        assert_eq!(opened.data.as_deref(), Some(Path::new("/data")));
        let mut opened = opened;
        opened.trust_issuer("https://id.example").expect("the file is replaced");
        let opened = WalletFile::open(created.path()).expect("the wallet is opened");
        assert_eq!(opened.issuers, ["https://id.example"]);
        assert_eq!(opened.key.address(), created.key.address());
        let files = fs::read_dir(folder.path()).expect("the folder is listed").count();
        assert_eq!(files, 1, "no temporary file is left");
    }

    #[test]
    fn a_wallet_signs_for_the_registry_of_its_first_connection_only() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let domain =
            |byte| RegistryDomain { chain_id: 480, verifying_contract: alloy_primitives::Address::repeat_byte(byte) };
        let mut created = wallet(folder.path());
        created.pin_registry(domain(1)).expect("the first registry is taken");
        for _ in 0..2 {
            let mut opened = WalletFile::open(created.path()).expect("the wallet is opened");
            opened.pin_registry(domain(1)).expect("the same registry");
            let error = opened.pin_registry(domain(2)).expect_err("another registry");
            assert!(matches!(error, FileError::OtherRegistry { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("0x0202") && text.contains("0x0101"), "{text}");
        }
        let mode = fs::metadata(created.path()).expect("the file has metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("the folder is listed").count(), 1);
    }

    #[test]
    fn a_wallet_knows_the_registry_by_the_key_of_its_first_head() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let head = |seed: u8, height: u64| {
            let domain = RegistryDomain { chain_id: 480, verifying_contract: alloy_primitives::Address::ZERO };
            let mut head = Head::new(domain, &Tip::default());
            head.height = height;
            head.sign(&RegistryKey::from_seed(&[seed; 32]).expect("a key")).expect("signed")
        };
        let mut created = wallet(folder.path());
        assert_eq!(created.head(), None);
        created.keep_head(head(1, 4)).expect("the first key is taken");
        for height in [4, 5] {
            let mut opened = WalletFile::open(created.path()).expect("the wallet is opened");
            opened.keep_head(head(1, height)).expect("the same key");
            let error = opened.keep_head(head(2, height)).expect_err("another key");
            assert!(matches!(error, FileError::OtherRegistryKey { .. }), "{error}");
            let text = error.to_string();
            let keys = [head(1, 0).public_key.to_string(), head(2, 0).public_key.to_string()];
            assert!(keys.iter().all(|key| text.contains(key)), "{text}");
            let opened = WalletFile::open(created.path()).expect("the wallet is opened");
            assert_eq!(opened.head(), Some(&head(1, height)));
        }
        let mode = fs::metadata(created.path()).expect("the file has metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_wallet_that_trusts_many_issuers_can_still_be_opened() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let mut wallet = wallet(folder.path());
        let issuer = |number: u32| format!("https://{number:03}.{}", "i".repeat(MAX_ISSUER - 12));
        assert!(matches!(
            wallet.trust_issuer(&"i".repeat(MAX_ISSUER + 1)),
            Err(FileError::LongIssuer { length }) if length == MAX_ISSUER + 1
        ));
        let refused =
            (0..100).find_map(|number| wallet.trust_issuer(&issuer(number)).err().map(|error| (number, error)));
        let Some((number, FileError::TooLong { .. })) = refused else { panic!("{refused:?}") };
        assert!(number > 50, "{number}");
        let opened = WalletFile::open(wallet.path()).expect("the wallet is opened");
        assert_eq!(opened.issuers, (0..number).map(issuer).collect::<Vec<_>>());
        assert_eq!(opened.issuers, wallet.issuers);
        assert_eq!(fs::read_dir(folder.path()).expect("the folder is listed").count(), 1);
    }

    fn member(group: &str, random: &mut crate::Random<'_>) -> Member {
        let tree = selfsame_protocol::groups::tree::GroupTree::default();
        let group = selfsame_protocol::groups::wire::GroupResponse {
            id: group.parse().expect("an id"),
            name: String::new(),
            group_key: selfsame_protocol::groups::names::GroupKey([1; 32]),
            environment: selfsame_protocol::verification::Environment::Staging,
            legacy_identifier: None,
            version: 0,
            size: 0,
            members: 0,
            root: tree.root(),
            page_roots: Vec::new(),
            rolls: Vec::new(),
        };
        Member::new(&group, "http://wallet", random)
    }

    #[test]
    fn memberships_and_replacements_under_way_are_kept() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let mut created = wallet(folder.path());
        let mut calls = 0;
        let mut random = |bytes: &mut [u8; 32]| {
            calls += 1;
            *bytes = [0xa0 + calls; 32];
        };
        let reopened = || WalletFile::open(&folder.path().join("wallet.json")).expect("the wallet is opened");
        assert_eq!(reopened().member_secret(), None);
        let (mut first, second) = (member("members", &mut random), member("others", &mut random));
        created.put_member(first.clone()).expect("kept");
        created.put_member(second.clone()).expect("kept");
        assert_eq!(reopened().members(), [first.clone(), second.clone()]);
        assert_eq!(reopened().member_secret().as_ref(), Some(&second.leaf.secret));
        first.begin_replacement(crate::member::NextSecret::Same, &mut random).expect("begun");
        created.put_member(first.clone()).expect("kept");
        assert_eq!(reopened().members(), [first.clone(), second.clone()]);
        assert_eq!(reopened().member(&first.group), Some(&first));
        created.remove_member(&first.group).expect("forgotten");
        assert_eq!(reopened().members(), [second]);
        let mode = fs::metadata(created.path()).expect("the file has metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("the folder is listed").count(), 1);
    }

    #[test]
    fn a_wallet_of_many_groups_can_still_be_opened_and_shows_no_secret() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let mut wallet = wallet(folder.path());
        let mut random = |bytes: &mut [u8; 32]| *bytes = [0xab; 32];
        let mut put = |number: u32| wallet.put_member(member(&format!("group{number}"), &mut random)).err();
        let refused = (0..100).find_map(|number| put(number).map(|error| (number, error)));
        let Some((number, FileError::TooLong { .. })) = refused else { panic!("{refused:?}") };
        assert!(number > 20, "{number}");
        let opened = WalletFile::open(wallet.path()).expect("the wallet is opened");
        assert_eq!((opened.members().len() as u32, opened.members()), (number, wallet.members()));
        assert!(!format!("{opened:?}").contains("abab"));
        let text = fs::read_to_string(wallet.path()).expect("the file is read");
        for (change, expected) in [("ab".repeat(16), "ab".repeat(15)), ("ab".repeat(32), "AB".repeat(32))] {
            fs::write(wallet.path(), text.replacen(&change, &expected, 1)).expect("the file is written");
            let message = WalletFile::open(wallet.path()).expect_err("the file is refused").to_string();
            assert!(message.contains("is not what") && !message.contains("abab"), "{message}");
        }
    }

    #[test]
    fn an_existing_file_is_not_overwritten() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let path = folder.path().join("wallet.json");
        fs::write(&path, "precious").expect("the file is written");
        let key = AuthenticatorKey::from_seed(Zeroizing::new([7; 32])).expect("a key");
        assert!(matches!(WalletFile::create(&path, key, Services::default()), Err(FileError::Exists(_))));
        assert_eq!(fs::read_to_string(&path).expect("the file is read"), "precious");
    }

    #[test]
    fn malformed_wallet_files_and_files_that_others_can_read_are_refused() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let path = wallet(folder.path()).path().to_owned();
        let good = fs::read_to_string(&path).expect("the file is read");
        let seed = "07".repeat(32);
        let cases = [
            (String::new(), "line 1"),
            (good.replace("\"seed\"", "\"key\""), "line 2"),
            (good.replace(&format!("\"{seed}\""), "7"), "line 2"),
            (good.replace(&seed, &seed[1..]), "64 hex digits"),
            (good.replace(&seed, &"00".repeat(32)), "not a secp256k1 secret key"),
            (good.replace(&seed, &"08".repeat(32)), "not the one of its seed"),
            (" ".repeat(MAX_LENGTH + 1), "longer"),
        ];
        for (text, expected) in cases {
            fs::write(&path, text).expect("the file is written");
            let message = WalletFile::open(&path).expect_err("the file is refused").to_string();
            assert!(message.contains(expected), "{message:?} should contain {expected:?}");
            assert!(!message.contains("0707"), "{message:?} shows the seed");
        }
        fs::write(&path, good).expect("the file is written");
        for mode in [0o640, 0o604, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("the permissions are set");
            let message = WalletFile::open(&path).expect_err("the file is refused").to_string();
            assert!(message.contains("chmod 600"), "{message}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("the permissions are set");
        assert!(WalletFile::open(&path).is_ok());
        assert!(matches!(WalletFile::open(&folder.path().join("none.json")), Err(FileError::Missing(_))));
        assert!(matches!(WalletFile::open(folder.path()), Err(FileError::NotAWallet { .. })));
    }
}
