; Views of tensors of the device, without Python: what PyTorch's kernels for the host do to sizes and strides.
;
; Each kernel is of the form that PyTorch's stable C interface asks for (torch/csrc/stable/c/shim.h): its arguments
; lie on a stack, are its own, and the result takes their place. Where a kernel does not know what to do (a view that
; cannot be, memory exceeded, no elements) it asks @slow_view, which is Python, and throws what that says.

declare i32 @torch_list_size(ptr, ptr)
declare i32 @torch_list_get_item(ptr, i64, ptr)
declare i32 @torch_new_list_reserve_size(i64, ptr)
declare i32 @torch_list_push_back(ptr, i64)
declare i32 @torch_delete_list(ptr)
declare i32 @torch_new_stable_ivalue(ptr)
declare i32 @torch_delete_stable_ivalue(ptr)
declare i32 @torch_call_dispatcher(ptr, ptr, ptr, i64)
declare i32 @aoti_torch_new_tensor_handle(ptr, ptr)
declare i32 @aoti_torch_delete_tensor_object(ptr)
declare i32 @aoti_torch__reinterpret_tensor(ptr, i64, ptr, ptr, i64, ptr)
declare i32 @aoti_torch_get_dim(ptr, ptr)
declare i32 @aoti_torch_get_numel(ptr, ptr)
declare i32 @aoti_torch_get_sizes(ptr, ptr)
declare i32 @aoti_torch_get_strides(ptr, ptr)
declare i32 @aoti_torch_get_storage_offset(ptr, ptr)
declare i32 @aoti_torch_get_storage_size(ptr, ptr)
declare i32 @aoti_torch_get_dtype(ptr, ptr)
declare i64 @aoti_torch_dtype_element_size(i32)
declare zeroext i1 @_ZN3c1013InferenceMode10is_enabledEv()
declare zeroext i1 @_ZN2at6native12is_inferenceERKNS_6TensorE(ptr)
declare void @_ZSt21__throw_runtime_errorPKc(ptr, i64, i64)  ; reads the first alone: `musttail` wants equal types

declare i64 @llvm.smax.i64(i64, i64)

; Python: tensor (which it takes), sizes, strides, offset, where the result goes; 0 if that is a message. Sizes and
; strides are preceded by how many they are. Without strides it is `view`, without an offset the tensor's own is meant.
declare i32 @slow_view(ptr, i64, ptr, i64, ptr, ptr, ptr)

@unknown = private constant [36 x i8] c"hologram: a view could not be made.\00"
@alias.name = private constant [12 x i8] c"aten::alias\00"
@as_strided_.name = private constant [18 x i8] c"aten::as_strided_\00"
@no.overload = private constant [1 x i8] c"\00"

; Takes the numbers of a list.
define internal void @read(ptr %list, i64 %count, ptr %to) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %at = getelementptr i64, ptr %to, i64 %i
  call i32 @torch_list_get_item(ptr %list, i64 %i, ptr %at)
  %after = add i64 %i, 1
  br label %next
done:
  call i32 @torch_delete_list(ptr %list)
  ret void
}

