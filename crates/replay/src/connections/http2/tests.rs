//! Tests of HTTP/2 against hand-made frames, valid and invalid.

use proptest::prelude::*;

use super::frames::{append_header, append_words, flag, kind, split};
use super::*;
use crate::doh::{DohMethod, DohSettings};

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    append_header(&mut out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
    out
}

fn settings(pairs: &[(u16, u32)]) -> Vec<u8> {
    let mut out = Vec::new();
    append_settings(&mut out, pairs);
    out
}

fn goaway(last: u32) -> Vec<u8> {
    let mut out = Vec::new();
    append_words(&mut out, kind::GOAWAY, 0, &[last, 0]);
    out
}

fn window_update(stream: u32, more: u32) -> Vec<u8> {
    let mut out = Vec::new();
    append_words(&mut out, kind::WINDOW_UPDATE, stream, &[more]);
    out
}

fn post() -> Head {
    Head::new(&DohSettings::default(), None, "192.0.2.1:443".parse().unwrap())
}

/// A connection that was greeted with these settings, has asked `streams` queries and written all of it.
fn asked(pairs: &[(u16, u32)], streams: u32) -> Http2 {
    let mut http2 = Http2::new(STREAMS_AT_ONCE);
    feed(&mut http2, &settings(pairs)).unwrap();
    for _ in 0..streams {
        http2.open(&post(), &[1; 40], &mut Vec::new());
    }
    http2.take_output(&mut Vec::new());
    http2
}

/// An event that owns its body.
fn owned(event: Event<'_>) -> Event<'static> {
    match event {
        Event::Response { stream, body } => Event::Response { stream, body: Cow::Owned(body.into_owned()) },
        Event::Unusable { stream, reason } => Event::Unusable { stream, reason },
        Event::Nothing => Event::Nothing,
        Event::Settings => Event::Settings,
        Event::Reset { stream, is_refused } => Event::Reset { stream, is_refused },
        Event::Malformed { stream } => Event::Malformed { stream },
        Event::Leaving { last } => Event::Leaving { last },
    }
}

/// What octets mean, those without a meaning left out.
fn feed(http2: &mut Http2, mut octets: &[u8]) -> Result<Vec<Event<'static>>, ErrorCode> {
    let mut events = Vec::new();
    while let Some(frame) = split(&mut octets)? {
        events.push(owned(http2.receive(&frame)?));
    }
    events.retain(|event| *event != Event::Nothing);
    Ok(events)
}

fn response(stream: u32, body: &[u8]) -> Event<'static> {
    Event::Response { stream, body: Cow::Owned(body.to_vec()) }
}

/// The frames that a connection wants to write: kind, flags, stream and content.
fn written(http2: &mut Http2) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut out = Vec::new();
    http2.take_output(&mut out);
    let mut rest = out.as_slice();
    let mut frames = Vec::new();
    while let Some(frame) = split(&mut rest).unwrap() {
        frames.push((frame.kind, frame.flags, frame.stream, frame.payload.to_vec()));
    }
    frames
}

#[test]
fn a_client_begins_with_the_preface_and_its_settings() {
    let mut out = Vec::new();
    Http2::new(STREAMS_AT_ONCE).take_output(&mut out);
    let mut rest = out.strip_prefix(PREFACE).unwrap();
    let greeting = split(&mut rest).unwrap().unwrap();
    assert_eq!((greeting.kind, greeting.flags, greeting.stream), (kind::SETTINGS, 0, 0));
    let pairs: Vec<&[u8]> = greeting.payload.chunks(6).collect();
    assert_eq!(pairs[..2], [&[0, 1, 0, 0, 0, 0][..], &[0, 2, 0, 0, 0, 0]], "no table, no pushes");
    let window = split(&mut rest).unwrap().unwrap();
    assert_eq!((window.kind, window.stream, window.word(0)), (kind::WINDOW_UPDATE, 0, Some(WINDOW - 65_535)));
    assert!(rest.is_empty());
}

