//! The routes of the interfaces that others than the operator call, for the daemon's own servers,
//! and for a host's: the interfaces of a service that a host starts itself.
//!
//! `docs/mounting.md` is the guide.

use std::sync::Arc;

use arc_swap::ArcSwap;
use prometheus_client::registry::Registry;
use selfsame_actors::{Clock, Metrics as AllMetrics, Random, Service, SystemClock, SystemRandom};
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Description;

use crate::event_streams::EventStreams;
use crate::gateway::{self, CreationPolicy, Gateway};
use crate::http::{
    AccessLog, AllowedOrigins, AuditTrail, Cors, Limits, Metrics, Mounted, MountedParts, RouteError, Routes, Site,
    shutdown,
};
use crate::interface::{Interface, PerInterface, PublicUrls};
use crate::sign_in::appearance::Appearance;
use crate::sign_in::bridged::OwnBridge;
use crate::sign_in::wallet_links::WalletLinks;
use crate::sign_in::{self, SignIn};
use crate::web_wallet::WebWallet;
use crate::{bridge, indexer, openapi, operator, verification, wallet};

/// What the routes are made from.
pub struct PublicInterfaces<'a> {
    /// The actors.
    pub service: &'a Service,
    /// The base URL of each interface.
    pub urls: &'a PublicUrls,
    /// Which pages of other origins may read answers.
    pub cors: &'a Cors,
    /// Who may create accounts.
    pub creation: &'a Arc<ArcSwap<CreationPolicy>>,
    /// The provider.
    pub sign_in: &'a Arc<SignIn>,
    /// The page of the web wallet; `None` where it is not served.
    pub web_wallet: Option<&'a WebWallet>,
}

impl PublicInterfaces<'_> {
    /// The routes of an interface; `None` for the operator's. Without `has_front_page` sign-in
    /// leaves `/` to another interface. `description` is the OpenAPI document that it shows.
    pub fn routes(
        &self,
        interface: Interface,
        has_front_page: bool,
        description: &openapi::Document,
    ) -> Option<Routes> {
        let Self { service, urls, sign_in, .. } = self;
        let (description, cors) = (description.clone(), Some(self.cors.clone()));
        let routes = match interface {
            Interface::SignIn => sign_in::routes(Arc::clone(sign_in), has_front_page, description),
            Interface::Verification => {
                let (appearance, id_url) = (Arc::clone(&sign_in.appearance), urls[Interface::SignIn].clone());
                let logo_url = Arc::new(move |app_id: &str| appearance.logo_url(&id_url, app_id));
                verification::routes(service, logo_url, description, cors)
            }
            Interface::Gateway => {
                let (registry, creation) = (service.registry(), Arc::clone(self.creation));
                gateway::routes(Gateway { registry, creation }, description, cors)
            }
            Interface::Indexer => indexer::routes(service.registry(), description, cors),
            Interface::Bridge => bridge::routes(service.bridge(), description),
            Interface::Wallet => wallet::routes(service.groups(), self.web_wallet, description),
            Interface::Operator => return None,
        };
        Some(routes.called_by_https(urls[interface].starts_with("https://")))
    }
}

/// The OpenAPI description of an interface.
pub fn describe(interface: Interface) -> Description {
    match interface {
        Interface::Verification => verification::Description::openapi(),
        Interface::Gateway => gateway::Description::openapi(),
        Interface::Indexer => indexer::Description::openapi(),
        Interface::Bridge => bridge::Description::openapi(),
        Interface::Wallet => wallet::Description::openapi(),
        Interface::SignIn => sign_in::Description::openapi(),
        Interface::Operator => operator::Description::openapi(),
    }
}

