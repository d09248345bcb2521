"""Whatever a server that takes texts does wrong ends in right tokens or in an error by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from drift_runs.engines.base import Written
from drift_runs.engines.openai_server import server
from drift_runs.engines.openai_server.generic import Generic
from drift_runs.engines.openai_server.mlx_lm_server import MLXLMServer
from drift_runs.engines.openai_server.text_server import TextServer
from drift_runs.engines.openai_server.tgi import TGI
from drift_runs.engines.openai_server.transport import Transport
from drift_runs.errors import CannotGive, EngineError, ServerError
from tests.engines.canned_server import tokenizer_folder
from tests.engines.conftest import settings
from tests.engines.fault_server import SIZE, Fault, MadeUp
from tests.engines.fault_text import FACES, TextFaultServer, read, serving_text, text_of
from tests.engines.test_faults import LASTING, PASSING, PLAIN, QUICK, WRONG, place

DIALECTS: dict[str, type[TextServer]] = {"completions": Generic, "chat": Generic, "tgi": TGI, "mlx": MLXLMServer}
HISTORY = read("<|im_start|>user\nABCzq<|im_end|>\n<|im_start|>assistant\n")
COUNT, TOP_K = 9, 5
Open = Callable[..., TextServer]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that do not wait between tries."""
    monkeypatch.setattr(server, "Transport", lambda place: Transport(place, backoff=QUICK))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = {token: text_of(token).replace("\n", "\u010a") for token in range(SIZE)}
    return tokenizer_folder(tmp_path_factory.mktemp("tokenizer"), SIZE, named=named)


@pytest.fixture
def opened(folder: Path) -> Open:
    def open_it(state: TextFaultServer, **changed: object) -> TextServer:
        where = place(state, tokenizer=folder, **changed)
        return DIALECTS[state.face](where, settings(context_tokens=4096), dictionary_size=SIZE)

    return open_it


def write(engine: TextServer) -> list[Written]:
    return engine.write(HISTORY, COUNT, top_k=TOP_K)


def assert_right(written: list[Written], model: MadeUp = PLAIN) -> None:
    """Every token and every number that is told, against the closed form."""
    assert [found.token for found in written] == model.greedy(HISTORY, COUNT)
    history = list(HISTORY)
    for found in written:
        assert math.isclose(found.logprob, -math.log(2))
        best = model.best(history)
        for token, logprob in zip(found.top_ids, found.top_logprobs, strict=True):
            assert math.isclose(logprob, -(best.index(token) + 1) * math.log(2))
        assert list(found.top_ids) == sorted(found.top_ids, key=best.index) and len(found.top_ids) <= TOP_K
        history.append(found.token)


@pytest.mark.parametrize("face", FACES)
def test_a_server_without_faults_writes_the_closed_form(face: str, opened: Open) -> None:
    with serving_text(face) as state, opened(state) as engine:
        written = write(engine)
        assert_right(written)
        assert all(len(found.top_ids) == TOP_K for found in written) and engine.retries == 0


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_tried_again_and_counted(name: str, face: str, opened: Open) -> None:
    with serving_text(face) as state, opened(state, timeout_s=1.0 if name == "hang" else 20.0) as engine:
        state.faults.append(PASSING[name])
        assert_right(write(engine))
        assert engine.retries == PASSING[name].times


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", LASTING)
def test_what_lasts_is_an_error_that_says_what_is_safe(name: str, face: str, opened: Open) -> None:
    fault, words = LASTING[name]
    with serving_text(face) as state, opened(state, timeout_s=0.3 if name == "hang" else 20.0) as engine:
        state.faults.append(fault)
        with pytest.raises(ServerError, match=words) as caught:
            write(engine)
        assert "safe on disk" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("face", FACES)
def test_a_server_that_dies_between_two_texts(face: str, opened: Open) -> None:
    with serving_text(face) as state, opened(state) as engine:
        assert_right(write(engine))
        state.faults.append(Fault(kind="die", after=state.answered + (face == "mlx")))
        for _ in range(2):
            with pytest.raises(ServerError, match="safe on disk"):
                write(engine)


LEFT_OUT = {
    "completions": {"missing entries", "extra entries", "outside"},
    "chat": {"missing entries", "extra entries", "outside"},
    "tgi": {"missing entries", "extra entries"},
    "mlx": {"missing entries"},
}
"""What a list lacks, and what stands in it beyond what was asked for or known: the tokens are right without it."""


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", [*WRONG, "own entry missing"])
def test_a_wrong_answer_is_an_error_or_leaves_out_what_is_not_told(name: str, face: str, opened: Open) -> None:
    fault = WRONG.get(name) or Fault(kind="own_entry_missing")
    with serving_text(face) as state, opened(state) as engine:
        state.faults.append(fault)
        if name in LEFT_OUT[face]:
            assert_right(write(engine))
            return
        with pytest.raises(EngineError) as caught:
            write(engine)
    assert f"{engine.dialect} at http" in str(caught.value) or "no JSON" in str(caught.value)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("value", [-9999.0, -100.0, -math.inf])
def test_placeholders_are_left_out(value: float, face: str, opened: Open) -> None:
    with serving_text(face) as state, opened(state) as engine:
        state.faults.append(Fault(kind="value", value=value))
        if face == "mlx":  # of a list of one, the written token's own
            state.faults[0] = Fault(kind="value", value=value, after=state.answered + 1)
        written = write(engine)
        assert_right(written)
        assert sorted(len(found.top_ids) for found in written) == [TOP_K - 1] + [TOP_K] * (COUNT - 1)
        state.faults[0] = Fault(kind="own_value", value=value)
        with pytest.raises(EngineError):
            write(engine)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("value", [{"prompt_tokens": len(HISTORY) + 1}, None])
def test_a_text_that_was_read_otherwise(value: object, face: str, opened: Open) -> None:
    with serving_text(face) as state, opened(state) as engine:
        state.faults.append(Fault(kind="usage", value=value))
        with pytest.raises((CannotGive, ServerError), match=r"read|prefill"):
            write(engine)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("change", [{"served": "other"}, {"version": "0.0.other"}])
def test_another_model_behind_the_url_is_an_error(change: dict[str, str], face: str, opened: Open) -> None:
    with serving_text(face) as state, opened(state) as engine:
        assert_right(write(engine))
        state.model = MadeUp(salt=1)
        for name, value in change.items():
            setattr(state, name, value)
        with pytest.raises(ServerError, match=r"another model answers.*safe on disk"):
            write(engine)


def test_another_model_between_two_requests_for_one_text(opened: Open) -> None:
    with serving_text("mlx") as state, opened(state) as engine:
        state.swap_after = state.answered + 1
        with pytest.raises(ServerError, match="two answers to one request differ"):
            write(engine)


def test_an_answer_to_another_request_shows_in_what_was_read(opened: Open) -> None:
    """Of these faces one alone says which ids it read."""
    with serving_text("tgi") as state, opened(state) as engine:
        state.faults.append(Fault(kind="other_request"))
        with pytest.raises(ServerError, match="the server read id"):
            write(engine)
