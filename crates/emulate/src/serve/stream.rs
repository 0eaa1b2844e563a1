//! A TCP connection of a server, plain or with TLS (RFC 7858), as one stream of octets that never blocks.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

/// The connection.
#[derive(Debug)]
pub struct Stream {
    tcp: TcpStream,
    tls: Option<Box<ServerConnection>>,
}

impl Stream {
    /// An accepted connection; with settings of TLS, the client begins with a handshake.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn new(tcp: TcpStream, tls: Option<&Arc<ServerConfig>>) -> io::Result<Self> {
        tcp.set_nonblocking(true)?;
        let tls = tls.map(|config| ServerConnection::new(Arc::clone(config)).map(Box::new));
        Ok(Self { tcp, tls: tls.transpose().map_err(io::Error::other)? })
    }

    /// The connection below.
    pub const fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Whether it has TLS.
    pub const fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether there is something encrypted that is not sent.
    pub fn is_full(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Sends what is encrypted; returns whether all of it is sent.
    pub fn drain(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.wants_write() {
            match tls.write_tls(&mut self.tcp) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Read for Stream {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(tls) = &mut self.tls else { return self.tcp.read(octets) };
            match tls.reader().read(octets) {
                // A client that goes without a word has ended, too.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            tls.read_tls(&mut self.tcp)?;
            let processed = tls.process_new_packets();
            // The handshake goes on, or an alert says why it does not.
            self.drain()?;
            processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
    }
}

impl Write for Stream {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if !self.drain()? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let Some(tls) = &mut self.tls else { return self.tcp.write(octets) };
        let taken = tls.writer().write(octets)?;
        self.drain()?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain().map(drop)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // The client may be gone.
            let _ = self.drain();
        }
    }
}
