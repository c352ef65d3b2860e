//! The routes of the interfaces that others than the operator call, for the daemon's own servers
//! and for a host's.

use std::sync::Arc;

use arc_swap::ArcSwap;
use selfsame_actors::Service;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Description;

use crate::config::PublicUrls;
use crate::gateway::{self, CreationPolicy, Gateway};
use crate::http::{Cors, Routes};
use crate::interface::Interface;
use crate::sign_in::{self, SignIn};
use crate::{bridge, indexer, openapi, operator, verification};

/// What the routes are made from.
pub(crate) struct PublicInterfaces<'a> {
    pub service: &'a Service,
    pub urls: &'a PublicUrls,
    pub cors: &'a Cors,
    pub creation: &'a Arc<ArcSwap<CreationPolicy>>,
    pub sign_in: &'a Arc<SignIn>,
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
            Interface::Operator => return None,
        };
        Some(routes.called_by_https(urls[interface].starts_with("https://")))
    }
}

/// The OpenAPI description of an interface.
pub(crate) fn describe(interface: Interface) -> Description {
    match interface {
        Interface::Verification => verification::Description::openapi(),
        Interface::Gateway => gateway::Description::openapi(),
        Interface::Indexer => indexer::Description::openapi(),
        Interface::Bridge => bridge::Description::openapi(),
        Interface::SignIn => sign_in::Description::openapi(),
        Interface::Operator => operator::Description::openapi(),
    }
}
