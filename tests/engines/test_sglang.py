"""SGLang's dialect on answers that are written here after its documented shapes; no server of it was run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from drift_runs.engines.base import ListedBlock
from drift_runs.engines.openai_server import sglang
from drift_runs.engines.openai_server.sglang import SGLang
from drift_runs.errors import ContextOverflow, EngineError, ServerError
from drift_runs.machine import Place
from tests.engines.canned_server import Canned, answering
from tests.engines.conftest import settings
from tests.engines.fault_server import SIZE, MadeUp

MODEL = MadeUp()
TOKENS = [(11 * index * index + 5 * index + 3) % SIZE for index in range(24)]
WANTED = [[(position * 5 + other) % SIZE for other in range(3)] for position in range(24)]


def row(history: list[int], count: int) -> list[list[Any]]:
    return [[MODEL.logprob(rank + 1), token, None] for rank, token in enumerate(MODEL.best(history)[:count])]


def named(history: list[int], ids: list[int]) -> list[list[Any]]:
    return [[MODEL.logprob(MODEL.rank(history, token)), token, None] for token in ids]


def generate(body: dict[str, Any]) -> dict[str, Any]:
    """``/generate`` of the made-up model."""
    prompt, start, top_k = body["input_ids"], body["logprob_start_len"], body["top_logprobs_num"]
    ids = body.get("token_ids_logprob")
    written = MODEL.greedy(prompt, body["sampling_params"]["max_new_tokens"])
    histories = [[*prompt, *written[:at]] for at in range(len(written))]
    told: dict[str, Any] = {
        "prompt_tokens": len(prompt),
        "completion_tokens": len(written),
        "cached_tokens": 0,
        "finish_reason": {"type": "length", "length": len(written)},
        "output_token_logprobs": [named(h, [token])[0] for h, token in zip(histories, written, strict=True)],
        "output_top_logprobs": [row(h, top_k) for h in histories],
    }
    if ids is not None:
        told["output_token_ids_logprobs"] = [named(h, ids) for h in histories]
    if start >= 0:
        at = range(start + 1, len(prompt))
        told["input_token_logprobs"] = [
            [None, prompt[start], None],
            *(named(prompt[:p], [prompt[p]])[0] for p in at),
        ]
        told["input_top_logprobs"] = [None, *(row(prompt[:p], top_k) for p in at)]
        told["input_token_ids_logprobs"] = [None, *(named(prompt[:p], ids or []) for p in at)]
    return {"text": "", "output_ids": written, "meta_info": told}


@pytest.fixture
def server() -> Iterator[Canned]:
    pages = {
        "/v1/models": {"data": [{"id": "made-up", "max_model_len": 4096}]},
        "/get_model_info": {"model_path": "models/made-up", "is_generation": True},
        "/get_server_info": {"version": "0.9.9", "dtype": "bfloat16", "kv_cache_dtype": "fp8_e5m2", "device": "cuda"},
        "/generate": generate,
    }
    with answering(pages) as found:
        yield found


@pytest.fixture
def open_it(server: Canned) -> Iterator[Callable[..., SGLang]]:
    opened: list[SGLang] = []

    def open_one(shape: str = "prefill", **changed: Any) -> SGLang:
        place = Place(url=server.url, concurrency=3)
        engine = SGLang(place, settings(path_shape=shape, context_tokens=4096, **changed), dictionary_size=SIZE)
        opened.append(engine)
        return engine

    yield open_one
    for engine in opened:
        engine.close()


def scored(engine: SGLang, positions: list[int], **asked: Any) -> ListedBlock:
    """All blocks of a window as one, rows of wanted ids padded to the longest."""
    blocks = list(engine.score_listed(TOKENS, positions, **{"top_k": 4, **asked}))
    return ListedBlock(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


@pytest.mark.parametrize("shape", ["prefill", "decode"])
@pytest.mark.parametrize("positions", [[1, 2, 3], [7, 8, 15, 23], [23]])
def test_rows_own_tokens_and_wanted_ids(open_it: Callable[..., SGLang], shape: str, positions: list[int]) -> None:
    engine = open_it(shape)
    assert engine.gives_wanted
    block = scored(engine, positions, wanted=[WANTED[position] for position in positions])
    assert block.positions.tolist() == positions
    for at, position in enumerate(positions):
        history = TOKENS[:position]
        assert block.ids[at].tolist() == MODEL.best(history)[:4]
        np.testing.assert_allclose(block.logprobs[at], [MODEL.logprob(rank) for rank in range(1, 5)])
        own = MODEL.rank(history, TOKENS[position])
        assert math.isclose(block.token_logprob[at], MODEL.logprob(own))
        assert block.token_rank[at] == (own if own <= 4 else 0), "beyond K its rank is not told"
        assert block.wanted_ids[at].tolist() == WANTED[position]
        np.testing.assert_allclose(
            block.wanted_logprobs[at], [MODEL.logprob(MODEL.rank(history, token)) for token in WANTED[position]]
        )


def test_one_request_for_a_window_and_none_before_it_is_needed(open_it: Callable[..., SGLang], server: Canned) -> None:
    scored(open_it(), [7, 8, 15])
    (body,) = server.bodies("/generate")
    assert (body["input_ids"], body["logprob_start_len"]) == (TOKENS[:16], 6)
    assert body["sampling_params"]["temperature"] == 0 and body["sampling_params"]["repetition_penalty"] == 1
    assert "token_ids_logprob" not in body


def test_wanted_ids_are_asked_for_in_pieces(
    open_it: Callable[..., SGLang], server: Canned, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = list(range(1, 24))
    wanted = [WANTED[position] for position in positions]
    whole = scored(open_it(), positions, wanted=wanted)
    monkeypatch.setattr(sglang, "MOST_TOLD", 60)
    pieces = scored(open_it(), positions, wanted=wanted)
    for one, other in zip(whole, pieces, strict=True):
        np.testing.assert_array_equal(one, other)
    sent = server.bodies("/generate")[1:]
    assert len(sent) > 3
    assert all(
        len(body["token_ids_logprob"]) * (len(body["input_ids"]) - body["logprob_start_len"]) <= 60 for body in sent
    )


def test_one_request_a_position_in_the_decode_shape(open_it: Callable[..., SGLang], server: Canned) -> None:
    scored(open_it("decode"), [7, 8, 15])
    assert sorted(len(body["input_ids"]) for body in server.bodies("/generate")) == [7, 8, 15]
    assert {body["logprob_start_len"] for body in server.bodies("/generate")} == {-1}


def test_it_writes(open_it: Callable[..., SGLang]) -> None:
    written = open_it().write(TOKENS[:9], 6, top_k=3)
    assert [got.token for got in written] == MODEL.greedy(TOKENS[:9], 6)
    assert written[0].top_ids == tuple(MODEL.best(TOKENS[:9])[:3])
    assert math.isclose(written[0].logprob, MODEL.logprob(1))


def test_what_it_says(open_it: Callable[..., SGLang]) -> None:
    engine = open_it()
    assert (engine.identity.build, engine.identity.backend) == ("0.9.9", "cuda")
    assert engine.said()["server.kv_cache_dtype"] == "fp8_e5m2"


@pytest.mark.parametrize("shape", ["prefill", "decode"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda told: told.update(prompt_tokens=3), "the server read 3 tokens"),
        (lambda told: told.pop("input_top_logprobs" if "input_top_logprobs" in told else "output_top_logprobs"), "no"),
        (lambda told: _best(told).__setitem__(-1, None), "null, or an entry that is none"),
        (lambda told: _best(told)[-1].pop(), "3 entries where 4 were asked for"),
        (lambda told: _best(told)[-1][0].__setitem__(0, None), "null or a text"),
        (lambda told: _best(told)[-1][0].__setitem__(0, 22.875), "logits"),
        (lambda told: _best(told)[-1][0].__setitem__(1, SIZE), "not of the dictionary"),
        (lambda told: _ids(told)[-1].clear(), "was asked for and is missing"),
        (lambda told: _best(told).append(_best(told)[-1]), "lists of the best entries; expected|2 rows; expected 1"),
    ],
)
def test_an_answer_that_is_another(
    open_it: Callable[..., SGLang], server: Canned, shape: str, change: Any, message: str
) -> None:
    engine = open_it(shape)

    def changed(body: dict[str, Any]) -> dict[str, Any]:
        answer = generate(body)
        change(answer["meta_info"])
        return answer

    server.pages["/generate"] = changed
    with pytest.raises(EngineError, match=message):
        scored(engine, [8, 9], wanted=[[1, 2], [3]])


def _best(told: dict[str, Any]) -> list[Any]:
    return told.get("input_top_logprobs") or told["output_top_logprobs"]


def _ids(told: dict[str, Any]) -> list[Any]:
    return told.get("input_token_ids_logprobs") or told["output_token_ids_logprobs"]


def test_other_ids_than_were_sent(open_it: Callable[..., SGLang], server: Canned) -> None:
    engine = open_it()

    def changed(body: dict[str, Any]) -> dict[str, Any]:
        answer = generate(body)
        answer["meta_info"]["input_token_logprobs"][1][1] += 1
        return answer

    server.pages["/generate"] = changed
    with pytest.raises(ServerError, match=r"from position 7, position 1: the server read id"):
        scored(engine, [8, 9])


def test_a_cache_that_was_to_be_off(open_it: Callable[..., SGLang], server: Canned) -> None:
    def cached(body: dict[str, Any]) -> dict[str, Any]:
        answer = generate(body)
        answer["meta_info"]["cached_tokens"] = 5
        return answer

    server.pages["/generate"] = cached
    scored(open_it("decode"), [8])
    with pytest.raises(ServerError, match=r"5 tokens of the history came .*--disable-radix-cache"):
        scored(open_it("decode", cache_prompt=False), [8])


def test_a_history_that_is_too_long(open_it: Callable[..., SGLang], server: Canned) -> None:
    engine = open_it()
    said = "The input (16 tokens) is longer than the model's context length (8 tokens)."
    server.pages["/generate"] = lambda _: (400, {"error": {"message": said}})
    with pytest.raises(ContextOverflow, match="longer than the model's context length"):
        scored(engine, [15])
