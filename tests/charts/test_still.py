"""Charts as files: what a picture holds, and that it needs nothing from elsewhere."""

from __future__ import annotations

import struct
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from drift_runs.charts import still
from drift_runs.charts.kl_by_arm import kl_by_arm
from tests.charts.test_by_arm import row

HOSTILE = '<script>alert("x")</script> url(#a)'


def chart(*names: str):
    return kl_by_arm(pa.Table.from_pylist([row(name) for name in names]))


def texts(picture: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(picture).iter() if "text" in element.tag]


def test_svg_shows_the_arms_and_the_axis_at_the_width_that_is_asked_for() -> None:
    picture = still.svg(chart("q4_0", "q8_0"), width_px=700)
    assert ElementTree.fromstring(picture).get("width") == "700"
    words = texts(picture)
    assert {"q4_0", "q8_0"} <= set(words)
    assert any("nats" in word for word in words)


def test_png_has_the_scale_that_is_asked_for() -> None:
    picture = still.png(chart("q4_0"), width_px=500, scale=2)
    assert picture.startswith(b"\x89PNG")
    (width,) = struct.unpack(">I", picture[16:20])
    assert width == 1000


def test_a_hostile_name_is_text_and_nothing_else() -> None:
    picture = still.inline_svg(chart(HOSTILE), prefix="one-", alt_text='a "chart" <b>')
    root = ElementTree.fromstring(picture)
    assert not [element.tag for element in root.iter() if element.tag.endswith("script")]
    assert HOSTILE in texts(picture)
    assert root.get("aria-label") == 'a "chart" <b>'
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


def test_charts_of_one_page_do_not_share_ids() -> None:
    import altair as alt

    values = [{"x": 1, "y": 2}, {"x": 3, "y": 5}]
    clipped = alt.Chart(alt.Data(values=values)).mark_line(clip=True).encode(x="x:Q", y="y:Q")
    one, two = (still.inline_svg(clipped, prefix=prefix, alt_text="") for prefix in ("one-", "two-"))
    assert 'id="one-0"' in one and "url(#one-0)" in one
    assert "one-" not in two and 'id="two-' in two
    again = still.inline_svg(clipped, prefix="one-", alt_text="")
    assert again == one, "a chart gives one text, however many were drawn before it"


def test_data_from_elsewhere_is_not_fetched() -> None:
    import altair as alt

    elsewhere = alt.Chart(alt.UrlData(url="http://127.0.0.1:9/data.json")).mark_point().encode(x="x:Q")
    with pytest.raises(ValueError, match="allowed"):
        still.svg(elsewhere)
