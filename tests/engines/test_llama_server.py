"""A real llama.cpp server on the tiny model: its rows are those of the engine in this process, told one by one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drift_runs.engines.base import Calibrated, ListedBlock
from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.engines.openai_server.llama_rows import LARGEST_SPREAD_NATS, LogMass, mass_of
from drift_runs.engines.openai_server.llama_server import LlamaServer
from drift_runs.engines.openai_server.transport import Backoff, Reply, Transport
from drift_runs.errors import CannotGive, ConfigError, ContextOverflow, ServerError
from drift_runs.machine import Place
from drift_runs.protocol.canonical import dictionary_sha256
from tests.engines.canned_server import answering
from tests.engines.conftest import Opener, rows, settings
from tests.engines.llama_server_process import RunningServer, llama_server
from tests.tiny_model import write_tiny_model

TOLERANCE_NATS = 2e-6
"""Between a server's row and the in-process engine's, decoded one by one: 5e-7 was measured, before any centring."""
COLD_NATS = 0.02
"""Between rows over the cache and rows of a fresh prefill: 0.005 was measured. Other sums, rounded to 16 bits."""
K = 8

OpenServer = Callable[..., LlamaServer]


@pytest.fixture(scope="module")
def running(tiny_arms: Path) -> Iterator[RunningServer]:
    with llama_server(tiny_arms.parent / "f16.gguf") as server:
        yield server


@pytest.fixture
def open_server(running: RunningServer) -> Iterator[OpenServer]:
    opened: list[LlamaServer] = []

    def open_it(url: str = running.url, *, dictionary_size: int = 32, **changed: object) -> LlamaServer:
        changed = {"path_shape": "decode", "context_tokens": 128, **changed}
        engine = LlamaServer(Place(url=url, concurrency=4), settings(**changed), dictionary_size=dictionary_size)
        opened.append(engine)
        return engine

    yield open_it
    for engine in opened:
        engine.close()


def all_rows(engine: LlamaServer, tokens: list[int], positions: list[int] | None = None, top_k: int = K) -> ListedBlock:
    """One block of all rows."""
    blocks = list(engine.score_listed(tokens, positions or list(range(1, len(tokens))), top_k=top_k))
    return ListedBlock(*(np.concatenate(column) for column in zip(*blocks, strict=True)))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    values = logits.astype(np.float64)
    return values - np.logaddexp.reduce(values, axis=1, keepdims=True)


def by_id(block: ListedBlock, size: int) -> np.ndarray:
    """float64[n, size]: each row's entries at their ids, NaN elsewhere."""
    table = np.full((len(block.ids), size), np.nan)
    np.put_along_axis(table, block.ids, block.logprobs, axis=1)
    return table