; Whether the elements that sizes and strides reach from an offset are in a tensor's memory; false for no elements.
define internal i1 @within(ptr %self, i64 %axes, ptr %sizes, ptr %strides, i64 %offset) {
entry:
  %bytes.at = alloca i64
  %dtype.at = alloca i32
  call i32 @aoti_torch_get_storage_size(ptr %self, ptr %bytes.at)
  call i32 @aoti_torch_get_dtype(ptr %self, ptr %dtype.at)
  %bytes = load i64, ptr %bytes.at
  %dtype = load i32, ptr %dtype.at
  %element = call i64 @aoti_torch_dtype_element_size(i32 %dtype)
  %begins = icmp sge i64 %offset, 0
  br i1 %begins, label %next, label %no
next:
  %i = phi i64 [ 0, %entry ], [ %after, %one ]
  %last = phi i64 [ %offset, %entry ], [ %reached, %one ]
  %more = icmp slt i64 %i, %axes
  br i1 %more, label %axis, label %measure
axis:
  %size.at = getelementptr i64, ptr %sizes, i64 %i
  %stride.at = getelementptr i64, ptr %strides, i64 %i
  %size = load i64, ptr %size.at
  %stride = load i64, ptr %stride.at
  %some = icmp sgt i64 %size, 0
  %forward = icmp sge i64 %stride, 0
  %usual = and i1 %some, %forward
  br i1 %usual, label %one, label %no
one:
  %steps = sub i64 %size, 1
  %way = mul i64 %steps, %stride
  %reached = add i64 %last, %way
  %after = add i64 %i, 1
  br label %next
measure:
  %count = add i64 %last, 1
  %needed = mul i64 %count, %element
  %fits = icmp sle i64 %needed, %bytes
  ret i1 %fits
no:
  ret i1 false
}

; A list of numbers, as PyTorch takes it.
define internal ptr @list(i64 %count, ptr %numbers) {
entry:
  %list.at = alloca ptr
  call i32 @torch_new_list_reserve_size(i64 %count, ptr %list.at)
  %list = load ptr, ptr %list.at
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %at = getelementptr i64, ptr %numbers, i64 %i
  %number = load i64, ptr %at
  call i32 @torch_list_push_back(ptr %list, i64 %number)
  %after = add i64 %i, 1
  br label %next
done:
  ret ptr %list
}

; A view of a tensor made under another inference mode than the current one: an alias belongs to the tensor's, and is
; given sizes and strides after that. Not 0 if it failed.
define internal i32 @alias(ptr %self, i64 %axes, ptr %sizes, ptr %strides, i64 %offset, ptr %result) {
entry:
  %call = alloca [4 x ptr]
  %copy.at = getelementptr [4 x ptr], ptr %call, i64 0, i64 0
  %sizes.at = getelementptr [4 x ptr], ptr %call, i64 0, i64 1
  %strides.at = getelementptr [4 x ptr], ptr %call, i64 0, i64 2
  %offset.at = getelementptr [4 x ptr], ptr %call, i64 0, i64 3
  call i32 @aoti_torch_new_tensor_handle(ptr %self, ptr %copy.at)
  %first = call i32 @torch_call_dispatcher(ptr @alias.name, ptr @no.overload, ptr %call, i64 147774362773094400)
  %failed = icmp ne i32 %first, 0
  br i1 %failed, label %end, label %place
place:
  %size.list = call ptr @list(i64 %axes, ptr %sizes)
  %stride.list = call ptr @list(i64 %axes, ptr %strides)
  store ptr %size.list, ptr %sizes.at
  store ptr %stride.list, ptr %strides.at
  call i32 @torch_new_stable_ivalue(ptr %offset.at)
  %optional = load ptr, ptr %offset.at
  store i64 %offset, ptr %optional
  %second = call i32 @torch_call_dispatcher(ptr @as_strided_.name, ptr @no.overload, ptr %call, i64 147774362773094400)
  %made = load ptr, ptr %copy.at
  store ptr %made, ptr %result
  br label %end
end:
  %error = phi i32 [ %first, %entry ], [ %second, %place ]
  ret i32 %error
}

