; Memory of the host that PyTorch's C++ calls pinned: an allocator (c10/core/Allocator.h) of plain memory whose deleter is
; @unpin, by which it is known again. c10::DataPtr is the address, the deleter, what it is given, and a device of two bytes:
; type 0, the host, and number -1. @allocator stands for getPinnedMemoryAllocator of the hooks: what it gives, @object, gets
; its table of functions from Python.

declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare void @_ZSt17__throw_bad_allocv(ptr sret({ ptr, ptr, ptr, i16 }), ptr, i64)  ; reads none: `musttail` wants equal types

@object = internal global ptr null

define ptr @allocator(ptr %hooks) {
  ret ptr @object
}

define void @unpin(ptr %memory) {
  call void @free(ptr %memory)
  ret void
}

define ptr @unpinned(ptr %self) {
  ret ptr @unpin
}

define void @allocate(ptr sret({ ptr, ptr, ptr, i16 }) %result, ptr %self, i64 %bytes) {
  %refused = call i32 @posix_memalign(ptr %result, i64 64, i64 %bytes)
  %given = icmp eq i32 %refused, 0
  br i1 %given, label %filled, label %exceeded

filled:
  %memory = load ptr, ptr %result
  %deleter = getelementptr { ptr, ptr, ptr, i16 }, ptr %result, i64 0, i32 1
  %context = getelementptr { ptr, ptr, ptr, i16 }, ptr %result, i64 0, i32 2
  %device = getelementptr { ptr, ptr, ptr, i16 }, ptr %result, i64 0, i32 3
  store ptr @unpin, ptr %deleter
  store ptr %memory, ptr %context
  store i16 -256, ptr %device
  ret void

exceeded:
  musttail call void @_ZSt17__throw_bad_allocv(ptr sret({ ptr, ptr, ptr, i16 }) %result, ptr %self, i64 %bytes)
  ret void
}
