//! DNS over HTTPS (RFC 8484): the query in a request, and the response to it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use ldplayer_core::Message;
use ldplayer_zone::rtype;

use super::{Desk, Path, Reply};

/// Where queries are sent to.
const PATH: &str = "/dns-query";
/// The media type of a message (RFC 8484 §6).
const MEDIA: &str = "application/dns-message";
/// The variable of a GET request (RFC 8484 §4.1).
const VARIABLE: &str = "dns=";
/// The longest message in octets.
const LONGEST: usize = 65_535;
/// Octets of TTL and length before the data of a record.
const BEFORE_DATA: usize = 6;

/// The body of a request.
pub trait Body {
    /// Its next part; `None` at its end.
    async fn part(&mut self) -> Option<Bytes>;
}

/// What is said to a request.
pub enum Said {
    Response(Response<()>, Bytes),
    /// Nothing: a fault.
    Nothing,
    /// The connection is closed with an error: a fault.
    Reset,
}

/// Answers a request.
pub async fn answer(desk: &Desk, path: Path, request: &Parts, body: &mut impl Body) -> Said {
    let query = match query(request, body).await {
        Ok(query) => query,
        Err(status) => return Said::Response(refusal(status), Bytes::new()),
    };
    match desk.reply(path, &query).await {
        Reply::Message(message) => Said::Response(response(&message), message.into()),
        Reply::Malformed => Said::Response(refusal(StatusCode::BAD_REQUEST), Bytes::new()),
        Reply::Nothing => Said::Nothing,
        Reply::Reset => Said::Reset,
    }
}

/// The query of a request, or why there is none.
async fn query(request: &Parts, body: &mut impl Body) -> Result<Vec<u8>, StatusCode> {
    if request.uri.path() != PATH {
        return Err(StatusCode::NOT_FOUND);
    }
    match request.method {
        Method::GET => {
            let mut variables = request.uri.query().unwrap_or_default().split('&');
            let value = variables.find_map(|pair| pair.strip_prefix(VARIABLE)).ok_or(StatusCode::BAD_REQUEST)?;
            URL_SAFE_NO_PAD.decode(value).map_err(|_| StatusCode::BAD_REQUEST)
        }
        Method::POST if !is_message(request) => Err(StatusCode::UNSUPPORTED_MEDIA_TYPE),
        Method::POST => {
            let mut query = Vec::new();
            while let Some(part) = body.part().await {
                if query.len() + part.len() > LONGEST {
                    return Err(StatusCode::PAYLOAD_TOO_LARGE);
                }
                query.extend_from_slice(&part);
            }
            Ok(query)
        }
        _ => Err(StatusCode::METHOD_NOT_ALLOWED),
    }
}

fn is_message(request: &Parts) -> bool {
    let given = request.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    given.is_some_and(|given| given.eq_ignore_ascii_case(MEDIA))
}

fn refusal(status: StatusCode) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST"));
    }
    response.headers_mut().insert(CONTENT_LENGTH, 0.into());
    response
}

fn response(message: &[u8]) -> Response<()> {
    let mut response = Response::new(());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA));
    headers.insert(CONTENT_LENGTH, message.len().into());
    let fresh = format!("max-age={}", freshness(message).unwrap_or(0));
    headers.extend(HeaderValue::try_from(fresh).ok().map(|value| (CACHE_CONTROL, value)));
    response
}

