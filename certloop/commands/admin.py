"""``certloop admin``: tenants, API keys and users, directly on the database. JSON on standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor
    from certloop.serve.people.roles import Role


def _group(words: str) -> typer.Typer:
    return typer.Typer(help=words, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


app = _group("Tenants, API keys and users of the service.")
tenant_app = _group("Tenants: who is kept apart from whom.")
key_app = _group("API keys: shown once, kept as a hash.")
user_app = _group("Users of the desk.")
app.add_typer(tenant_app, name="tenant")
app.add_typer(key_app, name="key")
app.add_typer(user_app, name="user")

DatabaseOption = Annotated[
    str | None, typer.Option("--database", metavar="URL", help="The database (default: CERTLOOP_DATABASE_URL).")
]
TenantOption = Annotated[str, typer.Option("--tenant", metavar="T", help="Whose.")]
TenantArgument = Annotated[str, typer.Argument(metavar="TENANT")]
RoleOption = Annotated[str, typer.Option("--role", metavar="ROLE", help="operator, auditor, engineer or admin.")]
DaysOption = Annotated[
    int | None, typer.Option("--days", min=1, max=3650, metavar="N", help="How long it works (default: until it is revoked).")
]
SettingsOption = Annotated[
    str | None, typer.Option("--settings", metavar="JSON", help='Settings to change, such as \'{"consent": "tenant"}\'.')
]


@contextmanager
def open_service(url: str | None, *, create: bool = False) -> Iterator[Service]:
    """The service's tables without its processes. Only ``create`` makes a database that is not there."""
    from certloop.agentrl.store.engine import parse_url
    from certloop.commands.store import store_cipher
    from certloop.errors import UsageError
    from certloop.serve.config import ServeConfig
    from certloop.serve.context import Service
    from certloop.settings import Settings

    settings = Settings.load()
    place = parse_url(url or settings.database_url)
    if place.get_backend_name() == "sqlite" and not create and not Path(str(place.database)).exists():
        raise UsageError("there is no database at this address yet; `certloop admin tenant create` makes one")
    config = ServeConfig(url or settings.database_url, settings.blob_url, store_cipher(settings))
    with Service.open(config) as service:
        yield service


def _actor(tenant: str) -> Actor:
    """Commands act as the admin of any tenant: whoever may open the database may do more than that already."""
    from certloop.serve.people.actor import Actor
    from certloop.serve.people.roles import Role

    return Actor.of(tenant, f"cli:uid-{os.getuid()}", Role.ADMIN)


def acting_for(service: Service, tenant: str) -> Actor:
    from certloop.serve.people import tenants

    tenants.get(service, tenant)
    return _actor(tenant)


def _role(word: str) -> Role:
    from certloop.errors import UsageError
    from certloop.serve.people.roles import Role

    try:
        return Role(word)
    except ValueError:
        raise UsageError(f"no role {word!r}; there are {', '.join(Role)}") from None


def _print(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def _settings(text: str | None) -> dict[str, Any]:
    from certloop.errors import UsageError

    try:
        value = json.loads(text) if text else {}
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UsageError("--settings takes a JSON object")
    return value


@tenant_app.command("create")
def tenant_create(
    tenant: TenantArgument,
    name: Annotated[str, typer.Option(metavar="WORDS", help="What people call it.")] = "",
    settings: SettingsOption = None,
    database: DatabaseOption = None,
) -> None:
    """Make a tenant. Its name becomes a folder's name: lower-case letters, digits, - and _."""
    from certloop.serve.people import tenants

    chosen = tenants.parse_settings(_settings(settings))
    with open_service(database, create=True) as service:
        _print(tenants.create(service, _actor(tenant), tenant, name, chosen).to_json())


@tenant_app.command("list")
def tenant_list(database: DatabaseOption = None) -> None:
    """All tenants with their settings."""
    from certloop.serve.people import tenants

    with open_service(database) as service:
        _print([tenant.to_json() for tenant in tenants.every(service)])


@tenant_app.command("set")
def tenant_set(tenant: TenantArgument, settings: SettingsOption = None, database: DatabaseOption = None) -> None:
    """Change settings of a tenant; what is not named stays, null gives the default back."""
    from certloop.serve.people import tenants

    with open_service(database) as service:
        _print(tenants.change_settings(service, acting_for(service, tenant), tenant, _settings(settings)).to_json())


@tenant_app.command("disable")
def tenant_disable(tenant: TenantArgument, database: DatabaseOption = None) -> None:
    """Let nobody of a tenant in; what it stored stays."""
    from certloop.serve.people import tenants

    with open_service(database) as service:
        _print(tenants.set_disabled(service, acting_for(service, tenant), tenant, True).to_json())


@tenant_app.command("enable")
def tenant_enable(tenant: TenantArgument, database: DatabaseOption = None) -> None:
    """Let a tenant in again."""
    from certloop.serve.people import tenants

    with open_service(database) as service:
        _print(tenants.set_disabled(service, acting_for(service, tenant), tenant, False).to_json())


@key_app.command("create")
def key_create(
    tenant: TenantOption,
    role: RoleOption,
    name: Annotated[str, typer.Option(metavar="WORDS", help="What it is for.")],
    scope: Annotated[list[str] | None, typer.Option(metavar="SCOPE", help="Only this permission; may be repeated.")] = None,
    days: DaysOption = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="The key ends with this user.")] = None,
    database: DatabaseOption = None,
) -> None:
    """Make an API key. It is printed this once; keep it where secrets are kept."""
    from certloop.errors import UsageError
    from certloop.serve.people import keys
    from certloop.serve.people.roles import Permission

    try:
        scopes = [Permission(word) for word in scope or ()]
    except ValueError:
        raise UsageError(f"scopes are {', '.join(Permission)}") from None
    with open_service(database) as service:
        ends = None if days is None else service.clock() + timedelta(days=days)
        who = acting_for(service, tenant)
        key, secret = keys.create(service, who, name, _role(role), scopes=scopes, expires_at=ends, user_id=user)
        _print(key.to_json() | {"key": secret})


