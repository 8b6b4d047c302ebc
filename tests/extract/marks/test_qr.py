from __future__ import annotations

from urllib.parse import quote

import cv2
import numpy as np
import pytest
import zxingcpp

from certloop.extract.marks import codes_in_payload, read_qr

CODE = "91310115MA1K4BNC3X"
PAYLOAD = f"http://www.gsxt.gov.cn/index.html?uniscid={CODE}"


def with_code(page, payload, x, y, side, width=1000, height=700):
    barcode = zxingcpp.create_barcode(payload, zxingcpp.BarcodeFormat.QRCode)
    tile = np.array(zxingcpp.write_barcode_to_image(barcode, scale=4, add_quiet_zones=True))
    tile = cv2.resize(tile, (side, side), interpolation=cv2.INTER_NEAREST)
    image = page(width, height).paragraph(lines=4).pixels
    image[y : y + side, x : x + side] = tile[:, :, None]
    return image


def test_payload_and_place(page):
    (code,) = read_qr(with_code(page, PAYLOAD, 700, 400, 160))
    box = np.array(code.box)
    assert code.payload == PAYLOAD
    assert box[:, 0].min() > 695
    assert box[:, 1].min() > 395
    assert box[0] == pytest.approx(box.min(axis=0), abs=6)
    assert np.ptp(box, axis=0) == pytest.approx((145, 145), abs=25)


def test_a_large_page_gives_places_in_its_own_pixels(page):
    (code,) = read_qr(with_code(page, PAYLOAD, 2000, 1500, 320, 3000, 2200))
    assert np.mean(code.box, axis=0) == pytest.approx((2160, 1660), abs=8)


def test_turned_code_starts_at_its_own_top_left(page):
    image = np.ascontiguousarray(np.rot90(with_code(page, PAYLOAD, 700, 400, 160), 2))
    (code,) = read_qr(image)
    assert code.box[0][0] > code.box[1][0]


def test_pages_without_codes(page):
    assert read_qr(page().paragraph().pixels) == []
    assert read_qr(np.zeros((1, 1, 3), np.uint8)) == []
    assert read_qr(np.full((3000, 20, 3), 255, np.uint8)) == []


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (PAYLOAD, {"credit_code": CODE}),
        (
            f"统一社会信用代码:{CODE};注册号:310115000123456;名称:甲城商贸有限公司",
            {"credit_code": CODE, "registration_no": "310115000123456", "name": "甲城商贸有限公司"},
        ),
        (f"http://x.cn/a?entName={quote('甲城商贸有限公司')}&id=7", {"name": "甲城商贸有限公司"}),
        ("许可证编号：JY13101150000017", {"permit_no": "JY13101150000017"}),
        (f"https://x.cn/{CODE.lower()}/show", {"credit_code": CODE}),
        ("", {}),
        ("http://[", {}),
        ("9" * 100000, {}),
        (f"A{CODE}7", {}),
    ],
)
def test_codes_in_payload(payload, found):
    assert codes_in_payload(payload) == found
