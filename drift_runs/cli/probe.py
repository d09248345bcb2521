"""``drift probe``: what each arm's engine really gives, asked before anything is measured with it."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing, suppress
from pathlib import Path

from drift_runs.cli.run import add_store_arguments, machine_path

HELP = """Ask the engine of each arm, in seconds and with the protocol's own tokens, whether it gives what the protocol
needs of it: the ids and their table, a row for every token, the entries of a row, raw log-probabilities that repeat,
room for the longest window, a rollout that is text.

Each answer is yes, no or not established, with the numbers that were seen. The exit code is 5 where the protocol needs
a yes and there is none; the way round stands under the answer."""
EXAMPLE = """
drift probe smollm2-quick --machine drift-store/drift.toml
drift probe protocols/mine.toml --arm server-q8_0
drift probe protocols/mine.toml --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("protocol", metavar="PROTOCOL", help="a protocol file, or the name of a shipped protocol")
    parser.add_argument("--arm", action="append", default=[], metavar="ARM", help="only this arm; may be repeated")
    parser.add_argument("--machine", type=Path, help="where engines lie (default: drift.toml, else the store's)")
    parser.add_argument("--followups", type=Path, help="file with arms outside the frozen protocol")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_store_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from drift_runs.errors import EngineError, one_line
    from drift_runs.machine import load_machine
    from drift_runs.protocol.load import find_protocol, load_followups, load_protocol

    loaded = load_protocol(find_protocol(args.protocol))
    follow_ups = load_followups(args.followups, loaded) if args.followups else ()
    arms = _chosen((*loaded.protocol.arms, *follow_ups), args.arm)
    machine = load_machine(machine_path(args.machine, args.store) or Path("drift.toml"))
    reports, dictionary = {}, None
    for arm in arms:
        if not args.json:
            print(f"{'' if not reports else chr(10)}{arm.name} ({arm.role}): {one_line(arm.title or arm.weights)}")
        report, dictionary = _probed(loaded, machine, arm, dictionary, debug=args.debug)
        reports[arm.name] = report
        if not args.json:
            print("\n".join(report.lines()), flush=True)
    lacking = {name: report.blocking for name, report in reports.items() if report.blocking}
    if args.json:
        _print_json(loaded, reports)
    for name, answers in lacking.items():
        questions = ", ".join(f"{answer.question} ({answer.answer})" for answer in answers)
        print(f"drift: arm {name} cannot be measured as the protocol needs it: {questions}", file=sys.stderr)
    return EngineError.exit_code if lacking else 0


def _chosen(arms, names: list[str]):
    """The arms that have an engine, those of ``names`` if any is given.

    A recording holds the answers to the windows themselves: it is played or refused, and has nothing to be asked.
    """
    from drift_runs.errors import ConfigError, ProtocolError
    from drift_runs.protocol.problems import did_you_mean

    known = [arm.name for arm in arms]
    for name in names:
        if name not in known:
            raise ProtocolError(
                f"unknown arm {name!r}",
                where="--arm",
                expected=f"one of {', '.join(known)}",
                todo=did_you_mean(name, known),
            )
    found = [arm for arm in arms if (not names or arm.name in names) and arm.engine not in ("imported", "replay")]
    if not found:
        raise ConfigError("no engine to ask: the rows of these arms were taken elsewhere", where="--arm")
    return found


def _probed(loaded, machine, arm, dictionary, *, debug: bool):
    """The arm's report, and the protocol's table of ids as soon as an engine has shown it.

    An engine that does not open, for whatever reason, is an answer too: the other arms are asked all the same.
    """
    from drift_runs.capture.execution import engine_settings
    from drift_runs.capture.observed import open_arm
    from drift_runs.engines.probe.answers import YES
    from drift_runs.engines.probe.run import not_opened, probe
    from drift_runs.engines.probe.task import probe_task
    from drift_runs.errors import DriftError, EngineError

    try:
        opened = open_arm(loaded, machine, arm)
    except DriftError as error:
        return not_opened(arm.engine, error), dictionary
    except Exception as error:
        if debug:
            raise
        return not_opened(arm.engine, EngineError(f"{type(error).__name__}: {error}", where=arm.name)), dictionary
    with closing(opened) as engine:
        settings = engine_settings(loaded.protocol.capture, arm, None, threads=machine.threads(arm.name))
        report = probe(engine, probe_task(loaded, arm, settings, dictionary=dictionary))
        if dictionary is None and report.answer("dictionary").answer == YES:
            with suppress(DriftError):  # a server that has gone since: the next arm's differences are shown by texts
                dictionary = tuple(engine.token_bytes())
    return report, dictionary


def _print_json(loaded, reports) -> None:
    content = {
        "protocol": loaded.protocol.name,
        "version": loaded.protocol.version,
        "sha256": loaded.protocol_sha256,
        "arms": {name: report.as_json() for name, report in reports.items()},
    }
    json.dump(content, sys.stdout, indent=2, allow_nan=False, ensure_ascii=False)
    print()
