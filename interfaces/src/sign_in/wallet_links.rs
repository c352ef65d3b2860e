//! How an authenticator is opened for a sign-in: by a link, or by a request on the message bridge.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use selfsame_protocol::bridge::request::Level;
use selfsame_protocol::bridge::sign_in::SigningParty;
use selfsame_protocol::verification::ProofKind;

/// How an authenticator is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalletLink {
    /// By a link.
    Template(LinkTemplate),
    /// By the connector URI of a request on this service's message bridge.
    Bridge,
}

/// A template of a URL, in which the URL of the proof request stands between two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTemplate {
    /// What stands before the URL of the request.
    pub before: String,
    /// What stands behind it.
    pub after: String,
}

/// The characters that a part of a URL has in percent-encoding (RFC 3986, section 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl LinkTemplate {
    /// The link for the proof request at a URL.
    pub fn to_request(&self, request_url: &str) -> String {
        let Self { before, after } = self;
        format!("{before}{}{after}", utf8_percent_encode(request_url, ENCODED))
    }
}

/// The links that open an authenticator.
#[derive(Default)]
pub struct WalletLinks {
    service: Option<WalletLink>,
    web_wallet: Option<WebWalletLinks>,
    connector_base: Option<String>,
    /// The applications, by their ids. A reload replaces them.
    apps: ArcSwap<HashMap<String, Arc<AppLink>>>,
}

/// The addresses of the web wallet that the service has.
struct WebWalletLinks {
    sign_in: LinkTemplate,
    join: String,
}

/// How an authenticator is opened for one application.
pub struct AppLink {
    /// Its own link; `None` for that of the service.
    pub link: Option<WalletLink>,
    /// Whether it accepts the credential of a group, which the service's web wallet has.
    pub accepts_group: bool,
    /// The level of the legacy proofs that are asked for on the message bridge; `None` when none
    /// could be answered there.
    pub legacy: Option<Level>,
    /// Who signs the requests for current proofs there; `None` when none could be answered.
    pub current: Option<Arc<SigningParty>>,
}

impl AppLink {
    /// What is asked for on the message bridge, for a proof of this kind.
    fn bridged(&self, kind: ProofKind) -> Option<BridgedProof> {
        match kind {
            ProofKind::Legacy => self.legacy.map(BridgedProof::Legacy),
            ProofKind::Current => self.current.clone().map(BridgedProof::Current),
        }
    }
}

/// The proof that sign-in asks for on the message bridge.
#[derive(Clone, Debug)]
pub enum BridgedProof {
    /// A legacy proof of this level or a stronger one.
    Legacy(Level),
    /// A current proof. The requests for it are signed.
    Current(Arc<SigningParty>),
}

/// How an authenticator gets the proof request of a sign-in.
#[derive(Clone, Debug)]
pub enum Way {
    /// By this link, which contains the URL of the proof request.
    Link(String),
    /// By a request on the message bridge that asks for this proof.
    Bridge(BridgedProof),
}

impl WalletLinks {
    /// The link of the service, the base of the connector URIs, and the links of the applications,
    /// by their ids.
    pub fn new(
        service: Option<WalletLink>,
        connector_base: Option<String>,
        apps: HashMap<String, Arc<AppLink>>,
    ) -> Self {
        Self { service, connector_base, apps: ArcSwap::from_pointee(apps), web_wallet: None }
    }

    /// The same with the URL of the service's web wallet, which is the link of applications that
    /// accept a group, where the configuration has none.
    pub fn with_web_wallet(self, url: &str) -> Self {
        let sign_in = LinkTemplate { before: format!("{url}/sign-in?request="), after: String::new() };
        Self { web_wallet: Some(WebWalletLinks { sign_in, join: format!("{url}/join") }), ..self }
    }

    /// The base of the connector URIs of sign-ins, for a provider at `id_url`.
    pub fn connector_base(&self, id_url: &str) -> String {
        self.connector_base.clone().unwrap_or_else(|| format!("{id_url}/connect"))
    }

    /// Takes over the applications of a configuration that was read again.
    pub fn replace_apps(&self, new: &Self) {
        self.apps.store(new.apps.load_full());
    }

    /// The web wallet, where it is the authenticator of an application: it has the credentials of
    /// groups, whose proofs are legacy ones.
    fn web_wallet_of(&self, app: Option<&Arc<AppLink>>, kind: ProofKind) -> Option<&WebWalletLinks> {
        let is_left = app.is_some_and(|app| app.link.is_none() && app.accepts_group) && self.service.is_none();
        self.web_wallet.as_ref().filter(|_| is_left && kind == ProofKind::Legacy)
    }

    /// Where a person gets the authenticator of an application; `None` where the service does not
    /// have it.
    pub fn joining_page(&self, app_id: &str, kind: ProofKind) -> Option<&str> {
        let apps = self.apps.load();
        self.web_wallet_of(apps.get(app_id), kind).map(|links| links.join.as_str())
    }

    /// How an authenticator gets a request of an application for a proof of this kind.
    pub fn way(&self, app_id: &str, kind: ProofKind, request_url: &str) -> Way {
        let apps = self.apps.load();
        let app = apps.get(app_id);
        if let Some(web_wallet) = self.web_wallet_of(app, kind) {
            return Way::Link(web_wallet.sign_in.to_request(request_url));
        }
        match app.and_then(|app| app.link.as_ref()).or(self.service.as_ref()) {
            Some(WalletLink::Template(template)) => Way::Link(template.to_request(request_url)),
            Some(WalletLink::Bridge) => match app.and_then(|app| app.bridged(kind)) {
                Some(proof) => Way::Bridge(proof),
                None => Way::Link(request_url.to_owned()),
            },
            None => Way::Link(request_url.to_owned()),
        }
    }
}
