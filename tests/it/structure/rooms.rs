//! The rooms of each crate, and the rule about them: a room uses only rooms on lower floors. So
//! between rooms there is no arrow upwards and no circle.
//!
//! A room is a folder directly in a crate's `src/` (a *wing*) with everything below it, or a file
//! that stands there alone. `database.rs` and `database/` are one room. A folder further down
//! belongs to its wing, unless [`ROOMS`] lists it as a room of its own.
//! The files of one room may use each other as they like.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{Arrow, Imports, Path};
use super::{CRATES, crate_files};

/// The rooms of a crate, from the lowest floor to the highest. Rooms on one floor do not use each
/// other.
type Floors<'a> = &'a [&'a [&'a str]];

/// The floors of each crate of [`CRATES`], in the same order.
const ROOMS: [(&str, Floors<'_>); 8] = [
    ("protocol/lanes", &[&["modulus"], &["words"], &["avx512", "elements"]]),
    (
        "protocol",
        &[
            &["address", "client_secret", "encoding", "json", "net", "signature"],
            &["ids", "number", "rate_limit"],
            &["groth16", "shares", "time", "trace_context", "tree"],
            &["commitment", "groups/names", "operator_call"],
            &["registry", "verification"],
            &["groups"],
            &["bridge", "chain", "eip712", "indexer"],
            &["sign_in"],
            &["ledger"],
            &["gateway", "trace"],
            &["events"],
            &["operator"],
        ],
    ),
    (
        "wallet",
        &[
            &["client", "keys"],
            &["operations", "person", "sign_in"],
            &["bundle", "prove"],
            &["guard", "member", "operator"],
            &["file", "groups"],
            &["account", "bridge"],
            &["head"],
            &["command"],
        ],
    ),
    (
        "storage",
        &[
            &["sync"],
            &["schema", "journal"],
            &["error", "histogram"],
            &["faults", "log_check", "metrics", "progress", "reached", "recent", "resources", "scratch"],
            &["database"],
            &["facts", "sealed_head", "upper_pages"],
            &["migration"],
            &["store"],
            &["applied_blocks", "backup", "healing", "snapshot"],
            &["replica"],
            &["group_commit"],
            &["ledger"],
            &["groups", "records", "requests"],
            &["fsck", "rebuild"],
        ],
    ),
    (
        "actors",
        &[
            &["sync", "faults"],
            &["clock"],
            &["support"],
            &["bridge", "key_cipher", "chain"],
            &["registry"],
            &["events"],
            &["groups"],
            &["verification"],
            &["sign_in"],
            &["supervision"],
            &["simulation"],
        ],
    ),
    (
        "interfaces",
        &[
            &["interface", "pem", "trace_context"],
            &["http"],
            &["event_streams", "openapi", "web_wallet"],
            &["bridge", "gateway", "indexer", "operator", "sign_in", "verification", "wallet"],
            &["mounting"],
        ],
    ),
    ("cluster", &[&["etcd"], &["election", "journal"], &["membership"], &["registration"]]),
    (
        ".",
        &[
            &["chain", "data_files", "logging", "progress"],
            &["process"],
            &["config"],
            &["backup", "integrity", "setup", "traces", "webhooks"],
            &["cluster"],
            &["chains", "operator_client"],
            &["prepared", "reloading"],
            &["servers"],
            &["daemon", "cli"],
            &["commands"],
        ],
    ),
];

/// The room of a file: the longest listed folder or file that it is in; none if none is listed.
fn room<'a>(floors: Floors<'a>, file: &[String]) -> Option<(usize, &'a str)> {
    let floor_of = |room: &str| {
        let floor = floors.iter().position(|rooms| rooms.contains(&room))?;
        Some((floor, *floors[floor].iter().find(|listed| **listed == room)?))
    };
    (1..=file.len()).rev().find_map(|length| floor_of(&file[..length].join("/")))
}

