//! Makes the file of the prover's key, of the artefacts in the package `semaphore-rs`, and compares
//! the prover with that package and with arkworks (`tests`).

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::Command;

use ark_bn254::Fr;
use ark_ec::AffineRepr;
use selfsame_prover::key::{KEY_LENGTH, MARK, WIRE_BITS};
use semaphore_rs_ark_zkey::read_arkzkey_from_bytes;
use serde_json::Value;

/// Version of the package whose artefacts are read.
const VERSION: &str = "0.6.0";

/// The circuit's artefacts.
pub struct Artefacts {
    /// The proving key.
    pub key: ark_groth16::ProvingKey<ark_bn254::Bn254>,
    /// Matrices A and B: for each constraint its factors with the numbers of their wires.
    pub matrices: [Matrix; 2],
}

/// A matrix by rows.
pub type Matrix = Vec<Vec<(Fr, usize)>>;

/// Finds the sources of the package with cargo, which has downloaded them, and reads the artefacts.
///
/// # Errors
///
/// The text says what is not as expected.
pub fn read_artefacts() -> Result<Artefacts, String> {
    let bytes = std::fs::read(package()?.join("assets/30/semaphore.arkzkey")).map_err(|error| error.to_string())?;
    let (key, matrices) = read_arkzkey_from_bytes(&bytes).map_err(|error| error.to_string())?;
    let [a, b, _] = matrices.matrices;
    Ok(Artefacts { key, matrices: [a, b] })
}

/// The folder of the package's sources.
fn package() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--manifest-path", manifest])
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut found = packages.filter(|package| package["name"] == "semaphore-rs" && package["version"] == VERSION);
    let manifest = found.next().and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.ok_or_else(|| format!("semaphore-rs {VERSION} is not a dependency"))?;
    Ok(PathBuf::from(manifest).with_file_name(""))
}

/// The file of the prover's key, in the form that `selfsame_prover::key` describes.
///
/// # Errors
///
/// The text says what is not as expected.
pub fn make_key(artefacts: &Artefacts) -> Result<Vec<u8>, String> {
    let key = &artefacts.key;
    let a: Vec<bool> = key.a_query.iter().map(|point| !point.is_zero()).collect();
    let b: Vec<bool> = key.b_g1_query.iter().map(|point| !point.is_zero()).collect();
    if !key.b_g2_query.iter().map(|point| !point.is_zero()).eq(b.iter().copied()) {
        return Err("points B of both groups are of different wires".to_owned());
    }
    let mut file = MARK.to_vec();
    write_points(&mut file, &[key.vk.alpha_g1, key.beta_g1, key.delta_g1])?;
    write_points(&mut file, &[key.vk.beta_g2, key.vk.delta_g2])?;
    for wires in [&a, &b] {
        let mut bits = vec![0; WIRE_BITS];
        for (wire, _) in wires.iter().enumerate().filter(|(_, has_point)| **has_point) {
            bits[wire / 8] |= 1 << (wire % 8);
        }
        file.extend(bits);
    }
    write_points(&mut file, &key.a_query)?;
    write_points(&mut file, &key.b_g1_query)?;
    write_points(&mut file, &key.b_g2_query)?;
    write_points(&mut file, &key.h_query)?;
    write_points(&mut file, &key.l_query)?;
    if file.len() != KEY_LENGTH {
        return Err(format!("the file has {} bytes in place of {KEY_LENGTH}", file.len()));
    }
    Ok(file)
}

/// Writes points without those at infinity.
fn write_points<Point: AffineRepr>(file: &mut Vec<u8>, points: &[Point]) -> Result<(), String> {
    let mut points = points.iter().filter(|point| !point.is_zero());
    points.try_for_each(|point| point.serialize_compressed(&mut *file)).map_err(|error| error.to_string())
}
