"""``drift run``: execute a protocol, or go on with it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drift_runs.lanes.bounds import Bounds

HELP = """Run a protocol: take every arm's rows, compare them with the reference, log every figure.

Rows that are there already are not taken again: an interrupted run goes on where it stopped, at the same bytes."""
EXAMPLE = """drift run protocols/mine.toml --machine drift.toml
drift run smollm2-quick --arms q8_0 q4_0 --store /data/drift
drift run protocols/servers.toml --reference 3f2a91c0 --reference-uri http://tracking:5000"""
INTERRUPTED = "every finished window is safe: run the same command to go on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("protocol", help="protocol file, or the name of a shipped one")
    parser.add_argument("--machine", type=Path, help="where models lie (default: drift.toml, else the store's)")
    parser.add_argument("--followups", type=Path, help="file with arms outside the frozen protocol")
    parser.add_argument(
        "--reference",
        metavar="RUN",
        help="compare with the reference rows of another machine's campaign, by its run id; the reference's own arm is "
        "then run here as one more candidate",
    )
    parser.add_argument("--reference-uri", metavar="URI", help="MLflow store of that campaign (default: this one's)")
    parser.add_argument(
        "--ask-again", action="store_true", help="ask servers that take texts again what they could not be asked"
    )
    parser.add_argument("--arms", nargs="+", default=[], metavar="ARM", help="take these candidates only")
    add_store_arguments(parser)
    parser.add_argument(
        "--spill-gb", type=float, default=8.0, help="room on disk for the reference's full rows (default: 8)"
    )
    parser.add_argument(
        "--state-gb",
        type=float,
        default=4.0,
        help="room on disk for what the engines' memories hold behind the windows, until free generation has read it; "
        "what does not fit is evaluated again (default: 4)",
    )
    add_bounds_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def add_bounds_arguments(parser: argparse.ArgumentParser) -> None:
    """Bounds of free generation, below the protocol's own."""
    bounds = parser.add_argument_group("free generation", "bounds below the protocol's own; what is bounded is said")
    bounds.add_argument("--roots", type=int, metavar="N", help="roots of an arm")
    bounds.add_argument("--horizon", type=int, metavar="TOKENS", help="tokens of a future")
    bounds.add_argument("--prompts", type=int, metavar="N", help="prompts of rollouts and of sampled decoding")
    bounds.add_argument("--tasks", type=int, metavar="N", help="tasks, spread over the windows")
    bounds.add_argument("--no-sampled", action="store_true", help="leave decoding at a temperature out")


def bounds_of(args: argparse.Namespace) -> Bounds:
    """The bounds that were asked for; ``ConfigError`` for one that is no count."""
    from drift_runs.errors import ConfigError
    from drift_runs.lanes.bounds import Bounds

    for name, value, least in (
        ("--roots", args.roots, 1),
        ("--horizon", args.horizon, 16),
        ("--prompts", args.prompts, 1),
        ("--tasks", args.tasks, 0),
    ):
        if value is not None and value < least:
            raise ConfigError(f"{value}", where=name, expected=f"{least} or more")
    return Bounds(
        roots=args.roots,
        horizon_tokens=args.horizon,
        prompts=args.prompts,
        tasks=args.tasks,
        sampled=not args.no_sampled,
    )


def add_store_arguments(parser: argparse.ArgumentParser) -> None:
    """``--store`` and ``--tracking-uri``, the same for every command that has a store."""
    default = os.environ.get("DRIFT_STORE") or "drift-store"
    parser.add_argument(
        "--store",
        type=Path,
        default=Path(default),
        help="folder of rows and results (default: $DRIFT_STORE or drift-store)",
    )
    parser.add_argument(
        "--tracking-uri", help="MLflow store (default: $MLFLOW_TRACKING_URI, else sqlite inside the store folder)"
    )


def machine_path(given: Path | None, store: Path) -> Path | None:
    """The machine file: the one named, else ``drift.toml`` here, else the one inside the store; None without any."""
    if given is not None:
        return given
    return next((path for path in (Path("drift.toml"), store / "drift.toml") if path.is_file()), None)


def run(args: argparse.Namespace) -> int:
    from drift_runs.machine import load_machine
    from drift_runs.protocol.amend import superseded_lock
    from drift_runs.protocol.load import find_protocol, load_followups, load_protocol

    loaded = load_protocol(find_protocol(args.protocol))
    superseded_lock(loaded)  # an amendment of something else than it names is refused before any work
    follow_ups = load_followups(args.followups, loaded) if args.followups else ()
    return execute(
        loaded,
        load_machine(machine_path(args.machine, args.store) or Path("drift.toml")),
        store=args.store,
        tracking_uri=args.tracking_uri,
        follow_ups=follow_ups,
        reference_run=args.reference or "",
        reference_uri=args.reference_uri or "",
        only=tuple(args.arms),
        spill_gb=args.spill_gb,
        state_gb=args.state_gb,
        bounds=bounds_of(args),
        ask_again=args.ask_again,
        as_json=args.json,
    )


