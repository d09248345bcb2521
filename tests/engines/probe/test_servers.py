"""The probe through real dialects: of a real llama.cpp server, and of vLLM on a server that breaks as it is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from drift_runs.engines.openai_server import server, transport
from drift_runs.engines.openai_server.llama_server import LlamaServer
from drift_runs.engines.openai_server.server import ListedServer
from drift_runs.engines.openai_server.sglang import SGLang
from drift_runs.engines.openai_server.vllm import VLLM
from drift_runs.engines.probe.answers import NO, OPEN, YES, Needs, ProbeReport, ProbeTask, ProbeWindow
from drift_runs.engines.probe.run import probe
from drift_runs.engines.probe.task import probe_task
from drift_runs.machine import Place
from drift_runs.protocol.load import load_protocol
from tests.conftest import copy_tiny
from tests.engines.conftest import settings
from tests.engines.fault_server import SIZE, Fault, FaultServer, serving
from tests.engines.llama_server_process import llama_server
from tests.tiny_model import write_tiny_model

CONTEXT = 128
TEXT = "".join(chr(64 + (11 * at * at + 5 * at + 3) % SIZE) for at in range(48))


def not_yes(report: ProbeReport) -> dict[str, str]:
    return {answer.question: answer.answer for answer in report.answers if answer.answer != YES}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A llama.cpp server with the tiny model."""
    model = write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf")
    with llama_server(model, context_tokens=CONTEXT) as running:
        yield running.url


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that do not wait between tries."""
    backoff = transport.Backoff(tries=2, timeouts=1, first_s=0.001, longest_s=0.002, longest_asked_s=0.01)
    monkeypatch.setattr(server, "Transport", lambda place: transport.Transport(place, backoff=backoff))


class TestALlamaServer:
    @pytest.fixture
    def task(self, tmp_path: Path) -> ProbeTask:
        loaded = load_protocol(copy_tiny(tmp_path / "protocol"))
        found = probe_task(loaded, loaded.protocol.reference, settings(path_shape="decode", context_tokens=CONTEXT))
        return replace(found, full_vocabulary=False, needs=Needs(generation=True, text=True, repeats=True))

    def asked(self, url: str, task: ProbeTask, **changed: object) -> ProbeReport:
        found = settings(path_shape="decode", context_tokens=CONTEXT, **changed)
        with LlamaServer(Place(url=url), found, dictionary_size=32) as engine:
            return probe(engine, task)

    @pytest.mark.parametrize("cache_prompt", [None, True, False])
    def test_it_gives_all_but_named_ids(self, url: str, task: ProbeTask, cache_prompt: bool | None) -> None:
        report = self.asked(url, replace(task, cache_prompt=cache_prompt), cache_prompt=cache_prompt)
        # Nothing is told of the text's own token beyond the entries, and no ids are taken. What a cached history does
        # to the last bit hangs on the machine.
        assert {name: answer for name, answer in not_yes(report).items() if name != "cache"} == {
            "own-token": NO,
            "wanted": NO,
        }
        assert report.blocking == ()
        assert report.measured["repeat_largest_nats"] == 0 and report.measured["cache_largest_nats"] < 0.05
        assert abs(report.measured["log_mass_mean_nats"]) < 1e-5
        assert "8 ids read of 8 sent" in report.answer("bos").evidence
        assert "the engine subtracts" in report.answer("mass").evidence
        assert "asked for temperature 1.7 too" in report.answer("temperature").evidence
        assert "asked for penalties of 1.7 too" in report.answer("penalties").evidence
        assert report.answer("context").evidence.startswith("context_tokens is 128; the longest window takes 40")

    def test_what_is_declared_is_held_against_what_it_says(self, url: str, task: ProbeTask) -> None:
        assert [answer.question for answer in self.asked(url, replace(task, weights="q8_0")).blocking] == ["declared"]

    def test_a_window_that_is_too_long(self, url: str, task: ProbeTask) -> None:
        window = task.windows[0]
        longer = replace(window, tokens=window.tokens * 4, positions=(8, 140), text=window.text * 4)
        report = self.asked(url, replace(task, windows=(longer,)))
        assert [answer.question for answer in report.blocking] == ["context"]
        assert "context_tokens is 128; the longest window takes 141" in report.answer("context").evidence

    @pytest.mark.usefixtures("quick")
    def test_a_server_that_died(self, task: ProbeTask, tmp_path: Path) -> None:
        with llama_server(write_tiny_model(tmp_path / "tiny.gguf"), context_tokens=CONTEXT) as running:
            found = settings(path_shape="decode", context_tokens=CONTEXT)
            with LlamaServer(Place(url=running.url), found, dictionary_size=32) as engine:
                running.kill()
                report = probe(engine, task)
        assert {answer.answer for answer in report.answers} == {NO, OPEN}
        assert "the connection" in report.answer("rows").evidence


@pytest.mark.usefixtures("quick")
class TestVLLMsDialect:
    @staticmethod
    def task(shape: str = "prefill") -> ProbeTask:
        tokens = tuple(ord(letter) % SIZE for letter in TEXT)
        window = ProbeWindow(name="w", tokens=tokens, positions=tuple(range(8, 40)), text=TEXT)
        return ProbeTask(
            windows=(window,),
            top_k=8,
            path_shape=shape,
            full_vocabulary=False,
            needs=Needs(dictionary=False, generation=True, text=True, repeats=True, wanted=shape == "decode"),
            dictionary_size=SIZE,
            dictionary_sha256="0" * 64,
            context_tokens=512,
        )

    def asked(self, state: FaultServer, shape: str = "prefill", **changed: object) -> ProbeReport:
        found = settings(path_shape=shape, context_tokens=512)
        with VLLM(Place(url=state.url, timeout_s=20.0), found, dictionary_size=SIZE) as engine:
            return probe(engine, replace(self.task(shape), **changed))

    @pytest.mark.parametrize("shape", ["prefill", "decode"])
    def test_a_server_without_faults(self, shape: str) -> None:
        with serving() as state:
            report = self.asked(state, shape)
        found = not_yes(report)
        # No tokenizer was named, and the made-up server says no types. Its ids can be named in decode shape alone. Its
        # model looks at two tokens of a history, which no real one does.
        assert found.pop("dictionary") == OPEN and found.pop("declared") == OPEN and found.pop("history") == NO
        assert found == ({"wanted": NO} if shape == "prefill" else {})
        assert [answer.question for answer in report.blocking] == ["history"]
        assert "ids read of" in report.answer("bos").evidence

    @pytest.mark.parametrize(
        ("fault", "evidence"),
        [
            (Fault(kind=kind, value=value), evidence)
            for kind, value, evidence in [
                ("ignored", None, ""),
                ("wrong_ids", None, "the server read id"),
                ("logits", None, "logits in the place of log-probabilities"),
                ("zeros", None, "every log-probability is 0"),
                ("one_hot", None, "a sampler has cut the distribution"),
                ("value", float("nan"), "NaN"),
                ("value", None, "null"),
                ("null_row", None, "null"),
                ("missing_row", None, ""),
                ("extra_row", None, ""),
                ("outside", None, "not of the dictionary"),
                ("status", 500, "status 500"),
                ("reset", None, "the connection"),
                ("truncated", None, ""),
                ("not_json", None, "no JSON"),
            ]
        ],
        ids=lambda value: getattr(value, "kind", ""),
    )
    def test_a_fault_is_never_a_yes(self, fault: Fault, evidence: str) -> None:
        with serving(faults=[fault]) as state:
            report = self.asked(state)
        assert report.answer("rows").answer == NO and evidence in report.answer("rows").evidence
        assert {"rows", "raw", "mass"} <= {answer.question for answer in report.blocking}

    @pytest.mark.parametrize("shape", ["prefill", "decode"])
    @pytest.mark.parametrize("dialect", [VLLM, SGLang])
    def test_penalties_that_reach_the_rows(self, dialect: type[ListedServer], shape: str) -> None:
        found = settings(path_shape=shape, context_tokens=512)
        for penalises in (False, True):
            with (
                serving(penalises=penalises) as state,
                dialect(Place(url=state.url, timeout_s=20.0), found, dictionary_size=SIZE) as engine,
            ):
                report = probe(engine, self.task(shape))
            answer = report.answer("penalties")
            assert answer.answer == (NO if penalises else YES), answer.evidence
            assert (answer in report.blocking) is penalises
            assert "asked for penalties of 1.7 too: " in answer.evidence

    def test_a_limit_of_entries(self) -> None:
        with serving(most_logprobs=5) as state:
            report = self.asked(state)
        assert [answer.question for answer in report.blocking] == ["history", "top-k"]
        assert "up to 5 entries" in report.answer("top-k").evidence
        assert "--max-logprobs" in report.answer("top-k").way_round