class TestAgainstThisProcess:
    def test_stepwise_forcing_is_decoding(self, open_server: OpenServer, open_tiny: Opener, tokens: list[int]) -> None:
        block = all_rows(open_server(), tokens)
        expected = log_softmax(rows(open_tiny(path_shape="decode", context_tokens=128), tokens))
        best = np.argsort(-expected, axis=1, kind="stable")[:, :K]
        np.testing.assert_array_equal(block.ids, best)
        np.testing.assert_allclose(
            block.logprobs, np.take_along_axis(expected, best, axis=1), atol=TOLERANCE_NATS, rtol=0
        )
        assert block.positions.tolist() == list(range(1, 41))
        assert block.sentinels.sum() == 0 and block.wanted_ids.shape == (40, 0)

    def test_the_text_s_own_token_is_told_where_it_is_listed(
        self, open_server: OpenServer, open_tiny: Opener, tokens: list[int]
    ) -> None:
        block = all_rows(open_server(), tokens)
        expected = log_softmax(rows(open_tiny(path_shape="decode", context_tokens=128), tokens))
        own = expected[np.arange(40), tokens[1:]]
        rank = 1 + (expected > own[:, None]).sum(axis=1)
        told = rank <= K
        assert 0 < told.sum() < 40
        np.testing.assert_allclose(block.token_logprob[told], own[told], atol=TOLERANCE_NATS, rtol=0)
        np.testing.assert_array_equal(block.token_rank, np.where(told, rank, 0))
        assert np.isnan(block.token_logprob[~told]).all()

    def test_whole_rows_sum_to_one(self, open_server: OpenServer, tokens: list[int]) -> None:
        block = all_rows(open_server(), tokens, [1, 7, 40], top_k=1_000)
        assert block.ids.shape == (3, 32)
        np.testing.assert_allclose(np.exp(block.logprobs).sum(axis=1), 1, atol=1e-6)

    def test_few_positions_over_one_cache(self, open_server: OpenServer, open_tiny: Opener, tokens: list[int]) -> None:
        engine = open_server(cache_prompt=True)
        chosen = [3, 9, 10, 33, 40]
        block = all_rows(engine, tokens, chosen)
        expected = log_softmax(rows(open_tiny(context_tokens=128), tokens, chosen))
        np.testing.assert_allclose(
            block.logprobs, np.take_along_axis(expected, block.ids, axis=1), atol=COLD_NATS, rtol=0
        )
        assert engine.said()["cache"] == "55 of 95 history tokens"

    def test_its_dictionary_is_the_engine_s(self, open_server: OpenServer, open_tiny: Opener) -> None:
        table = open_server().token_bytes()
        assert table[:3] == [b"<s>", b"</s>", b"a"], "control tokens by their names"
        assert dictionary_sha256(table) == dictionary_sha256(open_tiny().token_bytes())

    def test_its_tokenizer_is_the_engine_s(self, open_server: OpenServer, open_tiny: Opener) -> None:
        text = "<s>the cat {sat}\n</s>"
        assert open_server().tokenize(text) == open_tiny().tokenize(text)

    @pytest.mark.parametrize("length", [1, 6, 11, 16, 21, 40])
    def test_it_writes_what_decoding_writes(
        self, open_server: OpenServer, open_tiny: Opener, tokens: list[int], length: int
    ) -> None:
        written = open_server(cache_prompt=False).write(tokens[:length], 24, top_k=5)
        engine = open_tiny(context_tokens=128)
        row = engine.start(tokens[:length])
        for got in written:
            expected = log_softmax(row[None])[0]
            assert got.token == row.argmax()
            assert list(got.top_ids) == np.argsort(-expected, kind="stable")[:5].tolist()
            np.testing.assert_allclose(got.top_logprobs, expected[list(got.top_ids)], atol=TOLERANCE_NATS, rtol=0)
            assert got.logprob == got.top_logprobs[0]
            row = engine.append(got.token)
        ended = [engine.ends_generation(got.token) for got in written]
        assert not any(ended[:-1])
        assert ended[-1] or len(written) == 24

    def test_an_end_token_is_the_last(self, open_server: OpenServer, tokens: list[int]) -> None:
        engine = open_server(cache_prompt=False)
        assert [got.token for got in engine.write(tokens[:21], 24, top_k=2)] == [1]
        assert len(engine.write(tokens[:16], 24, top_k=2)) == 24


class TestCache:
    def test_a_fresh_prefill_of_each_history_gives_other_rows_of_the_same_model(
        self, open_server: OpenServer, tokens: list[int]
    ) -> None:
        warm, cold = open_server(cache_prompt=True), open_server(cache_prompt=False)
        over, fresh = (by_id(all_rows(engine, tokens), 32) for engine in (warm, cold))
        assert warm.said()["cache"] == "780 of 820 history tokens"
        assert cold.said()["cache"] == "0 of 820 history tokens"
        assert 1e-4 < np.nanmax(np.abs(over - fresh)) < COLD_NATS
        for engine, before in ((warm, over), (cold, fresh)):
            np.testing.assert_array_equal(by_id(all_rows(engine, tokens), 32), before)

    def test_a_window_does_not_depend_on_the_one_before(self, open_server: OpenServer, tokens: list[int]) -> None:
        engine = open_server()
        alone = all_rows(engine, tokens)
        all_rows(engine, [*tokens[:20], *tokens[5:20]])
        engine.write(tokens[:30], 8, top_k=3)
        np.testing.assert_array_equal(all_rows(engine, tokens).logprobs, alone.logprobs)

    def test_a_long_window_at_a_stride_evaluates_each_token_once(self, open_server: OpenServer, tmp_path: Path) -> None:
        model = write_tiny_model(tmp_path / "long.gguf", context=1_280)
        tokens = [0, *np.random.default_rng(1).integers(2, 32, 1_023).tolist()]
        with llama_server(model, context_tokens=1_280) as server:
            engine = open_server(server.url, context_tokens=1_280, cache_prompt=True)
            found = engine.score_listed(tokens, list(range(32, 1_024, 32)), top_k=K)
            blocks = [block.positions.tolist() for block in found]
            assert blocks == [[position] for position in range(32, 1_024, 32)], "one row is held at a time"
            sent = sum(range(32, 1_024, 32))
            assert engine.said()["cache"] == f"{sent - 992:,} of {sent:,} history tokens"

    @pytest.mark.parametrize("cache_prompt", [True, None])
    def test_a_cache_that_was_lost_within_a_window(
        self, open_server: OpenServer, tokens: list[int], cache_prompt: bool | None
    ) -> None:
        engine, other = open_server(cache_prompt=cache_prompt), open_server()
        found = engine.score_listed(tokens, [20, 21], top_k=K)
        next(found)
        other.write(tokens[3:12], 2, top_k=1)
        if cache_prompt:
            with pytest.raises(ServerError, match=r"behind 21 tokens: 0 tokens of the history .*; expected 20"):
                next(found)
        else:
            assert next(found).positions.tolist() == [21]


