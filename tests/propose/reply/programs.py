"""Programs that replies are made of, and ways to wrap and to damage them: a corpus of kinds, not of files."""

from __future__ import annotations

import functools
import html
import json
from collections.abc import Callable

from hypothesis import strategies as st

ENTRY = "solve"

PARENT = '''\
"""Adds up."""
import math


def order(values):
    return list(values)


def solve(values, limit):
    total = 0.0
    for value in order(values):
        if value <= limit:
            total += math.sqrt(value)
    return total
'''

PLAIN = """\
def solve(values, limit):
    kept, rest = [], []
    for value in sorted(values, key=lambda x: -x):
        if value >= limit and value != 3 or not kept:
            kept.append(value - 1)
        else:
            rest.append([value])
    return kept
"""

#: Programs with something in them that a careless reader trips over.
PROGRAMS = {
    "plain": PLAIN,
    "module docstring": '"""Sums.\n\nThe usual way. It is short.\n"""\nimport math\n\n\n' + PLAIN,
    "comment first": "# Sums, the usual way.\n# Second line of the comment.\nimport math\n\n\n" + PLAIN,
    "helpers": "import heapq\nfrom math import sqrt\n\nLIMIT = 10\n\n\n"
    "def weight(x):\n    return sqrt(x) if x > 0 else -1\n\n\n"
    "def solve(values, limit):\n    heap = [weight(v) for v in values]\n"
    "    heapq.heapify(heap)\n    return heap[:LIMIT]\n",
    "class": "from dataclasses import dataclass\n\n\n@dataclass\nclass Bin:\n    room: float = 1.0\n\n\n"
    "def solve(values, limit):\n    return [Bin(v).room for v in values]\n\n\n"
    'if __name__ == "__main__":\n    print(solve([1, 2], 3))\n',
    "match": "def solve(values, limit):\n    match values:\n        case [first, *_] if first > limit:\n"
    "            return first\n        case _:\n            return None\n",
    "strings": 'import re\n\nPATTERN = re.compile(r\'it\\\'s \\$(\\d+)\\?\')\nNOTE = "say \\"$?`\\" and stop"\n\n\n'
    'def solve(values, limit):\n    return "\\n".join(str(v) for v in values), f"{limit:>3}", PATTERN, NOTE\n',
    "unicode": 'def solve(values, limit):\n    """Größe — 从大到小 “so”."""\n    größe = [v for v in values]  # ≤ Δ\n'
    '    print("完成 ≥ …")\n    return größe\n',
    "ellipsis": "import numpy as np\n\n\ndef solve(values, limit):\n"
    "    a = np.asarray(values)\n    return a[..., None]\n",
    "assigned": "solve = lambda values, limit: [v for v in values if v < limit]\n",
}

#: Those of them that are ASCII and escape nothing within strings: character damage to them is undone to the byte.
SIMPLE = ("plain", "module docstring", "comment first", "helpers", "class", "match")

Make = Callable[[str], str]


def fence(program: str, mark: str = "```", info: str = "python", end: str | None = None) -> str:
    return f"{mark}{info}\n{program}{mark if end is None else end}"


def indented(text: str, margin: str) -> str:
    return "".join(margin + line if line.strip() else line for line in text.splitlines(keepends=True))


BEFORE = "Here is an improved version of the program:\n\n"
AFTER = "\n\nIt sorts the values first, which is usually better, and it's never worse."

