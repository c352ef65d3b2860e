//! The web wallet's files, which the program has inside it, and how a browser gets them.
//!
//! The files are those of `web-wallet/built`, with the feature `web-wallet`; without it there are
//! none. Each has its digest as its entity tag and is asked for again each time: the names are
//! fixed, and the page's service worker decides when a new version takes over. Every answer has the
//! policies of the page, because a worker obeys those of its own file.

use std::future::{Ready, ready};
use std::sync::{Arc, LazyLock};

use alloy_primitives::hex;
use bytes::Bytes;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, ETAG, HeaderName, HeaderValue,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode};
use selfsame_protocol::net::origin_of;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::http::{InterfaceError, Request, Response, Router, content, empty, json};
use crate::interface::{Interface, PublicUrls};

/// Whether the program has the files of the web wallet.
pub const IS_BUILT_IN: bool = cfg!(feature = "web-wallet");

/// A file of the web wallet.
struct File {
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
    /// The same, compressed with Brotli; `None` for a file that would not be smaller.
    brotli: Option<&'static [u8]>,
}

/// The addresses of the page beside that of its file. The page itself reads which one it has.
pub const PAGES: [&str; 7] = ["/", "/join", "/replace", "/sign-in", "/prove", "/restore", "/about"];

/// The path of the page's file.
const PAGE_FILE: &str = "/index.html";

/// The path of the file that says which service the page belongs to.
pub const SERVICE_FILE: &str = "/wallet.json";

/// All files of `web-wallet/built`, as `interfaces/build.rs` lists them.
#[cfg(feature = "web-wallet")]
const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/web_wallet_files.rs"));

#[cfg(not(feature = "web-wallet"))]
const FILES: &[File] = &[];

/// A file with its digest.
struct Served {
    path: &'static str,
    content_type: &'static str,
    bytes: Bytes,
    brotli: Option<Bytes>,
    digest: [u8; 32],
}

impl Served {
    fn new(path: &'static str, content_type: &'static str, bytes: Bytes) -> Self {
        let digest = Sha256::digest(&bytes).into();
        Self { path, content_type, bytes, brotli: None, digest }
    }

    /// The answer to a request for the file, without the policies of the page.
    fn respond(&self, request: &Request) -> Response {
        let compressed = self.brotli.as_ref().filter(|_| accepts_brotli(request.list(&ACCEPT_ENCODING)));
        // Each form of the file has a tag of its own (RFC 9110, section 8.8.3.3).
        let form = if compressed.is_some() { "-br" } else { "" };
        let tag = format!("\"{}{form}\"", hex::encode(&self.digest[..16]));
        // The comparison is weak (RFC 9110, section 13.1.2).
        let is_known = request.list(&IF_NONE_MATCH).any(|known| known == "*" || known.trim_start_matches("W/") == tag);
        let mut response = match is_known {
            true => empty(StatusCode::NOT_MODIFIED),
            false => content(StatusCode::OK, self.content_type, compressed.unwrap_or(&self.bytes).clone()),
        };
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.extend(HeaderValue::try_from(tag).ok().map(|tag| (ETAG, tag)));
        if self.brotli.is_some() {
            headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        if compressed.is_some() && !is_known {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("br"));
        }
        response
    }
}

/// The files with their digests, which are computed at the first use.
static SERVED: LazyLock<Vec<Arc<Served>>> = LazyLock::new(|| {
    let served = |file: &File| {
        let brotli = file.brotli.map(Bytes::from_static);
        Arc::new(Served { brotli, ..Served::new(file.path, file.content_type, Bytes::from_static(file.bytes)) })
    };
    FILES.iter().map(served).collect()
});

/// The path and the SHA-256 digest of each file of the page; none without the feature `web-wallet`.
pub fn digests() -> impl Iterator<Item = (&'static str, [u8; 32])> {
    SERVED.iter().map(|file| (file.path, file.digest))
}