#[test]
fn a_request_is_headers_and_data_with_the_id_0() {
    let mut http2 = asked(&[], 0);
    let mut out = Vec::new();
    assert_eq!((http2.open(&post(), &[7; 40], &mut out), http2.open(&post(), &[7; 40], &mut out)), (1, 3));
    let mut rest = out.as_slice();
    let headers = split(&mut rest).unwrap().unwrap();
    assert_eq!((headers.kind, headers.flags, headers.stream), (kind::HEADERS, flag::END_HEADERS, 1));
    assert_eq!(headers.payload[..3], [0x20, 0x83, 0x87], "the first block gives up the table");
    let data = split(&mut rest).unwrap().unwrap();
    assert_eq!((data.kind, data.flags, data.stream), (kind::DATA, flag::END_STREAM, 1));
    assert_eq!(data.payload, [&[0; 2][..], &[7; 38]].concat());
    assert_eq!(split(&mut rest).unwrap().unwrap().payload[..2], [0x83, 0x87]);
}

#[test]
fn a_long_header_block_is_continued() {
    let settings = DohSettings::new(DohMethod::Get, "/dns-query").unwrap();
    let head = Head::new(&settings, None, "192.0.2.1:443".parse().unwrap());
    let (wire, mut out, mut block) = (vec![9; 40_000], Vec::new(), Vec::new());
    Http2::new(STREAMS_AT_ONCE).open(&head, &wire, &mut out);
    let (mut rest, mut kinds) = (out.as_slice(), Vec::new());
    while let Some(frame) = split(&mut rest).unwrap() {
        kinds.push((frame.kind, frame.flags));
        block.extend_from_slice(frame.payload);
    }
    let middle = (kind::CONTINUATION, 0);
    assert_eq!(kinds, [(kind::HEADERS, flag::END_STREAM), middle, middle, (kind::CONTINUATION, flag::END_HEADERS)]);
    let mut whole = vec![0x20];
    head.append(&mut whole, &wire);
    assert_eq!(block, whole);
}

#[test]
fn responses_are_read_in_whatever_frames_they_come() {
    let block = [0x88];
    let padded = [&[3, 0x88][..], &[0; 3]].concat();
    let with_priority = [0, 0, 0, 0, 16, 0x88];
    let variants: [Vec<Vec<u8>>; 7] = [
        vec![frame(kind::HEADERS, flag::END_HEADERS, 1, &block), frame(kind::DATA, flag::END_STREAM, 1, b"answer")],
        vec![
            frame(kind::HEADERS, flag::END_HEADERS | flag::PADDED, 1, &padded),
            frame(kind::DATA, flag::END_STREAM | flag::PADDED, 1, b"\x02answer\0\0"),
        ],
        vec![
            frame(kind::HEADERS, flag::END_HEADERS | flag::PRIORITY, 1, &with_priority),
            frame(kind::DATA, 0, 1, b"ans"),
            frame(kind::PRIORITY, 0, 1, &[0; 5]),
            frame(kind::DATA, 0, 1, b""),
            frame(kind::DATA, flag::END_STREAM, 1, b"wer"),
        ],
        vec![
            // 103 and a header beside it, then the response in three parts.
            frame(kind::HEADERS, flag::END_HEADERS, 1, b"\x08\x03103\x00\x01x\x01y"),
            frame(kind::HEADERS, 0, 1, &[0x20]),
            frame(kind::CONTINUATION, 0, 1, &[]),
            frame(kind::CONTINUATION, flag::END_HEADERS, 1, &block),
            frame(kind::DATA, flag::END_STREAM, 1, b"answer"),
        ],
        vec![
            // Trailers.
            frame(kind::HEADERS, flag::END_HEADERS, 1, &block),
            frame(kind::DATA, 0, 1, b"answer"),
            frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, b"\x00\x01x\x01y"),
        ],
        vec![
            // Frames of kinds that there are not, and other traffic between.
            frame(0xbe, 0xff, 7, b"grease"),
            frame(kind::HEADERS, flag::END_HEADERS, 1, &block),
            frame(kind::PING, 0, 0, &[1; 8]),
            settings(&[(0xbe, 7)]),
            frame(kind::DATA, 0, 1, b"answer"),
            window_update(1, 1),
            frame(kind::DATA, flag::END_STREAM, 1, b""),
        ],
        vec![
            frame(kind::HEADERS, flag::END_HEADERS, 1, b"\x48\x82\x10\x01"),
            frame(kind::DATA, flag::END_STREAM, 1, b"answer"),
        ],
    ];
    for (number, variant) in variants.into_iter().enumerate() {
        let mut http2 = asked(&[], 2);
        let mut events = feed(&mut http2, &variant.concat()).unwrap();
        events.retain(|event| *event != Event::Settings);
        assert_eq!(events, [response(1, b"answer")], "variant {number}");
        assert_eq!(http2.open_streams(), 1);
    }
}

