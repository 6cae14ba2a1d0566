; Part of views.ll: what sizes and strides come to.

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
