#!/usr/bin/env python3
"""Prints what is linked into the binary as a bill of materials (CycloneDX 1.6, JSON): packaging/sbom.py TARGET

The same commit gives the same octets: the number of the document is made from its content, and it has no time.
"""

import importlib.util
import json
import pathlib
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent


def third_party():
    """packaging/third-party.py, whose name is none of a module."""
    spec = importlib.util.spec_from_file_location("third_party", ROOT / "packaging/third-party.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def component(package, checksums):
    name, version = package["name"], package["version"]
    purl = f"pkg:cargo/{name}@{version}"
    found = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if package["license"]:
        # Some packages still write the older form of an expression.
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum := checksums.get((name, version)):
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return found


def main():
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(package["name"], package["version"]): package.get("checksum") for package in lock["package"]}
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    modules = third_party()
    components = [component(package, checksums) for package in modules.linked(sys.argv[1])]
    components += [
        {"type": "library", "bom-ref": f"asset:{path.suffix[1:]}", "name": path.suffix[1:], "description": "part of the page of the report"}
        for path in sorted(modules.ASSETS.glob("LICENSE.*"))
    ]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "ldplayer", "name": "ldplayer", "version": version, "purl": f"pkg:cargo/ldplayer@{version}"}},
        "components": components,
        "dependencies": [{"ref": "ldplayer", "dependsOn": [part["bom-ref"] for part in components]}],
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    print(json.dumps({"serialNumber": f"urn:uuid:{number}", **document}, indent=1))


if __name__ == "__main__":
    main()