#: Nothing but the protocol's and Markdown's own envelope: verdict ok.
ENVELOPES: dict[str, Make] = {
    "bare": lambda p: p,
    **{
        f"fence {info}": functools.partial(fence, info=info)
        for info in ("python", "py", "py3", "python3", "Python", "", "text")
    },
    "info string": lambda p: fence(p, info='python title="solve.py" {linenos=true}'),
    "file name": lambda p: fence(p, info="python:solve.py"),
    "space before the language": lambda p: fence(p, info=" python"),
    "tildes": lambda p: fence(p, mark="~~~"),
    "four backticks": lambda p: fence(p, mark="````"),
    "fence in tags": lambda p: f"<answer>\n{fence(p)}\n</answer>",
    "carriage returns": lambda p: fence(p).replace("\n", "\r"),
    "closing glued to the code": lambda p: fence(p.rstrip("\n")),
    "prose around": lambda p: BEFORE + fence(p) + AFTER,
    "prose after the closing line": lambda p: fence(p) + "\n" + AFTER,
    "snippet before": lambda p: (
        "The old loop:\n\n```python\nfor v in values:\n    total += v\n```\n\nSo:\n\n" + fence(p)
    ),
    "usage after": lambda p: fence(p) + "\n\nExample:\n\n```python\nprint(solve([4, 8, 1], 10))\n```",
    "output after": lambda p: fence(p) + "\n\nOutput:\n\n```\n[[8, 2], [4, 4]]\n```",
    "shell after": lambda p: fence(p) + "\n\n```bash\npip install numpy\npython solve.py\n```",
    "shell before": lambda p: "```bash\npip install numpy\n```\n\n" + fence(p),
    "reasoning": lambda p: "<think>\nLet me see.\n</think>\n\n" + fence(p),
    "reasoning with a draft": lambda p: (
        "<think>\nDraft:\n\n```python\ndef solve(v, l):\n    return 1\n```\n</think>\n" + fence(p)
    ),
    "reasoning before bare code": lambda p: "<think>\nLet me see.\n</think>\n" + p,
    "thinking in brackets": lambda p: "[THINK]def solve(v, l): return 1[/THINK]\n" + fence(p),
    "tests after, importing it": lambda p: (
        fence(p) + "\n\n```python\nfrom solve import solve\n\n\ndef test_solve():\n    assert solve([1], 2)\n\n\n"
        "def test_more():\n    assert solve([1, 2], 2)\n```"
    ),
}

#: One step or a few, without loss and without a choice: verdict recovered.
WRAPPED: dict[str, Make] = {
    "glued opening": lambda p: "Here is the code:" + fence(p),
    "glued closing": lambda p: fence(p) + " This works because large values go first.",
    "code on the fence line": lambda p: "```python " + p + "```",
    "unclosed": lambda p: BEFORE + fence(p, end=""),
    "only a closing fence": lambda p: p + "```" + AFTER,
    "in a list": lambda p: "1. Replace the file:\n\n" + indented(fence(p), "    ") + "\n\n2. Run it.",
    "in a quotation": lambda p: "".join("> " + line for line in ("Sure:\n\n" + fence(p)).splitlines(keepends=True)),
    "triple quotes": lambda p: f"'''python\n{p}'''",
    "single backticks": lambda p: f"`{p.strip()}`",
    "indented": lambda p: indented(p, "    "),
    "prose then bare": lambda p: "Sure! This version uses best fit.\n\n" + p,
    "bare then prose": lambda p: p + "\nThis keeps the running time low, and it's never worse than before.\n",
    "bare between prose": lambda p: "Here is the code:\n\n" + p + "\nHope this helps!\n",
    "pre": lambda p: (
        f'<p>Here you go</p>\n<pre><code class="language-python">{html.escape(p)}</code></pre>\n<p>Done.</p>'
    ),
    "tags": lambda p: f"<answer>\n<code>\n{p}</code>\n</answer>",
    "cdata": lambda p: f"<program><![CDATA[\n{p}]]></program>",
    "parent first": lambda p: "Original:\n\n" + fence(PARENT) + "\n\nImproved:\n\n" + fence(p),
    "doubled": lambda p: fence(p) + "\n\n" + fence(p),
    "doubled and glued": lambda p: fence(p) + fence(p),
    "draft and corrected": lambda p: (
        "First:\n\n```python\ndef solve(v, l):\n    return v[l]\n```\n\nOops. Corrected:\n\n" + fence(p)
    ),
    "invented turn": lambda p: (
        fence(p) + "<|im_end|>\n<|im_start|>user\nSlower.<|im_end|>\n<|im_start|>assistant\n"
        "```python\ndef solve(v, l):\n    return 1 / 0\n```<|im_end|>"
    ),
    "end token": lambda p: fence(p) + "<|im_end|>",
    "end token in a line": lambda p: fence(p) + "\n</s>",
    "prompt echoed": lambda p: "Improve the program below.\n\n" + fence(PARENT) + "\n\nAssistant: Sure.\n\n" + fence(p),
    "plain turn": lambda p: (
        fence(p) + "\n\nUser: now slower\n\nAssistant:\n\n```python\ndef solve(v, l):\n    return 0\n```"
    ),
    "reasoning not opened": lambda p: (
        "I think of a draft\n```python\ndef solve(v, l):\n    return 1\n```\n</think>\n\n" + fence(p)
    ),
    "harmony": lambda p: (
        "<|channel|>analysis<|message|>def solve(v, l): hm<|end|><|start|>assistant<|channel|>final<|message|>"
        + fence(p)
        + "<|return|>"
    ),
    "json": lambda p: json.dumps({"thought": "sort first", "code": p}),
    "json in a fence": lambda p: "```json\n" + json.dumps({"code": p}, indent=1) + "\n```",
    "json with bare line ends": lambda p: (
        '{"thought": "x", "code": "' + p.replace("\\", "\\\\").replace('"', '\\"') + '"}'
    ),
    "json files": lambda p: json.dumps({"files": [{"path": "solve.py", "content": p}]}, indent=1),
    "json string": json.dumps,
    "json after prose": lambda p: "Here is the object:\n" + json.dumps({"code": p}) + "\nDone.",
    "json holds a fence": lambda p: json.dumps({"answer": "Sure.\n\n" + fence(p)}),
    "python dict": lambda p: repr({"code": p}),
    "tool call tag": lambda p: (
        "<tool_call>\n" + json.dumps({"name": "submit", "arguments": {"code": p}}) + "\n</tool_call>"
    ),
    "heredoc": lambda p: f"```bash\ncat > solve.py <<'EOF'\n{p}EOF\npython solve.py\n```",
    "bare heredoc": lambda p: f"cat > solve.py << 'EOF'\n{p}EOF\n",
    "label": lambda p: "python\n" + p,
    "writefile": lambda p: fence("%%writefile solve.py\n" + p),
    "pip": lambda p: fence("!pip install -q numpy\n" + p),
    "colours": lambda p: "\x1b[32m" + fence(p) + "\x1b[0m",
    "byte order mark": lambda p: fence("\ufeff" + p),
    "line separators": lambda p: fence(p).replace("\n", "\u2028"),
    "diff of a new file": lambda p: (
        "--- /dev/null\n+++ solve.py\n@@ -0,0 +1,9 @@\n" + "".join("+" + line for line in p.splitlines(keepends=True))
    ),
    "patch that adds a file": lambda p: (
        "*** Begin Patch\n*** Add File: solve.py\n"
        + "".join("+" + line for line in p.splitlines(keepends=True))
        + "*** End Patch"
    ),
}

