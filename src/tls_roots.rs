//! The certificates that those of other servers must descend from.

use std::path::{Path, PathBuf};

use tokio_rustls::rustls::RootCertStore;

use crate::pem;

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
}

/// The certificates in a PEM file, or those of the system.
///
/// # Errors
/// The file cannot be read or has none; or the system has none.
pub(crate) fn root_certificates(authorities: Option<&Path>) -> Result<RootCertStore, AuthoritiesError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(path) => {
            let unusable = |reason: String| AuthoritiesError::File { path: path.to_owned(), reason };
            let certificates = pem::certificates(path).map_err(|error| unusable(error.problem))?;
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