; Puts a view at %result, or a message and gives 0: sizes, strides (null: PyTorch's `view` says which) and offset
; (null: the tensor's own).
define internal i32 @made(ptr %self, i64 %axes, ptr %sizes, i64 %steps, ptr %strides, ptr %offset, ptr %result) {
entry:
  %own.at = alloca i64
  %known = icmp ne ptr %strides, null
  %agree = icmp eq i64 %axes, %steps
  %usual = and i1 %known, %agree
  br i1 %usual, label %place, label %slow
place:
  call i32 @aoti_torch_get_storage_offset(ptr %self, ptr %own.at)
  %own = load i64, ptr %own.at
  %keeps = icmp eq ptr %offset, null
  %where.at = select i1 %keeps, ptr %own.at, ptr %offset
  %where = load i64, ptr %where.at
  %fits = call i1 @within(ptr %self, i64 %axes, ptr %sizes, ptr %strides, i64 %where)
  br i1 %fits, label %mode, label %slow
mode:  ; what @aoti_torch__reinterpret_tensor makes belongs to the current one
  %enabled = call zeroext i1 @_ZN3c1013InferenceMode10is_enabledEv()
  %inferred = call zeroext i1 @_ZN2at6native12is_inferenceERKNS_6TensorE(ptr %self)
  %alike = icmp eq i1 %enabled, %inferred
  br i1 %alike, label %quick, label %other
quick:
  %moved = sub i64 %where, %own
  %quick.error = call i32 @aoti_torch__reinterpret_tensor(ptr %self, i64 %axes, ptr %sizes, ptr %strides, i64 %moved, ptr %result)
  br label %check
other:
  %other.error = call i32 @alias(ptr %self, i64 %axes, ptr %sizes, ptr %strides, i64 %where, ptr %result)
  br label %check
check:
  %error = phi i32 [ %quick.error, %quick ], [ %other.error, %other ]
  %failed = icmp ne i32 %error, 0
  br i1 %failed, label %slow, label %done
done:
  call i32 @aoti_torch_delete_tensor_object(ptr %self)
  ret i32 1
slow:
  store ptr @unknown, ptr %result
  %found = call i32 @slow_view(ptr %self, i64 %axes, ptr %sizes, i64 %steps, ptr %strides, ptr %offset, ptr %result)
  ret i32 %found
}

; as_strided and _reshape_alias: sizes and strides are given.
define internal i32 @strided(ptr %stack, ptr %offset) {
  %axes.at = alloca i64
  %steps.at = alloca i64
  %sizes.at = getelementptr ptr, ptr %stack, i64 1
  %strides.at = getelementptr ptr, ptr %stack, i64 2
  %self = load ptr, ptr %stack
  %size.list = load ptr, ptr %sizes.at
  %stride.list = load ptr, ptr %strides.at
  call i32 @torch_list_size(ptr %size.list, ptr %axes.at)
  call i32 @torch_list_size(ptr %stride.list, ptr %steps.at)
  %axes = load i64, ptr %axes.at
  %steps = load i64, ptr %steps.at
  %sizes = alloca i64, i64 %axes
  %strides = alloca i64, i64 %steps
  call void @read(ptr %size.list, i64 %axes, ptr %sizes)
  call void @read(ptr %stride.list, i64 %steps, ptr %strides)
  %found = call i32 @made(ptr %self, i64 %axes, ptr %sizes, i64 %steps, ptr %strides, ptr %offset, ptr %stack)
  ret i32 %found
}

; Strides by which axes of other sizes run through the same elements (ATen/TensorUtils.cpp, computeStride_impl):
; old axes that can be run through as one are a chunk, which new axes share among them, the last first. False if
; there are none, and where no element is.
define internal i1 @shared(i64 %axes, ptr %sizes, i64 %news, ptr %wanted, ptr %found, ptr %strides) {
entry:
  %new.at = alloca i64    ; axes to be given strides
  %old.at = alloca i64    ; axes to be looked at
  %whole.at = alloca i64  ; elements of the chunk, of its axes looked at
  %given.at = alloca i64  ; of these, those that new axes run through
  %base.at = alloca i64   ; stride of the chunk
  %some = icmp sgt i64 %axes, 0
  br i1 %some, label %begin, label %no
begin:
  store i64 %news, ptr %new.at
  store i64 %axes, ptr %old.at
  store i64 1, ptr %whole.at
  store i64 1, ptr %given.at
  %last = sub i64 %axes, 1
  %last.stride.at = getelementptr i64, ptr %strides, i64 %last
  %last.stride = load i64, ptr %last.stride.at
  store i64 %last.stride, ptr %base.at
  br label %axis
axis:
  %old = load i64, ptr %old.at
  %left = sub i64 %old, 1
  %more = icmp sge i64 %left, 0
  br i1 %more, label %look, label %end
look:
  store i64 %left, ptr %old.at
  %size.at = getelementptr i64, ptr %sizes, i64 %left
  %size = load i64, ptr %size.at
  %before = load i64, ptr %whole.at
  %whole = mul i64 %before, %size
  store i64 %whole, ptr %whole.at
  %any = icmp sgt i64 %size, 0
  br i1 %any, label %chunk, label %no
chunk:  ; does it go on with the axis before?
  %first = icmp eq i64 %left, 0
  br i1 %first, label %share, label %neighbour
neighbour:
  %above = sub i64 %left, 1
  %above.size.at = getelementptr i64, ptr %sizes, i64 %above
  %above.size = load i64, ptr %above.size.at
  %above.stride.at = getelementptr i64, ptr %strides, i64 %above
  %above.stride = load i64, ptr %above.stride.at
  %base = load i64, ptr %base.at
  %onward = mul i64 %whole, %base
  %joins = icmp eq i64 %above.stride, %onward
  %single = icmp eq i64 %above.size, 1
  %same.chunk = or i1 %joins, %single
  br i1 %same.chunk, label %axis, label %share
share:
  %new = load i64, ptr %new.at
  %number = sub i64 %new, 1
  %some.new = icmp sge i64 %number, 0
  br i1 %some.new, label %consider, label %shares
consider:
  %wanted.at = getelementptr i64, ptr %wanted, i64 %number
  %want = load i64, ptr %wanted.at
  %given = load i64, ptr %given.at
  %room = icmp slt i64 %given, %whole
  %one = icmp eq i64 %want, 1
  %takes = or i1 %room, %one
  br i1 %takes, label %take, label %shares
take:
  %real = icmp sgt i64 %want, 0
  br i1 %real, label %set, label %no
set:
  %chunk.base = load i64, ptr %base.at
  %stride = mul i64 %given, %chunk.base
  %to = getelementptr i64, ptr %found, i64 %number
  store i64 %stride, ptr %to
  %taken = mul i64 %given, %want
  store i64 %taken, ptr %given.at
  store i64 %number, ptr %new.at
  br label %share
shares:
  %used = load i64, ptr %given.at
  %all = icmp eq i64 %used, %whole
  br i1 %all, label %next, label %no
next:
  store i64 1, ptr %whole.at
  store i64 1, ptr %given.at
  %further = icmp sgt i64 %left, 0
  br i1 %further, label %rebase, label %axis
rebase:
  %next.number = sub i64 %left, 1
  %next.stride.at = getelementptr i64, ptr %strides, i64 %next.number
  %next.stride = load i64, ptr %next.stride.at
  store i64 %next.stride, ptr %base.at
  br label %axis
end:
  %unset = load i64, ptr %new.at
  %complete = icmp eq i64 %unset, 0
  ret i1 %complete
no:
  ret i1 false
}

; Puts the size that -1 stands for in its place, if there is one such size.
define internal void @complete(i64 %news, ptr %wanted, i64 %elements) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %one ]
  %known = phi i64 [ 1, %entry ], [ %product, %one ]
  %open = phi i64 [ -1, %entry ], [ %opened, %one ]
  %more = icmp slt i64 %i, %news
  br i1 %more, label %one, label %end
one:
  %at = getelementptr i64, ptr %wanted, i64 %i
  %size = load i64, ptr %at
  %unknown = icmp eq i64 %size, -1
  %opened = select i1 %unknown, i64 %i, i64 %open
  %first = icmp slt i64 %open, 0
  %once = zext i1 %first to i64  ; 0 for a second -1, which PyTorch refuses
  %least = call i64 @llvm.smax.i64(i64 %size, i64 0)
  %factor = select i1 %unknown, i64 %once, i64 %least
  %product = mul i64 %known, %factor
  %after = add i64 %i, 1
  br label %next
end:
  %asked = icmp sge i64 %open, 0
  %some = icmp sgt i64 %known, 0
  %fill = and i1 %asked, %some
  br i1 %fill, label %divide, label %done
divide:
  %rest = urem i64 %elements, %known
  %even = icmp eq i64 %rest, 0
  br i1 %even, label %set, label %done
set:
  %size.found = udiv i64 %elements, %known
  %to = getelementptr i64, ptr %wanted, i64 %open
  store i64 %size.found, ptr %to
  br label %done
done:
  ret void
}

