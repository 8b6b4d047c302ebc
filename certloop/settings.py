"""Settings from the environment (``CERTLOOP_...``). Only the front door reads them; rooms take frozen config objects."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_serializer, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from certloop.errors import UsageError

if TYPE_CHECKING:
    from certloop.extract import ExtractConfig


class Settings(BaseSettings):
    """Every setting with its default. ``certloop doctor`` prints those in force."""

    model_config = SettingsConfigDict(env_prefix="CERTLOOP_", extra="ignore", frozen=True)

    template_path: Annotated[tuple[Path, ...], NoDecode] = Field(
        (),
        description="folders with further document types, separated like PATH; a later one wins",
    )
    engine: Literal["ocr", "ocr-stock", "qwen-vl", "openai"] = Field(
        "ocr",
        description="what reads a page: ocr (embedded), ocr-stock (rapidocr as it comes), qwen-vl (a model in this process), "
        "openai (a model behind a server)",
    )
    model: str = Field("", description="qwen-vl: folder or hub name of the weights; openai: the server's name of the model")
    model_adapter: str = Field("", description="qwen-vl: folder of a LoRA adapter; openai: the name under which one is loaded")
    model_url: str = Field("", description="openai: address of the server up to /v1; pages are sent there")
    model_key_file: str = Field("", description="openai: file that holds the server's key")
    model_timeout_s: float = Field(120.0, gt=0, le=3600, allow_inf_nan=False, description="openai: longest silence of the server")
    model_max_pixels: int = Field(0, ge=0, description="largest page a model is shown, in pixels; 0: what the model was made for")
    model_max_tokens: int = Field(2048, ge=1, le=32768, description="longest answer of a model, in tokens")
    model_constraint: Literal["auto", "grammar", "schema", "none"] = Field(
        "auto", description="openai: how answers are bound: grammar (reasoning, then JSON), schema (JSON alone), auto, none"
    )
    model_device: Literal["auto", "cpu", "cuda"] = Field("auto", description="qwen-vl: where the model runs")
    database_url: str = Field(
        "sqlite:///~/.local/share/certloop/store.db", description="the store: sqlite:///FILE or postgresql://USER@HOST/DATABASE"
    )
    blob_url: str = Field(
        "", description="where the store keeps images: a folder or an fsspec address; SQLite: beside the database if empty"
    )
    store_key_file: str = Field(
        "", description="file of the key that seals the store's personal payloads (32 random bytes, base64); empty: not sealed"
    )
    workers: int = Field(1, ge=1, le=256, description="worker processes of `certloop extract`")
    max_bytes: int = Field(64 << 20, gt=0, description="largest file, in bytes")
    max_pixels: int = Field(80_000_000, gt=0, description="largest page, in pixels")
    max_pages: int = Field(50, gt=0, description="most pages of one file")
    decode_timeout_s: float = Field(30.0, gt=0, le=3600, allow_inf_nan=False, description="seconds one file may take to decode")
    decode_memory_bytes: int = Field(
        1536 << 20, ge=256 << 20, le=1 << 40, description="address space of the decoding process, in bytes"
    )

    @field_validator("template_path", mode="before")
    @classmethod
    def _split_path(cls, value: Any) -> Any:
        return tuple(part for part in value.split(os.pathsep) if part) if isinstance(value, str) else value

    @field_serializer("database_url", "blob_url", "model_url")
    def _without_password(self, value: str) -> str:
        """`certloop doctor` prints settings; a password in an address stays out of it."""
        return re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:***@", value)

    @classmethod
    def load(cls) -> Self:
        """Read the environment. Raises UsageError that names the variable and what is wrong with it."""
        try:
            return cls()
        except ValidationError as error:
            problems = "; ".join(f"CERTLOOP_{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors())
            raise UsageError(f"invalid settings: {problems}") from None

    def extract_config(self) -> ExtractConfig:
        """The frozen configuration of the extract room."""
        from certloop.extract import ExtractConfig
        from certloop.extract.config import ModelConfig
        from certloop.extract.ingest import IngestLimits

        read_by_model = self.engine in ("qwen-vl", "openai")
        return ExtractConfig(
            limits=IngestLimits(
                max_bytes=self.max_bytes,
                max_pixels=self.max_pixels,
                max_pages=self.max_pages,
                timeout_s=self.decode_timeout_s,
                memory_bytes=self.decode_memory_bytes,
            ),
            template_path=tuple(str(p) for p in self.template_path),
            engine=self.engine,
            release=f"{self.engine}:{Path(self.model_adapter or self.model).name}" if read_by_model else "embedded",
            model=ModelConfig(
                model=self.model,
                url=self.model_url,
                key_file=self.model_key_file,
                adapter=self.model_adapter,
                max_pixels=self.model_max_pixels,
                max_tokens=self.model_max_tokens,
                timeout_s=self.model_timeout_s,
                constraint=self.model_constraint,
                device=self.model_device,
            ),
        )
