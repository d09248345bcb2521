"""Folders of weights: what they hold by their bytes, what changes their digest, and which are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from drift_runs.errors import ModelFileError
from drift_runs.weights.folder_file import INDEX, folder_stamp, inspect_folder
from drift_runs.weights.safetensors_file import StoredTensor, read_header, write_tensors

PLAIN = {"a.weight": ("F16", (4, 64)), "norm.weight": ("F32", (16,))}


def write_shard(path: Path, tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> Path:
    stored = [StoredTensor(name, kind, shape) for name, (kind, shape) in tensors.items()]
    width = {"F16": 2, "F32": 4, "U32": 4, "U8": 1, "BF16": 2}
    arrays = (np.zeros(tensor.elements * width[tensor.type], np.uint8) for tensor in stored)
    write_tensors(path, stored, arrays, metadata={"format": "pt"})
    return path


def write_folder(folder: Path, tensors: Mapping[str, tuple[str, tuple[int, ...]]] = PLAIN, **config: object) -> Path:
    folder.mkdir(exist_ok=True)
    write_shard(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **config}), "utf-8")
    (folder / "tokenizer.json").write_text("{}", "utf-8")
    return folder


def test_types_come_from_the_tensors(tmp_path: Path) -> None:
    found = inspect_folder(write_folder(tmp_path / "m"))
    assert found.types == (("f16", 256), ("f32", 16))
    assert (found.dominant, found.label) == ("f16", "f16 94%, f32 6%")
    assert found.size_bytes == sum(file.stat().st_size for file in (tmp_path / "m").iterdir())


def test_packed_weights_of_mlx_count_as_what_they_stand_for(tmp_path: Path) -> None:
    packed = {
        "a.weight": ("U32", (4, 8)),
        "a.scales": ("F32", (4, 1)),
        "a.biases": ("F32", (4, 1)),
        "b.weight": ("U32", (2, 32)),
        "b.scales": ("F32", (2, 4)),
        "b.biases": ("F32", (2, 4)),
        "norm.weight": ("F32", (16,)),
    }
    how = {"group_size": 64, "bits": 4, "mode": "affine", "b": {"group_size": 32, "bits": 8}, "c": False}
    assert inspect_folder(write_folder(tmp_path / "m", packed, quantization=how)).types == (
        ("q4_g64", 256),
        ("q8_g32", 256),
        ("f32", 16),
    )


@pytest.mark.parametrize("how", [None, {"group_size": 64, "bits": 8}, {"group_size": 64}, {"group_size": 0, "bits": 4}])
def test_a_packed_folder_with_another_configuration_is_refused(tmp_path: Path, how: dict | None) -> None:
    packed = {"a.weight": ("U32", (4, 8)), "a.scales": ("F32", (4, 1))}
    with pytest.raises(ModelFileError, match="config"):
        inspect_folder(write_folder(tmp_path / "m", packed, quantization=how))


def test_the_digest_is_of_weights_configuration_and_tokenizer(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    first = inspect_folder(folder)
    (folder / "README.md").write_text("a model")
    (folder / "pytorch_model.bin").write_bytes(b"never read")
    assert inspect_folder(folder).sha256 == first.sha256
    assert folder_stamp(folder) == first.stamp
    (folder / "tokenizer.json").write_text("{} ", "utf-8")
    second = inspect_folder(folder)
    assert second.sha256 != first.sha256
    assert second.stamp != first.stamp
    moved = write_folder(tmp_path / "moved")
    assert inspect_folder(moved).sha256 == first.sha256
    (moved / "model.safetensors").rename(moved / "other.safetensors")
    assert inspect_folder(moved).sha256 != first.sha256


def test_a_folder_in_shards_is_whole_or_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m", {"a.weight": ("F16", (8,))})
    write_shard(folder / "second.safetensors", {"b.weight": ("F16", (4,))})
    names = {"a.weight": "model.safetensors", "b.weight": "second.safetensors"}
    (folder / INDEX).write_text(json.dumps({"weight_map": names}), "utf-8")
    assert inspect_folder(folder).types == (("f16", 12),)
    (folder / "second.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"second\.safetensors does not hold b\.weight"):
        inspect_folder(folder)


def test_folders_without_weights_that_may_be_opened_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no such folder"):
        inspect_folder(tmp_path / "none")
    folder = write_folder(tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelFileError, match="no pickle"):
        inspect_folder(folder)
    (folder / "pytorch_model.bin").rename(folder / "model.safetensors")
    (folder / "config.json").unlink()
    with pytest.raises(ModelFileError, match=r"no config\.json"):
        inspect_folder(folder)


def damaged(path: Path, header: object, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


@pytest.mark.parametrize(
    ("header", "data", "named"),
    [
        (b"{", b"", "header"),
        (b"[]", b"", "header"),
        (b"nonsense", b"", "JSON"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"1234567", "7"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"123456789", "bytes"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}, b"123456789012", "without a gap"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"1234", "of their size"),
        ({"a": {"dtype": "F3", "shape": [2], "data_offsets": [0, 4]}}, b"1234", "'F3'"),
        ({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, b"1234", "shape"),
        ({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, b"1234", "shape"),
    ],
)
def test_a_damaged_container_is_refused(tmp_path: Path, header: object, data: bytes, named: str) -> None:
    with pytest.raises(ModelFileError, match=named):
        read_header(damaged(tmp_path / "m.safetensors", header, data))


def test_a_header_that_is_longer_than_the_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes((2**40).to_bytes(8, "little") + b"{}")
    with pytest.raises(ModelFileError, match="header would be"):
        read_header(tmp_path / "m.safetensors")
    (tmp_path / "empty.safetensors").write_bytes(b"")
    with pytest.raises(ModelFileError, match="header would be"):
        read_header(tmp_path / "empty.safetensors")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    stored = [StoredTensor("b", "F32", (2, 3)), StoredTensor("a", "F16", (5,)), StoredTensor("none", "F32", (0, 4))]
    arrays = [np.arange(6, dtype="<f4").reshape(2, 3), np.ones(5, "<f2"), np.empty((0, 4), "<f4")]
    write_tensors(tmp_path / "m.safetensors", stored, iter(arrays), metadata={"made": "here"})
    assert read_header(tmp_path / "m.safetensors") == stored
    assert (tmp_path / "m.safetensors").read_bytes().endswith(arrays[0].tobytes() + arrays[1].tobytes())
