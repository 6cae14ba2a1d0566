; Part of quick.ll: a call's arguments taken apart.

; Takes a tensor: its block, where it lies, and to the key 1 with dtype and axes, executor, sizes, strides, the bytes behind
; where it can be bound, and of large memory the place in a cache line. False for what only Python knows.
define internal i1 @tensor(ptr %frame, ptr %x) {
entry:
  %impl.at = alloca ptr
  %axes.at = alloca i64
  %sizes.at = alloca ptr
  %strides.at = alloca ptr
  %offset.at = alloca i64
  %dtype.at = alloca i32
  %place.at = alloca i64
  %nbytes.at = alloca i64
  %alignment.at = alloca i64
  %tensors.at = getelementptr %frame, ptr %frame, i32 0, i32 1
  %tensors = load i64, ptr %tensors.at
  %crowded = icmp uge i64 %tensors, 16
  br i1 %crowded, label %no, label %handle
handle:  ; what PyTorch's functions take is a pointer to a pointer to the tensor's memory, which `_cdata` says
  %cdata = call ptr @the(i64 22)
  %address = call ptr @PyObject_GetAttr(ptr %x, ptr %cdata)
  %unknown = icmp eq ptr %address, null
  br i1 %unknown, label %no, label %sizes
sizes:
  %impl = call ptr @PyLong_AsVoidPtr(ptr %address)
  call void @Py_DecRef(ptr %address)
  store ptr %impl, ptr %impl.at
  %error.1 = call i32 @aoti_torch_get_dim(ptr %impl.at, ptr %axes.at)
  %error.2 = call i32 @aoti_torch_get_sizes(ptr %impl.at, ptr %sizes.at)
  %error.3 = call i32 @aoti_torch_get_strides(ptr %impl.at, ptr %strides.at)
  %error.4 = call i32 @aoti_torch_get_storage_offset(ptr %impl.at, ptr %offset.at)
  %error.5 = call i32 @aoti_torch_get_dtype(ptr %impl.at, ptr %dtype.at)
  %error.12 = or i32 %error.1, %error.2
  %error.34 = or i32 %error.3, %error.4
  %error.14 = or i32 %error.12, %error.34
  %error = or i32 %error.14, %error.5
  %axes = load i64, ptr %axes.at
  %dtype = load i32, ptr %dtype.at
  %well = icmp eq i32 %error, 0
  %few = icmp ule i64 %axes, 16
  %plain = and i1 %well, %few
  br i1 %plain, label %store, label %no
store:
  %storage.of = call ptr @the(i64 16)
  %storage = call ptr @PyObject_CallOneArg(ptr %storage.of, ptr %x)
  %bare = icmp eq ptr %storage, null
  br i1 %bare, label %no, label %carried
carried:
  %payload.name = call ptr @the(i64 23)
  %payload = call ptr @PyObject_GetAttr(ptr %storage, ptr %payload.name)
  call void @Py_DecRef(ptr %storage)
  %foreign = icmp eq ptr %payload, null
  br i1 %foreign, label %no, label %buffer
buffer:
  %type = call ptr @PyObject_Type(ptr %payload)
  call void @Py_DecRef(ptr %type)
  %buffer.type = call ptr @the(i64 11)
  %is.buffer = icmp eq ptr %type, %buffer.type
  br i1 %is.buffer, label %parts, label %other
other:
  call void @Py_DecRef(ptr %payload)
  br label %no
parts:
  %executor.name = call ptr @the(i64 25)
  %block.name = call ptr @the(i64 24)
  %executor = call ptr @PyObject_GetAttr(ptr %payload, ptr %executor.name)
  %block = call ptr @PyObject_GetAttr(ptr %payload, ptr %block.name)
  call void @Py_DecRef(ptr %payload)
  %orphan = icmp eq ptr %executor, null
  br i1 %orphan, label %orphaned, label %owned
orphaned:
  %some = icmp ne ptr %block, null
  br i1 %some, label %loose, label %no
loose:
  call void @Py_DecRef(ptr %block)
  br label %no
owned:
  call void @Py_DecRef(ptr %executor)  ; the buffer holds it, or it is no more than a number in a key
  %blockless = icmp eq ptr %block, null
  br i1 %blockless, label %no, label %held
held:
  %source.at = getelementptr %frame, ptr %frame, i32 0, i32 6, i64 %tensors
  %block.at = getelementptr %frame, ptr %frame, i32 0, i32 7, i64 %tensors
  call void @Py_IncRef(ptr %x)
  store ptr %x, ptr %source.at
  store ptr %block, ptr %block.at
  %tensors.more = add i64 %tensors, 1
  store i64 %tensors.more, ptr %tensors.at
  %placed = call i1 @number(ptr %block, i64 26, ptr %place.at)  ; a freed buffer's block is None, which lies nowhere
  br i1 %placed, label %measured, label %no
measured:
  %sized = call i1 @number(ptr %block, i64 27, ptr %nbytes.at)
  br i1 %sized, label %where, label %no
where:
  %start = load i64, ptr %place.at
  %offset = load i64, ptr %offset.at
  %first = icmp eq i64 %offset, 0
  br i1 %first, label %described, label %aligned
aligned:
  %limits.name = call ptr @the(i64 28)
  %limits = call ptr @PyObject_GetAttr(ptr %executor, ptr %limits.name)
  %limitless = icmp eq ptr %limits, null
  br i1 %limitless, label %no, label %limited
limited:
  %told = call i1 @number(ptr %limits, i64 29, ptr %alignment.at)
  call void @Py_DecRef(ptr %limits)
  br i1 %told, label %moved, label %no
moved:
  %alignment = load i64, ptr %alignment.at
  %itemsize = call i64 @aoti_torch_dtype_element_size(i32 %dtype)
  %offset.bytes = mul i64 %offset, %itemsize
  %offset.behind = urem i64 %offset.bytes, %alignment
  %offset.bound = sub i64 %offset.bytes, %offset.behind
  %offset.place = add i64 %start, %offset.bound
  br label %described
described:
  %place = phi i64 [ %start, %where ], [ %offset.place, %moved ]
  %behind = phi i64 [ 0, %where ], [ %offset.behind, %moved ]
  %place.kept = getelementptr %frame, ptr %frame, i32 0, i32 8, i64 %tensors
  store i64 %place, ptr %place.kept
  %nbytes = load i64, ptr %nbytes.at
  %large.from = call ptr @the(i64 20)
  %line.bytes = call ptr @the(i64 21)
  %least = ptrtoint ptr %large.from to i64
  %line = ptrtoint ptr %line.bytes to i64
  %large = icmp sge i64 %nbytes, %least
  %line.place = urem i64 %place, %line
  %in.line = select i1 %large, i64 %line.place, i64 -1
  %dtype.wide = zext i32 %dtype to i64
  %dtype.word = shl i64 %dtype.wide, 8
  %axes.word = shl i64 %axes, 40
  %kind.0 = or i64 %dtype.word, 1
  %kind = or i64 %kind.0, %axes.word
  call void @push(ptr %frame, i64 %kind)
  %executor.word = ptrtoint ptr %executor to i64
  call void @push(ptr %frame, i64 %executor.word)
  call void @push(ptr %frame, i64 %behind)
  call void @push(ptr %frame, i64 %in.line)
  %words = load i64, ptr %frame
  %sizes.to = getelementptr %frame, ptr %frame, i32 0, i32 5, i64 %words
  %strides.from = add i64 %words, %axes
  %strides.to = getelementptr %frame, ptr %frame, i32 0, i32 5, i64 %strides.from
  %axes.bytes = shl i64 %axes, 3
  %sizes.list = load ptr, ptr %sizes.at
  %strides.list = load ptr, ptr %strides.at
  call void @llvm.memcpy.p0.p0.i64(ptr %sizes.to, ptr %sizes.list, i64 %axes.bytes, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %strides.to, ptr %strides.list, i64 %axes.bytes, i1 false)
  %words.after = add i64 %strides.from, %axes
  store i64 %words.after, ptr %frame
  ret i1 true
no:
  ret i1 false
}

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