/// Whether the codings that a client accepts include Brotli (RFC 9110, section 12.5.3).
fn accepts_brotli<'a>(accepted: impl Iterator<Item = &'a str>) -> bool {
    let (mut by_name, mut by_star) = (None, None);
    for element in accepted {
        let mut parts = element.split(';').map(str::trim);
        let coding = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let is_accepted =
            weight.is_none_or(|text| is_number(text) && text.parse().is_ok_and(|weight: f32| weight > 0.));
        if coding.eq_ignore_ascii_case("br") {
            by_name = Some(is_accepted);
        } else if coding == "*" {
            by_star = Some(is_accepted);
        }
    }
    by_name.or(by_star).unwrap_or(false)
}

/// The origin of a URL as browsers write it; `None` for one that is not of the web.
pub fn origin_text(url: &str) -> Option<String> {
    let (scheme, host, port) = origin_of(url)?;
    let is_default = matches!((scheme, port), ("http", 80) | ("https", 443));
    Some(if is_default { format!("{scheme}://{host}") } else { format!("{scheme}://{host}:{port}") })
}

/// The origins of the URLs that the page calls, each once.
pub fn origins<'a>(urls: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut origins: Vec<String> = Vec::new();
    for origin in urls.into_iter().filter_map(|url| origin_text(url)) {
        if !origins.contains(&origin) {
            origins.push(origin);
        }
    }
    origins
}

/// Reads what a simulated person's proofs need at the moment: the seed and the public inputs.
pub type ReadSimulation = Arc<dyn Fn() -> Option<Value> + Send + Sync>;

/// The web wallet of a service.
#[derive(Clone)]
pub struct WebWallet {
    service: Arc<ServiceFile>,
    simulation: Option<ReadSimulation>,
    policy: Arc<HeaderValue>,
}

/// `wallet.json`: which service the page belongs to. `web-wallet/src/vault.ts` has the same.
#[derive(Clone, Serialize)]
struct ServiceFile {
    issuer: String,
    bridge: String,
    verify: String,
    operator: Option<String>,
    simulator: Option<Value>,
}

impl WebWallet {
    /// The web wallet of the service at these URLs. `operator` is the name of the one who runs it.
    /// With a `simulation` the page can play a person without a group, which is for development
    /// alone. `None` without the feature `web-wallet`, and for URLs that no header can have.
    pub fn new(urls: &PublicUrls, operator: Option<String>, simulation: Option<ReadSimulation>) -> Option<Self> {
        let [issuer, bridge, verify] =
            [Interface::SignIn, Interface::Bridge, Interface::Verification].map(|interface| urls[interface].clone());
        let called = origins([&issuer, &bridge, &verify]);
        let policy = Arc::new(HeaderValue::try_from(content_security_policy(&called)).ok()?);
        let service = Arc::new(ServiceFile { issuer, bridge, verify, operator, simulator: None });
        IS_BUILT_IN.then_some(Self { service, simulation, policy })
    }

    /// `wallet.json`. A simulation changes with the registry, so that no cache keeps it.
    fn describe_service(&self, request: &Request) -> Response {
        match self.simulation.as_ref().and_then(|read| read()) {
            Some(simulator) => {
                json(StatusCode::OK, &ServiceFile { simulator: Some(simulator), ..ServiceFile::clone(&self.service) })
            }
            None => match serde_json::to_vec(&*self.service) {
                Ok(text) => Served::new(SERVICE_FILE, "application/json", text.into()).respond(request),
                Err(error) => {
                    tracing::error!(%error, "the file wallet.json could not be written");
                    empty(StatusCode::INTERNAL_SERVER_ERROR)
                }
            },
        }
    }

