//! Forms, authorization requests and the targets of their responses, PKCE, scopes, claims.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use selfsame_protocol::sign_in::SigningAlgorithm;
use selfsame_protocol::sign_in::authorize::{
    self, AuthorizationRequest, AuthorizeRejection, Client, LONGEST_KEPT, Parameters,
};
use selfsame_protocol::sign_in::claims::{IdToken, Person, Provider, Scopes};
use selfsame_protocol::sign_in::discovery::Discovery;
use selfsame_protocol::sign_in::response::{Delivery, ResponseMode, ResponseType, Target};
use selfsame_protocol::time::UnixSeconds;

use crate::cases;
use crate::damage::{any_byte_damage, any_text, apply_damage, with_changed_characters};
use crate::memory::check_memory_in_proportion;
use crate::samples::Sample;

/// The parameters of an authorization request, and some unknown names.
const NAMES: [&str; 22] = [
    "client_id",
    "redirect_uri",
    "state",
    "response_type",
    "response_mode",
    "scope",
    "nonce",
    "code_challenge",
    "code_challenge_method",
    "prompt",
    "max_age",
    "id_token_hint",
    "login_hint",
    "display",
    "ui_locales",
    "claims_locales",
    "acr_values",
    "request",
    "request_uri",
    "Client_id",
    "redirect_uri ",
    "x",
];

/// Words of scopes, response types and modes.
const WORDS: [&str; 10] =
    ["openid", "email", "profile", "code", "id_token", "token", "query", "fragment", "form_post", ""];

