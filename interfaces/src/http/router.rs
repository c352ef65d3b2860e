//! Routing: finds the handler for a method and a path.
//!
//! Each interface builds one [`Router`]. Interfaces that share a listening address become one
//! [`Site`], in the order they are given: a path belongs to the first interface that has it. An
//! interface that should answer for several of them (`/health`, `/openapi.json`) therefore goes
//! first. An unknown path is refused in the style of the first interface that has a route with the
//! same first segment, else in the style of the first interface.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::Method;
use hyper::header::HeaderValue;

use super::audit::AuditedRoute;
use super::metrics::{Metrics, RouteMetrics};
use super::request::Request;
use super::response::{self, Cors, InterfaceError, Rejection, Response, reject};

/// The route label of requests for unknown paths.
pub(super) const UNMATCHED: &str = "unmatched";

/// How much of an unknown path its rejection repeats, in characters.
const SHOWN_PATH: usize = 200;

type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;
type Handler = Box<dyn Fn(Request) -> Answer + Send + Sync>;
/// A handler of a [`Router`].
type StateHandler<S, E> = dyn Fn(Arc<S>, Request) -> BoxFuture<'static, Result<Response, E>> + Send + Sync;

/// The routes of one interface, whose handlers share the state `S` and fail with `E`.
///
/// A handler is `async fn(Arc<S>, Request) -> Result<Response, E>`. Its future is dropped when the
/// client closes its connection and when the time limit is over, so work that must not stop halfway
/// belongs into an actor and not into a handler.
pub struct Router<S, E> {
    routes: Routes,
    state: Arc<S>,
    /// See [`Router::before`].
    before: Option<fn(&Arc<S>, &Request) -> Before>,
    error: PhantomData<fn() -> E>,
}

/// What happens before a handler: nothing, or something that it waits for, or a rejection.
pub type Before = Result<Option<BoxFuture<'static, Result<(), Rejection>>>, Rejection>;

/// Makes a page of an answer that is an error, for a browser; see [`Router::error_pages`].
pub type ErrorPage = Box<dyn Fn(Response) -> Response + Send + Sync>;

/// Says whether a request is a browser's, which gets its errors as pages.
type MakeErrorPage = Box<dyn Fn(&Request) -> Option<ErrorPage> + Send + Sync>;

/// The routes of one interface: a finished [`Router`], its types erased.
pub struct Routes {
    pub(super) name: &'static str,
    pub(super) cors: Option<Cors>,
    /// Renders a rejection in this interface's style.
    pub(super) reject: fn(Rejection) -> Response,
    /// See [`Router::error_pages`].
    error_page: Option<MakeErrorPage>,
    routes: Vec<(&'static str, Route)>,
    /// Whether clients call the interface by HTTPS; see [`Routes::called_by_https`].
    pub(super) is_https: bool,
    /// Whether clients call the interface without a proxy; see [`Router::without_proxy`].
    pub(super) is_called_directly: bool,
    /// Whether the log and the audit trail name no sources; see [`Router::without_sources`].
    pub(super) hides_sources: bool,
    /// Paths that scripts of every origin may call, independently of `cors`.
    open: &'static [&'static str],
    /// Paths that may use the reserve of connections, requests and bodies.
    reserved: Vec<&'static str>,
    /// An event that was given before the first route.
    stray_event: Option<&'static str>,
}

/// One method of one path.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) handler: Handler,
    /// `None` stands for the request timeout.
    pub(super) time_limit: Option<Duration>,
    /// `None` for a route without audit events.
    pub(super) audited: Option<AuditedRoute>,
}