; Adds to the key how tensors in one memory lie beside one another: 9 and which two, and the bytes from one to the other.
define internal i1 @share(ptr %frame) {
entry:
  %adopted = alloca [16 x i1]
  %tensors.at = getelementptr %frame, ptr %frame, i32 0, i32 1
  %tensors = load i64, ptr %tensors.at
  %several = icmp ugt i64 %tensors, 1
  br i1 %several, label %later, label %yes
later:
  %k = phi i64 [ 0, %entry ], [ %k.after, %k.done ]
  %k.more = icmp ult i64 %k, %tensors
  br i1 %k.more, label %one, label %yes
one:
  %block.at = getelementptr %frame, ptr %frame, i32 0, i32 7, i64 %k
  %block = load ptr, ptr %block.at
  %foreign = call i1 @holds(ptr %block, i64 30)
  %foreign.at = getelementptr [16 x i1], ptr %adopted, i64 0, i64 %k
  store i1 %foreign, ptr %foreign.at
  br label %earlier
earlier:
  %j = phi i64 [ 0, %one ], [ %j.after, %j.done ]
  %j.more = icmp ult i64 %j, %k
  br i1 %j.more, label %pair, label %k.done
pair:
  %other.at = getelementptr %frame, ptr %frame, i32 0, i32 7, i64 %j
  %other = load ptr, ptr %other.at
  %other.foreign.at = getelementptr [16 x i1], ptr %adopted, i64 0, i64 %j
  %other.foreign = load i1, ptr %other.foreign.at
  %same = icmp eq ptr %block, %other
  %both = and i1 %foreign, %other.foreign
  %meet = or i1 %same, %both
  br i1 %meet, label %room, label %j.done
room:
  %words = load i64, ptr %frame
  %crowded = icmp ugt i64 %words, 236
  br i1 %crowded, label %no, label %note
note:
  %k.place.at = getelementptr %frame, ptr %frame, i32 0, i32 8, i64 %k
  %j.place.at = getelementptr %frame, ptr %frame, i32 0, i32 8, i64 %j
  %k.place = load i64, ptr %k.place.at
  %j.place = load i64, ptr %j.place.at
  %apart = sub i64 %k.place, %j.place
  %j.word = shl i64 %j, 8
  %k.word = shl i64 %k, 16
  %word.0 = or i64 %j.word, %k.word
  %word = or i64 %word.0, 9
  call void @push(ptr %frame, i64 %word)
  call void @push(ptr %frame, i64 %apart)
  br label %j.done
j.done:
  %j.after = add i64 %j, 1
  br label %earlier
k.done:
  %k.after = add i64 %k, 1
  br label %later
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
