"""Roles, keys, users, sessions and tenants: who is let in, and who no more."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from datetime import timedelta

import pytest
from callers import ACME, OTHER, PASSWORD, Callers, Hands, admin_of
from sqlalchemy import select, text

from certloop.agentrl.store import NotFoundError, verify
from certloop.serve.context import Service
from certloop.serve.db.access import reading, writing
from certloop.serve.db.schema import keys as keys_table
from certloop.serve.db.schema import sessions as sessions_table
from certloop.serve.db.schema import users as users_table
from certloop.serve.errors import (
    ConflictError,
    ForbiddenError,
    LimitedError,
    LockedOutError,
    LoginError,
    RequestError,
    SettingsError,
    UnauthenticatedError,
)
from certloop.serve.people import keys, passwords, sessions, tenants, users
from certloop.serve.people.actor import Actor
from certloop.serve.people.passwords import Backoff
from certloop.serve.people.roles import GRANTS, Permission, Role


def test_only_an_admin_administers_and_scopes_never_add() -> None:
    assert [role for role in Role if Permission.ADMIN in GRANTS[role]] == [Role.ADMIN]
    assert [role for role in Role if Permission.REVIEWS_DECIDE in GRANTS[role]] == [Role.AUDITOR, Role.ADMIN]
    narrowed = Actor.of(ACME, "key_1", Role.OPERATOR, [Permission.DOCUMENTS_READ, Permission.ADMIN])
    assert narrowed.scopes == {Permission.DOCUMENTS_READ}
    with pytest.raises(ForbiddenError, match="documents:write"):
        narrowed.require(Permission.DOCUMENTS_WRITE)


def test_the_demo_visitor_is_no_admin() -> None:
    assert not Actor.demo().may(Permission.ADMIN)
    assert Actor.demo().may(Permission.REVIEWS_DECIDE)
    assert Actor.demo().tenant == "demo"


def test_a_key_is_kept_as_a_hash_only(service: Service) -> None:
    tenants.create(service, admin_of(ACME), ACME)
    key, secret = keys.create(service, admin_of(ACME), "uploads", Role.OPERATOR)
    assert re.fullmatch(r"ck_[A-Za-z0-9_-]{43}", secret)  # 43 characters of base64url are 256 bits
    with reading(service, None) as connection:
        row = connection.execute(select(keys_table)).one()
    assert row.sha256 == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in str(tuple(row))
    assert keys.authenticate(service, secret).actor == Actor.of(ACME, key.key_id, Role.OPERATOR)


@pytest.mark.parametrize(
    "secret", ["", "ck_", "ck_" + "a" * 43, "ck_" + "a" * 44, "x" * 46, "ck_" + "é" * 43, "ck_" + "a" * 42 + "\n"]
)
def test_what_is_no_known_key_is_refused(service: Service, secret: str) -> None:
    with pytest.raises(UnauthenticatedError):
        keys.authenticate(service, secret)


def test_a_key_ends_with_its_time_its_user_its_tenant_and_its_revocation(callers: Callers, hands: Hands) -> None:
    service = callers.service
    user = callers.user("op", Role.OPERATOR)
    timed = callers.key(ACME, Role.OPERATOR, days=1)
    bound = callers.key(ACME, Role.OPERATOR, user=user.user_id)
    free = callers.key(ACME, Role.OPERATOR)
    hands.move(hours=23)
    assert keys.authenticate(service, timed).actor.tenant == ACME
    hands.move(hours=1)
    with pytest.raises(UnauthenticatedError, match="expired"):
        keys.authenticate(service, timed)
    users.change(service, admin_of(ACME), user.user_id, disabled=True)
    with pytest.raises(UnauthenticatedError, match="disabled"):
        keys.authenticate(service, bound)
    keys.revoke(service, admin_of(ACME), callers.key_ids[free])
    with pytest.raises(UnauthenticatedError, match="revoked"):
        keys.authenticate(service, free)
    tenants.set_disabled(service, admin_of(ACME), ACME, True)
    with pytest.raises(UnauthenticatedError, match="tenant is disabled"):
        keys.authenticate(service, callers.keys["admin"])
    assert keys.authenticate(service, callers.keys["foreign"]).actor.tenant == OTHER
    tenants.set_disabled(service, admin_of(ACME), ACME, False)
    assert keys.authenticate(service, callers.keys["admin"]).actor.role is Role.ADMIN


def test_a_rotated_key_works_through_the_overlap(callers: Callers, hands: Hands) -> None:
    service, admin = callers.service, admin_of(ACME)
    old = callers.key(ACME, Role.OPERATOR, Permission.DOCUMENTS_READ, days=90)
    key, new = keys.rotate(service, admin, callers.key_ids[old], overlap=timedelta(hours=24))
    assert key.scopes == (Permission.DOCUMENTS_READ,)
    assert key.expires_at == "2026-05-30T08:00:00.000000+00:00"  # ninety days again
    hands.move(hours=23)
    assert keys.authenticate(service, old).actor.scopes == keys.authenticate(service, new).actor.scopes
    with pytest.raises(ConflictError):
        keys.rotate(service, admin, callers.key_ids[old])
    hands.move(hours=1)
    with pytest.raises(UnauthenticatedError, match="expired"):
        keys.authenticate(service, old)
    assert keys.authenticate(service, new).actor.actor_id == key.key_id


def test_an_overlap_never_lengthens_a_life(callers: Callers, hands: Hands) -> None:
    old = callers.key(ACME, Role.OPERATOR, days=0.5)
    keys.rotate(callers.service, admin_of(ACME), callers.key_ids[old], overlap=timedelta(days=30))
    hands.move(hours=12)
    with pytest.raises(UnauthenticatedError, match="expired"):
        keys.authenticate(callers.service, old)


def test_a_key_of_another_tenant_is_not_found(callers: Callers) -> None:
    foreign = callers.key_ids[callers.keys["foreign"]]
    for act in (keys.get, keys.revoke, keys.rotate):
        with pytest.raises(NotFoundError):
            act(callers.service, admin_of(ACME), foreign)
    assert keys.authenticate(callers.service, callers.keys["foreign"]).actor.tenant == OTHER


def test_only_an_admin_makes_keys_and_only_within_a_role(callers: Callers) -> None:
    with pytest.raises(ForbiddenError):
        keys.create(callers.service, Actor.of(ACME, "key_x", Role.ENGINEER), "mine", Role.ADMIN)
    with pytest.raises(RequestError, match="does not have"):
        keys.create(callers.service, admin_of(ACME), "mine", Role.OPERATOR, scopes=[Permission.ADMIN])
    with pytest.raises(NotFoundError):
        keys.create(callers.service, admin_of(ACME), "mine", Role.OPERATOR, user_id="usr_" + "0" * 32)


def test_a_password_is_kept_as_scrypt_and_compared(callers: Callers) -> None:
    callers.user("auditor-7", Role.AUDITOR)
    with reading(callers.service, ACME) as connection:
        kept = connection.execute(select(users_table.c.password)).scalar_one()
    assert kept.startswith("scrypt$15$8$3$")
    assert PASSWORD not in kept
    assert passwords.matches(PASSWORD, kept)
    assert not passwords.matches(PASSWORD + " ", kept)
    assert not passwords.matches(PASSWORD, passwords.NOBODY)
    with pytest.raises(RequestError, match="12 to 256"):
        passwords.hash_password("short")


def test_a_flood_of_logins_does_not_hold_every_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most ten wait for their hash; the eleventh is told to come again."""
    hold, waiting = threading.Event(), threading.Semaphore(0)

    def slow(*_: object, **__: object) -> bytes:
        waiting.release()
        hold.wait(20)
        return bytes(32)

    monkeypatch.setattr(hashlib, "scrypt", slow)
    threads = [threading.Thread(target=passwords.matches, args=("x" * 12, passwords.NOBODY)) for _ in range(10)]
    for thread in threads:
        thread.start()
    waiting.acquire(timeout=20)
    waiting.acquire(timeout=20)
    try:
        while passwords._WAITING._value:  # the others stand before the two that hash
            time.sleep(0.001)
        with pytest.raises(LimitedError):
            passwords.matches("x" * 12, passwords.NOBODY)
    finally:
        hold.set()
        for thread in threads:
            thread.join()


