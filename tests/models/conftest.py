"""What the model's tests share: many drawn tasks, and a tiny model that can read them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from ops_tasks.draw import draw
from ops_tasks.tasks import Task
from ops_tasks.values import Values

from drift_runs.engines.base import EngineSettings
from tests.tiny_model import write_tiny_model

SEED = 20252
"""Not the seed of training."""
TAB = "\u0109".encode()
"""As byte-level BPE writes it."""
SPLITS = ("train", "values", "templates")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Tasks of one split, in their trained shares."""

    tasks: tuple[Task, ...]
    literals: frozenset[str]
    """Every literal that was drawn for them from a set that is split."""


@pytest.fixture(scope="session")
def drawn() -> dict[str, Drawn]:
    """1,000 tasks of each split."""
    found = {}
    plain = Values.literal
    for split in SPLITS:
        literals: set[str] = set()

        def noted(self: Values, one: object, kept: set[str] = literals) -> object:
            value = plain(self, one)
            kept.add(str(value))
            return value

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Values, "literal", noted)
            tasks = tuple(draw(split, SEED, index) for index in range(1000))
        found[split] = Drawn(tasks=tasks, literals=frozenset(literals))
    return found


@pytest.fixture(scope="session")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of random weights whose dictionary is ChatML's two control tokens and every ASCII character."""
    characters = [bytes([code]) for code in (10, *range(32, 127))]
    tokens = [b"<|im_start|>", b"<|im_end|>", TAB, *characters]
    return write_tiny_model(tmp_path_factory.mktemp("chatty") / "chatty.gguf", tokens=tokens, context=4096)


def settings(**changed: object) -> EngineSettings:
    plain = {
        "path_shape": "prefill",
        "context_tokens": 4096,
        "batch": 512,
        "micro_batch": 512,
        "threads": 1,
        "kv": "f16",
        "flash_attention": "on",
    }
    return EngineSettings(**{**plain, **changed})
