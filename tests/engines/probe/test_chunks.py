"""What the probe finds at borders of chunks: servers that put rows together wrongly, and real engines that do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drift_runs.engines.base import EngineSettings
from drift_runs.engines.openai_server import server, transport
from drift_runs.engines.openai_server.llama_server import LlamaServer
from drift_runs.engines.openai_server.server import ListedServer
from drift_runs.engines.openai_server.sglang import SGLang
from drift_runs.engines.openai_server.vllm import VLLM
from drift_runs.engines.probe.answers import NO, OPEN, YES, Answer, Needs, ProbeTask, ProbeWindow
from drift_runs.engines.probe.chunks import Long
from drift_runs.engines.probe.compared import row_apart_nats
from drift_runs.engines.probe.run import probe
from drift_runs.machine import Place
from tests.engines.conftest import Opener, settings
from tests.engines.fault_llama import serving_llama
from tests.engines.fault_server import SIZE, FaultServer, serving
from tests.engines.llama_server_process import llama_server
from tests.engines.probe import toy
from tests.tiny_model import write_tiny_model

LONG = 2_300


def chunk_task(tokens: int = 41, *, size: int = toy.SIZE, shape: str = "prefill", **changed: Any) -> ProbeTask:
    """One window, every position behind the eighth scored."""
    ids = tuple(np.random.default_rng(5).integers(2, size, tokens).tolist())
    window = ProbeWindow(name="w", tokens=ids, positions=tuple(range(8, tokens)), text="")
    found = ProbeTask(
        windows=(window,),
        top_k=8,
        path_shape=shape,
        full_vocabulary=False,
        needs=Needs(dictionary=False),
        dictionary_size=size,
        dictionary_sha256="0" * 64,
        context_tokens=4_096,
    )
    return replace(found, **changed)


def chunks(double: toy.ToyServer, task: ProbeTask, **how: Any) -> Answer:
    engine = toy.ToyEngine(double, path_shape=task.path_shape)
    report = probe(engine, task, **how)
    found = report.answer("chunks")
    assert (found in report.blocking) == (found.answer == NO)
    return found


def toy_of(kind: type[toy.ToyServer], **changed: Any) -> toy.ToyServer:
    found = kind()
    for name, value in changed.items():
        setattr(found, name, value)
    return found


WRONG = [
    (toy.LosesTheRowAtABorder, "1 of 40 rows are missing, the first at 36"),
    (toy.DoublesTheRowAtABorder, "the row of position 36 is"),
    (toy.MovesTheRowsBehindABorder, "nats apart from the one written, which stands at position"),
    (toy.RefusesLongPrompts, "41 of the 41 tokens of window w: toy: status 500"),
]


class TestRowsThatArePutTogetherWrongly:
    @pytest.mark.parametrize(("double", "evidence"), WRONG, ids=lambda value: getattr(value, "__name__", ""))
    def test_short_cuts_show_nothing_and_a_long_one_does(self, double: type[toy.ToyServer], evidence: str) -> None:
        task = chunk_task()
        found = chunks(double(), task)
        assert found.answer == NO and evidence in found.evidence, found.evidence
        within = replace(task, windows=(replace(task.windows[0], tokens=task.windows[0].tokens[:36], positions=(35,)),))
        assert chunks(double(), within).answer == YES, "no prompt of the protocol meets the border"

    @pytest.mark.parametrize("double", [toy.LosesTheRowAtABorder, toy.DoublesTheRowAtABorder])
    @pytest.mark.parametrize("said", [True, False])
    def test_at_a_border_anywhere(self, double: type[toy.ToyServer], said: bool) -> None:
        server = tuple({"max-num-batched-tokens": "1111"}.items()) if said else ()
        found = chunks(toy_of(double, chunk=1_111, context=4_096), chunk_task(LONG, server=server))
        assert found.answer == NO and "1111" in found.evidence.replace(",", "")

    def test_a_history_that_is_forgotten_where_each_position_is_a_request(self) -> None:
        task = chunk_task(shape="decode", server=(("--ub", "36"),))
        found = chunks(toy.ForgetsAtABorder(), task)
        assert found.answer == NO and "asked for alone" in found.evidence, found.evidence
        assert chunks(toy.ToyServer(), task).answer == YES


class TestWhatIsSent:
    def test_one_chunk_and_some_more_where_its_size_is_said(self) -> None:
        double = toy_of(toy.EvaluatesInChunks, context=8_000)
        long = chunk_task(6_000, context_tokens=8_000, server=(("chunked_prefill_size", "3000"),))
        found = chunks(double, long)
        assert found.answer == YES
        assert found.evidence.startswith("3,064 of the 6,000 tokens of window w, 3,000 at once: 3,063 rows came for")
        assert "4 of them written too, up to 0 nats" in found.evidence, "around the border, the last, and one near it"

    def test_all_of_the_window_where_nothing_is_said(self) -> None:
        double = toy_of(toy.EvaluatesInChunks, context=4_096)
        found = chunks(double, chunk_task(LONG))
        assert found.answer == YES and found.evidence.startswith("2,300 of the 2,300 tokens of window w: 2,299 rows")
        assert max(len(request["prompt"]) for request in double.requests) == 2_300
        assert sum(len(request["prompt"]) > 300 for request in double.requests) == 3

    def test_2_112_tokens_are_no_yes_where_nothing_is_said(self) -> None:
        """Servers on large devices evaluate 8,192 or 16,384 at once unasked: no border lies inside what was sent."""
        task = chunk_task(LONG, context_tokens=2_113)
        found = chunks(toy_of(toy.EvaluatesInChunks, context=2_113), task)
        assert found.answer == OPEN and found.evidence.startswith("2,112 of the 2,300 tokens of window w: 2,111 rows")
        assert "rows are held up to position 2,111" in found.evidence
        assert "the engine says no size, and servers take up to 16,384 tokens at once unasked" in found.evidence
        assert "server = { max-num-batched-tokens = 2048 }" in found.way_round
        said = replace(task, server=(("max-num-batched-tokens", "2048"),))
        assert chunks(toy_of(toy.EvaluatesInChunks, context=2_113), said).answer == YES
        longer = replace(task, server=(("max-num-batched-tokens", "8192"),))
        found = chunks(toy_of(toy.EvaluatesInChunks, context=2_113), longer)
        assert found.answer == OPEN and "says no size" not in found.evidence

    @pytest.mark.parametrize(("sent", "crosses"), [(16_447, False), (16_448, True)])
    def test_enough_is_behind_the_largest_default(self, sent: int, crosses: bool) -> None:
        assert Long("w", tuple(range(sent)), longest=20_000, chunks=()).crosses is crosses

    def test_no_more_than_behind_the_largest_default(self) -> None:
        double = toy_of(toy.SendsTheLastRowAlone, context=20_000)
        found = chunks(double, chunk_task(18_000, shape="decode", context_tokens=20_000, cache_prompt=False))
        assert found.answer == YES and found.evidence.startswith("16,448 of the 18,000 tokens"), found.evidence
        assert max(len(request["prompt"]) for request in double.requests) == 16_448

    def test_no_more_than_fits(self) -> None:
        task = chunk_task(LONG, context_tokens=500)
        found = chunks(toy_of(toy.EvaluatesInChunks, context=500), task)
        assert found.answer == OPEN and found.evidence.startswith("499 of the 2,300 tokens")
        assert "no border of a chunk is known to lie before it" in found.evidence

    def test_no_more_than_there_is_time_for(self) -> None:
        """A token takes 20 ms here."""
        now = [0.0]

        class Slow(toy.ToyServer):
            def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
                now[0] += 0.02 * len(body["prompt"])
                return super().post(body)

        double = toy_of(Slow, context=4_096)
        found = chunks(double, chunk_task(LONG), clock=lambda: now[0])
        sent = max(len(request["prompt"]) for request in double.requests)
        assert found.answer == OPEN and 257 < sent < 700 and found.evidence.startswith(f"{sent} of the 2,300")
        assert now[0] < 60

    def test_no_time_is_no_fault(self) -> None:
        found = chunks(toy_of(toy.ToyServer, context=4_096), chunk_task(LONG), budget_s=0.0)
        assert found.answer == OPEN and "not asked" in found.evidence

    def test_few_requests_where_each_position_is_one(self) -> None:
        double = toy_of(toy.SendsTheLastRowAlone, context=4_096)
        found = chunks(double, chunk_task(LONG, shape="decode"))
        assert found.answer == YES and "2,300 of the 2,300 tokens" in found.evidence
        assert sum(len(request["prompt"]) > 100 for request in double.requests) < 24
        off = toy_of(toy.SendsTheLastRowAlone, context=4_096)
        assert chunks(off, chunk_task(LONG, shape="decode", cache_prompt=False)).answer == YES
        assert sum(len(request["prompt"]) > 300 for request in off.requests) == 5, "without a cache there are no steps"

    def test_rows_that_are_all_alike_prove_nothing(self) -> None:
        class Repeats(toy.ToyServer):
            def row(self, history: Any) -> np.ndarray:
                return toy.log_softmax(toy.model_logits([len(history) % 2], scale=0.05) * 1.0)

        found = chunks(Repeats(), chunk_task())
        assert found.answer == OPEN and "too alike to tell" in found.evidence

    def test_an_engine_that_writes_otherwise_is_held_against_a_shorter_prompt(self) -> None:
        found = chunks(toy.DecodesOtherwise(), chunk_task())
        assert found.answer == YES and "asked for alone too, up to 0 nats apart" in found.evidence


class TestHowFarRowsLieApart:
    def test_of_entries_that_both_list(self) -> None:
        assert row_apart_nats({1: -1.0, 2: -2.0}, {1: -1.5, 2: -1.0}) == pytest.approx(0.75)

    def test_of_others_as_far_as_they_must(self) -> None:
        assert row_apart_nats({1: -1.0, 2: -3.0}, {1: -1.0, 4: -2.0}) == pytest.approx((0 + 0 + 1) / 3)

    def test_as_many_as_both_list(self) -> None:
        assert row_apart_nats({1: -1.0, 2: -2.0, 3: -9.0}, {1: -1.0}) == 0

    def test_nothing(self) -> None:
        assert np.isnan(row_apart_nats({}, {1: -1.0})) and np.isnan(row_apart_nats({1: -np.inf}, {1: -1.0}))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that do not wait between tries."""
    backoff = transport.Backoff(tries=2, timeouts=1, first_s=0.001, longest_s=0.002, longest_asked_s=0.01)
    monkeypatch.setattr(server, "Transport", lambda place: transport.Transport(place, backoff=backoff))


