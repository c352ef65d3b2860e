//! What every interface answers: `GET /openapi.json` with the descriptions of the interfaces at an
//! address, `GET /health`, and the header `X-Selfsame-Height` where the registry is read.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use selfsame_actors::{HeightError, RegistryHandle, TooManyRequests};
use selfsame_protocol::gateway::HealthResponse;
use selfsame_protocol::time::RetryAfter;
use serde_json::Value;
use utoipa::PartialSchema;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::link::Link;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Content, ContentBuilder, Deprecated, OpenApi, Ref, RefOr, Required, ResponseBuilder};

use crate::http::{
    Before, DEPRECATED_SINCE, DEPRECATION_ENDS, InterfaceError, Rejection, Request, Response, content, json,
};

/// The type of pages.
const HTML: &str = "text/html";

/// An OpenAPI document as JSON text.
pub type Document = Bytes;

/// Joins the descriptions of interfaces that share an address. The title names all of them; the
/// version and the introduction are those of the first.
pub fn document(descriptions: impl IntoIterator<Item = OpenApi>) -> Document {
    let joined = descriptions.into_iter().reduce(|mut joined, next| {
        joined.info.title = format!("{}, {}", joined.info.title, next.info.title);
        joined.merge(next);
        joined
    });
    joined.and_then(|joined| joined.to_json().ok()).unwrap_or_default().into()
}

/// Describes the route of `path` also under the path `again`.
pub fn describe_alias(description: &mut OpenApi, path: &str, again: String) {
    let Some(mut item) = description.paths.paths.get(path).cloned() else { return };
    // Operation ids must be unique in a document.
    let id = again.trim_start_matches(['/', '.']).replace(['/', '-', '.'], "_");
    for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
        operation.operation_id = Some(id.clone());
    }
    description.paths.paths.insert(again, item);
}

/// Describes the errors of an interface. Each endpoint gets the answers that all have in common:
/// those to requests that are rejected before their handler, or instead of it. The status and the
/// example of each come from the interface's own error. And an error that an endpoint describes
/// without a body has, except to HEAD, the body of all errors of the interface: the component
/// `schema` as JSON, and a page too where `has_error_pages`.
///
/// Also names the headers that belong to a status.
pub fn describe_errors<E: InterfaceError>(
    description: &mut OpenApi,
    schema: &str,
    has_error_pages: fn(&Operation) -> bool,
) {
    for operation in description.paths.paths.values_mut().flat_map(operations) {
        let is_page_too = has_error_pages(operation);
        let body = |example| {
            let json = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).example(example).build();
            let page = is_page_too.then(|| (HTML, Content::new(Some(String::schema()))));
            [("application/json", json)].into_iter().chain(page).map(|(kind, body)| (kind.to_owned(), body.into()))
        };
        for rejection in rejections(operation.request_body.is_some()) {
            let about = describe(&rejection);
            let (status, example) = read(E::from(rejection).into_response());
            let responses = &mut operation.responses.responses;
            responses.entry(status.as_str().to_owned()).or_insert_with(|| {
                let mut response = ResponseBuilder::new().description(about).build();
                response.content.extend(body(example));
                response.into()
            });
        }
        for (status, response) in &mut operation.responses.responses {
            let RefOr::T(response) = response else { continue };
            if status.starts_with(['4', '5']) && response.content.is_empty() {
                response.content.extend(body(None));
            }
            for (name, header) in headers(status) {
                response.headers.entry(name.to_owned()).or_insert_with(|| header.into());
            }
        }
    }
    for item in description.paths.paths.values_mut() {
        // An answer to HEAD has no body.
        for response in item.head.iter_mut().flat_map(|operation| operation.responses.responses.values_mut()) {
            if let RefOr::T(response) = response {
                response.content.clear();
            }
        }
    }
}

/// What [`describe_errors`] takes for an interface without pages.
pub const NO_ERROR_PAGES: fn(&Operation) -> bool = |_| false;

/// What [`describe_errors`] takes for an interface whose browsers get errors as pages: the
/// operations that show a page or send a browser on. The others are for programs; that a browser
/// gets a page there too is not described.
pub fn leads_browsers(operation: &Operation) -> bool {
    operation.responses.responses.iter().any(|(status, answer)| {
        status.starts_with('3') || matches!(answer, RefOr::T(answer) if answer.content.contains_key(HTML))
    })
}

/// Says when each code of the component `schema` is answered, in the extension that generators of
/// clients read. `meanings` are in the order of the codes.
pub fn describe_codes(description: &mut OpenApi, schema: &str, meanings: Vec<String>) {
    let components = description.components.get_or_insert_default();
    let Some(RefOr::T(Schema::Object(codes))) = components.schemas.get_mut(schema) else { return };
    let extension = ExtensionsBuilder::new().add("x-enum-descriptions", meanings).build();
    codes.extensions.get_or_insert_default().merge(extension);
}

