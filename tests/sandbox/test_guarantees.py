"""Each guarantee is tried by an attack under the real kernel, and by its twin.

A twin is the same attack in the same sandbox with exactly that one guarantee taken away: it shows that the attack
would work, so that a passing test means something. Everything else still holds in a twin: it has its own process
namespace, runs as nobody, and reaches no more than a throw-away folder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import py_compile
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

MIB = 1024 * 1024

#: Lines of the runner that twins go without.
FILTER = "    load_filter(program)\n"
SWEEP = """    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # everything in this pid namespace but its init and this process
"""
KEYRING = "    leave_keyrings()\n"
#: What hides the pseudo-terminals.
TERMINALS = ["--tmpfs", "/dev/pts", "--remount-ro", "/dev/pts"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A throw-away folder that everyone may read and write."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:  # not below the sandbox's own /tmp, which hides it
        path = Path(name)
        path.chmod(0o777)
        (path / "secret").write_text("token 4711")
        (path / "secret").chmod(0o666)
        yield path


def test_the_network_is_out_of_reach(arm):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        attack = f"""
import socket
def solve(x):
    try:
        socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 2)
    except OSError as error:
        return error.errno
    return 'connected'
"""
        assert arm.one(attack)["value"] == errno.EPERM  # by the filter
        assert arm.one(attack, without=[FILTER])["value"] in (errno.ECONNREFUSED, errno.ENETUNREACH)  # by the namespace
        with pytest.raises(TimeoutError):
            server.accept()
        shared = [" | 0x40000000"] if arm.form == "warm" else []  # CLONE_NEWNET of a zygote's child
        twin = arm.one(attack, without=[FILTER, *shared], drop=[["--unshare-net"]])
        assert twin["value"] == "connected"
        server.accept()[0].close()


def test_a_file_of_the_host_cannot_be_read(arm, folder):
    attack = f"def solve(x): return open('{folder}/secret').read()"
    done = arm.one(attack)
    assert done["status"] == "crashed"
    assert "FileNotFoundError" in done["reason"]
    bind = ["--ro-bind", {"path": str(folder)}, str(folder)]
    assert arm.one(attack, add=bind)["value"] == "token 4711"


def test_packages_that_cannot_be_imported_cannot_be_read(arm):
    attack = """
import os
def solve(x):
    found = []
    for folder, names, _ in os.walk('/'):
        if folder.startswith('/proc'):
            names.clear()
        elif os.path.basename(folder) in ('site-packages', 'dist-packages'):
            found += os.listdir(folder)
    return found
"""
    assert arm.one(attack)["value"] == []


def test_what_is_readable_cannot_be_written(arm, folder):
    attack = "def solve(x): open('/usr/lib/progevo-was-here', 'w').write('x')"
    assert f"[Errno {errno.EROFS}]" in arm.one(attack)["reason"]
    assert not Path("/usr/lib/progevo-was-here").exists()
    # The twin writes to a throw-away folder, bound as readable things are, and as they are not.
    attack = f"def solve(x): open('{folder}/new', 'w').write('x')"
    done = arm.one(attack, add=["--ro-bind", {"path": str(folder)}, str(folder)])
    assert f"[Errno {errno.EROFS}]" in done["reason"]
    assert not (folder / "new").exists()
    assert arm.one(attack, add=["--bind", {"path": str(folder)}, str(folder)])["status"] == "ok"
    assert (folder / "new").exists()


def test_an_input_cannot_be_changed(arm, folder):
    attack = "def solve(x): open('/inputs/table', 'a').write('x')"
    table = str(folder / "secret")
    done = arm.one(attack, files={"table": table})
    assert f"[Errno {errno.EROFS}]" in done["reason"]
    assert (folder / "secret").read_text() == "token 4711"
    bound = ["--bind", {"path": table}, "/inputs/table"]
    twin = arm.one(attack, files={"table": table}, drop=[["--ro-bind", table, "/inputs/table"]], add=bound)
    assert twin["status"] == "ok"
    assert (folder / "secret").read_text() == "token 4711x"


def test_the_supervisor_has_no_room_for_the_candidate_either(arm):
    """Whoever could trace the first process of the namespace could use its memory, which has no limit."""
    attack = """
import ctypes, errno, os
def solve(x):
    libc = ctypes.CDLL(None, use_errno=True)
    return 'traced' if libc.ptrace(0x4206, 1, 0, 0) == 0 else errno.errorcode[ctypes.get_errno()]