class TestFaults:
    def test_one_pass_is_not_given(self, open_server: OpenServer) -> None:
        with pytest.raises(CannotGive, match=r'takes echo and ignores it.*path_shape = "decode".*llama_cpp'):
            open_server(path_shape="prefill")

    def test_wanted_ids_are_not_given(self, open_server: OpenServer, tokens: list[int]) -> None:
        engine = open_server()
        assert not engine.gives_wanted
        with pytest.raises(CannotGive, match="ids of our choice"):
            next(engine.score_listed(tokens, [1], top_k=2, wanted=[[3]]))

    def test_a_window_longer_than_the_server_s_context(self, open_server: OpenServer, tokens: list[int]) -> None:
        engine = open_server(context_tokens=4_096)
        assert engine.context_tokens == 128
        long = (tokens * 4)[:130]
        assert len(list(engine.score_listed(long, [126, 127], top_k=1))) == 2
        with pytest.raises(ContextOverflow, match=r"129 tokens with what is written.*larger -c"):
            list(engine.score_listed(long, [126, 128], top_k=1))
        with pytest.raises(ContextOverflow):
            engine.write(long[:120], 9, top_k=1)
        with pytest.raises(ContextOverflow, match="context size"):
            engine._ask(long, 1, cached=False)

    def test_a_window_longer_than_the_protocol_s_context(self, open_server: OpenServer, tokens: list[int]) -> None:
        with pytest.raises(ContextOverflow, match="41 tokens; expected at most 32"):
            list(open_server(context_tokens=32).score_listed(tokens, [1], top_k=1))

    @pytest.mark.parametrize("size", [31, 33, 49_152])
    def test_another_dictionary_than_the_protocol_s(
        self, open_server: OpenServer, tokens: list[int], size: int
    ) -> None:
        with pytest.raises(ServerError, match=r"whole row: 3[12] ids in a whole row"):
            all_rows(open_server(dictionary_size=size), tokens)

    def test_an_id_that_the_model_does_not_have(self, open_server: OpenServer) -> None:
        with pytest.raises(ServerError, match="invalid tokens"):
            list(open_server().score_listed([2, 3, 32, 4], [3], top_k=1))

    def test_a_model_that_is_not_served(self, running: RunningServer) -> None:
        with pytest.raises(ConfigError, match=r"does not list the model 'other'; expected one of .*f16\.gguf"):
            LlamaServer(Place(url=running.url, served="other"), settings(path_shape="decode"), dictionary_size=32)

    def test_a_server_that_dies_within_a_window(
        self, open_server: OpenServer, tiny_arms: Path, tokens: list[int]
    ) -> None:
        with llama_server(tiny_arms.parent / "q8_0.gguf") as server:
            engine = open_server(server.url)
            found = engine.score_listed(tokens, [10, 20, 30], top_k=K)
            engine.transport.close()
            engine.transport = Transport(engine.place, backoff=Backoff(tries=2, first_s=0.01))
            assert next(found).positions.tolist() == [10]
            server.kill()
            with pytest.raises(ServerError, match=r"/completion: the connection .*2 tries.*safe on disk"):
                next(found)
            assert engine.retries == 1

    def test_another_model_at_the_same_address(
        self, open_server: OpenServer, tiny_arms: Path, tokens: list[int]
    ) -> None:
        engine = open_server()
        all_rows(engine, tokens, [1])
        with llama_server(tiny_arms.parent / "q8_0.gguf") as server:
            # As if the address led elsewhere now.
            engine.transport.close()
            engine.transport = Transport(Place(url=server.url))
            with pytest.raises(ServerError, match="another model answers"):
                all_rows(engine, tokens, [1])


