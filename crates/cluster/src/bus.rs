//! The connection to NATS, and requests with answers on core subjects.
//!
//! Only this connection is asynchronous, on a thread of its own; callers block.

use std::future::Future;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, RequestErrorKind, ServerAddr};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout_at};

use crate::error::ClusterError;
use crate::host;

/// Timeout of establishing the connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Interval of retries: a freshly started server may not listen yet.
const CONNECT_TRIES: usize = 3;
/// Timeout of a cluster's leader election.
const LEADER_WITHIN: Duration = Duration::from_secs(30);
/// The error of JetStream until then.
const UNAVAILABLE: usize = 503;
/// Maximum number of queued messages per subject: those of core subjects are small and few.
const WAITING: usize = 4_096;

/// The address of the NATS server, and our credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its URL, as nats://user:password@host:4222; several for a cluster, separated by commas.
    pub url: String,
    /// A credentials file, as made by `nsc`.
    pub credentials: Option<PathBuf>,
    /// The CA of its certificate.
    pub ca: Option<PathBuf>,
    /// Our certificate and key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// User and password, where the URL has none.
    pub login: Option<(String, String)>,
}

impl Link {
    /// The URL without credentials, for logs.
    pub fn shown(&self) -> String {
        let one = |url: &str| match (url.split_once("://"), url.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
            (None, Some((_, host))) => host.to_owned(),
            (_, None) => url.to_owned(),
        };
        self.url.split(',').map(one).collect::<Vec<_>>().join(",")
    }
}

/// A connection to NATS, with its thread.
#[derive(Debug)]
pub struct Bus {
    runtime: Runtime,
    client: Client,
    context: Context,
    shown: String,
    id: String,
}

impl Bus {
    /// Connects, and checks that the server has JetStream and requires credentials if its address is public.
    ///
    /// # Errors
    /// Connecting or one of the checks failed.
    pub fn connect(link: &Link, name: &str) -> Result<Self, ClusterError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("nats").enable_all().build();
        let runtime = runtime.map_err(ClusterError::Runtime)?;
        let client = runtime.block_on(connect(link, name))?;
        refuse_open(link, &client)?;
        let context = runtime.block_on(async { jetstream::new(client.clone()) });
        runtime.block_on(ensure_jetstream(link, &context))?;
        Ok(Self { runtime, client, context, shown: link.shown(), id: host::new_id() })
    }

    /// The URL of the server, without credentials.
    pub fn url(&self) -> &str {
        &self.shown
    }

    /// A unique id of this connection.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The client, for background tasks.
    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    /// JetStream: streams and object stores.
    pub(crate) const fn context(&self) -> &Context {
        &self.context
    }

    /// Runs a future to completion.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Runs a future in the background.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.runtime.spawn(work)
    }

    /// Sends a request to one agent and waits for the answer.
    ///
    /// # Errors
    /// There is no answer in time, or it is invalid.
    pub fn ask<Q: Serialize, A: DeserializeOwned>(
        &self,
        subject: &str,
        question: &Q,
        (who, what): (&str, &'static str),
        within: Duration,
    ) -> Result<A, ClusterError> {
        self.wait(ask(&self.client, subject, question, (who, what), within))
    }

    /// Sends requests to several agents at once. Returns their answers in order.
    pub fn ask_each<Q: Serialize, A: DeserializeOwned>(
        &self,
        asked: &[(String, Q, String)],
        what: &'static str,
        within: Duration,
    ) -> Vec<Result<A, ClusterError>> {
        let each =
            asked.iter().map(|(subject, question, who)| ask(&self.client, subject, question, (who, what), within));
        self.wait(join_all(each))
    }

    /// Whether the connection is up; a lost one is re-established automatically.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Sends a request to all agents, and collects answers until there are enough or time is up.
    ///
    /// # Errors
    /// The request cannot be sent.
    pub fn ask_all<Q: Serialize, A: DeserializeOwned>(
        &self,
        subject: &str,
        question: &Q,
        within: Duration,
        enough: impl Fn(&[A]) -> bool,
    ) -> Result<Vec<A>, ClusterError> {
        let failed = |reason: &dyn ToString| ClusterError::store("asking the agents", reason.to_string());
        self.wait(async {
            let inbox = self.client.new_inbox();
            let mut answers = self.client.subscribe(inbox.clone()).await.map_err(|error| failed(&error))?;
            let sent = self.client.publish_with_reply(subject.to_owned(), inbox, encode(question)).await;
            sent.map_err(|error| failed(&error))?;
            let (mut found, end) = (Vec::new(), Instant::now() + within);
            while !enough(&found) {
                let Ok(Some(message)) = timeout_at(end, answers.next()).await else { break };
                // The server answers with an empty payload if nobody listens; invalid answers are not from our agents.
                found.extend(serde_json::from_slice(&message.payload).ok());
            }
            Ok(found)
        })
    }
}

