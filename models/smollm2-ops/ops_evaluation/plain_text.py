"""Perplexity on plain text that was not trained on: what the adapter costs the model elsewhere."""

from __future__ import annotations

import hashlib
import math
import platform
import pydoc_data.topics
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.errors import EngineError
from drift_runs.measure.students import student_t_quantile

WINDOW_TOKENS = 1024
"""The length that training saw."""
PROSE = Path(__file__).parents[3] / "protocols" / "sources" / "smollm2-quick" / "pa-prose.txt"
_ROWS = 64


class PlainText(NamedTuple):
    name: str
    origin: str
    text: str
    most_tokens: int

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


class WindowLoss(NamedTuple):
    """Sum of the negative log-likelihoods of a window's tokens but the first, in nats, and how many those are."""

    nats: float
    tokens: int


class Ratio(NamedTuple):
    """Perplexity against that of another model on the same windows; the interval (95 %) is None from one window."""

    ratio: float
    low: float | None
    high: float | None


def plain_texts(most_tokens: int) -> tuple[PlainText, ...]:
    """The reference prose that this Python carries, up to so many tokens, and the project's own authored prose."""
    topics = pydoc_data.topics.topics
    reference = "\n\n".join(topics[name] for name in sorted(topics))
    prose = re.sub(r"^%%.*\n", "", PROSE.read_text("utf-8"), flags=re.MULTILINE)
    return (
        PlainText("reference", f"pydoc_data.topics of Python {platform.python_version()}", reference, most_tokens),
        PlainText("prose", "pa-prose.txt of the demo protocol", prose, most_tokens),
    )


def windows(engine: LlamaCpp, text: PlainText) -> list[list[int]]:
    """The text's first tokens in windows of ``WINDOW_TOKENS``; a shorter rest only where there is no whole one."""
    tokens = engine.tokenize(text.text, special=False)[: text.most_tokens]
    cut = [tokens[at : at + WINDOW_TOKENS] for at in range(0, len(tokens), WINDOW_TOKENS)]
    return [window for window in cut if len(window) == WINDOW_TOKENS] or cut[:1]


def window_loss(engine: LlamaCpp, tokens: list[int]) -> WindowLoss:
    total = 0.0
    expected = np.asarray(tokens)
    for block in engine.score(tokens, range(1, len(tokens))):
        for first in range(0, len(block.positions), _ROWS):
            logits = block.logits[first : first + _ROWS].astype(np.float64)
            own = logits[np.arange(len(logits)), expected[block.positions[first : first + _ROWS]]]
            peak = logits.max(axis=1)
            total += float(np.sum(peak + np.log(np.exp(logits - peak[:, None]).sum(axis=1)) - own))
    if not math.isfinite(total):
        raise EngineError("the model returned no numbers", where=engine.model_file.name)
    return WindowLoss(total, len(tokens) - 1)


def perplexity(losses: list[WindowLoss]) -> float:
    """exp of the mean over all tokens."""
    return math.exp(sum(loss.nats for loss in losses) / sum(loss.tokens for loss in losses))


def ratio_of(losses: list[WindowLoss], base: list[WindowLoss]) -> Ratio:
    """``losses`` against ``base``, window by window; Student's t over the windows' mean differences.

    Windows are of one length, so that the mean over windows is that over tokens.
    """
    differences = np.array([(one.nats - other.nats) / one.tokens for one, other in zip(losses, base, strict=True)])
    mean = float(differences.mean())
    if len(differences) < 2:
        return Ratio(math.exp(mean), None, None)
    half = (
        student_t_quantile(0.975, len(differences) - 1) * float(differences.std(ddof=1)) / math.sqrt(len(differences))
    )
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))
