"""Loading: what a sound protocol gives, and each refusal with its key."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path

import pytest

from drift_runs.errors import LockMismatch, ProtocolError
from drift_runs.protocol import load
from drift_runs.protocol.load import find_protocol, load_followups, load_protocol
from tests.conftest import DELETE, TINY, change_json, copy_tiny, dump_toml


def refused(tmp_path: Path, changes: dict, *, also: int = 0) -> str:
    """The first line of the refusal, without the file's name; there must be ``also`` others."""
    path = copy_tiny(tmp_path, changes)
    with pytest.raises(ProtocolError) as caught:
        load_protocol(path)
    lines = [str(error) for error in (caught.value, *caught.value.others)]
    assert all("\n" not in line for line in lines)
    assert len(lines) == also + 1, lines
    return lines[0].removeprefix("tiny.toml: ")


def test_a_sound_protocol_is_loaded_with_streams_by_window_and_digests_by_path():
    loaded = load_protocol(TINY / "tiny.toml")
    assert loaded.protocol.reference.name == "f16"
    assert set(loaded.streams) == {"alpha-1", "alpha-2", "beta", "odd"}
    assert loaded.streams["alpha-1"] is loaded.streams["alpha-2"]
    assert set(loaded.file_digests) == {"streams/alpha.json", "streams/beta.json", "streams/odd.json"}
    assert not loaded.draft
    assert loaded.lock.protocol_sha256 == loaded.protocol_sha256


def test_without_a_lock_it_is_a_draft(tmp_path):
    loaded = load_protocol(copy_tiny(tmp_path))
    assert loaded.draft
    assert loaded.lock is None


def test_a_loaded_protocol_crosses_a_process_boundary():
    loaded = load_protocol(TINY / "tiny.toml")
    assert pickle.loads(pickle.dumps(loaded)) == loaded


def test_comments_and_layout_do_not_change_the_digest(tmp_path):
    path = copy_tiny(tmp_path)
    before = load_protocol(path).protocol_sha256
    path.write_text("# another comment\n\n" + path.read_text("utf-8"), "utf-8")
    assert load_protocol(path).protocol_sha256 == before


def answer(start: int = 2, end: int = 6, *, name: str = "a", window: str = "alpha-1", form: str = "text") -> dict:
    return {"name": name, "window": window, "from": start, "to": end, "form": form}


