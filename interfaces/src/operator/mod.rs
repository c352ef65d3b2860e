//! The operator interface: whether the daemon is alive and ready, how it is doing, and what only
//! the operator may change.
//!
//! | module | what it has |
//! |---|---|
//! | this one | the routes, the errors as status and body, the description |
//! | [`access`] | who may call; `GET /challenge` |
//! | [`setup`] | what the handlers share |
//! | [`status`] | `GET /status`, `/ready`, `/actors` and `/apps`, `POST /cluster/remove` |
//! | [`daemon_parts`] | what the handlers ask of the daemon's backups, cluster, log and nodes of chains |
//! | [`attention`] | what needs attention: what fails, since when, and what to do |
//! | [`history`] | `GET /history`, `/blocks` and `/events`: what happened lately |
//! | [`metrics`] | `GET /metrics` |
//! | [`groups`] | `/groups`: invitations, members and rolls |
//! | [`trust`] | `/roots`, `/simulator` and `/keys`: what is trusted, and what is signed with |
//! | [`accounts`] | `POST /accounts/show`, `/accounts/link` and `/accounts/subjects`: accounts of sign-in |
//! | [`maintenance`] | `POST /reload`, `/backups`, and `/webhooks` with what they have not accepted |
//! | [`page`] | `GET /`: a page that shows the status |

mod access;
mod accounts;
mod attention;
mod daemon_parts;
mod groups;
mod history;
mod maintenance;
mod metrics;
mod page;
mod setup;
mod status;
mod trust;

use std::sync::Arc;

use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, StatusCode};
use selfsame_actors::{EventError, GroupError, RollError, SignInError, UndecidedSubjects};
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::groups::names::MemberNumber;
use selfsame_protocol::json::BodyError;
use selfsame_protocol::operator_call::{CallRejection, InvalidNonce};
use selfsame_protocol::sign_in::records::{KeyTooYoung, UnknownKey};
use selfsame_protocol::time::RetryAfter;
use selfsame_protocol::verification::Environment;
use selfsame_storage::StoreError;
use utoipa::openapi::ResponseBuilder;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::event_streams::StreamError;
use crate::http::{ErrorBody, ErrorCodes, InterfaceError, Rejection, Response, Router, Routes, challenge, json};
use crate::interface::Interface;
use crate::openapi;
use access::{with_invitation_token, with_token, without_token};

pub use daemon_parts::{
    BackupHealth, BackupRefusal, BackupStatistics, Build, ChainNodeCounters, DaemonParts, FailedBackup, LostLines,
    ScheduleProgress, SeenCluster, SeenReplica, time_text,
};
pub use history::{History, HistorySources};
pub use maintenance::{ReloadRequest, ReloadStatus};
pub use setup::{Operator, Setup};
pub use status::{public_ready, watch_attention};

/// What probes and Prometheus call, by any name and without a token.
const FOR_PROBES: [&str; 3] = ["/health", "/ready", "/metrics"];

