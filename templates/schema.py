"""What a document type is: frozen values read from a folder, checked once, never changed afterwards."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from certloop.agentrl.errors import CertloopError


class TemplateError(CertloopError, ValueError):
    """A document-type folder is not well formed; the message names the file and the entry."""

    code = "template_invalid"


class UnknownTypeError(CertloopError, KeyError):
    """No document type of that id is on the search path; the message lists the known ones."""

    code = "unknown_type"

    def __str__(self) -> str:
        return self.message


class FieldKind(StrEnum):
    """How a field's value is read, compared, normalised and validated (FIELDS.md)."""

    TEXT = "text"
    LONG_TEXT = "long_text"
    USCC = "uscc"
    REGNO15 = "regno15"
    ID_NUMBER = "id_number"
    DATE = "date"
    DATE_RANGE = "date_range"
    MONEY = "money"
    LICENCE_NO = "licence_no"
    DIGITS = "digits"
    ENUM = "enum"


@dataclass(frozen=True, slots=True)
class SentenceRule:
    """A field that stands inside a printed sentence: ``pattern`` is a regular expression over the squashed text of the
    page with exactly one group named ``value`` (开户许可证: 经审核，<value>符合开户条件)."""

    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field of a document type.

    ``label`` is canonical (the key of the model's JSON), ``aliases`` are other printed labels of the same field.
    ``validators`` are kinds of ``certloop.validators`` (an empty tuple means: those of ``kind``). ``unlabelled`` says that the
    value may stand without a printed label (the issue date under the seal, the permit's copy mark); ``part`` names the side of a
    card that holds the field (front, back): a side that no page shows makes its fields missing_page.
    ``mark`` is seal or signature where the value is not text but whether such a mark is there (``values``: yes and no).
    ``range_of`` names the field beside whose label a range is printed of which this field is the ``range_part`` (start, end).
    """

    id: str
    label: str
    kind: FieldKind
    required: bool = False
    aliases: tuple[str, ...] = ()
    validators: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    unlabelled: bool = False
    placement: str = "right"
    sentences: tuple[SentenceRule, ...] = ()
    value_pattern: re.Pattern[str] | None = None
    part: str | None = None
    range_of: str | None = None
    range_part: str = "end"
    mark: str | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """Every printed form of the label, the canonical one first."""
        return (self.label, *self.aliases)

    @property
    def validator_kinds(self) -> tuple[str, ...]:
        return self.validators or (self.kind.value,)


@dataclass(frozen=True, slots=True)
class DocumentType:
    """One folder of ``templates/``: what the type is called, how it is recognised, and its fields in printed order.

    ``titles`` are printed titles (any of them names the type), ``not_titles`` are titles that contain one of them and mean
    something else (a registration form, a blank application), ``one_of`` are groups of which one field must be present,
    ``stop_labels`` are printed labels that end a value but are no field (boxes, notices, column heads). ``titled`` is false where
    a type is also known without its title, ``form`` where it is running text (a letter) whose labels need a colon.
    """

    id: str
    version: str
    title: str
    title_en: str
    titles: tuple[str, ...]
    fields: Mapping[str, FieldSpec]
    not_titles: tuple[str, ...] = ()
    one_of: tuple[tuple[str, ...], ...] = ()
    stop_labels: tuple[str, ...] = ()
    prompt: str = ""
    source: str = "builtin"
    titled: bool = True
    form: bool = True
    meta: Mapping[str, str] = field(default_factory=dict)

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(f.id for f in self.fields.values() if f.required)

    def canonical_labels(self) -> dict[str, str]:
        """Printed label (squashed, see :func:`squash`) to canonical label, for matching and rewards."""
        return {squash(name): spec.label for spec in self.fields.values() for name in spec.labels}


def squash(text: str) -> str:
    """NFKC without any white space: the form in which labels are compared."""
    return re.sub(r"\s+", "", unicodedata.normalize("NFKC", text))
