"""mlx_lm.server's dialect on answers that a real one (0.32.2) gave."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drift_runs.engines.openai_server.mlx_lm_server import MLXLMServer
from drift_runs.errors import CannotGive, ConfigError, ServerError
from drift_runs.machine import Place
from tests.engines.canned_server import Canned, answering, recorded, tokenizer_folder
from tests.engines.conftest import settings

SIZE = 8_192
PROMPT = [504, 3575, 282, 4649, 314]
NAMED = {504: "The", 3575: "Ġcapital", 282: "Ġof", 4649: "ĠFrance", 314: "Ġis", 240: "ð"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tokenizer_folder(tmp_path_factory.mktemp("tokenizer"), SIZE, named=NAMED)


def completion(body: dict[str, Any]) -> Any:
    """As the real server did for this prompt and three tokens; token ids are refused as it did."""
    if not isinstance(body["prompt"], str):
        return 404, recorded("mlx_lm_server", "token_ids_error")
    return recorded("mlx_lm_server", "top_logprobs_mislabelled" if "top_logprobs" in body else "logprobs_only")


@pytest.fixture
def server() -> Iterator[Canned]:
    with answering({"/v1/completions": completion}) as found:
        yield found


@pytest.fixture
def engine(server: Canned, folder: Path) -> Iterator[MLXLMServer]:
    with MLXLMServer(Place(url=server.url, tokenizer=folder), settings(), dictionary_size=SIZE) as found:
        yield found


def test_what_was_written_is_taken_from_the_answer_that_says_it(engine: MLXLMServer, server: Canned) -> None:
    written = engine.write(PROMPT, 3, top_k=3)
    assert [got.token for got in written] == [7042, 30, 198], "not 260, 28, 1116 as the other answer labels them"
    assert [got.top_ids for got in written[:2]] == [(7042, 260, 253), (30, 28, 43)], "sorted here"
    assert [got.logprob for got in written] == pytest.approx([-1.4746475, -0.3279610, -1.5394306])
    for got in written:
        assert got.logprob == got.top_logprobs[0] == max(got.top_logprobs)
    sent = server.bodies("/v1/completions")[1:]
    assert [body["prompt"] for body in sent] == ["The capital of France is"] * 2
    assert [body.get("top_logprobs") for body in sent] == [None, 3]
    assert all(body["logprobs"] is True and body["temperature"] == 0 for body in sent)


def test_it_says_its_versions(engine: MLXLMServer) -> None:
    assert engine.identity.build == "mlx-lm 0.32.2, mlx 0.32.4"
    assert engine.served == "default_model", "another name would make it load another model"
    assert engine.token_bytes()[3575] == b" capital"


def test_it_scores_nothing(engine: MLXLMServer) -> None:
    assert not engine.capabilities.token_ids and engine.capabilities.path_shapes == ()
    with pytest.raises(CannotGive, match=r"rollouts and branches only.*the engine mlx"):
        engine.score_listed(PROMPT, [1], top_k=3)


def test_more_entries_than_it_lists(engine: MLXLMServer) -> None:
    with pytest.raises(CannotGive, match="the best 12 entries of a row; expected at most 11"):
        engine.write(PROMPT, 3, top_k=12)


def test_a_history_that_is_no_text(engine: MLXLMServer, server: Canned) -> None:
    with pytest.raises(CannotGive, match=r"no UTF-8 at byte 3.*takes text"):
        engine.write([504, 240], 3, top_k=3)
    assert len(server.asked) == 1, "only what was asked when it was opened"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: body["usage"].update(prompt_tokens=6), "the server read 6 tokens; expected 5; it adds a token"),
        (lambda body: body.pop("usage"), "no number of the tokens that it read"),
        (lambda body: body["choices"][0].update(text="London.\n"), "two answers to one request differ"),
        (lambda body: body["choices"][0].pop("logprobs"), "the answer has no logprobs.content"),
        (lambda body: body["choices"][0].update(finish_reason="error"), "stopped after 3 tokens by 'error'"),
        (lambda body: body["choices"][0]["logprobs"]["content"].pop(), "3 rows of the second answer; expected 2"),
        (lambda body: body.update(system_fingerprint="0.33.0-0.33.0-Linux"), "another model answers"),
        (lambda body: body.update(model="other"), "another model answers"),
        (lambda body: body["choices"][0]["logprobs"]["content"][1].update(id=5, logprob=-9.0), "30 is more probable"),
        (lambda body: body["choices"][0]["logprobs"]["content"][1].pop("id"), "no entries with an id"),
    ],
)
def test_an_answer_that_is_another(engine: MLXLMServer, server: Canned, change: Any, message: str) -> None:
    engine.write(PROMPT, 3, top_k=3)

    def changed(body: dict[str, Any]) -> Any:
        answer = copy.deepcopy(completion(body))
        if "top_logprobs" not in body:
            change(answer)
        return answer

    server.pages["/v1/completions"] = changed
    with pytest.raises((ServerError, CannotGive), match=message):
        engine.write(PROMPT, 3, top_k=3)


def test_without_a_tokenizer_it_is_not_opened(server: Canned) -> None:
    with pytest.raises(ConfigError, match=r"no tokenizer is named; expected .*tokenizer\.json"):
        MLXLMServer(Place(url=server.url), settings(), dictionary_size=SIZE)
