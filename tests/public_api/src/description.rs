//! What rustdoc's description of a crate says about its public items.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::Error;

/// The public items of a crate, if this program can read them.
pub enum Description {
    /// One line for each item, in the order of their paths.
    Lines(Vec<String>),
    /// The description has another format than this program reads.
    OtherFormat { found: u32, read: u32 },
}

/// The part of a description that every format has.
#[derive(Deserialize)]
struct Format {
    format_version: u32,
}

impl Description {
    /// Reads the file that rustdoc wrote.
    ///
    /// Left out is what every type has: implementations of traits like `From<T>` for all types, and
    /// of `Send` and the like. An item of another crate is a line, without what it contains.
    pub fn of(file: &Path) -> Result<Self, Error> {
        let Format { format_version: found } = serde_json::from_str(&fs::read_to_string(file)?)?;
        let read = rustdoc_types::FORMAT_VERSION;
        if found != read {
            return Ok(Self::OtherFormat { found, read });
        }
        let items =
            || public_api::Builder::from_rustdoc_json(file).omit_blanket_impls(true).omit_auto_trait_impls(true);
        let written: HashSet<String> = lines(items().omit_auto_derived_impls(true))?.into_iter().collect();
        let mut lines = lines(items())?;
        // Of derived implementations one line is enough: the trait's methods say nothing new.
        lines.retain(|line| written.contains(line) || line.starts_with("impl"));
        Ok(Self::Lines(lines))
    }
}

fn lines(items: public_api::Builder) -> Result<Vec<String>, Error> {
    Ok(items.build()?.items().map(ToString::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_of_another_format_is_not_read() {
        let file = std::env::temp_dir().join(format!("public-api-{}.json", std::process::id()));
        fs::write(&file, r#"{ "format_version": 1000000, "root": "a thing that no format has yet" }"#).expect("a file");
        let description = Description::of(&file);
        fs::remove_file(&file).expect("the file is there");
        match description.expect("the number of the format is read") {
            Description::OtherFormat { found, read } => {
                assert_eq!((found, read), (1_000_000, rustdoc_types::FORMAT_VERSION))
            }
            Description::Lines(lines) => panic!("{lines:?}"),
        }
    }
}
