"""``drift check``, ``drift freeze`` and what every command shares, through real processes."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drift_runs import __version__
from drift_runs.cli import main as cli
from drift_runs.errors import DriftError, Inconclusive
from tests.conftest import DELETE, TINY, change_toml, copy_tiny, dump_toml

PACKAGE = Path(cli.__file__).parent


def drift(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "drift_runs.cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


def assert_one_error(result: subprocess.CompletedProcess[str], text: str, code: int = 2) -> None:
    assert result.returncode == code
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("drift: error: ")
    assert text in line


# check


def test_check_says_what_a_protocol_holds():
    result = drift("check", TINY / "tiny.toml")
    assert (result.returncode, result.stderr) == (0, "")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["P-A", "prompt", "2", "1", "3", "37", "82"] in lines
    assert ["all", "4", "3", "5", "76", "138"] in lines
    assert ["prose", "2", "28"] in lines
    assert "frozen 2026-01-02T03:04:05Z" in result.stdout
    assert "It repeats one letter" in result.stdout


def test_texts_of_a_protocol_cannot_steer_the_terminal(tmp_path):
    # JSON's escapes are TOML's.
    steering = "T\x9b31m\u202e\ndrift: error: forged"
    path = copy_tiny(tmp_path)
    text = path.read_text(encoding="utf-8")
    for old in ('"Tiny"', '"The weights are made up."', '"It repeats one letter, which no real text does."'):
        assert old in text
        text = text.replace(old, json.dumps(steering))
    path.write_text(text, encoding="utf-8")
    for command in (("check",), ("plan", "--no-probe")):
        result = drift(*command, path)
        assert result.returncode == 0
        assert r"T\x9b31m\u202e drift: error: forged" in result.stdout
        assert not set(result.stdout + result.stderr) & set("\x1b\x07\x9b\u202e")


def test_a_control_character_is_refused_before_it_is_frozen(tmp_path):
    path = copy_tiny(tmp_path, {"title": "T\x1b[2J"})
    assert_one_error(drift("freeze", path), "title: the text holds the control character U+001B")


def test_an_error_cannot_steer_the_terminal():
    error = DriftError("a\x1b[2J\nb", where="c\r\x9bd", todo="e\u202ef")
    assert error.line() == r"c \x9bd: a\x1b[2J b; e\u202ef"


def test_a_context_that_no_engine_can_count_is_refused(tmp_path):
    path = copy_tiny(tmp_path, {"capture.context_tokens": 2**32 + 64})
    assert_one_error(drift("check", path), "capture.context_tokens: 4294967360 is out of bounds")


def test_check_as_json_counts_the_same():
    answer = json.loads(drift("check", TINY / "tiny.toml", "--json").stdout)
    assert answer["valid"] is True
    assert answer["draft"] is False
    assert answer["scored_positions"] == sum(panel["scored_positions"] for panel in answer["panels"]) == 76
    assert answer["positions_in_ranges"] == sum(kind["positions"] for kind in answer["kinds"]) == 76
    assert answer["candidates"] == ["q8_0", "q4_0", "kv-q4_0"]


def test_check_marks_a_draft_and_notes_what_is_allowed_but_odd(tmp_path):
    result = drift("check", copy_tiny(tmp_path, {"floors": [], "ranges": lambda ranges: ranges[1:]}))
    assert result.returncode == 0
    assert "draft (not frozen)" in result.stdout
    assert result.stderr.splitlines() == [
        "drift: note: the reference 'f16' has no floor: no figure will get a verdict",
        "drift: note: 12 of 76 scored positions lie in no range",
    ]


def write_chat(folder: Path, reply: str, form: str) -> Path:
    """The tiny protocol with a stream of its own in window odd: a chat of one request and one answer.

    One id a character; 0 and 1 stand for the ids that begin and end a turn.
    """
    path = copy_tiny(folder)
    given = "<|im_start|>user\nping<|im_end|>\n<|im_start|>assistant\n"
    text = f"{given}{reply}<|im_end|>\n"

    def ids(part: str) -> list[int]:
        short = part.replace("<|im_start|>", "\0").replace("<|im_end|>", "\1")
        return [ord(letter) if letter in "\0\1" else 5 for letter in short]

    start, end = len(ids(given)), len(ids(text)) - 1
    tool = {"name": "open", "parameters": {"type": "object", "required": ["port"]}}
    stream = {"schema": "drift.stream/1", "name": "odd", "tokens": ids(text), "text": text, "tools": [tool]}
    stream |= {"source": "generated", "prompt_tokens": start}
    (folder / "streams" / "odd.json").write_text(json.dumps(stream), encoding="utf-8")
    answers = [{"name": "reply", "window": "odd", "from": start, "to": end, "form": form}]
    changes = {"windows[3].scored": [[start, end]], "ranges[4].from": start, "ranges[4].to": end, "answers": answers}
    change_toml(path, changes | {"capture": {"context_tokens": 256, "batch": 64, "micro_batch": 32}})
    return path


def test_check_counts_answers_and_what_is_scored_of_a_range(tmp_path):
    reply = '<tool_call>\n{"name": "open", "arguments": {"port": 1}}\n</tool_call>'
    path = write_chat(tmp_path, reply, "call")
    change_toml(path, {"ranges[0].to": 24, "ranges[1]": DELETE})
    result = drift("check", path)
    assert (result.returncode, result.stderr) == (0, "")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["kind", "ranges", "positions", "answers"] in lines
    assert ["prose", "2", str(12 + 9 + 16), "0"] in lines
    assert ["literal-copy", "1", str(len(reply) + 1), "1"] in lines
    assert ["answers", "1", "(1", "call)"] in lines
    counted = json.loads(drift("check", path, "--json").stdout)
    assert (counted["answers"], counted["answer_forms"]) == (1, {"call": 1})
    assert counted["positions_in_ranges"] == counted["scored_positions"]


@pytest.mark.parametrize(
    ("reply", "form", "reason"),
    [
        ('<tool_call>\n{"name": "open", "arguments": {}}\n</tool_call>', "call", "'port' is a required property"),
        ('<tool_call>\n{"name": "shut", "arguments": {}}\n</tool_call>', "call", "no tool 'shut' among open"),
        ('{"a": 1', "json", "no JSON"),
    ],
)
def test_an_answer_of_another_form_is_neither_sound_nor_frozen(tmp_path, reply, form, reason):
    path = write_chat(tmp_path, reply, form)
    assert_one_error(drift("check", path), reason)
    assert_one_error(drift("freeze", path), "tiny.toml: answers[0] 'reply'")
    assert not path.with_name("tiny.lock.json").exists()


def test_check_says_which_forms_it_cannot_check(tmp_path):
    answers = [{"name": "late", "window": "beta", "from": 8, "to": 20, "form": "json"}]
    result = drift("check", copy_tiny(tmp_path, {"answers": answers}))
    assert result.returncode == 0
    assert "note: the form of 1 answers could not be checked" in result.stderr
    assert "late" in result.stderr


def test_check_shows_all_errors(tmp_path):
    path = copy_tiny(tmp_path, {"windows[3].panel": "P-C", "outliers[0].window": "ood"})
    result = drift("check", path)
    assert (result.returncode, result.stdout) == (2, "")
    first, second = result.stderr.splitlines()
    assert first.startswith(
        "drift: error: tiny.toml: windows[3].panel of 'odd': unknown panel 'P-C'; expected one of P-A"
    )
    assert second.startswith("drift: error: tiny.toml: outliers[0].window of 'ood': unknown window 'ood'")


def test_check_as_json_lists_all_errors(tmp_path):
    path = copy_tiny(tmp_path, {"windows[3].panel": "P-C", "outliers[0].window": "ood"})
    result = drift("check", "--json", path)
    assert result.returncode == 2
    answer = json.loads(result.stdout)
    assert answer["valid"] is False
    assert [error["what"] for error in answer["errors"]] == ["unknown panel 'P-C'", "unknown window 'ood'"]


def test_check_names_a_changed_key_of_a_frozen_protocol(tmp_path):
    path = copy_tiny(tmp_path, frozen=True)
    change_toml(path, {"windows[0].scored[0][1]": 12, "ranges[0].to": 12})
    result = drift("check", path)
    assert result.returncode == 2
    assert "ranges[0].to of 'alpha-prose': frozen 13, now 12" in result.stderr
    assert "windows[0].scored[0][1] of 'alpha-1': frozen 13, now 12" in result.stderr


def test_check_of_followups(tmp_path):
    path = copy_tiny(tmp_path)
    more = tmp_path / "more.toml"
    arm = {"name": "kv-bf16", "role": "follow-up", "derivative": "stock", "weights": "f16", "kv": "bf16"}
    digest = json.loads(drift("check", path, "--json").stdout)["protocol_sha256"]
    content = {"schema": "drift.followups/1", "protocol": "tiny", "protocol_sha256": digest, "arms": [arm]}
    more.write_text(dump_toml(content))
    result = drift("check", path, "--followups", more)
    assert result.returncode == 0
    assert "kv-bf16 (outside the protocol)" in result.stdout
    more.write_text(dump_toml(content | {"protocol_sha256": "0" * 64}))
    assert_one_error(drift("check", path, "--followups", more), "more.toml: protocol_sha256")


def test_check_of_an_unknown_name_gives_the_nearest(tmp_path):
    copy_tiny(tmp_path / "protocols")
    assert_one_error(drift("check", "tinny", cwd=tmp_path, env=environment()), "did you mean 'tiny'?")


# freeze


def test_freeze_writes_the_lock_once(tmp_path):
    path = copy_tiny(tmp_path)
    result = drift("freeze", path)
    assert result.returncode == 0
    assert result.stdout == f"frozen: {tmp_path / 'tiny.lock.json'}\n"
    before = (tmp_path / "tiny.lock.json").read_bytes()
    again = drift("freeze", path)
    assert again.returncode == 0
    assert again.stdout.startswith("already frozen ")
    change_toml(path, {"title": "Other"})
    assert_one_error(drift("freeze", path), "title: frozen 'Tiny', now 'Other'")
    assert (tmp_path / "tiny.lock.json").read_bytes() == before


def test_freeze_as_json(tmp_path):
    answer = json.loads(drift("freeze", copy_tiny(tmp_path), "--json").stdout)
    assert answer["already"] is False
    assert answer["files"] == 3
    assert Path(answer["lock"]).is_file()


def test_freeze_shows_one_error_and_says_how_many_more(tmp_path):
    path = copy_tiny(tmp_path, {"windows[3].panel": "P-C", "outliers[0].window": "ood"})
    assert_one_error(drift("freeze", path), "(and 1 more: 'drift check' shows them all)")


def test_a_lock_that_cannot_be_written_is_one_line(tmp_path, capsys):
    path = copy_tiny(tmp_path)
    (tmp_path / f".tiny.lock.json.{os.getpid()}.tmp").mkdir()  # where the temporary file would go; stops root as well
    assert cli.main(["freeze", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "tiny.lock.json: cannot be written" in line
    assert line.endswith("make the folder writable")


# What every command shares


def environment() -> dict[str, str]:
    """The project's root on the path, for a process that starts in another folder."""
    return os.environ | {"PYTHONPATH": str(PACKAGE.parents[1])}


