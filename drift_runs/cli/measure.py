"""``drift measure``: every figure again, from the stored rows."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, NamedTuple

from drift_runs.cli.run import add_store_arguments

if TYPE_CHECKING:
    import pyarrow as pa

    from drift_runs.measure.results import Across, ArmResult
    from drift_runs.remeasure import Logged, Regenerated, Rows, StoredCampaign

HELP = """Compute every figure again from the stored rows, and judge again what was written freely. No model is opened
and no figure is logged: what differs from what was logged is listed, so that a change of the arithmetic is seen.

RUN is a protocol file, the name of a protocol or import, or the beginning of a run's id. With --check the exit code
says whether everything that was logged is what the rows give: 1 when a figure differs, 4 when something could not be
compared.

With --add the tables that an older version did not make (the distribution behind the page Tails, the list of rows to
read) are stored beside an arm's figures, where these are what the rows give. Nothing that was logged changes."""
EXAMPLE = """drift measure smollm2-quick
drift measure smollm2-quick --arm q4_0 --json
drift measure --check 3f2a9c
drift measure --add 3f2a9c"""
SHOWN_DIFFERENCES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="protocol file, name of a protocol or import, or a run's id")
    parser.add_argument("--arm", action="append", default=[], help="this arm or floor only; may be given several times")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="fail unless every logged figure is what the rows give")
    how.add_argument("--no-check", action="store_true", help="do not compare with the logged figures")
    how.add_argument("--add", action="store_true", help="store tables that an older version did not make")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_store_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from drift_runs import schema
    from drift_runs.cli import remarks, table
    from drift_runs.cli.generated import lines as written_lines
    from drift_runs.errors import NotMeasured
    from drift_runs.protocol.problems import did_you_mean
    from drift_runs.remeasure import Remeasured

    campaign, rows = _find(args)
    names = [entry.name for entry in campaign.measured]
    for name in args.arm:
        if name not in names:
            raise NotMeasured(
                f"no arm {name!r}",
                where=str(args.store),
                expected=f"one of {', '.join(names)}",
                todo=did_you_mean(name, names),
            )
    unfinished = 0
    for entry in campaign.measured:
        if missing := rows.missing(entry):
            unfinished += 1
            print(f"{entry.name}: {missing} of {len(entry.windows)} windows are not there yet", file=sys.stderr)
    protocol = campaign.protocol
    expected = bool(protocol.answers)
    again = Remeasured(campaign, rows, _texts(campaign, rows))
    figures = {}
    results = {}
    # First, so that a damaged file is named before any number is shown.
    generated, not_again = _generated(args, campaign, rows)
    for entry, result, found in again.arms(args.arm):
        if not args.json:
            if not figures:
                print(table.header(protocol.capture.divergence, answers=expected))
            last = ""
            if entry.kind == "floor" and result is not None:
                last = f"rows same {result.agreement.rows_identical}/{result.agreement.rows}"
            if entry.table == "written":
                print(table.no_rows(entry.name))
            else:
                print(table.figures_row(entry.name, found, last=last, answers=expected))
        figures[entry.name] = found
        if result is not None:
            results[entry.name] = result
    if not figures:
        raise NotMeasured("no arm is whole", where=str(args.store), todo=f"go on with: drift run {args.run}")
    across = None
    if not (args.arm or unfinished or (args.json and args.no_check)):
        for name, written in _free_figures(args, campaign, generated).items():
            again.add_figures(name, written)
        across = again.across()
    if args.json:
        shown = {name: found.to_pylist() for name, found in figures.items()}
        for report in generated.measured if generated is not None else ():
            if report.figures.num_rows:
                shown.setdefault(report.execution.name, []).extend(report.figures.to_pylist())
        json.dump(shown, sys.stdout, allow_nan=False)
        print()
    else:
        arms = {entry.name for entry in campaign.measured if entry.kind in ("candidate", "follow-up")}
        listed = {name: result.listed for name, result in results.items() if name in arms}
        agreement = None if across is None else across.agreement
        below = table.answers_lines(figures[name] for name in figures if name in arms)
        for line in [*below, *remarks.lines(listed, agreement, protocol.capture.divergence)]:
            print(line)
        if generated is not None:
            order = schema.TASK_ORDER.empty_table() if generated.tasks is None else generated.tasks.order
            for line in written_lines(generated.measured, protocol, generated.bounds, order):
                print(line)
        draft = campaign.loaded is not None and campaign.loaded.draft
        print(table.protocol_notes(protocol, draft=draft))
    if args.no_check:
        return 0
    found = Found(figures=figures, results=results, across=across, generated=generated)
    return _check(args, campaign, found, unfinished + len(not_again))


def _texts(campaign, rows):
    """What the ids of the streams say, where the protocol's file and the store's dictionary are at hand."""
    from drift_runs.campaign.logbook import stored_texts
    from drift_runs.errors import StoreError
    from drift_runs.remeasure import StoredRows

    if campaign.loaded is None or not isinstance(rows, StoredRows):
        return None
    try:
        return stored_texts(rows.store, campaign.loaded)
    except StoreError:  # a damaged dictionary: every figure can be computed without it
        return None


def _generated(args: argparse.Namespace, campaign: StoredCampaign, rows: Rows) -> tuple[Regenerated | None, list[str]]:
    """What was written freely, judged again, and what of it is not measured, one line each; these are said too."""
    from drift_runs.errors import NotMeasured
    from drift_runs.remeasure import judge_again

    generated, lines = None, []
    try:
        generated = judge_again(campaign, rows, args.arm)
    except NotMeasured as reason:
        lines.append(reason.line())
    else:
        lines += [reason.line() for reason in generated.incomplete] if generated is not None else []
    for line in lines:
        print(line, file=sys.stderr)
    return generated, lines


