"""``drift measure``: every figure again, from the stored rows."""

from __future__ import annotations

import argparse
import json
import math
import sys

from drift_runs.cli.run import add_store_arguments

HELP = """Compute every figure again from the stored rows. No model is opened and nothing is logged: figures that differ
from what was logged are listed, so that a change of the arithmetic is seen."""
EXAMPLE = """drift measure smollm2-quick
drift measure smollm2-quick --arm q4_0 --json"""

_TOLERANCE = 1e-9
"""Relative; beyond it a figure counts as different."""
_NUMBERS = ("value", "n", "excluded", "low", "high", "named_share", "floor_value")
_COMPARED = (*_NUMBERS, "state", "named", "floor", "verdict")
"""Columns of a figure that must be the same; texts in full, numbers to the tolerance."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("protocol", help="protocol file, or the name of a shipped one")
    parser.add_argument("--arm", action="append", default=[], help="this arm or floor only; may be given several times")
    parser.add_argument("--no-check", action="store_true", help="do not compare with the logged figures")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_store_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from drift_runs.cli import table
    from drift_runs.errors import NotMeasured
    from drift_runs.measure.determinism import determinism_table, summarise_determinism
    from drift_runs.measure.summary import summarise
    from drift_runs.protocol.load import find_protocol, load_protocol
    from drift_runs.protocol.problems import did_you_mean
    from drift_runs.store import Store, newest_plan

    loaded = load_protocol(find_protocol(args.protocol))
    store = Store(args.store)
    store.open(create=False)
    plan = newest_plan(store, loaded.protocol_sha256)
    if not plan:
        raise NotMeasured(
            f"{loaded.protocol.name} version {loaded.protocol.version} never ran here",
            where=str(args.store),
            todo=f"run it first: drift run {args.protocol}",
        )
    measured = [entry for entry in plan if entry.comparison]
    names = [entry.name for entry in measured]
    for name in args.arm:
        if name not in names:
            raise NotMeasured(
                f"no arm {name!r}",
                where=str(args.store),
                expected=f"one of {', '.join(names)}",
                todo=did_you_mean(name, names),
            )
    logged = {} if args.no_check else _logged(args, loaded)
    floors = {}
    result = {}
    differences: list[str] = []
    for entry in measured:
        missing = [name for name in entry.windows if not store.comparison_file(entry.comparison, name).is_file()]
        if missing:
            print(f"{entry.name}: {len(missing)} of {len(entry.windows)} windows are not there yet", file=sys.stderr)
            continue
        comparison = store.read_comparison(entry.comparison, entry.windows)
        if entry.kind == "floor":
            floors[entry.name] = comparison
        if args.arm and entry.name not in args.arm:
            continue
        figures = summarise(comparison, loaded.protocol, arm=entry.name, floors={} if entry.kind == "floor" else floors)
        result[entry.name] = figures
        if entry.name in logged:
            differences += differing(entry.name, logged[entry.name], figures)
        if not args.json:
            if len(result) == 1:
                print(table.header())
            last = ""
            if entry.kind == "floor":
                found = summarise_determinism(determinism_table(comparison, arm=entry.name, against="reference"))
                last = f"rows same {found.rows_identical}/{found.rows}"
            print(table.figures_row(entry.name, figures, last=last))
    if args.json:
        json.dump({name: figures.to_pylist() for name, figures in result.items()}, sys.stdout, allow_nan=False)
        print()
    if not result:
        raise NotMeasured("no arm is whole", where=str(args.store), todo=f"go on with: drift run {args.protocol}")
    if not args.json:
        print(table.notes(loaded))
    if logged:
        count = sum(figures.num_rows for name, figures in result.items() if name in logged)
        print(f"{count - len(differences):,} of {count:,} figures equal what was logged", file=sys.stderr)
        for line in differences[:20]:
            print(f"differs: {line}", file=sys.stderr)
    return 0


def _logged(args: argparse.Namespace, loaded) -> dict:
    """Figures by arm of the newest campaign of this protocol; empty when the tracking store has none."""
    from drift_runs.tracking.mlflow_store import list_campaigns, load_figures, resolve_uri

    uri = resolve_uri(args.tracking_uri, args.store)
    for campaign in list_campaigns(uri):
        if campaign.protocol_sha256 == loaded.protocol_sha256:
            return {arm.arm: load_figures(uri, arm.run_id) for arm in campaign.arms if arm.complete}
    return {}


def differing(arm: str, logged, computed) -> list[str]:
    """One line for each figure that is not the same."""

    def keyed(table) -> dict:
        return {
            (row["scope_kind"], row["scope"], row["outliers"], row["spec"], row["statistic"]): row
            for row in table.to_pylist()
        }

    before, after = keyed(logged), keyed(computed)
    lines = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old is None or new is None:
            lines.append(f"{arm} {'/'.join(key)}: only {'computed' if old is None else 'logged'}")
        else:
            changed = [name for name in _COMPARED if not _same(old[name], new[name])]
            if changed:
                was = ", ".join(f"{name} {old[name]}" for name in changed)
                now = ", ".join(f"{name} {new[name]}" for name in changed)
                lines.append(f"{arm} {'/'.join(key)}: logged {was}; now {now}")
    return lines


def _same(old: float | str | None, new: float | str | None) -> bool:
    if old is None or new is None or isinstance(old, str) or isinstance(new, str):
        return old == new
    return math.isclose(old, new, rel_tol=_TOLERANCE, abs_tol=1e-15)
