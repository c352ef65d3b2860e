//! What the handlers of the sign-in interface share.

use selfsame_actors::SignInHandle;

/// The provider, as the interface calls it.
pub struct SignIn {
    /// Transactions, codes, tokens, sessions and keys.
    pub handle: SignInHandle,
}

impl SignIn {
    /// Whether the issuer is https.
    pub fn is_https(&self) -> bool {
        self.handle.provider().issuer.starts_with("https:")
    }

    /// The origin of the issuer, as browsers send it in the header `Origin`.
    pub fn origin(&self) -> &str {
        let issuer = &self.handle.provider().issuer;
        &issuer[..issuer.len() - self.root().len()]
    }

    /// Whether cookies can have the prefix `__Host-`, which needs https and the path `/`.
    pub fn has_host_cookies(&self) -> bool {
        self.is_https() && self.root().is_empty()
    }

    /// The path of the service as browsers see it, without a trailing slash: a proxy may serve it
    /// under a path.
    pub fn root(&self) -> &str {
        let issuer = &self.handle.provider().issuer;
        let rest = issuer.split_once("://").map_or(issuer.as_str(), |(_, rest)| rest);
        rest.find('/').map_or("", |start| &rest[start..])
    }
}
