"""What a server reads before its first table, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """import sys
from dashboard import serve
serve.without_pandas()
serve.read_ahead()
import pyarrow as pa, pyarrow.compute as pc
assert pc.equal(pa.array(["a", "b"]), "a").to_pylist() == [True, False]
late = sorted({"pandas", "altair", "mlflow", "vl_convert"} & set(sys.modules))
missing = [name for name in serve._NEEDED if name not in sys.modules]
import pandas
print(late, missing, pandas.Series([1, 2]).sum())
"""


def test_what_no_table_needs_is_not_read_and_can_be_had_later() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[] [] 3"


def test_streamlit_still_has_the_names_of_what_is_spared() -> None:
    from streamlit import delta_generator
    from streamlit.components.v2 import manifest_scanner

    assert isinstance(delta_generator._use_warning_has_been_displayed, bool)
    assert list(manifest_scanner.scan_component_manifests()) == [], "a package with components is installed"
