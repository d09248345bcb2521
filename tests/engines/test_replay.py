"""A recorded capture, played: the same figures as when it was taken, and nothing that it does not hold."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from drift_runs.capture.process import Step, run_launch
from drift_runs.cli.main import main
from drift_runs.engines.base import EngineSettings
from drift_runs.engines.replay import Replay
from drift_runs.errors import CannotGive, ModelFileError
from drift_runs.protocol.load import load_protocol
from tests.campaigns import TWO_ARMS, Campaign, new_campaign

K = 8
LISTED = {**TWO_ARMS, "capture.full_vocabulary": "no", "capture.top_k": K, "capture.divergence": "kl.topk-tail"}
SETTINGS = EngineSettings(
    path_shape="prefill", context_tokens=64, batch=64, micro_batch=64, threads=1, kv="f16", flash_attention="on"
)


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path) -> Campaign:
    campaign = new_campaign(tmp_path_factory.mktemp("taken") / "campaign", tiny_arms, empty_database, LISTED)
    assert campaign.run().failed == ()
    return campaign


@pytest.fixture(scope="module")
def recordings(taken: Campaign, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder an arm, as it would be committed."""
    root = tmp_path_factory.mktemp("recordings")
    digest = load_protocol(taken.protocol).protocol.dictionary.sha256
    for name, execution in taken.executions().items():
        shutil.copytree(taken.store.capture_folder(execution.capture_id), root / name)
        shutil.copy(taken.store.dictionary_file(digest), root / name / "dictionary.parquet")
    return {folder.name: folder for folder in root.iterdir()}


def playing(folder: Path, arms: Path, database: Path, recordings: dict[str, Path]) -> Campaign:
    """The recorded arms as arms of engine ``replay``."""
    entries = [{"name": "f16", "role": "reference", "derivative": "stock", "weights": "f16", "engine": "replay"}]
    entries.append({**entries[0], "name": "q4_0", "role": "candidate", "weights": "q4_0"})
    played = new_campaign(folder / "played", arms, database, {**LISTED, "arms": entries})
    machine = ['schema = "drift.machine/1"']
    machine += [f"[arms.{name}]\nrows = {json.dumps(str(recordings[name]))}" for name in ("f16", "q4_0")]
    played.machine = folder / "drift.toml"
    played.machine.write_text("\n".join(machine), "utf-8")
    return played


def test_a_campaign_of_recordings_gives_the_figures_of_the_engines(
    taken: Campaign, recordings: dict[str, Path], tmp_path: Path, tiny_arms: Path, empty_database: Path
) -> None:
    played = playing(tmp_path, tiny_arms, empty_database, recordings)
    (one,), (other,) = (
        [outcome for outcome in campaign.run().outcomes if outcome.execution.name == "q4_0"]
        for campaign in (taken, played)
    )
    assert other.error is None
    # A recording holds entries, as a server lists them: the mass outside them and the entropy are not among them.
    for spec in ("flip", "flip.strict", "nll", "dnll", f"kl.topk-shared@{K}"):
        pairs = [outcome.figures.filter(pc.field("spec") == spec) for outcome in (one, other)]
        assert pairs[0].num_rows > 10 and pairs[0].equals(pairs[1]), spec
    assert other.execution.engine.engine == "replay of llama_cpp"
    assert other.execution.capture_id != one.execution.capture_id, "played is not taken"


def test_rows_are_cut_and_wanted_ids_are_told_as_far_as_they_are_known(
    taken: Campaign, recordings: dict[str, Path]
) -> None:
    loaded = load_protocol(taken.protocol)
    tokens = loaded.tokens("alpha-1")
    with_ids = Replay(recordings["q4_0"], SETTINGS)
    (whole,) = with_ids.score_listed(tokens, [3, 4], top_k=K)
    (cut,) = with_ids.score_listed(tokens, [3, 4], top_k=2, wanted=[[0, int(whole.ids[0, 5])], [31]])
    np.testing.assert_array_equal(cut.ids, whole.ids[:, :2])
    np.testing.assert_array_equal(cut.logprobs, whole.logprobs[:, :2])
    assert cut.wanted_ids[0, 1] == whole.ids[0, 5] and cut.wanted_logprobs[0, 1] == whole.logprobs[0, 5]
    for token, logprob in zip(cut.wanted_ids.ravel(), cut.wanted_logprobs.ravel(), strict=True):
        assert (token == -1) == np.isnan(logprob)


