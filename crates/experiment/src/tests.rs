//! Tests of experiment files, valid and invalid.

use std::path::Path;

use ldplayer_core::Transport;
use ldplayer_run::TransportChoice;
use proptest::prelude::*;

use crate::Experiment;

const ROOT: &str = "trace = 'Cargo.toml'\n";
const NSD: &str = "[server.nsd]\nkind = 'nsd'\nzones = 'src'\n";

fn read(text: &str) -> Result<Experiment, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    Experiment::parse(text, folder, "test").map_err(|error| error.to_string())
}

fn refusal(text: &str) -> String {
    read(text).expect_err("it was accepted")
}

fn names(experiment: &Experiment) -> Vec<&str> {
    experiment.cells.iter().map(|cell| cell.name.as_str()).collect()
}

/// The quota of a server that runs already holds nobody, and the run said that it did.
#[test]
fn a_quota_needs_a_server_that_the_experiment_starts() {
    let quotas = "[matrix]\nserver_cpu = ['20%', '50%']\n";
    let cells = read(&format!("{ROOT}{NSD}{quotas}")).unwrap().cells;
    let cores: Vec<f64> = cells.iter().filter_map(|cell| Some(cell.spec.server_cpu?.0)).collect();
    assert_eq!(cores, [0.2, 0.5]);
    let running = refusal(&format!("{ROOT}server = '::1'\n{quotas}"));
    assert!(running.contains("server_cpu: needs a server started by the experiment"), "{running}");
}

#[test]
fn faults_are_those_of_what_serves_the_zones() {
    let meta = "[server.meta]\nkind = 'meta'\nzones = 'src'\n";
    let cells = read(&format!("{ROOT}{meta}[matrix]\nfaults = ['none', 'no-tcp']\n")).unwrap().cells;
    let faults: Vec<Option<&Path>> = cells.iter().map(|cell| cell.stage.faults.as_deref()).collect();
    assert_eq!(faults, [None, Some(Path::new("no-tcp"))]);
    assert_ne!(cells[0].stage, cells[1].stage);
    let of_nsd = refusal(&format!("{ROOT}faults = 'no-tcp'\n{NSD}"));
    assert!(of_nsd.contains("these are faults of `ldplayer serve`"), "{of_nsd}");
    let unknown = refusal(&format!("{ROOT}faults = 'no-tpc'\n{meta}"));
    assert!(unknown.contains("no-tpc"), "{unknown}");
    let listed = unknown.split_once("ready-made ones are ").expect(&unknown).1;
    assert!(listed.split(", ").any(|name| name == "no-tcp"), "{unknown}");
}

#[test]
fn answers_are_those_of_what_serves_the_zones() {
    let meta = "[server.meta]\nkind = 'meta'\nzones = 'src'\n";
    let cells =
        read(&format!("{ROOT}{meta}[matrix]\nanswers = ['fixed', 'recorded', 'changing:10s']\n")).unwrap().cells;
    let answers: Vec<Option<&str>> = cells.iter().map(|cell| cell.stage.answers.as_deref()).collect();
    assert_eq!(answers, [None, Some("recorded"), Some("changing:10s")]);
    let of_nsd = refusal(&format!("{ROOT}answers = 'rotate'\n{NSD}"));
    assert!(of_nsd.contains("these are answers of `ldplayer serve`"), "{of_nsd}");
    let unknown = refusal(&format!("{ROOT}answers = 'any'\n{meta}"));
    assert!(unknown.contains("expected fixed, recorded, rotate"), "{unknown}");
}

#[test]
fn a_cache_is_cold_or_warm() {
    let text = format!("{ROOT}{NSD}[matrix]\ncache = ['cold', 'warm']\n");
    let cells = read(&text).unwrap().cells;
    assert_eq!(cells.iter().map(|cell| cell.stage.is_warm).collect::<Vec<_>>(), [false, true]);
    assert_eq!(
        cells.iter().map(|cell| cell.name.as_str()).collect::<Vec<_>>(),
        ["server=nsd,cache=cold", "server=nsd,cache=warm"]
    );
    let other = refusal(&text.replace("'warm'", "'64m'"));
    assert!(other.contains("expected \"cold\" or \"warm\"; the size of a server's cache is `server_cache`"), "{other}");
    assert!(
        refusal(&format!("{ROOT}server = '::1'\ncache = 'warm'\n"))
            .contains("needs a server started by the experiment")
    );
}