class TestSpoiled:
    """Answers of the real server, changed on their way."""

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda body: body.pop("completion_probabilities"), "no completion_probabilities"),
            (lambda body: body.update(tokens_evaluated=3), "the server read 3 tokens; expected"),
            (lambda body: body.update(tokens_evaluated=3, truncated=True), "the server cut the history"),
            (lambda body: body.update(id_slot=1), "slot 1 answered"),
            (lambda body: body.update(model="other"), "another model answers"),
            (lambda body: body["timings"].update(cache_n=5), "5 tokens of the history came from the server's cache"),
            (lambda body: body["completion_probabilities"].append({}), "2 rows for what was written; expected 1"),
            (lambda body: _top(body).pop(), "7 entries where 8 were asked for"),
            (lambda body: _top(body)[3].update(logprob=None), "null or a text"),
            (lambda body: _top(body)[3].update(id=_top(body)[2]["id"]), "listed twice"),
            (lambda body: _top(body)[3].update(id=32), "id 32 is not of the dictionary"),
            (lambda body: [entry.update(logprob=entry["logprob"] + 20) for entry in _top(body)], "logits"),
            (lambda body: [entry.pop("logprob") for entry in _top(body)], "without an id and a log-probability"),
        ],
    )
    def test_a_row(self, open_server: OpenServer, tokens: list[int], change: Callable, message: str) -> None:
        engine = open_server()
        all_rows(engine, tokens, [4])
        _spoil(engine, change)
        with pytest.raises((ServerError, CannotGive, ContextOverflow), match=message):
            all_rows(engine, tokens, [4])

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda body: body.update(tokens=[*body["tokens"][:-1], 9]), "other ids than what was written"),
            (lambda body: body.update(stop_type="word"), "stopped after 6 tokens by 'word'"),
            (lambda body: body["completion_probabilities"][2].update(id=31, logprob=-9.0), "other ids"),
            (lambda body: body.update(tokens=[]), "other ids"),
        ],
    )
    def test_what_was_written(self, open_server: OpenServer, tokens: list[int], change: Callable, message: str) -> None:
        engine = open_server()
        assert len(engine.write(tokens[:16], 6, top_k=3)) == 6
        _spoil(engine, change)
        with pytest.raises(ServerError, match=message):
            engine.write(tokens[:16], 6, top_k=3)

    def test_a_placeholder_is_counted_and_left_out(self, open_server: OpenServer, tokens: list[int]) -> None:
        engine = open_server()
        right = all_rows(engine, tokens, [4])
        _spoil(engine, lambda body: _top(body)[7].update(logprob=-3.4028234663852886e38))
        block = all_rows(engine, tokens, [4])
        assert block.sentinels.tolist() == [1] and block.ids[0].tolist() == [*right.ids[0, :7].tolist(), -1]
        np.testing.assert_array_equal(block.logprobs[0, :7], right.logprobs[0, :7])


def _top(body: dict) -> list[dict]:
    return body["completion_probabilities"][0]["top_logprobs"]


def _spoil(engine: LlamaServer, change: Callable[[dict], object]) -> None:
    post = engine.transport.post

    def spoiled(path: str, body: dict) -> Reply:
        reply = post(path, body)
        change(reply.body)
        return reply

    engine.transport.post = spoiled


class TestABuildWithPromptLogProbabilities:
    """A double, after the shape that is proposed for llama.cpp's server; no such build was at hand."""

    @staticmethod
    def completion(body: dict) -> dict:
        prompt = body["prompt"]
        content = [{"id": prompt[0], "logprob": None, "top_logprobs": []}]
        for at in range(1, len(prompt)):
            best = [(prompt[at - 1] + other) % 32 for other in range(1, body["logprobs"] + 1)]
            listed = [{"id": token, "logprob": -float(rank + 1)} for rank, token in enumerate(best)]
            own = next((entry["logprob"] for entry in listed if entry["id"] == prompt[at]), -9.0)
            content.append({"id": prompt[at], "logprob": own, "top_logprobs": listed})
        return {"choices": [{"text": "", "logprobs": {"content": [*content, {"id": 5, "logprob": -1.0}]}}]}

    def test_a_window_in_one_request(self, tokens: list[int]) -> None:
        pages = {
            "/v1/models": {"data": [{"id": "made-up"}]},
            "/props": {"default_generation_settings": {"n_ctx": 128}},
            "/tokenize": {"tokens": [2, 3, 4, 5]},
            "/v1/completions": self.completion,
        }
        with (
            answering(pages) as server,
            LlamaServer(Place(url=server.url), settings(), dictionary_size=32) as engine,
        ):
            assert engine.capabilities.path_shapes == ("prefill", "decode")
            server.asked.clear()
            block = all_rows(engine, tokens, [4, 9, 30], top_k=3)
            assert [len(body["prompt"]) for body in server.bodies("/v1/completions")] == [31]
            for at, position in enumerate([4, 9, 30]):
                assert block.ids[at].tolist() == [(tokens[position - 1] + other) % 32 for other in (1, 2, 3)]
            assert not np.isnan(block.token_logprob).any()