def test_help_is_quick_and_lists_every_command():
    times = []
    for _ in range(3):
        start = time.perf_counter()
        result = drift("--help")
        times.append(time.perf_counter() - start)
    assert result.returncode == 0
    assert all(f"\n  {name} " in result.stdout for name in cli.COMMANDS)
    assert min(times) < 0.3


def test_help_imports_nothing_heavy():
    code = "import sys, drift_runs.cli.main as m; m.main(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    loaded = set(ast.literal_eval(result.stderr))
    assert "drift_runs.errors" in loaded
    assert not loaded & {"numpy", "pyarrow", "pydantic", "mlflow", "streamlit", "pandas", "altair", "difflib"}


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_that_is_offered_has_help_with_an_example(command):
    result = drift(command, "--help")
    assert result.returncode == 0, result.stderr
    assert f"\nexample:\n  drift {command}" in result.stdout


def test_version():
    result = drift("--version")
    assert (result.returncode, result.stdout) == (0, f"drift {__version__}\n")


def test_no_command_is_an_error_that_shows_help():
    result = drift()
    assert (result.returncode, result.stdout) == (2, "")
    assert "commands:" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["chekc", "x"], "unknown command 'chekc'; expected one of demo, check, "),
        (["chekc", "x"], "did you mean 'check'?"),
        (["check"], "drift check: the following arguments are required: PROTOCOL; see 'drift check --help'"),
        (["check", "x", "--jsn"], "drift check: unknown argument '--jsn'; did you mean '--json'?"),
        (["--jsn", "check", "x"], "drift: unknown argument '--jsn'"),
        (["check", "x", "y"], "drift check: unknown argument 'y'"),
        (["check", "x", "--followups"], "drift check: argument --followups: expected one argument"),
    ],
)
def test_wrong_usage_is_one_line(arguments, text, capsys):
    assert cli.main(arguments) == 2
    output = capsys.readouterr()
    (line,) = output.err.splitlines()
    assert output.out == ""
    assert line.startswith("drift: error: ")
    assert text in line


