//! What the handlers of the sign-in interface share.

use std::sync::Arc;

use hyper::header::ACCEPT_LANGUAGE;
use selfsame_actors::SignInHandle;
use selfsame_protocol::sign_in::Language;

use super::appearance::Appearance;
use super::bridged::OwnBridge;
use super::page::{Frame, Words};
use super::wallet_links::WalletLinks;
use crate::http::Request;
use crate::webhooks::stream::EventStreams;

/// The provider, as the interface calls it.
pub struct SignIn {
    /// Transactions, codes, tokens, sessions and keys.
    pub handle: SignInHandle,
    /// Whose pages end users see.
    pub appearance: Arc<Appearance>,
    /// How authenticators are opened.
    pub links: Arc<WalletLinks>,
    /// The message bridge, for authenticators that know nothing else.
    pub bridge: Arc<OwnBridge>,
    /// The events that applications follow.
    pub streams: EventStreams,
}

impl SignIn {
    /// What the pages for a request have in common. Its query may name the language.
    pub fn frame(&self, request: &Request) -> Frame<'_> {
        let wished = request.query().find(|(name, _)| name == "ui_locales");
        self.frame_in(request, wished.as_ref().map(|(_, wished)| wished.as_ref()))
    }

    /// The same for a request whose parameters are read: `ui_locales` is theirs.
    pub fn frame_in(&self, request: &Request, ui_locales: Option<&str>) -> Frame<'_> {
        let accepted = request.list(&ACCEPT_LANGUAGE).collect::<Vec<_>>().join(",");
        let language = Language::choose(ui_locales, Some(&accepted));
        Frame {
            root: self.root(),
            issuer: &self.handle.provider().issuer,
            appearance: &self.appearance,
            words: Words::of(language),
            wished: ui_locales.map(|_| language),
        }
    }

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