/// Sends a request to one agent and waits for the answer.
pub(crate) async fn ask<Q: Serialize, A: DeserializeOwned>(
    client: &Client,
    subject: &str,
    question: &Q,
    (who, what): (&str, &'static str),
    within: Duration,
) -> Result<A, ClusterError> {
    let silent = || ClusterError::Silent { who: who.to_owned(), what, seconds: within.as_secs() };
    let request = async_nats::Request::new().payload(encode(question)).timeout(Some(within));
    let answer = client.send_request(subject.to_owned(), request).await.map_err(|error| match error.kind() {
        RequestErrorKind::TimedOut | RequestErrorKind::NoResponders => silent(),
        _ => ClusterError::store(what, error),
    })?;
    serde_json::from_slice(&answer.payload)
        .map_err(|error| ClusterError::store(format!("{what}, answer of {who}"), error))
}

/// Encodes a message.
pub(crate) fn encode(message: &impl Serialize) -> Bytes {
    // Messages are structs of numbers and strings, which are always valid JSON.
    serde_json::to_vec(message).unwrap_or_default().into()
}

async fn connect(link: &Link, name: &str) -> Result<Client, ClusterError> {
    let url = link.shown();
    let servers: Result<Vec<ServerAddr>, _> = link.url.split(',').map(|url| url.trim().parse()).collect();
    let servers = servers
        .map_err(|error: std::io::Error| ClusterError::Connect { url: url.clone(), reason: error.to_string() })?;
    let mut tries = 0;
    loop {
        tries += 1;
        let connected = options(link, name, &servers).await?.connect(servers.clone()).await;
        let Err(error) = connected else { return connected.map_err(|error| ClusterError::store("connecting", error)) };
        let reason = error.to_string();
        match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                return Err(ClusterError::Refused { url, reason });
            }
            _ if tries == CONNECT_TRIES => return Err(ClusterError::Connect { url, reason }),
            _ => tokio::time::sleep(Duration::from_millis(300)).await,
        }
    }
}

