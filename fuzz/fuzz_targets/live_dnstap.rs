//! What software that sends dnstap says on a socket, its handshake first: any octets end in transactions whose accounts add up.
#![no_main]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;

use ldplayer_trace::{Input, OpenOptions, open};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let path = ldplayer_fuzz::directory("dnstap.none", b"").join("socket");
    let (theirs, sent) = (path.clone(), data.to_vec());
    let writer = thread::spawn(move || {
        // The reader comes, or the target waits for it.
        let Some(mut stream) = std::iter::repeat_with(|| UnixStream::connect(&theirs)).find_map(Result::ok) else {
            return;
        };
        let _ = stream.write_all(&sent).and_then(|()| stream.shutdown(Shutdown::Write));
        let _ = stream.read_to_end(&mut Vec::new());
        // A mere connection does not count as a writer that has come: a whole handshake ends the stream.
        if let Ok(mut last) = UnixStream::connect(&theirs) {
            let _ = last.write_all(b"\0\0\0\0\0\0\0\x22\0\0\0\x02\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap");
        }
    });
    if let Ok(mut source) = open(&[Input::Unix(path)], &OpenOptions::default()) {
        let mut batch = Vec::new();
        while let Ok(true) = source.read(&mut batch) {
            batch.clear();
        }
    }
    // It has no panic of its own.
    writer.join().expect("the writer does not panic");
});
