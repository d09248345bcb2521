"""What a run costs: counted from the protocol, and timed by a short probe with the reference's engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROBE_TOKENS = 192


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A short measurement with the reference's model."""

    tokens_per_s: float
    row_bytes: float
    """Stored bytes a row of the capture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a run costs."""

    executions: int
    tokens: int
    """Tokens that all engines evaluate together."""
    tokens_left: int | None
    """Of these, what is not in the store yet, the reference's repeats included; None when no weight file was read."""
    positions: int
    """Rows that are taken."""
    full_bytes: int
    """What their full distributions would take at 2 bytes an entry."""
    spill_bytes: int
    """Room that the reference's full rows take while a group is at work."""
    groups: int
    stored_bytes: int | None
    """What is stored instead; None without a probe."""
    seconds_left: float | None


def measure_probe(loaded, reference) -> Probe:
    """Score the first ``PROBE_TOKENS`` tokens of the longest window with the reference's engine."""
    import contextlib

    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from drift_runs.capture.score import WindowTask, score_window
    from drift_runs.capture.score_listed import score_listed_window
    from drift_runs.engines.registry import open_engine

    tokens = max((loaded.tokens(window.name) for window in loaded.protocol.windows), key=len)[:PROBE_TOKENS]
    share = sum(scored_of(window) for window in loaded.protocol.windows) / sum(
        window.scored[-1][1] - 1 for window in loaded.protocol.windows
    )
    # As large a part of the positions as the protocol scores: the output matrix and our analysis cost per position.
    first = max(1, round(len(tokens) * (1 - share)))
    task = WindowTask(
        window="probe",
        role="prompt",
        tokens=np.asarray(tokens, dtype=np.int32),
        positions=np.arange(first, len(tokens), dtype=np.int32),
        top_k=loaded.protocol.capture.top_k,
        dictionary_size=loaded.protocol.dictionary.size,
    )
    with contextlib.closing(open_engine(reference.opening(task.dictionary_size))) as engine:
        # Warm: the first run reads the file and allocates, and a server fills its cache.
        if reference.listed:
            score_listed_window(engine, task)
            scored = score_listed_window(engine, task)
        else:
            score_window(engine, task)
            scored = score_window(engine, task, analysis_threads=reference.settings.threads)
    sink = pa.BufferOutputStream()
    pq.write_table(scored.rows, sink, compression="zstd", compression_level=3)
    return Probe(
        tokens_per_s=(len(tokens) - 1) / (scored.engine_s + scored.own_s),
        row_bytes=sink.getvalue().size / scored.rows.num_rows,
    )


def estimate_of(
    loaded, follow_ups, executions, probe: Probe | None, store: Path, spill_bytes: int, more: int
) -> Estimate:
    """Counts from the protocol; bytes and time when a probe was made. ``more``: tokens of arms that are not among the
    executions, because nothing is known of their servers."""
    from drift_runs.capture.group import evaluated_tokens, full_row_bytes, groups, pending
    from drift_runs.protocol.model import WRITERS
    from drift_runs.store import Store

    protocol = loaded.protocol
    names = [window.name for window in protocol.windows]
    runs = [names] * sum(arm.launches for arm in (*protocol.arms, *follow_ups) if arm.engine not in WRITERS)
    runs += [list(floor.windows) or names for floor in protocol.floors]
    tokens = sum(evaluated_tokens(loaded, name) for windows in runs for name in windows)
    positions = sum(scored_of(protocol.window(name)) for windows in runs for name in windows)
    reference = sum(map(scored_of, protocol.windows))
    parts = groups(loaded, spill_bytes)
    left = None
    if executions is not None:
        left = more + sum(
            evaluated_tokens(loaded, step.window)
            for part in parts
            for launch in pending(Store(store), executions, part)
            for step in launch.steps
        )
    stored = None
    if probe is not None:
        stored = round(positions * probe.row_bytes + (positions - reference) * comparison_row_bytes())
    return Estimate(
        executions=len(runs),
        tokens=tokens,
        tokens_left=left,
        positions=positions,
        full_bytes=positions * protocol.dictionary.size * 2,
        spill_bytes=max(sum(scored_of(protocol.window(name)) for name in part) for part in parts)
        * full_row_bytes(loaded),
        groups=len(parts),
        stored_bytes=stored,
        seconds_left=left / probe.tokens_per_s if probe is not None and left is not None else None,
    )


def comparison_row_bytes() -> float:
    """Upper bound of one stored row of a comparison: its columns before compression."""
    from drift_runs import schema

    bits = 0
    for field in schema.COMPARISON:
        index = getattr(field.type, "index_type", field.type)
        bits += index.bit_width
    return bits / 8


def scored_of(window) -> int:
    """Scored positions of a window."""
    return sum(end - start for start, end in window.scored)


def size(count: float) -> str:
    """``12 MB``, ``3.4 GB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
