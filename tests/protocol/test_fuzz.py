"""Whatever is done to a protocol's files: they load, or a ProtocolError of one line each says why not."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drift_runs.errors import ProtocolError
from drift_runs.protocol.load import load_protocol
from tests.conftest import TINY, copy_tiny, dump_toml

ORIGINAL = (TINY / "tiny.toml").read_text("utf-8")
LINES = ORIGINAL.splitlines()
quick = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], print_blob=True
)
odd_values = (
    st.none().map(lambda _: {})
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
    | st.lists(st.integers(-3, 99), max_size=3)
    | st.lists(st.dictionaries(st.sampled_from(["name", "window", "from"]), st.integers(0, 3)), max_size=2)
)


def check(path) -> None:
    try:
        load_protocol(path)
    except ProtocolError as error:
        for line in map(str, (error, *error.others)):
            assert line.isprintable()
            assert ".toml" in line or ".json" in line


@pytest.fixture
def tiny(tmp_path):
    return copy_tiny(tmp_path)


@quick
@given(st.data())
def test_mutated_text(tiny, data):
    lines = list(LINES)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(["drop", "twice", "swap", "cut", "insert"])):
            case "drop":
                del lines[place]
            case "twice":
                lines.insert(place, lines[place])
            case "swap":
                other = data.draw(st.integers(0, len(lines) - 1))
                lines[place], lines[other] = lines[other], lines[place]
            case "cut":
                lines[place] = lines[place][: data.draw(st.integers(0, len(lines[place])))]
            case "insert":
                at = data.draw(st.integers(0, len(lines[place])))
                lines[place] = lines[place][:at] + data.draw(st.text(max_size=3)) + lines[place][at:]
    tiny.write_bytes("\n".join(lines).encode("utf-8", errors="surrogatepass"))
    check(tiny)


@quick
@given(st.data())
def test_mutated_values(tiny, data):
    content = tomllib.loads(ORIGINAL)
    place = content
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if isinstance(place[key], (dict, list)) and place[key] and data.draw(st.booleans()):
            place = place[key]
            continue
        place[key] = data.draw(odd_values)
        break
    tiny.write_text(dump_toml(content), "utf-8")
    check(tiny)


@quick
@given(st.data())
def test_mutated_stream_and_lock(tiny, data):
    name = data.draw(st.sampled_from(["streams/beta.json", "tiny.lock.json"]))
    raw = bytearray((TINY / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(raw)))
        raw[start : start + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    (tiny.parent / name).write_bytes(bytes(raw))
    try:
        check(tiny)
    finally:
        (tiny.parent / name).unlink()
        copy_tiny(tiny.parent)
