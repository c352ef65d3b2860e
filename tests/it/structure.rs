//! The house plan, checked from the sources. `docs/architecture.md` says it in words.
//!
//! | chapter | what it checks |
//! |---|---|
//! | this file | which crate may use which; how long files are |
//! | `rooms.rs` | inside a crate, a folder uses only folders below it |
//! | `rights.rs` | a right to change the registry is in its actor's hands only |
//! | `imports.rs` | reads which file uses which; its tests are in `rooms.rs` |
//! | `texts.rs` | comments, and what documents and tests name |

mod imports;
mod rights;
mod rooms;
mod texts;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A crate of the product.
struct ProductCrate {
    /// Its folder in the workspace.
    folder: &'static str,
    name: &'static str,
    /// The crates of the workspace that it uses: only ones before it in [`CRATES`].
    uses: &'static [&'static str],
    /// Libraries that it does not name, not even through another crate.
    refused: &'static [&'static str],
}

/// The crates, each after those that it uses.
const CRATES: [ProductCrate; 8] = [
    ProductCrate {
        folder: "protocol/lanes",
        name: "selfsame-lanes",
        uses: &[],
        refused: &["rocksdb", "ractor", "tokio", "hyper"],
    },
    ProductCrate {
        folder: "protocol",
        name: "selfsame-protocol",
        uses: &["selfsame-lanes"],
        refused: &["rocksdb", "ractor", "tokio", "hyper"],
    },
    ProductCrate {
        folder: "wallet",
        name: "selfsame-wallet",
        uses: &["selfsame-protocol"],
        refused: &["rocksdb", "ractor"],
    },
    ProductCrate {
        folder: "storage",
        name: "selfsame-storage",
        uses: &["selfsame-protocol"],
        refused: &["ractor", "hyper"],
    },
    ProductCrate {
        folder: "actors",
        name: "selfsame-actors",
        uses: &["selfsame-protocol", "selfsame-storage"],
        refused: &["rocksdb", "hyper"],
    },
    ProductCrate {
        folder: "interfaces",
        name: "selfsame-interfaces",
        uses: &["selfsame-protocol", "selfsame-storage", "selfsame-actors"],
        refused: &["rocksdb", "ractor", "etcd_client", "tonic", "clap", "toml"],
    },
    ProductCrate {
        folder: "cluster",
        name: "selfsame-cluster",
        uses: &["selfsame-protocol", "selfsame-storage", "selfsame-actors"],
        refused: &["rocksdb", "ractor", "hyper"],
    },
    ProductCrate {
        folder: ".",
        name: "selfsame",
        uses: &[
            "selfsame-protocol",
            "selfsame-storage",
            "selfsame-actors",
            "selfsame-interfaces",
            "selfsame-cluster",
            "selfsame-wallet",
        ],
        refused: &["rocksdb", "ractor", "etcd_client"],
    },
];

/// The most lines of a file. A file is a chapter on one subject; one that is longer has two.
const FILE_LINES: usize = 700;

/// The files that are longer, each with the reason.
const LONG_FILES: [(&str, &str); 0] = [];

/// The least mean of the lines of all files. It only grows: with many small files a reader opens
/// many of them to follow one request. What only one file needs belongs into that file.
const MEAN_FILE_LINES: usize = 245;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a folder with this extension, in order.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            let is_built = ["node_modules", "target"].iter().any(|name| path.ends_with(name));
            found.extend(if is_built { Vec::new() } else { files(&path, extension) });
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The product sources of a crate, without files of unit tests: each file with its module's path.
fn sources(product_crate: &ProductCrate) -> Vec<(PathBuf, imports::Path)> {
    let folder = root().join(product_crate.folder).join("src");
    let mut sources = Vec::new();
    for file in files(&folder, "rs") {
        let relative = file.strip_prefix(&folder).expect("below the folder").with_extension("");
        let mut path: Vec<String> =
            relative.iter().map(|part| part.to_str().expect("a module's name").to_owned()).collect();
        let is_test = path.iter().any(|part| ["tests", "published_types"].contains(&part.as_str()));
        if is_test || path == ["main"] {
            continue;
        }
        if ["mod", "lib"].contains(&path.last().expect("a name").as_str()) {
            path.pop();
        }
        sources.push((file, path));
    }
    sources
}

/// The texts of a crate's product sources by their module's path.
fn crate_files(product_crate: &ProductCrate) -> BTreeMap<imports::Path, String> {
    let read = |(file, path)| (path, fs::read_to_string::<PathBuf>(file).expect("a source"));
    sources(product_crate).into_iter().map(read).collect()
}

/// The crates of the workspace that a manifest depends on, but for its tests.
fn own_dependencies(manifest: &str) -> Vec<&str> {
    let mut is_used = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_used = line.ends_with("dependencies]") && !line.contains("dev-") && !line.contains("workspace");
        } else if is_used && line.starts_with("selfsame") {
            found.extend(line.split(['.', ' ', '=']).next());
        }
    }
    found
}

