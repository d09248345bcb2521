"""A GGUF as a Hugging Face folder: the same model to another reader, and a folder that is whole or absent."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from drift_runs.engines.hf_dictionary import token_bytes_of
from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.errors import ConfigError, ModelFileError
from drift_runs.weights.gguf_file import open_reader
from drift_runs.weights.hf_folder import main, write_hf_folder
from drift_runs.weights.safetensors_file import read_header
from tests.engines.conftest import rows, settings
from tests.tiny_model import write_tiny_model

Weights = dict[str, NDArray[np.float32]]


def read_weights(file: Path) -> Weights:
    """The tensors of a file, read once more by hand: header, then bytes in the order of the header."""
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for tensor in read_header(file):
        width = {"F32": 4, "F16": 2, "BF16": 2}[tensor.type]
        part = data[start : start + width * tensor.elements]
        start += len(part)
        if tensor.type == "BF16":
            values = (np.frombuffer(part, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(part, "<f4" if width == 4 else "<f2").astype(np.float32)
        found[tensor.name] = values.reshape(tensor.shape)
    return found


def llama_logits(weights: Weights, config: dict, tokens: list[int]) -> NDArray[np.float64]:
    """The model as Hugging Face's Llama computes it, in float64: a rotation turns a head's first and second half."""
    heads, groups, size = (config[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    count = len(tokens)
    angles = np.arange(count)[:, None] * config["rope_theta"] ** (-np.arange(0, size, 2) / size)
    cosine, sine = (np.concatenate([f(angles)] * 2, axis=1)[:, None] for f in (np.cos, np.sin))

    def matrix(name: str) -> NDArray[np.float64]:
        return weights[f"{name}.weight"].astype(np.float64).T

    def normed(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + config["rms_norm_eps"]) * weights[f"{name}.weight"]

    def turned(x: NDArray[np.float64]) -> NDArray[np.float64]:
        first, second = np.split(x, 2, axis=-1)
        return x * cosine + np.concatenate([-second, first], axis=-1) * sine

    x = weights["model.embed_tokens.weight"][tokens].astype(np.float64)
    for layer in range(config["num_hidden_layers"]):
        block = f"model.layers.{layer}"
        y = normed(x, f"{block}.input_layernorm")
        q, k, v = (
            (y @ matrix(f"{block}.self_attn.{name}_proj")).reshape(count, number, size)
            for name, number in (("q", heads), ("k", groups), ("v", groups))
        )
        k, v = np.repeat(turned(k), heads // groups, axis=1), np.repeat(v, heads // groups, axis=1)
        scores = np.einsum("qhd,khd->hqk", turned(q), k) / np.sqrt(size)
        scores[:, np.triu(np.ones((count, count), dtype=bool), 1)] = -np.inf
        share = np.exp(scores - scores.max(axis=-1, keepdims=True))
        share /= share.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", share, v).reshape(count, -1)
        x = x + mixed @ matrix(f"{block}.self_attn.o_proj")
        y = normed(x, f"{block}.post_attention_layernorm")
        gate = y @ matrix(f"{block}.mlp.gate_proj")
        x = x + gate / (1 + np.exp(-gate)) * (y @ matrix(f"{block}.mlp.up_proj")) @ matrix(f"{block}.mlp.down_proj")
    return normed(x, "model.norm") @ matrix("lm_head")


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
