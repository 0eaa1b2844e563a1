//! The stage of a run: its server, the link to it, and how its zones are signed.

use std::path::{Path, PathBuf};

use ldplayer_emulate::serve::answers::Answers;
use ldplayer_emulate::serve::faults::Faults;
use ldplayer_emulate::stock::{Kind, Role};
use ldplayer_emulate::testbed::{CLIENTS, INTERNET, RESOLVER};
use ldplayer_emulate::wire::WirePath;
use ldplayer_link::{Jitter, LinkSpec, Loss, Rate, RttSource, SpecError, Written};
use ldplayer_run::RunSpec;
use ldplayer_workload::spec::{BadSpec, Item};
use ldplayer_zone::sign::{Algorithm, MAX_RSA_BITS, MIN_RSA_BITS};
use serde::{Deserialize, Serialize};

use crate::certificate::KeyKind;
use crate::servers::ServerTable;

/// Link keys, allowed at the top level or in the matrix.
const OF_LINKS: [&str; 7] = ["rtt", "jitter", "loss", "bandwidth", "upstream_rtt", "upstream_jitter", "upstream_loss"];
/// Signing keys.
const OF_SIGNING: [&str; 4] = ["sign_algorithm", "sign_ksk_bits", "sign_zsk_bits", "sign_nsec3"];
/// Server keys.
const OF_SERVERS: [&str; 8] =
    ["zones", "server_threads", "server_cache", "server_idle_timeout", TLS_KEY, FAULTS, ANSWERS, CACHE];
/// The key for the key type of certificates.
const TLS_KEY: &str = "tls_key";
/// The key for faults of what serves the zones, and its value for none.
const FAULTS: &str = "faults";
const FAULTLESS: &str = "none";
/// The key for which versions of record sets it answers with.
const ANSWERS: &str = "answers";
/// The key for whether the server has been asked everything before.
const CACHE: &str = "cache";
/// Default RSA key sizes, as in `zones sign`.
const RSA_BITS: usize = 2_048;
/// The value for zones that are not signed.
const UNSIGNED: &str = "none";

/// The stage of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// The server to start or query; `None` if the run's own keys give it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<ServerTable>,
    /// The backend, if the server is a proxy.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub backend: Option<ServerTable>,
    /// The wire between clients and server; `None` for loopback.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub link: Option<Link>,
    /// How the zones are signed first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sign: Option<Signing>,
    /// The key type of the server's certificate, if not the default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tls_key: Option<KeyKind>,
    /// Faults of what serves the zones: a file, or the name of one that comes along.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub faults: Option<PathBuf>,
    /// Which versions of record sets it answers with, if not those of the zone files.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answers: Option<String>,
    /// Whether the server is asked all queries of the trace before each run, so that its cache has the answers.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_warm: bool,
}

/// Links of a testbed, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// Round-trip time of each client.
    pub rtt: Option<Written<RttSource>>,
    /// Jitter of that.
    pub jitter: Option<Written<Jitter>>,
    /// Loss in each direction.
    pub loss: Option<Written<Loss>>,
    /// Rate of each client in each direction.
    pub bandwidth: Option<Written<Rate>>,
    /// Round-trip time between resolver and Internet.
    pub upstream_rtt: Option<Written<RttSource>>,
    /// Jitter of that.
    pub upstream_jitter: Option<Written<Jitter>>,
    /// Loss of that link.
    pub upstream_loss: Option<Written<Loss>>,
}

/// How zones are signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signing {
    /// The algorithm's mnemonic.
    pub algorithm: String,
    /// Key-signing key size in bits, for RSA.
    pub ksk_bits: usize,
    /// Zone-signing key size in bits, for RSA.
    pub zsk_bits: usize,
    /// Whether to use NSEC3 instead of NSEC.
    pub nsec3: bool,
}

/// The stage keys, in addition to those of a run.
pub fn keys<'a>() -> impl Iterator<Item = &'a str> {
    OF_LINKS.into_iter().chain(OF_SIGNING).chain(OF_SERVERS)
}