CASES = {
    "unknown key": (
        {"capture.top_kk": 5},
        r"capture\.top_kk: unknown key 'top_kk'; expected one of top_k, .*; did you mean 'top_k'\?",
    ),
    "unknown table": ({"pannels": []}, r"pannels: unknown key 'pannels'; .*; did you mean 'panels'\?"),
    "unknown key of an item": (
        {"windows[2].scoredd": []},
        r"windows\[2\]\.scoredd of 'beta': unknown key 'scoredd'; .*did you mean 'scored'\?",
    ),
    "missing key": ({"seeds.bootstrap": DELETE}, r"seeds\.bootstrap: missing key 'bootstrap'"),
    "missing table": (
        {"dictionary": DELETE},
        r"dictionary: missing key 'dictionary'; expected \[dictionary\] with size and sha256",
    ),
    "missing array of tables": ({"panels": DELETE}, r"panels: missing key 'panels'; expected \[\[panels\]\]"),
    "missing key of an item": ({"arms[1].weights": DELETE}, r"arms\[1\]\.weights of 'q8_0': missing key 'weights'"),
    "text for a number": ({"version": "1"}, r"version: the text '1' is of the wrong type; expected a whole number"),
    "true for a number": ({"version": True}, r"version: true is of the wrong type; expected a whole number"),
    "fraction for a whole number": (
        {"capture.top_k": 2.5},
        r"capture\.top_k: 2\.5 is of the wrong type; expected a wh",
    ),
    "number for text": ({"title": 3}, r"title: 3 is of the wrong type; expected text in quotes"),
    "table for an array": (
        {"panels": {"name": "P-A"}},
        r"panels: a table is of the wrong type; expected an array of tables \(\[\[panels\]\], not \[panels\]\)",
    ),
    "text for a table": ({"capture": "all"}, r"capture: the text 'all' is of the wrong type; expected a table"),
    "three numbers in a span": (
        {"windows[3].scored": [[5, 6, 7]]},
        r"windows\[3\]\.scored\[0\] of 'odd': .*a pair \[fr",
    ),
    "one number in a span": (
        {"windows[3].scored": [[5]]},
        r"windows\[3\]\.scored\[0\] of 'odd': .*a pair \[from, to\]",
    ),
    "wrong choice": (
        {"ranges[0].kind": "pros"},
        r"ranges\[0\]\.kind of 'alpha-prose': 'pros' is not allowed; expected one of prose, .*did you mean 'prose'\?",
    ),
    "wrong schema": ({"schema": "drift.protocol/2"}, r"schema: 'drift\.protocol/2' is not allowed; expected drift\.pr"),
    "name with a blank": (
        {"panels[0].name": "P A"},
        r"panels\[0\]\.name of 'P A': 'P A' does not fit; expected a name",
    ),
    "short digest": (
        {"dictionary.sha256": "abc"},
        r"dictionary\.sha256: 'abc' does not fit; expected 64 lower-case hex",
    ),
    "too small": ({"capture.top_k": 0}, r"capture\.top_k: 0 is out of bounds; expected at least 1"),
    "too large": ({"intervals.confidence": 1.0}, r"intervals\.confidence: 1\.0 is out of bounds; expected less than 1"),
    "empty reason": (
        {"outliers[0].reason": "odd"},
        r"outliers\[0\]\.reason of 'odd': 'odd' is too short; expected a r",
    ),
    "not finite": ({"verdict": {"margin": float("nan")}}, r"verdict\.margin: nan is not a finite number"),
    "infinite": ({"verdict": {"margin": float("inf")}}, r"verdict\.margin: inf is not a finite number"),
    "more than 64 bits": ({"seeds.bootstrap": 2**64}, r"seeds\.bootstrap: the number does not fit into 64 bits"),
    "field name for key": (
        {"ranges[0].from": DELETE, "ranges[0].start": 1},
        r"ranges\[0\]\.start of 'alpha-prose': unknown key 'start'; did you mean 'from'\?",
    ),
    "unknown panel": (
        {"windows[3].panel": "P-C"},
        r"windows\[3\]\.panel of 'odd': unknown panel 'P-C'; expected one of P-A, P-B; did you mean 'P-B'\?",
    ),
    "unknown window of a range": (
        {"ranges[3].window": "bete"},
        r"ranges\[3\]\.window of 'beta-call': unknown window 'bete'; .*did you mean 'beta'\?",
    ),
    "unknown window of an outlier": (
        {"outliers[0].window": "Odd"},
        r"outliers\[0\]\.window of 'Odd': unknown window 'Odd'; .*did you mean 'odd'\?",
    ),
    "outlier twice": (
        {"outliers[1]": {"window": "odd", "reason": "Because it is odd."}},
        r"outliers\[1\]\.window of 'odd': 'odd' is declared twice",
    ),
    "unknown arm of a floor": (
        {"floors[0].arm": "f-16"},
        r"floors\[0\]\.arm of 'f16-launch': unknown arm 'f-16'; .*did you mean 'f16'\?",
    ),
    "second pass of a candidate": (
        {"floors[0].arm": "q8_0", "floors[0].kind": "pass"},
        r"floors\[0\]\.kind of 'f16-launch': a second pass of 'q8_0', which is not the reference; "
        r"expected 'launch' or 'geometry'",
    ),
    "launches of the reference": (
        {"arms[0].launches": 2},
        r"arms\[0\]\.launches of 'f16': 2 launches of the reference; expected 1; declare a \[\[floors\]\]",
    ),
    "arm without an engine": (
        {"arms[1].engine": "imported"},
        r"arms\[1\]\.engine of 'q8_0': imported rows have no engine to run; .*drift import",
    ),
    "KV type that no engine has": (
        {"arms[3].kv": "q4_9"},
        r"arms\[3\]\.kv of 'kv-q4_0': unknown KV type 'q4_9'; .*did you mean 'q4_[01]'\?",
    ),
    "reference of its own": (
        {"arms[1].against": "f16"},
        r"arms\[1\]\.against of 'q8_0': only imported arms have a reference of their own",
    ),
    "quantised cache without flash attention": (
        {"arms[3].settings": {"flash_attention": "off"}},
        r"arms\[3\]\.settings\.flash_attention of 'kv-q4_0': a q4_0 V cache needs flash attention; expected 'on'",
    ),
    "unknown window of a floor": (
        {"floors[0].windows": ["alpha-3"]},
        r"floors\[0\]\.windows\[0\] of 'f16-launch': unknown window 'alpha-3'; .*did you mean 'alpha-[12]'\?",
    ),
    "window of a floor twice": (
        {"floors[0].windows": ["odd", "odd"]},
        r"floors\[0\]\.windows\[1\] of 'f16-launch': 'odd' is named twice",
    ),
    "duplicate arm": (
        {"arms[2].name": "q8_0"},
        r"arms\[2\]\.name of 'q8_0': duplicate name 'q8_0', first used by arms\[1\]",
    ),
    "names equal but for case": ({"arms[2].name": "Q8_0"}, r"arms\[2\]\.name of 'Q8_0': duplicate name 'Q8_0'"),
    "duplicate range": (
        {"ranges[1].name": "alpha-prose"},
        r"ranges\[1\]\.name of 'alpha-prose': duplicate name 'alpha-prose', first used by ranges\[0\]",
    ),
    "duplicate floor": ({"floors[1].name": "f16-launch"}, r"floors\[1\]\.name of 'f16-launch': duplicate name"),
    "floor named like an arm": ({"floors[0].name": "q4_0"}, r"floors\[0\]\.name of 'q4_0': an arm is named 'q4_0' too"),
    "overlapping ranges": (
        {"ranges[1].from": 12, "windows[0].scored": [[1, 24]]},
        r"ranges\[1\] 'alpha-code': \[12, 24\) overlaps \[1, 13\) of range 'alpha-prose'",
    ),
    "range that ends in a gap": (
        {"ranges[0].to": 14},
        r"ranges\[0\]\.to of 'alpha-prose': position 13, the last of \[1, 14\), is not scored in window 'alpha-1'; "
        r"expected an edge of \[1, 13\), \[15, 24\)",
    ),
    "range that begins in a gap": (
        {"ranges[1].from": 14},
        r"ranges\[1\]\.from of 'alpha-code': position 14, the first of \[14, 24\), is not scored in window 'alpha-1'",
    ),
    "range beyond the stream": (
        {"ranges[4].to": 900},
        r"ranges\[4\]\.to of 'odd-copy': position 899, the last of \[5, 900\), is not scored",
    ),
    "unknown window of an answer": (
        {"answers": [answer(window="alpha1")]},
        r"answers\[0\]\.window of 'a': unknown window 'alpha1'; .*did you mean 'alpha-1'\?",
    ),
    "unknown form of an answer": (
        {"answers": [answer(form="cal")]},
        r"answers\[0\]\.form of 'a': 'cal' is not allowed; .*did you mean 'call'\?",
    ),
    "unknown key of an answer": (
        {"answers": [answer() | {"kind": "json"}]},
        r"answers\[0\]\.kind of 'a': unknown key 'kind'",
    ),
    "empty answer": ({"answers": [answer(5, 5)]}, r"answers\[0\] 'a': the answer \[5, 5\) is empty"),
    "answer from 0": ({"answers": [answer(0, 5)]}, r"answers\[0\]\.from of 'a': 0 is out of bounds"),
    "answer over a gap": (
        {"answers": [answer(10, 18)], "ranges[0].to": 10, "ranges[1].from": 18},
        r"answers\[0\] 'a': \[10, 18\) is not scored throughout in window 'alpha-1'; "
        r"expected a span inside \[1, 13\), \[15, 24\)",
    ),
    "overlapping answers": (
        {"answers": [answer(2, 6), answer(5, 8, name="b")]},
        r"answers\[1\] 'b': \[5, 8\) overlaps \[2, 6\) of answer 'a'",
    ),
    "answers of one name": (
        {"answers": [answer(2, 6), answer(6, 8, name="A")]},
        r"answers\[1\]\.name of 'A': duplicate name 'A', first used by answers\[0\]",
    ),
    "answer over the edge of a range": (
        {"answers": [answer(3, 8)], "ranges[0].to": 6},
        r"answers\[0\] 'a': \[3, 8\) crosses an edge of \[1, 6\), range 'alpha-prose'",
    ),
    "empty range": ({"ranges[4].to": 5}, r"ranges\[4\] 'odd-copy': the range \[5, 5\) is empty"),
    "span from 0": ({"windows[0].scored[0][0]": 0}, r"windows\[0\]\.scored\[0\]\[0\] of 'alpha-1': a span begins at 0"),
    "span beyond the stream": (
        {"windows[3].scored[0][1]": 25},
        r"windows\[3\]\.scored\[0\]\[1\] of 'odd': 25 is beyond the stream; expected at most 24",
    ),
    "overlapping spans": (
        {"windows[0].scored": [[1, 15], [13, 24]]},
        r"windows\[0\]\.scored\[1\] of 'alpha-1': \[13, 24\) overlaps or precedes \[1, 15\)",
    ),
    "spans out of order": (
        {"windows[0].scored": [[15, 24], [1, 13]]},
        r"windows\[0\]\.scored\[1\] of 'alpha-1': \[1, 13\) overlaps or precedes \[15, 24\)",
    ),
    "empty span": (
        {"windows[0].scored": [[1, 13], [14, 14], [15, 24]]},
        r"windows\[0\]\.scored\[1\] of 'alpha-1': the span \[14, 14\) is empty",
    ),
    "ids beyond the dictionary": (
        {"dictionary.size": 30},
        r"windows\[0\]\.stream of 'alpha-1': id 30 at index 13 of streams/alpha\.json is beyond the dictionary; "
        r"expected ids below 30",
    ),
    "stream longer than the context": (
        {"capture.context_tokens": 40},
        r"windows\[0\]\.stream of 'alpha-1': streams/alpha\.json has 41 tokens; expected at most 40",
    ),
    "no reference": ({"arms[0].role": "candidate"}, r"arms: 0 arms have role reference \(none\); expected exactly one"),
    "two references": ({"arms[1].role": "reference"}, r"arms: 2 arms have role reference \(f16, q8_0\)"),
    "follow-up inside": (
        {"arms[3].role": "follow-up"},
        r"arms\[3\]\.role of 'kv-q4_0': a follow-up is outside the pro",
    ),
    "geometry floor without settings": (
        {"floors[1].settings": DELETE},
        r"floors\[1\]\.settings of 'f16-micro-batch': a geometry floor must change the geometry of arm 'f16'",
    ),
    "geometry floor that changes nothing": (
        {"floors[1].settings.micro_batch": 32},
        r"floors\[1\]\.settings of 'f16-micro-batch': a geometry floor must change",
    ),
    "launch floor with settings": (
        {"floors[0].settings": {"threads": 2}},
        r"floors\[0\]\.settings of 'f16-launch': a launch floor changes nothing",
    ),
    "micro-batch above batch": ({"capture.micro_batch": 65}, r"capture\.micro_batch: 65 is more than the batch of 64"),
    "micro-batch of an arm above batch": (
        {"arms[1].settings": {"micro_batch": 65}},
        r"arms\[1\]\.settings\.micro_batch of 'q8_0': 65 is more than the batch of 64",
    ),
    "generated window in a prompt panel": (
        {"windows[2].panel": "P-A"},
        r"windows\[2\]\.panel of 'beta': panel 'P-A' has role prompt, but streams/beta\.json is generated",
    ),
    "authored window in a generated panel": (
        {"windows[1].panel": "P-B"},
        r"windows\[1\]\.panel of 'alpha-2': panel 'P-B' has role generated, but streams/alpha\.json is authored",
    ),
    "scored prompt of a generated stream": (
        {"windows[2].scored[0][0]": 5},
        r"windows\[2\]\.scored\[0\]\[0\] of 'beta': 5 lies in the prompt; expected positions from 6",
    ),
    "one stream, two documents": (
        {"windows[1].document": "gamma"},
        r"windows\[1\]\.document of 'alpha-2': 'gamma', but 'alpha-1' of the same stream says 'alpha'",
    ),
    "buckets that fall": (
        {"history.buckets": [16, 8]},
        r"history\.buckets\[1\]: 8 follows 16; expected upper ends that r",
    ),
    "bands out of order": (
        {"bands": {"uncertain_below": 0.8, "strong_from": 0.6}},
        r"bands\.uncertain_below: 0\.8 is above bands\.strong_from 0\.6",
    ),
    "no stream file": (
        {"windows[3].stream": "streams/none.json"},
        r"windows\[3\]\.stream of 'odd': 'streams/none\.json': no such file",
    ),
    "stream is a folder": (
        {"windows[3].stream": "streams"},
        r"windows\[3\]\.stream of 'odd': 'streams': not a regular fi",
    ),
    "stream above the folder": (
        {"windows[3].stream": "../odd.json"},
        r"windows\[3\]\.stream of 'odd': '\.\./odd\.json' leaves the protocol's folder",
    ),
    "absolute stream": ({"windows[3].stream": "/etc/hosts"}, r"windows\[3\]\.stream of 'odd': '/etc/hosts' leaves the"),
    "stream with a second spelling": (
        {"windows[3].stream": "./streams/odd.json"},
        r"windows\[3\]\.stream of 'odd': '\./streams/odd\.json' is no plain relative path",
    ),
    "stream with a null byte": (
        {"windows[3].stream": "a\0b"},
        r"windows\[3\]\.stream of 'odd': the text holds the control character U\+0000",
    ),
    "rows that cannot be taken": (
        {"capture.full_vocabulary": "no"},
        r"capture\.divergence: 'kl\.full' needs full rows, and full_vocabulary is 'no'; expected one of the kl",
    ),
    "stream name too long": ({"windows[3].stream": "a" * 400}, r"windows\[3\]\.stream of 'odd': "),
}
OTHERS = {"ids beyond the dictionary": 1}
"""Cases in which a second place is wrong for the same reason."""


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_names_its_key(tmp_path, case):
    changes, message = CASES[case]
    assert re.match(message, refused(tmp_path, changes, also=OTHERS.get(case, 0)))


