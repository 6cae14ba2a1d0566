; A launch that is told where its operands lie: a function of Python's, of one list, that appends dispatches to the open pass.

; What launches have in common: the encoder's words (the open pass, the pipeline that is set in it or 0, dispatches in the
; batch, and how many make one), bind groups by key; what makes a group that is missing, of the dispatch's number and the
; list; what opens a pass, what submits it, what takes the lock and gives it back; and how many dispatches follow.
%launch = type { ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64 }

; The pipeline, the bits of a place that the dispatch is told, how many operands, how many of them by offsets, immediates and
; their bytes, how many numbers, and the grid. Behind it: the beginning of the group's key, a word more than there are
; operands; of each operand which argument and the bytes behind its place; of each number the byte of the immediates and which
; argument.
%dispatch = type { ptr, i64, i64, i64, ptr, i64, i64, i64, i64, i64 }

declare ptr @PyLong_AsVoidPtr(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyList_GetItem(ptr, i64)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyBytes_FromStringAndSize(ptr, i64)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @wgpuComputePassEncoderSetPipeline(ptr, ptr)
declare void @wgpuComputePassEncoderSetBindGroup(ptr, i32, ptr, i64, ptr)
declare void @wgpuComputePassEncoderSetImmediates(ptr, i32, ptr, i64)
declare void @wgpuComputePassEncoderDispatchWorkgroups(ptr, i32, i32, i32)

; Calls a function of Python's that gives nothing; false after an error.
define internal i1 @call(ptr %function) {
  %result = call ptr @PyObject_CallNoArgs(ptr %function)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %no, label %yes
yes:
  call void @Py_DecRef(ptr %result)
  ret i1 true
no:
  ret i1 false
}

; Writes the numbers that a call is told into the immediates; false after an error.
define internal i1 @told(ptr %arguments, ptr %numbers, i64 %count, ptr %immediates) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %write ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %yes
one:
  %two = shl i64 %i, 1
  %byte.at = getelementptr i64, ptr %numbers, i64 %two
  %argument.at = getelementptr i64, ptr %byte.at, i64 1
  %byte = load i64, ptr %byte.at
  %argument = load i64, ptr %argument.at
  %given = call ptr @PyList_GetItem(ptr %arguments, i64 %argument)
  %missing = icmp eq ptr %given, null
  br i1 %missing, label %no, label %read
read:
  %wide = call double @PyFloat_AsDouble(ptr %given)
  %odd = fcmp oeq double %wide, -1.0
  br i1 %odd, label %ask, label %write
ask:
  %error = call ptr @PyErr_Occurred()
  %wrong = icmp ne ptr %error, null
  br i1 %wrong, label %no, label %write
write:
  %narrow = fptrunc double %wide to float
  %into = getelementptr i8, ptr %immediates, i64 %byte
  store float %narrow, ptr %into, align 1
  %after = add i64 %i, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}

