"""The clients that ask in sessions: the same each time, at an even rate, and in equal shares."""

import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

import duckdb

from .sessions import ROLL_CALL, Population, write_trace, write_zones

SMALL = Population(400, roll_call=1, duration=6, gap=1.5, domains=10)


class Sessions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def trace(self, population):
        file = self.folder / f"{population.seed}.parquet"
        write_trace(population, file)
        return f"read_parquet('{file}')"

    def test_the_same_clients_ask_the_same(self):
        first, second, other = (self.trace(population) for population in (SMALL, SMALL, replace(SMALL, seed=2)))
        rows = [duckdb.sql(f"select src, qname, qtype from {trace}").fetchall() for trace in (first, second, other)]
        self.assertEqual(rows[0], rows[1])
        self.assertNotEqual(rows[0], rows[2])

    def test_everybody_answers_the_roll_call_and_looks_at_a_page(self):
        trace = self.trace(SMALL)
        called = duckdb.sql(f"select src, count(*) from {trace} where qname = '{ROLL_CALL}' group by src").fetchall()
        self.assertEqual((len(called), {count for _, count in called}), (SMALL.clients, {1}))
        asked = duckdb.sql(f"select src, count(*) from {trace} where qname <> '{ROLL_CALL}' group by src").fetchall()
        self.assertEqual(len(asked), SMALL.clients)
        mean = sum(count for _, count in asked) / len(asked)
        self.assertAlmostEqual(mean / SMALL.queries_each, 1, delta=0.1)

    def test_half_of_the_clients_are_half_of_the_load(self):
        trace = self.trace(SMALL)
        half = f"select src from {trace} where qname = '{ROLL_CALL}' order by time limit {SMALL.clients // 2}"
        count = "select count(*) from {} where qname <> '{}' and src in ({})"
        of_half, of_all = (duckdb.sql(count.format(trace, ROLL_CALL, which)).fetchall()[0][0] for which in (half, f"select src from {trace}"))
        self.assertAlmostEqual(of_half / of_all, 0.5, delta=0.05)

    def test_every_domain_has_a_zone(self):
        write_zones(SMALL, self.folder / "zones")
        zones = {path.stem for path in (self.folder / "zones").iterdir()}
        domains = duckdb.sql(f"select distinct split_part(qname, '.', 2) from {self.trace(SMALL)}").fetchall()
        self.assertLessEqual({f"{domain}.example" for (domain,) in domains} | {"root", "example"}, zones)