impl<S: Send + Sync + 'static, E: InterfaceError> Router<S, E> {
    /// A router without routes. `name` appears in logs and metrics.
    pub fn new(name: &'static str, state: Arc<S>) -> Self {
        let reject = |rejection| reject(E::from(rejection));
        let routes = Routes {
            name,
            cors: None,
            reject,
            error_page: None,
            routes: Vec::new(),
            is_https: false,
            is_called_directly: false,
            hides_sources: false,
            open: &[],
            reserved: Vec::new(),
            stray_event: None,
        };
        Self { routes, state, before: None, error: PhantomData }
    }

    /// What the routes that are added later do before their handlers.
    pub fn before(mut self, before: fn(&Arc<S>, &Request) -> Before) -> Self {
        self.before = Some(before);
        self
    }

    /// What becomes of errors for the browser that sent a request: `page` keeps what it needs of
    /// the request, before a handler takes it; `None` for a client that is no browser. What `page`
    /// returns gets every answer of the interface, also those for unknown paths.
    pub fn error_pages(mut self, page: fn(&Arc<S>, &Request) -> Option<ErrorPage>) -> Self {
        let state = Arc::clone(&self.state);
        self.routes.error_page = Some(Box::new(move |request| page(&state, request)));
        self
    }

    /// Grants browsers of other origins access; `None` grants none.
    pub fn cors(mut self, cors: Option<Cors>) -> Self {
        self.routes.cors = cors;
        self
    }

    /// Grants browsers of every origin access to these paths, their errors and their `OPTIONS`
    /// included.
    pub fn open_to_all(mut self, patterns: &'static [&'static str]) -> Self {
        self.routes.open = patterns;
        self
    }

    /// Keeps a share of the connections, open requests and bodies of the listener for these paths.
    /// Their requests must end soon.
    pub fn reserve(mut self, patterns: &'static [&'static str]) -> Self {
        self.routes.reserved = patterns.to_vec();
        self
    }

    /// Says that clients call the interface without a proxy, also from an address that is trusted
    /// as one. A missing name of the client is then no cause for a warning.
    pub fn without_proxy(mut self) -> Self {
        self.routes.is_called_directly = true;
        self
    }

    /// Keeps the sources of requests, also their networks, out of the access log and of the audit
    /// trail: a time and an address would say who did what.
    pub fn without_sources(mut self) -> Self {
        self.routes.hides_sources = true;
        self
    }

    /// Adds a handler, bounded by the request timeout. In `pattern` a whole segment may be a
    /// parameter, as in `/status/{request_id}`. A route of `GET` also answers `HEAD`.
    pub fn route<F, Fut>(self, method: Method, pattern: &'static str, handler: F) -> Self
    where
        F: Fn(Arc<S>, Request) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Response, E>> + Send + 'static,
    {
        self.route_within(None, method, pattern, handler)
    }

    /// Adds a handler with a time limit of its own, for example a long poll.
    pub fn route_within<F, Fut>(
        mut self,
        time_limit: impl Into<Option<Duration>>,
        method: Method,
        pattern: &'static str,
        handler: F,
    ) -> Self
    where
        F: Fn(Arc<S>, Request) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Response, E>> + Send + 'static,
    {
        let handler = Arc::new(move |state, request| handler(state, request).boxed());
        let route = Route { method, handler: self.handled(handler), time_limit: time_limit.into(), audited: None };
        self.routes.routes.push((pattern, route));
        self
    }

    /// A handler with what is done before it and with what becomes of its errors. This does not
    /// depend on the handler's type, and so it is compiled once for an interface.
    fn handled(&self, handler: Arc<StateHandler<S, E>>) -> Handler {
        let (state, before) = (self.state.clone(), self.before);
        Box::new(move |request| {
            let notes = request.audit().clone();
            let answer = match before.map_or(Ok(None), |before| before(&state, &request)) {
                Err(rejection) => std::future::ready(Err(E::from(rejection))).boxed(),
                Ok(None) => handler(state.clone(), request),
                Ok(Some(waiting)) => {
                    let (handler, state) = (Arc::clone(&handler), state.clone());
                    async move {
                        waiting.await?;
                        handler(state, request).await
                    }
                    .boxed()
                }
            };
            Box::pin(answer.map(move |result| {
                result.unwrap_or_else(|error| {
                    notes.reason(|| error.reason());
                    reject(error)
                })
            }))
        })
    }

    /// Every request to the route that was added last has an event in the audit trail, also one
    /// that is refused before its handler runs.
    pub fn audited(self, event: &'static str) -> Self {
        self.audited_as(AuditedRoute::new(event, false))
    }

    /// Every request to the route that was added last has an event in the audit trail, unless it is
    /// answered with success.
    pub fn audited_refusals(self, event: &'static str) -> Self {
        self.audited_as(AuditedRoute::new(event, true))
    }

    /// Every answer of the route that was added last says that it is deprecated, refusals by its
    /// handler included.
    pub fn deprecated(mut self) -> Self {
        if let Some((pattern, route)) = self.routes.routes.pop() {
            let Route { handler, .. } = route;
            let handler: Handler = Box::new(move |request| Box::pin(handler(request).map(response::mark_deprecated)));
            self.routes.routes.push((pattern, Route { handler, ..route }));
        }
        self
    }

    fn audited_as(mut self, audited: AuditedRoute) -> Self {
        match self.routes.routes.last_mut() {
            Some((_, route)) => route.audited = Some(audited),
            None => self.routes.stray_event = Some(audited.event),
        }
        self
    }
}