/// What breaks the rule about rooms, a line for each pair of rooms, and each file without a room.
fn misplaced(floors: Floors<'_>, imports: &Imports) -> Vec<String> {
    let homeless = imports.files().filter(|file| !file.is_empty() && room(floors, file).is_none());
    let mut found: Vec<String> =
        homeless.map(|file| format!("{} has no room: enter one in ROOMS", file.join("/"))).collect();
    // The first arrow from one room to another.
    let mut between: BTreeMap<(&str, &str), (bool, Arrow)> = BTreeMap::new();
    for arrow in imports.arrows() {
        if let (Some((own_floor, own)), Some((floor, other))) = (room(floors, &arrow.from), room(floors, &arrow.to))
            && own != other
        {
            between.entry((own, other)).or_insert((floor < own_floor, arrow));
        }
    }
    let leads_to = |from: &str, to: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(room) = open.pop() {
            if seen.insert(room) {
                open.extend(between.keys().filter(|(own, _)| *own == room).map(|(_, other)| *other));
            }
        }
        seen.contains(to)
    };
    for ((own, other), (is_lower, arrow)) in &between {
        if !is_lower {
            let Arrow { from, to, named } = arrow;
            let circle = if leads_to(other, own) { ", and back in a circle" } else { "" };
            let (from, to) = (from.join("/"), to.join("/"));
            found.push(format!("`{own}` uses `{other}`, which is not below it{circle}: {from} names {named} of {to}"));
        }
    }
    found
}

/// The listed rooms in which there is no file.
fn stale<'a>(floors: Floors<'a>, imports: &Imports) -> Vec<&'a str> {
    let used: BTreeSet<&str> = imports.files().filter_map(|file| room(floors, file)).map(|(_, room)| room).collect();
    floors.iter().copied().flatten().copied().filter(|listed| !used.contains(listed)).collect()
}

#[test]
fn rooms_use_only_rooms_below_them() {
    for ((name, floors), product_crate) in ROOMS.into_iter().zip(CRATES) {
        assert_eq!(name, product_crate.folder);
        let imports = Imports::read(&crate_files(&product_crate));
        let (arrows, files) = (imports.arrows().len(), imports.files().count());
        assert!(arrows >= files, "{name}: only {arrows} uses of other files were found in {files} files");
        assert_eq!(misplaced(floors, &imports), Vec::<String>::new(), "crate {name}");
    }
}

#[test]
fn listed_rooms_exist() {
    for ((name, floors), product_crate) in ROOMS.into_iter().zip(CRATES) {
        let imports = Imports::read(&crate_files(&product_crate));
        assert_eq!(stale(floors, &imports), [""; 0], "crate {name}: ROOMS lists rooms that do not exist");
    }
}

/// A crate of these files, each given by its path from `src/` without `.rs`.
fn planted(files: &[(&str, &str)]) -> BTreeMap<Path, String> {
    let path = |name: &str| name.split('/').filter(|part| !["lib", "mod"].contains(part)).map(str::to_owned).collect();
    let root = ("lib", "");
    [root].iter().chain(files).map(|(name, text)| (path(name), (*text).to_owned())).collect()
}

/// What breaks the rule in a planted crate.
fn misplaced_in(floors: Floors<'_>, files: &[(&str, &str)]) -> Vec<String> {
    misplaced(floors, &Imports::read(&planted(files)))
}

#[test]
fn a_circle_between_folders_is_found() {
    let found = misplaced_in(
        &[&["low"], &["high"]],
        &[
            ("low/mod", "mod part;"),
            ("low/part", "use crate::high::end::Top;\npub struct Bottom;"),
            ("high/mod", "pub mod end;"),
            ("high/end", "pub struct Top(crate::low::part::Bottom);"),
        ],
    );
    let circle = "`low` uses `high`, which is not below it, and back in a circle: \
                  low/part names crate::high::end::Top of high/end";
    assert_eq!(found, [circle]);
}

#[test]
fn a_circle_inside_a_folder_is_none() {
    let files = [
        ("fsck/mod", "pub use report::Report;"),
        ("fsck/report", "use super::reading::Merge;\npub struct Report(Merge);"),
        ("fsck/reading", "use super::Report;\npub struct Merge(Box<Report>);"),
    ];
    assert_eq!(misplaced_in(&[&["fsck"]], &files), [""; 0]);
    // It is one when the folder's parts are rooms of their own.
    let found = misplaced_in(&[&["fsck"], &["fsck/report"], &["fsck/reading"]], &files);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().all(|line| line.contains("in a circle") || line.starts_with("`fsck` uses")), "{found:#?}");
}

