//! The wallet interface: the groups as wallets of members read them, enrolment in them, and sealed
//! copies; and the page that is such a wallet ([`crate::web_wallet`]).
//!
//! The routes and the description come first, then the errors, the endpoints of groups and those of
//! sealed copies. The interface is an origin of its own, and no page of another one may read its
//! answers. What it logs names no source: who joined when, and who fetched what, is for nobody.

use std::sync::Arc;

use hyper::header::{
    CACHE_CONTROL, ETAG, HeaderValue, IF_MATCH, IF_NONE_MATCH, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode};
use selfsame_actors::{EnrolmentAnswer, GroupError, GroupsHandle};
use selfsame_protocol::gateway::{ServiceApiError, meanings};
use selfsame_protocol::groups::enrolment::{EnrolmentRequest, NotOneToken};
use selfsame_protocol::groups::names::{FieldNumber, FormError, GroupId, SealedHandle, WriteKey};
use selfsame_protocol::groups::sealed::SealedError;
use selfsame_protocol::groups::wire::{
    ChangedSealed, EnrolledResponse, GroupErrorCode, GroupList, GroupName, GroupResponse, JoinRequest, LeaveRequest,
    LeftResponse, NewSealed, ReplaceRequest, SealedResponse, SealedVersion,
};
use selfsame_protocol::json::{BodyError, from_object};
use sha2::{Digest, Sha256};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{IntoResponses, Modify, OpenApi};

use crate::http::{
    ErrorCodes, InterfaceError, Rejection, Request, Response, Router, Routes, challenge, content, empty, json,
    written_json,
};
use crate::interface::Interface;
use crate::openapi;
use crate::web_wallet::WebWallet;

/// What the handlers share.
pub struct Wallet {
    /// The groups and the sealed copies.
    pub groups: GroupsHandle,
}

/// The longest body of an act of enrolment, in bytes.
const ENROLMENT_LIMIT: usize = 8 << 10;

/// The longest body of a sealed copy, in bytes.
const SEALED_LIMIT: usize = 64 << 10;

/// The routes of the wallet interface, with those of the web wallet's page where it is served.
pub fn routes(groups: GroupsHandle, page: Option<&WebWallet>, openapi: openapi::Document) -> Routes {
    let (get, post) = (Method::GET, Method::POST);
    let router = Router::<Wallet, WalletEndpointError>::new(Interface::Wallet.name(), Arc::new(Wallet { groups }));
    let router = match page {
        Some(page) => page.add_routes(router),
        None => router,
    };
    router
        .without_sources()
        .reserve(&["/health"])
        .route(get.clone(), "/groups", list_groups)
        .route(get.clone(), "/groups/{id}", describe_group)
        .route(get.clone(), "/groups/{id}/pages/{page_root}", group_page)
        .route(post.clone(), "/groups/{id}/join", join)
        .route(post.clone(), "/groups/{id}/replace", replace)
        .route(post, "/groups/{id}/leave", leave)
        .route(get.clone(), "/sealed/{handle}", read_sealed)
        .route(Method::PUT, "/sealed/{handle}", write_sealed)
        .route(Method::DELETE, "/sealed/{handle}", delete_sealed)
        .route(get.clone(), "/health", |_, _| openapi::health())
        .route(get, "/openapi.json", move |_, _| openapi::answer(openapi.clone()))
        .into()
}

/// The description of the wallet interface.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Wallet interface",
        version = "0.1.4",
        description = "The groups of the service, as the wallets of their members read them: keys, roots, pages of leaves, rolls. \
            With it a person joins a group, replaces a leaf, leaves, and keeps a sealed copy of what the wallet needs. Nobody learns \
            here who is about to prove: a wallet fetches pages of 1024 leaves and computes its own path."
    ),
    paths(
        list_groups,
        describe_group,
        group_page,
        join,
        replace,
        leave,
        read_sealed,
        write_sealed,
        delete_sealed,
        openapi::health,
        openapi::answer,
    ),
    components(schemas(ServiceApiError<GroupErrorCode>, GroupErrorCode)),
    modifiers(&WriteKeyScheme, &Shared)
)]
pub struct Description;

/// Describes the write key of a sealed copy.
struct WriteKeyScheme;

