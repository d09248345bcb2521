"""Whatever a server does wrong ends in right numbers or in an error by name, never in a wrong number."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator

import numpy as np
import psutil
import pytest

from drift_runs.engines.base import ListedBlock
from drift_runs.engines.openai_server import server, transport
from drift_runs.engines.openai_server.server import ListedServer
from drift_runs.engines.openai_server.sglang import SGLang
from drift_runs.engines.openai_server.transport import Backoff, Transport
from drift_runs.engines.openai_server.vllm import VLLM
from drift_runs.errors import ConfigError, EngineError, NonFiniteLogits, ServerError
from drift_runs.machine import Place
from tests.engines.conftest import settings
from tests.engines.fault_server import SIZE, Fault, FaultServer, MadeUp, serving

TOKENS = [(11 * index * index + 5 * index + 3) % SIZE for index in range(40)]
POSITIONS = list(range(8, 40, 2))
TOP_K = 5
QUICK = Backoff(tries=4, timeouts=2, first_s=0.001, longest_s=0.002, longest_asked_s=0.01)
SHAPES = ("prefill", "decode")
PLAIN = MadeUp()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that do not wait between tries."""
    monkeypatch.setattr(server, "Transport", lambda place: Transport(place, backoff=QUICK))


def place(state: FaultServer, **changed: object) -> Place:
    return Place(**{"url": state.url, "timeout_s": 20.0, **changed})


def opened(
    state: FaultServer, shape: str = "prefill", *, dialect: type[ListedServer] = VLLM, **changed: object
) -> ListedServer:
    return dialect(place(state, **changed), settings(path_shape=shape, context_tokens=4096), dictionary_size=SIZE)