def test_a_range_may_hold_what_is_not_scored(tmp_path):
    path = copy_tiny(tmp_path, {"ranges[0].to": 24, "ranges[1]": DELETE})
    assert (load_protocol(path).protocol.ranges[0].start, load_protocol(path).protocol.ranges[0].end) == (1, 24)


def test_answers_stand_inside_a_range_or_outside_all(tmp_path):
    inside = {"answers": [answer(1, 7), answer(7, 13, name="b")]}
    assert len(load_protocol(copy_tiny(tmp_path, inside)).protocol.answers) == 2
    outside = {"answers": [answer(6, 13)], "ranges[0].to": 6}
    path = copy_tiny(tmp_path / "other", outside)
    assert [(one.start, one.end) for one in load_protocol(path).protocol.answers] == [(6, 13)]


def test_a_duplicate_window_is_refused(tmp_path):
    line = refused(
        tmp_path,
        {
            "windows[4]": {"name": "odd", "panel": "P-B", "document": "odd", "title": "", "stream": "streams/odd.json"}
            | {"scored": [[20, 24]]}
        },
    )
    assert line.startswith("windows[4].name of 'odd': duplicate name 'odd', first used by windows[3]")


def test_a_protocol_without_windows_is_refused(tmp_path):
    line = refused(tmp_path, {"windows": [], "ranges": [], "outliers": [], "floors": []})
    assert line.startswith("windows: no window is declared")


