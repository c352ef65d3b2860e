//! `selfsame app`: the applications of the configuration.

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;

use crate::config::RelyingPartyId;
use crate::config::values::CurvePoint;
use crate::prepared::ConfigSource;

/// `selfsame app new`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct NewApp {
    /// The name that end users see
    #[arg(long)]
    pub name: String,
    /// Redirect URI to which sign-in may send end users back; may be given several times
    #[arg(long, required = true)]
    pub redirect_uri: Vec<String>,
    /// URI to which sign-out may send end users; may be given several times
    #[arg(long)]
    pub post_logout_redirect_uri: Vec<String>,
    /// Make a public client, which has no secret: a page or a program without a server of its own
    #[arg(long)]
    pub public: bool,
    /// Make the application for staging instead of production
    #[arg(long)]
    pub staging: bool,
    /// The file of the key with which its relying party signs requests; people get accounts that
    /// last
    #[arg(long, value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    pub signing_key_file: Option<String>,
    /// The OPRF public key of its relying party, where none is followed from a chain; people get
    /// accounts that last
    #[arg(long, value_name = "X,Y")]
    pub oprf_public_key: Option<CurvePoint>,
    /// The id of its relying party, where it is not the one that is derived from the application's
    #[arg(long, value_name = "ID")]
    pub rp_id: Option<RelyingPartyId>,
}

impl NewApp {
    /// Whether its relying party has a key, so that sign-in can ask for current proofs.
    pub fn has_relying_party_key(&self) -> bool {
        self.signing_key_file.is_some() || self.oprf_public_key.is_some()
    }
}

/// `selfsame app`.
#[derive(Debug, Subcommand)]
pub enum App {
    /// Print an application's block for the configuration and, once, its secret
    New(NewApp),
    /// Show the applications of the configuration: id, status, environments, relying party, number
    /// of secrets, name
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Where the configuration is
        #[command(flatten)]
        source: ConfigSource,
    },
    /// Print a new client secret, once, and its hash for the configuration
    Secret,
}
