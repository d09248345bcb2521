"""``drift decide``: record what was decided about an arm, as the dashboard's form does."""

from __future__ import annotations

import argparse
import json
import sys

from drift_runs.cli.run import add_store_arguments

HELP = """Record what was decided about an arm: accepted, rejected or needs-more, with a reason and a name.

It is kept beside the arm's figures with everything that was decided before: nothing is written over, and the latest
decision counts. The dashboard and the report show it."""
EXAMPLE = """
drift decide q4_0 rejected --reason "loses port numbers in router-uplink" --name "R. Reader"
drift decide q8_0 accepted --reason "within the floor" --name "R. Reader" --campaign smollm2-ops
"""
WORDS = {"accepted": "accepted", "rejected": "rejected", "needs-more": "needs more"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("arm", metavar="ARM", help="a candidate or follow-up of the campaign")
    parser.add_argument("decision", choices=tuple(WORDS), help="what was decided")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why, in words")
    parser.add_argument("--name", required=True, metavar="TEXT", help="who decided; kept with the decision")
    parser.add_argument(
        "--campaign", default="latest", metavar="CAMPAIGN", help="run id, protocol name, or latest (default)"
    )
    parser.add_argument("--json", action="store_true", help="print the decision as JSON")
    add_store_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from drift_runs.report.content import find_campaign
    from drift_runs.tracking.decisions import decide
    from drift_runs.tracking.uris import resolve_uri

    uri = resolve_uri(args.tracking_uri, args.store)
    campaign = find_campaign(uri, args.campaign)
    entry = decide(uri, campaign, args.arm, decision=WORDS[args.decision], reason=args.reason, name=args.name)
    if args.json:
        json.dump(asdict(entry), sys.stdout, indent=2, allow_nan=False)
        print()
    else:
        print(f"{entry.arm} of {campaign.protocol_name} is {entry.decision} (decision {entry.number} about it)")
    return 0
