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
