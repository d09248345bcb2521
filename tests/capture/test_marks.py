"""Copy and literal marks of a real capture, and the dictionary that it leaves in the store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from drift_runs.capture.process import Step, run_launch
from drift_runs.capture.score import scored_positions
from drift_runs.measure.copies import copy_marks
from drift_runs.measure.literals import literal_marks
from drift_runs.protocol.canonical import dictionary_sha256
from drift_runs.protocol.load import load_protocol
from drift_runs.store import comparison_id
from tests.campaigns import TWO_ARMS, Campaign, new_campaign
from tests.conftest import tiny_dictionary
from tests.tiny_model import write_tiny_arms

TOKENS = [b"_" if token == b"e" else token for token in tiny_dictionary()]
"""With an underscore, so that ``th_`` of the first window is a literal. It comes again at 28 to 30."""

CHANGED = {"copy_tokens": 4, "copy_distance_tokens": 10}


def campaign_of(folder: Path, arms: Path, marks: Mapping[str, float], tokens: list[bytes]) -> Campaign:
    changes = {key: value for key, value in TWO_ARMS.items() if key != "floors[1]"}
    campaign = new_campaign(
        folder, arms, None, {**changes, "dictionary.sha256": dictionary_sha256(tokens), "marks": dict(marks)}
    )
    campaign.store.open(create=True)
    return campaign


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """The reference's rows spilled, and a candidate compared with them."""
    folder = tmp_path_factory.mktemp("marks")
    campaign = campaign_of(folder / "campaign", write_tiny_arms(folder / "arms", tokens=TOKENS), CHANGED, TOKENS)
    loaded, executions = load_protocol(campaign.protocol), campaign.executions()
    for name, compare in (("f16", False), ("q4_0", True)):
        execution = executions[name]
        steps = [
            Step(execution=execution, window=window, compare=compare, spill=not compare) for window in execution.windows
        ]
        assert list(run_launch(campaign.store, loaded, executions["f16"], steps))
    return campaign


@pytest.mark.parametrize("window", ["alpha-1", "alpha-2", "beta", "odd"])
def test_marks_are_those_of_the_text(scored: Campaign, window: str) -> None:
    loaded, executions = load_protocol(scored.protocol), scored.executions()
    table = scored.store.read_comparison(executions["q4_0"].compared_with(executions["f16"]), [window])
    tokens = np.array(loaded.tokens(window), dtype=np.int32)
    positions = scored_positions(loaded.protocol.window(window).scored)
    assert table["position"].to_pylist() == positions.tolist()
    assert table["copy"].to_pylist() == copy_marks(tokens, **CHANGED)[positions].tolist()
    assert table["literal"].to_pylist() == literal_marks([TOKENS[token] for token in tokens])[positions].tolist()


def test_known_marks(scored: Campaign) -> None:
    executions = scored.executions()
    identity = executions["q4_0"].compared_with(executions["f16"])
    late = scored.store.read_comparison(identity, ["alpha-2"]).to_pylist()
    assert [row["position"] for row in late if row["literal"]] == [28, 29, 30]
    # "th_ cat " stood at 1 to 8: the first run of four that comes again ends at 31, 27 later.
    assert [row["position"] for row in late if row["copy"]] == [31, 32, 33, 34, 35]
    odd = scored.store.read_comparison(identity, ["odd"]).to_pylist()
    assert [row["position"] for row in odd if row["copy"]] == [18, 19]


def test_the_dictionary_lies_in_the_store_once(scored: Campaign) -> None:
    assert scored.store.read_dictionary(dictionary_sha256(TOKENS)) == tuple(TOKENS)
    assert len(list((scored.root / "dictionaries").iterdir())) == 1


def test_changed_marks_are_another_comparison_of_the_same_captures(tmp_path: Path, tiny_arms: Path) -> None:
    """What the marks do not store, volatility for one, changes nothing; nor does a default that is written down."""
    ids = {}
    for name, marks in {
        "none": {},
        "stated": {"copy_tokens": 12, "copy_distance_tokens": 2048},
        "volatile": {"volatile_above_nats": 2.0},
        "longer": {"copy_tokens": 16},
        "nearer": {"copy_distance_tokens": 1024},
    }.items():
        executions = campaign_of(tmp_path / name, tiny_arms, marks, tiny_dictionary()).executions()
        reference, candidate = executions["f16"], executions["q4_0"]
        ids[name] = (reference.capture_id, candidate.capture_id, candidate.compared_with(reference))
    assert ids["none"] == ids["stated"] == ids["volatile"]
    assert {captures[:2] for captures in ids.values()} == {ids["none"][:2]}
    assert len({comparison for _, _, comparison in ids.values()}) == 3
    assert ids["none"][2] == comparison_id(*ids["none"][:2])
