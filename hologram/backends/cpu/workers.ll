; The worker threads' code: a launch cut into slices that idle threads take, each slice the next that nobody has.
;
; A thread of Python calls @pool_worker once and stays in it, without the interpreter's lock, until the pool stops.
; It watches @pool's epoch, first spinning, then asleep in the system's wait-on-address call. The caller of a launch
; opens it, works on it like everyone else, closes it when no slice is left, and waits only for threads that had
; joined: a worker that the system has not scheduled yet delays nobody.
;
; Between slices, between steps, and while the caller waits, interrupts are heard (interrupts.ll). An interrupted launch
; leaves out the slices that nobody has begun, and the steps that follow but for those without a slice size: these end
; what steps before them began. Then it says so to its caller.
;
; A prelude, written by pool.py for this system, defines
;   @relax()                 the processor's hint that a thread spins
;   @wait(ptr word, i32 old) sleep while *word == old (may return early)
;   @wake(ptr word)          wake all who sleep on word
;   @yield()                 let another thread run on this core

; 64-byte lines, so that what different threads write does not share one.
%line0 = type { i32, i32, [56 x i8] }           ; epoch (a launch or a stop came), threads asleep
%line1 = type { i64, [56 x i8] }                ; bit 32: launch is open; low bits: workers that joined it
%line2 = type { i64, [56 x i8] }                ; slices claimed: from the front (low half), from the back
%line3 = type { ptr, ptr, i64, i64, [32 x i8] } ; function, its arguments, total, slice size
; A launch is under way; the pool stops; how often to look before sleeping; the thread whose launch is under way.
%line4 = type { i32, i32, i64, i64, [40 x i8] }
%pool = type { %line0, %line1, %line2, %line3, %line4 }

; One step of a launch: function(arguments, begin, end) over 0 .. total in slices.
%step = type { ptr, ptr, i64, i64 }             ; function, arguments, total, slice size (0: run in any case)
%launch = type { ptr, i64, [0 x %step] }        ; pool, number of steps

; Takes slices until there are none. The caller of a launch takes them from the front (%mine = 1), workers from the
; back (%mine = 1 << 32): so a thread that computes on the same memory again mostly meets what its own cache holds.
; Both counts lie in one word: a claim holds if fewer slices than there are were claimed before it.
define internal void @work(ptr %pool, i64 %mine) {
entry:
  %claimed.at = getelementptr %pool, ptr %pool, i32 0, i32 2, i32 0
  %function.at = getelementptr %pool, ptr %pool, i32 0, i32 3, i32 0
  %arguments.at = getelementptr %pool, ptr %pool, i32 0, i32 3, i32 1
  %total.at = getelementptr %pool, ptr %pool, i32 0, i32 3, i32 2
  %slice.at = getelementptr %pool, ptr %pool, i32 0, i32 3, i32 3
  %function = load ptr, ptr %function.at
  %arguments = load ptr, ptr %arguments.at
  %total = load i64, ptr %total.at
  %slice = load i64, ptr %slice.at
  %above = add i64 %total, %slice
  %last.end = sub i64 %above, 1
  %slices = sdiv i64 %last.end, %slice
  %last = sub i64 %slices, 1
  %in.front = icmp eq i64 %mine, 1
  br label %take
take:
  %claimed = atomicrmw add ptr %claimed.at, i64 %mine monotonic
  %front = and i64 %claimed, 4294967295
  %back = lshr i64 %claimed, 32
  %before = add i64 %front, %back
  %more = icmp slt i64 %before, %slices
  br i1 %more, label %run, label %none
run:
  %from.back = sub i64 %last, %back
  %number = select i1 %in.front, i64 %front, i64 %from.back
  %begin = mul i64 %number, %slice
  %after = add i64 %begin, %slice
  %end = call i64 @llvm.smin.i64(i64 %after, i64 %total)
  call void %function(ptr %arguments, i64 %begin, i64 %end)
  %heard = call i32 @hologram_heard()
  %goes = icmp eq i32 %heard, 0
  br i1 %goes, label %take, label %none
none:
  ret void
}

