"""Whatever a llama.cpp server does wrong ends in right numbers or in an error by name, never in a wrong number.

Before the first row the dialect asks for four whole rows of a text of its own: a fault is met there, or behind them.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from drift_runs.engines.base import ListedBlock
from drift_runs.engines.openai_server import server
from drift_runs.engines.openai_server.llama_server import PROBE_LENGTHS, LlamaServer
from drift_runs.engines.openai_server.transport import Transport
from drift_runs.errors import CannotGive, ConfigError, ContextOverflow, EngineError, NonFiniteLogits, ServerError
from tests.engines.conftest import settings
from tests.engines.fault_llama import LlamaFaultServer, serving_llama
from tests.engines.fault_server import SIZE, Fault, MadeUp
from tests.engines.test_faults import (
    LASTING,
    PASSING,
    PLAIN,
    POSITIONS,
    QUICK,
    TOKENS,
    TOP_K,
    WRONG,
    Forgetful,
    assert_right,
    place,
    scored,
)

WHOLE_ROWS = len(PROBE_LENGTHS)
CACHES = (None, True, False)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that do not wait between tries."""
    monkeypatch.setattr(server, "Transport", lambda place: Transport(place, backoff=QUICK))


def opened(
    state: LlamaFaultServer, shape: str = "decode", *, cache_prompt: bool | None = None, **changed: object
) -> LlamaServer:
    found = settings(path_shape=shape, context_tokens=4096, cache_prompt=cache_prompt)
    return LlamaServer(place(state, **changed), found, dictionary_size=SIZE)


def later(fault: Fault, after: int = WHOLE_ROWS) -> Fault:
    """The same, met by a scored row."""
    return Fault(kind=fault.kind, value=fault.value, after=after, times=fault.times)


@pytest.mark.parametrize("cache_prompt", CACHES)
def test_a_server_without_faults_gives_the_closed_form(cache_prompt: bool | None) -> None:
    with serving_llama() as state, opened(state, cache_prompt=cache_prompt) as engine:
        block = scored(engine)
        assert_right(block)
        told = [PLAIN.rank(TOKENS[:position], TOKENS[position]) <= TOP_K for position in POSITIONS]
        assert np.isfinite(block.token_logprob).tolist() == told, "the own token is told where it is listed"
        assert block.sentinels.sum() == 0 and engine.retries == 0
        sent = [len(body["prompt"]) for _, body in state.requests]
        assert sent == [*PROBE_LENGTHS, *POSITIONS], "nothing is asked for twice"
        reused = sum(POSITIONS[:-1]) if cache_prompt is not False else 0
        history = sum(POSITIONS)
        assert engine.said()["cache"] == f"{reused} of {history} history tokens"
        assert abs(engine.log_mass.mean_nats) < 1e-12


def test_what_is_read_before_the_first_row() -> None:
    with serving_llama() as state, opened(state) as engine:
        assert engine.tokenize("ABC") == [1, 2, 3]
        assert engine.token_bytes() == [bytes([64 + token]) for token in range(SIZE)]
        said = engine.said()
        assert (said["file"], said["version"], said["context_tokens"]) == ("made-up.gguf", "0.0.made-up", "4096")


def test_one_pass_is_not_given() -> None:
    with serving_llama() as state, pytest.raises(CannotGive, match="takes echo and ignores it"):
        opened(state, "prefill")


# Connections ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, WHOLE_ROWS, WHOLE_ROWS + 3])
@pytest.mark.parametrize("cache_prompt", CACHES)
@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_tried_again_and_counted(name: str, cache_prompt: bool | None, after: int) -> None:
    """A request that was evaluated before it failed finds itself in the cache: other sums, and a window says so."""
    fault = later(PASSING[name], after)
    with (
        serving_llama(faults=[fault]) as state,
        opened(state, cache_prompt=cache_prompt, timeout_s=0.5 if name == "hang" else 20.0) as engine,
    ):
        if cache_prompt and after > WHOLE_ROWS and fault.kind != "status":
            with pytest.raises(ServerError, match=r"of the history came from the server's cache.*sent again"):
                scored(engine)
            assert_right(scored(engine))
        else:
            assert_right(scored(engine))
        assert engine.retries == fault.times


