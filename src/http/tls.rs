//! TLS for a listener, from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of the certificate chain cannot be read, or is not PEM.
    #[error("tls.certificate: {}: {error}", path.display())]
    Certificate {
        /// The path in `tls.certificate`.
        path: PathBuf,
        /// Why the file cannot be read, or where it is not PEM.
        error: pem::Error,
    },
    /// The file of the certificate chain has no certificate.
    #[error("tls.certificate: {}: there is no certificate in it; give the chain in PEM, the server's own first", path.display())]
    NoCertificate {
        /// The path in `tls.certificate`.
        path: PathBuf,
    },
    /// The file of the private key cannot be read, or has no private key.
    #[error("tls.private_key: {}: {error}", path.display())]
    PrivateKey {
        /// The path in `tls.private_key`.
        path: PathBuf,
        /// Why the file cannot be read, or has no private key in PEM.
        error: pem::Error,
    },
    /// The private key does not belong to the certificate.
    #[error("tls: certificate and private key do not go together: {0}")]
    Mismatch(rustls::Error),
}

/// TLS 1.2 and 1.3 with these files, for HTTP/2 and HTTP/1.1.
pub fn acceptor(certificate: &Path, private_key: &Path) -> Result<TlsAcceptor, TlsError> {
    let unreadable = |error| TlsError::Certificate { path: certificate.to_owned(), error };
    let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(|error| TlsError::Certificate { path: certificate.to_owned(), error })?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { path: certificate.to_owned() });
    }
    let key = PrivateKeyDer::from_pem_file(private_key)
        .map_err(|error| TlsError::PrivateKey { path: private_key.to_owned(), error })?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = versions
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(TlsError::Mismatch)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
