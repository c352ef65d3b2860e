//! Certificates and private keys from PEM files (RFC 7468), and the certificates that those of
//! other servers must descend from. An error says what a file has in place of what was wanted, and
//! the command that makes it right.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};
use zeroize::Zeroizing;

/// A file that is not usable as what was wanted.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct PemError {
    /// The path of the file.
    pub path: PathBuf,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

/// What a caller wants from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Certificates,
    PrivateKey,
}

impl Wanted {
    fn name(self) -> &'static str {
        match self {
            Self::Certificates => "certificate",
            Self::PrivateKey => "private key",
        }
    }

    /// The command of OpenSSL that writes it as PEM.
    fn command(self) -> &'static str {
        match self {
            Self::Certificates => "x509",
            Self::PrivateKey => "pkey",
        }
    }

    /// What would be right in a file that has none.
    fn advice(self) -> &'static str {
        match self {
            Self::Certificates => {
                "give the chain in PEM, the server's own certificate first; each begins with a line \
                 -----BEGIN CERTIFICATE-----"
            }
            Self::PrivateKey => "give the key in PEM, which begins with a line -----BEGIN PRIVATE KEY-----",
        }
    }
}

/// The certificates of a file, in its order, at least one.
///
/// # Errors
/// The file cannot be read, is not PEM, is cut off, or has no certificate.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let sections = sections(path, Wanted::Certificates)?;
    let (own, others): (Vec<_>, Vec<_>) = sections.into_iter().partition(|section| section.label == "CERTIFICATE");
    if own.is_empty() {
        return Err(lacks(path, Wanted::Certificates, &others));
    }
    Ok(own.into_iter().map(|section| CertificateDer::from(section.der.to_vec())).collect())
}

/// The first private key of a file.
///
/// # Errors
/// The file cannot be read, is not PEM, is cut off, or has no private key that is not encrypted.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    let sections = sections(path, Wanted::PrivateKey)?;
    if let Some(key) = sections.iter().find_map(Section::private_key) {
        return Ok(key);
    }
    if sections.iter().any(|section| section.is_encrypted) {
        let problem = format!(
            "the private key is encrypted, and the daemon has no password for it; `openssl pkey -in {} -out KEY` writes \
             it without encryption; only the daemon's user should be able to read the new file",
            path.display()
        );
        return Err(PemError { path: path.to_owned(), problem });
    }
    Err(lacks(path, Wanted::PrivateKey, &sections))
}

/// What is between a line `-----BEGIN …-----` and its end.
struct Section {
    label: String,
    /// Empty when it is encrypted.
    der: Zeroizing<Vec<u8>>,
    /// Whether it is a private key that a password protects.
    is_encrypted: bool,
}

impl Section {
    fn private_key(&self) -> Option<PrivateKeyDer<'static>> {
        if self.is_encrypted {
            return None;
        }
        match self.label.as_str() {
            "PRIVATE KEY" => Some(PrivateKeyDer::Pkcs8(self.der.to_vec().into())),
            "RSA PRIVATE KEY" => Some(PrivateKeyDer::Pkcs1(self.der.to_vec().into())),
            "EC PRIVATE KEY" => Some(PrivateKeyDer::Sec1(self.der.to_vec().into())),
            _ => None,
        }
    }

    /// What it is, in words.
    fn name(&self) -> &str {
        match self.label.as_str() {
            "CERTIFICATE" => "a certificate",
            "CERTIFICATE REQUEST" | "NEW CERTIFICATE REQUEST" => "a request for a certificate",
            "PUBLIC KEY" | "RSA PUBLIC KEY" => "a public key",
            "EC PARAMETERS" => "the parameters of a key",
            label if label.ends_with("PRIVATE KEY") => "a private key",
            label => label,
        }
    }
}

fn lacks(path: &Path, wanted: Wanted, found: &[Section]) -> PemError {
    let (name, advice) = (wanted.name(), wanted.advice());
    let problem = match found.first() {
        Some(other) => format!("there is no {name} in it, but {}; {advice}", other.name()),
        None => format!("there is no {name} in it; {advice}"),
    };
    PemError { path: path.to_owned(), problem }
}

/// The sections of a file. Text between them is left out, as OpenSSL does.
fn sections(path: &Path, wanted: Wanted) -> Result<Vec<Section>, PemError> {
    let refused = |problem: String| PemError { path: path.to_owned(), problem };
    let bytes = match wanted {
        Wanted::Certificates => std::fs::read(path).map(Zeroizing::new),
        Wanted::PrivateKey => read_private(path),
    };
    let bytes = bytes.map_err(|error| refused(error.to_string()))?;
    if bytes.trim_ascii().is_empty() {
        return Err(refused(format!("there is no {} in it: it is empty; {}", wanted.name(), wanted.advice())));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(refused("it is text in UTF-16; PEM is ASCII: save it again as ASCII or UTF-8".to_owned()));
    }
    // A sequence of ASN.1, whose length takes more than a byte.
    if bytes[0] == 0x30 && bytes.get(1).is_some_and(|length| *length > 0x80) {
        let (command, path) = (wanted.command(), path.display());
        return Err(refused(format!(
            "it is DER, not PEM; `openssl {command} -inform DER -in {path} -out FILE` writes it as PEM"
        )));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    // Text in another encoding can only be outside of the sections, or makes them bad.
    let text = Zeroizing::new(String::from_utf8_lossy(bytes).into_owned());
    let mut sections = Vec::new();
    let mut lines = text.lines().map(str::trim).zip(1..);
    while let Some((line, _)) = lines.next() {
        if let Some(label) = label(line, "-----BEGIN ") {
            sections.push(section(label, &mut lines).map_err(&refused)?);
        }
    }
    Ok(sections)
}

fn label<'a>(line: &'a str, begin: &str) -> Option<&'a str> {
    line.strip_prefix(begin)?.strip_suffix("-----")
}