impl Modify for WriteKeyScheme {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let mut key = Http::new(HttpAuthScheme::Bearer);
        key.description = Some("The write key of the sealed copy: 64 lower-case hex digits".to_owned());
        description.components.get_or_insert_default().add_security_scheme("writeKey", SecurityScheme::Http(key));
    }
}

/// Describes what all endpoints have in common.
struct Shared;

impl Modify for Shared {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        openapi::describe_errors::<WalletEndpointError>(
            description,
            "ServiceApiError_GroupErrorCode",
            openapi::NO_ERROR_PAGES,
        );
        openapi::describe_codes(description, "GroupErrorCode", meanings::<GroupErrorCode>());
    }
}

// The errors of the wallet interface and its answers to them.

/// A rejected request to the wallet interface.
#[derive(Debug, thiserror::Error)]
enum WalletEndpointError {
    /// The request was rejected for a reason that all interfaces share.
    #[error(transparent)]
    Http(#[from] Rejection),
    /// The body is not of the expected form.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// A replacement has no token, or two.
    #[error(transparent)]
    Token(#[from] NotOneToken),
    /// A part of the path or a header is not in its form.
    #[error("{name}: {problem}")]
    Form {
        /// The name of the part or the header.
        name: &'static str,
        /// What is wrong with it.
        problem: FormError,
    },
    /// No group can have the id in the path.
    #[error("no group has this id; GET /groups lists them")]
    NoSuchGroup,
    /// Nothing that counts has the page.
    #[error("neither a live root nor a roll has this page; read the group again and take one of its page_roots")]
    UnknownPage,
    /// Groups refuse it.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// Sealed copies refuse it.
    #[error(transparent)]
    Sealed(#[from] SealedError),
}

impl InterfaceError for WalletEndpointError {
    fn reason(&self) -> String {
        match self {
            Self::Http(rejection) => rejection.reason(),
            Self::Body(error) => error.reason(),
            Self::Form { name, .. } => format!("{name} is not in its form"),
            other => other.to_string(),
        }
    }

    fn into_response(self) -> Response {
        let code = match &self {
            Self::Http(rejection) => return ErrorCodes::WALLET.respond(rejection),
            Self::Body(_) | Self::Token(_) | Self::Form { .. } => GroupErrorCode::BadRequest,
            Self::NoSuchGroup | Self::Group(GroupError::Unknown(_)) => GroupErrorCode::UnknownGroup,
            Self::UnknownPage => GroupErrorCode::UnknownPage,
            Self::Group(GroupError::Enrolment(error)) => error.code(),
            Self::Group(GroupError::Sealed(error)) | Self::Sealed(error) => error.code(),
            // Only the operator invites, takes rolls and changes settings.
            Self::Group(
                GroupError::Invitations(_)
                | GroupError::InvitedInPart { .. }
                | GroupError::Roll(_)
                | GroupError::Restart
                | GroupError::TooLarge { .. },
            ) => GroupErrorCode::BadRequest,
            Self::Group(GroupError::TooMany(too_many)) => {
                let retry_after = too_many.retry_after;
                return ErrorCodes::WALLET.respond(&Rejection::TooManyRequests { retry_after });
            }
            Self::Group(GroupError::Unavailable { reason, retry_after }) => {
                tracing::warn!(reason, "groups are not available");
                return ErrorCodes::WALLET.respond(&Rejection::Unavailable { retry_after: *retry_after });
            }
        };
        let mut response = json(status_of(code), &ServiceApiError { code, message: self.to_string() });
        if code == GroupErrorCode::Unauthorized {
            let challenge = HeaderValue::from_static(challenge::BEARER);
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// The status of a code.
fn status_of(code: GroupErrorCode) -> StatusCode {
    match code {
        GroupErrorCode::BadRequest | GroupErrorCode::CommitmentInvalid => StatusCode::BAD_REQUEST,
        GroupErrorCode::Unauthorized => StatusCode::UNAUTHORIZED,
        GroupErrorCode::UnknownCode
        | GroupErrorCode::LinkProofInvalid
        | GroupErrorCode::ReplacementSecretWrong
        | GroupErrorCode::WriteKeyWrong
        | GroupErrorCode::PermitInvalid => StatusCode::FORBIDDEN,
        GroupErrorCode::NotFound
        | GroupErrorCode::UnknownGroup
        | GroupErrorCode::UnknownPage
        | GroupErrorCode::NotAMember => StatusCode::NOT_FOUND,
        GroupErrorCode::CodeUsed
        | GroupErrorCode::UseReplace
        | GroupErrorCode::UseJoin
        | GroupErrorCode::EnrolledUnderAnotherNumber
        | GroupErrorCode::CommitmentInTree
        | GroupErrorCode::GroupFull
        | GroupErrorCode::CopyMissing
        | GroupErrorCode::HandleTaken => StatusCode::CONFLICT,
        GroupErrorCode::CodeExpired => StatusCode::GONE,
        GroupErrorCode::VersionMismatch => StatusCode::PRECONDITION_FAILED,
        GroupErrorCode::SealedTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        GroupErrorCode::PreconditionRequired => StatusCode::PRECONDITION_REQUIRED,
        GroupErrorCode::ReplacedToday | GroupErrorCode::RateLimitExceeded => StatusCode::TOO_MANY_REQUESTS,
        GroupErrorCode::InternalServerError => StatusCode::INTERNAL_SERVER_ERROR,
        GroupErrorCode::BridgeUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        GroupErrorCode::RequestTimeout => StatusCode::GATEWAY_TIMEOUT,
    }
}

/// The errors of the acts of enrolment, as `/openapi.json` describes them.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "describes the answers that WalletEndpointError makes")]
enum EnrolmentErrors {
    /// The body is not in its form (`bad_request`), or the commitment is 0 or not below the modulus
    /// of the field (`commitment_invalid`)
    #[response(status = 400)]
    Malformed,
    /// `unknown_code`, `link_proof_invalid`, `replacement_secret_wrong`
    #[response(status = 403)]
    Forbidden,
    /// No group has the id (`unknown_group`), or no member has this enrolment nullifier and this
    /// leaf (`not_a_member`)
    #[response(status = 404)]
    NotFound,
    /// `code_used`, `use_replace`, `use_join`, `enrolled_under_another_number`,
    /// `commitment_in_tree`, `group_full`, `copy_missing`
    #[response(status = 409)]
    Conflict,
    /// The last day of the code is over: `code_expired`
    #[response(status = 410)]
    Expired,
    /// The leaf was replaced today already (`replaced_today`), or the source address has sent as
    /// many requests as it may, see Retry-After (`rate_limit_exceeded`)
    #[response(status = 429)]
    TooMany,
}

// `GET /groups`, `/groups/{id}` and `/groups/{id}/pages/{page_root}`: what wallets read.

/// The groups
#[utoipa::path(
    get, path = "/groups", tag = "wallet", operation_id = "list_groups",
    responses((status = 200, description = "The groups, in the order of the configuration", body = GroupList)),
)]
async fn list_groups(wallet: Arc<Wallet>, _: Request) -> Result<Response, WalletEndpointError> {
    let definitions = wallet.groups.definitions();
    let groups = definitions.iter().map(|group| GroupName { id: group.id, name: group.name.clone() }).collect();
    Ok(json(StatusCode::OK, &GroupList { groups }))
}

/// A group
///
/// One moment of the group: its roots belong together. A wallet that has read it before sends the
/// ETag of the answer as `If-None-Match`.
#[utoipa::path(
    get, path = "/groups/{id}", tag = "wallet", operation_id = "describe_group",
    params(
        ("id" = String, Path, description = "The id of the group"),
        ("If-None-Match" = Option<String>, Header, description = "The ETag of an earlier answer"),
    ),
    responses(
        (status = 200, description = "The group", body = GroupResponse, headers(("ETag" = String, description = "Names this answer"))),
        (status = 304, description = "The group is as the earlier answer says"),
        (status = 404, description = "No group has the id: `unknown_group`"),
    ),
)]
async fn describe_group(wallet: Arc<Wallet>, request: Request) -> Result<Response, WalletEndpointError> {
    let group = wallet.groups.describe(&group_id(&request)?)?;
    let body = serde_json::to_vec(&group).map_err(|error| {
        tracing::error!(%error, "a group could not be written as JSON");
        Rejection::Internal
    })?;
    let digest = Sha256::digest(&body);
    let tag = format!("\"{}\"", alloy_primitives::hex::encode(&digest[..16]));
    // The comparison is weak (RFC 9110, section 13.1.2): a proxy that compresses answers may have
    // made the tag a weak one.
    let is_known = request.list(&IF_NONE_MATCH).any(|known| known == "*" || known.trim_start_matches("W/") == tag);
    let mut response = if is_known { empty(StatusCode::NOT_MODIFIED) } else { written_json(StatusCode::OK, body) };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.extend(HeaderValue::try_from(tag).ok().map(|tag| (ETAG, tag)));
    Ok(response)
}

/// A page of leaves
///
/// The 1024 leaves of a page, 32 bytes each, big-endian; positions without a member are zeros. A
/// page never changes under its root.
#[utoipa::path(
    get, path = "/groups/{id}/pages/{page_root}", tag = "wallet", operation_id = "group_page",
    params(
        ("id" = String, Path, description = "The id of the group"),
        ("page_root" = FieldNumber, Path, description = "The root of the page, from the group's `page_roots` or a roll's"),
    ),
    responses(
        (status = 200, description = "32 768 bytes", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 400, description = "The root is not in its form: `bad_request`"),
        (status = 404, description = "No group has the id (`unknown_group`), or neither a live root nor a roll has the page (`unknown_page`)"),
    ),
)]
async fn group_page(wallet: Arc<Wallet>, request: Request) -> Result<Response, WalletEndpointError> {
    let malformed = |problem| WalletEndpointError::Form { name: "page_root", problem };
    let root: FieldNumber = request.param("page_root")?.parse().map_err(malformed)?;
    let page = wallet.groups.page(&group_id(&request)?, root, Some(request.source())).await?;
    let page = page.ok_or(WalletEndpointError::UnknownPage)?;
    let mut response = content(StatusCode::OK, "application/octet-stream", page);
    let for_ever = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(CACHE_CONTROL, for_ever);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

/// The group that the path names.
fn group_id(request: &Request) -> Result<GroupId, WalletEndpointError> {
    request.param("id")?.parse().map_err(|_: FormError| WalletEndpointError::NoSuchGroup)
}

// `POST /groups/{id}/join`, `/replace` and `/leave`: what a member does.

/// Join a group
///
/// Uses an invitation up with the write that adds the leaf. The same request again is answered as
/// before.
#[utoipa::path(
    post, path = "/groups/{id}/join", tag = "wallet", operation_id = "join_group",
    params(("id" = String, Path, description = "The id of the group")),
    request_body = JoinRequest,
    responses((status = 200, description = "The leaf is in the tree", body = EnrolledResponse), EnrolmentErrors),
)]
async fn join(wallet: Arc<Wallet>, mut request: Request) -> Result<Response, WalletEndpointError> {
    let body: JoinRequest = from_object(&request.read_json(ENROLMENT_LIMIT).await?)?;
    enrol(&wallet, &request, body.into()).await
}

