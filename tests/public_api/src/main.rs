//! Compares the public items of `selfsame-actors` with the list in `actors/public-api.txt`, or
//! writes that list anew.
//!
//! `selfsame-public-api check` prints each line that differs, and fails if there is one.
//! `selfsame-public-api accept` writes the list. Both have cargo build the documentation of the
//! crate once for each set of features, as JSON. Further arguments, such as `--release`, are
//! arguments of cargo.
//!
//! The JSON is an unstable output of rustdoc, and its format has a number. With a compiler that
//! writes another format than this program reads, the check is skipped with a message.

mod description;
mod list;
mod rustdoc;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use description::Description;
use list::Section;

type Error = Box<dyn std::error::Error>;

/// The features of `selfsame-actors` that add items.
const FEATURES: [&str; 3] = ["cluster", "fault-injection", "simulation"];

/// What the command line asks for.
enum Command {
    Check,
    Accept,
}

fn main() -> ExitCode {
    if let Some(status) = rustdoc::run_as_wrapper() {
        return status;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let command = match arguments.first().map(String::as_str) {
        Some("check") => Command::Check,
        Some("accept") => Command::Accept,
        _ => {
            eprintln!("usage: selfsame-public-api check|accept [ARGUMENTS OF CARGO]");
            return ExitCode::from(2);
        }
    };
    run(&command, &arguments[1..]).unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}

fn run(command: &Command, cargo_arguments: &[String]) -> Result<ExitCode, Error> {
    let list_file = repository().join("actors/public-api.txt");
    let Some(sections) = sections(cargo_arguments)? else { return Ok(ExitCode::SUCCESS) };
    let found = list::render(&sections);
    match command {
        Command::Accept => fs::write(&list_file, found)?,
        Command::Check => {
            let listed = fs::read_to_string(&list_file).unwrap_or_default();
            let difference = list::difference(&listed, &found);
            if !difference.is_empty() {
                eprintln!("The public items of selfsame-actors differ from actors/public-api.txt:\n\n{difference}");
                eprintln!("If the change is meant, `make accept-public-api` writes the list anew.");
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The lists of items; `None`, and a message, when rustdoc writes another format.
fn sections(cargo_arguments: &[String]) -> Result<Option<Vec<Section>>, Error> {
    let mut sections: Vec<Section> = Vec::new();
    for feature in std::iter::once(None).chain(FEATURES.map(Some)) {
        let lines = match Description::of(&rustdoc::describe(&repository(), feature, cargo_arguments)?)? {
            Description::Lines(lines) => lines,
            Description::OtherFormat { found, read } => {
                eprintln!(
                    "The list of public items is NOT checked: this rustdoc writes format {found}, and \
                     tests/public_api reads format {read}. Another version of the crate `public-api` may read it."
                );
                return Ok(None);
            }
        };
        let section = match sections.first() {
            Some(without_features) => Section::beyond(feature, without_features, lines),
            None => Section::without_features(lines),
        };
        sections.push(section);
    }
    Ok(Some(sections))
}

/// The repository whose manifest cargo runs. A build folder that two copies of the repository share
/// may hold a program that was compiled in the other one.
fn repository() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let manifest = Path::new(&manifest);
    manifest.ancestors().nth(2).unwrap_or(manifest).to_owned()
}
