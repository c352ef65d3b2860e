//! Makes the settings of sign-in from the configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy_primitives::hex;
use selfsame_actors::{KeyCipher, SignInClient, SignInLimits, SignInSettings};
use selfsame_interfaces::sign_in::appearance::{
    AppAppearance, AppLinks, Appearance, AuthenticatorApp, Logo, LogoProblem, PageSettings,
};
use selfsame_interfaces::sign_in::wallet_links::WalletLinks;
use selfsame_protocol::sign_in::asks::LegacyRules;
use selfsame_protocol::sign_in::claims::Provider;
use selfsame_protocol::sign_in::passkeys::PasskeyDomainError;
use selfsame_protocol::sign_in::{Client, ResponseType};
use selfsame_protocol::verification::{LegacyIdentifier, ProofKind};
use zeroize::Zeroizing;

use super::wallet_links::{self, WalletLinkError};
use crate::config::{
    App, Config, CrossDevice, History, InactiveStatus, Link, OldCredentials, RateLimit, RedirectUri, SecretHash,
    SignInPage, SignInProof,
};
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

/// A file that cannot be a logo.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct LogoError {
    key: String,
    problem: LogoProblem,
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
        passkey_domain: config.passkey_domain_at(id_url).ok(),
        limits: limits(config),
    }
}

/// Whose pages end users see, with the logos that the configuration names.
///
/// # Errors
/// All files that cannot be logos.
pub fn appearance(config: &Config) -> Result<Appearance, Vec<SetupError>> {
    let mut errors = Vec::new();
    let mut read = |key: String, path: &Option<PathBuf>| {
        let logo = path.as_deref().map(|path| Logo::read(path).map_err(|problem| LogoError { key, problem }));
        logo.transpose().map_err(|error| errors.push(error)).ok().flatten()
    };
    let logo = read("sign_in.page.logo_file".to_owned(), &config.sign_in.page.logo_file);
    let authenticator = config.sign_in.page.authenticator.as_ref().map(|authenticator| &authenticator.logo_file);
    let key = "sign_in.page.authenticator.logo_file".to_owned();
    let authenticator_logo = authenticator.and_then(|path| read(key, path));
    let apps = config.apps.iter().enumerate().map(|(index, app)| {
        let logo = read(format!("apps[{index}].logo_file"), &app.logo_file);
        (app.id.clone(), AppAppearance { logo, links: Arc::new(app_links(app)) })
    });
    let apps = apps.collect();
    match errors.is_empty() {
        true => Ok(Appearance::new(page_settings(&config.sign_in.page), logo, authenticator_logo, apps)),
        false => Err(errors.into_iter().map(SetupError::from).collect()),
    }
}

fn page_settings(page: &SignInPage) -> PageSettings {
    PageSettings {
        service_name: text(&page.service_name),
        contact: text(&page.contact),
        privacy_url: text(&page.privacy_url),
        terms_url: text(&page.terms_url),
        accent_colour: page.accent_colour.map(|colour| colour.0),
        authenticator: page.authenticator.as_ref().map(|app| AuthenticatorApp {
            name: app.name.to_string(),
            get_url: text(&app.get_url),
            help_url: text(&app.help_url),
        }),
    }
}

fn app_links(app: &App) -> AppLinks {
    AppLinks {
        home_url: text(&app.home_url),
        initiate_login_uri: text(&app.initiate_login_uri),
        fallback_url: text(&app.fallback_url),
    }
}

fn text<T: ToString>(value: &Option<T>) -> Option<String> {
    value.as_ref().map(ToString::to_string)
}

