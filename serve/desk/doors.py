"""How the desk is reached: its routes beside the API's, and the guard in front of every Gradio page."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path as FilePath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import FileResponse, RedirectResponse, Response
from pydantic import BaseModel
from starlette.routing import Mount

from certloop.agentrl.errors import CertloopError
from certloop.agentrl.store import NotFoundError
from certloop.serve.api.problems import problem
from certloop.serve.api.security import SESSION_COOKIE, allowed, known_at_desk, public, signed_in
from certloop.serve.api.sessions import MeOut, me_of
from certloop.serve.api.shapes import Open
from certloop.serve.desk import fonts, people, samples
from certloop.serve.desk.context import Desk, Language
from certloop.serve.errors import UnauthenticatedError
from certloop.serve.people import sessions
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import Permission

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp, Receive, Scope, Send

    from certloop.serve.context import Service

STATIC = FilePath(__file__).parent / "static"
KINDS = {".jpg": "image/jpeg", ".png": "image/png", ".pdf": "application/pdf"}
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect x="4" y="3" width="24" height="26" rx="3" fill="#0f766e"/>'
    '<path d="M9 11h14M9 16h14M9 21h6" stroke="#fff" stroke-width="2.4" fill="none"/>'
    '<circle cx="21.5" cy="22.5" r="3.4" fill="#f4b942"/></svg>'
)
YEAR = {"Cache-Control": "public, max-age=31536000"}
router = APIRouter(include_in_schema=False)


class Type(BaseModel):
    id: str
    title: str
    title_en: str
    fields: dict[str, str]


class SessionOut(MeOut):
    """What the desk's scripts need: who is there, the token for writes (None in demo mode), kinds of certificates, samples, how
    large a file may be."""

    csrf_token: str | None
    demo: bool
    types: list[Type]
    samples: list[str]
    file_bytes: int


def installed() -> bool:
    """Whether the extra ``ui`` is there."""
    return importlib.util.find_spec("gradio") is not None


def mount(app: FastAPI) -> None:
    """Add the desk to an application made by ``create_app``."""
    # Gradio's default is a folder that every user of the machine may read; this one is ours and goes with the process.
    app.state.desk_files = TemporaryDirectory(prefix="certloop-desk-")
    os.environ["GRADIO_TEMP_DIR"] = app.state.desk_files.name
    import gradio as gr

    from certloop.serve.desk import shell

    app.include_router(router)
    service: Service = app.state.service
    for language in Language:
        desk = Desk(app, service, language)
        path = f"/desk/{language.value}"
        gr.mount_gradio_app(
            app, shell.page(desk), path, footer_links=[], run_history=False, show_error=False, ssr_mode=False, mcp_server=False,
            theme=shell.theme(), css=shell.css(), head=shell.head(desk), pwa=False, enable_monitoring=False,
            max_file_size=service.config.intake.file_bytes, app_kwargs={"docs_url": None, "redoc_url": None, "openapi_url": None},
        )  # fmt: skip
        mounted = app.routes[-1]
        assert isinstance(mounted, Mount) and mounted.path == path
        mounted.app = Guard(mounted.app)


class Guard:
    """Nobody's request reaches Gradio: pages lead to the login, everything else is refused, bodies unread."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # Gradio talks by server-sent events; nothing else is let through
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope, receive)
        try:
            known = await to_thread.run_sync(known_at_desk, request)
        except CertloopError as error:
            await problem(error, request)(scope, receive, send)
            return
        if known is not None:
            scope.setdefault("state", {})["known"] = known
            await self.app(scope, receive, send)
        elif request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            language = "en" if scope["path"].startswith("/desk/en") else "zh"
            await RedirectResponse(f"/login?lang={language}", 303)(scope, receive, send)
        else:
            await problem(UnauthenticatedError("log in to the desk first"), request)(scope, receive, send)


@router.get("/", dependencies=[Depends(public)])
def home() -> Response:
    return RedirectResponse("/desk/zh/", 303)


@router.get("/login", dependencies=[Depends(public)])
def login_page() -> Response:
    return FileResponse(STATIC / "login.html", media_type="text/html; charset=utf-8", headers={"Cache-Control": "no-cache"})


@router.get("/desk/static/{name}", dependencies=[Depends(public)])
def static_file(name: Annotated[str, Path(pattern=r"^[a-z]{1,20}\.(js|css)$")]) -> Response:
    file = STATIC / name
    if not file.is_file():
        raise NotFoundError("no such file of the desk")
    kind = "text/javascript" if file.suffix == ".js" else "text/css"
    return FileResponse(file, media_type=f"{kind}; charset=utf-8", headers={"Cache-Control": "no-cache"})


@router.get("/desk/session")
def desk_session(request: Request, service: Open, actor: Annotated[Actor, Depends(signed_in())]) -> SessionOut:
    secret = request.cookies.get(SESSION_COOKIE)
    types = [
        Type(id=kind.id, title=kind.title, title_en=kind.title_en, fields={f.id: f.label for f in kind.fields.values()})
        for kind in service.registry.types.values()
    ]
    most = service.config.intake.file_bytes
    more: dict[str, Any] = {"csrf_token": sessions.csrf_token(secret) if secret else None, "demo": service.config.demo}
    offered = samples.names() if actor.may(Permission.DOCUMENTS_WRITE) else []
    return SessionOut(**me_of(actor).model_dump(), **more, types=types, samples=offered, file_bytes=most)


@router.get("/desk/people")
def desk_people(service: Open, actor: Annotated[Actor, Depends(allowed(Permission.REVIEWS_READ))]) -> dict[str, str]:
    """What to call those whose ids stand in histories: logins of users and names of keys, of the caller's tenant."""
    return people.names(service, actor)


@router.get("/favicon.ico", dependencies=[Depends(public)])
def icon() -> Response:
    """Asked for by browsers that show something else than a page of ours."""
    return Response(ICON, media_type="image/svg+xml", headers={"Cache-Control": "public, max-age=86400"})


@router.get("/desk/font/rare.css", dependencies=[Depends(public)])
def font_rule() -> Response:
    return Response(fonts.rule(), media_type="text/css; charset=utf-8", headers={"Cache-Control": "no-cache"})


@router.get("/desk/font/rare.otf", dependencies=[Depends(public)])
def font_file() -> Response:
    return FileResponse(fonts.face(), media_type="font/otf", headers=YEAR)


@router.get("/desk/samples/{name}")
def sample(
    name: Annotated[str, Path(pattern=r"^[A-Za-z0-9_]{1,60}\.[a-z]{3,4}$")],
    actor: Annotated[Actor, Depends(allowed(Permission.DOCUMENTS_WRITE))],
) -> Response:
    """A fictional certificate, to try the desk with."""
    return Response(samples.content(name), media_type=KINDS[FilePath(name).suffix])