async fn options(link: &Link, name: &str, servers: &[ServerAddr]) -> Result<ConnectOptions, ClusterError> {
    let mut options =
        ConnectOptions::new().name(name).connection_timeout(CONNECT_WITHIN).subscription_capacity(WAITING);
    if let Some((user, password)) = servers.iter().find_map(user_of) {
        options = match password {
            Some(password) => options.user_and_password(user, password),
            None => options.token(user),
        };
    } else if let Some((user, password)) = link.login.clone() {
        options = options.user_and_password(user, password);
    }
    if let Some(file) = &link.credentials {
        let read = options.credentials_file(file).await;
        options = read.map_err(|error| ClusterError::File { file: file.clone(), reason: error.to_string() })?;
    }
    if let Some(ca) = &link.ca {
        options = options.add_root_certificates(ca.clone());
    }
    if let Some((certificate, key)) = &link.certificate {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(options)
}

/// Looks up a nonexistent stream: the error shows whether JetStream is enabled. (The account information of servers before 2.10 is not
/// understood by the client.)
async fn ensure_jetstream(link: &Link, context: &Context) -> Result<(), ClusterError> {
    let end = Instant::now() + LEADER_WITHIN;
    loop {
        let found = context.get_stream("ldplayer-none").await.map(drop);
        let Err(error) = found else { return Ok(()) };
        let reason = error.to_string();
        match error.kind() {
            GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => return Ok(()),
            // A freshly started cluster has no leader yet.
            GetStreamErrorKind::JetStream(error) if error.code() == UNAVAILABLE && Instant::now() < end => {}
            GetStreamErrorKind::Request if reason.contains("timed out") && Instant::now() < end => {}
            _ => return Err(ClusterError::NoJetStream { url: link.shown(), reason }),
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// User and password of a URL, or the token in place of a user.
fn user_of(server: &ServerAddr) -> Option<(String, Option<String>)> {
    Some((unescaped(server.username()?), server.password().map(unescaped)))
}

/// Percent-decodes a part of a URL (RFC 3986, section 2.1).
fn unescaped(part: &str) -> String {
    let (mut octets, mut rest) = (Vec::with_capacity(part.len()), part.as_bytes());
    while let [first, behind @ ..] = rest {
        let escaped = (*first == b'%').then(|| behind.get(..2)).flatten();
        let value = escaped.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        (octets, rest) = match value {
            Some(value) => ([&octets[..], &[value]].concat(), &behind[2..]),
            None => ([&octets[..], &[*first]].concat(), behind),
        };
    }
    String::from_utf8_lossy(&octets).into_owned()
}

/// Refuses open servers with a public address: anyone who reaches one can send load from the agents.
fn refuse_open(link: &Link, client: &Client) -> Result<(), ClusterError> {
    if client.server_info().auth_required || link.certificate.is_some() {
        return Ok(());
    }
    let mut hosts = link.url.split(',').flat_map(addresses);
    match hosts.find(|&address| is_public(address)) {
        Some(address) => Err(ClusterError::Open { url: link.shown(), address }),
        None => Ok(()),
    }
}

/// The addresses of a URL's host; none if the name cannot be resolved.
fn addresses(url: &str) -> Vec<IpAddr> {
    let host =
        url.rsplit_once('@').map_or_else(|| url.split_once("://").map_or(url, |(_, host)| host), |(_, host)| host);
    let host = host.trim().trim_end_matches('/');
    let found = host.to_socket_addrs().or_else(|_| (host, 4_222).to_socket_addrs());
    found.map(|found| found.map(|address: SocketAddr| address.ip()).collect()).unwrap_or_default()
}

/// Whether an address is public.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            let is_shared = first == 100 && second & 0xc0 == 64; // RFC 6598
            !(v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified() || is_shared)
        }
        IpAddr::V6(v6) => {
            !(v6.is_loopback() || v6.is_unspecified() || v6.is_unique_local() || v6.is_unicast_link_local())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let shown = |url: &str| Link { url: url.to_owned(), ..Link::default() }.shown();
        assert_eq!(shown("nats://me:secret@a:4222,nats://b"), "nats://a:4222,nats://b");
        assert_eq!(shown("tls://me:p@ss@a"), "tls://a");
        assert_eq!(shown("token@a:1"), "a:1");
    }

    #[test]
    fn users_stand_in_urls_as_they_are_or_escaped() {
        let user = |url: &str| user_of(&url.parse().unwrap());
        assert_eq!(user("nats://me:a%40b%2@h:1"), Some(("me".into(), Some("a@b%2".into()))));
        assert_eq!(user("nats://token@h"), Some(("token".into(), None)));
        assert_eq!(user("nats://h:4222"), None);
    }

    #[test]
    fn addresses_that_anybody_reaches_are_public() {
        let public = |text: &str| is_public(text.parse().unwrap());
        assert!(["8.8.8.8", "2001:4860::1", "100.128.0.1", "::ffff:8.8.8.8"].into_iter().all(public));
        assert!(
            !["127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.9.9", "100.64.1.1", "::1", "fd00::1", "fe80::1"]
                .into_iter()
                .any(public)
        );
    }

    #[test]
    fn hosts_are_found_in_urls() {
        let one = |url: &str| addresses(url).first().map(ToString::to_string);
        assert_eq!(one("nats://u:p@127.0.0.1:4223").as_deref(), Some("127.0.0.1"));
        assert_eq!(one("127.0.0.1").as_deref(), Some("127.0.0.1"));
        assert_eq!(one("nats://[::1]:4222/").as_deref(), Some("::1"));
    }
}
