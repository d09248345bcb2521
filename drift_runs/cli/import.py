"""``drift import``: files of other tools, as a campaign of the store."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from drift_runs.cli.run import add_store_arguments

HELP = """Bring rows or figures of another tool into the store, so that every command and the dashboard treat them like
rows that were taken here.

The import is shown as such everywhere, because its protocol was not frozen before the results. Files that must not be
set against each other are refused, and nothing is stored then. The formats are described in docs/formats.md."""
EXAMPLE = """drift import topk-rows --name rope --reference native=native-1.json --floor launch:boot=native-3.json \\
      --candidate yarn=yarn.json --facet yarn.title='YaRN on short prompts'
drift import csv --name mine --reference bf16 --candidate q4=q4.csv --candidate q8=q8.csv"""

_PAIR = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(.+)", re.DOTALL)
FLOOR_KINDS = ("pass", "launch", "geometry")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from drift_runs.importers.formats import FORMATS

    parser.add_argument("format", metavar="FORMAT", help="one of " + ", ".join(FORMATS))
    parser.add_argument("--name", required=True, help="name of the campaign's protocol")
    parser.add_argument("--title", default="", help="one line (default: the name)")
    parser.add_argument("--question", default="What do these results say?", help="what was to be found out")
    parser.add_argument("--source", default="files", help="where the files come from, in your words")
    parser.add_argument(
        "--reference",
        action="append",
        default=[],
        metavar="NAME[=FILE]",
        help="what the others are compared with; figures that are against it already need no file",
    )
    parser.add_argument("--candidate", action="append", default=[], metavar="NAME=FILE", help="an arm under test")
    parser.add_argument(
        "--floor",
        action="append",
        default=[],
        metavar="KIND:NAME=FILE",
        help="the reference again: pass, launch, geometry",
    )
    parser.add_argument(
        "--against", action="append", default=[], metavar="ARM=REFERENCE", help="another reference than the first"
    )
    parser.add_argument(
        "--facet",
        action="append",
        default=[],
        metavar="ARM.FACET=VALUE",
        help="derivative, weights, kv, hardware or title of an arm",
    )
    parser.add_argument(
        "--outlier", action="append", default=[], metavar="WINDOW=REASON", help="a window to report separately"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap (default: 0)")
    parser.add_argument("--equal-is-right", action="store_true", help="a candidate may equal its reference everywhere")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_store_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from drift_runs.cli import table
    from drift_runs.importers.panel import PanelFacts
    from drift_runs.importing import ImportRequest, run_import
    from drift_runs.store import Store
    from drift_runs.tracking.uris import resolve_uri

    request = ImportRequest(
        format=args.format,
        facts=PanelFacts(
            name=args.name,
            title=_words(args.title, "--title") or args.name,
            question=_words(args.question, "--question"),
            source=_words(args.source, "--source"),
            seed=args.seed,
            outliers=tuple(_outlier(text) for text in args.outlier),
        ),
        files=_arms(args),
        store=Store(args.store),
        tracking_uri=resolve_uri(args.tracking_uri, args.store),
        equal_is_right=args.equal_is_right,
    )
    result = run_import(request, lambda text: print(text, file=sys.stderr))
    if args.json:
        json.dump(
            {
                "run_id": result.run_id,
                "protocol": result.protocol.name,
                "arms": [
                    {
                        "arm": found.name,
                        "kind": found.kind,
                        "run_id": found.run_id,
                        "figures": found.figures.to_pylist(),
                    }
                    for found in result.outcomes
                ],
            },
            sys.stdout,
            indent=2,
            allow_nan=False,
        )
        print()
        return 0
    print(table.header(result.protocol.capture.divergence))
    for found in result.outcomes:
        last = ""
        if found.kind == "floor" and found.determinism is not None:
            last = f"rows same {found.determinism.rows_identical}/{found.determinism.rows}"
        other = next((arm.against for arm in result.protocol.arms if arm.name == found.name), "")
        mark = f" (against {other})" if other else ""
        print(table.figures_row(found.name, found.figures, last=last, mark=mark))
    print(table.protocol_notes(result.protocol, draft=False))
    print("All figures: drift dashboard.")
    return 0


def _arms(args: argparse.Namespace) -> tuple:
    from drift_runs.errors import ConfigError
    from drift_runs.importers.panel import FACETS, ImportedArm
    from drift_runs.importing import ArmFile

    against: dict[str, str] = {}
    for text in args.against:
        arm, reference = _pair(text, "--against", "ARM=REFERENCE")
        if against.setdefault(arm, reference) != reference:
            raise ConfigError(f"arm {arm} has two references", where="--against", expected="one")
    facets: dict[str, dict[str, str]] = {}
    for text in args.facet:
        arm_and_facet, value = _pair(text, "--facet", "ARM.FACET=VALUE")
        arm, _, facet = arm_and_facet.rpartition(".")
        if not arm or facet not in FACETS:
            raise ConfigError(f"unknown facet {facet!r}", where="--facet", expected="one of " + ", ".join(FACETS))
        value = _words(value, f"--facet {arm_and_facet}")
        if facets.setdefault(arm, {}).setdefault(facet, value) != value:
            raise ConfigError(f"{arm_and_facet} is said twice", where="--facet", expected="one value")
    found = []
    for text in args.reference:
        name, _, path = text.partition("=")
        arm = ImportedArm(name=_name(name, "--reference"), role="reference", facets=facets.pop(name, {}))
        found.append(ArmFile(arm=arm, path=Path(path) if path else None))
    for text in args.floor:
        kind, _, rest = text.partition(":")
        if kind not in FLOOR_KINDS or not rest:
            raise ConfigError(
                f"{text!r}", where="--floor", expected="KIND:NAME=FILE, KIND one of pass, launch, geometry"
            )
        name, path = _pair(rest, "--floor", "KIND:NAME=FILE")
        arm = ImportedArm(name=name, role="floor", floor_kind=kind, against=against.pop(name, ""))
        found.append(ArmFile(arm=arm, path=Path(path)))
    for text in args.candidate:
        name, path = _pair(text, "--candidate", "NAME=FILE")
        arm = ImportedArm(name=name, role="candidate", against=against.pop(name, ""), facets=facets.pop(name, {}))
        found.append(ArmFile(arm=arm, path=Path(path)))
    for option, left in (("--against", against), ("--facet", facets)):
        if left:
            names = [item.arm.name for item in found]
            raise ConfigError(f"no arm {next(iter(left))!r}", where=option, expected="one of " + ", ".join(names))
    return tuple(found)


def _name(text: str, option: str) -> str:
    return _pair(f"{text}=-", option, "NAME=FILE")[0]


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    from drift_runs.errors import ConfigError

    if (found := _PAIR.fullmatch(text)) is None:
        raise ConfigError(f"{text!r}", where=option, expected=f"{form}, names of letters, digits, '.', '_' and '-'")
    return found[1], found[2]


def _outlier(text: str) -> tuple[str, str]:
    from drift_runs.errors import ConfigError

    window, equals, reason = text.partition("=")
    if not (window and equals and reason):
        raise ConfigError(f"{text!r}", where="--outlier", expected="WINDOW=REASON, the reason in words")
    return window, _words(reason, f"--outlier {window}")


def _words(text: str, option: str) -> str:
    """A text of the command line on one line; ``ConfigError`` for what would steer a terminal, or is no text."""
    from drift_runs.errors import ConfigError, one_line

    line = " ".join(text.split())
    if one_line(line) != line or any("\ud800" <= letter <= "\udfff" for letter in line):
        raise ConfigError(f"{line[:60]!r}", where=option, expected="text without control characters")
    return line
