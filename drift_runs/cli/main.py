"""``drift``: finds the command, imports its module alone, and turns errors into one line and an exit code.

Exit codes: 0 done, 1 a gate's regression, 2 the user's input is wrong, 3 inconclusive, 4 not measured, 5 an engine
failed, 70 a fault in this program, 130 interrupted, 141 the reader of a pipe went away.

A command is a module of this package with the command's name. It has ``HELP`` (what it does, shown by its own
``--help``), ``EXAMPLE`` (command lines), ``add_arguments(parser)`` and ``run(args) -> int``; it may have
``INTERRUPTED``, the sentence for Ctrl-C that says what is safe and how to go on. Nothing heavy is imported here, so
that ``drift --help`` answers at once.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
import textwrap
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from drift_runs import __version__
from drift_runs.errors import ConfigError, DriftError, one_line

COMMANDS = {
    "demo": "run the whole job on a small model: fetch, make variants, compare, show",
    "check": "check a protocol and say what it holds, or everything that is wrong with it",
    "freeze": "write a protocol's lock: from then on it is never edited",
    "plan": "show what a run will score, take and store, before it starts",
    "probe": "ask the arms' engines whether they give what a protocol needs",
    "record": "let the reference write the streams of the generated panel, once",
    "run": "run a protocol, or go on with an interrupted run",
    "import": "bring rows or figures of another tool into the store",
    "compare": "set two files of other tools against each other, without a store",
    "measure": "compute every figure again from the stored rows",
    "subsample": "say what a sample of the positions would have missed",
    "report": "write a campaign as one HTML file, and its tables as CSV",
    "decide": "record what was decided about an arm",
    "dashboard": "show the results in a browser",
}
"""One line a command: the table of ``drift --help``."""

EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
_INTERRUPTED = "nothing was left half-written; run the same command again"


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are errors of this program: one line, with the nearest valid option."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, where=self.prog, todo=f"see '{self.prog} --help'")

    def parse_all(self, arguments: Sequence[str]) -> argparse.Namespace:
        args, extra = self.parse_known_args(arguments)
        if extra:
            options = [option for action in self._actions for option in action.option_strings if len(option) > 2]
            near = _nearest(extra[0].partition("=")[0], options)
            raise ConfigError(
                f"unknown argument {extra[0]!r}", where=self.prog, todo=near or f"see '{self.prog} --help'"
            )
        return args


def entry() -> NoReturn:
    """The console script."""
    sys.exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments  # before any parsing, so that a failure to parse can be looked into as well
    interrupted = _INTERRUPTED
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 must not end a run
    try:
        before, command, after = _split(arguments)
        top = _top_parser()
        top.parse_all(before)
        if command is None:
            top.print_help(sys.stderr)
            return ConfigError.exit_code
        if command not in COMMANDS:
            raise ConfigError(
                f"unknown command {command!r}",
                expected="one of " + ", ".join(COMMANDS),
                todo=_nearest(command, COMMANDS),
            )
        module = importlib.import_module(f"drift_runs.cli.{command}")
        interrupted = getattr(module, "INTERRUPTED", _INTERRUPTED)
        args = _command_parser(command, module).parse_all(after)
        args.debug = debug
        code = module.run(args)
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # --help and --version
        return stop.code if isinstance(stop.code, int) else 0
    except DriftError as error:
        return _fail(error.line() + _more(error), error.exit_code, debug)
    except KeyboardInterrupt:
        return _fail(f"interrupted; {interrupted}", EXIT_INTERRUPTED, debug, label="drift")
    except BrokenPipeError:
        # Without this the interpreter fails once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            full = DriftError(
                f"cannot be written: {error.strerror}",
                where=str(error.filename or "standard output or a temporary file"),
                todo="free some space; what was finished is safe",
            )
            return _fail(full.line(), full.exit_code, debug)
        text = one_line(f"{type(error).__name__}: {error}")
        hint = "" if debug else "; run it again with --debug for a traceback"
        return _fail(f"internal error: {text}{hint}", EXIT_INTERNAL, debug)


def _open_closed_streams() -> None:
    """Where a caller closed a standard stream, nothing is read and nothing written.

    Left closed, its number would go to the next file that is opened, and a stray line would be written into that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number: this one
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _fail(line: str, code: int, debug: bool, label: str = "drift: error") -> int:
    if debug:
        import traceback

        traceback.print_exc()
    print(f"{label}: {line}", file=sys.stderr)
    return code


def _more(error: DriftError) -> str:
    others = getattr(error, "others", ())
    return f" (and {len(others)} more: 'drift check' shows them all)" if others else ""


def _split(arguments: list[str]) -> tuple[list[str], str | None, list[str]]:
    """Options before the command, the command, everything after it."""
    for index, argument in enumerate(arguments):
        if not argument.startswith("-"):
            return arguments[:index], argument, arguments[index + 1 :]
    return arguments, None, []


def _top_parser() -> Parser:
    width = max(map(len, COMMANDS))
    table = "\n".join(f"  {name:<{width}}  {line}" for name, line in COMMANDS.items())
    parser = Parser(
        prog="drift",
        usage="drift [--debug] COMMAND ...",
        description="Find out what a quant, a derivative, a KV-cache precision or a setting does to a model's output.",
        epilog=f"commands:\n{table}\n\nexample:\n  drift demo\n  drift run --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"drift {__version__}")
    _add_debug(parser)
    return parser


def _command_parser(command: str, module: ModuleType) -> Parser:
    paragraphs = [textwrap.fill(" ".join(part.split()), 100) for part in module.HELP.split("\n\n")]
    example = "\n".join(f"  {line.strip()}" for line in module.EXAMPLE.strip().splitlines())
    parser = Parser(
        prog=f"drift {command}",
        description="\n\n".join(paragraphs),
        epilog=f"example:\n{example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    _add_debug(parser)
    return parser


def _add_debug(parser: Parser) -> None:
    parser.add_argument("--debug", action="store_true", help="show a traceback when something fails")


def _nearest(name: str, options: Sequence[str] | dict[str, str]) -> str:
    import difflib

    found = difflib.get_close_matches(name, list(options), n=1, cutoff=0.6)
    return f"did you mean '{found[0]}'?" if found else ""


if __name__ == "__main__":
    entry()
