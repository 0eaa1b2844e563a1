//! Records of a TLS session that is up, from a server that has its keys: whatever is in them, the session goes on or ends by an
//! error, and what it keeps is bounded.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;

use ldplayer_replay::internals::{TlsSession, TlsSessions};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

const CERTIFICATE: &[u8] = include_bytes!("../../crates/replay/tests/data/server.pem");
const KEY: &[u8] = include_bytes!("../../crates/replay/tests/data/server.key");

// What is made of the certificate is the same in each run of the target, and tests make it, too.
static SIDES: LazyLock<(TlsSessions, Arc<ServerConfig>)> = LazyLock::new(|| sides().expect("the sides can be made"));

type Failed = Box<dyn std::error::Error>;

fn sides() -> Result<(TlsSessions, Arc<ServerConfig>), Failed> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE)?;
    let server =
        builder.with_no_client_auth().with_single_cert(vec![certificate], PrivateKeyDer::from_pem_slice(KEY)?)?;
    Ok((TlsSessions::new()?, Arc::new(server)))
}

/// A session that is up.
fn session() -> Result<TlsSession, Failed> {
    let (clients, server) = &*SIDES;
    let (mut session, mut server) = (clients.start()?, ServerConnection::new(Arc::clone(server))?);
    while !session.is_up() || server.is_handshaking() {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        session.take_output(&mut there);
        server.read_tls(&mut there.as_slice())?;
        server.process_new_packets()?;
        while server.wants_write() {
            server.write_tls(&mut back)?;
        }
        session.read(&back, &mut Vec::new())?;
    }
    Ok(session)
}

// Records: the type, the length in two octets, the content; types from 0x80 on are octets that no key has sealed.
fuzz_target!(|data: &[u8]| {
    // Nothing of the input is in a handshake.
    let mut session = session().expect("the session comes up");
    let (mut rest, mut written) = (data, 0);
    while let Some((&[kind, high, low], behind)) = rest.split_first_chunk() {
        let (content, behind) = behind.split_at(usize::from(u16::from_be_bytes([high, low])).min(behind.len()));
        rest = behind;
        let octets = if kind < 0x80 { session.forge(kind, content) } else { Some(content.to_vec()) };
        let Some(octets) = octets else { return };
        let mut taken = Vec::new();
        let result = session.read(&octets, &mut taken);
        assert!(taken.len() <= octets.len());
        written += taken.len();
        if result.is_err() {
            break;
        }
    }
    let mut out = Vec::new();
    session.take_output(&mut out);
    assert!(written <= data.len() && out.len() < 200, "a peer that reads nothing is owed an alert at most");
});
