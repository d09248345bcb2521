"""``drift subsample``: would a sample of the positions have seen what all of them show?"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from drift_runs.cli.run import add_store_arguments

HELP = """Simulate probes of one position in so many from the stored rows of an arm: how often they miss the worst
range, how far their mean lies off, and how wide the interval of the curve over history becomes.

Every phase of each stride is taken once, and as many positions are drawn at random inside each panel. No model is
opened. The result is kept in the store, and 'drift plan' quotes it."""
EXAMPLE = """drift subsample smollm2-quick
drift subsample smollm2-quick --arm q4_0 --stride 32 --json"""

FOLDER = "subsample"
QUOTED_STRIDE = 32
"""Published probes score one position in 32; ``drift plan`` quotes this stride when it was simulated."""

_COLUMNS = (
    ("probe", 15),
    ("n", 6),
    ("missed by p95", 13),
    ("not nameable", 12),
    ("by mean", 7),
    ("by flips", 8),
    ("strong seen", 11),
    ("mean off by [95 %]", 22),
    ("width", 6),
)
_LEGEND = """Missed: the probe does not name the range that all positions show as the worst: by p95, mean, flip rate.
Not nameable: too few positions of it in the probe for a p95. Phases: every start of every stride, so nothing is drawn.
Mean off by: on average over the probes, and between which ends 95 % of them lie.
Width: of the interval of a history bucket's mean, in multiples of its width over all positions."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="protocol file, name of a protocol or import, or a run's id")
    parser.add_argument("--arm", action="append", default=[], help="this arm only; may be given several times")
    parser.add_argument(
        "--stride", action="append", type=int, default=[], help="one position in so many (default: 8, 16, 32 and 64)"
    )
    parser.add_argument("--draws", type=int, default=500, help="random probes of each size (default: 500; 0 for none)")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    add_store_arguments(parser)


def run(args: argparse.Namespace) -> int:
    import numpy as np

    from drift_runs import schema
    from drift_runs.errors import ConfigError, NotMeasured
    from drift_runs.measure.subsample import STRIDES, subsample
    from drift_runs.remeasure import find_campaign
    from drift_runs.store import Store, write_table

    for stride in args.stride:
        if stride < 2:
            raise ConfigError(str(stride), where="--stride", expected="a whole number from 2")
    if args.draws < 0:
        raise ConfigError(str(args.draws), where="--draws", expected="a whole number from 0")
    store = Store(args.store)
    campaign = find_campaign(store, args.run)
    protocol = campaign.protocol
    results = {}
    for entry in _chosen(campaign.measured, args):
        missing = [name for name in entry.windows if not store.comparison_file(entry.comparison, name).is_file()]
        if missing:
            print(f"{entry.name}: {len(missing)} of {len(entry.windows)} windows are not there yet", file=sys.stderr)
            continue
        result = subsample(
            store.read_comparison(entry.comparison, entry.windows),
            protocol,
            arm=entry.name,
            strides=tuple(dict.fromkeys(args.stride)) or STRIDES,
            random_draws=args.draws,
            # Each arm begins anew: its figures are the same whichever arms are asked for beside it.
            generator=np.random.default_rng(protocol.seeds.sampling),
        )
        path = result_file(args.store, campaign.protocol_sha256, entry.name)
        write_table(path, result.table(), schema.SUBSAMPLE)
        if not args.json:
            print(("\n" if results else "") + "\n".join(lines_of(result)), flush=True)
        results[entry.name] = result
    if not results:
        raise NotMeasured("no arm is whole", where=str(args.store), todo=f"go on with: drift run {args.run}")
    if not args.json:
        print("\n" + _LEGEND)
    else:
        content = {name: result.table().drop_columns(["arm"]).to_pylist() for name, result in results.items()}
        json.dump(content, sys.stdout, allow_nan=False)
        print()
    return 0


def _chosen(plan: Sequence, args: argparse.Namespace) -> list:
    """The candidates and follow-ups of a plan, or the entries that were asked for."""
    from drift_runs.errors import NotMeasured
    from drift_runs.protocol.problems import did_you_mean

    compared = {entry.name: entry for entry in plan if entry.comparison and entry.table == "comparison"}
    if not compared:
        raise NotMeasured("no arm has positions to sample", where=str(args.store), expected="rows, not means of them")
    for name in args.arm:
        if name not in compared:
            raise NotMeasured(
                f"no arm {name!r}",
                where=str(args.store),
                expected=f"one of {', '.join(compared)}",
                todo=did_you_mean(name, list(compared)),
            )
    if args.arm:
        return [compared[name] for name in dict.fromkeys(args.arm)]
    return [entry for entry in compared.values() if entry.kind in ("candidate", "follow-up")]


def result_file(store: Path, protocol_sha256: str, arm: str) -> Path:
    """Where the findings of an arm are kept."""
    return store / FOLDER / f"{protocol_sha256[:16]}-{arm}.parquet"


def stored_results(store: Path, protocol_sha256: str, arms: Sequence[str]) -> list:
    """The kept results of a protocol, in the order of ``arms``. ``StoreError`` for a damaged one."""
    from drift_runs import schema
    from drift_runs.measure.subsample import SubsampleResult
    from drift_runs.store import read_table

    paths = [result_file(store, protocol_sha256, arm) for arm in arms]
    return [SubsampleResult.of_table(read_table(path, schema.SUBSAMPLE)) for path in paths if path.is_file()]


