//! A disk whose power fails: what was not synced may be gone.
//!
//! Processes run with `power_loss.c`, a small library that keeps a journal of syncs and of changes of names. It says what a disk
//! has to keep. When the power fails, chance decides what else it kept, and the files are made so:
//!
//! - A file is as long as it was when it was last synced, or longer, up to what was written. What is behind the synced length is
//!   as it was written, up to some place (where zeros follow, to the end of a page), and zeros from there on: space that the file
//!   system has made the file's, and nothing was written to.
//! - Of a folder's changes (files made, renamed, removed; folders likewise) since it was last synced, those up to a moment have
//!   happened, as file systems with a journal have it (ext4, XFS). Of these, removals may be missing.
//!
//! A process that dies loses nothing. What it had not synced may be lost later, with what the next process made of it.
//!
//! Not modelled:
//!
//! - Pages of a file that reach the disk in another order than they were written, or in part.
//! - Files that are made and renamed in another order than they were, which POSIX allows: the database relies on it that the list
//!   of files that CURRENT names is there before the new CURRENT is, and syncs their folder once for both.
//! - Files that are written elsewhere than at their end. The store has none.
//! - A disk that says that something is synced which is not; [`Disk::lies_about`] makes one, to test the tests.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::chance::Chance;

/// What a disk writes at a time, at least.
const PAGE: u64 = 4096;

/// A folder that stands for a disk.
pub struct Disk {
    /// Has the disk, the journal, and a second name for every file.
    folder: PathBuf,
    library: PathBuf,
    /// Files whose names end so are not synced, whatever is said.
    pub lies_about: Option<&'static str>,
    /// What was on the disk when the power came: names, and lengths of files.
    names: BTreeMap<PathBuf, Node>,
    lengths: BTreeMap<u64, u64>,
    pub losses: Losses,
}

/// What a name in a folder is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Folder,
    /// Its number.
    File(u64),
}

/// A change of a name.
#[derive(Clone, Debug)]
enum Change {
    Made(PathBuf, Node),
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf),
}

/// What was lost so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    pub times: usize,
    /// Bytes that were written and not there any more, or zeros.
    pub bytes: u64,
    /// Changes of names that had not happened.
    pub names: usize,
}

impl Display for Losses {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { times, bytes, names } = self;
        write!(f, "power failed {times} times and took {bytes} bytes and {names} changes of names")
    }
}

impl Disk {
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
            lies_about: None,
            names: BTreeMap::new(),
            lengths: BTreeMap::new(),
            losses: Losses::default(),
        };
        disk.begin_again();
        disk
    }

    /// The folder that is looked after.
    pub fn path(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// What a process is started with that uses the disk. It may be made to die with a line of its journal.
    pub fn variables(&self, death: Option<usize>) -> Vec<(&'static str, String)> {
        let text = |path: &Path| path.to_str().expect("text").to_owned();
        let mut variables = vec![("LD_PRELOAD", text(&self.library)), ("POWER_LOSS_FOLDER", text(&self.folder))];
        variables.extend(self.lies_about.map(|ending| ("POWER_LOSS_LIES_ABOUT", ending.to_owned())));
        variables.extend(death.map(|line| ("POWER_LOSS_AT", line.to_string())));
        variables
    }

    /// The power fails, and comes again. No process uses the disk meanwhile. Chance decides what is kept that need not be; a disk
    /// that lies keeps nothing of it.
    pub fn lose_power(&mut self, chance: &mut Chance) {
        let mut chance = self.lies_about.is_none().then_some(chance);
        let journal = Journal::read(self);
        let (names, happened) = journal.choose_names(chance.as_deref_mut());
        empty(&self.path(), &names);
        for (path, node) in &names {
            let Node::File(file) = *node else {
                // Its removal did not happen.
                std::fs::create_dir_all(path).expect("a folder");
                continue;
            };
            let kept = self.kept(file);
            if !kept.exists() {
                // Whoever made it was killed before it had a second name: it was never written to.
                File::create(path).expect("made");
                continue;
            }
            std::fs::rename(kept, path).expect("put back");
            let opened = File::options().write(true).open(path).expect("opened");
            let written = opened.metadata().expect("there").len();
            let Kept { length, zeros } = Kept::of(journal.synced[&file].min(written), written, chance.as_deref_mut());
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

    /// What is on the disk is on the disk.
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
                let metadata = path.symlink_metadata().expect("there");
                let node = if metadata.is_dir() { Node::Folder } else { Node::File(metadata.ino()) };
                match node {
                    Node::Folder => folders.push(path.clone()),
                    Node::File(file) => {
                        std::fs::hard_link(&path, self.kept(file)).expect("a second name");
                        self.lengths.insert(file, metadata.len());
                    }
                }
                self.names.insert(path, node);
            }
        }
    }
}

