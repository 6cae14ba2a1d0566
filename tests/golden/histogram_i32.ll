

define void @"atlas_histogram_i32.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
entry:
  %v1 = getelementptr inbounds i64, ptr %arguments, i64 2
  %v2 = load i32, ptr %v1, align 8
  %v3 = getelementptr inbounds i64, ptr %arguments, i64 0
  %v4 = load ptr, ptr %v3, align 8
  %v5 = getelementptr inbounds i64, ptr %arguments, i64 1
  %v6 = load ptr, ptr %v5, align 8
  %v7 = getelementptr inbounds i64, ptr %arguments, i64 4
  %v8 = load i64, ptr %v7, align 8
  %v9 = getelementptr inbounds i64, ptr %arguments, i64 5
  %v10 = load i64, ptr %v9, align 8
  %v11 = getelementptr inbounds i64, ptr %arguments, i64 3
  %v12 = load i64, ptr %v11, align 8
  br label %head13
head13:
  %i17 = phi i64 [ %begin, %entry ], [ %i18, %latch15 ]
  %v19 = icmp slt i64 %i17, %end
  br i1 %v19, label %body14, label %done16
body14:
  %v20 = getelementptr inbounds i32, ptr %v4, i64 %i17
  %v21 = load i32, ptr %v20, align 4, !llvm.access.group !0
  %v22 = and i32 %v21, 15
  %v23 = sext i32 %v22 to i64
  %v26 = icmp ult i64 %v23, %v10
  br i1 %v26, label %inside24, label %done25
inside24:
  %v27 = getelementptr inbounds i32, ptr %v6, i64 %v23
  %v28 = atomicrmw add ptr %v27, i32 %v2 seq_cst, align 4
  br label %done25
done25:
  %v29 = phi i32 [ %v28, %inside24 ], [ 0, %body14 ]
  br label %latch15
latch15:
  %i18 = add nsw i64 %i17, 1
  br label %head13, !llvm.loop !3
done16:
  ret void
}

!0 = distinct !{}
!1 = !{!"llvm.loop.parallel_accesses", !0}
!2 = !{!"llvm.loop.vectorize.followup_epilogue", !{!"llvm.loop.unroll.runtime.disable"}, !{!"llvm.loop.isvectorized", i32 1}}
!3 = distinct !{!3, !1, !2}
