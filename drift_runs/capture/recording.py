"""Keep a capture as a recording that engine ``replay`` plays: some of its windows, and what its ids say.

python -m drift_runs.capture.recording STORE CAPTURE FOLDER [WINDOW ...]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from drift_runs import schema
from drift_runs.engines.replay import DICTIONARY_FILE
from drift_runs.errors import ConfigError, DriftError
from drift_runs.store import Store, read_table, write_table
from drift_runs.store.files import write_json


def keep_recording(store: Store, capture: str, folder: Path, windows: Sequence[str] = ()) -> None:
    """Write ``folder`` with the identity and rows of a capture, and beside it the one dictionary of the store.

    ``windows``: which of them; empty: all. The identity then names those alone, and the capture that it is part of.

    Raises
    ------
    StoreError
        no such capture, or damaged rows.
    ConfigError
        a window that it has not, a folder that is there already, or a store with several dictionaries.
    """
    identity = store.read_capture(capture)
    known: dict = dict(identity["windows"])
    for name in windows:
        if name not in known:
            raise ConfigError(f"no window {name!r}", where=f"capture {capture}", expected=f"some of {', '.join(known)}")
    if folder.exists():
        raise ConfigError("it is there already", where=str(folder), expected="the name of a new folder")
    dictionaries = sorted((store.root / "dictionaries").glob("*.parquet"))
    if len(dictionaries) != 1:
        raise ConfigError(
            f"{len(dictionaries)} dictionaries", where=str(store.root), expected="one, as of one protocol"
        )
    kept = {name: known[name] for name in windows or known}
    tables = {name: read_table(store.rows_file(capture, name), schema.ROWS) for name in kept}
    for name, table in tables.items():
        write_table(folder / f"{name}.parquet", table, schema.ROWS)
    if measured := store.measured(capture):
        write_json(folder / "measured.json", measured)
    above = (folder.parent, *folder.parent.resolve().parents[:1])
    if not any((place / DICTIONARY_FILE).is_file() for place in above):
        (folder.parent / DICTIONARY_FILE).write_bytes(dictionaries[0].read_bytes())
    write_json(folder / "capture.json", {**identity, "windows": kept, "part_of": capture})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m drift_runs.capture.recording", description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("capture")
    parser.add_argument("folder", type=Path)
    parser.add_argument("windows", nargs="*")
    args = parser.parse_args()
    try:
        keep_recording(Store(args.store), args.capture, args.folder, args.windows)
    except DriftError as error:
        print(f"error: {error.line()}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
