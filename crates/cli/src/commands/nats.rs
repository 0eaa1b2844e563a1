//! Options that say where a NATS server is and who we are to it.

use std::path::PathBuf;

use ldplayer_cluster::Link;

/// Options of a connection to NATS, besides its URL.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Credentials {
    /// Credentials for the NATS server, as `nsc` writes them; a user and a password stand in the URL
    #[arg(long, value_name = "FILE")]
    nats_credentials: Option<PathBuf>,
    /// Certificate of the authority that the NATS server's certificate is signed by, for tls:// URLs [default: the system's]
    #[arg(long, value_name = "FILE")]
    nats_ca: Option<PathBuf>,
    /// Our certificate for the NATS server
    #[arg(long, value_name = "FILE", requires = "nats_key")]
    nats_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "nats_cert")]
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
        }
    }
}
