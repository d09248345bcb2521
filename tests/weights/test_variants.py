"""Weight files made in numpy: types, errors of rounding, what is kept, and a file that is whole or absent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize

from drift_runs.engines.gguf_header import tensor_table
from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.errors import ConfigError, ModelFileError
from drift_runs.weights import variants
from drift_runs.weights.gguf_file import inspect, open_reader
from drift_runs.weights.variants import WEIGHT_TYPES, ablation, write_variant
from tests.engines.conftest import rows, settings

BOUNDS = {
    "f16": 0.0,
    "bf16": 2.0**-8,
    "q8_0": 0.5 / 127 + 1e-3,
    "q5_0": 1 / 16 + 1e-3,
    "q5_1": 1 / 31 + 1e-3,
    "q4_0": 1 / 8 + 1e-3,
    "q4_1": 1 / 15 + 1e-3,
    "mxfp4": 1 / 4,
}
"""Largest error of a weight over the largest weight of its block of 32. The signed types have one level more below zero
than above, so a weight as large as the largest and of the other sign loses a whole step. MXFP4 scales by a power of two
alone: a largest weight just below 8 times it becomes 6."""


def tensors(path: Path) -> dict[str, np.ndarray]:
    return {
        tensor.name: dequantize(tensor.data, tensor.tensor_type).reshape([int(n) for n in reversed(tensor.shape)])
        for tensor in open_reader(path).tensors
    }


@pytest.fixture(scope="module")
def f16(tiny_arms: Path) -> Path:
    return tiny_arms.parent / "f16.gguf"


@pytest.mark.parametrize("weights", WEIGHT_TYPES)
def test_every_type(f16: Path, tmp_path: Path, weights: str) -> None:
    target = tmp_path / "deep" / f"{weights}.gguf"
    write_variant(f16, target, weights=weights)
    found = inspect(target)
    assert found.dominant == weights
    types = {tensor.name: tensor.tensor_type.name.lower() for tensor in open_reader(target).tensors}
    outer = "q8_0" if weights in ("q4_0", "q4_1", "q5_0", "q5_1", "mxfp4") else weights
    assert types["token_embd.weight"] == types["output.weight"] == outer
    assert types["blk.0.attn_q.weight"] == types["blk.1.ffn_down.weight"] == weights
    assert types["blk.0.attn_norm.weight"] == types["output_norm.weight"] == "f32"
    before, after = tensors(f16), tensors(target)
    assert before.keys() == after.keys()
    for name in ("blk.0.attn_q.weight", "blk.1.ffn_down.weight"):
        blocks, made = before[name].reshape(-1, 32), after[name].reshape(-1, 32)
        error = np.abs(blocks - made).max(axis=1) / np.abs(blocks).max(axis=1)
        assert error.max() <= BOUNDS[weights]
        assert weights == "f16" or error.max() > BOUNDS[weights] / 10
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def test_a_variant_loads_and_answers_much_like_its_source(f16: Path, tmp_path: Path) -> None:
    write_variant(f16, tmp_path / "q8_0.gguf", weights="q8_0")
    tokens = [0, *range(2, 20)]
    with LlamaCpp(f16, settings()) as one, LlamaCpp(tmp_path / "q8_0.gguf", settings()) as two:
        reference, made = rows(one, tokens), rows(two, tokens)
        assert one.token_bytes() == two.token_bytes()
    difference = np.abs(reference - made).max()
    assert 0 < difference < 0.5


def test_the_engine_reads_mxfp4_as_it_was_meant(f16: Path, tmp_path: Path) -> None:
    """Its values fit F16, so the same weights in F16 differ only by how the engine rounds what it multiplies."""
    write_variant(f16, tmp_path / "mxfp4.gguf", weights="mxfp4")
    write_variant(tmp_path / "mxfp4.gguf", tmp_path / "same.gguf", weights="f16")
    before, after = tensors(tmp_path / "mxfp4.gguf"), tensors(tmp_path / "same.gguf")
    assert np.array_equal(before["blk.0.attn_q.weight"], after["blk.0.attn_q.weight"])
    tokens = [0, *range(2, 20)]
    found = []
    for path in (f16, tmp_path / "mxfp4.gguf", tmp_path / "same.gguf"):
        with LlamaCpp(path, settings()) as engine:
            found.append(rows(engine, tokens))
    plain, quantised, same = found
    assert 0 < np.abs(quantised - same).mean() < np.abs(quantised - plain).mean() / 5


def test_metadata_stays(f16: Path, tmp_path: Path) -> None:
    """Tokens, merges and the rest; a chat template with what TOML and JSON would escape."""
    source = tmp_path / "source.gguf"
    with_template(f16, source, "{% for m in messages %}<|im_start|>{{ m['role'] }}\n\"ünï\"\t{% endfor %}")
    write_variant(source, tmp_path / "q4_0.gguf", weights="q4_0")
    before, after = (
        {
            name: field.contents()
            for name, field in open_reader(path).fields.items()
            if not name.startswith("GGUF.") and name != "general.file_type"
        }
        for path in (source, tmp_path / "q4_0.gguf")
    )
    assert before == after
    assert len(after["tokenizer.ggml.tokens"]) == 32 and after["tokenizer.ggml.merges"] == ["a b"]
    assert "ünï" in after["tokenizer.chat_template"]
    file_type = open_reader(tmp_path / "q4_0.gguf").get_field("general.file_type").contents()
    assert file_type == gguf.LlamaFileType.MOSTLY_Q4_0


def with_template(source: Path, target: Path, template: str) -> None:
    reader = open_reader(source)
    writer = gguf.GGUFWriter(target, "llama")
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type=sub_type)
    writer.add_chat_template(template)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_equal_sources_give_equal_bytes(f16: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_variant(f16, tmp_path / f"{name}.gguf", weights="q5_1")
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()


def test_an_unknown_type(f16: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot write weights as 'q4_k'; expected one of f16.*llama-quantize"):
        write_variant(f16, tmp_path / "x.gguf", weights="q4_k")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_nothing(f16: Path, tmp_path: Path) -> None:
    def fails(name: str, matrix: np.ndarray) -> np.ndarray:
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        write_variant(f16, tmp_path / "x.gguf", weights="f16", edit=fails)
    assert list(tmp_path.iterdir()) == []


def test_a_kill_leaves_no_target(f16: Path, tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from drift_runs.weights.variants import write_variant\n"
        "def slow(name, matrix):\n"
        "    print(name, flush=True); time.sleep(60); return matrix\n"
        "write_variant(Path(sys.argv[1]), Path(sys.argv[2]), weights='q8_0', edit=slow)\n"
    )
    target = tmp_path / "x.gguf"
    process = subprocess.Popen([sys.executable, "-c", code, str(f16), str(target)], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline().startswith(b"token_embd")
    deadline = time.monotonic() + 10
    while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    (left,) = tmp_path.iterdir()
    assert left.name.endswith(".part") and not target.exists()
    write_variant(f16, target, weights="q8_0")
    assert inspect(target).dominant == "q8_0"
    assert list(tmp_path.iterdir()) == [target], "what the killed process left is cleared"


class TestAblation:
    @pytest.fixture
    def words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Words that the tiny dictionary has."""
        monkeypatch.setattr(variants, "REFUSAL_WORDS", ("a", "b", "never"))
        monkeypatch.setattr(variants, "CONSENT_WORDS", ("x", "y"))

    def direction(self, embedding: np.ndarray) -> np.ndarray:
        """Written out: letters begin at id 2; the mean embedding is projected out."""
        wanted = embedding[[2, 3]].mean(axis=0) - embedding[[25, 26]].mean(axis=0)
        common = embedding.mean(axis=0)
        wanted = wanted - common * (common @ wanted) / (common @ common)
        return wanted / np.linalg.norm(wanted)

    def test_the_direction_is_gone_from_what_writes_to_the_residual(
        self, words: None, f16: Path, tmp_path: Path
    ) -> None:
        write_variant(f16, tmp_path / "ablated.gguf", weights="f16", edit=ablation(f16))
        before, after = tensors(f16), tensors(tmp_path / "ablated.gguf")
        direction = self.direction(before["token_embd.weight"].astype(np.float64))
        for name in before:
            if name.endswith(("attn_output.weight", "ffn_down.weight")):
                along, left = direction @ before[name].astype(np.float64), direction @ after[name].astype(np.float64)
                rounding = np.abs(after[name]).max() * 2.0**-11 * np.abs(direction).sum()
                assert np.abs(left).max() <= rounding < np.abs(along).max() / 20
                assert np.linalg.norm(after[name]) > 0.9 * np.linalg.norm(before[name])
            else:
                assert np.array_equal(before[name], after[name]), name

    def test_a_model_without_the_words(self, f16: Path) -> None:
        with pytest.raises(ConfigError, match="no word of the list is one token"):
            ablation(f16)