def test_a_date_is_refused(tmp_path):
    path = copy_tiny(tmp_path)
    path.write_text(path.read_text("utf-8").replace("version = 1", "version = 2026-01-02"), "utf-8")
    with pytest.raises(ProtocolError, match=r"tiny\.toml: version: a date or time \(2026-01-02\) has no place here"):
        load_protocol(path)


def test_all_errors_are_reported_in_one_go(tmp_path):
    line = refused(
        tmp_path,
        {"windows[3].panel": "P-C", "outliers[0].window": "ood", "floors[0].arm": "f15", "ranges[0].to": 14},
        also=3,
    )
    assert line.startswith("windows[3].panel of 'odd'")


def test_all_errors_of_the_schema_are_reported_in_one_go(tmp_path):
    refused(tmp_path, {"version": 0, "capture.top_kk": 1, "title": DELETE}, also=2)


def test_an_error_of_toml_gives_the_line(tmp_path):
    path = copy_tiny(tmp_path)
    path.write_text('schema = "drift.protocol/1"\nname = \n', "utf-8")
    with pytest.raises(ProtocolError, match=r"tiny\.toml: not valid TOML: .*line 2"):
        load_protocol(path)


def test_deep_nesting_is_an_error_of_toml(tmp_path):
    path = copy_tiny(tmp_path)
    path.write_text("a = " + "[" * 100_000, "utf-8")
    with pytest.raises(ProtocolError, match=r"tiny\.toml: not valid TOML: nested too deeply"):
        load_protocol(path)


