"""Source text -> `Verdict`: everything in a program that its domain does not let pass, line by line.

The gate is a filter for accidents and cheap refusals, never the boundary; the sandbox is. It saves runs and names
the cause; somebody who wants to get past it will. Files, network, memory, time and whatever a library reaches by
itself are not its business. A false refusal of ordinary code costs more than a miss, so a rule that ordinary code
would trip over is left out, or narrowed (see the comments beside the tables).

The text is parsed, never compiled or run: CPython folds constants and copies `finally` bodies when it compiles, which
a short text can make costly. The caller must compile the very `str` that was checked (for bytes: their UTF-8 reading).
A thread that calls `check` needs 1 MiB of C stack, which is what CPython's parser uses before it gives up.
"""

from __future__ import annotations

import ast
import bisect
import re
import threading
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from progevo.types import GatePolicy


def _words(text: str) -> frozenset[str]:
    """The words of a table."""
    return frozenset(text.split())


#: Built-ins that run text, reach by name, or touch the host. `hasattr` with a literal, harmless name stays allowed.
_NAMES = _words(
    "eval exec compile open getattr setattr delattr hasattr vars dir globals locals __import__ breakpoint input help "
    "exit quit"
)
#: Names that programs also use for things of their own (`def forward(self, input)`): refused only if never rebound.
_REBINDABLE = _words("dir exit help input open quit")

#: Modules that other modules carry around; refused as an attribute of any object, also with underscores in front.
#: Left out, since ordinary objects have them: code, gc, io, path, random, requests, resource, select, signal, types.
_MODULES = _words(
    "os sys subprocess builtins importlib ctypes ctypeslib shutil socket pickle cPickle cloudpickle posix nt posixpath "
    "ntpath pty multiprocessing tempfile pathlib codecs inspect marshal shelve imp runpy pdb pkgutil fcntl ssl urllib "
    "ftplib smtplib asyncio linecache cffi f2py joblib numpy_pickle"
)
#: Refused only on what an import brought in: `self.system` and `net.modules()` are ordinary code.
_MODULE_MEMBERS = _words("modules system gc threading operator load_module exec_module")

#: Frames, code and functions from the inside. Exact names: `f_score` and `co_occurrence` are ordinary.
_FRAMES = _words(
    "gi_frame gi_code gi_yieldfrom cr_frame cr_code cr_await cr_origin ag_frame ag_code ag_await tb_frame tb_next "
    "tb_lasti tb_lineno f_back f_builtins f_code f_globals f_locals f_lasti f_lineno f_trace f_trace_lines "
    "f_trace_opcodes f_generator co_code co_consts co_names co_varnames co_freevars co_cellvars co_filename "
    "co_firstlineno co_flags co_lnotab co_lines co_positions co_exceptiontable co_nlocals co_stacksize "
    "func_globals func_code func_closure func_defaults func_dict"
)
_ATTRIBUTES = _FRAMES | _words(
    "read_pickle to_pickle Unpickler popen Popen attrgetter methodcaller get_type_hints ForwardRef get_field "
    "evaluate_forward_ref currentframe get_objects get_referrers get_referents CodeType FunctionType"
)
#: Refused by their full dotted name, where the last part alone would be ordinary.
_DOTTED = _words("joblib.load joblib.dump string.Formatter")

