"""The package against the real program: a served zone, replays of it, an experiment, and what is refused."""

import os
import tempfile
import unittest
from pathlib import Path
from xml.dom import minidom

import ldplayer
from ldplayer import _program, _toml

ZONE = """\
$ORIGIN example.
$TTL 3600
@ SOA ns hostmaster 1 3600 900 604800 300
@ NS ns
ns A 127.0.0.1
* A 192.0.2.1
"""
QUERIES = 600


class InAFolder(unittest.TestCase):
    """Each test has a folder of its own as the current one."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        Path("zones").mkdir()
        Path("zones/example.zone").write_text(ZONE, encoding="utf-8")
        names = (f"{number / 1000:.4f}\t192.0.2.{number % 9 + 1}\tq{number % 50}.example.\tA\n" for number in range(QUERIES))
        Path("queries.tsv").write_text("time\tsrc\tqname\tqtype\n" + "".join(names), encoding="utf-8")

    def run_of(self, **given):
        with ldplayer.serve("zones") as server:
            return ldplayer.replay("queries.tsv", server=server.address, precision="low", watch_pid=server.pid, **given)


class Runs(InAFolder):
    def test_a_replay_is_a_run_with_figures_verdicts_and_tables(self):
        run = self.run_of(output="run", expect=["answered >= 99 %", "p50 <= 1s"])
        self.assertEqual((run.path, run.summary["queries"]["answered"], run.verdict.server), (Path("run"), QUERIES, True))
        self.assertGreater(run.latency_ms("p50"), 0)
        rows = run.rows(["index", "client", "latency_ns", "qname"], where="qname under q7.example")
        self.assertEqual((rows.num_rows, set(rows["qname"].to_pylist())), (QUERIES // 50, {"q7.example."}))
        self.assertEqual([str(rows.schema.field(name).type) for name in ("index", "latency_ns", "qname")], ["uint64", "int64", "string"])
        self.assertEqual(rows.schema.field("latency_ns").metadata[b"unit"], b"ns")
        stored = run.rows(["index", "answered_ns", "rcode"])
        self.assertEqual((stored.num_rows, stored["rcode"].to_pylist()[0]), (QUERIES, 0))
        self.assertEqual(run.rows().num_rows, QUERIES)
        self.assertIn("latency_ns", run.rows().column_names)
        self.assertGreater(run.telemetry().num_rows, 0)
        self.assertTrue(run.names())
        self.assertEqual(len(rows.to_pandas()), QUERIES // 50)

    def test_a_run_that_fails_its_verdict_is_no_error(self):
        run = self.run_of(output="run", expect="answered <= 1 %")
        self.assertEqual((run.verdict.server, bool(run.verdict)), (False, False))

    def test_a_run_has_figures_methods_and_a_comparison(self):
        run = self.run_of(output="run")
        made = run.figures("figures", "throughput", "rcodes", style="paper", size="3.3in")
        self.assertEqual(sorted(made), ["rcodes", "throughput"])
        self.assertEqual(list(run.figures("figures", "rcodes", "handshakes")), ["rcodes"])
        minidom.parse(str(made["rcodes"]))
        self.assertTrue(Path("figures/rcodes.pdf").exists())
        self.assertIn("600 queries of 9 clients", run.methods())
        self.assertEqual(run.report(), Path("run/report.html"))
        self.assertIn("rows", str(run.compare(run)))

    def test_a_run_is_packed_into_a_file_and_comes_out_of_it(self):
        run = self.run_of(output="run")
        self.assertEqual(run.archive("a.tar.zst", anonymise=True), Path("a.tar.zst"))
        self.assertEqual(run.archive(), Path("run.tar.zst"))
        other = ldplayer.extract("a.tar.zst", "other")
        self.assertEqual((other.path, other.rows(["qname"], where="index == 3")["qname"].to_pylist()), (Path("other"), ["q3.example."]))
        self.assertFalse(set(other.rows(["client"])["client"].to_pylist()) & set(run.rows(["client"])["client"].to_pylist()))

    def test_a_notebook_shows_figures_and_pictures_of_a_run(self):
        shown = self.run_of(output="run")._repr_html_()
        for part in ("100.00 %", "answered per second", "99th percentile", "not judged", "<svg "):
            self.assertIn(part, shown)
        self.assertNotIn("http", shown.replace("http://www.w3.org/2000/svg", ""))

    def test_runs_without_a_name_are_called_by_the_time(self):
        first, second = self.run_of(), self.run_of()
        self.assertEqual((first.path.parent, first.path != second.path), (Path("runs"), True))

    def test_what_cannot_be_done_is_said_in_a_line(self):
        with self.assertRaises(ldplayer.LdplayerError) as raised:
            ldplayer.replay("absent.pcap", server="127.0.0.1:5300")
        self.assertEqual((raised.exception.status, "absent.pcap" in str(raised.exception)), (2, True))
        self.assertNotIn("\n", str(raised.exception))
        with self.assertRaises(ldplayer.LdplayerError) as raised:
            ldplayer.replay("queries.tsv", server="127.0.0.1:5300", rtt="soon")
        self.assertIn("rtt", str(raised.exception))
        with self.assertRaises(TypeError):
            ldplayer.replay("queries.tsv", sever="127.0.0.1:5300")


class Commands(InAFolder):
    def test_a_model_can_be_a_preset_or_a_dictionary(self):
        made = ldplayer.generate("poisson", "a.parquet", queries=100, clients=5, seed=3)
        self.assertTrue(made.exists())
        with self.assertRaises(ldplayer.LdplayerError):
            ldplayer.generate("poisson", "a.parquet", queries=100)
        ldplayer.generate("poisson", "a.parquet", queries=100, force=True)

    def test_a_trace_is_changed_by_rules(self):
        changed = ldplayer.mutate("queries.tsv", "tcp.tsv", set={"transport": "tcp"})
        self.assertIn("tcp", changed.read_text(encoding="utf-8"))

    def test_an_experiment_can_be_a_dictionary(self):
        spec = {
            "version": 1,
            "name": "two",
            "trace": str(Path("queries.tsv").resolve()),
            "repeats": 1,
            "max_retries": 0,
            "precision": "low",
            "server": {"nsd": {"kind": "nsd", "zones": str(Path("zones/example.zone").resolve())}},
            "matrix": {"transport": ["udp", "tcp"]},
        }
        done = ldplayer.experiment(spec, "out")
        self.assertEqual([cell["keys"]["transport"] for cell in done.overview["cells"]], ["udp", "tcp"])
        self.assertEqual(sorted(keys["transport"] for keys, _ in done.runs()), ["tcp", "udp"])
        self.assertEqual(done.rows(["index", "status"]).num_rows, 2 * QUERIES)
        self.assertIn("the experiment two: 2 cells", done.methods())
        self.assertIn("<td>", done._repr_html_())

    def test_a_server_that_cannot_begin_says_why(self):
        with self.assertRaises(ldplayer.LdplayerError) as raised, ldplayer.serve("absent"):
            self.fail("it began")
        self.assertIn("absent", str(raised.exception))

    def test_a_server_ends_with_its_block(self):
        with ldplayer.serve("zones") as server:
            process = server.process
            self.assertIsNone(process.poll())
        self.assertIsNotNone(process.poll())


class Testbeds(InAFolder):
    def test_a_testbed_is_there_until_its_block_ends(self):
        Path("zones/example.zone").write_text(ZONE.replace("127.0.0.1", "192.0.2.53"), encoding="utf-8")
        ask = ("dig", "+short", "+norecurse", "@192.0.2.53", "www.example", "A")
        with ldplayer.testbed(zones="zones", rtt="2ms") as bed:
            self.assertEqual(bed.run("resolver", *ask), "192.0.2.1\n")
            with bed.start("resolver", "sleep", "60") as process:
                self.assertIsNone(process.poll())
            self.assertIsNotNone(process.poll())
            self.assertTrue(bed.status())
            with self.assertRaises(ldplayer.LdplayerError) as raised:
                bed.run("clients", "false")
            self.assertIn("false on clients ended with status 1", str(raised.exception))
        with self.assertRaises(ldplayer.LdplayerError):
            bed.status()


class Words(unittest.TestCase):
    def test_keywords_are_options(self):
        given = {"query_timeout": "2s", "force": True, "nagle": False, "expect": ["a", "b"], "for_": "9s", "seed": 7, "rtt": None}
        told = ["--query-timeout=2s", "--force", "--expect=a", "--expect=b", "--for=9s", "--seed=7"]
        self.assertEqual(_program.options(given), told)

    def test_a_dictionary_reads_back_from_toml(self):
        try:
            import tomllib
        except ImportError:
            self.skipTest("tomllib is of Python 3.11")
        table = {"a": 1, "b": [1.5, "x\"\\\n\u00e4\U0001f600"], "c d": {"e": {"f": True}, "g": [{"h": 1}, {"h": {"i": "j"}}]}, "k": []}
        self.assertEqual(tomllib.loads(_toml.document({**table, "none": None})), table)


if __name__ == "__main__":
    unittest.main()