@pytest.mark.parametrize("after", [0, WHOLE_ROWS, WHOLE_ROWS + 3])
@pytest.mark.parametrize("name", LASTING)
def test_what_lasts_is_an_error_that_says_what_is_safe(name: str, after: int) -> None:
    fault, words = LASTING[name]
    with (
        serving_llama(faults=[later(fault, after)]) as state,
        opened(state, timeout_s=0.3 if name == "hang" else 20.0) as engine,
    ):
        with pytest.raises(ServerError, match=words) as caught:
            scored(engine)
        assert "safe on disk" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_server_that_dies_within_a_window_leaves_no_whole_window() -> None:
    with serving_llama(faults=[Fault(kind="die", after=WHOLE_ROWS + 5)]) as state, opened(state) as engine:
        came: list[ListedBlock] = []
        with pytest.raises(ServerError, match="safe on disk"):
            came.extend(engine.score_listed(TOKENS, POSITIONS, top_k=TOP_K))
        assert len(came) == 0 or len(came) == 5
        with pytest.raises(ServerError, match="safe on disk"):
            scored(engine)


def test_a_server_that_is_not_there_is_named() -> None:
    with serving_llama() as state:
        gone = place(state)
    with pytest.raises(ServerError, match=gone.url):
        LlamaServer(gone, settings(path_shape="decode"), dictionary_size=SIZE)


# Answers --------------------------------------------------------------------------------------------------------------

SCORED = [name for name in WRONG if name != "wrong ids"]
"""No row hangs on the token that a request of one token writes."""


@pytest.mark.parametrize("after", [0, WHOLE_ROWS, WHOLE_ROWS + 3])
@pytest.mark.parametrize("name", SCORED)
def test_a_wrong_answer_is_an_error(name: str, after: int) -> None:
    with (
        serving_llama(faults=[later(WRONG[name], after)]) as state,
        opened(state) as engine,
        pytest.raises(EngineError) as caught,
    ):
        scored(engine)
    assert "llama_server at http" in str(caught.value) or "no JSON" in str(caught.value)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_to_what_is_written_is_an_error(name: str) -> None:
    with serving_llama() as state, opened(state) as engine:
        right = engine.write(TOKENS[:8], 9, top_k=TOP_K)
        assert [token.token for token in right] == PLAIN.greedy(TOKENS[:8], 9)
        state.faults.append(WRONG[name])
        with pytest.raises(EngineError):
            engine.write(TOKENS[:8], 9, top_k=TOP_K)


def test_an_answer_to_another_request_shows_in_the_cache() -> None:
    """The server does not say which ids it read. What it found of them in its cache is another number."""
    fault = Fault(kind="other_request", after=WHOLE_ROWS + 2)
    with (
        serving_llama(faults=[fault]) as state,
        opened(state, cache_prompt=True) as engine,
        pytest.raises(ServerError, match="0 tokens of the history came from the server's cache"),
    ):
        scored(engine)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tokens_evaluated": 9}, "the server read 9 tokens"),
        ({"tokens_evaluated": None}, "the server read None tokens"),
        ({"tokens_evaluated": 4, "truncated": True}, "cut the history"),
        ({"id_slot": 1}, "slot 1 answered"),
        ({"model": "other"}, "another model answers"),
        ({"timings": {"cache_n": 3}}, "3 tokens of the history came from the server's cache"),
        ({"completion_probabilities": "none"}, "no completion_probabilities"),
        ({"completion_probabilities": [{"id": 1, "logprob": -1.0}]}, "entries without an id and a log-probability"),
        ({"completion_probabilities": [{"id": 1, "logprob": -1.0, "top_logprobs": 7}]}, "without an id"),
        ({"error": {"message": "made-up"}}, "the server says"),
    ],
)
def test_an_answer_that_contradicts_its_request_is_an_error(wrong: dict, words: str) -> None:
    with serving_llama() as state, opened(state) as engine:
        assert engine.normalised
        state.answers.append(wrong)
        with pytest.raises(EngineError, match=words):
            scored(engine)
        assert_right(scored(engine))


@pytest.mark.parametrize("kind", ["logits", "zeros"])
def test_whole_rows_of_something_else_are_no_constant_to_subtract(kind: str) -> None:
    """Their mean would turn them into something that looks like log-probabilities."""
    with (
        serving_llama(faults=[Fault(kind=kind)]) as state,
        opened(state) as engine,
        pytest.raises(ServerError, match=r"a whole row sum to e\^(22\.8|4\.1)"),
    ):
        engine.said()


