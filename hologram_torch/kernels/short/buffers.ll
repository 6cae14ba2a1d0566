; Part of quick.ll: the buffers of results.

; A buffer of a kind, over a block from its free list, as Allocation.block and Buffer make it; its place goes into a list, its
; token to %token. Null after an error, or where no block waits.
define internal ptr @buffer(ptr %executor, ptr %kind, ptr %free, ptr %list, i64 %at, ptr %token) {
entry:
  %waiting = call i64 @PyList_Size(ptr %free)
  %none.wait = icmp slt i64 %waiting, 1
  br i1 %none.wait, label %no, label %new
new:
  %type = call ptr @the(i64 11)
  %none = call ptr @the(i64 13)
  %buffer = call ptr @PyType_GenericNew(ptr %type, ptr null, ptr null)
  %failed = icmp eq ptr %buffer, null
  br i1 %failed, label %no, label %set
set:
  %lease.name = call ptr @the(i64 37)
  %block.name = call ptr @the(i64 24)
  %executor.name = call ptr @the(i64 25)
  %kind.name = call ptr @the(i64 38)
  %view.name = call ptr @the(i64 39)
  %holder.name = call ptr @the(i64 40)
  %e.1 = call i32 @PyObject_SetAttr(ptr %buffer, ptr %lease.name, ptr %none)
  %e.2 = call i32 @PyObject_SetAttr(ptr %buffer, ptr %block.name, ptr %none)
  %e.3 = call i32 @PyObject_SetAttr(ptr %buffer, ptr %executor.name, ptr %executor)
  %e.4 = call i32 @PyObject_SetAttr(ptr %buffer, ptr %kind.name, ptr %kind)
  %e.5 = call i32 @PyObject_SetAttr(ptr %buffer, ptr %view.name, ptr %none)
  %e.12 = or i32 %e.1, %e.2
  %e.34 = or i32 %e.3, %e.4
  %e.14 = or i32 %e.12, %e.34
  %e = or i32 %e.14, %e.5
  %set.well = icmp eq i32 %e, 0
  br i1 %set.well, label %hold, label %drop
hold:
  %holder = call ptr @PyWeakref_NewRef(ptr %buffer, ptr null)
  %unheld = icmp eq ptr %holder, null
  br i1 %unheld, label %drop, label %count
count:  ; again: making the buffer may have collected garbage, whose blocks came here or went
  %left = call i64 @PyList_Size(ptr %free)
  %empty = icmp slt i64 %left, 1
  br i1 %empty, label %unhold, label %pop
unhold:
  call void @Py_DecRef(ptr %holder)
  br label %drop
pop:
  %last = sub i64 %left, 1
  %block = call ptr @PyList_GetItem(ptr %free, i64 %last)
  call void @Py_IncRef(ptr %block)
  call i32 @PyList_SetSlice(ptr %free, i64 %last, i64 %left, ptr null)
  %b.1 = call i32 @PyObject_SetAttr(ptr %buffer, ptr %block.name, ptr %block)
  %b.2 = call i32 @PyObject_SetAttr(ptr %block, ptr %holder.name, ptr %holder)
  call void @Py_DecRef(ptr %holder)
  call void @Py_DecRef(ptr %block)  ; the buffer holds it
  %b.12 = or i32 %b.1, %b.2
  %counted = call i32 @issue(ptr %block)
  %b = or i32 %b.12, %counted
  %place.name = call ptr @the(i64 26)
  %place = call ptr @PyObject_GetAttr(ptr %block, ptr %place.name)
  %misplaced = icmp eq ptr %place, null
  br i1 %misplaced, label %drop, label %placed
placed:
  %listed = call i32 @PyList_SetItem(ptr %list, i64 %at, ptr %place)
  %named = call i1 @number(ptr %block, i64 43, ptr %token)
  %c = or i32 %b, %listed
  %c.well = icmp eq i32 %c, 0
  %well = and i1 %c.well, %named
  br i1 %well, label %done, label %drop
done:
  ret ptr %buffer
drop:
  call void @Py_DecRef(ptr %buffer)
  br label %no
no:
  ret ptr null
}

; Counts a block that was taken from its free list; see BlockPool.issue. Not 0 after an error.
define internal i32 @issue(ptr %block) {
entry:
  %pool.name = call ptr @the(i64 32)
  %nbytes.name = call ptr @the(i64 27)
  %issued.name = call ptr @the(i64 33)
  %peak.name = call ptr @the(i64 34)
  %pool = call ptr @PyObject_GetAttr(ptr %block, ptr %pool.name)
  %e.1 = icmp eq ptr %pool, null
  br i1 %e.1, label %no, label %size
size:
  %nbytes = call ptr @PyObject_GetAttr(ptr %block, ptr %nbytes.name)
  %e.2 = icmp eq ptr %nbytes, null
  br i1 %e.2, label %drop.pool, label %before
before:
  %issued = call ptr @PyObject_GetAttr(ptr %pool, ptr %issued.name)
  %e.3 = icmp eq ptr %issued, null
  br i1 %e.3, label %drop.size, label %add
add:
  %sum = call ptr @PyNumber_Add(ptr %issued, ptr %nbytes)
  call void @Py_DecRef(ptr %issued)
  %e.4 = icmp eq ptr %sum, null
  br i1 %e.4, label %drop.size, label %write
write:
  %written = call i32 @PyObject_SetAttr(ptr %pool, ptr %issued.name, ptr %sum)
  %peak = call ptr @PyObject_GetAttr(ptr %pool, ptr %peak.name)
  %e.5 = icmp eq ptr %peak, null
  br i1 %e.5, label %drop.sum, label %compare
compare:
  %higher = call i32 @PyObject_RichCompareBool(ptr %sum, ptr %peak, i32 4)
  call void @Py_DecRef(ptr %peak)
  %new.peak = icmp sgt i32 %higher, 0
  br i1 %new.peak, label %raise, label %drop.sum
raise:
  %raised = call i32 @PyObject_SetAttr(ptr %pool, ptr %peak.name, ptr %sum)
  br label %drop.sum
drop.sum:
  %error.sum = phi i32 [ -1, %write ], [ %written, %compare ], [ %raised, %raise ]
  call void @Py_DecRef(ptr %sum)
  br label %drop.size
drop.size:
  %error.size = phi i32 [ -1, %before ], [ -1, %add ], [ %error.sum, %drop.sum ]
  call void @Py_DecRef(ptr %nbytes)
  br label %drop.pool
drop.pool:
  %error.pool = phi i32 [ -1, %size ], [ %error.size, %drop.size ]
  call void @Py_DecRef(ptr %pool)
  ret i32 %error.pool
no:
  ret i32 -1
}
