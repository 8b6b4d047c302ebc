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
    from certloop.agentrl.signals.judge import JudgeConfig
    from certloop.extract import ExtractConfig
    from certloop.serve.config import ServeConfig


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

    readers: int = Field(1, ge=1, le=256, description="documents that `certloop serve` or `worker` reads at a time")
    job_attempts: int = Field(3, ge=1, le=100, description="how often a document is tried before it is given up")
    job_timeout_s: float = Field(300.0, gt=0, le=86_400, allow_inf_nan=False, description="seconds one try may take")
    queue_limit: int = Field(5000, ge=1, description="documents of a tenant that may wait; more are answered 429")
    lease_s: float = Field(
        30.0, ge=3, le=3600, allow_inf_nan=False, description="seconds after which a silent worker's work is taken"
    )
    drain_s: float = Field(60.0, ge=0, le=3600, allow_inf_nan=False, description="seconds that readings may go on after SIGTERM")
    batch_bytes: int = Field(1 << 30, gt=0, description="most bytes of one batch, unpacked")
    batch_files: int = Field(2000, ge=1, le=100_000, description="most files of one batch")
    archive_entries: int = Field(5000, ge=1, le=60_000, description="most entries of one ZIP archive")
    fetch: bool = Field(False, description="documents may be given by URL (public https addresses only)")
    hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Host names that the service answers to, separated by commas; empty: any, in demo mode loopback names"
    )
    proxies: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed, by commas"
    )
    metrics_open: bool = Field(False, description="/metrics answers anybody, with the totals of all tenants")
    webhook_private: bool = Field(False, description="webhooks may go to private and loopback addresses, and over http")
    artefact_dir: str = Field(
        "",
        description="folder of releases' files, the same for every host; empty: beside SQLite, else in the user's data",
    )
    telemetry: bool = Field(False, description="send traces with OpenTelemetry (package extra `telemetry`; its own variables)")
    judge_url: str = Field(
        "",
        description="an OpenAI-compatible server that judges whole trajectories and what a conversation's next message means"
        " (empty: rules do that)",
    )
    judge_model: str = Field("", description="the model of that server")
    judge_key_file: str = Field("", description="file of that server's key; empty: none")

    @field_validator("template_path", mode="before")
    @classmethod
    def _split_path(cls, value: Any) -> Any:
        return tuple(part for part in value.split(os.pathsep) if part) if isinstance(value, str) else value

    @field_validator("hosts", "proxies", mode="before")
    @classmethod
    def _split_hosts(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_serializer("database_url", "blob_url", "model_url", "judge_url")
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

    def judge_config(self, url: str | None = None, model: str | None = None, votes: int = 3) -> JudgeConfig | None:
        """The judge of the settings, or another one with their key; None when neither names one.

        Raises UsageError for a key file that cannot be read or an address without a model, JudgeError for no address.
        """
        from certloop.agentrl.signals.judge import JudgeConfig

        url, model = url or self.judge_url, model or self.judge_model
        if not url:
            return None
        if not model:
            raise UsageError("CERTLOOP_JUDGE_URL needs CERTLOOP_JUDGE_MODEL (--endpoint needs --model)")
        try:
            key = Path(self.judge_key_file).expanduser().read_text(encoding="utf-8").strip() if self.judge_key_file else None
        except (OSError, UnicodeDecodeError):
            raise UsageError("the file of CERTLOOP_JUDGE_KEY_FILE cannot be read") from None
        return JudgeConfig(url, model, votes, api_key=key)

    def serve_config(self, *, demo: bool = False) -> ServeConfig:
        """The frozen configuration of the serving room. Raises StoreKeyError for a key file that holds no key."""
        from certloop.agentrl.store import read_key
        from certloop.serve.config import EdgeConfig, IntakeLimits, JobConfig, ServeConfig

        return ServeConfig(
            database_url=self.database_url,
            blob_url=self.blob_url,
            cipher=read_key(Path(self.store_key_file).expanduser()) if self.store_key_file else None,
            demo=demo,
            artefact_dir=Path(self.artefact_dir).expanduser() if self.artefact_dir else None,
            judge=self.judge_config(),
            extract=self.extract_config(),
            intake=IntakeLimits(
                file_bytes=self.max_bytes,
                batch_bytes=self.batch_bytes,
                batch_files=self.batch_files,
                archive_entries=self.archive_entries,
                fetch_allowed=self.fetch,
            ),
            jobs=JobConfig(
                readers=self.readers,
                attempts=self.job_attempts,
                timeout_s=self.job_timeout_s,
                queue_limit=self.queue_limit,
                lease_s=self.lease_s,
                drain_s=self.drain_s,
            ),
            edge=EdgeConfig(
                hosts=self.hosts,
                proxies=self.proxies,
                metrics_open=self.metrics_open,
                webhook_private=self.webhook_private,
                telemetry=self.telemetry,
            ),
        )
