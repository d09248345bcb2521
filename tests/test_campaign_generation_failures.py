"""A counterpart that fails to generate: what is judged against it has no figure, and everything else goes on."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from drift_runs.campaign import Result
from drift_runs.errors import EngineError, NotMeasured
from drift_runs.tracking import reader
from tests.campaigns import Campaign, Reporter, tree
from tests.conftest import change_toml
from tests.test_campaign_generation import prepared

FLOOR = {"name": "q4-launch", "arm": "q4_0", "kind": "launch", "rows": "identical"}
"""Of the candidate: its futures are judged against the candidate's."""


class Breaking(Reporter):
    """Cuts a weight file short once everything is captured: the engine that opens it to generate refuses it."""

    def __init__(self, weights: Path) -> None:
        super().__init__()
        self.weights = weights

    def generating(self, items: int, bounds: Sequence[str]) -> None:
        super().generating(items, bounds)
        self.weights.write_bytes(self.weights.read_bytes()[:4096])


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path) -> Path:
    """Folder of weight files of this module's own, which it may break."""
    folder = tmp_path_factory.mktemp("breakable") / "arms"
    shutil.copytree(tiny_arms.parent, folder)
    return folder


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, weights: Path) -> tuple[Campaign, Result]:
    """A campaign whose candidate was captured and could not generate; its file is whole again."""
    campaign = prepared(tmp_path_factory.mktemp("counterpart") / "campaign", weights / tiny_arms.name)
    change_toml(campaign.protocol, {"floors[1]": FLOOR})
    result = campaign.run(reporter=Breaking(weights / "q4_0.gguf"))
    shutil.copy(tiny_arms.parent / "q4_0.gguf", weights)
    return campaign, result


def test_what_is_judged_against_it_is_not_measured(broken: tuple[Campaign, Result]) -> None:
    _, result = broken
    assert result.failed == ()
    errors = {report.execution.name: report.error for report in result.generation}
    assert list(errors) == ["f16", "f16-decode", "q4_0", "q4-launch"]
    assert isinstance(errors["q4_0"], EngineError)
    floor = errors["q4-launch"]
    assert isinstance(floor, NotMeasured) and floor.exit_code == 4
    assert floor.line() == "arm q4-launch: arm q4_0 failed"
    assert errors["f16"] is None and errors["f16-decode"] is None


def test_its_engine_is_not_even_opened(broken: tuple[Campaign, Result]) -> None:
    campaign, result = broken
    opened = campaign.reporter.opened
    # Every one was opened to capture; the floor was not opened again.
    assert [opened.count(report.execution.name) for report in result.generation] == [2, 2, 2, 1]
    assert {event.execution for event in campaign.reporter.written_events} == {"f16", "f16-decode"}


def test_a_report_of_either_has_no_number(broken: tuple[Campaign, Result]) -> None:
    campaign, result = broken
    (record,) = campaign.records()
    assert not record.complete
    for report in result.failed_generation:
        assert report.figures.num_rows == report.outcomes.num_rows == report.tasks.num_rows == 0
        run = next(arm.run_id for arm in record.arms if arm.arm == report.execution.name)
        assert not {name for name in reader.load_metrics(campaign.uri, run) if name.startswith("branches/")}


def test_the_next_run_takes_what_is_left(broken: tuple[Campaign, Result]) -> None:
    campaign, before = broken
    kept = tree(campaign.root)
    result = campaign.run()
    assert result.failed_generation == () and campaign.records()[0].complete
    # What had been written is not written again.
    assert kept.items() <= tree(campaign.root).items()
    assert {event.execution for event in campaign.reporter.written_events} >= {"q4_0", "q4-launch"}
    for one, other in zip(before.generation[:2], result.generation[:2], strict=True):
        assert one.figures.equals(other.figures)
    floor = result.generation[-1]
    assert floor.figures.num_rows and floor.explored is not None