def test_deep_nesting_by_dotted_keys_is_refused(tmp_path):
    path = copy_tiny(tmp_path)
    path.write_text(".".join("a" * 5000) + " = 1", "utf-8")
    with pytest.raises(ProtocolError, match=r"tiny\.toml: nested too deeply"):
        load_protocol(path)


def test_other_encodings_are_refused_with_the_line(tmp_path):
    path = copy_tiny(tmp_path)
    path.write_bytes(b'schema = "drift.protocol/1"\ntitle = "caf\xe9"\n')
    with pytest.raises(ProtocolError, match=r"tiny\.toml: not UTF-8 at line 2"):
        load_protocol(path)


def test_a_byte_order_mark_and_other_line_ends_change_nothing(tmp_path):
    path = copy_tiny(tmp_path, frozen=True)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert not load_protocol(path).draft


def test_a_huge_protocol_is_refused(tmp_path):
    path = copy_tiny(tmp_path)
    path.write_bytes(b"#" * (load.TOML_LIMIT_BYTES + 1))
    with pytest.raises(ProtocolError, match=r"tiny\.toml: the file is too large; expected at most 5000000 bytes"):
        load_protocol(path)


def test_a_huge_stream_is_refused(tmp_path, monkeypatch):
    path = copy_tiny(tmp_path)
    monkeypatch.setattr(load, "STREAM_LIMIT_BYTES", 300)
    with pytest.raises(ProtocolError, match=r"windows\[0\]\.stream of 'alpha-1': .*too large; expected at most 300"):
        load_protocol(path)


