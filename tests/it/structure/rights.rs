//! The rights of the registry's actors. A right to change a stored thing is a type, and its actor
//! is the only one that has it.
//!
//! Two files only name a right: that of its actor, and `registry/actors.rs`, which makes each right
//! once and hands it to the service that starts the actors. The writers of the store are private
//! fields of a right, so that no other file can use them.

use std::collections::BTreeMap;

use super::imports::{Imports, Path, product_tokens};
use super::{CRATES, crate_files};

/// Each right, and the file of the actor that has it.
const RIGHTS: [(&str, &str); 3] =
    [("Admitter", "registry/request_tracker"), ("Sealer", "registry/batcher"), ("Applier", "registry/tree_maintainer")];

/// The file that makes the rights.
const ASSEMBLER: &str = "registry/actors";

/// What changes the store or the ledger: only rights have it.
const WRITERS: [&str; 2] = ["RequestWriter", "BlockWriter"];

/// What a right keeps to itself.
const PRIVATE: [&str; 4] = ["RequestWriter", "BlockWriter", "GroupCommit", "Ledger"];

/// What breaks the rule about rights in the files of the crate.
fn trespasses(files: &BTreeMap<Path, String>) -> Vec<String> {
    let mut found = Vec::new();
    let tokens: BTreeMap<String, Vec<&str>> =
        files.iter().map(|(path, text)| (path.join("/"), product_tokens(text))).collect();
    let arrows = Imports::read(files).arrows();
    for (right, actor) in RIGHTS {
        let definition = ["struct", right];
        let homes = tokens.iter().filter(|(_, tokens)| tokens.windows(2).any(|words| words == definition));
        let homes: Vec<&str> = homes.map(|(file, _)| file.as_str()).collect();
        let [home] = homes[..] else {
            found.push(format!("{right} is defined in {homes:?}, and not in one file"));
            continue;
        };
        if ![actor, ASSEMBLER].contains(&home) {
            found.push(format!("{right} is defined in {home}; it belongs into {actor}"));
        }
        for arrow in &arrows {
            let (from, is_it) = (arrow.from.join("/"), arrow.named.split("::").any(|part| part == right));
            if is_it && arrow.to.join("/") == home && ![actor, ASSEMBLER].contains(&from.as_str()) {
                found.push(format!("{from} names {right}, the right of {actor}"));
            }
        }
        for field in public_fields(&tokens[home], right) {
            if let Some(writer) = PRIVATE.iter().find(|writer| field.contains(writer)) {
                found.push(format!("{right} has a public field with a {writer}: {}", field.join(" ")));
            }
        }
    }
    for (file, tokens) in &tokens {
        let is_right = file == ASSEMBLER || RIGHTS.iter().any(|(_, actor)| file == actor);
        for writer in WRITERS.iter().filter(|writer| !is_right && tokens.contains(writer)) {
            found.push(format!("{file} names {writer}, which only a right may have"));
        }
    }
    found
}

/// The public fields of a type, each as its words and signs.
fn public_fields<'a>(tokens: &'a [&'a str], name: &str) -> Vec<&'a [&'a str]> {
    let start = tokens.windows(3).position(|words| words == ["struct", name, "{"]).map_or(tokens.len(), |at| at + 3);
    let end = tokens[start..].iter().position(|token| *token == "}").map_or(tokens.len(), |length| start + length);
    let fields = tokens[start..end].split(|token| *token == ",");
    fields.filter(|field| field.contains(&"pub")).collect()
}

#[test]
fn only_its_actor_has_a_right() {
    let actors = CRATES.iter().find(|product_crate| product_crate.folder == "actors").expect("the crate of the actors");
    assert_eq!(trespasses(&crate_files(actors)), Vec::<String>::new());
}

/// A crate in which each right is in its place, with one file changed or added.
fn planted(file: &str, text: &str) -> Vec<String> {
    let files = [
        ("lib", "mod registry; mod other;"),
        ("registry/mod", "mod actors; mod request_tracker; mod batcher; mod tree_maintainer;"),
        ("registry/actors", "use super::request_tracker::Admitter;\nfn new() { Admitter::new(RequestWriter::new()) }"),
        ("registry/request_tracker", "pub struct Admitter { pub reader: Reader, writer: RequestWriter }"),
        ("registry/batcher", "pub struct Sealer { pub work: Work, ledger: Arc<dyn Ledger>, commit: GroupCommit }"),
        ("registry/tree_maintainer", "pub struct Applier { pub reader: Reader, writer: BlockWriter }"),
        ("other", "enum Other { Sealer }\nfn f() { Other::Sealer; }"),
        (file, text),
    ];
    let path = |name: &str| name.split('/').filter(|part| !["lib", "mod"].contains(part)).map(str::to_owned).collect();
    trespasses(&files.iter().map(|(name, text)| (path(name), (*text).to_owned())).collect())
}

#[test]
fn a_right_in_other_hands_is_found() {
    assert_eq!(planted("another", ""), [""; 0]);
    let cases = [
        (
            "other",
            "fn admit(admitter: &crate::registry::request_tracker::Admitter) {}",
            "other names Admitter, the right of registry/request_tracker",
        ),
        (
            "registry/tree_maintainer",
            "use super::batcher::Sealer;\npub struct Applier { writer: BlockWriter }",
            "registry/tree_maintainer names Sealer, the right of registry/batcher",
        ),
        ("other", "use selfsame_storage::BlockWriter;", "other names BlockWriter, which only a right may have"),
        (
            "registry/batcher",
            "pub struct Sealer { pub(crate) ledger: Arc<dyn Ledger> }",
            "Sealer has a public field with a Ledger: pub ( crate ) ledger : Arc < dyn Ledger >",
        ),
        (
            "other",
            "pub struct Applier;",
            "Applier is defined in [\"other\", \"registry/tree_maintainer\"], and not in one file",
        ),
        ("registry/batcher", "", "Sealer is defined in [], and not in one file"),
    ];
    for (file, text, finding) in cases {
        assert_eq!(planted(file, text), [finding], "{file}: {text}");
    }
}