def execute(
    loaded,
    machine,
    *,
    store: Path,
    tracking_uri: str | None,
    follow_ups: Sequence = (),
    reference_run: str = "",
    reference_uri: str = "",
    only: Sequence[str] = (),
    spill_gb: float = 8.0,
    state_gb: float = 4.0,
    bounds: Bounds | None = None,
    ask_again: bool = False,
    as_json: bool = False,
) -> int:
    """Run a campaign with progress on stderr and the table (or JSON) on stdout; the exit code."""
    from drift_runs.campaign import Outcome, Request, run_campaign
    from drift_runs.cli import generated, remarks, table
    from drift_runs.cli.progress import CampaignProgress, duration
    from drift_runs.errors import ConfigError, EngineError
    from drift_runs.lanes.bounds import WHOLE
    from drift_runs.store import Store
    from drift_runs.tracking.uris import resolve_uri

    if not 0 < spill_gb < float("inf"):  # false for NaN too
        raise ConfigError(f"{spill_gb} GB", where="--spill-gb", expected="a positive number")
    if not 0 <= state_gb < float("inf"):
        raise ConfigError(f"{state_gb} GB", where="--state-gb", expected="0 or more")
    protocol = loaded.protocol
    printed: list[Outcome] = []

    def print_row(outcome: Outcome) -> None:
        if not as_json:
            if not printed:
                print(table.header(protocol.capture.divergence, answers=bool(protocol.answers)))
            print(table.row(outcome, answers=bool(protocol.answers)), flush=True)
        printed.append(outcome)

    progress = CampaignProgress(print_row)
    progress.note(f"{protocol.name} version {protocol.version}, {'draft' if loaded.draft else 'frozen'}")
    request = Request(
        loaded=loaded,
        machine=machine,
        store=Store(store),
        tracking_uri=resolve_uri(tracking_uri, store),
        follow_ups=tuple(follow_ups),
        reference_run=reference_run,
        reference_uri=reference_uri,
        only=tuple(only),
        spill_bytes=int(spill_gb * 1e9),
        state_bytes=int(state_gb * 1e9),
        bounds=bounds or WHOLE,
        ask_again=ask_again,
    )
    try:
        result = run_campaign(request, None, progress)
    finally:
        progress.close()
    if as_json:
        json.dump(_as_json(result), sys.stdout, indent=2, allow_nan=False)
        print()
    else:
        print(table.legend(printed, protocol))
        arms = [found for found in printed if found.execution.kind in ("candidate", "follow-up")]
        for line in remarks.lines(
            {found.execution.name: found.listed for found in arms if found.listed is not None},
            result.agreement,
            protocol.capture.divergence,
        ):
            print(line)
        for line in generated.lines(result.generation, protocol, request.bounds.said(protocol), result.task_order):
            print(line)
        print(table.notes(loaded))
    timing = result.timing
    if timing.positions:
        progress.note(
            f"{timing.positions:,} positions, {timing.tokens:,} tokens: engines {duration(timing.engine_s)} "
            f"({timing.tokens / timing.engine_s:.0f} tokens/s), our part {duration(timing.own_s)}, "
            f"opening {duration(timing.open_s)}, peak {timing.peak_bytes / 1e9:.1f} GB"
        )
    timing = result.generation_timing
    if timing.tokens:
        progress.note(
            f"free generation: {timing.tokens:,} tokens, engines {duration(timing.engine_s)} "
            f"({timing.tokens / timing.engine_s:.0f} tokens/s), opening {duration(timing.open_s)}"
        )
    if result.left_out:
        for arm, why in result.left_out:
            print(f"drift: arm {arm} was left out: {why.line()}", file=sys.stderr)
        print("drift: put that right and run the same command again", file=sys.stderr)
    if result.failed or result.failed_generation:
        names = ", ".join(found.execution.name for found in (*result.failed, *result.failed_generation))
        print(f"drift: failed arms: {names}", file=sys.stderr)
    if result.left_out or result.failed or result.failed_generation:
        return EngineError.exit_code
    return 0


def _as_json(result) -> dict:
    from dataclasses import asdict

    said = {
        "run_id": result.run_id,
        "already_complete": result.already_complete,
        "timing": asdict(result.timing),
        "arms": [
            {
                "arm": outcome.execution.name,
                "kind": outcome.execution.kind,
                "capture": outcome.execution.capture_id,
                "run_id": outcome.run_id,
                "error": outcome.error.line() if outcome.error else None,
                "warnings": list(outcome.warnings),
                "rows": outcome.determinism.rows if outcome.determinism else None,
                "rows_identical": outcome.determinism.rows_identical if outcome.determinism else None,
                "figures": outcome.figures.to_pylist() if outcome.figures is not None else [],
            }
            for outcome in result.outcomes
        ],
    }
    if result.left_out:
        said["left_out"] = [{"arm": arm, "error": why.line()} for arm, why in result.left_out]
    if result.generation:
        said["generation"] = [
            {
                "arm": report.execution.name,
                "error": report.error.line() if report.error else None,
                "retries": dict(report.retries),
                # Null where none are followed, and of an arm without rows, whose flips nobody sees.
                "flips": existing.flips if existing else None,
                "strong_overturns": existing.strong if existing else None,
                "asked_at": visited.num_rows if visited is not None else None,
                "outcomes": report.outcomes.to_pylist(),
                "tasks": report.tasks.to_pylist(),
                "figures": report.figures.to_pylist(),
            }
            for report in result.generation
            for existing, visited in [_followed(report)]
        ]
    return said


def _followed(report):
    """The flips of an arm, and the places where one without rows was asked; None for what there is not."""
    return (None, None) if report.explored is None else (report.explored.existing, report.explored.visited)