#[test]
fn an_arrow_upwards_and_one_along_a_floor_are_found() {
    let files = [
        ("lib", "mod a; mod b; mod c;"),
        ("a", "fn a() { crate::b::b(); }"),
        ("b", "pub fn b() {}"),
        ("c", "use super::b;\nfn c() { b::b(); }"),
    ];
    let upward = "`a` uses `b`, which is not below it: a names crate::b::b of b";
    assert_eq!(misplaced_in(&[&["a"], &["b"], &["c"]], &files), [upward]);
    let level = "`c` uses `b`, which is not below it: c names b::b of b";
    assert_eq!(misplaced_in(&[&["b", "c"], &["a"]], &files), [level]);
    assert_eq!(misplaced_in(&[&["b"], &["a", "c"]], &files), [""; 0]);
}

/// A function that the crate re-exports beside the module of the same name does not hide the paths
/// through the module.
#[test]
fn a_function_with_a_modules_name_does_not_hide_the_module() {
    let found = misplaced_in(
        &[&["report"], &["fsck"]],
        &[
            ("lib", "mod fsck; mod report; pub use fsck::{FsckReport, fsck};"),
            ("fsck", "pub mod reading;\npub struct FsckReport;\npub fn fsck(_: crate::report::Findings) {}"),
            ("fsck/reading", "pub struct Merge;"),
            ("report", "use crate::fsck::reading::Merge;\npub struct Findings(Merge);"),
        ],
    );
    let circle = "`report` uses `fsck`, which is not below it, and back in a circle: \
                  report names crate::fsck::reading::Merge of fsck/reading";
    assert_eq!(found, [circle]);
    // The module counts also when a `use` ends with it.
    let found = misplaced_in(
        &[&["report"], &["fsck"]],
        &[
            ("lib", "mod fsck; mod report; pub use report::fsck;"),
            ("fsck", "pub fn check() {}"),
            ("report", "use crate::fsck;\npub fn fsck() {}"),
        ],
    );
    assert_eq!(found, ["`report` uses `fsck`, which is not below it: report names crate::fsck of fsck"]);
}

/// The file that defines a name is found through all `use` declarations that hand it on.
#[test]
fn a_name_is_followed_to_the_file_that_defines_it() {
    let steps = [
        ("lib", "mod high; mod hall; mod low;\npub use hall::Thing;"),
        ("high/mod", "mod made;\npub(crate) use made::Made as Thing;\nuse made::hidden;\npub use made::glob::*;"),
        ("high/made", "pub struct Made; pub fn hidden() {}\npub mod glob { pub fn spread() {} }"),
        ("hall", "pub use crate::high::{Thing, self as upstairs};"),
    ];
    let uses = [
        "fn f(_: crate::Thing) {}",
        "use crate::hall::Thing as Other;",
        "fn f() { crate::hall::Thing::default(); }",
        "use crate::{hall::{self, Thing}};",
        "fn f() { use super::hall; hall::upstairs::spread(); }",
        "#[serde(with = \"crate::high::hidden\")] struct S;",
    ];
    for text in uses {
        let files = [&steps[..], &[("low", text)]].concat();
        let arrows = Imports::read(&planted(&files)).arrows();
        let has = arrows.iter().any(|arrow| arrow.from == ["low"] && arrow.to == ["high", "made"]);
        assert!(has, "{text}: {arrows:#?}");
    }
    let silent = [
        "// crate::high::Thing",
        "fn f() { \"say crate::high::Thing\"; '\"'; r#\"say crate::high::Thing\"#; }",
        "#[cfg(test)]\nmod tests { use crate::high::Thing; }",
        "#[cfg(test)] use crate::high::Thing;",
        "use high::Thing; fn f() { high::Thing::default(); }",
    ];
    for text in silent {
        let files = [&steps[..], &[("low", text)]].concat();
        let arrows = Imports::read(&planted(&files)).arrows();
        assert!(arrows.iter().all(|arrow| arrow.from != ["low"]), "{text}: {arrows:#?}");
    }
}

#[test]
fn files_without_a_room_and_rooms_without_a_file_are_found() {
    let files = [("a", ""), ("b/mod", ""), ("b/c", "")];
    assert_eq!(
        misplaced_in(&[&["a"]], &files),
        ["b has no room: enter one in ROOMS", "b/c has no room: enter one in ROOMS"]
    );
    let imports = Imports::read(&planted(&files));
    assert_eq!(stale(&[&["a"], &["b", "b/c"], &["d"], &["b/e"]], &imports), ["d", "b/e"]);
}
