//! A server for the tests over TCP: a thread for each connection, which reads messages behind their length.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ldplayer_net::veth::Reach;

/// How often threads of the responder look whether they shall end.
pub const TICK: Duration = Duration::from_millis(20);

/// A responder; dropping it ends it.
pub struct Responder {
    pub address: SocketAddr,
    pub stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    /// Each connection has a thread that does this, and ends when it is told to.
    pub fn start(serve: impl Fn(TcpStream, &AtomicBool) + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind(super::link::any_port()).unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut threads = Vec::new();
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                stream.set_read_timeout(Some(TICK)).unwrap();
                let (stopped, serve) = (Arc::clone(&stopped), serve.clone());
                threads.push(std::thread::spawn(move || serve(stream, &stopped)));
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for a connection; where it has ended, there is nobody to wake.
        let reach = Reach::to(self.address.ip()).unwrap();
        let _ = TcpStream::connect(self.address);
        drop(reach);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// The next message; `None` when the client or the responder is at its end.
pub fn read_message(link: &mut impl Read, stopped: &AtomicBool) -> Option<Vec<u8>> {
    let length = read(link, 2, stopped)?;
    read(link, usize::from(u16::from_be_bytes([length[0], length[1]])), stopped)
}

fn read(link: &mut impl Read, length: usize, stopped: &AtomicBool) -> Option<Vec<u8>> {
    let (mut octets, mut done) = (vec![0; length], 0);
    while done < length {
        match link.read(&mut octets[done..]) {
            Ok(0) => return None,
            Ok(count) => done += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if stopped.load(Ordering::Relaxed) {
                    return None;
                }
            }
            Err(_) => return None,
        }
    }
    Some(octets)
}

/// The answer behind its length.
pub fn framed(query: &[u8]) -> Vec<u8> {
    let mut answer = [&(query.len() as u16).to_be_bytes()[..], query].concat();
    answer[4] |= 0x80;
    answer
}
