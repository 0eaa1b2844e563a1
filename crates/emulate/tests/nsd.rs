//! A real NSD, started with the bundled root zone.

use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use ldplayer_emulate::stock::{Nsd, StockError};

/// The root zone of 8 October 2016.
const ROOT_ZONE: &[u8] = include_bytes!("../../../data/root-2016100801.zone.xz");
/// Its serial.
const SERIAL: u32 = 2_016_100_801;

/// An address that was free a moment ago.
fn free_address() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn ask(server: SocketAddr, question: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket.send_to(question, server).unwrap();
    let mut answer = vec![0; 4096];
    let length = socket.recv(&mut answer).unwrap();
    answer.truncate(length);
    answer
}

fn write_root(directory: &Path) -> std::path::PathBuf {
    let mut text = Vec::new();
    liblzma::read::XzDecoder::new(ROOT_ZONE).read_to_end(&mut text).unwrap();
    let file = directory.join("root.zone");
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn it_answers_with_the_serial_of_its_zone() {
    let directory = tempfile::tempdir().unwrap();
    let zone = write_root(directory.path());
    let address = free_address();
    let nsd = Nsd::start(&[(".", zone)], &[address]).unwrap();
    // `. SOA IN`, ID 1.
    let answer = ask(address, &[0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 1]);
    assert_eq!(answer[..2], [0, 1]);
    assert_eq!(answer[2] & 0x84, 0x84, "an authoritative answer");
    assert_eq!(answer[3] & 0x0f, 0, "NOERROR");
    assert!(answer.windows(4).any(|octets| octets == SERIAL.to_be_bytes()), "the serial in {answer:?}");
    let pid = nsd.id();
    drop(nsd);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it ended with its owner");
}

#[test]
fn an_address_in_use_is_an_error_that_quotes_its_log() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = Nsd::start(&[], &[taken.local_addr().unwrap()]).unwrap_err();
    let StockError::Ended { log, .. } = error else { panic!("{error}") };
    assert!(log.contains("bind"), "{log}");
}
