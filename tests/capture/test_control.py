"""A model that is exchanged behind one name between windows."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from drift_runs.capture import worker
from drift_runs.capture.control import APART_NATS, control_of
from drift_runs.engines.hf_dictionary import token_bytes_of
from drift_runs.engines.openai_server.llama_server import LlamaServer
from drift_runs.engines.registry import Opening
from drift_runs.errors import ServerError
from drift_runs.machine import Place
from drift_runs.protocol.canonical import dictionary_sha256
from drift_runs.store import Store
from tests.engines.canned_server import tokenizer_folder
from tests.engines.conftest import settings
from tests.engines.fault_server import SIZE, MadeUp, serving
from tests.engines.test_vllm import TOKENS, opened


@pytest.mark.parametrize("shape", ["prefill", "decode"])
def test_another_model_that_says_the_same_of_itself(shape: str) -> None:
    with serving() as state, opened(state, path_shape=shape) as engine:
        control = control_of(engine, TOKENS, top_k=20)
        control.check()
        state.model = MadeUp(salt=17)
        with pytest.raises(ServerError, match=r"another model answers than at the start: of the best 5 entries"):
            control.check()


def test_other_numbers_of_the_same_entries() -> None:
    class Sharper(MadeUp):
        scale = 1.0

        @classmethod
        def logprob(cls, rank: int) -> float:
            return MadeUp.logprob(rank) * cls.scale

    with serving() as state, opened(state) as engine:
        state.model = Sharper()
        control = control_of(engine, TOKENS, top_k=5)
        Sharper.scale = 1.02  # of a mean of about 2 nats: noise
        control.check()
        Sharper.scale = 1.0 + 1.5 * APART_NATS
        with pytest.raises(ServerError, match="5 are still listed"):
            control.check()


def test_who_needs_none() -> None:
    class InProcess:
        pass

    assert control_of(InProcess(), TOKENS, top_k=5) is None
    assert not LlamaServer.needs_control
    with serving() as state, opened(state) as engine:
        assert control_of(engine, TOKENS[:1], top_k=5) is None


def test_it_asks_for_little() -> None:
    with serving() as state, opened(state) as engine:
        control = control_of(engine, TOKENS, top_k=5)
        before = len(state.requests)
        control.check()
        assert len(state.requests) == before + 1
        assert len(state.requests[-1][1]["prompt"]) <= 9


def test_a_window_behind_an_exchange_is_not_kept(tmp_path: Path) -> None:
    """The scoring process: the first window is whole, the server is exchanged, and nothing of the second is stored."""
    folder = tokenizer_folder(tmp_path / "tokenizer", SIZE)
    table = token_bytes_of(folder, SIZE)
    store = Store(tmp_path / "store")
    store.open(create=True)

    def step(name: str) -> dict:
        kept = {"comparison": None, "spill": False, "wanted_from": "", "keep_state": False}
        return {"window": name, "role": "prompt", "tokens": list(TOKENS), "scored": [[2, 12]], "capture": "c", **kept}

    with serving() as state:
        opening = Opening(
            engine="vllm",
            settings=settings(context_tokens=2048),
            dictionary_size=SIZE,
            place=Place(url=state.url, timeout_s=20.0, tokenizer=folder),
        )
        job = {
            "store": str(store.root),
            "process": "p",
            "arm": "served",
            "capture": "c",
            "reference": "r",
            "opening": opening.as_json(),
            "said": {},
            "stamps": {},
            "streams": [],
            "dictionary": {"size": SIZE, "sha256": dictionary_sha256(table)},
            "top_k": 5,
            "state_room": 0,
            "marks": {},
            "probe": None,
            "steps": [step("first"), step("second")],
        }
        # A control, a window and its control: then the second window is another model's.
        state.swap_after = 3
        with pytest.raises(ServerError, match="another model answers than at the start"):
            worker._work(job, io.StringIO())
    assert store.rows_file("c", "first").is_file() and not store.rows_file("c", "second").is_file()
    assert store.retries("c") == {"first": 0}
