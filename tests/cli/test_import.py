"""``drift import``: other tools' files in the store, measured, logged, and refused as they must be."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from drift_runs.cli import main as cli
from drift_runs.store import Store, plans
from drift_runs.tracking.reader import list_campaigns, load_determinism, load_figures, load_listed, load_pairs
from drift_runs.tracking.uris import resolve_uri

FILES = Path(__file__).parents[1] / "data" / "imports"
PUBLISHED = (
    Path(os.environ.get("DRIFT_PUBLISHED_DATA") or Path(__file__).parents[3] / "shared" / "data") / "qwen38-exl3"
)


@pytest.fixture
def store(tmp_path: Path, empty_database: Path) -> Path:
    """A store whose tracking database is made already."""
    folder = tmp_path / "store"
    Store(folder).open(create=True)
    shutil.copy(empty_database, folder / "mlflow.db")
    return folder


def imported(store: Path, form: str, *options: str | Path) -> int:
    return cli.main(["import", form, "--name", "mine", "--store", str(store), *map(str, options)])


def record_of(store: Path):
    (record,) = list_campaigns(resolve_uri(None, store))
    return record


def value(store: Path, arm: str, spec: str, statistic: str, kind: str = "all", scope: str = "all") -> dict:
    uri = resolve_uri(None, store)
    run = next(found.run_id for found in record_of(store).arms if found.arm == arm)
    (row,) = (
        row
        for row in load_figures(uri, run).to_pylist()
        if (row["spec"], row["statistic"], row["outliers"], row["scope_kind"], row["scope"])
        == (spec, statistic, "with", kind, scope)
    )
    return row


def check(store: Path, code: int = 0) -> None:
    assert cli.main(["measure", "mine", "--check", "--store", str(store)]) == code


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="no published data: set DRIFT_PUBLISHED_DATA to their folder")
def test_published_rows_stand_beside_their_floor_and_a_borrowed_one(store: Path) -> None:
    """The rope arm is above the floor of a second boot; the loaded server has another reference: no verdict."""
    code = imported(
        store,
        "topk-rows",
        *("--reference", f"native={PUBLISHED / 'raw-NATIVE-p1.json'}"),
        *("--reference", f"quiet={PUBLISHED / 'raw-YARNDP8-quiet.json'}"),
        *("--floor", f"pass:again={PUBLISHED / 'raw-NATIVE-p2.json'}"),
        *("--floor", f"launch:boot={PUBLISHED / 'raw-NATIVE-p3.json'}"),
        *("--candidate", f"rope={PUBLISHED / 'raw-YARN-p1.json'}"),
        *("--candidate", f"loaded={PUBLISHED / 'raw-YARNDP8-loaded.json'}"),
        *("--against", "loaded=quiet", "--facet", "rope.title=YaRN"),
    )
    assert code == 0
    expected = {
        entry["id"]: entry for entry in json.loads((PUBLISHED.parent / "expected.json").read_text())["comparisons"]
    }
    spec = "kl.topk-shared@20"
    boot, rope, loaded = (value(store, name, spec, "mean") for name in ("boot", "rope", "loaded"))
    assert boot["value"] == pytest.approx(expected["cross-boot-replicate"]["mean"], rel=1e-12)
    assert rope["value"] == pytest.approx(expected["rope-short-context"]["mean"], rel=1e-12)
    assert loaded["value"] == pytest.approx(expected["concurrency-dp8"]["mean"], rel=1e-12)
    assert (rope["floor"], rope["floor_value"], rope["borrowed"]) == ("boot", boot["value"], False)
    assert rope["verdict"] == "above"
    assert (loaded["floor"], loaded["floor_value"], loaded["borrowed"]) == ("boot", boot["value"], True)
    assert loaded["verdict"] == "" and "borrowed" in loaded["verdict_reason"]
    for bucket, mean in expected["rope-short-context"]["mean_by_bucket"].items():
        assert value(store, "rope", spec, "mean", "group", bucket)["value"] == pytest.approx(mean, rel=1e-12)
    record = record_of(store)
    assert record.imported and record.complete and record.draft and record.reference == "native"
    arms = {arm.arm: arm for arm in record.arms}
    assert (arms["loaded"].reference, arms["rope"].reference, arms["rope"].title) == ("quiet", "", "YaRN")
    uri = resolve_uri(None, store)
    again = load_determinism(uri, arms["again"].run_id).to_pylist()
    assert sum(row["rows_identical"] for row in again) == 384 and {row["row_hash"] for row in again} == {"row.top@20"}
    boot_hashes = {row["window"]: row["window_hash"] for row in load_determinism(uri, arms["boot"].run_id).to_pylist()}
    assert all(row["window_hash"] not in (None, boot_hashes[row["window"]]) for row in again)
    assert load_listed(uri, arms["rope"].run_id).num_rows > 0
    # Arms of two references are never set against each other.
    assert load_pairs(uri, record.run_id).num_rows == 0
    check(store)


def test_positions_of_two_candidates(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--candidate", f"a={FILES / 'positions-a.csv'}", "--candidate", f"b={FILES / 'positions-b.csv'}"]
    assert imported(store, "csv", "--reference", "bf16", *files, "--outlier", "w2=it repeats one table only") == 0
    said = capsys.readouterr().out
    assert "kl.full mean" in said
    assert "Note: The reference bf16 has no floor: nothing says how far it lies from itself." in said
    assert value(store, "a", "kl.full", "mean")["value"] == pytest.approx((0.1 + 0.3 + 0.2) / 3)
    assert value(store, "a", "kl.full", "mean")["excluded"] == 1
    (pair,) = (
        row
        for row in load_pairs(resolve_uri(None, store), record_of(store).run_id).to_pylist()
        if (row["scope_kind"], row["outliers"], row["spec"]) == ("all", "with", "kl.full")
    )
    assert pair["n"] == 3 and pair["difference"] == pytest.approx((0.1 - 0.15 + 0.3 - 0.25 + 0.2 - 0.2) / 3, abs=1e-15)
    assert record_of(store).outliers == (("w2", "it repeats one table only"),)
    check(store)


def test_the_same_files_again_change_nothing(store: Path) -> None:
    files = ["--candidate", f"a={FILES / 'positions-a.csv'}"]
    assert imported(store, "csv", "--reference", "bf16", *files) == 0
    before = record_of(store)
    assert imported(store, "csv", "--reference", "bf16", *files) == 0
    assert record_of(store) == before


@pytest.mark.parametrize(("form", "spec"), [("contexts", "kl.full"), ("rollouts", "rollout.exact")])
def test_files_without_positions(store: Path, form: str, spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = FILES / f"{form}-a.json", FILES / f"{form}-b.json"
    options = ["--reference", "bf16", "--candidate", f"a={a}", "--candidate", f"b={b}"]
    if form == "rollouts":
        options = ["--reference", f"a={a}", "--candidate", f"b={b}"]
    assert imported(store, form, *options) == 0
    statistic = "share" if form == "rollouts" else "mean"
    assert value(store, "b", spec, statistic)["value"] is not None
    check(store)
    assert plans(Store(store))[0].captures[-1].table == form
    pairs = load_pairs(resolve_uri(None, store), record_of(store).run_id).to_pylist()
    if form == "contexts":
        (mean,) = (row for row in pairs if (row["spec"], row["outliers"]) == ("kl.full", "with"))
        assert (mean["left"], mean["right"], mean["p_mcnemar"]) == ("a", "b", None)
        assert mean["difference"] == pytest.approx(mean["left_value"] - mean["right_value"], rel=1e-12)
        assert mean["windows"] == 4 and 0 <= mean["windows_left_above"] <= 4
    assert "All figures: drift dashboard" in capsys.readouterr().out


def test_a_base_file_of_full_rows(store: Path) -> None:
    file = FILES / "tiny.kld"
    assert imported(store, "llama-kld", "--reference", f"a={file}", "--floor", f"pass:b={file}") == 0
    assert value(store, "b", "kl.full", "mean")["value"] == 0
    check(store)


def test_windows_that_differ_in_case_only_are_stored_apart(store: Path, tmp_path: Path) -> None:
    """Some file systems fold case, and two windows in one file would be one window less."""
    file = tmp_path / "a.csv"
    file.write_text("window,position,kl\nW,1,0.1\nw,1,0.2\nw x,1,0.3\n")
    assert imported(store, "csv", "--reference", "bf16", "--candidate", f"a={file}") == 0
    names = [path.name.casefold() for path in store.glob("comparisons/*/*.parquet")]
    assert len(names) == len(set(names)) == 3
    assert value(store, "a", "kl.full", "mean")["value"] == pytest.approx(0.2)
    check(store)


def test_a_file_whose_name_steers_terminals(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a\x1b[2J\n.json"
    shutil.copy(FILES / "topk-rows-b.json", file)
    options = ["--reference", f"a={FILES / 'topk-rows-a.json'}", "--floor", f"pass:b={file}"]
    assert imported(store, "topk-rows", *options) == 0
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    check(store)


class TestRefusals:
    """One line, the right exit code, and nothing stored."""

    @pytest.mark.parametrize(
        ("options", "code", "words"),
        [
            (["--reference", "bf16"], 2, "nothing to compare"),
            (["--candidate", "a={a}"], 2, "no reference is named"),
            (["--reference", "r={a}", "--candidate", "a={a}"], 2, "reference r has a file"),
            (["--reference", "r", "--candidate", "a={a}", "--candidate", "a={b}"], 2, "two arms are named 'a'"),
            (["--reference", "r", "--candidate", "a={missing}"], 2, "no such file"),
            (["--reference", "r", "--candidate", "a"], 2, "expected NAME=FILE"),
            (["--reference", "r", "--candidate", "../a={a}"], 2, "names of letters"),
            (["--reference", "r", "--floor", "a={a}"], 2, "KIND:NAME=FILE"),
            (["--reference", "r", "--candidate", "a={a}", "--against", "b=r"], 2, "no arm 'b'"),
            (["--reference", "r", "--candidate", "a={a}", "--against", "a=s"], 2, "'s' is no reference"),
            (["--reference", "r", "--candidate", "a={a}", "--facet", "a.colour=red"], 2, "unknown facet 'colour'"),
            (["--reference", "r", "--candidate", "a={a}", "--facet", "b.kv=int8"], 2, "no arm 'b'"),
            (["--reference", "r", "--candidate", "a={a}", "--outlier", "w9=for a reason"], 2, "no window 'w9'"),
            (["--reference", "r", "--candidate", "a={a}", "--outlier", "w1=short"], 2, "at least 10 characters"),
            (["--reference", "r", "--candidate", "a={a}", "--name", "../x"], 2, "--name: name: '../x' does not fit"),
            (["--reference", "r", "--candidate", "a={a}", "--seed", "-1"], 2, "--seed: seeds.bootstrap: -1 is out"),
            (["--reference", "r", "--candidate", "a={a}", "--facet", "a.weights=a b"], 2, "weights of 'a': 'a b'"),
            (
                ["--reference", "r", "--candidate", "a={a}", "--facet", "a.title=\x1b[2J"],
                2,
                "without control characters",
            ),
            (["--reference", "r", "--candidate", "a={a}", "--title", "\udcff"], 2, "without control characters"),
            (["--reference", "r", "--candidate", "a={a}", "--title", "x" * 9000], 2, "has 9000 characters"),
            (
                ["--reference", "r", "--candidate", "a={a}", "--facet", "a.title=" + "x" * 9000],
                2,
                "has 9000 characters",
            ),
            (["--reference", "r", "--candidate", "a={a}", "--candidate", "b={a}"], 2, "a and b have the same bytes"),
            (
                [
                    "--reference",
                    "r",
                    "--reference",
                    "s",
                    "--candidate",
                    "a={a}",
                    "--against",
                    "a=r",
                    "--against",
                    "a=s",
                ],
                2,
                "arm a has two references",
            ),
        ],
    )
    def test_arms_that_do_not_fit(
        self, tmp_path: Path, options: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        places = {"a": FILES / "positions-a.csv", "b": FILES / "positions-b.csv", "missing": tmp_path / "none.csv"}
        store = tmp_path / "none"
        assert imported(store, "csv", *(option.format(**places) for option in options)) == code
        error = capsys.readouterr().err
        assert words in error and "Traceback" not in error and len(error.strip().splitlines()[-1:]) == 1
        assert not store.exists(), "a refusal leaves nothing behind"

    def test_a_fact_that_the_tracking_store_cannot_hold(self, tmp_path: Path) -> None:
        content = json.loads((FILES / "topk-rows-b.json").read_text())
        content["arm"] = "x" * 9000
        other, store = tmp_path / "other.json", tmp_path / "none"
        other.write_text(json.dumps(content))
        options = ["--reference", f"a={FILES / 'topk-rows-a.json'}", "--candidate", f"b={other}"]
        assert imported(store, "topk-rows", *options) == 2
        assert not store.exists()

    def test_a_candidate_that_is_the_reference(self, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = FILES / "topk-rows-a.json"
        options = ["--reference", f"a={file}", "--candidate", f"b={file}"]
        assert imported(store, "topk-rows", *options) == 5
        assert "rows are the reference's" in capsys.readouterr().err
        assert list_campaigns(resolve_uri(None, store)) == []
        assert imported(store, "topk-rows", *options, "--equal-is-right") == 0

    def test_rows_of_other_prompts(self, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        content = json.loads((FILES / "topk-rows-b.json").read_text())
        content["rows"][0]["ids_sha256"] = "f" * 64
        other = tmp_path / "other.json"
        other.write_text(json.dumps(content))
        options = ["--reference", f"a={FILES / 'topk-rows-a.json'}", "--candidate", f"b={other}"]
        assert imported(store, "topk-rows", *options) == 2
        assert "b cannot be set against a: 1 window of other tokens" in capsys.readouterr().err
        assert list_campaigns(resolve_uri(None, store)) == []

    def test_an_unknown_format(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert imported(tmp_path / "none", "topk-row", "--reference", "a") == 2
        assert "did you mean 'topk-rows'?" in capsys.readouterr().err
