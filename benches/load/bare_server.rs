//! The yardstick: a server that does nothing but HTTP, and where a line says so, the least that a
//! request needs. It runs in a process of its own like the daemon.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use selfsame_protocol::Address;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::ledger::recover_signer;
use selfsame_protocol::registry::{CreateAccount, InsertAuthenticator, Operation};
use selfsame_protocol::verification::ProofKind;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::Failure;
use crate::process::Running;
use crate::proofs::SingleCheck;

/// The argument that makes this program the bare server.
pub const ARGUMENT: &str = "bare-server";

/// Longest body of an answer, in bytes.
const LONGEST: usize = 64 * 1024;

static BODY: [u8; LONGEST] = [b'x'; LONGEST];

/// A registry; recovering a signature costs the same for each.
const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(0xcf) };

/// What the server does with a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Nothing.
    Nothing,
    /// Reads it as a creation of an account.
    ReadCreation,
    /// Reads it as an insertion of an authenticator, and recovers its signature.
    Recover,
    /// Reads it as JSON, and decodes and checks one proof of a kind with `ark-groth16`.
    Check(ProofKind),
}

impl Work {
    const ALL: [Self; 5] = [
        Self::Nothing,
        Self::ReadCreation,
        Self::Recover,
        Self::Check(ProofKind::Legacy),
        Self::Check(ProofKind::Current),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::ReadCreation => "read-creation",
            Self::Recover => "recover",
            Self::Check(ProofKind::Legacy) => "check-legacy",
            Self::Check(ProofKind::Current) => "check-current",
        }
    }

    /// Does the work; `false` when the body is not what it should be.
    fn is_done(self, body: &[u8]) -> bool {
        match self {
            Self::Nothing => true,
            Self::ReadCreation => serde_json::from_slice::<CreateAccount>(body).is_ok(),
            Self::Recover => serde_json::from_slice::<InsertAuthenticator>(body).is_ok_and(|insert| {
                recover_signer(&Operation::InsertAuthenticator(insert), &DOMAIN).is_some_and(|signer| signer.is_ok())
            }),
            Self::Check(kind) => serde_json::from_slice::<Value>(body).is_ok() && SingleCheck::of(kind).holds(),
        }
    }
}

/// A running bare server. It also ends with this process, because its standard input ends.
pub struct BareServer {
    pub address: SocketAddr,
    pub process: Running,
}

impl BareServer {
    pub fn start() -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        let (process, printed) = Running::start(command.arg(ARGUMENT).stdin(Stdio::piped()), |_| true)?;
        let address = printed.first().ok_or("the bare server did not start")?.parse()?;
        Ok(Self { address, process })
    }
}

/// The path for work and an answer of `length` bytes, at most [`LONGEST`].
pub fn path(work: Work, length: usize) -> String {
    format!("/{}/{}", work.name(), length.min(LONGEST))
}

/// Serves until standard input ends.
pub fn serve() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    println!("{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Reads the body, does the work that the path names, and answers with the number of bytes in it.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let (work, length) = head.uri.path().trim_start_matches('/').split_once('/').unwrap_or_default();
    let work = Work::ALL.into_iter().find(|known| known.name() == work);
    let length = length.parse().unwrap_or(0).min(LONGEST);
    // An error means that the client has broken off; it gets no answer then.
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let is_done = work.is_some_and(|work| work.is_done(&body));
    let mut response = Response::new(Full::new(Bytes::from_static(&BODY[..length])));
    *response.status_mut() = if is_done { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