"""
    assert arm.one(attack, without=[FILTER])["value"] == "EPERM"
    assert arm.one(attack, without=[FILTER, "    set_dumpable(False)\n"])["value"] == "traced"


@pytest.mark.parametrize("place", ["/", "/dev", "/progevo", "/inputs", "/etc"])
def test_nothing_but_scratch_can_be_filled(arm, place, folder):
    attack = f"def solve(x): open('{place}/filler', 'w').write('x')"
    files = {"table": str(folder / "secret")}
    assert f"[Errno {errno.EROFS}]" in arm.one(attack, files=files)["reason"]
    mount = "/dev" if place == "/dev" else "/"
    assert arm.one(attack, files=files, drop=[["--remount-ro", mount]])["status"] == "ok"


#: What the supervisor of a cold candidate needs, and the zygote has, to mount scratch itself.
MOUNTING = ["--cap-add", "CAP_SYS_ADMIN"]


def test_scratch_has_a_size(arm):
    attack = "def solve(x):\n for i in range(8): open(f'f{i}', 'wb').write(bytes(10**6))"
    limits = {"scratch_bytes": 4 * MIB}
    assert "scratch_bytes" in arm.one(attack, limits=limits)["reason"]
    assert arm.one(attack, limits=limits, without=["size={size},"])["status"] == "ok"
    if arm.form == "cold":  # what bwrap has mounted has one as well, for where the kernel grants no powers
        assert "scratch_bytes" in arm.one(attack, limits=limits, drop=[MOUNTING])["reason"]
        sizeless = [MOUNTING, ["--size", str(4 * MIB)]]
        assert arm.one(attack, limits=limits, drop=sizeless)["status"] == "ok"


def test_scratch_holds_so_many_files(arm):
    """An empty file takes no room in a scratch, but some of the kernel's memory."""
    attack = "def solve(x):\n for i in range(70_000): open(f'f{i}', 'w').close()"
    assert arm.one(attack)["reason"].endswith("(limit scratch_bytes)")
    assert arm.one(attack, without=[",nr_inodes={FILES}"])["status"] == "ok"


#: Changes every place that something is mounted on, and says what was to be seen of that before and where it worked.
LEAVE = """
import os
def solve(x):
    found, changed = [], []
    for place in {line.split()[4].replace(chr(92) + '040', ' ') for line in open('/proc/self/mountinfo')}:
        if place in ('/tmp', '/dev/shm') or place.startswith(('/proc', '/dev/shm/')):
            continue
        found += [place] if os.stat(place).st_mtime == 4711 else []
        for change in (lambda: os.utime(place), lambda: os.chmod(place, 0o777),
                       lambda: open(f'{place}/left', 'w').close(), lambda: os.utime(place, (4711, 4711))):
            try:
                change()
                changed.append(place)
            except OSError:
                pass
    return [found, sorted(set(changed))]
"""


def test_a_candidate_can_leave_nothing_for_the_next(arm):
    """Whatever is mounted but scratch is read-only: also what hides something, and belongs to the candidate's user.

    The file of a device keeps a time that whoever may write to the device may set to now.
    """
    jobs = [{"source": LEAVE}, {"source": LEAVE}]
    assert [done["value"] for done in arm.run(*jobs)] == [[[], []], [[], []]]
    first, second = arm.run(*jobs, drop=[TERMINALS])
    assert first["value"] == [[], ["/dev/pts"]]
    assert second["value"] == [["/dev/pts"] if arm.form == "warm" else [], ["/dev/pts"]]
    devices = '"full", "null", "random", "tty", "urandom"'
    assert arm.one(LEAVE, without=[devices])["value"] == [[], [f"/dev/{name}" for name in eval(devices)]]
    look = "def solve(x): return [line.split()[4] for line in open('/proc/self/mountinfo') if ' - tmpfs ' in line]"
    hidden = [place for place in arm.one(look)["value"] if place.endswith("-packages") and "/tmp/" not in place]
    for place in hidden:
        first, second = arm.run(*jobs, drop=[["--remount-ro", place]])
        assert first["value"] == [[], [place]]
        assert second["value"] == [[place] if arm.form == "warm" else [], [place]]


#: Turns every switch of the kernel that can be turned, and says what each was, and whether it is something else now.
TURN = """
import os, re
def value(path):
    with open(path) as file:
        return file.read()
def solve(x):
    turned = []
    for folder, _, files in os.walk('/proc/sys'):
        for path in (os.path.join(folder, name) for name in files):
            try:
                with open(path, 'r+b', buffering=0) as file:
                    before = file.read().decode()
                    file.seek(0)
                    file.write(re.sub('[0-9]+', lambda number: str(abs(int(number[0]) - 1)), before).encode())
                turned.append([path, before, value(path) != before])
            except OSError:
                pass
    return turned
"""


def test_no_switch_of_the_host_s_kernel_is_turned(arm):
    """A cold candidate may write to some: to those that its own namespaces have for themselves, and nobody else."""
    switches = {path: _text(path) for path in Path("/proc/sys").rglob("*") if path.is_file()}
    done = arm.run({"source": TURN}, {"source": TURN})
    first, second = ({path: (was, other) for path, was, other in each["value"]} for each in done)
    assert first == second  # each has found them as they always are
    assert {path: _text(Path(path)) for path in first} == {path: switches[Path(path)] for path in first}
    if arm.form == "warm":
        assert first == {}


def _text(path: Path) -> str | None:
    """What is in a file; `None` where it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return None


def test_the_environment_of_the_host_stays_out(arm):
    attack = """
