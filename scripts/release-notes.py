#!/usr/bin/env python3
"""Puts the fragments of changelog.d together as release notes.

scripts/release-notes.py VERSION            prints the notes: what CHANGELOG.md has of the version, and the fragments
scripts/release-notes.py VERSION --collect  writes them to CHANGELOG.md, and removes the fragments
"""

import argparse
import datetime
import pathlib
import re
import sys

KINDS = {"added": "Added", "changed": "Changed", "fixed": "Fixed", "removed": "Removed"}
NAME = re.compile(r"[a-z0-9][a-z0-9-]*\.(" + "|".join(KINDS) + r")\.md")


class Wrong(Exception):
    """What keeps the notes from being made, in one line."""


def fragments(directory):
    """The fragments by kind, each kind in the order of the names."""
    found = {kind: [] for kind in KINDS}
    for path in sorted(directory.iterdir()):
        if path.name == "README.md":
            continue
        if not NAME.fullmatch(path.name):
            raise Wrong(f"{path.name}: expected NAME.KIND.md, with KIND one of {', '.join(KINDS)}")
        text = path.read_text().strip()
        if not text or text.startswith("#"):
            raise Wrong(f"{path.name}: expected sentences without a heading")
        found[path.name.split(".")[1]].append((path, text))
    return found


def section(version, date, found, old=""):
    """The notes of a release; what it has already stays, each kind's own before what is new."""
    head, *parts = re.split(r"^### ", old or f"## {version} ({date})\n", flags=re.MULTILINE)
    bodies = {title: body.strip() for title, _, body in (part.partition("\n") for part in parts)}
    for kind, title in KINDS.items():
        items = [f"- {text.replace(chr(10), chr(10) + '  ')}" for _, text in found[kind]]
        bodies[title] = "\n".join(filter(None, [bodies.get(title), *items]))
    lists = (f"### {title}\n\n{bodies[title]}" for title in KINDS.values() if bodies[title])
    return "\n\n".join([head.strip(), *lists]) + "\n"


def released(changelog, version):
    """Where the section of a version begins and ends; an empty place for a new one, above those of earlier releases."""
    found = re.search(rf"^## {re.escape(version)}[ \n].*?(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found:
        return found.span()
    first = re.search(r"^## ", changelog, re.MULTILINE)
    place = first.start() if first else len(changelog)
    return place, place


def collect(root, changelog, notes, place, found):
    before, after = changelog[: place[0]].rstrip(), changelog[place[1] :]
    (root / "CHANGELOG.md").write_text("\n".join(filter(None, [f"{before}\n", notes, after])))
    for of_kind in found.values():
        for path, _ in of_kind:
            path.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("--collect", action="store_true", help="write CHANGELOG.md and remove the fragments")
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help="day of the release; today unless given")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    changelog = (arguments.root / "CHANGELOG.md").read_text()
    place = released(changelog, arguments.version)
    old = changelog[place[0] : place[1]]
    found = fragments(arguments.root / "changelog.d")
    if not old and not any(found.values()):
        raise Wrong("changelog.d: has no fragments, and CHANGELOG.md has no such version")
    notes = section(arguments.version, arguments.date, found, old)
    if arguments.collect:
        return collect(arguments.root, changelog, notes, place, found)
    print(notes, end="")


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.exit(f"scripts/release-notes.py: {wrong}")
