# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
"""
How machine code runs the parts of kernels: the functions of `shared_calls`, as LLVM IR.

The runtime starts all threads of a call together. The first to arrive runs the body of
the function. To share a kernel, it publishes the number of parts. The other threads,
the helpers, take parts until the body ends. The frame stays as it is until all parts
that were taken are done.

The body waits only for parts that were taken, so a helper that the system does not run
delays nothing but the end of the call. A thread that waits spins for less than a tenth
of a millisecond, then sleeps for 50 microseconds at a time.
"""

from __future__ import annotations

import functools

import llvmlite.binding as binding

FRAME = {
    "left": 0,  # the number of parts not yet taken; negative after further attempts
    "done": 1,  # the number of parts that helpers finished
    "parts": 8,  # in another cache line than these two, which threads write
    "worker": 9,
    "threads": 10,
    "arrived": 11,
    "closed": 12,
    "body": 13,
    "table": 14,
    "sleep": 15,
}
"""The words of a frame in front of the arguments of a kernel."""
PARTS = 4
"""The parts for each thread; one that is interrupted takes fewer."""
SPINS = 2000
"""The pauses before a thread that waits goes to sleep: 30 to 100 microseconds."""
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

define internal i64 @padc_take_parts(ptr %frame) {{
  {at left}
  br label %next
next:
  %taken = phi i64 [ 0, %0 ], [ %more, %run ]
  %left = atomicrmw sub ptr %left.at, i64 1 acquire, align 8
  %is.part = icmp sgt i64 %left, 0
  br i1 %is.part, label %run, label %end
run:
  {load parts}
  {load worker}
  %part = sub i64 %parts, %left
  call void %worker(ptr %frame, i64 %part, i64 %parts)
  %more = add i64 %taken, 1
  br label %next
end:
  ret i64 %taken
}}

define internal void @padc_help(ptr %frame) {{
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
  %taken = call i64 @padc_take_parts(ptr %frame)
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
  call void @padc_help(ptr %frame)
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
  %parts = mul i64 %used, {parts}
  {store parts}
  {store worker}
  {clear done}
  {at left}
  store atomic i64 %parts, ptr %left.at release, align 8
  %taken = call i64 @padc_take_parts(ptr %frame)
  %others = sub i64 %parts, %taken
  br label %look
look:
  %waited = phi i64 [ 0, %shared ], [ %longer, %wait ]
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

POINTERS = ("worker", "body", "table", "sleep")
"""The words of a frame that are addresses."""


@functools.cache
def text() -> str:
    """The functions in LLVM's IR, for this CPU."""
    accesses: dict[str, str] = {}
    for name, word in FRAME.items():
        type = "ptr" if name in POINTERS else "i64"
        at = f"%{name}.at = getelementptr i64, ptr %frame, i64 {word}"
        accesses[f"at {name}"] = at
        accesses[f"load {name}"] = f"{at}\n  %{name} = load {type}, ptr %{name}.at"
        accesses[f"store {name}"] = f"{at}\n  store {type} %{name}, ptr %{name}.at"
        accesses[f"clear {name}"] = f"{at}\n  store {type} 0, ptr %{name}.at"
    cpu = binding.get_process_triple().split("-")[0]
    pause = PAUSES.get(cpu, "")
    return TEXT.format(parts=PARTS, spins=SPINS, pause=pause, **accesses)
