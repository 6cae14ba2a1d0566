; Matrix products as steps of the pool's launches: batches of products cut into strips of rows, each strip one call of
; a BLAS that is held to one thread from @enter to @leave, the steps before and after.
;
; A prelude, written by blas.py, defines
;   %size, @size(i64)        the integers of this BLAS, and a number as one
;   %number                  what it multiplies: float or double
;   @relax(), @yield()       as in workers.ll

; Guards the BLAS's own number of threads, which is one for the whole process.
%gate = type { i32, i32, i32, i32, ptr, ptr }   ; lock, launches inside, threads to go back to, -, get, set

; BLAS's words: order is 101 for rows along memory, 102 for columns; 111 takes an operand as it lies, 112 transposed.
; Steps are in bytes, from row to row and from matrix to matrix.
%product = type {
  ptr, i64, i64, i64,                           ; gemm or gemv, order, how it takes a, how it takes b
  i64, i64, i64,                                ; m, n, k
  ptr, i64, i64, i64,                           ; a, its leading dimension, steps
  ptr, i64, i64,                                ; b (gemv: with the stride of x), step from matrix to matrix
  ptr, i64, i64, i64,                           ; c (gemv: with the stride of y), steps
  i64, i64                                      ; rows of a strip, strips of a matrix
}

%strip = type { i64, ptr, ptr, ptr }            ; rows, and where a, b and c begin

define internal void @lock(ptr %gate) {
entry:
  br label %try
try:
  %tried = phi i64 [ 0, %entry ], [ %tried.more, %spin ], [ 0, %give ]
  %swap = cmpxchg ptr %gate, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %swap, 1
  br i1 %mine, label %done, label %wait
wait:
  %patient = icmp slt i64 %tried, 100
  br i1 %patient, label %spin, label %give
spin:
  call void @relax()
  %tried.more = add i64 %tried, 1
  br label %try
give:
  call void @yield()
  br label %try
done:
  ret void
}

; The first launch in sets the BLAS to one thread. What it was before is kept; a forked child may still hold it.
define void @enter(ptr %gate, i64 %begin, i64 %end) {
entry:
  %inside.at = getelementptr %gate, ptr %gate, i32 0, i32 1
  %before.at = getelementptr %gate, ptr %gate, i32 0, i32 2
  %get.at = getelementptr %gate, ptr %gate, i32 0, i32 4
  %set.at = getelementptr %gate, ptr %gate, i32 0, i32 5
  call void @lock(ptr %gate)
  %inside = load i32, ptr %inside.at
  %inside.more = add i32 %inside, 1
  store i32 %inside.more, ptr %inside.at
  %others = icmp ne i32 %inside, 0
  br i1 %others, label %done, label %ask
ask:
  %get = load ptr, ptr %get.at
  %threads = call i32 %get()
  %one = icmp eq i32 %threads, 1
  br i1 %one, label %done, label %hold
hold:
  store i32 %threads, ptr %before.at
  %set = load ptr, ptr %set.at
  call void %set(i32 1)
  br label %done
done:
  store atomic i32 0, ptr %gate release, align 4
  ret void
}

; The last one out gives the BLAS its threads back, unless somebody set another number meanwhile.
define void @leave(ptr %gate, i64 %begin, i64 %end) {
entry:
  %inside.at = getelementptr %gate, ptr %gate, i32 0, i32 1
  %before.at = getelementptr %gate, ptr %gate, i32 0, i32 2
  %get.at = getelementptr %gate, ptr %gate, i32 0, i32 4
  %set.at = getelementptr %gate, ptr %gate, i32 0, i32 5
  call void @lock(ptr %gate)
  %inside = load i32, ptr %inside.at
  %inside.less = sub i32 %inside, 1
  store i32 %inside.less, ptr %inside.at
  %before = load i32, ptr %before.at
  %last = icmp eq i32 %inside.less, 0
  %held = icmp ne i32 %before, 0
  %ours = and i1 %last, %held
  br i1 %ours, label %ask, label %done
ask:
  store i32 0, ptr %before.at
  %get = load ptr, ptr %get.at
  %threads = call i32 %get()
  %one = icmp eq i32 %threads, 1
  br i1 %one, label %restore, label %done
restore:
  %set = load ptr, ptr %set.at
  call void %set(i32 %before)
  br label %done
done:
  store atomic i32 0, ptr %gate release, align 4
  ret void
}