impl Routes {
    /// What becomes of errors for the client that sends a request.
    pub(super) fn error_page(&self, request: &Request) -> Option<ErrorPage> {
        self.error_page.as_ref().and_then(|page| page(request))
    }

    /// Says whether clients call the interface by HTTPS. Its answers then tell browsers never to
    /// call it otherwise (RFC 6797).
    pub fn called_by_https(mut self, is_https: bool) -> Self {
        self.is_https = is_https;
        self
    }
}

impl Routes {
    /// Adds a route for probes, which may use the reserve.
    pub fn with_probe<F, Fut>(mut self, pattern: &'static str, handler: F) -> Self
    where
        F: Fn(Request) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Response> + Send + 'static,
    {
        let handler: Handler = Box::new(move |request| Box::pin(handler(request)));
        self.routes.push((pattern, Route { method: Method::GET, handler, time_limit: None, audited: None }));
        self.reserved.push(pattern);
        self
    }

    /// Checks that every pattern that has a property is a route, and every event has one: a typo
    /// would switch a protection off.
    fn check_patterns(&self) -> Result<(), RouteError> {
        let is_route = |pattern: &str| self.routes.iter().any(|(routed, _)| *routed == pattern);
        let patterns = self.open.iter().chain(&self.reserved).copied();
        match patterns.chain(self.stray_event).find(|pattern| !is_route(pattern)) {
            Some(pattern) => Err(RouteError::Unrouted { interface: self.name, pattern }),
            None => Ok(()),
        }
    }
}

impl<S, E> From<Router<S, E>> for Routes {
    fn from(router: Router<S, E>) -> Self {
        router.routes
    }
}

/// Routes that contradict each other or are malformed: an error in the program.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// An interface routes a method of a path twice.
    #[error("{interface}: {method} {pattern} is routed twice")]
    Duplicate {
        /// Name of the interface, as in logs and metrics.
        interface: &'static str,
        /// The method that is routed twice.
        method: Method,
        /// The path with its parameters, as it was given to [`Router::route`].
        pattern: &'static str,
    },
    /// A parameter is only a part of a segment.
    #[error("{interface}: a parameter in {pattern} is not a whole segment")]
    Parameter {
        /// Name of the interface, as in logs and metrics.
        interface: &'static str,
        /// The path with its parameters, as it was given to [`Router::route`].
        pattern: &'static str,
    },
    /// A pattern is malformed, or conflicts with another pattern.
    #[error("{interface}: {pattern}: {source}")]
    Pattern {
        /// Name of the interface, as in logs and metrics.
        interface: &'static str,
        /// The path with its parameters, as it was given to [`Router::route`].
        pattern: &'static str,
        /// Why the router of paths does not take the pattern.
        source: matchit::InsertError,
    },
    /// A pattern of [`Router::reserve`] or [`Router::open_to_all`] is not a route of its interface,
    /// or an event of [`Router::audited`] stands before the first route.
    #[error("{interface}: {pattern} is not a route")]
    Unrouted {
        /// Name of the interface, as in logs and metrics.
        interface: &'static str,
        /// The pattern, or the event.
        pattern: &'static str,
    },
    /// A site has no interface.
    #[error("an address needs at least one interface")]
    NoInterface,
}

