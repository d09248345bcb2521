"""The lock: its bytes, what it refuses, and what an amendment must say."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift_runs.errors import LockMismatch, ProtocolError
from drift_runs.protocol.amend import superseded_lock
from drift_runs.protocol.canonical import canonical_json, protocol_sha256, write_atomically
from drift_runs.protocol.freeze import check_lock, freeze
from drift_runs.protocol.load import load_protocol
from drift_runs.protocol.lock import lock_path, read_lock
from tests.conftest import DELETE, TINY, change_json, change_toml, copy_tiny

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


@given(json_values)
def test_canonical_json_is_read_back_and_stays_the_same(value):
    raw = canonical_json(value)
    assert json.loads(raw) == value
    assert canonical_json(json.loads(raw)) == raw


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(), min_size=2))
def test_the_order_of_keys_does_not_change_the_digest(content):
    assert protocol_sha256(dict(reversed(content.items()))) == protocol_sha256(content)


def test_canonical_json_of_a_known_value():
    assert canonical_json({"b": [1, 1.5, True], "a": "é\n"}) == '{"a":"é\\n","b":[1,1.5,true]}'.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_has_no_canonical_form(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"a": value})


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "a"
    write_atomically(target, b"old")
    with pytest.raises(TypeError):
        write_atomically(target, "text")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_the_lock_of_the_tiny_protocol_is_the_golden_one(tmp_path):
    frozen = freeze(copy_tiny(tmp_path), now=MOMENT)
    assert not frozen.already
    assert frozen.path.name == "tiny.lock.json"
    golden = json.loads((TINY / "tiny.lock.json").read_bytes())
    written = json.loads(frozen.path.read_bytes())
    assert written.pop("tool")["name"] == golden.pop("tool")["name"] == "drift-runs"
    assert written == golden


def test_the_lock_is_canonical_json_and_its_digests_are_those_of_the_files(tmp_path):
    path = freeze(copy_tiny(tmp_path)).path
    raw = path.read_bytes()
    lock = json.loads(raw)
    assert raw == canonical_json(lock) + b"\n"
    assert lock["schema"] == "drift.lock/1"
    assert lock["protocol_sha256"] == hashlib.sha256(canonical_json(lock["protocol"])).hexdigest()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", lock["frozen_at"])
    for name, digest in lock["files"].items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest


def test_freezing_again_writes_nothing(tmp_path):
    path = copy_tiny(tmp_path)
    first = freeze(path, now=MOMENT).path.read_bytes()
    again = freeze(path)
    assert again.already
    assert again.path.read_bytes() == first


def test_other_content_is_never_frozen_over_it(tmp_path):
    path = copy_tiny(tmp_path, frozen=True)
    before = lock_path(path).read_bytes()
    change_toml(path, {"seeds.bootstrap": 8})
    with pytest.raises(
        LockMismatch, match=r"tiny\.lock\.json: is frozen already.*seeds\.bootstrap: frozen 7, now 8.*\[su"
    ):
        freeze(path)
    assert lock_path(path).read_bytes() == before


def test_what_is_wrong_is_not_frozen(tmp_path):
    path = copy_tiny(tmp_path, {"windows[3].panel": "P-C"})
    with pytest.raises(ProtocolError, match="unknown panel"):
        freeze(path)
    assert not lock_path(path).exists()


MISMATCHES = {
    "number in a span": (
        {"windows[0].scored[0][1]": 14},
        r"tiny\.toml: windows\[0\]\.scored\[0\]\[1\] of 'alpha-1': frozen 13, now 14; restore it, or make a new",
    ),
    "added key": (
        {"verdict.margin": 2.0},
        r"tiny\.toml: verdict: not in the lock, now \{'margin': 2\.0\}",
    ),
    "added default": (
        {"capture.path_shape": "prefill"},
        r"tiny\.toml: capture\.path_shape: not in the lock, now 'pref",
    ),
    "removed key": (
        {"arms[3].title": DELETE},
        r"tiny\.toml: arms\[3\]\.title of 'kv-q4_0': frozen 'KV cache in Q4_0', n",
    ),
    "removed item": ({"floors[0]": DELETE}, r"tiny\.toml: floors\[0\] of 'f16-launch': frozen \{.*, now missing"),
    "added item": (
        {"arms": lambda arms: [*arms[:1], arms[1] | {"name": "q5_0", "weights": "q5_0"}, *arms[1:]]},
        r"tiny\.toml: arms\[1\] of 'q5_0': not in the lock, now \{",
    ),
    "changed order": ({"arms": lambda arms: arms[::-1]}, r"tiny\.toml: order of arms: frozen 'f16', now 'kv-q4_0'"),
    "long value": ({"question": "x" * 500}, r"tiny\.toml: question: frozen 'Does the smallest .*', now 'x{20,70}…"),
}


@pytest.mark.parametrize("case", MISMATCHES)
def test_a_changed_key_is_named_with_both_values(tmp_path, case):
    changes, message = MISMATCHES[case]
    path = copy_tiny(tmp_path, frozen=True)
    change_toml(path, changes)
    with pytest.raises(LockMismatch) as caught:
        load_protocol(path)
    assert re.match(message, str(caught.value))
    assert len([other for other in caught.value.others if isinstance(other, LockMismatch)]) == 0


def test_whole_number_and_fraction_of_equal_value_differ(tmp_path):
    path = copy_tiny(tmp_path, {"verdict": {"margin": 1}})
    freeze(path)
    change_toml(path, {"verdict.margin": 1.0})
    with pytest.raises(LockMismatch, match=r"verdict\.margin: frozen 1, now 1\.0"):
        load_protocol(path)


def test_every_changed_key_is_named(tmp_path):
    path = copy_tiny(tmp_path, frozen=True)
    change_toml(path, {"title": "Other", "seeds.bootstrap": 8, "capture.top_k": 9})
    with pytest.raises(LockMismatch) as caught:
        load_protocol(path)
    lines = [str(error) for error in (caught.value, *caught.value.others)]
    assert [line.split(": ")[1] for line in lines] == ["capture.top_k", "seeds.bootstrap", "title"]


def test_a_changed_stream_file_is_named(tmp_path):
    path = copy_tiny(tmp_path, frozen=True)
    change_json(tmp_path / "streams" / "beta.json", {"tokens[20]": 3})
    with pytest.raises(
        LockMismatch, match=r"tiny\.toml: file streams/beta\.json: frozen sha256 \w{12}…, now sha256 \w{12}…"
    ):
        load_protocol(path)


def test_a_removed_stream_file_is_named(tmp_path):
    path = copy_tiny(tmp_path, frozen=True)
    (tmp_path / "streams" / "beta.json").unlink()
    with pytest.raises(LockMismatch, match=r"tiny\.toml: file streams/beta\.json: frozen sha256 .*, now missing"):
        load_protocol(path)


def test_check_lock_compares_what_was_loaded_without_comparing(tmp_path):
    path = copy_tiny(tmp_path, frozen=True)
    check_lock(load_protocol(path))
    change_toml(path, {"title": "Other"})
    loaded = load_protocol(path, verify_lock=False)
    with pytest.raises(LockMismatch, match="title: frozen 'Tiny', now 'Other'"):
        check_lock(loaded)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"protocol.title": "Other"}, r"tiny\.lock\.json: protocol_sha256: the lock was edited"),
        (
            {"schema": "drift.lock/2"},
            r"tiny\.lock\.json: schema: 'drift\.lock/2' is not allowed; expected drift\.lock/1",
        ),
        ({"frozen": "x"}, r"tiny\.lock\.json: frozen: unknown key 'frozen'; .*did you mean 'frozen_at'\?"),
        ({"files": DELETE}, r"tiny\.lock\.json: files: missing key 'files'"),
    ],
)
def test_a_wrong_lock_is_refused(tmp_path, changes, message):
    path = copy_tiny(tmp_path, frozen=True)
    change_json(lock_path(path), changes)
    with pytest.raises(ProtocolError, match=message):
        load_protocol(path)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[" * 100_000, b"[]"])
def test_a_lock_that_is_no_json_table_is_refused(tmp_path, raw):
    path = copy_tiny(tmp_path)
    lock_path(path).write_bytes(raw)
    with pytest.raises(ProtocolError, match=r"tiny\.lock\.json"):
        load_protocol(path)


def test_no_lock_is_no_error(tmp_path):
    assert read_lock(tmp_path / "none.lock.json") is None


# Amendments


def amendment(folder, **changes):
    """Version 2 in a file of its own, beside the frozen version 1."""
    original = copy_tiny(folder, frozen=True)
    supersedes = {
        "name": "tiny",
        "version": 1,
        "sha256": load_protocol(original).protocol_sha256,
        "changed": "The bootstrap has another seed.",
        "why": "The first seed was chosen badly.",
        "results_existed": False,
    }
    path = folder / "tiny-2.toml"
    path.write_bytes(original.read_bytes())
    change_toml(path, {"version": 2, "seeds.bootstrap": 8, "supersedes": supersedes | changes})
    return path


def test_an_amendment_is_verified_against_the_lock_beside_it(tmp_path):
    path = amendment(tmp_path)
    lock = superseded_lock(load_protocol(path))
    assert lock.protocol["version"] == 1
    assert not freeze(path).already


def test_an_amendment_with_another_digest_is_not_frozen(tmp_path):
    path = amendment(tmp_path, sha256="0" * 64)
    with pytest.raises(
        ProtocolError, match=r"tiny-2\.toml: supersedes\.sha256: 000000000000… is not what tiny\.lock\.json"
    ):
        freeze(path)
    assert not lock_path(path).exists()


def test_an_amendment_of_something_absent_cannot_be_verified(tmp_path):
    assert superseded_lock(load_protocol(amendment(tmp_path, name="other"))) is None
    assert superseded_lock(load_protocol(TINY / "tiny.toml")) is None


def test_a_version_does_not_supersede_itself(tmp_path):
    with pytest.raises(ProtocolError, match=r"supersedes\.version: version 2 cannot supersede version 2 of itself"):
        superseded_lock(load_protocol(amendment(tmp_path, version=2)))
