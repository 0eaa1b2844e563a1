"""Tests of the pages that are published."""

import json
import tempfile
import unittest
from pathlib import Path

from . import pages
from .claim import NO, YES


def claims(name, *same):
    found = {"name": name, "source": f"Source of {name}", "form": "small", "date": "2026-01-01"}
    told = {"theirs": "1", "ours": "2", "why": "a | b", "is_theirs": True}
    return {**found, "claims": [{"claim": f"claim {number} of {name}", "same": one, **told} for number, one in enumerate(same)]}


def made(out, name, *same):
    """A figure in a folder, as `make figures` leaves it."""
    folder = out / name
    folder.mkdir(parents=True)
    (folder / "claims.json").write_text(json.dumps(claims(name, *same)), encoding="utf-8")
    (folder / "README.md").write_text(f"# {name}\n\n![gaps](gaps.svg) as in [two](../two/README.md)\n", encoding="utf-8")
    (folder / "gaps.png").write_bytes(b"picture")


class Published(unittest.TestCase):
    def test_figures_that_were_not_made_again_keep_their_claims(self):
        with tempfile.TemporaryDirectory() as work:
            first, later, docs = (Path(work) / name for name in ("first", "later", "docs"))
            made(first, "one", YES, NO)
            made(first, "two", YES)
            pages.publish(first, docs)
            made(later, "two", NO, NO)
            pages.publish(later, docs)
            text = (docs / "README.md").read_text(encoding="utf-8")
        rows = [line for line in text.splitlines() if line.startswith("| [Source of")]
        self.assertEqual([row.split(" | ")[1] for row in rows], ["claim 0 of one", "claim 1 of one", "claim 0 of two", "claim 1 of two"])
        self.assertEqual([row.split(" | ")[4] for row in rows], [YES, NO, NO, NO])
        self.assertIn("[one](one.md): small", text)

    def test_pictures_and_pages_are_where_the_page_looks_for_them(self):
        with tempfile.TemporaryDirectory() as work:
            out, docs = Path(work) / "out", Path(work) / "docs"
            made(out, "one", YES)
            pages.publish(out, docs)
            text = (docs / "one.md").read_text(encoding="utf-8")
            self.assertIn("(pictures/one-gaps.png)", text)
            self.assertIn("[two](two.md)", text)
            self.assertTrue((docs / "pictures" / "one-gaps.png").exists())


if __name__ == "__main__":
    unittest.main()
