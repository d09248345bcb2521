"""TGI's dialect on answers that are written here after its documented shapes; no server of it was run."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drift_runs.engines.openai_server.tgi import TGI
from drift_runs.errors import CannotGive, ConfigError, EngineError
from drift_runs.machine import Place
from tests.engines.canned_server import Canned, answering, tokenizer_folder
from tests.engines.conftest import settings

SIZE = 16
NAMED = {0: "<s>", 1: "</s>", 2: "The", 3: "Ġcat", 4: "Ġsat", 5: ".", 6: "Ġran"}
HISTORY = [2, 3]
INFO = {"model_id": "made-up", "model_dtype": "float16", "version": "3.3.4", "max_total_tokens": 64, "sha": "abc"}


def token(number: int, logprob: float) -> dict[str, Any]:
    return {"id": number, "text": "", "logprob": logprob, "special": False}


ANSWER = {
    "generated_text": " sat.",
    "details": {
        "finish_reason": "eos_token",
        "generated_tokens": 3,
        "seed": None,
        "prefill": [{"id": 2, "text": "The", "logprob": None}, {"id": 3, "text": " cat", "logprob": -1.5}],
        "tokens": [token(4, -0.5), token(5, -0.25), token(1, -0.125)],
        "top_tokens": [
            [token(4, -0.5), token(6, -1.0)],
            [token(5, -0.25), token(6, -2.0)],
            [token(1, -0.125), token(2, -3.0)],
        ],
    },
}


@pytest.fixture
def server() -> Iterator[Canned]:
    tokenized = [{"id": number, "text": "", "start": 0, "stop": 0} for number in (0, 2, 3)]
    with answering({"/info": INFO, "/generate": ANSWER, "/tokenize": tokenized}) as found:
        yield found


@pytest.fixture
def engine(server: Canned, tmp_path: Path) -> Iterator[TGI]:
    folder = tokenizer_folder(tmp_path, SIZE, named=NAMED)
    with TGI(Place(url=server.url, tokenizer=folder), settings(), dictionary_size=SIZE) as found:
        yield found


def test_it_writes_to_the_end_token(engine: TGI, server: Canned) -> None:
    written = engine.write(HISTORY, 8, top_k=2)
    assert [got.token for got in written] == [4, 5, 1]
    assert written[1].top_ids == (5, 6) and written[1].top_logprobs == (-0.25, -2.0)
    (body,) = server.bodies("/generate")
    assert body["inputs"] == "The cat"
    assert body["parameters"]["decoder_input_details"] and body["parameters"]["top_n_tokens"] == 2
    assert "temperature" not in body["parameters"], "nought is not allowed there"


def test_it_tokenises_without_what_is_put_in_front(engine: TGI) -> None:
    assert engine.tokenize("The cat") == [2, 3]
    with pytest.raises(EngineError, match="bytes are not the text"):
        engine.tokenize("A cat")


def test_it_scores_nothing(engine: TGI) -> None:
    with pytest.raises(CannotGive, match=r"score with an engine that lists .*vllm"):
        engine.score_listed(HISTORY, [1], top_k=2)
    assert engine.identity.build == "3.3.4" and engine.said()["info.model_dtype"] == "float16"


def test_its_limit_of_entries_is_what_it_was_started_with(server: Canned, tmp_path: Path) -> None:
    place = Place(url=server.url, tokenizer=tokenizer_folder(tmp_path, SIZE, named=NAMED))
    started = settings(server=(("--max-top-n-tokens", "20"),))
    with TGI(place, started, dictionary_size=SIZE) as more, TGI(place, settings(), dictionary_size=SIZE) as plain:
        assert (more.capabilities.largest_top_k, plain.capabilities.largest_top_k) == (20, 5)


def test_another_model_than_is_named(server: Canned, tmp_path: Path) -> None:
    place = Place(url=server.url, served="other", tokenizer=tokenizer_folder(tmp_path, SIZE))
    with pytest.raises(ConfigError, match="the server runs made-up; expected other"):
        TGI(place, settings(), dictionary_size=SIZE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["prefill"].insert(0, {"id": 0, "text": "", "logprob": None}), "3 tokens read by the server"),
        (lambda d: d["prefill"][1].update(id=6), "position 1: the server read id 6; expected 3"),
        (lambda d: d.update(prefill=[]), "no prefill tokens"),
        (lambda d: d.pop("top_tokens"), "no top_tokens"),
        (lambda d: d["top_tokens"].pop(), "2 lists of the best entries; expected 3"),
        (lambda d: d["tokens"][1].pop("logprob"), "no list of tokens"),
        (lambda d: d["tokens"][1].update(id=6, logprob=-2.0), "token 6 was written though 5 is more probable"),
        (lambda d: d.update(finish_reason="stop_sequence"), "stopped after 3 tokens by 'stop_sequence'"),
        (lambda d: d.update(finish_reason="length"), "stopped after 3 tokens by 'length'; expected 8 tokens"),
        (lambda d: d["top_tokens"][0][0].update(logprob=4.0), "logits"),
    ],
)
def test_an_answer_that_is_another(engine: TGI, server: Canned, change: Any, message: str) -> None:
    answer = copy.deepcopy(ANSWER)
    change(answer["details"])
    server.pages["/generate"] = answer
    with pytest.raises(EngineError, match=message):
        engine.write(HISTORY, 8, top_k=2)
