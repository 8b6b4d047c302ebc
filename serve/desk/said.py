"""Sentences that the gate, the canary and the loop write into releases, in Chinese. What is not known here stays as it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from certloop.serve.desk.context import Desk

_N = r"([-+]?[0-9.]+)"
_SENTENCES = tuple(
    (re.compile(pattern), zh)
    for pattern, zh in (
        (r"the embedded reader, without rules", "内置识别引擎，没有规则"),
        (r"the first release of this service", "本服务的第一个版本"),
        (r"first release", "第一个版本"),
        (rf"{_N} rules?", r"\1 条规则"),
        (rf"calibrated on {_N} fields", r"用 \1 个字段校准"),
        (rf"trained on {_N} approved answers", r"用 \1 份通过的答案训练"),
        (r"gate passed", "通过门禁"),
        (r"released in (\S+)", r"已收入版本 \1"),
        (r"it serves everybody", "已对全部文件生效"),
        (r"(\S+) was taken back by hand", r"\1 已被人工撤下"),
        (rf"target {_N}, at least {_N}", r"目标 \1，至少 \2"),
        (rf"retained {_N}, at least {_N}", r"原有能力 \1，至少 \2"),
        (rf"what worked got worse: {_N}, at most {_N}", r"原有能力变差：\1，至多 \2"),
        (rf"the target got worse: {_N}, at most {_N}", r"目标变差：\1，至多 \2"),
        (rf"no gain worth a release: {_N}, at most {_N}", r"提升不值得发版：\1，至多 \2"),
        (rf"(\S+) is worse: {_N} over {_N} items", r"\1 变差：\2（\3 项）"),
        (rf"only {_N} target items tell the two apart; {_N} are the least", r"只有 \1 个目标项能分出两者，至少要 \2 个"),
        (rf"the target's gain may be chance: {_N}, from {_N} on", r"目标的提升可能是偶然：\1，下界 \2"),
        (rf"what works may have got worse: {_N}, from {_N} on", r"原有能力可能变差：\1，下界 \2"),
        (r"nothing was tested of what works today", "没有检验现有能力"),
        (r"a person has to approve it", "需要人批准"),
        (r"check (\S+) was not run", r"检查 \1 没有执行"),
        (r"check (\S+) does not hold", r"检查 \1 不成立"),
        (r"regression case (\S+) fails again and again", r"回归用例 \1 一再失败"),
        (r"(\S+) vetoed it", r"\1 否决"),
        (rf"latency {_N} times the baseline's, allowed {_N}", r"延迟是基线的 \1 倍，允许 \2 倍"),
        (rf"memory {_N} MiB, allowed {_N} MiB", r"内存 \1 MiB，允许 \2 MiB"),
        (r"every stage passed without an alarm", "各阶段都没有告警"),
        (r"no alarm at (\S+)", r"份额 \1 时没有告警"),
        (rf"shadow replay: {_N} documents only the candidate got right, {_N} only the baseline",
         r"影子回放：只有候选读对 \1 份，只有基线读对 \2 份"),
        (r"\S+: the business pass rate fell: (.+)", r"业务通过率下降：\1"),
        (r"\S+: the judge is more pleased and the business less: (.+)", r"评判更满意而业务更差：\1"),
        (r"\S+: tools are used in other ways: (.+)", r"工具的用法变了：\1"),
        (rf"\S+: p95 {_N} s against {_N} s", r"p95 延迟 \1 秒，对照 \2 秒"),
    )
)  # fmt: skip


def in_words(desk: Desk, text: str) -> str:
    """``text`` in the page's language where it is a sentence of the system; what a person wrote is left alone."""
    for pattern, zh in _SENTENCES:
        if found := pattern.fullmatch(text):
            return desk.say(found.expand(zh), text)
    return text
