"""Rollouts of a decode-parity file."""

from __future__ import annotations

import pytest

from drift_runs.errors import ImportFileError
from drift_runs.importers import rollouts
from drift_runs.schema import ROLLOUTS
from tests.importers.files import changed, invented


def test_every_rollout_of_every_run():
    file = rollouts.read(invented("rollouts", "b"))
    assert file.table.schema == ROLLOUTS and file.cluster == "prompt" and file.top_k is None
    rows = file.table.to_pylist()
    assert [(row["prompt"], row["run"]) for row in rows] == [
        (prompt, run)
        for run, prompts in enumerate([("Two", "One", "Three"), ("One", "Two", "Three")])
        for prompt in prompts
    ]
    assert rows[2]["tokens"] == [" m", " n", " o"] and rows[2]["logprobs"] == [-1.0, None, -0.5]
    assert file.facts == {"label": "invented-b", "seed": "7", "tokens asked": "4", "runs": "2"}
    assert "rollouts that end before 4 tokens: 2" in file.notes


def test_token_ids_are_taken_where_they_are(tmp_path):
    def with_ids(content):
        for run in content["runs"]:
            for rollout in run:
                rollout["token_ids"] = list(range(len(rollout["tokens"])))

    file = rollouts.read(changed(tmp_path, "rollouts", with_ids))
    assert file.table["token_ids"].to_pylist()[0] == [0, 1, 2, 3]
    assert not any("text alone" in note for note in file.notes)


@pytest.mark.parametrize("unknown", [None, -9999.0, -100.0])
def test_an_unknown_log_probability_is_no_number(tmp_path, unknown):
    def change(content):
        content["runs"][0][0]["token_logprobs"][1] = unknown

    file = rollouts.read(changed(tmp_path, "rollouts", change))
    assert file.table["logprobs"].to_pylist()[0] == [-0.5, None, -1.0, -2.0]
    assert any("left out: 1" in note for note in file.notes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.update(runs=[]), "no rollouts"),
        (lambda c: c.update(runs=[[]]), "a run without rollouts"),
        (lambda c: c["runs"][0].append(c["runs"][0][0]), "runs[0][3] 'One': the prompt stands twice"),
        (lambda c: c["runs"][0][0].update(tokens=[]), "0 tokens; expected 1 to 4"),
        (lambda c: c["runs"][0][0]["tokens"].append(" e"), "5 tokens; expected 1 to 4"),
        (lambda c: c["runs"][0][0]["token_logprobs"].pop(), "3 token_logprobs of 4 tokens"),
        (lambda c: c["runs"][0][0]["tokens"].__setitem__(0, 5), "runs[0][0].tokens[0]: 5 does not fit"),
        (lambda c: c["runs"][0][0]["token_logprobs"].__setitem__(0, 0.5), "token_logprobs[0]: 0.5 does not fit"),
        (lambda c: c["runs"][0][0]["token_logprobs"].__setitem__(0, "-1"), "token_logprobs[0]: '-1' does not fit"),
        (lambda c: c.update(tokens=10**30), "tokens: 1"),
        (lambda c: c["runs"][0][0].pop("prompt"), "runs[0][0]: missing key 'prompt'"),
    ],
)
def test_what_cannot_be_trusted(tmp_path, change, words):
    with pytest.raises(ImportFileError) as caught:
        rollouts.read(changed(tmp_path, "rollouts", change))
    assert words in caught.value.line()
