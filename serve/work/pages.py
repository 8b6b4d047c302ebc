"""The picture of a page, or a part of it: what a person needs to see beside a value."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from sqlalchemy import select

from certloop.agentrl.store import NotFoundError
from certloop.serve.db.access import reading
from certloop.serve.db.schema import certificates
from certloop.serve.errors import RequestError
from certloop.serve.people.roles import Permission
from certloop.serve.work.results import certificate_of

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor

Box = tuple[int, int, int, int]
MARGIN = 0.35
"""Of a field's height: what is shown around it, so that a cut character is seen."""


def page_png(
    service: Service,
    actor: Actor,
    certificate_id: str,
    page: int,
    *,
    crop: Box | None = None,
    field: str | None = None,
    width: int | None = None,
) -> bytes:
    """A page that belongs to a certificate, by its number in the file (from 0).

    ``crop`` is left, top, right, bottom in pixels of the page; ``field`` shows the box of one field; ``width`` makes the picture
    at most so many pixels wide. Raises NotFoundError, RequestError.
    """
    actor.require(Permission.DOCUMENTS_READ)
    document = certificate_of(service, actor, certificate_id)
    pages: list[int] = document["pages"]
    if page not in pages:
        raise NotFoundError("this certificate has no such page")
    with reading(service, actor.tenant) as connection:
        mine = (certificates.c.tenant == actor.tenant, certificates.c.certificate_id == certificate_id)
        trajectory_id = connection.execute(select(certificates.c.trajectory_id).where(*mine)).scalar()
    handle = service.tenant(actor.tenant)
    images = handle.trajectory(str(trajectory_id)).trajectory.image_sha256
    content = handle.get_blob(images[pages.index(page)])
    if field is not None:
        crop = _box_of(document["fields"].get(field), page)
    return content if crop is None and width is None else _cut(content, crop, width)


def _box_of(field: dict[str, object] | None, page: int) -> Box:
    box = None if field is None else field["box"]
    if field is None or not isinstance(box, list) or field["page"] != page:
        raise NotFoundError("this field has no place on this page")
    xs, ys = [point[0] for point in box], [point[1] for point in box]
    margin = MARGIN * (max(ys) - min(ys))
    return (int(min(xs) - margin), int(min(ys) - margin), int(max(xs) + margin + 1), int(max(ys) + margin + 1))


def _cut(content: bytes, crop: Box | None, width: int | None) -> bytes:
    from PIL import Image

    image: Image.Image = Image.open(io.BytesIO(content))
    if crop is not None:
        left, top, right, bottom = max(0, crop[0]), max(0, crop[1]), min(image.width, crop[2]), min(image.height, crop[3])
        if left >= right or top >= bottom:
            raise RequestError("the crop lies outside the page; it is left,top,right,bottom in pixels")
        image = image.crop((left, top, right, bottom))
    if width is not None and image.width > width:
        image = image.resize((width, max(1, round(image.height * width / image.width))), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=3)
    return out.getvalue()