; A worker's life.
define void @pool_worker(ptr %pool) {
entry:
  %epoch.at = getelementptr %pool, ptr %pool, i32 0, i32 0, i32 0
  %asleep.at = getelementptr %pool, ptr %pool, i32 0, i32 0, i32 1
  %state.at = getelementptr %pool, ptr %pool, i32 0, i32 1, i32 0
  %stop.at = getelementptr %pool, ptr %pool, i32 0, i32 4, i32 1
  %looks.at = getelementptr %pool, ptr %pool, i32 0, i32 4, i32 2
  %looks = load i64, ptr %looks.at
  %caller.at = getelementptr %pool, ptr %pool, i32 0, i32 4, i32 3
  call void @hologram_serve(ptr %caller.at)
  br label %idle
idle:
  %seen = phi i32 [ 0, %entry ], [ %epoch, %join ], [ %epoch, %leave ]
  br label %look
look:
  %looked = phi i64 [ 0, %idle ], [ %looked.more, %spin ], [ 0, %woken ]
  %epoch = load atomic i32, ptr %epoch.at acquire, align 4
  %changed = icmp ne i32 %epoch, %seen
  br i1 %changed, label %news, label %quiet
quiet:
  %patient = icmp slt i64 %looked, %looks
  br i1 %patient, label %spin, label %sleep
spin:
  call void @relax()
  %looked.more = add i64 %looked, 1
  br label %look
sleep:
  ; Announce first, look again, then sleep: a caller either sees the announcement or is seen.
  %0 = atomicrmw add ptr %asleep.at, i32 1 seq_cst
  %epoch.again = load atomic i32, ptr %epoch.at seq_cst, align 4
  %still = icmp eq i32 %epoch.again, %seen
  br i1 %still, label %doze, label %woken
doze:
  call void @wait(ptr %epoch.at, i32 %seen)
  br label %woken
woken:
  %1 = atomicrmw sub ptr %asleep.at, i32 1 seq_cst
  br label %look
news:
  %stop = load atomic i32, ptr %stop.at acquire, align 4
  %stops = icmp ne i32 %stop, 0
  br i1 %stops, label %end, label %join
join:
  %state = load atomic i64, ptr %state.at acquire, align 8
  %open = and i64 %state, 4294967296
  %closed = icmp eq i64 %open, 0
  br i1 %closed, label %idle, label %enter
enter:
  %joined = add i64 %state, 1
  %swap = cmpxchg ptr %state.at, i64 %state, i64 %joined acq_rel acquire
  %entered = extractvalue { i64, i1 } %swap, 1
  br i1 %entered, label %share, label %join
share:
  call void @work(ptr %pool, i64 4294967296)
  br label %leave
leave:
  %2 = atomicrmw sub ptr %state.at, i64 1 release
  br label %idle
end:
  ret void
}

