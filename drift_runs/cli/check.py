"""``drift check``: what a protocol holds, or everything that is wrong with it."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from typing import Any

from drift_runs.cli.generation_said import generation_lines
from drift_runs.errors import ProtocolError, one_line
from drift_runs.generate.answer_forms import form_report
from drift_runs.protocol.amend import superseded_lock
from drift_runs.protocol.load import LoadedProtocol, find_protocol, load_followups, load_protocol
from drift_runs.protocol.model import Answer, Arm, Protocol, Range, Window
from drift_runs.protocol.problems import raise_first

HELP = "Check a protocol, its streams and its lock, and say what it holds. All errors are shown, not only the first."
EXAMPLE = """
drift check smollm2-quick
drift check protocols/mine.toml --followups protocols/mine-followups.toml
drift check smollm2-quick --json
"""

_COUNTS = ("name", "role", "windows", "documents", "ranges", "scored_positions", "stream_tokens")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("protocol", metavar="PROTOCOL", help="a protocol file, or the name of a shipped protocol")
    parser.add_argument("--followups", metavar="FILE", help="a file of follow-up arms to check against the protocol")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    try:
        loaded = load_protocol(find_protocol(args.protocol))
        superseded_lock(loaded)
        followups = load_followups(args.followups, loaded) if args.followups else ()
        forms = form_report(loaded)
        if forms.errors:
            raise_first(forms.errors)
    except ProtocolError as error:
        if args.debug:
            raise
        _print_errors([error, *error.others], args.json)
        return error.exit_code
    summary = summarise(loaded, followups)
    if forms.unknown:
        summary["notes"].append(
            f"the form of {len(forms.unknown)} answers could not be checked, because they are no whole turn of the "
            f"assistant in ChatML: {', '.join(forms.unknown[:6])}"
        )
    print(json.dumps(summary, indent=2, ensure_ascii=False) if args.json else _text(summary))
    for note in summary["notes"]:
        print(f"drift: note: {note}", file=sys.stderr)
    return 0


def _print_errors(errors: list[ProtocolError], as_json: bool) -> None:
    for error in errors:
        print(f"drift: error: {error.line()}", file=sys.stderr)
    if as_json:
        entries = [
            {"kind": type(error).__name__, "where": error.where, "what": error.what, "expected": error.expected}
            | {"todo": error.todo, "line": error.line()}
            for error in errors
        ]
        print(json.dumps({"valid": False, "errors": entries}, indent=2, ensure_ascii=False))


def summarise(loaded: LoadedProtocol, followups: tuple[Arm, ...] = ()) -> dict[str, Any]:
    """What ``drift check --json`` prints."""
    protocol = loaded.protocol
    panels = []
    for panel in protocol.panels:
        windows = [window for window in protocol.windows if window.panel == panel.name]
        names = {window.name for window in windows}
        panels.append(
            {
                "name": panel.name,
                "role": panel.role,
                "windows": len(windows),
                "documents": len({window.document for window in windows}),
                "ranges": sum(item.window in names for item in protocol.ranges),
                "scored_positions": sum(map(scored_positions, windows)),
                "stream_tokens": sum(len(loaded.tokens(window.name)) for window in windows),
            }
        )
    kinds: Counter[str] = Counter()
    ranges: Counter[str] = Counter()
    for item in protocol.ranges:
        kinds[item.kind] += scored_in_range(protocol, item)
        ranges[item.kind] += 1
    answers = Counter(_kind_of(protocol, answer) for answer in protocol.answers)
    scored = sum(map(scored_positions, protocol.windows))
    return {
        "valid": True,
        "name": protocol.name,
        "version": protocol.version,
        "title": protocol.title,
        "protocol_sha256": loaded.protocol_sha256,
        "draft": loaded.draft,
        "frozen_at": loaded.lock.frozen_at if loaded.lock else None,
        "panels": panels,
        "kinds": [
            {"kind": kind, "ranges": ranges[kind], "positions": kinds[kind], "answers": answers[kind]}
            for kind in sorted(kinds.keys() | answers.keys())
        ],
        "windows": len(protocol.windows),
        "documents": len({window.document for window in protocol.windows}),
        "ranges": len(protocol.ranges),
        "scored_positions": scored,
        "positions_in_ranges": sum(kinds.values()),
        "stream_tokens": sum(len(loaded.tokens(window.name)) for window in protocol.windows),
        "answers": len(protocol.answers),
        "answer_forms": dict(sorted(Counter(answer.form for answer in protocol.answers).items())),
        "generation": generation_lines(loaded),
        "outliers": [{"window": outlier.window, "reason": outlier.reason} for outlier in protocol.outliers],
        "reference": protocol.reference.name,
        "candidates": [arm.name for arm in protocol.arms if arm.role == "candidate"],
        "floors": [floor.name for floor in protocol.floors],
        "followups": [arm.name for arm in followups],
        "notes": list(_notes(loaded, scored, sum(kinds.values()))),
    }


def scored_positions(window: Window) -> int:
    return sum(end - start for start, end in window.scored)


def scored_in_range(protocol: Protocol, item: Range) -> int:
    """Scored positions of a range: what is not scored between its ends does not count."""
    spans = protocol.window(item.window).scored
    return sum(max(0, min(end, item.end) - max(start, item.start)) for start, end in spans)


def _kind_of(protocol: Protocol, answer: Answer) -> str:
    """Kind of the range that an answer stands in; empty outside every range."""
    for item in protocol.ranges:
        if item.window == answer.window and item.start <= answer.start and answer.end <= item.end:
            return item.kind
    return ""


def _notes(loaded: LoadedProtocol, scored: int, ranged: int) -> list[str]:
    """What is allowed and still worth a thought."""
    protocol = loaded.protocol
    notes = []
    if not any(floor.arm == protocol.reference.name for floor in protocol.floors):
        notes.append(f"the reference '{protocol.reference.name}' has no floor: no figure will get a verdict")
    if ranged < scored:
        notes.append(f"{scored - ranged} of {scored} scored positions lie in no range")
    used = {window.panel for window in protocol.windows}
    notes += [f"panel '{panel.name}' has no window" for panel in protocol.panels if panel.name not in used]
    if protocol.outlier_windows >= {window.name for window in protocol.windows}:
        notes.append("every window is an outlier: nothing is left without them")
    return notes


def _text(summary: dict[str, Any]) -> str:
    state = "draft (not frozen)" if summary["draft"] else f"frozen {summary['frozen_at']}"
    lines = [
        f"{summary['name']} version {summary['version']}: {one_line(summary['title'])}",
        f"{state}, sha256 {summary['protocol_sha256']}",
        "",
        *_table(
            ("panel", "role", "windows", "documents", "ranges", "scored", "tokens"),
            [tuple(row[key] for key in _COUNTS) for row in (*summary["panels"], summary | {"name": "all", "role": ""})],
        ),
        "",
        *_table(
            ("kind", "ranges", "positions") + (("answers",) if summary["answers"] else ()),
            [
                (kind["kind"] or "(no range)", kind["ranges"], kind["positions"])
                + ((kind["answers"],) if summary["answers"] else ())
                for kind in summary["kinds"]
            ],
        ),
        "",
        f"reference   {summary['reference']}",
        f"candidates  {', '.join(summary['candidates']) or 'none'}",
        f"floors      {', '.join(summary['floors']) or 'none'}",
    ]
    if summary["answers"]:
        forms = ", ".join(f"{count} {form}" for form, count in summary["answer_forms"].items())
        lines.append(f"answers     {summary['answers']} ({forms})")
    lines += summary["generation"]
    if summary["followups"]:
        lines.append(f"follow-ups  {', '.join(summary['followups'])} (outside the protocol)")
    lines += [f"outlier     {outlier['window']}: {one_line(outlier['reason'])}" for outlier in summary["outliers"]]
    return "\n".join(lines)


def _table(header: tuple[str, ...], rows: list[tuple]) -> list[str]:
    """Text columns to the left, numbers to the right."""
    cells = [header, *[tuple(str(value) for value in row) for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    numeric = [bool(rows) and isinstance(rows[0][column], int) for column in range(len(header))]
    return [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    ]
