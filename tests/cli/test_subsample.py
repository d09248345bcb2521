"""``drift subsample`` on a finished campaign, and what ``drift plan`` quotes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drift_runs import schema
from drift_runs.cli.main import main
from drift_runs.cli.subsample import quoted, result_file, sentence
from drift_runs.measure.subsample import Finding, SubsampleResult
from drift_runs.protocol.load import load_protocol
from drift_runs.store import read_table
from tests.campaigns import Campaign, copied, new_campaign


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Runs a command in this process: (exit code, stdout, stderr)."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("DRIFT_STORE", raising=False)

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def campaign(finished: Campaign, tmp_path: Path) -> Campaign:
    return copied(finished, tmp_path / "copy")


def arguments(campaign: Campaign, *options: object) -> list[object]:
    return ["subsample", campaign.protocol, "--store", campaign.root, *options]


def result_of(campaign: Campaign, arm: str) -> SubsampleResult:
    sha256 = load_protocol(campaign.protocol).protocol_sha256
    return SubsampleResult.of_table(read_table(result_file(campaign.root, sha256, arm), schema.SUBSAMPLE))


def test_a_table_for_each_candidate(campaign: Campaign, say) -> None:
    code, out, err = say(*arguments(campaign, "--stride", 4, "--stride", 8, "--draws", 10))
    assert (code, err) == (0, "")
    titles = [
        arm + rest for arm in ("q8_0", "q4_0", "kv-q4_0") for rest in ("", ", without the declared outlier windows")
    ]
    lines = out.splitlines()
    assert [line for line in lines if line in titles] == titles
    assert lines[1].startswith("all 76 positions: kl.full mean ") and "(" in lines[1]
    assert lines[2].startswith("worst range by p95 none (no range is firm or indicative), by mean ")
    rows = [line.split() for line in lines if line.startswith("1 in ") and ":" not in line]
    assert [row[2:5] for row in rows[:4]] == [
        ["4,", "phases", "19"],
        ["4,", "random", "19"],
        ["8,", "phases", "9"],
        ["8,", "random", "10"],
    ]
    assert "1 in 8: all positions name no range: no range is firm or indicative" in lines
    (by_mean,) = [line for line in lines[:12] if line.startswith("1 in 8: worst range (mean) missed in ")]
    finding = result_of(campaign, "q8_0").find(probe="phase", stride=8, statistic="worst_range.mean")
    assert by_mean == sentence(finding)
    assert "Not nameable: too few positions of it in the probe for a p95." in out


def test_json_equals_what_is_kept(campaign: Campaign, say) -> None:
    code, out, _ = say(*arguments(campaign, "--arm", "q4_0", "--arm", "f16-decode", "--draws", 5, "--json"))
    content = json.loads(out)
    assert code == 0 and list(content) == ["q4_0", "f16-decode"], "a floor is simulated when it is asked for"
    for arm, rows in content.items():
        assert tuple(Finding(**row) for row in rows) == result_of(campaign, arm).findings
    assert {row["stride"] for row in content["q4_0"]} == {8, 16, 32, 64}
    assert {row["outliers"] for row in content["q4_0"]} == {"with", "without"}


def test_an_arm_gives_the_same_whichever_stands_beside_it(campaign: Campaign, say) -> None:
    say(*arguments(campaign, "--draws", 10, "--stride", 8))
    together = result_of(campaign, "q4_0")
    say(*arguments(campaign, "--draws", 10, "--stride", 8, "--arm", "q4_0"))
    assert result_of(campaign, "q4_0") == together


def test_windows_that_are_not_there_yet(campaign: Campaign, say) -> None:
    executions = campaign.executions()
    campaign.store.remove_comparison(executions["q4_0"].compared_with(executions["f16"]), "beta")
    code, out, err = say(*arguments(campaign, "--draws", 0))
    assert code == 0 and "q4_0: 1 of 4 windows are not there yet" in err
    assert "\nq4_0" not in out and "q8_0" in out and "random" not in out
    code, out, err = say(*arguments(campaign, "--arm", "q4_0"))
    assert (code, out) == (4, "") and "no arm is whole" in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--arm", "q4_O"], 4, "no arm 'q4_O'; expected one of f16-launch, f16-decode, q8_0, q4_0, kv-q4_0; did you"),
        (["--stride", "1"], 2, "--stride: 1; expected a whole number from 2"),
        (["--stride", "many"], 2, "invalid int value"),
        (["--draws", "-1"], 2, "--draws: -1; expected a whole number from 0"),
        (["--store", "none"], 2, "no store here"),
    ],
)
def test_one_line_says_what_is_wrong(finished: Campaign, say, options: list[str], code: int, message: str) -> None:
    found, out, err = say(*arguments(finished, *options))
    assert (found, out) == (code, "")
    (line,) = err.splitlines()
    assert line.startswith("drift: error: ") and message in line


def test_a_protocol_that_never_ran(finished: Campaign, tmp_path: Path, say) -> None:
    other = new_campaign(tmp_path / "other", finished.machine, None, {"floors": []})
    code, _, err = say("subsample", other.protocol, "--store", finished.root)
    assert code == 4 and "tiny version 1 never ran here; run it first: drift run" in err


class TestPlan:
    def test_it_says_how_to_find_out(self, campaign: Campaign, say) -> None:
        options = ["plan", campaign.protocol, "--store", campaign.root, "--no-probe"]
        code, out, _ = say(*options)
        (line,) = [line for line in out.splitlines() if line.startswith("sample ")]
        assert code == 0 and f"drift subsample {campaign.protocol}" in line
        assert json.loads(say(*options, "--json")[1])["samples"] == []

    def test_it_quotes_what_was_measured(self, campaign: Campaign, say) -> None:
        say(*arguments(campaign, "--draws", 0))
        options = ["plan", campaign.protocol, "--store", campaign.root, "--no-probe"]
        code, out, _ = say(*options)
        lines = out.splitlines()[-3:]
        expected = quoted(result_of(campaign, "q8_0"))
        assert code == 0 and len(expected) == 2
        assert [line[9:] for line in lines[:2]] == expected
        assert lines[0].startswith(
            "sample   if only 1 position in 32 of q8_0 were scored: worst range missed by mean in "
        )
        assert lines[2].endswith("by drift subsample; the same for 2 more arms")
        content = json.loads(say(*options, "--json")[1])["samples"]
        assert [entry["arm"] for entry in content] == ["q8_0", "q4_0", "kv-q4_0"]
        assert content[0]["quoted"] == expected
        assert tuple(Finding(**finding) for finding in content[0]["findings"]) == result_of(campaign, "q8_0").findings

    def test_another_protocol_has_its_own(self, campaign: Campaign, tmp_path: Path, say) -> None:
        say(*arguments(campaign, "--draws", 0))
        other = new_campaign(tmp_path / "other", campaign.machine, None, {"floors": []})
        _, out, _ = say("plan", other.protocol, "--store", campaign.root, "--no-probe")
        assert "drift subsample" in out and "if only 1 position" not in out


def finding(**changes: object) -> Finding:
    given = {
        "outliers": "with",
        "probe": "phase",
        "stride": 32,
        "probes": 32,
        "positions": 4000,
        "sampled": 125,
        "spec": "kl.full",
        "statistic": "worst_range.p95",
        "named": "code",
        "full_value": 0.5,
        "value": 1.0,
        "not_nameable": 31,
        "another_named": 1,
        "none_named": 0,
        **changes,
    }
    return Finding(**given)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {},
            "1 in 32: worst range (p95) missed in 100 % of 32 phases "
            "(96.9 % not nameable: too few positions; 3.12 % another range named)",
        ),
        (
            {
                "probe": "random",
                "probes": 500,
                "value": 0.25,
                "not_nameable": 0,
                "another_named": 100,
                "none_named": 25,
            },
            "1 in 32: worst range (p95) missed in 25 % of 500 random samples "
            "(20 % another range named; 5 % no range named)",
        ),
        (
            {"value": 0.0, "not_nameable": 0, "another_named": 0},
            "1 in 32: worst range (p95) missed in 0 % of 32 phases",
        ),
        ({"value": None, "reason": "all positions name no range"}, "1 in 32: all positions name no range"),
    ],
)
def test_the_sentence(changes: dict[str, object], expected: str) -> None:
    assert sentence(finding(**changes)) == expected