/// Replace a leaf
///
/// A member whose device is lost or stolen brings a new leaf: with the present replacement secret,
/// once a day, or with a link for the member number. Every live root with the old leaf ends at
/// once.
#[utoipa::path(
    post, path = "/groups/{id}/replace", tag = "wallet", operation_id = "replace_leaf",
    params(("id" = String, Path, description = "The id of the group")),
    request_body = ReplaceRequest,
    responses((status = 200, description = "The new leaf is in the tree", body = EnrolledResponse), EnrolmentErrors),
)]
async fn replace(wallet: Arc<Wallet>, mut request: Request) -> Result<Response, WalletEndpointError> {
    let body: ReplaceRequest = from_object(&request.read_json(ENROLMENT_LIMIT).await?)?;
    enrol(&wallet, &request, body.try_into()?).await
}

/// Leave a group
///
/// The member number counts as left from the answer on; the tree follows within the hour.
#[utoipa::path(
    post, path = "/groups/{id}/leave", tag = "wallet", operation_id = "leave_group",
    params(("id" = String, Path, description = "The id of the group")),
    request_body = LeaveRequest,
    responses((status = 202, description = "The member has left", body = LeftResponse), EnrolmentErrors),
)]
async fn leave(wallet: Arc<Wallet>, mut request: Request) -> Result<Response, WalletEndpointError> {
    let body: LeaveRequest = from_object(&request.read_json(ENROLMENT_LIMIT).await?)?;
    enrol(&wallet, &request, body.into()).await
}

