//! Makes the settings of sign-in from the configuration.

use selfsame_actors::{ClientSecret, SignInClient, SignInLimits, SignInSettings};
use selfsame_protocol::sign_in::Client;
use selfsame_protocol::sign_in::claims::Provider;
use selfsame_protocol::verification::Environment;

use crate::config::{App, Config, InactiveStatus, RateLimit, Status};

/// The settings of sign-in for a provider at `id_url`.
pub fn settings(config: &Config, id_url: &str) -> SignInSettings {
    let sign_in = &config.sign_in;
    SignInSettings {
        provider: Provider {
            issuer: id_url.to_owned(),
            name: sign_in.name.clone(),
            given_name: sign_in.given_name.clone(),
            family_name: sign_in.family_name.clone(),
        },
        clients: clients(config),
        code_lifetime: sign_in.code_lifetime,
        key_rotation: sign_in.key_rotation,
        session_lifetime: sign_in.session_lifetime,
        answers_inactive_tokens_plainly: sign_in.introspection_inactive_status == InactiveStatus::Ok,
        limits: limits(config),
    }
}

/// The limits of sign-in.
pub fn limits(config: &Config) -> SignInLimits {
    SignInLimits {
        per_source: config.limits.sign_ins_per_source.map(RateLimit::limit),
        open_sign_ins: config.limits.open_sign_ins,
        waiting_calls: config.limits.in_flight,
    }
}

/// The applications that use sign-in: active ones with a redirect URI.
pub fn clients(config: &Config) -> Vec<SignInClient> {
    let signs_in = |app: &&App| app.status == Status::Active && !app.redirect_uris.is_empty();
    config.apps.iter().filter(signs_in).map(client).collect()
}

fn client(app: &App) -> SignInClient {
    let secret = app.client_secret_hash.as_ref();
    SignInClient {
        client: Client {
            id: app.id.clone(),
            redirect_uris: app.redirect_uris.clone(),
            post_logout_redirect_uris: app.post_logout_redirect_uris.clone(),
            is_public: app.public,
            require_pkce: app.require_pkce,
        },
        name: app.name().to_owned(),
        secret: secret.map(|secret| ClientSecret { salt: secret.salt(), digest: *secret.digest() }),
        // An application that accepts both environments gets sign-ins with proofs of production.
        environment: app.environments().iter().copied().min().unwrap_or(Environment::Production),
        proof: app.proof,
    }
}
