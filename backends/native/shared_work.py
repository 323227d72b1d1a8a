# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
"""
How machine code runs the parts of kernels: the functions of `shared_calls`, as LLVM IR.

The runtime starts all threads of a call together. The first to arrive runs the body of
the function. To share a kernel, it publishes the number of parts. The other threads,
the helpers, take parts until the body ends. The frame stays as it is until all parts
that were taken are done.

Parts are in blocks, one for each thread that is used. A thread takes the parts of its
own block first, then those of others: data stay in the caches of the core that computed
them. Whoever decreases the number of all parts left finds one in some block.

The body waits only for parts that were taken, so a helper that the system does not run
delays nothing but the end of the call. A thread that waits spins for up to a
millisecond, then sleeps for 50 microseconds at a time.
"""

from __future__ import annotations

import functools

FRAME = {
    "left": 0,  # the number of parts not yet taken; negative after further attempts
    "done": 1,  # the number of parts that helpers finished
    "used": 8,  # the number of blocks; not in the cache line that threads write
    "worker": 9,
    "blocks": 10,  # for each block, the number of its parts not yet taken
    "threads": 11,
    "arrived": 12,
    "closed": 13,
    "body": 14,
    "table": 15,
    "sleep": 16,
}
"""The words of a frame in front of the arguments of a kernel."""
PARTS = 4
"""The parts for each thread; one that is interrupted takes fewer."""
SPINS = 20_000
"""
The pauses before a thread that waits goes to sleep: 0.3 to 1 ms on x86-64.

With fewer, a thread sleeps while others finish their parts of a kernel. With more,
idle threads keep cores from other programs while one thread runs what is not shared.
"""
PAUSES = {
    "x86_64": "call void @llvm.x86.sse2.pause()",
    "aarch64": "call void @llvm.aarch64.isb(i32 15)",
    "arm64": "call void @llvm.aarch64.isb(i32 15)",
}
"""The instruction of a spinning thread, by the CPU's name in a target triple."""

