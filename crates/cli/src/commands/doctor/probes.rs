//! What can only be tried in a process of its own, because namespaces cannot be left again.

use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use ldplayer_net::names::Names;
use ldplayer_net::netns::{Testbed, has_any_ip};
use ldplayer_net::packets::SenderKind;
use ldplayer_net::settings::has_ipv6;
use ldplayer_net::tun::Tun;
use ldplayer_net::{limits, rights};

use super::finding::Finding;
use super::frames;
use crate::failure::Failure;

/// What is tried.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Probe {
    /// A testbed, as a replay makes it.
    Testbed,
    /// A user namespace with a network of its own.
    UserNamespace,
    /// A TUN device in such a namespace.
    Tun,
    /// A frame and its answer on the link of a namespace.
    Packets,
    /// The same, sent by AF_XDP.
    Xdp,
}

/// The child process: tries it, and says on stdout what it got.
pub fn run(probe: Probe) -> Result<ExitCode, Failure> {
    match probe {
        Probe::Testbed => say!("{}", testbed_here()?)?,
        Probe::UserNamespace => {
            rights::try_user_namespace().map_err(Failure::environment)?;
            say!("made one, with a network of its own")?;
        }
        Probe::Tun => say!("{}", tun_here()?)?,
        Probe::Packets => say!("{}", frames::try_here(SenderKind::Packet)?)?,
        Probe::Xdp => say!("{}", frames::try_here(SenderKind::Xdp)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn testbed_here() -> Result<String, Failure> {
    let names = Names::of_loopback().prepare();
    let testbed = Testbed::enter().map_err(Failure::environment)?;
    if !has_any_ip() {
        return Err(Failure::environment(anyhow::anyhow!("addresses are not local in the namespace")));
    }
    let mut said = if testbed.is_rootless() { "yes, in a user namespace" } else { "yes, as root" }.to_owned();
    if !has_ipv6() {
        said.push_str(", without IPv6");
    }
    if let [first, ..] = testbed.shortfalls() {
        said.push_str(&format!(", but {} settings such as {} cannot be made", testbed.shortfalls().len(), first.name));
    }
    if let Err(error) = names.try_enter() {
        said.push_str(&format!(", but mounts are refused ({}), which `testbed run` and `exec` need", error.source));
    }
    Ok(said)
}

/// Where user namespaces are refused, root has the rights that it takes without one.
fn tun_here() -> Result<String, Failure> {
    let place = match rights::try_user_namespace() {
        Ok(()) => "a user namespace",
        Err(_) => Testbed::enter().map(|_| "a namespace of root's").map_err(Failure::environment)?,
    };
    let name = Tun::probe().context("no TUN device").map_err(Failure::environment)?;
    Ok(format!("made {name} in {place}"))
}

/// Runs a probe and returns what it said; in `Err`, why not.
fn ask(probe: &str) -> Result<String, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(own).args(["doctor", "--probe", probe]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).trim().trim_start_matches("ldplayer: ").to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(shortened(&text(&output.stderr))) }
}

/// The message up to its remedy, which the finding has itself.
fn shortened(message: &str) -> String {
    message.split(';').next().unwrap_or_default().to_owned()
}

/// Whether a testbed can be made. Without one there is no replay from original addresses, and no demo.
pub fn testbed() -> Finding {
    let lift = format!("run as root, or: {}", user_namespace_remedy(limits::sysctl_number));
    let needed = "for --sources original and the demo";
    Finding::of("testbed (AnyIP)", ask("testbed"), needed, lift).essential()
}

/// Whether users may make namespaces.
pub fn user_namespaces() -> Finding {
    let lift = user_namespace_remedy(limits::sysctl_number);
    Finding::of("user namespaces", ask("user-namespace"), "for testbeds without root", lift)
}

/// Whether a TUN device can be made.
pub fn tun() -> Finding {
    let lift = "modprobe tun; chmod 666 /dev/net/tun";
    Finding::of("TUN", ask("tun"), "for emulated delay and loss", lift)
}

/// Whether packets of clients can be frames that we make.
pub fn packets() -> Finding {
    let tried = ask("packets");
    let lift = packet_remedy(tried.as_ref().err().map_or("", String::as_str), limits::sysctl_number);
    Finding::of("packet path", tried, "for --path packets", lift)
}

/// Whether such frames can be sent by AF_XDP.
pub fn xdp() -> Finding {
    let lift = "a kernel with CONFIG_XDP_SOCKETS; --path packets works without";
    Finding::of("AF_XDP", ask("xdp"), "for --path packets:xdp", lift)
}

/// The remedy for the packet path, by the call that the kernel refused.
fn packet_remedy(why: &str, setting: impl Fn(&str) -> Option<u64>) -> String {
    if why.contains("veth") {
        "modprobe veth".to_owned()
    } else if why.contains("packet socket") || why.contains("packet ring") {
        "in a container: give it --cap-add NET_RAW".to_owned()
    } else {
        format!("run as root, or: {}", user_namespace_remedy(setting))
    }
}

/// The command that lets users make namespaces, after what forbids it by these settings.
fn user_namespace_remedy(setting: impl Fn(&str) -> Option<u64>) -> String {
    let forbids = [
        // Ubuntu since 23.10: the namespace is made, but without rights in it.
        ("kernel.apparmor_restrict_unprivileged_userns", 1, "0"),
        // Debian up to 10, and hardened kernels.
        ("kernel.unprivileged_userns_clone", 0, "1"),
        ("user.max_user_namespaces", 0, "10000"),
        ("user.max_net_namespaces", 0, "10000"),
    ];
    let found = forbids.into_iter().filter(|&(name, forbidden, _)| setting(name) == Some(forbidden));
    let set: Vec<String> = found.map(|(name, _, value)| format!("{name}={value}")).collect();
    match set[..] {
        [] => "in a container: give it --privileged or --cap-add SYS_ADMIN,NET_ADMIN".to_owned(),
        _ => format!("sysctl -w {}", set.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_names_the_setting_that_forbids() {
        let remedy = |settings: &[(&str, u64)]| {
            user_namespace_remedy(|name| settings.iter().find(|(found, _)| *found == name).map(|(_, value)| *value))
        };
        assert_eq!(
            remedy(&[("kernel.apparmor_restrict_unprivileged_userns", 1), ("user.max_user_namespaces", 7_000)]),
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
        );
        assert_eq!(
            remedy(&[("kernel.unprivileged_userns_clone", 0), ("user.max_user_namespaces", 0)]),
            "sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000"
        );
        assert!(remedy(&[("user.max_user_namespaces", 7_000)]).contains("--privileged"));
    }

    #[test]
    fn the_remedy_of_the_packet_path_is_that_of_what_was_refused() {
        for (why, remedy) in [
            ("cannot set up a pair of veth interfaces in the new namespace: not supported", "modprobe veth"),
            ("cannot set up a packet ring: not permitted", "--cap-add NET_RAW"),
            ("cannot make a network namespace", "run as root, or: sysctl -w user.max_net_namespaces=10000"),
        ] {
            let found = packet_remedy(why, |name| (name == "user.max_net_namespaces").then_some(0));
            assert!(found.contains(remedy), "{why}: {found}");
        }
    }

    #[test]
    fn a_remedy_is_told_once() {
        assert_eq!(shortened("cannot do it: EPERM; run as root"), "cannot do it: EPERM");
    }
}
