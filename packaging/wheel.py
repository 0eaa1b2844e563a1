#!/usr/bin/env python3
"""Makes a Python wheel of the binary and the package python/ldplayer: packaging/wheel.py STAGE SHARE OUT MACHINE

STAGE holds the binary and the licenses, SHARE manual pages and completions, which are installed below the prefix of the environment. The
binary is static, so that it runs with any C library. Times are those of SOURCE_DATE_EPOCH, so the same files give the same octets. Prints
the wheel's path.
"""

import base64
import hashlib
import os
import re
import sys
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# On PyPI, `ldplayer` belongs to others. The command and what is imported keep their name.
NAME = "ldplayer-dns"
PLATFORMS = ("manylinux2014", "manylinux_2_17", "musllinux_1_1")
METADATA = """\
Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: DNS experimentation testbed: replays recorded DNS traffic precisely on time and reports what happened
License-Expression: (MIT OR Apache-2.0) AND MPL-2.0
{licenses}
Keywords: dns,replay,testbed,benchmark,dnssec
Classifier: Environment :: Console
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Rust
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Internet :: Name Service (DNS)
Classifier: Topic :: Software Development :: Testing :: Traffic Generation
Classifier: Typing :: Typed
Requires-Python: >=3.9
Provides-Extra: arrow
Requires-Dist: pyarrow; extra == "arrow"
Description-Content-Type: text/markdown

The command `ldplayer`, and `import ldplayer` for notebooks: runs as objects with figures, Arrow tables and pictures.
"""
TAG = "py3-none-{platform}_{machine}"
WHEEL = "Wheel-Version: 1.0\nGenerator: ldplayer {version}\nRoot-Is-Purelib: false\n{tags}\n"


def version():
    """That of the workspace."""
    return re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE).group(1)


def contents(stage, share, base, machine):
    """Each file of the wheel: its path there, its octets, and whether it is run."""
    yield f"{base}.data/scripts/ldplayer", (stage / "ldplayer").read_bytes(), True
    package = ROOT / "python" / "ldplayer"
    for path in sorted([*package.glob("*.py"), package / "py.typed"]):
        yield f"ldplayer/{path.name}", path.read_bytes(), False
    for path in sorted(path for path in share.rglob("*") if path.is_file()):
        yield f"{base}.data/data/share/{path.relative_to(share)}", path.read_bytes(), False
    licenses = sorted([*stage.glob("LICENSE*"), stage / "THIRD-PARTY"])
    for path in licenses:
        yield f"{base}.dist-info/licenses/{path.name}", path.read_bytes(), False
    listed = "\n".join(f"License-File: {path.name}" for path in licenses)
    yield f"{base}.dist-info/METADATA", METADATA.format(name=NAME, version=version(), licenses=listed).encode(), False
    tags = "\n".join(f"Tag: {TAG.format(platform=each, machine=machine)}" for each in PLATFORMS)
    yield f"{base}.dist-info/WHEEL", WHEEL.format(version=version(), tags=tags).encode(), False


def main(stage, share, out, machine):
    base = f"{NAME.replace('-', '_')}-{version()}"
    platforms = ".".join(f"{each}_{machine}" for each in PLATFORMS)
    wheel = out / f"{base}-py3-none-{platforms}.whl"
    date = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), 315532800))[:6]  # zip begins in 1980
    record = f"{base}.dist-info/RECORD"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(path, octets, is_run):
            entry = zipfile.ZipInfo(path, date)
            entry.external_attr = (0o100755 if is_run else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, octets)

        lines = []
        for path, octets, is_run in contents(stage, share, base, machine):
            add(path, octets, is_run)
            digest = base64.urlsafe_b64encode(hashlib.sha256(octets).digest()).rstrip(b"=").decode()
            lines.append(f"{path},sha256={digest},{len(octets)}\n")
        add(record, ("".join(lines) + f"{record},,\n").encode(), False)
    print(wheel)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), sys.argv[4])