/// Describes how the servers of applications authenticate, as the scheme `client`.
pub fn describe_client_credentials(description: &mut OpenApi) {
    let mut http = Http::new(HttpAuthScheme::Basic);
    let about = "The id and the secret of an application; the secret form-encoded or as it is";
    http.description = Some(about.to_owned());
    description.components.get_or_insert_default().add_security_scheme("client", SecurityScheme::Http(http));
}

/// Describes that the route of `path` takes by POST, as a form, what it takes by GET in the query,
/// and `further` fields, each with its description.
pub fn describe_form(description: &mut OpenApi, path: &str, id: &str, further: &[(&str, &str)]) {
    let Some(item) = description.paths.paths.get_mut(path) else { return };
    let Some(mut operation) = item.get.clone() else { return };
    let mut form = ObjectBuilder::new();
    let is_in_query =
        |parameter: &RefOr<Parameter>| matches!(parameter, RefOr::T(of) if of.parameter_in == ParameterIn::Query);
    let parameters = operation.parameters.get_or_insert_default();
    for parameter in parameters.extract_if(.., |parameter| is_in_query(parameter)) {
        let RefOr::T(Parameter { name, description, required, schema: Some(RefOr::T(mut schema)), .. }) = parameter
        else {
            continue;
        };
        if let Schema::Object(of) = &mut schema {
            of.description = description;
        }
        if required == Required::True {
            form = form.required(name.clone());
        }
        form = form.property(name, schema);
    }
    for (name, about) in further {
        let field = ObjectBuilder::new().schema_type(Type::String).description(Some(*about));
        form = form.property(*name, field);
    }
    let content = ContentBuilder::new().schema(Some(form)).build();
    let body = RequestBodyBuilder::new().content("application/x-www-form-urlencoded", content).build();
    operation.request_body = Some(body.into());
    operation.operation_id = Some(id.to_owned());
    item.post = Some(operation);
}

/// Says that a client finds in the answer of `operation` (its id) with the status 200 or 201 what
/// it calls another operation with.
pub fn describe_link(description: &mut OpenApi, operation: &str, (name, to): (&str, &str), parameter: (&str, &str)) {
    let link = || Link::builder().operation_id(to).parameter(parameter.0, parameter.1).build();
    let all = description.paths.paths.values_mut().flat_map(operations);
    for from in all.filter(|other| other.operation_id.as_deref() == Some(operation)) {
        for status in ["200", "201"] {
            if let Some(RefOr::T(response)) = from.responses.responses.get_mut(status) {
                response.links.insert(name.to_owned(), RefOr::T(link()));
            }
        }
    }
}

/// Says that the operations of a path are deprecated, and the headers of their answers that say so.
pub fn describe_deprecation(description: &mut OpenApi, path: &str) {
    let header = |about: &str, value: &str| {
        let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([value]));
        HeaderBuilder::new().schema(Some(schema)).description(Some(about)).build()
    };
    let Some(item) = description.paths.paths.get_mut(path) else { return };
    for operation in operations(item) {
        operation.deprecated = Some(Deprecated::True);
        for response in operation.responses.responses.values_mut() {
            let RefOr::T(response) = response else { continue };
            let since = header("Since when the endpoint is deprecated (RFC 9745)", DEPRECATED_SINCE);
            let ends = header("When the endpoint is expected to end (RFC 8594)", DEPRECATION_ENDS);
            response.headers.insert("Deprecation".to_owned(), since.into());
            response.headers.insert("Sunset".to_owned(), ends.into());
        }
    }
}

/// Adds a header that every operation takes.
pub fn describe_header(description: &mut OpenApi, name: &str, pattern: &str, about: &str) {
    let schema = ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern));
    let parameter = ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(about))
        .schema(Some(schema))
        .build();
    for operation in description.paths.paths.values_mut().flat_map(operations) {
        operation.parameters.get_or_insert_default().push(parameter.clone().into());
    }
}

/// The operations of a path.
pub fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.head].into_iter().flatten()
}

/// One rejection of each kind that an endpoint can answer with, whatever it does.
fn rejections(has_body: bool) -> Vec<Rejection> {
    let allow = HeaderValue::from_static("GET, HEAD");
    let mut rejections = vec![
        Rejection::BadRequest("the header content-type occurs 2 times; send it once".to_owned()),
        Rejection::MethodNotAllowed { method: "DELETE".to_owned(), allow },
        Rejection::Internal,
        Rejection::Unavailable { retry_after: RetryAfter::SOON },
        Rejection::Timeout,
    ];
    if has_body {
        rejections.push(Rejection::PayloadTooLarge { limit: 65_536 });
        rejections.push(Rejection::UnsupportedMediaType(
            "the content type is text/plain, it must be application/json".to_owned(),
        ));
    }
    rejections
}