def test_a_missing_protocol_file_is_refused(tmp_path):
    with pytest.raises(ProtocolError, match=r"nothing\.toml: no such file"):
        load_protocol(tmp_path / "nothing.toml")


def test_a_stream_that_is_a_pipe_is_refused_and_not_waited_for(tmp_path):
    path = copy_tiny(tmp_path)
    (tmp_path / "streams" / "odd.json").unlink()
    os.mkfifo(tmp_path / "streams" / "odd.json")
    with pytest.raises(ProtocolError, match=r"windows\[3\]\.stream of 'odd': .*: not a regular file"):
        load_protocol(path)


def test_a_stream_outside_through_a_link_is_refused(tmp_path):
    path = copy_tiny(tmp_path / "inside")
    stream = path.parent / "streams" / "odd.json"
    stream.rename(tmp_path / "odd.json")
    stream.symlink_to(tmp_path / "odd.json")
    with pytest.raises(
        ProtocolError, match=r"windows\[3\]\.stream of 'odd': .* leaves the protocol's folder through a l"
    ):
        load_protocol(path)


STREAM_CASES = {
    "unknown key": ({"token": [1]}, r"streams/odd\.json: token: unknown key 'token'; .*did you mean 'tokens'\?"),
    "wrong schema": ({"schema": "drift.stream/9"}, r"streams/odd\.json: schema: 'drift\.stream/9' is not allowed"),
    "no tokens": ({"tokens": DELETE}, r"streams/odd\.json: tokens: missing key 'tokens'"),
    "negative id": ({"tokens[3]": -1}, r"streams/odd\.json: tokens\[3\].*: -1 is out of bounds; expected at least 0"),
    "text for an id": ({"tokens[3]": "a"}, r"streams/odd\.json: tokens\[3\].*: the text 'a' is of the wrong type"),
    "list in recorded": ({"recorded.seed": [1]}, r"streams/odd\.json: recorded\.seed"),
    "not finite": ({"recorded.seed": float("nan")}, r"streams/odd\.json: recorded\.seed: nan is not a finite number"),
    "prompt longer than the stream": (
        {"prompt_tokens": 25},
        r"tiny\.toml: windows\[3\]\.stream of 'odd': .*prompt_tokens 25",
    ),
    "authored with a prompt": (
        {"source": "authored"},
        r"tiny\.toml: windows\[3\]\.stream of 'odd': .*authored with prompt",
    ),
}