define internal i32 @viewed(ptr %stack) {
  %axes.at = alloca i64
  %news.at = alloca i64
  %elements.at = alloca i64
  %sizes.at = alloca ptr
  %strides.at = alloca ptr
  %list.at = getelementptr ptr, ptr %stack, i64 1
  %self = load ptr, ptr %stack
  %list = load ptr, ptr %list.at
  call i32 @torch_list_size(ptr %list, ptr %news.at)
  call i32 @aoti_torch_get_dim(ptr %self, ptr %axes.at)
  call i32 @aoti_torch_get_numel(ptr %self, ptr %elements.at)
  call i32 @aoti_torch_get_sizes(ptr %self, ptr %sizes.at)
  call i32 @aoti_torch_get_strides(ptr %self, ptr %strides.at)
  %news = load i64, ptr %news.at
  %axes = load i64, ptr %axes.at
  %elements = load i64, ptr %elements.at
  %sizes = load ptr, ptr %sizes.at
  %strides = load ptr, ptr %strides.at
  %wanted = alloca i64, i64 %news
  %found = alloca i64, i64 %news
  call void @read(ptr %list, i64 %news, ptr %wanted)
  call void @complete(i64 %news, ptr %wanted, i64 %elements)
  %shared = call i1 @shared(i64 %axes, ptr %sizes, i64 %news, ptr %wanted, ptr %found, ptr %strides)
  %by = select i1 %shared, ptr %found, ptr null
  %made = call i32 @made(ptr %self, i64 %news, ptr %wanted, i64 %news, ptr %by, ptr null, ptr %stack)
  ret i32 %made
}