import os
def solve(x):
    seen = [repr(dict(os.environ))]
    for process in filter(str.isdigit, os.listdir('/proc')):
        try:
            seen.append(open(f'/proc/{process}/environ').read())
        except OSError:
            pass
    return any('TOKEN-4711' in text for text in seen)
"""
    env = {"PROGEVO_SECRET": "TOKEN-4711"}
    assert arm.one(attack, env=env)["value"] is False
    assert arm.one(attack, env=env, environment=env)["value"] is True


def test_no_namespace_can_be_made_inside(arm):
    attack = """
import ctypes
def solve(x):
    libc = ctypes.CDLL(None, use_errno=True)
    return ctypes.get_errno() if libc.unshare(0x10000000) else 'made'
"""
    assert arm.one(attack)["value"] == errno.EPERM
    assert arm.one(attack, without=[FILTER])["value"] == errno.ENOSPC
    assert arm.one(attack, without=[FILTER], drop=[["--disable-userns"]])["value"] == "made"


def test_the_supervisor_cannot_be_read_or_robbed(arm):
    attack = """
import os
def solve(x):
    try:
        open('/proc/1/mem', 'rb').close()
        return os.listdir('/proc/1/fd') and 'reached'
    except OSError as error:
        return error.errno
"""
    assert arm.one(attack)["value"] in (errno.EACCES, errno.EPERM)
    assert arm.one(attack, without=["    set_dumpable(False)\n"])["value"] == "reached"


def test_system_calls_are_filtered(arm):
    """Each reaches past what namespaces hold. The twin has no filter; what the kernel itself refuses stays refused."""
    attack = """
import ctypes, errno, mmap, os, socket, struct
def solve(x):
    libc = ctypes.CDLL(None, use_errno=True)
    page = ctypes.create_string_buffer(64)
    pieces = struct.pack('PN', ctypes.addressof(page), 64)
    def call(function, *arguments):
        ctypes.set_errno(0)
        return 'done' if function(*arguments) >= 0 else errno.errorcode[ctypes.get_errno()]
    def tried(attempt):
        try:
            return attempt() and 'done'
        except OSError as error:
            return errno.errorcode[error.errno]
    def opened(family):
        try:
            return socket.socket(family, socket.SOCK_STREAM).close() or 'done'
        except OSError as error:
            return errno.errorcode[error.errno]
    return {
        'a local socket': opened(socket.AF_UNIX),
        'an internet socket': opened(socket.AF_INET),
        'memfd_create': call(libc.memfd_create, b'x', 0),
        'shmget': call(libc.shmget, 0, 4096, 0o1600),
        'personality': call(libc.personality, 0x0040000),
        'ptrace': call(libc.ptrace, 0, 0, 0, 0),
        'io_setup': call(libc.syscall, 206 if os.uname().machine == 'x86_64' else 0, 9, ctypes.create_string_buffer(8)),
        'setxattrat': call(libc.syscall, 463, -100, b'/tmp/x', 0, b'user.x', bytes(16), 16),
        'vmsplice': call(libc.vmsplice, os.pipe()[1], pieces, 1, 0),
        'seccomp': call(libc.syscall, 317 if os.uname().machine == 'x86_64' else 277, 2, 0, bytes(4)),
        'landlock': call(libc.syscall, 444, None, 0, 1),  # which version it has
        'sendmsg': tried(lambda: sum(socket.SocketType.sendmsg(end, [b'x']) for end in socket.socketpair())),
        'a pair for datagrams': tried(lambda: socket.socketpair(type=socket.SOCK_DGRAM)),
        'add_key': call(libc.syscall, 248 if os.uname().machine == 'x86_64' else 217, b'user', b'x', b'y', 1, -3),
    }
"""
    held = arm.one(attack)["value"]
    absent = {"memfd_create", "io_setup", "setxattrat"}
    assert {held.pop(name) for name in absent} == {"ENOSYS"}
    assert set(held.values()) == {"EPERM"}
    free = arm.one(attack, without=[FILTER])["value"]
    assert free.pop("setxattrat") != "EPERM"  # a call of Linux 6.13 and later
    assert free.pop("landlock") in ("done", "EOPNOTSUPP", "ENOSYS")  # where the kernel has it
    assert set(free.values()) == {"done"}


def test_a_local_service_in_a_readable_folder_hears_nothing(arm, folder):
    """What has a name can be sent a datagram, on a read-only mount too, by whoever has a socket for datagrams."""
    attack = f"""
import socket
def solve(x):
    try:
        return socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b'x', '{folder}/service')
    except OSError as error:
        return -error.errno
"""
    text = 'about = "mine"\npackages = false\nleast_memory_bytes = 1000\nshm_bytes = 1000\n'
    (folder / "own.toml").write_text(f"{text}readable = ['{folder}']\n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service:
        service.bind(f"{folder}/service")
        (folder / "service").chmod(0o777)
        service.settimeout(0.2)
        assert arm.one(attack, profile=str(folder / "own.toml"))["value"] == -errno.EPERM
        with pytest.raises(TimeoutError):
            service.recv(9)
        assert arm.one(attack, profile=str(folder / "own.toml"), without=[FILTER])["value"] == 1
        assert service.recv(9) == b"x"


def test_no_word_is_left_by_where_memory_is_to_lie(arm):
    """A policy for the pages of a file in memory stays with the file: an input there, or what the zygote shares."""
    attack = """