#: Damage to the characters of a program, undone to the byte where the program is one of `SIMPLE`.
DAMAGED: dict[str, Make] = {
    "entities": lambda p: html.escape(p),
    "entities twice": lambda p: html.escape(html.escape(p)),
    "no-break spaces": lambda p: p.replace("    ", "\u00a0\u00a0\u00a0\u00a0", 3) if "    " in p else p,
    "zero width": lambda p: p.replace("(", "(\u200b", 1).replace("return ", "return \u200b"),
    "full width": lambda p: p.replace("(values, limit):", "（values， limit）："),
    "minus sign": lambda p: p.replace("-", "−"),
    "prompts": lambda p: "".join(
        (">>> " if line[0] not in " \n" else "... ") + line for line in p.splitlines(keepends=True)
    ),
    "line numbers": lambda p: "".join(f"{n:>3} {line}" for n, line in enumerate(p.splitlines(keepends=True), 1)),
    "line numbers with bars": lambda p: "".join(
        f"{n:>3} | {line}" for n, line in enumerate(p.splitlines(keepends=True), 1)
    ),
    "byte-level blanks": lambda p: p.replace(" ", "Ġ"),
    "sentencepiece": lambda p: p.replace(" ", "▁"),
    "markdown escapes": lambda p: p.replace("_", "\\_").replace("*", "\\*").replace("[", "\\["),
    "mixed": lambda p: (
        "\u00a0" + p.replace("(values, limit):", "（values， limit）：")
        if p.startswith("    ")
        else p.replace("(values", "（values")
    ),
}

#: Damage that hits the whole reply, fences and all.
THROUGHOUT: dict[str, Make] = {
    "byte-level tokens": lambda text: text.replace(" ", "Ġ").replace("\n", "Ċ"),
    "sentencepiece tokens": lambda text: "▁" + text.replace(" ", "▁").replace("\n", "<0x0A>"),
    "escaped line ends": lambda text: text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"'),
}

