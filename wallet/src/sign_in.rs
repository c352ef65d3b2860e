//! A sign-in from the authenticator's side: the proof request, and the answer to it. With a whole
//! authorization URL, it also acts as the browser, through the JSON form of the sign-in interface.
//!
//! A proof request has a plain form and a signed one. [`SignInSession::verify`] returns what the
//! issuer has signed; only that may be shown to the end user, because any page can put other names
//! into a plain form.
//!
//! A link to a sign-in says with its fragment where the person opened it ([`Place`]): on the
//! device of the browser that began the sign-in, or elsewhere. [`SignInLink::read`] is the only
//! place that reads it.

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use percent_encoding::percent_decode_str;
use reqwest::Url;
use reqwest::header::{ACCEPT, LOCATION};
use selfsame_protocol::json::to_printable;
use selfsame_protocol::sign_in::proof_request::{ProofType, REQUEST_TYPE, RequestForms, SignedRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{ANSWER_TIMEOUT, ClientError, http, read_answer, send};

pub use selfsame_protocol::sign_in::proof_request::{Initiator, SignInRequest};

/// The request with every text made printable, to show it on a terminal.
pub(crate) fn printable(request: &SignInRequest) -> SignInRequest {
    let Initiator { network, user_agent, time } = &request.initiator;
    SignInRequest {
        app_id: to_printable(&request.app_id),
        app_name: to_printable(&request.app_name),
        scopes: to_printable(&request.scopes),
        redirect_host: to_printable(&request.redirect_host),
        initiator: Initiator { network: to_printable(network), user_agent: to_printable(user_agent), time: *time },
        ..request.clone()
    }
}

/// The proof that a proof request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedProof<'a> {
    /// A legacy proof.
    Legacy,
    /// Uniqueness for the action, bound to no session.
    Uniqueness,
    /// Uniqueness for the action, bound to a new session.
    BoundUniqueness,
    /// The session with this id belongs to the person.
    Session(&'a str),
}

/// A proof request asks for a proof that this wallet does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the sign-in request asks for a proof that this wallet does not know: {found}; it knows uniqueness with session_id \
     \"create\", and session with a session_id and without an action, both of version 4.0"
)]
pub struct UnknownProof {
    found: String,
}

impl<'a> AskedProof<'a> {
    /// The proof that a request asks for. Without `proof_type` it is a legacy proof where that is
    /// accepted, and otherwise one of uniqueness.
    ///
    /// # Errors
    /// [`UnknownProof`] when `proof_type` and the members beside it are no such proof.
    pub fn of(request: &'a SignInRequest) -> Result<Self, UnknownProof> {
        let is_legacy = request.is_legacy();
        match (is_legacy, request.proof_type, request.session_id.as_deref()) {
            (true, None, None) => Ok(Self::Legacy),
            (false, None, None) => Ok(Self::Uniqueness),
            (false, Some(ProofType::Uniqueness), Some(CREATE)) => Ok(Self::BoundUniqueness),
            (false, Some(ProofType::Session), Some(id)) if id != CREATE && request.action.is_empty() => {
                Ok(Self::Session(id))
            }
            (_, proof_type, session_id) => {
                let of_type = match proof_type {
                    None => "no proof_type",
                    Some(ProofType::Uniqueness) => "proof_type \"uniqueness\"",
                    Some(ProofType::Session) => "proof_type \"session\"",
                };
                let session = match session_id {
                    None => "no session_id",
                    Some(CREATE) => "session_id \"create\"",
                    Some(_) => "the session_id of a session",
                };
                let version = request.protocol_versions.join(" or ");
                let found = format!("{of_type}, {session}, action {:?}, version {version}", request.action);
                Err(UnknownProof { found: to_printable(&found) })
            }
        }
    }
}

/// The `session_id` of a request for a proof that is bound to a new session.
const CREATE: &str = "create";

