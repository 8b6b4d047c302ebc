"""Where webhooks may go: public addresses only, however others are written; the name resolved once, its certificate checked."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from callers import ACME, Callers, Hands
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from sqlalchemy import update
from webhook_receiver import ADMIN, Receiver, happened, state, why

from certloop.serve.context import Service
from certloop.serve.db.access import writing
from certloop.serve.db.schema import webhooks as webhooks_table
from certloop.serve.errors import TargetError
from certloop.serve.people import tenants
from certloop.serve.webhooks import endpoints
from certloop.serve.webhooks.outbox import Event
from certloop.serve.webhooks.sender import Sender
from certloop.serve.webhooks.targets import refused, resolve

INTERNAL = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "100.100.100.200", "100.64.0.1", "168.63.129.16", "192.0.0.192", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::", "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "2001:db8::1",
]  # fmt: skip
PUBLIC = ["93.184.216.34", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:8.8.8.8"]


@pytest.mark.parametrize("address", INTERNAL)
def test_internal_addresses_are_refused_however_they_are_written(address: str) -> None:
    assert refused(ipaddress.ip_address(address))
    with pytest.raises(TargetError):
        resolve("https://hook.example.com/", private=False, lookup=lambda *_: [address])
    with pytest.raises(TargetError):  # one bad address among good ones is enough
        resolve("https://hook.example.com/", private=False, lookup=lambda *_: ["93.184.216.34", address])


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_taken(address: str) -> None:
    target = resolve("https://hook.example.com:8443/a?b=c", private=False, lookup=lambda *_: [address])
    literal = f"[{ipaddress.ip_address(address)}]" if ":" in address else address
    assert target.connect == f"https://{literal}:8443/a?b=c"
    assert (target.host, target.authority) == ("hook.example.com", "hook.example.com:8443")


@pytest.mark.parametrize(
    "url",
    [
        "http://hook.example.com/", "ftp://hook.example.com/", "file:///etc/passwd", "gopher://hook.example.com/",
        "//hook.example.com/", "https://user:pw@hook.example.com/", "https://user@hook.example.com/", "https:///x", "https://",
        "https://hook.example.com/#x", "https://hook.example.com:22/", "https://hook.example.com:0/", "https://[::1", "",
        "https://hook.example.com:99999/", "https://hook.example.com:x/", "https://hook.exa mple.com/", "javascript:alert(1)",
        "https://hook.example.com/\r\nX: y", "https://hook.example.com/\x00", "https://hook.example.com/" + "a" * 2000,
    ],
)  # fmt: skip
def test_addresses_that_no_endpoint_may_have(everybody: Callers, url: str) -> None:
    with pytest.raises(TargetError):
        endpoints.create(everybody.service, ADMIN, url, [Event.DOCUMENT_DONE])
    answer = everybody.as_("admin").post("/v1/webhooks", json={"url": url, "events": ["document.done"]})
    assert answer.status_code == 422
    assert answer.json()["code"] in ("webhook_target", "request_invalid")


LITERAL = [
    "localhost", "Api.LocalHost", "localhost.", "127.1", "2130706433", "0x7f.0.0.1", "0x7F000001", "0177.0.0.1", "127.0.0.1",
    "127.0.0.1.", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "0.0.0.0", "[::1]", "[::]", "[fe80::1]",
    "[fe80::1%25eth0]", "[fc00::1]", "[::ffff:127.0.0.1]", "[::ffff:a00:1]", "[64:ff9b::a9fe:a9fe]",
    "\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021",
]  # fmt: skip


@pytest.mark.parametrize("host", LITERAL)
def test_an_address_written_out_is_refused_before_anything_is_kept(everybody: Callers, host: str) -> None:
    admin, url = everybody.as_("admin"), f"https://{host}:8443/hook"
    answer = admin.post("/v1/webhooks", json={"url": url, "events": ["document.done"]})
    assert (answer.status_code, answer.json()["code"]) == (422, "webhook_target")
    assert admin.get("/v1/webhooks").json()["items"] == []


def test_nor_may_one_be_changed_to_it(callers: Callers) -> None:
    admin = callers.as_("admin")
    made = admin.post("/v1/webhooks", json={"url": "https://93.184.216.34/hook", "events": ["document.done"]}).json()
    answer = admin.patch(f"/v1/webhooks/{made['webhook_id']}", json={"url": "https://[::1]/hook"})
    assert (answer.status_code, answer.json()["code"]) == (422, "webhook_target")
    assert admin.get(f"/v1/webhooks/{made['webhook_id']}").json()["url"] == "https://93.184.216.34/hook"


@pytest.mark.parametrize("host", ["hook.example.com", "localhost", "2130706433", "[::ffff:127.0.0.1]"])
def test_a_webhook_that_leads_inside_is_not_called_and_switched_off(service: Service, receiver: Receiver, host: str) -> None:
    """Registered as a harmless name, or before the rule: what counts is where it leads when it is used."""
    tenants.create(service, ADMIN, ACME)
    port = receiver.server.server_port
    made, _ = endpoints.create(service, ADMIN, "https://hook.example.com/hook", [Event.DOCUMENT_DONE])
    with writing(service, ACME) as connection:
        connection.execute(update(webhooks_table).values(url=f"https://{host}:{port}/hook"))
    happened(service)
    assert Sender(service, lookup=lambda *_: ["127.0.0.1"]).send_due() == 1
    assert receiver.got == []
    assert state(service, made.webhook_id) == [("failed", 1, None)]
    assert why(service, made.webhook_id) == ["refused"]
    found = endpoints.get(service, ADMIN, made.webhook_id)
    assert found.disabled_at is not None
    assert "not sent to" in str(found.disabled_reason)
    assert Sender(service).send_due() == 0


def test_a_name_that_is_not_resolved_just_now_is_asked_again(service: Service, hands: Hands) -> None:
    tenants.create(service, ADMIN, ACME)
    made, _ = endpoints.create(service, ADMIN, "https://hook.example.com/hook", [Event.DOCUMENT_DONE])
    happened(service)
    assert Sender(service, lookup=lambda *_: []).send_due() == 1
    assert state(service, made.webhook_id) == [("pending", 1, None)]
    assert why(service, made.webhook_id) == ["unresolved"]
    assert endpoints.get(service, ADMIN, made.webhook_id).disabled_at is None


def test_a_name_is_resolved_once_and_the_connection_goes_where_it_was_checked(private: Service, receiver: Receiver) -> None:
    """DNS rebinding: the name would lead elsewhere the second time it is asked."""
    asked: list[str] = []

    def lookup(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["192.0.2.1"]

    endpoints.create(private, ADMIN, receiver.url.replace("127.0.0.1", "hook.example.com"), [Event.DOCUMENT_DONE])
    happened(private)
    Sender(private, lookup=lookup).send_due()
    assert asked == ["hook.example.com"]
    assert len(receiver.got) == 1
    assert receiver.got[0][1]["host"] == f"hook.example.com:{receiver.server.server_port}"


def test_the_certificate_must_be_the_names(private: Service, receiver: Receiver, tmp_path: Path) -> None:
    """The connection goes to an address, the certificate is compared with the name."""
    authority = self_signed(tmp_path, "hook.example.com")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
    trusting = ssl.create_default_context(cafile=str(authority))
    port, here = receiver.server.server_port, (lambda *_: ["127.0.0.1"])
    for name, tls, fine in (
        ("hook.example.com", trusting, True),
        ("other.example.com", trusting, False),
        ("hook.example.com", None, False),  # nobody knows who signed it
    ):
        made, _ = endpoints.create(private, ADMIN, f"https://{name}:{port}/hook", [Event.DOCUMENT_DONE])
        happened(private)
        assert Sender(private, lookup=here, tls=tls).send_due() == 1
        assert state(private, made.webhook_id) == [("delivered", 1, 204) if fine else ("pending", 1, None)]
        assert why(private, made.webhook_id) == [None if fine else "tls"]
        endpoints.remove(private, ADMIN, made.webhook_id)
    assert len(receiver.got) == 1


def self_signed(folder: Path, name: str) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    private_bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(private_bytes + certificate.public_bytes(serialization.Encoding.PEM))
    return path


def test_proxies_of_the_environment_are_not_used(private: Service, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    made, _ = endpoints.create(private, ADMIN, receiver.url, [Event.DOCUMENT_DONE])
    happened(private)
    Sender(private).send_due()
    assert state(private, made.webhook_id) == [("delivered", 1, 204)]
