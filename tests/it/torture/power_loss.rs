//! A disk whose power fails: what was not synced may be lost.
//!
//! Processes run with `power_loss.c`, a small library that keeps a journal of syncs and of changes
//! of names, which is what a disk has to keep. When the power fails, random choices decide what
//! else the disk kept, and the files are changed accordingly:
//!
//! - A file has the length of its last sync, or more, up to what was written. The bytes behind the
//!   synced length are as they were written up to some position (followed by zeros to the end of a
//!   page), and zeros from there on: space that the file system allocated and did not write.
//! - Of the changes of a folder (files and folders made, renamed, removed) since its last sync,
//!   those up to some moment have happened, as on file systems with a journal (ext4, XFS). Of
//!   these, removals may be missing.
//!
//! The death of a process loses nothing. What it had not synced may be lost later, together with
//! the changes of the next process.
//!
//! Not modelled:
//!
//! - Pages of a file that reach the disk in another order than they were written, or in part.
//! - Makes and renames of files that reach the disk in another order, which POSIX allows: RocksDB
//!   relies on the order when it makes a list of files before it makes CURRENT name it, and syncs
//!   their folder once for both.
//! - Writes at other positions than the end of a file. The store has none.
//! - A disk that reports a sync without doing it, except [`UnreliableDisk::unsynced_ending`], which
//!   tests the tests.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::choices::CrashChoices;

/// The smallest unit that a disk writes, in bytes.
const PAGE: u64 = 4096;

/// A folder that stands for a disk.
pub struct UnreliableDisk {
    /// The folder that contains the disk, the journal, and a second name for every file.
    folder: PathBuf,
    library: PathBuf,
    /// Files with this ending are not synced, although the call reports success.
    pub unsynced_ending: Option<&'static str>,
    /// The contents of the disk when the power came: names, and lengths of files.
    names: BTreeMap<PathBuf, NameTarget>,
    lengths: BTreeMap<u64, u64>,
    pub losses: PowerLosses,
}

/// What a name in a folder refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameTarget {
    Folder,
    /// The number of the file (its inode).
    File(u64),
}

/// A change of a name.
#[derive(Clone, Debug)]
enum NameChange {
    Made(PathBuf, NameTarget),
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf),
}

/// What was lost so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct PowerLosses {
    pub times: usize,
    /// Bytes that were written and lost or replaced by zeros.
    pub bytes: u64,
    /// Changes of names that did not reach the disk.
    pub names: usize,
}

impl Display for PowerLosses {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { times, bytes, names } = self;
        write!(f, "power failed {times} times and took {bytes} bytes and {names} changes of names")
    }
}

impl UnreliableDisk {
    pub fn new(folder: &Path) -> Self {
        let folder = folder.canonicalize().expect("a folder");
        for name in ["disk", "kept"] {
            std::fs::create_dir(folder.join(name)).expect("a folder");
        }
        let library = folder.join("power_loss.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/torture/power_loss.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]);
        assert!(compiler.status().expect("a C compiler, as RocksDB needs one").success(), "{compiler:?}");
        let mut disk = Self {
            folder,
            library,
            unsynced_ending: None,
            names: BTreeMap::new(),
            lengths: BTreeMap::new(),
            losses: PowerLosses::default(),
        };
        disk.begin_again();
        disk
    }

    /// The folder that stands for the disk.
    pub fn path(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// The variables for a process that uses the disk. With `death` it dies at that line of its
    /// journal.
    pub fn variables(&self, death: Option<usize>) -> Vec<(&'static str, String)> {
        let text = |path: &Path| path.to_str().expect("text").to_owned();
        let mut variables = vec![("LD_PRELOAD", text(&self.library)), ("POWER_LOSS_FOLDER", text(&self.folder))];
        variables.extend(self.unsynced_ending.map(|ending| ("POWER_LOSS_UNSYNCED_ENDING", ending.to_owned())));
        variables.extend(death.map(|line| ("POWER_LOSS_AT", line.to_string())));
        variables
    }

    /// The power fails and returns. No process uses the disk meanwhile. The choices decide what is
    /// kept of the data that were not synced; a disk that ignores syncs keeps nothing of them.
    pub fn lose_power(&mut self, choices: &mut CrashChoices) {
        let mut choices = self.unsynced_ending.is_none().then_some(choices);
        let journal = SyncJournal::read(self);
        let (names, happened) = journal.choose_names(choices.as_deref_mut());
        empty(&self.path(), &names);
        for (path, node) in &names {
            let NameTarget::File(file) = *node else {
                // The removal of the folder did not reach the disk.
                std::fs::create_dir_all(path).expect("a folder");
                continue;
            };
            let kept = self.kept(file);
            if !kept.exists() {
                // The process was killed before the file had a second name: it was never written
                // to.
                File::create(path).expect("made");
                continue;
            }
            std::fs::rename(kept, path).expect("put back");
            let opened = File::options().write(true).open(path).expect("opened");
            let written = opened.metadata().expect("the file exists").len();
            let SurvivingData { length, zeros } =
                SurvivingData::of(journal.synced[&file].min(written), written, choices.as_deref_mut());
            opened.set_len(length).and_then(|()| opened.set_len(length + zeros)).expect("cut");
            self.losses.bytes += written - length;
        }
        self.losses.times += 1;
        self.losses.names += journal.pending.len() - happened;
        self.begin_again();
    }

    fn kept(&self, file: u64) -> PathBuf {
        self.folder.join("kept").join(file.to_string())
    }

    /// Takes the present contents as what is on the disk.
    fn begin_again(&mut self) {
        std::fs::remove_dir_all(self.folder.join("kept")).expect("removed");
        std::fs::create_dir(self.folder.join("kept")).expect("a folder");
        File::create(self.folder.join("journal")).expect("an empty journal");
        self.names.clear();
        self.lengths.clear();
        let mut folders = vec![self.path()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                let metadata = path.symlink_metadata().expect("the file exists");
                let node = if metadata.is_dir() { NameTarget::Folder } else { NameTarget::File(metadata.ino()) };
                match node {
                    NameTarget::Folder => folders.push(path.clone()),
                    NameTarget::File(file) => {
                        std::fs::hard_link(&path, self.kept(file)).expect("a second name");
                        self.lengths.insert(file, metadata.len());
                    }
                }
                self.names.insert(path, node);
            }
        }
    }
}

/// Removes everything in a folder except the named folders.
fn empty(folder: &Path, names: &BTreeMap<PathBuf, NameTarget>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if !path.is_dir() {
            std::fs::remove_file(path).expect("removed");
        } else if names.get(&path) == Some(&NameTarget::Folder) {
            empty(&path, names);
        } else {
            std::fs::remove_dir_all(path).expect("removed");
        }
    }
}