/// A header block of these fields, none of which becomes an entry of the table.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            append_integer(&mut block, 0, 7, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// The final header block of a response.
fn head(fields: &[(&str, &str)], is_last: bool) -> Vec<u8> {
    let end = if is_last { flag::END_STREAM } else { 0 };
    frame(kind::HEADERS, flag::END_HEADERS | end, 1, &block(fields))
}

const OK: (&str, &str) = (":status", "200");

#[test]
fn a_response_may_have_no_body() {
    for fields in [&[OK][..], &[OK, ("content-length", "0")]] {
        assert_eq!(feed(&mut asked(&[], 1), &head(fields, true)), Ok(vec![response(1, b"")]));
    }
}

#[test]
fn another_status_ends_its_query_with_the_header_block_and_stops_the_body() {
    let other = Event::Unusable { stream: 1, reason: Reason::HttpStatus };
    let cancelled = (kind::RST_STREAM, 0, 1, (ErrorCode::Cancel as u32).to_be_bytes().to_vec());
    for status in ["204", "301", "404", "503", "999"] {
        let fields = [(":status", status), ("content-type", "text/html"), ("content-length", "200000")];
        let mut http2 = asked(&[], 2);
        assert_eq!(feed(&mut http2, &head(&fields, true)), Ok(vec![other.clone()]));
        assert_eq!(written(&mut http2), [], "nothing is left to be stopped");
        let mut http2 = asked(&[], 2);
        assert_eq!(feed(&mut http2, &head(&fields, false)), Ok(vec![other.clone()]));
        assert_eq!((written(&mut http2), http2.open_streams()), (vec![cancelled.clone()], 1));
        // What was on its way is passed over, however long; the window of the connection is kept open.
        let body: Vec<u8> = (0..200).flat_map(|_| frame(kind::DATA, 0, 1, &[b'x'; 10_000])).collect();
        assert_eq!(feed(&mut http2, &body), Ok(vec![]));
        assert!(written(&mut http2).iter().all(|frame| (frame.0, frame.2) == (kind::WINDOW_UPDATE, 0)));
        let answer =
            [frame(kind::HEADERS, flag::END_HEADERS, 3, &[0x88]), frame(kind::DATA, flag::END_STREAM, 3, b"b")];
        assert_eq!(feed(&mut http2, &answer.concat()), Ok(vec![response(3, b"b")]));
    }
}

#[test]
fn another_type_or_a_length_that_lies_is_no_answer() {
    let data = |end: u8, content: &[u8]| frame(kind::DATA, end, 1, content);
    let message = ("content-type", "Application/DNS-Message; x=y");
    let unusable = vec![Event::Unusable { stream: 1, reason: Reason::Garbage }];
    for fields in [
        &[OK, ("content-type", "text/html")][..],
        &[OK, message, ("content-type", "application/dns-json")],
        &[OK, ("content-length", "six")],
        &[OK, ("content-length", "6"), ("content-length", "7")],
        &[OK, ("content-length", "70000")],
    ] {
        assert_eq!(feed(&mut asked(&[], 1), &head(fields, false)), Ok(unusable.clone()), "{fields:?}");
    }
    let six = [OK, message, ("content-length", "6")];
    let whole = [head(&six, false), data(0, b"ans"), data(flag::END_STREAM, b"wer")].concat();
    assert_eq!(feed(&mut asked(&[], 1), &whole), Ok(vec![response(1, b"answer")]));
    let trailers = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &block(&[("x", "y")]));
    let with_trailers = [head(&six, false), data(0, b"answer"), trailers.clone()].concat();
    assert_eq!(feed(&mut asked(&[], 1), &with_trailers), Ok(vec![response(1, b"answer")]));
    for octets in [
        head(&six, true),
        [head(&six, false), data(flag::END_STREAM, b"short")].concat(),
        [head(&six, false), data(0, b"too long")].concat(),
        [head(&six, false), data(0, b"short"), trailers].concat(),
    ] {
        let mut http2 = asked(&[], 1);
        assert_eq!(feed(&mut http2, &octets), Ok(vec![Event::Malformed { stream: 1 }]), "{octets:?}");
        let told = (kind::RST_STREAM, 0, 1, (ErrorCode::Protocol as u32).to_be_bytes().to_vec());
        assert_eq!(written(&mut http2), [told]);
    }
}

