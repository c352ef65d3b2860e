//! What `[cluster]` names, read: passwords, secrets and certificates.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{EtcdAccess, EtcdTls, EtcdUser};
use crate::config::Cluster;
use crate::http::{Certificate, TlsError};
use crate::pem::{self, PemError};
use crate::secret_file::{SecretFileError, read_secret};
use crate::tls_roots::{AuthoritiesError, root_certificates};

/// Why a cluster cannot be taken part in as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum ClusterSetupError {
    /// A file of a secret cannot be read.
    #[error("cluster.{key}: {error}")]
    Secret {
        /// The key that names the file.
        key: &'static str,
        /// What is wrong with it.
        error: SecretFileError,
    },
    /// A file of certificates cannot be used.
    #[error("cluster.{key}: {error}")]
    Authorities {
        /// The key that names the file.
        key: &'static str,
        /// What is wrong with it.
        error: AuthoritiesError,
    },
    /// A file in PEM cannot be used.
    #[error("cluster.{key}: {error}")]
    Pem {
        /// The key that names the file.
        key: &'static str,
        /// What is wrong with it.
        error: PemError,
    },
    /// The certificate of the replica cannot be used.
    #[error("cluster, where {0}")]
    Certificate(#[from] TlsError),
    /// The TLS library refuses the settings.
    #[error("cluster: TLS cannot be set up: {0}")]
    Tls(String),
}

/// How a replica reaches etcd and the other replicas, and how they reach it.
pub struct PreparedCluster {
    /// How etcd is reached.
    pub access: EtcdAccess,
    /// What the replicas show to each other; `None` when their certificates do.
    pub secret: Option<Arc<str>>,
    /// How this replica speaks TLS with those that call it; `None` for plain HTTP.
    pub acceptor: Option<TlsAcceptor>,
    /// How it speaks TLS with those that it calls; `None` for plain HTTP.
    pub connector: Option<TlsConnector>,
}

impl PreparedCluster {
    /// Reads what the section names. Opens no connection.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn read(cluster: &Cluster) -> Result<Self, ClusterSetupError> {
        let authorities = cluster.authorities.as_deref();
        let identity = cluster.certificate.as_deref().zip(cluster.private_key.as_deref());
        let (mut listening, mut calling) = (None, None);
        if let Some((chain, key)) = identity {
            let roots = root_certificates(authorities);
            let roots = roots.map_err(|error| ClusterSetupError::Authorities { key: "authorities", error })?;
            listening = Some(acceptor(chain, key, authorities.is_some().then(|| roots.clone()))?);
            calling = Some(connector(roots, chain, key)?);
        }
        Ok(Self {
            access: access(cluster)?,
            secret: secret("secret_file", cluster.secret_file.as_deref())?.map(Into::into),
            acceptor: listening,
            connector: calling,
        })
    }
}

fn access(cluster: &Cluster) -> Result<EtcdAccess, ClusterSetupError> {
    let password = secret("etcd_password_file", cluster.etcd_password_file.as_deref())?;
    let user = cluster.etcd_user.clone().zip(password);
    let authorities = cluster.etcd_authorities.as_deref();
    let authorities = authorities.map(|path| certificates("etcd_authorities", path)).transpose()?;
    let identity = match (&cluster.etcd_certificate, &cluster.etcd_private_key) {
        (Some(chain), Some(key)) => {
            let key_error = pem_error("etcd_private_key");
            pem::private_key(key).map_err(&key_error)?;
            Some((certificates("etcd_certificate", chain)?, text(key).map_err(key_error)?))
        }
        _ => None,
    };
    let has_tls = cluster.etcd.iter().any(|url| url.starts_with("https://"));
    Ok(EtcdAccess {
        endpoints: cluster.etcd.clone(),
        prefix: cluster.prefix.clone(),
        user: user.map(|(name, password)| EtcdUser { name, password }),
        tls: has_tls.then_some(EtcdTls { authorities, identity }),
    })
}

fn secret(key: &'static str, path: Option<&Path>) -> Result<Option<String>, ClusterSetupError> {
    path.map(read_secret).transpose().map_err(|error| ClusterSetupError::Secret { key, error })
}

/// The text of a file that has certificates: the client of etcd reads it again, and its errors do
/// not name the file.
fn certificates(key: &'static str, path: &Path) -> Result<String, ClusterSetupError> {
    pem::certificates(path).and_then(|_| text(path)).map_err(pem_error(key))
}

fn text(path: &Path) -> Result<String, PemError> {
    std::fs::read_to_string(path).map_err(|error| PemError { path: path.to_owned(), problem: error.to_string() })
}

fn pem_error(key: &'static str) -> impl Fn(PemError) -> ClusterSetupError {
    move |error| ClusterSetupError::Pem { key, error }
}

/// TLS for the listener. With `clients`, only callers with a certificate that descends from these.
fn acceptor(chain: &Path, key: &Path, clients: Option<RootCertStore>) -> Result<TlsAcceptor, ClusterSetupError> {
    let certificate = Certificate::load(chain, key)?;
    let verifier = clients.map(|roots| {
        let provider = Arc::new(default_provider());
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()
    });
    let verifier = verifier.transpose().map_err(|error| ClusterSetupError::Tls(error.to_string()))?;
    Ok(match verifier {
        Some(verifier) => certificate.acceptor_for_clients(verifier)?,
        None => certificate.acceptor()?,
    })
}

/// TLS with the other replicas, whose certificates descend from `roots`. This one shows its own.
fn connector(roots: RootCertStore, chain_path: &Path, key_path: &Path) -> Result<TlsConnector, ClusterSetupError> {
    let refused = |error: tokio_rustls::rustls::Error| ClusterSetupError::Tls(error.to_string());
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(refused)?.with_root_certificates(roots);
    let chain = pem::certificates(chain_path).map_err(pem_error("certificate"))?;
    let key = pem::private_key(key_path).map_err(pem_error("private_key"))?;
    let mut config = builder.with_client_auth_cert(chain, key).map_err(refused)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
