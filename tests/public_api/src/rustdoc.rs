//! How rustdoc is made to write JSON.
//!
//! The stable rustdoc does so only with `RUSTC_BOOTSTRAP=1`. If the whole build had this variable,
//! many dependencies would be compiled anew, because their build scripts look at it. So cargo gets
//! this program as its rustdoc, and this program runs the real one with the variable.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::Error;

/// The real rustdoc. Only set for the wrapper.
const REAL_RUSTDOC: &str = "PUBLIC_API_RUSTDOC";
/// The folder for the JSON. Each set of features has its own: in cargo's, they would replace each
/// other, and cargo would not notice.
const OUTPUT: &str = "PUBLIC_API_OUTPUT";

const PACKAGE: &str = "selfsame-actors";

/// Runs the real rustdoc when cargo started this program as its rustdoc; otherwise `None`.
pub fn run_as_wrapper() -> Option<ExitCode> {
    let (rustdoc, output) = (env::var_os(REAL_RUSTDOC)?, env::var_os(OUTPUT)?);
    let mut arguments: Vec<OsString> = env::args_os().skip(1).collect();
    if let Some(option) = arguments.iter().position(|argument| argument == "-o" || argument == "--out-dir")
        && let Some(folder) = arguments.get_mut(option + 1)
    {
        *folder = output;
    }
    let status = Command::new(rustdoc).args(arguments).env("RUSTC_BOOTSTRAP", "1").status();
    match status.map(|status| status.success()) {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => Some(ExitCode::FAILURE),
        Err(error) => {
            eprintln!("rustdoc: {error}");
            Some(ExitCode::FAILURE)
        }
    }
}

/// Describes the crate, with a feature if one is named, and returns the file with the description.
///
/// # Errors
/// The crate does not compile, or a public item has no documentation.
pub fn describe(repository: &Path, feature: Option<&str>, cargo_arguments: &[String]) -> Result<PathBuf, Error> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
    let output = target.join("public-api").join(feature.unwrap_or("without-features"));
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(repository)
        .args(["rustdoc", "--quiet", "--package", PACKAGE, "--lib", "--features", feature.unwrap_or_default()])
        .args(cargo_arguments)
        .args(["--", "-Zunstable-options", "--output-format", "json", "--deny", "missing_docs"])
        .env(REAL_RUSTDOC, env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into()))
        .env("RUSTDOC", env::current_exe()?)
        .env(OUTPUT, &output)
        .status()?;
    if !status.success() {
        return Err(format!("the documentation of {PACKAGE} cannot be built").into());
    }
    Ok(output.join(PACKAGE.replace('-', "_")).with_extension("json"))
}
