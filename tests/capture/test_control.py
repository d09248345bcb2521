"""A model that is exchanged behind one name between windows."""

from __future__ import annotations

import pytest

from drift_runs.capture.control import APART_NATS, control_of
from drift_runs.engines.openai_server.llama_server import LlamaServer
from drift_runs.errors import ServerError
from tests.engines.fault_server import MadeUp, serving
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
