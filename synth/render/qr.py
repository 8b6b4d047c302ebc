"""QR codes whose payload says what the label says."""

from __future__ import annotations

from random import Random

import numpy as np
import zxingcpp
from PIL import Image


def licence_payload(rng: Random, name: str, code: str) -> str:
    """What licences' codes hold: an address of the public register (here a reserved domain) with the code, or plain text."""
    sealed = f"{rng.getrandbits(256):064X}"
    return rng.choice(
        [
            f"http://www.gsxt.example/index?uniscid={code}&token={sealed}{sealed[::-1]}",
            f"https://www.gsxt.example/%7B{sealed}{sealed[8:40]}{code}%7D",
            f"统一社会信用代码:{code};企业名称:{name}",
            f"http://gsxt.example/%7B{code}%7D",
        ]
    )


def draw_qr(payload: str, size_px: int) -> Image.Image:
    """An L image of ``size_px`` without a quiet zone."""
    code = zxingcpp.create_barcode(payload, zxingcpp.BarcodeFormat.QRCode, ec_level="M")
    modules = np.array(zxingcpp.write_barcode_to_image(code))
    rows, columns = np.where(modules < 128)
    modules = modules[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    return Image.fromarray(modules).resize((size_px, size_px), Image.Resampling.NEAREST)
