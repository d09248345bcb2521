"""What ``drift plan`` says of generation: upper bounds, computed by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drift_runs.cli.generation_estimate import estimate_json, estimate_lines, lane_tokens
from drift_runs.cli.main import main
from drift_runs.protocol.load import load_protocol
from tests.campaigns import Campaign
from tests.conftest import TINY
from tests.test_campaign_generation import prepared


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path) -> Campaign:
    """Not run: six roots at most, a horizon of 20, three prompts of 8 tokens, two of them sampled, one task of 12."""
    return prepared(tmp_path_factory.mktemp("planned"), tiny_arms)


def test_bounds_by_hand(campaign: Campaign) -> None:
    loaded = load_protocol(campaign.protocol)
    f16, floor, q4_0 = lane_tokens(loaded)
    assert [one.name for one in (f16, floor, q4_0)] == ["f16", "f16-decode", "q4_0"]
    # The reference follows both tokens of the candidate's roots, and one token of the floor's.
    assert (f16.futures, floor.futures, q4_0.futures) == ((12 + 6) * 20, 6 * 20, 12 * 20)
    assert (f16.constrained, floor.constrained, q4_0.constrained) == (0, 0, 2 * 6 * 20), "two grammars"
    windows = sum(window.scored[-1][1] - 1 for window in loaded.protocol.windows)
    beta = loaded.protocol.window("beta").scored[-1][1] - 1
    prompts, quick = (4 + 6 + 5), (4 + 6)
    for one in (f16, floor, q4_0):
        assert (one.rollouts, one.sampled, one.tasks) == (3 * 8, 2 * 6 * 2 * 2, 12)
        assert one.prefill == windows * (2 if one is q4_0 else 1) + beta + prompts + 4 * quick
        assert one.decoded == one.futures + one.constrained + 24 + 48 + 12


def test_the_plan_prints_them(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    found = lane_tokens(load_protocol(campaign.protocol))
    assert main([*campaign.arguments("plan"), "--no-probe", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["generation"]
    assert said == estimate_json(found) and said["bound"] == "at most" and said["seconds"] is None
    assert said["decoded"] == sum(arm["decoded"] for arm in said["arms"]) == 360 + 120 + 240 + 240 + 3 * 84
    assert main([*campaign.arguments("plan"), "--no-probe"]) == 0
    out = capsys.readouterr().out
    assert "writing  at most 1,212 tokens decoded" in out
    assert "f16: at most 444 (futures 360, rollouts 24, sampled 48, tasks 12), read" in out
    assert "time not estimated: no rate of decoding is stored" in out


def test_a_protocol_that_writes_nothing_has_none() -> None:
    found = lane_tokens(load_protocol(TINY / "tiny.toml"))
    assert found == () and estimate_json(found) is None and estimate_lines(found) == []