async fn enrol(wallet: &Wallet, request: &Request, act: EnrolmentRequest) -> Result<Response, WalletEndpointError> {
    Ok(match wallet.groups.enrol(&group_id(request)?, act, Some(request.source())).await? {
        EnrolmentAnswer::At(enrolled) => json(StatusCode::OK, &enrolled),
        EnrolmentAnswer::Left => json(StatusCode::ACCEPTED, &LeftResponse {}),
    })
}

// `GET`, `PUT` and `DELETE /sealed/{handle}`: sealed copies.

/// Read a sealed copy
#[utoipa::path(
    get, path = "/sealed/{handle}", tag = "wallet", operation_id = "read_sealed",
    params(("handle" = SealedHandle, Path, description = "A handle of the copy: 64 lower-case hex digits")),
    responses(
        (status = 200, description = "The copy", body = SealedResponse, headers(("ETag" = String, description = "The version in quotes"))),
        (status = 400, description = "The handle is not in its form: `bad_request`"),
        (status = 404, description = "There is no copy with this handle: `not_found`"),
    ),
)]
async fn read_sealed(wallet: Arc<Wallet>, request: Request) -> Result<Response, WalletEndpointError> {
    let copy = wallet.groups.sealed(&sealed_handle(&request)?, Some(request.source())).await?;
    Ok(with_version(json(StatusCode::OK, &copy), copy.version))
}

