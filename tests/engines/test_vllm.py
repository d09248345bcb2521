"""The vLLM dialect: on bodies that a real server gave, and against the made-up model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drift_runs.engines.openai_server import vllm
from drift_runs.engines.openai_server.server import name_of
from drift_runs.engines.openai_server.vllm import VLLM
from drift_runs.errors import CannotGive, ConfigError, ContextOverflow, EngineError, ServerError
from drift_runs.machine import Place
from tests.engines.conftest import settings
from tests.engines.fault_server import SIZE, Fault, FaultServer, MadeUp, serving

RECORDED = Path(__file__).resolve().parents[1] / "data" / "servers" / "vllm"
WORDS = 49_152
TOKENS = [(13 * index * index + 7 * index + 2) % SIZE for index in range(24)]


def recording(name: str) -> dict[str, Any]:
    return json.loads((RECORDED / f"{name}.json").read_text("utf-8"))


@contextmanager
def playing(name: str, path: str = "/v1/completions", *, without: str = "") -> Iterator[tuple[VLLM, dict[str, Any]]]:
    """An engine on a server that answers as the real one did, ``without`` a key of its choice, and the recording."""
    found = recording(name)
    if without:
        del found["response"]["choices"][0][without]
    body = json.dumps(found["response"]).encode()
    with serving(served="smol", recorded={path: body}) as state, opened(state, size=WORDS) as engine:
        yield engine, found


def opened(state: FaultServer, *, size: int = SIZE, **changed: Any) -> VLLM:
    wide = settings(**{"context_tokens": 2048, **changed})
    return VLLM(Place(url=state.url, timeout_s=20.0), wide, dictionary_size=size)


# A real server's bodies -----------------------------------------------------------------------------------------------


def test_prompt_log_probabilities_of_a_real_server() -> None:
    with playing("prompt_logprobs_20") as (engine, found):
        tokens = found["request"]["prompt"]
        positions = [1, 2, 7, 15]
        (block,) = engine.score_listed(tokens, positions, top_k=20)
    listed = found["response"]["choices"][0]["prompt_logprobs"]
    for index, position in enumerate(positions):
        entries = {int(token): entry for token, entry in listed[position].items()}
        own = entries[tokens[position]]
        ranked = sorted(entries, key=lambda token: (-entries[token]["logprob"], token))
        assert block.ids[index].tolist() == ranked[:20]
        assert block.logprobs[index].tolist() == [entries[token]["logprob"] for token in ranked[:20]]
        assert block.token_logprob[index] == own["logprob"]
    assert block.token_rank[0] == 3429  # beyond the twenty: only the server knows
    assert block.token_rank[1] == 1
    assert not block.sentinels.any()


def test_logits_of_a_real_server_are_refused() -> None:
    with playing("raw_logits_mode") as (engine, found), pytest.raises(ServerError, match="position 1: logits"):
        list(engine.score_listed(found["request"]["prompt"], [1, 2], top_k=2))


def test_the_echo_of_a_real_server_is_the_same_distribution() -> None:
    with playing("echo_logprobs") as (engine, found):
        tokens = found["request"]["prompt"]
        (echoed,) = engine.score_listed(tokens, [1, 2, 15], top_k=5)
    with playing("prompt_logprobs_20") as (engine, _):
        (prompt,) = engine.score_listed(tokens, [1, 2, 15], top_k=20)
    np.testing.assert_array_equal(echoed.ids, prompt.ids[:, :5])
    np.testing.assert_array_equal(echoed.logprobs, prompt.logprobs[:, :5])
    np.testing.assert_array_equal(echoed.token_logprob, prompt.token_logprob)


def test_an_echo_in_words_is_not_taken_for_ids() -> None:
    with (
        playing("echo_logprobs_max_tokens_0", without="prompt_logprobs") as (engine, found),
        pytest.raises(CannotGive, match="texts, not as ids"),
    ):
        list(engine.score_listed(found["request"]["prompt"], [1], top_k=5))


def test_two_choices_are_one_too_many() -> None:
    with playing("batch_of_id_lists") as (engine, found), pytest.raises(ServerError, match="not exactly one choice"):
        list(engine.score_listed(found["request"]["prompt"][0], [1], top_k=1))


def test_what_a_real_server_wrote() -> None:
    with playing("return_token_ids") as (engine, found):
        written = engine.write(found["request"]["prompt"], 8, top_k=3)
    assert [token.token for token in written] == [8925, 30, 824, 46, 198, 198, 19, 198]
    assert written[0].top_ids == (8925, 2432, 103)
    assert written[0].top_logprobs == (-0.12339857965707779, -3.373398542404175, -4.123398780822754)
    assert written[4].logprob == -0.615820586681366


def test_the_ids_of_a_real_server_s_tokenizer() -> None:
    with playing("tokenize", "/tokenize") as (engine, _):
        assert engine.tokenize("Hello world") == [19556, 905]


def test_a_refusal_of_a_real_server_is_shown_in_its_words() -> None:
    found = recording("max_tokens_0_error")
    words = "max_tokens must be at least 1, got 0"
    with (
        serving(faults=[Fault(kind="refusal", value=found["response"])]) as state,
        opened(state) as engine,
        pytest.raises(ServerError, match=words) as caught,
    ):
        list(engine.score_listed(TOKENS, [1], top_k=2))
    assert caught.value.status == 400


# The made-up model ----------------------------------------------------------------------------------------------------


def test_wanted_ids_are_told_behind_each_history() -> None:
    positions, wanted = [3, 9, 20], [[5, 60], [1, 2], [TOKENS[20], 0]]
    with serving() as state, opened(state, path_shape="decode") as engine:
        assert engine.gives_wanted
        blocks = list(engine.score_listed(TOKENS, positions, top_k=4, wanted=wanted))
    for block, position, ids in zip(blocks, positions, wanted, strict=True):
        ranks = [MadeUp().rank(TOKENS[:position], token) for token in ids]
        assert block.positions.tolist() == [position]
        assert block.wanted_ids.tolist() == [ids]
        np.testing.assert_allclose(block.wanted_logprobs, [[-rank * math.log(2) for rank in ranks]])
        assert block.ids.tolist() == [MadeUp().best(TOKENS[:position])[:4]]


def test_more_wanted_ids_than_a_request_takes_are_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "MOST_NAMED_IDS", 10)
    with serving() as state, opened(state, path_shape="decode") as engine:
        (block,) = engine.score_listed(TOKENS, [9], top_k=4, wanted=[list(range(SIZE))])
        assert max(len(body.get("logprob_token_ids", ())) for _, body in state.requests) == 10
    ranks = [MadeUp().rank(TOKENS[:9], token) for token in range(SIZE)]
    np.testing.assert_allclose(block.wanted_logprobs[0], [-rank * math.log(2) for rank in ranks])


def test_wanted_ids_need_the_decode_shape() -> None:
    with serving() as state, opened(state) as engine:
        assert not engine.gives_wanted
        with pytest.raises(CannotGive, match='path_shape = "decode"'):
            list(engine.score_listed(TOKENS, [3], top_k=4, wanted=[[5]]))


def test_a_server_that_names_no_ids_says_so() -> None:
    knows = {"prompt_logprobs", "return_token_ids"}
    with serving(knows=knows) as state, opened(state, path_shape="decode") as engine, pytest.raises(EngineError):
        list(engine.score_listed(TOKENS, [3], top_k=4, wanted=[[5, 60]]))


def test_a_second_answer_of_another_model_is_not_mixed_in() -> None:
    """Both requests of a position were well-formed; only their numbers tell that the model was changed in between."""
    with serving() as state, opened(state, path_shape="decode") as engine:
        position = next(at for at in range(3, 24) if MadeUp().rank(TOKENS[:at], TOKENS[at]) > 4)
        state.swap_after = 1
        with pytest.raises(EngineError, match="two answers behind one history"):
            list(engine.score_listed(TOKENS, [position], top_k=4))


def test_what_is_written_is_greedy_and_ends_with_the_end_token() -> None:
    expected = MadeUp().greedy(TOKENS, 6)
    with serving() as state, opened(state) as engine:
        written = engine.write(TOKENS, 6, top_k=3)
        assert [token.token for token in written] == expected
        assert [token.top_ids for token in written] == [
            tuple(MadeUp().best([*TOKENS, *expected[:at]])[:3]) for at in range(6)
        ]
        state.end_token = expected[2]
        assert [token.token for token in engine.write(TOKENS, 6, top_k=3)] == expected[:3]


def test_what_is_written_must_be_as_long_as_it_says() -> None:
    with serving() as state, opened(state) as engine:
        state.faults = [Fault(kind="missing_row")]
        with pytest.raises(ServerError, match=r"5 rows of what was written; expected 6"):
            engine.write(TOKENS, 6, top_k=3)


@pytest.mark.parametrize("shape", ["prefill", "decode"])
def test_every_request_states_neutral_sampling(shape: str) -> None:
    with serving() as state, opened(state, path_shape=shape) as engine:
        list(engine.score_listed(TOKENS, [3, 9], top_k=4))
        engine.write(TOKENS, 2, top_k=1)
        for _, body in state.requests:
            assert body["temperature"] == body["presence_penalty"] == body["frequency_penalty"] == body["min_p"] == 0
            assert body["top_p"] == body["repetition_penalty"] == 1
            assert "cache_salt" not in body


def test_without_the_cache_no_request_shares_a_salt() -> None:
    with serving() as state, opened(state, path_shape="decode", cache_prompt=False) as engine:
        list(engine.score_listed(TOKENS, [3, 9, 12], top_k=4))
        salts = [body["cache_salt"] for _, body in state.requests]
        assert len(set(salts)) == len(salts) >= 3


def test_a_window_that_is_too_long_is_named_before_it_is_sent() -> None:
    with serving(context=24) as state:
        with opened(state) as engine, pytest.raises(ContextOverflow, match="--max-model-len"):
            list(engine.score_listed(TOKENS, [3], top_k=2))
        with opened(state, path_shape="decode") as engine:
            assert len(list(engine.score_listed(TOKENS, [3, 23], top_k=2))) == 2
        with opened(state, context_tokens=20) as engine, pytest.raises(ContextOverflow, match="at most 20"):
            list(engine.score_listed(TOKENS, [3], top_k=2))


def test_an_answer_that_nobody_can_hold_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "LARGEST_ANSWER_BYTES", 10_000)
    with serving() as state, opened(state) as engine:
        with pytest.raises(ServerError, match=r"24 rows of 64 entries.*smaller K"):
            list(engine.score_listed(TOKENS, [3], top_k=SIZE))
        assert state.requests == []
        assert len(list(engine.score_listed(TOKENS, [3], top_k=2))) == 1


def test_what_the_server_says_of_itself() -> None:
    with serving() as state, opened(state, server=(("max-logprobs", "20"),)) as engine:
        said = engine.said()
        assert said["version"] == "0.0.made-up"
        assert said["model.max_model_len"] == "4096"
        assert said["cache.cache_dtype"] == "auto"
        assert engine.identity.build == "0.0.made-up"
        assert engine.identity.hardware == "not said"
        assert engine.capabilities.largest_top_k == 20


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("/home/somebody/models/smol-bf16/", "smol-bf16"),
        ("~/models/smol", "smol"),
        ("C:\\Users\\somebody\\smol.gguf", "smol.gguf"),
        ("somebody/smol", "somebody/smol"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("/", ""),
    ],
)
def test_where_a_model_lies_on_its_machine_is_not_kept(said: str, kept: str) -> None:
    assert name_of(said) == kept


def test_another_type_of_the_cache_is_another_server() -> None:
    with serving() as state, opened(state) as engine:
        state.cache_dtype = "fp8"
        with pytest.raises(ServerError, match=r"cache_dtype was auto, is fp8"):
            list(engine.score_listed(TOKENS, [3], top_k=2))


def test_a_path_shape_of_nobody_is_refused() -> None:
    with serving() as state, pytest.raises(CannotGive, match="prefill or decode"):
        opened(state, path_shape="sideways")


def test_a_server_without_models_is_a_question() -> None:
    with serving(served="") as state, pytest.raises(ConfigError, match="expected"):
        VLLM(Place(url=state.url, served="smol"), settings(), dictionary_size=SIZE)
