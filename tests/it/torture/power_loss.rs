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

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
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
    names: NameTree,
    lengths: BTreeMap<u64, u64>,
    pub losses: PowerLosses,
}

/// What a name in a folder refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameTarget {
    /// A number that no other folder has. A folder keeps it, and with it its contents, under
    /// another name.
    Folder(u64),
    /// The number of the file (its inode). A file may have several names.
    File(u64),
}

/// A name in a folder, by the number of the folder.
type NameInFolder = (u64, OsString);

/// The number of the folder that stands for the disk.
const ROOT: u64 = 0;

/// The names of a disk.
#[derive(Clone, Debug, Default)]
struct NameTree(BTreeMap<NameInFolder, NameTarget>);

impl NameTree {
    /// The number of the folder at a path below the root; `None` when there is none.
    fn folder(&self, below: &Path) -> Option<u64> {
        below.iter().try_fold(ROOT, |folder, name| match self.0.get(&(folder, name.to_owned()))? {
            NameTarget::Folder(number) => Some(*number),
            NameTarget::File(_) => None,
        })
    }

    /// The last name of a path below the root, in its folder.
    fn name(&self, below: &Path) -> Option<NameInFolder> {
        Some((self.folder(below.parent()?)?, below.file_name()?.to_owned()))
    }

    /// Everything that is in a folder at this path; folders come before their contents. Names in a
    /// folder that has no name are left out.
    fn add_paths(&self, folder: u64, path: &Path, found: &mut BTreeMap<PathBuf, NameTarget>) {
        let names = self.0.range((folder, OsString::new())..).take_while(|((parent, _), _)| *parent == folder);
        for ((_, name), target) in names {
            let path = path.join(name);
            found.insert(path.clone(), *target);
            if let NameTarget::Folder(number) = target {
                self.add_paths(*number, &path, found);
            }
        }
    }
}

/// A change of a name.
#[derive(Clone, Debug)]
enum NameChange {
    Made(NameInFolder, NameTarget),
    Renamed(NameInFolder, NameInFolder),
    Removed(NameInFolder),
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
            names: NameTree::default(),
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
        let mut cut = BTreeSet::new();
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
            std::fs::hard_link(kept, path).expect("put back");
            if !cut.insert(file) {
                continue;
            }
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

    /// The number of lines in the journal since the power came.
    pub fn journal_lines(&self) -> usize {
        std::fs::read_to_string(self.folder.join("journal")).expect("a journal").lines().count()
    }

    /// Takes the present contents as what is on the disk.
    pub fn begin_again(&mut self) {
        std::fs::remove_dir_all(self.folder.join("kept")).expect("removed");
        std::fs::create_dir(self.folder.join("kept")).expect("a folder");
        File::create(self.folder.join("journal")).expect("an empty journal");
        self.names.0.clear();
        self.lengths.clear();
        let mut folders = vec![(ROOT, self.path())];
        let mut made = ROOT;
        while let Some((number, folder)) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                let metadata = path.symlink_metadata().expect("the file exists");
                let target = if metadata.is_dir() {
                    made += 1;
                    folders.push((made, path.clone()));
                    NameTarget::Folder(made)
                } else {
                    let kept = self.kept(metadata.ino());
                    // A file with two names is found twice.
                    if !kept.exists() {
                        std::fs::hard_link(&path, kept).expect("a second name");
                    }
                    self.lengths.insert(metadata.ino(), metadata.len());
                    NameTarget::File(metadata.ino())
                };
                self.names.0.insert((number, path.file_name().expect("a name").to_owned()), target);
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
        } else if matches!(names.get(&path), Some(NameTarget::Folder(_))) {
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
    /// The names after all changes, by which the lines name files and folders.
    latest: NameTree,
    /// The names that the disk has to keep.
    names: NameTree,
    /// Changes of names that the disk need not keep, in their order.
    pending: Vec<NameChange>,
    /// The length of each file that the disk has to keep.
    synced: BTreeMap<u64, u64>,
    /// The number of the folder that was found or made last.
    folders: u64,
}

impl SyncJournal {
    fn read(disk: &UnreliableDisk) -> Self {
        let (names, synced) = (disk.names.clone(), disk.lengths.clone());
        let number = |target: &NameTarget| if let NameTarget::Folder(number) = target { *number } else { ROOT };
        let folders = names.0.values().map(number).max().unwrap_or(ROOT);
        let mut journal =
            Self { root: disk.path(), latest: names.clone(), names, pending: Vec::new(), synced, folders };
        let text = std::fs::read_to_string(disk.folder.join("journal")).expect("a journal");
        for line in text.lines() {
            journal.take(&line.split('\t').collect::<Vec<_>>());
        }
        journal
    }

    fn take(&mut self, words: &[&str]) {
        let number = |text: &str| text.parse::<u64>().expect("a number");
        // The journal may lack the folder of a name, when a process was killed before its line.
        let change = match *words {
            ["made", file, name] => {
                self.synced.insert(number(file), 0);
                self.name(name).map(|name| NameChange::Made(name, NameTarget::File(number(file))))
            }
            ["linked", file, name] => {
                self.name(name).map(|name| NameChange::Made(name, NameTarget::File(number(file))))
            }
            ["folder", name] => {
                self.folders += 1;
                self.name(name).map(|name| NameChange::Made(name, NameTarget::Folder(self.folders)))
            }
            ["renamed", from, to] => self.name(from).zip(self.name(to)).map(|(from, to)| {
                assert_eq!(from.0, to.0, "one folder");
                NameChange::Renamed(from, to)
            }),
            ["removed", name] => self.name(name).map(NameChange::Removed),
            ["emptied", file] => {
                self.synced.insert(number(file), 0);
                None
            }
            ["bytes", file, length] => {
                // Of two syncs at the same time the shorter one may be written last.
                let synced = self.synced.entry(number(file)).or_default();
                *synced = number(length).max(*synced);
                None
            }
            ["names", folder] => {
                self.keep_names(folder);
                None
            }
            _ => panic!("a line of the journal: {words:?}"),
        };
        if let Some(change) = change {
            change.apply(&mut self.latest);
            self.pending.push(change);
        }
    }

    /// A path on the disk, below its root.
    fn below<'a>(&self, path: &'a str) -> &'a Path {
        Path::new(path).strip_prefix(&self.root).expect("a path on the disk")
    }

    fn name(&self, path: &str) -> Option<NameInFolder> {
        self.latest.name(self.below(path))
    }

    /// Applies the sync of a folder.
    fn keep_names(&mut self, folder: &str) {
        let Some(folder) = self.latest.folder(self.below(folder)) else { return };
        let kept: Vec<NameChange> = self.pending.extract_if(.., |change| change.folder() == folder).collect();
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
        let mut there = BTreeMap::new();
        names.add_paths(ROOT, &self.root, &mut there);
        (there, happened)
    }
}

impl NameChange {
    /// The folder whose sync makes the change durable.
    fn folder(&self) -> u64 {
        match self {
            Self::Made((folder, _), _) | Self::Removed((folder, _)) | Self::Renamed((folder, _), _) => *folder,
        }
    }

    fn apply(&self, names: &mut NameTree) {
        match self {
            Self::Made(name, target) => drop(names.0.insert(name.clone(), *target)),
            Self::Removed(name) => drop(names.0.remove(name)),
            Self::Renamed(from, to) => {
                if let Some(target) = names.0.remove(from) {
                    names.0.insert(to.clone(), target);
                }
            }
        }
    }
}
