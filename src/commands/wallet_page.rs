//! `selfsame wallet-page check`: whether the web wallet at an address is the one that this program
//! has.
//!
//! Members trust the page with their secrets, and its host can serve another page. A person who has
//! the program of the same version can compare what the host sends to that person's machine.

use std::process::ExitCode;
use std::time::Duration;

use alloy_primitives::hex;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_SECURITY_POLICY, USER_AGENT};
use http::{Request, Response, StatusCode, Uri};
use selfsame_interfaces::http::client::{AGENT, Client, ClientError, RemoteServer, Reuse};
use selfsame_interfaces::pem::tls_connector;
use selfsame_interfaces::web_wallet::{IS_BUILT_IN, SERVICE_FILE, content_security_policy, digests, origins};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::outcome::{CommandError, Output};
use crate::cli::WalletPageCommand;
use crate::config::ApplicationPage;

/// Longest wait for a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Longest wait for a file.
const FILE_LIMIT: Duration = Duration::from_secs(60);

/// The longest file that is read, in bytes. The program has none of half that length.
const LONGEST_FILE: usize = 8 << 20;

/// Why the page cannot be compared.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error("this program was built without the feature web-wallet, so it has no page to compare with")]
    NotBuiltIn,
    #[error("{0}; give the address of a web wallet, like https://wallet.example")]
    Address(String),
    #[error("no answer from {url}: {reason}")]
    Unreachable { url: String, reason: String },
}

/// What became of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Equal,
    Different,
    Missing,
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Different => "different",
            Self::Missing => "missing",
        }
    }
}

/// A file of the page.
#[derive(Debug, Serialize)]
struct CheckedFile {
    path: &'static str,
    outcome: Outcome,
    /// Its SHA-256 digest there.
    sha256: Option<String>,
    /// Its SHA-256 digest in this program.
    expected_sha256: String,
}

/// The policy that keeps the page from calling others.
#[derive(Debug, Serialize)]
struct CheckedPolicy {
    outcome: Outcome,
    /// The first file that has another policy, or none.
    path: Option<&'static str>,
    found: Option<String>,
    /// What the page of the service should have; `null` when the page does not say which service it
    /// belongs to.
    expected: Option<String>,
}

/// The answer of the command.
#[derive(Debug, Serialize)]
struct Checked {
    url: String,
    is_equal: bool,
    files: Vec<CheckedFile>,
    policy: CheckedPolicy,
    service: Option<ServiceOfPage>,
}

/// Which service the page belongs to: the part of `wallet.json` that the policy follows from.
#[derive(Debug, Deserialize, Serialize)]
struct ServiceOfPage {
    issuer: String,
    bridge: String,
    verify: String,
}

