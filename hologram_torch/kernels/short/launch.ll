; Part of quick.ll: the launch of a recipe, and its results.

; A recipe's words (entries.py): executor, its pool's lists of what must be let go, structure or None, whether floats are told,
; the bounds of those, the form (0 one result, 1 tuple, 2 list), how many buffers, numbers and results, what asks the flags
; among the new buffers or None; then two words for a buffer (kind, free list), one for a number, two for a result (buffer and
; record, tensor and 0, or object and 1).
%recipe = type { ptr, ptr, ptr, ptr, i64, double, double, i64, i64, i64, i64, ptr }

; Whether a recipe can be followed now: its executor is open, none of its memory must be let go first, and the floats that a
; launch is told are within bounds.
define internal i1 @ready(ptr %frame, ptr %recipe) {
entry:
  %executor = load ptr, ptr %recipe
  %usable = call i1 @holds(ptr %executor, i64 31)
  br i1 %usable, label %memory, label %no
memory:
  %foreign.at = getelementptr %recipe, ptr %recipe, i32 0, i32 1
  %returned.at = getelementptr %recipe, ptr %recipe, i32 0, i32 2
  %foreign = load ptr, ptr %foreign.at
  %returned = load ptr, ptr %returned.at
  %foreign.count = call i64 @PyObject_Size(ptr %foreign)
  %returned.count = call i64 @PyObject_Size(ptr %returned)
  %leaving = or i64 %foreign.count, %returned.count
  %settled = icmp eq i64 %leaving, 0
  br i1 %settled, label %floats, label %no
floats:
  %told.at = getelementptr %recipe, ptr %recipe, i32 0, i32 4
  %low.at = getelementptr %recipe, ptr %recipe, i32 0, i32 5
  %high.at = getelementptr %recipe, ptr %recipe, i32 0, i32 6
  %count.at = getelementptr %frame, ptr %frame, i32 0, i32 2
  %told = load i64, ptr %told.at
  %low = load double, ptr %low.at
  %high = load double, ptr %high.at
  %count = load i64, ptr %count.at
  %untold = icmp eq i64 %told, 0
  br i1 %untold, label %yes, label %next
next:
  %i = phi i64 [ 0, %floats ], [ %after, %one ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %yes
one:
  %at = getelementptr %frame, ptr %frame, i32 0, i32 10, i64 %i
  %value = load double, ptr %at
  %above = fcmp oge double %value, %low
  %below = fcmp ole double %value, %high
  %within = and i1 %above, %below
  %after = add i64 %i, 1
  br i1 %within, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Puts objects into a list from a position on; the position behind them.
define internal i64 @append(ptr %list, i64 %from, ptr %objects, i64 %count) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %one ]
  %to = phi i64 [ %from, %entry ], [ %to.after, %one ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %at
  call void @Py_IncRef(ptr %object)
  call i32 @PyList_SetItem(ptr %list, i64 %to, ptr %object)
  %after = add i64 %i, 1
  %to.after = add i64 %to, 1
  br label %next
done:
  ret i64 %to
}

; The results of a recipe; null after an error.
define internal ptr @results(ptr %frame, ptr %recipe, ptr %results, ptr %made, ptr %tokens) {
entry:
  %found.at = alloca [16 x ptr]
  %form.at = getelementptr %recipe, ptr %recipe, i32 0, i32 7
  %count.at = getelementptr %recipe, ptr %recipe, i32 0, i32 10
  %form = load i64, ptr %form.at
  %count = load i64, ptr %count.at
  %state = call ptr @PyThreadState_Get()
  %this = call i64 @PyThreadState_GetID(ptr %state)
  %last = load i64, ptr @thread
  %known.thread = icmp eq i64 %this, %last
  br i1 %known.thread, label %next, label %enter
enter:
  %local = call ptr @the(i64 19)
  %imported.name = call ptr @the(i64 36)
  %imported = call ptr @PyObject_GetAttr(ptr %local, ptr %imported.name)
  %lost = icmp eq ptr %imported, null
  br i1 %lost, label %no, label %entered
entered:
  call void @Py_DecRef(ptr %imported)
  store i64 %this, ptr @thread
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ 0, %entered ], [ %after, %keep ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %form.it
one:
  %two = shl i64 %i, 1
  %number.at = getelementptr i64, ptr %results, i64 %two
  %record.at = getelementptr i64, ptr %number.at, i64 1
  %number = load i64, ptr %number.at
  %record = load ptr, ptr %record.at
  %kind = ptrtoint ptr %record to i64
  switch i64 %kind, label %new [ i64 0, label %given
                                 i64 1, label %constant ]
constant:
  %object = inttoptr i64 %number to ptr
  call void @Py_IncRef(ptr %object)
  br label %keep
given:
  %source.at = getelementptr %frame, ptr %frame, i32 0, i32 6, i64 %number
  %source = load ptr, ptr %source.at
  call void @Py_IncRef(ptr %source)
  br label %keep
new:
  %buffer.at = getelementptr ptr, ptr %made, i64 %number
  %token.at = getelementptr i64, ptr %tokens, i64 %number
  %buffer = load ptr, ptr %buffer.at
  %token = load i64, ptr %token.at
  %with = call ptr @the(i64 17)
  %shifted = shl i64 %token, 36
  %address.bits = and i64 %shifted, 9223372036854775807
  %address = inttoptr i64 %address.bits to ptr
  %tensor = call ptr @tensor_over(ptr %with, ptr %record, ptr %address, ptr %buffer)
  %failed = icmp eq ptr %tensor, null
  br i1 %failed, label %drop, label %keep
keep:
  %result = phi ptr [ %source, %given ], [ %object, %constant ], [ %tensor, %new ]
  %result.at = getelementptr ptr, ptr %found.at, i64 %i
  store ptr %result, ptr %result.at
  %after = add i64 %i, 1
  br label %next
form.it:
  switch i64 %form, label %list [ i64 0, label %only
                                  i64 1, label %tuple ]
only:
  %first = load ptr, ptr %found.at
  ret ptr %first
tuple:
  %new.tuple = call ptr @PyTuple_New(i64 %count)
  br label %fill
list:
  %new.list = call ptr @PyList_New(i64 %count)
  br label %fill
fill:
  %all = phi ptr [ %new.tuple, %tuple ], [ %new.list, %list ]
  %formless = icmp eq ptr %all, null
  br i1 %formless, label %drop, label %put
put:
  %k = phi i64 [ 0, %fill ], [ %k.after, %put.done ]
  %k.more = icmp ult i64 %k, %count
  br i1 %k.more, label %put.one, label %done
put.one:
  %k.at = getelementptr ptr, ptr %found.at, i64 %k
  %k.result = load ptr, ptr %k.at
  %k.after = add i64 %k, 1
  %is.tuple = icmp eq i64 %form, 1
  br i1 %is.tuple, label %put.tuple, label %put.list
put.tuple:
  call i32 @PyTuple_SetItem(ptr %all, i64 %k, ptr %k.result)
  br label %put.done
put.list:
  call i32 @PyList_SetItem(ptr %all, i64 %k, ptr %k.result)
  br label %put.done
put.done:
  br label %put
done:
  ret ptr %all
drop:
  %so.far = phi i64 [ %i, %new ], [ %count, %fill ]
  call void @release(ptr %found.at, i64 %so.far)
  br label %no
no:
  ret ptr null
}

; Launches what a recipe says on what the frame holds. Null after an error, or where Python must do it; %raised says whether
; the launch raised it, or without an error that a flag is set.
define internal ptr @follow(ptr %frame, ptr %recipe, ptr %raised) {
entry:
  %made = alloca [16 x ptr]
  %tokens = alloca [16 x i64]
  %tensors.at = getelementptr %frame, ptr %frame, i32 0, i32 1
  %floats.at = getelementptr %frame, ptr %frame, i32 0, i32 2
  %objects = getelementptr %frame, ptr %frame, i32 0, i32 9
  %structure.at = getelementptr %recipe, ptr %recipe, i32 0, i32 3
  %told.at = getelementptr %recipe, ptr %recipe, i32 0, i32 4
  %buffers.at = getelementptr %recipe, ptr %recipe, i32 0, i32 8
  %numbers.at = getelementptr %recipe, ptr %recipe, i32 0, i32 9
  %kinds = getelementptr %recipe, ptr %recipe, i64 1
  %executor = load ptr, ptr %recipe
  %structure = load ptr, ptr %structure.at
  %told = load i64, ptr %told.at
  %buffers = load i64, ptr %buffers.at
  %numbers = load i64, ptr %numbers.at
  %tensors = load i64, ptr %tensors.at
  %floats.given = load i64, ptr %floats.at
  %untold = icmp eq i64 %told, 0
  %floats = select i1 %untold, i64 0, i64 %floats.given
  %kind.words = shl i64 %buffers, 1
  %numbers.list = getelementptr ptr, ptr %kinds, i64 %kind.words
  %results = getelementptr ptr, ptr %numbers.list, i64 %numbers
  %places = add i64 %tensors, %buffers
  %placed = add i64 %places, %floats
  %count = add i64 %placed, %numbers
  %list = call ptr @PyList_New(i64 %count)
  %full = icmp eq ptr %list, null
  br i1 %full, label %no, label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %put ]
  %more = icmp ult i64 %i, %tensors
  br i1 %more, label %one, label %make
one:
  %at = getelementptr %frame, ptr %frame, i32 0, i32 8, i64 %i
  %where = load i64, ptr %at
  %place = call ptr @PyLong_FromLongLong(i64 %where)
  %nowhere = icmp eq ptr %place, null
  br i1 %nowhere, label %drop.list, label %put
put:
  call i32 @PyList_SetItem(ptr %list, i64 %i, ptr %place)
  %after = add i64 %i, 1
  br label %next
make:
  %j = phi i64 [ 0, %next ], [ %j.after, %one.made ]
  %j.more = icmp ult i64 %j, %buffers
  br i1 %j.more, label %make.one, label %numbers.put
make.one:
  %two = shl i64 %j, 1
  %kind.at = getelementptr ptr, ptr %kinds, i64 %two
  %free.at = getelementptr ptr, ptr %kind.at, i64 1
  %kind = load ptr, ptr %kind.at
  %free = load ptr, ptr %free.at
  %token.at = getelementptr i64, ptr %tokens, i64 %j
  %to = add i64 %tensors, %j
  %buffer = call ptr @buffer(ptr %executor, ptr %kind, ptr %free, ptr %list, i64 %to, ptr %token.at)
  %none = icmp eq ptr %buffer, null
  br i1 %none, label %drop.list, label %one.made
one.made:
  %buffer.at = getelementptr ptr, ptr %made, i64 %j
  store ptr %buffer, ptr %buffer.at
  %j.after = add i64 %j, 1
  br label %make
numbers.put:
  %behind = call i64 @append(ptr %list, i64 %places, ptr %objects, i64 %floats)
  call i64 @append(ptr %list, i64 %behind, ptr %numbers.list, i64 %numbers)
  %nothing = call ptr @the(i64 13)
  %idle = icmp eq ptr %structure, %nothing
  br i1 %idle, label %launched, label %prepared
prepared:
  %launch.name = call ptr @the(i64 35)
  %launch = call ptr @PyObject_GetAttr(ptr %structure, ptr %launch.name)
  %unlaunched = icmp eq ptr %launch, null
  br i1 %unlaunched, label %drop.list, label %go
go:
  %done = call ptr @PyObject_CallOneArg(ptr %launch, ptr %list)
  call void @Py_DecRef(ptr %launch)
  %failed = icmp eq ptr %done, null
  br i1 %failed, label %failure, label %finished
failure:
  store i1 true, ptr %raised
  br label %drop.list
finished:
  call void @Py_DecRef(ptr %done)
  br label %launched
launched:
  %asks.at = getelementptr %recipe, ptr %recipe, i32 0, i32 11
  %asks = load ptr, ptr %asks.at
  %unasked = icmp eq ptr %asks, %nothing
  br i1 %unasked, label %fine, label %ask
ask:
  %flags = call ptr @PyList_New(i64 %buffers)
  %flagless = icmp eq ptr %flags, null
  br i1 %flagless, label %drop.list, label %hand
hand:
  call i64 @append(ptr %flags, i64 0, ptr %made, i64 %buffers)
  %flagged = call ptr @PyObject_CallOneArg(ptr %asks, ptr %flags)
  call void @Py_DecRef(ptr %flags)
  %askless = icmp eq ptr %flagged, null
  br i1 %askless, label %drop.list, label %asked
asked:
  call void @Py_DecRef(ptr %flagged)
  %true = call ptr @the(i64 12)
  %wrong = icmp eq ptr %flagged, %true
  br i1 %wrong, label %failure, label %fine
fine:
  %found = call ptr @results(ptr %frame, ptr %recipe, ptr %results, ptr %made, ptr %tokens)
  br label %drop.list
drop.list:
  %result = phi ptr [ null, %one ], [ null, %make.one ], [ null, %prepared ], [ null, %failure ], [ null, %ask ], [ null, %hand ], [ %found, %fine ]
  %so.far = phi i64 [ 0, %one ], [ %j, %make.one ], [ %buffers, %prepared ], [ %buffers, %failure ], [ %buffers, %ask ], [ %buffers, %hand ], [ %buffers, %fine ]
  call void @Py_DecRef(ptr %list)
  call void @release(ptr %made, i64 %so.far)
  ret ptr %result
no:
  ret ptr null
}

; Has Python say what was raised, as PyTorch wants it. Gives null.
define internal ptr @refuse(ptr %refuse) {
entry:
  %type.at = alloca ptr
  %error.at = alloca ptr
  %trace.at = alloca ptr
  call void @PyErr_Fetch(ptr %type.at, ptr %error.at, ptr %trace.at)
  call void @PyErr_NormalizeException(ptr %type.at, ptr %error.at, ptr %trace.at)
  %type = load ptr, ptr %type.at
  %error = load ptr, ptr %error.at
  %trace = load ptr, ptr %trace.at
  call void @Py_DecRef(ptr %type)
  %traced = icmp ne ptr %trace, null
  br i1 %traced, label %trace.it, label %say
trace.it:
  call i32 @PyException_SetTraceback(ptr %error, ptr %trace)
  call void @Py_DecRef(ptr %trace)
  br label %say
say:
  %none = call ptr @PyObject_CallOneArg(ptr %refuse, ptr %error)
  call void @Py_DecRef(ptr %error)
  ret ptr %none
}