impl Stage {
    /// Reads stage keys; the caller passes no others. The server must be set before.
    pub(crate) fn take(&mut self, given: &[Item<'_>], place: &dyn Fn(&str) -> PathBuf) -> Result<(), BadSpec> {
        let of = |keys: &'static [&'static str]| given.iter().filter(move |item| keys.contains(&item.key));
        for item in of(&OF_LINKS) {
            self.ensure_ours(item)?;
            self.link.get_or_insert_default().give(item, place)?;
        }
        for item in of(&OF_SERVERS) {
            self.tell_server(item, place)?;
        }
        self.sign = signing(of(&OF_SIGNING))?;
        match (&self.sign, self.zones()) {
            (Some(_), None) => Err(given[0].bad("no zones to sign: add zones = \"DIR\" to the server")),
            _ => Ok(()),
        }
    }

    /// Refuses keys that need a server started by the experiment.
    fn ensure_ours(&self, item: &Item<'_>) -> Result<(), BadSpec> {
        match &self.server {
            Some(server) if server.role() != Role::Foreign => Ok(()),
            _ => Err(item.bad("needs a server started by the experiment: add a [server.NAME] table with a kind")),
        }
    }

    fn tell_server(&mut self, item: &Item<'_>, place: &dyn Fn(&str) -> PathBuf) -> Result<(), BadSpec> {
        self.ensure_ours(item)?;
        if item.key == TLS_KEY {
            self.tls_key = Some(item.parsed(str::parse)?);
            return Ok(());
        }
        if item.key == FAULTS {
            self.faults = self.faults_of(item, place)?;
            return Ok(());
        }
        if item.key == ANSWERS {
            self.answers = self.answers_of(item)?;
            return Ok(());
        }
        if item.key == CACHE {
            self.is_warm = match item.text()? {
                "cold" => false,
                "warm" => true,
                _ => {
                    return Err(
                        item.bad("expected \"cold\" or \"warm\"; the size of a server's cache is `server_cache`")
                    );
                }
            };
            return Ok(());
        }
        let Some(server) = self.backend.as_mut().or(self.server.as_mut()) else { return Ok(()) };
        match item.key {
            "zones" => server.zones = Some(place(item.text()?)),
            "server_threads" => server.set_threads(item)?,
            "server_cache" => server.set_cache(item)?,
            _ => server.set_idle_timeout(item)?,
        }
        Ok(())
    }

    /// The file of faults, read once to find its errors now; `None` for none.
    fn faults_of(&self, item: &Item<'_>, place: &dyn Fn(&str) -> PathBuf) -> Result<Option<PathBuf>, BadSpec> {
        let name = item.text()?;
        if name == FAULTLESS {
            return Ok(None);
        }
        if !self.has_serve() {
            return Err(item.bad(
                "these are faults of `ldplayer serve`: of a server of the kind serve, or of what a resolver asks",
            ));
        }
        let file = if Faults::ready().any(|ready| ready == name) { PathBuf::from(name) } else { place(name) };
        Faults::read(&file).map_err(|error| item.bad(error))?;
        Ok(Some(file))
    }

    fn answers_of(&self, item: &Item<'_>) -> Result<Option<String>, BadSpec> {
        let answers: Answers = item.parsed(str::parse)?;
        if answers != Answers::Fixed && !self.has_serve() {
            return Err(item.bad(
                "these are answers of `ldplayer serve`: of a server of the kind serve, or of what a resolver asks",
            ));
        }
        Ok(Some(answers.to_string()).filter(|_| answers != Answers::Fixed))
    }

    /// Whether `ldplayer serve` answers, to the clients or to a resolver.
    fn has_serve(&self) -> bool {
        self.servers().any(|server| server.kind == Kind::META || server.role() == Role::Resolver)
    }

    /// The zones served, to the clients or to a resolver.
    pub fn zones(&self) -> Option<&Path> {
        self.backend.iter().chain(&self.server).find_map(|server| server.zones.as_deref())
    }

    /// The servers to be started, each before its proxy.
    fn servers(&self) -> impl Iterator<Item = &ServerTable> {
        self.backend.iter().chain(&self.server)
    }