class TestInspect:
    def test_types_and_digest(self, tiny_arms: Path) -> None:
        import hashlib

        path = tiny_arms.parent / "q4_0.gguf"
        found = inspect(path)
        assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert found.size_bytes == path.stat().st_size
        assert found.dominant == "q4_0" and found.label == "q4_0 97%, q8_0 3%"
        assert [kind for kind, _ in found.types] == ["q4_0", "q8_0", "f32"]

    def test_the_table_is_the_one_that_the_python_reader_sees(self, tiny_arms: Path) -> None:
        path = tiny_arms.parent / "q4_0.gguf"
        expected = {
            (
                tensor.name,
                tensor.tensor_type.name.lower(),
                int(tensor.n_elements),
                int(tensor.data_offset + tensor.n_bytes),
            )
            for tensor in open_reader(path).tensors
        }
        assert {tuple(entry) for entry in tensor_table(path)} == expected

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(ModelFileError, match=r"none\.gguf: no such file"):
            inspect(tmp_path / "none.gguf")

    def test_a_name_that_the_system_refuses(self, tmp_path: Path) -> None:
        with pytest.raises(ModelFileError, match=r"n\.gguf: cannot be read: File name too long; expected a GGUF model"):
            inspect(tmp_path / ("n" * 300 + "n.gguf"))

    @pytest.mark.parametrize("kept", [0.0, 0.001, 0.01, 0.3, 0.999])
    def test_a_file_that_is_cut(self, tiny_arms: Path, tmp_path: Path, kept: float) -> None:
        whole = (tiny_arms.parent / "f16.gguf").read_bytes()
        path = tmp_path / "cut.gguf"
        path.write_bytes(whole[: int(len(whole) * kept)])
        with pytest.raises(ModelFileError, match=r"cut\.gguf: (not a readable GGUF file|the file is cut short)"):
            inspect(path)

    def test_a_text(self, tmp_path: Path) -> None:
        (tmp_path / "a.gguf").write_text("no model\n" * 50)
        with pytest.raises(ModelFileError, match="not a readable GGUF file"):
            inspect(tmp_path / "a.gguf")


def test_the_demo_model(smollm2: Path) -> None:
    """The shipped file is what every report says that it is."""
    found = inspect(smollm2)
    assert found.dominant == "q4_1" and found.label == "q4_1 79%, q8_0 21%"
    reader = open_reader(smollm2)
    edit = ablation(smollm2)
    tensor = next(tensor for tensor in reader.tensors if tensor.name == "blk.7.ffn_down.weight")
    matrix = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    edited = edit(tensor.name, matrix)
    removed = (matrix - edited).astype(np.float64)
    column = removed[:, np.abs(removed).sum(axis=0).argmax()]
    column /= np.linalg.norm(column)
    rest = removed - np.outer(column, column @ removed)
    assert np.linalg.norm(rest) < 1e-3 * np.linalg.norm(removed), "one direction was removed"
    assert 0 < np.linalg.norm(removed) < 0.3 * np.linalg.norm(matrix)
