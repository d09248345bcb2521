"""``drift demo``: the whole job on a small model."""

from __future__ import annotations

import argparse
import sys

from drift_runs.cli.run import INTERRUPTED as INTERRUPTED  # the same promise: what is finished is safe
from drift_runs.cli.run import add_store_arguments

HELP = """Run the whole job on SmolLM2-135M-Instruct: fetch the model once, make its variants, compare them under the
shipped protocol, log every figure. Needs no GPU and no account; a second run finds everything done."""
EXAMPLE = """drift demo
drift demo --protocol smollm2-ops
drift demo --store try-store && drift dashboard --store try-store"""

PROTOCOL = "smollm2-ops"
"""What runs unless another is asked for."""

PROTOCOLS = ("smollm2-ops", "smollm2-quick")
"""Those of ``drift_runs.weights.demo``, which is too slow to import for a help text."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_store_arguments(parser)
    parser.add_argument(
        "--protocol",
        choices=PROTOCOLS,
        default=PROTOCOL,
        help=f"smollm2-quick: the stock model; smollm2-ops: the same with an adapter for operations tasks merged in "
        f"(default: {PROTOCOL})",
    )
    parser.add_argument("--threads", type=int, default=2, help="engine threads (default: 2)")


def run(args: argparse.Namespace) -> int:
    from drift_runs.cli.progress import ProgressLine
    from drift_runs.cli.run import execute
    from drift_runs.errors import ConfigError
    from drift_runs.lanes.bounds import DEMO
    from drift_runs.machine import FILE_NAME, load_machine, machine_text
    from drift_runs.protocol.canonical import write_atomically
    from drift_runs.protocol.load import find_protocol, load_followups, load_protocol
    from drift_runs.store import Store
    from drift_runs.weights.demo import DEMOS, prepare

    if args.threads < 1:
        raise ConfigError(f"{args.threads} threads", where="--threads", expected="1 or more")
    demo = DEMOS[args.protocol]
    path = find_protocol(demo.protocol)
    loaded = load_protocol(path)
    follow_up_file = path.with_name(f"{demo.protocol}.followups.toml")
    follow_ups = load_followups(follow_up_file, loaded) if follow_up_file.is_file() else ()
    line = ProgressLine()

    def note(text: str) -> None:
        line.clear()
        print(text, file=sys.stderr, flush=True)

    def downloaded(done: int, total: int) -> None:
        line.show(f"fetching the model: {done / 1e6:.0f} of {total / 1e6:.0f} MB")

    files = prepare(demo, progress=downloaded, note=note)
    line.clear()
    Store(args.store).open(create=True)
    machine_file = args.store / FILE_NAME
    text = machine_text(files.models, same_model=demo.same_model, threads=args.threads, adapters=files.adapters)
    write_atomically(machine_file, text.encode())
    code = execute(
        loaded,
        load_machine(machine_file),
        store=args.store,
        tracking_uri=args.tracking_uri,
        follow_ups=follow_ups,
        bounds=DEMO,
    )
    where = "" if str(args.store) == "drift-store" else f" --store {args.store}"
    note(f"See it: drift dashboard{where}   (or: make dashboard)")
    return code
