//! The interfaces in a server that is not ours.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use alloy_primitives::Address;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::service::{Service as _, service_fn};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use selfsame_actors::protocol::eip712::RegistryDomain;
use selfsame_actors::storage::{OpenOptions, Store};
use selfsame_actors::{BatchLimits, Service, ServiceParts, Settings};
use selfsame_interfaces::http::{ClientAddress, Limits, Mounted};
use selfsame_interfaces::interface::Interface;
use selfsame_interfaces::mounting::{MountError, MountSettings, mount};
use selfsame_wallet::operations::create_account;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::harness::{Folder, folder};
use crate::sign_in_client::wait_for_signing_keys;
use crate::test_accounts::key;

#[allow(dead_code, reason = "the example has a `main`, which is a function here")]
#[path = "../../examples/mounted.rs"]
mod example;

const ALL: [Interface; 6] = [
    Interface::SignIn,
    Interface::Verification,
    Interface::Gateway,
    Interface::Indexer,
    Interface::Bridge,
    Interface::Wallet,
];

struct Host {
    service: Service,
    mounted: Mounted,
    _folder: Folder,
}

/// A service with its interfaces at this URL.
async fn host(instance: &str, url: &str, change: impl FnOnce(&mut MountSettings)) -> Host {
    host_with(Settings::for_instance(instance), url, change).await
}

async fn host_with(mut settings: Settings, url: &str, change: impl FnOnce(&mut MountSettings)) -> Host {
    let folder = folder();
    let domain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };
    let store = Store::open(folder.path(), &OpenOptions::new(domain)).expect("the store opens");
    settings.sign_in.provider.issuer = url.to_owned();
    let service = Service::start(ServiceParts::new(settings, store)).await.expect("the service starts");
    let mut settings = MountSettings::at(url, ALL);
    change(&mut settings);
    let mounted = mount(&service, settings).expect("the interfaces are mounted");
    Host { service, mounted, _folder: folder }
}

impl Host {
    async fn stop(self) {
        drop(self.mounted);
        self.service.stop().await;
    }
}

/// A server of hyper that strips `prefix` and hands all requests on.
fn serve(listener: TcpListener, mounted: Mounted, prefix: &'static str) -> JoinHandle<()> {
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let mounted = mounted.for_client(peer.ip());
            let service = service_fn(move |mut request: Request<Incoming>| {
                let path = request.uri().path_and_query().expect("a path").as_str();
                let stripped = path.strip_prefix(prefix).unwrap_or(path).to_owned();
                *request.uri_mut() = stripped.parse::<Uri>().expect("a path");
                mounted.call(request)
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    })
}

async fn bind() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("an address");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

fn creation() -> Value {
    let operation = create_account(&[key("alice").authenticator()], Address::ZERO).operation;
    serde_json::to_value(&operation).expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_hyper_serves_every_public_interface() {
    let (listener, address) = bind().await;
    let url = format!("http://{address}");
    let host = host("mounted-hyper", &url, |_| {}).await;
    let serving = serve(listener, host.mounted.clone(), "");
    let http = reqwest::Client::new();
    let accepted = http.post(format!("{url}/create-account")).json(&creation()).send().await.expect("an answer");
    assert_eq!(accepted.status(), 200);
    assert!(accepted.headers().contains_key("x-request-id"));
    let accepted: Value = accepted.json().await.expect("JSON");
    let request_id = accepted["request_id"].as_str().expect("an id");
    let state = http.get(format!("{url}/status/{request_id}?wait=60")).send().await.expect("an answer");
    let state: Value = state.json().await.expect("JSON");
    assert_eq!(state["status"]["state"], "finalized", "{state}");
    let proof = http.post(format!("{url}/inclusion-proof")).json(&json!({"leaf_index": "0x1"})).send().await;
    let proof: Value = proof.expect("an answer").json().await.expect("JSON");
    let tree = (proof["root"].as_str().is_some(), proof["siblings"].as_array().map(Vec::len));
    assert_eq!(tree, (true, Some(30)), "{proof}");
    let discovery = http.get(format!("{url}/.well-known/openid-configuration")).send().await.expect("an answer");
    let discovery: Value = discovery.json().await.expect("JSON");
    assert_eq!((&discovery["issuer"], &discovery["jwks_uri"]), (&json!(url), &json!(format!("{url}/jwks"))));
    wait_for_signing_keys(&url).await;
    let unknown = http.post(format!("{url}/api/v4/verify/rp_unknown")).json(&json!({})).send().await;
    assert_eq!(unknown.expect("an answer").status(), 400, "the body is read first");
    let openapi: Value =
        http.get(format!("{url}/openapi.json")).send().await.expect("an answer").json().await.expect("JSON");
    for path in ["/create-account", "/inclusion-proof", "/token"] {
        assert!(openapi["paths"].get(path).is_some(), "{path}");
    }
    // The gateway takes bodies of up to 64 KiB.
    let large = http.post(format!("{url}/create-account")).header(CONTENT_TYPE, "application/json");
    let large = large.body(vec![b' '; 65 * 1024]).send().await.expect("an answer");
    assert_eq!(large.status(), 413);
    serving.abort();
    let _ = serving.await;
    host.stop().await;
}

/// The issuer has the path, so links and discovery have it too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sign_in_can_be_mounted_below_a_path() {
    let (listener, address) = bind().await;
    let url = format!("http://{address}/identity");
    let host = host("mounted-below", &url, |_| {}).await;
    let serving = serve(listener, host.mounted.clone(), "/identity");
    let discovery = reqwest::get(format!("{url}/.well-known/openid-configuration")).await.expect("an answer");
    let discovery: Value = discovery.json().await.expect("JSON");
    assert_eq!(discovery["issuer"], json!(url));
    for endpoint in ["jwks_uri", "authorization_endpoint"] {
        let endpoint = discovery[endpoint].as_str().expect("a URL");
        assert!(endpoint.starts_with(&format!("{url}/")), "{endpoint}");
        assert_ne!(reqwest::get(endpoint).await.expect("an answer").status(), 404, "{endpoint}");
    }
    let page = reqwest::Client::new().get(format!("{url}/")).header(ACCEPT, "text/html").send().await;
    let page = page.expect("an answer").text().await.expect("text");
    assert!(page.contains("\"/identity/sign-in.css"), "{page}");
    serving.abort();
    let _ = serving.await;
    host.stop().await;
}

