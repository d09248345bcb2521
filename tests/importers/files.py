"""The invented files of the imported formats, and changed copies of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

INVENTED = Path(__file__).parents[1] / "data" / "imports"
EXTENSIONS = {"topk-rows": "json", "rollouts": "json", "contexts": "json", "csv": "csv"}
NAMES = {"csv": "positions"}


def invented(name: str, side: str = "a") -> Path:
    """The file of a format; ``side`` is a or b."""
    return INVENTED / f"{NAMES.get(name, name)}-{side}.{EXTENSIONS[name]}"


def changed(folder: Path, name: str, change: Callable[[Any], object], side: str = "a") -> Path:
    """A copy of a JSON file after ``change`` was applied to its content."""
    content = json.loads(invented(name, side).read_text(encoding="utf-8"))
    change(content)
    path = folder / f"changed-{side}.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path