; Kernels. They throw with no memory of theirs on the stack, so that nothing has to be unwound.

define void @view(ptr %stack, i64 %arguments, i64 %results) {
  %made = call i32 @viewed(ptr %stack)
  %well = icmp ne i32 %made, 0
  br i1 %well, label %done, label %refuse
done:
  ret void
refuse:
  %message = load ptr, ptr %stack
  musttail call void @_ZSt21__throw_runtime_errorPKc(ptr %message, i64 0, i64 0)
  ret void
}

define void @_reshape_alias(ptr %stack, i64 %arguments, i64 %results) {
  %made = call i32 @strided(ptr %stack, ptr null)
  %well = icmp ne i32 %made, 0
  br i1 %well, label %done, label %refuse
done:
  ret void
refuse:
  %message = load ptr, ptr %stack
  musttail call void @_ZSt21__throw_runtime_errorPKc(ptr %message, i64 0, i64 0)
  ret void
}

define void @as_strided(ptr %stack, i64 %arguments, i64 %results) {
  %offset.at = getelementptr ptr, ptr %stack, i64 3
  %offset = load ptr, ptr %offset.at
  %made = call i32 @strided(ptr %stack, ptr %offset)
  %given = icmp ne ptr %offset, null
  br i1 %given, label %release, label %end
release:
  call i32 @torch_delete_stable_ivalue(ptr %offset)
  br label %end
end:
  %well = icmp ne i32 %made, 0
  br i1 %well, label %done, label %refuse
done:
  ret void
refuse:
  %message = load ptr, ptr %stack
  musttail call void @_ZSt21__throw_runtime_errorPKc(ptr %message, i64 0, i64 0)
  ret void
}
