//! A study of made-up pairs: what its page, its picture and its text hold.

use ldplayer_core::{Segments, Status, Transport};
use ldplayer_results::ratio::{About, Exchange, Line, Pair, Study};

use super::{StudyText, write};

/// A response time in nanoseconds: the round-trip time of the clients.
const RTT: i64 = 20_000_000;

/// A query that was answered after so many nanoseconds, or refused.
fn exchange(took: Option<i64>) -> Exchange {
    Exchange {
        due: 0,
        status: if took.is_some() { Status::Answered } else { Status::Refused },
        reason: took.is_none().then(|| "connection_refused".to_owned()),
        took,
        connect: took.map(|_| RTT),
        handshake: None,
        rest: took.map(|_| 0),
        rcode: took.map(|_| 0),
        is_truncated: false,
        response_bytes: 80,
        is_resent: false,
        segments: Some(Segments { arrived: 1, resent: 0 }),
        length_apart: false,
    }
}

fn pair(number: usize, round_trips: Option<f64>) -> Pair {
    let other = exchange(round_trips.map(|ratio| (ratio * RTT as f64) as i64));
    Pair { client: [10, 64, 0, (number % 50) as u8].into(), udp: exchange(Some(RTT)), other }
}

fn refused(number: usize) -> Pair {
    pair(number, None)
}

fn line(count: usize, make: impl Fn(usize) -> Pair) -> Line {
    let pairs: Vec<Pair> = (0..count).map(make).collect();
    Line::new("192.0.2.1:53".to_owned(), Transport::Tcp, &pairs, Vec::new())
}

#[test]
fn the_page_and_the_picture_show_every_line_and_escape_what_they_are_given() {
    let folder = tempfile::tempdir().unwrap();
    let lines = vec![line(100, |number| pair(number, Some(2.0))), line(40, refused), line(0, refused)];
    let about = About { zone: "<b>.".to_owned(), ..About::default() };
    let study = Study::new(about, lines);
    write(&study, folder.path()).unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let page = read("ratio.html");
    assert!(page.contains("SOA &lt;b&gt;.") && !page.contains("<b>."), "escaped");
    assert_eq!((page.matches("<svg").count(), page.matches("</svg>").count()), (7, 7));
    assert!(page.contains("no_connections") && page.contains("100.0 %") && !page.contains("NaN"));
    let picture = read("ratio.svg");
    assert!(picture.starts_with("<svg xmlns") && picture.matches("÷ udp").count() == 3 && !picture.contains("NaN"));
    let json: serde_json::Value = serde_json::from_str(&read("ratio.json")).unwrap();
    assert_eq!((&json["format"], json["lines"].as_array().unwrap().len()), (&"ldplayer-ratio".into(), 3));
    let text = StudyText(&study).to_string();
    assert!(text.contains("connection_refused 40") && text.contains("normal: about 2"), "{text}");
}