; One step: alone if it is small or another thread's launch has the workers, else with whoever is free.
define internal void @run(ptr %pool, ptr %step) {
entry:
  %arguments.from = getelementptr %step, ptr %step, i32 0, i32 1
  %total.from = getelementptr %step, ptr %step, i32 0, i32 2
  %slice.from = getelementptr %step, ptr %step, i32 0, i32 3
  %function = load ptr, ptr %step
  %arguments = load ptr, ptr %arguments.from
  %total = load i64, ptr %total.from
  %slice = load i64, ptr %slice.from
  %small = icmp sle i64 %total, %slice
  br i1 %small, label %alone, label %ask
ask:
  %busy.at = getelementptr %pool, ptr %pool, i32 0, i32 4, i32 0
  %swap = cmpxchg ptr %busy.at, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %swap, 1
  br i1 %mine, label %together, label %some
alone:
  call void %function(ptr %arguments, i64 0, i64 %total)
  ret void
some:
  %begin = phi i64 [ 0, %ask ], [ %end, %some ]
  %after = add i64 %begin, %slice
  %end = call i64 @llvm.smin.i64(i64 %after, i64 %total)
  call void %function(ptr %arguments, i64 %begin, i64 %end)
  %heard = call i32 @hologram_heard()
  %goes = icmp eq i32 %heard, 0
  %left = icmp slt i64 %end, %total
  %again = and i1 %goes, %left
  br i1 %again, label %some, label %over
over:
  ret void
together:
  %epoch.at = getelementptr %pool, ptr %pool, i32 0, i32 0, i32 0
  %asleep.at = getelementptr %pool, ptr %pool, i32 0, i32 0, i32 1
  %state.at = getelementptr %pool, ptr %pool, i32 0, i32 1, i32 0
  %claimed.at = getelementptr %pool, ptr %pool, i32 0, i32 2, i32 0
  %function.at = getelementptr %pool, ptr %pool, i32 0, i32 3, i32 0
  %arguments.at = getelementptr %pool, ptr %pool, i32 0, i32 3, i32 1
  %total.at = getelementptr %pool, ptr %pool, i32 0, i32 3, i32 2
  %slice.at = getelementptr %pool, ptr %pool, i32 0, i32 3, i32 3
  %caller.at = getelementptr %pool, ptr %pool, i32 0, i32 4, i32 3
  %me = call i64 @PyThread_get_thread_ident()
  store i64 %me, ptr %caller.at
  store ptr %function, ptr %function.at
  store ptr %arguments, ptr %arguments.at
  store i64 %total, ptr %total.at
  store i64 %slice, ptr %slice.at
  store atomic i64 0, ptr %claimed.at monotonic, align 8
  store atomic i64 4294967296, ptr %state.at release, align 8
  %0 = atomicrmw add ptr %epoch.at, i32 1 seq_cst
  %asleep = load atomic i32, ptr %asleep.at seq_cst, align 4
  %sleepers = icmp ne i32 %asleep, 0
  br i1 %sleepers, label %call, label %share
call:
  call void @wake(ptr %epoch.at)
  br label %share
share:
  call void @work(ptr %pool, i64 1)
  %1 = atomicrmw and ptr %state.at, i64 4294967295 acq_rel
  br label %look
look:
  %looked = phi i64 [ 0, %share ], [ %looked.more, %spin ], [ %looked, %give ]
  %state = load atomic i64, ptr %state.at acquire, align 8
  %working = icmp ne i64 %state, 0
  br i1 %working, label %linger, label %done
linger:
  %patient = icmp slt i64 %looked, 1000
  br i1 %patient, label %spin, label %give
spin:
  call void @relax()
  %looked.more = add i64 %looked, 1
  br label %look
give:
  call void @yield()
  %ignored = call i32 @hologram_heard()  ; the workers ask as well, and leave
  br label %look
done:
  store atomic i32 0, ptr %busy.at release, align 4
  ret void
}

; The steps of a launch, one after the other.
define internal void @steps(ptr %launch) {
entry:
  %count.at = getelementptr %launch, ptr %launch, i32 0, i32 1
  %pool = load ptr, ptr %launch
  %count = load i64, ptr %count.at
  br label %each
each:
  %k = phi i64 [ 0, %entry ], [ %k.next, %on ], [ %k.next, %listen ]
  %step = getelementptr %launch, ptr %launch, i32 0, i32 2, i64 %k
  call void @run(ptr %pool, ptr %step)
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %on, label %ended
on:
  %stopped = call i32 @hologram_stopped()
  %stops = icmp ne i32 %stopped, 0
  %rest = and i64 %k.next, 7
  %eighth = icmp eq i64 %rest, 0
  %asks = or i1 %eighth, %stops
  br i1 %asks, label %listen, label %each
listen:
  %heard = call i32 @hologram_heard()
  %goes = icmp eq i32 %heard, 0
  br i1 %goes, label %each, label %end
end:
  %e = phi i64 [ %k.next, %listen ], [ %e.next, %skip ]
  %e.more = icmp slt i64 %e, %count
  br i1 %e.more, label %ending, label %ended
ending:
  %end.step = getelementptr %launch, ptr %launch, i32 0, i32 2, i64 %e
  %slice.from = getelementptr %step, ptr %end.step, i32 0, i32 3
  %slice = load i64, ptr %slice.from
  %always = icmp eq i64 %slice, 0
  br i1 %always, label %finish, label %skip
finish:
  call void @run(ptr %pool, ptr %end.step)
  br label %skip
skip:
  %e.next = add i64 %e, 1
  br label %end
ended:
  ret void
}