@key_app.command("list")
def key_list(tenant: TenantOption, database: DatabaseOption = None) -> None:
    """The keys of a tenant: what is known of them, never the keys themselves."""
    from certloop.serve.people import keys

    with open_service(database) as service:
        _print([key.to_json() for key in keys.every(service, acting_for(service, tenant))])


@key_app.command("rotate")
def key_rotate(
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID")],
    tenant: TenantOption,
    overlap_hours: Annotated[float, typer.Option(min=0, max=720, metavar="H", help="How long the old key works on.")] = 24.0,
    days: DaysOption = None,
    database: DatabaseOption = None,
) -> None:
    """Replace a key by a new one with the same rights."""
    from certloop.serve.people import keys

    with open_service(database) as service:
        ends = None if days is None else service.clock() + timedelta(days=days)
        who = acting_for(service, tenant)
        key, secret = keys.rotate(service, who, key_id, overlap=timedelta(hours=overlap_hours), expires_at=ends)
        _print(key.to_json() | {"key": secret})


@key_app.command("revoke")
def key_revoke(
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID")], tenant: TenantOption, database: DatabaseOption = None
) -> None:
    """End a key at once."""
    from certloop.serve.people import keys

    with open_service(database) as service:
        _print(keys.revoke(service, acting_for(service, tenant), key_id).to_json())


@user_app.command("create")
def user_create(
    login: Annotated[str, typer.Argument(metavar="LOGIN")],
    tenant: TenantOption,
    role: RoleOption,
    no_password: Annotated[bool, typer.Option("--no-password", help="Nobody can log in as this user.")] = False,
    database: DatabaseOption = None,
) -> None:
    """Make a user of the desk. The password is asked for, or read from standard input."""
    from certloop.serve.people import users

    password = None if no_password else _password()
    with open_service(database) as service:
        _print(users.create(service, acting_for(service, tenant), login, _role(role), password).to_json())


@user_app.command("list")
def user_list(tenant: TenantOption, database: DatabaseOption = None) -> None:
    """The users of a tenant."""
    from certloop.serve.people import users

    with open_service(database) as service:
        _print([user.to_json() for user in users.every(service, acting_for(service, tenant))])


@user_app.command("password")
def user_password(
    user_id: Annotated[str, typer.Argument(metavar="USER_ID")], tenant: TenantOption, database: DatabaseOption = None
) -> None:
    """Give a user another password, asked for or read from standard input; it ends the user's sessions."""
    _change(database, tenant, user_id, password=_password())


@user_app.command("role")
def user_role(
    user_id: Annotated[str, typer.Argument(metavar="USER_ID")],
    tenant: TenantOption,
    role: RoleOption,
    database: DatabaseOption = None,
) -> None:
    """Give a user another role."""
    _change(database, tenant, user_id, role=_role(role))


@user_app.command("disable")
def user_disable(
    user_id: Annotated[str, typer.Argument(metavar="USER_ID")], tenant: TenantOption, database: DatabaseOption = None
) -> None:
    """Shut a user out: sessions and keys of the user end at once."""
    _change(database, tenant, user_id, disabled=True)


@user_app.command("enable")
def user_enable(
    user_id: Annotated[str, typer.Argument(metavar="USER_ID")], tenant: TenantOption, database: DatabaseOption = None
) -> None:
    """Let a user in again."""
    _change(database, tenant, user_id, disabled=False)


def _change(database: str | None, tenant: str, user_id: str, **changes: Any) -> None:
    from certloop.serve.people import users

    with open_service(database) as service:
        _print(users.change(service, acting_for(service, tenant), user_id, **changes).to_json())


def _password() -> str:
    """Never an argument: those stand in the shell's history and in the list of processes."""
    if sys.stdin.isatty():
        chosen: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return chosen
    return sys.stdin.readline().rstrip("\r\n")
