//! The operator interface: whether the daemon is alive and ready, how it is doing, and what only
//! the operator may change.
//!
//! | file | endpoint |
//! |---|---|
//! | `ready.rs` | `GET /ready` |
//! | `metrics.rs` | `GET /metrics` |
//! | `actors.rs` | `GET /actors` |
//! | `status.rs` | `GET /status` |
//! | `roots.rs` | `GET` and `POST /roots` |
//! | `keys.rs` | `GET /keys`, `POST /keys/rotate` |
//! | `simulator.rs` | `GET /simulator` |
//! | `page.rs` | `GET /`: a page that shows the status |
//! | `error.rs` | the errors, as status and body |

mod actors;
mod error;
mod keys;
mod metrics;
mod page;
mod ready;
mod roots;
mod simulator;
mod status;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use hyper::Method;
use hyper::header::AUTHORIZATION;
use prometheus_client::registry::Registry;
use selfsame_actors::{Clock, Service};
use selfsame_protocol::operator::Simulation;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::health;
use crate::http::{Request, Router, Routes};
use crate::interface::Interface;
use error::OperatorError;
use metrics::{RegistryMetrics, VerifierMetrics};
pub use simulator::simulation;

/// The parts from which the operator interface is made.
pub struct Setup {
    /// The actors.
    pub service: Arc<Service>,
    /// Gives the time of a root that is trusted without one.
    pub clock: Arc<dyn Clock>,
    /// The secret that changing calls carry.
    pub token: String,
    /// What `/simulator` answers; `None` unless a key of staging is the simulator's.
    pub simulation: Arc<ArcSwapOption<Simulation>>,
}

/// What the operator's handlers share.
pub struct Operator {
    service: Arc<Service>,
    clock: Arc<dyn Clock>,
    /// SHA-256 of the token. All hashes have the same length, so the comparison takes the same time
    /// for every text that a client sends.
    token_hash: [u8; 32],
    simulation: Arc<ArcSwapOption<Simulation>>,
    /// Everything that `/metrics` shows. The numbers of registry and verifier are set when it is
    /// called.
    metrics: Registry,
    registry_metrics: RegistryMetrics,
    verifier_metrics: VerifierMetrics,
}

impl Operator {
    /// `metrics` holds what the HTTP front-end counts.
    pub fn new(setup: Setup, mut metrics: Registry) -> Self {
        let Setup { service, clock, token, simulation } = setup;
        let registry_metrics = RegistryMetrics::register(&mut metrics);
        let verifier_metrics = VerifierMetrics::register(&mut metrics);
        let token_hash = Sha256::digest(token).into();
        Self { service, clock, token_hash, simulation, metrics, registry_metrics, verifier_metrics }
    }

    /// Refuses a changing call without the token.
    fn check_token(&self, request: &Request) -> Result<(), OperatorError> {
        let given = request.header(&AUTHORIZATION)?.and_then(|value| value.strip_prefix("Bearer "));
        let given: [u8; 32] = Sha256::digest(given.unwrap_or_default()).into();
        if bool::from(given.ct_eq(&self.token_hash)) { Ok(()) } else { Err(OperatorError::Unauthorized) }
    }
}

/// The operator's routes.
pub fn routes(operator: Arc<Operator>) -> Routes {
    Router::<Operator, OperatorError>::new(Interface::Operator.name(), operator)
        .route(Method::GET, "/health", |_, _| health::health())
        .route(Method::GET, "/ready", ready::ready)
        .route(Method::GET, "/metrics", metrics::metrics)
        .route(Method::GET, "/actors", actors::actors)
        .route(Method::GET, "/status", status::status)
        .route(Method::GET, "/roots", roots::list)
        .route(Method::POST, "/roots", roots::add)
        .route(Method::GET, "/keys", keys::list)
        .route(Method::POST, "/keys/rotate", keys::rotate)
        .route(Method::GET, "/simulator", simulator::simulator)
        .route(Method::GET, "/", |_, _| page::page())
        .route(Method::GET, "/page.js", |_, _| page::script())
        .route(Method::GET, "/page.css", |_, _| page::style())
        .into()
}
