"""The data engine, for engineers: synthetic pages to look at, a dataset in the background, a blank form from a scan."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from certloop.agentrl.errors import CertloopError
from certloop.serve.desk import synthesis
from certloop.serve.desk.context import Desk
from certloop.serve.desk.parts import STYLE, alert, empty, only_for, table, words
from certloop.serve.desk.synthesis import MOST_PAGES, MOST_SAMPLES, PROFILES, Choice, Run, Template
from certloop.serve.errors import RequestError
from certloop.serve.people.roles import Permission

if TYPE_CHECKING:
    from certloop.serve.people.actor import Actor

TITLE = ("数据引擎", "Data engine")
PROFILE_NAMES = {
    "clean": ("电子原件", "clean"), "scan": ("扫描件", "scan"), "copy": ("复印件", "photocopy"),
    "photo": ("手机拍照", "phone photo"), "screen": ("屏幕翻拍", "photo of a screen"), "hard": ("困难", "hard"),
}  # fmt: skip
COUNTS = {
    "split:train": ("训练", "train"), "split:validation": ("验证", "validation"), "split:test": ("测试", "test"),
    "unreadable_fields": ("看不清的字段", "unreadable fields"),
}  # fmt: skip
QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "minimal"}
SILENT: dict[str, Any] = QUIET | {"show_progress": "hidden"}


def build(desk: Desk) -> None:
    tab = only_for(desk, Permission.SYNTH_RUN)
    say, service = desk.say, desk.service
    kinds = [(desk.say(kind.title, kind.title_en), kind.id) for kind in service.registry.types.values()]
    start = "business_licence" if "business_licence" in service.registry.types else (kinds[0][1] if kinds else None)
    with gr.Row():
        kind = gr.Dropdown(kinds, value=start, label=say("证照类型", "Type"), elem_id="synth-type", min_width=200)
        layout = gr.Dropdown(_every(desk, ()), value="", label=say("版式", "Layout"), elem_id="synth-layout", min_width=200)
        profiles = [(say(*PROFILE_NAMES[name]), name) for name in PROFILES]
        profile = gr.Dropdown(profiles, value="photo", label=say("成像", "Profile"), elem_id="synth-profile", min_width=160)
        seed = gr.Number(0, precision=0, minimum=0, label=say("随机种子", "Seed"), elem_id="synth-seed", min_width=120)
    with gr.Row():
        pages = gr.Slider(1, MOST_PAGES, 3, step=1, label=say("预览页数", "Preview pages"), elem_id="synth-pages", min_width=220)
        preview = gr.Button(say("预览", "Preview"), variant="primary", elem_id="synth-preview", min_width=120)
        most = say(f"生成数量（最多 {MOST_SAMPLES}）", f"Samples (at most {MOST_SAMPLES})")
        count = gr.Number(100, precision=0, minimum=1, maximum=MOST_SAMPLES, label=most, elem_id="synth-count", min_width=180)
        run = gr.Button(say("开始生成", "Start a run"), elem_id="synth-run", min_width=120)
    with gr.Row(visible=False) as rest:
        stopped = gr.Dropdown([], label=say("没有做完的", "Not finished"), elem_id="synth-unfinished", min_width=280, scale=3)
        onward = gr.Button(say("继续生成", "Go on"), elem_id="synth-resume", min_width=120, scale=1)
    progress = gr.HTML(_run_html(desk, None), elem_id="synth-progress", padding=False)
    gallery = gr.HTML(_page(desk, empty(_nothing(desk))), elem_id="synth-gallery", padding=False)
    gr.HTML(_page(desk, _scan_words(desk)), padding=False)
    scan = gr.UploadButton(
        say("选一张填好的扫描件", "Choose a filled scan"),
        file_types=list(synthesis.SUFFIXES),
        type="filepath",
        elem_id="blank-scan",
    )
    made = gr.HTML("", elem_id="blank-made", padding=False)
    timer = gr.Timer(2.0, active=False)
    choice, runs = [kind, layout, profile, seed], [progress, timer, rest, stopped]

    def layouts(type_id: str, request: gr.Request) -> Any:
        try:
            ids = synthesis.layouts_of(service, desk.actor(request), type_id)
        except CertloopError:
            ids = ()
        return gr.Dropdown(choices=_every(desk, ids), value="")

    def look(type_id: str, chosen: str, how: str, number: float, n: float, request: gr.Request) -> str:
        try:
            drawn = synthesis.preview(service, desk.actor(request), _choice(type_id, chosen, how, n, number))
        except CertloopError as error:
            return alert(words(desk, error), bad=True)
        return _page(desk, _legend(desk) + f'<div class="cl-pages">{"".join(_figure(*one) for one in drawn)}</div>')

    def begin(type_id: str, chosen: str, how: str, number: float, n: float, request: gr.Request) -> list[Any]:
        return begun(lambda actor: synthesis.start(service, actor, _choice(type_id, chosen, how, n, number)), request)

    def go_on(name: str | None, request: gr.Request) -> list[Any]:
        return begun(lambda actor: synthesis.resume(service, actor, str(name or "")), request)

    def begun(move: Callable[[Actor], Run], request: gr.Request) -> list[Any]:
        try:
            actor = desk.actor(request)
            return [_run_html(desk, move(actor)), gr.Timer(active=True), *_unfinished(desk, actor)]
        except CertloopError as error:
            return [alert(words(desk, error), bad=True), *[gr.skip()] * 3]

    def state(request: gr.Request) -> list[Any]:
        try:
            actor = desk.actor(request)
            seen = synthesis.latest(service, actor)
        except CertloopError as error:
            return [alert(words(desk, error), bad=True), gr.Timer(active=False), *[gr.skip()] * 2]
        going = seen is not None and seen.state == "running"
        rows = [gr.skip()] * 2 if going else _unfinished(desk, actor)
        return [_run_html(desk, seen), gr.Timer(active=going), *rows]

    def draft(type_id: str, path: str | None, request: gr.Request) -> tuple[str, None]:
        try:
            actor = desk.actor(request)
            actor.require(Permission.SYNTH_RUN)
            if not path:
                return "", None
            file = Path(path)
            return _page(desk, _template(desk, synthesis.template(service, actor, file.read_bytes(), file.suffix, type_id))), None
        except CertloopError as error:
            return alert(words(desk, error), bad=True), None
        finally:
            if path:
                with suppress(OSError):
                    Path(path).unlink()  # a scan is somebody's paper

    tab.select(layouts, [kind], [layout], **SILENT).then(state, outputs=runs, **SILENT)
    kind.input(layouts, [kind], [layout], **SILENT)
    preview.click(look, [*choice, pages], [gallery], concurrency_limit=1, **QUIET)
    run.click(begin, [*choice, count], runs, **QUIET)
    onward.click(go_on, [stopped], runs, **QUIET)
    timer.tick(state, outputs=runs, **SILENT)
    scan.upload(draft, [kind, scan], [made, scan], concurrency_limit=1, api_visibility="private")


def _unfinished(desk: Desk, actor: Actor) -> list[Any]:
    """The row of runs to go on with; hidden while there is none."""
    types = desk.service.registry.types
    found = []
    for run in synthesis.unfinished(desk.service, actor):
        kind = types[run.choice.type_id].title if run.choice.type_id in types else run.choice.type_id
        how = desk.say(*PROFILE_NAMES.get(run.choice.profile, (run.choice.profile, run.choice.profile)))
        found.append((f"{kind} · {how} · {run.done} / {run.choice.count} · {run.name[-6:]}", run.name))
    return [gr.Row(visible=bool(found)), gr.Dropdown(choices=found, value=found[0][1] if found else None)]


def _choice(type_id: str, layout: str | None, profile: str, count: float | None, seed: float | None) -> Choice:
    """Raises RequestError for numbers that are none."""
    try:
        return Choice(str(type_id), layout or "", str(profile), int(count or 0), int(seed or 0))
    except (ValueError, OverflowError):
        raise RequestError("count and seed are numbers") from None


def _every(desk: Desk, ids: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(desk.say("全部轮流", "all in turn"), ""), *((name, name) for name in ids)]


def _page(desk: Desk, inner: str) -> str:
    return f'<div class="cl" lang="{desk.say("zh-CN", "en")}">{inner}</div>{STYLE}'


def _nothing(desk: Desk) -> str:
    return desk.say(
        "还没有预览。选好类型、版式和成像方式，点“预览”：页面和每个字段的框会画在这里。预览不会保存。",
        "No preview yet. Choose a type, a layout and a profile; the pages with their boxes are drawn here. Nothing is kept.",
    )


def _scan_words(desk: Desk) -> str:
    return f"<h2>{desk.say('从扫描件做模板', 'A template from a scan')}</h2><p>" + desk.say(
        "上传一张填好的证照（类型按上面所选）：读出的值、印章和二维码会被抹去，留下空白版式供检查下载。服务器不留存原图。",
        "Upload a filled certificate of the type chosen above: values, seals and QR codes are erased. The server keeps nothing.",
    )


def _legend(desk: Desk) -> str:
    marks = (
        ("#009600", "可读", "readable"), ("#eb8c00", "难读", "hard"), ("#dc00c8", "不可读", "unreadable"),
        ("#828282", "标签", "labels"), ("#dc1e1e", "印章", "seals"),
    )  # fmt: skip
    keys = "".join(f'<span class="cl-key"><i style="background:{c}"></i>{desk.say(zh, en)}</span>' for c, zh, en in marks)
    return f"<h2>{desk.say('预览', 'Preview')}</h2><p>{keys}</p>"


def _figure(caption: str, data: bytes, kind: str = "jpeg") -> str:
    source = f"data:image/{kind};base64,{b64encode(data).decode()}"
    return f'<figure><img src="{source}" alt="{escape(caption)}"><figcaption>{escape(caption)}</figcaption></figure>'


def _run_html(desk: Desk, run: Run | None) -> str:
    say = desk.say
    if run is None:
        return ""
    if run.state == "failed":
        return alert(say(f"没有生成成功（{run.error}）。", f"The run failed ({run.error})."), bad=True)
    share = run.done / run.choice.count
    bar = f'<div class="cl-bar"><i style="width:{100 * share:.0f}%"></i></div>'
    if run.state == "running":
        return _page(desk, f"<p>{say('正在生成', 'Running')} {run.done} / {run.choice.count}</p>{bar}")
    manifest = run.manifest or {}
    rows = [(name, digest) for name, digest in dict(manifest.get("files", {})).items()]
    counted = dict(manifest.get("counts", {}))
    counts = "，".join(f"{say(*name)} {counted[key]}" for key, name in COUNTS.items() if key in counted)
    title = say(
        f"生成完毕：{run.choice.count} 份，文件夹 synthetic/…/{run.name}",
        f"Done: {run.choice.count} samples in synthetic/…/{run.name}",
    )
    head, files = (say("文件", "file"), "SHA-256"), say(f"{len(rows)} 个文件及校验值", f"{len(rows)} files and their hashes")
    return _page(
        desk,
        f'<div data-test="manifest"><h3>{escape(title)}</h3>{bar}<p>{escape(counts)}</p>'
        f"<details><summary>{escape(files)}</summary>{table(head, rows, 'manifest')}</details></div>",
    )


def _template(desk: Desk, made: Template) -> str:
    say = desk.say
    missing = "、".join(made.missing) or say("无", "none")
    told = say(
        f"抹去印章 {made.seals} 枚；没有找到的必填字段：{missing}",
        f"seals erased: {made.seals}; required fields not found: {missing}",
    )
    files = (("blank.png", "image/png", made.erased), ("blank.toml", "text/plain", made.layout.encode()))
    links = " · ".join(
        f'<a download="{name}" href="data:{kind};base64,{b64encode(data).decode()}">{name}</a>' for name, kind, data in files
    )
    two = _figure(say("原件", "as scanned"), made.scan, "png") + _figure(say("抹去之后", "erased"), made.erased, "png")
    look = say(
        "这是草稿：请放大检查有没有残留的内容，再使用。", "This is a draft: look closely for what was left before using it."
    )
    return f'<div data-test="template"><p>{escape(told)}</p><p>{look} {links}</p><div class="cl-two">{two}</div></div>'
