"""The real engine on pages drawn here, whose every value and place is known: clean, photographed, turned, grey, in PDFs."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from certloop.extract import Document, Extractor, FieldStatus, FileStatus
from certloop.extract.evaluation import same_value
from certloop.synth import Recipe, make_sample
from certloop.synth.perturb import load_profile
from certloop.templates import Registry

CLEAN = [
    ("business_licence", "horizontal_2019", 11),
    ("business_licence", "vertical_2015_sole", 11),
    ("food_operation_permit", "new_2023", 11),
    ("drug_operation_permit", "form_2020", 11),
    ("bank_account_permit", "basic_account_information", 11),
    ("road_transport_operation_permit", "landscape", 11),
]
PHOTOS = [
    ("business_licence", "vertical_2015_sole", 12),
    ("bank_account_permit", "basic_account_information", 12),
    ("road_transport_operation_permit", "landscape", 12),
    ("id_card", "front", 12),
]
Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Drawn:
    """A drawn page, what stands on it, and what was read."""

    pixels: Pixels
    label: Mapping[str, Any]
    document: Document


def draw(
    type_id: str, layout: str, seed: int, profile: str = "clean", *, width_px: int = 1200, misprint_rate: float = 0.0
) -> Any:
    recipe = Recipe(type_id, seed, width_px, layouts=(layout,), misprint_rate=misprint_rate)
    return make_sample(recipe, load_profile(profile))


def png(pixels: Pixels, **options: Any) -> bytes:
    return encoded(Image.fromarray(pixels), "PNG", **options)


def encoded(image: Image.Image, fmt: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, fmt, **options)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def pages(extractor: Extractor) -> Mapping[tuple[str, str], Drawn]:
    drawn = {}
    for profile, papers in (("clean", CLEAN), ("photo", PHOTOS)):
        for type_id, layout, seed in papers:
            sample = draw(type_id, layout, seed, profile)
            (document,) = extractor.read(sample.encoded()).documents
            drawn[profile, layout] = Drawn(sample.image, sample.label, document)
    return drawn


def printed(document: Document) -> dict[str, str | None]:
    """Every value but the authority, which these forms show only in the ring of a seal."""
    return {key: field.value for key, field in document.fields.items() if key != "authority"}


def test_types(pages: Mapping[tuple[str, str], Drawn]) -> None:
    assert {k: d.document.doc_type for k, d in pages.items()} == {k: d.label["type_id"] for k, d in pages.items()}


@pytest.mark.parametrize("layout", [layout for _, layout, _ in CLEAN])
def test_required_fields_and_codes_of_a_clean_page(
    pages: Mapping[tuple[str, str], Drawn], registry: Registry, layout: str
) -> None:
    page = pages["clean", layout]
    doc_type = registry.get(page.document.doc_type)
    for field in {*doc_type.required, "credit_code", "registration_no"} & set(doc_type.fields):
        label = doc_type.fields[field].label
        if page.label["fields"].get(label):
            read = page.document.fields[field]
            assert same_value(label, page.label["fields"][label], read.value or ""), (
                label,
                page.label["fields"][label],
                read.value,
            )
            assert read.status is FieldStatus.READ


def test_required_fields_of_photographs(pages: Mapping[tuple[str, str], Drawn], registry: Registry) -> None:
    right, total = 0, 0
    for (profile, _), page in pages.items():
        doc_type = registry.get(page.label["type_id"])
        for field in doc_type.required if profile == "photo" else ():
            label = doc_type.fields[field].label
            if page.label["fields"].get(label):
                total += 1
                right += same_value(label, page.label["fields"][label], page.document.fields[field].value or "")
    assert total >= 12
    assert right / total >= 0.8


@pytest.mark.parametrize("profile", ["clean", "photo"])
def test_a_value_is_shown_where_it_is_printed(pages: Mapping[tuple[str, str], Drawn], profile: str) -> None:
    """The polygon of a value lies on the lines that were drawn, turned pages and perspective included."""
    checked = 0
    for (kind, layout), page in pages.items():
        labels = {f.label: f for f in page.document.fields.values()} if kind == profile else {}
        for label, field in labels.items():
            box = page.label["boxes"].get(label)
            if field.box is None or box is None or box["field"] == "authority":  # it may have been read off a seal
                continue
            if not same_value(label, page.label["fields"][label] or "", field.value or ""):
                continue
            drawn = np.array([point for line in box["lines"] for point in line])
            found = np.asarray(field.box)
            checked += 1
            assert overlap(found, drawn) > 0.3, (layout, label)
            assert (found.min(axis=0) < drawn.mean(axis=0)).all(), (layout, label)
            assert (drawn.mean(axis=0) < found.max(axis=0)).all(), (layout, label)
    assert checked > 15


def overlap(a: NDArray[np.floating], b: NDArray[np.floating]) -> float:
    """Intersection over union of two polygons' bounding boxes."""
    low, high = np.maximum(a.min(axis=0), b.min(axis=0)), np.minimum(a.max(axis=0), b.max(axis=0))
    shared = float(np.prod(np.clip(high - low, 0, None)))
    return shared / (float(np.prod(np.ptp(a, axis=0))) + float(np.prod(np.ptp(b, axis=0))) - shared)


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_turned_copy_reads_the_same_and_its_boxes_turn_with_it(
    extractor: Extractor, pages: Mapping[tuple[str, str], Drawn], turns: int
) -> None:
    """``turns`` quarter turns clockwise of the pixels themselves."""
    upright = pages["clean", "basic_account_information"]
    pixels = np.ascontiguousarray(np.rot90(upright.pixels, -turns))
    (document,) = extractor.read(png(pixels)).documents
    assert printed(document) == printed(upright.document)
    height, width = upright.pixels.shape[:2]
    for key, field in document.fields.items():
        before = upright.document.fields[key].box
        if key != "authority" and before is not None and field.box is not None:
            expected = np.asarray(before)
            for turn in range(turns):
                expected = np.stack([(height, width)[turn % 2] - expected[:, 1], expected[:, 0]], axis=1)
            assert overlap(np.asarray(field.box), expected) > 0.7, key


