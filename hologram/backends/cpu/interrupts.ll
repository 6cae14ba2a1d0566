; Interrupts (Ctrl-C) of what runs long in compiled code. A process has one copy of this, whatever pools it has: kernels
; and pools ask it, and what one thread has heard is true for all.
;
; Python's handlers of signals run in the main thread, when that comes back to the interpreter. So the main thread has
; them run now and then. If one raises, @stop is set until the main thread's launch ends: it leaves what it computes, as
; do the workers that share its launch, and the launch raises. Launches of other threads go on.
;
; A prelude, written by interrupts.py for this system, defines
;   @now()                   milliseconds of a clock

@main = internal global i64 0                   ; the thread that handlers run in
@asked = internal global i64 0                  ; when they last ran
@inside = internal global i32 0                 ; they run now, and what they launch does not run them again
@stop = internal global i32 0                   ; one has raised in the main thread's launch
@slot = internal global ptr null                ; where threads keep for whom they compute

declare i64 @PyThread_get_thread_ident()
declare i32 @PyThread_tss_set(ptr, ptr)
declare ptr @PyThread_tss_get(ptr)
declare i32 @PyGILState_Ensure()
declare i32 @PyErr_CheckSignals()
declare void @PyGILState_Release(i32)

; Who the main thread is, which computes nothing now, and where Python keeps an address for each thread.
define void @hologram_listen(i64 %main, ptr %slot) {
  store i64 %main, ptr @main
  store ptr %slot, ptr @slot
  store i32 0, ptr @inside
  store atomic i32 0, ptr @stop release, align 4
  ret void
}

; This thread computes for others: for whom, it finds at an address.
define void @hologram_serve(ptr %caller) {
  %slot = load ptr, ptr @slot
  %1 = call i32 @PyThread_tss_set(ptr %slot, ptr %caller)
  ret void
}

; Whether this thread computes for a launch that was interrupted. Asks for signals in the main thread.
define i32 @hologram_heard() {
entry:
  %me = call i64 @PyThread_get_thread_ident()
  %main = load i64, ptr @main
  %is.main = icmp eq i64 %me, %main
  %stop = load atomic i32, ptr @stop acquire, align 4
  %stops = icmp ne i32 %stop, 0
  br i1 %is.main, label %caller, label %other
caller:
  br i1 %stops, label %yes, label %time
time:
  %now = call i64 @now()
  %asked = load i64, ptr @asked
  %passed = sub i64 %now, %asked
  %late = icmp ugt i64 %passed, 100
  %inside = load i32, ptr @inside
  %outside = icmp eq i32 %inside, 0
  %due = and i1 %late, %outside
  br i1 %due, label %ask, label %no
ask:
  store i64 %now, ptr @asked
  store i32 1, ptr @inside
  %held = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %held)
  store i32 0, ptr @inside
  %bad = icmp ne i32 %raised, 0
  br i1 %bad, label %set, label %no
set:
  store atomic i32 1, ptr @stop release, align 4
  br label %yes
other:
  br i1 %stops, label %whose, label %no
whose:
  %slot = load ptr, ptr @slot
  %served = call ptr @PyThread_tss_get(ptr %slot)
  %none = icmp eq ptr %served, null
  br i1 %none, label %no, label %serves
serves:
  %caller.now = load i64, ptr %served
  %of.main = icmp eq i64 %caller.now, %main
  br i1 %of.main, label %yes, label %no
yes:
  ret i32 1
no:
  ret i32 0
}

; Whether the launch that this thread has begun was interrupted.
define i32 @hologram_stopped() {
entry:
  %stop = load atomic i32, ptr @stop monotonic, align 4
  %goes = icmp eq i32 %stop, 0
  br i1 %goes, label %no, label %whose
whose:
  %me = call i64 @PyThread_get_thread_ident()
  %main = load i64, ptr @main
  %mine = icmp eq i64 %me, %main
  br i1 %mine, label %yes, label %no
yes:
  ret i32 1
no:
  ret i32 0
}

; The same at the launch's end, when nobody works for it any more: the next one begins anew.
define i32 @hologram_left() {
entry:
  %stopped = call i32 @hologram_stopped()
  %goes = icmp eq i32 %stopped, 0
  br i1 %goes, label %end, label %forget
forget:
  store atomic i32 0, ptr @stop release, align 4
  br label %end
end:
  ret i32 %stopped
}
