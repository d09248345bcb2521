"""A GGUF as a Hugging Face folder: the same model to another reader, and a folder that is whole or absent."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import pytest

from drift_runs.engines.hf_dictionary import token_bytes_of
from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.errors import ConfigError, ModelFileError
from drift_runs.weights.gguf_file import open_reader
from drift_runs.weights.hf_folder import main, write_hf_folder
from tests.engines.conftest import rows, settings
from tests.numpy_llama import llama_logits, read_weights
from tests.tiny_model import write_tiny_model


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "tiny.gguf", added={})


def test_the_folder_is_the_same_model(source: Path, tmp_path: Path, tokens: list[int]) -> None:
    write_hf_folder(source, tmp_path / "hf", dtype="float32")
    config = json.loads((tmp_path / "hf" / "config.json").read_text("utf-8"))
    expected = llama_logits(read_weights(tmp_path / "hf" / "model.safetensors"), config, tokens[:-1])
    with LlamaCpp(source, settings(kv="f32", flash_attention="off")) as engine:
        found = rows(engine, tokens)
        assert token_bytes_of(tmp_path / "hf", engine.dictionary_size) == engine.token_bytes()
    # Both are float arithmetic of the same weights; logits reach about 10.
    assert np.abs(found - expected).max() < 2e-4
    assert np.ptp(expected) > 5


@pytest.mark.parametrize(("dtype", "step"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8), ("float32", 0.0)])
def test_weights_are_rounded_to_nearest(source: Path, tmp_path: Path, dtype: str, step: float) -> None:
    write_hf_folder(source, tmp_path / "hf", dtype=dtype)
    found = read_weights(tmp_path / "hf" / "model.safetensors")["model.layers.0.mlp.up_proj.weight"]
    exact = next(t for t in open_reader(source).tensors if t.name == "blk.0.ffn_up.weight").data
    assert found.shape == exact.shape
    assert (np.abs(found - exact) <= step * np.abs(exact)).all()


def test_the_configuration_says_what_the_weights_were(tmp_path: Path) -> None:
    from drift_runs.weights.variants import write_variant

    write_variant(write_tiny_model(tmp_path / "f16.gguf"), tmp_path / "q4.gguf", weights="q4_0")
    write_hf_folder(tmp_path / "q4.gguf", tmp_path / "hf", dtype="bfloat16")
    made = json.loads((tmp_path / "hf" / "config.json").read_text("utf-8"))["drift_runs"]
    assert made["made_from"] == "q4.gguf"
    assert made["made_from_types"].startswith("q4_0 9")
    assert "not the original model" in made["note"]


def test_begin_is_put_in_front_where_the_file_asks_for_it(tmp_path: Path) -> None:
    write_hf_folder(write_tiny_model(tmp_path / "tiny.gguf", add_bos=True), tmp_path / "hf", dtype="float16")
    content = json.loads((tmp_path / "hf" / "tokenizer.json").read_text("utf-8"))
    assert content["post_processor"]["special_tokens"]["<s>"]["ids"] == [0]
    assert content["post_processor"]["single"][0]["SpecialToken"]["id"] == "<s>"
    assert [token["content"] for token in content["added_tokens"] if token["special"]] == ["<s>", "</s>"]


def other_file(path: Path, *, key: str = "", tensor: str = "") -> Path:
    """A file of the header that a Llama model has, with one key or tensor changed."""
    writer = gguf.GGUFWriter(path, "qwen2" if key == "architecture" else "llama")
    arch = writer.arch
    for name, number in (("context_length", 64), ("embedding_length", 8), ("block_count", 1), ("head_count", 2)):
        name = "attention.head_count" if name == "head_count" else name
        if name != key:
            writer.add_uint32(f"{arch}.{name}", number)
    writer.add_feed_forward_length(16)
    writer.add_layer_norm_rms_eps(1e-5)
    if key == "scaling":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    if key == "expert_count":
        writer.add_expert_count(4)
    writer.add_tokenizer_model("llama" if key == "model" else "gpt2")
    writer.add_tokenizer_pre("deepseek-llm" if key == "pre" else "gpt-2")
    writer.add_token_list(["a", "a" if key == "twice" else "b"])
    if key == "eos":
        writer.add_eos_token_id(7)
    writer.add_tensor(tensor or "token_embd.weight", np.ones((2, 8), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"key": "architecture"}, "general.architecture is 'qwen2'"),
        ({"key": "block_count"}, "llama.block_count is None"),
        ({"key": "scaling"}, "llama.rope.scaling.type is 'yarn'"),
        ({"key": "expert_count"}, "experts"),
        ({"key": "model"}, "tokenizer.ggml.model is 'llama'"),
        ({"key": "pre"}, "tokenizer.ggml.pre is 'deepseek-llm'"),
        ({"key": "twice"}, "two ids have the same text"),
        ({"key": "eos"}, "eos_token_id is 7"),
        ({"tensor": "blk.0.attn_q.bias"}, "blk.0.attn_q.bias has no place"),
        ({"tensor": "rope_freqs.weight"}, "rope_freqs.weight has no place"),
    ],
)
def test_what_has_no_place_in_a_llama_folder_is_refused(tmp_path: Path, changed: dict, named: str) -> None:
    source = other_file(tmp_path / "other.gguf", **changed)
    with pytest.raises(ModelFileError, match=named):
        write_hf_folder(source, tmp_path / "hf", dtype="float32")
    assert [file.name for file in tmp_path.iterdir()] == ["other.gguf"]


def test_a_folder_that_exists_is_left_alone(source: Path, tmp_path: Path) -> None:
    (tmp_path / "hf").mkdir()
    with pytest.raises(ConfigError, match="exists"):
        write_hf_folder(source, tmp_path / "hf", dtype="float32")
    assert not list((tmp_path / "hf").iterdir())


def test_the_command_says_where_the_folder_is_or_what_was_wrong(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(source), str(tmp_path / "hf"), "--dtype", "float16"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "hf")
    assert main([str(tmp_path / "none.gguf"), str(tmp_path / "other")]) == 5
    assert "no such file" in capsys.readouterr().err
    (tmp_path / "text.gguf").write_text("no model")
    assert main([str(tmp_path / "text.gguf"), str(tmp_path / "other")]) == 5
    assert "not a readable GGUF file" in capsys.readouterr().err
