"""Provinces: GB/T 2260 two-digit codes, names, one-character abbreviations, and which one an address begins with.

Only the province is ever checked. Counties are abolished, merged and renamed while the codes that hold them stay valid.
"""

from __future__ import annotations

import re

from .printed import code_text

PROVINCES: dict[str, tuple[str, str]] = {
    "11": ("北京", "京"), "12": ("天津", "津"), "13": ("河北", "冀"), "14": ("山西", "晋"), "15": ("内蒙古", "蒙"),
    "21": ("辽宁", "辽"), "22": ("吉林", "吉"), "23": ("黑龙江", "黑"), "31": ("上海", "沪"), "32": ("江苏", "苏"),
    "33": ("浙江", "浙"), "34": ("安徽", "皖"), "35": ("福建", "闽"), "36": ("江西", "赣"), "37": ("山东", "鲁"),
    "41": ("河南", "豫"), "42": ("湖北", "鄂"), "43": ("湖南", "湘"), "44": ("广东", "粤"), "45": ("广西", "桂"),
    "46": ("海南", "琼"), "50": ("重庆", "渝"), "51": ("四川", "川"), "52": ("贵州", "贵"), "53": ("云南", "云"),
    "54": ("西藏", "藏"), "61": ("陕西", "陕"), "62": ("甘肃", "甘"), "63": ("青海", "青"), "64": ("宁夏", "宁"),
    "65": ("新疆", "新"), "71": ("台湾", "台"), "81": ("香港", "港"), "82": ("澳门", "澳"),
}  # fmt: skip
"""Two-digit code to (name, abbreviation)."""

NATIONAL = "10"
"""Codes given by a national administration carry the region 100000, which says nothing about the address."""

TAIWAN_RESIDENTS = "83"
"""Residence permits of Taiwan compatriots use 830000 where the province has 71."""

MAINLAND_ABBREVIATIONS = "京沪津渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼"
"""As in the drug licence rules: the characters that may begin a permit number."""

_BY_ABBREVIATION = {abbreviation: code for code, (_, abbreviation) in PROVINCES.items()}
_BY_NAME = {name: code for code, (name, _) in PROVINCES.items()}
_CITIES = {
    "石家庄": "13", "太原": "14", "呼和浩特": "15", "沈阳": "21", "大连": "21", "长春": "22", "哈尔滨": "23", "南京": "32",
    "苏州": "32", "杭州": "33", "宁波": "33", "合肥": "34", "福州": "35", "厦门": "35", "南昌": "36", "济南": "37",
    "青岛": "37", "郑州": "41", "武汉": "42", "长沙": "43", "广州": "44", "深圳": "44", "南宁": "45", "海口": "46",
    "成都": "51", "贵阳": "52", "昆明": "53", "拉萨": "54", "西安": "61", "兰州": "62", "西宁": "63", "银川": "64",
    "乌鲁木齐": "65",
}  # fmt: skip
_ADDRESS_CHARS = 40
_STREET_OR_COUNTY = r"(?![东南西北中]?[路街区县道]|大道|藏族|蒙古族)"
_ADDRESS_START = re.compile(
    rf"(?:中国)?\(?(?:(?P<province>{'|'.join(_BY_NAME)}){_STREET_OR_COUNTY}|(?P<city>{'|'.join(_CITIES)})市)"
)


def is_province(code: str) -> bool:
    """Whether the two digits are those of a province."""
    return code in PROVINCES


def province_of_abbreviation(character: str) -> str | None:
    """京 -> 11."""
    return _BY_ABBREVIATION.get(character)


def province_of_address(address: str) -> str | None:
    """The two-digit code of the province (or of a well-known city's province) that the address begins with, else None."""
    found = _ADDRESS_START.match(code_text(address[:_ADDRESS_CHARS]))
    if found is None:
        return None
    return _BY_NAME[found["province"]] if found["province"] else _CITIES[found["city"]]