@pytest.mark.usefixtures("quick")
class TestRealDialects:
    """Of a server on loopback whose rows are wrong behind the border of a chunk, and look right."""

    def asked(self, state: FaultServer, dialect: type[ListedServer], tokens: int = 300) -> Answer:
        found = settings(context_tokens=4_096)
        with dialect(Place(url=state.url, timeout_s=20.0), found, dictionary_size=SIZE) as engine:
            return probe(engine, chunk_task(tokens, size=SIZE)).answer("chunks")

    @pytest.mark.parametrize("dialect", [VLLM, SGLang])
    def test_without_a_fault(self, dialect: type[ListedServer]) -> None:
        with serving(chunk_tokens=128) as state:
            found = self.asked(state, dialect)
        assert found.answer == YES and "300 of the 300 tokens" in found.evidence, found.evidence

    @pytest.mark.parametrize("dialect", [VLLM, SGLang])
    @pytest.mark.parametrize(
        ("border", "evidence"),
        [
            ("lost", "expected "),
            ("twice", "expected "),
            ("stale", "the row of position 128 is"),
            ("moved", "which stands at position"),
        ],
    )
    def test_with_one(self, dialect: type[ListedServer], border: str, evidence: str) -> None:
        with serving(chunk_tokens=128, border=border) as state:
            found = self.asked(state, dialect)
            within = self.asked(state, dialect, tokens=128)
        assert found.answer == NO and evidence in found.evidence, found.evidence
        assert within.answer == YES

    @pytest.mark.parametrize("border", ["", "lost"])
    def test_llama_server_that_loses_a_token_of_what_it_evaluates_at_once(self, border: str) -> None:
        task = chunk_task(300, size=SIZE, shape="decode")
        found = settings(path_shape="decode", context_tokens=4_096)
        with (
            serving_llama(chunk_tokens=256, border=border) as state,
            LlamaServer(Place(url=state.url, timeout_s=20.0), found, dictionary_size=SIZE) as engine,
        ):
            answer = probe(engine, task).answer("chunks")
        assert answer.answer == (NO if border else YES), answer.evidence
        assert "asked for alone" in answer.evidence