/// What is mounted, and how.
pub struct MountSettings {
    /// The interfaces. A path that two of them have belongs to the first.
    pub interfaces: Vec<Interface>,
    /// The base URL of each interface as clients see it, without a trailing slash. The issuer of
    /// sign-in is in [`selfsame_actors::SignInSettings::provider`] and must be the same as the URL
    /// here.
    pub urls: PublicUrls,
    /// Which pages of other origins may read answers of verification, gateway and indexer.
    pub cors: Cors,
    /// Who may create accounts.
    pub creation: CreationPolicy,
    /// What clients may hold. Those about connections and heads are the host's to enforce.
    pub limits: Limits,
    /// Whether each request has a line in the log.
    pub access_log: AccessLog,
    /// Hashes the persons in the audit trail, which is a part of the log; random when it is `None`.
    pub audit_key: Option<[u8; 32]>,
    /// Whose pages end users see at sign-in.
    pub appearance: Appearance,
    /// How sign-in opens authenticators.
    pub wallet_links: WalletLinks,
    /// The page of the web wallet, for a wallet interface that is mounted at an origin of its own:
    /// it keeps the secrets of members.
    pub web_wallet: Option<WebWallet>,
    /// The clock of the service.
    pub clock: Arc<dyn Clock>,
    /// Draws request ids, and the keys of sign-ins over the message bridge.
    pub random: Arc<dyn Random>,
}

impl MountSettings {
    /// These interfaces at one URL, with the defaults of the daemon for everything else: no page of
    /// another origin may read answers, and every client may create accounts.
    pub fn at(url: &str, interfaces: impl Into<Vec<Interface>>) -> Self {
        Self {
            interfaces: interfaces.into(),
            urls: PerInterface::from_fn(|_| url.trim_end_matches('/').to_owned()),
            cors: Cors::Origins(AllowedOrigins::default()),
            creation: CreationPolicy::Open,
            limits: Limits::default(),
            access_log: AccessLog::default(),
            audit_key: None,
            appearance: Appearance::default(),
            wallet_links: WalletLinks::default(),
            web_wallet: None,
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
        }
    }
}

/// Why interfaces cannot be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The operator interface shows and changes what belongs to the daemon: its configuration, its
    /// backups, its listeners.
    #[error("the operator interface cannot be mounted: it is a part of the daemon")]
    Operator,
    /// There is no interface, or their routes contradict each other.
    #[error(transparent)]
    Routes(#[from] RouteError),
}

/// Makes the interfaces of a running service a service value for the server of a host.
///
/// The value has handles of the service: drop it before [`Service::stop`], and make a new one when
/// the service was started again.
///
/// # Errors
/// [`MountError`].
pub fn mount(service: &Service, settings: MountSettings) -> Result<Mounted, MountError> {
    let MountSettings {
        interfaces,
        urls,
        cors,
        creation,
        limits,
        access_log,
        audit_key,
        appearance,
        wallet_links,
        web_wallet,
        clock,
        random,
    } = settings;
    let audit_key = audit_key.unwrap_or_else(|| {
        let mut key = [0; 32];
        random.fill(&mut key);
        key
    });
    // Nothing shows these counts; the numbers of the service are in `Service::report_metrics`.
    let metrics = Metrics::register(&mut AllMetrics::default());
    let audit = Arc::new(AuditTrail::register(audit_key, Arc::clone(&clock), &mut Registry::default()));
    let (trigger, shutdown) = shutdown();
    let bridge = OwnBridge {
        handle: service.bridge(),
        url: urls[Interface::Bridge].clone(),
        connector_base: wallet_links.connector_base(&urls[Interface::SignIn]),
        random: Arc::clone(&random),
        clock,
        audit: Arc::clone(&audit),
        shutdown: shutdown.clone(),
    };
    let sign_in = Arc::new(SignIn {
        handle: service.sign_in(),
        appearance: Arc::new(appearance),
        links: Arc::new(wallet_links),
        bridge: Arc::new(bridge),
        streams: EventStreams::new(service.events()),
    });
    let creation = Arc::new(ArcSwap::from_pointee(creation));
    let public = PublicInterfaces {
        service,
        urls: &urls,
        cors: &cors,
        creation: &creation,
        sign_in: &sign_in,
        web_wallet: web_wallet.as_ref(),
    };
    let description = openapi::document(interfaces.iter().map(|interface| describe(*interface)));
    let routes = interfaces.iter().map(|interface| public.routes(*interface, true, &description));
    let routes = routes.collect::<Option<Vec<_>>>().ok_or(MountError::Operator)?;
    let site = Site::new(routes, &metrics)?;
    let random = Box::new(move |bytes: &mut [u8]| random.fill(bytes));
    Ok(Mounted::new(MountedParts { site, limits, random, audit, access_log, metrics, trigger, shutdown }))
}
