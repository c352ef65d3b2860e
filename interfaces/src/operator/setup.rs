//! What the handlers of the operator interface share, and what it is made from.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use selfsame_actors::{Clock, CollectedMetrics, Metrics, Service};
use selfsame_protocol::client_secret::ClientSecret;
use selfsame_protocol::operator::{Restored, Simulation};
use selfsame_protocol::operator_call::{CallAuthorization, CallNonce, OperatorKey, UsedCalls};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::OperatorError;
use super::attention::AttentionList;
use super::daemon_parts::{Build, DaemonParts};
use super::history::{History, NewestBlocks};
use super::maintenance::{ReloadRequests, ReloadStatus};
use super::metrics::{self, DiskRoom};
use crate::event_streams::EventStreams;
use crate::http::{Authorization, Certificate, Request, challenge};

/// The parts from which the operator interface is made.
pub struct Setup {
    /// The actors.
    pub service: Arc<Service>,
    /// Gives the time of a root that is trusted without one.
    pub clock: Arc<dyn Clock>,
    /// Names besides addresses and `localhost` under which the interface answers.
    pub hosts: Vec<String>,
    /// The secret that calls carry, or are signed with.
    pub token: String,
    /// The secret of callers that can only invite members; `None` when no caller but the
    /// operator invites.
    pub invitation_token: Arc<ArcSwapOption<ClientSecret>>,
    /// The base URL of the wallet interface, which links begin with.
    pub wallet_url: String,
    /// Random; no other start of a daemon has the same.
    pub instance: CallNonce,
    /// What `/simulator` answers; `None` unless a key of staging is the simulator's.
    pub simulation: Arc<ArcSwapOption<Simulation>>,
    /// Whether the daemon runs with `--dev`.
    pub is_development: bool,
    /// Whether the daemon is ready only while every followed contract can be used.
    pub ready_needs_chains: bool,
    /// Set when the daemon is about to stop and serves on for a while.
    pub draining: Arc<AtomicBool>,
    /// The data folder.
    pub data: PathBuf,
    /// Where requests to read the configuration again go.
    pub reloads: ReloadRequests,
    /// What came of the last one.
    pub reload_status: ReloadStatus,
    /// The daemon's backups, its cluster, its log, and the nodes of its chains.
    pub parts: Arc<dyn DaemonParts>,
    /// That the store was restored from a backup; `None` when it was not.
    pub restored: Option<Restored>,
    /// The build of the program that runs.
    pub build: Build,
    /// The certificate of the listeners; `None` for plain HTTP.
    pub certificate: Option<Arc<Certificate>>,
}

/// What the operator's handlers share.
pub struct Operator {
    /// When the daemon was started.
    pub started: Instant,
    /// The numbers of the last ten minutes.
    pub history: History,
    /// The newest blocks that were asked for.
    pub newest_blocks: NewestBlocks,
    /// The actors, whose health and statistics the handlers read.
    pub service: Arc<Service>,
    /// Gives the time of a root that is trusted without one.
    pub clock: Arc<dyn Clock>,
    /// Names besides addresses and `localhost` under which the interface answers.
    pub hosts: Vec<String>,
    /// SHA-256 of the token. All hashes have the same length, so the comparison takes the same time
    /// for every text that a client sends.
    pub token_hash: [u8; 32],
    /// The secret of callers that can only invite members. Reloading the configuration replaces it.
    pub invitation_token: Arc<ArcSwapOption<ClientSecret>>,
    /// The base URL of the wallet interface, which links begin with.
    pub wallet_url: String,
    /// The token as the key of signed calls.
    pub key: OperatorKey,
    /// Random, for this start of the daemon: signed calls are good for it alone.
    pub instance: CallNonce,
    /// The signed calls of the last minute.
    pub used_calls: Mutex<UsedCalls>,
    /// What `/simulator` answers; `None` unless a key of staging is the simulator's. Reloading the
    /// configuration replaces it.
    pub simulation: Arc<ArcSwapOption<Simulation>>,
    /// Whether the daemon runs with `--dev`, and so trusts the roots of development wallets.
    pub is_development: bool,
    /// Whether the daemon is ready only while every followed contract can be used.
    pub ready_needs_chains: bool,
    /// Set when the daemon is about to stop and serves on for a while.
    pub draining: Arc<AtomicBool>,
    /// Where requests to read the configuration again go.
    pub reloads: ReloadRequests,
    /// What came of the last one.
    pub reload_status: ReloadStatus,
    /// The daemon's backups, its cluster, its log, and the nodes of its chains.
    pub parts: Arc<dyn DaemonParts>,
    /// That the store was restored from a backup; `None` when it was not.
    pub restored: Option<Restored>,
    /// The build of the program that runs.
    pub build: Build,
    /// The certificate of the listeners; `None` for plain HTTP.
    pub certificate: Option<Arc<Certificate>>,
    /// The room on the disk of the data folder.
    pub disk: Arc<DiskRoom>,
    /// What needs attention, and since when.
    pub attention: AttentionList,
    /// The streams of events.
    pub streams: EventStreams,
    /// Everything that `/metrics` shows.
    pub metrics: Registry,
    /// The part of `metrics` that says whether the daemon is ready; set when it is asked for.
    pub ready: Gauge,
}

