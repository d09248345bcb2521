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


def test_streamlit_still_has_the_name_that_spares_the_look_at_the_stack() -> None:
    from streamlit import delta_generator

    assert isinstance(delta_generator._use_warning_has_been_displayed, bool)
