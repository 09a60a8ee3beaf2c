"""Hostile programs of our own, by what they go for, and how each should end.

Most try something, and answer 1 where it worked and 0 where it was refused. The others end with a status. They run one
after another in the same sandbox, so that what one leaves behind the next may find.
"""

from __future__ import annotations

from typing import Any, NamedTuple

MIB = 1024 * 1024
#: In the environment of the process that starts the sandbox.
TOKEN = "progevo-token-4711"
#: The name that every process takes which means to stay.
MARK = "pe-leftover"


class Hostile(NamedTuple):
    """One program. `expect` is what it answers, or the status that it ends with."""

    source: str
    expect: int | str = 0
    limits: dict[str, Any] = {}  # noqa: RUF012


def tries(body: str, imports: str = "os") -> Hostile:
    """A program that answers 1 if no exception stops the body, unless that answers for itself."""
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    return Hostile(
        f"import {imports}\ndef solve(x):\n    try:\n{lines}        return 1\n    except Exception: return 0\n"
    )


def counts(body: str, imports: str = "os") -> Hostile:
    """A program that answers how many of the things that it yields are true, or raise nothing when they are called."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return Hostile(
        f"import {imports}\ndef attempts():\n{lines}"
        "def solve(x):\n    done = 0\n    for attempt in attempts():\n"
        "        try: done += (attempt() if callable(attempt) else attempt) not in (False, -1)\n"
        "        except Exception: pass\n    return done\n"
    )


#: Calls by number that no library wraps; -1 is a refusal.
RAW = """
libc = ctypes.CDLL(None, use_errno=True)
call = lambda x86, arm, *rest: libc.syscall(x86 if os.uname().machine == 'x86_64' else arm, *rest)
"""

FAMILIES: dict[str, dict[str, Hostile]] = {
    "files": {
        "read the host's users": counts("for name in ('passwd', 'shadow'): yield lambda: open(f'/etc/{name}')"),
        "climb above its root": tries("open('/proc/self/root/../../../../etc/passwd')"),
        "climb out by the first process": counts(
            "for way in ('root', 'cwd', 'fd/0', 'map_files'): yield lambda: os.listdir(f'/proc/1/{way}')"
        ),
        "read homes": counts(
            "for home in ('/root', '/home/runner', '/home/user', os.path.expanduser('~nobody')):\n"
            "    for name in ('.ssh', '.bashrc', '.profile', '.bash_history', '.gitconfig', '.cache', '.netrc'):\n"
            "        yield lambda: os.stat(f'{home}/{name}')\n"
            "for place in ('/var', '/run', '/srv', '/mnt', '/boot', '/sys'): yield lambda: os.listdir(place)"
        ),
        "write beside what is shown": counts(
            "for place in ('/', '/usr/lib', '/usr', '/etc', '/dev', '/progevo', '/inputs', '/proc/sys/kernel'):\n"
            "    yield lambda: open(f'{place}/left-here', 'w')"
        ),
        "rewrite what supervises it": counts(
            "for name in ('runner', 'wire', 'zygote', 'harness'): yield lambda: open(f'/progevo/{name}.py', 'r+')"
        ),
        "write by a second name": tries("os.link('/progevo/harness.py', '/tmp/h')\nopen('/tmp/h', 'a').write('x')"),
        "replace what supervises it": tries("open('/tmp/h', 'w')\nos.replace('/tmp/h', '/progevo/harness.py')"),
        "make the host's disk": tries("os.mknod('/tmp/disk', stat.S_IFBLK | 0o666, os.makedev(8, 0))", "os, stat"),
        "read progevo's tasks": counts(
            "for folder in sys.path: yield any(names for _, _, names in os.walk(f'{folder}/progevo'))", "os, sys"
        ),
    },
    "secrets": {
        "find the token in an environment": counts(
            f"yield {TOKEN!r} in str(dict(os.environ))\n"
            "for process in filter(str.isdigit, os.listdir('/proc')):\n"
            f"    yield lambda: {TOKEN!r} in open(f'/proc/{{process}}/environ').read()"
        ),
        "read the supervisor's memory": tries("open('/proc/1/maps').read()\nopen('/proc/1/mem', 'rb')"),
        "read the supervisor's descriptors": tries("os.listdir('/proc/1/fd')"),
        "learn the host's name": counts("yield os.uname().nodename != 'sandbox'"),
        "read a command line of the host's": counts(
            "for process in filter(str.isdigit, os.listdir('/proc')):\n"
            "    yield lambda: 'arm.py' in open(f'/proc/{process}/cmdline').read()"
        ),
        "find a file that was left open": counts(
            "for number in range(256):\n"
            "    yield lambda: not os.readlink(f'/proc/self/fd/{number}').startswith(('/dev/null', 'pipe:', 'socket:'))"
        ),
        "read the kernel's log": counts(
            "yield lambda: open('/dev/kmsg')\nyield lambda: call(103, 116, 3, bytes(64), 64)", f"os, ctypes{RAW}"
        ),
    },
    "network": {
        "open a socket of any family": counts(
            "for family in range(46):\n"
            "    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):\n"
            "        yield lambda: socket.socket(family, kind).close()",
            "os, socket",
        ),
        "make a pair that is not local": counts(
            "for family in range(2, 46): yield lambda: socket.socketpair(family) and True", "os, socket"
        ),
        "make a pair that sends to others": tries("socket.socketpair(type=socket.SOCK_DGRAM)", "socket"),
        "hand a descriptor on": tries("socket.send_fds(socket.socketpair()[0], [b'x'], [0])", "socket"),
        "resolve a name": tries("socket.getaddrinfo('example.org', 80)", "socket"),
        "go by kernel rings": counts("yield lambda: call(425, 425, 8, bytes(120))", f"os, ctypes{RAW}"),
        "see an interface": counts(
            "for line in open('/proc/net/dev').read().splitlines()[2:]: yield line.split(':')[0].strip() != 'lo'"
        ),
    },
    "processes": {
        "kill everything": tries("os.kill(-1, 9)"),
        "kill the supervisor": Hostile("import os\ndef solve(x):\n os.kill(1, 9)\n os.kill(1, 19)\n return 0"),
        "interrupt the supervisor": Hostile(
            "import os, signal\ndef solve(x):\n for number in set(range(1, 64)) - {signal.SIGCHLD}:\n"
            "  try: os.kill(1, number)\n  except OSError: pass\n return 0"
        ),
        "cut the supervisor's limits": counts(
            "for kind in range(16): yield lambda: resource.prlimit(1, kind, (0, 0))", "resource"
        ),
        "trace the supervisor": counts("yield lambda: call(101, 117, 0x4206, 1, 0, 0)", f"os, ctypes{RAW}"),
        "rob the supervisor of a descriptor": counts(
            "held = os.pidfd_open(1)\nfor number in range(9): yield lambda: call(438, 438, held, number, 0)",
            f"os, ctypes{RAW}",
        ),
        "see a process of another": counts(
            "for process in filter(str.isdigit, os.listdir('/proc')): yield int(process) not in (1, os.getpid())"
        ),
        "leave daemons behind": Hostile(
            "import os, time\ndef solve(x):\n for _ in range(3):\n  if os.fork() == 0:\n   os.setsid()\n"
            "   if os.fork() == 0:\n    os.closerange(0, 64)\n"
            f"    open('/proc/self/comm', 'w').write('{MARK}')\n    time.sleep(600)\n   os._exit(0)\n"
            " time.sleep(0.2)\n return 0"
        ),
        "come before the others": counts(
            "yield lambda: os.nice(-5)\nyield lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))"
        ),
        "fork without end": Hostile(
            "import os\ndef solve(x):\n while True:\n  try: os.fork()\n  except OSError: pass",
            "cpu_limit",
            {"cpu_s": 1},
        ),
        "start threads without end": Hostile(
            "import threading, time\ndef solve(x):\n"
            " while True: threading.Thread(target=time.sleep, args=(600,)).start()",
            "crashed",
        ),
    },
    "resources": {
        "take 30 GB": Hostile("def solve(x): return len(bytearray(30 * 10**9))", "memory_limit"),
        "take memory bit by bit": Hostile(
            "def solve(x):\n kept = []\n while True: kept.append(b'x' * 10**7)",
            "memory_limit",
            {"memory_bytes": 256 * MIB},
        ),
        "take it in parts": Hostile(
            "import os, time\ndef solve(x):\n for _ in range(6):\n  if os.fork() == 0:\n"
            "   kept = b'x' * (80 * 2**20)\n   time.sleep(60)\n time.sleep(60)",
            "memory_limit",
            {"memory_bytes": 256 * MIB},
        ),
        "hold memory out of sight": counts(
            "yield lambda: os.memfd_create('x')\nyield lambda: call(29, 194, 0, 4096, 0o1600)\n"
            "yield lambda: call(278, 75, os.pipe()[1], (ctypes.c_void_p * 2)(id(call), 8), 1, 0)\n"
            "yield lambda: call(444, 444, None, 0, 1)\nyield lambda: call(317, 277, 2, 0, bytes(4))\n"
            "yield lambda: call(447, 447, 0)\nyield lambda: os.setxattr('/tmp', 'user.x', bytes(1024))",
            f"os, ctypes{RAW}",
        ),
        "lock, lease, watch or mark what all share": counts(
            "shared = os.open('/progevo/wire.py', os.O_RDONLY)\n"
            "yield lambda: fcntl.fcntl(shared, fcntl.F_SETLEASE, fcntl.F_RDLCK)\n"
            "yield lambda: fcntl.fcntl(os.open('/usr/lib', os.O_RDONLY), fcntl.F_NOTIFY, 1)\n"
            "yield lambda: fcntl.fcntl(shared, 1036, bytes([5] + [0] * 7)) and True\n"
            "yield lambda: fcntl.fcntl(os.pipe()[0], 1031, 2**20)\n"
            "for name in ('null', 'random', 'urandom', 'full', 'tty', 'zero'):\n"
            "    yield lambda: os.utime(f'/dev/{name}') or True\n"
            "yield lambda: os.chmod('/dev/pts', 0o777) or True",
            "fcntl, os",
        ),
        "leave a word where packages are hidden": counts(
            "for line in open('/proc/self/mountinfo').read().splitlines():\n"
            "    place = line.split()[4]\n"
            "    if place.endswith('-packages'): yield lambda: os.chmod(place, 0o777) or True"
        ),
        "hold memory that is shared": counts(
            "yield lambda: mmap.mmap(-1, 4096) and True\n"
            "yield lambda: mmap.mmap(os.open('/dev/zero', os.O_RDWR), 4096) and True",
            "mmap, os",
        ),
        "hold memory in place": counts("yield lambda: libc.mlockall(3)", f"os, ctypes{RAW}"),
        "write a long file": Hostile("def solve(x): open('f', 'wb').write(bytes(65 * 2**20))", "crashed"),
        "write one of a terabyte": Hostile("def solve(x): open('f', 'wb').truncate(2**40)", "crashed"),
        "fill scratch": Hostile(
            "def solve(x):\n for i in range(70): open(f'f{i}', 'wb').write(bytes(2**20))", "crashed"
        ),
        "fill shared memory": Hostile(
            "def solve(x):\n for i in range(20): open(f'/dev/shm/f{i}', 'wb').write(bytes(2**20))", "crashed"
        ),
        "fill the logs": Hostile(
            "import os\ndef solve(x):\n while True: os.write(2, b'x' * 10**6)", "output_limit", {"output_bytes": MIB}
        ),
        "answer at length": Hostile("def solve(x): return 'x' * (2 * 2**20)", "output_limit", {"answer_bytes": MIB}),
        "raise its limits": counts(
            "for name in ('AS', 'FSIZE', 'NOFILE', 'NPROC', 'CORE', 'MEMLOCK', 'CPU'):\n"
            "    kind = getattr(resource, f'RLIMIT_{name}')\n"
            "    yield lambda: resource.setrlimit(kind, (resource.getrlimit(kind)[1] + 1,) * 2)",
            "resource",
        ),
        "compute in one long call": Hostile("def solve(x): return (9**9**8) % 2", "cpu_limit", {"cpu_s": 1}),
        "sleep": Hostile("import time\ndef solve(x): time.sleep(3600)", "timeout", {"wall_s": 0.5}),
        "nest without end": Hostile("def solve(x): return solve(x)", "crashed"),
    },
    "signals": {
        "heed none and spin": Hostile(
            "import signal\ndef solve(x):\n signal.pthread_sigmask(0, range(1, 64))\n"
            " signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n while True: pass",
            "cpu_limit",
            {"cpu_s": 1},
        ),
        "stop itself": Hostile("import os\ndef solve(x): os.kill(os.getpid(), 19)", "timeout", {"wall_s": 0.5}),
        "fault": Hostile("import ctypes\ndef solve(x): ctypes.string_at(0)", "crashed"),
        "abort": Hostile("import os\ndef solve(x): os.abort()", "crashed"),
        "leave with a smile": Hostile("import os\ndef solve(x): os._exit(0)", "crashed"),
        "raise SystemExit": Hostile("def solve(x): raise SystemExit(0)", "crashed"),
        "wait at the exit": Hostile(
            "import atexit, threading, time\natexit.register(time.sleep, 600)\n"
            "def solve(x):\n threading.Thread(target=time.sleep, args=(600,)).start()\n return 0"
        ),
    },
    "kernel": {
        "make namespaces": counts(
            "for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000, 0x80):\n"
            "    yield lambda: libc.unshare(flag)\n"
            "yield lambda: call(56, 220, 0x10000011, 0, 0, 0, 0)\n"
            "yield lambda: call(435, 435, bytes([0, 0, 0, 16] + [0] * 84), 88)",
            f"os, ctypes{RAW}",
        ),
        "enter namespaces": counts(
            "for name in os.listdir('/proc/self/ns'):\n"
            "    yield lambda: libc.setns(os.open(f'/proc/1/ns/{name}', os.O_RDONLY), 0)\n"
            "    yield lambda: libc.setns(os.open(f'/proc/self/ns/{name}', os.O_RDONLY), 0)",
            f"os, ctypes{RAW}",
        ),
        "mount": counts(
            "yield lambda: libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)\nyield lambda: libc.umount2(b'/tmp', 2)\n"
            "yield lambda: libc.mount(b'none', b'/', None, 32 | 4096, None)\nyield lambda: os.chroot('/tmp')\n"
            "yield lambda: call(428, 428, -100, b'/', 1)\nyield lambda: call(430, 430, b'tmpfs', 0)",
            f"os, ctypes{RAW}",
        ),
        "use keys and machinery": counts(
            "yield lambda: call(248, 217, b'user', b'x', b'y', 1, -3)\nyield lambda: call(250, 219, 0, -3, 0)\n"
            "yield lambda: call(321, 280, 0, bytes(128), 128)\nyield lambda: call(298, 241, bytes(128), 0, -1, -1, 0)\n"
            "yield lambda: call(323, 282, 1)\nyield lambda: call(135, 92, 0x40000)\n"
            "yield lambda: call(304, 265, -100, bytes(16), 0)",
            f"os, ctypes{RAW}",
        ),
        "change the kernel's settings": counts(
            "for name in ('sys/kernel/core_pattern', 'sys/kernel/hostname', 'sys/vm/swappiness', 'sysrq-trigger'):\n"
            "    yield lambda: os.open(f'/proc/{name}', os.O_WRONLY)\n"
            "yield lambda: os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-1000')"
        ),
        "change the clock or the name": counts(
            "yield lambda: time.clock_settime(0, 0)\nyield lambda: socket.sethostname('x')", "time, socket"
        ),
        "have or get powers": counts(
            "facts = dict(line.split(':\\t') for line in open('/proc/self/status').read().splitlines())\n"
            "for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'): yield int(facts[name], 16) != 0\n"
            "yield facts['NoNewPrivs'] != '1'\nyield '0' in facts['Uid'].split()\n"
            "yield lambda: os.setuid(0)\nyield lambda: os.setgroups([0])"
        ),
        "type into a terminal": counts(
            "yield lambda: os.openpty() and True\nyield lambda: os.open('/dev/tty', os.O_RDWR)\n"
            "yield lambda: fcntl.ioctl(0, 0x5412, b'x') or True",
            "os, fcntl",
        ),
        "call as 32-bit programs do": Hostile(
            "import ctypes, mmap, os\ndef solve(x):\n if os.uname().machine != 'x86_64': raise OSError('none')\n"
            # getpid by int 0x80
            " code = mmap.mmap(-1, 4096, flags=34, prot=7)\n code.write(bytes.fromhex('b814000000cd80c3'))\n"
            " return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()",
            "crashed",
        ),
    },
    "tampering": {
        "print a result and leave": Hostile(
            'import os\ndef solve(x):\n os.write(1, b\'{"kind": "answer", "value": 7}\')\n os._exit(0)', "crashed"
        ),
        "say that it has ended": Hostile(
            "import os, sys\ndef solve(x):\n frame = sys.modules['wire'].encode({'kind': 'ended', 'answered': True})\n"
            " for number in range(3, 64):\n  try: os.write(number, frame)\n  except OSError: pass\n os._exit(0)",
            "bad_output",
        ),
        "send what is no frame": Hostile(
            "import os\ndef solve(x):\n for number in range(3, 64):\n  try: os.write(number, b'\\xff' * 64)\n"
            "  except OSError: pass\n os._exit(0)",
            "output_limit",
        ),
        "raise an exception that nobody can read": Hostile(
            "class E(Exception):\n def __str__(self): raise SystemExit\ndef solve(x): raise E", "crashed"
        ),
        "raise one that takes over the terminal": Hostile(
            "def solve(x): raise ValueError('\\x1b[2J\\x1b]0;x\\x07\\u202e\\r' * 9)", "crashed"
        ),
        "claim less than it took": Hostile(
            "import time\ndef solve(x):\n time.sleep(0.3)\n time.monotonic = time.time = lambda: 0.0\n return 0"
        ),
        "plant things for the next": Hostile(
            "import builtins, json, math, os, random, sys\ndef solve(x):\n"
            " for name in ('json', 'random', 'harness', 'sitecustomize'):\n"
            "  open(f'/tmp/{name}.py', 'w').write('planted = True')\n"
            " open('/dev/shm/planted', 'w').write('x')\n os.environ['PLANTED'] = 'x'\n"
            " for module in (builtins, json, math, random, sys): module.planted = True\n"
            " sys.modules['harness'].run = lambda *rest: (7, [])\n sys.setrecursionlimit(60)\n return 0"
        ),
        "find what was planted": counts(
            "yield any(name.endswith('.py') for name in os.listdir('/tmp'))\nyield bool(os.listdir('/dev/shm'))\n"
            "yield 'PLANTED' in os.environ\n"
            "for module in list(sys.modules.values()): yield hasattr(module, 'planted')\n"
            "yield sys.getrecursionlimit() != 1000",
            "os, sys",
        ),
    },
}
