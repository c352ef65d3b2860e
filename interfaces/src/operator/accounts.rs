//! Accounts of sign-in: `POST /accounts/show` says what the store knows of one, for a person who
//! asks; `POST /accounts/link` chooses the current proofs of one; `POST /accounts/subjects` decides
//! which subjects new ones get. An application and a subject are in the body, because paths are in
//! the logs of proxies.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_actors::AccountState;
use selfsame_protocol::B256;
use selfsame_protocol::json::from_object;
use selfsame_protocol::operator::{AccountChoice, AccountQuery, ChangedSubjects, NewSubjects, ShownAccount};
use selfsame_protocol::sign_in::attaching::NotChosen;
use selfsame_protocol::verification::Environment;

use super::setup::Operator;
use super::trust::BODY_LIMIT;
use super::{OperatorError, time_text};
use crate::http::{Request, Response, json};

/// What is known of an account
///
/// What the store knows of an account of sign-in, for the person who has it and asks. The nullifier
/// and the session are not shown.
#[utoipa::path(
    post, path = "/accounts/show", tag = "operator", operation_id = "show_account", security(("operatorToken" = [])),
    request_body = AccountQuery,
    responses(
        (status = 200, description = "The account", body = ShownAccount),
        (status = 404, description = "No account of the application has this `sub`: `not_found`"),
        (status = 400, description = "The body is malformed: `bad_request`"),
        (status = 503, description = "The leader of the cluster cannot be asked, or the daemon is overloaded: `unavailable`"),
    ),
)]
pub async fn show_account(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(BODY_LIMIT).await?;
    let AccountQuery { app_id, environment, sub } = from_object(&body)?;
    let environment = environment_of(&operator, &app_id, environment);
    let subject = read_subject(&sub)?;
    let found = operator.service.sign_in().find_account(&app_id, environment, subject).await?;
    let audit = request.audit();
    let Some(account) = found else { return Err(OperatorError::UnknownAccount { app_id, environment }) };
    // Only now are the texts known to be an application and a person.
    audit.client(&app_id);
    audit.person(subject.0);
    Ok(json(StatusCode::OK, &shown(app_id, environment, subject, account)))
}

/// Choose the current proofs of an account
///
/// Chooses for good which current proofs an account of legacy proofs keeps: those of one of two
/// persons who gave theirs, or none. The other ones no longer sign in. Proofs of a second person
/// are dropped only when the body says that the operator knows of both.
#[utoipa::path(
    post, path = "/accounts/link", tag = "operator", operation_id = "choose_account_proofs", security(("operatorToken" = [])),
    request_body = AccountChoice,
    responses(
        (status = 200, description = "The account as it is now", body = ShownAccount),
        (status = 404, description = "No account of the application has this `sub`: `not_found`"),
        (status = 400, description = "The body is malformed, or the account has no such proofs, or two persons' and `of_two` is not set: `bad_request`"),
        (status = 503, description = "The leader of the cluster cannot be asked, or the daemon is overloaded: `unavailable`"),
    ),
)]
pub async fn choose_proofs(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(BODY_LIMIT).await?;
    let AccountChoice { app_id, environment, sub, keep, of_two } = from_object(&body)?;
    let environment = environment_of(&operator, &app_id, environment);
    let subject = read_subject(&sub)?;
    let sign_in = operator.service.sign_in();
    let Some(chosen) = sign_in.choose_proofs(&app_id, environment, subject, keep, of_two).await? else {
        return Err(OperatorError::UnknownAccount { app_id, environment });
    };
    let audit = request.audit();
    audit.client(&app_id);
    audit.person(subject.0);
    audit.concerns(format!("keep {}", keep.name()));
    let account = chosen.map_err(|reason| {
        let (name, problem) = match reason {
            NotChosen::NoSuchProofs => {
                ("keep", "the account has no such current proofs beside legacy ones; look with: selfsame account show")
            }
            NotChosen::Unseen => (
                "of_two",
                "two persons have given their proofs for the account; look with: selfsame account show, and say that \
                 you know of both with --of-two",
            ),
        };
        OperatorError::Field { name, problem: problem.to_owned() }
    })?;
    Ok(json(StatusCode::OK, &shown(app_id, environment, subject, account)))
}

fn read_subject(sub: &str) -> Result<B256, OperatorError> {
    let problem = || "it is not 0x and 64 hex digits, as the sub of an account is".to_owned();
    sub.parse().map_err(|_| OperatorError::Field { name: "sub", problem: problem() })
}

fn shown(app_id: String, environment: Environment, subject: B256, account: AccountState) -> ShownAccount {
    let AccountState { identifier, generation, created_on, human_at, .. } = account;
    let AccountState { has_legacy, has_current, attached_at, is_provisional, disputed_at, .. } = account;
    ShownAccount {
        app_id,
        environment,
        sub: format!("{subject:#x}"),
        created_on: day_text(time_text(created_on)),
        human_at: time_text(human_at),
        identifier,
        generation,
        has_legacy,
        has_current,
        attached_at: attached_at.map(time_text),
        is_provisional,
        disputed_at: disputed_at.map(time_text),
    }
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
        (status = 404, description = "No person has signed in to the application yet, so nothing is decided: `not_found`"),
        (status = 400, description = "The body is malformed: `bad_request`"),
        (status = 503, description = "The leader of the cluster cannot be asked, or the daemon is overloaded: `unavailable`"),
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
