"""Summarizes the output of `perf script -F comm,ip,sym` as Markdown tables."""

import re
import sys
from collections import Counter

# Categories of a single frame; the first match counts.
SUBSYSTEMS = [
    ("kernel: task switch, futex, wake-ups", r"futex|schedule|__sched|switch_to|wake_up|wake_q|ttwu|enqueue|dequeue|pick_next|finish_task|select_task|update_(curr|load|cfs)|idle|rcu_|hrtimer|eventfd"),
    ("kernel: sockets", r"tcp_|inet_|sock|skb|ip_|net_|loopback|__dev_|napi|nf_|release_sock|sk_"),
    ("kernel: epoll", r"ep_|epoll"),
    ("kernel: files", r"ext4|vfs_|file|page|folio|filemap|writeback|iomap|fsync|jbd2|btrfs|xfs_|inode|dentry|pwrite|pread"),
    ("SQLite", r"sqlite3|^(vdbe|btree|pager|wal|balance|moveTo|accessPayload|pcache|mem[A-Z]|unix[A-Z]|exprCode|sqlite|fts|insertCell|freeSpace|allocateSpace|checkpoint|walk|resolve|yy_|parserDone|whereLoop|nocase|binCollFunc|columnMem)"),
    ("sqlx: statements, and the way to the database's thread", r"sqlx|flume"),
    ("allocator", r"^(_int_malloc|malloc|_int_free|free|cfree|calloc|realloc|unlink_chunk|malloc_consolidate|_int_realloc|tcache|arena_get|sysmalloc|__libc_calloc|__libc_malloc)|alloc::(alloc|raw_vec)|__rust_(alloc|dealloc|realloc)|rdl_"),
    ("memory moves and compares", r"mem(cpy|move|set|cmp)|_avx|_sse|_erms|bcmp|strlen"),
    ("JSON", r"serde_json|jsonschema|serde::|itoa|ryu|zmij"),
    ("hashing, signatures, tokens", r"aws_lc|sha256|sha512|ed25519|curve25519|x25519|jsonwebtoken|base64|plexus_auth|fe51|fiat"),
    ("HTTP", r"hyper|httparse|axum|tower|http::|http_body|matchit"),
    ("tracing and logs", r"tracing|opentelemetry|sharded_slab|thread_local"),
    ("metrics", r"prometheus"),
    ("tokio", r"tokio|mio|parking_lot|futures"),
    ("MCP (plexus-mcp, plexus-upstream)", r"plexus_mcp|plexus_upstream|rmcp"),
    ("dispatcher and tools (plexus-tools)", r"plexus_tools"),
    ("store (plexus-store)", r"plexus_store"),
    ("hub (plexus-hub)", r"plexus_hub"),
    ("kit (plexus-kit, plexus-proto)", r"plexus_kit|plexus_proto"),
    ("system calls and the C library", r"syscall|entry_|pthread|__lll|clock_gettime|__vdso|do_|__x64|ret_from|exit_to|clone|__libc|__GI|epoll_pwait|writev|recv|send|__read|__write|nanosleep|_dl_"),
]
KERNEL = re.compile(r"^[89a-f][0-9a-f]{15}$")
# Purpose of a sample: the first of these that matches a frame, from the innermost frame outwards.
PURPOSES = [
    ("the database's thread: statements of the writer and the readers", None),
    ("authentication", r"plexus_auth|authenticat"),
    ("telemetry: spans, log, metrics", r"plexus_hub::.*(telemetry|trace|metrics)|tracing_|prometheus"),
    ("the record of the call: events, audit, writer", r"plexus_store|plexus_tools::.*(record|audit|journal)"),
    ("the tool and its dispatcher", r"plexus_tools"),
    ("MCP: parsing, validation, answer", r"plexus_mcp|plexus_upstream"),
    ("HTTP: reading, routing, writing", r"hyper|axum|tower"),
    ("the runtime: polling, parking, stealing", r"tokio"),
]
TRIM = re.compile(r"::h[0-9a-f]{16}$|\[[0-9a-f]{8,16}\]")


def short(name):
    name = TRIM.sub("", name)
    name = re.sub(r"<(.+) as .+>::", r"\1::", name)
    while re.search(r"<[^<>]*>", name):
        name = re.sub(r"<[^<>]*>", "", name)
    return name if len(name) <= 90 else name[:87] + "..."


def samples(lines):
    thread, stack = None, []
    for line in lines:
        line = line.rstrip("\n")
        if not line.strip():
            if thread is not None:
                yield thread, stack
            thread, stack = None, []
        elif line[0] not in " \t":
            thread = line.strip()
        else:
            address, _, name = line.strip().partition(" ")
            if thread is None:
                thread = line.strip()
            else:
                stack.append((address, name or "[unknown]"))
    if thread is not None:
        yield thread, stack


def subsystem(stack):
    """The category of the innermost frame that matches a rule."""
    for address, name in stack:
        kernel = bool(KERNEL.match(address))
        for label, pattern in SUBSYSTEMS:
            if label.startswith("kernel") == kernel and re.search(pattern, name):
                return label
    return "kernel: the rest" if stack and KERNEL.match(stack[0][0]) else "the rest"


def purpose(thread, stack):
    if "sqlx" in thread or "sqlite" in thread:
        return PURPOSES[0][0]
    for _, name in stack:
        for label, pattern in PURPOSES[1:]:
            if re.search(pattern, name):
                return label
    return "the rest"


def table(title, counter, total, most):
    print(f"## {title}\n\n| share | what |\n|--:|---|")
    for name, count in counter.most_common(most):
        print(f"| {100 * count / total:.1f} % | {name} |")
    print()


def main():
    threads, systems, purposes, own, within = Counter(), Counter(), Counter(), Counter(), Counter()
    total = 0
    for thread, stack in samples(sys.stdin):
        total += 1
        threads[re.sub(r"-?\d+$", "", thread) or thread] += 1
        systems[subsystem(stack)] += 1
        purposes[purpose(thread, stack)] += 1
        if stack:
            own[short(stack[0][1])] += 1
        for name in {short(name) for _, name in stack}:
            if "plexus" in name or "sqlx" in name:
                within[name] += 1
    if not total:
        sys.exit("profile-summary: there are no samples")
    print(f"{total} samples of CPU time.\n")
    table("By thread", threads, total, 8)
    table("What the CPU was doing (innermost frame)", systems, total, 25)
    table("What it was for (innermost frame of ours)", purposes, total, 12)
    table("Functions, by themselves", own, total, 25)
    table("Functions of Plexus and sqlx, with what they call", within, total, 40)


main()
