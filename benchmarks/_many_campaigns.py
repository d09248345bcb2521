"""A store of many campaigns, for measuring what reads it.

Numbers at positions are invented; figures are computed from them, and two campaigns are written by the real tracker: a
small one, and one of many positions. Writing a thousand that way takes most of an hour, so the others are copies of the
small one's rows in the database, under run ids, times and protocol names of their own, with links to its artifacts.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from drift_runs.measure.comparability import key_of
from drift_runs.measure.results import Results
from drift_runs.protocol.canonical import canonical_json, protocol_sha256
from drift_runs.protocol.model import Protocol
from drift_runs.schema import COMPARISON
from drift_runs.store import write_table
from drift_runs.tracking.mlflow_store import Tracker
from drift_runs.tracking.tags import CampaignFacts, ComparisonFacts
from drift_runs.tracking.uris import sqlite_uri

ARMS = {
    "launch": 0.0,
    "q8_0": 4e-4,
    "q6_k": 1e-3,
    "q5_0": 4e-3,
    "q4_0": 2e-2,
    "kv-q8_0": 6e-4,
    "kv-q4_0": 6e-3,
    "cut": 8e-2,
}
"""Eight comparisons of a campaign: a floor and seven candidates, by the median of their divergence in nats."""
RESAMPLES = 200
DAY_MS = 86_400_000


class Size(NamedTuple):
    """How much a campaign measures."""

    windows: int
    positions: int
    """Of each window."""


SMALL = Size(6, 400)


class Store(NamedTuple):
    """A store that was made, and how long its parts took."""

    folder: Path
    uri: str
    large: str
    """Run id of the campaign of many positions, the newest."""


def content(name: str, size: Size) -> dict:
    """The parsed content of a protocol file: windows of four kinds of text, one of them declared as an outlier."""
    windows, ranges = [], []
    kinds = ("prose", "code", "json", "tool-call")
    for at in range(size.windows):
        window = f"w{at:03}"
        half = 20 + size.positions // 2
        end = 20 + size.positions
        windows.append(
            {
                "name": window,
                "panel": "P-A" if at % 2 else "P-B",
                "document": f"d{at}",
                "title": window,
                "group": f"g{at % 4}",
                "scored": [[20, end]],
            }
        )
        for number, span in enumerate(((20, half), (half, end))):
            kind = kinds[(at + number) % len(kinds)]
            ranges.append(
                {"name": f"{window}-{number}", "window": window, "kind": kind, "from": span[0], "to": span[1]}
            )
    arms: list[dict] = [{"name": "f16", "role": "reference", "derivative": "stock", "weights": "f16"}]
    for arm in ARMS:
        if arm != "launch":
            weights, kv = ("f16", arm.removeprefix("kv-")) if arm.startswith("kv-") else (arm, "f16")
            arms.append({"name": arm, "role": "candidate", "derivative": "stock", "weights": weights, "kv": kv})
    return {
        "schema": "drift.protocol/1",
        "name": name,
        "version": 1,
        "title": f"A panel of {size.windows * size.positions:,} positions",
        "question": "How long does a page take?",
        "dictionary": {"size": 32, "sha256": "ab" * 32},
        "seeds": {"bootstrap": 11},
        "intervals": {"cluster": "document", "resamples": RESAMPLES},
        "panels": [{"name": "P-A", "title": "A", "role": "prompt"}, {"name": "P-B", "title": "B", "role": "prompt"}],
        "windows": windows,
        "ranges": ranges,
        "outliers": [{"window": "w000", "reason": "It is here so that the switch does something."}],
        "arms": arms,
        "floors": [{"name": "launch", "arm": "f16", "kind": "launch", "rows": "identical"}],
    }


def comparison(protocol: Protocol, arm: str) -> dict[str, pa.Table]:
    """Invented positions of an arm against the reference, window by window."""
    median = ARMS[arm]
    found = {}
    for number, window in enumerate(protocol.windows):
        (start, end), *_ = window.scored
        n = end - start
        of_text = np.random.default_rng(number)
        of_arm = np.random.default_rng([number, *arm.encode()])
        p1 = of_text.beta(2.5, 1.0, n)
        nll = of_text.exponential(1.2, n)
        kl = median * (6.0 if number == 0 else 1.0) * np.exp(of_arm.normal(0.0, 1.6, n))
        flip = of_arm.random(n) < np.minimum(np.sqrt(kl) * (1.05 - p1), 0.9)
        columns = {
            "position": np.arange(start, end),
            "token": of_text.integers(0, 32, n),
            "kl_full_nats": kl,
            "js_full_nats": 0.24 * kl,
            "flip": flip,
            "flip_strict": flip,
            "flip_text": of_arm.random(n) < 0.4,
            "swap": flip,
            "reference_top": np.full(n, 3),
            "candidate_top": np.where(flip, 4, 3),
            "reference_p1": p1,
            "reference_margin": 0.8 * p1,
            "candidate_p1": p1,
            "p_of_candidate_top": np.where(flip, 0.2 * p1, p1),
            "q_of_reference_top": p1,
            "reference_nll_nats": nll,
            "candidate_nll_nats": np.maximum(nll + of_arm.normal(0.0, 1.0, n) * np.sqrt(kl), 0.0),
            "reference_entropy_nats": nll,
            "candidate_entropy_nats": nll,
            "max_abs_dlogit": np.sqrt(kl),
            "row_identical": np.full(n, median == 0.0),
            "flags": np.zeros(n),
        }
        said = {"window": window.name, "role": "prompt", "row_hash": "row.full"}
        arrays = []
        for field in COMPARISON:
            if field.name in said:
                arrays.append(pa.array([said[field.name]] * n).dictionary_encode().cast(field.type))
            elif field.name in columns:
                arrays.append(pa.array(columns[field.name]).cast(field.type))
            else:
                arrays.append(pa.nulls(n, field.type))
        found[window.name] = pa.Table.from_arrays(arrays, schema=COMPARISON)
    return found


def write_campaign(tracker: Tracker, name: str, size: Size, key: str) -> str:
    """Measure and track one campaign; returns its run id."""
    parsed = content(name, size)
    protocol = Protocol.model_validate(parsed)
    digest = protocol_sha256(parsed)
    text = canonical_json(parsed).decode()
    campaign = tracker.start_campaign(_campaign_facts(protocol, digest, key), protocol_text=text, protocol_json=text)
    results = Results(protocol)
    with tempfile.TemporaryDirectory(prefix="drift-bench-") as folder:
        for arm in ARMS:
            kind = "floor" if arm == "launch" else "candidate"
            windows = comparison(protocol, arm)
            whole = pa.concat_tables(windows.values()).unify_dictionaries()
            measured = results.measure(whole, arm=arm, kind=kind)
            run_id = tracker.start_comparison(campaign.run_id, _comparison_facts(protocol, digest, arm, kind)).run_id
            rows = {}
            for window, table in windows.items():
                rows[window] = Path(folder, arm, f"{window}.parquet")
                write_table(rows[window], table, COMPARISON)
            tracker.log_figures(run_id, measured.figures, rows, measured.determinism, measured.listed)
            tracker.complete(run_id)
    across = results.across()
    tracker.log_across(campaign.run_id, pairs=across.pairs, agreement=across.agreement, proposals=across.proposals)
    tracker.complete(campaign.run_id)
    return campaign.run_id


def _campaign_facts(protocol: Protocol, digest: str, key: str) -> CampaignFacts:
    return CampaignFacts(
        protocol_name=protocol.name,
        protocol_version=protocol.version,
        protocol_sha256=digest,
        draft=False,
        title=protocol.title,
        question=protocol.question,
        notes=(),
        outliers=tuple((item.window, item.reason) for item in protocol.outliers),
        reference="f16",
        reference_capture_id="00" * 8,
        campaign_key=key,
        tool_version="0",
    )


def _comparison_facts(protocol: Protocol, digest: str, arm: str, kind: str) -> ComparisonFacts:
    declared = next((item for item in protocol.arms if item.name == arm), protocol.arms[0])
    key = key_of(protocol, protocol_sha256=digest, reference_capture_id="00" * 8)
    return ComparisonFacts(
        comparison_id=f"cmp-{arm}",
        arm=arm,
        title=f"The arm {arm}",
        role=kind,
        derivative=declared.derivative,
        weights=declared.weights,
        weights_observed=f"{declared.weights} with f32 norms",
        kv=declared.kv,
        hardware="a CPU",
        engine="llama_cpp (build 7)",
        settings="",
        capture_id=f"capture-{arm}",
        weight_bytes=100_000_000,
        weights_sha256="cd" * 32,
        comparability=key.as_tags(),
        floor_kind="launch" if kind == "floor" else "",
        rows_expected="identical" if kind == "floor" else "",
    )


def copy_campaign(connection: sqlite3.Connection, campaign: str, copies: int, protocols: int) -> None:
    """Write a campaign's rows in an MLflow database again, ``copies`` times, under ``protocols`` names in turn."""
    tables = {
        name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
        for name in ("experiments", "runs", "tags", "params", "metrics", "latest_metrics")
    }
    family = [campaign] + [
        run_id
        for (run_id,) in connection.execute(
            "SELECT run_uuid FROM tags WHERE key = 'mlflow.parentRunId' AND value = ?", (campaign,)
        )
    ]
    held = {name: [_rows(connection, name, run_id) for run_id in family] for name in tables if name != "experiments"}
    (experiment,) = connection.execute(
        "SELECT experiments.* FROM experiments JOIN runs USING (experiment_id) WHERE run_uuid = ?", (campaign,)
    )
    (last,) = connection.execute("SELECT max(experiment_id) FROM experiments").fetchone()
    for number in range(protocols):
        row = dict(zip(tables["experiments"], experiment, strict=True))
        _insert(connection, "experiments", [row | {"experiment_id": last + 1 + number, "name": f"panel-{number:02}"}])
    for copy in range(copies):
        at = copy % protocols
        names = {run_id: secrets.token_hex(16) for run_id in family}
        for name, by_run in held.items():
            rows = [
                _renamed(row, names, at, copy, experiment_id=last + 1 + at)
                for family_rows in by_run
                for row in family_rows
            ]
            _insert(connection, name, rows)
        for row in (row for family_rows in held["runs"] for row in family_rows):
            _link(Path(row["artifact_uri"].removeprefix("file://")), row["run_uuid"], names[row["run_uuid"]])
    connection.commit()


