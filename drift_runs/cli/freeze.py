"""``drift freeze``: writes the lock of a protocol."""

from __future__ import annotations

import argparse
import json
import sys

from drift_runs.generate.answer_forms import form_report
from drift_runs.protocol.freeze import freeze
from drift_runs.protocol.load import find_protocol, load_protocol
from drift_runs.protocol.problems import raise_first

HELP = (
    "Check a protocol and write its lock beside it. From then on 'drift run' refuses other content. A frozen protocol "
    "is never edited: change a copy, with a new version and [supersedes]."
)
EXAMPLE = """
drift freeze protocols/mine.toml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("protocol", metavar="PROTOCOL", help="a protocol file, or the name of a protocol")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    path = find_protocol(args.protocol)
    if errors := form_report(load_protocol(path, verify_lock=False)).errors:
        raise_first(errors)
    frozen = freeze(path)
    lock = frozen.lock
    if args.json:
        answer = {
            "lock": frozen.path.as_posix(),
            "already": frozen.already,
            "protocol_sha256": lock.protocol_sha256,
            "frozen_at": lock.frozen_at,
            "files": len(lock.files),
        }
        print(json.dumps(answer, indent=2))
    elif frozen.already:
        print(f"already frozen {lock.frozen_at}, nothing changed: {frozen.path}")
    else:
        print(f"frozen: {frozen.path}")
    print(f"drift: sha256 {lock.protocol_sha256}, {len(lock.files)} stream files", file=sys.stderr)
    return 0
