//! The message bridge: encrypted requests of applications for authenticators, and their encrypted
//! answers.
//!
//! | file | endpoint |
//! |---|---|
//! | `request.rs` | `POST /request`, `GET` and `HEAD /request/{request_id}` |
//! | `response.rs` | `POST /response`, `PUT`, `GET` and `HEAD /response/{request_id}` |
//! | `error.rs` | the errors, as status and body |

mod error;
mod request;
mod response;

use std::sync::Arc;

use error::BridgeEndpointError;
use hyper::Method;
use selfsame_actors::{BridgeHandle, BridgeSettings};
use selfsame_protocol::bridge::entries::EntryLimits;
use utoipa::{Modify, OpenApi};

use crate::config::{Config, RateLimit};
use crate::http::{Cors, Router, Routes, WAITING_LIMIT};
use crate::interface::Interface;
use crate::{health, openapi};

/// What the bridge's handlers share.
pub struct Bridge {
    /// Keeps the messages.
    pub handle: BridgeHandle,
}

/// The longest body, in bytes: that of the public bridge.
const BODY_LIMIT: usize = 5 << 20;

/// The bridge's routes. Scripts of every origin may call them: applications' pages do.
pub fn routes(handle: BridgeHandle, openapi: openapi::Document) -> Routes {
    let (get, post) = (Method::GET, Method::POST);
    Router::<Bridge, BridgeEndpointError>::new(Interface::Bridge.name(), Arc::new(Bridge { handle }))
        .cors(Some(Cors::Any))
        .reserve(&["/health"])
        .route(post.clone(), "/request", request::create)
        .route(get.clone(), "/request/{request_id}", request::take)
        .route(post, "/response", response::create)
        .route(Method::PUT, "/response/{request_id}", response::answer)
        .route_within(WAITING_LIMIT, get.clone(), "/response/{request_id}", response::take)
        .route(get.clone(), "/health", |_, _| health::health())
        .route(get, "/openapi.json", move |_, _| openapi::answer(openapi.clone()))
        .into()
}

/// The settings of the bridge.
pub fn settings(config: &Config) -> BridgeSettings {
    let limits = EntryLimits { lifetime: config.bridge.lifetime, bytes: config.bridge.memory_mib << 20 };
    BridgeSettings {
        limits,
        per_source: config.limits.bridge_per_source.map(RateLimit::limit),
        followers_per_source: config.limits.followers_per_source,
        waiting_calls: config.limits.in_flight,
    }
}

/// The bridge's description.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Message bridge",
        version = "0.1.4",
        description = "Carries encrypted requests of applications to authenticators, and their encrypted answers back. A request \
            is handed out once; its first answer is taken, and handed out once. Everything is kept in memory, for a quarter of an \
            hour after its last change by default; a restart of the service loses it."
    ),
    paths(
        request::create,
        request::take,
        request::look,
        response::create,
        response::answer,
        response::take,
        response::look,
        health::health,
        openapi::answer,
    ),
    modifiers(&Shared, &Links)
)]
pub struct Description;

/// Describes what all endpoints have in common.
struct Shared;

impl Modify for Shared {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        openapi::describe_rejections::<BridgeEndpointError>(description, "ServiceApiError_BridgeErrorCode");
    }
}

/// Describes what is called with the id of a request.
struct Links;

impl Modify for Links {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let request_id = ("request_id", "$response.body#/request_id");
        for to in ["take_request", "answer_request", "take_response"] {
            openapi::describe_link(description, "create_request", (to, to), request_id);
        }
        openapi::describe_link(description, "create_response", ("take_response", "take_response"), request_id);
    }
}