#[test]
fn a_response_that_is_none_ends_its_stream_only() {
    let head = frame(kind::HEADERS, flag::END_HEADERS, 1, &[0x88]);
    let long: Vec<u8> = (0..5).flat_map(|_| frame(kind::DATA, 0, 1, &[0; 16_000])).collect();
    for (octets, code, why) in [
        (frame(kind::DATA, flag::END_STREAM, 1, b"x"), ErrorCode::Protocol, "a body without a head"),
        (frame(kind::HEADERS, flag::END_HEADERS, 1, b"\x00\x01x\x01y"), ErrorCode::Protocol, "no status"),
        (frame(kind::HEADERS, flag::END_HEADERS, 1, b"\x88\x88"), ErrorCode::Protocol, "two of them"),
        (frame(kind::HEADERS, flag::END_HEADERS, 1, b"\x00\x01x\x01y\x88"), ErrorCode::Protocol, "one behind a field"),
        (frame(kind::HEADERS, flag::END_HEADERS, 1, b"\x88\x84"), ErrorCode::Protocol, "a path"),
        (frame(kind::HEADERS, flag::END_HEADERS, 1, b"\x88\x00\x01X\x01y"), ErrorCode::Protocol, "capital letters"),
        (frame(kind::HEADERS, flag::END_HEADERS, 1, b"\x08\x02xx"), ErrorCode::Protocol, "a status of letters"),
        (frame(kind::HEADERS, flag::END_HEADERS, 1, b"\x08\x042000"), ErrorCode::Protocol, "a long status"),
        (frame(kind::HEADERS, flag::END_HEADERS, 1, b"\x08\x03099"), ErrorCode::Protocol, "a low status"),
        (
            frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, b"\x08\x03100"),
            ErrorCode::Protocol,
            "an interim response at the end",
        ),
        ([&head[..], &head].concat(), ErrorCode::Protocol, "two responses"),
        ([&head[..], &long].concat(), ErrorCode::Cancel, "more than a DNS message may have"),
        (window_update(1, 0), ErrorCode::Protocol, "an update by nothing"),
        (window_update(1, u32::MAX >> 1), ErrorCode::FlowControl, "a window above 2^31-1"),
    ] {
        let mut http2 = asked(&[], 2);
        assert_eq!(feed(&mut http2, &octets), Ok(vec![Event::Malformed { stream: 1 }]), "{why}");
        let told = (kind::RST_STREAM, 0, 1, (code as u32).to_be_bytes().to_vec());
        assert!(written(&mut http2).contains(&told), "{why}");
        // The other stream goes on.
        let octets =
            [frame(kind::HEADERS, flag::END_HEADERS, 3, &[0x88]), frame(kind::DATA, flag::END_STREAM, 3, b"answer")];
        assert_eq!(feed(&mut http2, &octets.concat()), Ok(vec![response(3, b"answer")]), "{why}");
    }
}