fn describe(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::BadRequest(_) | Rejection::RepeatedAuthorization { .. } => {
            "The request or one of its headers is malformed"
        }
        Rejection::NotFound { .. } => "Nothing is served there",
        Rejection::MethodNotAllowed { .. } => "The path does not take the method, see Allow",
        Rejection::PayloadTooLarge { .. } => "The body is too long",
        Rejection::UnsupportedMediaType(_) => "The body has another content type or encoding than the endpoint reads",
        Rejection::TooManyRequests { .. } => "Too many requests from this address, see Retry-After",
        Rejection::Internal => "An error of the service; the log has it under the X-Request-Id of the answer",
        Rejection::Unavailable { .. } => "Overloaded, starting or stopping, see Retry-After",
        Rejection::Timeout => "The answer took longer than the request timeout",
    }
}

/// Status and body of an answer that is in memory.
fn read(response: Response) -> (StatusCode, Option<Value>) {
    let status = response.status();
    let body = response.into_body().collect().now_or_never().and_then(Result::ok);
    (status, body.and_then(|body| serde_json::from_slice(&body.to_bytes()).ok()))
}

/// The headers that answers with a status have.
fn headers(status: &str) -> Vec<(&'static str, Header)> {
    let header =
        |schema: ObjectBuilder, about| HeaderBuilder::new().schema(Some(schema)).description(Some(about)).build();
    let text = |about| header(ObjectBuilder::new().schema_type(Type::String), about);
    let request_id = "The id of the request, which the client or the service chose; the log has it too";
    let mut headers = vec![("X-Request-Id", text(request_id))];
    match status {
        "401" => headers.push(("WWW-Authenticate", text("How to authenticate"))),
        "405" => headers.push(("Allow", text("The methods that the path takes"))),
        "429" | "503" => {
            let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
            headers.push(("Retry-After", header(seconds, "Seconds until another attempt may succeed")));
        }
        _ => {}
    }
    headers
}

/// What is served at this address
///
/// The interfaces that share an address are described together.
#[utoipa::path(
    get, path = "/openapi.json", tag = "service", operation_id = "openapi",
    responses((status = 200, description = "This document", body = serde_json::Value, example = json!({"openapi":"3.1.0"}))),
)]
pub async fn answer<E>(document: Document) -> Result<Response, E> {
    Ok(content(StatusCode::OK, "application/json", document))
}

// `GET /health`, the same at every interface: shows that the process answers. `GET /ready` of the
// operator interface says whether the daemon can do its work.

/// Whether the process answers
#[utoipa::path(
    get, path = "/health", tag = "service",
    responses((status = 200, description = "The process answers", body = HealthResponse, example = json!({"success":true}))),
)]
pub async fn health<E>() -> Result<Response, E> {
    Ok(json(StatusCode::OK, &HealthResponse { success: true }))
}

// The header `X-Selfsame-Height`: a block that an answer depends on, or that a read has to show.
//
// The replicas of a cluster show the same blocks, not at the same moment. A client that has a
// final state from one of them and reads from another one sends the height along. A daemon that
// is alone shows every block that it has named, so there the header changes nothing.

/// The header: a height, in decimal digits.
pub const X_SELFSAME_HEIGHT: HeaderName = HeaderName::from_static("x-selfsame-height");

/// What has a registry whose blocks are awaited.
pub trait HasRegistry: Send + Sync + 'static {
    /// The registry.
    fn registry(&self) -> &RegistryHandle;
}

/// Waits until the registry shows the block that a request names, if it names one.
///
/// # Errors
/// [`Rejection::BadRequest`] for a value that is no height, and at a replica for a height that no
/// block has yet; [`Rejection::TooManyRequests`] for a source that sends many such heights;
/// [`Rejection::Unavailable`] when the block does not come in time.
pub fn await_height<S: HasRegistry>(state: &Arc<S>, request: &Request) -> Before {
    let text = request.header(&X_SELFSAME_HEIGHT)?;
    let Some(text) = text else { return Ok(None) };
    let height = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    let height = height.ok_or_else(|| {
        Rejection::BadRequest(format!("the header {X_SELFSAME_HEIGHT} is not the height of a block in decimal digits"))
    })?;
    let registry = state.registry().clone();
    if registry.height() >= height {
        return Ok(None);
    }
    let source = request.source();
    let waiting = async move {
        registry.await_height(height, Some(source)).await.map_err(|error| match error {
            HeightError::NoSuchBlock { .. } => {
                Rejection::BadRequest(format!("the header {X_SELFSAME_HEIGHT}: {error}"))
            }
            HeightError::TooMany(TooManyRequests { retry_after }) => Rejection::TooManyRequests { retry_after },
            HeightError::Late => Rejection::Unavailable { retry_after: RetryAfter::SOON },
        })
    };
    Ok(Some(waiting.boxed()))
}

/// Describes the header, which every endpoint of an interface takes.
pub fn describe_height(description: &mut OpenApi) {
    let about =
        "The height of a block that the answer has to show, from an earlier answer of another replica of a cluster";
    describe_header(description, X_SELFSAME_HEIGHT.as_str(), "^[0-9]{1,19}$", about);
}

/// Adds the height of a block to an answer.
pub fn with_height(mut response: Response, height: Option<u64>) -> Response {
    if let Some(height) = height {
        response.headers_mut().insert(X_SELFSAME_HEIGHT, HeaderValue::from(height));
    }
    response
}