/// The operator's routes.
pub fn routes(operator: Arc<Operator>, openapi: openapi::Document) -> Routes {
    Router::<Operator, OperatorError>::new(Interface::Operator.name(), operator)
        .reserve(&FOR_PROBES)
        .without_proxy()
        .route(Method::GET, "/health", |_, _| openapi::health())
        .route(Method::GET, "/ready", status::ready)
        .route(Method::GET, "/metrics", metrics::metrics)
        .route(Method::GET, "/actors", with_token(status::actors))
        .route(Method::GET, "/status", with_token(status::status))
        .route(Method::GET, "/history", with_token(history::history))
        .route(Method::GET, "/blocks", with_token(history::blocks))
        .route(Method::GET, "/apps", with_token(status::apps))
        .route(Method::GET, "/roots", with_token(trust::list_roots))
        .route(Method::POST, "/roots", with_token(trust::add_root))
        .audited("root_trusted")
        .route(Method::POST, "/roots/remove", with_token(trust::remove_root))
        .audited("root_removed")
        .route(Method::GET, "/keys", with_token(trust::list_keys))
        .route(Method::POST, "/keys/rotate", with_token(trust::rotate_keys))
        .audited("keys_rotated")
        .route(Method::POST, "/keys/revoke", with_token(trust::revoke_key))
        .audited("key_revoked")
        .route(Method::POST, "/accounts/show", with_token(accounts::show_account))
        .audited("account_shown")
        .route(Method::POST, "/accounts/link", with_token(accounts::choose_proofs))
        .audited("account_proofs_chosen")
        .route(Method::POST, "/accounts/subjects", with_token(accounts::change_subjects))
        .audited("subjects_changed")
        .route_within(
            groups::INVITATIONS_TIME_LIMIT,
            Method::POST,
            "/groups/{id}/invitations",
            with_invitation_token(groups::invite),
        )
        .audited("members_invited")
        .route(Method::GET, "/groups/{id}/members", with_token(groups::list_members))
        .audited("members_listed")
        .route(Method::POST, "/groups/{id}/members/remove", with_token(groups::remove_member))
        .audited("member_removed")
        .route(Method::GET, "/groups/{id}/rolls", with_token(groups::list_rolls))
        .route(Method::POST, "/groups/{id}/rolls", with_token(groups::take_roll))
        .audited("roll_taken")
        .route(Method::POST, "/groups/{id}/rolls/remove", with_token(groups::remove_roll))
        .audited("roll_removed")
        .route(Method::POST, "/reload", with_token(maintenance::reload))
        .audited("configuration_reloaded")
        .route(Method::GET, "/backups", with_token(maintenance::list_backups))
        .route(Method::POST, "/backups", with_token(maintenance::begin_backup))
        .audited("backup_begun")
        .route_within(maintenance::BACKUP_TIME_LIMIT, Method::GET, "/backups/{id}", with_token(maintenance::one_backup))
        .route(Method::POST, "/cluster/remove", with_token(status::remove_replica))
        .audited("replica_removed")
        .route(Method::GET, "/events", with_token(history::events))
        .route(Method::GET, "/webhooks", with_token(maintenance::list_webhooks))
        .route(Method::GET, "/webhooks/{id}/dead-letters", with_token(maintenance::dead_letters))
        .route(Method::POST, "/webhooks/{id}/dead-letters/retry", with_token(maintenance::retry_dead_letters))
        .audited("dead_letters_retried")
        .route(Method::POST, "/webhooks/{id}/dead-letters/discard", with_token(maintenance::discard_dead_letters))
        .audited("dead_letters_discarded")
        .route(Method::GET, "/challenge", without_token(access::challenge))
        .route(Method::GET, "/simulator", without_token(trust::simulator))
        .route(Method::POST, "/simulator/roots", with_token(trust::trust_root))
        .audited("root_trusted")
        .route(Method::GET, "/", without_token(|_, _| page::page()))
        .route(Method::GET, "/page.js", without_token(|_, _| page::script()))
        .route(Method::GET, "/curves.js", without_token(|_, _| page::curves()))
        .route(Method::GET, "/page.css", without_token(|_, _| page::style()))
        .route(Method::GET, "/openapi.json", without_token(move |_, _| openapi::answer(openapi.clone())))
        .into()
}

// The errors of the operator interface and its answers to them.

