; Part of quick.ll: a call's tensors, and how they share memory.

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