/// What a disk kept of a file.
struct SurvivingData {
    length: u64,
    /// Zeros behind the written bytes, for which space was allocated.
    zeros: u64,
}

impl SurvivingData {
    fn of(synced: u64, written: u64, choices: Option<&mut CrashChoices>) -> Self {
        let least = Self { length: synced, zeros: 0 };
        let more = written - synced;
        let Some(choices) = choices.filter(|_| more > 0) else { return least };
        let some = 1 + choices.below(usize::try_from(more).expect("a small file")) as u64;
        let whole_pages = (synced + some).next_multiple_of(PAGE).min(written);
        match choices.below(7) {
            0..=2 => least,
            3 => Self { length: synced, zeros: some },
            4 => Self { length: synced + some, zeros: 0 },
            5 => Self { length: whole_pages, zeros: written - whole_pages },
            _ => Self { length: written, zeros: 0 },
        }
    }
}

/// The journal that the processes have written.
struct SyncJournal {
    /// The folder that stands for the disk.
    root: PathBuf,
    /// The names that the disk has to keep.
    names: BTreeMap<PathBuf, NameTarget>,
    /// Changes of names that the disk need not keep, in their order.
    pending: Vec<NameChange>,
    /// The length of each file that the disk has to keep.
    synced: BTreeMap<u64, u64>,
}

impl SyncJournal {
    fn read(disk: &UnreliableDisk) -> Self {
        let (names, synced) = (disk.names.clone(), disk.lengths.clone());
        let mut journal = Self { root: disk.path(), names, pending: Vec::new(), synced };
        let text = std::fs::read_to_string(disk.folder.join("journal")).expect("a journal");
        for line in text.lines() {
            journal.take(&line.split('\t').collect::<Vec<_>>());
        }
        journal
    }

    fn take(&mut self, words: &[&str]) {
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let path = |text: &str| PathBuf::from(text);
        match *words {
            ["made", file, name] => {
                self.synced.insert(number(file), 0);
                self.pending.push(NameChange::Made(path(name), NameTarget::File(number(file))));
            }
            ["emptied", file] => drop(self.synced.insert(number(file), 0)),
            ["folder", name] => self.pending.push(NameChange::Made(path(name), NameTarget::Folder)),
            ["renamed", from, to] => self.pending.push(NameChange::Renamed(path(from), path(to))),
            ["removed", name] => self.pending.push(NameChange::Removed(path(name))),
            ["bytes", file, length] => {
                // Of two syncs at the same time the shorter one may be written last.
                let synced = self.synced.entry(number(file)).or_default();
                *synced = number(length).max(*synced);
            }
            ["names", folder] => self.keep_names(Path::new(folder)),
            _ => panic!("a line of the journal: {words:?}"),
        }
    }

    /// Applies the sync of a folder.
    fn keep_names(&mut self, folder: &Path) {
        let is_in = |change: &mut NameChange| change.name().parent() == Some(folder);
        let kept: Vec<NameChange> = self.pending.extract_if(.., is_in).collect();
        for change in kept {
            change.apply(&mut self.names);
        }
    }

    /// The names that the disk kept, and the number of changes that it lost.
    fn choose_names(&self, choices: Option<&mut CrashChoices>) -> (BTreeMap<PathBuf, NameTarget>, usize) {
        let (mut names, mut happened) = (self.names.clone(), 0);
        if let Some(choices) = choices {
            let moment = match choices.below(4) {
                0 => 0,
                1 => self.pending.len(),
                _ => choices.below(self.pending.len() + 1),
            };
            let undoes_removals = choices.one_in(2);
            for change in &self.pending[..moment] {
                let is_undone = undoes_removals && matches!(change, NameChange::Removed(_)) && choices.one_in(2);
                if !is_undone {
                    change.apply(&mut names);
                    happened += 1;
                }
            }
        }
        // Names in a folder that does not exist are dropped. Folders come before their contents.
        let mut there = BTreeMap::new();
        for (name, node) in names {
            let folder = name.parent().expect("a folder");
            if folder == self.root || there.get(folder) == Some(&NameTarget::Folder) {
                there.insert(name, node);
            }
        }
        (there, happened)
    }
}

impl NameChange {
    /// A name that the change is about: if there are two, they are in one folder.
    fn name(&self) -> &Path {
        match self {
            Self::Made(name, _) | Self::Removed(name) => name,
            Self::Renamed(from, to) => {
                assert_eq!(from.parent(), to.parent(), "one folder");
                from
            }
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, NameTarget>) {
        match self {
            Self::Made(name, node) => drop(names.insert(name.clone(), *node)),
            Self::Removed(name) => drop(names.remove(name)),
            Self::Renamed(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
        }
    }
}