/// Write a sealed copy
///
/// A first one is sent with `If-None-Match: *` and with what permits it. A change is sent with the
/// version as `If-Match`, with the write key, and without `permit`.
#[utoipa::path(
    put, path = "/sealed/{handle}", tag = "wallet", operation_id = "write_sealed", security((), ("writeKey" = [])),
    params(
        ("handle" = SealedHandle, Path, description = "A handle of the copy: 64 lower-case hex digits"),
        ("If-None-Match" = Option<String>, Header, description = "`*` for a new copy"),
        ("If-Match" = Option<String>, Header, description = "The version that is changed, in quotes"),
    ),
    request_body = NewSealed,
    responses(
        (status = 200, description = "The copy is changed", body = SealedVersion, headers(("ETag" = String, description = "The version in quotes"))),
        (status = 201, description = "The copy is made", body = SealedVersion, headers(("ETag" = String, description = "The version in quotes"))),
        (status = 400, description = "The handle, a header or the body is not in its form: `bad_request`"),
        (status = 401, description = "The write key is missing: `unauthorized`"),
        (status = 403, description = "The write key is another one (`write_key_wrong`), or nothing permits a new copy (`permit_invalid`)"),
        (status = 404, description = "There is no copy with this handle: `not_found`"),
        (status = 409, description = "Another copy has a handle: `handle_taken`"),
        (status = 412, description = "The copy has another version: `version_mismatch`"),
        (status = 413, description = "`sealed` has more than 32 768 digits, or there are more than 16 slots: `sealed_too_large`"),
        (status = 428, description = "Both headers are missing: `precondition_required`"),
        (status = 429, description = "The source address has sent as many requests as it may, see Retry-After: `rate_limit_exceeded`"),
    ),
)]
async fn write_sealed(wallet: Arc<Wallet>, mut request: Request) -> Result<Response, WalletEndpointError> {
    let handle = sealed_handle(&request)?;
    let source = request.source();
    let is_new = request.header(&IF_NONE_MATCH)?.is_some_and(|value| value.trim() == "*");
    if is_new && request.headers().contains_key(IF_MATCH) {
        let problem = FormError("must not be sent with If-None-Match: *, which is for a new copy");
        return Err(WalletEndpointError::Form { name: "If-Match", problem });
    }
    if is_new {
        let copy: NewSealed = from_object(&read_sealed_body(&mut request).await?)?;
        let version = wallet.groups.create_sealed(handle, copy, Some(source)).await?;
        return Ok(with_version(json(StatusCode::CREATED, &SealedVersion { version }), version));
    }
    let owner = owner(&request)?;
    let copy: ChangedSealed = from_object(&read_sealed_body(&mut request).await?)?;
    let version = wallet.groups.change_sealed(handle, copy, owner, Some(source)).await?;
    Ok(with_version(json(StatusCode::OK, &SealedVersion { version }), version))
}

