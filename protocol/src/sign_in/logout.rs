//! The requests that may end a browser's session (OpenID Connect RP-Initiated Logout 1.0).

use super::authorize::{LONGEST_KEPT, Parameters};
use super::response::{ErrorKind, SignInRejection, query_separator};

/// The parameters of a logout request that this provider recognizes. Each can occur once.
const KNOWN: [&str; 7] =
    ["id_token_hint", "client_id", "post_logout_redirect_uri", "state", "logout_hint", "ui_locales", "confirmation"];

/// An ID token that this provider signed, which a client sends back as a hint. It may have expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdTokenHint {
    /// The claim `sub`.
    pub subject: String,
    /// The claim `aud`: the client that the token was issued to.
    pub client_id: String,
}

/// A valid request to end a browser's session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogoutRequest {
    /// The ID token of `id_token_hint`; `None` when it is absent or was not issued here.
    pub hint: Option<IdTokenHint>,
    /// Where the browser is sent afterwards: a registered URI with the request's `state`. `None`
    /// when the browser stays here.
    pub redirect: Option<String>,
}

impl LogoutRequest {
    /// Reads a request. `hint` is the ID token of its `id_token_hint`, if this provider signed it.
    /// `registered` returns the post-logout redirect URIs of the client with an id, or `None` when
    /// the provider serves no such client.
    ///
    /// # Errors
    /// A parameter is given twice or too long, `client_id` is unknown or is not the audience of the
    /// hint, or `post_logout_redirect_uri` is not one of the client's. The browser must not be
    /// redirected then, and the session must not be ended.
    pub fn read(
        parameters: &Parameters,
        hint: Option<IdTokenHint>,
        registered: impl FnOnce(&str) -> Option<Vec<String>>,
    ) -> Result<Self, SignInRejection> {
        if let Some(name) = parameters.find_repeated(&KNOWN) {
            let detail = format!("{name} occurs more than once; send it once");
            return Err(SignInRejection::of(name, ErrorKind::InvalidRequest, detail));
        }
        let state = parameters.get("state");
        if let Some(length) = state.map(str::len).filter(|length| *length > LONGEST_KEPT) {
            let detail = format!("state has {length} bytes, it must have at most {LONGEST_KEPT}");
            return Err(SignInRejection::of("state", ErrorKind::InvalidRequest, detail));
        }
        let given = parameters.get("client_id");
        if let (Some(given), Some(hint)) = (given, &hint)
            && given != hint.client_id
        {
            let detail = "client_id is not the client that the ID token of id_token_hint was issued to";
            return Err(SignInRejection::of("client_id", ErrorKind::InvalidRequest, detail));
        }
        let uri = parameters.get("post_logout_redirect_uri");
        let client_id = given.or(hint.as_ref().map(|hint| hint.client_id.as_str()));
        let redirect = match (uri, client_id) {
            (None, None) => None,
            (Some(_), None) => {
                let detail = "post_logout_redirect_uri needs client_id, or an id_token_hint that was issued here";
                return Err(SignInRejection::of("client_id", ErrorKind::Required, detail));
            }
            (uri, Some(client_id)) => {
                // An ID token of a client that is no longer configured is still a valid hint.
                let registered = match registered(client_id) {
                    None if given.is_some() || uri.is_some() => {
                        let detail = "no application has this client_id";
                        return Err(SignInRejection::of("client_id", ErrorKind::InvalidClientId, detail));
                    }
                    registered => registered.unwrap_or_default(),
                };
                if uri.is_some_and(|uri| registered.iter().all(|registered| registered != uri)) {
                    let detail = "post_logout_redirect_uri is not one of those registered for the application; they \
                                  are compared byte for byte";
                    let kind = ErrorKind::InvalidRedirectUri;
                    return Err(SignInRejection::of("post_logout_redirect_uri", kind, detail));
                }
                uri.map(|uri| with_state(uri, state))
            }
        };
        Ok(Self { hint, redirect })
    }
}

/// A registered URI, whose query is kept, with the request's `state`.
fn with_state(uri: &str, state: Option<&str>) -> String {
    let Some(state) = state else { return uri.to_owned() };
    let state: String = form_urlencoded::byte_serialize(state.as_bytes()).collect();
    format!("{uri}{}state={state}", query_separator(uri))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str, hint: Option<(&str, &str)>) -> Result<LogoutRequest, (&'static str, Option<&'static str>)> {
        let hint = hint
            .map(|(subject, client_id)| IdTokenHint { subject: subject.to_owned(), client_id: client_id.to_owned() });
        let registered = |id: &str| {
            let uris = ["https://app.example/bye".to_owned(), "https://app.example/?a=1".to_owned()];
            (id == "app_a").then(|| uris.to_vec())
        };
        let read = LogoutRequest::read(&Parameters::parse(query.as_bytes()), hint, registered);
        read.map_err(|rejection| (rejection.kind.code(), rejection.attribute))
    }

    #[test]
    fn the_browser_is_sent_only_to_a_registered_uri() {
        let redirect = |query: &str, hint: Option<(&str, &str)>| read(query, hint).map(|request| request.redirect);
        let at = |uri: &str| Ok(Some(uri.to_owned()));
        let (ours, other) = (Some(("0x1", "app_a")), Some(("0x1", "app_b")));
        assert_eq!(redirect("", None), Ok(None));
        assert_eq!(redirect("state=s", ours), Ok(None));
        let bye = "post_logout_redirect_uri=https://app.example/bye";
        assert_eq!(redirect(&format!("{bye}&client_id=app_a"), None), at("https://app.example/bye"));
        assert_eq!(redirect(&format!("{bye}&state=a%26b"), ours), at("https://app.example/bye?state=a%26b"));
        let with_query = "post_logout_redirect_uri=https://app.example/?a%3D1&state=s";
        assert_eq!(redirect(with_query, ours), at("https://app.example/?a=1&state=s"));
        for (query, hint, code, attribute) in [
            (bye.to_owned(), None, "required", "client_id"),
            (bye.to_owned(), other, "invalid_client_id", "client_id"),
            (format!("{bye}/&client_id=app_a"), None, "invalid_redirect_uri", "post_logout_redirect_uri"),
            (format!("{bye}&client_id=app_b"), None, "invalid_client_id", "client_id"),
            ("client_id=app_b".to_owned(), None, "invalid_client_id", "client_id"),
            (format!("{bye}&client_id=app_a"), other, "invalid_request", "client_id"),
            (format!("{bye}&{bye}"), ours, "invalid_request", "post_logout_redirect_uri"),
            (format!("state={}", "s".repeat(LONGEST_KEPT + 1)), None, "invalid_request", "state"),
        ] {
            assert_eq!(redirect(&query, hint), Err((code, Some(attribute))), "{query}");
        }
        assert_eq!(redirect("", other), Ok(None), "a hint of a client that is gone still ends its session");
    }
}
