#!/usr/bin/env bash
# Makes a Python with DuckDB and pandas, which docs/editing.md uses, what experiments/figures draws with, what runs docs/tutorial.ipynb, and what reads the types of python/, once in the build folder; prints where it is.
set -euo pipefail
cd "$(dirname "$0")/.."
place=${1:-${CARGO_TARGET_DIR:-target}/tools/python}
wanted="import duckdb, pandas, pyarrow, matplotlib, tomli_w, nbclient, ipykernel, mypy"
# Tests ask for it at the same time.
mkdir -p "$place"
exec 9>"$place/.lock"
flock 9

if ! "$place/bin/python" -c "$wanted" 2>/dev/null; then
    echo "scripts/python.sh: fetching duckdb, pandas, pyarrow, matplotlib, tomli-w, mypy and what runs notebooks from PyPI (once)" >&2
    python3 -m venv "$place"
    "$place/bin/python" -m pip install --quiet --disable-pip-version-check 'duckdb>=1.4' 'pandas>=2.2' 'pyarrow>=18' 'matplotlib>=3.9' 'tomli-w>=1.1' 'nbclient>=0.10' 'ipykernel>=6' 'mypy>=1.11' >&2
    "$place/bin/python" -c "$wanted"
fi
echo "$place/bin/python"
