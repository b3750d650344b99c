"""Reports in a browser: nothing is cut off on a desk or a telephone. Needs Chromium."""

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

import streamrf as srf
from streamrf import report

pytest.importorskip("matplotlib")

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom"),
)
WIDTHS, WIDE = (1280, 400), 500

# In every frame: what sticks out to the sides, but for tables that scroll.
LOOK = """<script>addEventListener("load", () => {
  const width = document.documentElement.clientWidth, out = [];
  for (const element of document.querySelectorAll("body *")) {
    if (element.closest(".wide") && !element.classList.contains("wide")) continue;
    const box = element.getBoundingClientRect();
    if (box.width && (box.right > width + 1 || box.left < -1)) out.push(element.tagName);
  }
  const tables = [...document.querySelectorAll(".wide")];
  const images = [...document.images].filter(image => !image.complete || !image.naturalWidth);
  parent.postMessage({width: innerWidth, out: out, broken: images.length,
    scrolling: tables.filter(table => table.scrollWidth > table.clientWidth + 1).length}, "*");
})</script>"""
FRAMES = """<pre id="found"></pre><script>
const found = []; addEventListener("message", ({data}) => { found.push(data);
  document.getElementById("found").textContent = JSON.stringify(found); });
</script>"""


def seen(path, folder):
    """What a browser says of a page at every width, and what it wrote on its console."""
    text = path.read_text()
    (folder / "shown.html").write_text(text.replace("</body>", f"{LOOK}</body>"))
    wide = f"<b style='display:block;width:999px'></b>{LOOK}</body>"  # what the look must find
    (folder / "wide.html").write_text(text.replace("</body>", wide))
    shown = [*((width, "shown.html") for width in WIDTHS), (WIDE, "wide.html")]
    frames = "".join(
        f'<iframe src="{name}" style="width:{width}px;height:800px;border:0"></iframe>'
        for width, name in shown
    )
    outer = folder / "frames.html"
    outer.write_text(FRAMES + frames)
    program = [BROWSER, *OPTIONS, f"--user-data-dir={folder / 'profile'}", outer.as_uri()]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    told = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)[1]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return {frame["width"]: frame for frame in json.loads(html.unescape(told))}, console


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
def test_nothing_is_cut_off_in_a_browser(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(900) % 26
    X = np.eye(26)[y][:, :12] + rng.normal(scale=0.4, size=(900, 12))
    names = np.array([f"a class of a long name {i}" for i in range(26)])[y]
    features = srf.StructuredFourier(srf.Gaussian(0.1), 64, random_state=0)
    statistics = srf.accumulate(srf.ArraySource(X[:600], names[:600]), features)
    path = tmp_path / "report.html"
    report.write(path, statistics=statistics, data=X[600:], y=names[600:])
    found, console = seen(path, tmp_path)
    assert console == []
    assert found.pop(WIDE)["out"] == ["B"]
    assert sorted(found) == sorted(WIDTHS)
    for frame in found.values():
        assert (frame["out"], frame["broken"]) == ([], 0)
    assert found[1280]["scrolling"] == 0