_OPERATORS = (
    "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and or xor neg pos abs invert lt le gt ge eq ne"
)
#: The dunders that ordinary code reads, calls or defines; every other one is refused.
_DUNDERS = frozenset(f"__{prefix}{name}__" for name in _OPERATORS.split() for prefix in ("", "r", "i")) | _words(
    "__init__ __new__ __post_init__ __name__ __qualname__ __module__ __doc__ __version__ __author__ __all__ __slots__ "
    "__match_args__ __main__ __call__ __len__ __length_hint__ __iter__ __next__ __reversed__ __contains__ __getitem__ "
    "__setitem__ __delitem__ __missing__ __repr__ __str__ __bytes__ __format__ __hash__ __bool__ __int__ __float__ "
    "__complex__ __index__ __round__ __trunc__ __floor__ __ceil__ __enter__ __exit__ __await__ __aiter__ __anext__ "
    "__aenter__ __aexit__ __copy__ __deepcopy__ __getstate__ __setstate__ __dir__ __array__ "
    "__sklearn_tags__ __sklearn_clone__ __sklearn_is_fitted__"
)
#: Refused as whole string constants. Not every dunder: `fillna("__missing__")` is ordinary code.
_STRINGS = _words(
    "__class__ __base__ __bases__ __mro__ __subclasses__ __globals__ __builtins__ __builtin__ __import__ __loader__ "
    "__spec__ __dict__ __code__ __closure__ __func__ __self__ __wrapped__ __getattribute__ __getattr__ __setattr__ "
    "__delattr__ __get__ __set__ __delete__ __reduce__ __reduce_ex__ __init_subclass__ __subclasshook__ __set_name__ "
    "__class_getitem__ __prepare__ __instancecheck__ __mro_entries__ __annotations__ __traceback__ __context__ "
    "__cause__ __defaults__ __kwdefaults__ __objclass__ __file__ __path__ __package__ __cached__ __del__ allow_pickle"
)
#: Settings of libraries that programs are meant to assign to.
_SETTINGS = ("pandas.options.", "torch.backends.")
#: Where `allow_pickle` stands among the positional arguments of numpy's readers and writers.
_ALLOW_PICKLE_AT = {"numpy.load": 2, "numpy.save": 2, "numpy.lib.format.read_array": 1}

_INSTEAD = {
    "getattr": "write obj.name, or ask hasattr(obj, 'name') first",
    "hasattr": "call it with a plain name as a literal: hasattr(obj, 'name')",
    "setattr": "write obj.name = value",
    "delattr": "write del obj.name",
    "vars": "keep the values in a dict of your own",
    "locals": "keep the values in a dict of your own",
    "globals": "keep the values in a dict of your own",
    "open": "work with the arguments that the program is given",
    "input": "work with the arguments that the program is given",
    "exit": "return, or raise an exception",
    "quit": "return, or raise an exception",
    "__class__": "write type(obj)",
    "to_pickle": "keep the object in memory",
}

#: Deepest tree that passes. The deepest of the 3084 files of pandas, scipy and scikit-learn has 33 levels; from about
#: 250 on, `ast.dump` and other things that recurse over a tree overflow.
_MAX_DEPTH = 200
#: `import a.a.a...`: CPython joins dotted names pairwise and keeps every step, 2.7 GB at 100 kB of text. Every other
#: text of that size that was tried costs it below 160 MB and 1 s (3.11 to 3.13), so this alone is looked for first.
_LONG_DOTTED = re.compile(r"\b(?:\w++[\s\\]*+\.[\s\\]*+){100}")

