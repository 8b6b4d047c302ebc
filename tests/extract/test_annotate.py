"""Annotated pages: boxes on the print, names beside it."""

from __future__ import annotations

import numpy as np
import pytest

from certloop.extract.annotate import AMBER, GREEN, GREY, RED, annotate, color_of
from certloop.extract.ingest import Page
from certloop.extract.result import Document, FieldResult, FieldStatus, FileStatus, QrCode, Result, Seal
from certloop.validators.outcome import Outcome, Severity, Verdict

BOX = ((100.0, 50.0), (300.0, 50.0), (300.0, 90.0), (100.0, 90.0))


def page(width: int = 600, height: int = 400, scale: float = 1.0, index: int = 0) -> Page:
    image = np.full((round(height * scale), round(width * scale), 3), 255, np.uint8)
    return Page(image, index, width, height, scale, "png")


def field(status: FieldStatus = FieldStatus.READ, confidence: float = 0.99, severity: Severity | None = None) -> FieldResult:
    failed = () if severity is None else (Verdict("rule", severity, Outcome.FAIL, "不符", "does not fit"),)
    value = "示例公司" if status is FieldStatus.READ else None
    return FieldResult("名称", value, value, status, confidence, BOX, 0, failed)


def result(*fields: FieldResult, **document: object) -> Result:
    named = {f"field{i}": f for i, f in enumerate(fields)}
    return Result("a.png", FileStatus.OK, (Document("business_licence", 0.9, named, **document),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shown", "color"),
    [
        (field(), GREEN),
        (field(confidence=0.5), AMBER),
        (field(severity=Severity.SOFT), AMBER),
        (field(severity=Severity.HARD), RED),
        (field(FieldStatus.UNREADABLE), RED),
        (field(FieldStatus.BLANK), GREY),
        (field(FieldStatus.ABSENT), GREY),
    ],
)
def test_the_color_says_whether_a_person_must_look(shown: FieldResult, color: tuple[int, int, int]) -> None:
    assert color_of(shown) == color
    if shown.status is not FieldStatus.ABSENT:  # what the form lacks has no place on it
        (picture,) = annotate(result(shown), [page()])
        assert picture.getpixel((200, 50)) == color


def test_the_print_itself_stays_free() -> None:
    (picture,) = annotate(result(field()), [page()])
    inside = np.asarray(picture)[55:85, 105:295]
    assert (inside == 255).all()


def test_boxes_follow_a_page_that_was_scaled_down() -> None:
    """Boxes are pixels of the page as given; the picture shows the page at its reduced size."""
    (picture,) = annotate(result(field()), [page(scale=0.5)])
    assert picture.getpixel((100, 25)) == GREEN


def test_the_panel_grows_with_its_content_and_stands_beside_the_page() -> None:
    (short,) = annotate(result(field()), [page()])
    (long,) = annotate(result(*[field()] * 40), [page()])
    assert short.width == long.width > 600
    assert short.height >= 400
    assert long.height > short.height


def test_each_page_shows_its_own_documents_and_fields() -> None:
    shown = result(field(), pages=(0,))
    first, second = annotate(shown, [page(), page(index=1)])
    assert first.getpixel((200, 50)) == GREEN
    assert second.getpixel((200, 50)) == (255, 255, 255)


def test_seals_codes_and_failed_files_are_drawn_too() -> None:
    seal = Seal(BOX, "red", "round", 0.9)
    code = QrCode("payload", BOX)
    (picture,) = annotate(result(seals=(seal,), qr=(code,)), [page()])
    assert picture.getpixel((200, 50)) != (255, 255, 255)
    failed = Result("a.png", FileStatus.FAILED, error={"code": "x", "message": "y"})
    assert len(annotate(failed, [page()])) == 1


def test_what_is_missing_stands_in_the_panel() -> None:
    shown = annotate(result(field(), missing=("scope",)), [page()])[0]
    assert shown.tobytes() != annotate(result(field()), [page()])[0].tobytes()
