"""Protocols and comparison tables of known content, built through the real models and schemas."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from drift_runs.protocol.model import Protocol
from drift_runs.schema import COMPARISON

ProtocolMaker = Callable[..., Protocol]
TableMaker = Callable[..., pa.Table]


@pytest.fixture
def make_protocol() -> ProtocolMaker:
    """``spans``: window -> (panel, document, scored spans); each scored span is a range named ``<window>-<n>``."""

    def make(
        spans: dict[str, tuple[str, str, list[tuple[int, int]]]],
        *,
        outliers: tuple[str, ...] = (),
        kinds: tuple[str, ...] = ("prose", "code", "cli"),
        **settings: object,
    ) -> Protocol:
        panels = list(dict.fromkeys(panel for panel, _, _ in spans.values()))
        ranges = []
        for window, (_, _, scored) in spans.items():
            for at, (start, end) in enumerate(scored):
                kind = kinds[len(ranges) % len(kinds)]
                ranges.append({"name": f"{window}-{at}", "window": window, "kind": kind, "from": start, "to": end})
        return Protocol.model_validate(
            {
                "schema": "drift.protocol/1",
                "name": "synthetic",
                "version": 1,
                "title": "Synthetic",
                "question": "Do the sums add up?",
                "dictionary": {"size": 100, "sha256": "0" * 64},
                "seeds": {"bootstrap": 7},
                "panels": [{"name": name, "title": name, "role": "prompt"} for name in panels],
                "windows": [
                    {
                        "name": name,
                        "panel": panel,
                        "document": document,
                        "title": name,
                        "stream": f"streams/{document}.json",
                        "scored": scored,
                    }
                    for name, (panel, document, scored) in spans.items()
                ],
                "ranges": ranges,
                "outliers": [{"window": name, "reason": "declared before any result"} for name in outliers],
                "arms": [
                    {"name": "f16", "role": "reference", "derivative": "stock", "weights": "f16"},
                    {"name": "q4_0", "role": "candidate", "derivative": "stock", "weights": "q4_0"},
                ],
                **settings,
            }
        )

    return make


@pytest.fixture
def make_table() -> TableMaker:
    """A comparison of every scored position of the protocol; ``columns`` overrides arrays, NaN becoming null."""

    def make(protocol: Protocol, *, windows: tuple[str, ...] | None = None, **columns: object) -> pa.Table:
        names, positions = [], []
        for window in protocol.windows:
            if windows is None or window.name in windows:
                for start, end in window.scored:
                    names += [window.name] * (end - start)
                    positions += range(start, end)
        n = len(positions)
        filled: dict[str, object] = {
            "kl_full_nats": np.zeros(n),
            "flip": np.zeros(n),
            "reference_p1": np.full(n, 0.6),
            "reference_nll_nats": np.ones(n),
            "candidate_nll_nats": np.ones(n),
            "dp": np.zeros(n),
            "reference_entropy_nats": np.ones(n),
            "candidate_entropy_nats": np.ones(n),
            "row_identical": np.ones(n),
            "flags": np.zeros(n),
            "token": np.zeros(n),
            "reference_top": np.zeros(n),
            "candidate_top": np.zeros(n),
            **columns,
        }
        filled.setdefault("flip_strict", filled["flip"])
        arrays: list[pa.Array] = []
        for field in COMPARISON:
            if field.name == "window":
                array = pa.array(names, type=pa.string()).dictionary_encode().cast(field.type)
            elif field.name == "role":
                array = pa.array(["prompt"] * n, type=pa.string()).dictionary_encode().cast(field.type)
            elif field.name == "row_hash":
                array = pa.array(["row.full"] * n, type=pa.string()).dictionary_encode().cast(field.type)
            elif field.name == "position":
                array = pa.array(positions, type=field.type)
            else:
                values = np.broadcast_to(np.asarray(filled.get(field.name, np.nan), dtype=np.float64), n)
                if pa.types.is_boolean(field.type):
                    array = pa.array([None if np.isnan(value) else bool(value) for value in values], type=field.type)
                else:
                    array = pa.array(values, mask=np.isnan(values)).cast(field.type)
            arrays.append(array)
        return pa.Table.from_arrays(arrays, schema=COMPARISON)

    return make