def scored(
    engine: ListedServer, tokens: list[int] = TOKENS, positions: list[int] = POSITIONS, **asked: object
) -> ListedBlock:
    """All blocks of a window as one."""
    blocks = list(engine.score_listed(tokens, positions, **{"top_k": TOP_K, **asked}))
    return ListedBlock(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


def assert_right(block: ListedBlock, positions: list[int] = POSITIONS, model: MadeUp = PLAIN) -> None:
    """Every number against the closed form, where there is one; placeholders and only they may be missing."""
    assert block.positions.tolist() == positions
    for index, position in enumerate(positions):
        history, token = TOKENS[:position], TOKENS[position]
        best = model.best(history)[:TOP_K]
        told = [found for found in block.ids[index].tolist() if found >= 0]
        assert told == best[: len(told)]
        # The own token may be told apart, with a placeholder of its own.
        assert 0 <= block.sentinels[index] - (TOP_K - len(told)) <= 1
        np.testing.assert_allclose(
            block.logprobs[index, : len(told)], [-(r + 1) * math.log(2) for r in range(len(told))]
        )
        if not math.isnan(block.token_logprob[index]):
            assert math.isclose(block.token_logprob[index], -model.rank(history, token) * math.log(2))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_server_without_faults_gives_the_closed_form(shape: str) -> None:
    with serving() as state, opened(state, shape) as engine:
        block = scored(engine)
        assert_right(block)
        assert not np.isnan(block.token_logprob).any()
        assert block.sentinels.sum() == 0
        assert engine.retries == 0


def test_echo_stands_in_for_prompt_log_probabilities() -> None:
    for changed in ({"knows": {"echo", "return_token_ids"}}, {"refuses": {"prompt_logprobs"}}):
        with serving(**changed) as state, opened(state) as engine:
            assert_right(scored(engine))
            state.requests.clear()
            assert_right(scored(engine))
            assert len(state.requests) == 1  # what it does not know it is not asked again


# Connections ----------------------------------------------------------------------------------------------------------

PASSING = {
    "hang": Fault(kind="hang", times=1, after=0),
    "reset": Fault(kind="reset", times=2),
    "cut": Fault(kind="cut", times=2),
    "408": Fault(kind="status", value=408, times=1),
    "425": Fault(kind="status", value=425, times=1),
    "429": Fault(kind="status", value=429, times=3),
    "500": Fault(kind="status", value=500, times=2),
    "503": Fault(kind="status", value=503, times=2),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_tried_again_and_counted(name: str, shape: str) -> None:
    fault = PASSING[name]
    with serving(faults=[fault]) as state, opened(state, shape, timeout_s=1.0 if name == "hang" else 20.0) as engine:
        assert_right(scored(engine))
        assert engine.retries == fault.times


LASTING = {
    "hang": (Fault(kind="hang"), "no .*answer within 0.3 s .2 tries"),
    "reset": (Fault(kind="reset"), "connection .* .4 tries"),
    "cut": (Fault(kind="cut"), "broke off within the answer.* .4 tries"),
    "429": (Fault(kind="status", value=429), "status 429: made-up status 429 .4 tries"),
    "502": (Fault(kind="status", value=502), "status 502"),
    "404": (Fault(kind="status", value=404), "status 404"),
    "401": (Fault(kind="status", value=401), "status 401"),
    "redirect": (Fault(kind="status", value=307), "status 307"),
    "truncated": (Fault(kind="truncated"), "no JSON"),
    "not JSON": (Fault(kind="not_json"), "no JSON"),
    "dies": (Fault(kind="die", after=0), "connection"),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", LASTING)
def test_what_lasts_is_an_error_that_says_what_is_safe(name: str, shape: str) -> None:
    fault, words = LASTING[name]
    with serving(faults=[fault]) as state, opened(state, shape, timeout_s=0.3 if name == "hang" else 20.0) as engine:
        with pytest.raises(ServerError, match=words) as caught:
            scored(engine)
        assert "safe on disk" in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_tried_again(status: int) -> None:
    with serving(faults=[Fault(kind="status", value=status)]) as state, Transport(place(state)) as line:
        with pytest.raises(ServerError) as caught:
            line.post("/v1/completions", {"prompt": [1, 2], "max_tokens": 1})
        assert caught.value.status == status
        assert (line.retries, len(state.requests)) == (0, 1)


def test_a_server_that_dies_within_a_window_leaves_no_whole_window() -> None:
    with serving(faults=[Fault(kind="die", after=5)]) as state, opened(state, "decode") as engine:
        came: list[ListedBlock] = []
        with pytest.raises(ServerError, match="safe on disk"):
            came.extend(engine.score_listed(TOKENS, POSITIONS, top_k=TOP_K))
        with pytest.raises(ServerError, match="safe on disk"):
            scored(engine)


def test_a_server_that_is_not_there_is_named() -> None:
    with serving() as state:
        gone = place(state)
    with pytest.raises(ServerError, match=gone.url):
        VLLM(gone, settings(), dictionary_size=SIZE)


def test_the_wait_grows_is_capped_and_honours_retry_after() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    backoff = Backoff(tries=6, first_s=1.0, longest_s=4.0, longest_asked_s=50.0)
    faults = [
        Fault(kind="status", value=503, times=3),
        Fault(kind="status", value=(429, "20"), times=1, after=3),
        Fault(kind="status", value=(429, "7000"), times=1, after=4),
    ]
    with serving(faults=faults) as state, Transport(place(state), sleep=sleep, backoff=backoff) as line:
        reply = line.post("/v1/completions", {"prompt": [1, 2], "max_tokens": 1})
    assert reply.retries == line.retries == 5
    for wait, most in zip(waits[:3], (1.0, 2.0, 4.0), strict=True):
        assert most / 2 <= wait <= most
    assert waits[3:] == [20.0, 50.0]


# Answers --------------------------------------------------------------------------------------------------------------

WRONG = {
    "null": Fault(kind="value", value=None),
    "NaN": Fault(kind="value", value=math.nan),
    "infinity": Fault(kind="value", value=math.inf),
    "text": Fault(kind="value", value="-1.0"),
    "above 1": Fault(kind="own_value", value=0.25),
    "null row": Fault(kind="null_row"),
    "missing entries": Fault(kind="missing_entry"),
    "extra entries": Fault(kind="extra_entries"),
    "missing row": Fault(kind="missing_row"),
    "extra row": Fault(kind="extra_row"),
    "outside": Fault(kind="outside"),
    "logits": Fault(kind="logits"),
    "zeros": Fault(kind="zeros"),
    "one-hot": Fault(kind="one_hot"),
    "wrong ids": Fault(kind="wrong_ids"),
    "ignored": Fault(kind="ignored"),
}


@pytest.mark.parametrize("way", ["prompt", "echo", "decode"])
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_an_error(name: str, way: str) -> None:
    knows = {"echo": {"echo", "return_token_ids"}}.get(way, FaultServer().knows)
    with (
        serving(faults=[WRONG[name]], knows=knows) as state,
        opened(state, "decode" if way == "decode" else "prefill") as engine,
        pytest.raises(EngineError) as caught,
    ):
        scored(engine)
    assert "vllm at http" in str(caught.value) or "no JSON" in str(caught.value)


def test_an_own_token_that_is_missing_is_an_error() -> None:
    with (
        serving(faults=[Fault(kind="own_entry_missing")]) as state,
        opened(state) as engine,
        pytest.raises(ServerError, match="own token is missing"),
    ):
        scored(engine)


@pytest.mark.parametrize("way", ["prompt", "echo", "decode"])
def test_an_answer_to_another_request_is_an_error(way: str) -> None:
    """The other request has the same length, and the server does not tell which ids it read."""
    knows = {"prompt": {"prompt_logprobs"}, "echo": {"echo"}, "decode": {"return_token_ids", "named"}}[way]
    with (
        serving(faults=[Fault(kind="other_request", after=2)], knows=knows) as state,
        opened(state, "decode" if way == "decode" else "prefill") as engine,
        pytest.raises(EngineError),
    ):
        for _ in range(3):
            scored(engine)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_other_dialect_gives_the_closed_form_too(shape: str) -> None:
    with serving() as state, opened(state, shape, dialect=SGLang) as engine:
        block = scored(engine)
    assert_right(block)
    assert not np.isnan(block.token_logprob).any()


# Which ids were read SGLang does not tell where one token was generated.
OTHER = [(name, shape) for name in WRONG for shape in SHAPES if (name, shape) != ("wrong ids", "decode")]


@pytest.mark.parametrize(("name", "shape"), OTHER)
def test_a_wrong_answer_in_the_other_dialect_is_an_error(name: str, shape: str) -> None:
    with (
        serving(faults=[WRONG[name]]) as state,
        opened(state, shape, dialect=SGLang) as engine,
        pytest.raises(EngineError),
    ):
        scored(engine, positions=list(range(8, 40)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("value", [-9999.0, -100.0, -math.inf])
def test_placeholders_are_left_out_and_counted(shape: str, value: float) -> None:
    with serving(faults=[Fault(kind="value", value=value)]) as state, opened(state, shape) as engine:
        block = scored(engine)
    assert_right(block)
    assert block.sentinels.sum() > 0


def test_a_nan_is_named_as_one() -> None:
    with (
        serving(faults=[Fault(kind="value", value=math.nan)]) as state,
        opened(state) as engine,
        pytest.raises((NonFiniteLogits, ServerError), match="NaN"),
    ):
        scored(engine)


@pytest.mark.parametrize("change", [{"served": "other"}, {"root": "models/other"}, {"version": "0.0.other"}])
def test_another_model_behind_the_url_is_an_error(change: dict[str, str]) -> None:
    with serving() as state, opened(state) as engine:
        assert_right(scored(engine))
        state.model = MadeUp(salt=1)
        for name, value in change.items():
            setattr(state, name, value)
        with pytest.raises(ServerError, match=r"another model answers.*safe on disk"):
            scored(engine)


def test_another_model_within_a_window_is_an_error_at_its_end() -> None:
    with serving() as state, opened(state, "decode") as engine:
        blocks = engine.score_listed(TOKENS, POSITIONS, top_k=TOP_K)
        next(blocks)
        state.model, state.root = MadeUp(salt=1), "models/other"
        with pytest.raises(ServerError, match="another model answers"):
            list(blocks)


def test_two_models_without_a_name_are_a_question() -> None:
    with serving() as state:
        assert opened(state).served == "made-up"
        with pytest.raises(ConfigError, match=r"does not list.*expected one of made-up"):
            opened(state, served="else")


def test_more_than_the_server_gives_is_refused_with_the_way_out() -> None:
    with (
        serving(most_logprobs=3) as state,
        opened(state) as engine,
        pytest.raises(ServerError, match="--max-logprobs 5"),
    ):
        scored(engine)


# Bounds ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_requests_are_under_way_than_allowed(concurrency: int) -> None:
    with serving(delay_s=0.01) as state, opened(state, "decode", concurrency=concurrency) as engine:
        assert_right(scored(engine))
        assert state.most_at_once == concurrency


def test_answers_that_nobody_takes_are_not_asked_for() -> None:
    sent: list[int] = []

    def bodies() -> Iterator[dict[str, object]]:
        for number in range(100):
            sent.append(number)
            yield {"prompt": [1, number % SIZE], "max_tokens": 1, "logprobs": 1}

    with serving() as state, Transport(place(state, concurrency=2)) as line:
        replies = line.post_all("/v1/completions", bodies())
        for taken in range(1, 6):
            next(replies)
            assert len(sent) <= taken + 2
        replies.close()
        line.post("/v1/completions", {"prompt": [1, 2], "max_tokens": 1})
        assert len(state.requests) <= 8


def test_answers_come_in_the_order_of_the_requests() -> None:
    """The first is delayed by a retry, and still it is the first."""
    fault = Fault(kind="status", value=503, times=1)
    bodies = [{"prompt": [1, number], "max_tokens": 1, "return_token_ids": True} for number in range(20)]
    with serving(faults=[fault]) as state, Transport(place(state, concurrency=4), backoff=QUICK) as line:
        replies = list(line.post_all("/v1/completions", bodies))
    assert [reply.body["choices"][0]["prompt_token_ids"][1] for reply in replies] == list(range(20))
    assert sum(reply.retries for reply in replies) == 1


def test_a_failure_gives_up_what_is_under_way() -> None:
    fault = Fault(kind="status", value=400, times=1)
    bodies = ({"prompt": [1, 2], "max_tokens": 1} for _ in range(100))
    with serving(faults=[fault], delay_s=0.02) as state, Transport(place(state, concurrency=4)) as line:
        with pytest.raises(ServerError):
            list(line.post_all("/v1/completions", bodies))
        assert len(state.requests) <= 8
        assert line.post("/v1/completions", {"prompt": [1, 2], "max_tokens": 1}).status == 200


def test_an_answer_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "LARGEST_ANSWER_BYTES", 10_000)
    with (
        serving(recorded={"/v1/completions": b"[" + b"1," * 100_000 + b"1]"}) as state,
        Transport(place(state)) as line,
        pytest.raises(ServerError, match="more than 10,000 bytes"),
    ):
        line.post("/v1/completions", {"prompt": [1, 2], "max_tokens": 1})


def walked(tokens: int, stride: int) -> None:
    """A window in decode shape, whose blocks are dropped as they come."""
    stream = [(7 * index * index + index) % SIZE for index in range(tokens)]
    # All of the dictionary is listed, so that one request a position is enough.
    with serving(context=1 << 20, requests=Forgetful()) as state:
        wide = settings(path_shape="decode", context_tokens=1 << 20)
        with VLLM(place(state, concurrency=2), wide, dictionary_size=SIZE) as engine:
            count = 0
            for block in engine.score_listed(stream, range(stride, tokens, stride), top_k=SIZE):
                count += len(block.positions)
    assert count == len(range(stride, tokens, stride))


class Forgetful(list):
    """Forgets what it is given: a server's log of its requests would grow with the window."""

    def append(self, item: object) -> None:
        pass


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_window_of_100_000_tokens_at_stride_32_is_scored_in_bounded_memory() -> None:
    walked(2_000, 32)
    before = psutil.Process().memory_info().rss
    walked(100_000, 32)
    assert psutil.Process().memory_info().rss - before < 200 << 20


def test_memory_does_not_grow_with_the_number_of_requests() -> None:
    most = []
    walked(1_000, 200)
    for stride in (200, 10):
        tracemalloc.start()
        walked(1_000, stride)
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert most[1] < most[0] + (1 << 19)


# Keys -----------------------------------------------------------------------------------------------------------------


def test_the_key_is_sent_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADE_UP_KEY", "made-up-secret")
    fault = Fault(kind="status", value=401)
    with serving(faults=[fault]) as state, opened(state, key_env="MADE_UP_KEY") as engine:
        with pytest.raises(ServerError) as caught:
            scored(engine)
        assert {name.lower(): value for name, value in state.headers[0].items()}["authorization"] == (
            "Bearer made-up-secret"
        )
        assert "secret" not in repr(caught.value) + str(caught.value) + repr(engine.place) + str(engine.said())


def test_a_key_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MADE_UP_KEY", raising=False)
    with serving() as state, pytest.raises(ConfigError, match="MADE_UP_KEY is not set"):
        opened(state, key_env="MADE_UP_KEY")


def test_keys_and_headers_that_are_meant_for_another_service_stay_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", "other-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Else: other-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://nowhere.invalid")
    with serving() as state, opened(state) as engine:
        scored(engine)
        assert "other-secret" not in str(state.headers)
