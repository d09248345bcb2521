"""Drawing tokens: greedy ties, the cut at top_p, seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from drift_runs.authoring.sampling import continue_from, draw, window_generator
from drift_runs.errors import NonFiniteLogits


class Counting:
    """Logits that favour the token after the last one, of 6."""

    def __init__(self, bad_at: int = -1) -> None:
        self.history: list[int] = []
        self.bad_at = bad_at

    def start(self, tokens: Sequence[int]) -> np.ndarray:
        self.history = list(tokens)
        return self._row()

    def append(self, token: int) -> np.ndarray:
        self.history.append(token)
        return self._row()

    def _row(self) -> np.ndarray:
        row = np.zeros(6, dtype=np.float32)
        row[(self.history[-1] + 1) % 6] = 9
        if len(self.history) == self.bad_at:
            row[0] = np.nan
        return row


def rng(window: str = "w", seed: int = 1) -> np.random.Generator:
    return window_generator(seed, window)


def test_greedy_takes_the_lowest_id_of_a_tie() -> None:
    assert draw(np.array([0, 3, 3, 1], dtype=np.float32), rng(), temperature=0) == 1


def test_top_p_keeps_the_smallest_set_that_holds_the_mass() -> None:
    logits = np.log(np.array([0.15, 0.5, 0.3, 0.05], dtype=np.float32))
    drawn = {draw(logits, generator, temperature=1, top_p=0.75) for generator in [rng()] for _ in range(300)}
    assert drawn == {1, 2}
    drawn = {draw(logits, generator, temperature=1, top_p=0.4) for generator in [rng()] for _ in range(50)}
    assert drawn == {1}


def test_shares_follow_the_distribution() -> None:
    mass = np.array([0.1, 0.6, 0.3])
    generator = rng()
    counts = np.bincount(
        [draw(np.log(mass).astype(np.float32), generator, temperature=1) for _ in range(4000)], minlength=3
    )
    assert np.abs(counts / 4000 - mass).max() < 0.03


def test_the_same_seed_and_window_draw_the_same_and_others_differ() -> None:
    def drawn(generator: np.random.Generator) -> list[int]:
        return [draw(np.zeros(50, dtype=np.float32), generator, temperature=1) for _ in range(20)]

    assert drawn(rng()) == drawn(rng())
    assert drawn(rng()) != drawn(rng("other"))
    assert drawn(rng()) != drawn(rng(seed=2))


def test_continuing_stops_at_the_length_at_an_end_and_never_draws_what_is_masked() -> None:
    engine = Counting()
    assert continue_from(engine, [0], rng(), most_tokens=4, temperature=0) == [1, 2, 3, 4]
    assert engine.history == [0, 1, 2, 3]
    assert continue_from(engine, [0], rng(), most_tokens=9, temperature=0, ends=lambda token: token == 3) == [1, 2, 3]
    assert 2 not in continue_from(engine, [0], rng(), most_tokens=20, temperature=1, masked=[2])


def test_a_logit_that_is_no_number_is_an_error_with_its_position() -> None:
    with pytest.raises(NonFiniteLogits, match="position 4"):
        continue_from(Counting(bad_at=4), [0, 1], rng(), most_tokens=9, temperature=0)