def _renamed(row: dict, names: dict[str, str], at: int, copy: int, *, experiment_id: int) -> dict:
    """A row of a copy: run ids, protocol name, times and place are its own."""
    new = dict(row)
    new["run_uuid"] = names[row["run_uuid"]]
    earlier_ms = (copy + 1) * DAY_MS
    for when in ("start_time", "end_time", "timestamp"):
        if new.get(when) is not None:
            new[when] -= earlier_ms
    if "artifact_uri" in new:
        new["artifact_uri"] = row["artifact_uri"].replace(row["run_uuid"], new["run_uuid"])
        new["experiment_id"] = experiment_id
    if row.get("key") == "mlflow.parentRunId":
        new["value"] = names[row["value"]]
    if row.get("key") == "drift.campaign_key":
        new["value"] = f"copy-{copy}"
    if row.get("key") == "drift.protocol.name":
        new["value"] = f"panel-{at:02}"
    return new


def _rows(connection: sqlite3.Connection, table: str, run_id: str) -> list[dict]:
    found = connection.execute(f"SELECT * FROM {table} WHERE run_uuid = ?", (run_id,))
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found]


def _insert(connection: sqlite3.Connection, table: str, rows: list[dict]) -> None:
    if rows:
        names = ", ".join(f'"{name}"' for name in rows[0])
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", [tuple(row.values()) for row in rows])


def _link(folder: Path, run_id: str, copy: str) -> None:
    """The artifacts of a copy: links to the files of what it copies."""
    for path in _files(folder):
        target = Path(str(path).replace(run_id, copy))
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, target)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "rows")


def make(folder: Path, *, campaigns: int, protocols: int, large: Size) -> Store:
    """A store of ``campaigns`` campaigns of eight arms under ``protocols`` names, the newest one of many positions."""
    uri = sqlite_uri(folder.absolute() / "mlflow.db")
    tracker = Tracker(uri)
    small = write_campaign(tracker, "small", SMALL, "small")
    with closing(sqlite3.connect(folder / "mlflow.db")) as connection:
        copy_campaign(connection, small, campaigns - 2, protocols)
    return Store(folder, uri, write_campaign(tracker, "large", large, "large"))
