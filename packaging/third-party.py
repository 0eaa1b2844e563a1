#!/usr/bin/env python3
"""Prints the licenses of what is linked into the binary, as its distribution asks for: packaging/third-party.py TARGET

What is linked is asked of cargo: the normal dependencies of the package ldplayer for the target. Their texts are those that came with
their sources; a text that several have is printed once.
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMES = ("license", "licence", "copying", "notice", "unlicense")
# Scripts and the font of the report, which cargo does not know.
ASSETS = ROOT / "crates/report/assets"


def linked(target):
    """The packages in the order of their names, without our own."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    first = next(id for id, package in packages.items() if package["name"] == "ldplayer")
    found, waiting = set(), [first]
    while waiting:
        package = waiting.pop()
        if package not in found:
            found.add(package)
            waiting += [dep["pkg"] for dep in nodes[package]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
    others = (packages[package] for package in found if packages[package]["source"])
    return sorted(others, key=lambda package: (package["name"], package["version"]))


def texts(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    files = (path for path in sorted(folder.iterdir()) if path.is_file() and path.name.lower().startswith(NAMES))
    return [path.read_text(errors="replace").strip() for path in files]


def main():
    by_text = {}
    print("ldplayer links these libraries. Below the list are the texts of their licenses.\n")
    for package in linked(sys.argv[1]):
        name = f"{package['name']} {package['version']}"
        print(f"{name}: {package['license']}")
        for text in texts(package):
            by_text.setdefault(text, []).append(name)
    for path in sorted(ASSETS.glob("LICENSE.*")):
        by_text.setdefault(path.read_text().strip(), []).append(f"{path.suffix[1:]}, of the report")
    for text, names in by_text.items():
        print(f"\n{'-' * 79}\n{', '.join(names)}\n\n{text}")


if __name__ == "__main__":
    main()
