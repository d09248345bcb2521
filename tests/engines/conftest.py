"""Engines on the tiny model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from drift_runs.engines.base import EngineSettings
from drift_runs.engines.llama_cpp import LlamaCpp
from tests.conftest import TINY

Opener = Callable[..., LlamaCpp]


def settings(**changed: object) -> EngineSettings:
    plain = {
        "path_shape": "prefill",
        "context_tokens": 64,
        "batch": 64,
        "micro_batch": 32,
        "threads": 1,
        "kv": "f16",
        "flash_attention": "on",
    }
    return EngineSettings(**{**plain, **changed})


@pytest.fixture
def tokens() -> list[int]:
    """41 ids of the tiny dictionary."""
    return json.loads((TINY / "streams" / "alpha.json").read_text("utf-8"))["tokens"]


@pytest.fixture
def open_tiny(tiny_arms: Path) -> Iterator[Opener]:
    """Opens the tiny F16 model under the settings given; closes all at the end."""
    opened: list[LlamaCpp] = []

    def open_it(model: Path | None = None, **changed: object) -> LlamaCpp:
        engine = LlamaCpp(model or tiny_arms.parent / "f16.gguf", settings(**changed))
        opened.append(engine)
        return engine

    yield open_it
    for engine in opened:
        engine.close()


def rows(engine: LlamaCpp, tokens: list[int], positions: list[int] | None = None) -> np.ndarray:
    """All logits of one pass, float32[n, columns]."""
    wanted = list(range(1, len(tokens))) if positions is None else positions
    return np.concatenate([block.logits.copy() for block in engine.score(tokens, wanted)])
