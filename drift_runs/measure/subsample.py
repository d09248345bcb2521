"""Would a sample of the positions have seen it? Simulated probes of rows that are all there.

Published probes score one position in 32 or so. From the full rows of an arm such probes are simulated: every stride-th
position, each phase once (so nothing is drawn and nothing is left to chance), and as many positions drawn at random
inside each panel. Each probe is asked what the full rows answer: which range is the worst, the mean divergence, whether
the strong overturns are among its positions, and how wide the interval of the curve over history is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.errors import NotComparable
from drift_runs.measure.intervals import Resampler, plural
from drift_runs.measure.outliers import WITH, WITHOUT, outlier_mask
from drift_runs.measure.positions import positions_of
from drift_runs.measure.probes import Chosen, ProbePanel, Seen
from drift_runs.protocol.model import Protocol
from drift_runs.schema import SUBSAMPLE

Floats = NDArray[np.float64]

PHASE = "phase"
RANDOM = "random"
STRIDES = (8, 16, 32, 64)
RANDOM_DRAWS = 500
WIDTH_DRAWS = 50
"""Random probes whose intervals over history are computed: each takes a bootstrap a bucket, and only their median is
reported."""
STATISTICS = ("p95", "mean", "rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One question to the probes of one kind and stride; the fields are those of ``SUBSAMPLE`` without the arm.

    ``worst_range.*``: ``value`` is the share of probes that miss the range that the full rows name; the three counts
    add up to them. ``seen``: mean share of the strong overturns that a probe holds, ``none_named`` the probes that hold
    none. ``max``: share of probes that hold the position with the largest divergence. ``mean``: the probes' mean error
    relative to the full mean, and between which ends 95 % of them lie. ``history_width``: width of the interval of a
    history bucket's mean relative to that of the full rows, the median over buckets and then over probes.
    """

    outliers: str
    probe: str
    stride: int
    probes: int
    positions: int
    sampled: int
    spec: str
    statistic: str
    named: str = ""
    full_value: float | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    not_nameable: int | None = None
    another_named: int | None = None
    none_named: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsampleResult:
    """What the probes of one arm found, with and without the declared outlier windows."""

    arm: str
    findings: tuple[Finding, ...]

    def find(self, *, probe: str, stride: int, statistic: str, outliers: str = WITH) -> Finding | None:
        """One finding; a statistic has one spec in a result. None when it was not simulated."""
        wanted = (outliers, probe, stride, statistic)
        return next((f for f in self.findings if (f.outliers, f.probe, f.stride, f.statistic) == wanted), None)

    def table(self) -> pa.Table:
        """Schema ``SUBSAMPLE``."""
        columns = {"arm": pa.array([self.arm] * len(self.findings), type=pa.string())}
        for name in _FIELDS:
            values = [getattr(finding, name) for finding in self.findings]
            columns[name] = pa.array(values, type=SUBSAMPLE.field(name).type)
        return pa.table(columns, schema=SUBSAMPLE)

    @classmethod
    def of_table(cls, table: pa.Table) -> SubsampleResult:
        """The result that :meth:`table` wrote."""
        rows = table.to_pylist()
        findings = tuple(Finding(**{name: row[name] for name in _FIELDS}) for row in rows)
        return cls(arm=rows[0]["arm"] if rows else "", findings=findings)


_FIELDS = tuple(field.name for field in fields(Finding))


def subsample(
    comparison: pa.Table,
    protocol: Protocol,
    *,
    arm: str,
    strides: Sequence[int] = STRIDES,
    random_draws: int = RANDOM_DRAWS,
    generator: np.random.Generator,
) -> SubsampleResult:
    """Simulate probes of a table of schema ``COMPARISON`` that holds every scored position of an arm.

    ``strides``: a probe takes one position in so many, at least 2. ``random_draws``: probes of the same size that are
    drawn without replacement inside each panel, by ``generator``; 0 leaves them out. ``ValueError`` for other numbers,
    ``NotComparable`` for rows of windows that the protocol lacks.
    """
    if random_draws < 0 or not all(stride >= 2 for stride in strides):
        raise ValueError(f"strides {tuple(strides)}, {random_draws} draws: expected strides from 2 and draws from 0")
    # In the protocol's order, whatever the order of the rows: ties and draws then fall out the same.
    positions = positions_of(comparison, windows=tuple(window.name for window in protocol.windows))
    if len(positions) != comparison.num_rows:
        rows = plural(comparison.num_rows - len(positions), "row")
        raise NotComparable(f"{rows} of other windows", expected=f"windows of protocol {protocol.name}")
    resampler = Resampler.of(protocol)
    findings: list[Finding] = []
    for outliers in (WITH, WITHOUT) if protocol.outliers else (WITH,):
        panel = ProbePanel(positions.take(outlier_mask(positions, protocol, outliers)), protocol, resampler)
        for stride in strides:
            findings += _findings(panel, outliers, PHASE, stride, panel.phases(stride), stride)
            if random_draws:
                samples = panel.draws(stride, random_draws, generator)
                findings += _findings(panel, outliers, RANDOM, stride, samples, WIDTH_DRAWS)
    return SubsampleResult(arm=arm, findings=tuple(findings))