import ctypes, mmap, platform
CALL = {'x86_64': 237, 'aarch64': 235}[platform.machine()]
libc = ctypes.CDLL(None, use_errno=True)
def solve(x):
    with open('/inputs/table', 'rb') as file:
        table = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    start, nodes = ctypes.addressof(ctypes.c_char.from_buffer(table)), ctypes.c_ulong(1)
    refused = libc.syscall(CALL, *map(ctypes.c_ulong, (start, 4096, 2, ctypes.addressof(nodes), 64, 0)))  # MPOL_BIND
    return ctypes.get_errno() if refused else 0
"""
    look = """
import mmap
def solve(x):
    with open('/inputs/table', 'rb') as file:
        table = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)
    return [line.split()[1] for line in open('/proc/self/numa_maps') if 'file=/inputs/table' in line]
"""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as table:
        table.write(bytes(4096))
        table.flush()
        os.fchmod(table.fileno(), 0o644)
        first, second = ({"source": source, "files": {"table": table.name}} for source in (attack, look))
        refused, seen = arm.run(first, second)
        assert refused["value"] == errno.EPERM
        assert seen["value"] == ["default"]
        allowed, seen = arm.run(first, second, without=[FILTER])
        assert allowed["value"] == 0
        assert seen["value"] == ["bind:0"]


def test_memory_cannot_be_left_in_pipes(arm):
    """A pipe keeps what it has been given: a large page for each of its 16 places, of which no limit knows."""
    attack = """
import ctypes, mmap, os, struct
def solve(x):
    libc, size, given = ctypes.CDLL(None, use_errno=True), 2 * 2**20, 0
    for _ in range(2):
        read, write = os.pipe()
        for _ in range(16):
            room = mmap.mmap(-1, 2 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            start = -(-ctypes.addressof(ctypes.c_char.from_buffer(room)) // size) * size
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), 14)  # MADV_HUGEPAGE
            ctypes.memset(start, 1, size)
            given += libc.vmsplice(write, struct.pack('PN', start, 1), 1, 2) > 0  # SPLICE_F_NONBLOCK
    return given
"""
    assert arm.one(attack)["value"] == 0
    assert arm.one(attack, without=[FILTER])["value"] == 32


#: Locks a file that every sandbox shows, in three ways, and keeps it so until the other has looked for that.
LOCK = """
import fcntl, os, struct, time
def solve(x):
    file = open('/inputs/table')
    whole = struct.pack('hhqqi4x', fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.flock(file, fcntl.LOCK_EX)
    fcntl.fcntl(file, fcntl.F_SETLK, whole)
    fcntl.fcntl(file, 37, whole)  # F_OFD_SETLK
    while os.stat('/inputs/bell').st_size == 0:
        time.sleep(0.01)
"""
LOOK = """
import fcntl, os, struct, time
def solve(x):
    file, seen = open('/inputs/table'), set()
    asked = struct.pack('hhqqi4x', fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    end = time.monotonic() + x['look_s']
    while time.monotonic() < end and len(seen) < 3:
        for name, command in {'F_GETLK': fcntl.F_GETLK, 'F_OFD_GETLK': 36}.items():
            if struct.unpack_from('h', fcntl.fcntl(file, command, asked))[0] != fcntl.F_UNLCK:
                seen.add(name)
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_UN)
        except OSError:
            seen.add('flock')
        time.sleep(0.01)
    return sorted(seen)
"""


def test_a_lock_on_a_shared_file_is_seen_by_nobody(arm, folder):
    """Neither by another candidate nor by the host, whom it could hold up."""
    bell = folder / "bell"
    files = {"table": str(folder / "secret"), "bell": str(bell)}

    def seen_by_another(look_s=1.5, **plan):
        bell.write_text("")
        bell.chmod(0o666)
        jobs = [{"source": LOCK, "files": files}, {"source": LOOK, "files": files, "request": {"look_s": look_s}}]
        locked, saw = arm.run(*jobs, together=True, ring=str(bell), **plan)
        assert locked["status"] == "ok"
        return saw["value"]

    with open(folder / "secret", "r+") as ours:
        fcntl.flock(ours, fcntl.LOCK_EX)
        fcntl.lockf(ours, fcntl.LOCK_EX)
        assert seen_by_another() == ["F_GETLK", "F_OFD_GETLK"]  # the host's own
    assert seen_by_another() == []
    assert seen_by_another(15, without=[FILTER]) == ["F_GETLK", "F_OFD_GETLK", "flock"]


def test_nothing_is_left_on_a_shared_file_and_nobody_is_watched_or_held_up(arm, folder):
    """What a file, an inode or a user has once, beside locks, and a descriptor that only reads may change."""
    attack = """
import fcntl, os, struct
def solve(x):
    file, done = os.open('/inputs/table', os.O_RDONLY), []
    hint = struct.unpack('Q', fcntl.fcntl(file, 1035, bytes(8)))[0]  # F_GET_RW_HINT
    tries = {
        'a hint': lambda: fcntl.fcntl(file, 1036, struct.pack('Q', 5)),  # F_SET_RW_HINT: RWH_WRITE_LIFE_EXTREME
        'a lease': lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK),
        'a watch': lambda: fcntl.fcntl(os.open('/usr/lib', os.O_RDONLY), fcntl.F_NOTIFY, 1),
        'a pipe': lambda: fcntl.fcntl(os.pipe()[0], 1031, 2**20),
    }
    for name, change in tries.items():
        try:
            change()
            done.append(name)
        except OSError:
            pass
    return [hint, done]
