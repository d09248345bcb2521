"""Figures with intervals of ten million positions in bounded memory, beside the time to read the same tables.

5,120 windows of 2,047 positions in 842 documents are read one at a time, as a store would give them, and summed by
``measure.shards``. The bare side reads the same files and drops them. Each side is a fresh process, whose peak memory
the system reports; the difference of the two peaks is what the summary costs. Seconds are those of the processor, which
other work on the machine does not lengthen. 64 files are written and read in turn
under other window names: ten million rows on disk would measure the disk.

``DRIFT_BENCH_WINDOWS`` sets another number of windows.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from drift_runs.protocol.model import Protocol
from drift_runs.schema import COMPARISON
from drift_runs.store import read_table, write_table

WINDOWS = int(os.environ.get("DRIFT_BENCH_WINDOWS", "5120"))
POSITIONS = 2047
CLUSTERS = 842
FILES = 64
RESAMPLES = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One process."""

    cpu_s: float
    figures_s: float
    """Of these, from the sums to the table of figures."""
    peak_bytes: int
    positions: int
    figures: int


def protocol() -> Protocol:
    """A panel of ``WINDOWS`` windows in ``CLUSTERS`` documents and four groups."""
    return Protocol.model_validate(
        {
            "schema": "drift.protocol/1",
            "name": "ten-million",
            "version": 1,
            "title": "A large panel",
            "question": "How much memory do its figures take?",
            "seeds": {"bootstrap": 7},
            "capture": {"full_vocabulary": "no"},
            "intervals": {"resamples": RESAMPLES},
            "panels": [{"name": "P", "title": "P", "role": "prompt"}],
            "windows": [
                {
                    "name": f"w{at}",
                    "panel": "P",
                    "document": f"d{at % CLUSTERS}",
                    "title": f"w{at}",
                    "group": f"g{at % 4}",
                    "scored": [[1, POSITIONS + 1]],
                }
                for at in range(WINDOWS)
            ],
            "ranges": [],
            "arms": [
                {"name": name, "role": role, "derivative": "stock", "weights": "f16", "engine": "imported"}
                for name, role in (("a", "reference"), ("b", "candidate"))
            ],
        }
    )


def write_files(folder: Path) -> None:
    """``FILES`` comparisons of one window each: every column that full rows fill is filled."""
    generator = np.random.default_rng(1)
    for at in range(FILES):
        p1 = generator.beta(3, 1, POSITIONS)
        columns = {
            "kl_full_nats": generator.lognormal(-4 + generator.normal(), 2, POSITIONS),
            "js_full_nats": generator.lognormal(-5, 2, POSITIONS),
            "reference_p1": p1,
            "candidate_p1": np.clip(p1 + generator.normal(0, 0.02, POSITIONS), 0, 1),
            "reference_nll_nats": generator.exponential(1.5, POSITIONS),
            "candidate_nll_nats": generator.exponential(1.5, POSITIONS),
            "dp": generator.normal(0, 0.02, POSITIONS),
            "reference_entropy_nats": generator.gamma(2, 0.7, POSITIONS),
            "candidate_entropy_nats": generator.gamma(2, 0.7, POSITIONS),
        }
        arrays = []
        for field in COMPARISON:
            if pa.types.is_dictionary(field.type):
                array = pa.array(["-"] * POSITIONS).dictionary_encode().cast(field.type)
            elif field.name == "position":
                array = pa.array(np.arange(1, POSITIONS + 1), type=field.type)
            elif field.name in columns:
                array = pa.array(columns[field.name], type=field.type)
            elif pa.types.is_boolean(field.type):
                array = pa.array(generator.random(POSITIONS) < 0.05)
            elif field.name == "top_k":
                array = pa.array(np.full(POSITIONS, 20), type=field.type)
            elif pa.types.is_integer(field.type):
                array = pa.array(np.zeros(POSITIONS), type=field.type)
            else:
                array = pa.array(generator.random(POSITIONS).astype(np.float32), type=field.type)
            arrays.append(array)
        write_table(folder / f"{at}.parquet", pa.Table.from_arrays(arrays, schema=COMPARISON), COMPARISON)


def tables(folder: Path) -> Iterator[pa.Table]:
    """Every window's table, one at a time."""
    kind = COMPARISON.field("window").type
    codes = pa.array(np.zeros(POSITIONS, dtype=np.int16))
    for at in range(WINDOWS):
        table = read_table(folder / f"{at % FILES}.parquet", COMPARISON)
        named = pa.DictionaryArray.from_arrays(codes, pa.array([f"w{at}"])).cast(kind)
        yield table.set_column(0, COMPARISON.field("window"), named)


def side(kind: str, folder: Path) -> Side:
    """The work of one process."""
    from drift_runs.measure.shard_summary import ShardSummary
    from drift_runs.measure.shards import shard_table

    panel = protocol()
    positions = figures = 0
    figures_s = 0.0
    started = time.process_time()
    if kind == "bare":
        positions = sum(table.num_rows for table in tables(folder))
    else:
        summary = ShardSummary(panel)
        for table in tables(folder):
            summary.feed(table)
        positions = int(summary.rows.sum())
        fed = time.process_time()
        figures = shard_table(summary, arm="b").num_rows
        figures_s = time.process_time() - fed
    cpu_s = time.process_time() - started
    unit = 1 if sys.platform == "darwin" else 1024
    return Side(
        cpu_s=cpu_s,
        figures_s=figures_s,
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit,
        positions=positions,
        figures=figures,
    )


def in_a_process(kind: str, folder: Path) -> Side:
    command = [sys.executable, "-m", "benchmarks.ten_million", kind, str(folder)]
    return Side(**json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="drift-bench-") as name:
        write_files(Path(name))
        in_a_process("bare", Path(name))  # the first process reads the libraries from the disk
        bare = in_a_process("bare", Path(name))
        summed = in_a_process("summary", Path(name))
    more = (summed.peak_bytes - bare.peak_bytes) / 1e6
    print(f"positions        {summed.positions:,} in {WINDOWS:,} windows, {CLUSTERS} documents, {RESAMPLES} resamples")
    print(f"reading alone    {bare.cpu_s:.1f} CPU s, peak {bare.peak_bytes / 1e6:.0f} MB")
    print(f"with figures     {summed.cpu_s:.1f} CPU s, peak {summed.peak_bytes / 1e6:.0f} MB")
    print(f"                 of these {summed.figures_s:.1f} CPU s for {summed.figures:,} figures")
    print(f"ratio            {summed.cpu_s / bare.cpu_s:.2f}")
    print(f"memory for it    {more:.0f} MB, {more * 1e6 / summed.positions:.0f} bytes a position")


if __name__ == "__main__":
    print(json.dumps(asdict(side(sys.argv[1], Path(sys.argv[2])))))