; Which strip a number stands for.
define internal %strip @find(%product %p, i64 %number) alwaysinline {
  %m = extractvalue %product %p, 4
  %a = extractvalue %product %p, 7
  %a.row = extractvalue %product %p, 9
  %a.matrix = extractvalue %product %p, 10
  %b = extractvalue %product %p, 11
  %b.matrix = extractvalue %product %p, 13
  %c = extractvalue %product %p, 14
  %c.row = extractvalue %product %p, 16
  %c.matrix = extractvalue %product %p, 17
  %height = extractvalue %product %p, 18
  %strips = extractvalue %product %p, 19
  %matrix = udiv i64 %number, %strips
  %index = urem i64 %number, %strips
  %first = mul i64 %index, %height
  %left = sub i64 %m, %first
  %rows = call i64 @llvm.smin.i64(i64 %height, i64 %left)
  %a.matrix.offset = mul i64 %matrix, %a.matrix
  %a.row.offset = mul i64 %first, %a.row
  %a.offset = add i64 %a.matrix.offset, %a.row.offset
  %a.at = getelementptr i8, ptr %a, i64 %a.offset
  %b.offset = mul i64 %matrix, %b.matrix
  %b.at = getelementptr i8, ptr %b, i64 %b.offset
  %c.matrix.offset = mul i64 %matrix, %c.matrix
  %c.row.offset = mul i64 %first, %c.row
  %c.offset = add i64 %c.matrix.offset, %c.row.offset
  %c.at = getelementptr i8, ptr %c, i64 %c.offset
  %s.0 = insertvalue %strip poison, i64 %rows, 0
  %s.1 = insertvalue %strip %s.0, ptr %a.at, 1
  %s.2 = insertvalue %strip %s.1, ptr %b.at, 2
  %s.3 = insertvalue %strip %s.2, ptr %c.at, 3
  ret %strip %s.3
}

; Strips begin .. end of products of matrices.
define void @matrices(ptr %arguments, i64 %begin, i64 %end) {
entry:
  %p = load %product, ptr %arguments
  %gemm = extractvalue %product %p, 0
  %order.wide = extractvalue %product %p, 1
  %a.as.wide = extractvalue %product %p, 2
  %b.as.wide = extractvalue %product %p, 3
  %order = trunc i64 %order.wide to i32
  %a.as = trunc i64 %a.as.wide to i32
  %b.as = trunc i64 %b.as.wide to i32
  %n.wide = extractvalue %product %p, 5
  %k.wide = extractvalue %product %p, 6
  %lda.wide = extractvalue %product %p, 8
  %ldb.wide = extractvalue %product %p, 12
  %ldc.wide = extractvalue %product %p, 15
  %n = call %size @size(i64 %n.wide)
  %k = call %size @size(i64 %k.wide)
  %lda = call %size @size(i64 %lda.wide)
  %ldb = call %size @size(i64 %ldb.wide)
  %ldc = call %size @size(i64 %ldc.wide)
  br label %each
each:
  %number = phi i64 [ %begin, %entry ], [ %number.next, %each ]
  %s = call %strip @find(%product %p, i64 %number)
  %rows.wide = extractvalue %strip %s, 0
  %a = extractvalue %strip %s, 1
  %b = extractvalue %strip %s, 2
  %c = extractvalue %strip %s, 3
  %rows = call %size @size(i64 %rows.wide)
  call void %gemm(i32 %order, i32 %a.as, i32 %b.as, %size %rows, %size %n, %size %k, %number 1.0, ptr %a, %size %lda, ptr %b, %size %ldb, %number 0.0, ptr %c, %size %ldc)
    %number.next = add i64 %number, 1
  %more = icmp slt i64 %number.next, %end
  br i1 %more, label %each, label %done
done:
  ret void
}

; Strips begin .. end of products of a matrix and a vector (n = 1).
define void @vectors(ptr %arguments, i64 %begin, i64 %end) {
entry:
  %p = load %product, ptr %arguments
  %gemv = extractvalue %product %p, 0
  %order.wide = extractvalue %product %p, 1
  %a.as.wide = extractvalue %product %p, 2
  %order = trunc i64 %order.wide to i32
  %a.as = trunc i64 %a.as.wide to i32
  %k.wide = extractvalue %product %p, 6
  %lda.wide = extractvalue %product %p, 8
  %incx.wide = extractvalue %product %p, 12
  %incy.wide = extractvalue %product %p, 15
  %k = call %size @size(i64 %k.wide)
  %lda = call %size @size(i64 %lda.wide)
  %incx = call %size @size(i64 %incx.wide)
  %incy = call %size @size(i64 %incy.wide)
  br label %each
each:
  %number = phi i64 [ %begin, %entry ], [ %number.next, %each ]
  %s = call %strip @find(%product %p, i64 %number)
  %rows.wide = extractvalue %strip %s, 0
  %a = extractvalue %strip %s, 1
  %x = extractvalue %strip %s, 2
  %y = extractvalue %strip %s, 3
  %rows = call %size @size(i64 %rows.wide)
  call void %gemv(i32 %order, i32 %a.as, %size %rows, %size %k, %number 1.0, ptr %a, %size %lda, ptr %x, %size %incx, %number 0.0, ptr %y, %size %incy)
    %number.next = add i64 %number, 1
  %more = icmp slt i64 %number.next, %end
  br i1 %more, label %each, label %done
done:
  ret void
}

declare i64 @llvm.smin.i64(i64, i64)