/// Where the person opened the link of a sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// By a link on the device of the browser that began the sign-in: the link ends in `#here`. The
    /// sign-in goes on only at the return URL, which that browser opens.
    Here,
    /// By a code or an address that came from another screen: the link ends in `#there`, or it is a
    /// short address. The service may ask for digits that the wallet shows.
    There,
    /// The link does not say it. The sign-in goes on where it began, without digits.
    Unsaid,
}

/// What a link leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The address of a proof request: `{issuer}/authorize/{transaction}/request`.
    Request(String),
    /// The address of a short page, which names the proof request to a program: `{issuer}/s/{id}`.
    Short(String),
    /// An authorization URL, which begins a sign-in. Every other text counts as one.
    Authorization(String),
}

/// A link to a sign-in, as a wallet gets it: opened, scanned or pasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInLink {
    /// Where the person opened it.
    pub place: Place,
    /// Where it leads, without a fragment.
    pub destination: Destination,
}

/// Letters of a short page's id.
const SHORT_ID_LENGTH: usize = 16;

impl SignInLink {
    /// Reads a link: an address of a proof request, of a short page, or of `/authorize`; or a
    /// wallet's own link that carries one of the first two in percent-encoding, such as
    /// `wallet://open?request=https%3A%2F%2F…`.
    ///
    /// What stands behind the last `#` says where the person opened it: the service writes it
    /// behind a link that may have a fragment of its own. Other fragments say nothing.
    pub fn read(text: &str) -> Self {
        let fragment = text.rsplit_once('#').map(|(_, fragment)| fragment);
        let place = match fragment {
            Some("here") => Place::Here,
            Some("there") => Place::There,
            _ => Place::Unsaid,
        };
        let destination = destination(text).unwrap_or_else(|| {
            let address = text.split('#').next().unwrap_or(text);
            Destination::Authorization(address.to_owned())
        });
        match (place, &destination) {
            // A program that has this address read it from a screen.
            (Place::Unsaid, Destination::Short(_)) => Self { place: Place::There, destination },
            _ => Self { place, destination },
        }
    }
}

/// Where a link leads; `None` when it is neither an address of a sign-in nor carries one.
fn destination(text: &str) -> Option<Destination> {
    let outer = web_url(text);
    if let Some(url) = &outer {
        // An authorization URL is full of addresses that are not the sign-in's own.
        if segments(url).last() == Some(&"authorize") {
            return None;
        }
        if let Some(destination) = of_sign_in(url) {
            return Some(destination);
        }
    }
    let carried = carried_addresses(text).find_map(|address| of_sign_in(&web_url(&address)?));
    // A service may mount its proof requests at any path that ends so.
    let mounted = || outer.filter(|url| segments(url).last() == Some(&"request")).map(request);
    carried.or_else(mounted)
}

/// The destination with this address, when its path is that of a proof request or of a short page.
fn of_sign_in(url: &Url) -> Option<Destination> {
    match segments(url).as_slice() {
        [.., "authorize", _, "request"] => Some(request(url.clone())),
        [.., "s", id] if is_short_id(id) => Some(Destination::Short(without_slash(url.clone()))),
        _ => None,
    }
}

fn request(url: Url) -> Destination {
    Destination::Request(without_slash(url))
}

/// The address without a fragment, and without slashes at the end of its path.
fn without_slash(mut url: Url) -> String {
    url.set_fragment(None);
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    url.into()
}

/// The parts of a path between slashes, without slashes at its end.
fn segments(url: &Url) -> Vec<&str> {
    url.path().trim_end_matches('/').split('/').collect()
}

fn is_short_id(text: &str) -> bool {
    text.len() == SHORT_ID_LENGTH && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
}

/// An http or https URL with a host.
fn web_url(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(|url| url.origin().is_tuple() && matches!(url.scheme(), "http" | "https"))
}

/// The addresses that a link carries in percent-encoding, decoded: each from `http` to the first
/// character that the encoding does not have (RFC 3986, section 2.3).
fn carried_addresses(text: &str) -> impl Iterator<Item = String> {
    let is_of_encoding = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
    let begins = |rest: &[u8]| {
        ["http%3a%2f%2f", "https%3a%2f%2f"]
            .iter()
            .any(|start| rest.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start.as_bytes())))
    };
    let starts = (0..text.len()).filter(move |&start| begins(&text.as_bytes()[start..]));
    starts.filter_map(move |start| {
        let rest = text.get(start..)?;
        let length = rest.bytes().take_while(|&byte| is_of_encoding(byte)).count();
        Some(percent_decode_str(&rest[..length]).decode_utf8().ok()?.into_owned())
    })
}

