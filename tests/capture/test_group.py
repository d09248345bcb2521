"""Groups of windows within the spill budget, and what is left of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift_runs.capture.group import forget, full_row_bytes, groups, pending, scored_count
from drift_runs.protocol.load import LoadedProtocol, load_protocol
from drift_runs.store import Store
from tests.campaigns import SOUND, Campaign, copied, new_campaign
from tests.conftest import TINY

LOADED = load_protocol(TINY / "tiny.toml")


@given(budget=st.integers(min_value=1, max_value=20_000))
def test_a_partition_in_order_within_the_budget(budget: int) -> None:
    found = groups(LOADED, budget)
    names = [window.name for window in LOADED.protocol.windows]
    assert [name for group in found for name in group] == names
    for group, following in zip(found, [*found[1:], ()], strict=True):
        need = bytes_of(LOADED, group)
        assert need <= budget or len(group) == 1
        if following:
            assert need + bytes_of(LOADED, following[:1]) > budget, "a group is closed only when the next does not fit"


def bytes_of(loaded: LoadedProtocol, group: tuple[str, ...]) -> int:
    return sum(scored_count(loaded, name) for name in group) * full_row_bytes(loaded)


def test_known_groups() -> None:
    assert full_row_bytes(LOADED) == 128
    assert [scored_count(LOADED, window.name) for window in LOADED.protocol.windows] == [21, 16, 24, 15]
    assert groups(LOADED, 40 * 128) == (("alpha-1", "alpha-2"), ("beta", "odd"))
    assert groups(LOADED, 76 * 128) == (("alpha-1", "alpha-2", "beta", "odd"),)
    assert groups(LOADED, 75 * 128) == (("alpha-1", "alpha-2", "beta"), ("odd",))


ALL = ("alpha-1", "alpha-2", "beta", "odd")


def shape(launches) -> list[tuple[str, list[tuple[str, str, bool]]]]:
    return [
        (launch.execution.name, [(step.execution.name, step.window, step.spill) for step in launch.steps])
        for launch in launches
    ]


def test_nothing_is_left_of_a_finished_campaign(finished: Campaign) -> None:
    assert pending(finished.store, list(finished.executions().values()), ALL) == ()


def test_the_reference_comes_again_for_what_is_missing_alone(finished: Campaign, tmp_path: Path) -> None:
    campaign = copied(finished, tmp_path / "copy")
    executions = campaign.executions()
    campaign.store.remove_window(executions["q8_0"].capture_id, "beta")
    left = pending(campaign.store, list(executions.values()), ALL)
    assert shape(left) == [("f16", [("f16", "beta", True)]), ("q8_0", [("q8_0", "beta", False)])]
    assert pending(campaign.store, list(executions.values()), ("alpha-1", "odd")) == ()


def test_a_pass_shares_the_references_process(tmp_path: Path, tiny_arms: Path) -> None:
    floor = {"name": "f16-pass", "arm": "f16", "kind": "pass", "rows": "identical", "windows": ["beta"]}
    campaign = new_campaign(tmp_path / "pass", tiny_arms, None, {**SOUND, "floors[0]": floor})
    left = pending(Store(tmp_path / "none"), list(campaign.executions().values())[:2], ALL)
    assert shape(left) == [("f16", [*(("f16", name, True) for name in ALL), ("f16-pass", "beta", False)])]


def test_a_pass_takes_the_reference_along_where_no_full_rows_are_compared(tmp_path: Path, tiny_arms: Path) -> None:
    """Without it the pass would be the first of a fresh process: a launch under another name."""
    floor = {"name": "f16-pass", "arm": "f16", "kind": "pass", "windows": ["beta"]}
    listed = {"capture.full_vocabulary": "no", "capture.divergence": "kl.topk-tail", "floors": [floor]}
    campaign = new_campaign(tmp_path / "pass", tiny_arms, None, {"intervals.resamples": 100, **listed})
    executions = list(campaign.executions().values())[:2]
    for name in ALL:
        kept = campaign.store.rows_file(executions[0].capture_id, name)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.touch()
    left = pending(campaign.store, executions, ALL)
    assert shape(left) == [("f16", [("f16", "beta", False), ("f16-pass", "beta", False)])]


def test_what_is_forgotten_is_pending_again(finished: Campaign, tmp_path: Path) -> None:
    campaign = copied(finished, tmp_path / "copy")
    executions = list(campaign.executions().values())
    forget(campaign.store, executions, ("beta",))
    assert {step.window for launch in pending(campaign.store, executions, ALL) for step in launch.steps} == {"beta"}
    assert [launch.execution.name for launch in pending(campaign.store, executions, ALL)] == [
        "f16",
        "f16-decode",
        "q8_0",
        "q4_0",
        "kv-q4_0",
    ]


@pytest.mark.parametrize("after", range(1, 9))
def test_a_kill_while_forgetting_leaves_no_stale_comparison(
    finished: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """As long as a comparison is left, so are the reference's rows that show it to be stale."""
    campaign = copied(finished, tmp_path / "copy")
    executions = list(campaign.executions().values())
    removed = 0
    unlink = Path.unlink

    def stopping(path: Path, missing_ok: bool = False) -> None:
        nonlocal removed
        if removed == after:
            raise KeyboardInterrupt
        removed += 1
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", stopping)
    with pytest.raises(KeyboardInterrupt):
        forget(campaign.store, executions, ("beta",))
    store, reference = campaign.store, executions[0]
    left = [
        execution
        for execution in executions[1:]
        if store.comparison_file(execution.compared_with(reference), "beta").is_file()
    ]
    assert store.rows_file(reference.capture_id, "beta").is_file() or not left