"""
    (folder / "secret").chmod(0o644)  # nobody has it open, and it is the candidate's own, as one's own inputs are
    if os.geteuid() == 0:
        os.chown(folder / "secret", 65534, 65534)
    files = {"table": str(folder / "secret")}
    jobs = [{"source": attack, "files": files}, {"source": attack, "files": files}]
    assert [done["value"] for done in arm.run(*jobs)] == [[0, []], [0, []]]
    everything = ["a hint", "a lease", "a watch", "a pipe"]
    assert [done["value"] for done in arm.run(*jobs, without=[FILTER])] == [[0, everything], [5, everything]]


def test_a_program_that_locks_its_own_files_runs(arm, folder):
    """sqlite locks by fcntl; where that is refused it can open nothing."""
    with sqlite3.connect(folder / "table") as made:
        made.execute("create table t (a)")
        made.execute("insert into t values (4711)")
    made.close()
    (folder / "table").chmod(0o644)
    source = """
import fcntl, sqlite3, tempfile, threading
def solve(x):
    found = [sqlite3.connect('file:/inputs/table?mode=ro', uri=True).execute('select a from t').fetchone()[0]]
    for mode in ('delete', 'wal'):
        path = f'/tmp/{mode}.db'
        def write(number):
            with sqlite3.connect(path, timeout=30) as own:
                own.execute('insert into t values (?)', (number,))
        with sqlite3.connect(path) as db:
            found.append(db.execute(f'pragma journal_mode={mode}').fetchone()[0])
            db.execute('create table t (a)')
        threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        found.append(sqlite3.connect(path).execute('select sum(a) from t').fetchone()[0])
    with tempfile.NamedTemporaryFile() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.lockf(file, fcntl.LOCK_EX)
    return found
"""
    done = arm.one(source, files={"table": str(folder / "table")})
    assert (done["value"], done["reason"]) == ([4711, "delete", 28, "wal", 28], "")


def test_the_host_s_keys_stay_out(arm):
    """A session keyring is inherited across every namespace; what a candidate left there, the next would find."""
    attack = """
import ctypes, os
number = 250 if os.uname().machine == 'x86_64' else 219
def solve(x): return ctypes.CDLL(None).syscall(number, 0, -3, 0)  # the id of the session keyring
"""
    jobs = [{"source": attack}, {"source": attack}]
    first, second = arm.run(*jobs, without=[FILTER], keyring=True)
    assert first["value"] != second["value"]
    first, second = arm.run(*jobs, without=[FILTER, KEYRING], keyring=True)
    assert first["value"] == second["value"] > 0


def test_no_power_is_left(arm):
    facts = arm.one("def solve(x): return open('/proc/self/status').read()")["value"]
    status = dict(line.split(":\t", 1) for line in facts.splitlines())
    for powers in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[powers], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert set(status["Uid"].split()) == {"65534"}


def test_no_process_of_the_host_is_seen(arm):
    pids = arm.one("import os\ndef solve(x): return sorted(int(p) for p in os.listdir('/proc') if p.isdigit())")
    assert pids["value"] == [1, 2]
    gone = arm.one(f"import os\ndef solve(x): os.kill({os.getpid()}, 0)")
    assert "ProcessLookupError" in gone["reason"]


#: A candidate without a process namespace of its own. In the cold form that of its whole sandbox is gone, and with it
#: the mount of /proc that only its owner may make; in the warm form the zygote's children share the zygote's.
SHARED_PIDS = {
    "cold": {
        "drop": [["--unshare-pid"], ["--as-pid-1"], ["--proc", "/proc"]],
        "add": ["--ro-bind", "/proc", "/proc"],
        "without": [SWEEP],
    },
    "warm": {
        "without": [
            SWEEP,
            " | 0x20000000",
            "        join(init, CLONE_NEWPID)  # of the children to come\n",
            '    powers.mount("proc", "/proc", "proc", powers.MS_NOSUID | powers.MS_NODEV | powers.MS_NOEXEC)\n',
        ],
    },
}


def test_processes_of_others_are_neither_seen_nor_signalled(arm):
    attack = """
import os
def solve(x):
    reached = []
    for pid in map(int, filter(str.isdigit, os.listdir('/proc'))):
        if pid not in (os.getpid(), 1):
            os.kill(pid, 0)
            reached.append(pid)
    return reached
