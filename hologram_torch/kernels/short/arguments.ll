; Part of quick.ll: a call's arguments taken apart.

; Takes a float: 2, and its bits where it is not told at the launch.
define internal i1 @float(ptr %frame, ptr %x) {
entry:
  %floats.at = getelementptr %frame, ptr %frame, i32 0, i32 2
  %floats = load i64, ptr %floats.at
  %crowded = icmp uge i64 %floats, 16
  br i1 %crowded, label %no, label %take
take:
  %value = call double @PyFloat_AsDouble(ptr %x)
  %bits = bitcast double %value to i64
  %object.at = getelementptr %frame, ptr %frame, i32 0, i32 9, i64 %floats
  %bits.at = getelementptr %frame, ptr %frame, i32 0, i32 10, i64 %floats
  call void @Py_IncRef(ptr %x)
  store ptr %x, ptr %object.at
  store i64 %bits, ptr %bits.at
  %more = add i64 %floats, 1
  store i64 %more, ptr %floats.at
  call void @push(ptr %frame, i64 2)
  %told.at = getelementptr %frame, ptr %frame, i32 0, i32 4
  %told = load i64, ptr %told.at
  %apart = icmp ne i64 %told, 0
  br i1 %apart, label %yes, label %exact
exact:
  call void @push(ptr %frame, i64 %bits)
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; Takes a list (5) or tuple (6), how many it holds, and those.
define internal i1 @each(ptr %frame, ptr %x, i1 %is.list) {
entry:
  br i1 %is.list, label %list, label %tuple
list:
  %list.count = call i64 @PyList_Size(ptr %x)
  br label %begin
tuple:
  %tuple.count = call i64 @PyTuple_Size(ptr %x)
  br label %begin
begin:
  %count = phi i64 [ %list.count, %list ], [ %tuple.count, %tuple ]
  %tag = phi i64 [ 5, %list ], [ 6, %tuple ]
  %count.word = shl i64 %count, 8
  %word = or i64 %count.word, %tag
  call void @push(ptr %frame, i64 %word)
  br label %next
next:
  %i = phi i64 [ 0, %begin ], [ %after, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %get, label %yes
get:
  br i1 %is.list, label %list.get, label %tuple.get
list.get:
  %list.item = call ptr @PyList_GetItem(ptr %x, i64 %i)
  br label %got
tuple.get:
  %tuple.item = call ptr @PyTuple_GetItem(ptr %x, i64 %i)
  br label %got
got:
  %item = phi ptr [ %list.item, %list.get ], [ %tuple.item, %tuple.get ]
  %gone = icmp eq ptr %item, null
  br i1 %gone, label %no, label %item.take
item.take:
  call void @Py_IncRef(ptr %item)
  %taken = call i1 @take(ptr %frame, ptr %item)
  call void @Py_DecRef(ptr %item)
  br i1 %taken, label %one, label %no
one:
  %after = add i64 %i, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}

; Takes an argument; false for what only Python knows, maybe after an error. Integers are 3, what there is one of is 4,
; and 7 with the type stands for what Python compares.
define internal i1 @take(ptr %frame, ptr %x) {
entry:
  %words = load i64, ptr %frame
  %crowded = icmp ugt i64 %words, 192
  br i1 %crowded, label %no, label %kind
kind:
  %type = call ptr @PyObject_Type(ptr %x)
  call void @Py_DecRef(ptr %type)
  %tensor = call ptr @the(i64 0)
  %parameter = call ptr @the(i64 1)
  %is.tensor = icmp eq ptr %type, %tensor
  %is.parameter = icmp eq ptr %type, %parameter
  %ours = or i1 %is.tensor, %is.parameter
  br i1 %ours, label %tensors, label %numbers
tensors:
  %tensor.taken = call i1 @tensor(ptr %frame, ptr %x)
  ret i1 %tensor.taken
numbers:
  %int = call ptr @the(i64 2)
  %is.int = icmp eq ptr %type, %int
  br i1 %is.int, label %integer, label %floats
integer:
  %value = call i64 @PyLong_AsLongLong(ptr %x)
  %odd = icmp eq i64 %value, -1
  br i1 %odd, label %ask, label %integer.push
ask:
  %error = call ptr @PyErr_Occurred()
  %long = icmp ne ptr %error, null
  br i1 %long, label %integer.large, label %integer.push
integer.large:
  call void @PyErr_Clear()
  br label %other
integer.push:
  call void @push(ptr %frame, i64 3)
  call void @push(ptr %frame, i64 %value)
  ret i1 true
floats:
  %float = call ptr @the(i64 3)
  %is.float = icmp eq ptr %type, %float
  br i1 %is.float, label %float.take, label %lists
float.take:
  %float.taken = call i1 @float(ptr %frame, ptr %x)
  ret i1 %float.taken
lists:
  %list = call ptr @the(i64 6)
  %tuple = call ptr @the(i64 7)
  %is.list = icmp eq ptr %type, %list
  %is.tuple = icmp eq ptr %type, %tuple
  %many = or i1 %is.list, %is.tuple
  br i1 %many, label %each, label %singles
each:
  %each.taken = call i1 @each(ptr %frame, ptr %x, i1 %is.list)
  ret i1 %each.taken
singles:
  %bool = call ptr @the(i64 4)
  %none = call ptr @the(i64 5)
  %dtype = call ptr @the(i64 8)
  %format = call ptr @the(i64 9)
  %layout = call ptr @the(i64 10)
  %is.bool = icmp eq ptr %type, %bool
  %is.none = icmp eq ptr %type, %none
  %is.dtype = icmp eq ptr %type, %dtype
  %is.format = icmp eq ptr %type, %format
  %is.layout = icmp eq ptr %type, %layout
  %single.1 = or i1 %is.bool, %is.none
  %single.2 = or i1 %is.dtype, %is.format
  %single.3 = or i1 %single.1, %single.2
  %single = or i1 %single.3, %is.layout
  br i1 %single, label %same, label %other
same:
  %same.word = ptrtoint ptr %x to i64
  call void @push(ptr %frame, i64 4)
  call void @push(ptr %frame, i64 %same.word)
  ret i1 true
other:
  %subclass = call i32 @PyObject_IsInstance(ptr %x, ptr %tensor)
  %plain = icmp eq i32 %subclass, 0
  br i1 %plain, label %compare, label %no
compare:
  %others.at = getelementptr %frame, ptr %frame, i32 0, i32 3
  %others = load i64, ptr %others.at
  %full = icmp uge i64 %others, 16
  br i1 %full, label %no, label %keep
keep:
  %other.at = getelementptr %frame, ptr %frame, i32 0, i32 11, i64 %others
  call void @Py_IncRef(ptr %x)
  store ptr %x, ptr %other.at
  %others.more = add i64 %others, 1
  store i64 %others.more, ptr %others.at
  %type.word = ptrtoint ptr %type to i64
  call void @push(ptr %frame, i64 7)
  call void @push(ptr %frame, i64 %type.word)
  ret i1 true
no:
  ret i1 false
}

; Takes arguments with names: 8 and the length of a name, its letters, and the argument.
define internal i1 @named(ptr %frame, ptr %kwargs) {
entry:
  %position.at = alloca i64
  %name.at = alloca ptr
  %value.at = alloca ptr
  %length.at = alloca i64
  store i64 0, ptr %position.at
  br label %next
next:
  %some = call i32 @PyDict_Next(ptr %kwargs, ptr %position.at, ptr %name.at, ptr %value.at)
  %more = icmp ne i32 %some, 0
  br i1 %more, label %one, label %yes
one:
  %words = load i64, ptr %frame
  %crowded = icmp ugt i64 %words, 192
  br i1 %crowded, label %no, label %letters
letters:
  %name = load ptr, ptr %name.at
  %text = call ptr @PyUnicode_AsUTF8AndSize(ptr %name, ptr %length.at)
  %odd = icmp eq ptr %text, null
  br i1 %odd, label %no, label %measure
measure:
  %length = load i64, ptr %length.at
  %from.one = sub i64 %length, 1
  %short = icmp ult i64 %from.one, 64
  br i1 %short, label %write, label %no
write:
  %length.word = shl i64 %length, 8
  %word = or i64 %length.word, 8
  call void @push(ptr %frame, i64 %word)
  %begin = load i64, ptr %frame
  %bytes.up = add i64 %length, 7
  %taken = lshr i64 %bytes.up, 3
  %end = add i64 %begin, %taken
  %last = sub i64 %end, 1
  %last.at = getelementptr %frame, ptr %frame, i32 0, i32 5, i64 %last
  store i64 0, ptr %last.at
  %letters.at = getelementptr %frame, ptr %frame, i32 0, i32 5, i64 %begin
  call void @llvm.memcpy.p0.p0.i64(ptr %letters.at, ptr %text, i64 %length, i1 false)
  store i64 %end, ptr %frame
  %value = load ptr, ptr %value.at
  %well = call i1 @take(ptr %frame, ptr %value)
  br i1 %well, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; The key as an object: bytes, or a tuple of them and of what Python compares. Null after an error.
define internal ptr @key(ptr %frame) {
entry:
  %words = load i64, ptr %frame
  %content = getelementptr %frame, ptr %frame, i32 0, i32 5
  %length = shl i64 %words, 3
  %bytes = call ptr @PyBytes_FromStringAndSize(ptr %content, i64 %length)
  %failed = icmp eq ptr %bytes, null
  br i1 %failed, label %done, label %whether
whether:
  %others.at = getelementptr %frame, ptr %frame, i32 0, i32 3
  %others = load i64, ptr %others.at
  %alone = icmp eq i64 %others, 0
  br i1 %alone, label %done, label %tuple
tuple:
  %count = add i64 %others, 1
  %key = call ptr @PyTuple_New(i64 %count)
  %full = icmp eq ptr %key, null
  br i1 %full, label %drop, label %first
drop:
  call void @Py_DecRef(ptr %bytes)
  br label %done
first:
  call i32 @PyTuple_SetItem(ptr %key, i64 0, ptr %bytes)
  br label %next
next:
  %i = phi i64 [ 0, %first ], [ %after, %one ]
  %more = icmp ult i64 %i, %others
  br i1 %more, label %one, label %done
one:
  %at = getelementptr %frame, ptr %frame, i32 0, i32 11, i64 %i
  %object = load ptr, ptr %at
  call void @Py_IncRef(ptr %object)
  %after = add i64 %i, 1
  call i32 @PyTuple_SetItem(ptr %key, i64 %after, ptr %object)
  br label %next
done:
  %found = phi ptr [ null, %entry ], [ %bytes, %whether ], [ null, %drop ], [ %key, %next ]
  ret ptr %found
}

; The key with 10 and the bits of the floats behind it.
define internal ptr @exact_key(ptr %frame) {
entry:
  %floats.at = getelementptr %frame, ptr %frame, i32 0, i32 2
  %floats = load i64, ptr %floats.at
  %words = load i64, ptr %frame
  call void @push(ptr %frame, i64 10)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %one ]
  %more = icmp ult i64 %i, %floats
  br i1 %more, label %one, label %done
one:
  %at = getelementptr %frame, ptr %frame, i32 0, i32 10, i64 %i
  %bits = load i64, ptr %at
  call void @push(ptr %frame, i64 %bits)
  %after = add i64 %i, 1
  br label %next
done:
  %key = call ptr @key(ptr %frame)
  store i64 %words, ptr %frame
  ret ptr %key
}
