//! Three replicas, each behind proxies of its own, and one address in front of all.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use selfsame_actors::{Random, SystemRandom};
use selfsame_wallet::client::Client;
use serde_json::Value;
use tokio::task::block_in_place;

use super::members::Members;
use super::proxy::{Line, Proxy};
use crate::harness::{DaemonProcess, PATIENCE, operator_token, run_for_status, until, write_secret};

pub const NAMES: [&str; 3] = ["one", "two", "three"];

/// One replica.
pub struct TestReplica {
    pub name: &'static str,
    pub data: PathBuf,
    configuration: PathBuf,
    log: PathBuf,
    process: Option<DaemonProcess>,
    is_paused: bool,
    /// In front of each member of etcd, for this replica.
    to_etcd: Vec<Proxy>,
    /// In front of this replica, for the others.
    from_others: Proxy,
    /// Where this replica listens for the others.
    listen: SocketAddr,
    /// What its clock shows at its start; `None` for the right time.
    pub clock: Option<String>,
    /// Where it serves each interface, by its key in `[listen]`.
    addresses: Vec<(&'static str, SocketAddr)>,
}

/// A cluster with its members of etcd.
pub struct TestCluster {
    pub members: Members,
    pub replicas: Vec<TestReplica>,
    folder: PathBuf,
    /// Settings that all replicas have.
    settings: String,
    http: reqwest::Client,
}

/// An address of a loopback host that no connection of other programs has at its own end.
fn free_address() -> SocketAddr {
    let mut random = [0; 32];
    SystemRandom.fill(&mut random);
    let host = Ipv4Addr::new(127, random[0] | 1, random[1], random[2].clamp(1, 254));
    let listener = std::net::TcpListener::bind((host, 0)).expect("a port is free");
    listener.local_addr().expect("it is bound")
}

impl TestCluster {
    /// Starts the members of etcd, and prepares replicas; none runs yet. `settings` are TOML, and
    /// `in_section` belongs to `[cluster]`.
    pub async fn prepare(folder: &Path, members: usize, settings: &str, in_section: &str) -> Self {
        let members = Members::start(members).await;
        let mut replicas = Vec::new();
        write_secret(&folder.join("cluster.secret"), "the secret of a test\n");
        for name in NAMES {
            let mut to_etcd = Vec::new();
            for url in members.access("/").endpoints {
                let target = url.trim_start_matches("http://").parse().expect("an address");
                to_etcd.push(Proxy::start(vec![target]).await);
            }
            let listen = free_address();
            let from_others = Proxy::start(vec![listen]).await;
            let addresses = ["gateway", "indexer", "operator", "verify", "sign_in", "bridge", "wallet"]
                .map(|key| (key, free_address()));
            replicas.push(TestReplica {
                name,
                data: folder.join(name),
                configuration: folder.join(format!("{name}.toml")),
                log: folder.join(format!("{name}.log")),
                process: None,
                is_paused: false,
                to_etcd,
                from_others,
                listen,
                clock: None,
                addresses: addresses.into(),
            });
        }
        let settings = format!("{settings}\n[cluster]\n{in_section}\n");
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
        Self { members, replicas, folder: folder.to_owned(), settings, http }
    }

    /// Starts replicas with the usual settings, one after the other, and waits until they are
    /// ready.
    pub async fn start(folder: &Path) -> Self {
        let mut cluster = Self::prepare(folder, 1, "", "").await;
        cluster.start_all().await;
        cluster
    }

    /// Starts every replica, and waits until they are ready.
    pub async fn start_all(&mut self) {
        for index in 0..self.replicas.len() {
            self.start_replica(index);
        }
        for index in 0..self.replicas.len() {
            self.wait_until_ready(index).await;
        }
    }

    /// Starts a replica, which is not ready then.
    pub fn start_replica(&mut self, index: usize) {
        let started = self.try_start(index);
        let replica = &self.replicas[index];
        started.unwrap_or_else(|status| panic!("{} ended at its start: {status}\n{}", replica.name, replica.log()));
    }

    /// The same for a replica that may end before it serves.
    pub fn try_start(&mut self, index: usize) -> Result<(), std::process::ExitStatus> {
        let text = self.configuration(index);
        let replica = &mut self.replicas[index];
        std::fs::write(&replica.configuration, text).expect("written");
        let log = File::options().create(true).append(true).open(&replica.log).expect("a log");
        let variables: Vec<(String, String)> = replica
            .addresses
            .iter()
            .map(|(key, address)| (format!("SELFSAME_LISTEN__{}", key.to_uppercase()), address.to_string()))
            .collect();
        let mut variables: Vec<(&str, &str)> =
            variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        variables.push(("RUST_LOG", "info"));
        let mut arguments = vec!["--config", replica.configuration.to_str().expect("text")];
        arguments.extend(replica.clock.iter().flat_map(|clock| ["--clock", clock]));
        let process = block_in_place(|| DaemonProcess::try_start(&replica.data, &arguments, &variables, log.into()))?;
        (replica.process, replica.is_paused) = (Some(process), false);
        Ok(())
    }

