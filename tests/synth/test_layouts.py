"""Every layout draws, prints only labels of its type, and keeps what it prints on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from certloop.synth.errors import LayoutError
from certloop.synth.fields.vocabulary import read_data
from certloop.synth.layout import drift_set, find_layout, load_layouts, other_ids, read_layout
from certloop.synth.sample import Recipe, draw_document
from certloop.templates import UnknownTypeError, load_types

ALL = [(t.id, layout.id) for t in load_types() for layout in load_layouts(t.id)]
NOT_ON_EVERY_FORM = {"valid_until", "credit_code", "signed_on", "manager"}


@pytest.mark.parametrize(("type_id", "layout_id"), ALL)
def test_layout_draws_and_stays_on_the_page(type_id: str, layout_id: str) -> None:
    for seed in (1, 2, 3):
        page = draw_document(Recipe(type_id, seed, 700, layouts=(layout_id,))).page
        w, h = page.image.size
        for item in page.items:
            if item.role in ("value", "label", "title"):
                for x0, y0, x1, y1 in item.boxes:
                    assert -2 <= x0 < x1 <= w + 2, (item.field, item.text, item.boxes, w)
                    assert -2 <= y0 < y1 <= h + 2, (item.field, item.text, item.boxes, h)


@pytest.mark.parametrize("type_id", sorted({t for t, _ in ALL}))
def test_each_type_has_two_layouts_that_together_print_what_it_requires(type_id: str) -> None:
    layouts = load_layouts(type_id)
    assert len(layouts) >= 2
    printed = {field for layout in layouts for field in layout.fields}
    assert set(load_types().get(type_id).required) <= printed


def test_labels_vary_by_seed_within_the_aliases() -> None:
    doc_type = load_types().get("road_transport_operation_permit")
    seen = set()
    for seed in range(12):
        page = draw_document(Recipe(doc_type.id, seed, 500, layouts=("numbered",))).page
        seen |= {(k, v) for k, v in page.wordings.items() if v}
    assert len({v for k, v in seen if k == "valid_until"}) > 1
    assert all(v.replace(" ", "") in [n.replace(" ", "") for n in doc_type.fields[k].labels] for k, v in seen)


def test_values_of_two_lines_do_not_overlap_their_neighbours_labels() -> None:
    """Old two-column licences are the tightest form."""
    for seed in range(6):
        page = draw_document(Recipe("business_licence", seed, 1000, layouts=("old_two_column",))).page
        labels = [b for i in page.items if i.role == "label" for b in i.boxes]
        for item in (i for i in page.items if i.role == "value" and i.region == "print" and i.field != "registration_no"):
            for x0, y0, x1, y1 in item.boxes:
                for lx0, ly0, lx1, ly1 in labels:
                    across, down = min(x1, lx1) - max(x0, lx0), min(y1, ly1) - max(y0, ly0)
                    assert across < 8 or down < 0.6 * (y1 - y0), (item.field, item.text)


def test_drift_is_the_same_everywhere_and_keeps_the_fields() -> None:
    base = find_layout("business_licence", "horizontal_2019")
    first, again = find_layout("business_licence", "horizontal_2019~d7"), find_layout("business_licence", "horizontal_2019~d7")
    assert first == again
    assert first != find_layout("business_licence", "horizontal_2019~d8")
    assert set(first.fields) == set(base.fields)
    assert draw_document(Recipe("business_licence", 1, 600, layouts=("horizontal_2019~d7",))).page.values


@pytest.mark.parametrize("name", list(read_data("drift_sets")))
def test_every_edition_of_every_drift_set_draws(name: str) -> None:
    for type_id, layout_id in drift_set(name):
        page = draw_document(Recipe(type_id, 4, 600, layouts=(layout_id,))).page
        assert page.values and page.layout.id == layout_id
    with pytest.raises(LayoutError, match="licence_editions"):
        drift_set("none")


def test_documents_outside_the_schema_exist() -> None:
    assert {"invoice", "notice", "quotation"} <= set(other_ids())
    for type_id in other_ids():
        assert draw_document(Recipe(type_id, 1, 600)).page.items


def test_errors_name_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(UnknownTypeError, match="business_licence"):
        load_layouts("passport")
    with pytest.raises(LayoutError, match="horizontal_2019"):
        find_layout("business_licence", "no_such_form")
    doc_type = load_types().get("business_licence")
    path = tmp_path / "x.toml"
    for text, words in (
        (
            "title = 'x'\nheight = 700\nrows = [{ field = 'name', at = [1, 2], labels = ['姓氏'] }]",
            "no printed label",
        ),
        ("title = 'x'\nheight = 700\nrows = [{ field = 'nome', at = [1, 2] }]", "has no fields"),
        ("title = 'x'\nheight = 700\nrows = [{ field = 'name', at = [1, 2], colour = 3 }]", "unknown keys"),
        ("title = 'x'\nheight = 700\nrows = [{ field = 'name', at = [1, 2], value_style = 'no' }]", "not defined"),
        ("title = 'x'\nheight = 700\nbackground = 'gone.png'", "does not stand beside"),
        ("title = ", "x.toml"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(LayoutError, match=words):
            read_layout(path, doc_type)