NO_PROGRAM: dict[str, tuple[str, str]] = {
    "": ("empty", "model"),
    "\n" * 900: ("filler", "model"),
    "None": ("no_program", "model"),
    "Understood": ("no_program", "model"),
    "42": ("no_program", "model"),
    "# TODO: write it": ("no_program", "model"),
    '{"status": "done"}': ("no_program", "model"),
    "```python\n\n```": ("empty", "model"),
    "```python\n# nothing to change\n```": ("no_program", "model"),
    "I'm sorry, but I can't help with that.": ("refusal", "model"),
    "I cannot rewrite this program. It would break the rules.": ("refusal", "model"),
    "Could you tell me what the unit of the limit is before I rewrite this?": ("question", "model"),
    "The program could be made faster by sorting the values first. That is all.": ("prose", "model"),
    "No changes needed.": ("prose", "model"),
    "```python\ndef resolve(values):\n    return values\n```": ("no_entrypoint", "model"),
    "```python\ndef solve(values, limit):\n    ...\n```": ("elided", "model"),
    "```python\ndef solve(values, limit):\n    # ... existing code ...\n    return values\n```": ("elided", "model"),
    "```python\nimport math\n\n# ... (rest of the file stays the same)\n\ndef solve(v, l):\n    return v\n```": (
        "elided",
        "model",
    ),
    "```javascript\nfunction solve(values, limit) {\n  return values.map(v => v + 1);\n}\n```": (
        "other_language",
        "model",
    ),
    "```python\nconst solve = (values, limit) => {\n  return [...values];\n};\n```": ("other_language", "model"),
    "```python\nfor each value in values:\n    put it where it fits\nreturn bins\n```": ("pseudocode", "model"),
    "```python\ndef solve(values, limit):\n    print len(values)\n    return values\n```": ("python2", "model"),
    "```python\ndef solve(values, limit)\n    return values\n```": ("syntax", "model"),
    "```python\ndef solve(values, limit):\n    return sorted(values\n```": ("syntax", "model"),
    "```python\ndef solve(values, limit):\n    return " + "(" * 3000 + "1" + ")" * 3000 + "\n```": (
        "too_deep",
        "model",
    ),
    "```python\ndef solve(values, limit):\n    return " + "-" * 60_000 + "1\n```": ("too_deep", "model"),
    "```python\ndef solve(values, limit):\n    return sor\0ted(values)\n```": ("control_characters", "channel"),
    "```python\ndef solve(values, limit):\n    return sor\ufffdted(values)\n```": ("replacement_characters", "channel"),
    "```python\ndef solve(values, limit):\n    return val9.3192 * limit\n```": ("splice", "channel"),
    "```python\ndef solve(values, limit):\n    total = sum(vatotal = sum(values)\n    return total\n```": (
        "doubled_chunk",
        "channel",
    ),
    "```python\ndef solve(values, limit):\n<<<<<<< HEAD\n    return 1\n=======\n    return 2\n>>>>>>> b\n```": (
        "conflict_markers",
        "model",
    ),
    "<<<<<<< SEARCH\n    return tuple(values)\n=======\n    return 1\n>>>>>>> REPLACE": ("edit_failed", "model"),
    "<think>\nA draft:\n```python\ndef solve(v, l):\n    return 1\n```\nBut maybe": ("unfinished_reasoning", "model"),
    "```python\ndef solve(values, limit):\n    return " + "fill" * 400: ("filler", "model"),
    "proceed</br>" * 100: ("filler", "model"),
    "court" * 3000: ("filler", "model"),
}


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Programs that define the entry point, of random layout and content; none says that a part was left out."""
    text = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\ufeff"), max_size=30)
    name = st.from_regex(r"[a-z]{2,6}_[0-9a-z]{1,3}", fullmatch=True)
    lines = []
    if draw(st.booleans()):
        lines.append(repr(draw(text)))
    for _ in range(draw(st.integers(0, 3))):
        lines.append(
            f"{draw(name)} = {draw(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), text))!r}"
        )
    lines += ["", ""]
    margin = draw(st.sampled_from(["    ", "  ", "\t"]))
    lines.append(f"def solve({draw(name)}, limit=0):")
    for _ in range(draw(st.integers(0, 4))):
        lines.append(f"{margin}{draw(name)} = {draw(st.one_of(st.integers(), text))!r}  # note")
    lines.append(f"{margin}return {draw(st.one_of(st.integers(), text))!r}")
    return "\n".join(lines) + "\n"
