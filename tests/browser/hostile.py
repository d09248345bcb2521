"""A real campaign of the tiny model whose futures were written over with everything that may harm a reader's screen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from drift_runs import schema
from drift_runs.generate.future import Future
from drift_runs.generate.futures import future_row
from drift_runs.tracking import artifacts, reader
from tests.campaigns import Campaign
from tests.test_campaign_generation import prepared

LONG = "x" * 10_000
SCRIPT = "<script>document.title='owned'</script>"
IMAGE = "<img src=x onerror=\"document.title='owned'\">"
TEXTS = (
    SCRIPT.encode(),
    IMAGE.encode(),
    "\u202edlrow\u202c".encode(),
    b"\x1b[31mred\x1b[0m",
    LONG.encode(),
    "😀".encode(),
    "あ".encode()[:2],
    "あ".encode()[2:],
    b"\x00\r\n\t ",
    "\u200b\ufeff\u2028".encode(),
    b"[a](http://example.invalid) ![i](http://example.invalid/i.png) $x$ :red[y]",
)
"""Tokens behind the tiny dictionary's own."""
ARM = "q4_0"
ALTERNATIVES = 5


class Hostile(NamedTuple):
    """The store, and the root whose candidate's future holds all of it."""

    campaign: Campaign
    window: str
    position: int
    first: int
    """Id of the first of :data:`TEXTS`."""


def hostile_store(folder: Path, arms: Path) -> Hostile:
    """Run the campaign, then store a dictionary with :data:`TEXTS` and a future that writes each of them."""
    from drift_runs.tracking.mlflow_store import Tracker

    campaign = prepared(folder, arms)
    campaign.run()
    (record,) = campaign.records()
    run_id = next(arm.run_id for arm in record.arms if arm.arm == ARM)
    root = reader.load_roots(campaign.uri, run_id).to_pylist()[0]
    dictionary = [*reader.load_dictionary(campaign.uri, record.run_id)["bytes"].to_pylist(), *TEXTS]
    first = len(dictionary) - len(TEXTS)
    future = _future(root, first, dictionary)
    tracker = Tracker(campaign.uri)
    words = pa.table({"bytes": pa.array(dictionary, pa.binary())}, schema=schema.DICTIONARY)
    tracker.log_files(record.run_id, {artifacts.DICTIONARY_FILE: artifacts.parquet_bytes(words, schema.DICTIONARY)})
    futures = reader.load_futures(campaign.uri, run_id).to_pylist()
    futures = [future_row(future) if _same(row, root, root["candidate_top"]) else row for row in futures]
    outcomes = reader.load_outcomes(campaign.uri, run_id).to_pylist()
    outcomes = [_outcome(row, future) if _same(row, root) and row["pair"] == "branch" else row for row in outcomes]
    tracker.log_files(
        run_id,
        {
            artifacts.FUTURES_FILE: _table(futures, schema.FUTURES),
            artifacts.OUTCOMES_FILE: _table(outcomes, schema.OUTCOMES),
        },
    )
    return Hostile(campaign, root["window"], root["position"], first)


def _same(row: dict, root: dict, first: int | None = None) -> bool:
    return (row["window"], row["position"]) == (root["window"], root["position"]) and first in (None, row.get("first"))


def _table(rows: list[dict], wanted: pa.Schema) -> bytes:
    return artifacts.parquet_bytes(pa.Table.from_pylist(rows, schema=wanted), wanted)


def _future(root: dict, first: int, dictionary: list[bytes]) -> Future:
    written = list(range(first, len(dictionary)))
    tokens = [root["candidate_top"], *written]
    text = b"".join(dictionary[token] for token in tokens)
    best = tuple(tuple(sorted({token, *range(first, first + ALTERNATIVES)})[:ALTERNATIVES]) for token in written)
    return Future(
        window=root["window"],
        position=root["position"],
        first=tokens[0],
        best=tokens[0],
        tokens=tuple(tokens),
        written=(False, *(True for _ in written)),
        logprobs=(None, *(-0.25 * at for at in range(len(written)))),
        text=text.decode("utf-8", "replace"),
        ended="horizon",
        turns=1,
        top_ids=((), *best),
        top_logprobs=((), *(tuple(-0.5 * (at + 1) for at in range(len(ids))) for ids in best)),
    )


def _outcome(row: dict, future: Future) -> dict:
    """The same row with hostile texts and calls wherever a model's words may stand."""
    call = {"turn": 0, "name": SCRIPT, "arguments": {IMAGE: "\u202eabc", "long": LONG}}
    other = {"turn": 0, "name": SCRIPT, "arguments": {IMAGE: "\x1b[31m", "long": LONG}}
    difference = {"path": [IMAGE], "reference": "\u202eabc", "candidate": "\x1b[31m"}
    evidence = json.loads(row["evidence"])
    evidence["calls"] = [
        {"equal": False, "settled": True, "reference": call, "candidate": other, "differences": [difference]}
    ]
    evidence["faults"]["candidate"] = {"kind": "does not parse", "turn": 0, "why": IMAGE}
    evidence["literals"] = {"before": "end", "reference": [LONG], "candidate": [SCRIPT]}
    return row | {
        "candidate_text": future.text,
        "candidate_tokens": len(future.tokens),
        "candidate_ended": future.ended,
        "resync_reference": None,
        "resync_candidate": None,
        "evidence": json.dumps(evidence),
    }