@pytest.mark.parametrize("value", [-9999.0, -100.0, -math.inf])
def test_placeholders_are_left_out_and_counted(value: float) -> None:
    fault = Fault(kind="value", value=value, after=WHOLE_ROWS)
    with serving_llama(faults=[fault]) as state, opened(state) as engine:
        block = scored(engine)
    assert_right(block)
    assert block.sentinels.tolist() == [1] * len(POSITIONS)


def test_a_nan_is_named_as_one() -> None:
    fault = Fault(kind="value", value=math.nan)
    with (
        serving_llama(faults=[fault]) as state,
        opened(state) as engine,
        pytest.raises((NonFiniteLogits, ServerError), match="NaN"),
    ):
        scored(engine)


@pytest.mark.parametrize("change", [{"served": "other"}, {"root": "models/other"}, {"version": "0.0.other"}])
def test_another_model_behind_the_url_is_an_error(change: dict[str, str]) -> None:
    with serving_llama() as state, opened(state) as engine:
        assert_right(scored(engine))
        state.model = MadeUp(salt=1)
        for name, value in change.items():
            setattr(state, name, value)
        with pytest.raises(ServerError, match=r"another model answers.*safe on disk"):
            scored(engine)


def test_another_model_within_a_window_is_an_error_at_its_end() -> None:
    with serving_llama() as state, opened(state) as engine:
        blocks = engine.score_listed(TOKENS, POSITIONS, top_k=TOP_K)
        next(blocks)
        state.model, state.root = MadeUp(salt=1), "models/other"
        with pytest.raises(ServerError, match="another model answers"):
            list(blocks)


def test_two_models_without_a_name_are_a_question() -> None:
    with serving_llama() as state:
        assert opened(state).served == "made-up"
        with pytest.raises(ConfigError, match=r"does not list.*expected one of made-up"):
            opened(state, served="else")


def test_another_user_of_the_slot_is_noticed() -> None:
    with serving_llama() as state, opened(state, cache_prompt=True) as engine, opened(state) as other:
        other.write(TOKENS[:3], 1, top_k=1)
        blocks = engine.score_listed(TOKENS, POSITIONS, top_k=TOP_K)
        next(blocks)
        other.write(TOKENS[5:9], 1, top_k=1)
        with pytest.raises(ServerError, match="let nothing else use this server"):
            list(blocks)
        assert_right(scored(engine))


def test_limits_are_named() -> None:
    with serving_llama(context=32) as state, opened(state) as engine:
        with pytest.raises(ContextOverflow, match="larger -c"):
            scored(engine)
        with pytest.raises(ContextOverflow, match="context size"):
            engine._ask(TOKENS, 1, cached=False)
        with pytest.raises(ServerError, match="invalid tokens"):
            scored(engine, tokens=[1, 2, SIZE, 3], positions=[3])


def test_an_end_token_is_the_last() -> None:
    written = PLAIN.greedy(TOKENS[:8], 9)
    with serving_llama(end_token=written[4]) as state, opened(state) as engine:
        assert [token.token for token in engine.write(TOKENS[:8], 9, top_k=2)] == written[
            : written.index(written[4]) + 1
        ]
        state.answers.append({"stop_type": "word"})
        with pytest.raises(ServerError, match="stopped after"):
            engine.write(TOKENS[:8], 9, top_k=2)


# Bounds ---------------------------------------------------------------------------------------------------------------


def test_a_slot_is_asked_one_thing_at_a_time() -> None:
    with serving_llama(delay_s=0.005) as state, opened(state, concurrency=3) as engine:
        assert_right(scored(engine))
        assert state.most_at_once == 1


def test_a_long_window_is_held_a_row_at_a_time() -> None:
    tokens = [(7 * index * index + index) % SIZE for index in range(3_000)]
    with serving_llama(requests=Forgetful()) as state, opened(state, cache_prompt=True) as engine:
        blocks = engine.score_listed(tokens, list(range(32, 3_000, 32)), top_k=TOP_K)
        assert all(len(block.positions) == 1 for block in blocks)


def test_the_key_is_sent_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADE_UP_KEY", "made-up-secret")
    fault = Fault(kind="status", value=401)
    with serving_llama(faults=[fault]) as state, opened(state, key_env="MADE_UP_KEY") as engine:
        with pytest.raises(ServerError) as caught:
            scored(engine)
        sent = {name.lower(): value for name, value in state.headers[-1].items()}
        assert sent["authorization"] == "Bearer made-up-secret"
        assert "secret" not in repr(caught.value) + str(caught.value) + repr(engine.place) + str(engine.facts())