/// What goes on after an answer that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Onward {
    /// The browser of this device opens this address.
    Open(String),
    /// The person types these three digits on the screen where the sign-in began.
    Type(String),
    /// Nothing is needed: the browser that began the sign-in goes on by itself.
    ByItself,
}

impl Onward {
    /// The address that the browser of this device opens, if any.
    pub fn return_url(&self) -> Option<&str> {
        match self {
            Self::Open(return_url) => Some(return_url),
            Self::Type(_) | Self::ByItself => None,
        }
    }
}

/// Why a proof request cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The issuer's keys cannot be fetched.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The request has no signed form that can be read.
    #[error("the sign-in request is not signed: {0}")]
    NotSigned(String),
    /// The signature is not one of the issuer's, or is of another kind of object.
    #[error("the sign-in request is not signed by {issuer}: {reason}")]
    WrongSignature {
        /// The issuer that is trusted.
        issuer: String,
        /// What is wrong.
        reason: String,
    },
    /// An address of the request is not at the issuer's origin.
    #[error("{what} of the sign-in request is {url}, which is not at {issuer}; do not answer it")]
    OtherOrigin {
        /// Which address.
        what: &'static str,
        /// The address.
        url: String,
        /// The issuer that is trusted.
        issuer: String,
    },
}

/// The answer to an authorization request in its JSON form.
#[derive(Deserialize)]
struct TransactionStart {
    request_url: String,
    secret: String,
}

/// What the address of a short page answers a program.
#[derive(Deserialize)]
struct ShortAnswer {
    request_url: String,
}

/// The answer to a proof or a refusal that was accepted.
#[derive(Deserialize)]
struct AcceptedAnswer {
    return_url: Option<String>,
    digits: Option<String>,
}

/// A sign-in that has begun and is not complete.
pub struct SignInSession {
    http: reqwest::Client,
    place: Place,
    request_url: String,
    request: SignInRequest,
    signed: String,
    /// URL and secret for completing the sign-in, when this session acts as the browser.
    browser: Option<(String, String)>,
}

impl SignInSession {
    /// Reads the proof request that a link leads to. For an authorization URL, this begins the
    /// sign-in and acts as the browser. A short page names the request, which has to be at the
    /// page's own origin. No redirect is followed.
    ///
    /// # Errors
    /// A [`ClientError`] of the calls.
    pub async fn open(link: &str) -> Result<Self, ClientError> {
        let SignInLink { place, destination } = SignInLink::read(link);
        let http = http(link)?;
        let get = |url: &str| http.get(url).header(ACCEPT, "application/json").timeout(ANSWER_TIMEOUT);
        let (request_url, browser) = match destination {
            Destination::Request(url) => (url, None),
            Destination::Short(url) => {
                let ShortAnswer { request_url } = send(&url, get(&url)).await?;
                if origin(&request_url).is_none() || origin(&request_url) != origin(&url) {
                    let reason = format!("its request_url is {}, at another origin", to_printable(&request_url));
                    return Err(ClientError::Unreadable { url, reason });
                }
                (request_url, None)
            }
            Destination::Authorization(url) => {
                let TransactionStart { request_url, secret } = send(&url, get(&url)).await?;
                let base = request_url.trim_end_matches("/request").to_owned();
                (request_url, Some((format!("{base}/complete"), secret)))
            }
        };
        let RequestForms { plain, signed, .. } = send(&request_url, get(&request_url)).await?;
        Ok(Self { http, place, request_url, request: plain, signed, browser })
    }

    /// Where the person opened it, by the link.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The plain form of the proof request, which is not verified.
    pub fn request(&self) -> &SignInRequest {
        &self.request
    }