const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// The names and values of a form, by the definition: pieces between `&`, the name up to the first
/// `=`, `+` for a space, `%` and two hex digits for a byte, and replacement characters for what is
/// not UTF-8.
fn form(text: &[u8]) -> Vec<(String, String)> {
    let digit = |byte: &u8| (*byte as char).to_digit(16).map(|digit| digit as u8);
    let read = |text: &[u8]| {
        let mut bytes = Vec::new();
        let mut rest = text;
        while let [first, behind @ ..] = rest {
            rest = behind;
            let escaped = match behind {
                [high, low, ..] if *first == b'%' => digit(high).zip(digit(low)),
                _ => None,
            };
            bytes.push(match (escaped, first) {
                (Some((high, low)), _) => {
                    rest = &behind[2..];
                    high * 16 + low
                }
                (None, b'+') => b' ',
                (None, other) => *other,
            });
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let pieces = text.split(|byte| *byte == b'&').filter(|piece| !piece.is_empty());
    pieces
        .map(|piece| {
            let end = piece.iter().position(|byte| *byte == b'=').unwrap_or(piece.len());
            (read(&piece[..end]), read(piece.get(end + 1..).unwrap_or_default()))
        })
        .collect()
}

/// Any names and values, with some characters escaped.
fn any_form() -> BoxedStrategy<Vec<u8>> {
    let name = prop_oneof![3 => prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned), 1 => any_text()];
    let escape = |text: &str, every: usize| -> String {
        let escaped = |(place, byte): (usize, u8)| match byte {
            b'a'..=b'z' if place % 7 != every => char::from(byte).to_string(),
            _ if every == 5 && byte.is_ascii() => char::from(byte).to_string(),
            _ => format!("%{byte:02x}"),
        };
        text.bytes().enumerate().map(escaped).collect()
    };
    let pair = (name, any_value(), 0..8usize).prop_map(move |(name, value, every)| match every {
        7 => name,
        _ => format!("{}={}", escape(&name, every), escape(&value, every)),
    });
    let text = prop::collection::vec(pair, 0..8).prop_map(|pairs| pairs.join("&").into_bytes());
    (text, prop_oneof![3 => Just(Vec::new()).boxed(), 1 => any_byte_damage().boxed()])
        .prop_map(|(text, damages)| apply_damage(&text, &damages))
        .boxed()
}

/// Values for parameters, including valid values of all parameters.
fn any_value() -> BoxedStrategy<String> {
    let good = vec![
        "app_a",
        "app_b",
        "code",
        "id_token",
        "code id_token token",
        "token",
        "query",
        "fragment",
        "form_post",
        "openid",
        "openid email",
        "n",
        "S256",
        "plain",
        CHALLENGE,
        "none",
        "login",
        "none login",
        "0",
        "18446744073709551616",
        "-1",
        "+1",
    ];
    prop_oneof![
        4 => prop::sample::select(good).prop_map(str::to_owned),
        2 => any_text(),
        1 => (LONGEST_KEPT - 1..LONGEST_KEPT + 2).prop_map(|length| "s".repeat(length)),
    ]
    .boxed()
}

/// Redirect URIs that can be registered: absolute, without a fragment, with any path and query.
fn any_redirect_uri() -> BoxedStrategy<String> {
    let origin =
        prop::sample::select(vec!["https://app.example", "http://127.0.0.1:3000", "http://[::1]:8", "https://a"]);
    let path = "(/[a-z0-9&=+:@!$'()*,;.~%_-]{0,8}){0,3}";
    let query = prop::option::of("[a-z0-9&=+:@!$'()*,;.~/?_-]{0,12}");
    (origin, path, query)
        .prop_map(|(origin, path, query)| match query {
            Some(query) => format!("{origin}{path}?{query}"),
            None => format!("{origin}{path}"),
        })
        .boxed()
}

fn any_client() -> BoxedStrategy<Client> {
    (prop::collection::vec(any_redirect_uri(), 1..4), any::<bool>(), any::<bool>())
        .prop_map(|(redirect_uris, is_public, require_pkce)| Client {
            id: "app_a".to_owned(),
            redirect_uris,
            is_public,
            require_pkce,
            post_logout_redirect_uris: Vec::new(),
            response_types: ResponseType::SUPPORTED.into_iter().filter_map(ResponseType::parse).collect(),
        })
        .boxed()
}

/// A valid request with changes: parameters repeated, replaced, removed or added.
fn any_request(client: &Client) -> BoxedStrategy<Vec<(String, String)>> {
    let uris = client.redirect_uris.clone();
    let uri = any::<Index>().prop_map(move |at| at.get(&uris).clone());
    // Changes that an attacker who has a registered URI would try.
    let appendix = vec!["@evil.example", ".evil.example", "/", "?", "&x=1", "#", "#x", "/../x", "%00", " ", "\n", "\\"];
    let longer = (uri.clone(), prop::sample::select(appendix)).prop_map(|(uri, appendix)| uri + appendix);
    let shorter = (uri.clone(), any::<Index>()).prop_map(|(uri, at)| uri[..at.index(uri.len())].to_owned());
    let upper_case = uri.clone().prop_map(|uri| uri.to_uppercase());
    let near_uri = prop_oneof![with_changed_characters(uri.clone()), longer, shorter, upper_case].boxed();
    let uri = prop_oneof![4 => uri.boxed(), 1 => near_uri.clone()];
    let response_type = prop::sample::select(vec![
        "code",
        "id_token",
        "id_token token",
        "code id_token",
        "code token",
        "code id_token token",
        "token id_token code",
    ]);
    let mode = prop::sample::select(vec!["", "", "query", "fragment", "form_post"]);
    let good = (uri, response_type, mode, any_text(), any::<bool>()).prop_map(
        |(uri, response_type, mode, state, has_challenge)| {
            let mut pairs = vec![
                ("client_id", "app_a".to_owned()),
                ("redirect_uri", uri),
                ("response_type", response_type.to_owned()),
                ("response_mode", mode.to_owned()),
                ("scope", "openid email".to_owned()),
                ("nonce", "n".to_owned()),
                ("state", state),
            ];
            if has_challenge {
                pairs.push(("code_challenge", CHALLENGE.to_owned()));
                pairs.push(("code_challenge_method", "S256".to_owned()));
            }
            pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Vec<_>>()
        },
    );
    let change = (
        any::<Index>(),
        0..4u8,
        prop::sample::select(NAMES.to_vec()),
        prop_oneof![4 => any_value().boxed(), 1 => near_uri],
    );
    (good, prop::collection::vec(change, 0..4))
        .prop_map(|(mut pairs, changes)| {
            for (at, kind, name, value) in changes {
                let at = at.index(pairs.len());
                match kind {
                    0 => pairs[at].1 = value,
                    1 if pairs.len() > 1 => drop(pairs.remove(at)),
                    2 => pairs.insert(at, pairs[at].clone()),
                    _ => pairs.insert(at, (name.to_owned(), value)),
                }
            }
            pairs
        })
        .boxed()
}

/// Whether every character of a text may follow the registered URI in a `Location` header.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"?#&=+%*-._".contains(&byte))
}

