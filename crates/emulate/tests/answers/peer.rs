//! A stock server that is asked: one socket for UDP, one connection for TCP for as long as the server keeps it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};

use crate::common::PATIENCE;
use crate::questions::Question;

pub struct Peer {
    address: SocketAddr,
    udp: UdpSocket,
    tcp: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Peer {
    pub fn connect(address: SocketAddr) -> Self {
        let udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        udp.connect(address).unwrap();
        udp.set_read_timeout(PATIENCE).unwrap();
        Self { address, udp, tcp: None, buffer: vec![0; 65_535] }
    }

    pub fn ask(&mut self, question: &Question) -> Vec<u8> {
        if question.tcp { self.ask_tcp(&question.octets) } else { self.ask_udp(&question.octets) }
    }

    fn ask_udp(&mut self, question: &[u8]) -> Vec<u8> {
        self.udp.send(question).unwrap();
        let length = self.udp.recv(&mut self.buffer).unwrap();
        assert_eq!(self.buffer[..2], question[..2], "the answer of another query");
        self.buffer[..length].to_vec()
    }

    fn ask_tcp(&mut self, question: &[u8]) -> Vec<u8> {
        // Servers end connections after a number of queries of their choice.
        self.try_tcp(question).or_else(|_| self.try_tcp(question)).unwrap()
    }

    fn try_tcp(&mut self, question: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = match self.tcp.take() {
            Some(stream) => stream,
            None => TcpStream::connect(self.address)?,
        };
        stream.set_read_timeout(PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.write_all(&[&(question.len() as u16).to_be_bytes(), question].concat())?;
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut answer = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut answer)?;
        assert_eq!(answer[..2], question[..2], "the answer of another query");
        self.tcp = Some(stream);
        Ok(answer)
    }
}