#[test]
fn what_breaks_the_protocol_ends_the_connection_with_its_code() {
    let head = |stream, block: &[u8]| frame(kind::HEADERS, flag::END_HEADERS, stream, block);
    let open = frame(kind::HEADERS, 0, 1, &[0x88]);
    let flood: Vec<u8> =
        open.iter().copied().chain((0..2_000).flat_map(|_| frame(kind::CONTINUATION, 0, 1, &[]))).collect();
    let padding: Vec<u8> =
        (0..9).flat_map(|_| frame(kind::DATA, flag::PADDED, 1, &[vec![255], vec![0; 255]].concat())).collect();
    let pings: Vec<u8> = (0..2_000).flat_map(|_| frame(kind::PING, 0, 0, &[0; 8])).collect();
    for (octets, code, why) in [
        (vec![0, 0x40, 1, 0, 0, 0, 0, 0, 1], ErrorCode::FrameSize, "a frame longer than allowed"),
        (frame(kind::DATA, 0, 0, b""), ErrorCode::Protocol, "DATA on the connection"),
        (frame(kind::DATA, 0, 5, b""), ErrorCode::Protocol, "DATA on a stream to come"),
        (frame(kind::DATA, 0, 2, b""), ErrorCode::Protocol, "DATA on a stream of the server's"),
        (frame(kind::DATA, flag::PADDED, 1, b""), ErrorCode::FrameSize, "no length of padding"),
        (frame(kind::DATA, flag::PADDED, 1, b"\x02x"), ErrorCode::Protocol, "more padding than frame"),
        (head(0, &[0x88]), ErrorCode::Protocol, "HEADERS on the connection"),
        (head(7, &[0x88]), ErrorCode::Protocol, "HEADERS on a stream to come"),
        (frame(kind::HEADERS, flag::PRIORITY, 1, &[0; 4]), ErrorCode::FrameSize, "half a priority"),
        (head(1, &[0xbe]), ErrorCode::Compression, "an entry of the dynamic table"),
        (head(1, &[0x3f, 0xe2, 0x1f]), ErrorCode::Compression, "a large dynamic table"),
        (head(1, &[0x08, 0x82, 0xff, 0xff]), ErrorCode::Compression, "no Huffman code"),
        ([&open[..], &frame(kind::PING, 0, 0, &[0; 8])].concat(), ErrorCode::Protocol, "a frame inside of a block"),
        ([&open[..], &frame(0xbe, 0, 0, b"")].concat(), ErrorCode::Protocol, "an unknown frame inside of a block"),
        ([&open[..], &frame(kind::CONTINUATION, 0, 3, b"")].concat(), ErrorCode::Protocol, "another stream's block"),
        (frame(kind::CONTINUATION, 0, 1, b""), ErrorCode::Protocol, "CONTINUATION of nothing"),
        (flood, ErrorCode::EnhanceYourCalm, "an endless block"),
        (frame(kind::PRIORITY, 0, 0, &[0; 5]), ErrorCode::Protocol, "PRIORITY on the connection"),
        (frame(kind::PRIORITY, 0, 1, &[0; 4]), ErrorCode::FrameSize, "a short PRIORITY"),
        (frame(kind::RST_STREAM, 0, 0, &[0; 4]), ErrorCode::Protocol, "RST_STREAM on the connection"),
        (frame(kind::RST_STREAM, 0, 9, &[0; 4]), ErrorCode::Protocol, "RST_STREAM on a stream to come"),
        (frame(kind::RST_STREAM, 0, 1, &[0; 5]), ErrorCode::FrameSize, "a long RST_STREAM"),
        (frame(kind::SETTINGS, 0, 1, &[]), ErrorCode::Protocol, "SETTINGS on a stream"),
        (frame(kind::SETTINGS, 0, 0, &[0; 7]), ErrorCode::FrameSize, "half a setting"),
        (frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]), ErrorCode::FrameSize, "an ACK with settings"),
        (settings(&[(2, 1)]), ErrorCode::Protocol, "a server that allows pushes"),
        (settings(&[(4, 1 << 31)]), ErrorCode::FlowControl, "a window of 2^31"),
        (settings(&[(5, 100)]), ErrorCode::Protocol, "frames of 100 octets"),
        (settings(&[(5, 1 << 24)]), ErrorCode::Protocol, "frames of 2^24 octets"),
        (
            [window_update(1, (1 << 31) - 70_000), settings(&[(4, 80_000)])].concat(),
            ErrorCode::FlowControl,
            "a stream's window that grows above 2^31-1",
        ),
        (frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0, 0, 0, 2, 0x82]), ErrorCode::Protocol, "PUSH_PROMISE"),
        (frame(kind::PING, 0, 1, &[0; 8]), ErrorCode::Protocol, "PING on a stream"),
        (frame(kind::PING, 0, 0, &[0; 7]), ErrorCode::FrameSize, "a short PING"),
        (pings, ErrorCode::EnhanceYourCalm, "PINGs without an end"),
        (frame(kind::GOAWAY, 0, 1, &[0; 8]), ErrorCode::Protocol, "GOAWAY on a stream"),
        (frame(kind::GOAWAY, 0, 0, &[0; 7]), ErrorCode::FrameSize, "a short GOAWAY"),
        (goaway(2), ErrorCode::Protocol, "GOAWAY for a stream of the server's"),
        ([goaway(1), goaway(3)].concat(), ErrorCode::Protocol, "GOAWAY that takes back an earlier one"),
        (frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3]), ErrorCode::FrameSize, "a short WINDOW_UPDATE"),
        (window_update(0, 0), ErrorCode::Protocol, "an update by nothing"),
        (window_update(0, u32::MAX >> 1), ErrorCode::FlowControl, "a window above 2^31-1"),
        (window_update(9, 1), ErrorCode::Protocol, "WINDOW_UPDATE on a stream to come"),
        ([head(1, &[0x88]), padding.repeat(60)].concat(), ErrorCode::FlowControl, "more padding than the window"),
    ] {
        assert_eq!(feed(&mut asked(&[], 2), &octets), Err(code), "{why}");
    }
    for first in [frame(kind::PING, 0, 0, &[0; 8]), frame(kind::SETTINGS, flag::ACK, 0, &[]), frame(0xbe, 0, 0, &[])] {
        assert_eq!(feed(&mut Http2::new(STREAMS_AT_ONCE), &first), Err(ErrorCode::Protocol), "SETTINGS come first");
    }
    assert_eq!(feed(&mut Http2::new(STREAMS_AT_ONCE), b"HTTP/1.1 400 Bad Request\r\n\r\n"), Err(ErrorCode::FrameSize));
}