/// A rejected request to the operator interface.
#[derive(Debug, thiserror::Error)]
enum OperatorError {
    /// The request was rejected for a reason that all interfaces share.
    #[error(transparent)]
    Http(#[from] Rejection),
    /// A call without the token.
    #[error("this call needs `Authorization: Bearer` and the text of operator.token in the data folder")]
    Unauthorized,
    /// A signed call that is not accepted.
    #[error(transparent)]
    Call(#[from] CallRejection),
    /// The nonce of a challenge.
    #[error("nonce: {0}; give it as a parameter of the query")]
    Nonce(#[from] InvalidNonce),
    /// The host is a name that is not accepted.
    #[error("{host:?} is not a name of this interface; call it by its address or as localhost, or set operator.hosts")]
    OtherHost {
        /// The name in `Host`, without its port.
        host: String,
    },
    /// A page of another site sent the request.
    #[error("pages of other sites cannot call this interface")]
    OtherOrigin,
    /// The body is not a JSON object with the expected fields.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The value of a field is not valid.
    #[error("{name}: {problem}")]
    Field {
        /// The name of the field.
        name: &'static str,
        /// What is wrong with the value, which may be part of the text.
        problem: String,
    },
    /// The signing keys cannot be rotated now.
    #[error(transparent)]
    KeyTooYoung(#[from] KeyTooYoung),
    /// The signing key to revoke does not exist.
    #[error(transparent)]
    UnknownKey(#[from] UnknownKey),
    /// No account has the subject.
    #[error(
        "no account of {app_id} in {} has this sub; only sign-ins with proof = \"account\" make accounts",
        environment.name()
    )]
    UnknownAccount {
        /// The application in the request.
        app_id: String,
        /// The environment that was looked at.
        environment: Environment,
    },
    /// Nothing is decided about the subjects of an application.
    #[error(transparent)]
    UndecidedSubjects(#[from] UndecidedSubjects),
    /// No verification key is the simulator's.
    #[error("no verification key of staging is the simulator's; set verifier.keys.staging")]
    NoSimulator,
    /// A development wallet's root, and the daemon runs without `--dev`.
    #[error(
        "a daemon without --dev does not trust the roots of development wallets; to trust one in staging: selfsame roots \
         add {root} --kind legacy --environment staging --identifier orb"
    )]
    NotDevelopment {
        /// The root in canonical hex.
        root: String,
    },
    /// The root to remove is not trusted.
    #[error("{root} is not a trusted root of this kind and environment; selfsame roots list shows them")]
    UnknownRoot {
        /// The root in canonical hex.
        root: String,
    },
    /// No group can have the id in the path.
    #[error("no group has this id; selfsame group list shows them")]
    NoSuchGroup,
    /// The member cannot be removed.
    #[error(
        "the member number {member} was never invited, or was removed before and has no new link; selfsame group members shows them"
    )]
    UnknownMember {
        /// The number in the request.
        member: MemberNumber,
    },
    /// Groups refuse it.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The daemon is stopping, or the process that it is a part of reads no configuration.
    #[error("the configuration is not read again: the daemon is stopping, or is part of another program")]
    NoReload,
    /// A backup cannot be begun.
    #[error(transparent)]
    Backup(#[from] BackupRefusal),
    /// The daemon does not know the backup.
    #[error("the daemon knows no backup {id}; it forgets them when it is restarted")]
    UnknownBackup {
        /// The id in the path.
        id: String,
    },
    /// The daemon is alone.
    #[error("this daemon is not a replica of a cluster: its configuration has no [cluster]")]
    NoCluster,
    /// The cluster has no such replica.
    #[error("the cluster has no replica {name:?}; selfsame cluster status shows them")]
    UnknownReplica {
        /// The name in the request.
        name: String,
    },
    /// The cluster's data cannot be changed. The text says why.
    #[error("{0}")]
    Cluster(String),
    /// The metrics could not be written as text.
    #[error("the metrics could not be written: {0}")]
    Metrics(#[from] std::fmt::Error),
    /// The signing keys or the records of sign-in cannot be read or changed.
    #[error(transparent)]
    SignIn(#[from] SignInError),
    /// A stream of events is not begun.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A question about webhooks has no answer.
    #[error(transparent)]
    Events(#[from] EventError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl InterfaceError for OperatorError {
    fn reason(&self) -> String {
        match self {
            Self::Http(rejection) => rejection.reason(),
            Self::Unauthorized => "the operator's token is missing or wrong".to_owned(),
            Self::Nonce(_) => "nonce is not valid".to_owned(),
            Self::OtherHost { .. } => "the host is another name".to_owned(),
            Self::Body(error) => error.reason(),
            Self::Field { name, .. } => format!("{name} is not valid"),
            Self::Backup(_) => "the backup cannot be begun".to_owned(),
            Self::UnknownBackup { .. } => "no backup has this id".to_owned(),
            Self::Stream(StreamError::Parameter { name, .. }) => format!("{name} is not valid"),
            Self::Events(EventError::NoSuchReceiver { .. }) => "no webhook has this id".to_owned(),
            Self::UnknownKey(_) => "no signing key has this id".to_owned(),
            Self::UnknownAccount { .. } => "no account has this sub".to_owned(),
            Self::UnknownMember { .. } => "no member number can be removed".to_owned(),
            Self::Group(GroupError::Invitations(_)) => "the member numbers are not valid".to_owned(),
            Self::UndecidedSubjects(_) => "no person has signed in to the application".to_owned(),
            Self::UnknownReplica { .. } => "the cluster has no replica of this name".to_owned(),
            other @ (Self::OtherOrigin
            | Self::Call(_)
            | Self::KeyTooYoung(_)
            | Self::NoSimulator
            | Self::NotDevelopment { .. }
            | Self::UnknownRoot { .. }
            | Self::NoReload
            | Self::NoCluster
            | Self::NoSuchGroup
            | Self::Group(_)
            | Self::Cluster(_)
            | Self::Metrics(_)
            | Self::SignIn(_)
            | Self::Stream(_)
            | Self::Events(_)
            | Self::Store(_)) => other.to_string(),
        }
    }

    fn into_response(self) -> Response {
        let message = self.to_string();
        let answer = |status, code| json(status, &ErrorBody { code, message: &message });
        match self {
            Self::Http(rejection) => ErrorCodes::OPERATOR.respond(&rejection),
            Self::Unauthorized | Self::Call(_) => {
                let mut response = answer(StatusCode::UNAUTHORIZED, "unauthorized");
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge::BEARER));
                response
            }
            Self::Body(_) | Self::Nonce(_) | Self::Field { .. } | Self::KeyTooYoung(_) | Self::UnknownKey(_) => {
                answer(StatusCode::BAD_REQUEST, "bad_request")
            }
            Self::NoReload | Self::Cluster(_) => answer(StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            Self::Backup(BackupRefusal::Busy(_)) => answer(StatusCode::CONFLICT, "conflict"),
            Self::Backup(BackupRefusal::Folder(_)) => answer(StatusCode::BAD_REQUEST, "bad_request"),
            Self::Backup(BackupRefusal::Stopping(_)) => {
                ErrorCodes::OPERATOR.respond(&Rejection::Unavailable { retry_after: RetryAfter::SOON })
            }
            Self::Backup(BackupRefusal::Failed(error)) => {
                tracing::error!(error, "a backup cannot be begun");
                ErrorCodes::OPERATOR.respond(&Rejection::Internal)
            }
            Self::NoSimulator
            | Self::NoCluster
            | Self::UnknownAccount { .. }
            | Self::UndecidedSubjects(_)
            | Self::UnknownRoot { .. }
            | Self::UnknownMember { .. }
            | Self::UnknownBackup { .. }
            | Self::UnknownReplica { .. } => answer(StatusCode::NOT_FOUND, "not_found"),
            Self::NoSuchGroup => answer(StatusCode::NOT_FOUND, "unknown_group"),
            Self::Group(error) => match error {
                GroupError::Unknown(_) => answer(StatusCode::NOT_FOUND, "unknown_group"),
                GroupError::Roll(RollError::Unknown(_)) => answer(StatusCode::NOT_FOUND, "not_found"),
                GroupError::Roll(RollError::Taken(_) | RollError::Counted { .. } | RollError::Past { .. }) => {
                    answer(StatusCode::CONFLICT, "conflict")
                }
                // Only wallets enrol and keep sealed copies, and only a reload changes settings.
                GroupError::Invitations(_)
                | GroupError::Enrolment(_)
                | GroupError::Sealed(_)
                | GroupError::Restart
                | GroupError::TooLarge { .. } => answer(StatusCode::BAD_REQUEST, "bad_request"),
                // The message says what to send in place of the same again, so there is no time to
                // wait for.
                GroupError::InvitedInPart { .. } => answer(StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
                GroupError::TooMany(too_many) => {
                    let retry_after = too_many.retry_after;
                    ErrorCodes::OPERATOR.respond(&Rejection::TooManyRequests { retry_after })
                }
                GroupError::Unavailable { reason, retry_after } => {
                    tracing::warn!(reason, "groups are not available");
                    ErrorCodes::OPERATOR.respond(&Rejection::Unavailable { retry_after })
                }
            },
            Self::OtherHost { .. } | Self::OtherOrigin | Self::NotDevelopment { .. } => {
                answer(StatusCode::FORBIDDEN, "forbidden")
            }
            Self::Metrics(error) => {
                tracing::error!(%error, "the metrics could not be written");
                ErrorCodes::OPERATOR.respond(&Rejection::Internal)
            }
            Self::Stream(error) => match error {
                StreamError::Off => answer(StatusCode::NOT_FOUND, "not_found"),
                StreamError::Parameter { .. } => answer(StatusCode::BAD_REQUEST, "bad_request"),
                StreamError::TooMany => {
                    ErrorCodes::OPERATOR.respond(&Rejection::TooManyRequests { retry_after: RetryAfter::SOON })
                }
                StreamError::Http(rejection) => ErrorCodes::OPERATOR.respond(&rejection),
                StreamError::Events(error) => Self::Events(error).into_response(),
            },
            Self::Events(EventError::NoSuchReceiver { .. }) => answer(StatusCode::NOT_FOUND, "not_found"),
            Self::Events(EventError::NotLeading) => answer(StatusCode::CONFLICT, "conflict"),
            Self::Events(EventError::Unavailable(_)) => answer(StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            Self::Events(EventError::Store(error)) => Self::Store(error).into_response(),
            // Another replica leads, and cannot be asked.
            Self::SignIn(SignInError::Store(StoreError::Replica(error))) | Self::Store(StoreError::Replica(error))
                if error.is_transient() =>
            {
                answer(StatusCode::SERVICE_UNAVAILABLE, "unavailable")
            }
            Self::SignIn(error) => {
                tracing::error!(%error, "the signing keys or the records of sign-in cannot be read or changed");
                ErrorCodes::OPERATOR.respond(&Rejection::Internal)
            }
            Self::Store(error) => {
                tracing::error!(%error, "the store failed");
                ErrorCodes::OPERATOR.respond(&Rejection::Internal)
            }
        }
    }
}

// The description of the interface (`/openapi.json`).

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
        openapi::health,
        status::ready,
        metrics::metrics,
        status::actors,
        access::challenge,
        status::status,
        history::history,
        history::blocks,
        status::apps,
        trust::list_roots,
        trust::add_root,
        trust::remove_root,
        trust::list_keys,
        trust::rotate_keys,
        trust::revoke_key,
        accounts::show_account,
        accounts::choose_proofs,
        accounts::change_subjects,
        groups::invite,
        groups::list_members,
        groups::remove_member,
        groups::list_rolls,
        groups::take_roll,
        groups::remove_roll,
        maintenance::reload,
        maintenance::list_backups,
        maintenance::begin_backup,
        maintenance::one_backup,
        status::remove_replica,
        history::events,
        maintenance::list_webhooks,
        maintenance::dead_letters,
        maintenance::retry_dead_letters,
        maintenance::discard_dead_letters,
        trust::simulator,
        trust::trust_root,
        page::page,
        page::script,
        page::curves,
        page::style,
        openapi::answer,
    ),
    components(schemas(ServiceApiError<String>)),
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
        let mut invitations = Http::new(HttpAuthScheme::Bearer);
        invitations.description = Some(
            "The token whose hash is `operator.invitation_token_hash`: it can invite, and nothing else".to_owned(),
        );
        let components = description.components.get_or_insert_default();
        components.add_security_scheme("operatorToken", SecurityScheme::Http(token));
        components.add_security_scheme("invitationToken", SecurityScheme::Http(invitations));
    }
}

/// Describes the errors that endpoints have in common, beginning with whom they refuse.
struct Shared;

impl Modify for Shared {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let paths = description.paths.paths.iter_mut().filter(|(path, _)| !FOR_PROBES.contains(&path.as_str()));
        for operation in paths.flat_map(|(_, item)| openapi::operations(item)) {
            let token = operation
                .security
                .is_some()
                .then_some((StatusCode::UNAUTHORIZED, "The token is missing or wrong: `unauthorized`"));
            let name = (StatusCode::FORBIDDEN, "Called by another name, or by a page of another origin: `forbidden`");
            for (status, about) in token.into_iter().chain([name]) {
                let refusal = || ResponseBuilder::new().description(about).build().into();
                operation.responses.responses.entry(status.as_str().to_owned()).or_insert_with(refusal);
            }
        }
        openapi::describe_errors::<OperatorError>(description, "ServiceApiError_String", openapi::NO_ERROR_PAGES);
    }
}
