; A launch that is told where its operands lie: a function of Python's, of one list.
;
; An image holds what is the same in every call. Its body is copied for each, so that threads may call one at once, and
; then says where it lies itself (relocations) and what the call was given (patches): the addresses of operands, numbers.

; Words of the body, relocations, patches; what runs the body (pool_launch, workers.ll); words behind the body that are
; room, whose contents nobody knows. The body follows, then the relocations, then the patches.
%image = type { i64, i64, i64, ptr, i64 }
; A word of the body; 0 for an address, 1 for an f32, 2 for an f64, 3 for an integer; which argument; bytes behind it.
%patch = type { i64, i64, i64, i64 }

declare ptr @PyLong_AsVoidPtr(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyErr_Occurred()
declare i32 @PyErr_CheckSignals()
declare ptr @PyErr_NoMemory()
declare ptr @PyList_GetItem(ptr, i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare void @Py_IncRef(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; %self: the image's address, a Python integer. Gives the list back.
define ptr @launch(ptr %self, ptr %arguments) {
entry:
  %image = call ptr @PyLong_AsVoidPtr(ptr %self)
  %relocations.at = getelementptr %image, ptr %image, i32 0, i32 1
  %patches.at = getelementptr %image, ptr %image, i32 0, i32 2
  %run.at = getelementptr %image, ptr %image, i32 0, i32 3
  %room.at = getelementptr %image, ptr %image, i32 0, i32 4
  %template = getelementptr %image, ptr %image, i64 1
  %words = load i64, ptr %image
  %relocations = load i64, ptr %relocations.at
  %patches = load i64, ptr %patches.at
  %run = load ptr, ptr %run.at
  %spare = load i64, ptr %room.at
  %all = add i64 %words, %spare
  %bytes = shl i64 %words, 3
  %all.bytes = shl i64 %all, 3
  %relocation.first = getelementptr i64, ptr %template, i64 %words
  %patch.first = getelementptr i64, ptr %relocation.first, i64 %relocations
  %large = icmp ugt i64 %all, 4096
  br i1 %large, label %heap, label %stack
heap:
  %allocated = call ptr @PyMem_RawMalloc(i64 %all.bytes)
  %full = icmp eq ptr %allocated, null
  br i1 %full, label %refused, label %copy
refused:
  %0 = call ptr @PyErr_NoMemory()
  ret ptr null
stack:
  %room = alloca i64, i64 %all, align 64
  br label %copy
copy:
  %body = phi ptr [ %allocated, %heap ], [ %room, %stack ]
  call void @llvm.memcpy.p0.p0.i64(ptr %body, ptr %template, i64 %bytes, i1 false)
  br label %relocate
relocate:
  %r = phi i64 [ 0, %copy ], [ %r.next, %relocated ]
  %r.more = icmp ult i64 %r, %relocations
  br i1 %r.more, label %moved, label %patch
moved:
  %r.at = getelementptr i64, ptr %relocation.first, i64 %r
  %slot = load i64, ptr %r.at
  %slot.at = getelementptr i64, ptr %body, i64 %slot
  %target = load i64, ptr %slot.at
  %target.at = getelementptr i64, ptr %body, i64 %target
  store ptr %target.at, ptr %slot.at
  br label %relocated
relocated:
  %r.next = add i64 %r, 1
  br label %relocate
patch:
  %p = phi i64 [ 0, %relocate ], [ %p.next, %patched ]
  %p.more = icmp ult i64 %p, %patches
  br i1 %p.more, label %look, label %go
look:
  %p.at = getelementptr %patch, ptr %patch.first, i64 %p
  %p.kind.at = getelementptr %patch, ptr %p.at, i32 0, i32 1
  %p.argument.at = getelementptr %patch, ptr %p.at, i32 0, i32 2
  %p.bytes.at = getelementptr %patch, ptr %p.at, i32 0, i32 3
  %p.slot = load i64, ptr %p.at
  %p.kind = load i64, ptr %p.kind.at
  %p.argument = load i64, ptr %p.argument.at
  %p.bytes = load i64, ptr %p.bytes.at
  %into = getelementptr i64, ptr %body, i64 %p.slot
  %given = call ptr @PyList_GetItem(ptr %arguments, i64 %p.argument)
  %missing = icmp eq ptr %given, null
  br i1 %missing, label %failed, label %known
known:
  switch i64 %p.kind, label %whole [ i64 1, label %single
                                     i64 2, label %double ]
single:
  %wide = call double @PyFloat_AsDouble(ptr %given)
  %narrow = fptrunc double %wide to float
  %narrow.bits = bitcast float %narrow to i32
  %narrow.word = zext i32 %narrow.bits to i64
  %wide.odd = fcmp oeq double %wide, -1.0
  br label %check
double:
  %exact = call double @PyFloat_AsDouble(ptr %given)
  %exact.word = bitcast double %exact to i64
  %exact.odd = fcmp oeq double %exact, -1.0
  br label %check
whole:
  %integer = call i64 @PyLong_AsLongLong(ptr %given)
  %integer.word = add i64 %integer, %p.bytes
  %integer.odd = icmp eq i64 %integer, -1
  br label %check
check:
  %word = phi i64 [ %narrow.word, %single ], [ %exact.word, %double ], [ %integer.word, %whole ]
  %odd = phi i1 [ %wide.odd, %single ], [ %exact.odd, %double ], [ %integer.odd, %whole ]
  store i64 %word, ptr %into
  br i1 %odd, label %ask, label %patched
ask:
  %error = call ptr @PyErr_Occurred()
  %wrong = icmp ne ptr %error, null
  br i1 %wrong, label %failed, label %patched
patched:
  %p.next = add i64 %p, 1
  br label %patch
go:
  %state = call ptr @PyEval_SaveThread()
  %interrupted = call i32 %run(ptr %body)
  call void @PyEval_RestoreThread(ptr %state)
  %raised = icmp ne i32 %interrupted, 0  ; by a handler of a signal, meanwhile
  br i1 %raised, label %failed, label %over
over:
  ; What Python runs next may be a `__del__`, where an exception is lost.
  %came = call i32 @PyErr_CheckSignals()
  %raises = icmp ne i32 %came, 0
  br i1 %raises, label %failed, label %fine
fine:
  br i1 %large, label %release, label %done
release:
  call void @PyMem_RawFree(ptr %body)
  br label %done
done:
  call void @Py_IncRef(ptr %arguments)
  ret ptr %arguments
failed:
  br i1 %large, label %drop, label %end
drop:
  call void @PyMem_RawFree(ptr %body)
  br label %end
end:
  ret ptr null
}
