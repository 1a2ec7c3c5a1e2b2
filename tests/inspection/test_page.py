"""The page of an inspection: it is complete, has no scripts, loads nothing, and works in a real browser at two widths, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.inspection.gather import inspect
from lance_spark.inspection.page import as_html
from tests import browser
from tests.markup import HOSTILE, Markup, assert_harmless

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

GOLDEN = sorted((Path(__file__).parent.parent / "golden").glob("*.lance"))
LOOKS = [(width, scheme) for width in (390, 1200) for scheme in ("light", "dark")]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with columns of many kinds and sizes, fragments, deletions, an index, an old version and a missing file."""
    uri = str(tmp_path_factory.mktemp("tables") / "t.lance")
    ids = np.arange(20_000)
    rows = pa.table(
        {
            "id": ids,
            "score": np.random.default_rng(0).normal(size=len(ids)),
            "a_column_with_a_name_that_is_longer_than_what_the_others_are_called_by_far": [f"text {i * 7919 % 10007}" for i in ids],
            "group": [f"group {i % 5}" for i in ids],
            **{f"flag{i}": ids % 2 == 0 for i in range(80)},
        }
    )
    lance.write_dataset(rows, uri, max_rows_per_file=3000, data_storage_version="2.1")
    lance.dataset(uri).delete("id % 3 = 0 and id < 9000")
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.write_dataset(rows.slice(0, 10), uri, mode="append")
    min(Path(uri, "data").iterdir(), key=lambda path: path.stat().st_size).unlink()
    return uri


def page_of(uri: str | Path, **options: Any) -> str:
    return as_html(inspect(Dataset.open(uri).snapshot, **options))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_every_golden_table_has_a_harmless_page(path: Path) -> None:
    text = assert_harmless(page_of(path)).text
    assert str(path) in text
    assert all(name in text for name in Dataset.open(path).schema.names)


def test_the_page_shows_what_was_found(uri: str) -> None:
    text = assert_harmless(page_of(uri)).text
    for part in ("Files", "Columns in the data files", "Fragments", "Indexes", "Schema", "id_idx", "BTree", "1 file could not be read"):
        assert part in text
    assert "The area of a tile" not in text  # one file is missing, so that sizes are estimated
    assert "Estimated from the metadata of 7 of 8 data files." in text
    assert "A bar is a fragment" in text
    assert "24 smaller columns" in text
    assert "What to do" in text
    assert "The index id_idx does not cover 1 of 8 fragments" in text
    assert "Newest versions" in text


def test_an_empty_table_has_a_page(tmp_path: Path) -> None:
    dataset = Dataset.write(str(tmp_path / "t"), pa.schema([("a", pa.int64())]).empty_table())
    assert "0 rows, 0 fragments" in assert_harmless(page_of(dataset.uri)).text


def test_wide_and_long_tables_have_a_page_of_bounded_size(tmp_path: Path) -> None:
    wide = Dataset.write(str(tmp_path / "wide"), pa.table({f"column {i}": [i] for i in range(3000)}))
    assert len(page_of(wide.uri)) < 300_000
    lance.write_dataset(pa.table({"a": range(1000)}), str(tmp_path / "long"), max_rows_per_file=1)
    text = page_of(tmp_path / "long", max_files=10)
    assert len(text) < 100_000
    assert "A bar is the average of about 10 neighboring fragments" in text


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.running() as found:
        yield found


def written(folder: Path, html: str) -> Path:
    path = folder / "page.html"
    path.write_text(html)
    return path


# Elements that reach out of the window sideways, unless something around them scrolls or clips.
_OUTSIDE = """() => [...document.querySelectorAll('body *')].filter(e => {
  const box = e.getBoundingClientRect();
  const hidden = e.closest('.scroll') && !e.matches('.scroll') || e.parentElement.closest('svg');
  return box.width && !hidden && (box.right > innerWidth + 0.5 || box.left < -0.5);
}).map(e => e.outerHTML.slice(0, 100))"""