#[test]
fn settings_and_pings_are_answered() {
    let mut http2 = asked(&[], 0);
    feed(&mut http2, &[settings(&[(3, 7)]), frame(kind::PING, 0, 0, b"01234567")].concat()).unwrap();
    feed(&mut http2, &[frame(kind::PING, flag::ACK, 0, &[0; 8]), frame(kind::SETTINGS, flag::ACK, 0, &[])].concat())
        .unwrap();
    let answers = [(kind::SETTINGS, flag::ACK, 0, vec![]), (kind::PING, flag::ACK, 0, b"01234567".to_vec())];
    assert_eq!(written(&mut http2), answers);
    assert_eq!((http2.most(), http2.room(), http2.has_output()), (7, 7, false));
}

#[test]
fn streams_are_as_many_as_the_server_allows() {
    let mut fresh = Http2::new(STREAMS_AT_ONCE);
    assert_eq!(fresh.room(), 100, "before it has said so");
    feed(&mut fresh, &settings(&[])).unwrap();
    assert_eq!(fresh.room(), u32::MAX as usize, "it sets no limit");
    let mut http2 = asked(&[(3, 2)], 2);
    assert_eq!(http2.room(), 0);
    feed(&mut http2, &frame(kind::RST_STREAM, 0, 3, &[0; 4])).unwrap();
    assert_eq!(http2.room(), 1);
    feed(&mut http2, &settings(&[(3, 0)])).unwrap();
    assert_eq!(http2.room(), 0);
    let mut old = asked(&[], 0);
    old.next = 2 * STREAMS - 1;
    assert_eq!((old.room() > 0, old.open(&post(), &[0; 12], &mut Vec::new())), (true, (1 << 31) - 1));
    assert_eq!(old.room(), 0, "no number is left");
}

