"""Where rows lie: formats that are refused, files that are damaged, folders that cannot be written."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drift_runs import schema
from drift_runs.errors import StoreBusy, StoreError
from drift_runs.protocol.canonical import dictionary_sha256
from drift_runs.store import (
    PlannedCapture,
    PlannedGeneration,
    Store,
    comparison_id,
    content_id,
    plans,
    read_table,
    write_plan,
    write_table,
)

ROW = {
    "window": "a",
    "position": 1,
    "role": "prompt",
    "token": 3,
    "logprob": -1.0,
    "rank": 1,
    "top_ids": [3],
    "top_logprobs": [-1.0],
    "tail_logprob": -2.0,
    "padding_mass": 0.0,
    "tie_count": 1,
    "p1": 0.4,
    "entropy_nats": 1.0,
    "row_top": bytes(32),
    "row_full": bytes(32),
    "flags": 0,
}


def table(window: str = "a", rows: int = 3) -> pa.Table:
    return pa.Table.from_pylist([{**ROW, "window": window, "position": at} for at in range(rows)], schema=schema.ROWS)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "store")
    made.open(create=True)
    return made


class TestOpening:
    def test_a_file_where_a_folder_belongs(self, store: Store) -> None:
        (store.root / "captures").write_text("")
        with pytest.raises(StoreError, match=r"cannot be written: .*directory; put right what lies at this path"):
            store.write_identity(store.capture_folder("c"), "capture.json", {})

    def test_a_folder_with_a_spill_of_its_own_is_left_alone(self, tmp_path: Path) -> None:
        mine = tmp_path / "spill" / "precious"
        mine.parent.mkdir()
        mine.write_text("mine")
        with pytest.raises(StoreError, match="no store, and 'spill' in it would be deleted; expected an empty folder"):
            Store(tmp_path).open(create=True)
        assert mine.read_text() == "mine" and os.listdir(tmp_path) == ["spill"]

    def test_a_store_opens_again(self, store: Store) -> None:
        before = (store.root / "store.json").read_bytes()
        store.open(create=False)
        store.open(create=True)
        assert (store.root / "store.json").read_bytes() == before

    def test_a_folder_without_a_store(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match=r"no store here.*drift demo"):
            Store(tmp_path).open(create=False)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("marker", ['{"format": "drift.store/2"}', "not json", "[]", "{}"])
    def test_another_format_is_refused(self, store: Store, marker: str) -> None:
        (store.root / "store.json").write_text(marker)
        with pytest.raises(StoreError, match=r"store format (drift.store/2|unreadable); expected drift.store/1"):
            store.open(create=True)

    def test_a_file_in_the_way(self, tmp_path: Path) -> None:
        (tmp_path / "store").write_text("")
        with pytest.raises(StoreError, match="--store"):
            Store(tmp_path / "store").open(create=True)


class TestLock:
    def test_a_second_holder_is_refused(self, store: Store) -> None:
        with store.locked(), pytest.raises(StoreBusy, match="another campaign"), Store(store.root).locked():
            pytest.fail("held twice")

    def test_the_lock_goes_with_its_holder(self, store: Store) -> None:
        code = (
            "import os, sys; from pathlib import Path; from drift_runs.store import Store\n"
            "with Store(Path(sys.argv[1])).locked():\n"
            "    print('held', flush=True)\n"
            "    sys.stdin.read()\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(store.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        with pytest.raises(StoreBusy), store.locked():
            pytest.fail("held twice")
        process.kill()
        process.communicate()
        with store.locked():
            assert (store.root / "lock").is_file()

    def test_what_a_killed_process_left_is_cleared(self, store: Store) -> None:
        write_table(store.rows_file("c", "a"), table(), schema.ROWS)
        store.note_process("c", "a", "p1")
        left = [
            store.spill_file("a"),
            store.capture_folder("c") / "a.parquet.123.part",
            store.capture_folder("c") / ".processes.json.123.tmp",
            store.root / "campaigns" / ".x.json.123.tmp",
            store.root / ".store.json.123.tmp",
        ]
        for path in left:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"half")
        with store.locked():
            assert [path for path in left if path.exists()] == []
            assert not store.spill_folder.exists()
        assert store.read_rows("c", ["a"]).num_rows == 3 and store.processes("c") == {"a": "p1"}


class TestTables:
    def test_equal_tables_are_equal_files(self, tmp_path: Path) -> None:
        write_table(tmp_path / "one.parquet", table(), schema.ROWS)
        write_table(tmp_path / "two.parquet", table().combine_chunks(), schema.ROWS)
        assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
        found = read_table(tmp_path / "one.parquet", schema.ROWS)
        assert found.schema.equals(schema.ROWS) and schema.version_of(found.schema) == "drift.rows/2"
        assert found.to_pylist() == table().to_pylist()
        assert {path.name for path in tmp_path.iterdir()} == {"one.parquet", "two.parquet"}

    def test_windows_come_in_the_order_asked_for(self, store: Store) -> None:
        for name in ("a", "b"):
            write_table(store.rows_file("c", name), table(name), schema.ROWS)
        assert store.read_rows("c", ["b", "a"])["window"].to_pylist() == ["b"] * 3 + ["a"] * 3
        assert store.read_rows("c", []).num_rows == 0

    @pytest.mark.parametrize("damage", ["empty", "cut", "text", "header", "middle"])
    def test_a_damaged_file_says_what_to_do(self, tmp_path: Path, damage: str) -> None:
        path = tmp_path / "a.parquet"
        write_table(path, table(rows=200), schema.ROWS)
        data = path.read_bytes()
        path.write_bytes(
            {
                "empty": b"",
                "cut": data[: len(data) // 2],
                "text": b"not a table at all",
                "header": b"XXXX" + data[4:-4] + b"XXXX",
                "middle": data[:40] + bytes(200) + data[240:],
            }[damage]
        )
        with pytest.raises(StoreError, match=r"a\.parquet: cannot be read: .*; remove the file and run again"):
            read_table(path, schema.ROWS)

    def test_damage_anywhere_is_refused_or_harmless(self, tmp_path: Path) -> None:
        """Whatever a disk did to a file: a table that can be read to its last text, or the one error."""
        path = tmp_path / "a.parquet"
        write_table(path, table(rows=20), schema.ROWS)
        data, draw = path.read_bytes(), random.Random(7)
        refused = 0
        for _ in range(400):
            damaged = bytearray(data)
            for _ in range(draw.choice([1, 2, 5])):
                damaged[draw.randrange(len(data))] = draw.randrange(256)
            path.write_bytes(damaged)
            try:
                assert read_table(path, schema.ROWS).to_pylist() is not None
            except StoreError:
                refused += 1
        assert refused > 100

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match=r"none\.parquet"):
            read_table(tmp_path / "none.parquet", schema.ROWS)

    def test_another_schema_version_is_refused(self, tmp_path: Path) -> None:
        newer = schema.ROWS.with_metadata({schema.VERSION_KEY: b"drift.rows/3"})
        write_table(tmp_path / "a.parquet", table().cast(newer), newer)
        with pytest.raises(StoreError, match=r"schema drift.rows/3; expected drift.rows/2"):
            read_table(tmp_path / "a.parquet", schema.ROWS)

    @pytest.mark.parametrize("content", ["{", "[1, 2]", "3"])
    def test_processes_that_are_no_json(self, store: Store, content: str) -> None:
        store.note_process("c", "a", "p1")
        (store.capture_folder("c") / "processes.json").write_text(content)
        with pytest.raises(StoreError, match=r"processes\.json: not JSON of a table; remove the file"):
            store.note_process("c", "b", "p1")


class TestDictionary:
    TOKENS = (b"<s>", b"", b"a", b"\xff\x00", "東".encode())

    def test_a_dictionary_comes_back_under_its_digest(self, store: Store) -> None:
        path = store.write_dictionary(self.TOKENS)
        assert path == store.dictionary_file(dictionary_sha256(self.TOKENS))
        assert store.read_dictionary(dictionary_sha256(self.TOKENS)) == self.TOKENS
        assert schema.version_of(pq.read_schema(path)) == "drift.dictionary/1"

    def test_one_that_is_there_is_not_written_again(self, store: Store) -> None:
        path = store.write_dictionary(self.TOKENS)
        os.utime(path, ns=(1, 1))
        assert store.write_dictionary(list(self.TOKENS)) == path and path.stat().st_mtime_ns == 1
        store.write_dictionary(self.TOKENS[:2])
        assert len(list(path.parent.iterdir())) == 2

    def test_a_file_that_is_not_its_name_is_refused(self, store: Store) -> None:
        path = store.write_dictionary(self.TOKENS)
        path.rename(store.dictionary_file("0" * 64))
        with pytest.raises(StoreError, match=r"its dictionary has SHA-256 .*; expected 0{16}…, its name; remove"):
            store.read_dictionary("0" * 64)

    def test_none_is_here(self, store: Store) -> None:
        with pytest.raises(StoreError, match=r"dictionaries/0{64}\.parquet: cannot be read"):
            store.read_dictionary("0" * 64)

    def test_half_a_file_is_cleared(self, store: Store) -> None:
        left = store.dictionary_file("0" * 64).with_suffix(".parquet.7.part")
        left.parent.mkdir()
        left.write_bytes(b"half")
        with store.locked():
            assert not left.exists()


PROTOCOL = {"name": "tiny"}


def newest_plan(store: Store, protocol_sha256: str) -> tuple[PlannedCapture, ...]:
    return next((plan.captures for plan in plans(store) if plan.protocol_sha256 == protocol_sha256), ())


class TestPlans:
    ENTRY = PlannedCapture(name="q4_0", kind="candidate", capture="c1", comparison="k1", windows=("a", "b"))

    def test_entries_of_earlier_runs_stay(self, store: Store) -> None:
        later = PlannedCapture(name="kv", kind="follow-up", capture="c2", comparison="k2", windows=("a",))
        write_plan(store, "p" * 64, "key", run_id="r1", captures=[self.ENTRY, later], protocol=PROTOCOL)
        changed = PlannedCapture(name="q4_0", kind="candidate", capture="c3", comparison="k3", windows=("a", "b"))
        write_plan(store, "p" * 64, "key", run_id="r2", captures=[changed], protocol=PROTOCOL)
        assert newest_plan(store, "p" * 64) == (changed, later)

    def test_the_newest_of_several_counts(self, store: Store) -> None:
        write_plan(store, "p" * 64, "one", run_id="r1", captures=[self.ENTRY], protocol=PROTOCOL)
        write_plan(store, "p" * 64, "two", run_id="r2", captures=[], protocol=PROTOCOL)
        older, newer = (
            store.root / "campaigns" / f"{'p' * 16}-two.json",
            store.root / "campaigns" / f"{'p' * 16}-one.json",
        )
        os.utime(older, ns=(1, 1))
        assert newest_plan(store, "p" * 64) == (self.ENTRY,)
        os.utime(newer, ns=(0, 0))
        assert newest_plan(store, "p" * 64) == ()

    def test_nothing_was_run(self, store: Store) -> None:
        assert newest_plan(store, "p" * 64) == ()

    @pytest.mark.parametrize("text", ["", "{}", '{"captures": [{"name": "x"}]}', '{"captures": 3}'])
    def test_a_damaged_plan(self, store: Store, text: str) -> None:
        write_plan(store, "p" * 64, "key", run_id="r1", captures=[self.ENTRY], protocol=PROTOCOL)
        (path,) = (store.root / "campaigns").iterdir()
        path.write_text(text)
        with pytest.raises(StoreError, match="not a campaign's plan; remove the file"):
            newest_plan(store, "p" * 64)

    @pytest.mark.parametrize(
        "changed",
        [
            {"name": 5},
            {"name": "\x1b[2J"},
            {"capture": None},
            {"comparison": "../../elsewhere"},
            {"comparison": 5},
            {"windows": [5]},
            {"windows": ["../x"]},
            {"windows": ["x" * 5000]},
            {"against": 5},
            {"table": "another"},
            {"table": "rollouts", "against": "nobody"},
        ],
    )
    def test_a_plan_names_no_path_of_its_own(self, store: Store, changed: dict[str, object]) -> None:
        write_plan(store, "p" * 64, "key", run_id="r1", captures=[self.ENTRY], protocol=PROTOCOL)
        (path,) = (store.root / "campaigns").iterdir()
        content = json.loads(path.read_text())
        content["captures"][0] |= changed
        path.write_text(json.dumps(content))
        with pytest.raises(StoreError, match="not a campaign's plan; remove the file"):
            plans(store)

    def test_what_was_generated_stays_until_it_is_generated_anew(self, store: Store) -> None:
        def write(generation: PlannedGeneration | None = None) -> PlannedGeneration | None:
            entries = [self.ENTRY]
            write_plan(store, "p" * 64, "key", run_id="r", captures=entries, protocol=PROTOCOL, generation=generation)
            return plans(store)[0].generation

        assert write() is None
        first = PlannedGeneration(arms=("q4_0",), bounds={"roots": 2, "sampled": False})
        assert write(first) == first and write() == first
        second = PlannedGeneration(arms=("q4_0",), bounds={"roots": None})
        assert write(second) == second

    @pytest.mark.parametrize(
        "generation",
        [5, {}, {"arms": ["nobody"], "bounds": {}}, {"arms": [], "bounds": {}}, {"arms": ["q4_0"], "bounds": [1]}],
    )
    def test_a_plan_of_no_generation(self, store: Store, generation: object) -> None:
        write_plan(store, "p" * 64, "key", run_id="r1", captures=[self.ENTRY], protocol=PROTOCOL)
        (path,) = (store.root / "campaigns").iterdir()
        path.write_text(json.dumps(json.loads(path.read_text()) | {"generation": generation}))
        with pytest.raises(StoreError, match="not a campaign's plan"):
            plans(store)

    @pytest.mark.parametrize("protocol", [5, [], {}, {"name": 5}])
    def test_a_plan_of_no_protocol(self, store: Store, protocol: object) -> None:
        write_plan(store, "p" * 64, "key", run_id="r1", captures=[self.ENTRY], protocol=PROTOCOL)
        (path,) = (store.root / "campaigns").iterdir()
        path.write_text(json.dumps(json.loads(path.read_text()) | {"protocol": protocol}))
        with pytest.raises(StoreError, match="not a campaign's plan"):
            plans(store)


def test_ids_depend_on_content_alone() -> None:
    assert content_id({"a": 1, "b": [2]}) == content_id({"b": [2], "a": 1})
    assert content_id({"a": 1}) != content_id({"a": 1.0})
    assert comparison_id("r", "c") != comparison_id("c", "r")
    assert len(content_id({})) == 16


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A folder of 1 MB of its own; skips where this process may not mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"cannot mount a small folder: {done.stderr.strip() or 'no permission'}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


class TestDisk:
    def test_a_full_disk_is_named_and_nothing_half_stays(self, mounted: Path) -> None:
        store = Store(mounted / "store")
        store.open(create=True)
        (mounted / "ballast").write_bytes(bytes(1_000_000))
        with pytest.raises(
            StoreError, match=r"a\.parquet: cannot be written: No space left on device; free some space"
        ):
            for at in range(50):
                write_table(store.rows_file("c", f"{at}a"), table(rows=500), schema.ROWS)
        with pytest.raises(StoreError, match=r"capture\.json: cannot be written: No space left on device"):
            store.write_identity(store.capture_folder("d"), "capture.json", {"long": "x" * 1_000_000})
        assert [path for path in store.root.rglob("*") if path.suffix in (".part", ".tmp")] == []
        assert not (store.capture_folder("d") / "capture.json").exists()

    def test_a_read_only_folder_is_named(self, mounted: Path) -> None:
        store = Store(mounted / "store")
        store.open(create=True)
        subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
        with pytest.raises(StoreError, match=r"cannot be written: Read-only file system.*--store"), store.locked():
            pytest.fail("a lock in a read-only folder")
        with pytest.raises(StoreError, match="cannot be written: Read-only file system"):
            Store(mounted / "another").open(create=True)
