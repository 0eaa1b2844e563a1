#!/usr/bin/env bash
# Runs the recipes of docs/sets.md as they stand there, with PySpark (local mode, from PyPI, 400 MB, fetched once) and DuckDB, on a set of the bundled captures:
# scripts/spark.sh [LDPLAYER]. Takes Java 17.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
ldplayer=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/debug/ldplayer}")
place=$(realpath -m "${CARGO_TARGET_DIR:-target}/tools/spark")
python=$place/bin/python
if ! "$python" -c 'import pyspark, duckdb' 2>/dev/null; then
    echo "scripts/spark.sh: fetching pyspark and duckdb from PyPI (once)" >&2
    python3 -m venv "$place"
    "$python" -m pip install --quiet --disable-pip-version-check 'pyspark>=4,<5' 'duckdb>=1.4' >&2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir bin
ln -s "$ldplayer" bin/ldplayer
export PATH=$work/bin:$PATH PYSPARK_PYTHON=$python

printf '%s\n' "$root"/data/*.pcap.xz >files
"$python" - "$root/docs/sets.md" <<'END'
import re
import subprocess
import sys
from pathlib import Path

recipes = re.findall(r"```python\n(.*?)```", Path(sys.argv[1]).read_text(), re.DOTALL)
by_spark, by_duckdb, as_scheduler = recipes
names = {}
# The set is made by tasks of Spark, and read by Spark and by DuckDB.
exec("from pyspark.sql import SparkSession\nspark = SparkSession.builder.master('local[*]').getOrCreate()", names)
exec(as_scheduler, names)
names["spark"].stop()
exec(by_spark, names)
spark_rows = names["trace"].count()
exec(by_duckdb, names)
duckdb_rows = names["trace"].count("*").fetchall()[0][0]
told = subprocess.run(["ldplayer", "inspect", "set", "--json"], capture_output=True, check=True, text=True).stdout
ours = int(re.search(r'"transactions": (\d+)', told).group(1))
assert spark_rows == duckdb_rows == ours > 0, (spark_rows, duckdb_rows, ours)
print(f"spark.sh: {ours} transactions, by Spark, DuckDB and ldplayer alike")
END