#[test]
fn crates_depend_only_on_those_below_them() {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("a manifest");
    let members = workspace.lines().find_map(|line| line.strip_prefix("members = ")).expect("the members");
    for member in members.split('"').skip(1).step_by(2).filter(|member| !member.starts_with("tests/")) {
        assert!(CRATES.iter().any(|known| known.folder == member), "enter {member} in CRATES and ROOMS");
    }
    for (index, product_crate) in CRATES.iter().enumerate() {
        let ProductCrate { folder, name, uses, .. } = product_crate;
        let lower: Vec<&str> = CRATES[..index].iter().map(|lower| lower.name).collect();
        assert!(uses.iter().all(|used| lower.contains(used)), "{name} uses {uses:?}, and only {lower:?} is below it");
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("a manifest");
        assert!(manifest.contains(&format!("\nname = \"{name}\"\n")), "{folder} is not {name}");
        let mut dependencies = own_dependencies(&manifest);
        dependencies.sort_unstable();
        let mut listed = uses.to_vec();
        listed.sort_unstable();
        assert_eq!(dependencies, listed, "{name} depends on the first ones, and CRATES lists the others");
    }
}

#[test]
fn a_manifests_dependencies_on_own_crates_are_found() {
    let manifest = "[workspace.dependencies]\nselfsame-a = 1\n[package]\nselfsame-b = 1\n[dependencies]\n\
                    selfsame-c.workspace = true\nserde = 1\n[dev-dependencies]\nselfsame-d = 1\n\
                    [target.'cfg(unix)'.dependencies]\nselfsame-e = 1\n[build-dependencies]\nselfsame-f = 1\n";
    assert_eq!(own_dependencies(manifest), ["selfsame-c", "selfsame-e", "selfsame-f"]);
}

/// A crate may hand on what it depends on, so a manifest does not tell everything.
#[test]
fn crates_name_only_what_is_below_them() {
    for product_crate in CRATES {
        let own = CRATES.iter().map(|other| other.name).filter(|other| *other != "selfsame");
        let refused = own.filter(|other| *other != product_crate.name && !product_crate.uses.contains(other));
        let refused = refused.chain(product_crate.refused.iter().copied()).map(|name| name.replace('-', "_"));
        for name in refused {
            for (module, text) in crate_files(&product_crate) {
                let module = module.join("/");
                assert!(!imports::names_crate(&text, &name), "{}: {module} names {name}", product_crate.name);
            }
        }
    }
}

#[test]
fn a_named_crate_is_found() {
    let named = ["use rocksdb::DB;", "pub use rocksdb;", "fn f() { ::rocksdb::open() }", "use storage::rocksdb::DB;"];
    assert!(named.iter().all(|text| imports::names_crate(text, "rocksdb")));
    let unnamed =
        ["// rocksdb::DB", "use rocksdb_sys::DB;", "let text = \"a rocksdb::DB\";", "let rocksdb = rocksdb();"];
    assert!(unnamed.iter().all(|text| !imports::names_crate(text, "rocksdb")));
}

/// What is wrong with the lengths of files, each given by its path.
fn misjudged_lengths(lengths: &BTreeMap<String, usize>, long: &[(&str, &str)], least_mean: usize) -> Vec<String> {
    let is_listed = |file: &str| long.iter().any(|(listed, _)| *listed == file);
    let too_long = lengths.iter().filter(|(file, lines)| **lines > FILE_LINES && !is_listed(file));
    let mut found: Vec<String> = too_long
        .map(|(file, lines)| {
            format!("{file} has {lines} lines, more than {FILE_LINES}: cut it where the subject changes")
        })
        .collect();
    let is_stale = |file: &str| lengths.get(file).is_none_or(|lines| *lines <= FILE_LINES);
    let stale = long.iter().filter(|(file, _)| is_stale(file));
    found.extend(
        stale.map(|(file, _)| format!("{file} is not longer than {FILE_LINES} lines: strike it from LONG_FILES")),
    );
    let mean = lengths.values().sum::<usize>() / lengths.len();
    if mean < least_mean {
        found.push(format!(
            "files have {mean} lines in the mean, less than {least_mean}: put what one file alone needs into that file"
        ));
    }
    found
}

/// Unit tests at the end of a file are not counted.
#[test]
fn files_are_chapters() {
    let mut lengths = BTreeMap::new();
    for (file, _) in CRATES.iter().flat_map(sources) {
        let text = fs::read_to_string(&file).expect("a source");
        let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().trim_end();
        let path = file.strip_prefix(root()).expect("below the root").to_str().expect("text").to_owned();
        lengths.insert(path.trim_start_matches("./").to_owned(), product.lines().count());
    }
    assert_eq!(misjudged_lengths(&lengths, &LONG_FILES, MEAN_FILE_LINES), Vec::<String>::new());
    assert!(LONG_FILES.is_sorted() && LONG_FILES.iter().all(|(_, reason)| reason.len() > 10));
}

#[test]
fn files_of_a_wrong_length_are_found() {
    let lengths = |list: &[(&str, usize)]| list.iter().map(|(file, lines)| ((*file).to_owned(), *lines)).collect();
    let listed = [("a.rs", "a reason")];
    assert_eq!(misjudged_lengths(&lengths(&[("a.rs", 701), ("b.rs", 700)]), &listed, 700), [""; 0]);
    assert_eq!(
        misjudged_lengths(&lengths(&[("a.rs", 701), ("b.rs", 701)]), &listed, 0),
        ["b.rs has 701 lines, more than 700: cut it where the subject changes"]
    );
    let stale = ["a.rs is not longer than 700 lines: strike it from LONG_FILES"];
    assert_eq!(misjudged_lengths(&lengths(&[("a.rs", 700)]), &listed, 0), stale);
    assert_eq!(misjudged_lengths(&lengths(&[("b.rs", 700)]), &listed, 0), stale);
    let small = misjudged_lengths(&lengths(&[("b.rs", 100), ("c.rs", 200)]), &[], 151);
    assert_eq!(
        small,
        ["files have 150 lines in the mean, less than 151: put what one file alone needs into that file"]
    );
}
