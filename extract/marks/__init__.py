"""What stands on a page beside its print, or over it.

seals.py      find_seals       round, oval and square stamps with colour and confidence
ring_text.py  read_ring_text   the text around a seal
red_ink.py    without_red      the page without its red ink; views of a line for a second read
qr.py         read_qr          QR codes and the codes inside their payloads
occlusion.py  masked_regions   where print was covered
quality.py    quality_flags    blur, glare, photocopy, screenshot and the like
"""

from certloop.extract.marks.occlusion import Cover, CoverKind, MaskedRegions, masked_regions
from certloop.extract.marks.qr import codes_in_payload, read_qr
from certloop.extract.marks.quality import quality_flags
from certloop.extract.marks.red_ink import variants, without_red
from certloop.extract.marks.ring_text import RingReading, read_ring, read_ring_text
from certloop.extract.marks.seals import find_seals

__all__ = [
    "Cover",
    "CoverKind",
    "MaskedRegions",
    "RingReading",
    "codes_in_payload",
    "find_seals",
    "masked_regions",
    "quality_flags",
    "read_qr",
    "read_ring",
    "read_ring_text",
    "variants",
    "without_red",
]
