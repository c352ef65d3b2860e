//! Makes the settings of sign-in from the configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy_primitives::hex;
use selfsame_actors::{KeyCipher, SignInClient, SignInLimits, SignInSettings};
use selfsame_protocol::sign_in::claims::Provider;
use selfsame_protocol::sign_in::{Client, ResponseType};
use selfsame_protocol::verification::ProofKind;
use zeroize::Zeroizing;

use super::appearance::{Appearance, LogoError};
use super::wallet_links::{WalletLinkError, WalletLinks};
use crate::config::{App, Config, CrossDevice, InactiveStatus, RateLimit, RedirectUri, SecretHash};
use crate::data_files::{SecretFileError, read_secret};

/// Why sign-in cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The file of the encryption key cannot be read.
    #[error("sign_in.key_encryption_key_file: {0}")]
    Unreadable(#[from] SecretFileError),
    /// The file contains something else than a key.
    #[error("sign_in.key_encryption_key_file: {}: it has to contain 64 hex digits; make one with: openssl rand -hex 32", path.display())]
    NotAKey {
        /// The path in the setting.
        path: PathBuf,
    },
    /// A file cannot be a logo.
    #[error(transparent)]
    Logo(#[from] LogoError),
    /// Sign-in over the message bridge cannot be set up.
    #[error(transparent)]
    WalletLink(#[from] WalletLinkError),
}

/// The settings of sign-in for a provider at `id_url`, whose signing keys `key_cipher` encrypts.
pub fn settings(config: &Config, id_url: &str, key_cipher: Option<Arc<KeyCipher>>) -> SignInSettings {
    let sign_in = &config.sign_in;
    SignInSettings {
        provider: Provider {
            issuer: id_url.to_owned(),
            name: sign_in.name.clone(),
            given_name: sign_in.given_name.clone(),
            family_name: sign_in.family_name.clone(),
        },
        clients: clients(config),
        transaction_lifetime: *sign_in.transaction_lifetime,
        code_lifetime: *sign_in.code_lifetime,
        key_rotation: *sign_in.key_rotation,
        signing_algorithm: sign_in.signing_algorithm,
        key_cipher,
        session_lifetime: *sign_in.session_lifetime,
        answers_inactive_tokens_plainly: sign_in.introspection_inactive_status == InactiveStatus::Ok,
        limits: limits(config),
    }
}

/// Whose pages end users see, with the logos that the configuration names.
///
/// # Errors
/// All files that cannot be logos.
pub fn appearance(config: &Config) -> Result<Appearance, Vec<SetupError>> {
    Appearance::read(config).map_err(|errors| errors.into_iter().map(SetupError::from).collect())
}

/// The links that open an authenticator.
///
/// # Errors
/// All settings that cannot be used.
pub fn wallet_links(config: &Config) -> Result<WalletLinks, Vec<SetupError>> {
    WalletLinks::read(config).map_err(|errors| errors.into_iter().map(SetupError::from).collect())
}

/// The key that encrypts the signing keys; `None` when the configuration has none.
///
/// # Errors
/// The file cannot be read, or does not have a key.
pub fn key_cipher(config: &Config) -> Result<Option<Arc<KeyCipher>>, SetupError> {
    config.sign_in.key_encryption_key_file.as_deref().map(read_key_cipher).transpose()
}

/// Reads the key that encrypts the signing keys and authenticates backups from its file.
///
/// # Errors
/// The file cannot be read, or does not have a key.
pub fn read_key_cipher(path: &Path) -> Result<Arc<KeyCipher>, SetupError> {
    let text = Zeroizing::new(read_secret(path)?);
    let mut key = Zeroizing::new([0; 32]);
    let decoded = hex::decode_to_slice(text.as_str(), key.as_mut_slice()).ok();
    let cipher = decoded.and_then(|()| KeyCipher::new(&key));
    cipher.map(Arc::new).ok_or_else(|| SetupError::NotAKey { path: path.to_owned() })
}

/// The limits of sign-in.
pub fn limits(config: &Config) -> SignInLimits {
    SignInLimits {
        per_source: config.limits.sign_ins_per_source.map(RateLimit::limit),
        open_sign_ins: config.limits.open_sign_ins,
        followers_per_source: config.limits.followers_per_source,
        waiting_calls: config.limits.in_flight,
    }
}

/// The applications that use sign-in: active ones with a redirect URI.
pub fn clients(config: &Config) -> Vec<SignInClient> {
    signing_in(config).map(client).collect()
}

/// The ids of the applications with a secret that may ask for a code with neither `code_challenge`
/// nor `nonce`. The public interface allows such requests; an attacker can put a code of their
/// own into the response (RFC 9700, section 4.5).
pub fn unprotected_clients(config: &Config) -> Vec<&str> {
    let is_unprotected = |app: &&App| {
        // A response with an ID token needs a nonce.
        let needs_no_nonce = |response_type: &ResponseType| response_type.code && !response_type.id_token;
        !app.public && !app.require_pkce && app.response_types.iter().any(needs_no_nonce)
    };
    signing_in(config).filter(is_unprotected).map(|app| app.id.as_str()).collect()
}

/// The applications whose sign-ins ask for a legacy proof. The wallets of a daemon with `--dev`
/// always make them.
pub fn legacy_sign_ins(config: &Config) -> Vec<&str> {
    let is_legacy = |app: &&App| app.proof == ProofKind::Legacy && !config.dev;
    signing_in(config).filter(is_legacy).map(|app| app.id.as_str()).collect()
}

fn signing_in(config: &Config) -> impl Iterator<Item = &App> {
    config.apps.iter().filter(|app| app.signs_in())
}

fn texts(uris: &[RedirectUri]) -> Vec<String> {
    uris.iter().map(RedirectUri::to_string).collect()
}

fn client(app: &App) -> SignInClient {
    SignInClient {
        client: Client {
            id: app.id.clone(),
            redirect_uris: texts(&app.redirect_uris),
            post_logout_redirect_uris: texts(&app.post_logout_redirect_uris),
            response_types: app.response_types.clone(),
            is_public: app.public,
            require_pkce: app.require_pkce,
        },
        name: app.name().to_owned(),
        secrets: app.secret_hashes().map(SecretHash::client_secret).collect(),
        environment: app.sign_in_environment(),
        proof: app.proof,
        allows_cross_device: app.cross_device == CrossDevice::Allow,
    }
}
