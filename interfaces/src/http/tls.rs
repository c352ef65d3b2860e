//! TLS for a listener, from PEM files.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{ClientHello, NoClientAuth, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, InconsistentKeys, ServerConfig};
use x509_parser::certificate::X509Certificate;
use x509_parser::public_key::PublicKey;

use crate::pem::{self, PemError};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of the certificate chain cannot be read, is not PEM, or has no certificate.
    #[error("tls.certificate: {0}")]
    Certificate(PemError),
    /// The first certificate of the chain is not an X.509 certificate that TLS can use.
    #[error("tls.certificate: {}: its first certificate is not a valid X.509 certificate of version 3", path.display())]
    Malformed {
        /// The path in `tls.certificate`.
        path: PathBuf,
    },
    /// The file of the private key cannot be read, is not PEM, or has no private key without
    /// encryption.
    #[error("tls.private_key: {0}")]
    PrivateKey(PemError),
    /// The private key is of a kind, or a size, that TLS is not spoken with.
    #[error(
        "tls.private_key: {}: the key cannot be used{}; RSA keys of 2048 to 8192 bits can, ECDSA keys on P-256, P-384 \
         and P-521, and Ed25519 keys; `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out KEY` makes \
         one, which needs a new certificate",
        path.display(),
        rsa_bits.map(|bits| format!(": it is an RSA key of {bits} bits, by its certificate")).unwrap_or_default()
    )]
    UnusableKey {
        /// The path in `tls.private_key`.
        path: PathBuf,
        /// The size of the certificate's key, when that is RSA.
        rsa_bits: Option<usize>,
    },
    /// The private key does not belong to the certificate.
    #[error(
        "tls: certificate and private key do not go together; `openssl x509 -in {} -noout -pubkey` and `openssl pkey -in \
         {} -pubout` print the same public key when they do (the first certificate in the file is the one that counts)",
        certificate.display(),
        private_key.display()
    )]
    Mismatch {
        /// The path in `tls.certificate`.
        certificate: PathBuf,
        /// The path in `tls.private_key`.
        private_key: PathBuf,
    },
    /// The TLS library refuses the settings.
    #[error("tls: TLS cannot be set up: {0}")]
    Library(rustls::Error),
}

/// The certificate of the listeners, which can be read again while they are served.
#[derive(Debug)]
pub struct Certificate {
    current: ArcSwap<CertifiedKey>,
    files: Mutex<Files>,
    expiry: Gauge,
}

/// The files, and when those that are in use, and those that could not be used, were changed last.
#[derive(Clone, Debug)]
struct Files {
    chain: PathBuf,
    private_key: PathBuf,
    in_use: FileTimes,
    /// Of the last attempt, when it failed.
    unusable: Option<FileTimes>,
}

impl Files {
    fn times(&self) -> FileTimes {
        file_times([&self.chain, &self.private_key])
    }
}

/// When both files were changed last; `None` for a file without such a time.
type FileTimes = [Option<SystemTime>; 2];

impl Certificate {
    /// Reads the certificate chain and its private key from PEM files.
    pub fn load(chain: &Path, private_key: &Path) -> Result<Arc<Self>, TlsError> {
        let in_use = file_times([chain, private_key]);
        let (key, not_after) = read(chain, private_key)?;
        let expiry = Gauge::default();
        expiry.set(not_after);
        let files = Files { chain: chain.to_owned(), private_key: private_key.to_owned(), in_use, unusable: None };
        Ok(Arc::new(Self { current: ArcSwap::from_pointee(key), files: Mutex::new(files), expiry }))
    }

    /// When the certificate expires, in Unix seconds.
    pub fn expiry(&self) -> i64 {
        self.expiry.get()
    }

    /// Adds the time at which the certificate expires to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let help = "When the certificate of the listeners expires, in Unix time";
        registry.register_with_unit("tls_certificate_expiry_timestamp", help, Unit::Seconds, self.expiry.clone());
    }

    /// TLS 1.2 and 1.3 with this certificate, for HTTP/2 and HTTP/1.1.
    pub fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor, TlsError> {
        self.acceptor_for_clients(Arc::new(NoClientAuth))
    }

    /// The same for clients whose certificates `clients` accepts.
    pub fn acceptor_for_clients(
        self: &Arc<Self>,
        clients: Arc<dyn ClientCertVerifier>,
    ) -> Result<TlsAcceptor, TlsError> {
        let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let builder = builder.map_err(TlsError::Library)?.with_client_cert_verifier(clients);
        let mut config = builder.with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Takes over the certificate and the files of `new`, for new connections. Returns whether it
    /// is another certificate.
    pub fn replace(&self, new: &Self) -> bool {
        let key = new.current.load_full();
        let files = new.files().clone();
        *self.files() = files;
        self.expiry.set(new.expiry.get());
        let old = self.current.swap(Arc::clone(&key));
        old.cert != key.cert
    }

    /// Reads the files again, for new connections, when one of them was changed since they were
    /// taken into use; returns whether they were. When they cannot be used, the old certificate
    /// stays, and they are read again each time, because the cause may pass without a change of the
    /// files. Of the same files only the first error is returned.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let mut files = self.files();
        // The times are read first, so that a change while the files are read is seen later.
        let times = files.times();
        if files.in_use == times {
            return Ok(false);
        }
        match read(&files.chain, &files.private_key) {
            Ok((key, not_after)) => {
                self.current.store(Arc::new(key));
                self.expiry.set(not_after);
                (files.in_use, files.unusable) = (times, None);
                Ok(true)
            }
            Err(_) if files.unusable == Some(times) => Ok(false),
            Err(error) => {
                files.unusable = Some(times);
                Err(error)
            }
        }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn file_times(paths: [&Path; 2]) -> FileTimes {
    paths.map(|path| std::fs::metadata(path).and_then(|file| file.modified()).ok())
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// Reads the files; also returns when the certificate expires, in Unix seconds.
fn read(certificate: &Path, private_key: &Path) -> Result<(CertifiedKey, i64), TlsError> {
    let chain = pem::certificates(certificate).map_err(TlsError::Certificate)?;
    let malformed = || TlsError::Malformed { path: certificate.to_owned() };
    let parsed = chain.first().and_then(|own| x509_parser::parse_x509_certificate(own).ok());
    let Some((_, parsed)) = parsed else { return Err(malformed()) };
    let not_after = parsed.validity().not_after.timestamp();
    let rsa_bits = rsa_bits(&parsed);
    let key = pem::private_key(private_key).map_err(TlsError::PrivateKey)?;
    let key = provider().key_provider.load_private_key(key);
    let key = key.map_err(|_| TlsError::UnusableKey { path: private_key.to_owned(), rsa_bits })?;
    let key = CertifiedKey::new(chain, key);
    match key.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok((key, not_after)),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(TlsError::Mismatch { certificate: certificate.to_owned(), private_key: private_key.to_owned() })
        }
        Err(_) => Err(malformed()),
    }
}

/// The size of a certificate's key in bits, when that is RSA.
fn rsa_bits(certificate: &X509Certificate<'_>) -> Option<usize> {
    match certificate.public_key().parsed().ok()? {
        PublicKey::RSA(key) => Some(key.key_size()),
        _ => None,
    }
}