#[test]
fn a_request_waits_for_windows_and_is_sent_in_parts() {
    const INITIAL_WINDOW: u16 = 4;
    let mut http2 = asked(&[(INITIAL_WINDOW, 7)], 0);
    let (mut out, wire) = (Vec::new(), [5; 40]);
    http2.open(&post(), &wire, &mut out);
    let mut rest = out.as_slice();
    split(&mut rest).unwrap();
    let part = split(&mut rest).unwrap().unwrap();
    assert_eq!((part.flags, part.payload), (0, &[0, 0, 5, 5, 5, 5, 5][..]));
    // A window that shrinks below 0 must be filled before more is sent.
    feed(&mut http2, &settings(&[(INITIAL_WINDOW, 2)])).unwrap();
    feed(&mut http2, &window_update(1, 5)).unwrap();
    assert_eq!(written(&mut http2).len(), 1, "the ACK only");
    feed(&mut http2, &window_update(1, 20)).unwrap();
    assert_eq!(written(&mut http2), [(kind::DATA, 0, 1, vec![5; 20])]);
    feed(&mut http2, &settings(&[(INITIAL_WINDOW, 100)])).unwrap();
    assert_eq!(written(&mut http2)[1..], [(kind::DATA, flag::END_STREAM, 1, vec![5; 13])]);

    // The connection's window is for all streams together.
    let mut http2 = asked(&[(INITIAL_WINDOW, 1 << 20)], 0);
    let wire = vec![5; 65_000];
    http2.open(&post(), &wire, &mut Vec::new());
    out.clear();
    http2.open(&post(), &wire, &mut out);
    let sent = |frames: &[(u8, u8, u32, Vec<u8>)]| frames.iter().map(|frame| frame.3.len()).sum::<usize>();
    feed(&mut http2, &window_update(0, 64_000)).unwrap();
    let frames = written(&mut http2);
    assert!(frames.iter().all(|frame| frame.3.len() <= 16_384 && frame.1 == 0), "frames of the size that is allowed");
    assert_eq!(sent(&frames), 64_000);
    feed(&mut http2, &window_update(0, 1_000)).unwrap();
    let frames = written(&mut http2);
    assert_eq!((sent(&frames), frames.last().unwrap().1), (65_000 - 535 - 64_000, flag::END_STREAM));
}

#[test]
fn an_early_response_ends_a_request_that_is_not_sent_whole() {
    for (block, expected) in
        [(0x88, response(1, b"")), (0x8d, Event::Unusable { stream: 1, reason: Reason::HttpStatus })]
    {
        let mut http2 = asked(&[(4, 7)], 1);
        let octets = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &[block]);
        assert_eq!(feed(&mut http2, &octets), Ok(vec![expected]));
        assert_eq!(written(&mut http2), [(kind::RST_STREAM, 0, 1, vec![0, 0, 0, 8])]);
    }
}

#[test]
fn a_server_is_given_its_window_anew() {
    let mut http2 = asked(&[], 20);
    let mut octets = Vec::new();
    for stream in (1..40).step_by(2) {
        octets.extend(frame(kind::HEADERS, flag::END_HEADERS, stream, &[0x88]));
        (0..3).for_each(|_| octets.extend(frame(kind::DATA, 0, stream, &[1; 15_000])));
        octets.extend(frame(kind::DATA, flag::END_STREAM, stream, &[1; 15_000]));
    }
    assert_eq!(feed(&mut http2, &octets).unwrap().len(), 20);
    let given: u32 = written(&mut http2).iter().map(|frame| u32::from_be_bytes(frame.3[..].try_into().unwrap())).sum();
    assert!(given + WINDOW > 20 * 60_000 && given + http2.taken == 20 * 60_000);
}

#[test]
fn goaway_ends_what_was_not_looked_at_and_lets_the_rest_be_answered() {
    let mut http2 = asked(&[], 3);
    let mut goaway = Vec::new();
    append_words(&mut goaway, kind::GOAWAY, 0, &[3, 0]);
    goaway[2] += 5;
    goaway.extend_from_slice(b"later");
    assert_eq!(feed(&mut http2, &goaway), Ok(vec![Event::Leaving { last: 3 }]));
    assert_eq!((http2.open_streams(), http2.room(), http2.is_leaving()), (2, 0, true));
    let octets = [frame(kind::HEADERS, flag::END_HEADERS, 3, &[0x88]), frame(kind::DATA, flag::END_STREAM, 3, b"x")];
    assert_eq!(feed(&mut http2, &octets.concat()), Ok(vec![response(3, b"x")]));
}

#[test]
fn a_server_may_leave_in_steps() {
    let mut http2 = asked(&[], 3);
    let leaving = |last| Ok(vec![Event::Leaving { last }]);
    for (last, open) in [((1 << 31) - 1, 3), ((1 << 31) - 1, 3), (3, 2), (0, 0)] {
        assert_eq!(feed(&mut http2, &goaway(last)), leaving(last));
        assert_eq!((http2.open_streams(), http2.room()), (open, 0));
    }
}

