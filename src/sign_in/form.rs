//! Forms, and the credentials of clients in them or beside them.

use std::sync::Arc;

use hyper::header::CONTENT_TYPE;
use selfsame_actors::{SignInClient, SignInHandle};
use selfsame_protocol::sign_in::Parameters;
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use zeroize::Zeroizing;

use super::error::SignInEndpointError;
use crate::http::{Authorization, Rejection, Request, challenge};

/// The longest form, in bytes.
pub const FORM_LIMIT: usize = 64 * 1024;

/// The content type of forms.
const FORM: &str = "application/x-www-form-urlencoded";

/// Whether the body is a form. Parameters of the content type are ignored, because forms are always
/// percent-encoded UTF-8.
pub fn is_form(request: &Request) -> Result<bool, Rejection> {
    let content_type = request.header(&CONTENT_TYPE)?.unwrap_or_default();
    Ok(content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(FORM))
}

/// Reads a form whose known parameters are given at most once.
pub async fn read_form(request: &mut Request, known: &[&'static str]) -> Result<Parameters, SignInEndpointError> {
    // Checked before the body is read.
    if !is_form(request)? {
        let detail = format!("the content type must be {FORM}");
        return Err(unreadable(SignInRejection::new(ErrorKind::InvalidContentType, detail)));
    }
    let parameters = Parameters::parse(&request.read_body(FORM_LIMIT).await?);
    match parameters.find_repeated(known) {
        Some(name) => {
            let detail = format!("{name} occurs more than once; send it once");
            Err(unreadable(SignInRejection::of(name, ErrorKind::InvalidRequest, detail)))
        }
        None => Ok(parameters),
    }
}

fn unreadable(rejection: SignInRejection) -> SignInEndpointError {
    SignInEndpointError::Unreadable(rejection)
}

/// Reads a request about a token (RFC 7009, section 2.1; RFC 7662, section 2.1): the calling client
/// and the token. `token_type_hint` has no effect: there is one type of token. `public` clients may
/// call as in [`authenticate`].
pub async fn read_token_request(
    sign_in: &SignInHandle,
    request: &mut Request,
    public: bool,
) -> Result<(Arc<SignInClient>, String), SignInEndpointError> {
    let form = read_form(request, &["token", "token_type_hint", "client_id", "client_secret"]).await?;
    let client = authenticate(sign_in, request, &form, public)?;
    let token = form.get("token").ok_or_else(|| SignInRejection::required("token"))?;
    Ok((client, token.to_owned()))
}

/// Authenticates the calling client: by HTTP Basic, by `client_id` and `client_secret` in the form,
/// or, where `public` clients may call, by its id alone. An empty secret is none. A header with
/// another scheme is not the client's, and is ignored.
pub fn authenticate(
    sign_in: &SignInHandle,
    request: &Request,
    form: &Parameters,
    public: bool,
) -> Result<Arc<SignInClient>, SignInEndpointError> {
    let unauthenticated = |reason: &'static str| {
        let detail = "client credentials are missing or wrong";
        SignInRejection::new(ErrorKind::Unauthenticated, detail).with_reason(reason)
    };
    let (form_id, form_secret) = (form.get("client_id"), form.get("client_secret"));
    let basic = match request.authorization(challenge::CLIENT)? {
        Some(Authorization::Basic(credentials)) => {
            Some(credentials.ok_or_else(|| unauthenticated("the Authorization header is malformed"))?)
        }
        Some(Authorization::Bearer(_) | Authorization::Signed(_) | Authorization::Other) | None => None,
    };
    let in_form = form_secret.map(|secret| Zeroizing::new(secret.to_owned()));
    let (id, secrets) = match basic {
        Some(basic) => {
            if !basic.secrets.is_empty() && in_form.is_some() {
                let detail = "client credentials are given in the header and in the form; use one of them";
                return Err(unreadable(SignInRejection::new(ErrorKind::InvalidRequest, detail)));
            }
            if form_id.is_some_and(|form_id| form_id != basic.id) {
                let detail = "client_id is another one than that of the header";
                return Err(unreadable(SignInRejection::of("client_id", ErrorKind::InvalidRequest, detail)));
            }
            (basic.id, basic.secrets.into_iter().chain(in_form).collect::<Vec<_>>())
        }
        None => {
            let id = form_id.ok_or_else(|| unauthenticated("there are no credentials"))?;
            (id.to_owned(), in_form.into_iter().collect())
        }
    };
    let client = sign_in.client(&id).ok_or_else(|| unauthenticated("no application has this client_id"))?;
    request.audit().client(&client.client.id);
    match (client.secrets.is_empty(), secrets.is_empty()) {
        (false, false) if client.has_any_secret(&secrets) => Ok(client),
        (false, false) => Err(unauthenticated("the client secret is wrong").into()),
        (false, true) => Err(unauthenticated("the client secret is missing").into()),
        (true, false) => Err(unauthenticated("the client has no secret, and one was given").into()),
        (true, true) if public && client.client.is_public => Ok(client),
        (true, true) => Err(unauthenticated("public clients may not call this endpoint").into()),
    }
}