@pytest.mark.parametrize(("changes", "message"), STREAM_CASES.values(), ids=STREAM_CASES)
def test_a_wrong_stream_is_refused(tmp_path, changes, message):
    path = copy_tiny(tmp_path)
    change_json(tmp_path / "streams" / "odd.json", changes)
    with pytest.raises(ProtocolError) as caught:
        load_protocol(path)
    assert re.match(message, str(caught.value))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"{", r"streams/odd\.json: not valid JSON: .*line 1"),
        (b"\xff{}", r"streams/odd\.json: not valid JSON: .*utf-8"),
        (b'{"name": "a", "name": "b"}', r"streams/odd\.json: not valid JSON: key 'name' is given twice"),
        (b"[" * 100_000, r"streams/odd\.json: not valid JSON"),
        (b"[1, 2]", r"streams/odd\.json"),
        (b"", r"streams/odd\.json: not valid JSON"),
    ],
)
def test_a_stream_that_is_no_json_table_is_refused(tmp_path, raw, message):
    path = copy_tiny(tmp_path)
    (tmp_path / "streams" / "odd.json").write_bytes(raw)
    with pytest.raises(ProtocolError, match=message):
        load_protocol(path)


# Follow-ups


def followups(folder: Path, **changes) -> Path:
    loaded = load_protocol(TINY / "tiny.toml")
    arm = {"name": "kv-bf16", "role": "follow-up", "derivative": "stock", "weights": "f16", "kv": "bf16"}
    content = {
        "schema": "drift.followups/1",
        "protocol": "tiny",
        "protocol_sha256": loaded.protocol_sha256,
        "arms": [arm | changes.pop("arm", {})],
    }
    path = folder / "more.toml"
    path.write_text(dump_toml(content | changes), "utf-8")
    return path


