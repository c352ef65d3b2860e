//! The operator interface: whether the daemon is alive and ready, how it is doing, and what only
//! the operator may change.
//!
//! | file | endpoint |
//! |---|---|
//! | `ready.rs` | `GET /ready` |
//! | `metrics.rs` | `GET /metrics` |
//! | `actors.rs` | `GET /actors` |
//! | `status.rs` | `GET /status` |
//! | `attention.rs` | its `attention`: what fails, since when, and what to do |
//! | `history.rs` | `GET /history` |
//! | `blocks.rs` | `GET /blocks` |
//! | `apps.rs` | `GET /apps` |
//! | `roots.rs` | `GET` and `POST /roots` |
//! | `keys.rs` | `GET /keys`, `POST /keys/rotate`, `POST /keys/revoke` |
//! | `reload.rs` | `POST /reload` |
//! | `backups.rs` | `GET` and `POST /backups`, `GET /backups/{id}` |
//! | `cluster.rs` | `POST /cluster/remove` |
//! | `events.rs` | `GET /events`: all events, as a stream |
//! | `webhooks.rs` | `GET /webhooks`, and what they have not accepted |
//! | `simulator.rs` | `GET /simulator` |
//! | `page.rs` | `GET /`: a page that shows the status |
//! | `error.rs` | the errors, as status and body |
//! | `description.rs` | the interface's description |

mod access;
mod actors;
mod apps;
mod attention;
mod backups;
mod blocks;
mod challenge;
mod cluster;
mod description;
mod error;
mod events;
mod history;
mod keys;
mod metric_groups;
mod metrics;
mod newest_blocks;
mod own_cluster;
mod page;
mod ready;
mod recorder;
mod reload;
mod reload_status;
mod roots;
mod simulator;
mod state;
mod status;
mod webhooks;

use std::sync::Arc;

use access::{with_token, without_token};
pub use description::Description;
use error::OperatorError;
use hyper::Method;
pub use metric_groups::FollowedNode;
pub use own_cluster::OwnCluster;
pub use ready::public_ready;
pub use recorder::{History, HistorySources};
pub use reload_status::{ReloadRequest, ReloadStatus};
pub use simulator::simulation;
pub use state::{Operator, Setup};
pub use status::watch_attention;

use crate::http::{Router, Routes};
use crate::interface::Interface;
use crate::{health, openapi};

/// The operator's routes.
pub fn routes(operator: Arc<Operator>, openapi: openapi::Document) -> Routes {
    Router::<Operator, OperatorError>::new(Interface::Operator.name(), operator)
        .reserve(&["/health", "/ready", "/metrics"])
        .without_proxy()
        // Probes and Prometheus call these by any name and without a token.
        .route(Method::GET, "/health", |_, _| health::health())
        .route(Method::GET, "/ready", ready::ready)
        .route(Method::GET, "/metrics", metrics::metrics)
        .route(Method::GET, "/actors", with_token(actors::actors))
        .route(Method::GET, "/status", with_token(status::status))
        .route(Method::GET, "/history", with_token(history::history))
        .route(Method::GET, "/blocks", with_token(blocks::blocks))
        .route(Method::GET, "/apps", with_token(apps::apps))
        .route(Method::GET, "/roots", with_token(roots::list))
        .route(Method::POST, "/roots", with_token(roots::add))
        .audited("root_trusted")
        .route(Method::POST, "/roots/remove", with_token(roots::remove))
        .audited("root_removed")
        .route(Method::GET, "/keys", with_token(keys::list))
        .route(Method::POST, "/keys/rotate", with_token(keys::rotate))
        .audited("keys_rotated")
        .route(Method::POST, "/keys/revoke", with_token(keys::revoke))
        .audited("key_revoked")
        .route(Method::POST, "/reload", with_token(reload::reload))
        .audited("configuration_reloaded")
        .route(Method::GET, "/backups", with_token(backups::list))
        .route(Method::POST, "/backups", with_token(backups::begin))
        .audited("backup_begun")
        .route_within(backups::TIME_LIMIT, Method::GET, "/backups/{id}", with_token(backups::one))
        .route(Method::POST, "/cluster/remove", with_token(cluster::remove))
        .audited("replica_removed")
        .route(Method::GET, "/events", with_token(events::events))
        .route(Method::GET, "/webhooks", with_token(webhooks::list))
        .route(Method::GET, "/webhooks/{id}/dead-letters", with_token(webhooks::dead_letters))
        .route(Method::POST, "/webhooks/{id}/dead-letters/retry", with_token(webhooks::retry))
        .audited("dead_letters_retried")
        .route(Method::POST, "/webhooks/{id}/dead-letters/discard", with_token(webhooks::discard))
        .audited("dead_letters_discarded")
        .route(Method::GET, "/challenge", without_token(challenge::challenge))
        .route(Method::GET, "/simulator", without_token(simulator::simulator))
        .route(Method::POST, "/simulator/roots", with_token(simulator::trust_root))
        .audited("root_trusted")
        .route(Method::GET, "/", without_token(|_, _| page::page()))
        .route(Method::GET, "/page.js", without_token(|_, _| page::script()))
        .route(Method::GET, "/curves.js", without_token(|_, _| page::curves()))
        .route(Method::GET, "/page.css", without_token(|_, _| page::style()))
        .route(Method::GET, "/openapi.json", without_token(move |_, _| openapi::answer(openapi.clone())))
        .into()
}