    /// Adds the routes of the page. They are not in the description of the interface: the page is
    /// for people, and its files are for the page.
    pub(crate) fn add_routes<S, E>(&self, router: Router<S, E>) -> Router<S, E>
    where
        S: Send + Sync + 'static,
        E: InterfaceError,
    {
        let page = SERVED.iter().find(|file| file.path == PAGE_FILE);
        let pages = PAGES.into_iter().flat_map(|path| page.map(|file| (path, file)));
        let files = SERVED.iter().map(|file| (file.path, file));
        let router = pages.chain(files).fold(router, |router, (path, file)| {
            let (file, policy) = (Arc::clone(file), Arc::clone(&self.policy));
            router.route(Method::GET, path, move |_, request| answer(file.respond(&request), &policy))
        });
        let own = self.clone();
        router.route(Method::GET, SERVICE_FILE, move |_, request| answer(own.describe_service(&request), &own.policy))
    }
}

/// Adds the policies of the page to an answer.
fn answer<E>(mut response: Response, policy: &HeaderValue) -> Ready<Result<Response, E>> {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, policy.clone());
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CROSS_ORIGIN_OPENER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(PERMISSIONS_POLICY, HeaderValue::from_static("camera=(self)"));
    ready(Ok(response))
}

/// What the page may load and call: its own files, and these origins.
pub fn content_security_policy(called: &[String]) -> String {
    let called: String = called.iter().map(|origin| format!(" {origin}")).collect();
    format!(
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; \
         img-src 'self' blob: data:; manifest-src 'self'; connect-src 'self'{called}; form-action 'none'; \
         base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types selfsame-wallet"
    )
}

const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");
const CROSS_ORIGIN_OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brotli_is_sent_to_clients_that_accept_it() {
        #[rustfmt::skip]
        let table = [
            (&["gzip", "deflate", "br"][..], true),
            (&["br"], true),
            (&["BR;Q=0.5"], true),
            (&["br ; q=0.001"], true),
            (&["*"], true),
            (&["*;q=0.1", "gzip"], true),
            (&["*;q=0", "br"], true),
            (&[], false),
            (&["gzip"], false),
            (&["identity"], false),
            (&["br;q=0"], false),
            (&["br;q=0.000"], false),
            (&["br;q=0", "*"], false),
            (&["*;q=0"], false),
            (&["br;q=inf"], false),
            (&["br;q="], false),
            (&["br;q=-1"], false),
            (&["brotli", "xbr"], false),
        ];
        for (accepted, expected) in table {
            assert_eq!(accepts_brotli(accepted.iter().copied()), expected, "{accepted:?}");
        }
    }

    #[test]
    fn an_origin_is_written_without_the_port_of_its_scheme() {
        for (url, origin) in [
            ("https://Wallet.example:443/app", Some("https://wallet.example")),
            ("http://localhost:8086", Some("http://localhost:8086")),
            ("http://a.example:80", Some("http://a.example")),
            ("http://a.example:443", Some("http://a.example:443")),
            ("http://[::1]:8086/", Some("http://[::1]:8086")),
            ("ftp://a.example", None),
            ("", None),
        ] {
            assert_eq!(origin_text(url).as_deref(), origin, "{url}");
        }
    }

    #[cfg(feature = "web-wallet")]
    #[test]
    fn the_prover_and_its_key_are_those_that_are_tested() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../web-wallet/prover");
        for name in ["prover.wasm", "key.bin"] {
            let served = FILES.iter().find(|file| file.path == format!("/{name}")).expect("it is served");
            assert!(std::fs::read(folder.join(name)).expect("the file") == served.bytes, "{name} is another one");
        }
    }

    #[cfg(feature = "web-wallet")]
    #[test]
    fn what_the_page_needs_is_served_and_text_is_compressed() {
        for name in ["index.html", "app.js", "worker.js", "sw.js", "style.css", "manifest.webmanifest", "icon.svg"] {
            let served = FILES.iter().find(|file| file.path == format!("/{name}"));
            let served = served.unwrap_or_else(|| panic!("{name} is not served"));
            assert!(served.brotli.is_some_and(|brotli| brotli.len() < served.bytes.len()), "{name}");
        }
        assert!(FILES.iter().all(|file| !PAGES.contains(&file.path) && file.path != SERVICE_FILE));
    }
}