def test_what_was_not_recorded_is_refused(recordings: dict[str, Path], taken: Campaign, tmp_path: Path) -> None:
    tokens = list(load_protocol(taken.protocol).tokens("alpha-1"))
    engine = Replay(recordings["f16"], SETTINGS)
    with pytest.raises(ModelFileError, match="this text was not recorded"):
        list(engine.score_listed([*tokens[:-1], (tokens[-1] + 1) % 32], [3], top_k=2))
    with pytest.raises(ModelFileError, match="position 900 was not recorded"):
        list(engine.score_listed(tokens, [3, 900], top_k=2))
    with pytest.raises(ModelFileError, match="9 entries are asked for"):
        list(engine.score_listed(tokens, [3], top_k=K + 1))
    with pytest.raises(CannotGive, match="writes nothing"):
        engine.write(tokens, 1, top_k=1)
    with pytest.raises(ModelFileError, match="no such file"):
        Replay(tmp_path, SETTINGS)
    (tmp_path / "capture.json").write_text('{"engine": {}}', "utf-8")
    with pytest.raises(ModelFileError, match="not the identity of a capture"):
        Replay(tmp_path, SETTINGS)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("engine", "llama_cpp"),
        ("capture", {"top_k": "8"}),
        ("capture", {"top_k": 10**30}),
        ("settings", []),
        ("windows", ["alpha-1"]),
        ("windows", {"../alpha-1": {"tokens_sha256": "0" * 64, "scored": [[1, 2]]}}),
        ("windows", {"alpha-1": {"tokens_sha256": "0" * 64, "scored": [[1]]}}),
        ("server", {"version": 1}),
        ("launch", None),
    ],
)
def test_an_identity_of_other_types_is_one_line(
    recordings: dict[str, Path], tmp_path: Path, key: str, value: object
) -> None:
    identity = json.loads((recordings["f16"] / "capture.json").read_text("utf-8"))
    (tmp_path / "capture.json").write_text(json.dumps(identity | {key: value}), "utf-8")
    with pytest.raises(ModelFileError, match="not the identity of a capture") as caught:
        Replay(tmp_path, SETTINGS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("raw", ["[" * 100_000, '"text"', "{", '{"launch": NaN}', "\x00"])
def test_an_identity_that_is_none_is_one_line(tmp_path: Path, raw: str) -> None:
    (tmp_path / "capture.json").write_text(raw, "utf-8")
    with pytest.raises(ModelFileError, match="not the identity of a capture"):
        Replay(tmp_path, SETTINGS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"path_shape": "decode"}, "recorded with the path shape 'prefill'; expected 'decode'"),
        ({"kv": "q8_0"}, "recorded with the KV type 'f16'; expected 'q8_0'"),
    ],
)
def test_what_was_taken_otherwise_is_not_played_under_another_name(
    recordings: dict[str, Path], changes: dict, message: str
) -> None:
    with pytest.raises(ModelFileError, match=message):
        Replay(recordings["f16"], replace(SETTINGS, **changes))


def test_rows_that_were_exchanged_are_refused_or_another_recording(
    taken: Campaign, recordings: dict[str, Path], tmp_path: Path
) -> None:
    tokens = load_protocol(taken.protocol).tokens("alpha-1")
    folder = tmp_path / "copy"
    shutil.copytree(recordings["f16"], folder)
    assert Replay(folder, SETTINGS).said() == Replay(recordings["f16"], SETTINGS).said()
    shutil.copy(recordings["q4_0"] / "alpha-1.parquet", folder / "alpha-1.parquet")
    assert Replay(folder, SETTINGS).said() != Replay(recordings["f16"], SETTINGS).said()
    shutil.copy(recordings["f16"] / "beta.parquet", folder / "alpha-1.parquet")
    with pytest.raises(ModelFileError, match="holds other rows than its capture"):
        list(Replay(folder, SETTINGS).score_listed(tokens, [3], top_k=2))


def test_what_changed_after_the_run_was_planned_is_not_taken_for_it(
    recordings: dict[str, Path], tmp_path: Path, tiny_arms: Path, empty_database: Path
) -> None:
    copies = {name: tmp_path / name for name in ("f16", "q4_0")}
    for name, folder in copies.items():
        shutil.copytree(recordings[name], folder)
    campaign = playing(tmp_path, tiny_arms, empty_database, copies)
    planned = campaign.executions()["q4_0"]
    shutil.copy(copies["f16"] / "beta.parquet", copies["q4_0"] / "beta.parquet")
    campaign.store.open(create=True)
    step = Step(execution=planned, window="alpha-1", compare=False, spill=False)
    with pytest.raises(ModelFileError, match="it is another than when the run began: rows was"):
        list(run_launch(campaign.store, load_protocol(campaign.protocol), planned, [step]))
    assert not campaign.store.rows_file(planned.capture_id, "alpha-1").exists()


def test_a_plan_does_not_measure_how_fast_a_recording_plays(
    recordings: dict[str, Path],
    tmp_path: Path,
    tiny_arms: Path,
    empty_database: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    campaign = playing(tmp_path, tiny_arms, empty_database, recordings)
    assert main([*campaign.arguments("plan"), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["probe"] is None and "recording" in content["no_probe_because"]
    assert content["estimate"]["tokens_left"] == content["estimate"]["tokens"] > 0
