//! The description of the interface (`/openapi.json`).

use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::error::OperatorError;
use super::{
    actors, apps, backups, blocks, challenge, cluster, events, history, keys, metrics, page, ready, reload, roots,
    simulator, status, webhooks,
};
use crate::{health, openapi};

/// The interface's description.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Operator interface",
        version = "0.1.4",
        description = "How the daemon is doing, and what only the operator may change. Calls need the operator's token, but for probes, \
            metrics, the simulator and the page. `Host` is an address, `localhost` or a name of `operator.hosts`, and `Origin`, if there \
            is one, the same."
    ),
    paths(
        health::health,
        ready::ready,
        metrics::metrics,
        actors::actors,
        challenge::challenge,
        status::status,
        history::history,
        blocks::blocks,
        apps::apps,
        roots::list,
        roots::add,
        roots::remove,
        keys::list,
        keys::rotate,
        keys::revoke,
        reload::reload,
        backups::list,
        backups::begin,
        backups::one,
        cluster::remove,
        events::events,
        webhooks::list,
        webhooks::dead_letters,
        webhooks::retry,
        webhooks::discard,
        simulator::simulator,
        simulator::trust_root,
        page::page,
        page::script,
        page::curves,
        page::style,
        openapi::answer,
    ),
    modifiers(&OperatorToken, &Shared)
)]
pub struct Description;

/// Describes the operator's token.
struct OperatorToken;

impl Modify for OperatorToken {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let mut token = Http::new(HttpAuthScheme::Bearer);
        token.description = Some(
            "The token in the file `operator.token` of the data folder. In its place a call may be signed \
            with it: see `/challenge`"
                .to_owned(),
        );
        let scheme = SecurityScheme::Http(token);
        description.components.get_or_insert_default().add_security_scheme("operatorToken", scheme);
    }
}

/// Describes what all endpoints have in common.
struct Shared;

impl Modify for Shared {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        openapi::describe_rejections::<OperatorError>(description, "ServiceApiError_String");
    }
}
