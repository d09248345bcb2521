"""Rollouts by kind of prompt: what an average over terminal, mathematics and other scripts hides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.components.cells import table
from dashboard.components.generated import Generated, ends_of, pair_of_rollouts
from dashboard.components.markup import Html, tag
from dashboard.components.rollout_table import READINGS
from dashboard.figures import write_number
from drift_runs.generate.rollouts import Share, compare_rollouts
from drift_runs.measure.resampler import Resampler, plural

if TYPE_CHECKING:
    from drift_runs.protocol.generation import Prompts
    from drift_runs.tracking.records import ArmRecord


class KindReading(NamedTuple):
    """The readings of one arm over the prompts of one kind."""

    arm: str
    kind: str
    n: int
    exact_count: int
    shares: Mapping[str, Share]
    """By spec id of ``READINGS``."""


def kind_readings(found: Generated, arms: Sequence[ArmRecord], prompts: Prompts) -> list[KindReading]:
    """Readings of every arm whose texts are stored, by the kinds that it rolled out, in the panel's order."""
    kinds = {prompt.name: prompt.kind for prompt in prompts.prompts}
    readings = []
    intervals = found.page.protocol.intervals
    drawn = (found.page.protocol.seeds.bootstrap, intervals.resamples, intervals.confidence)
    for arm in arms:
        against, ends = found.run_of(found.against(arm)), ends_of(found.page.protocol, arm)
        readings += _of_arm(found.uri, arm.arm, arm.run_id, against, ends, kinds, drawn)
    return readings


@st.cache_data(ttl=60, show_spinner="Comparing rollouts by kind of prompt …", max_entries=100)
def _of_arm(
    uri: str,
    arm: str,
    run: str,
    against: str,
    ends: tuple[str, ...],
    kinds: dict[str, str],
    drawn: tuple[int, int, float],
) -> list[KindReading]:
    """``drawn``: seed, resamples and confidence of the protocol's intervals."""
    theirs, mine = pair_of_rollouts(uri, against, run, ends)
    seed, resamples, confidence = drawn
    resampler = Resampler(seed=seed, resamples=resamples, confidence=confidence)
    common = set(theirs["prompt"].to_pylist()) & set(mine["prompt"].to_pylist())
    readings = []
    for kind in dict.fromkeys(kinds.values()):
        names = [name for name in kinds if kinds[name] == kind and name in common]
        if not names:
            continue
        compared = compare_rollouts(_only(theirs, names), _only(mine, names), resampler=resampler)
        shares = {
            spec: share for spec, share in zip(READINGS, (compared.exact, compared.prefix, compared.agree), strict=True)
        }
        readings.append(KindReading(arm, kind, len(names), compared.exact_count, shares))
    return readings


def _only(rollouts: pa.Table, names: Sequence[str]) -> pa.Table:
    return rollouts.filter(pc.is_in(rollouts["prompt"], value_set=pa.array(names, pa.string())))


def kinds_table(readings: Sequence[KindReading], spec: str, caption: str) -> Html:
    """Arms as rows, kinds as columns, one reading with its interval and n in each cell."""
    kinds = list(dict.fromkeys(reading.kind for reading in readings))
    cells = {(reading.arm, reading.kind): reading for reading in readings}
    head = [tag("th", "arm", scope="col"), *(tag("th", kind, scope="col") for kind in kinds)]
    body = [
        tag(
            "tr",
            tag("th", arm, scope="row"),
            [tag("td", _cell(cells.get((arm, kind)), spec), data_figure=kind) for kind in kinds],
            data_arm=arm,
        )
        for arm in dict.fromkeys(reading.arm for reading in readings)
    ]
    return table(caption, head, body, label="Rollouts by kind of prompt")


def _cell(reading: KindReading | None, spec: str) -> list[Html]:
    if reading is None:
        return [tag("span", "not rolled out", cls="dr-small")]
    share = reading.shares[spec]
    ends = [
        write_number(end, "share", low=share.low, high=share.high, bare=True)
        for end in (share.low, share.high)
        if end is not None
    ]
    value = write_number(share.value, "share", low=share.low, high=share.high)
    return [
        tag("span", value, cls="dr-value dr-num"),
        tag("span", f"[{', '.join(ends)}]" if ends else "no interval", cls="dr-line dr-small dr-num"),
        tag("span", f"n {reading.n:,}", cls="dr-line dr-small"),
    ]


def kinds_sentence(readings: Sequence[KindReading], spec: str) -> list[object]:
    """Which kind parts soonest, over the arms that part at all."""
    parting = [reading for reading in readings if reading.shares[spec].value < 1]
    if not parting:
        return ["No arm parts in any kind of prompt."]
    worst = min(parting, key=lambda reading: reading.shares[spec].value)
    value = write_number(worst.shares[spec].value, "share")
    few = min(reading.n for reading in readings)
    words = f" in {worst.kind} prompts: {value}, n {worst.n:,}. "
    mind = (
        f"The smallest kind has {plural(few, 'prompt')}, so its interval is wide or there is none." if few < 10 else ""
    )
    return [f"The smallest {READINGS[spec]} is that of ", tag("b", worst.arm), words, mind]


def kinds_csv(readings: Sequence[KindReading]) -> list[dict[str, object]]:
    """Every reading of every kind."""
    return [
        {
            "arm": reading.arm,
            "kind": reading.kind,
            "spec": spec,
            "value": share.value,
            "low": share.low,
            "high": share.high,
            "n": reading.n,
            "exact_count": reading.exact_count,
        }
        for reading in readings
        for spec, share in reading.shares.items()
    ]
