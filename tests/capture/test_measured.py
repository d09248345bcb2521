"""What a server says makes a capture; what is measured of it is kept beside one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from drift_runs.capture.measured import calibrate, said_by
from drift_runs.capture.serving import open_engine
from drift_runs.engines.openai_server.generic import Generic
from drift_runs.engines.registry import Opening
from drift_runs.errors import ServerError
from drift_runs.machine import Place
from drift_runs.store import Store
from tests.engines.canned_server import answering, tokenizer_folder
from tests.engines.conftest import settings
from tests.engines.test_generic import LEGACY, MODELS, NAMED, SIZE


class Drifting:
    """A test double of an engine: what is measured of it is another number in each process."""

    def __init__(self, nats: float) -> None:
        self.nats = nats

    def measured(self) -> tuple[str, ...]:
        return ("offset",)

    def said(self) -> dict[str, str]:
        return {"version": "7", "offset": str(self.nats)}

    def calibration(self) -> dict[str, float]:
        return {"offset_nats": self.nats}

    def calibrate(self, kept: Mapping[str, Any]) -> None:
        self.nats = kept["offset_nats"]


def test_the_first_measured_number_stays_with_a_capture_and_goes_into_no_identity(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first, second = Drifting(0.25), Drifting(0.5)
    assert said_by(first) == said_by(second) == {"version": "7"}
    calibrate(first, store, "aa")
    calibrate(second, store, "aa")
    assert second.nats == 0.25 and store.measured("aa") == {"offset_nats": 0.25}
    # A second pass of the same process is another capture with the number of that process.
    calibrate(second, store, "bb")
    assert store.measured("bb") == {"offset_nats": 0.25}
    third = Drifting(0.75)
    calibrate(third, store, "cc")
    assert (third.nats, store.measured("cc")) == (0.75, {"offset_nats": 0.75})


def test_what_is_used_before_the_first_row_is_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    refused, other = Drifting(0.25), Drifting(0.5)
    calibrate(refused, store, "aa", keep=False)
    assert store.measured("aa") == {}
    calibrate(other, store, "aa", keep=False)
    calibrate(other, store, "aa")
    assert (other.nats, store.measured("aa")) == (0.5, {"offset_nats": 0.5})
    calibrate(refused, store, "aa", keep=False)
    assert refused.nats == 0.5


def test_an_engine_of_which_nothing_is_measured_leaves_no_file(tmp_path: Path) -> None:
    calibrate(object(), Store(tmp_path), "aa")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("changed", ["fingerprint", "interface"])
def test_what_answers_bear_is_said_and_another_one_is_refused_at_its_turn(changed: str, tmp_path: Path) -> None:
    folder = tokenizer_folder(tmp_path, SIZE, named=NAMED)
    with answering({"/v1/models": MODELS, "/v1/completions": LEGACY, "/v1/chat/completions": LEGACY}) as server:
        place = Place(url=server.url, tokenizer=folder)
        with Generic(place, settings(), dictionary_size=SIZE) as engine:
            said = said_by(engine)
        assert (said["interface"], said["fingerprint"]) == ("/v1/completions", "fp_1")
        if changed == "fingerprint":
            server.pages["/v1/completions"] = {**LEGACY, "system_fingerprint": "fp_2"}
        else:
            del server.pages["/v1/completions"]
        opening = Opening(engine="generic", settings=settings(), dictionary_size=SIZE, place=place)
        job = {"opening": opening.as_json(), "said": said, "stamps": {}}
        with pytest.raises(ServerError, match=f"another than when the run began: {changed} was"):
            open_engine(job)