/// Everything that is served at one address.
pub struct Site {
    interfaces: Vec<Routes>,
    /// For each interface, what is counted for unknown paths.
    unmatched: Vec<RouteMetrics>,
    endpoints: Vec<Endpoint>,
    /// From a path to the index of its endpoint.
    paths: matchit::Router<usize>,
}

/// A path pattern and the methods it takes.
struct Endpoint {
    pattern: &'static str,
    interface: usize,
    routes: Vec<Route>,
    /// The methods, in the form of `Allow`: without `OPTIONS`, and with it.
    allow: [HeaderValue; 2],
    cors: Option<Cors>,
    is_reserved: bool,
    metrics: RouteMetrics,
}

impl Endpoint {
    /// Which origins may read its answers now.
    fn cors(&self) -> Option<&Cors> {
        self.cors.as_ref().filter(|cors| cors.allows_any_origin())
    }

    /// The methods that it takes now.
    fn allow(&self) -> &HeaderValue {
        let [without_preflight, with_preflight] = &self.allow;
        if self.cors().is_some() { with_preflight } else { without_preflight }
    }
}

/// What a path leads to.
pub(super) struct Target<'a> {
    pub(super) interface: &'a Routes,
    pub(super) metrics: &'a RouteMetrics,
    /// [`UNMATCHED`] when nothing is served there.
    pub(super) pattern: &'static str,
    endpoint: Option<&'a Endpoint>,
}

impl Site {
    /// Joins interfaces that share an address; see the module's description.
    pub fn new(interfaces: impl IntoIterator<Item = Routes>, metrics: &Metrics) -> Result<Self, RouteError> {
        let mut site = Self {
            interfaces: Vec::new(),
            unmatched: Vec::new(),
            endpoints: Vec::new(),
            paths: matchit::Router::new(),
        };
        for mut interface in interfaces {
            interface.check_patterns()?;
            let routes = std::mem::take(&mut interface.routes);
            site.unmatched.push(metrics.route(interface.name, UNMATCHED, !interface.is_called_directly));
            site.interfaces.push(interface);
            for (pattern, route) in routes {
                site.add(pattern, route, metrics)?;
            }
        }
        if site.interfaces.is_empty() {
            return Err(RouteError::NoInterface);
        }
        for endpoint in &mut site.endpoints {
            let interface = &site.interfaces[endpoint.interface];
            let is_open = interface.open.contains(&endpoint.pattern);
            endpoint.is_reserved = interface.reserved.contains(&endpoint.pattern);
            endpoint.cors = if is_open { Some(Cors::Any) } else { interface.cors.clone() };
            endpoint.allow = [false, true].map(|has_preflight| allow(&endpoint.routes, has_preflight));
        }
        Ok(site)
    }