/// Checks that a response goes only to the registered URI: the location begins with the URI's
/// bytes, plain characters follow, and a browser and the client read from it the same origin and
/// path, the URI's own query, and the fields in their order.
fn check_reaches_target(
    target: &Target,
    fields: Vec<(&'static str, String)>,
    issuer: &str,
) -> Result<(), TestCaseError> {
    let mut expected: Vec<(String, String)> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    expected.extend(target.state.clone().map(|state| ("state".to_owned(), state)));
    expected.push(("iss".to_owned(), issuer.to_owned()));
    let uri = &target.redirect_uri;
    let (resource, query) =
        uri.split_once('?').map_or((uri.as_str(), None), |(resource, query)| (resource, Some(query)));
    match target.deliver(fields, issuer) {
        Delivery::Post { action, fields } => {
            prop_assert_eq!(target.mode, ResponseMode::FormPost);
            prop_assert_eq!(&action, uri);
            let fields: Vec<_> = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            prop_assert_eq!(fields, expected);
        }
        Delivery::Redirect { location } => {
            prop_assert!(location.strip_prefix(uri.as_str()).is_some_and(is_plain), "{}", location);
            let (found, fragment) =
                location.split_once('#').map_or((location.as_str(), None), |(found, fragment)| (found, Some(fragment)));
            if target.mode == ResponseMode::Fragment {
                prop_assert_eq!(found, uri);
                prop_assert_eq!(form(fragment.unwrap_or_default().as_bytes()), expected);
                return Ok(());
            }
            prop_assert_eq!((target.mode, fragment), (ResponseMode::Query, None));
            let (found_resource, found_query) = found.split_once('?').unwrap_or((found, ""));
            prop_assert_eq!(found_resource, resource, "{}", location);
            let own = form(query.unwrap_or_default().as_bytes());
            prop_assert_eq!(form(found_query.as_bytes()), [own, expected].concat(), "{}", location);
        }
    }
    Ok(())
}

/// An http URI at the literal of a loopback address, without its port; `None` for another URI and
/// for a port that does not exist.
fn without_loopback_port(uri: &str) -> Option<String> {
    let behind = uri.strip_prefix("http://")?;
    let host = ["127.0.0.1", "[::1]"].into_iter().find(|host| behind.starts_with(host))?;
    let (port, resource) = behind[host.len()..].split_at(behind.find(['/', '?']).unwrap_or(behind.len()) - host.len());
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then(|| format!("http://{host}{resource}"))
}

/// Checks that the target of a request or of its rejection is registered, byte for byte but for the
/// port of a public client at a loopback address (RFC 8252, section 7.3), and has the request's
/// state.
fn check_registered_target(target: &Target, client: &Client, parameters: &Parameters) -> Result<(), TestCaseError> {
    let given = &target.redirect_uri;
    let differs_by_port =
        |uri: &str| without_loopback_port(uri).is_some_and(|uri| without_loopback_port(given) == Some(uri));
    let is_registered = |uri: &String| uri == given || (client.is_public && differs_by_port(uri));
    prop_assert!(client.redirect_uris.iter().any(is_registered));
    prop_assert_eq!(Some(target.redirect_uri.as_str()), parameters.get("redirect_uri"));
    prop_assert_eq!(target.state.as_deref(), parameters.get("state"));
    let words = parameters.get("response_type").unwrap_or_default();
    if words.split(' ').any(|word| ["id_token", "token"].contains(&word)) {
        prop_assert_ne!(target.mode, ResponseMode::Query);
    }
    Ok(())
}

/// Checks that an accepted request has everything that the rules require, and that a rejection goes
/// to a registered URI or to no URI.
fn check_judgement(parameters: &Parameters, client: &Client) -> Result<(), TestCaseError> {
    let read = AuthorizationRequest::read(parameters, |id| (id == client.id).then_some(client));
    let twice = parameters.find_repeated(&NAMES[..19]);
    match read {
        Ok(request) => {
            check_registered_target(&request.target, client, parameters)?;
            prop_assert_eq!((twice, &request.client_id), (None, &client.id));
            let response_type = ResponseType::parse(parameters.get("response_type").unwrap_or_default());
            prop_assert_eq!(response_type, Some(request.response_type));
            prop_assert!(parameters.get("scope").unwrap_or_default().split(' ').any(|word| word == "openid"));
            prop_assert!(request.nonce.is_some() || !request.response_type.id_token);
            prop_assert!(
                [&request.nonce, &request.target.state].into_iter().flatten().all(|text| text.len() <= LONGEST_KEPT)
            );
            let needs_pkce = request.response_type.code && (client.is_public || client.require_pkce);
            prop_assert!(request.code_challenge.is_some() || !needs_pkce);
            prop_assert!(request.code_challenge.as_deref().is_none_or(authorize::is_challenge));
            prop_assert!(!(request.is_silent && request.is_fresh));
            prop_assert!(parameters.get("request").or(parameters.get("request_uri")).is_none());
            prop_assert_eq!(
                request.max_age.map(|age| age.to_string()),
                parameters.get("max_age").map(|age| {
                    let digits = age.trim_start_matches('0');
                    if digits.is_empty() { "0".to_owned() } else { digits.to_owned() }
                })
            );
            check_reaches_target(&request.target, vec![("code", "c".to_owned())], "https://id.example")?;
            let kept = request.clone().into_kept(None);
            prop_assert_eq!((kept.target, kept.nonce), (request.target, request.nonce));
        }
        Err(AuthorizeRejection::Redirect { target, rejection: error }) => {
            check_registered_target(&target, client, parameters)?;
            prop_assert!(!error.detail.is_empty());
            let fields =
                vec![("error", error.kind.standard_code().to_owned()), ("error_description", error.detail.clone())];
            check_reaches_target(&target, fields, "https://id.example")?;
        }
        Err(AuthorizeRejection::Page(error)) => {
            let is_known = parameters.get("client_id") == Some(&client.id);
            let check_registered_target =
                parameters.get("redirect_uri").is_some_and(|uri| client.redirect_uris.iter().any(|other| other == uri));
            let is_doubled = parameters.find_repeated(&["client_id", "redirect_uri"]).is_some();
            prop_assert!(!is_known || !check_registered_target || is_doubled, "{}", error);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    /// A form is read as the definition says: an empty value counts as absent, the first of
    /// repeated parameters counts, and the repetition is reported.
    #[test]
    fn a_form_is_read_as_the_definition_says(text in prop_oneof![any_form().boxed(), prop::collection::vec(any::<u8>(), 0..200).boxed()]) {
        let parameters = check_memory_in_proportion(text.len(), || Parameters::parse(&text))?;
        let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in form(&text) {
            if !value.is_empty() {
                expected.entry(name).or_default().push(value);
            }
        }
        for name in expected.keys().map(String::as_str).chain(NAMES) {
            let values = expected.get(name).map(Vec::as_slice).unwrap_or_default();
            prop_assert_eq!(parameters.get(name), values.first().map(String::as_str));
            prop_assert_eq!(parameters.find_repeated(&[name]), (values.len() > 1).then_some(name));
        }
        let pairs: Parameters = form(&text).into_iter().collect();
        prop_assert_eq!(pairs, parameters);
    }

    /// No query causes a redirect to a URI that is not registered.
    #[test]
    fn no_query_redirects_to_an_unregistered_uri(text in any_form(), client in any_client()) {
        check_judgement(&Parameters::parse(&text), &client)?;
    }

    /// A valid request after changes does not cause a redirect to a URI that is not registered, and
    /// is accepted only with everything that it needs.
    #[test]
    fn no_changed_request_redirects_to_an_unregistered_uri(
        (client, pairs) in any_client()
            .prop_flat_map(|client| (any_request(&client), Just(client)).prop_map(|(pairs, client)| (client, pairs))),
    ) {
        check_judgement(&pairs.into_iter().collect(), &client)?;
    }

    /// A response goes to its target for any path and query of the URI, any state, any issuer and
    /// any fields.
    #[test]
    fn a_response_goes_only_to_its_target(
        redirect_uri in any_redirect_uri(),
        mode in ResponseMode::any(),
        state in prop::option::of(any_text()),
        values in prop::collection::vec(any_text(), 0..3),
        issuer in any_text(),
    ) {
        let fields = ["code", "error", "error_description"].into_iter().zip(values).collect();
        check_reaches_target(&Target { redirect_uri, mode, state }, fields, &issuer)?;
    }

    /// A verifier is 43 to 128 unreserved characters; a challenge is the only base64url text of 32
    /// bytes.
    #[test]
    fn verifiers_and_challenges_follow_their_definitions(
        text in prop_oneof![
            with_changed_characters("[A-Za-z0-9._~-]{40,131}").boxed(),
            with_changed_characters("[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]").boxed(),
            with_changed_characters("[A-Za-z0-9_-]{43}").boxed(),
            any_text().boxed(),
        ],
    ) {
        let is_made_of = |others: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c));
        let length = text.chars().count();
        prop_assert_eq!(authorize::is_verifier(&text), (43..=128).contains(&length) && is_made_of("-._~"));
        let has_no_bits_behind = text.ends_with(|last| "AEIMQUYcgkosw048".contains(last));
        prop_assert_eq!(authorize::is_challenge(&text), length == 43 && is_made_of("-_") && has_no_bits_behind);
        let challenge = authorize::challenge(&text);
        prop_assert!(authorize::is_challenge(&challenge) && challenge != text);
        // The first twenty-one characters of six bits each depend only on the first sixteen bytes.
        let half = authorize::half_hash(&text);
        prop_assert!(half.len() == 22 && half[..21] == challenge[..21]);
    }

    /// Words of scopes, response types and modes: unknown words are ignored or rejected, repeated
    /// words count once, and the texts round-trip.
    #[test]
    fn scopes_response_types_and_modes_round_trip_through_their_texts(
        words in prop::collection::vec(
            prop_oneof![4 => prop::sample::select(WORDS.to_vec()).prop_map(str::to_owned), 1 => any_text()],
            0..5,
        ),
    ) {
        let text = words.join(" ");
        // A text may contain spaces.
        let words: Vec<&str> = text.split(' ').collect();
        let scopes = Scopes::parse(&text);
        let expected = Scopes { email: words.contains(&"email"), profile: words.contains(&"profile") };
        prop_assert_eq!(scopes, words.contains(&"openid").then_some(expected));
        prop_assert_eq!(Scopes::parse(&expected.text()), Some(expected));
        let mut sorted = words.clone();
        sorted.sort_unstable();
        let supported = ResponseType::SUPPORTED.iter().find(|supported| {
            let mut words: Vec<&str> = supported.split(' ').collect();
            words.sort_unstable();
            words == sorted
        });
        prop_assert_eq!(ResponseType::parse(&text), supported.and_then(|supported| ResponseType::parse(supported)));
        prop_assert_eq!(ResponseType::parse(&text).is_some(), supported.is_some());
        prop_assert_eq!(ResponseMode::parse(&text).is_some(), ResponseMode::SUPPORTED.contains(&text.as_str()));
    }

    /// Claims and discovery metadata can be written for any issuer and any person; a subject has 66
    /// characters.
    #[test]
    fn claims_and_discovery_can_be_written_for_any_content(
        issuer in prop_oneof![any_redirect_uri().boxed(), any_text().boxed()],
        names in [any_text(), any_text(), any_text()],
        person in Person::any(),
        scopes in Scopes::any(),
        token in [any_text(), any_text(), any_text()],
        times in [u64::any(), u64::any()],
    ) {
        let [name, given_name, family_name] = names;
        let provider = Provider { issuer: issuer.clone(), name, given_name, family_name };
        prop_assert!(!provider.host().contains(['/', '?', '#']));
        prop_assert_eq!(person.subject().len(), 66);
        let [client_id, nonce, id] = &token;
        let token = IdToken {
            client_id,
            nonce: Some(nonce),
            issued_at: UnixSeconds(times[0]),
            expires_at: UnixSeconds(times[1]),
            id,
            access_token: Some(nonce),
            code: Some(id),
        };
        let user_info = provider.person_claims(&person, scopes);
        let claims = provider.id_token_claims(&person, scopes, &token);
        for (claim, value) in &user_info {
            prop_assert!(claims.get(claim) == Some(value) || ["iss", "aud", "jti", "nonce"].contains(&claim.as_str()));
        }
        prop_assert_eq!(
            (user_info.contains_key("email"), user_info.contains_key("name")),
            (scopes.email, scopes.profile)
        );
        let discovery = Discovery::of(&issuer, &[SigningAlgorithm::default()]);
        prop_assert_eq!(discovery.jwks_uri, format!("{issuer}/jwks"));
    }

    /// A request is answered without the person only when the sign-in is recent enough and approved
    /// all requested scopes, at any time.
    #[test]
    fn a_request_is_answered_without_the_person_only_after_a_recent_sign_in(
        client in any_client(),
        max_age in prop::option::of(u64::any()),
        times in [u64::any(), u64::any()],
        approved in Scopes::any(),
    ) {
        let mut pairs = vec![
            ("client_id", "app_a".to_owned()),
            ("redirect_uri", client.redirect_uris[0].clone()),
            ("response_type", "id_token".to_owned()),
            ("scope", "openid email".to_owned()),
            ("nonce", "n".to_owned()),
        ];
        pairs.extend(max_age.map(|age| ("max_age", age.to_string())));
        let parameters: Parameters = pairs.into_iter().collect();
        let request = AuthorizationRequest::read(&parameters, |_| Some(&client)).expect("the request is valid");
        let [auth_time, now] = times;
        let age = u128::from(now).saturating_sub(auth_time.into());
        let is_recent = max_age.is_none_or(|max_age| max_age != 0 && age <= max_age.into());
        let is_local = ["//localhost", "//127.0.0.1", "//[::1]"].iter().any(|host| client.redirect_uris[0].contains(host));
        let expected = approved.email && is_recent && !(client.is_public && is_local);
        prop_assert_eq!(request.is_answered_by(UnixSeconds(auth_time), approved, UnixSeconds(now)), expected);
    }
}

/// Registered URIs whose ends resemble an open query.
#[test]
fn responses_are_appended_to_unusual_redirect_uris() {
    for (uri, location) in [
        ("https://app.example/cb", "https://app.example/cb?code=c&iss=i"),
        ("https://app.example/cb?", "https://app.example/cb?code=c&iss=i"),
        ("https://app.example/cb?x=1", "https://app.example/cb?x=1&code=c&iss=i"),
        ("https://app.example/cb?x=1&", "https://app.example/cb?x=1&code=c&iss=i"),
        // An `&` belongs to the path if there is no query.
        ("https://app.example/cb&", "https://app.example/cb&?code=c&iss=i"),
        // A second `?` belongs to the query.
        ("https://app.example/cb?x=1?", "https://app.example/cb?x=1?&code=c&iss=i"),
    ] {
        let target = Target { redirect_uri: uri.to_owned(), mode: ResponseMode::Query, state: None };
        let delivery = target.deliver(vec![("code", "c".to_owned())], "i");
        assert_eq!(delivery, Delivery::Redirect { location: location.to_owned() });
    }
}
