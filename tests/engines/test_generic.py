"""OpenAI's two interfaces on answers that are written here after their documented shapes; no endpoint was asked."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from drift_runs.engines.base import UNNAMED_END
from drift_runs.engines.openai_server.generic import Generic, chatml
from drift_runs.errors import CannotAsk, CannotGive, EngineError, ServerError
from drift_runs.machine import Place
from tests.engines.canned_server import Canned, answering, tokenizer_folder
from tests.engines.conftest import settings

SIZE = 24
NAMED = {
    2: "The",
    3: "Ġcat",
    4: "Ġsat",
    5: ".",
    6: "Ġran",
    7: "æĹ",  # the first two bytes of a character of three
    8: "¥",  # its third
    10: "<|im_start|>",
    11: "<|im_end|>",
    12: "user",
    13: "assistant",
    14: "Ċ",
    15: "a",
}
HISTORY = [2, 3]
TURNS = [10, 12, 14, 2, 3, 11, 14, 10, 13, 14]
MODELS = {"data": [{"id": "made-up"}]}

LEGACY = {
    "model": "made-up",
    "system_fingerprint": "fp_1",
    "choices": [
        {
            "index": 0,
            "text": " sat.",
            "finish_reason": "length",
            "logprobs": {
                "tokens": [" sat", "."],
                "token_logprobs": [-0.5, -0.25],
                "top_logprobs": [{" ran": -1.0, " sat": -0.5}, {".": -0.25, "?": -2.0, " ran": -3.0}],
                "text_offset": [7, 11],
            },
        }
    ],
    "usage": {"prompt_tokens": 2, "completion_tokens": 2},
}


def entry(text: str, logprob: float, data: list[int] | None = None) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode()) if data is None else data}


CHAT = {
    "model": "made-up",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": " sat\u65e5"},
            "finish_reason": "stop",
            "logprobs": {
                "content": [
                    {**entry(" sat", -0.5), "top_logprobs": [entry(" sat", -0.5), entry(" ran", -1.0)]},
                    {**entry("", -0.1, [0xE6, 0x97]), "top_logprobs": [entry("", -0.1, [0xE6, 0x97])]},
                    {**entry("", -0.2, [0xA5]), "top_logprobs": [entry("", -0.2, [0xA5])]},
                ]
            },
        }
    ],
    "usage": {"prompt_tokens": 10, "completion_tokens": 3},
}


@pytest.fixture
def open_it(tmp_path: Path) -> Iterator[Callable[..., tuple[Generic, Canned]]]:
    """Opens the dialect on a server with these pages."""
    folder = tokenizer_folder(tmp_path, SIZE, named=NAMED)
    entered: list[Any] = []

    def open_one(**pages: Any) -> tuple[Generic, Canned]:
        known = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
        running = answering({"/v1/models": MODELS} | {known[name]: page for name, page in pages.items()})
        entered.append(running)
        server = running.__enter__()
        engine = Generic(Place(url=server.url, tokenizer=folder), settings(), dictionary_size=SIZE)
        entered.append(engine)
        return engine, server

    yield open_one
    for opened in reversed(entered):
        opened.__exit__(None, None, None)


def test_completions(open_it: Callable[..., tuple[Generic, Canned]]) -> None:
    engine, server = open_it(completions=LEGACY, chat=CHAT)
    written = engine.write(HISTORY, 2, top_k=3)
    assert [got.token for got in written] == [4, 5]
    assert written[0].top_ids == (4, 6) and written[0].top_logprobs == (-0.5, -1.0)
    assert written[1].top_ids == (5,), "the list ends where a text is of no token: what is below is not told"
    body = server.bodies("/v1/completions")[-1]
    assert (body["prompt"], body["logprobs"], body["max_tokens"], body["temperature"]) == ("The cat", 3, 2, 0)
    assert engine.capabilities.largest_top_k == 5 and engine.said()["interface"] == "/v1/completions"
    assert engine.said()["fingerprint"] == "fp_1"


def test_chat_where_there_are_no_completions(open_it: Callable[..., tuple[Generic, Canned]]) -> None:
    engine, server = open_it(chat=CHAT)
    written = engine.write(TURNS, 8, top_k=2)
    assert [got.token for got in written] == [4, 7, 8, UNNAMED_END], "pieces of a character are known by their bytes"
    body = server.bodies("/v1/chat/completions")[-1]
    assert body["messages"] == [{"role": "user", "content": "The cat"}]
    assert (body["logprobs"], body["top_logprobs"]) == (True, 2)
    assert engine.capabilities.largest_top_k == 20


def test_chat_with_the_newer_name_for_the_count(open_it: Callable[..., tuple[Generic, Canned]]) -> None:
    def only_the_newer(body: dict[str, Any]) -> Any:
        said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        return (400, {"error": {"message": said}}) if "max_tokens" in body else CHAT

    engine, server = open_it(chat=only_the_newer)
    assert len(engine.write(TURNS, 8, top_k=2)) == 4
    assert server.bodies("/v1/chat/completions")[-1]["max_completion_tokens"] == 8


def test_chat_cannot_go_on_within_a_turn(open_it: Callable[..., tuple[Generic, Canned]]) -> None:
    engine, _ = open_it(chat=CHAT)
    for history in (HISTORY, [*TURNS, 4]):
        with pytest.raises(CannotGive, match=r"no whole turns of ChatML.*/v1/completions"):
            engine.write(history, 8, top_k=2)


def test_completions_without_log_probabilities_give_way_to_chat(
    open_it: Callable[..., tuple[Generic, Canned]],
) -> None:
    silent = copy.deepcopy(LEGACY)
    silent["choices"][0]["logprobs"] = None
    assert open_it(completions=silent, chat=CHAT)[0].path == "/v1/chat/completions"
    with pytest.raises(CannotGive, match=r"an answer without log-probabilities, .*chat/completions: status 404"):
        open_it(completions=silent)


def test_more_entries_than_the_interface_takes(open_it: Callable[..., tuple[Generic, Canned]]) -> None:
    engine, _ = open_it(completions=LEGACY)
    with pytest.raises(CannotGive, match="the best 6 entries of a row; expected at most 5"):
        engine.write(HISTORY, 2, top_k=6)


def test_ids_that_a_server_adds_are_taken(open_it: Callable[..., tuple[Generic, Canned]]) -> None:
    answer = copy.deepcopy(LEGACY)
    answer["choices"][0]["logprobs"] = {
        "content": [
            {"id": 9, "logprob": -0.5, "top_logprobs": [{"id": 9, "logprob": -0.5}, {"id": 6, "logprob": -1.0}]},
            {"id": 5, "logprob": -0.25},
        ]
    }
    answer["choices"][0]["text"] = "<9>."
    engine, _ = open_it(completions=answer)
    assert [(got.token, got.top_ids) for got in engine.write(HISTORY, 2, top_k=2)] == [(9, (9, 6)), (5, ())]


def test_tokens_that_nobody_sees(open_it: Callable[..., tuple[Generic, Canned]]) -> None:
    engine, server = open_it(completions=LEGACY)
    answer = copy.deepcopy(LEGACY)
    answer["usage"]["completion_tokens"] = 90
    server.pages["/v1/completions"] = answer
    with pytest.raises(ServerError, match="it says that it wrote 90 tokens, and lists 2"):
        engine.write(HISTORY, 2, top_k=2)


def test_it_scores_nothing(open_it: Callable[..., tuple[Generic, Canned]]) -> None:
    engine, _ = open_it(completions=LEGACY)
    with pytest.raises(CannotGive, match="takes token ids"):
        engine.score_listed(HISTORY, [1], top_k=2)


def test_texts_become_ids_by_the_tokenizers_own_file(tmp_path: Path) -> None:
    letters = {token: letter for token, letter in enumerate("abcdefgh Ċ", start=3)} | {11: "Ġ", 1: "<|end|>"}
    folder = tokenizer_folder(tmp_path, SIZE, named=letters)
    content = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    content["pre_tokenizer"] |= {"add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    content["added_tokens"] = [
        {
            "id": 1,
            "content": "<|end|>",
            "special": True,
            **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False),
        }
    ]
    (folder / "tokenizer.json").write_text(json.dumps(content), "utf-8")
    with answering({"/v1/models": MODELS, "/v1/completions": LEGACY}) as server:
        engine = Generic(Place(url=server.url, tokenizer=folder), settings(), dictionary_size=SIZE)
        assert engine.tokenize("ab c<|end|>\n") == [3, 4, 11, 5, 1, 12]
        with pytest.raises(CannotGive, match="say another text than they were made from"):
            engine.tokenize("xyz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["logprobs"]["tokens"].__setitem__(0, " dog"), "' dog' stands for no ids"),
        (lambda c: c["logprobs"]["tokens"].__setitem__(0, "twice"), "'twice' stands for 2 ids"),
        (lambda c: c["logprobs"]["token_logprobs"].pop(), "1 entries; expected 2"),
        (lambda c: c["logprobs"]["token_logprobs"].__setitem__(0, None), "is not told"),
        (
            lambda c: c["logprobs"]["tokens"].__setitem__(0, " ran") or c.update(text=" ran."),
            "token 6 was written though 4 is more probable",
        ),
        (lambda c: c["logprobs"]["tokens"].__setitem__(0, " ran"), "are not the text that was written"),
        (
            lambda c: (
                [c["logprobs"][name].pop(0) for name in ("tokens", "token_logprobs", "top_logprobs")]
                and c.update(finish_reason="stop")
            ),
            "are not the text that was written",
        ),
        (lambda c: c["logprobs"].pop("tokens"), "no log-probabilities in one of the documented shapes"),
        (lambda c: c.update(finish_reason="content_filter"), "stopped after 2 tokens by 'content_filter'"),
        (lambda c: c["logprobs"]["top_logprobs"][0].update({" sat": 0.5}), "a probability above 1"),
    ],
)
def test_an_answer_that_is_another(open_it: Callable[..., tuple[Generic, Canned]], change: Any, message: str) -> None:
    engine, server = open_it(completions=LEGACY)
    engine.texts = type(engine.texts)([*engine.texts.table[:-2], b"twice", b"twice"], where="here")
    answer = copy.deepcopy(LEGACY)
    if message.startswith("is not told"):
        answer["choices"][0]["logprobs"]["top_logprobs"][0].pop(" sat")
    change(answer["choices"][0])
    server.pages["/v1/completions"] = answer
    with pytest.raises(EngineError, match=message):
        engine.write(HISTORY, 2, top_k=3)


def test_an_end_that_is_not_named(open_it: Callable[..., tuple[Generic, Canned]]) -> None:
    engine, server = open_it(completions=LEGACY)
    answer = copy.deepcopy(LEGACY)
    answer["choices"][0]["logprobs"].update(tokens=[], token_logprobs=[], top_logprobs=[])
    answer["choices"][0].update(finish_reason="stop", text="")
    answer["usage"]["completion_tokens"] = 1
    server.pages["/v1/completions"] = answer
    assert [got.token for got in engine.write(HISTORY, 2, top_k=3)] == [UNNAMED_END]
    answer["choices"][0]["finish_reason"] = "length"
    with pytest.raises(ServerError, match="stopped after 0 tokens by 'length'"):
        engine.write(HISTORY, 2, top_k=3)


@pytest.mark.parametrize(
    ("usage", "kind", "message"),
    [
        ({"prompt_tokens": 3}, CannotAsk, r"a text of 2 tokens: the server read 3 tokens; expected 2; it adds a token"),
        ({}, CannotGive, "the answer has no number of the tokens that it read"),
        (None, CannotGive, "the answer has no number of the tokens that it read"),
    ],
)
def test_a_text_that_was_read_otherwise(
    open_it: Callable[..., tuple[Generic, Canned]], usage: Any, kind: type[EngineError], message: str
) -> None:
    """One history that it reads otherwise says nothing of others; an answer without what was asked for is a fault."""
    engine, server = open_it(completions=LEGACY)
    server.pages["/v1/completions"] = {**LEGACY, "usage": usage}
    with pytest.raises(EngineError, match=message) as caught:
        engine.write(HISTORY, 2, top_k=3)
    assert type(caught.value) is kind


def test_turns_of_chatml() -> None:
    system = "<|im_start|>system\nBe brief.\n\n<|im_end|>\n"
    user = "<|im_start|>user\nHi<|im_end|>\n"
    open_turn = "<|im_start|>assistant\n"
    assert chatml(system + user + open_turn) == [
        {"role": "system", "content": "Be brief.\n\n"},
        {"role": "user", "content": "Hi"},
    ]
    for text in ("", open_turn, user, user + open_turn + "Well", "x" + user + open_turn, user + "x" + open_turn):
        assert chatml(text) is None
