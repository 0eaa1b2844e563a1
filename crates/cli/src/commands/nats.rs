//! Options that say where a NATS server is and who we are to it.

use std::path::PathBuf;

use ldplayer_cluster::Link;

use super::replay::HEADING;

/// Options of a connection to NATS, besides its URL.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Credentials {
    /// Credentials file for the NATS server, as `nsc` writes it
    ///
    /// A user and a password stand in the URL, or in NATS_USER and NATS_PASSWORD.
    #[arg(long, env = "NATS_CREDS", hide_env_values = true, value_name = "FILE", help_heading = HEADING, hide_short_help = true)]
    nats_credentials: Option<PathBuf>,
    /// CA certificate of the NATS server, for tls:// URLs [default: those that the system trusts]
    #[arg(long, env = "NATS_CA", hide_env_values = true, value_name = "FILE", help_heading = HEADING, hide_short_help = true)]
    nats_ca: Option<PathBuf>,
    /// Client certificate for the NATS server
    #[arg(long, env = "NATS_CERT", hide_env_values = true, value_name = "FILE", requires = "nats_key", help_heading = HEADING, hide_short_help = true)]
    nats_cert: Option<PathBuf>,
    /// Key of the client certificate
    #[arg(long, env = "NATS_KEY", hide_env_values = true, value_name = "FILE", requires = "nats_cert", help_heading = HEADING, hide_short_help = true)]
    nats_key: Option<PathBuf>,
}

impl Credentials {
    /// The way to the server at this URL.
    pub fn link(&self, url: &str) -> Link {
        Link {
            url: url.to_owned(),
            credentials: self.nats_credentials.clone(),
            ca: self.nats_ca.clone(),
            certificate: self.nats_cert.clone().zip(self.nats_key.clone()),
            login: std::env::var("NATS_USER").ok().zip(std::env::var("NATS_PASSWORD").ok()),
        }
    }
}
