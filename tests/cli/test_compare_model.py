"""``drift compare`` of a KL base file: with another one, and with a model that is run here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drift_runs.cli.main import main
from tests.tiny_model import write_tiny_model

TINY = Path(__file__).resolve().parents[1] / "data" / "imports" / "tiny.kld"


def compared(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict, str]:
    code = main(["compare", *map(str, arguments), "--format", "llama-kld", "--resamples", "100", "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else {}, err


def test_the_model_that_wrote_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_tiny_model(tmp_path / "tiny.gguf")
    code, document, _ = compared(capsys, TINY, model)
    assert code == 0
    assert document["comparability"]["comparable"]
    assert document["figures"]["kl.full"]["n"] == 60
    assert abs(document["figures"]["kl.full"]["mean"]) < 1e-6
    assert document["figures"]["flip.strict"]["count"] == 0
    assert document["b"]["facts"]["model"] == "tiny.gguf"
    notes = " ".join(document["notes"])
    assert "run here over the tokens of tiny.kld" in notes and "|sum of probabilities - 1|" in notes


def test_a_file_and_itself(capsys: pytest.CaptureFixture[str]) -> None:
    code, document, _ = compared(capsys, TINY, TINY)
    assert code == 0
    assert document["figures"]["row.kld16"]["identical"] == 60
    assert document["figures"]["kl.full"]["max"] == 0
    code, _, err = compared(capsys, TINY, TINY, "--must-differ")
    assert code == 5 and "say the same" in err


def test_files_of_other_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    code, document, err = compared(capsys, TINY, TINY.with_name("tiny-bos.kld"))
    assert code == 2 and not document["comparability"]["comparable"] and document["figures"] == {}
    assert "not comparable" in err


def test_no_thread_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document, err = compared(capsys, TINY, tmp_path / "none.gguf", "--threads", 0)
    assert code == 2 and document == {} and "--threads 0" in err
