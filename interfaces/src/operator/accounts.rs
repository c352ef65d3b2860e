//! Accounts of sign-in: `POST /accounts/show` says what the store knows of one, for a person who
//! asks; `POST /accounts/subjects` decides which subjects new ones get. An application and a
//! subject are in the body, because paths are in the logs of proxies.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_actors::AccountState;
use selfsame_protocol::B256;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::json::from_object;
use selfsame_protocol::operator::{AccountQuery, ChangedSubjects, NewSubjects, ShownAccount};
use selfsame_protocol::verification::Environment;

use super::setup::Operator;
use super::trust::BODY_LIMIT;
use super::{OperatorError, time_text};
use crate::http::{Request, Response, json};

/// What is known of an account
///
/// What the store knows of an account of sign-in, for a person who asks. The nullifier and the
/// session are not shown.
#[utoipa::path(
    post, path = "/accounts/show", tag = "operator", operation_id = "show_account", security(("operatorToken" = [])),
    request_body = AccountQuery,
    responses(
        (status = 200, description = "The account", body = ShownAccount),
        (status = 404, description = "No account of the application has this `sub`: `not_found`", body = ServiceApiError<String>),
        (status = 400, description = "The body is malformed: `bad_request`", body = ServiceApiError<String>),
        (status = 503, description = "The leader of the cluster cannot be asked, or the daemon is overloaded: `unavailable`", body = ServiceApiError<String>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn show_account(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(BODY_LIMIT).await?;
    let AccountQuery { app_id, environment, sub } = from_object(&body)?;
    let environment = environment_of(&operator, &app_id, environment);
    let problem = || "it is not 0x and 64 hex digits, as the sub of an account is".to_owned();
    let subject: B256 = sub.parse().map_err(|_| OperatorError::Field { name: "sub", problem: problem() })?;
    let found = operator.service.sign_in().find_account(&app_id, environment, subject).await?;
    let audit = request.audit();
    let Some(account) = found else { return Err(OperatorError::UnknownAccount { app_id, environment }) };
    // Only now are the texts known to be an application and a person.
    audit.client(&app_id);
    audit.person(subject.0);
    let AccountState { identifier, generation, created_on, human_at } = account;
    let (created_on, human_at) = (day_text(time_text(created_on)), time_text(human_at));
    let sub = format!("{subject:#x}");
    Ok(json(StatusCode::OK, &ShownAccount { app_id, environment, sub, created_on, human_at, identifier, generation }))
}

/// Change the subjects of new accounts
///
/// Gives new accounts of an application subjects of another kind than the store says. Existing
/// accounts keep theirs. The daemon then refuses the old setting `subject` at a start and at a
/// reload.
#[utoipa::path(
    post, path = "/accounts/subjects", tag = "operator", operation_id = "change_subjects", security(("operatorToken" = [])),
    request_body = NewSubjects,
    responses(
        (status = 200, description = "What is decided now, and what was before", body = ChangedSubjects),
        (status = 404, description = "Nobody has signed in to the application yet, so nothing is decided: `not_found`", body = ServiceApiError<String>),
        (status = 400, description = "The body is malformed: `bad_request`", body = ServiceApiError<String>),
        (status = 503, description = "The leader of the cluster cannot be asked, or the daemon is overloaded: `unavailable`", body = ServiceApiError<String>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn change_subjects(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(BODY_LIMIT).await?;
    let NewSubjects { app_id, environment, subject } = from_object(&body)?;
    let environment = environment_of(&operator, &app_id, environment);
    let before = operator.service.sign_in().change_subjects(&app_id, environment, subject).await??;
    let audit = request.audit();
    audit.client(&app_id);
    let (from, to) = (before.kind.name(), subject.name());
    audit.concerns(format!("{}: {from} to {to}", environment.name()));
    let (before, before_since) = (before.kind, day_text(time_text(before.decided_on)));
    Ok(json(StatusCode::OK, &ChangedSubjects { app_id, environment, subject, before, before_since }))
}

/// The environment that is meant: without one, that of the application's sign-ins.
fn environment_of(operator: &Operator, app_id: &str, named: Option<Environment>) -> Environment {
    let of_client = || operator.service.sign_in().client(app_id).map(|client| client.environment);
    named.or_else(of_client).unwrap_or_else(|| Environment::of_application(app_id))
}

/// The day of a time, as `2026-07-01`.
fn day_text(time: String) -> String {
    time.split('T').next().unwrap_or_default().to_owned()
}