impl Operator {
    /// `metrics` and `of_process` hold what the process counts, the HTTP front-end included. The
    /// caller runs `history`.
    pub fn new(setup: Setup, mut metrics: Registry, mut of_process: Metrics, history: History) -> Self {
        let Setup { service, clock, hosts, token, simulation, is_development, ready_needs_chains, certificate, .. } =
            setup;
        let Setup {
            invitation_token,
            wallet_url,
            instance,
            draining,
            data,
            reloads,
            reload_status,
            parts,
            restored,
            build,
            ..
        } = setup;
        reload_status.register(&mut metrics);
        let ready = Gauge::default();
        metrics.register("selfsame_ready", "1 while the daemon can do its work, as /ready says", ready.clone());
        let disk = Arc::new(DiskRoom::new(data));
        let sources = metrics::Sources { parts: Arc::clone(&parts), disk: Arc::clone(&disk), build };
        metrics::register(&mut of_process, sources);
        let collected = CollectedMetrics(vec![Arc::new(of_process), service.metrics()]);
        metrics.register_collector(Box::new(collected));
        let streams = EventStreams::new(service.events());
        let key = OperatorKey::of_token(&token);
        let token_hash = Sha256::digest(token).into();
        Self {
            started: Instant::now(),
            history,
            newest_blocks: NewestBlocks::default(),
            service,
            clock,
            hosts,
            token_hash,
            invitation_token,
            wallet_url,
            key,
            instance,
            used_calls: Mutex::default(),
            simulation,
            is_development,
            ready_needs_chains,
            draining,
            reloads,
            reload_status,
            parts,
            restored,
            build,
            certificate,
            disk,
            attention: AttentionList::default(),
            streams,
            metrics,
            ready,
        }
    }

    /// Refuses a call that has neither the token for invitations nor what
    /// [`Operator::check_caller`] asks for.
    pub(super) fn check_inviter(&self, request: &mut Request) -> Result<(), OperatorError> {
        let is_inviter = {
            let authorization = request.authorization(challenge::BEARER)?;
            let given = authorization.as_ref().and_then(|authorization| authorization.bearer());
            let expected = self.invitation_token.load();
            expected.as_ref().zip(given).is_some_and(|(expected, given)| expected.is(given))
        };
        if is_inviter { Ok(()) } else { self.check_caller(request) }
    }

    /// Refuses a call that neither has the token nor is signed with it. Of a signed call only the
    /// signed body can be read afterwards.
    pub(super) fn check_caller(&self, request: &mut Request) -> Result<(), OperatorError> {
        let signed = match request.authorization(challenge::BEARER)? {
            Some(Authorization::Signed(given)) => Some(given.parse::<CallAuthorization>()?),
            _ => None,
        };
        if let Some(call) = signed {
            let now = self.clock.unix_seconds();
            self.key.check(&call, request.method().as_str(), request.target(), &self.instance, now)?;
            self.used_calls.lock().unwrap_or_else(PoisonError::into_inner).take(&call, now)?;
            request.expect_body(call.body_hash);
            return Ok(());
        }
        let authorization = request.authorization(challenge::BEARER)?;
        let given = authorization.as_ref().and_then(|authorization| authorization.bearer());
        let given: [u8; 32] = Sha256::digest(given.unwrap_or_default()).into();
        if bool::from(given.ct_eq(&self.token_hash)) { Ok(()) } else { Err(OperatorError::Unauthorized) }
    }
}
