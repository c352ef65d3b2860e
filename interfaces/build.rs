//! Lists the files of the web wallet, which the feature `web-wallet` has in the program: all of
//! `web-wallet/built`, each beside its form `.br` where it has one.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The types of the files, by the ends of their names.
const TYPES: [(&str, &str); 10] = [
    (".html", "text/html; charset=utf-8"),
    (".js", "text/javascript; charset=utf-8"),
    (".css", "text/css; charset=utf-8"),
    (".json", "application/json"),
    (".webmanifest", "application/manifest+json"),
    (".wasm", "application/wasm"),
    (".bin", "application/octet-stream"),
    (".svg", "image/svg+xml"),
    (".png", "image/png"),
    (".txt", "text/plain; charset=utf-8"),
];

const REMEDY: &str = "make it with: cd web-wallet && npm ci && node build.mjs, or build without the feature \
                      (--no-default-features --features otlp,wallet)";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_WEB_WALLET").is_none() {
        return Ok(());
    }
    let built = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../web-wallet/built");
    println!("cargo::rerun-if-changed={}", built.display());
    if !built.join("index.html").exists() {
        println!("cargo::error=web-wallet/built is missing, which the feature web-wallet needs; {REMEDY}");
        return Ok(());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&built)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let mut list = "&[".to_owned();
    for name in names.iter().filter(|name| !name.ends_with(".br")) {
        let Some((_, content_type)) = TYPES.iter().find(|(end, _)| name.ends_with(end)) else {
            println!("cargo::error=web-wallet/built/{name} has a name of no known type; add it to interfaces/build.rs");
            continue;
        };
        let compressed = format!("{name}.br");
        let brotli = match names.contains(&compressed) {
            true => format!("Some(include_bytes!({:?}))", built.join(&compressed)),
            false => "None".to_owned(),
        };
        let (path, file) = (format!("/{name}"), built.join(name));
        write!(
            list,
            "File {{ path: {path:?}, content_type: {content_type:?}, bytes: include_bytes!({file:?}), brotli: {brotli} }},"
        )?;
    }
    list.push(']');
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("web_wallet_files.rs"), list)?;
    Ok(())
}