/// Delete a sealed copy
#[utoipa::path(
    delete, path = "/sealed/{handle}", tag = "wallet", operation_id = "delete_sealed", security(("writeKey" = [])),
    params(
        ("handle" = SealedHandle, Path, description = "A handle of the copy: 64 lower-case hex digits"),
        ("If-Match" = Option<String>, Header, description = "The version that is deleted, in quotes"),
    ),
    responses(
        (status = 204, description = "The copy is deleted"),
        (status = 400, description = "The handle or a header is not in its form: `bad_request`"),
        (status = 401, description = "The write key is missing: `unauthorized`"),
        (status = 403, description = "The write key is another one: `write_key_wrong`"),
        (status = 404, description = "There is no copy with this handle: `not_found`"),
        (status = 412, description = "The copy has another version: `version_mismatch`"),
        (status = 428, description = "`If-Match` is missing: `precondition_required`"),
        (status = 429, description = "The source address has sent as many requests as it may, see Retry-After: `rate_limit_exceeded`"),
    ),
)]
async fn delete_sealed(wallet: Arc<Wallet>, request: Request) -> Result<Response, WalletEndpointError> {
    let handle = sealed_handle(&request)?;
    wallet.groups.delete_sealed(handle, owner(&request)?, Some(request.source())).await?;
    let mut response = empty(StatusCode::NO_CONTENT);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The body of a sealed copy. One that is longer than every copy is refused as a copy that is too
/// large.
async fn read_sealed_body(request: &mut Request) -> Result<bytes::Bytes, WalletEndpointError> {
    request.read_json(SEALED_LIMIT).await.map_err(|rejection| match rejection {
        Rejection::PayloadTooLarge { .. } => SealedError::TooLarge.into(),
        other => other.into(),
    })
}

fn sealed_handle(request: &Request) -> Result<SealedHandle, WalletEndpointError> {
    let malformed = |problem| WalletEndpointError::Form { name: "handle", problem };
    request.param("handle")?.parse().map_err(malformed)
}

/// The version that a request is for, and the write key that it has. Without the key nothing of a
/// header's form is judged.
fn owner(request: &Request) -> Result<(u64, WriteKey), WalletEndpointError> {
    let version = request.header(&IF_MATCH)?.ok_or(SealedError::PreconditionRequired)?;
    let authorization = request.authorization(challenge::BEARER)?;
    let key = authorization.as_ref().and_then(|authorization| authorization.bearer());
    let key = key.and_then(|key| key.parse().ok()).ok_or(SealedError::Unauthorized)?;
    let version = version_of(version).ok_or(WalletEndpointError::Form {
        name: "If-Match",
        problem: FormError("must be the version of the copy in quotes, as its ETag says"),
    })?;
    Ok((version, key))
}

/// The version that an entity tag names.
fn version_of(tag: &str) -> Option<u64> {
    let version = tag.trim().strip_prefix('"')?.strip_suffix('"')?;
    let is_canonical = version.bytes().all(|byte| byte.is_ascii_digit()) && !version.starts_with('0');
    version.parse().ok().filter(|_| is_canonical)
}

fn with_version(mut response: Response, version: u64) -> Response {
    let tag = HeaderValue::try_from(format!("\"{version}\"")).ok();
    response.headers_mut().extend(tag.map(|tag| (ETAG, tag)));
    response
}

#[cfg(test)]
mod tests {
    use strum::IntoEnumIterator;

    use super::*;

    #[test]
    fn a_version_is_read_as_its_entity_tag_writes_it() {
        #[rustfmt::skip]
        let table = [
            ("\"1\"", Some(1)),
            (" \"12\" ", Some(12)),
            ("\"18446744073709551615\"", Some(u64::MAX)),
            ("\"18446744073709551616\"", None),
            ("\"0\"", None),
            ("\"01\"", None),
            ("\"+1\"", None),
            ("\"-1\"", None),
            ("1", None),
            ("\"1", None),
            ("\"", None),
            ("\"\"", None),
            ("*", None),
            ("W/\"1\"", None),
            ("\"1\", \"2\"", None),
            ("", None),
        ];
        for (tag, expected) in table {
            assert_eq!(version_of(tag), expected, "{tag:?}");
        }
    }

    /// The first number of the meaning of a code is its status.
    #[test]
    fn every_code_is_answered_with_the_status_that_its_description_names() {
        for code in GroupErrorCode::iter() {
            let meaning = strum::EnumMessage::get_documentation(&code).expect("a meaning");
            assert!(meaning.starts_with(&format!("{}: ", status_of(code).as_u16())), "{code:?}: {meaning}");
        }
    }
}
