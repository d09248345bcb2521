"""``drift probe``: what it prints of each arm, and its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from drift_runs.capture import observed
from drift_runs.cli.main import main
from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.engines.probe.run import QUESTIONS
from drift_runs.errors import EngineMissing
from tests.conftest import change_toml, copy_tiny
from tests.engines.conftest import settings
from tests.engines.probe import toy

ARMS = ["f16", "q8_0", "q4_0", "kv-q4_0"]


@pytest.fixture
def protocol(tmp_path: Path) -> Path:
    return copy_tiny(tmp_path / "protocol")


@pytest.fixture
def probe(
    protocol: Path, tiny_arms: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs the command; ``opens`` takes the place of what opens an arm's engine."""

    def run(*arguments: str, opens: Callable | None = None) -> tuple[int, str, str]:
        if opens is not None:
            monkeypatch.setattr(observed, "open_arm", opens)
        capsys.readouterr()
        code = main(["probe", str(protocol), "--machine", str(tiny_arms), *arguments])
        return code, *capsys.readouterr()

    return run


def test_the_arms_of_this_process_give_all_that_is_needed(probe) -> None:
    code, out, err = probe()
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines() if line and line[0].isalnum() and "(" in line] == ARMS
    assert not any(line.startswith("!") for line in out.splitlines())
    assert out.count("yes              dictionary  ") == len(ARMS)


def test_json_holds_every_answer(probe) -> None:
    code, out, _ = probe("--json", "--arm", "q4_0", "--arm", "f16")
    content = json.loads(out)
    assert code == 0 and list(content["arms"]) == ["f16", "q4_0"] and content["protocol"] == "tiny"
    for report in content["arms"].values():
        assert [answer["question"] for answer in report["answers"]] == list(QUESTIONS)
        assert report["blocking"] == [] and report["measured"]["largest_top_k"] == 32


def test_an_engine_that_lacks_something_needed_ends_with_5(probe) -> None:
    """The tiny protocol compares whole rows, which a server with a limit cannot list."""
    code, out, err = probe("--arm", "q8_0", opens=lambda *_: toy.ToyEngine(toy.CapsLoudly()))
    assert code == 5
    assert err.splitlines() == [
        "drift: arm q8_0 cannot be measured as the protocol needs it: top-k (no), full-rows (no)"
    ]
    blocked = [line for line in out.splitlines() if line.startswith("!")]
    assert [line.split()[2] for line in blocked] == ["top-k", "full-rows"]
    assert "way round: " in out


def test_an_engine_that_does_not_open_leaves_the_others(probe, tiny_arms: Path) -> None:
    def opens(_loaded, _machine, arm):
        if arm.name == "q8_0":
            raise EngineMissing("its library is not installed", where="engine", todo="install it")
        if arm.name == "q4_0":
            raise AttributeError("half an engine")
        return LlamaCpp(tiny_arms.parent / "f16.gguf", settings(kv=arm.kv))

    code, out, err = probe("--json", opens=opens)
    arms = json.loads(out)["arms"]
    assert code == 5 and list(arms) == ARMS
    assert [arms[name]["blocking"] for name in ARMS] == [[], ["opens"], ["opens"], []]
    assert "AttributeError: half an engine" in arms["q4_0"]["answers"][0]["evidence"]
    assert arms["q8_0"]["answers"][0]["way_round"] == "install it"
    assert "arm q8_0" in err and "arm q4_0" in err


def test_the_reference_shows_which_entry_of_another_arm_differs(probe, tiny_arms: Path) -> None:
    """A protocol has its dictionary's digest alone; the table comes from the arm that has the right one."""

    def opens(_loaded, _machine, arm):
        if arm.role == "reference":
            return LlamaCpp(tiny_arms.parent / "f16.gguf", settings())
        return toy.ToyEngine(toy.HasTwoEntriesSwapped())

    _, out, _ = probe("--arm", "f16", "--arm", "q8_0", opens=opens)
    assert "the first difference is id 4: b'd' here, b'c' in the protocol's" in out


def test_every_engine_is_closed(probe) -> None:
    opened: list[toy.ToyEngine] = []

    def opens(*_):
        opened.append(toy.ToyEngine(toy.ToyServer()))
        return opened[-1]

    probe(opens=opens)
    assert len(opened) == len(ARMS) and all(engine.closed for engine in opened)


def test_recorded_rows_are_not_asked(probe, protocol: Path) -> None:
    change_toml(protocol, {"arms[1].engine": "replay", "capture.full_vocabulary": "no"})
    change_toml(protocol, {"capture.divergence": "kl.topk-lower"})
    code, _, err = probe("--arm", "q8_0")
    assert code == 2 and "no engine to ask" in err


def test_an_unknown_arm_is_an_error_of_the_user(probe) -> None:
    code, _, err = probe("--arm", "q8-0")
    assert code == 2 and "unknown arm 'q8-0'" in err and "did you mean 'q8_0'" in err
