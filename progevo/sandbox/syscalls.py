"""The system-call filter: what the kernel refuses a candidate, whatever its namespaces would allow.

A deny-list, since numeric libraries call more than a short allow-list can name. It holds what reaches past a
namespace (vsock and other sockets, keys, kernel rings), what holds memory that no limit counts (memfd, System V
shared memory), what reads other processes, and what only an administrator needs. Calls made under a foreign
architecture (int 0x80, x32) would carry other numbers: they end the process or do not exist; nor do calls that are
newer than this list. Of `fcntl` and `ioctl`, which are many calls in one, a short list is let through.

A file that several sandboxes show is one object to the kernel, however it is mounted: a lock, a lease or a hint on it
would be seen by other candidates, and could hold up the host. Locks are granted and the kernel is not asked, so that a
program that locks its own files runs (sqlite, HDF5); between two processes of one candidate they hold nothing.

The program is classic BPF (`struct sock_filter`: code, jump if true, jump if false, constant), which a candidate's own
process loads before it reads a byte (`runner.load_filter`). Numbers from the kernel's `unistd_64.h` (x86_64) and
`asm-generic/unistd.h` (aarch64), audit architectures from `linux/audit.h`.
"""

from __future__ import annotations

import errno
import struct

#: name -> number on x86_64, on aarch64; `None` where a machine has no such call. Refused with EPERM.
REFUSED: dict[str, tuple[int, int | None]] = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "migrate_pages": (256, 238),
    # where memory of a mapped file is to lie is kept with the file, for whoever maps it later
    "mbind": (237, 235),
    "set_mempolicy_home_node": (450, 450),
    "move_pages": (279, 239),
    # sockets: none is made here; pairs of local ones are let through below
    "socket": (41, 198),
    # kernel machinery
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    "personality": (135, 92),
    "modify_ldt": (154, None),
    # namespaces and mounts
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "mount_setattr": (442, 442),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # memory and messages that no limit counts
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    # a pipe holds the pages that it is given, 2 MiB each where they are large, when nobody else does any more
    "vmsplice": (278, 75),
    # a ruleset holds a rule for every port, a listener all the filters behind it, as long as its descriptor is open
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
    "seccomp": (317, 277),
    # descriptors on their way are counted for all of a user's processes together, and refused to whoever comes next
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    # the buffers of a local pair may grow to megabytes, attributes of files and inodes beyond any size of a tmpfs
    "setsockopt": (54, 208),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "sync": (162, 81),
    "syncfs": (306, 267),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    # administration
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "uselib": (134, None),
    "nfsservctl": (180, 42),
}

#: Answered as if the kernel had no such call: callers have a way without it. The flags of clone3 lie behind a
#: pointer, out of a filter's sight; what io_uring does never passes a filter at all.
ABSENT: dict[str, tuple[int, int]] = {
    # there are so many contexts for the whole machine, and a candidate could take them all
    "io_setup": (206, 0),
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "memfd_create": (319, 279),
}

#: The first number that is newer than this list (Linux 6.13: `setxattrat`); x32 has its numbers far above.
NEWER = 463

#: Harmless in themselves, and of use to ordinary libraries: a profile may name those that its programs can do without.
OPTIONAL: dict[str, tuple[int, int | None]] = {
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "flock": (73, 32),
    "sched_setaffinity": (203, 122),
    "setpriority": (141, 140),
    "mknodat": (259, 33),
    "symlinkat": (266, 36),
    "linkat": (265, 37),
}

CLONE = (56, 220)
SOCKETPAIR = (53, 199)
FLOCK = (73, 32)
FCNTL = (72, 25)
IOCTL = (16, 29)
PRLIMIT = (302, 261)
MMAP = (9, 222)
MADVISE = (28, 233)
PRCTL = (157, 167)
MAP_SHARED, MAP_ANONYMOUS, MAP_HUGETLB = 0x01, 0x20, 0x40000
#: MADV_COLD and MADV_PAGEOUT: swapped out, memory is in nobody's resident size. MADV_COLLAPSE: it makes large pages of
#: a file that others map too.
ADVICE = (20, 21, 25)
PR_SET_SECCOMP = 22
#: The bit that SOCK_DGRAM and SOCK_RAW have, and SOCK_STREAM and SOCK_SEQPACKET have not.
DATAGRAMS = 2