/// Reads up to the end of a section.
fn section<'a>(label: &str, lines: &mut impl Iterator<Item = (&'a str, usize)>) -> Result<Section, String> {
    let mut is_encrypted = label == "ENCRYPTED PRIVATE KEY";
    let mut der = Zeroizing::new(Vec::new());
    let mut base64 = Zeroizing::new(String::new());
    for (line, number) in lines {
        if self::label(line, "-----END ").is_some_and(|end| end == label) {
            if !is_encrypted {
                // The lines were checked, except for what must fill the last one.
                let decoded = STANDARD.decode(base64.as_bytes());
                der = Zeroizing::new(decoded.map_err(|_| format!("its {label} is not base64; copy the file again"))?);
            }
            return Ok(Section { label: label.to_owned(), der, is_encrypted });
        }
        if line.starts_with("-----") {
            break;
        }
        // The headers of RFC 1421.
        if line.contains(':') {
            is_encrypted |= line.starts_with("Proc-Type:") && line.ends_with("ENCRYPTED");
        } else if line.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)) {
            base64.push_str(line);
        } else {
            return Err(format!("line {number} is not base64; copy the file again"));
        }
    }
    Err(format!("it is cut off: the line -----END {label}----- is missing; copy the file again"))
}

// The certificates that those of other servers must descend from.

/// Why certificate authorities cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthoritiesError {
    /// The file with certificate authorities cannot be used.
    #[error("{}: {reason}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Why it cannot be used.
        reason: String,
    },
    /// The system has no certificate authorities.
    #[error(
        "the system has no certificate authorities; install them (Debian: ca-certificates), or name a file with them"
    )]
    None,
    /// The TLS library refuses its settings.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

/// TLS 1.2 and 1.3 with servers whose certificates descend from those of `authorities`, or of the
/// system.
///
/// # Errors
/// As for [`root_certificates`].
pub fn tls_connector(authorities: Option<&Path>) -> Result<TlsConnector, AuthoritiesError> {
    let roots = root_certificates(authorities)?;
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| AuthoritiesError::Tls(error.to_string()))?;
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The certificates in a PEM file, or those of the system.
///
/// # Errors
/// The file cannot be read or has none; or the system has none.
pub fn root_certificates(authorities: Option<&Path>) -> Result<RootCertStore, AuthoritiesError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(path) => {
            let unusable = |reason: String| AuthoritiesError::File { path: path.to_owned(), reason };
            let certificates = certificates(path).map_err(|error| unusable(error.problem))?;
            for (number, certificate) in (1..).zip(certificates) {
                let refused = |error| {
                    format!(
                        "certificate {number} in it cannot be an authority ({error}); give X.509 certificates in PEM"
                    )
                };
                roots.add(certificate).map_err(|error| unusable(refused(error)))?;
            }
        }
        None => {
            // Systems have certificates that no library can use beside the good ones.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(AuthoritiesError::None);
            }
        }
    }
    Ok(roots)
}

// Files that hold secrets.

/// Reads a file that only its owner may read, or, when it is root's, also the group that root gave
/// it to.
///
/// # Errors
/// When the file cannot be read, or can be read by others: of the kind `PermissionDenied`.
pub fn read_private(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    let allowed = allowed_mode(metadata.uid(), rustix::process::geteuid().as_raw());
    let mode = metadata.mode() & 0o777;
    if metadata.is_file() && mode & !allowed != 0 {
        let advice = format!(
            "its mode is {mode:o}, so other users of this machine can read or change it; run `chmod {:o} {}`",
            allowed & 0o660,
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, advice));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The bits that the mode of a secret's file may have. A user's own file is for that user alone. A
/// file that root owns may be readable for its group, because that is how root gives a service a
/// secret which the service cannot change; PostgreSQL has the same rule for private keys. Where the
/// program runs as root, root is the user.
fn allowed_mode(owner: u32, user: u32) -> u32 {
    if owner == 0 && user != 0 { 0o740 } else { 0o700 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_gives_a_secret_to_a_group() {
        for (owner, user, allowed) in
            [(1000, 1000, 0o700), (0, 0, 0o700), (1000, 0, 0o700), (1000, 1001, 0o700), (0, 1000, 0o740)]
        {
            assert_eq!(allowed_mode(owner, user), allowed, "a file of {owner} for {user}");
        }
    }
}