/// Removes everything in a folder but the folders that are named.
fn empty(folder: &Path, names: &BTreeMap<PathBuf, Node>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if !path.is_dir() {
            std::fs::remove_file(path).expect("removed");
        } else if names.get(&path) == Some(&Node::Folder) {
            empty(&path, names);
        } else {
            std::fs::remove_dir_all(path).expect("removed");
        }
    }
}

/// What a disk kept of a file.
struct Kept {
    length: u64,
    /// Bytes behind, for which there is space.
    zeros: u64,
}

impl Kept {
    fn of(synced: u64, written: u64, chance: Option<&mut Chance>) -> Self {
        let least = Self { length: synced, zeros: 0 };
        let more = written - synced;
        let Some(chance) = chance.filter(|_| more > 0) else { return least };
        let some = 1 + chance.below(usize::try_from(more).expect("a small file")) as u64;
        let whole_pages = (synced + some).next_multiple_of(PAGE).min(written);
        match chance.below(7) {
            0..=2 => least,
            3 => Self { length: synced, zeros: some },
            4 => Self { length: synced + some, zeros: 0 },
            5 => Self { length: whole_pages, zeros: written - whole_pages },
            _ => Self { length: written, zeros: 0 },
        }
    }
}

/// What processes have written down.
struct Journal {
    /// The disk's folder.
    root: PathBuf,
    /// The names that the disk has to keep.
    names: BTreeMap<PathBuf, Node>,
    /// Changes of names that it need not, in their order.
    pending: Vec<Change>,
    /// How much of each file it has to keep.
    synced: BTreeMap<u64, u64>,
}

impl Journal {
    fn read(disk: &Disk) -> Self {
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
                self.pending.push(Change::Made(path(name), Node::File(number(file))));
            }
            ["emptied", file] => drop(self.synced.insert(number(file), 0)),
            ["folder", name] => self.pending.push(Change::Made(path(name), Node::Folder)),
            ["renamed", from, to] => self.pending.push(Change::Renamed(path(from), path(to))),
            ["removed", name] => self.pending.push(Change::Removed(path(name))),
            ["bytes", file, length] => {
                // Of two syncs at a time the shorter one may be noted last.
                let synced = self.synced.entry(number(file)).or_default();
                *synced = number(length).max(*synced);
            }
            ["names", folder] => self.keep_names(Path::new(folder)),
            _ => panic!("a line of the journal: {words:?}"),
        }
    }

    /// A folder was synced.
    fn keep_names(&mut self, folder: &Path) {
        let is_in = |change: &mut Change| change.name().parent() == Some(folder);
        let kept: Vec<Change> = self.pending.extract_if(.., is_in).collect();
        for change in kept {
            change.apply(&mut self.names);
        }
    }

    /// The names that the disk kept, and how many changes are in them that it need not have kept.
    fn choose_names(&self, chance: Option<&mut Chance>) -> (BTreeMap<PathBuf, Node>, usize) {
        let (mut names, mut happened) = (self.names.clone(), 0);
        if let Some(chance) = chance {
            let moment = match chance.below(4) {
                0 => 0,
                1 => self.pending.len(),
                _ => chance.below(self.pending.len() + 1),
            };
            let undoes_removals = chance.one_in(2);
            for change in &self.pending[..moment] {
                let is_undone = undoes_removals && matches!(change, Change::Removed(_)) && chance.one_in(2);
                if !is_undone {
                    change.apply(&mut names);
                    happened += 1;
                }
            }
        }
        // A folder that is not there has nothing in it. Folders come before what is in them.
        let mut there = BTreeMap::new();
        for (name, node) in names {
            let folder = name.parent().expect("a folder");
            if folder == self.root || there.get(folder) == Some(&Node::Folder) {
                there.insert(name, node);
            }
        }
        (there, happened)
    }
}

impl Change {
    /// A name that it is about: if there are two, they are of one folder.
    fn name(&self) -> &Path {
        match self {
            Self::Made(name, _) | Self::Removed(name) => name,
            Self::Renamed(from, to) => {
                assert_eq!(from.parent(), to.parent(), "one folder");
                from
            }
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
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
