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
//! | `keys.rs` | `GET /keys`, `POST /keys/rotate`, `POST /keys/revoke` |
//! | `simulator.rs` | `GET /simulator` |
//! | `page.rs` | `GET /`: a page that shows the status |
//! | `error.rs` | the errors, as status and body |

mod actors;
mod error;
mod keys;
mod metric_groups;
mod metrics;
mod page;
mod ready;
mod roots;
mod simulator;
mod state;
mod status;

use std::sync::Arc;

use error::OperatorError;
use hyper::Method;
pub use simulator::simulation;
pub use state::{Operator, Setup};

use crate::health;
use crate::http::{Router, Routes};
use crate::interface::Interface;

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
        .route(Method::POST, "/keys/revoke", keys::revoke)
        .route(Method::GET, "/simulator", simulator::simulator)
        .route(Method::GET, "/", |_, _| page::page())
        .route(Method::GET, "/page.js", |_, _| page::script())
        .route(Method::GET, "/page.css", |_, _| page::style())
        .into()
}