def test_what_it_says(open_server: OpenServer) -> None:
    engine = open_server()
    said = engine.said()
    assert (said["file"], said["file_type"], said["context_tokens"], said["slots"]) == ("f16.gguf", "F16", "128", "1")
    assert (said["speculation"], said["adapters"], said["normalised"]) == ("none", "none", "yes")
    assert said["model.meta.n_vocab"] == "32"
    assert abs(engine.log_mass.mean_nats) < 1e-6 and engine.log_mass.rows == 4
    assert engine.identity.engine == "llama_server" and engine.identity.build == said["version"]
    assert engine.capabilities.path_shapes == ("decode",)


def test_a_kept_log_mass_is_subtracted_and_another_server_is_refused(open_server: OpenServer) -> None:
    engine = open_server()
    assert isinstance(engine, Calibrated)
    own = engine.calibration()
    assert set(engine.measured()) == {"log_mass", "normalised", "cache"} <= set(engine.said())
    assert LogMass.of_kept(json.loads(json.dumps(own)), where="here") == engine.log_mass
    before = engine.write([2, 3, 4], 1, top_k=3)[0]
    engine.calibrate({**own, "log_mass_mean_nats": own["log_mass_mean_nats"] + 1e-4})
    after = engine.write([2, 3, 4], 1, top_k=3)[0]
    assert after.top_ids == before.top_ids
    np.testing.assert_allclose(np.subtract(before.top_logprobs, after.top_logprobs), 1e-4, atol=1e-9)
    with pytest.raises(ServerError, match="off by"):
        engine.calibrate({**own, "log_mass_mean_nats": own["log_mass_mean_nats"] + 2e-3})


@pytest.mark.parametrize(
    "changed", [{"log_mass_mean_nats": math.nan}, {"log_mass_rows": "x"}, {"log_mass_rows": math.inf}]
)
def test_a_kept_log_mass_that_is_none_is_refused(changed: dict[str, Any]) -> None:
    kept = mass_of([1e-4, 2e-4]).kept()
    with pytest.raises(ServerError, match="cannot be read"):
        LogMass.of_kept({**kept, **changed}, where="here")
    with pytest.raises(ServerError, match="cannot be read"):
        LogMass.of_kept({}, where="here")


def test_offsets_that_differ_are_no_constant() -> None:
    assert mass_of([1e-4, 1e-4 + LARGEST_SPREAD_NATS * 0.99]).normalised
    assert not mass_of([1e-4, 1e-4 + LARGEST_SPREAD_NATS * 1.01]).normalised
    for total in (2e-2, -2e-2, float("nan"), float("-inf")):
        with pytest.raises(ServerError, match="whole row sum to"):
            mass_of([1e-4, total])
    assert str(mass_of([1e-4, 3e-4])) == "2.00e-04 (1.00e-04 to 3.00e-04 in 2 rows)"


class TestDemoModel:
    TEXT = "The capital of France is Paris. The capital of Italy is Rome. The capital of Spain is"

    def test_rows_and_dictionary(self, smollm2: Path) -> None:
        with LlamaCpp(smollm2, settings(path_shape="decode")) as engine:
            tokens = engine.tokenize(self.TEXT)[:12]
            expected, table = log_softmax(rows(engine, tokens)), engine.token_bytes()
        with (
            llama_server(smollm2) as running,
            LlamaServer(Place(url=running.url), settings(path_shape="decode"), dictionary_size=49_152) as server,
        ):
            assert server.tokenize(self.TEXT)[:12] == tokens
            block = all_rows(server, tokens, top_k=20)
            assert dictionary_sha256(server.token_bytes()) == dictionary_sha256(table)
            mass = server.log_mass
        best = np.argsort(-expected, axis=1, kind="stable")[:, :20]
        np.testing.assert_array_equal(block.ids, best)
        off = block.logprobs - np.take_along_axis(expected, best, axis=1)
        each = off.mean(axis=1, keepdims=True)
        assert np.abs(off - each).max() < TOLERANCE_NATS, "one constant a row, and nothing else"
        assert 2e-5 < mass.mean_nats < 4e-4 and mass.normalised
        assert np.abs(each).max() < LARGEST_SPREAD_NATS / 2, "what is left of it once the mean is subtracted"
        assert abs(each.mean()) < abs(each.mean() + mass.mean_nats), "and less than without"