def _findings(
    panel: ProbePanel, outliers: str, probe: str, stride: int, samples: Iterator[Chosen], widths: int
) -> Iterator[Finding]:
    """Every question to the samples; the intervals over history are those of the first ``widths`` samples."""
    seen: list[Seen] = []
    ratios: list[float] = []
    lost = 0
    for chosen in samples:
        seen.append(panel.seen(chosen))
        if len(seen) <= widths:
            relative = panel.widths(chosen) / panel.full_widths
            known = np.isfinite(relative)
            lost += int((np.isfinite(panel.full_widths) & ~known).sum())
            if known.any():
                ratios.append(float(np.median(relative[known])))
    common = {
        "outliers": outliers,
        "probe": probe,
        "stride": stride,
        "probes": len(seen),
        "positions": len(panel.positions),
        "sampled": int(np.median([one.size for one in seen])),
    }
    for statistic in STATISTICS:
        yield _missed(panel, common, statistic, seen)
    yield _overturns(panel, common, seen)
    yield _largest(panel, common, seen)
    yield _error(panel, common, seen)
    yield _history(panel, common, ratios, lost, min(len(seen), widths))


def _missed(panel: ProbePanel, common: dict, statistic: str, seen: list[Seen]) -> Finding:
    spec = "flip" if statistic == "rate" else panel.spec
    shared = {**common, "spec": spec, "statistic": f"worst_range.{statistic}"}
    worst = panel.full.worst[statistic]
    if worst.at < 0:
        reason = "all positions name no range: "
        reason += "no value is above 0" if worst.known.any() else "no range is firm or indicative"
        return Finding(**shared, reason=reason)
    missed = [one.worst[statistic] for one in seen if one.worst[statistic].at != worst.at]
    not_nameable = sum(not bool(other.known[worst.at]) for other in missed)
    none_named = sum(bool(other.known[worst.at]) and other.at < 0 for other in missed)
    return Finding(
        **shared,
        named=panel.protocol.ranges[worst.at].name,
        full_value=worst.value,
        value=len(missed) / len(seen),
        not_nameable=not_nameable,
        another_named=len(missed) - not_nameable - none_named,
        none_named=none_named,
    )


def _overturns(panel: ProbePanel, common: dict, seen: list[Seen]) -> Finding:
    shared = {**common, "spec": "strong_overturn", "statistic": "seen"}
    count = panel.full.overturns
    if count == 0:
        return Finding(**shared, full_value=0.0, reason="all positions have no strong overturn")
    return Finding(
        **shared,
        full_value=float(count),
        value=float(np.mean([one.overturns / count for one in seen])),
        none_named=sum(one.overturns == 0 for one in seen),
    )


def _largest(panel: ProbePanel, common: dict, seen: list[Seen]) -> Finding:
    shared = {**common, "spec": panel.spec, "statistic": "max"}
    if panel.largest < 0:
        return Finding(**shared, reason="no position has a finite divergence")
    window = panel.positions.windows[panel.positions.window[panel.largest]]
    return Finding(
        **shared,
        named=f"{window}, position {panel.positions.position[panel.largest]}",
        full_value=float(panel.values[panel.largest]),
        value=float(np.mean([one.largest for one in seen])),
        none_named=sum(not one.largest for one in seen),
    )


def _error(panel: ProbePanel, common: dict, seen: list[Seen]) -> Finding:
    shared = {**common, "spec": panel.spec, "statistic": "mean"}
    full = panel.full.mean
    if not full > 0:  # true for NaN too
        reason = "the full mean is not above 0" if np.isfinite(full) else "no position has a finite divergence"
        return Finding(**shared, full_value=full if np.isfinite(full) else None, reason=reason)
    errors = np.array([one.mean for one in seen if np.isfinite(one.mean)]) / full - 1
    empty = len(seen) - len(errors)
    left_out = f"{plural(empty, 'sample')} without a position left out" if empty else ""
    if len(errors) == 0:
        return Finding(**shared, full_value=full, reason=left_out)
    low, high = np.quantile(errors, [0.025, 0.975])
    return Finding(
        **shared,
        full_value=full,
        value=float(errors.mean()),
        low=float(low),
        high=float(high),
        reason=left_out,
    )


def _history(panel: ProbePanel, common: dict, ratios: list[float], lost: int, probes: int) -> Finding:
    shared = {**common, "spec": panel.spec, "statistic": "history_width"}
    known = np.isfinite(panel.full_widths)
    if not known.any():
        unit = panel.clusters.unit
        return Finding(**shared, reason=f"no history bucket of all positions has an interval between {unit}s")
    buckets = int(known.sum())
    full = float(np.median(panel.full_widths[known]))
    notes = [] if probes == common["probes"] else [f"of the first {probes} samples"]
    if lost:
        notes.append(f"{lost:,} of {buckets * probes:,} bucket intervals do not exist in a sample")
    if not ratios:
        return Finding(**shared, full_value=full, reason="; ".join(notes))
    low, high = np.quantile(ratios, [0.025, 0.975])
    return Finding(
        **shared,
        full_value=full,
        value=float(np.median(ratios)),
        low=float(low),
        high=float(high),
        reason="; ".join(notes),
    )
