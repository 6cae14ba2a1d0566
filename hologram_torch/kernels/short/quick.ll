; The short way of a call (quick.py) as a function of Python's: args and kwargs as PyTorch hands them over.
;
; It does what quick.py does, for what most calls are, and asks Python about all else: for a tensor of a class of its own, a
; freed buffer, no free block, while somebody traces or records. Objects are reached through Python's C interface alone, and
; sizes and strides through PyTorch's. Whatever a call takes is held in its frame until the end. The other files
; of this folder follow in the same module.

declare ptr @PyObject_Type(ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare i32 @PyObject_SetAttr(ptr, ptr, ptr)
declare i32 @PyObject_IsInstance(ptr, ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare i64 @PyObject_Size(ptr)
declare ptr @PyObject_Call(ptr, ptr, ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare ptr @PyNumber_Add(ptr, ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyUnicode_AsUTF8AndSize(ptr, ptr)
declare ptr @PyBytes_FromStringAndSize(ptr, i64)
declare ptr @PyBytes_AsString(ptr)
declare ptr @PyTuple_New(i64)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyList_New(i64)
declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare i32 @PyList_SetSlice(ptr, i64, i64, ptr)
declare i64 @PyDict_Size(ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare ptr @PyWeakref_NewRef(ptr, ptr)
declare ptr @PyType_GenericNew(ptr, ptr, ptr)
declare ptr @PyThreadState_Get()
declare i64 @PyThreadState_GetID(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_NormalizeException(ptr, ptr, ptr)
declare i32 @PyException_SetTraceback(ptr, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i32 @aoti_torch_get_dim(ptr, ptr)
declare i32 @aoti_torch_get_sizes(ptr, ptr)
declare i32 @aoti_torch_get_strides(ptr, ptr)
declare i32 @aoti_torch_get_storage_offset(ptr, ptr)
declare i32 @aoti_torch_get_dtype(ptr, ptr)
declare i64 @aoti_torch_dtype_element_size(i32)
declare ptr @tensor_over(ptr, ptr, ptr, ptr)  ; fresh.ll
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; What a call has taken. Of each kind there are at most 16, else Python does it.
%frame = type {
  i64,          ;  0 words of the key
  i64,          ;  1 tensors
  i64,          ;  2 floats
  i64,          ;  3 other objects
  i64,          ;  4 whether floats are told at the launch, so that they are no part of the key
  [256 x i64],  ;  5 the key: words that say what they are, each followed by as many as that has
  [16 x ptr],   ;  6 the tensors
  [16 x ptr],   ;  7 their blocks
  [16 x i64],   ;  8 where they lie
  [16 x ptr],   ;  9 the floats
  [16 x i64],   ; 10 their bits
  [16 x ptr]    ; 11 objects that are part of the key, compared as Python does
}

; Objects of Python's that all calls ask for, in the order that entries.py has them in.
@known = internal global ptr null
; The thread that made a tensor last; see _Local in memory.py.
@thread = internal global i64 -1

define void @settle(ptr %known) {
  store ptr %known, ptr @known
  ret void
}

define internal ptr @the(i64 %which) {
  %known = load ptr, ptr @known
  %at = getelementptr ptr, ptr %known, i64 %which
  %object = load ptr, ptr %at
  ret ptr %object
}

define internal void @push(ptr %frame, i64 %word) {
  %words = load i64, ptr %frame
  %at = getelementptr %frame, ptr %frame, i32 0, i32 5, i64 %words
  %more = add i64 %words, 1
  store i64 %word, ptr %at
  store i64 %more, ptr %frame
  ret void
}

; An attribute that is an integer, into %into; false after an error.
define internal i1 @number(ptr %object, i64 %name, ptr %into) {
entry:
  %attribute = call ptr @the(i64 %name)
  %found = call ptr @PyObject_GetAttr(ptr %object, ptr %attribute)
  %missing = icmp eq ptr %found, null
  br i1 %missing, label %no, label %read
read:
  %value = call i64 @PyLong_AsLongLong(ptr %found)
  call void @Py_DecRef(ptr %found)
  store i64 %value, ptr %into
  %odd = icmp eq i64 %value, -1
  br i1 %odd, label %ask, label %yes
ask:
  %error = call ptr @PyErr_Occurred()
  %well = icmp eq ptr %error, null
  ret i1 %well
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether an attribute is True.
define internal i1 @holds(ptr %object, i64 %name) {
entry:
  %attribute = call ptr @the(i64 %name)
  %found = call ptr @PyObject_GetAttr(ptr %object, ptr %attribute)
  %missing = icmp eq ptr %found, null
  br i1 %missing, label %no, label %compare
compare:
  call void @Py_DecRef(ptr %found)
  %true = call ptr @the(i64 12)
  %yes = icmp eq ptr %found, %true
  ret i1 %yes
no:
  call void @PyErr_Clear()
  ret i1 false
}

; Lets go of what the frame holds.
define internal void @release(ptr %list, i64 %count) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %one ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %at = getelementptr ptr, ptr %list, i64 %i
  %object = load ptr, ptr %at
  call void @Py_DecRef(ptr %object)
  %after = add i64 %i, 1
  br label %next
done:
  ret void
}

define internal void @leave(ptr %frame) {
  %tensors.at = getelementptr %frame, ptr %frame, i32 0, i32 1
  %floats.at = getelementptr %frame, ptr %frame, i32 0, i32 2
  %others.at = getelementptr %frame, ptr %frame, i32 0, i32 3
  %sources = getelementptr %frame, ptr %frame, i32 0, i32 6
  %blocks = getelementptr %frame, ptr %frame, i32 0, i32 7
  %objects = getelementptr %frame, ptr %frame, i32 0, i32 9
  %rest = getelementptr %frame, ptr %frame, i32 0, i32 11
  %tensors = load i64, ptr %tensors.at
  %floats = load i64, ptr %floats.at
  %others = load i64, ptr %others.at
  call void @release(ptr %sources, i64 %tensors)
  call void @release(ptr %blocks, i64 %tensors)
  call void @release(ptr %objects, i64 %floats)
  call void @release(ptr %rest, i64 %others)
  ret void
}

; What a kernel's calls have in common (entries.py): how many operands, recipes by key, the kernel, the short way in Python,
; that with a key to keep the recipe by, and what raises a launch's error.
%kernel = type { i64, ptr, ptr, ptr, ptr, ptr }

; %self: the address of a %kernel, a Python integer; a tuple, and a dictionary or null.
define ptr @quick(ptr %self, ptr %args, ptr %kwargs) {
entry:
  %frame = alloca %frame
  %raised = alloca i1
  %index.at = alloca i64
  store i1 false, ptr %raised
  %kernel = call ptr @PyLong_AsVoidPtr(ptr %self)
  %recipes.at = getelementptr %kernel, ptr %kernel, i32 0, i32 1
  %long.at = getelementptr %kernel, ptr %kernel, i32 0, i32 2
  %python.at = getelementptr %kernel, ptr %kernel, i32 0, i32 3
  %learn.at = getelementptr %kernel, ptr %kernel, i32 0, i32 4
  %refuse.at = getelementptr %kernel, ptr %kernel, i32 0, i32 5
  %operands = load i64, ptr %kernel
  %recipes = load ptr, ptr %recipes.at
  %long = load ptr, ptr %long.at
  %python = load ptr, ptr %python.at
  %learn = load ptr, ptr %learn.at
  %refuse = load ptr, ptr %refuse.at
  %tensors.at = getelementptr %frame, ptr %frame, i32 0, i32 1
  %floats.at = getelementptr %frame, ptr %frame, i32 0, i32 2
  %others.at = getelementptr %frame, ptr %frame, i32 0, i32 3
  %told.at = getelementptr %frame, ptr %frame, i32 0, i32 4
  store i64 0, ptr %frame
  store i64 0, ptr %tensors.at
  store i64 0, ptr %floats.at
  store i64 0, ptr %others.at
  %tracers = call ptr @the(i64 14)
  %recordings = call ptr @the(i64 15)
  %traced = call i64 @PyDict_Size(ptr %tracers)
  %recorded = call i64 @PyDict_Size(ptr %recordings)
  %watched = or i64 %traced, %recorded
  %alone = icmp eq i64 %watched, 0
  br i1 %alone, label %begin, label %in.python
begin:
  %default.of = call ptr @the(i64 18)
  %default = call ptr @PyObject_CallNoArgs(ptr %default.of)
  %no.default = icmp eq ptr %default, null
  br i1 %no.default, label %in.python, label %names
names:
  call void @Py_DecRef(ptr %default)
  %default.word = ptrtoint ptr %default to i64
  call void @push(ptr %frame, i64 %default.word)
  %count = call i64 @PyTuple_Size(ptr %args)
  call void @push(ptr %frame, i64 %count)
  %nameless = icmp eq ptr %kwargs, null
  br i1 %nameless, label %told, label %some.names
some.names:
  %name.count = call i64 @PyDict_Size(ptr %kwargs)
  br label %told
told:
  %named = phi i64 [ 0, %names ], [ %name.count, %some.names ]
  %unnamed = icmp eq i64 %named, 0
  %all = icmp eq i64 %count, %operands
  %is.told = and i1 %unnamed, %all
  %told.word = zext i1 %is.told to i64
  store i64 %told.word, ptr %told.at
  br label %next
next:
  %i = phi i64 [ 0, %told ], [ %after, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %after.args
one:
  %argument = call ptr @PyTuple_GetItem(ptr %args, i64 %i)
  %taken = call i1 @take(ptr %frame, ptr %argument)
  %after = add i64 %i, 1
  br i1 %taken, label %next, label %in.python
after.args:
  br i1 %unnamed, label %any, label %take.named
take.named:
  %named.taken = call i1 @named(ptr %frame, ptr %kwargs)
  br i1 %named.taken, label %any, label %in.python
any:  ; without tensors the current device matters: 11 and its number
  %tensors = load i64, ptr %tensors.at
  %tensorless = icmp eq i64 %tensors, 0
  br i1 %tensorless, label %current, label %share
current:
  %devices = call ptr @the(i64 44)
  %placed = call i1 @number(ptr %devices, i64 45, ptr %index.at)
  br i1 %placed, label %current.push, label %in.python
current.push:
  %index = load i64, ptr %index.at
  call void @push(ptr %frame, i64 11)
  call void @push(ptr %frame, i64 %index)
  br label %find
share:
  %shared = call i1 @share(ptr %frame)
  br i1 %shared, label %find, label %in.python
find:
  %key = call ptr @key(ptr %frame)
  %keyless = icmp eq ptr %key, null
  br i1 %keyless, label %in.python, label %look
look:
  %found = call ptr @PyDict_GetItemWithError(ptr %recipes, ptr %key)
  %by.value = call ptr @the(i64 41)
  %exactly = icmp eq ptr %found, %by.value
  br i1 %exactly, label %exact, label %known
exact:
  %exact.key = call ptr @exact_key(ptr %frame)
  %exact.keyless = icmp eq ptr %exact.key, null
  br i1 %exact.keyless, label %unknown.key, label %exact.look
exact.look:
  %exact.found = call ptr @PyDict_GetItemWithError(ptr %recipes, ptr %exact.key)
  call void @Py_DecRef(ptr %exact.key)
  br label %known
unknown.key:
  call void @Py_DecRef(ptr %key)
  br label %in.python
known:
  %recipe = phi ptr [ %found, %look ], [ %exact.found, %exact.look ]
  %none = call ptr @the(i64 13)
  %beyond = call ptr @the(i64 42)
  %missing = icmp eq ptr %recipe, null
  br i1 %missing, label %miss, label %which
which:
  call void @Py_DecRef(ptr %key)
  %is.long = icmp eq ptr %recipe, %none
  br i1 %is.long, label %in.full, label %which.else
which.else:
  %is.beyond = icmp eq ptr %recipe, %beyond
  br i1 %is.beyond, label %in.python, label %check
check:
  call void @Py_IncRef(ptr %recipe)  ; others may drop it from the dictionary
  %bytes = call ptr @PyTuple_GetItem(ptr %recipe, i64 0)
  %words = call ptr @PyBytes_AsString(ptr %bytes)
  %ready = call i1 @ready(ptr %frame, ptr %words)
  br i1 %ready, label %follow, label %unready
unready:
  call void @Py_DecRef(ptr %recipe)
  br label %in.python
follow:
  %result = call ptr @follow(ptr %frame, ptr %words, ptr %raised)
  call void @Py_DecRef(ptr %recipe)
  call void @leave(ptr %frame)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %why, label %done
done:
  ret ptr %result
why:
  %error = call ptr @PyErr_Occurred()
  %blockless = icmp eq ptr %error, null
  %launch = load i1, ptr %raised
  br i1 %blockless, label %unheard, label %whose
unheard:
  br i1 %launch, label %flagged, label %blocks
flagged:
  %flagged.result = call ptr @PyObject_Call(ptr %long, ptr %args, ptr %kwargs)
  ret ptr %flagged.result
blocks:  ; no block waited
  %blocks.result = call ptr @PyObject_Call(ptr %python, ptr %args, ptr %kwargs)
  ret ptr %blocks.result
whose:
  br i1 %launch, label %refused, label %passed
refused:
  %nothing = call ptr @refuse(ptr %refuse)
  ret ptr %nothing
passed:
  ret ptr null
miss:
  %unhashable = call ptr @PyErr_Occurred()
  %hashed = icmp eq ptr %unhashable, null
  br i1 %hashed, label %miss.exact, label %unknown.key
miss.exact:
  %long.key = call ptr @exact_key(ptr %frame)
  %long.keyless = icmp eq ptr %long.key, null
  br i1 %long.keyless, label %unknown.key, label %learn.it
learn.it:
  call void @leave(ptr %frame)
  %no.kwargs = icmp eq ptr %kwargs, null
  %given = select i1 %no.kwargs, ptr %none, ptr %kwargs
  %learnt = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %learn, ptr %key, ptr %long.key, ptr %args, ptr %given, ptr null)
  call void @Py_DecRef(ptr %key)
  call void @Py_DecRef(ptr %long.key)
  ret ptr %learnt
in.full:
  call void @leave(ptr %frame)
  %full.result = call ptr @PyObject_Call(ptr %long, ptr %args, ptr %kwargs)
  ret ptr %full.result
in.python:
  call void @PyErr_Clear()
  call void @leave(ptr %frame)
  %python.result = call ptr @PyObject_Call(ptr %python, ptr %args, ptr %kwargs)
  ret ptr %python.result
}