/// For how many seconds an answer may be kept: the smallest TTL in its answer section, or else what the SOA record says of denials
/// (RFC 8484 §5.1, RFC 2308 §5).
fn freshness(octets: &[u8]) -> Option<u32> {
    let message = Message::new(octets)?;
    let [_, answers, authorities, _] = message.counts();
    let number = |at: usize| octets.get(at..)?.first_chunk().copied().map(u32::from_be_bytes);
    let (mut at, mut least) = (message.behind_questions()?, None);
    for record in 0..u32::from(answers) + u32::from(authorities) {
        let (data, (next, rtype)) = (message.rdata_at(at)?, message.record_at(at)?);
        let ttl = number(data.checked_sub(BEFORE_DATA)?)?;
        if record < u32::from(answers) {
            least = Some(least.unwrap_or(ttl).min(ttl));
        } else if least.is_none() && rtype == rtype::SOA {
            return Some(ttl.min(number(next.checked_sub(4)?)?));
        }
        at = next;
    }
    least
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    struct Pieces(Vec<&'static [u8]>);

    impl Body for Pieces {
        async fn part(&mut self) -> Option<Bytes> {
            if self.0.is_empty() { None } else { Some(Bytes::from_static(self.0.remove(0))) }
        }
    }

    fn asked(method: &str, uri: &str, media: &str, parts: Vec<&'static [u8]>) -> Result<Vec<u8>, u16> {
        let request = http::Request::builder()
            .method(method)
            .uri(uri)
            .header(CONTENT_TYPE, media)
            .body(())
            .unwrap()
            .into_parts()
            .0;
        let mut body = Pieces(parts);
        match pin!(query(&request, &mut body)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(query) => query.map_err(|status| status.as_u16()),
            Poll::Pending => unreachable!("nothing to wait for"),
        }
    }

    #[test]
    fn a_query_is_in_the_path_or_in_the_body() {
        assert_eq!(asked("GET", "https://a.test/dns-query?dns=AAABAAABAA", "", vec![]), Ok(vec![0, 0, 1, 0, 0, 1, 0]));
        assert_eq!(asked("GET", "https://a.test/dns-query?x=1&dns=_-8", "", vec![]), Ok(vec![255, 239]));
        assert_eq!(asked("POST", "https://a.test/dns-query", MEDIA, vec![b"ab", b"c"]), Ok(b"abc".to_vec()));
    }

    #[test]
    fn what_is_no_query_has_the_status_that_says_so() {
        for (method, uri, media, status) in [
            ("GET", "https://a.test/", "", 404),
            ("GET", "https://a.test/dns-query", "", 400),
            ("GET", "https://a.test/dns-query?dns=%00", "", 400),
            ("GET", "https://a.test/dns-query?dns=AAAA=", "", 400),
            ("POST", "https://a.test/dns-query", "text/plain", 415),
            ("PUT", "https://a.test/dns-query", MEDIA, 405),
        ] {
            assert_eq!(asked(method, uri, media, vec![b"x"]), Err(status), "{method} {uri}");
        }
        let long: &[u8] = vec![0; 40_000].leak();
        assert_eq!(asked("POST", "https://a.test/dns-query", MEDIA, vec![long, long]), Err(413));
    }

    /// A message with these records (section, type, TTL, data), all of the root.
    fn message(records: &[(usize, u16, u32, &[u8])]) -> Vec<u8> {
        let mut message = vec![0; 12];
        for (section, rtype, ttl, data) in records {
            message[4 + 2 * section + 1] += 1;
            message.push(0);
            message.extend([rtype.to_be_bytes(), [0, 1]].as_flattened());
            message.extend(ttl.to_be_bytes());
            message.extend((data.len() as u16).to_be_bytes());
            message.extend(*data);
        }
        message
    }

    #[test]
    fn an_answer_is_fresh_for_its_smallest_ttl_and_a_denial_for_what_its_soa_says() {
        let soa = [&[0; 18][..], &7_u32.to_be_bytes()].concat();
        let a = [192, 0, 2, 1];
        assert_eq!(freshness(&message(&[(1, 1, 60, &a), (1, 1, 30, &a), (2, 2, 5, &[0])])), Some(30));
        assert_eq!(freshness(&message(&[(2, 6, 60, &soa)])), Some(7));
        assert_eq!(freshness(&message(&[(2, 6, 6, &soa)])), Some(6));
        assert_eq!(freshness(&message(&[(2, 2, 60, &[0])])), None, "a referral");
        assert_eq!(freshness(&message(&[])), None);
        assert_eq!(freshness(b"short"), None);
    }
}