    /// Adds a route of the newest interface.
    fn add(&mut self, pattern: &'static str, route: Route, metrics: &Metrics) -> Result<(), RouteError> {
        let owner = self.interfaces.len() - 1;
        let interface = self.interfaces[owner].name;
        let Some(endpoint) = self.endpoints.iter_mut().find(|endpoint| endpoint.pattern == pattern) else {
            if !has_plain_parameters(pattern) {
                return Err(RouteError::Parameter { interface, pattern });
            }
            self.paths.insert(pattern, self.endpoints.len()).map_err(|source| RouteError::Pattern {
                interface,
                pattern,
                source,
            })?;
            let is_public = !self.interfaces[owner].is_called_directly && route.time_limit.is_none();
            let metrics = metrics.route(interface, pattern, is_public);
            let allow = [const { HeaderValue::from_static("") }; 2];
            let routes = vec![route];
            let (cors, is_reserved) = (None, false);
            self.endpoints.push(Endpoint { pattern, interface: owner, routes, allow, cors, is_reserved, metrics });
            return Ok(());
        };
        if endpoint.interface != owner {
            let owner = self.interfaces[endpoint.interface].name;
            tracing::debug!(interface, owner, pattern, "interfaces share an address, the first one serves this path");
        } else if endpoint.routes.iter().any(|known| known.method == route.method) {
            return Err(RouteError::Duplicate { interface, method: route.method, pattern });
        } else {
            endpoint.routes.push(route);
        }
        Ok(())
    }

    /// Finds the interface and the endpoint of a path.
    pub(super) fn target(&self, path: &str) -> Target<'_> {
        if let Ok(found) = self.paths.at(path) {
            let endpoint = &self.endpoints[*found.value];
            let interface = &self.interfaces[endpoint.interface];
            return Target {
                interface,
                metrics: &endpoint.metrics,
                pattern: endpoint.pattern,
                endpoint: Some(endpoint),
            };
        }
        let mut endpoints = self.endpoints.iter();
        let same_segment = endpoints.find(|endpoint| first_segment(endpoint.pattern) == first_segment(path));
        let index = same_segment.map_or(0, |endpoint| endpoint.interface);
        Target {
            interface: &self.interfaces[index],
            metrics: &self.unmatched[index],
            pattern: UNMATCHED,
            endpoint: None,
        }
    }
}

impl<'a> Target<'a> {
    /// The route for a method of this path.
    ///
    /// # Errors
    /// [`Rejection::NotFound`] or [`Rejection::MethodNotAllowed`].
    pub(super) fn route(&self, method: &Method, path: &str) -> Result<&'a Route, Rejection> {
        let endpoint =
            self.endpoint.ok_or_else(|| Rejection::NotFound { path: path.chars().take(SHOWN_PATH).collect() })?;
        let handled_by = if *method == Method::HEAD { &Method::GET } else { method };
        let route = endpoint.routes.iter().find(|route| route.method == *handled_by);
        route.ok_or_else(|| Rejection::MethodNotAllowed { method: method.to_string(), allow: endpoint.allow().clone() })
    }

    /// Whether its requests may use the reserve.
    pub(super) fn is_reserved(&self) -> bool {
        self.endpoint.is_some_and(|endpoint| endpoint.is_reserved)
    }

    /// The answer to `OPTIONS`, where the interface allows other origins and the path exists.
    pub(super) fn preflight(&self) -> Option<Response> {
        let endpoint = self.endpoint?;
        endpoint.cors().map(|_| Cors::preflight(endpoint.allow()))
    }

    /// Which origins may read the answer.
    pub(super) fn cors(&self) -> Option<&'a Cors> {
        let cors = self.endpoint.map_or(self.interface.cors.as_ref(), |endpoint| endpoint.cors.as_ref());
        cors.filter(|cors| cors.allows_any_origin())
    }
}

/// The methods that a path takes, in the form of `Allow`.
fn allow(routes: &[Route], has_preflight: bool) -> HeaderValue {
    let mut methods: Vec<&str> = Vec::new();
    for route in routes {
        methods.push(route.method.as_str());
        if route.method == Method::GET {
            methods.push("HEAD");
        }
    }
    if has_preflight {
        methods.push("OPTIONS");
    }
    // Methods are tokens, which are always header values.
    HeaderValue::try_from(methods.join(", ")).unwrap_or(HeaderValue::from_static(""))
}

fn has_plain_parameters(pattern: &str) -> bool {
    pattern.split('/').all(|segment| {
        let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(segment);
        !name.contains(['{', '}', '*'])
    })
}

fn first_segment(path: &str) -> &str {
    path.split('/').nth(1).unwrap_or_default()
}
