"""What a comparison's key says of settings that nobody declared."""

from __future__ import annotations

import json
from pathlib import Path

from drift_runs.campaign.facts import undeclared_settings
from drift_runs.machine import machine_text
from drift_runs.measure.comparability import compare_keys, key_from_tags
from tests.campaigns import TWO_ARMS, Campaign, new_campaign


def own_threads(folder: Path, tiny_arms: Path, arm: str, threads: int) -> Path:
    """A machine file in which one arm has threads of its own."""
    models = {name: tiny_arms.parent / f"{name}.gguf" for name in ("f16", "q8_0", "q4_0")}
    text = machine_text(models, same_model={"kv-q4_0": "f16"}, threads=1)
    path = folder / "drift.toml"
    head = f'[arms."{arm}"]\n'
    assert head in text
    path.write_text(text.replace(head, f"{head}threads = {threads}\n"), encoding="utf-8")
    return path


def test_a_setting_of_the_machine_is_undeclared_and_one_of_the_protocol_is_not(tmp_path: Path, tiny_arms: Path) -> None:
    changes = {**TWO_ARMS, "arms[1].settings": {"flash_attention": "off"}}
    campaign = new_campaign(tmp_path / "one", own_threads(tmp_path, tiny_arms, "q4_0", 2), None, changes)
    found = campaign.executions()
    assert found["q4_0"].settings.threads == 2 and found["q4_0"].settings.flash_attention == "off"
    assert undeclared_settings(found["q4_0"], found["f16"]) == {"threads": 2}
    assert undeclared_settings(found["f16"], found["f16"]) == {}


def test_the_geometry_of_a_floor_is_declared(finished: Campaign) -> None:
    found = finished.executions()
    assert undeclared_settings(found["f16-decode"], found["f16"]) == {}
    assert undeclared_settings(found["q4_0"], found["f16-decode"]) == {"path_shape": "prefill"}


def test_the_arms_of_a_campaign_may_be_ranked_and_their_keys_know_everything(finished: Campaign) -> None:
    arms = [arm for arm in finished.records()[0].arms if arm.role == "candidate"]
    keys = [key_from_tags(arm.key) for arm in arms]
    assert all(compare_keys(keys[0], key).equal for key in keys)
    assert keys[0].floor_kind == "geometry,launch" and keys[0].reference_launch == "1" and keys[0].source == "own"
    assert json.loads(keys[0].undeclared or "") == {}