    /// The files it reads: zones, and those named by servers and links.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let hints = self.servers().filter_map(|server| server.root_hints.clone());
        let links = self.link.iter().flat_map(|link| [&link.rtt, &link.upstream_rtt].into_iter().flatten());
        let links = links.filter_map(|rtt| rtt.file().map(Path::to_owned));
        let faults = self.faults.clone().filter(|file| file.exists());
        self.zones().map(Path::to_owned).into_iter().chain(hints).chain(links).chain(faults).collect()
    }

    /// The programs it starts, as far as they are installed.
    pub(crate) fn programs(&self) -> Vec<PathBuf> {
        let own = |server: &ServerTable| server.program.clone().or_else(|| server.kind.find());
        let fronts = |server: &ServerTable| server.front.and_then(Kind::find);
        self.servers().flat_map(|server| own(server).into_iter().chain(fronts(server))).collect()
    }

    /// Whether a resolver needs an emulated Internet.
    pub fn resolves(&self) -> bool {
        self.backend.iter().chain(&self.server).any(|server| server.role() == Role::Resolver)
    }

    /// Gives the properties of the clients' link to a run whose sender makes it, and keeps those of a wire.
    pub(crate) fn lend_link(&mut self, spec: &mut RunSpec) {
        let Some(link) = &mut self.link else { return };
        spec.rtt = link.rtt.take();
        spec.jitter = link.jitter.take();
        spec.loss = link.loss.take();
        spec.bandwidth = link.bandwidth.take();
        if *link == Link::default() {
            self.link = None;
        }
    }

    /// Whether anything is started for it.
    pub fn is_ours(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.role() != Role::Foreign)
    }
}

impl Link {
    fn give(&mut self, item: &Item<'_>, place: &dyn Fn(&str) -> PathBuf) -> Result<(), BadSpec> {
        let placed = |rtt: Written<RttSource>| rtt.placed(|file| place(&file.to_string_lossy()));
        match item.key {
            "rtt" => self.rtt = written(item)?.map(placed),
            "upstream_rtt" => self.upstream_rtt = written(item)?.map(placed),
            "jitter" => self.jitter = written(item)?,
            "upstream_jitter" => self.upstream_jitter = written(item)?,
            "loss" => self.loss = written(item)?,
            "upstream_loss" => self.upstream_loss = written(item)?,
            _ => self.bandwidth = written(item)?,
        }
        for file in [&self.rtt, &self.upstream_rtt].into_iter().flatten() {
            file.value().load().map_err(|error| item.bad(error))?;
        }
        Ok(())
    }

    /// The paths of the wire.
    ///
    /// # Errors
    /// An invalid link, such as a missing file of round-trip times.
    pub fn paths(&self) -> Result<Vec<WirePath>, SpecError> {
        let clients =
            LinkSpec::of(self.rtt.as_ref(), self.jitter.as_ref(), self.loss.as_ref(), self.bandwidth.as_ref())?;
        let (rtt, jitter) = (self.upstream_rtt.as_ref(), self.upstream_jitter.as_ref());
        let upstream = LinkSpec::of(rtt, jitter, self.upstream_loss.as_ref(), None)?;
        Ok(vec![
            WirePath { far: CLIENTS, near: RESOLVER, link: clients },
            WirePath { far: INTERNET, near: RESOLVER, link: upstream },
        ])
    }
}

fn written<T: std::str::FromStr<Err: std::fmt::Display>>(item: &Item<'_>) -> Result<Option<Written<T>>, BadSpec> {
    item.word()?.parse().map(Some).map_err(|error| item.bad(error))
}

/// The signing policy; `None` without signing keys or with `sign_algorithm = "none"`.
fn signing<'a, 'b: 'a>(given: impl Iterator<Item = &'a Item<'b>>) -> Result<Option<Signing>, BadSpec> {
    let usual = Algorithm::EcdsaP256Sha256.to_string();
    let mut signing = Signing { algorithm: usual, ksk_bits: RSA_BITS, zsk_bits: RSA_BITS, nsec3: false };
    let (mut is_given, mut is_none) = (false, false);
    let bits = MIN_RSA_BITS as u64..=MAX_RSA_BITS as u64;
    for item in given {
        is_given = true;
        match item.key {
            "sign_algorithm" if item.text()? == UNSIGNED => is_none = true,
            "sign_algorithm" => signing.algorithm = item.parsed(str::parse::<Algorithm>)?.to_string(),
            "sign_ksk_bits" => signing.ksk_bits = item.integer(bits.clone())? as usize,
            "sign_zsk_bits" => signing.zsk_bits = item.integer(bits.clone())? as usize,
            _ => signing.nsec3 = item.truth()?,
        }
    }
    Ok((is_given && !is_none).then_some(signing))
}