def test_a_login_becomes_a_session_that_ends(callers: Callers, hands: Hands) -> None:
    service, user = callers.service, callers.user("auditor-7", Role.AUDITOR)
    session = sessions.log_in(service, ACME, "auditor-7", PASSWORD, "203.0.113.7", Backoff())
    assert session.actor == Actor.of(ACME, user.user_id, Role.AUDITOR)
    assert sessions.authenticate(service, session.secret).actor == session.actor
    with reading(service, None) as connection:
        assert session.secret not in str(connection.execute(select(sessions_table)).all())
    hands.move(hours=12)
    with pytest.raises(UnauthenticatedError, match="over"):
        sessions.authenticate(service, session.secret)


def test_a_changed_user_is_logged_out(callers: Callers) -> None:
    service, user = callers.service, callers.user("auditor-7", Role.AUDITOR)
    for change in ({"role": Role.OPERATOR}, {"password": "another long sentence"}, {"disabled": True}):
        users.change(service, admin_of(ACME), user.user_id, password=PASSWORD, disabled=False)
        session = sessions.log_in(service, ACME, "auditor-7", PASSWORD, "", Backoff())
        users.change(service, admin_of(ACME), user.user_id, **change)  # type: ignore[arg-type]
        with pytest.raises(UnauthenticatedError):
            sessions.authenticate(service, session.secret)


