"""Runs the benchmarks of this folder: ``python -m benchmarks [NAME ...]``. A benchmark is a module with ``main()``."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path


def names() -> list[str]:
    found = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return sorted(name for name in found if not name.startswith("_"))


def main(chosen: list[str]) -> int:
    known = names()
    unknown = [name for name in chosen if name not in known]
    if unknown:
        print(f"benchmarks: no benchmark {unknown[0]!r}; expected one of {', '.join(known)}", file=sys.stderr)
        return 2
    for name in chosen or known:
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
