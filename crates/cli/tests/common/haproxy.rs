//! HAProxy, with a configuration of the test's own.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::common::certificate;

/// How long the proxy may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A proxy; dropping it ends it.
pub struct Proxy(Child);

impl Proxy {
    /// Starts one that listens there, by the frontends and backends that `configure` makes of its certificate's file.
    pub fn start(folder: &Path, listens: SocketAddr, configure: impl Fn(&str) -> String) -> Self {
        let (pem, file) = (folder.join("both.pem"), folder.join("haproxy.cfg"));
        let both = ["server.pem", "server.key"].map(|name| std::fs::read(certificate(name)).unwrap()).concat();
        std::fs::write(&pem, both).unwrap();
        std::fs::write(&file, configure(pem.to_str().unwrap())).unwrap();
        let path = format!("{}:/usr/local/sbin:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
        let mut command = Command::new("haproxy");
        command.env("PATH", path).arg("-db").arg("-f").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let proxy = Self(command.spawn().expect("no haproxy: scripts/need.sh haproxy installs it"));
        let begun = Instant::now();
        while TcpStream::connect(listens).is_err() {
            assert!(begun.elapsed() < PATIENCE, "the proxy does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        proxy
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // One that has ended by itself is ended, too.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
