//! A server over UDP that sends queries back as responses.

use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

/// Starts the server, and returns its address. `answer` may change a response, and says how late it is sent; with `None` there is no response.
pub fn responder(mut answer: impl FnMut(&mut [u8]) -> Option<Duration> + Send + 'static) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let mut message = [0; 4_096];
        while let Ok((length, client)) = socket.recv_from(&mut message) {
            let response = &mut message[..length];
            response[2] |= 0x80;
            // A client that is gone needs no answer.
            let send = move |socket: &UdpSocket, response: &[u8]| drop(socket.send_to(response, client));
            match answer(response) {
                None => {}
                Some(Duration::ZERO) => send(&socket, response),
                Some(late) => {
                    let (response, socket) = (response.to_vec(), socket.try_clone().unwrap());
                    thread::spawn(move || {
                        thread::sleep(late);
                        send(&socket, &response);
                    });
                }
            }
        }
    });
    address
}