/// The links that open an authenticator.
///
/// # Errors
/// All settings that cannot be used.
pub fn wallet_links(config: &Config) -> Result<WalletLinks, Vec<SetupError>> {
    wallet_links::read(config).map_err(|errors| errors.into_iter().map(SetupError::from).collect())
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
    signing_in(config).map(|app| client(config, app)).collect()
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

/// The applications whose sign-ins ask for a legacy proof of a public credential, which has its
/// days; a group's has none. The wallets of a daemon with `--dev` always make them.
pub fn legacy_sign_ins(config: &Config) -> Vec<&str> {
    let takes_public = |app: &App| config.sign_in_sources(app).has_public;
    let is_legacy = |app: &&App| app.proof.kind() == ProofKind::Legacy && !config.dev && takes_public(app);
    signing_in(config).filter(is_legacy).map(|app| app.id.as_str()).collect()
}

/// Why browsers can keep no passkeys that find accounts; `None` when they can, and when no
/// application has accounts.
pub fn no_passkeys(config: &Config) -> Option<PasskeyDomainError> {
    let have_accounts = signing_in(config).any(|app| app.proof == SignInProof::Account);
    config.passkey_domain().err().filter(|_| have_accounts)
}

/// The applications with accounts and a legacy history that accept other legacy credentials than
/// `orb`. `is_known` says whether the store knows of such a history, which the configuration need
/// not say.
pub fn doubled_people(config: &Config, is_known: impl Fn(&App) -> bool) -> Vec<&str> {
    let accepts_others = |app: &&App| {
        let others = LegacyIdentifier::ALL.into_iter().filter(|identifier| *identifier != LegacyIdentifier::Orb);
        others.into_iter().any(|identifier| config.counts_for(app, app.sign_in_environment(), identifier.name()))
    };
    let has_history =
        |app: &&App| app.proof == SignInProof::Account && (app.history == History::Legacy || is_known(app));
    signing_in(config).filter(accepts_others).filter(has_history).map(|app| app.id.as_str()).collect()
}

fn signing_in(config: &Config) -> impl Iterator<Item = &App> {
    config.apps.iter().filter(|app| app.signs_in())
}

fn texts(uris: &[RedirectUri]) -> Vec<String> {
    uris.iter().map(RedirectUri::to_string).collect()
}

fn client(config: &Config, app: &App) -> SignInClient {
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
        subject: app.subject(),
        has_legacy_history: app.history == History::Legacy,
        legacy: LegacyRules {
            ends_at: config.sign_in.legacy_ends_at.unix_seconds(),
            current_alone_since: config.sign_in.current_alone_since.unix_seconds(),
            allows_old_credentials: app.old_credentials == OldCredentials::Allow,
            may_attach: app.link == Link::On,
        },
        first_credential: wallet_links::first_credential(config, app),
        only_group: config.sign_in_sources(app).only_group().map(|group| group.id),
        allows_cross_device: app.cross_device == CrossDevice::Allow,
    }
}

#[cfg(test)]
mod tests {
    use selfsame_interfaces::sign_in::appearance::LONGEST_LOGO;

    use super::*;

    #[test]
    fn applications_whose_people_could_have_two_accounts_are_named() {
        let doubled = |settings: &str, is_known: bool| {
            let text = format!("[[apps]]\nid = 'app_a'\nredirect_uris = ['https://a.example/']\n{settings}");
            !doubled_people(&toml::from_str(&text).unwrap(), |_| is_known).is_empty()
        };
        let history = "proof = 'account'\nhistory = 'legacy'\n";
        #[rustfmt::skip]
        let table = [
            ("all credentials", history.to_owned(), false, true),
            ("orb alone of the legacy ones", format!("{history}accepted_identifiers = ['orb', 'proof_of_human']"), true, false),
            ("another legacy one", format!("{history}accepted_identifiers = ['orb', 'document']"), false, true),
            ("no history", "proof = 'account'".to_owned(), false, false),
            ("a history that the store knows", "proof = 'account'".to_owned(), true, true),
            ("no accounts", "history = 'legacy'".to_owned(), true, false),
            ("not served", format!("{history}status = 'inactive'"), true, false),
        ];
        for (what, settings, is_known, expected) in table {
            assert_eq!(doubled(&settings, is_known), expected, "{what}");
        }
    }

