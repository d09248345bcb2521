"""KL base files of llama.cpp: real ones, damaged ones, and ones whose every entry is known.

``tiny.kld`` and ``tiny-bos.kld`` were written by llama.cpp's own llama-perplexity (0.5.0-dev, CPU) with ``-c 32 -b 32
-t 1 --chunks 4 --no-repack --kl-divergence-base`` from ``tests.tiny_model.write_tiny_model`` (the second with
``add_bos``) and 200 random letters.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.errors import ImportFileError, NonFiniteLogits, NotComparable
from drift_runs.importers import llama_kld
from drift_runs.importers.comparable import reasons_between
from drift_runs.importers.kld_file import HEADER_BYTES, expected_size, open_kld
from drift_runs.kld_run import compare_with_model
from drift_runs.schema import COMPARISON, ROWS, RowFlag
from tests.tiny_model import write_tiny_model

DATA = Path(__file__).resolve().parents[1] / "data" / "imports"
TINY = DATA / "tiny.kld"
TINY_BOS = DATA / "tiny-bos.kld"
STEP_NATS = 16 / 65535
"""The widest distance of two neighbouring entries."""


def stored_row(logits: np.ndarray) -> bytes:
    """A row as the format says, from float64 logits; written here apart from the reader."""
    best = logits.max()
    least = max(logits.min(), best - 16)
    log_sum = math.log(np.exp(logits - best).sum())
    scale = (best - least) / 65535
    entries = np.zeros(len(logits), dtype=np.uint16)
    if scale:
        entries[:] = np.rint((np.maximum(logits, least) - least) / scale)
    padding = b"\0\0" if len(logits) % 2 else b""
    return struct.pack("<ff", scale, least - best - log_sum) + entries.astype("<u2").tobytes() + padding


def write_kld(path: Path, logits: np.ndarray, tokens: np.ndarray, order: str = "<") -> Path:
    """``logits`` float64[chunks, rows, V], ``tokens`` int32[chunks, context]."""
    chunks, _, size = logits.shape
    head = b"_logits_" + struct.pack(order + "3i", tokens.shape[1], size, chunks)
    rows = b"".join(stored_row(row) for chunk in logits for row in chunk)
    path.write_bytes(head + tokens.astype(order + "i4").tobytes() + rows)
    return path


def made(path: Path, *, size: int = 7, context: int = 6, chunks: int = 2, seed: int = 0, spread: float = 3.0) -> Path:
    rng = np.random.default_rng(seed)
    rows = context - 1 - context // 2
    tokens = np.arange(chunks * context).reshape(chunks, context) % size
    return write_kld(path, rng.standard_normal((chunks, rows, size)) * spread, tokens)


def test_the_golden_file_is_read():
    found = llama_kld.read(TINY, top_k=8)
    assert found.table.schema.equals(ROWS, check_metadata=True)
    assert (found.kind, found.top_k, found.cluster, found.divergence) == ("rows", 8, "window", "kl.full")
    assert found.facts["context tokens"] == "32" and found.facts["dictionary size"] == "32"
    assert [window.name for window in found.windows] == ["chunk-0000", "chunk-0001", "chunk-0002", "chunk-0003"]
    assert {window.scored for window in found.windows} == {((17, 32),)}
    assert found.table.num_rows == 4 * 15
    assert found.table["position"].to_pylist()[:15] == list(range(17, 32))
    # History and prediction: the token at a position is the text's token of that index.
    tokens = open_kld(TINY).tokens
    assert found.table["token"].to_pylist() == tokens[:, 17:].ravel().tolist()
    assert any("|sum of probabilities - 1|" in note for note in found.notes)
    assert any("at the floor" in note for note in found.notes)
    assert any("one text" in note for note in found.notes)


def test_top_entries_and_tail_hold_all_the_mass():
    table = llama_kld.read(TINY, top_k=8).table
    for row in table.to_pylist():
        top = math.fsum(math.exp(value) for value in row["top_logprobs"])
        assert top + math.exp(row["tail_logprob"]) == pytest.approx(1, abs=1e-6)
        assert row["row_full"] is None and row["flags"] & RowFlag.NONFINITE == 0


def test_rows_come_in_order_whatever_the_size_of_a_block():
    whole = list(llama_kld.iter_rows(TINY))
    assert [(window, len(rows)) for window, _, _, rows in whole] == [(f"chunk-000{chunk}", 15) for chunk in range(4)]
    small = list(open_kld(TINY).blocks(block_bytes=4 * 32 * 4))
    assert {len(block.positions) for block in small} == {4, 3}
    assert np.array_equal(
        np.concatenate([block.logprobs for block in small]), np.concatenate([rows for *_, rows in whole])
    )
    for block in small:
        assert np.exp(block.logprobs.astype(np.float64)).sum(axis=1) == pytest.approx(1, abs=1e-6)


def test_a_file_against_itself_has_no_divergence():
    table = llama_kld.compare_files(TINY, TINY, top_k=8)
    assert table.schema.equals(COMPARISON, check_metadata=True)
    assert table.num_rows == 60
    assert pc.max(pc.abs(table["kl_full_nats"])).as_py() < 1e-12
    assert not pc.any(table["flip"]).as_py() and pc.all(table["row_identical"]).as_py()
    assert pc.max(table["max_abs_dlogprob"]).as_py() == 0
    assert table["max_abs_dlogit"].null_count == 60


def test_it_takes_what_was_read_already():
    read = llama_kld.read(TINY, top_k=8)
    assert llama_kld.compare_files(read, read, top_k=8).equals(llama_kld.compare_files(TINY, TINY, top_k=8))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 40), spread=st.floats(0, 12))
def test_every_entry_within_half_a_step(tmp_path_factory, seed: int, size: int, spread: float):
    logits = np.random.default_rng(seed).standard_normal((1, 3, size)) * spread
    path = write_kld(tmp_path_factory.mktemp("kld") / "a.kld", logits, np.zeros((1, 8), dtype=np.int32))
    (block,) = open_kld(path).blocks()
    deep = logits[0] - logits[0].max(axis=1, keepdims=True) < -16 + STEP_NATS
    expected = logits[0] - np.log(np.exp(logits[0]).sum(axis=1, keepdims=True))
    assert np.abs(block.logprobs - expected)[~deep].max() < STEP_NATS + 1e-5
    assert block.at_floor <= np.count_nonzero(deep)
    floor = block.logprobs.max(axis=1, keepdims=True) - 16
    below = (floor - block.logprobs)[deep]
    assert np.all((below > -2 * STEP_NATS) & (below < 8.001))
    assert np.exp(block.logprobs.astype(np.float64)).sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_known_divergence_of_two_files(tmp_path: Path):
    p = np.array([[[0.5, 0.25, 0.125, 0.125, 0.0625]]])
    q = np.array([[[0.25, 0.5, 0.125, 0.125, 0.0625]]])
    tokens = np.array([[0, 1, 2]])
    left = write_kld(tmp_path / "p.kld", np.log(p), tokens)
    right = write_kld(tmp_path / "q.kld", np.log(q), tokens)
    (row,) = llama_kld.compare_files(left, right, top_k=2).to_pylist()
    total = p.sum()
    assert row["kl_full_nats"] == pytest.approx(0.25 * math.log(2) / total, rel=1e-3)
    assert row["flip"] and (row["reference_top"], row["candidate_top"]) == (0, 1)
    assert row["position"] == 2 and row["token"] == 2 and not row["row_identical"]
    assert row["reference_nll_nats"] == pytest.approx(-math.log(0.125 / total), abs=STEP_NATS)


def test_an_entry_at_the_floor_of_one_side_is_no_known_difference(tmp_path: Path):
    logits = np.array([[[3.0, 2.0, 1.0, -30.0]]])
    other = np.array([[[3.0, 2.0, -30.0, 1.0]]])
    tokens = np.array([[0, 1, 2]])
    left, right = write_kld(tmp_path / "a.kld", logits, tokens), write_kld(tmp_path / "b.kld", other, tokens)
    (row,) = llama_kld.compare_files(left, right, top_k=2).to_pylist()
    assert row["max_abs_dlogprob"] < STEP_NATS and not row["row_identical"]
    assert row["kl_full_nats"] > 0.5


def test_mass_error_is_that_of_the_floor(tmp_path: Path):
    size = 1000
    logits = np.full((1, 1, size), -40.0)
    logits[0, 0, 3] = 0.0
    path = write_kld(tmp_path / "a.kld", logits, np.array([[0, 1, 2]]))
    notes = llama_kld.read(path, top_k=2).notes
    lifted = (size - 1) * math.exp(-16)
    assert f"is {lifted:.3g} in the mean of 1 rows, {lifted:.3g} at most" in notes[0]
    assert notes[1].startswith("99.900% of the entries stand at the floor")


def test_what_was_lifted_to_the_floor_is_no_divergence(tmp_path: Path):
    """Half of 50,000 entries lie 20 nats deep. Lifted to the floor they would hold 30 times their mass."""
    rng = np.random.default_rng(3)
    logits = np.where(np.arange(50_000) % 2, -20.0, -9.0) + rng.standard_normal((1, 4, 50_000)) / 2
    logits[..., 7] = np.arange(1, 5)
    logits[..., 8] = 1.0
    path = write_kld(tmp_path / "a.kld", logits, np.arange(10).reshape(1, 10))
    (block,) = open_kld(path).blocks()
    exact = logits[0] - np.log(np.exp(logits[0]).sum(axis=1, keepdims=True))
    kl = (np.exp(block.logprobs.astype(np.float64)) * (block.logprobs - exact)).sum(axis=1)
    assert block.at_floor > 40_000 and (block.mass > 1.0005).all()
    assert np.abs(kl).max() < 1e-4


def test_equal_entries_are_no_floor(tmp_path: Path):
    path = write_kld(tmp_path / "a.kld", np.zeros((1, 1, 4)), np.array([[0, 1, 2]]))
    (block,) = open_kld(path).blocks()
    assert block.logprobs == pytest.approx(-math.log(4)) and block.at_floor == 0


def test_a_row_that_is_not_finite_is_counted_and_left_out(tmp_path: Path):
    path = made(tmp_path / "a.kld", chunks=1)
    data = bytearray(path.read_bytes())
    struct.pack_into("<f", data, HEADER_BYTES + 4 * 6, math.nan)
    path.write_bytes(data)
    read = llama_kld.read(path, top_k=2)
    assert [bool(flags & RowFlag.NONFINITE) for flags in read.table["flags"].to_pylist()] == [True, False]
    assert any("1 rows are not finite" in note for note in read.notes)
    compared = llama_kld.compare_files(path, path, top_k=2)
    assert compared["kl_full_nats"].to_pylist()[0] is None and compared["flip"].to_pylist()[0] is None
    assert compared["max_abs_dlogprob"].to_pylist() == [None, 0]


ROW = 2 * (4 + 32)
TOKENS_END = HEADER_BYTES + 4 * 32 * 4


@pytest.mark.parametrize(
    ("length", "named"),
    [
        (0, "no KL base file"),
        (5, "cut off in its header"),
        (8, "cut off in its header"),
        (15, "cut off in its header"),
        (HEADER_BYTES, "cut off in its tokens"),
        (TOKENS_END - 1, "cut off in its tokens"),
        (TOKENS_END, "cut off at chunk 0, row 0:"),
        (TOKENS_END + 7, "cut off at chunk 0, row 0 inside"),
        (TOKENS_END + ROW, "cut off at chunk 0, row 1:"),
        (TOKENS_END + 15 * ROW, "cut off at chunk 1, row 0:"),
        (TOKENS_END + 60 * ROW - 1, "cut off at chunk 3, row 14 inside"),
    ],
)
def test_a_truncated_file_is_refused_at_every_boundary(tmp_path: Path, length: int, named: str):
    path = tmp_path / "cut.kld"
    path.write_bytes(TINY.read_bytes()[:length])
    with pytest.raises(ImportFileError) as caught:
        open_kld(path)
    assert named in str(caught.value) and str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_bytes_behind_the_last_row_are_refused(tmp_path: Path):
    path = tmp_path / "long.kld"
    path.write_bytes(TINY.read_bytes() + b"\0\0")
    with pytest.raises(ImportFileError, match="2 bytes too long"):
        open_kld(path)


@pytest.mark.parametrize(
    ("numbers", "named"),
    [
        ((32, 0, 4), "impossible header"),
        ((32, -1, 4), "impossible header"),
        ((0, 32, 4), "impossible header"),
        ((2, 32, 4), "impossible header"),
        ((32, 32, 0), "impossible header"),
        ((32, 32, -4), "impossible header"),
        ((2**31 - 1, 2**31 - 1, 2**31 - 1), "impossible header"),
        ((2**24, 2**24, 30000), "cut off in its tokens"),
        ((32, 33, 4), "cut off at chunk"),
        ((32, 32, 3), "bytes too long"),
    ],
)
def test_a_header_that_does_not_fit_is_refused_before_anything_is_taken(
    tmp_path: Path, numbers: tuple[int, int, int], named: str
):
    path = tmp_path / "bad.kld"
    path.write_bytes(b"_logits_" + struct.pack("<3i", *numbers) + TINY.read_bytes()[HEADER_BYTES:])
    with pytest.raises(ImportFileError, match=named):
        open_kld(path)


def test_sizes_need_64_bits():
    # One context of 32,768 over 151,936 entries: more bytes than 32 bits can count.
    assert expected_size(32768, 151936, 1) == 20 + 4 * 32768 + 2 * 16383 * (4 + 151936) > 2**32


def test_offsets_beyond_32_bits(tmp_path: Path):
    """A sparse file of more than 4 GiB: its last row is found."""
    context, size, chunks = 8192, 262144, 3
    path = tmp_path / "large.kld"
    total = expected_size(context, size, chunks)
    assert total > 2**32
    logits = np.zeros(size)
    logits[5] = 10.0
    last = stored_row(logits)
    try:
        with path.open("wb") as file:
            file.write(b"_logits_" + struct.pack("<3i", context, size, chunks))
            file.truncate(total)
            file.seek(total - len(last))
            file.write(last)
    except OSError as error:
        pytest.skip(f"needs sparse files of 4 GiB: {error}")
    if path.stat().st_blocks * 512 > 2**26:
        pytest.skip("needs a file system with sparse files")
    found = open_kld(path)
    assert (found.chunks, found.rows_per_chunk) == (3, 4095)
    block = found.block(2, slice(4094, None))
    assert block.positions.tolist() == [8191]
    assert block.logprobs[0].argmax() == 5 and block.mass[0] == pytest.approx(1, abs=1e-3)


def test_the_other_byte_order_is_named(tmp_path: Path):
    path = write_kld(tmp_path / "big.kld", np.zeros((1, 1, 4)), np.array([[0, 1, 2]]), order=">")
    with pytest.raises(ImportFileError, match="big-endian"):
        open_kld(path)


@pytest.mark.parametrize(("offset", "value", "named"), [(0, -1.0, "scale -1"), (4, 3.0, "best log-probability")])
def test_a_row_that_no_base_file_holds_is_refused(tmp_path: Path, offset: int, value: float, named: str):
    path = made(tmp_path / "a.kld", chunks=1)
    data = bytearray(path.read_bytes())
    struct.pack_into("<f", data, HEADER_BYTES + 4 * 6 + offset, value)
    path.write_bytes(data)
    with pytest.raises(ImportFileError, match=named) as caught:
        llama_kld.read(path)
    assert "chunk-0000 position 4" in str(caught.value)


def test_a_row_that_is_no_distribution_is_refused(tmp_path: Path):
    path = made(tmp_path / "a.kld", chunks=1)
    data = bytearray(path.read_bytes())
    struct.pack_into("<ff", data, HEADER_BYTES + 4 * 6, 0.0, -9.0)
    path.write_bytes(data)
    with pytest.raises(ImportFileError, match="sum to"):
        llama_kld.read(path)


def test_a_token_outside_the_dictionary_is_refused(tmp_path: Path):
    path = made(tmp_path / "a.kld")
    data = bytearray(path.read_bytes())
    struct.pack_into("<i", data, HEADER_BYTES + 4 * 7, 7)
    path.write_bytes(data)
    with pytest.raises(ImportFileError, match="token id 7") as caught:
        open_kld(path)
    assert "chunk 1, token 1" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "named"),
    [({"size": 8}, "dictionary of"), ({"context": 8}, "context of"), ({"chunks": 3}, "chunks of")],
)
def test_files_of_another_shape_are_not_compared(tmp_path: Path, change: dict[str, int], named: str):
    left, right = made(tmp_path / "a.kld"), made(tmp_path / "b.kld", **change)
    with pytest.raises(NotComparable, match=named) as caught:
        llama_kld.compare_files(left, right)
    assert "\n" not in str(caught.value)


def test_files_of_other_tokens_are_not_compared():
    with pytest.raises(NotComparable, match="123 tokens differ, the first is token 0 of chunk-0000") as caught:
        llama_kld.compare_files(TINY, TINY_BOS)
    assert "same text" in str(caught.value)


def test_no_file(tmp_path: Path):
    with pytest.raises(ImportFileError, match="no such file"):
        llama_kld.read(tmp_path / "none.kld")
    with pytest.raises(ImportFileError, match="not a regular file"):
        llama_kld.read(tmp_path)


@pytest.mark.parametrize(("golden", "add_bos"), [(TINY, False), (TINY_BOS, True)])
def test_the_same_model_run_here_differs_by_the_rounding_alone(tmp_path: Path, golden: Path, add_bos: bool):
    model = write_tiny_model(tmp_path / "tiny.gguf", add_bos=add_bos)
    told = []
    run = compare_with_model(golden, model, top_k=8, on_chunk=lambda done, of: told.append((done, of)))
    table = run.comparison
    assert table.schema.equals(COMPARISON, check_metadata=True) and table.num_rows == 60
    # Half a step of rounding changes a log-probability by at most 1.2e-4, and KL by about its square.
    assert pc.max(pc.abs(table["kl_full_nats"])).as_py() < 1e-6
    assert not pc.any(table["flip_strict"]).as_py()
    ties = pc.greater(table["reference_margin"], 2 * STEP_NATS)
    assert not pc.any(pc.and_(table["flip"], ties)).as_py()
    nll = np.array(table["reference_nll_nats"]) - np.array(table["candidate_nll_nats"])
    assert np.abs(nll[np.array(table["candidate_nll_nats"]) < 10]).max() < STEP_NATS
    assert told[0] == (0, 4) and told[-1] == (4, 4)
    assert any("BOS" in note and (("token 0" in note) == add_bos) for note in run.candidate.notes)
    assert reasons_between(llama_kld.read(golden, top_k=8), run.candidate) == ()
    assert run.candidate.facts["model"] == "tiny.gguf" and "llama_cpp" in run.candidate.facts["engine"]


def test_without_the_bos_the_model_disagrees(tmp_path: Path):
    """The proof that the token in front matters, and that the run puts it there."""
    model = write_tiny_model(tmp_path / "tiny.gguf", add_bos=False)
    table = compare_with_model(TINY_BOS, model, top_k=8).comparison
    assert pc.max(table["kl_full_nats"]).as_py() > 1e-3


def test_a_quantised_model_is_seen(tmp_path: Path):
    from drift_runs.weights.variants import write_variant

    model = write_tiny_model(tmp_path / "tiny.gguf")
    write_variant(model, tmp_path / "q4_0.gguf", weights="q4_0")
    table = compare_with_model(TINY, tmp_path / "q4_0.gguf", top_k=8).comparison
    # llama-perplexity's own answer for this pair is 0.06534, with 49 of 60 best tokens equal. Its Q4_0 kernel rounds
    # activations otherwise than the engine here.
    assert pc.mean(table["kl_full_nats"]).as_py() == pytest.approx(0.06534, rel=0.02)
    assert pc.sum(table["flip"]).as_py() in (11, 12)


def test_a_model_of_another_dictionary_is_refused(tmp_path: Path):
    model = write_tiny_model(tmp_path / "tiny.gguf")
    with pytest.raises(NotComparable, match="the model has 32 tokens, the base file 7"):
        compare_with_model(made(tmp_path / "a.kld"), model)


def test_a_model_that_gives_nan_is_named(tmp_path: Path):
    model = write_tiny_model(tmp_path / "tiny.gguf", poison="output.weight")
    with pytest.raises(NonFiniteLogits, match="chunk-0000, position 17"):
        compare_with_model(TINY, model)