#[test]
fn a_stream_that_was_given_up_is_passed_over() {
    let mut http2 = asked(&[], 1);
    assert!(http2.cancel(1) && !http2.cancel(1));
    assert_eq!(written(&mut http2), [(kind::RST_STREAM, 0, 1, vec![0, 0, 0, 8])]);
    let octets = [
        frame(kind::HEADERS, flag::END_HEADERS, 1, &[0x88]),
        frame(kind::DATA, flag::END_STREAM, 1, b"x"),
        frame(kind::RST_STREAM, 0, 1, &[0; 4]),
        window_update(1, 9),
    ];
    assert_eq!(feed(&mut http2, &octets.concat()), Ok(vec![]));
    assert_eq!(http2.taken, 1, "it counts against the window of the connection");
}

#[test]
fn an_idle_connection_takes_less_than_a_kilobyte() {
    let mut http2 = asked(&[], 50);
    for stream in (1..100).step_by(2) {
        let octets = [
            frame(kind::HEADERS, flag::END_HEADERS, stream, &[0x88]),
            frame(kind::DATA, 0, stream, b"a"),
            frame(kind::DATA, flag::END_STREAM, stream, b"b"),
        ];
        feed(&mut http2, &octets.concat()).unwrap();
    }
    http2.take_output(&mut Vec::new());
    let held = http2.streams.capacity() * size_of::<Stream>() + http2.output.capacity() + http2.table.held();
    assert!(http2.block.is_none());
    assert!(size_of::<Http2>() + held < 400, "{} + {held}", size_of::<Http2>());
}

/// A valid exchange on three streams.
fn exchange() -> Vec<u8> {
    [
        frame(kind::HEADERS, 0, 3, b"\x88\x0f\x10\x17application"),
        frame(kind::CONTINUATION, flag::END_HEADERS, 3, b"/dns-message"),
        frame(kind::DATA, flag::PADDED, 3, b"\x03first\0\0\0"),
        frame(kind::PING, 0, 0, &[0; 8]),
        frame(kind::HEADERS, flag::END_HEADERS, 1, &[0x88]),
        frame(kind::DATA, flag::END_STREAM, 1, b"second"),
        frame(kind::RST_STREAM, 0, 5, &[0, 0, 0, 7]),
        frame(kind::DATA, flag::END_STREAM, 3, b"third"),
        window_update(0, 10),
    ]
    .concat()
}

proptest! {
    #[test]
    fn any_octets_end_in_events_or_an_error(
        greeting in prop::collection::vec((0u16..8, any::<u32>()), 0..4),
        octets in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut http2 = Http2::new(STREAMS_AT_ONCE);
        if feed(&mut http2, &settings(&greeting)).is_ok() && http2.room() > 0 {
            http2.open(&post(), &[1; 40], &mut Vec::new());
            let _ = feed(&mut http2, &octets);
        }
    }

    #[test]
    fn any_frames_end_in_events_or_an_error(
        frames in prop::collection::vec(
            (0u8..11, any::<u8>(), 0u32..8, prop::collection::vec(any::<u8>(), 0..40)), 0..40),
    ) {
        let mut http2 = asked(&[], 3);
        for (kind, flags, stream, payload) in frames {
            if feed(&mut http2, &frame(kind, flags, stream, &payload)).is_err() {
                break;
            }
            let room = http2.room();
            prop_assert!(http2.open_streams() <= 3 && (!http2.is_leaving() || room == 0));
        }
    }

    #[test]
    fn damage_ends_in_events_or_an_error(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5)) {
        let mut octets = exchange();
        for (at, octet) in damage {
            let at = at.index(octets.len());
            octets[at] = octet;
        }
        let _ = feed(&mut asked(&[], 3), &octets);
    }
}

#[test]
fn the_exchange_means_what_it_says() {
    let events = feed(&mut asked(&[], 3), &exchange()).unwrap();
    assert_eq!(
        events,
        [response(1, b"second"), Event::Reset { stream: 5, is_refused: true }, response(3, b"firstthird")]
    );
}