/// A body of which nothing comes.
struct Silent;

impl Body for Silent {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Pending
    }
}

fn request<B>(method: Method, path: &str, body: B) -> Request<B> {
    let request = Request::builder().method(method).uri(path).header(HOST, "host.example");
    request.header(CONTENT_TYPE, "application/json").body(body).expect("a request")
}

/// Calls through tower, as its routers and layers do.
async fn call<B>(mounted: &Mounted, request: Request<B>) -> hyper::Response<selfsame_interfaces::http::Body>
where
    Mounted: tower_service::Service<
            Request<B>,
            Response = hyper::Response<selfsame_interfaces::http::Body>,
            Error = Infallible,
        >,
{
    let mut mounted = mounted.clone();
    std::future::poll_fn(|context| tower_service::Service::poll_ready(&mut mounted, context)).await.expect("ready");
    tower_service::Service::call(&mut mounted, request).await.expect("it never fails")
}

async fn json_of(response: hyper::Response<selfsame_interfaces::http::Body>) -> Value {
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    serde_json::from_slice(&body).expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_of_tower_answers_any_kind_of_body_within_the_limits() {
    let host = host("mounted-tower", "https://id.example", |settings| {
        settings.limits = Limits { request_timeout: Duration::from_secs(10), requests: 8, ..Limits::default() };
    })
    .await;
    let mounted = &host.mounted;
    let body = Full::new(Bytes::from(creation().to_string()));
    let accepted = call(mounted, request(Method::POST, "/create-account", body)).await;
    assert_eq!(accepted.status(), 200);
    assert!(accepted.headers().contains_key("strict-transport-security"), "its URL is https");
    let request_id = json_of(accepted).await["request_id"].as_str().expect("an id").to_owned();
    let path = format!("/status/{request_id}?wait=60");
    let state = json_of(call(mounted, request(Method::GET, &path, String::new())).await).await;
    assert_eq!(state["status"]["state"], "finalized", "{state}");

    // The body does not come within the time of a request.
    let late = call(mounted, request(Method::POST, "/create-account", Silent)).await;
    assert_eq!(late.status(), 504);
    drop(late);

    // A source may have a quarter of the open requests, which is two: one is held open by each
    // answer that is not read.
    let from = |address: [u8; 4]| mounted.for_client(IpAddr::from(address));
    let (one, other) = (from([192, 0, 2, 1]), from([198, 51, 100, 1]));
    let health = || request(Method::GET, "/head", String::new());
    let held = [call(&one, health()).await, call(&one, health()).await];
    assert!(held.iter().all(|answer| answer.status() == 200));
    assert_eq!(call(&one, health()).await.status(), 503);
    assert_eq!(call(&other, health()).await.status(), 200);
    // A request that names its client itself counts for that one.
    let mut named = health();
    named.extensions_mut().insert(ClientAddress(IpAddr::from([203, 0, 113, 9])));
    assert_eq!(call(&one, named).await.status(), 200);
    drop(held);
    assert_eq!(call(&one, health()).await.status(), 200);
    drop((one, other));
    host.stop().await;
}

/// A long poll is answered when the host begins to stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_ends_what_keeps_clients_waiting() {
    // No block is sealed, so the request stays open.
    let hour = Duration::from_secs(3600);
    let batch = BatchLimits { min_wait: hour, max_wait: hour, ..BatchLimits::default() };
    let settings = Settings { batch, ..Settings::for_instance("mounted-stopping") };
    let host = host_with(settings, "http://id.example", |_| {}).await;
    let body = Full::new(Bytes::from(creation().to_string()));
    let accepted = json_of(call(&host.mounted, request(Method::POST, "/create-account", body)).await).await;
    let path = format!("/status/{}?wait=60", accepted["request_id"].as_str().expect("an id"));
    let mounted = host.mounted.clone();
    let polling =
        tokio::spawn(async move { json_of(call(&mounted, request(Method::GET, &path, String::new())).await).await });
    host.mounted.stop();
    let answered = tokio::time::timeout(Duration::from_secs(55), polling).await.expect("before the end of the wait");
    let state = answered.expect("no panic");
    assert_ne!(state["status"]["state"], "finalized", "{state}");
    host.stop().await;
}

#[tokio::test]
async fn the_operator_interface_is_not_mounted() {
    let host = host("mounted-operator", "http://id.example", |_| {}).await;
    let refused = mount(&host.service, MountSettings::at("http://id.example", [Interface::Operator]));
    assert!(matches!(refused, Err(MountError::Operator)));
    host.stop().await;
}

#[test]
fn the_example_runs() {
    example::main().expect("the example ends well");
}