/// Runs the command.
pub async fn run(command: WalletPageCommand, out: &mut Output) -> Result<ExitCode, CommandError> {
    let WalletPageCommand::Check { url, json } = command;
    if !IS_BUILT_IN {
        return Err(CheckError::NotBuiltIn.into());
    }
    let checked = PageServer::new(&url)?.check().await?;
    match json {
        true => out.print_json(&checked)?,
        false => out.print(&text(&checked))?,
    }
    Ok(if checked.is_equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A line for each file, and one for the policy.
fn text(checked: &Checked) -> String {
    let Checked { url, is_equal, files, policy, service } = checked;
    let mut lines: Vec<String> = files
        .iter()
        .map(|file| {
            let found = match (file.outcome, &file.sha256) {
                (Outcome::Different, Some(digest)) => {
                    format!("  SHA-256 {digest}, here {}", file.expected_sha256)
                }
                _ => String::new(),
            };
            format!("{:<9}  {}{found}", file.outcome.name(), file.path)
        })
        .collect();
    let of_policy = match (policy.outcome, &policy.found, policy.path) {
        (Outcome::Different, Some(found), Some(path)) => format!(" of {path}: {found}"),
        (Outcome::Missing, _, Some(path)) => format!(" of {path}"),
        _ => String::new(),
    };
    lines.push(format!("{:<9}  Content-Security-Policy{of_policy}", policy.outcome.name()));
    lines.push(match service {
        Some(service) => format!("the page belongs to {}", service.issuer),
        None => format!("the page does not say in {SERVICE_FILE} which service it belongs to"),
    });
    lines.push(match is_equal {
        true => format!("{url} serves the web wallet of this program"),
        false => format!(
            "{url} does not serve the web wallet of this program, {}; compare with the program of its version",
            env!("CARGO_PKG_VERSION")
        ),
    });
    lines.join("\n") + "\n"
}

/// Where a page is served.
struct PageServer {
    url: String,
    client: Client,
}

impl PageServer {
    fn new(url: &str) -> Result<Self, CommandError> {
        let address = url.trim_end_matches('/');
        address.parse::<ApplicationPage>().map_err(CheckError::Address)?;
        let uri: Uri = address.parse().map_err(|_| CheckError::Address(format!("{url:?} is not a URL")))?;
        if uri.path() != "/" || uri.query().is_some() {
            return Err(CheckError::Address(format!("{url:?} has a path")).into());
        }
        let tls = tls_connector(None)?;
        let no_host = || CheckError::Address(format!("{url:?} has no host"));
        let server = RemoteServer::of_url(&uri, Some(&tls)).ok_or_else(no_host)?;
        server.check_name().map_err(|_| no_host())?;
        let client = Client::new(server, Reuse::ForReads, Some(CONNECT_LIMIT));
        Ok(Self { url: address.to_owned(), client })
    }

    /// The file at a path; `None` for one that is longer than any file of a page.
    async fn read(&self, path: &str) -> Result<Option<Response<Bytes>>, CheckError> {
        let url = format!("{}{path}", self.url);
        let unreachable = |reason: String| CheckError::Unreachable { url: url.clone(), reason };
        let request = Request::get(&url)
            .header(USER_AGENT, AGENT)
            .header(ACCEPT_ENCODING, "identity")
            .body(Bytes::new())
            .map_err(|error| unreachable(error.to_string()))?;
        match self.client.exchange(request, LONGEST_FILE, FILE_LIMIT).await {
            Ok(answer) => Ok(Some(answer)),
            Err(ClientError::TooLong) => Ok(None),
            Err(error) => Err(unreachable(error.with_cause())),
        }
    }

    async fn check(self) -> Result<Checked, CheckError> {
        let answer = self.read(SERVICE_FILE).await?.filter(|answer| answer.status() == StatusCode::OK);
        let service: Option<ServiceOfPage> = answer.and_then(|answer| serde_json::from_slice(answer.body()).ok());
        let expected = service.as_ref().map(|service| {
            let ServiceOfPage { issuer, bridge, verify } = service;
            content_security_policy(&origins([issuer, bridge, verify]))
        });
        let mut policy = CheckedPolicy { outcome: Outcome::Missing, path: None, found: None, expected };
        let mut files = Vec::new();
        for (path, digest) in digests() {
            // What people open is the page's address, and not its file.
            let path = if path == "/index.html" { "/" } else { path };
            let answer = self.read(path).await?;
            let found = answer.as_ref().filter(|answer| answer.status() == StatusCode::OK);
            let sha256 = found.map(|answer| <[u8; 32]>::from(Sha256::digest(answer.body())));
            let outcome = match (&answer, sha256) {
                (None, _) => Outcome::Different,
                (Some(_), None) => Outcome::Missing,
                (Some(_), Some(found)) if found == digest => Outcome::Equal,
                (Some(_), Some(_)) => Outcome::Different,
            };
            if let Some(answer) = found {
                policy.compare(path, answer);
            }
            let (sha256, expected_sha256) = (sha256.map(hex::encode), hex::encode(digest));
            files.push(CheckedFile { path, outcome, sha256, expected_sha256 });
        }
        let is_equal = policy.outcome == Outcome::Equal && files.iter().all(|file| file.outcome == Outcome::Equal);
        Ok(Checked { url: self.url, is_equal, files, policy, service })
    }
}

impl CheckedPolicy {
    /// Compares the policy of a file, which a worker obeys as well, until one differs.
    fn compare(&mut self, path: &'static str, answer: &Response<Bytes>) {
        if self.path.is_some() {
            return;
        }
        let mut policies = answer.headers().get_all(CONTENT_SECURITY_POLICY).iter();
        // A further policy can only forbid more.
        let found = policies.next().and_then(|policy| policy.to_str().ok()).map(str::to_owned);
        let outcome = match (&found, &self.expected) {
            (None, _) => Outcome::Missing,
            (found, expected) if found == expected => Outcome::Equal,
            _ => Outcome::Different,
        };
        let path = (outcome != Outcome::Equal).then_some(path);
        (self.outcome, self.path, self.found) = (outcome, path, found);
    }
}