; The bind group of a dispatch; null after an error. Its offsets go to %offsets, and its key is made at %key.
define internal ptr @group(ptr %launch, ptr %dispatch, i64 %number, ptr %arguments, ptr %key, ptr %offsets) {
entry:
  %told.at = getelementptr %dispatch, ptr %dispatch, i32 0, i32 1
  %count.at = getelementptr %dispatch, ptr %dispatch, i32 0, i32 2
  %told = load i64, ptr %told.at
  %count = load i64, ptr %count.at
  %untold = xor i64 %told, -1
  %prefix = getelementptr %dispatch, ptr %dispatch, i64 1
  %prefix.words = add i64 %count, 1
  %prefix.bytes = shl i64 %prefix.words, 3
  %areas = getelementptr i64, ptr %prefix, i64 %prefix.words
  call void @llvm.memcpy.p0.p0.i64(ptr %key, ptr %prefix, i64 %prefix.bytes, i1 false)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %lies ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %look
one:
  %two = shl i64 %i, 1
  %argument.at = getelementptr i64, ptr %areas, i64 %two
  %first.at = getelementptr i64, ptr %argument.at, i64 1
  %argument = load i64, ptr %argument.at
  %first = load i64, ptr %first.at
  %given = call ptr @PyList_GetItem(ptr %arguments, i64 %argument)
  %missing = icmp eq ptr %given, null
  br i1 %missing, label %no, label %read
read:
  %start = call i64 @PyLong_AsLongLong(ptr %given)
  %odd = icmp eq i64 %start, -1
  br i1 %odd, label %ask, label %lies
ask:
  %error = call ptr @PyErr_Occurred()
  %wrong = icmp ne ptr %error, null
  br i1 %wrong, label %no, label %lies
lies:
  %place = add i64 %start, %first
  %base = and i64 %place, %untold
  %offset = and i64 %place, %told
  %offset.32 = trunc i64 %offset to i32
  %behind = add i64 %prefix.words, %i
  %key.at = getelementptr i64, ptr %key, i64 %behind
  %offset.at = getelementptr i32, ptr %offsets, i64 %i
  store i64 %base, ptr %key.at
  store i32 %offset.32, ptr %offset.at
  %after = add i64 %i, 1
  br label %next
look:
  %key.words = add i64 %prefix.words, %count
  %key.bytes = shl i64 %key.words, 3
  %bytes = call ptr @PyBytes_FromStringAndSize(ptr %key, i64 %key.bytes)
  %keyless = icmp eq ptr %bytes, null
  br i1 %keyless, label %no, label %find
find:
  %groups.at = getelementptr %launch, ptr %launch, i32 0, i32 1
  %groups = load ptr, ptr %groups.at
  %found = call ptr @PyDict_GetItemWithError(ptr %groups, ptr %bytes)
  call void @Py_DecRef(ptr %bytes)
  %unknown = icmp eq ptr %found, null
  br i1 %unknown, label %make, label %known
known:
  %address = call ptr @PyTuple_GetItem(ptr %found, i64 0)
  %handle = call ptr @PyLong_AsVoidPtr(ptr %address)
  ret ptr %handle
make:
  %meet.at = getelementptr %launch, ptr %launch, i32 0, i32 2
  %meet = load ptr, ptr %meet.at
  %which = call ptr @PyLong_FromLongLong(i64 %number)
  %none = icmp eq ptr %which, null
  br i1 %none, label %no, label %meet.it
meet.it:
  %made = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %meet, ptr %which, ptr %arguments, ptr null)
  call void @Py_DecRef(ptr %which)
  %unmade = icmp eq ptr %made, null
  br i1 %unmade, label %no, label %new
new:
  %new.handle = call ptr @PyLong_AsVoidPtr(ptr %made)
  call void @Py_DecRef(ptr %made)
  ret ptr %new.handle
no:
  ret ptr null
}

; Appends a dispatch; false after an error.
define internal i1 @append(ptr %launch, ptr %dispatch, i64 %number, ptr %arguments) {
entry:
  %key = alloca [128 x i64]
  %offsets = alloca [64 x i32]
  %words = load ptr, ptr %launch
  %begin.at = getelementptr %launch, ptr %launch, i32 0, i32 3
  %flush.at = getelementptr %launch, ptr %launch, i32 0, i32 4
  %count.at = getelementptr %dispatch, ptr %dispatch, i32 0, i32 2
  %offset.count.at = getelementptr %dispatch, ptr %dispatch, i32 0, i32 3
  %immediates.at = getelementptr %dispatch, ptr %dispatch, i32 0, i32 4
  %size.at = getelementptr %dispatch, ptr %dispatch, i32 0, i32 5
  %numbers.at = getelementptr %dispatch, ptr %dispatch, i32 0, i32 6
  %x.at = getelementptr %dispatch, ptr %dispatch, i32 0, i32 7
  %y.at = getelementptr %dispatch, ptr %dispatch, i32 0, i32 8
  %z.at = getelementptr %dispatch, ptr %dispatch, i32 0, i32 9
  %count = load i64, ptr %count.at
  %immediates = load ptr, ptr %immediates.at
  %size = load i64, ptr %size.at
  %numbers = load i64, ptr %numbers.at
  br label %open
open:
  %waiting = load ptr, ptr %words
  %closed = icmp eq ptr %waiting, null
  br i1 %closed, label %begin, label %see
begin:
  %begin.it = load ptr, ptr %begin.at
  %begun = call i1 @call(ptr %begin.it)
  br i1 %begun, label %see, label %no
see:
  %group = call ptr @group(ptr %launch, ptr %dispatch, i64 %number, ptr %arguments, ptr %key, ptr %offsets)
  %groupless = icmp eq ptr %group, null
  br i1 %groupless, label %no, label %tell
tell:
  %three = mul i64 %count, 3
  %behind = add i64 %three, 1
  %body = getelementptr %dispatch, ptr %dispatch, i64 1
  %numbers.first = getelementptr i64, ptr %body, i64 %behind
  %well = call i1 @told(ptr %arguments, ptr %numbers.first, i64 %numbers, ptr %immediates)
  br i1 %well, label %again, label %no
again:  ; a group that had to be made may have collected garbage, which may have ended the pass
  %pass = load ptr, ptr %words
  %ended = icmp eq ptr %pass, null
  br i1 %ended, label %open, label %set
set:
  %set.at = getelementptr ptr, ptr %words, i64 1
  %pipeline = load ptr, ptr %dispatch
  %current = load ptr, ptr %set.at
  %same = icmp eq ptr %pipeline, %current
  br i1 %same, label %bind, label %change
change:
  call void @wgpuComputePassEncoderSetPipeline(ptr %pass, ptr %pipeline)
  store ptr %pipeline, ptr %set.at
  br label %bind
bind:
  %offset.count = load i64, ptr %offset.count.at
  call void @wgpuComputePassEncoderSetBindGroup(ptr %pass, i32 0, ptr %group, i64 %offset.count, ptr %offsets)
  %some = icmp ne i64 %size, 0
  br i1 %some, label %immediate, label %go
immediate:
  call void @wgpuComputePassEncoderSetImmediates(ptr %pass, i32 0, ptr %immediates, i64 %size)
  br label %go
go:
  %x.wide = load i64, ptr %x.at
  %y.wide = load i64, ptr %y.at
  %z.wide = load i64, ptr %z.at
  %x = trunc i64 %x.wide to i32
  %y = trunc i64 %y.wide to i32
  %z = trunc i64 %z.wide to i32
  call void @wgpuComputePassEncoderDispatchWorkgroups(ptr %pass, i32 %x, i32 %y, i32 %z)
  %batched.at = getelementptr i64, ptr %words, i64 2
  %batch.at = getelementptr i64, ptr %words, i64 3
  %batched = load i64, ptr %batched.at
  %batch = load i64, ptr %batch.at
  %more = add i64 %batched, 1
  store i64 %more, ptr %batched.at
  %full = icmp uge i64 %more, %batch
  br i1 %full, label %flush, label %yes
flush:
  %flush.it = load ptr, ptr %flush.at
  %flushed = call i1 @call(ptr %flush.it)
  ret i1 %flushed
yes:
  ret i1 true
no:
  ret i1 false
}