    /// Whether this session acts as the browser.
    pub fn is_browser(&self) -> bool {
        self.browser.is_some()
    }

    /// The issuer that the signed request names. It is a claim of the request until the end user
    /// or the configuration trusts this issuer and [`verify`](Self::verify) has succeeded.
    ///
    /// # Errors
    /// [`RequestError::NotSigned`].
    pub fn claimed_issuer(&self) -> Result<String, RequestError> {
        let token = jsonwebtoken::dangerous::insecure_decode::<SignedRequest>(&self.signed);
        let claims = token.map_err(|error| RequestError::NotSigned(error.to_string()))?.claims;
        Ok(to_printable(&claims.iss))
    }

    /// The request as `issuer` has signed it.
    ///
    /// # Errors
    /// A [`RequestError`]: the request must not be shown or answered.
    pub async fn verify(&self, issuer: &str) -> Result<SignInRequest, RequestError> {
        let wrong =
            |reason: &str| RequestError::WrongSignature { issuer: issuer.to_owned(), reason: reason.to_owned() };
        let header = jsonwebtoken::decode_header(&self.signed).map_err(|error| wrong(&error.to_string()))?;
        if header.typ.as_deref() != Some(REQUEST_TYPE) {
            return Err(wrong("it is another kind of object"));
        }
        let jwks_url = format!("{issuer}/jwks");
        let keys: Value =
            send(&jwks_url, self.http.get(&jwks_url).header(ACCEPT, "application/json").timeout(ANSWER_TIMEOUT))
                .await?;
        let published = keys["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
        let key =
            published.iter().find(|key| key["kid"].as_str().is_some_and(|kid| Some(kid) == header.kid.as_deref()));
        let key = key.ok_or_else(|| wrong("its key is not published there"))?;
        let (algorithm, key) = verifier(key).map_err(|error| wrong(&error.to_string()))?;
        let mut validation = Validation::new(algorithm);
        // The service refuses an answer to an expired request, by its own clock.
        validation.validate_exp = false;
        validation.required_spec_claims.clear();
        validation.set_issuer(&[issuer]);
        let token = jsonwebtoken::decode::<SignedRequest>(&self.signed, &key, &validation);
        let SignedRequest { request, .. } = token.map_err(|error| wrong(&error.to_string()))?.claims;
        for (what, url) in [("the address", &self.request_url), ("answer_url", &request.answer_url)] {
            if origin(url).is_none() || origin(url) != origin(issuer) {
                let (url, issuer) = (to_printable(url), issuer.to_owned());
                return Err(RequestError::OtherOrigin { what, url, issuer });
            }
        }
        Ok(request)
    }

    /// Answers a verified request with a proof, and says where the person opened the link. Returns
    /// what goes on then. A service that knows no digits gives none, whatever the wallet says.
    ///
    /// # Errors
    /// A [`ClientError`]. Where the answer cannot be read, the proof may have been accepted.
    pub async fn answer_from(
        &self,
        request: &SignInRequest,
        body: &Value,
        place: Place,
    ) -> Result<Onward, ClientError> {
        let url = &request.answer_url;
        let mut body = body.clone();
        body["mode"] = json!(if place == Place::Here { "same_device" } else { "cross_device" });
        if place == Place::There {
            body["digits"] = json!(true);
        }
        let AcceptedAnswer { return_url, digits } = self.post_answer(url, &body).await?;
        let return_url = return_url.filter(|return_url| origin(return_url) == origin(url));
        Ok(match (place, return_url, digits) {
            (Place::Here, Some(return_url), _) => Onward::Open(return_url),
            (Place::There, _, Some(digits)) if !are_digits(&digits) => {
                let reason = format!("its digits are {:?}, not three digits", to_printable(&digits));
                return Err(ClientError::Unreadable { url: url.clone(), reason });
            }
            (Place::There, _, Some(digits)) => Onward::Type(digits),
            _ => Onward::ByItself,
        })
    }

    /// Refuses a verified request (`access_denied`).
    ///
    /// # Errors
    /// A [`ClientError`].
    pub async fn refuse(&self, request: &SignInRequest) -> Result<(), ClientError> {
        self.post_refusal(&request.answer_url).await
    }

    /// Says to a verified request that the wallet gives no proof, by a code of the client kits,
    /// such as `nullifier_replayed`.
    ///
    /// # Errors
    /// A [`ClientError`].
    pub async fn give_up(&self, request: &SignInRequest, code: &str) -> Result<(), ClientError> {
        self.post_answer(&request.answer_url, &json!({"error_code": code})).await.map(drop)
    }

    /// Refuses a request that is not verified. Only the server that sent the request gets the
    /// refusal: a request could name the address of another program. Returns whether it was sent.
    pub async fn refuse_unverified(&self) -> Result<bool, ClientError> {
        let url = &self.request.answer_url;
        if origin(url).is_none() || origin(url) != origin(&self.request_url) {
            return Ok(false);
        }
        self.post_refusal(url).await.map(|()| true)
    }

    async fn post_refusal(&self, url: &str) -> Result<(), ClientError> {
        self.post_answer(url, &json!({"error": "access_denied"})).await.map(drop)
    }

    async fn post_answer(&self, url: &str, body: &Value) -> Result<AcceptedAnswer, ClientError> {
        send(url, self.http.post(url).json(body).timeout(ANSWER_TIMEOUT)).await
    }

    /// Completes the sign-in and returns the URL that the browser is sent to; `None` when this
    /// session does not act as the browser. For responses that the browser posts, returns the
    /// answer's body, which holds the address and the fields.
    pub async fn complete(&self) -> Result<Option<String>, ClientError> {
        self.complete_at(None).await
    }

    /// The same at the return URL of an answer from the browser's own device.
    pub async fn complete_at(&self, return_url: Option<&str>) -> Result<Option<String>, ClientError> {
        let Some((url, secret)) = &self.browser else { return Ok(None) };
        let url = return_url.unwrap_or(url);
        let request = self.http.get(url).bearer_auth(secret).header(ACCEPT, "application/json").timeout(ANSWER_TIMEOUT);
        let unreachable = |source| ClientError::Unreachable { url: url.to_owned(), source };
        let response = request.send().await.map_err(unreachable)?;
        if let Some(location) = response.headers().get(LOCATION) {
            return location.to_str().map(|location| Some(location.to_owned())).map_err(|_| unreadable_answer(url));
        }
        // The service gives the response out once, so the request is not sent again.
        let form: Value = read_answer(url, response).await?;
        Ok(Some(form.to_string()))
    }
}

/// A published key prepared for checking signatures, and the only algorithm that it is for. The
/// signed request must not choose the algorithm.
fn verifier(jwk: &Value) -> Result<(Algorithm, DecodingKey), jsonwebtoken::errors::Error> {
    let member = |name: &str| jwk[name].as_str().unwrap_or_default();
    match member("alg") {
        "RS256" => Ok((Algorithm::RS256, DecodingKey::from_rsa_components(member("n"), member("e"))?)),
        "ES256" => Ok((Algorithm::ES256, DecodingKey::from_ec_components(member("x"), member("y"))?)),
        _ => Err(ErrorKind::UnsupportedAlgorithm.into()),
    }
}

/// Whether a text is what a service may give out to be typed.
fn are_digits(text: &str) -> bool {
    text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Scheme, host and port of an http or https URL.
fn origin(url: &str) -> Option<String> {
    let origin = Url::parse(url).ok()?.origin();
    origin.is_tuple().then(|| origin.ascii_serialization())
}

fn unreadable_answer(url: &str) -> ClientError {
    ClientError::Unreadable { url: url.to_owned(), reason: "its Location header is not text".to_owned() }
}

#[cfg(test)]
mod tests {
    use selfsame_protocol::U256;
    use selfsame_protocol::sign_in::proof_request::CrossDevice;
    use selfsame_protocol::time::UnixSeconds;
    use selfsame_protocol::verification::Environment;

    use super::*;

    const ID: &str = "abcdefghijkl2347";

    /// Every form of a link with every fragment.
    #[test]
    fn a_link_says_where_it_leads_and_how_the_wallet_was_reached() {
        use Place::{Here, There, Unsaid};
        let request = |url: &str| Destination::Request(url.to_owned());
        let short = |url: &str| Destination::Short(url.to_owned());
        let begins = |url: &str| Destination::Authorization(url.to_owned());
        let asked = || request("https://id.example/authorize/t/request");
        let page = || short(&format!("https://id.example/s/{ID}"));
        let encoded = "https%3A%2F%2Fid.example%2Fauthorize%2Ft%2Frequest";
        #[rustfmt::skip]
        let forms = [
            ("https://id.example/authorize/t/request".to_owned(), asked(), Unsaid),
            ("https://id.example/authorize/t/request/".to_owned(), asked(), Unsaid),
            ("HTTPS://ID.Example/authorize/t/request".to_owned(), asked(), Unsaid),
            ("https://id.example:443/authorize/t/request".to_owned(), asked(), Unsaid),
            ("http://[::1]:8080/id/authorize/t/request".to_owned(), request("http://[::1]:8080/id/authorize/t/request"), Unsaid),
            ("https://id.example/mounted/request?x=1".to_owned(), request("https://id.example/mounted/request?x=1"), Unsaid),
            (format!("https://id.example/s/{ID}"), page(), There),
            (format!("https://id.example/s/{ID}/"), page(), There),
            (format!("HTTPS://ID.EXAMPLE/s/{ID}"), page(), There),
            (format!("https://id.example/root/s/{ID}"), short(&format!("https://id.example/root/s/{ID}")), There),
            (format!("selfsame://open?request={encoded}"), asked(), Unsaid),
            (format!("selfsame://open?request={}", encoded.to_lowercase()), asked(), Unsaid),
            (format!("selfsame:{encoded}"), asked(), Unsaid),
            (format!("selfsame://open/{encoded}?lang=de&x=http%3A%2F%2Fx.example"), asked(), Unsaid),
            (format!("selfsame://open?home=https%3A%2F%2Fx.example%2F&request={encoded}&lang=de"), asked(), Unsaid),
            (format!("https://wallet.example/open?request={encoded}"), asked(), Unsaid),
            (format!("https://wallet.example/request?request={encoded}"), asked(), Unsaid),
            // The template has the request in its fragment.
            (format!("https://wallet.example/open#{encoded}"), asked(), Unsaid),
            (format!("selfsame://open?page=https%3A%2F%2Fid.example%2Fs%2F{ID}"), page(), There),
            ("https://id.example/authorize?client_id=a".to_owned(), begins("https://id.example/authorize?client_id=a"), Unsaid),
            ("https://id.example/id/authorize/".to_owned(), begins("https://id.example/id/authorize/"), Unsaid),
            // An application whose redirect URI looks like a proof request.
            (format!("https://id.example/authorize?redirect_uri={encoded}"),
             begins(&format!("https://id.example/authorize?redirect_uri={encoded}")), Unsaid),
            // An id of a short page has 16 letters of its alphabet.
            (format!("https://id.example/s/{ID}a"), begins(&format!("https://id.example/s/{ID}a")), Unsaid),
            ("https://id.example/s/ABCDEFGHIJKL2347".to_owned(), begins("https://id.example/s/ABCDEFGHIJKL2347"), Unsaid),
            ("https://id.example/s/abcdefghijkl2340".to_owned(), begins("https://id.example/s/abcdefghijkl2340"), Unsaid),
            ("no address".to_owned(), begins("no address"), Unsaid),
            (String::new(), begins(""), Unsaid),
        ];
        for (link, destination, alone) in forms {
            #[rustfmt::skip]
            let fragments = [
                ("", alone), ("#here", Here), ("#there", There), ("#", alone), ("#Here", alone), ("#THERE", alone),
                ("#here/", alone), ("#here&x=1", alone), ("#nowhere", alone), ("#there#here", Here),
            ];
            for (fragment, place) in fragments {
                let text = format!("{link}{fragment}");
                let expected = SignInLink { place, destination: destination.clone() };
                assert_eq!(SignInLink::read(&text), expected, "{text}");
            }
        }
    }

    #[test]
    fn the_members_of_a_request_say_which_proof_it_asks_for() {
        let id = format!("session_{}01{}", "1".repeat(64), "0".repeat(62));
        let (uniqueness, session) = (Some(ProofType::Uniqueness), Some(ProofType::Session));
        let asked = |version: &str, proof_type, session_id: Option<&str>, action: &str| SignInRequest {
            app_id: "app_a".to_owned(),
            app_name: String::new(),
            action: action.to_owned(),
            signal: String::new(),
            nonce: U256::ZERO,
            protocol_versions: vec![version.to_owned()],
            environment: Environment::Staging,
            scopes: String::new(),
            expires_at: UnixSeconds(0),
            answer_url: String::new(),
            redirect_host: String::new(),
            initiator: Initiator::default(),
            cross_device: CrossDevice::Allow,
            proof_type,
            session_id: session_id.map(str::to_owned),
            genesis_issued_at_min: None,
            identifier: None,
        };
        let unknown = |found: &str| Err(found.to_owned());
        #[rustfmt::skip]
        let table = [
            (asked("3.0", None, None, ""), Ok(AskedProof::Legacy)),
            (asked("4.0", None, None, "sign-in"), Ok(AskedProof::Uniqueness)),
            (asked("4.0", uniqueness, Some("create"), "sign-in"), Ok(AskedProof::BoundUniqueness)),
            (asked("4.0", session, Some(&id), ""), Ok(AskedProof::Session(&id))),
            (asked("3.0", uniqueness, Some("create"), ""), unknown("session_id \"create\", action \"\", version 3.0")),
            (asked("3.0", None, Some(&id), ""), unknown("no proof_type, the session_id of a session")),
            (asked("4.0", None, Some("create"), "sign-in"), unknown("no proof_type, session_id \"create\"")),
            (asked("4.0", uniqueness, None, "sign-in"), unknown("proof_type \"uniqueness\", no session_id")),
            (asked("4.0", uniqueness, Some(&id), "sign-in"), unknown("\"uniqueness\", the session_id of a session")),
            (asked("4.0", uniqueness, Some("Create"), "sign-in"), unknown("\"uniqueness\", the session_id of a session")),
            (asked("4.0", session, None, ""), unknown("proof_type \"session\", no session_id")),
            (asked("4.0", session, Some("create"), ""), unknown("proof_type \"session\", session_id \"create\"")),
            (asked("4.0", session, Some(&id), "sign-in"), unknown("\"session\", the session_id of a session, action \"sign-in\"")),
            (asked("4.0", session, Some(&id), "\u{1b}[2J"), unknown("action \"")),
        ];
        for (request, expected) in table {
            match (AskedProof::of(&request), expected) {
                (Ok(asked), Ok(expected)) => assert_eq!(asked, expected, "{request:?}"),
                (Err(unknown), Err(found)) => {
                    let text = unknown.to_string();
                    assert!(text.contains(&found) && !text.contains('\u{1b}'), "{text:?} should contain {found:?}");
                }
                (asked, expected) => panic!("{asked:?}, not {expected:?}: {request:?}"),
            }
        }
    }

    #[test]
    fn only_the_links_own_fragment_says_how_the_wallet_was_reached() {
        let asked = "https://id.example/authorize/t/request";
        let encoded = "https%3A%2F%2Fid.example%2Fauthorize%2Ft%2Frequest";
        #[rustfmt::skip]
        let table = [
            (format!("{asked}?to=%23here"), format!("{asked}?to=%23here")),
            (format!("selfsame://open?request={encoded}%23here"), asked.to_owned()),
            (format!("selfsame://open?request={encoded}&to=%23there"), asked.to_owned()),
            (format!("selfsame://here/there?request={encoded}"), asked.to_owned()),
        ];
        for (text, url) in table {
            let expected = SignInLink { place: Place::Unsaid, destination: Destination::Request(url) };
            assert_eq!(SignInLink::read(&text), expected, "{text}");
        }
    }
}
