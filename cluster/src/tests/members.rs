//! Members of etcd as processes of a test.

use std::fmt;
use std::fs::File;
use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, ResponseHeader};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::{Etcd, EtcdAccess, EtcdElection, EtcdTls};
use selfsame_actors::Election;

/// What is done to a member.
#[derive(Clone, Copy, Debug)]
pub enum Signal {
    Kill,
    Stop,
    Continue,
}

/// Running members, which end with the value.
pub struct Members {
    members: Vec<Member>,
    folder: TempDir,
    tls: Option<EtcdTls>,
    /// The most bytes of a member's file; 0 for etcd's default.
    quota: u64,
}

struct Member {
    client_port: ReservedPort,
    peer_port: ReservedPort,
    process: Option<Child>,
}

impl Member {
    fn new() -> Self {
        Self { client_port: ReservedPort::new(), peer_port: ReservedPort::new(), process: None }
    }
}

/// A TCP port at which a process of this test listens, and listens again after it was killed. All
/// tests hold the UDP port of the same number as a lock, so that each has other ports. The system
/// gives none of this range to connections.
struct ReservedPort {
    number: u16,
    _lock: UdpSocket,
}

impl ReservedPort {
    fn new() -> Self {
        let reserve = |number| {
            let lock = UdpSocket::bind(("127.0.0.1", number)).ok()?;
            TcpListener::bind(("127.0.0.1", number)).ok()?;
            Some(Self { number, _lock: lock })
        };
        (20_000..32_000).find_map(reserve).expect("a port is free")
    }
}

impl fmt::Display for ReservedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

impl Members {
    /// Starts members of one etcd cluster, and waits until they answer.
    pub async fn start(count: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let members = (0..count).map(|_| Member::new()).collect();
        let mut members = Self { members, folder, tls: None, quota: 0 };
        members.start_all().await;
        members
    }

    /// Starts a member that only clients with a certificate of its authority reach.
    pub async fn start_with_tls() -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let authority_key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = parameters.self_signed(&authority_key).expect("a certificate");
        let issuer = Issuer::new(parameters, authority_key);
        let sign = |host: &str| {
            let key = KeyPair::generate().expect("a key");
            let mut parameters = CertificateParams::new([host.to_owned()]).expect("a host");
            parameters.distinguished_name.push(DnType::CommonName, host);
            (parameters.signed_by(&key, &issuer).expect("a certificate").pem(), key.serialize_pem())
        };
        let (server, server_key) = sign("127.0.0.1");
        for (name, text) in [("authority", &authority.pem()), ("server", &server), ("server-key", &server_key)] {
            std::fs::write(folder.path().join(format!("{name}.pem")), text).expect("the file is written");
        }
        let tls = Some(EtcdTls { authorities: Some(authority.pem()), identity: Some(sign("selfsame")) });
        let mut members = Self { members: vec![Member::new()], folder, tls, quota: 0 };
        members.start_all().await;
        members
    }

    /// Starts a member whose file may have so many bytes.
    pub async fn start_with_quota(quota: u64) -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let mut members = Self { members: vec![Member::new()], folder, tls: None, quota };
        members.start_all().await;
        members
    }

    /// Starts all members, which do not run, and waits until they answer.
    pub async fn start_all(&mut self) {
        for index in 0..self.members.len() {
            self.spawn(index);
        }
        for index in 0..self.members.len() {
            self.await_answer(index).await;
        }
    }

    fn client_url(&self, member: &Member) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", member.client_port)
    }

    fn spawn(&mut self, index: usize) {
        let peers: Vec<String> = self
            .members
            .iter()
            .enumerate()
            .map(|(index, member)| format!("m{index}=http://127.0.0.1:{}", member.peer_port))
            .collect();
        let log = File::options().create(true).append(true).open(self.folder.path().join(format!("m{index}.log")));
        let log = log.expect("the log is opened");
        let member = &self.members[index];
        let client = self.client_url(member);
        let peer = format!("http://127.0.0.1:{}", member.peer_port);
        let mut command = Command::new("etcd");
        if self.quota > 0 {
            command.args(["--quota-backend-bytes", &self.quota.to_string()]);
        }
        if self.tls.is_some() {
            let file = |name: &str| self.folder.path().join(format!("{name}.pem"));
            command.arg("--client-cert-auth");
            command.arg("--trusted-ca-file").arg(file("authority"));
            command.arg("--cert-file").arg(file("server")).arg("--key-file").arg(file("server-key"));
        }
        let process = command
            .env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH)
            .args(["--name", &format!("m{index}"), "--data-dir"])
            .arg(self.folder.path().join(format!("m{index}")))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &peers.join(","), "--logger", "zap", "--pre-vote=true"])
            .stdout(log.try_clone().expect("the log is open"))
            .stderr(log)
            .spawn();
        self.members[index].process = Some(process.expect("etcd is installed"));
    }

    /// How the members are reached.
    pub fn access(&self, prefix: &str) -> EtcdAccess {
        let endpoints = self.members.iter().map(|member| self.client_url(member));
        EtcdAccess { endpoints: endpoints.collect(), prefix: prefix.to_owned(), user: None, tls: self.tls.clone() }
    }

    async fn await_answer(&self, index: usize) {
        let mut access = self.access("/probe");
        access.endpoints = vec![access.endpoints.swap_remove(index)];
        let election = EtcdElection::new(Arc::new(Etcd::new(&access)), super::leader_record("probe"));
        let answered = async {
            while election.leader().await.is_err() {
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(Duration::from_secs(60), answered).await.unwrap_or_else(|_| panic!("member {index} does not answer"));
    }

    /// A member that the others do not follow.
    pub async fn follower(&self) -> usize {
        for (index, member) in self.members.iter().enumerate() {
            let mut client = Client::connect([self.client_url(member)], None).await.expect("the member answers");
            let status = client.status().await.expect("the member answers");
            if status.header().map(ResponseHeader::member_id) != Some(status.leader()) {
                return index;
            }
        }
        panic!("no member follows another one");
    }

    /// Sends a signal to a member.
    pub fn send(&mut self, index: usize, signal: Signal) {
        let process = self.members[index].process.as_mut().expect("the member runs");
        let name = match signal {
            Signal::Kill => "-KILL",
            Signal::Stop => "-STOP",
            Signal::Continue => "-CONT",
        };
        let sent = Command::new("kill").args([name, &process.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
        if let Signal::Kill = signal {
            process.wait().expect("it ends");
            self.members[index].process = None;
        }
    }

    /// Starts a killed member again, or wakes a paused one, and waits until it answers.
    pub async fn restore(&mut self, index: usize) {
        match self.members[index].process {
            Some(_) => self.send(index, Signal::Continue),
            None => self.spawn(index),
        }
        self.await_answer(index).await;
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for process in self.members.iter_mut().filter_map(|member| member.process.as_mut()) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