"""
    assert arm.one(attack)["value"] == []
    if arm.form == "warm" or arm.unprivileged:
        assert arm.one(attack, apart=arm.form == "cold", **SHARED_PIDS[arm.form])["value"]


def test_an_orphan_does_not_see_the_next_candidate(arm):
    name = f"orphan-{os.getpid()}"  # its own: the same test may run beside this one, of another bwrap
    leave = f"""
import ctypes, os, time
def solve(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            ctypes.CDLL(None).prctl(15, b'{name}', 0, 0, 0)  # its name
            time.sleep(600)
        os._exit(0)
    time.sleep(0.3)
"""
    look = f"""
import os
def solve(x):
    return [open(f'/proc/{{pid}}/comm').read().strip() for pid in os.listdir('/proc') if pid.isdigit()].count('{name}')
"""
    jobs = [{"source": leave}, {"source": look}]
    assert arm.run(*jobs)[1]["value"] == 0
    if arm.form == "warm" or arm.unprivileged:
        assert arm.run(*jobs, apart=arm.form == "cold", **SHARED_PIDS[arm.form])[1]["value"] == 1
    assert name not in [process.info["name"] for process in psutil.process_iter(["name"])]


def test_no_terminal_can_be_typed_into(arm):
    """There is none, not even the one that this process may have. The twins type into one of their own."""
    attack = """
import fcntl, os
def own():
    ours, theirs = os.openpty()
    os.open(os.ttyname(theirs), os.O_RDWR)  # the leader of a session gets it as its own
    fcntl.ioctl(theirs, 0x5412, b'x')
def solve(x):
    found = []
    for attempt in (lambda: os.open('/dev/tty', os.O_RDWR), lambda: fcntl.ioctl(0, 0x5412, b'x'), own):
        try:
            attempt()
            found.append('done')
        except OSError as error:
            found.append(error.errno)
    return found
"""
    assert arm.one(attack)["value"] == [errno.ENXIO, errno.EPERM, errno.ENOENT]
    refused = arm.one(attack, drop=[TERMINALS])["value"]
    assert refused in ([errno.ENXIO, errno.EPERM, code] for code in (errno.ENOTTY, errno.EINVAL))  # by library
    allowed = Path("/proc/sys/dev/tty/legacy_tiocsti")  # where it is 0 the kernel itself refuses
    if not allowed.exists() or allowed.read_text().strip() == "1":
        twin = arm.one(attack, without=[FILTER], drop=[TERMINALS])
        assert twin["value"] == [errno.ENXIO, errno.ENOTTY, "done"]


def test_scratch_cannot_be_mounted_anew(arm):
    """What is done for a candidate with powers, it may not do itself: here, make a scratch without a size."""
    attack = """
import ctypes
def solve(x):
    libc = ctypes.CDLL(None, use_errno=True)
    made = libc.mount(b'none', b'/tmp', b'tmpfs', 0, b'size=1g')
    powers = [line for line in open('/proc/self/status') if line.startswith('CapEff')][0].split()[1]
    return [ctypes.get_errno() if made else 'mounted', int(powers, 16) != 0]
"""
    assert arm.one(attack, without=[FILTER])["value"] == [errno.EPERM, False]
    where = "reads a byte" if arm.form == "warm" else "imports a thing"
    twin = arm.one(attack, without=[FILTER, f"powers.drop_capabilities()  # before it {where}"])
    assert twin["value"] == ["mounted", True]


def test_the_wall_clock_is_the_host_s(arm):
    attack = "import time\ndef solve(x):\n time.monotonic = time.time = lambda: 0\n time.sleep(1.5)\n return 'free'"
    held, free = arm.run({"source": attack, "limits": {"wall_s": 0.5}}, {"source": attack})
    assert held["status"] == "timeout"
    assert free["value"] == "free"


#: limit -> (attack, limits, the line of the runner that holds it); the attack answers "free" where it is not held.
LIMITS = {
    "memory_bytes": (
        "import mmap\nprivate = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS\n"
        "def solve(x): return len(mmap.mmap(-1, 200 * 2**20, flags=private)) and 'free'",
        {"memory_bytes": 100 * MIB},
        '        (resource.RLIMIT_AS, limits["memory_bytes"]),\n',
    ),
    "file_bytes": (
        "def solve(x): return open('f', 'wb').write(bytes(2 * 2**20)) and 'free'",
        {"file_bytes": MIB},
        '        (resource.RLIMIT_FSIZE, limits["file_bytes"]),\n',
    ),
    "open_files": (
        "def solve(x): return len([open('f', 'w') for _ in range(99)]) and 'free'",
        {"open_files": 20},
        '        (resource.RLIMIT_NOFILE, limits["open_files"]),\n',
    ),
    "processes": (
        "import os, time\ndef solve(x):\n for _ in range(20):\n  if os.fork() == 0: time.sleep(9)\n return 'free'",
        {"processes": 10},
        '        (resource.RLIMIT_NPROC, limits["processes"]),\n',
    ),
    "cpu_s": (
        # Short of what the host's own watch over all processes would notice.
        "import time\ndef solve(x):\n while time.process_time() < 1.07: pass\n return 'free'",
        {"cpu_s": 1},
        "    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))\n",
    ),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_bites_and_is_named(arm, limit):
    attack, limits, line = LIMITS[limit]
    done = arm.one(attack, limits=limits)
    assert done["value"] is None
    assert f"limit {limit}" in done["reason"]
    assert arm.one(attack, limits=limits, without=[line])["value"] == "free"


def test_the_supervisor_is_out_of_reach_of_signals_and_limits(arm):
    """A signal that has a handler does reach a namespace's first process, and so does a limit of the same uid."""
    attack = """
import os, resource, signal, time
def solve(x):
    for number in set(signal.Signals) - {signal.SIGCHLD}:
        try:
            os.kill(1, number)
        except OSError:
            pass
    refused = []
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE):
        try:
            resource.prlimit(1, limit, (1, 1))
        except OSError:
            refused.append(limit)
    time.sleep(0.2)
    return len(refused)
"""
    assert arm.one(attack)["value"] == 3


def test_shared_memory_without_a_file_is_refused(arm):
    """Its pages stay while one of them is mapped: a candidate could hold ten times its limit."""
    attack = """
import mmap, os
def solve(x):
    refused = 0
    try:
        mmap.mmap(-1, 4096)
    except OSError:
        refused += 1
    try:
        mmap.mmap(os.open('/dev/zero', os.O_RDWR), 4096)
    except OSError:
        refused += 1
    return refused
"""
    assert arm.one(attack)["value"] == 2
    twin = arm.one(attack, without=[FILTER], drop=[["--ro-bind", "/dev/null", "/dev/zero"]])
    assert twin["value"] == 0


def test_cpu_of_children_is_counted(arm):
    burn = "\n  end = time.process_time() + 0.7\n  while time.process_time() < end: pass\n  os._exit(0)"
    waited = (
        f"import os, time\ndef solve(x):\n for _ in range(2):\n  if os.fork(): os.wait(); continue{burn}\n return 1"
    )
    assert arm.one(waited)["cpu_s"] > 1.2


def test_a_limit_cannot_be_raised_again(arm):
    attack = """
import resource
def solve(x):
    raised = []
    for name in ('RLIMIT_AS', 'RLIMIT_FSIZE', 'RLIMIT_NOFILE', 'RLIMIT_NPROC', 'RLIMIT_CORE'):
        number = getattr(resource, name)
        soft, hard = resource.getrlimit(number)
        try:
            resource.setrlimit(number, (hard + 1, hard + 1))
            raised.append(name)
        except (OSError, ValueError):
            pass
    return raised
"""
    assert arm.one(attack)["value"] == []


def test_no_core_file_is_left(arm):
    attack = """
import os, resource
def solve(x):
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    if os.fork() == 0:
        os.abort()
    os.wait()
    return [name for name in os.listdir('.') if 'core' in name]
"""
    assert arm.one(attack)["value"] == []


def test_descriptors_of_the_host_stay_out(arm):
    attack = """
import os
def solve(x):
    seen = []
    for number in range(1024):
        try:
            seen.append(os.readlink(f'/proc/self/fd/{number}').split(':')[0])
        except OSError:
            pass
    return sorted(seen)
"""
    # Standard input, output and error, and the way its answer goes.
    assert arm.one(attack)["value"] == ["/dev/null", "pipe", "pipe", "socket"]


def test_inputs_and_packages_under_tmp_are_there(arm):
    """The sandbox's own /tmp must not hide what lies under the host's."""
    with tempfile.NamedTemporaryFile("w", dir="/tmp") as table:
        table.write("token 4711")
        table.flush()
        os.chmod(table.name, 0o644)
        shown = arm.one("def solve(x): return open('/inputs/table').read()", files={"table": table.name})
    assert shown["value"] == "token 4711"
    # A late import, of a module that nothing has imported before.
    late = "def solve(x):\n import numpy.polynomial.hermite_e as late\n return late.__file__"
    assert arm.one(late, profile="numeric")["value"].startswith(str(arm.python.parents[1]))


def test_third_party_packages_are_there_where_the_profile_says_so(arm):
    attack = "def solve(x):\n import numpy\n return float(numpy.ones(3).sum())"
    assert arm.one(attack, profile="tabular")["value"] == 3.0
    assert "ModuleNotFoundError" in arm.one(attack, profile="stdlib")["reason"]


def test_packages_that_a_profile_hides_are_neither_imported_nor_read(arm, folder):
    """A folder, and a single file. The twin is the same profile, which hides nothing."""
    attack = """
import glob, importlib, os, sys
def solve(x):
    found = []
    for name in ('joblib', 'threadpoolctl', 'numpy'):
        try:
            found.append(bool(getattr(importlib.import_module(name), '__version__')))
        except (ImportError, AttributeError):
            found.append(False)
        for place in sys.path:
            for file in (f'{place}/{name}/__init__.py', f'{place}/{name}.py'):
                try:
                    found += ['read'] * ('__version__' in open(file).read())
                except OSError:
                    pass
    return found
"""
    text = 'about = "mine"\npackages = true\nleast_memory_bytes = 1000\nshm_bytes = 1000\n'
    for hidden, right in ((["joblib", "threadpoolctl", "nothing"], [False, False]), ([], [True, "read", True, "read"])):
        (folder / "own.toml").write_text(f"{text}hidden = {hidden}\n")
        assert arm.one(attack, profile=str(folder / "own.toml"))["value"] == [*right, True, "read"]


@pytest.mark.parametrize("where", ["/var/tmp", "/tmp"])  # and where scratch is put over it
def test_what_is_hidden_cannot_be_imported_as_if_it_were_not_installed(arm, where):
    """An empty folder is a package to Python: what was hidden by one could be imported, with nothing in it."""
    alone = ["single", "bare", "linked", "linked_file"]
    attack = f"""
import glob, importlib, os, subprocess, sys
def solve(x):
    found = []
    for name in ('progevo', 'progevo.sandbox', 'shut', 'shut.part', *{alone!r}, 'shown', 'shown_too'):
        try:
            found.append(getattr(importlib.import_module(name), 'WORD_4711', 'empty'))
        except ModuleNotFoundError as error:
            found.append([error.name, str(error)])
    for name in ('shut', 'single', 'shown'):
        child = subprocess.run([sys.executable, '-c', f'import {{name}}'], capture_output=True, text=True)
        found.append([child.returncode, child.stderr.splitlines()[-1:]])
    words, changed = [], []
    for place in [path for path in sys.path if os.path.exists(f'{{path}}/shown_too.py')]:
        for path in glob.glob(f'{{place}}/**', recursive=True):
            if os.path.isfile(path):
                words += ['WORD_4711' in open(path, errors='replace').read()]
        for path in (f'{{place}}/shut', f'{{place}}/shut/__init__.py', f'{{place}}/progevo'):
            for change in (os.utime, os.remove, lambda at: os.chmod(at, 0o777), lambda at: open(f'{{at}}/new', 'w')):
                try:
                    changed.append([path, str(change(path))])
                except OSError:
                    pass
    return [found, words.count(True), changed]
"""
    absent = [[name, f"No module named '{name}'"] for name in ("progevo", "progevo", "shut", "shut", *alone)]
    gone = [[1, [f"ModuleNotFoundError: No module named '{name}'"]] for name in ("shut", "single")]
    with tempfile.TemporaryDirectory(dir=where) as name:
        packages = Path(name, "site-packages")
        for file in ("progevo/sandbox", "shut/part", "shown/part"):
            for part in (packages / file, packages / file.split("/")[0]):
                part.mkdir(parents=True, exist_ok=True)
                (part / "__init__.py").write_text("WORD_4711 = 4711\n")
        for file in ("single", "shown_too"):
            (packages / f"{file}.py").write_text("WORD_4711 = 4711\n")
            py_compile.compile(str(packages / f"{file}.py"))
        py_compile.compile(str(packages / "single.py"), cfile=str(packages / "bare.pyc"))
        elsewhere = Path(name, "elsewhere")  # some installers put links in place of what they install
        for part in (elsewhere / "linked/__init__.py", elsewhere / "linked_file.py", packages / "shut.libs/libshut.so"):
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_text("WORD_4711 = 4711\n")
        (packages / "linked").symlink_to(elsewhere / "linked")
        (packages / "linked_file.py").symlink_to(elsewhere / "linked_file.py")
        text = 'about = "mine"\npackages = true\nleast_memory_bytes = 1000\nshm_bytes = 1000\n'
        Path(name, "own.toml").write_text(f"{text}hidden = {['shut', *alone]}\n")
        for part in (Path(name), *Path(name).rglob("*")):
            part.chmod(part.stat().st_mode | (0o755 if part.is_dir() else 0o644))
        env = {"PYTHONPATH": f"{arm.library}:{packages}"}
        done = arm.one(attack, profile=f"{name}/own.toml", env=env, limits={"wall_s": 60.0})
    # What is shown has the word three times, and compiled once more.
    assert done["value"] == [[*absent, 4711, 4711, *gone, [0, []]], 4, []], done


def test_unseeded_generators_draw_the_same_in_every_run(arm):
    attack = "import random, numpy\ndef solve(x): return [random.random(), numpy.random.rand(), list({'a', 'b', 'c'})]"
    first, second = arm.run({"source": attack}, {"source": attack}, profile="tabular")
    assert first["value"] == second["value"] is not None


def test_a_run_leaves_nothing_behind(arm, folder):
    source = """
import os, tempfile
def solve(x):
    made = [tempfile.mkdtemp(), '/tmp/left-behind', '/dev/shm/left-behind']
    for place in made:
        os.makedirs(place, exist_ok=True)
    return made
"""
    made = arm.one(source, env={"TMPDIR": str(folder)})["value"]
    assert len(made) == 3
    assert not [place for place in made if os.path.lexists(place)]
    assert os.listdir(folder) == ["secret"]  # nor does the host, in its own folder for such things
