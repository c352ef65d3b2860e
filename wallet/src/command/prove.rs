//! `selfsame wallet prove`, and what every proof of the wallet is made with.

use std::io::Write;
use std::path::PathBuf;

use alloy_primitives::U256;
use selfsame_protocol::ids::Nullifier;
use selfsame_protocol::operator::Simulation;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::identity::hash_text;
use selfsame_protocol::verification::{Environment, LegacyIdentifier, RelyingPartyId};
use serde_json::Value;

use super::error::CommandError;
use super::options::{DaemonOptions, GuardOptions, Options};
use crate::Random;
use crate::client::{Client, ClientError};
use crate::file::WalletFile;
use crate::guard::Guard;
use crate::operator::Operator;
use crate::person::Person;
use crate::prove::{self, LegacyRequest, ProofParameters, ProveError, SimulatedParty};

#[derive(Clone, Debug, clap::Args)]
pub struct Prove {
    /// The application that requests the proof.
    #[arg(long, value_name = "APP_ID")]
    app: String,
    /// The kind of proof.
    #[arg(long, value_enum, default_value_t = ProofKind::Legacy)]
    kind: ProofKind,
    /// What the proof is for; ignored for sessions.
    #[arg(long, value_name = "TEXT", default_value = "")]
    action: String,
    /// What the proof is bound to.
    #[arg(long, value_name = "TEXT", default_value = "")]
    signal: String,
    /// Make a proof for production. The daemon accepts the simulator's proofs for staging only.
    #[arg(long)]
    production: bool,
    #[command(flatten)]
    guard: GuardOptions,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ProofKind {
    /// Protocol version 3.0: a genuine proof.
    Legacy,
    /// Protocol version 4.0, by the simulator.
    Uniqueness,
    /// Protocol version 4.0 in a session, by the simulator.
    Session,
}

/// Prints a verification request with a proof.
pub async fn prove(
    options: &Options,
    command: Prove,
    random: &mut Random<'_>,
    now: UnixSeconds,
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    let Prove { app, kind, action, signal, production, guard, daemon } = command;
    let wallet = WalletFile::open(&options.wallet)?;
    let environment = if production { Environment::Production } else { Environment::Staging };
    let parameters = ProofParameters { app_id: &app, action: &action, signal: &signal, environment, nonce: None };
    if kind == ProofKind::Legacy {
        Operator::new(daemon.operator(&wallet))?.check_way_is_safe()?;
    }
    let mut prover = Prover::connect(options, &daemon, guard, &wallet).await?;
    let body = prover.prove(kind, &parameters, random, now).await?;
    Ok(writeln!(out, "{body}")?)
}

/// What the proofs of one run of a command are made with.
pub struct Prover {
    /// The person of the wallet's account.
    pub person: Person,
    /// The root that the account's inclusion proof leads to.
    pub root: Root,
    /// The daemon's simulation; `None` when it has none.
    pub simulation: Option<Simulation>,
    operator: Operator,
    /// Base address of the operator interface.
    operator_url: String,
    /// The data folder with the operator's token.
    data: PathBuf,
    /// `None` without a guard.
    guard: Option<Guard>,
}

impl Prover {
    /// Asks the daemon for its simulation, and the indexer for the inclusion proof of the wallet's
    /// account.
    ///
    /// # Errors
    /// [`CommandError::NoAccount`] when the wallet is not an authenticator of an account.
    pub async fn connect(
        options: &Options,
        daemon: &DaemonOptions,
        guard: GuardOptions,
        wallet: &WalletFile,
    ) -> Result<Self, CommandError> {
        let (operator_url, data) = (daemon.operator(wallet).to_owned(), daemon.data(wallet).to_owned());
        let operator = Operator::new(&operator_url)?;
        let simulation = match operator.simulation().await {
            Err(ClientError::Service { status: 404, .. }) => None,
            simulation => Some(simulation?),
        };
        let indexer = options.indexer.as_deref().unwrap_or(&wallet.indexer);
        let client = Client::new(&wallet.gateway, indexer)?;
        let address = wallet.key.address();
        let Some(packed) = client.packed_account(address).await? else {
            let (wallet, indexer) = (wallet.path().to_owned(), indexer.to_owned());
            return Err(CommandError::NoAccount { address, wallet, indexer });
        };
        let proof = client.inclusion_proof(packed.leaf_index).await?;
        let seed = simulation.as_ref().map_or("", |simulation| &simulation.seed);
        let (person, root) = Person::of_account(seed, &proof, &wallet.key).map_err(ProveError::from)?;
        let guard = guard.open(wallet)?;
        Ok(Self { person, root, simulation, operator, operator_url, data, guard })
    }

    /// A verification request with a proof. For a legacy proof, a daemon with `--dev` trusts its
    /// root afterwards.
    pub async fn prove(
        &mut self,
        kind: ProofKind,
        parameters: &ProofParameters<'_>,
        random: &mut Random<'_>,
        now: UnixSeconds,
    ) -> Result<Value, CommandError> {
        if kind == ProofKind::Legacy {
            let LegacyRequest { root, body } = prove::legacy(&self.person, parameters, random)?;
            self.trust(root, parameters.environment, prove::LEGACY_IDENTIFIER).await?;
            return Ok(body);
        }
        let no_simulator = || CommandError::NoSimulator { operator: self.operator_url.clone() };
        let simulation = self.simulation.clone().ok_or_else(no_simulator)?;
        let party = SimulatedParty::of(simulation, parameters.app_id, self.root);
        let party = party.map_err(|error| self.name_daemon(error))?;
        if kind == ProofKind::Session {
            return Ok(prove::session(&self.person, parameters, &party, random)?);
        }
        let nullifier = self.check_unused(party.rp_id, hash_text(parameters.action), now)?;
        let body = prove::uniqueness(&self.person, parameters, &party, random)?;
        self.remember(&[nullifier], now)?;
        Ok(body)
    }

    /// The nullifier of a proof of uniqueness, which the guard lets pass.
    ///
    /// # Errors
    /// [`CommandError::Guard`].
    pub fn check_unused(
        &self,
        rp_id: RelyingPartyId,
        action: U256,
        now: UnixSeconds,
    ) -> Result<Nullifier, CommandError> {
        let nullifier = prove::nullifier(&self.person, rp_id, action);
        if let Some(guard) = &self.guard {
            guard.check(nullifier, now)?;
        }
        Ok(nullifier)
    }

    /// Has the guard remember nullifiers that are about to be given.
    ///
    /// # Errors
    /// [`CommandError::Guard`].
    pub fn remember(&mut self, nullifiers: &[Nullifier], now: UnixSeconds) -> Result<(), CommandError> {
        match &mut self.guard {
            Some(guard) => Ok(guard.record(nullifiers, now)?),
            None => Ok(()),
        }
    }

    /// Has the daemon trust the root of a legacy proof.
    ///
    /// # Errors
    /// [`CommandError::Operator`].
    pub async fn trust(
        &self,
        root: Root,
        environment: Environment,
        identifier: LegacyIdentifier,
    ) -> Result<(), CommandError> {
        Ok(self.operator.trust_simulated_root(root, environment, identifier, &self.data).await?)
    }

    /// Says which daemon does not know an application: it may be another one than the person means.
    fn name_daemon(&self, error: ProveError) -> CommandError {
        match error {
            ProveError::UnknownApplication { app_id } => {
                CommandError::OtherDaemon { app_id, operator: self.operator_url.clone() }
            }
            error => error.into(),
        }
    }
}
