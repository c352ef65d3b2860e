//! What the handlers of the operator interface share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwapOption;
use hyper::header::AUTHORIZATION;
use prometheus_client::registry::Registry;
use selfsame_actors::{Clock, Service};
use selfsame_protocol::operator::{Restored, Simulation};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::chain_metrics::{ChainMetrics, FollowedNode};
use super::error::OperatorError;
use super::metric_groups::{BackupMetrics, RegistryMetrics, SignInMetrics, SourceLimitMetrics, VerifierMetrics};
use super::reload_status::{ReloadRequests, ReloadStatus};
use crate::backup::jobs::Backups;
use crate::http::{Metrics, Request};

/// The parts from which the operator interface is made.
pub struct Setup {
    /// The actors.
    pub service: Arc<Service>,
    /// Gives the time of a root that is trusted without one.
    pub clock: Arc<dyn Clock>,
    /// Names besides addresses and `localhost` under which the interface answers.
    pub hosts: Vec<String>,
    /// The secret that calls carry.
    pub token: String,
    /// What `/simulator` answers; `None` unless a key of staging is the simulator's.
    pub simulation: Arc<ArcSwapOption<Simulation>>,
    /// Whether the daemon runs with `--dev`.
    pub is_development: bool,
    /// Whether the daemon is ready only while every followed contract can be used.
    pub ready_needs_chains: bool,
    /// Set when the daemon is about to stop and serves on for a while.
    pub draining: Arc<AtomicBool>,
    /// The nodes of the followed chains.
    pub nodes: Vec<FollowedNode>,
    /// Where requests to read the configuration again go.
    pub reloads: ReloadRequests,
    /// What came of the last one.
    pub reload_status: ReloadStatus,
    /// The daemon's backups.
    pub backups: Arc<Backups>,
    /// That the store was restored from a backup; `None` when it was not.
    pub restored: Option<Restored>,
}

/// What the operator's handlers share.
pub struct Operator {
    /// The actors, whose health and statistics the handlers read.
    pub service: Arc<Service>,
    /// Gives the time of a root that is trusted without one.
    pub clock: Arc<dyn Clock>,
    /// Names besides addresses and `localhost` under which the interface answers.
    pub hosts: Vec<String>,
    /// SHA-256 of the token. All hashes have the same length, so the comparison takes the same time
    /// for every text that a client sends.
    pub token_hash: [u8; 32],
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
    /// The daemon's backups.
    pub backups: Arc<Backups>,
    /// That the store was restored from a backup; `None` when it was not.
    pub restored: Option<Restored>,
    /// Everything that `/metrics` shows. The numbers of registry, verifier and sign-in are set when
    /// it is called.
    pub metrics: Registry,
    /// The registry's part of `metrics`.
    pub registry_metrics: RegistryMetrics,
    /// The verifier's part of `metrics`.
    pub verifier_metrics: VerifierMetrics,
    /// The part of `metrics` about sign-in.
    pub sign_in_metrics: SignInMetrics,
    /// The part of `metrics` about backups.
    pub backup_metrics: BackupMetrics,
    /// The part of `metrics` about limits of one source.
    pub source_limit_metrics: SourceLimitMetrics,
    /// The part of `metrics` about what is followed from chains.
    pub chain_metrics: ChainMetrics,
}

impl Operator {
    /// `metrics` holds what the HTTP front-end counts, in the counters of `http_metrics`.
    pub fn new(setup: Setup, mut metrics: Registry, http_metrics: &Metrics) -> Self {
        let Setup { service, clock, hosts, token, simulation, is_development, ready_needs_chains, .. } = setup;
        let Setup { draining, nodes, reloads, reload_status, backups, restored, .. } = setup;
        reload_status.register(&mut metrics);
        let registry_metrics = RegistryMetrics::register(&mut metrics);
        let verifier_metrics = VerifierMetrics::register(&mut metrics);
        let sign_in_metrics = SignInMetrics::register(&mut metrics);
        let backup_metrics = BackupMetrics::register(&mut metrics);
        let source_limit_metrics = SourceLimitMetrics::register(http_metrics);
        let chain_metrics = ChainMetrics::register(&mut metrics, nodes);
        let token_hash = Sha256::digest(token).into();
        Self {
            service,
            clock,
            hosts,
            token_hash,
            simulation,
            is_development,
            ready_needs_chains,
            draining,
            reloads,
            reload_status,
            backups,
            restored,
            metrics,
            registry_metrics,
            verifier_metrics,
            sign_in_metrics,
            backup_metrics,
            source_limit_metrics,
            chain_metrics,
        }
    }

    /// Refuses a call without the token.
    pub fn check_token(&self, request: &Request) -> Result<(), OperatorError> {
        let given = request.header(&AUTHORIZATION)?.and_then(|value| value.strip_prefix("Bearer "));
        let given: [u8; 32] = Sha256::digest(given.unwrap_or_default()).into();
        if bool::from(given.ct_eq(&self.token_hash)) { Ok(()) } else { Err(OperatorError::Unauthorized) }
    }
}