#[test]
fn the_matrix_is_a_cross_product_in_the_order_of_the_file() {
    let text = format!(
        "{ROOT}repeats = 2\n{NSD}[server.knot]\nkind = 'knot'\nzones = 'src'\n[matrix]\ntransport = ['udp', 'tcp']\nidle_timeout = '5s'\n"
    );
    let experiment = read(&text).unwrap();
    // Servers come first where the matrix does not have them.
    assert_eq!(
        names(&experiment),
        [
            "server=nsd,transport=udp,idle_timeout=5s",
            "server=nsd,transport=tcp,idle_timeout=5s",
            "server=knot,transport=udp,idle_timeout=5s",
            "server=knot,transport=tcp,idle_timeout=5s",
        ]
    );
    let last = &experiment.cells[3];
    assert_eq!(last.spec.transport, TransportChoice::All(Transport::Tcp));
    assert_eq!(last.spec.policy.idle_timeout, Some(5_000_000_000));
    assert_eq!(last.stage.server.as_ref().unwrap().name, "knot");
    let chosen = read(&format!("{text}server = ['knot']\n")).unwrap();
    assert_eq!(names(&chosen)[0], "transport=udp,idle_timeout=5s,server=knot");
}

#[test]
fn cells_that_are_excluded_are_left_out() {
    let exclude = "exclude = [{ server = 'meta', transport = 'dot' }]\n";
    let text = format!(
        "{ROOT}{exclude}{NSD}[server.meta]\nkind = 'meta'\nzones = 'src'\n[matrix]\ntransport = ['udp', 'dot']\n"
    );
    assert_eq!(
        names(&read(&text).unwrap()),
        ["server=nsd,transport=udp", "server=nsd,transport=dot", "server=meta,transport=udp"]
    );
    let silent = refusal(&text.replace(exclude, ""));
    assert!(silent.starts_with("line 5: `meta`: kind meta does not speak dot: add front = \"dnsdist\""), "{silent}");
    let wrong = refusal(&text.replace("'meta', t", "'metta', t"));
    assert!(wrong.contains("`metta` is not one of its values in the matrix: did you mean `meta`?"), "{wrong}");
    let none = refusal(&format!("{ROOT}exclude = [{{ server = 'nsd' }}]\n{NSD}"));
    assert!(none.contains("removes all cells"), "{none}");
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_the_nearest_word() {
    for (text, wanted) in [
        ("transprt = 'tcp'", "line 2: unknown key `transprt`: did you mean `transport`?"),
        (
            "server = '::1'\n[matrix]\nidle_timout = ['5s']",
            "line 4: unknown key `idle_timout`: did you mean `idle_timeout`?",
        ),
        (
            "server = '::1'\n[matrix]\nidle_timeout = []",
            "line 4: `idle_timeout`: no values, so the matrix has no cells",
        ),
        ("server = '::1'\n[matrix]\nidle_timeout = ['5s',\n'soon']", "line 5: `idle_timeout`"),
        ("server = '::1'\n[matrix]\ntransport = ['udp', 'udp']", "line 4: `transport`: `udp` is listed twice"),
        (
            "server = '::1'\ntransport = 'udp'\n[matrix]\ntransport = ['tcp']",
            "line 5: `transport`: is also set at the top level",
        ),
        ("[server.a]\nkind = 'nsdd'", "line 3: `kind`: unknown kind of server `nsdd`: did you mean `nsd`?"),
        ("[server.a]\nkind = 'nsd'", "line 2: `a`: no zones"),
        ("", "no server: add a [server.NAME] table"),
        ("server = '::1'\nrtt = '20ms'", "line 3: `rtt`: needs a server started by the experiment"),
        ("server = '::1'\nversion = 2", "line 3: `version`"),
        ("server = '::1'\nname = '../up'", "line 3: `name`"),
        ("server = '::1'\n[expect]\nall = ['answred >= 1 %']", "line 4: `all`: column 1: `answred` is no quantity"),
        (
            "server = '::1'\n[gate]\nbaseline = 'server=old'\nkeep = 'p99 <= 1.1 x'",
            "line 3: `gate`: baseline: `server` is not a key of the matrix",
        ),
        ("server = '::1'\n[find]\nwhat = 'qps'", "line 3: `find`: no criteria"),
    ] {
        let told = refusal(&format!("{ROOT}{text}"));
        assert!(told.contains(wanted), "{text}: {told}");
        assert!(!told.contains('\n'), "{told}");
    }
    assert!(refusal("server = '::1'").contains("no trace"));
    assert!(refusal("trace = '-'\nserver = '::1'").contains("read only once"));
    assert!(refusal("trace = 'a'\nserver = '::1'\n[generate]\nspec = 'syn-3'").contains("conflicts with [generate]"));
}

#[test]
fn a_matrix_of_absurd_size_is_refused_before_it_is_made() {
    let axis = |key: &str| format!("{key} = [{}]\n", (1..=400).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    let text =
        format!("{ROOT}server = '::1'\n[matrix]\n{}{}{}", axis("seed"), axis("pipeline"), axis("max_outstanding"));
    assert!(refusal(&text).contains("400 x 400 x 400 cells"));
}

#[test]
fn what_is_around_a_run_comes_from_its_keys() {
    let text = format!(
        "{ROOT}{NSD}[matrix]\nrtt = ['0ms', '20ms']\nsign_algorithm = ['none', 'rsasha256']\nserver_threads = 2\n[expect]\nall = 'answered >= 99 %'\n"
    );
    let experiment = read(&text).unwrap();
    assert_eq!(experiment.cells.len(), 4);
    // One wire for all cells, so that they differ in nothing but its delay.
    assert!(experiment.cells.iter().all(|cell| cell.stage.link.is_some() && cell.spec.expect.len() == 1));
    let signed = |at: usize| experiment.cells[at].stage.sign.as_ref().map(|sign| sign.zsk_bits);
    assert_eq!((signed(0), signed(1)), (None, Some(2_048)));
    assert_eq!(experiment.cells[0].stage.server.as_ref().unwrap().threads, 2);
}

#[test]
fn a_digest_tells_what_a_cell_means_and_nothing_else() {
    let digest = |text: &str| {
        let experiment = read(text).unwrap();
        experiment.cells[0].digest(&experiment.around(), &mut crate::contents::Contents::default())
    };
    let plain = format!("{ROOT}server = '::1'\n");
    assert_eq!(digest(&plain), digest(&format!("# a note\nrepeats = 9\nname = 'other'\n{plain}")));
    for other in ["seed = 2", "warm_up = '1s'", "transport = 'tcp'"] {
        assert_ne!(digest(&plain), digest(&format!("{plain}{other}\n")), "{other}");
    }
    let generated = |qps: u32| digest(&format!("server = '::1'\n[generate]\nspec = 'syn-3'\nqps = {qps}\n"));
    assert_ne!(generated(100), generated(200));
}

/// Files counted by name and length, so that a rebuilt server or an edited zone passed for what had been measured.
#[test]
fn a_digest_tells_files_and_programs_that_were_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(at(name), text).unwrap();
    let written = |seconds: u64| {
        let program = std::fs::File::options().append(true).open(at("nsd")).unwrap();
        program.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
    };
    ["trace", "zone", "nsd"].iter().for_each(|name| write(name, "1"));
    written(1);
    let text = "trace = 'trace'\n[server.a]\nkind = 'nsd'\nzones = 'zone'\nprogram = 'nsd'\n";
    let digest = || {
        let experiment = Experiment::parse(text, folder.path(), "test").unwrap();
        experiment.cells[0].digest(&experiment.around(), &mut crate::contents::Contents::default())
    };
    let mut seen = vec![digest()];
    assert_eq!(digest(), seen[0]);
    for name in ["trace", "zone"] {
        write(name, "2");
        seen.push(digest());
    }
    written(2);
    seen.push(digest());
    seen.dedup();
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn a_proxy_asks_a_server_that_is_not_run_by_itself() {
    let text = format!("{ROOT}{NSD}[server.front]\nkind = 'dnsdist'\nbackend = 'nsd'\n");
    let experiment = read(&text).unwrap();
    assert_eq!(names(&experiment), ["server=front"]);
    assert_eq!(experiment.cells[0].stage.backend.as_ref().unwrap().name, "nsd");
    assert!(refusal(&text.replace("backend = 'nsd'", "backend = 'nds'")).contains("no table [server.nds]"));
}

/// Lines that files of experiments may have, so that most generated files are not refused at once.
const LINES: [&str; 30] = [
    "cache = 'warm'",
    "answers = 'rotate'",
    "faults = 'no-tcp'",
    "repeats = 2",
    "repeats = -1",
    "warm_up = '1s'",
    "server = '::1'",
    "[server.a]",
    "kind = 'nsd'",
    "kind = 'dnsdist'",
    "backend = 'a'",
    "zones = 'src'",
    "front = 'dnsdist'",
    "[matrix]",
    "transport = ['udp', 'dot']",
    "server = ['a']",
    "rtt = ['0ms', 3]",
    "sign_zsk_bits = 1024",
    "tls_key = 'rsa-2048'",
    "[expect]",
    "all = 'p99 <= 1ms'",
    "exclude = [{ transport = 'udp' }, 1]",
    "exclude = [{}]",
    "[[class]]",
    "[generate]",
    "spec = 'syn-3'",
    "[find]",
    "what = 'connections'",
    "goal_loss_ratio = '1 %'",
    "[[find.goal]]",
];

proptest! {
    #[test]
    fn any_text_ends_in_an_experiment_or_an_error_on_one_line(text in ".{0,200}") {
        if let Err(error) = read(&text) {
            prop_assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn any_lines_end_in_an_experiment_or_an_error_on_one_line(lines in proptest::collection::vec(0..LINES.len(), 0..10)) {
        let lines: Vec<&str> = lines.into_iter().map(|line| LINES[line]).collect();
        if let Err(error) = read(&format!("{ROOT}{}", lines.join("\n"))) {
            prop_assert!(!error.contains('\n') && error.starts_with("line "), "{error}");
        }
    }
}
