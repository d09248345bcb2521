"""Models whose dictionary is not the protocol's, or holds more than it, opened by the real engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from drift_runs.capture.process import Event, Finished, Probed, Step, run_launch
from drift_runs.errors import ModelFileError
from drift_runs.protocol.canonical import dictionary_sha256
from drift_runs.protocol.load import load_protocol
from drift_runs.weights.gguf_file import file_stamp
from tests.campaigns import TWO_ARMS, Campaign, new_campaign
from tests.conftest import tiny_dictionary
from tests.tiny_model import write_tiny_model


@pytest.fixture
def campaign(tmp_path: Path, tiny_arms: Path) -> Campaign:
    """Nothing was run yet: no arm has left the protocol's dictionary in the store."""
    changes = {key: value for key, value in TWO_ARMS.items() if key != "floors[1]"}
    made = new_campaign(tmp_path / "campaign", tiny_arms, None, changes)
    made.store.open(create=True)
    assert not made.store.dictionary_file(dictionary_sha256(tiny_dictionary())).is_file()
    return made


def launched(campaign: Campaign, tokens: Sequence[bytes], **changed: object) -> list[Event]:
    """The reference's launch on a model with another dictionary, or one that is ``changed`` otherwise."""
    path = write_tiny_model(campaign.folder / "other.gguf", tokens=tokens, **changed)
    found = campaign.executions()["f16"]
    assert found.weights is not None
    execution = replace(found, weights=replace(found.weights, path=path, stamp=file_stamp(path)))
    step = Step(execution=execution, window="beta", compare=False, spill=False)
    return list(run_launch(campaign.store, load_protocol(campaign.protocol), execution, [step]))


def test_padding_behind_the_protocols_dictionary_is_dropped(campaign: Campaign) -> None:
    assert isinstance(launched(campaign, [*tiny_dictionary(), b"[PAD32]", b"[PAD33]"])[-1], Finished)


def test_tokens_behind_it_that_the_model_may_say_are_no_padding(campaign: Campaign) -> None:
    """On the shared columns such a model would look like the reference, and its mass elsewhere like padding."""
    with pytest.raises(ModelFileError) as caught:
        launched(campaign, [*tiny_dictionary(), b"[PAD32]", b"<tool>", b"<end>"])
    assert "2 tokens more than the protocol's, the first is id 33, b'<tool>'" in caught.value.line()
    assert "nothing but padding beyond the 32 entries" in caught.value.line()


def test_the_very_first_arm_shows_the_first_difference_too(campaign: Campaign) -> None:
    tokens = tiny_dictionary()
    tokens[21], tokens[9] = tokens[9], tokens[21]
    with pytest.raises(ModelFileError) as caught:
        launched(campaign, tokens)
    line = caught.value.line()
    assert "its dictionary has 32 entries with SHA-256" in line
    assert "; id 21 is b'h' here, and b'the cat ' begins at its place in window alpha-1; expected" in line


def test_a_difference_that_no_window_holds_is_one_all_the_same(campaign: Campaign) -> None:
    tokens = tiny_dictionary()
    tokens[25], tokens[26] = tokens[26], tokens[25]
    with pytest.raises(ModelFileError, match="no window holds an entry that differs"):
        launched(campaign, tokens)


def test_a_smaller_dictionary(campaign: Campaign) -> None:
    with pytest.raises(ModelFileError, match="its dictionary has 30 entries"):
        launched(campaign, tiny_dictionary()[:-2])


@pytest.mark.parametrize("reads_bos", [True, False])
def test_a_tokenizer_that_reads_the_windows_otherwise_is_told_and_scored_by_ids(
    campaign: Campaign, reads_bos: bool
) -> None:
    """The dictionary is the protocol's all the same, so that the ids mean what they should."""
    events = launched(campaign, tiny_dictionary(), reads_bos=reads_bos)
    (probed,) = [event for event in events if isinstance(event, Probed)]
    assert probed.report["remarks"] == ([] if reads_bos else ["round-trip"]) and probed.report["blocking"] == []
    assert isinstance(events[-1], Finished)