# The contrast, as WCAG defines it, of each piece of text with what it is drawn on.
_CONTRASTS = """() => {
  const parse = text => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
  const light = rgb => { const [r, g, b] = rgb.slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const seen = new Map();
  for (const e of document.querySelectorAll('h1, h2, p, td, th, li, svg text')) {
    const tile = e.matches('text') && e.closest('svg').querySelector('rect');
    const back = parse(getComputedStyle(tile || document.body)[tile ? 'fill' : 'backgroundColor']);
    let opacity = 1;
    for (let x = e; x; x = x.parentElement) opacity *= getComputedStyle(x).opacity;
    const fore = parse(getComputedStyle(e)[tile ? 'fill' : 'color']).map((v, i) => v * opacity + back[i] * (1 - opacity));
    const [a, b] = [light(fore), light(back)].sort((x, y) => y - x);
    seen.set(e.tagName + ' ' + back.join(), (a + 0.05) / (b + 0.05));
  }
  return [...seen];
}"""


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_in_a_browser_nothing_overflows_and_all_text_is_legible(
    chromium: Browser, uri: str, tmp_path: Path, width: int, scheme: str
) -> None:
    with browser.showing(chromium, written(tmp_path, page_of(uri)), width, scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(_OUTSIDE) == []
        contrasts = dict(page.evaluate(_CONTRASTS))
        assert len(contrasts) > 5
        assert min(contrasts.values()) >= 4.5, contrasts
        back = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert back == {"light": "rgb(255, 255, 255)", "dark": "rgb(23, 25, 28)"}[scheme]


def test_in_a_browser_pictures_fill_the_page_and_tiles_the_picture(chromium: Browser, uri: str, tmp_path: Path) -> None:
    for width in (390, 1200):
        with browser.showing(chromium, written(tmp_path, page_of(uri)), width, "light") as page:
            main = page.locator("main").bounding_box()
            treemap = page.get_by_role("img", name="The bytes of the data files by column")
            whole = treemap.bounding_box()
            assert main is not None
            assert whole is not None
            assert whole["width"] == pytest.approx(main["width"] - 2 * 15, abs=1)
            area = treemap.locator("> svg").evaluate_all(
                "tiles => tiles.reduce((a, t) => a + t.width.baseVal.value * t.height.baseVal.value, 0)"
            )
            assert area == pytest.approx(whole["width"] * whole["height"], rel=0.001)


def test_in_a_browser_hostile_names_are_text_even_without_the_security_policy(chromium: Browser, tmp_path: Path) -> None:
    rows = pa.table({HOSTILE: range(1000), "</svg></title></style>": range(1000)})
    dataset = Dataset.write(str(tmp_path / "<img src=x onerror=alert(3)>"), rows)
    for scheme in ("light", "dark"):
        with browser.showing(chromium, written(tmp_path, page_of(dataset.uri)), 1200, scheme, without_policy=True) as page:
            assert page.locator("script, img, iframe, object").count() == 0
            assert page.locator("body > *").count() == 1
            assert "<script>alert(1)</script>" in page.inner_text("main")
            assert "<img src=x onerror=alert(3)>" in page.title()


def test_in_a_browser_the_security_policy_stops_scripts(chromium: Browser, uri: str, tmp_path: Path) -> None:
    html = page_of(uri).replace("<main>", "<script>document.title = 'ran'</script><main>")
    page = chromium.new_page()
    page.goto(written(tmp_path, html).as_uri())
    assert page.title() != "ran"
    page.close()


NOTEBOOK = '<html><body style="margin: 8px; background: {back}; color: {fore}; font: 14px sans-serif">{cells}</body></html>'


@pytest.mark.parametrize(("width", "back", "fore"), [(390, "#ffffff", "#111111"), (1200, "#111111", "#eeeeee")])
def test_in_a_notebook_values_take_the_colours_around_them(
    chromium: Browser, tmp_path: Path, uri: str, width: int, back: str, fore: str
) -> None:
    dataset = Dataset.open(uri)
    cells = "<hr>".join(value._repr_html_() for value in (dataset, dataset.versions(), dataset.history(), dataset.verify(progress=False)))
    html = NOTEBOOK.format(back=back, fore=fore, cells=cells)
    with browser.showing(chromium, written(tmp_path, html), width, "light") as page:
        assert_shown(page, width)


def assert_shown(page: Page, width: int) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    contrasts = dict(page.evaluate(_CONTRASTS))
    assert min(contrasts.values()) >= 4.5, contrasts
    assert page.evaluate("[...document.querySelectorAll('td')].every(e => getComputedStyle(e).backgroundColor == 'rgba(0, 0, 0, 0)')")


def test_the_page_is_well_formed_where_names_have_every_character(tmp_path: Path) -> None:
    allowed = (i for i in (*range(1, 256), 0x2028, 0x202E, 0xFEFF, 0x1F600) if chr(i) not in ".`")
    names = [f"{n} {chr(i)}" for n, i in enumerate(allowed)]
    dataset = Dataset.write(str(tmp_path / "t"), pa.table({name: [1] for name in names}))
    assert len(Markup(page_of(dataset.uri)).tags) > 100


def test_what_the_largest_column_hides_is_drawn_again(tmp_path: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(np.random.default_rng(0).normal(size=64_000).astype("float32"), 64)
    dataset = Dataset.write(tmp_path / "t.lance", pa.table({"id": range(1000), "label": ["a"] * 1000, "vector": vectors}))
    page = page_of(dataset.uri)
    assert "The same without the largest column" in page
    assert "id: " in page.split("The bytes of the data files without the largest column")[1]