#: CLONE_NEW* but CLONE_NEWTIME, which clone takes for a signal number: cgroup, UTS, IPC, user, PID, network, mount.
NEW_NAMESPACES = 0x7E020000
#: A child of one's parent, which for a warm candidate is the zygote: nobody would watch over it, nor wait for it.
CLONE_PARENT = 0x00008000
AF_UNIX = 1
#: What `fcntl` does to a descriptor of one's own, or only asks: F_DUPFD, GETFD, SETFD, GETFL, SETFL, GETLK, SETOWN,
#: GETOWN, SETSIG, GETSIG, SETOWN_EX, GETOWN_EX, OFD_GETLK, GETLEASE, DUPFD_QUERY, CREATED_QUERY, DUPFD_CLOEXEC,
#: GETPIPE_SZ, GET_SEALS, GET_RW_HINT, GET_FILE_RW_HINT. Left out are leases (they hold up whoever opens the file),
#: F_NOTIFY (it tells what others read), write hints (they stay with a file for the next to read) and F_SETPIPE_SZ (its
#: pages belong to nobody, and are counted for all of a user's processes together).
DESCRIPTOR = (0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 15, 16, 36, 1025, 1027, 1028, 1030, 1032, 1034, 1035, 1037)
#: F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW.
LOCKS = (6, 7, 37, 38)
#: What `ioctl` is asked by ordinary programs: TCGETS and TCGETS2 (is this a terminal?), TIOCGPGRP, TIOCOUTQ,
#: TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FIOASYNC, FICLONE. The rest belongs to devices and file systems.
REQUESTS = (0x5401, 0x802C542A, 0x540F, 0x5411, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x5452, 0x40049409)
#: Typing into the terminal of whoever started this, and its cousin on the console.
TERMINAL = (0x5412, 0x541C)

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MACHINES = {"x86_64": 0, "amd64": 0, "aarch64": 1, "arm64": 1}

LOAD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000

Instruction = tuple[int, int, int, int]


def filter_for(machine: str, more: tuple[str, ...] = ()) -> bytes | None:
    """The filter's program for a machine as `platform.machine()` names it; `None` for one it is not written for.

    `more` names calls of `OPTIONAL` to refuse as well. Raises `KeyError` for a name that is not there.
    """
    column = MACHINES.get(machine)
    if column is None:
        return None
    refused = [*REFUSED.values(), *(OPTIONAL[name] for name in more)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions(column, refused))


def instructions(column: int, refused: list[tuple[int, int | None]]) -> list[Instruction]:
    """The instructions, for x86_64 (0) or aarch64 (1). All jumps are short and forward, as BPF wants them."""
    refuse, absent = answer(ERROR | errno.EPERM), answer(ERROR | errno.ENOSYS)
    program = [(LOAD, 0, 0, ARCHITECTURE), *unless(JUMP_EQUAL, list(AUDIT_ARCH.values())[column], answer(KILL))]
    program.append((LOAD, 0, 0, NUMBER))
    program += when(JUMP_AT_LEAST, NEWER, absent)
    for numbers in ABSENT.values():
        program += when(JUMP_EQUAL, numbers[column], absent)
    for found in refused:
        number = found[column]
        if number is not None:
            program += when(JUMP_EQUAL, number, refuse)
    allow, granted = answer(ALLOW), answer(ERROR | 0)
    program += when(JUMP_EQUAL, FLOCK[column], granted)
    command = [load(1), *any_of(LOCKS, granted), *any_of(DESCRIPTOR, allow), *refuse]
    flags = [load(0), *when(JUMP_ANY_BIT, NEW_NAMESPACES | CLONE_PARENT, refuse), *allow]
    # One of a pair that is for datagrams can send them to any local socket that has a name here.
    pair = [load(0), *unless(JUMP_EQUAL, AF_UNIX, refuse), load(1), *when(JUMP_ANY_BIT, DATAGRAMS, refuse), *allow]
    request = [load(1), *any_of(TERMINAL, refuse), *any_of(REQUESTS, allow), *answer(ERROR | errno.ENOTTY)]
    # Limits of one's own only: those of the supervisor, of the same uid, would end it.
    limits = [load(0), *unless(JUMP_EQUAL, 0, refuse), *allow]
    # Shared memory without a file: its pages stay while any one of them is mapped, and no limit counts them.
    no_memory = answer(ERROR | errno.ENOMEM)  # as the limit itself would say it
    shared = when(JUMP_ANY_BIT, MAP_ANONYMOUS, when(JUMP_ANY_BIT, MAP_SHARED, no_memory))
    # Large pages that the machine keeps in reserve are in nobody's resident size.
    mapping = [load(3), *when(JUMP_ANY_BIT, MAP_HUGETLB, no_memory), *shared, *allow]
    advice = [load(2), *any_of(ADVICE, answer(ERROR | errno.EINVAL)), *allow]
    process = [load(0), *when(JUMP_EQUAL, PR_SET_SECCOMP, refuse), *allow]
    blocks = {CLONE: flags, SOCKETPAIR: pair, FCNTL: command, IOCTL: request, PRLIMIT: limits, MMAP: mapping}
    blocks |= {MADVISE: advice, PRCTL: process}
    for call, block in blocks.items():
        program += when(JUMP_EQUAL, call[column], block)
    return program + allow


def load(argument: int) -> Instruction:
    """Loads the low half of an argument. The kernel looks at no more of these either: they are 32-bit words."""
    return (LOAD, 0, 0, ARGUMENTS + 8 * argument)


def answer(value: int) -> list[Instruction]:
    return [(RETURN, 0, 0, value)]


def when(test: int, value: int, block: list[Instruction]) -> list[Instruction]:
    """The block if the test holds, else what follows it."""
    return [(test, 0, len(block), value), *block]


def any_of(values: tuple[int, ...], block: list[Instruction]) -> list[Instruction]:
    """The block for any of these values, else what follows it."""
    return [step for value in values for step in when(JUMP_EQUAL, value, block)]


def unless(test: int, value: int, block: list[Instruction]) -> list[Instruction]:
    """The block if the test fails, else what follows it."""
    return [(test, len(block), 0, value), *block]