@pytest.mark.parametrize("arguments", [["--debug", "check", "nothing.toml"], ["check", "nothing.toml", "--debug"]])
def test_debug_shows_a_traceback_before_the_line(arguments):
    result = drift(*arguments)
    assert result.returncode == 2
    assert result.stderr.startswith("Traceback")
    assert "no such protocol" in result.stderr.splitlines()[-1]


def test_closed_standard_streams_are_no_fault():
    result = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m drift_runs.cli.main check "{TINY / "tiny.toml"}" <&- >&- 2>&-'],
        timeout=60,
    )
    assert result.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_the_output_is_one_line():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "drift_runs.cli.main", "check", str(TINY / "tiny.toml")]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("drift: error: standard output or a temporary file: cannot be written: No space left")


def test_a_reader_that_goes_away_is_no_traceback():
    read, write = os.pipe()
    os.close(read)
    result = subprocess.run(
        [sys.executable, "-m", "drift_runs.cli.main", "check", TINY / "tiny.toml"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    os.close(write)
    assert (result.returncode, result.stderr) == (cli.EXIT_BROKEN_PIPE, "")


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (Inconclusive("too few positions", where="arm q4_0"), 3, "drift: error: arm q4_0: too few positions"),
        (DriftError("a\nb"), 2, "drift: error: a b"),
        (KeyboardInterrupt(), 130, "drift: interrupted; windows that are done are kept"),
        (
            ZeroDivisionError("a\nb"),
            70,
            "drift: error: internal error: ZeroDivisionError: a b; run it again with --debug",
        ),
    ],
)
def test_what_a_command_raises_becomes_a_line_and_a_code(monkeypatch, capsys, raised, code, line):
    from drift_runs.cli import check

    def fail(args):
        raise raised

    monkeypatch.setattr(check, "run", fail)
    monkeypatch.setattr(check, "INTERRUPTED", "windows that are done are kept", raising=False)
    assert cli.main(["check", "x"]) == code
    output = capsys.readouterr()
    assert output.out == ""
    (shown,) = output.err.splitlines()
    assert shown.startswith(line)
