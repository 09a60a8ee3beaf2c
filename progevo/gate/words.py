"""The words that the gate knows: names, modules and attributes that candidates have no business with."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    """The words of a table."""
    return frozenset(text.split())


#: Built-ins that run text, reach by name, or touch the host. `hasattr` with a literal, harmless name stays allowed.
NAMES = _words(
    "eval exec compile open getattr setattr delattr hasattr vars dir globals locals __import__ breakpoint input help "
    "exit quit"
)
#: Names that programs also use for things of their own (`def forward(self, input)`): refused only if never rebound.
REBINDABLE = _words("dir exit help input open quit")

#: Modules that other modules carry around; refused as an attribute of any object, also with underscores in front.
#: Left out, since ordinary objects have them: code, gc, io, path, random, requests, resource, select, signal, types.
MODULES = _words(
    "os sys subprocess builtins importlib ctypes ctypeslib shutil socket pickle cPickle cloudpickle posix nt posixpath "
    "ntpath pty multiprocessing tempfile pathlib codecs inspect marshal shelve imp runpy pdb pkgutil fcntl ssl urllib "
    "ftplib smtplib asyncio linecache cffi f2py joblib numpy_pickle bltns"
)
#: Refused only on what an import brought in: `self.system` and `net.modules()` are ordinary code.
MODULE_MEMBERS = _words("modules system gc threading operator load_module exec_module")

#: Frames, code and functions from the inside. Exact names: `f_score` and `co_occurrence` are ordinary.
FRAMES = _words(
    "gi_frame gi_code gi_yieldfrom cr_frame cr_code cr_await cr_origin ag_frame ag_code ag_await tb_frame tb_next "
    "tb_lasti tb_lineno f_back f_builtins f_code f_globals f_locals f_lasti f_lineno f_trace f_trace_lines "
    "f_trace_opcodes f_generator co_code co_consts co_names co_varnames co_freevars co_cellvars co_filename "
    "co_firstlineno co_flags co_lnotab co_lines co_positions co_exceptiontable co_nlocals co_stacksize "
    "func_globals func_code func_closure func_defaults func_dict"
)
ATTRIBUTES = FRAMES | _words(
    "read_pickle to_pickle Unpickler popen Popen attrgetter methodcaller get_type_hints ForwardRef get_field "
    "evaluate_forward_ref currentframe get_objects get_referrers get_referents CodeType FunctionType"
)
#: Refused by their full dotted name, where the last part alone would be ordinary.
DOTTED = _words("joblib.load joblib.dump string.Formatter")

OPERATORS = (
    "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and or xor neg pos abs invert lt le gt ge eq ne"
)
#: The dunders that ordinary code reads, calls or defines; every other one is refused.
DUNDERS = frozenset(f"__{prefix}{name}__" for name in OPERATORS.split() for prefix in ("", "r", "i")) | _words(
    "__init__ __new__ __post_init__ __name__ __qualname__ __module__ __doc__ __version__ __author__ __all__ __slots__ "
    "__match_args__ __main__ __call__ __len__ __length_hint__ __iter__ __next__ __reversed__ __contains__ __getitem__ "
    "__setitem__ __delitem__ __missing__ __repr__ __str__ __bytes__ __format__ __hash__ __bool__ __int__ __float__ "
    "__complex__ __index__ __round__ __trunc__ __floor__ __ceil__ __enter__ __exit__ __await__ __aiter__ __anext__ "
    "__aenter__ __aexit__ __copy__ __deepcopy__ __getstate__ __setstate__ __dir__ __array__ "
    "__sklearn_tags__ __sklearn_clone__ __sklearn_is_fitted__"
)
#: Refused as whole string constants. Not every dunder: `fillna("__missing__")` is ordinary code.
STRINGS = _words(
    "__class__ __base__ __bases__ __mro__ __subclasses__ __globals__ __builtins__ __builtin__ __import__ __loader__ "
    "__spec__ __dict__ __code__ __closure__ __func__ __self__ __wrapped__ __getattribute__ __getattr__ __setattr__ "
    "__delattr__ __get__ __set__ __delete__ __reduce__ __reduce_ex__ __init_subclass__ __subclasshook__ __set_name__ "
    "__class_getitem__ __prepare__ __instancecheck__ __mro_entries__ __annotations__ __traceback__ __context__ "
    "__cause__ __defaults__ __kwdefaults__ __objclass__ __file__ __path__ __package__ __cached__ __del__ allow_pickle"
)
#: Settings of libraries that programs are meant to assign to.
SETTINGS = ("pandas.options.", "torch.backends.")
#: Where `allow_pickle` stands among the positional arguments of numpy's readers and writers.
ALLOW_PICKLE_AT = {"numpy.load": 2, "numpy.save": 2, "numpy.lib.format.read_array": 1}

INSTEAD = {
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