class TestRealEngines:
    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf", context=4_096)

    @pytest.fixture(scope="class")
    @classmethod
    def url(cls, model: Path) -> Iterator[str]:
        with llama_server(model, context_tokens=4_096) as running:
            yield running.url

    def declared(self, **changed: Any) -> EngineSettings:
        return settings(context_tokens=4_096, **changed)

    @pytest.mark.parametrize("cache_prompt", [None, True, False])
    def test_llama_server(self, url: str, cache_prompt: bool | None) -> None:
        task = chunk_task(LONG, shape="decode", cache_prompt=cache_prompt)
        found = self.declared(path_shape="decode", cache_prompt=cache_prompt)
        with LlamaServer(Place(url=url), found, dictionary_size=toy.SIZE) as engine:
            report = probe(engine, task)
        answer = report.answer("chunks")
        assert answer.answer == YES and answer.evidence.startswith("2,300 of the 2,300"), answer.evidence
        assert report.measured["chunks_largest_nats"] < 0.05
        assert report.blocking == ()

    @pytest.mark.parametrize("path_shape", ["prefill", "decode"])
    def test_llama_cpp(self, model: Path, open_tiny: Opener, path_shape: str) -> None:
        engine = open_tiny(model, path_shape=path_shape, context_tokens=4_096)
        report = probe(engine, chunk_task(LONG, shape=path_shape))
        answer = report.answer("chunks")
        assert answer.answer == YES, answer.evidence
        assert answer.evidence.startswith("2,112 of the 2,300 tokens of window w, 32 at once: ")
        assert report.measured["chunks_largest_nats"] < 0.05
