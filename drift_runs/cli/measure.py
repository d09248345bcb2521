"""``drift measure``: every figure again, from the stored rows."""

from __future__ import annotations

import argparse
import json
import sys

from drift_runs.cli.run import add_store_arguments

HELP = """Compute every figure again from the stored rows. No model is opened and nothing is logged: figures that differ
from what was logged are listed, so that a change of the arithmetic is seen.

RUN is a protocol file, the name of a protocol or import, or the beginning of a run's id. With --check the exit code
says whether everything that was logged is what the rows give: 1 when a figure differs, 4 when something could not be
compared."""
EXAMPLE = """drift measure smollm2-quick
drift measure smollm2-quick --arm q4_0 --json
drift measure --check 3f2a9c"""
SHOWN_DIFFERENCES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="protocol file, name of a protocol or import, or a run's id")
    parser.add_argument("--arm", action="append", default=[], help="this arm or floor only; may be given several times")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="fail unless every logged figure is what the rows give")
    how.add_argument("--no-check", action="store_true", help="do not compare with the logged figures")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_store_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from drift_runs.cli import remarks, table
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
    for entry, result, found in again.arms(args.arm):
        if not args.json:
            if not figures:
                print(table.header(protocol.capture.divergence, answers=expected))
            last = ""
            if entry.kind == "floor" and result is not None:
                last = f"rows same {result.agreement.rows_identical}/{result.agreement.rows}"
            print(table.figures_row(entry.name, found, last=last, answers=expected))
        figures[entry.name] = found
        if result is not None:
            results[entry.name] = result
    if not figures:
        raise NotMeasured("no arm is whole", where=str(args.store), todo=f"go on with: drift run {args.run}")
    across = None
    if not (args.arm or unfinished or (args.json and args.no_check)):
        for name, written in _written(args, campaign).items():
            again.add_figures(name, written)
        across = again.across()
    if args.json:
        json.dump({name: found.to_pylist() for name, found in figures.items()}, sys.stdout, allow_nan=False)
        print()
    else:
        arms = {entry.name for entry in campaign.measured if entry.kind in ("candidate", "follow-up")}
        listed = {name: result.listed for name, result in results.items() if name in arms}
        agreement = None if across is None else across.agreement
        below = table.answers_lines(figures[name] for name in figures if name in arms)
        for line in [*below, *remarks.lines(listed, agreement, protocol.capture.divergence)]:
            print(line)
        draft = campaign.loaded is not None and campaign.loaded.draft
        print(table.protocol_notes(protocol, draft=draft))
    if args.no_check:
        return 0
    return _check(args, campaign, figures, results, across, unfinished)


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


def _written(args: argparse.Namespace, campaign) -> dict:
    """Figures of free generation as they were logged, by arm: they join the orders. None where nothing was logged."""
    from drift_runs.errors import DriftError
    from drift_runs.tracking.reader import list_campaigns, load_generation_figures
    from drift_runs.tracking.uris import resolve_uri

    uri = resolve_uri(args.tracking_uri, args.store)
    try:
        record = next((found for found in list_campaigns(uri) if found.run_id == campaign.run_id), None)
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


def _check(args: argparse.Namespace, campaign, figures: dict, results: dict, across, unfinished: int) -> int:
    """Compare with what was logged, and say what differs; the exit code."""
    from drift_runs.errors import NotMeasured
    from drift_runs.remeasure import differences, different_metrics
    from drift_runs.tracking.names import select_metrics
    from drift_runs.tracking.reader import (
        list_campaigns,
        load_agreement,
        load_answers,
        load_determinism,
        load_figures,
        load_metrics,
        load_pairs,
        load_proposals,
    )
    from drift_runs.tracking.uris import resolve_uri

    uri = resolve_uri(args.tracking_uri, args.store)
    record = next((found for found in list_campaigns(uri) if found.run_id == campaign.run_id), None)
    if record is None:
        if args.check:
            raise NotMeasured(
                f"run {campaign.run_id} is not in the tracking store",
                where=str(args.store),
                todo="name the store that it was logged to with --tracking-uri",
            )
        print("nothing was logged to compare with", file=sys.stderr)
        return 0
    logged = {arm.arm: load_figures(uri, arm.run_id) for arm in record.arms if arm.complete}
    runs = {arm.arm: arm.run_id for arm in record.arms}
    not_logged = [name for name in figures if name not in logged]
    not_stored = [name for name in logged if name not in figures and not args.arm]
    found = []
    for name, computed in figures.items():
        if name in logged:
            found.append(differences("figures", name, logged[name], computed))
            found.append(different_metrics(name, load_metrics(uri, runs[name]), select_metrics(computed)))
            if name in results:
                rows = load_determinism(uri, runs[name])
                found.append(differences("determinism", f"{name} rows", rows, results[name].determinism))
                answers = load_answers(uri, runs[name])
                found.append(differences("answers", f"{name} answer", answers, results[name].answers))
    if across is not None:
        for kind, load in (("pairs", load_pairs), ("agreement", load_agreement), ("proposals", load_proposals)):
            found.append(differences(kind, kind, load(uri, record.run_id), getattr(across, kind)))
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
    if not args.check:
        return 0
    if lines:
        return 1
    return NotMeasured.exit_code if unfinished or not_logged or not_stored else 0
