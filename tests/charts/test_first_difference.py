from __future__ import annotations

import pyarrow as pa
import pytest

from drift_runs.charts.first_difference import MOST_BARS, first_difference

ROWS = [
    {"arm": "q8_0", "step": 3, "prompts": 2, "n": 8},
    {"arm": "q8_0", "step": 31, "prompts": 1, "n": 8},
    {"arm": "q8_0", "step": None, "prompts": 5, "n": 8},
    {"arm": "q4_0", "step": 0, "prompts": 4, "n": 4},
    {"arm": "q4_0", "step": None, "prompts": 0, "n": 4},
]
SCHEMA = pa.schema([("arm", pa.string()), ("step", pa.int64()), ("prompts", pa.int64()), ("n", pa.int64())])


def layers(rows: list[dict], steps: int = 32) -> tuple[list[dict], list[dict]]:
    """Data of the bars and of the words."""
    spec = first_difference(pa.Table.from_pylist(rows, schema=SCHEMA), steps=steps, colours={}).to_dict()
    bars, words = spec["layer"]
    return bars["data"]["values"], words["data"]["values"]


def test_a_bar_is_a_share_of_the_arms_own_prompts() -> None:
    bars, _ = layers(ROWS)
    assert [(bar["arm"], bar["from"], bar["share"]) for bar in bars] == [
        ("q8_0", 3, 0.25),
        ("q8_0", 31, 0.125),
        ("q4_0", 0, 1.0),
    ]
    assert all(bar["from"] < bar["to"] <= bar["from"] + 1 for bar in bars)


def test_those_that_never_part_are_said_in_words() -> None:
    _, words = layers(ROWS)
    assert [item["words"] for item in words] == ["5 of 8 never", "0 of 4 never"]


def test_long_rollouts_have_several_steps_to_a_bar_and_no_prompt_is_lost() -> None:
    rows = [{"arm": "a", "step": step, "prompts": 1, "n": 300} for step in range(300)]
    bars, _ = layers(rows, steps=300)
    assert len(bars) <= MOST_BARS and sum(bar["prompts"] for bar in bars) == 300
    assert bars[-1]["last"] == 299 and bars[1]["first"] == bars[0]["last"] + 1


def test_nothing_to_draw_and_what_cannot_be() -> None:
    assert layers([]) == ([], [])
    with pytest.raises(ValueError, match="steps"):
        layers(ROWS, steps=0)