def test_followups_are_loaded_and_leave_the_digest_as_it_is(tmp_path):
    loaded = load_protocol(TINY / "tiny.toml")
    (arm,) = load_followups(followups(tmp_path), loaded)
    assert (arm.name, arm.kv, arm.role) == ("kv-bf16", "bf16", "follow-up")
    assert load_protocol(TINY / "tiny.toml").protocol_sha256 == loaded.protocol_sha256


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"protocol_sha256": "0" * 64}, r"more\.toml: protocol_sha256: 000000000000… is another state of the protocol"),
        ({"protocol": "tinny"}, r"more\.toml: protocol: the file belongs to 'tinny'; expected 'tiny'"),
        ({"arm": {"name": "q4_0"}}, r"more\.toml: arms\[0\]\.name of 'q4_0': the protocol has an arm named 'q4_0'"),
        (
            {"arm": {"name": "f16-launch"}},
            r"more\.toml: arms\[0\]\.name of 'f16-launch': the protocol has a floor named",
        ),
        ({"arm": {"role": "candidate"}}, r"more\.toml: arms\[0\]\.role of 'kv-bf16': 'candidate' has no place"),
        ({"arm": {"kvv": "f16"}}, r"more\.toml: arms\[0\]\.kvv of 'kv-bf16': unknown key 'kvv'; .*did you mean 'kv'\?"),
        ({"arms": []}, r"more\.toml: arms: no arm is declared"),
        (
            {"arm": {"engine": "vllm"}},
            r"more\.toml: arms\[0\]\.engine of 'kv-bf16': 'vllm' lists the best entries of a row, and full_vocabulary "
            r"is 'yes'; expected capture\.full_vocabulary = 'no'",
        ),
    ],
)
def test_a_wrong_followup_file_is_refused(tmp_path, changes, message):
    loaded = load_protocol(TINY / "tiny.toml")
    with pytest.raises(ProtocolError, match=message):
        load_followups(followups(tmp_path, **changes), loaded)


# Finding


def test_a_path_is_found_as_it_is(tmp_path):
    path = copy_tiny(tmp_path)
    assert find_protocol(str(path)) == path


@pytest.mark.parametrize("name", ["tiny", "tiny.toml"])
def test_a_name_is_found_in_the_protocols_of_the_working_folder(tmp_path, monkeypatch, name):
    copy_tiny(tmp_path / "protocols")
    monkeypatch.chdir(tmp_path)
    assert find_protocol(name) == Path("protocols/tiny.toml")


def test_the_order_of_the_places_is_working_folder_then_tree_then_package(tmp_path, monkeypatch):
    package = tmp_path / "tree" / "drift_runs"
    monkeypatch.setattr(load, "__file__", str(package / "protocol" / "load.py"))
    monkeypatch.chdir(tmp_path)
    shipped = copy_tiny(package / "shipped_protocols")
    assert find_protocol("tiny") == shipped
    tree = copy_tiny(tmp_path / "tree" / "protocols")
    assert find_protocol("tiny") == tree
    copy_tiny(tmp_path / "protocols")
    assert find_protocol("tiny") == Path("protocols/tiny.toml")


def test_a_miss_names_the_nearest(tmp_path, monkeypatch):
    copy_tiny(tmp_path / "protocols")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ProtocolError, match=r"'tinny': no such protocol; expected a path, or .*tiny.*did you mean 'tiny'\?"
    ):
        find_protocol("tinny")


@pytest.mark.parametrize("name", ["", "../tiny", "a\0b", "x" * 5000])
def test_a_strange_name_is_a_miss(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProtocolError, match="no such protocol"):
        find_protocol(name)


def test_a_mismatch_comes_before_what_follows_from_it(tmp_path):
    path = copy_tiny(tmp_path, frozen=True)
    (tmp_path / "streams" / "odd.json").unlink()
    with pytest.raises(LockMismatch, match=r"file streams/odd\.json: frozen sha256 \w{12}…, now missing") as caught:
        load_protocol(path)
    assert [str(error) for error in caught.value.others if "no such file" in str(error)]
