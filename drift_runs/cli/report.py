"""``drift report``: a campaign as a file that can be handed out."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from drift_runs.cli.run import add_store_arguments

HELP = """Write a campaign as one HTML file that holds everything: tables, charts, decisions, what was withheld and why.
It needs no network and prints to A4; every browser makes a PDF of it.

CAMPAIGN is a run's id or its beginning, the name of a protocol (its newest complete campaign), or latest. --csv writes
every table at full precision into a folder, --markdown a summary. HTML is written as well when --out names it, or when
neither of them is asked for. Windows that the protocol declares as outliers are shown both ways unless --outliers says
otherwise."""
EXAMPLE = """
drift report
drift report smollm2-ops --out review.html
drift report 3f2a9c --csv tables --markdown summary.md --outliers without
"""
INTERRUPTED = "no file was left half-written; run the same command again"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "campaign", nargs="?", default="latest", metavar="CAMPAIGN", help="run id, protocol name, or latest (default)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="HTML file (default: drift-NAME-vVERSION-ID.html)")
    parser.add_argument("--csv", type=Path, metavar="FOLDER", help="folder for a CSV file of every table")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="summary in Markdown")
    parser.add_argument(
        "--outliers",
        choices=("with", "without", "both"),
        default="both",
        help="figures with the declared outlier windows, without them, or both (default)",
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    add_store_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from drift_runs.report import build, files, html, markdown
    from drift_runs.report.content import find_campaign, load_content
    from drift_runs.report.fields import report_name
    from drift_runs.tracking.uris import resolve_uri

    uri = resolve_uri(args.tracking_uri, args.store)
    campaign = find_campaign(uri, args.campaign)
    content = load_content(uri, campaign, outliers=args.outliers)
    sections = build.sections(content)
    made = build.made_by(content, int(time.time() * 1000))
    written: dict[str, object] = {}
    if args.out is not None or not (args.csv or args.markdown):
        path = args.out or Path(f"{report_name(campaign)}.html")
        written["html"] = str(files.write_file(path, html.document(content, sections, made=made), option="--out"))
    if args.markdown is not None:
        text = markdown.document(content, sections, made=made)
        written["markdown"] = str(files.write_file(args.markdown, text, option="--markdown"))
    if args.csv is not None:
        written["csv"] = [str(path) for path in files.write_csv(args.csv, content, sections)]
    if args.json:
        said = {
            "campaign": campaign.run_id,
            "protocol": campaign.protocol_name,
            "protocol_sha256": campaign.protocol_sha256,
            "draft": campaign.draft,
            "outliers": list(content.sets),
            "decisions": {name: entry.decision for name, entry in content.decisions.current().items()},
            **written,
        }
        json.dump(said, sys.stdout, indent=2, allow_nan=False)
        print()
        return 0
    for kind, what in written.items():
        print(f"{kind}: {what}" if isinstance(what, str) else f"{kind}: {len(what)} files in {args.csv}")
    return 0
