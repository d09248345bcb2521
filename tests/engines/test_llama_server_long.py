"""A window of 100,000 tokens at stride 32 over a real llama.cpp server's cache: time, memory, and the right rows."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.engines.openai_server.llama_server import LlamaServer
from drift_runs.machine import Place
from tests.engines.conftest import settings
from tests.engines.llama_server_process import llama_server
from tests.engines.test_llama_server import COLD_NATS, TOLERANCE_NATS, log_softmax
from tests.tiny_model import Dimensions, write_tiny_model

STRIDE = 32
SIZE = Dimensions(layers=2, width=64, hidden=128, heads=2, kv_heads=1)
MOST_BYTES = 100 << 20
"""That the client's memory may grow by within a window: 400 kB of ids are sent at its end, and no row is kept."""


def rows_at(engine: LlamaCpp, tokens: list[int], positions: list[int]) -> np.ndarray:
    """float64[n, 32] log-probabilities."""
    return log_softmax(np.concatenate([block.logits.copy() for block in engine.score(tokens, positions)]))


def walked(folder: Path, count: int) -> dict[str, float]:
    """What it took; every row is held against the engine of this process in the same steps, some against decoding."""
    model = write_tiny_model(folder / "long.gguf", context=count + 64, size=SIZE)
    tokens = [0, *np.random.default_rng(1).integers(2, 32, count - 1).tolist()]
    positions = list(range(STRIDE, count, STRIDE))
    told = np.full((len(positions), 32), np.nan)
    found = settings(path_shape="decode", context_tokens=count + 64, cache_prompt=True)
    memory, waited_s = psutil.Process(), 0.0
    with llama_server(model, context_tokens=count + 64) as server:
        served = psutil.Process(server.process.pid)
        with LlamaServer(Place(url=server.url, timeout_s=600.0), found, dictionary_size=32) as engine:
            post = engine.transport.post

            def timed(path: str, body: dict):
                nonlocal waited_s
                reply = post(path, body)
                waited_s += reply.seconds
                return reply

            engine.transport.post = timed
            before = peak = memory.memory_info().rss
            began, half_s = time.perf_counter(), 0.0
            for index, block in enumerate(engine.score_listed(tokens, positions, top_k=32)):
                told[index, block.ids[0]] = block.logprobs[0]
                peak = max(peak, memory.memory_info().rss)
                if index == len(positions) // 2:
                    half_s = time.perf_counter() - began
            seconds = time.perf_counter() - began
            sent = sum(positions)
            assert engine.said()["cache"] == f"{sent - positions[-1]:,} of {sent:,} history tokens"
            assert engine.retries == 0
            server_bytes = served.memory_info().rss
    with LlamaCpp(model, settings(context_tokens=count + 64)) as engine:  # steps of 32 tokens as well
        expected = rows_at(engine, tokens, positions)
    # Entries 16 nats down and further are told in steps of 1.9e-6.
    np.testing.assert_allclose(told, expected, atol=TOLERANCE_NATS, rtol=float(np.finfo(np.float32).eps))
    some = positions[:: max(1, len(positions) // 8)][:8] + positions[-1:]
    with LlamaCpp(model, settings(path_shape="decode", context_tokens=count + 64)) as engine:
        decoded = rows_at(engine, tokens, some)
    from_decode = np.abs(told[[position // STRIDE - 1 for position in some]] - decoded).max()
    assert from_decode < COLD_NATS
    assert peak - before < MOST_BYTES
    return {
        "positions": len(positions),
        "seconds": seconds,
        "first half, seconds": half_s,
        "within requests, seconds": waited_s,
        "client's growth, MB": (peak - before) / 1e6,
        "client's peak, MB": peak / 1e6,
        "server's memory, MB": server_bytes / 1e6,
        "against the same steps, nats": float(np.abs(told - expected).max()),
        "against decoding, nats": float(from_decode),
    }


def test_a_window_of_some_thousand_tokens(tmp_path: Path) -> None:
    assert walked(tmp_path, 2_000)["positions"] == 62


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_window_of_100_000_tokens(tmp_path: Path) -> None:
    for name, value in walked(tmp_path, 100_000).items():
        print(f"{name}: {value:,.3g}")
