use super::claims::{IdToken, Person, Provider, Scopes, VerificationLevel};
use super::discovery::Discovery;
use super::response::{Delivery, ErrorKind, Target};
use super::*;
use crate::time::UnixSeconds;
use crate::{B256, U256};

const CALLBACK: &str = "https://app.example/callback?x=1";
const LOCAL: &str = "http://127.0.0.1:3000/callback";
/// Longer than the longest accepted text.
const LONG: &str = match std::str::from_utf8(&[b'n'; 2049]) {
    Ok(text) => text,
    Err(_) => "",
};
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

fn client() -> Client {
    Client {
        id: "app_a".to_owned(),
        redirect_uris: vec![CALLBACK.to_owned(), LOCAL.to_owned()],
        is_public: false,
        require_pkce: false,
        post_logout_redirect_uris: Vec::new(),
        response_types: ResponseType::SUPPORTED.into_iter().filter_map(ResponseType::parse).collect(),
    }
}

fn parameters(changes: &[(&str, &str)]) -> Parameters {
    let good = [("client_id", "app_a"), ("redirect_uri", CALLBACK), ("response_type", "code"), ("scope", "openid")];
    let unchanged = good.into_iter().filter(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
    unchanged.chain(changes.iter().copied()).collect()
}

fn read_as(client: &Client, changes: &[(&str, &str)]) -> Result<AuthorizationRequest, AuthorizeRejection> {
    AuthorizationRequest::read(&parameters(changes), |id| (id == client.id).then_some(client))
}

fn read(changes: &[(&str, &str)]) -> Result<AuthorizationRequest, AuthorizeRejection> {
    read_as(&client(), changes)
}

#[test]
fn valid_authorization_requests_are_accepted() {
    let request = read(&[]).expect("the request is valid");
    assert_eq!((request.target.mode, request.scopes, request.max_age), (ResponseMode::Query, Scopes::default(), None));
    assert!(!request.is_silent && !request.is_fresh);
    for (response_type, mode) in [
        ("code", ResponseMode::Query),
        ("id_token", ResponseMode::Fragment),
        ("id_token token", ResponseMode::Fragment),
        ("token id_token", ResponseMode::Fragment),
        ("code id_token", ResponseMode::Fragment),
        ("code token", ResponseMode::Fragment),
        ("token code id_token", ResponseMode::Fragment),
    ] {
        let request = read(&[("response_type", response_type), ("nonce", "n")]).expect(response_type);
        assert_eq!(request.target.mode, mode, "{response_type}");
        let form = read(&[("response_type", response_type), ("nonce", "n"), ("response_mode", "form_post")]);
        assert_eq!(form.expect(response_type).target.mode, ResponseMode::FormPost, "{response_type}");
    }
    // `code token` returns no ID token through the browser, so it needs no nonce.
    assert!(read(&[("response_type", "code token")]).is_ok());
    let request = read(&[
        ("scope", "profile  openid offline_access email"),
        ("state", "a b&c"),
        ("prompt", "login consent"),
        ("max_age", "0"),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("ui_locales", "de"),
        ("unknown", "1"),
        ("unknown", "2"),
        ("claims_locales", "de"),
        ("response_mode", ""),
    ]);
    let request = request.expect("the request is valid");
    assert_eq!(request.scopes, Scopes { email: true, profile: true });
    assert_eq!((request.target.state.as_deref(), request.max_age, request.is_fresh), (Some("a b&c"), Some(0), true));
    assert_eq!(request.code_challenge.as_deref(), Some(CHALLENGE));
    assert!(read(&[("prompt", "none")]).expect("the request is valid").is_silent);
}

#[test]
fn spaces_around_a_prompt_and_a_fraction_of_zero_change_nothing() {
    for (prompt, is_silent) in [("none ", true), (" none", true), (" ", false), ("", false)] {
        assert_eq!(read(&[("prompt", prompt)]).map(|request| request.is_silent), Ok(is_silent), "{prompt:?}");
    }
    assert_eq!(read(&[("max_age", "7200.0")]).map(|request| request.max_age), Ok(Some(7200)));
}

/// RFC 8252, section 7.3: the program listens on a port that the operating system chooses.
#[test]
fn a_public_client_at_a_loopback_address_may_use_any_port() {
    let client =
        |registered: &str, is_public| Client { redirect_uris: vec![registered.to_owned()], is_public, ..client() };
    #[rustfmt::skip]
    let table = [
        ("http://127.0.0.1:3000/callback", "http://127.0.0.1:51004/callback", true),
        ("http://127.0.0.1/callback", "http://127.0.0.1:51004/callback", true),
        ("http://127.0.0.1:3000/callback", "http://127.0.0.1/callback", true),
        ("http://[::1]/callback?x=1", "http://[::1]:51004/callback?x=1", true),
        ("http://127.0.0.1", "http://127.0.0.1:51004", true),
        ("http://127.0.0.1/callback", "http://127.0.0.1:51004/callback/", false),
        ("http://127.0.0.1/callback", "http://127.0.0.1:65536/callback", false),
        ("http://127.0.0.1/callback", "http://127.0.0.1:/callback", false),
        ("http://127.0.0.1/callback", "http://127.0.0.1:1@evil.example/callback", false),
        ("http://127.0.0.1/callback", "http://127.0.0.1.evil.example/callback", false),
        ("http://127.0.0.1/callback", "http://[::1]:51004/callback", false),
        ("http://127.0.0.1/callback", "https://127.0.0.1:51004/callback", false),
        ("http://localhost/callback", "http://localhost:51004/callback", false),
        ("https://app.example/callback", "https://app.example:51004/callback", false),
    ];
    for (registered, given, is_taken) in table {
        let changes = [("redirect_uri", given), ("code_challenge", CHALLENGE), ("code_challenge_method", "S256")];
        let request = read_as(&client(registered, true), &changes);
        assert_eq!(request.is_ok(), is_taken, "{registered} {given}");
        if let Ok(request) = request {
            assert_eq!((request.target.redirect_uri.as_str(), request.is_fresh), (given, true));
        }
        assert!(read_as(&client(registered, false), &changes).is_err(), "with a secret: {registered} {given}");
    }
}

#[test]
fn errors_without_a_registered_redirect_uri_are_shown_on_a_page() {
    let table = [
        (vec![("client_id", "")], ErrorKind::Required, "client_id"),
        (vec![("client_id", "app_b")], ErrorKind::InvalidClientId, "client_id"),
        (vec![("client_id", "app_a"), ("client_id", "app_b")], ErrorKind::InvalidRequest, "client_id"),
        (vec![("redirect_uri", "")], ErrorKind::Required, "redirect_uri"),
        (vec![("redirect_uri", CALLBACK), ("redirect_uri", LOCAL)], ErrorKind::InvalidRequest, "redirect_uri"),
    ];
    for (changes, kind, attribute) in table {
        let Err(AuthorizeRejection::Page(error)) = read(&changes) else {
            panic!("{changes:?} must be an error on a page")
        };
        assert_eq!((error.kind, error.attribute), (kind, Some(attribute)), "{changes:?}");
    }
    // No redirect goes to a URI that is not registered.
    for uri in [
        "https://app.example/callback",
        "https://app.example/callback?x=1&y=2",
        "https://app.example/callback?x=1#",
        "https://app.example/callback?x=1#fragment",
        "https://app.example/callback/?x=1",
        "https://app.example/Callback?x=1",
        "https://APP.example/callback?x=1",
        "https://app.example:443/callback?x=1",
        "https://user@app.example/callback?x=1",
        "https://app.example@evil.example/callback?x=1",
        "https://app.example\\@evil.example/callback?x=1",
        "https://app.example/%63allback?x=1",
        "https://app.example/../callback?x=1",
        "https://app.example/callback?x=1 ",
        "http://app.example/callback?x=1",
        "//app.example/callback?x=1",
        "http://127.0.0.1:3001/callback",
        "http://127.0.0.1/callback",
        "http://localhost:3000/callback",
        "http://127.0.0.1:3000/callback/",
        "javascript:alert(1)",
    ] {
        for changes in
            [vec![("redirect_uri", uri)], vec![("redirect_uri", uri), ("response_type", "x"), ("prompt", "none")]]
        {
            let Err(AuthorizeRejection::Page(error)) = read(&changes) else {
                panic!("{uri} must be an error on a page")
            };
            assert_eq!(error.kind, ErrorKind::InvalidRedirectUri, "{uri}");
        }
    }
}

#[test]
fn other_errors_are_redirected_to_the_client() {
    use ResponseMode::{FormPost, Fragment, Query};
    type Row = (Vec<(&'static str, &'static str)>, ErrorKind, &'static str, ResponseMode);
    let table: Vec<Row> = vec![
        (vec![("response_type", "")], ErrorKind::Required, "response_type", Query),
        (vec![("response_type", "token")], ErrorKind::UnsupportedResponseType, "response_type", Fragment),
        (vec![("response_type", "none")], ErrorKind::UnsupportedResponseType, "response_type", Query),
        (vec![("response_type", "code code")], ErrorKind::UnsupportedResponseType, "response_type", Query),
        (vec![("response_type", "code  id_token")], ErrorKind::UnsupportedResponseType, "response_type", Fragment),
        (vec![("response_type", "Code")], ErrorKind::UnsupportedResponseType, "response_type", Query),
        (
            vec![("response_type", "code"), ("response_type", "id_token")],
            ErrorKind::InvalidRequest,
            "response_type",
            Query,
        ),
        (vec![("scope", "")], ErrorKind::Required, "scope", Query),
        (vec![("scope", "email")], ErrorKind::InvalidScope, "scope", Query),
        (vec![("scope", "OpenID")], ErrorKind::InvalidScope, "scope", Query),
        (vec![("response_type", "id_token")], ErrorKind::Required, "nonce", Fragment),
        (vec![("response_type", "code id_token")], ErrorKind::Required, "nonce", Fragment),
        (vec![("response_mode", "web_message")], ErrorKind::InvalidRequest, "response_mode", Query),
        (
            vec![("response_type", "id_token"), ("nonce", "n"), ("response_mode", "query")],
            ErrorKind::InvalidRequest,
            "response_mode",
            Fragment,
        ),
        (
            vec![("response_type", "code token"), ("response_mode", "query")],
            ErrorKind::InvalidRequest,
            "response_mode",
            Fragment,
        ),
        (vec![("scope", "email"), ("response_mode", "form_post")], ErrorKind::InvalidScope, "scope", FormPost),
        (vec![("ui_locales", "a"), ("ui_locales", "b")], ErrorKind::InvalidRequest, "ui_locales", Query),
        (vec![("nonce", LONG)], ErrorKind::InvalidRequest, "nonce", Query),
        (vec![("state", "a"), ("state", "b")], ErrorKind::InvalidRequest, "state", Query),
        (vec![("request", "x")], ErrorKind::RequestNotSupported, "request", Query),
        (vec![("request_uri", "https://x")], ErrorKind::RequestUriNotSupported, "request_uri", Query),
        (vec![("prompt", "none login")], ErrorKind::InvalidRequest, "prompt", Query),
        (vec![("max_age", "-1")], ErrorKind::InvalidRequest, "max_age", Query),
        (vec![("max_age", "+1")], ErrorKind::InvalidRequest, "max_age", Query),
        (vec![("max_age", "7200.5")], ErrorKind::InvalidRequest, "max_age", Query),
        (vec![("max_age", "7200.")], ErrorKind::InvalidRequest, "max_age", Query),
        (vec![("max_age", ".0")], ErrorKind::InvalidRequest, "max_age", Query),
        (vec![("max_age", "99999999999999999999")], ErrorKind::InvalidRequest, "max_age", Query),
        (vec![("code_challenge", CHALLENGE)], ErrorKind::InvalidRequest, "code_challenge_method", Query),
        (
            vec![("code_challenge", CHALLENGE), ("code_challenge_method", "plain")],
            ErrorKind::InvalidRequest,
            "code_challenge_method",
            Query,
        ),
        (
            vec![("code_challenge", "short"), ("code_challenge_method", "S256")],
            ErrorKind::InvalidRequest,
            "code_challenge",
            Query,
        ),
        (vec![("code_challenge_method", "S256")], ErrorKind::InvalidRequest, "code_challenge", Query),
    ];
    for (changes, kind, attribute, mode) in table {
        let Err(AuthorizeRejection::Redirect { target, rejection: error }) = read(&changes) else {
            panic!("{changes:?} must be redirected")
        };
        assert_eq!((error.kind, error.attribute, target.mode), (kind, Some(attribute), mode), "{changes:?}");
        assert_eq!(target.redirect_uri, CALLBACK);
        if kind == ErrorKind::Required {
            assert!(error.detail.starts_with(&format!("required: {attribute}")), "{error}");
        }
    }
}

#[test]
fn public_and_configured_clients_have_to_use_pkce() {
    let public = Client { is_public: true, ..client() };
    let strict = Client { require_pkce: true, ..client() };
    let with_pkce = [("code_challenge", CHALLENGE), ("code_challenge_method", "S256")];
    for client in [&public, &strict] {
        assert_eq!(
            read_as(client, &[]).expect_err("the request is rejected").rejection().attribute,
            Some("code_challenge")
        );
        assert!(read_as(client, &with_pkce).is_ok());
        // A request without a code needs no PKCE.
        assert!(read_as(client, &[("response_type", "id_token"), ("nonce", "n")]).is_ok());
        let hybrid = read_as(client, &[("response_type", "code id_token"), ("nonce", "n")]);
        assert_eq!(hybrid.expect_err("the request is rejected").rejection().attribute, Some("code_challenge"));
    }
}

#[test]
fn responses_are_encoded_for_their_response_mode() {
    let issuer = "https://id.example";
    let target = |uri: &str, mode, state: Option<&str>| Target {
        redirect_uri: uri.to_owned(),
        mode,
        state: state.map(str::to_owned),
    };
    let fields = || vec![("code", "a+b".to_owned())];
    for (uri, mode, state, expected) in [
        (
            LOCAL,
            ResponseMode::Query,
            Some("s"),
            "http://127.0.0.1:3000/callback?code=a%2Bb&state=s&iss=https%3A%2F%2Fid.example",
        ),
        (
            CALLBACK,
            ResponseMode::Query,
            None,
            "https://app.example/callback?x=1&code=a%2Bb&iss=https%3A%2F%2Fid.example",
        ),
        (
            CALLBACK,
            ResponseMode::Fragment,
            Some("<&>"),
            "https://app.example/callback?x=1#code=a%2Bb&state=%3C%26%3E&iss=https%3A%2F%2Fid.example",
        ),
    ] {
        let location = expected.to_owned();
        assert_eq!(target(uri, mode, state).deliver(fields(), issuer), Delivery::Redirect { location });
    }
    let posted = target(CALLBACK, ResponseMode::FormPost, Some("\"><script>")).deliver(fields(), issuer);
    let fields = [("code", "a+b"), ("state", "\"><script>"), ("iss", issuer)];
    let fields = fields.map(|(name, value)| (name, value.to_owned())).into();
    assert_eq!(posted, Delivery::Post { action: CALLBACK.to_owned(), fields });
}

fn provider(issuer: &str) -> Provider {
    let text = str::to_owned;
    Provider {
        issuer: text(issuer),
        name: text("World ID User"),
        given_name: text("World ID"),
        family_name: text("User"),
    }
}

#[test]
fn claims_follow_the_scopes_and_the_verification_level() {
    let person = Person {
        subject: B256::from(U256::from(0xabc)),
        level: VerificationLevel::Orb,
        group: None,
        auth_time: UnixSeconds(1000),
    };
    let subject = format!("0x{}abc", "0".repeat(61));
    assert_eq!(person.subject(), subject);
    let provider = provider("https://id.example:8443/x");
    let claims = provider.person_claims(&person, Scopes { email: true, profile: true });
    let expected = serde_json::json!({
        "sub": subject,
        "https://id.example:8443/x/beta": {"likely_human": "strong", "credential_type": "orb"},
        "https://id.example:8443/x/v1": {"verification_level": "orb"},
        "email": format!("{subject}@id.example"), "email_verified": false,
        "name": "World ID User", "given_name": "World ID", "family_name": "User",
    });
    assert_eq!(serde_json::Value::Object(claims), expected);
    let device = Person { level: VerificationLevel::of_identifier("device"), ..person };
    let claims = provider.person_claims(&device, Scopes::default());
    assert_eq!(claims.len(), 3);
    assert_eq!(claims["https://id.example:8443/x/beta"]["likely_human"], "weak");
    let member = Person { group: Some("members".parse().expect("an id")), ..device };
    let claims = provider.person_claims(&member, Scopes::default());
    assert_eq!(claims.len(), 4);
    assert_eq!(claims["https://id.example:8443/x/groups"], serde_json::json!(["members"]));
    assert_eq!(claims["https://id.example:8443/x/v1"]["verification_level"], "device");
    let token = IdToken {
        client_id: "app_a",
        nonce: Some("n"),
        issued_at: UnixSeconds(2000),
        expires_at: UnixSeconds(5600),
        id: "unique",
        access_token: Some("jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y"),
        code: Some("Qcb0Orv1zh30vL1MPRsbm-diHiMwcLyZvn1arpZv-Jxf_11jnpEX3Tgfvk"),
    };
    let claims = provider.id_token_claims(&person, Scopes::default(), &token);
    // The hashes are the examples of OpenID Connect Core, appendix A.
    assert_eq!(claims["at_hash"], "77QmUPtjPfzWtF2AnpK9RQ");
    assert_eq!(claims["c_hash"], "LDktKdoQak3Pk0cnXxCltA");
    let rest = ["iss", "aud", "iat", "exp", "jti", "auth_time", "nonce"].map(|name| claims[name].to_string());
    assert_eq!(rest, ["\"https://id.example:8443/x\"", "\"app_a\"", "2000", "5600", "\"unique\"", "1000", "\"n\""]);
    assert_eq!(provider_host("http://[::1]:8080"), "[::1]");
    assert_eq!(provider_host("http://[::1]"), "[::1]");
    assert_eq!(provider_host("https://id.example"), "id.example");
}

fn provider_host(issuer: &str) -> String {
    provider(issuer).host().to_owned()
}

#[test]
fn unknown_scopes_are_ignored_and_openid_is_required() {
    for (text, expected) in [
        ("openid", Some("openid")),
        ("email openid", Some("openid email")),
        ("profile openid email address", Some("openid email profile")),
        ("email", None),
        ("", None),
        ("openid2", None),
    ] {
        assert_eq!(Scopes::parse(text).map(Scopes::text).as_deref(), expected, "{text:?}");
    }
    let (none, email, all) =
        (Scopes::default(), Scopes { email: true, profile: false }, Scopes { email: true, profile: true });
    assert!(
        none.is_subset_of(email) && email.is_subset_of(all) && !all.is_subset_of(email) && !email.is_subset_of(none)
    );
}

#[test]
fn discovery_lists_rs256_always_and_es256_while_it_may_sign() {
    use SigningAlgorithm::{Es256, Rs256};

    let listed = |algorithms: &[SigningAlgorithm]| {
        Discovery::of("https://id.example", algorithms).id_token_signing_alg_values_supported
    };
    assert_eq!(listed(&[]), ["RSA", "RS256"]);
    assert_eq!(listed(&[Rs256]), ["RSA", "RS256"]);
    for algorithms in [&[Es256][..], &[Rs256, Es256], &[Es256, Es256]] {
        assert_eq!(listed(algorithms), ["RSA", "RS256", "ES256"], "{algorithms:?}");
    }
}

#[test]
fn a_session_answers_requests_within_its_age_and_approved_scopes() {
    let approved = Scopes { email: true, profile: false };
    let answered = |changes: &[(&str, &str)]| {
        read(changes).expect("the request is valid").is_answered_by(UnixSeconds(1000), approved, UnixSeconds(1100))
    };
    assert!(answered(&[]) && answered(&[("scope", "openid email")]) && answered(&[("prompt", "none")]));
    assert!(answered(&[("max_age", "100")]) && !answered(&[("max_age", "99")]) && !answered(&[("max_age", "0")]));
    assert!(!answered(&[("scope", "openid profile")]));
    for prompt in ["login", "consent", "select_account"] {
        assert!(!answered(&[("prompt", prompt)]), "{prompt}");
    }
}