@pytest.mark.parametrize(
    ("tenant", "login", "password"),
    [
        (ACME, "auditor-7", "another long sentence"),
        (ACME, "nobody", PASSWORD),
        (OTHER, "auditor-7", PASSWORD),
        ("no such tenant!", "auditor-7", PASSWORD),
        (ACME, "auditor-7\x00", PASSWORD),
        (ACME, "no-password", ""),
        (ACME, "auditor-7", "x" * 10_000),
    ],
)
def test_whatever_is_wrong_with_a_login_the_answer_is_the_same(callers: Callers, tenant: str, login: str, password: str) -> None:
    callers.user("auditor-7", Role.AUDITOR)
    callers.user("no-password", Role.AUDITOR, password=None)
    with pytest.raises(LoginError, match=r"^no user with this login and password in this tenant$"):
        sessions.log_in(callers.service, tenant, login, password, "203.0.113.7", Backoff())


def test_wrong_passwords_bring_waits_that_double(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    backoff = Backoff(free=3, longest_s=8.0, clock=lambda: now)
    who = (ACME, "auditor-7", "203.0.113.7")
    waits = []
    for _ in range(7):
        try:
            backoff.check(who)
        except LockedOutError as error:
            waits.append(error.retry_after_s)
            now += error.retry_after_s
            backoff.check(who)
        backoff.failed(who)
    assert waits == [1.0, 2.0, 4.0, 8.0]
    backoff.check((ACME, "auditor-7", "198.51.100.4"))  # from elsewhere the rightful user still gets in
    backoff.passed(who)
    backoff.check(who)


def test_settings_of_a_tenant_are_checked_and_merged(callers: Callers) -> None:
    service, admin = callers.service, admin_of(ACME)
    changed = tenants.change_settings(service, admin, ACME, {"consent": "tenant", "review": {"sampling": 0.5}})
    assert (changed.settings.consent, changed.settings.review.sampling) == ("tenant", 0.5)
    assert changed.settings.rate_per_s == 100_000  # what was not named stays
    assert changed.settings.review.double_check == 0.05
    back = tenants.change_settings(service, admin, ACME, {"rate_per_s": None, "review": {"sampling": None}})
    assert (back.settings.rate_per_s, back.settings.review.sampling) == (50.0, 0.02)
    for wrong in (
        {"rate_per_s": 0},
        {"colour": "red"},
        {"review": {"sampling": 1.5}},
        {"burst": float("nan")},
        {"purpose": "a\x00b"},
    ):
        with pytest.raises(SettingsError):
            tenants.change_settings(service, admin, ACME, wrong)
    assert tenants.settings_of(service, OTHER).consent == "none"
    assert tenants.settings_of(service, "never-made") == tenants.DEFAULTS


def test_nobody_takes_their_own_rights_away(callers: Callers) -> None:
    user = callers.user("boss", Role.ADMIN)
    me = Actor.of(ACME, user.user_id, Role.ADMIN)
    with pytest.raises(ConflictError):
        users.change(callers.service, me, user.user_id, disabled=True)
    with pytest.raises(ConflictError):
        users.change(callers.service, me, user.user_id, role=Role.OPERATOR)
    with pytest.raises(ConflictError, match="taken"):
        users.create(callers.service, me, "boss", Role.OPERATOR)


def test_every_act_of_administration_stands_in_the_chain_without_names(callers: Callers) -> None:
    service, admin = callers.service, admin_of(ACME)
    user = callers.user("zhang.yangben@example.com", Role.AUDITOR)
    session = sessions.log_in(service, ACME, "zhang.yangben@example.com", PASSWORD, "", Backoff())
    sessions.log_out(service, session.actor, session.secret)
    users.change(service, admin, user.user_id, disabled=True)
    secret = callers.key(ACME, Role.OPERATOR)
    keys.rotate(service, admin, callers.key_ids[secret])
    keys.revoke(service, admin, callers.key_ids[secret])
    tenants.change_settings(service, admin, ACME, {"purpose": "onboarding"})
    rows = list(service.tenant(ACME).audit_rows())
    assert [row.action for row in rows][-7:] == [
        "session.open", "session.close", "user.change", "key.create", "key.rotate", "key.revoke", "tenant.settings",
    ]  # fmt: skip
    assert {row.actor for row in rows} == {"cli:uid-0", user.user_id}
    written = " ".join(str(row) for row in rows)
    assert "zhang" not in written
    assert secret not in written
    assert "onboarding" not in written
    assert verify(service.store).clean


def test_a_changed_audit_row_is_found(callers: Callers) -> None:
    service = callers.service
    with writing(service, ACME) as connection:
        on = "" if connection.dialect.name == "sqlite" else " ON store_audit"
        for verb in ("update", "delete"):
            connection.execute(text(f"DROP TRIGGER store_audit_no_{verb}{on}"))
        connection.execute(text("UPDATE store_audit SET actor = 'somebody' WHERE tenant = 'acme' AND position = 2"))
    assert not verify(service.store).clean
