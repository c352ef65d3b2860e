//! A program with an HTTP server of its own, which serves interfaces of Selfsame beside its own
//! routes: gateway, indexer, proof verification and sign-in, of one service in this process.
//!
//! ```sh
//! cargo run --release --example mounted
//! ```
//!
//! It creates an account over HTTP, reads its inclusion proof and sign-in's discovery document, and
//! ends. With the argument `serve` it goes on until it is interrupted.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use selfsame_actors::protocol::Address;
use selfsame_actors::protocol::eip712::RegistryDomain;
use selfsame_actors::storage::{OpenOptions, Store};
use selfsame_actors::{Service, ServiceParts, Settings};
use selfsame_interfaces::http::{Body, Mounted};
use selfsame_interfaces::interface::Interface;
use selfsame_interfaces::mounting::{MountSettings, mount};
use selfsame_wallet::keys::AuthenticatorKey;
use selfsame_wallet::operations::create_account;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A client has this long for the head of a request; a mounted interface does not see heads that
/// are incomplete.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves, acts as a client, and stops.
#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    let goes_on = std::env::args().nth(1).is_some_and(|argument| argument == "serve");
    let folder = tempfile::tempdir()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);

    let domain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };
    let store = Store::open(folder.path(), &OpenOptions::new(domain))?;
    let mut settings = Settings::for_instance("identity");
    settings.sign_in.provider.issuer.clone_from(&url);
    let service = Service::start(ServiceParts::new(settings, store)).await?;
    let interfaces = [Interface::SignIn, Interface::Verification, Interface::Gateway, Interface::Indexer];
    let mounted = mount(&service, MountSettings::at(&url, interfaces))?;
    let serving = tokio::spawn(serve(listener, mounted.clone()));
    println!("serving at {url}");

    act_as_client(&url).await?;
    if goes_on {
        tokio::signal::ctrl_c().await?;
    }
    // What keeps clients waiting ends first, then the server, then the service.
    mounted.stop();
    serving.abort();
    let _ = serving.await;
    drop(mounted);
    service.stop().await;
    Ok(())
}

/// The host's server: accepts connections, and tells the interfaces whose each one is.
async fn serve(listener: TcpListener, mounted: Mounted) {
    while let Ok((stream, peer)) = listener.accept().await {
        let mounted = mounted.for_client(peer.ip());
        let answering = service_fn(move |request| answer(request, peer, mounted.clone()));
        let mut server = hyper::server::conn::http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        let connection = server.serve_connection(TokioIo::new(stream), answering);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                eprintln!("a connection ended: {error}");
            }
        });
    }
}

/// The host's own routes come first; the interfaces have all other paths.
async fn answer(
    request: Request<Incoming>,
    peer: SocketAddr,
    mounted: Mounted,
) -> Result<Response<Either<Full<Bytes>, Body>>, Infallible> {
    if request.uri().path() == "/about" {
        let text = format!("a program of your own; you are {}\n", peer.ip());
        return Ok(Response::new(Either::Left(Full::from(text))));
    }
    mounted.call(request).await.map(|response| response.map(Either::Right))
}

/// Calls the host's route and the interfaces.
async fn act_as_client(url: &str) -> Result<(), Box<dyn Error>> {
    let http = reqwest::Client::new();
    let text = http.get(format!("{url}/about")).send().await?.text().await?;
    print!("GET /about: {text}");

    let mut random = |bytes: &mut [u8; 32]| bytes.fill(7);
    let key = AuthenticatorKey::generate(&mut random)?;
    let operation = create_account(&[key.authenticator()], Address::ZERO).operation;
    let accepted: Value = http.post(format!("{url}/create-account")).json(&operation).send().await?.json().await?;
    let request_id = accepted["request_id"].as_str().ok_or("no request id")?;
    println!("POST /create-account: {request_id}");
    let state: Value = http.get(format!("{url}/status/{request_id}?wait=10")).send().await?.json().await?;
    println!("GET /status: {}", state["status"]["state"]);
    let body = json!({"leaf_index": "0x1"});
    let proof: Value = http.post(format!("{url}/inclusion-proof")).json(&body).send().await?.json().await?;
    println!("POST /inclusion-proof: root {}", proof["root"]);
    let discovery = http.get(format!("{url}/.well-known/openid-configuration")).send().await?;
    let discovery: Value = discovery.json().await?;
    println!("GET /.well-known/openid-configuration: issuer {}", discovery["issuer"]);
    Ok(())
}
