"""The constructs: every node of the syntax tree is looked at once, against the policy."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from progevo.gate.verdict import Finding, cut, short
from progevo.gate.words import (
    ALLOW_PICKLE_AT,
    ATTRIBUTES,
    DOTTED,
    DUNDERS,
    INSTEAD,
    MODULE_MEMBERS,
    MODULES,
    NAMES,
    REBINDABLE,
    SETTINGS,
    STRINGS,
)
from progevo.types import GatePolicy

_DUNDER = re.compile(r"__\w+__\Z")
_FORMAT_FIELD = re.compile(r"\{\w*([.\[][^{}!:]*)")
#: In a pandas expression: an outer variable, a dunder, or a dot that is not a decimal point.
_QUERY_REACH = re.compile(r"@|__|[^\W\d]\w*\s*\.|(?<![\d.])\.(?!\d)")


class Scan:
    """Looks at every node once, children before parents, and notes what the policy refuses."""

    def __init__(self, policy: GatePolicy, nodes: list[ast.AST]) -> None:
        self.allowed = policy.allowed_names
        self.imports = policy.imports
        self.names = (NAMES | policy.refused_names) - self.allowed
        self.modules = (MODULES - self.imports | policy.refused_modules) - self.allowed
        self.attributes = (ATTRIBUTES | policy.refused_attributes) - self.allowed
        self.refused = tuple(f"{name}." for name in (DOTTED | policy.refused_modules) - self.allowed)
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
        self.names -= REBINDABLE & bound

    # What a name may be

    def _attribute_problem(self, name: str) -> str | None:
        """Why an attribute of this name is refused on any object, if it is."""
        if name in self.allowed:
            return None
        instead = f"; {INSTEAD[name]}" if name in INSTEAD else ""
        if name in self.attributes:
            return f"attribute {short(name)} is not allowed here{instead}"
        if _DUNDER.match(name) and name not in DUNDERS:
            return f"attribute {short(name)} reaches into Python itself and is not allowed here{instead}"
        if (module := name.lstrip("_")) in self.modules:
            return f"{short(name)} would be the module {module!r}; use the public functions of what you imported"
        return None

    def _member_problem(self, name: str) -> str | None:
        """Why a member of this name is refused on what was imported, if it is."""
        if name in self.allowed:
            return None
        if name.startswith("_") and not _DUNDER.match(name):
            return f"{short(name)} is private; use the public functions of the package"
        if name in MODULE_MEMBERS and name not in self.imports:
            return f"{short(name)} of an imported module is not allowed here"
        if name.startswith("fetch_"):
            return f"{short(name)} would download data; use what the program is given"
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
        return f"import of {short(whole)}: {problem}" if problem else None

    def _whole_problem(self, whole: str) -> str | None:
        """Why a dotted name is out of bounds as a whole, if it is."""
        if f"{whole}.".startswith(self.refused):
            return f"{short(whole)} is not allowed here"
        if whole.partition(".")[0] in self.imports or f"{whole}.".startswith(
            tuple(f"{name}." for name in self.imports)
        ):
            return None
        allowed = cut(", ".join(sorted(self.imports)) or "none", 300)
        return f"import of {short(whole)} is not allowed here; allowed: {allowed}"

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
                star = f"star import from {short(module)} is not allowed here; name what you import"
                self.add(node, "import", self._import_problem(module) or star)
            elif (problem := self._import_problem(whole)) is not None:
                self.add(node, "import", problem)
            elif alias.name in self.names:
                self.add(node, "name", f"{short(alias.name)} is not allowed here, whichever module it comes from")

    def _look_name(self, node: ast.Name) -> None:
        if whole := self.imported.get(node.id):
            self.dotted[id(node)] = whole
        if node.id in self.names and id(node) not in self.harmless:
            instead = f"; {INSTEAD[node.id]}" if node.id in INSTEAD else ""
            self.add(node, "name", f"{short(node.id)} is not allowed here{instead}")
        else:
            self._look_binding(node, node.id)

    def _look_binding(self, node: ast.AST, name: str | None) -> None:
        if name and _DUNDER.match(name) and name not in DUNDERS | self.allowed:
            message = f"the name {short(name)} belongs to Python and is not allowed here"
            self.add(node, "name", message)

    def _look_definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if _DUNDER.match(node.name) and node.name not in DUNDERS | self.allowed:
            self.add(node, "definition", f"defining {short(node.name)} is not allowed here; give it an ordinary name")

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
        elif base and not isinstance(node.ctx, ast.Load) and not whole.startswith(SETTINGS):
            self.add(node, "patch", f"{short(whole)} belongs to what was imported; assign to a name of your own")
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
        if (position := ALLOW_PICKLE_AT.get(self.dotted.get(id(node.func), ""))) is not None:
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
        if node.value in STRINGS:
            self.add(node, "string", f"the text {node.value!r} names an inside of Python; use another one")
            return
        # Checked in every text, so that it matters little how str.format gets hold of it; one that is put
        # together at run time passes, which leaks descriptions of objects and never an object.
        for field in _FORMAT_FIELD.findall(node.value):
            for part in re.split(r"[.\[\]]+", field)[1:]:
                if part.startswith("_") or self._attribute_problem(part):
                    self.add(node, "string", f"a format field that reaches {short(part)}; format the value itself")

    def _look_match_class(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            if problem := self._attribute_problem(name):
                self.add(node, "attribute", problem)

    def _look_names(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:
            self._look_binding(node, name)


def _binding(field: str) -> Callable[[Scan, Any], None]:
    """A look at a node whose `field` binds a name."""
    return lambda scan, node: scan._look_binding(node, getattr(node, field))


_LOOKS: dict[type[ast.AST], Callable[[Scan, Any], None]] = {
    ast.Import: Scan._look_import,
    ast.ImportFrom: Scan._look_import_from,
    ast.Name: Scan._look_name,
    ast.Attribute: Scan._look_attribute,
    ast.Call: Scan._look_call,
    ast.Constant: Scan._look_constant,
    ast.MatchClass: Scan._look_match_class,
    ast.FunctionDef: Scan._look_definition,
    ast.AsyncFunctionDef: Scan._look_definition,
    ast.ClassDef: Scan._look_class,
    ast.Global: Scan._look_names,
    ast.Nonlocal: Scan._look_names,
    ast.arg: _binding("arg"),
    ast.keyword: _binding("arg"),
    ast.alias: _binding("asname"),
    ast.ExceptHandler: _binding("name"),
    ast.MatchAs: _binding("name"),
    ast.MatchStar: _binding("name"),
    ast.MatchMapping: _binding("rest"),
}
