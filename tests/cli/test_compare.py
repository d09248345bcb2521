"""``drift compare``: the JSON that programs read, the table that people read, and the exit codes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from drift_runs.cli.main import main
from tests.importers.files import EXTENSIONS, changed, invented

KEYS = {"format", "a", "b", "comparability", "figures", "notes"}
each_format = pytest.mark.parametrize("name", EXTENSIONS)


class Ran:
    """What a command line gave."""

    def __init__(self, capsys, *arguments: object) -> None:
        self.code = main(["compare", *map(str, arguments)])
        self.out, self.err = capsys.readouterr()

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


def pair(name: str) -> tuple[Path, Path, str, str]:
    return invented(name, "a"), invented(name, "b"), "--format", name


@each_format
def test_the_document_has_its_keys(capsys, name):
    ran = Ran(capsys, *pair(name), "--json")
    document = ran.document
    assert (ran.code, ran.err) == (0, "") and document.keys() == KEYS
    for side in ("a", "b"):
        assert document[side].keys() == {"path", "sha256", "facts"} and len(document[side]["sha256"]) == 64
    assert document["comparability"]["comparable"] is True and document["comparability"]["reasons"] == []
    assert document["figures"] and document["notes"]


@each_format
def test_the_same_seed_gives_the_same_bytes_and_another_only_other_ends(capsys, name):
    first, again = (Ran(capsys, *pair(name), "--json", "--seed", 7).out for _ in range(2))
    other = Ran(capsys, *pair(name), "--json", "--seed", 8, "--resamples", 100).out
    assert first == again and first != other


@each_format
def test_a_table_for_people(capsys, name):
    ran = Ran(capsys, *pair(name))
    assert ran.code == 0 and "Note: " in ran.out
    assert max(map(len, ran.out.splitlines())) < 400
    assert "None" not in ran.out and "nan" not in ran.out.replace("NaN", "")


def test_best_k_rows_by_hand(capsys):
    figures = Ran(capsys, *pair("topk-rows"), "--json").document["figures"]
    shared = figures["kl.topk-shared@3"]
    # Four rows of six: twice equal, once tied alike; twice 1/2 and 1/4 change places: ln 2 / 3. In the last, one token
    # is shared.
    third = math.log(2) / 3
    assert shared["mean"] == pytest.approx(2 * third / 5, rel=1e-7)
    assert (shared["n"], shared["excluded"], shared["exactly_zero"], shared["support_collapse"]) == (5, 1, 3, 1)
    assert shared["max"] == pytest.approx(third, rel=1e-7) and shared["quantile_rule"] == "linear"
    assert shared["shared_support_min"] == 1 and shared["shared_support_mean"] == pytest.approx((3 * 3 + 2 * 2 + 1) / 6)
    assert shared["groups"]["16"]["mean"] == pytest.approx(third / 2, rel=1e-7)
    assert (shared["groups"]["32"]["mean"], shared["groups"]["32"]["n"]) == (0, 1)
    assert shared["states"]["p99"] == "withheld" and shared["p99"] is not None
    flip = figures["flip"]
    assert (flip["count"], flip["n"], flip["rate"]) == (3, 6, 0.5)
    assert figures["flip.strict"]["count"] == 3 and figures["swap"]["count"] == 2
    rows = figures["row.top@3"]
    assert (rows["identical"], rows["n"], rows["windows_identical"]) == (3, 6, 0)
    assert figures["kl.full"] == {"n": 0, "excluded": 6, "reason": figures["kl.full"]["reason"]}
    assert next(iter(figures)) == "kl.topk-shared@3"


def test_unknown_entries_leave_a_position_out_and_stay_counted(capsys, tmp_path):
    def unknown(content):
        content["rows"][0]["positions"][0]["dist"] = dict.fromkeys(("10", "11", "12"), -9999.0)

    other = changed(tmp_path, "topk-rows", unknown, "b")
    document = Ran(capsys, invented("topk-rows"), other, "--format", "topk-rows", "--json").document
    figures = document["figures"]
    assert (figures["kl.topk-shared@3"]["n"], figures["kl.topk-shared@3"]["excluded"]) == (4, 2)
    assert (figures["flip"]["n"], figures["flip"]["excluded"]) == (5, 1)
    assert figures["row.top@3"]["unhashable"] == 1
    assert any("stand for 'not known'" in note and note.startswith("b: ") for note in document["notes"])


def test_rollouts_by_hand(capsys):
    figures = Ran(capsys, *pair("rollouts"), "--json").document["figures"]
    assert (figures["rollout.exact"]["count"], figures["rollout.exact"]["n"]) == (1, 3)
    assert (figures["rollout.prefix"]["tokens"], figures["rollout.prefix"]["of"]) == (7, 11)
    assert figures["rollout.first"] == {"counts": {"1": 1, "2": 1}, "none": 1}
    second = Ran(capsys, *pair("rollouts"), "--json", "--run", 1).document["figures"]
    assert second["rollout.exact"]["share"] == 1


def rollouts_of(folder: Path, name: str, ids: list[list[int]], *, with_ids: bool = True) -> Path:
    """A file of one run: prompt k goes on with these ids, whose texts are their numbers."""
    run = [
        {"prompt": f"p{at}", "tokens": [f"{token} " for token in tokens]} | ({"token_ids": tokens} if with_ids else {})
        for at, tokens in enumerate(ids)
    ]
    path = folder / name
    path.write_text(json.dumps({"label": name, "tokens": 30, "seed": 0, "runs": [run]}), encoding="utf-8")
    return path


def test_early_stops_and_loops_by_hand(capsys, tmp_path):
    rising, loop = list(range(10, 40)), [7, 8] * 15
    # p0: a stops at step 4, b does not; p1: both stop at 2; p2: b loops; p3: a loops only behind its end.
    a = rollouts_of(tmp_path, "a.json", [[*rising[:4], 2, *rising[5:]], [10, 11, 2], rising, [10, 2, *loop[:28]]])
    b = rollouts_of(tmp_path, "b.json", [rising, [10, 12, 2], loop, rising])
    files = (a, b, "--format", "rollouts", "--end-token", 2, "--end-token", 3)
    figures = Ran(capsys, *files, "--json").document["figures"]
    assert figures["rollout.early_stop"] == {"a": 3, "b": 1, "differ": 2, "n": 4}
    assert figures["rollout.loop"] == {"a": 0, "b": 1, "differ": 1, "n": 4}
    table = [line.split() for line in Ran(capsys, *files).out.splitlines()]
    assert ["rollout.early_stop", "3", "1", "2", "4", "prompts"] in table
    assert ["rollout.loop", "0", "1", "1", "4", "prompts"] in table


@pytest.mark.parametrize("with_ids", [True, False])
def test_early_stops_are_absent_with_a_reason_where_ends_are_not_known(capsys, tmp_path, with_ids):
    a, b = (rollouts_of(tmp_path, name, [[5, 6, 2]], with_ids=with_ids) for name in ("a.json", "b.json"))
    ends = () if with_ids else ("--end-token", 2)
    ran = Ran(capsys, a, b, "--format", "rollouts", "--json", *ends)
    stops = ran.document["figures"]["rollout.early_stop"]
    assert (stops["a"], stops["b"], stops["n"]) == (None, None, 0) and "--end-token" in stops["reason"]
    said = Ran(capsys, a, b, "--format", "rollouts", *ends).out
    assert f"rollout.early_stop: not counted: {stops['reason']}" in said


@pytest.mark.parametrize("options", [("csv", "--end-token", 2), ("rollouts", "--end-token", -1)])
def test_an_end_token_is_an_id_of_rollouts(capsys, options):
    form, *more = options
    ran = Ran(capsys, invented(form, "a"), invented(form, "b"), "--format", form, *more)
    assert ran.code == 2 and "--end-token" in ran.err


def test_contexts_by_hand(capsys):
    figures = Ran(capsys, *pair("contexts"), "--json").document["figures"]
    kl, flip = figures["kl.full"], figures["flip"]
    assert (kl["a"]["mean"], kl["b"]["mean"]) == (pytest.approx(0.2), pytest.approx(0.22))
    assert kl["mean_difference"] == pytest.approx(-0.02)
    assert (kl["a_lower"], kl["b_lower"], kl["equal"], kl["contexts"], kl["clusters"]) == (2, 1, 1, 4, 3)
    assert kl["a"]["groups"]["code"]["mean"] == pytest.approx(13 / 60)
    assert flip["rate_difference"] == pytest.approx(0.17 - 0.25) and flip["a"]["count"] == 17
    assert kl["a"]["absent"]["p95"] == "only means by context are known"
    assert (flip["p_sign_flip"], flip["sign_flip"]) == (1, "exact, all signs of 3 documents")


def test_positions_by_hand(capsys):
    document = Ran(capsys, *pair("csv"), "--json").document
    kl, flip = document["figures"]["kl.full"], document["figures"]["flip"]
    assert kl["a"]["mean"] == pytest.approx(0.2) and kl["b"]["mean"] == pytest.approx(0.25)
    assert kl["mean_difference"] == pytest.approx(0, abs=1e-15) and (kl["n"], kl["excluded"]) == (3, 1)
    assert (kl["a_lower"], kl["b_lower"], kl["equal"]) == (1, 1, 1)
    assert (flip["a_only"], flip["b_only"], flip["p_mcnemar_positions_independent"]) == (0, 2, 0.5)
    assert document["figures"]["dnll"]["a"]["mean"] == pytest.approx(0.75 / 3)
    said = Ran(capsys, *pair("csv")).out
    assert "flip: McNemar's test, which takes positions as independent: p 0.5" in said
    assert "p: cluster sign-flip permutation, two-sided; it decides whether a and b differ." in said


@each_format
def test_a_file_against_itself_is_zero(capsys, name):
    path = invented(name)
    ran = Ran(capsys, path, path, "--format", name, "--json")
    assert ran.code == 0 and "both files have the same bytes" in ran.document["notes"]
    ran = Ran(capsys, path, path, "--format", name, "--must-differ")
    assert ran.code == 5 and "the two files say the same" in ran.err and ran.out


@each_format
def test_files_that_differ_may_be_required_to(capsys, name):
    assert Ran(capsys, *pair(name), "--must-differ").code == 0


@pytest.mark.parametrize("as_json", [True, False])
def test_what_is_not_comparable_is_said_before_the_exit_code(capsys, tmp_path, as_json):
    other = changed(tmp_path, "topk-rows", lambda content: content["rows"].pop())
    ran = Ran(capsys, invented("topk-rows"), other, "--format", "topk-rows", *(["--json"] if as_json else []))
    assert ran.code == 2 and ran.err.count("\n") == 1 and "not comparable: 1 window only in the first file" in ran.err
    if as_json:
        assert ran.document["figures"] == {} and ran.document["comparability"]["comparable"] is False
        assert len(ran.document["comparability"]["reasons"]) == 2
    else:
        assert ran.out.count("refused    ") == 2 and "kl.topk" not in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--format", "topk-row"), "did you mean 'topk-rows'"),
        (("--format", "topk-rows", "--resamples", "10"), "--resamples 10"),
        (("--format", "topk-rows", "--seed", "-1"), "--seed -1"),
        (("--format", "topk-rows", "--threads", "9999"), "--threads 9999"),
        (("--format", "topk-rows", "--run", "9" * 30), "--run 999"),
        (("--format", "csv"), "unknown column"),
        ((), "--format"),
    ],
)
def test_a_command_line_that_is_wrong(capsys, arguments, words):
    ran = Ran(capsys, invented("topk-rows", "a"), invented("topk-rows", "b"), *arguments)
    assert ran.code == 2 and ran.out == "" and words in ran.err and ran.err.count("\n") == 1


def test_a_run_that_no_file_has(capsys):
    ran = Ran(capsys, *pair("rollouts"), "--run", 9)
    assert ran.code == 2 and "no run 9" in ran.err and ran.err.count("\n") == 1


def test_texts_of_a_file_cannot_steer_the_terminal(capsys, tmp_path):
    def steering(content):
        content["arm"] = "\x1b[2J\u202eevil\nNote: forged"
        content["rows"][0]["bucket"] = "\x1b[31m"

    a, b = (changed(tmp_path, "topk-rows", steering, side) for side in "ab")
    ran = Ran(capsys, a, b, "--format", "topk-rows")
    assert ran.code == 0 and "\x1b" not in ran.out and "\u202e" not in ran.out
    assert "\u202e" not in Ran(capsys, a, b, "--format", "topk-rows", "--json").out
    c = Ran(capsys, a, invented("topk-rows", "b"), "--format", "topk-rows")
    assert "\x1b" not in c.out + c.err and "\nNote: forged" not in c.out