def _free_figures(args: argparse.Namespace, campaign: StoredCampaign, generated: Regenerated | None) -> dict:
    """Figures of free generation by arm, which join the orders: as they are now; as logged where there are none now."""
    from drift_runs.campaign.judging import generates

    if not generates(campaign.protocol):
        return {}
    if generated is None:
        return _written(args, campaign)
    now = {report.execution.name: report.figures for report in generated.measured}
    compared = [entry.name for entry in campaign.measured]
    logged = {} if now.keys() >= set(compared) else _written(args, campaign)
    return {name: now.get(name, logged.get(name)) for name in compared if name in now or name in logged}


def _written(args: argparse.Namespace, campaign: StoredCampaign) -> dict:
    """Figures of free generation as they were logged, by arm. None where nothing was logged."""
    from drift_runs.errors import DriftError
    from drift_runs.tracking.index import open_index
    from drift_runs.tracking.reader import load_generation_figures
    from drift_runs.tracking.uris import resolve_uri

    uri = resolve_uri(args.tracking_uri, args.store)
    try:
        record = open_index(uri).campaign(campaign.run_id)
        if record is None:
            return {}
        return {arm.arm: load_generation_figures(uri, arm.run_id) for arm in record.arms if arm.complete}
    except DriftError:  # no tracking store: the check says so
        return {}


def _find(args: argparse.Namespace) -> tuple:
    """The campaign and where its rows are: the store's folder, else the artifacts of the run."""
    from drift_runs.errors import DriftError
    from drift_runs.remeasure import StoredRows, find_campaign, tracked_campaign
    from drift_runs.store import Store
    from drift_runs.tracking.uris import resolve_uri

    store = Store(args.store)
    try:
        return find_campaign(store, args.run), StoredRows(store)
    except DriftError:
        if args.tracking_uri is None:
            raise
        found = tracked_campaign(resolve_uri(args.tracking_uri, args.store), args.run)
        if found is None:
            raise
        return found


class Found(NamedTuple):
    """What was computed again."""

    figures: dict[str, pa.Table]
    results: dict[str, ArmResult]
    across: Across | None
    generated: Regenerated | None


def _check(args: argparse.Namespace, campaign: StoredCampaign, now: Found, unfinished: int) -> int:
    """Compare with what was logged, and say what differs; the exit code."""
    from drift_runs.errors import NotMeasured
    from drift_runs.remeasure import Logged
    from drift_runs.tracking.index import open_index
    from drift_runs.tracking.uris import resolve_uri

    uri = resolve_uri(args.tracking_uri, args.store)
    record = open_index(uri).campaign(campaign.run_id)
    if record is None:
        if args.check or args.add:
            raise NotMeasured(
                f"run {campaign.run_id} is not in the tracking store",
                where=str(args.store),
                todo="name the store that it was logged to with --tracking-uri",
            )
        print("nothing was logged to compare with", file=sys.stderr)
        return 0
    logged = Logged(uri, record)
    figures = now.figures
    not_logged = [name for name in figures if name not in logged.runs]
    not_stored = [name for name in logged.runs if name not in figures and not args.arm]
    rows, found, not_compared = [], [], []
    for name, computed in figures.items():
        if name in logged.runs:
            of_arm = logged.arm(name, computed, now.results.get(name))
            found += of_arm
            if args.add and name in now.results:
                _add(logged, name, now.results[name], differing=any(each.differing for each in of_arm))
    if now.generated is not None:
        for report in now.generated.measured:
            if reason := logged.not_comparable(report, now.generated):
                not_compared.append(reason)
            else:
                rows += logged.generation(report, now.generated)
                found += logged.generation_figures(report, now.generated)
        if now.generated.tasks is not None and not not_compared and not now.generated.incomplete:
            found += logged.tasks(now.generated.tasks)
        not_compared += [] if args.arm else logged.of_earlier_runs(now.generated)
    if now.across is not None:
        found += logged.across(now.across)
    found = rows + found  # what the others follow from is said first
    lines = [line for each in found for line in each.differing]
    equal = sum(each.equal for each in found)
    print(f"{equal:,} of {equal + len(lines):,} figures equal what was logged", file=sys.stderr)
    for line in lines[:SHOWN_DIFFERENCES]:
        print(f"differs: {line}", file=sys.stderr)
    if len(lines) > SHOWN_DIFFERENCES:
        print(f"and {len(lines) - SHOWN_DIFFERENCES:,} more", file=sys.stderr)
    if more := sum(each.only_computed for each in found):
        print(f"{more:,} figures are computed now that were not logged then", file=sys.stderr)
    for words, names in (("not logged as complete", not_logged), ("logged, but its rows are not here", not_stored)):
        for name in names:
            print(f"{name}: {words}", file=sys.stderr)
    for reason in not_compared:
        print(reason, file=sys.stderr)
    if not (args.check or args.add):
        return 0
    if lines:
        return 1
    if args.add:
        return 0
    return NotMeasured.exit_code if unfinished or not_logged or not_stored or not_compared else 0


def _add(logged: Logged, name: str, result: ArmResult, *, differing: bool) -> None:
    """Store what an arm's run lacks, unless its figures are others than its rows give now; says which."""
    lacking = logged.lacking(name, result)
    if not lacking:
        return
    tables = " and ".join(artifact.rpartition("/")[2].removesuffix(".parquet") for artifact in lacking)
    if differing:
        print(f"{name}: {tables} not added, because its logged figures differ", file=sys.stderr)
        return
    logged.add(name, lacking)
    print(f"{name}: {tables} added", file=sys.stderr)
