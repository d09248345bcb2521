"""``drift plan``: what a run will score, take and store, before it starts."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from drift_runs.cli.generation_estimate import estimate_json, estimate_lines, lane_tokens
from drift_runs.cli.generation_said import generation_lines
from drift_runs.cli.plan_estimate import Estimate, Probe, estimate_of, measure_probe, scored_of, size
from drift_runs.cli.run import add_store_arguments, machine_path
from drift_runs.cli.subsample import quoted, stored_results

if TYPE_CHECKING:
    from drift_runs.capture.planning import LeftOut

HELP = """Show what a run will score, what it will take and what it will store, before it starts.

The time is estimated from a probe of a few seconds with the reference's model; --no-probe leaves it out.

An arm whose server does not answer is planned from what the store remembers of it, and marked so. One that nothing is
known of, because its engine or server refuses what it is asked, is named with the reason, and the exit code is 5."""
EXAMPLE = """drift plan smollm2-quick
drift plan protocols/mine.toml --machine drift.toml --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("protocol", help="protocol file, or the name of a shipped one")
    parser.add_argument("--machine", type=Path, help="where models lie (default: drift.toml, else the store's)")
    parser.add_argument("--followups", type=Path, help="file with arms outside the frozen protocol")
    parser.add_argument("--spill-gb", type=float, default=8.0, help="room for the reference's full rows (default: 8)")
    parser.add_argument("--no-probe", action="store_true", help="do not open a model: no estimate of time and bytes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_store_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from drift_runs.cli.plan_servers import missing_tokens, silent_of
    from drift_runs.errors import ConfigError, DriftError, EngineError
    from drift_runs.protocol.load import find_protocol, load_followups, load_protocol

    if not 0 < args.spill_gb < float("inf"):  # false for NaN too
        raise ConfigError(f"{args.spill_gb} GB", where="--spill-gb", expected="a positive number")
    loaded = load_protocol(find_protocol(args.protocol))
    follow_ups = load_followups(args.followups, loaded) if args.followups else ()
    executions = None
    left_out: list[LeftOut] = []
    probe = None
    why_no_probe = "--no-probe was given"
    machine_file = machine_path(args.machine, args.store)
    if machine_file is None:
        why_no_probe = "no drift.toml says where the models lie"
    elif not args.no_probe:
        try:
            executions = _executions(loaded, machine_file, follow_ups, args.store, left_out)
            if executions is None:
                why_no_probe = "the reference's engine or server cannot be asked, and nothing of it is known"
            elif executions[0].remembered is not None:
                why_no_probe = "the reference's server could not be asked now"
            elif executions[0].arm.engine == "replay":
                why_no_probe = "the reference is a recording, and how fast it plays says nothing of an engine"
            else:
                probe = measure_probe(loaded, executions[0])
        except DriftError as error:
            if args.machine is not None:
                raise
            why_no_probe = error.line()
    more = missing_tokens(loaded, follow_ups, left_out)
    estimate = estimate_of(loaded, follow_ups, executions, probe, args.store, int(args.spill_gb * 1e9), more)
    silent = silent_of(executions, left_out)
    arms = [arm.name for arm in (*loaded.protocol.arms, *follow_ups) if arm.role != "reference"]
    samples = stored_results(args.store, loaded.protocol_sha256, arms)
    if args.json:
        _print_json(loaded, follow_ups, estimate, probe, why_no_probe, samples, silent)
    else:
        _print_text(loaded, follow_ups, estimate, probe, why_no_probe)
        for at, found in enumerate(silent):
            print(f"{'servers' if at == 0 else '':<9}{found.line()}")
        _print_samples(args.protocol, samples)
    if left_out:
        for arm, why in left_out:
            print(f"drift: arm {arm} is left out: {why.line()}", file=sys.stderr)
        return EngineError.exit_code
    return 0


def _executions(loaded, machine_file, follow_ups, store: Path, left_out: list[LeftOut]):
    """What is to be executed; None where the reference's engine or server refuses. Nothing is written."""
    from drift_runs.capture.observed import costs_one_arm
    from drift_runs.capture.planning import LeftOut, plan_executions
    from drift_runs.errors import DriftError
    from drift_runs.machine import load_machine
    from drift_runs.store import Store

    machine = load_machine(machine_file)
    try:
        return plan_executions(
            loaded, machine, follow_ups=follow_ups, store=Store(store), left_out=left_out, keep=False
        )
    except DriftError as error:
        if not costs_one_arm(error):
            raise
        left_out.append(LeftOut(loaded.protocol.reference.name, error))
        return None


def _print_json(
    loaded, follow_ups, estimate: Estimate, probe: Probe | None, why_no_probe: str, samples, silent
) -> None:
    content = {
        "protocol": loaded.protocol.name,
        "version": loaded.protocol.version,
        "sha256": loaded.protocol_sha256,
        "draft": loaded.draft,
        "estimate": asdict(estimate),
        # Upper bounds, apart from the captures'; null where the protocol generates nothing.
        "generation": estimate_json(lane_tokens(loaded, follow_ups)),
        "probe": asdict(probe) if probe is not None else None,
        "no_probe_because": None if probe is not None else why_no_probe,
        # Arms and floors whose engine or server could not be asked now.
        "servers": [asdict(found) for found in silent],
        # Empty until 'drift subsample' ran: one entry an arm, in the protocol's order.
        "samples": [
            {"arm": result.arm, "quoted": quoted(result), "findings": [asdict(f) for f in result.findings]}
            for result in samples
        ],
    }
    json.dump(content, sys.stdout, indent=2, allow_nan=False)
    print()


def _print_text(loaded, follow_ups, estimate: Estimate, probe: Probe | None, why_no_probe: str) -> None:
    from drift_runs.cli.progress import duration
    from drift_runs.errors import one_line

    protocol = loaded.protocol
    state = "draft" if loaded.draft else "frozen"
    print(f"{protocol.name} version {protocol.version} ({state}): {one_line(protocol.title)}")
    print()
    print(f"{'window':<24}{'panel':<7}{'document':<22}{'tokens':>7}{'scored':>8}  ranges")
    outliers = protocol.outlier_windows
    for window in protocol.windows:
        kinds = Counter(span.kind for span in protocol.ranges if span.window == window.name)
        text = ", ".join(f"{kind} x{count}" if count > 1 else kind for kind, count in kinds.items())
        mark = "  (declared outlier)" if window.name in outliers else ""
        tokens = len(loaded.tokens(window.name))
        print(
            f"{window.name:<24}{window.panel:<7}{window.document:<22}{tokens:>7,}{scored_of(window):>8,}  {text}{mark}"
        )
    print()
    print(f"arms     {', '.join(_said_of(arm) for arm in (*protocol.arms, *follow_ups))}")
    print(f"floors   {', '.join(floor.name for floor in protocol.floors) or 'none'}")
    for line in generation_lines(loaded):
        print(f"{line[:9]}{line[12:]}")
    print(
        f"work     {estimate.executions} executions, {estimate.tokens:,} tokens to evaluate, "
        f"{estimate.positions:,} rows"
        + ("" if estimate.tokens_left is None else f"; {estimate.tokens_left:,} tokens not in the store yet")
    )
    for line in estimate_lines(lane_tokens(loaded, follow_ups)):
        print(line)
    print(f"disk     full distributions of these rows would take {size(estimate.full_bytes)} at 2 bytes an entry")
    if estimate.stored_bytes is not None:
        share = estimate.stored_bytes / estimate.full_bytes
        print(f"         stored instead: about {size(estimate.stored_bytes)} ({share:.2%})")
    print(
        f"         room while it runs: {size(estimate.spill_bytes)} for the reference's full rows, "
        f"in {estimate.groups} group{'s' if estimate.groups > 1 else ''} of windows; given back at the end"
    )
    if probe is not None and estimate.seconds_left is not None:
        print(
            f"time     about {duration(estimate.seconds_left)} at {probe.tokens_per_s:.0f} tokens/s, "
            "as the reference's model ran just now; other weights and settings run faster or slower"
            + (". Of the captures alone" if lane_tokens(loaded, follow_ups) else "")
        )
    else:
        print(f"time     not estimated: {why_no_probe}")


def _said_of(arm) -> str:
    """An arm's name, and what of it is not seen in the name."""
    scale = arm.settings.adapter_scale
    from drift_runs.protocol.model import WRITERS

    more = ["follow-up"] if arm.role == "follow-up" else []
    more += ["writes only"] if arm.engine in WRITERS else []
    more += [] if scale is None else [f"adapter at {scale:g}"]
    return f"{arm.name} ({', '.join(more)})" if more else arm.name


def _print_samples(protocol: str, samples) -> None:
    """What a sample of these positions missed, as it was measured; or how to find out."""
    if not samples:
        print(f"sample   would one position in 32 do? Once it ran, drift subsample {protocol} says what that misses")
        return
    for at, line in enumerate(quoted(samples[0])):
        print(f"{'sample' if at == 0 else '':<9}{line}")
    others = len(samples) - 1
    more = f"; the same for {others} more arm{'s' if others > 1 else ''}" if others else ""
    print(f"         measured on this protocol's rows by drift subsample{more}")