@pytest.mark.parametrize(("orientation", "turns"), [(3, 2), (6, 1), (8, 3)])
def test_an_exif_turn_reads_the_same_in_the_same_pixels(
    extractor: Extractor, pages: Mapping[tuple[str, str], Drawn], orientation: int, turns: int
) -> None:
    """A viewer shows this file upright, so values and boxes are those of the upright page."""
    upright = pages["clean", "basic_account_information"]
    stored = Image.fromarray(np.ascontiguousarray(np.rot90(upright.pixels, turns)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    result = extractor.read(encoded(stored, "TIFF", exif=exif))
    assert result.documents == (upright.document,)


def test_a_grey_copy_reads_the_same(extractor: Extractor, pages: Mapping[tuple[str, str], Drawn], registry: Registry) -> None:
    colour = pages["clean", "basic_account_information"]
    (document,) = extractor.read(encoded(Image.fromarray(colour.pixels).convert("L"), "PNG")).documents
    for field in registry.get("bank_account_permit").required:
        assert document.fields[field].value == colour.document.fields[field].value


def test_a_pdf_of_two_certificates_is_two_documents(extractor: Extractor, pages: Mapping[tuple[str, str], Drawn]) -> None:
    first, second = pages["clean", "basic_account_information"], pages["clean", "landscape"]
    sheets = [Image.fromarray(d.pixels) for d in (first, second)]
    result = extractor.read(encoded(sheets[0], "PDF", save_all=True, append_images=sheets[1:], resolution=144, quality=95))
    assert result.status is FileStatus.OK
    assert [(d.doc_type, d.pages) for d in result.documents] == [
        ("bank_account_permit", (0,)),
        ("road_transport_operation_permit", (1,)),
    ]
    assert result.documents[0].fields["account"].value == first.document.fields["account"].value
    assert result.documents[1].fields["permit_no"].value == second.document.fields["permit_no"].value
    assert {f.page for f in result.documents[1].fields.values() if f.value} == {1}


def test_two_certificates_on_one_picture_are_two_documents(extractor: Extractor, pages: Mapping[tuple[str, str], Drawn]) -> None:
    first, second = pages["clean", "basic_account_information"], pages["clean", "landscape"]
    height = max(first.pixels.shape[0], second.pixels.shape[0])
    sheet = np.full((height, first.pixels.shape[1] + second.pixels.shape[1] + 40, 3), 255, np.uint8)
    sheet[: first.pixels.shape[0], : first.pixels.shape[1]] = first.pixels
    sheet[: second.pixels.shape[0], first.pixels.shape[1] + 40 :] = second.pixels
    result = extractor.read(png(sheet))
    assert [d.doc_type for d in result.documents] == ["bank_account_permit", "road_transport_operation_permit"]
    left, right = result.documents
    assert left.box is not None
    assert right.box is not None
    assert np.asarray(left.box)[:, 0].max() < np.asarray(right.box)[:, 0].min() + 100
    assert left.fields["account"].value == first.document.fields["account"].value
    assert right.fields["permit_no"].value == second.document.fields["permit_no"].value


@pytest.fixture(scope="module")
def card() -> Sequence[Any]:
    return [draw("id_card", side, 11, width_px=1000) for side in ("front", "back")]


def test_both_sides_of_a_card_on_two_pages_are_one_document(extractor: Extractor, card: Sequence[Any]) -> None:
    front, back = (Image.fromarray(side.image) for side in card)
    result = extractor.read(encoded(front, "PDF", save_all=True, append_images=[back], resolution=144, quality=95))
    (document,) = result.documents
    assert (document.doc_type, document.pages) == ("id_card", (0, 1))
    for side, page in ((card[0], 0), (card[1], 1)):
        for label in {"姓名", "公民身份号码", "签发机关", "有效期限"} & set(side.label["fields"]):
            field = next(f for f in document.fields.values() if f.label == label)
            assert same_value(label, side.label["fields"][label], field.value or ""), label
            assert field.page == page
    assert FieldStatus.MISSING_PAGE not in {f.status for f in document.fields.values()}


def test_one_side_of_a_card_lacks_the_other(extractor: Extractor, card: Sequence[Any]) -> None:
    (document,) = extractor.read(card[1].encoded()).documents
    missing = {k for k, f in document.fields.items() if f.status is FieldStatus.MISSING_PAGE}
    assert missing == {"name", "sex", "ethnicity", "birth", "address", "id_number"}


def test_a_misprinted_code_stays_as_printed_and_fails_its_rule(extractor: Extractor) -> None:
    sample = draw("business_licence", "horizontal_2019", 31, misprint_rate=1.0)
    assert sample.label["misprinted"] == ["统一社会信用代码"]
    (document,) = extractor.read(sample.encoded()).documents
    field = document.fields["credit_code"]
    assert field.value == sample.label["fields"]["统一社会信用代码"]
    assert any(v.failed for v in field.validations)
    assert field.confidence <= 0.5
    assert "suggestion" not in field.to_json() or field.suggestion != field.value
