"""Tenants and their settings. A tenant without a row has the defaults; a disabled one is let in nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from sqlalchemy import Connection, insert, select, update

from certloop.agentrl.store import NotFoundError
from certloop.agentrl.trajectory import Consent
from certloop.serve.db.access import reading, writing
from certloop.serve.db.schema import tenants
from certloop.serve.errors import ConflictError, SettingsError
from certloop.serve.people.place import Place, audit, written
from certloop.serve.people.roles import Permission

if TYPE_CHECKING:
    from certloop.serve.people.actor import Actor


def whole(value: object) -> object:
    """5.0 is the integer 5 in JSON; true and "5" are not."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
AcceptedError = Annotated[float, Field(strict=True, gt=0, lt=1, allow_inf_nan=False)]
LeaseSeconds = Annotated[float, Field(strict=True, ge=10, le=86_400, allow_inf_nan=False)]
Purpose = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
QueueLimit = Annotated[int, Field(strict=True, ge=1, le=10_000_000), BeforeValidator(whole)]
Rate = Annotated[float, Field(strict=True, ge=0.001, le=100_000, allow_inf_nan=False)]
Burst = Annotated[int, Field(strict=True, ge=1, le=1_000_000), BeforeValidator(whole)]
Retention = Annotated[float, Field(strict=True, ge=1, le=36_500, allow_inf_nan=False)]


class ReviewSettings(BaseModel):
    """When a certificate goes to a person."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    accepted_error: AcceptedError = Field(
        0.02, description="share of errors accepted among fields that nobody looks at; what is less sure goes to review"
    )
    all_fields: bool = Field(False, strict=True, description="ask sureness of optional fields, too")
    sampling: Share = Field(0.02, description="share of the certificates that would pass and are looked at all the same")
    lease_s: LeaseSeconds = Field(600.0, description="seconds a claimed review stays claimed")
    double_check: Share = Field(0.05, description="share of the decided certificates that a second auditor decides as well")


class TenantSettings(BaseModel):
    """What a tenant may set for itself; all of it has a default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    consent: Consent = Field(Consent.NONE, description="what documents may be used for when the upload says nothing")
    purpose: Purpose = Field("", description="why documents are read when the upload says nothing")
    queue_limit: QueueLimit | None = Field(None, description="documents that may wait at a time; null: the service's limit")
    rate_per_s: Rate = Field(50.0, description="requests a second of one key")
    burst: Burst = Field(100, description="requests a key may make at once after a pause")
    retention_days: Retention | None = Field(None, description="documents older than this are erased; null: kept")
    review: ReviewSettings = ReviewSettings()


@dataclass(frozen=True, slots=True)
class Tenant:
    tenant: str
    name: str
    settings: TenantSettings
    created_at: str | None
    disabled_at: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "tenant": self.tenant,
            "name": self.name,
            "settings": self.settings.model_dump(mode="json"),
            "created_at": self.created_at,
            "disabled_at": self.disabled_at,
        }


DEFAULTS = TenantSettings()


def parse_settings(values: object) -> TenantSettings:
    """Raises SettingsError, which names the keys that are wrong and what would be right."""
    try:
        return TenantSettings.model_validate(values)
    except ValidationError as error:
        places = [{"loc": [str(part)[:64] for part in e["loc"]], "message": e["msg"]} for e in error.errors()]
        words = "; ".join(f"{'.'.join(map(str, place['loc']))}: {place['message']}" for place in places[:5])
        raise SettingsError(f"settings of the tenant: {words}", places) from None


def settings_in(connection: Connection, tenant: str) -> TenantSettings:
    """The settings of a tenant, on the caller's connection."""
    text = connection.execute(select(tenants.c.settings).where(tenants.c.tenant == tenant)).scalar()
    return DEFAULTS if text is None else TenantSettings.model_validate_json(text)


def settings_of(place: Place, tenant: str) -> TenantSettings:
    with reading(place.engine, None) as connection:
        return settings_in(connection, tenant)


def create(place: Place, actor: Actor, tenant: str, name: str = "", settings: TenantSettings = DEFAULTS) -> Tenant:
    """A new tenant. Only commands call this: nobody inside a tenant may make another. Raises TenantError, ConflictError."""
    actor.require(Permission.ADMIN)
    place.store.for_tenant(tenant)  # checks the name and makes the store's side
    at = written(place.clock())
    values = {"tenant": tenant, "name": name or tenant, "settings": settings.model_dump_json(), "created_at": at}
    with writing(place.engine, tenant) as connection:
        if connection.execute(select(tenants.c.tenant).where(tenants.c.tenant == tenant)).first() is not None:
            raise ConflictError(f"there is a tenant {tenant} already")
        connection.execute(insert(tenants), [values])
        audit(connection, actor, "tenant.create", tenant)
    return Tenant(tenant, name or tenant, settings, at, None)


def get(place: Place, tenant: str) -> Tenant:
    """A tenant that was created, or one that only the store knows, with default settings. Raises NotFoundError."""
    with reading(place.engine, None) as connection:
        row = connection.execute(select(tenants).where(tenants.c.tenant == tenant)).first()
    if row is not None:
        return _tenant(row)
    if tenant in place.store.tenants():
        return Tenant(tenant, tenant, DEFAULTS, None, None)
    raise NotFoundError("no tenant by this name")


def every(place: Place) -> tuple[Tenant, ...]:
    """All tenants by name; for commands only."""
    with reading(place.engine, None) as connection:
        return tuple(_tenant(row) for row in connection.execute(select(tenants).order_by(tenants.c.tenant)))


def change_settings(place: Place, actor: Actor, tenant: str, changes: dict[str, Any]) -> Tenant:
    """Replace the settings that ``changes`` names (``review`` key by key); None gives one its default back.

    Raises SettingsError, NotFoundError.
    """
    actor.require(Permission.ADMIN)
    with writing(place.engine, tenant) as connection:
        row = connection.execute(select(tenants).where(tenants.c.tenant == tenant)).first()
        if row is None:
            raise NotFoundError("no tenant by this name")
        before = TenantSettings.model_validate_json(row.settings)
        values = before.model_dump() | changes
        if isinstance(changes.get("review"), dict):
            values["review"] = _without_none(before.review.model_dump() | changes["review"])
        settings = parse_settings(_without_none(values))
        connection.execute(update(tenants).where(tenants.c.tenant == tenant).values(settings=settings.model_dump_json()))
        audit(connection, actor, "tenant.settings", tenant, changed=sorted(changes))
        return Tenant(tenant, row.name, settings, row.created_at, row.disabled_at)


def set_disabled(place: Place, actor: Actor, tenant: str, disabled: bool) -> Tenant:
    """Shut a tenant out, or let it in again; what it stored stays. Raises NotFoundError."""
    actor.require(Permission.ADMIN)
    at = written(place.clock()) if disabled else None
    with writing(place.engine, tenant) as connection:
        changed = connection.execute(update(tenants).where(tenants.c.tenant == tenant).values(disabled_at=at))
        if not changed.rowcount:
            raise NotFoundError("no tenant by this name")
        audit(connection, actor, "tenant.disable" if disabled else "tenant.enable", tenant)
    return get(place, tenant)


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _tenant(row: Any) -> Tenant:
    return Tenant(row.tenant, row.name, TenantSettings.model_validate_json(row.settings), row.created_at, row.disabled_at)