    #[test]
    fn a_logo_that_is_missing_too_long_or_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let config = |service: &str, app: &str| {
            let path = |name: &str| folder.path().join(name);
            let mut config = toml::from_str::<Config>(&format!(
                "sign_in.page.authenticator = {{ name = 'A', logo_file = {:?} }}\n\
                 apps = [{{ id = 'app_a', logo_file = {:?} }}]",
                path(service),
                path(app)
            ));
            config.as_mut().unwrap().sign_in.page.logo_file = Some(path(service));
            config.unwrap()
        };
        let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"/>";
        std::fs::write(folder.path().join("good.svg"), svg).unwrap();
        std::fs::write(folder.path().join("text"), "a logo").unwrap();
        let most = format!("{svg}{}", " ".repeat(LONGEST_LOGO as usize - svg.len()));
        std::fs::write(folder.path().join("most"), &most).unwrap();
        std::fs::write(folder.path().join("long"), format!("{most} ")).unwrap();
        let read = appearance(&config("good.svg", "most")).ok().unwrap();
        assert_eq!(read.logo.as_ref().map(|logo| &logo.content[..]), Some(svg.as_bytes()));
        assert_eq!(read.authenticator_logo, read.logo);
        assert!(read.app_logo("app_a").is_some() && read.app_logo("app_b").is_none());
        let (page, authenticator) = ("sign_in.page.logo_file: ", "sign_in.page.authenticator.logo_file: ");
        let app_logo = "apps[0].logo_file: ";
        for (service, app, expected) in [
            ("missing", "good.svg", vec![(page, "os error 2"), (authenticator, "os error 2")]),
            ("good.svg", "text", vec![(app_logo, "neither PNG nor WebP nor SVG")]),
            ("text", "long", vec![(page, "neither"), (authenticator, "neither"), (app_logo, "262144 bytes")]),
        ] {
            let errors = appearance(&config(service, app)).err().unwrap();
            assert_eq!(errors.len(), expected.len());
            for (error, (key, reason)) in errors.iter().zip(expected) {
                let text = error.to_string();
                assert!(text.starts_with(key) && text.contains(reason), "{text}");
            }
        }
    }

    #[test]
    fn an_issuer_at_an_address_says_that_there_are_no_passkeys() {
        let app = "[[apps]]\nid = 'app_a'\nredirect_uris = ['https://a.example/']\nproof =";
        for (url, proof, expected) in [
            ("", "account", Some("the host of the issuer http://127.0.0.1:8080, 127.0.0.1, is an address")),
            ("id_url = 'https://[2001:db8::1]'", "account", Some("[2001:db8::1], is an address")),
            ("id_url = 'http://id.example'", "account", Some("is plain HTTP")),
            ("id_url = 'https://id.example'", "account", None),
            ("id_url = 'http://localhost:8085'", "account", None),
            ("", "legacy", None),
        ] {
            let config: Config = toml::from_str(&format!("[urls]\n{url}\n{app} '{proof}'")).unwrap();
            let found = no_passkeys(&config).map(|error| error.to_string());
            assert_eq!(found.is_some(), expected.is_some(), "{url:?}, {proof}: {found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{url:?}, {proof}");
        }
    }

    #[test]
    fn a_reload_replaces_the_links_of_applications() {
        let read = |text: &str| appearance(&toml::from_str(text).unwrap()).ok().unwrap();
        let current = read("apps = [{ id = 'app_a', home_url = 'https://a.example/' }]");
        let home = |app: &str| current.app_links(app).home_url.clone();
        assert_eq!(home("app_a").as_deref(), Some("https://a.example/"));
        current.replace_apps(&read("apps = [{ id = 'app_b', home_url = 'https://b.example/' }]"));
        assert_eq!((home("app_a"), home("app_b").as_deref()), (None, Some("https://b.example/")));
    }
}
