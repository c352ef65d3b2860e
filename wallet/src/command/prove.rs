//! `selfsame wallet prove`.

use std::io::Write;

use selfsame_protocol::verification::Environment;
use serde_json::Value;

use super::error::CommandError;
use super::options::{DaemonOptions, Options};
use crate::Random;
use crate::client::Client;
use crate::file::WalletFile;
use crate::operator::Operator;
use crate::prove::{self, LegacyRequest, ProofParameters, SimulatedParty};

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
    daemon: DaemonOptions,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
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
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    let Prove { app, kind, action, signal, production, daemon } = command;
    let wallet = WalletFile::open(&options.wallet)?;
    let environment = if production { Environment::Production } else { Environment::Staging };
    let parameters = ProofParameters { app_id: &app, action: &action, signal: &signal, environment, nonce: None };
    let body = proof(options, &daemon, &wallet, kind, &parameters, random).await?;
    Ok(writeln!(out, "{body}")?)
}

/// A verification request with a proof. For a legacy proof, a daemon with `--dev` trusts its root
/// afterwards.
pub async fn proof(
    options: &Options,
    daemon: &DaemonOptions,
    wallet: &WalletFile,
    kind: ProofKind,
    parameters: &ProofParameters<'_>,
    random: &mut Random<'_>,
) -> Result<Value, CommandError> {
    let operator = Operator::new(&daemon.operator)?;
    if matches!(kind, ProofKind::Legacy) {
        let LegacyRequest { root, body } = prove::legacy(&wallet.key, parameters, random)?;
        operator.trust_simulated_root(root, parameters.environment, prove::LEGACY_IDENTIFIER, &daemon.data).await?;
        return Ok(body);
    }
    let indexer = options.indexer.as_deref().unwrap_or(&wallet.indexer);
    let root = Client::new(&wallet.gateway, indexer)?.root().await?.root;
    let party = SimulatedParty::of(operator.simulation().await?, parameters.app_id, root)?;
    Ok(match kind {
        ProofKind::Session => prove::session(&wallet.key, parameters, &party, random)?,
        _ => prove::uniqueness(&wallet.key, parameters, &party, random)?,
    })
}
