; A tensor of the device over new memory: a function of Python's that calls torch._C._from_dlpack.
;
; What PyTorch is handed is one structure for all tensors: it reads it at once, while this thread holds Python's lock.

; DLManagedTensor (https://dmlc.github.io/dlpack/latest/c_api.html): data, device type, device, axes, element, shape,
; strides, byte offset, manager, deleter. It is never freed: a storage reads `deleter` once more when it dies.
%managed = type { i64, i32, i32, i32, i32, ptr, ptr, i64, ptr, ptr }

@managed = global %managed zeroinitializer
@name = private constant [9 x i8] c"dltensor\00"

declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyCapsule_New(ptr, ptr, ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare i32 @PyObject_SetAttr(ptr, ptr, ptr)
declare void @Py_DecRef(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; A tensor at %data, of what %record says but for that; its storage carries %payload. Null after an error.
; %with: the tuple (_from_dlpack, untyped_storage, "payload").
define ptr @tensor_over(ptr %with, ptr %record, ptr %data, ptr %payload) {
entry:
  call void @llvm.memcpy.p0.p0.i64(ptr @managed, ptr %record, i64 72, i1 false)
  store ptr %data, ptr @managed
  %capsule = call ptr @PyCapsule_New(ptr @managed, ptr @name, ptr null)
  %made = icmp ne ptr %capsule, null
  br i1 %made, label %import, label %failed
import:
  %from = call ptr @PyTuple_GetItem(ptr %with, i64 0)
  %tensor = call ptr @PyObject_CallOneArg(ptr %from, ptr %capsule)
  call void @Py_DecRef(ptr %capsule)
  %imported = icmp ne ptr %tensor, null
  br i1 %imported, label %hold, label %failed
hold:
  %storage.of = call ptr @PyTuple_GetItem(ptr %with, i64 1)
  %storage = call ptr @PyObject_CallOneArg(ptr %storage.of, ptr %tensor)
  %stored = icmp ne ptr %storage, null
  br i1 %stored, label %carry, label %drop
carry:
  %attribute = call ptr @PyTuple_GetItem(ptr %with, i64 2)
  %error = call i32 @PyObject_SetAttr(ptr %storage, ptr %attribute, ptr %payload)
  call void @Py_DecRef(ptr %storage)
  %well = icmp eq i32 %error, 0
  br i1 %well, label %done, label %drop
drop:
  call void @Py_DecRef(ptr %tensor)
  br label %failed
done:
  ret ptr %tensor
failed:
  ret ptr null
}

; fresh(record, data, payload): the record is the address of a structure.
define ptr @fresh(ptr %with, ptr %arguments, i64 %count) {
  %second.at = getelementptr ptr, ptr %arguments, i64 1
  %third.at = getelementptr ptr, ptr %arguments, i64 2
  %first = load ptr, ptr %arguments
  %second = load ptr, ptr %second.at
  %payload = load ptr, ptr %third.at
  %record = call ptr @PyLong_AsVoidPtr(ptr %first)
  %data = call ptr @PyLong_AsVoidPtr(ptr %second)
  %tensor = call ptr @tensor_over(ptr %with, ptr %record, ptr %data, ptr %payload)
  ret ptr %tensor
}
