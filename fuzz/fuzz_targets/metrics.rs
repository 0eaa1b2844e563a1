//! Requests to the endpoint of metrics: whatever a client sends, the endpoint answers the next one.
#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};

use ldplayer_report::metrics::{Latencies, Listener, Snapshot};
use libfuzzer_sys::fuzz_target;

/// An endpoint for as long as the process lives.
static ADDRESS: LazyLock<SocketAddr> = LazyLock::new(|| {
    // Without a port of this host there is nothing to fuzz.
    let listener = Listener::bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    // It listens.
    let address = listener.address().expect("where it listens");
    // Without a thread there is nothing to fuzz.
    std::mem::forget(listener.serve(Arc::<Latencies>::default(), Snapshot::default).expect("a thread"));
    address
});

fn ask(request: &[u8]) -> String {
    // It takes connections: the target looks for what ends that.
    let mut client = TcpStream::connect(*ADDRESS).expect("the endpoint takes connections");
    let mut answer = Vec::new();
    // It may close the connection before it has read everything.
    let _ = client.write_all(request).and_then(|()| client.shutdown(Shutdown::Write));
    let _ = client.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fuzz_target!(|data: &[u8]| {
    ask(data);
    assert!(ask(b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
});