_LINE_END = re.compile(r"\r\n|\r|\n")
_DUNDER = re.compile(r"__\w+__\Z")
_COOKIE = re.compile(r"[ \t]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)  # PEP 263
_FORMAT_FIELD = re.compile(r"\{\w*([.\[][^{}!:]*)")
#: In a pandas expression: an outer variable, a dunder, or a dot that is not a decimal point.
_QUERY_REACH = re.compile(r"@|__|[^\W\d]\w*\s*\.|(?<![\d.])\.(?!\d)")
_LEXEME = re.compile(
    r"""#[^\r\n]*|(?P<prefix>[A-Za-z]{0,2})(?P<quote>\"{3}|'{3}|"|')(?:\\.|(?!(?P=quote)).)*+(?P=quote)|(?P<word>\w+)""",
    re.DOTALL,
)
_FSTRING_FIELD = re.compile(r"\{[^{}]*\}")
_FILE = "<candidate>"
_QUIET_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that the policy does not let pass: what it is, the rule, and what to do instead."""

    #: Counted from 1; 0 where the text as a whole is meant.
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the gate found, ordered by line; a program without findings may run (in the sandbox)."""

    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.findings


def check(source: str | bytes, policy: GatePolicy, entrypoint: str) -> Verdict:
    """What `policy` has against a program that must define `entrypoint` at its top level; never raises for a text."""
    findings = dict.fromkeys(_findings(source, policy, entrypoint))  # the same thing twice on a line is said once
    return Verdict(findings=tuple(sorted(findings, key=lambda finding: (finding.line, finding.rule, finding.message))))


def _findings(source: str | bytes, policy: GatePolicy, entrypoint: str) -> Iterator[Finding]:
    """Every finding, in no order. Each stage needs what the one before it has made sure of."""
    if len(source) > policy.max_bytes or len(_encoded(source)) > policy.max_bytes:
        yield Finding(line=0, rule="size", message=f"the program is larger than {policy.max_bytes} bytes; shorten it")
        return
    try:
        text = source.decode("utf-8") if isinstance(source, bytes) else source
    except UnicodeDecodeError as error:
        line = _line(source[: error.start].decode("utf-8"), error.start) if isinstance(source, bytes) else 0
        yield Finding(line=line, rule="encoding", message="the program is not valid UTF-8; write it as UTF-8")
        return
    if found := [*_character_findings(text), *_cookie_findings(text)]:
        yield from found
        return
    tree = _parse(text)
    if isinstance(tree, Finding):
        yield tree
        return
    yield from _entrypoint_findings(tree, entrypoint)
    if policy.permissive:
        return
    levels = list(_levels(tree))
    if len(levels) > _MAX_DEPTH:
        line = min((line for node in levels[-1] if (line := getattr(node, "lineno", 0))), default=0)
        yield Finding(line=line, rule="syntax", message=_too_deep(f"more than {_MAX_DEPTH} levels"))
        return
    yield from _folding_findings(text)
    yield from _Scan(policy, [node for level in levels for node in level]).findings()


# The text


def _encoded(source: str | bytes) -> bytes:
    """The bytes of a text, lone surrogates included."""
    return source if isinstance(source, bytes) else source.encode("utf-8", "surrogatepass")


def _line(text: str, position: int) -> int:
    """The line of a position, as Python counts lines."""
    return 1 + sum(1 for _ in _LINE_END.finditer(text, 0, position))


def _character_findings(text: str) -> Iterator[Finding]:
    """Characters that show nothing, or make the shown text differ from the one that is read."""
    unwanted = {
        character: "encoding" if character in "\0\ufeff" or category == "Cs" else "character"
        for character in set(text)
        if (category := unicodedata.category(character)) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in "\n\t\r"
    }
    if not unwanted:
        return
    for number, line in enumerate(_LINE_END.split(text), 1):
        for character in sorted(unwanted.keys() & set(line)):
            name = unicodedata.name(character, "a lone surrogate" if character >= "\ud800" else "a control character")
            message = f"U+{ord(character):04X} ({name.lower()}) in the text; remove it, or write it as an escape"
            yield Finding(line=number, rule=unwanted[character], message=message)


def _cookie_findings(text: str) -> Iterator[Finding]:
    """Encoding declarations other than UTF-8: whoever reads the file by them reads another program."""
    for number, line in enumerate(_LINE_END.split(text, 2)[:2], 1):
        if match := _COOKIE.match(line):
            encoding = match[1].lower().replace("_", "-")
            if encoding not in ("utf-8", "utf8") and not encoding.startswith("utf-8-"):
                message = f"the comment declares the encoding {_short(match[1])}; programs are UTF-8: remove it"
                yield Finding(line=number, rule="encoding", message=message)
            return
        if line.strip() and not line.lstrip().startswith("#"):
            return


def _folding_findings(text: str) -> Iterator[Finding]:
    """Identifiers that Python reads as another spelling (NFKC); Greek and accented letters stay as they are."""
    if all(unicodedata.is_normalized("NFKC", word) for word in set(re.findall(r"\w+", text))):
        return
    ends = [match.end() for match in _LINE_END.finditer(text)]
    for lexeme in _LEXEME.finditer(text):
        if "f" in (lexeme["prefix"] or "").lower():
            words = [word for field in _FSTRING_FIELD.findall(lexeme[0]) for word in re.findall(r"\w+", field)]
        else:
            words = [lexeme["word"]] if lexeme["word"] else []
        for word in words:
            if (folded := unicodedata.normalize("NFKC", word)) != word:
                message = f"Python reads the identifier {_short(word)} as {_short(folded)}; write it that way"
                yield Finding(line=1 + bisect.bisect(ends, lexeme.start()), rule="character", message=message)


# The tree


def _parse(text: str) -> ast.Module | Finding:
    """The syntax tree, or why there is none."""
    if match := _LONG_DOTTED.search(text):
        return Finding(line=_line(text, match.start()), rule="syntax", message="a dotted name of over 100 parts")
    _silence_warnings()
    try:
        return ast.parse(text, _FILE)
    except SyntaxError as error:
        fence = any(line.lstrip().startswith("```") for line in _LINE_END.split(text))
        hint = "; remove the Markdown code fence" if fence else ""
        return Finding(line=error.lineno or 0, rule="syntax", message=f"not valid Python: {_cut(error.msg)}{hint}")
    except (RecursionError, MemoryError):
        return Finding(line=0, rule="syntax", message=_too_deep("too deeply for the parser"))
    except (ValueError, OverflowError, SystemError) as error:
        return Finding(line=0, rule="syntax", message=f"not valid Python: {_cut(str(error))}")


def _too_deep(how: str) -> str:
    return f"the code is nested {how}; split long chains of operators, calls or elif into statements"


def _silence_warnings() -> None:
    """Keeps parser warnings about candidates off the host's stderr, and from becoming errors there.

    `warnings.catch_warnings` swaps process-wide state and is no use among threads. A filter for a file name that
    nothing else uses concerns nobody else and can stay; it must only be in front, whatever was put there since.
    """
    with _QUIET_LOCK:
        first = warnings.filters[0] if warnings.filters else None
        if not (first and first[0] == "ignore" and getattr(first[3], "pattern", None) == re.escape(_FILE)):
            warnings.filterwarnings("ignore", module=re.escape(_FILE))


def _levels(tree: ast.AST) -> Iterator[list[ast.AST]]:
    """The nodes of a tree, level by level (no recursion: trees can be deeper than the stack)."""
    level = [tree]
    while level:
        yield level
        level = [child for node in level for child in ast.iter_child_nodes(node)]


_NOT_CALLABLE = (
    *(ast.Constant, ast.JoinedStr, ast.List, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp),
    ast.GeneratorExp,
)


def _entrypoint_findings(tree: ast.Module, entrypoint: str) -> Iterator[Finding]:
    """Nothing if the last binding of the entry point outside functions and classes can be called."""
    binding: ast.stmt | None = None
    for statement in _top_level(tree.body):
        if _binds(statement, entrypoint):
            binding = statement
    name = _short(entrypoint)
    if not tree.body:
        yield Finding(line=0, rule="entrypoint", message=f"the program is empty; define a function {name}")
    elif binding is None:
        message = f"the program does not define {name}; define it at the top level: def {_cut(entrypoint)}(...)"
        yield Finding(line=0, rule="entrypoint", message=message)
    elif isinstance(binding, ast.AsyncFunctionDef):
        message = f"{name} is a coroutine function (async def); write a plain def"
        yield Finding(line=binding.lineno, rule="entrypoint", message=message)
    elif isinstance(binding, (ast.Assign, ast.AnnAssign)) and isinstance(binding.value, _NOT_CALLABLE):
        message = f"{name} is bound to a plain value; it must be a function"
        yield Finding(line=binding.lineno, rule="entrypoint", message=message)


def _top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run in the module's own scope, in source order, also inside if, try, with and loops."""
    waiting = [iter(body)]
    while waiting:
        statement = next(waiting[-1], None)
        if statement is None:
            waiting.pop()
            continue
        yield statement
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            children = [*ast.iter_child_nodes(statement)]
            inner = [grandchild for child in children for grandchild in _clause_body(child)]
            waiting.append(iter(inner))


def _clause_body(node: ast.AST) -> list[ast.stmt]:
    """A statement itself, or the statements of an except or case clause."""
    if isinstance(node, ast.stmt):
        return [node]
    return node.body if isinstance(node, (ast.ExceptHandler, ast.match_case)) else []


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether a statement itself binds a name."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return statement.name == name
        case ast.Import() | ast.ImportFrom():
            return any((alias.asname or alias.name) == name for alias in statement.names)
        case ast.Assign():
            targets = statement.targets
        case ast.AnnAssign(value=ast.expr()):
            targets = [statement.target]
        case _:
            return False
    names = (node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
    return any(node.id == name and isinstance(node.ctx, ast.Store) for node in names)


# The constructs


def _cut(text: str, length: int = 120) -> str:
    return text if len(text) <= length else text[:length] + "..."


def _short(text: str) -> str:
    return repr(_cut(text, 60))


class _Scan:
    """Looks at every node once, children before parents, and notes what the policy refuses."""

    def __init__(self, policy: GatePolicy, nodes: list[ast.AST]) -> None:
        self.allowed = policy.allowed_names
        self.imports = policy.imports
        self.names = (_NAMES | policy.refused_names) - self.allowed
        self.modules = (_MODULES - self.imports | policy.refused_modules) - self.allowed
        self.attributes = (_ATTRIBUTES | policy.refused_attributes) - self.allowed
        self.refused = tuple(f"{name}." for name in (_DOTTED | policy.refused_modules) - self.allowed)
        self.nodes = nodes
        self.found: list[Finding] = []
        #: The full dotted name of each expression that starts at an imported name, by the node's id.
        self.dotted: dict[int, str] = {}
        #: Nodes that a parent has shown to be harmless, by id.
        self.harmless: set[int] = set()
        #: What each imported name stands for.
        self.imported: dict[str, str] = {}
        #: Names that hold a text that was put together in the program.
        self.texts: set[str] = set()
        self._survey()

    def findings(self) -> list[Finding]:
        """Everything found, in no order."""
        for node in reversed(self.nodes):
            if look := _LOOKS.get(type(node)):
                look(self, node)
        return self.found

    def add(self, node: ast.AST, rule: str, message: str) -> None:
        """Notes a finding at a node."""
        self.found.append(Finding(line=getattr(node, "lineno", 0), rule=rule, message=message))

    def _survey(self) -> None:
        """Learns what has to be known before the first node can be judged."""
        modules: dict[str, str] = {}
        members: dict[str, str] = {}
        aliases: list[tuple[str, str]] = []
        bound: set[str] = set()
        for node in self.nodes:
            match node:
                case ast.Import():
                    for alias in node.names:
                        whole = alias.name if alias.asname else alias.name.partition(".")[0]
                        modules.setdefault(alias.asname or whole, whole)
                case ast.ImportFrom(module=str(module), level=0):
                    for alias in node.names:
                        members.setdefault(alias.asname or alias.name, f"{module}.{alias.name}")
                case ast.Name(ctx=ast.Store()):
                    bound.add(node.id)
                case ast.arg():
                    bound.add(node.arg)
                case ast.FunctionDef() | ast.ClassDef():
                    bound.add(node.name)
                case ast.Attribute(attr="__name__" | "__qualname__", value=ast.Attribute(attr="__class__")):
                    self.harmless.add(id(node.value))  # self.__class__.__name__ leads nowhere
                case ast.Call(func=ast.Name(id="hasattr"), args=[_, ast.Constant(value=str(name))]):
                    if not self._attribute_problem(name):
                        self.harmless.add(id(node.func))
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.expr() as value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                    | ast.NamedExpr(target=ast.Name(id=name), value=value)
                ):
                    if isinstance(value, ast.Name):
                        aliases.append((name, value.id))
                    elif self._is_text(value):
                        self.texts.add(name)
        # A member's name that the program also binds is too likely something of its own; a module's is not.
        self.imported = {name: whole for name, whole in members.items() if name not in bound} | modules
        for name, other in aliases:
            if other in modules:
                self.imported.setdefault(name, modules[other])
        # What may not be imported is said once, at the import.
        self.imported = {
            name: whole
            for name, whole in self.imported.items()
            if self._leads_to_import(whole) or not self._import_problem(whole)
        }
        self.names -= _REBINDABLE & bound

    # What a name may be

    def _attribute_problem(self, name: str) -> str | None:
        """Why an attribute of this name is refused on any object, if it is."""
        if name in self.allowed:
            return None
        instead = f"; {_INSTEAD[name]}" if name in _INSTEAD else ""
        if name in self.attributes:
            return f"attribute {_short(name)} is not allowed here{instead}"
        if _DUNDER.match(name) and name not in _DUNDERS:
            return f"attribute {_short(name)} reaches into Python itself and is not allowed here{instead}"
        if (module := name.lstrip("_")) in self.modules:
            return f"{_short(name)} would be the module {module!r}; use the public functions of what you imported"
        return None

    def _member_problem(self, name: str) -> str | None:
        """Why a member of this name is refused on what was imported, if it is."""
        if name in self.allowed:
            return None
        if name.startswith("_") and not _DUNDER.match(name):
            return f"{_short(name)} is private; use the public functions of the package"
        if name in _MODULE_MEMBERS and name not in self.imports:
            return f"{_short(name)} of an imported module is not allowed here"
        if name.startswith("fetch_"):
            return f"{_short(name)} would download data; use what the program is given"
        return self._attribute_problem(name)

    def _import_problem(self, whole: str) -> str | None:
        """Why a dotted name may not be imported, if so."""
        if whole.partition(".")[0] == "__future__":
            return None
        if problem := self._whole_problem(whole):
            return problem
        root = max((name for name in self.imports if f"{whole}.".startswith(f"{name}.")), key=len)
        parts = whole.split(".")[root.count(".") + 1 :]
        problem = next(filter(None, map(self._member_problem, parts)), None)
        return f"import of {_short(whole)}: {problem}" if problem else None

    def _whole_problem(self, whole: str) -> str | None:
        """Why a dotted name is out of bounds as a whole, if it is."""
        if f"{whole}.".startswith(self.refused):
            return f"{_short(whole)} is not allowed here"
        if whole.partition(".")[0] in self.imports or f"{whole}.".startswith(
            tuple(f"{name}." for name in self.imports)
        ):
            return None
        allowed = _cut(", ".join(sorted(self.imports)) or "none", 300)
        return f"import of {_short(whole)} is not allowed here; allowed: {allowed}"

    def _leads_to_import(self, whole: str) -> bool:
        """Whether a dotted name is a step on the way to one that may be imported (`os` if only `os.path` may)."""
        return any(name.startswith(f"{whole}.") for name in self.imports)

    def _is_text(self, node: ast.expr) -> bool:
        """Whether an expression is a text that was put together in the program."""
        match node:
            case ast.Constant(value=str()) | ast.JoinedStr():
                return True
            case ast.BinOp(op=ast.Add() | ast.Mod()):
                return self._is_text(node.left) or self._is_text(node.right)
            case ast.Call(func=ast.Attribute(value=value, attr="format" | "join" | "replace")):
                return self._is_text(value)
            case ast.Name():
                return node.id in self.texts
        return False

    # One look per kind of node

    def _look_import(self, node: ast.Import) -> None:
        for alias in node.names:
            if problem := self._import_problem(alias.name):
                self.add(node, "import", problem)

    def _look_import_from(self, node: ast.ImportFrom) -> None:
        if node.level:
            self.add(node, "import", "relative import; a program is a single file: import by the full name")
            return
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            if alias.name == "*":
                module = node.module or ""
                star = f"star import from {_short(module)} is not allowed here; name what you import"
                self.add(node, "import", self._import_problem(module) or star)
            elif (problem := self._import_problem(whole)) is not None:
                self.add(node, "import", problem)
            elif alias.name in self.names:
                self.add(node, "name", f"{_short(alias.name)} is not allowed here, whichever module it comes from")

    def _look_name(self, node: ast.Name) -> None:
        if whole := self.imported.get(node.id):
            self.dotted[id(node)] = whole
        if node.id in self.names and id(node) not in self.harmless:
            instead = f"; {_INSTEAD[node.id]}" if node.id in _INSTEAD else ""
            self.add(node, "name", f"{_short(node.id)} is not allowed here{instead}")
        else:
            self._look_binding(node, node.id)

    def _look_binding(self, node: ast.AST, name: str | None) -> None:
        if name and _DUNDER.match(name) and name not in _DUNDERS | self.allowed:
            message = f"the name {_short(name)} belongs to Python and is not allowed here"
            self.add(node, "name", message)

    def _look_definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if _DUNDER.match(node.name) and node.name not in _DUNDERS | self.allowed:
            self.add(node, "definition", f"defining {_short(node.name)} is not allowed here; give it an ordinary name")

    def _look_class(self, node: ast.ClassDef) -> None:
        self._look_binding(node, node.name)
        for keyword in node.keywords:
            if keyword.arg == "metaclass" and self.dotted.get(id(keyword.value)) != "abc.ABCMeta":
                self.add(node, "class", "metaclass= is not allowed here; write an ordinary class")
        if any(isinstance(base, ast.Name) and base.id == "type" for base in node.bases):
            self.add(node, "class", "a class that inherits from type is a metaclass, which is not allowed here")

    def _look_attribute(self, node: ast.Attribute) -> None:
        base = self.dotted.get(id(node.value))
        whole = f"{base}.{node.attr}" if base else ""
        if id(node) in self.harmless:
            return
        problem = self._member_problem(node.attr) if base else self._attribute_problem(node.attr)
        if base and not problem and not self._leads_to_import(whole):
            problem = self._whole_problem(whole)
        if problem:
            self.add(node, "attribute", problem)
        elif base and not isinstance(node.ctx, ast.Load) and not whole.startswith(_SETTINGS):
            self.add(node, "patch", f"{_short(whole)} belongs to what was imported; assign to a name of your own")
        elif base:
            self.dotted[id(node)] = whole

    def _look_call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if isinstance(node.func, ast.Name) and node.func.id == "type" and "type" not in self.allowed:
            if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
                self.add(node, "call", "type() with more than one argument makes a class; write a class statement")
        elif name in ("query", "eval") and name not in self.allowed:
            self._look_expression(node, name)
        pickled = [keyword.value for keyword in node.keywords if keyword.arg == "allow_pickle"]
        if (position := _ALLOW_PICKLE_AT.get(self.dotted.get(id(node.func), ""))) is not None:
            pickled += node.args[position : position + 1]
        unsafe = any(not (isinstance(value, ast.Constant) and value.value is False) for value in pickled)
        if unsafe and "allow_pickle" not in self.allowed:
            self.add(node, "call", "allow_pickle is not allowed here; leave it out, or set it to False")

    def _look_expression(self, node: ast.Call, name: str) -> None:
        """`query` and `eval` of pandas. Those of other things (a KD-tree, a network) are given no text."""
        texts = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "expr")]
        for text in texts:
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                refused = _QUERY_REACH.search(text.value) is not None
            else:
                refused = self._is_text(text) or self.dotted.get(id(node.func)) == "pandas.eval"
            if refused:
                message = f"{name}() takes a literal text without '@', '.' names or '__' here; or index with a mask"
                self.add(node, "call", f"{message}: df[df['a'] > limit]")

    def _look_constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, str) or node.value in self.allowed:
            return
        if node.value in _STRINGS:
            self.add(node, "string", f"the text {node.value!r} names an inside of Python; use another one")
            return
        # Checked in every text, so that it matters little how str.format gets hold of it; one that is put
        # together at run time passes, which leaks descriptions of objects and never an object.
        for field in _FORMAT_FIELD.findall(node.value):
            for part in re.split(r"[.\[\]]+", field)[1:]:
                if part.startswith("_") or self._attribute_problem(part):
                    self.add(node, "string", f"a format field that reaches {_short(part)}; format the value itself")

    def _look_match_class(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            if problem := self._attribute_problem(name):
                self.add(node, "attribute", problem)

    def _look_names(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:
            self._look_binding(node, name)


def _binding(field: str) -> Callable[[_Scan, Any], None]:
    """A look at a node whose `field` binds a name."""
    return lambda scan, node: scan._look_binding(node, getattr(node, field))


_LOOKS: dict[type[ast.AST], Callable[[_Scan, Any], None]] = {
    ast.Import: _Scan._look_import,
    ast.ImportFrom: _Scan._look_import_from,
    ast.Name: _Scan._look_name,
    ast.Attribute: _Scan._look_attribute,
    ast.Call: _Scan._look_call,
    ast.Constant: _Scan._look_constant,
    ast.MatchClass: _Scan._look_match_class,
    ast.FunctionDef: _Scan._look_definition,
    ast.AsyncFunctionDef: _Scan._look_definition,
    ast.ClassDef: _Scan._look_class,
    ast.Global: _Scan._look_names,
    ast.Nonlocal: _Scan._look_names,
    ast.arg: _binding("arg"),
    ast.keyword: _binding("arg"),
    ast.alias: _binding("asname"),
    ast.ExceptHandler: _binding("name"),
    ast.MatchAs: _binding("name"),
    ast.MatchStar: _binding("name"),
    ast.MatchMapping: _binding("rest"),
}