    fn configuration(&self, index: usize) -> String {
        let replica = &self.replicas[index];
        let members: Vec<String> =
            replica.to_etcd.iter().map(|proxy| format!("\"http://{}\"", proxy.address)).collect();
        let scheme = if self.settings.contains("certificate = ") { "https" } else { "http" };
        format!(
            "{}name = \"{}\"\netcd = [{}]\nlisten = \"{}\"\naddress = \"{scheme}://{}\"\nsecret_file = {:?}\n",
            self.settings,
            replica.name,
            members.join(", "),
            replica.listen,
            replica.from_others.address,
            self.folder.join("cluster.secret"),
        )
    }

    /// Where the replicas serve an interface.
    pub fn addresses(&self, key: &str) -> Vec<SocketAddr> {
        self.replicas.iter().map(|replica| replica.address(key)).collect()
    }

    /// What a replica says of itself; `None` while it does not answer.
    pub async fn status(&self, index: usize) -> Option<Value> {
        let replica = &self.replicas[index];
        if replica.process.is_none() || replica.is_paused {
            return None;
        }
        let url = format!("http://{}/status", replica.address("operator"));
        let request = self.http.get(url).bearer_auth(operator_token(&replica.data)).timeout(Duration::from_secs(5));
        request.send().await.ok()?.json().await.ok()
    }

    /// Which replica leads, as one of them sees it.
    pub async fn leader(&self) -> Option<usize> {
        for index in 0..self.replicas.len() {
            let Some(status) = self.status(index).await else { continue };
            if status["cluster"]["term"].is_u64() {
                return Some(index);
            }
        }
        None
    }

    /// Waits until a replica leads; returns which.
    pub async fn wait_for_leader(&self) -> usize {
        until("a replica to lead", async || self.leader().await.ok_or("none")).await
    }

    /// Waits until a replica is ready.
    pub async fn wait_until_ready(&self, index: usize) {
        until(format!("{} to be ready", self.replicas[index].name), async || {
            let status = self.status(index).await;
            if status.as_ref().is_some_and(|status| status["ready"] == true) { Ok(()) } else { Err(status) }
        })
        .await;
    }

    /// Waits until every replica has what the journal has, and the same block.
    pub async fn wait_until_equal(&self) {
        until("equal replicas", async || {
            let mut seen = Vec::new();
            for index in 0..self.replicas.len() {
                let root = self.http.get(format!("http://{}/root", self.replicas[index].address("indexer")));
                let root = root.send().await.expect("an answer").text().await.expect("a body");
                let status = self.status(index).await.expect("a status");
                seen.push((
                    root,
                    status["cluster"]["journal_end"].clone(),
                    status["registry"]["open_requests"].clone(),
                ));
            }
            if seen.iter().all(|one| *one == seen[0]) { Ok(()) } else { Err(seen) }
        })
        .await;
    }

    /// Stops every replica, and asserts that each store agrees with its ledger.
    pub fn stop_and_check(&mut self) {
        for replica in &mut self.replicas {
            let Some(process) = replica.process.take() else { continue };
            assert!(block_in_place(|| process.terminate()).success(), "{} did not end well", replica.name);
        }
        for replica in self.replicas.iter().filter(|replica| replica.data.exists()) {
            let data = replica.data.to_str().expect("text");
            let (status, text) = block_in_place(|| run_for_status(&["registry", "fsck", "--data", data], &[]));
            assert!(status.success() && text.contains(", 0 findings"), "{}: {text}", replica.name);
        }
    }
}

impl TestReplica {
    /// Where it serves an interface.
    pub fn address(&self, key: &str) -> SocketAddr {
        let found = self.addresses.iter().find(|(known, _)| *known == key);
        found.expect("an interface").1
    }

    /// Where it listens for the other replicas.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Where the others reach it.
    pub fn url_host(&self) -> SocketAddr {
        self.from_others.address
    }

    /// The wallet's client for this replica.
    pub fn client(&self) -> Client {
        let url = |key: &str| format!("http://{}", self.address(key));
        Client::new(&url("gateway"), &url("indexer")).expect("a client")
    }

    /// Kills it.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            block_in_place(|| process.kill());
        }
    }

    /// Sends SIGTERM and waits.
    pub fn terminate(&mut self) {
        if let Some(process) = self.process.take() {
            assert!(block_in_place(|| process.terminate()).success(), "{} did not end well", self.name);
        }
    }

    /// Waits until it has ended by itself; returns how.
    pub async fn wait_for_end(&mut self) -> std::process::ExitStatus {
        let process = self.process.take().expect("it runs");
        block_in_place(|| process.wait())
    }

    pub fn pause(&mut self) {
        self.process.as_ref().expect("it runs").pause();
        self.is_paused = true;
    }

    pub fn resume(&mut self) {
        if std::mem::take(&mut self.is_paused) {
            self.process.as_ref().expect("it runs").resume();
        }
    }

    /// Whether it has a process.
    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// Removes its data folder.
    pub fn wipe(&self) {
        std::fs::remove_dir_all(&self.data).expect("the data folder is removed");
    }

    /// What happens to its connections to the members of etcd.
    pub fn set_line_to_etcd(&self, line: Line) {
        self.to_etcd.iter().for_each(|proxy| proxy.set(line));
    }

    /// What happens to the connections of the others to it.
    pub fn set_line_from_others(&self, line: Line) {
        self.from_others.set(line);
    }

    /// The text of its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}