def lines_of(result) -> list[str]:
    """The table of one arm: with the declared outlier windows, and without them where there are some."""
    from drift_runs.measure.outliers import WITH

    lines = []
    for outliers in dict.fromkeys(finding.outliers for finding in result.findings):
        found = [finding for finding in result.findings if finding.outliers == outliers]
        kinds = list(dict.fromkeys((finding.probe, finding.stride) for finding in found))
        title = result.arm if outliers == WITH else f"{result.arm}, without the declared outlier windows"
        lines += ["", title] if lines else [title]
        lines += _full(found)
        header = "  ".join(f"{name:<{width}}" for name, width in _COLUMNS).rstrip()
        lines += [header, "-" * len(header)]
        for probe, stride in sorted(kinds, key=lambda kind: (kind[1], kind[0])):
            lines.append(_row({f.statistic: f for f in found if (f.probe, f.stride) == (probe, stride)}))
        lines += [sentence(_quoted_finding(found, statistic)) for statistic in ("p95", "mean")]
    return lines


def _quoted_finding(found: Sequence, statistic: str):
    """The finding about the worst range of the stride that is quoted; the largest stride where that lacks."""
    phases = {f.stride: f for f in found if (f.probe, f.statistic) == ("phase", f"worst_range.{statistic}")}
    return phases[QUOTED_STRIDE if QUOTED_STRIDE in phases else max(phases)]


def _full(found: list) -> list[str]:
    """What all positions show: the answers that the probes are held against."""
    from drift_runs.cli.table import nats

    by_statistic = {finding.statistic: finding for finding in found}
    worst = []
    for statistic, label in (("p95", "p95"), ("mean", "mean"), ("rate", "flip rate")):
        finding = by_statistic[f"worst_range.{statistic}"]
        if finding.named:
            value = f"{finding.full_value:.2%}" if statistic == "rate" else nats(finding.full_value)
            worst.append(f"{label} {finding.named} ({value})")
        else:
            worst.append(f"{label} none ({finding.reason.partition(': ')[2] or finding.reason})")
    mean, overturns = by_statistic["mean"], by_statistic["seen"]
    largest = by_statistic["max"]
    place = f" ({largest.named})" if largest.named else ""
    return [
        f"all {mean.positions:,} positions: {mean.spec} mean {nats(mean.full_value)}, "
        f"largest {nats(largest.full_value)}{place}, strong overturns {overturns.full_value:.0f}",
        f"worst range by {', by '.join(worst)}",
    ]


def _row(found: dict) -> str:
    mean, width, p95 = found["mean"], found["history_width"], found["worst_range.p95"]
    off = "-"
    if mean.value is not None:
        off = f"{_signed(mean.value, 1)} [{_signed(mean.low)}, {_signed(mean.high)}]"
    cells = [
        f"1 in {mean.stride}, {'random' if mean.probe == 'random' else 'phases'}",
        f"{mean.sampled:,}",
        _percent(p95.value),
        _percent(None if p95.not_nameable is None else p95.not_nameable / p95.probes),
        _percent(found["worst_range.mean"].value),
        _percent(found["worst_range.rate"].value),
        _percent(found["seen"].value),
        off,
        "-" if width.value is None else f"x {width.value:.2f}",
    ]
    return "  ".join(f"{cell:<{width}}" for cell, (_, width) in zip(cells, _COLUMNS, strict=True)).rstrip()


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.3g} %"


def _signed(value: float, places: int = 0) -> str:
    """``+3 %``, ``-12 %``, ``0 %``."""
    rounded = round(value * 100, places)
    return f"{rounded:+.{places}f} %" if rounded else "0 %"


def sentence(finding) -> str:
    """What a finding about the worst range says, in words."""
    statistic = finding.statistic.removeprefix("worst_range.")
    probes = f"{finding.probes} {'phases' if finding.probe == 'phase' else 'random samples'}"
    if finding.value is None:
        return f"1 in {finding.stride}: {finding.reason}"
    parts = []
    for count, why in (
        (finding.not_nameable, "not nameable: too few positions"),
        (finding.another_named, "another range named"),
        (finding.none_named, "no range named"),
    ):
        if count:
            parts.append(f"{_percent(count / finding.probes)} {why}")
    text = f"1 in {finding.stride}: worst range ({statistic}) missed in {_percent(finding.value)} of {probes}"
    return f"{text} ({'; '.join(parts)})" if parts else text


def quoted(result) -> list[str]:
    """Two lines for a plan: what one position in 32 (or the largest stride there is) would have missed of an arm."""
    stride = _quoted_finding([finding for finding in result.findings if finding.outliers == "with"], "p95").stride
    of_stride = [f for f in result.findings if (f.outliers, f.probe, f.stride) == ("with", "phase", stride)]
    found = {finding.statistic: finding for finding in of_stride}
    p95, mean, error, width = (found[name] for name in ("worst_range.p95", "worst_range.mean", "mean", "history_width"))
    missed = [
        f"by {name} in {_percent(finding.value)}" for name, finding in (("p95", p95), ("mean", mean)) if finding.named
    ]
    first = f"if only 1 position in {stride} of {result.arm} were scored: "
    first += f"worst range missed {', '.join(missed)} of {p95.probes} phases" if missed else "no worst range to miss"
    second = []
    if p95.not_nameable:
        second.append(f"not nameable by p95 in {_percent(p95.not_nameable / p95.probes)}: too few positions")
    if error.value is not None:
        second.append(f"{error.spec} mean off by {_signed(error.low)} to {_signed(error.high)}")
    if width.value is not None:
        second.append(f"intervals over history x {width.value:.2f}")
    return [first, "; ".join(second)] if second else [first]
