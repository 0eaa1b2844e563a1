"""Makes the figures: python -m figures [--long | --full] [--output DIR] [NAME …]; see `make figures` and experiments/README.md."""

import argparse
import os
import sys
import traceback
from pathlib import Path

from . import pages
from .check import check
from .folder import all_figures
from .stage import ROOT


def main():
    figures = all_figures(Path(os.environ.get("LDPLAYER_EXPERIMENTS", ROOT / "experiments")))
    parser = argparse.ArgumentParser(prog="make figures", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(figures)} (all of them)")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--full", dest="form", action="store_const", const="full", default="small", help="the form that fits a large machine")
    forms.add_argument("--long", dest="form", action="store_const", const="long", help="hours on two cores: what is too short in the small form")
    parser.add_argument("--output", type=Path, default=Path("figures"), help="where they are written (figures)")
    parser.add_argument("--list", action="store_true", help="say which there are, and end")
    parser.add_argument("--check", action="store_true", help="read every file in both forms, run nothing, and end")
    parser.add_argument("--publish", type=Path, metavar="DIR", help="copy pages and pictures here when they are made, as docs/papers has them")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in figures]
    if unknown:
        parser.error(f"no figure is called {', '.join(unknown)}; there are {', '.join(figures)}")
    if given.list:
        return print("\n".join(f"{name:28} {figure.source}: {figure.title}" for name, figure in figures.items()))
    if given.check:
        return "\n".join(check(figures[name]) for name in given.names or figures).strip() or None
    failed = [name for name in given.names or figures if not make(figures[name], figures[name].form(given.form), given)]
    print(f"{given.output}/README.md has one row a claim")
    return f"not made: {', '.join(failed)}" if failed else None


def make(figure, form, given):
    """Makes one figure and its pages; what goes wrong with it is told, and the others are made."""
    print(f"== {figure.name}: {figure.source}, {form} form", flush=True)
    try:
        found = figure.make(form, given.output)
    except Exception:  # noqa: BLE001 (a figure that fails must not take the others with it)
        traceback.print_exc()
        return False
    pages.page(figure, found, given.output / figure.name)
    pages.overview(given.output)
    if given.publish:
        pages.publish(given.output, given.publish)
    for claim in found["claims"]:
        print(f"   {pages.direction(claim):13} {claim['claim']}: {claim['ours']} (theirs: {claim['theirs']})", flush=True)
    return True


sys.exit(main())