TEXT = """
define internal i64 @padc_wait(ptr %frame, i64 %waited) {{
  %is.short = icmp slt i64 %waited, {spins}
  br i1 %is.short, label %spin, label %rest
spin:
  {pause}
  br label %end
rest:
  {load sleep}
  %ignored = call i32 %sleep(i32 50)
  br label %end
end:
  %more = add i64 %waited, 1
  ret i64 %more
}}

define internal i64 @padc_take_parts(ptr %frame, i64 %thread) {{
  {at left}
  {load blocks}
  br label %next
next:
  %taken = phi i64 [ 0, %0 ], [ %more, %run ]
  %left = atomicrmw sub ptr %left.at, i64 1 acquire, align 8
  %is.part = icmp sgt i64 %left, 0
  br i1 %is.part, label %first, label %end
first:
  {load used}
  %own = urem i64 %thread, %used
  br label %scan
scan:
  %block = phi i64 [ %own, %first ], [ %following, %other ]
  %block.at = getelementptr [8 x i64], ptr %blocks, i64 %block
  %rest = atomicrmw sub ptr %block.at, i64 1 monotonic, align 8
  %is.here = icmp sgt i64 %rest, 0
  br i1 %is.here, label %run, label %other
other:
  %after = add i64 %block, 1
  %following = urem i64 %after, %used
  br label %scan
run:
  {load worker}
  %parts = mul i64 %used, {parts}
  %block.end = add i64 %block, 1
  %end.of.block = mul i64 %block.end, {parts}
  %part = sub i64 %end.of.block, %rest
  call void %worker(ptr %frame, i64 %part, i64 %parts)
  %more = add i64 %taken, 1
  br label %next
end:
  ret i64 %taken
}}

define internal void @padc_help(ptr %frame, i64 %thread) {{
  {at left}
  {at done}
  {at closed}
  br label %look
look:
  %waited = phi i64 [ 0, %0 ], [ 0, %take ], [ %longer, %wait ]
  %left = load atomic i64, ptr %left.at monotonic, align 8
  %is.part = icmp sgt i64 %left, 0
  br i1 %is.part, label %take, label %check
take:
  %taken = call i64 @padc_take_parts(ptr %frame, i64 %thread)
  %before = atomicrmw add ptr %done.at, i64 %taken release, align 8
  br label %look
check:
  %closed = load atomic i64, ptr %closed.at acquire, align 8
  %is.closed = icmp ne i64 %closed, 0
  br i1 %is.closed, label %end, label %wait
wait:
  %longer = call i64 @padc_wait(ptr %frame, i64 %waited)
  br label %look
end:
  ret void
}}

define internal void @padc_join(ptr %frame) {{
  {at arrived}
  %arrived = atomicrmw add ptr %arrived.at, i64 1 monotonic, align 8
  %is.first = icmp eq i64 %arrived, 0
  br i1 %is.first, label %first, label %other
first:
  {load body}
  {load table}
  call void %body(ptr %table, ptr %frame)
  {at closed}
  store atomic i64 1, ptr %closed.at release, align 8
  ret void
other:
  call void @padc_help(ptr %frame, i64 %arrived)
  ret void
}}

define void @padc_enter(
    ptr %body, ptr %frame, ptr %table, i64 %threads, ptr %runtime) {{
  {store threads}
  %is.shared = icmp sgt i64 %threads, 1
  br i1 %is.shared, label %shared, label %alone
shared:
  {store body}
  {store table}
  %start = load ptr, ptr %runtime
  %runtime.sleep = getelementptr ptr, ptr %runtime, i64 1
  %sleep = load ptr, ptr %runtime.sleep
  {store sleep}
  %lines = mul i64 %threads, 8
  %blocks = alloca i64, i64 %lines, align 64
  {store blocks}
  {clear left}
  {clear arrived}
  {clear closed}
  %count = trunc i64 %threads to i32
  call void %start(ptr @padc_join, ptr %frame, i32 %count, i32 0)
  ret void
alone:
  call void %body(ptr %table, ptr %frame)
  ret void
}}

define void @padc_share(ptr %worker, ptr %frame, i64 %most) {{
  {load threads}
  %is.fewer = icmp slt i64 %most, %threads
  %used = select i1 %is.fewer, i64 %most, i64 %threads
  %is.shared = icmp sgt i64 %used, 1
  br i1 %is.shared, label %shared, label %alone
alone:
  call void %worker(ptr %frame, i64 0, i64 1)
  ret void
shared:
  {load blocks}
  br label %fill
fill:
  %block = phi i64 [ 0, %shared ], [ %after, %fill ]
  %block.at = getelementptr [8 x i64], ptr %blocks, i64 %block
  store i64 {parts}, ptr %block.at
  %after = add i64 %block, 1
  %is.next = icmp slt i64 %after, %used
  br i1 %is.next, label %fill, label %publish
publish:
  {store used}
  {store worker}
  {clear done}
  {at left}
  %parts = mul i64 %used, {parts}
  store atomic i64 %parts, ptr %left.at release, align 8
  %taken = call i64 @padc_take_parts(ptr %frame, i64 0)
  %others = sub i64 %parts, %taken
  br label %look
look:
  %waited = phi i64 [ 0, %publish ], [ %longer, %wait ]
  %done = load atomic i64, ptr %done.at acquire, align 8
  %is.done = icmp eq i64 %done, %others
  br i1 %is.done, label %end, label %wait
wait:
  %longer = call i64 @padc_wait(ptr %frame, i64 %waited)
  br label %look
end:
  ret void
}}
"""

POINTERS = ("worker", "body", "table", "sleep", "blocks")
"""The words of a frame that are addresses."""


@functools.cache
def text(triple: str) -> str:
    """The functions in LLVM's IR, for a CPU."""
    accesses: dict[str, str] = {}
    for name, word in FRAME.items():
        type = "ptr" if name in POINTERS else "i64"
        at = f"%{name}.at = getelementptr i64, ptr %frame, i64 {word}"
        accesses[f"at {name}"] = at
        accesses[f"load {name}"] = f"{at}\n  %{name} = load {type}, ptr %{name}.at"
        accesses[f"store {name}"] = f"{at}\n  store {type} %{name}, ptr %{name}.at"
        accesses[f"clear {name}"] = f"{at}\n  store {type} 0, ptr %{name}.at"
    pause = PAUSES.get(triple.split("-")[0], "")
    return TEXT.format(parts=PARTS, spins=SPINS, pause=pause, **accesses)