; %self: the launch's address, a Python integer. Gives the list back.
define ptr @webgpu_launch(ptr %self, ptr %arguments) {
entry:
  %type.at = alloca ptr
  %error.at = alloca ptr
  %trace.at = alloca ptr
  %launch = call ptr @PyLong_AsVoidPtr(ptr %self)
  %acquire.at = getelementptr %launch, ptr %launch, i32 0, i32 5
  %release.at = getelementptr %launch, ptr %launch, i32 0, i32 6
  %count.at = getelementptr %launch, ptr %launch, i32 0, i32 7
  %first = getelementptr %launch, ptr %launch, i64 1
  %acquire = load ptr, ptr %acquire.at
  %release = load ptr, ptr %release.at
  %count = load i64, ptr %count.at
  %held = call i1 @call(ptr %acquire)
  br i1 %held, label %next, label %no
next:
  %i = phi i64 [ 0, %entry ], [ %i.after, %appended ]
  %dispatch = phi ptr [ %first, %entry ], [ %dispatch.after, %appended ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %well = call i1 @append(ptr %launch, ptr %dispatch, i64 %i, ptr %arguments)
  br i1 %well, label %appended, label %failed
appended:
  %operands.at = getelementptr %dispatch, ptr %dispatch, i32 0, i32 2
  %numbers.at = getelementptr %dispatch, ptr %dispatch, i32 0, i32 6
  %operands = load i64, ptr %operands.at
  %numbers = load i64, ptr %numbers.at
  %three = mul i64 %operands, 3
  %two = shl i64 %numbers, 1
  %both = add i64 %three, %two
  %words = add i64 %both, 11  ; ten of the dispatch itself, one more of the key
  %dispatch.after = getelementptr i64, ptr %dispatch, i64 %words
  %i.after = add i64 %i, 1
  br label %next
done:
  %given.back = call i1 @call(ptr %release)
  br i1 %given.back, label %yes, label %no
yes:
  call void @Py_IncRef(ptr %arguments)
  ret ptr %arguments
failed:
  call void @PyErr_Fetch(ptr %type.at, ptr %error.at, ptr %trace.at)
  %0 = call i1 @call(ptr %release)
  %type = load ptr, ptr %type.at
  %error = load ptr, ptr %error.at
  %trace = load ptr, ptr %trace.at
  call void @PyErr_Restore(ptr %type, ptr %error, ptr %trace)
  ret ptr null
no:
  ret ptr null
}