; A whole launch. Not 0 if it was interrupted: a handler has raised.
define i32 @pool_launch(ptr %launch) {
  call void @steps(ptr %launch)
  %left = call i32 @hologram_left()
  ret i32 %left
}

; A launch again and again. Behind its steps come: how often at most; the address of a byte that is 0 when there is to
; be no other turn, or null; how many words move on from one turn to the next; and of each which it is of the launch's,
; and by how much it moves.
define i32 @pool_repeat(ptr %launch) {
entry:
  %count.at = getelementptr %launch, ptr %launch, i32 0, i32 1
  %count = load i64, ptr %count.at
  %tail = getelementptr %launch, ptr %launch, i32 0, i32 2, i64 %count
  %flag.at = getelementptr i64, ptr %tail, i64 1
  %moves.at = getelementptr i64, ptr %tail, i64 2
  %moves = getelementptr i64, ptr %tail, i64 3
  %times = load i64, ptr %tail
  %flag = load ptr, ptr %flag.at
  %moving = load i64, ptr %moves.at
  %always = icmp eq ptr %flag, null
  br label %turn
turn:
  %k = phi i64 [ 0, %entry ], [ %k.next, %moved ], [ %k.next, %listen ]
  %more = icmp slt i64 %k, %times
  br i1 %more, label %ask, label %end
ask:
  br i1 %always, label %run, label %look
look:
  %set = load i8, ptr %flag
  %goes = icmp ne i8 %set, 0
  br i1 %goes, label %run, label %end
run:
  call void @steps(ptr %launch)
  %stopped = call i32 @hologram_stopped()
  %stops = icmp ne i32 %stopped, 0
  br i1 %stops, label %end, label %move
move:
  %m = phi i64 [ 0, %run ], [ %m.next, %step ]
  %m.more = icmp ult i64 %m, %moving
  br i1 %m.more, label %step, label %moved
step:
  %pair = mul i64 %m, 2
  %which.at = getelementptr i64, ptr %moves, i64 %pair
  %by.at = getelementptr i64, ptr %which.at, i64 1
  %which = load i64, ptr %which.at
  %by = load i64, ptr %by.at
  %word.at = getelementptr i64, ptr %launch, i64 %which
  %word = load i64, ptr %word.at
  %word.next = add i64 %word, %by
  store i64 %word.next, ptr %word.at
  %m.next = add i64 %m, 1
  br label %move
moved:
  %k.next = add i64 %k, 1
  %rest = and i64 %k.next, 63
  %sixty.fourth = icmp eq i64 %rest, 0
  br i1 %sixty.fourth, label %listen, label %turn
listen:
  %heard = call i32 @hologram_heard()
  %goes.on = icmp eq i32 %heard, 0
  br i1 %goes.on, label %turn, label %end
end:
  %left = call i32 @hologram_left()
  ret i32 %left
}

; Wakes everyone so that a stop is seen.
define void @pool_stop(ptr %pool) {
entry:
  %epoch.at = getelementptr %pool, ptr %pool, i32 0, i32 0, i32 0
  %stop.at = getelementptr %pool, ptr %pool, i32 0, i32 4, i32 1
  store atomic i32 1, ptr %stop.at release, align 4
  %0 = atomicrmw add ptr %epoch.at, i32 1 seq_cst
  call void @wake(ptr %epoch.at)
  ret void
}

declare i64 @llvm.smin.i64(i64, i64)
declare i64 @PyThread_get_thread_ident()
declare void @hologram_serve(ptr)
declare i32 @hologram_heard()
declare i32 @hologram_stopped()
declare i32 @hologram_left()
