"""A chart as a picture that stands alone: SVG or PNG, drawn here, without a browser and without a network.

Pages draw charts with the browser's theme; a file must read on white paper, so the ink is set here.
"""

from __future__ import annotations

import io
import re
import threading
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    import altair as alt

WIDTH_PX = 880
"""Of a chart that fills its place on a page."""
PNG_SCALE = 2.0
FONT = "Source Sans Pro, Helvetica, Arial, sans-serif"
INK = "#31333f"
CONFIG: dict[str, Any] = {
    "background": "#ffffff",
    "font": FONT,
    "view": {"stroke": None},
    "axis": {"labelColor": INK, "titleColor": INK, "gridColor": "#e4e6eb", "domainColor": "#9aa0a8"},
    "legend": {"labelColor": INK, "titleColor": INK},
    "header": {"labelColor": INK, "titleColor": INK},
    "title": {"color": INK},
}
_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
# The converter keeps one JavaScript engine a process; one chart at a time goes through it.
_lock = threading.Lock()


def svg(chart: alt.TopLevelMixin, *, width_px: int = WIDTH_PX) -> str:
    """The chart as an SVG document. ``width_px`` counts where the chart would fill its place."""
    import vl_convert

    with _lock:
        return vl_convert.vegalite_to_svg(_spec(chart, width_px), vl_version=_version(), allowed_base_urls=[])


def png(chart: alt.TopLevelMixin, *, width_px: int = WIDTH_PX, scale: float = PNG_SCALE) -> bytes:
    """The chart as a PNG, ``scale`` pixels for each of the chart's own."""
    import vl_convert

    with _lock:
        return vl_convert.vegalite_to_png(
            _spec(chart, width_px), vl_version=_version(), scale=scale, allowed_base_urls=[]
        )


def inline_svg(chart: alt.TopLevelMixin, *, prefix: str, alt_text: str, width_px: int = WIDTH_PX) -> str:
    """The chart as an ``<svg>`` element for an HTML page that holds several.

    Every id becomes ``prefix`` and a number, because two charts name their clips alike and a page would take the first
    for both, and because the converter counts on from chart to chart, so that one chart would never give one text
    twice. Links and event handlers are dropped: a picture needs none.
    """
    root = ElementTree.fromstring(svg(chart, width_px=width_px))
    ids = [element.get("id") for element in root.iter() if element.get("id") is not None]
    named = {name: f"{prefix}{at}" for at, name in enumerate(dict.fromkeys(ids))}
    for element in root.iter():
        for name, value in list(element.attrib.items()):
            if name.startswith("on") or name in (_LINK, "href"):
                del element.attrib[name]
            elif name == "id":
                element.set(name, named[value])
            elif "url(#" in value:
                element.set(name, _REFERENCE.sub(lambda found: f"url(#{named.get(found[1], prefix)})", value))
    root.set("role", "img")
    root.set("aria-label", alt_text)
    # A window narrower than the picture shrinks it; its viewBox keeps the proportions.
    root.attrib.pop("height", None)
    root.set("width", "100%")
    out = io.BytesIO()
    ElementTree.register_namespace("", _SVG)
    ElementTree.ElementTree(root).write(out, encoding="utf-8")
    return out.getvalue().decode()


def _spec(chart: alt.TopLevelMixin, width_px: int) -> dict[str, Any]:
    """The specification with a width in pixels and ink for paper; what the chart sets itself stays."""
    spec = chart.to_dict()
    if spec.get("width") == "container":
        spec["width"] = width_px
        spec.setdefault("autosize", {"type": "fit-x", "contains": "padding"})
    own = spec.get("config", {})
    spec["config"] = {**own, **CONFIG, "view": {**own.get("view", {}), **CONFIG["view"]}}
    return spec


def _version() -> str:
    """The Vega-Lite that altair writes for, as the converter names it: ``6.1`` of ``v6.1.0``."""
    import altair as alt

    return ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
