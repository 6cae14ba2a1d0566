

define void @"atlas_histogram_i32.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
entry:
  %v1 = getelementptr inbounds i64, ptr %arguments, i64 2
  %v2 = load i32, ptr %v1, align 8
  %v3 = getelementptr inbounds i64, ptr %arguments, i64 3
  %v4 = load i64, ptr %v3, align 8
  %v5 = getelementptr inbounds i64, ptr %arguments, i64 0
  %v6 = load ptr, ptr %v5, align 8
  %v7 = getelementptr inbounds i64, ptr %arguments, i64 1
  %v8 = load ptr, ptr %v7, align 8
  %v9 = getelementptr inbounds i64, ptr %arguments, i64 4
  %v10 = load i64, ptr %v9, align 8
  br label %head11
head11:
  %i15 = phi i64 [ %begin, %entry ], [ %i16, %latch13 ]
  %v17 = icmp slt i64 %i15, %end
  br i1 %v17, label %body12, label %done14
body12:
  %v18 = getelementptr inbounds i32, ptr %v6, i64 %i15
  %v19 = load i32, ptr %v18, align 4, !llvm.access.group !0
  %v20 = and i32 %v19, 15
  %v21 = sext i32 %v20 to i64
  %v22 = icmp slt i64 %v21, %v4
  %v23 = icmp sge i64 %v21, 0
  %v24 = and i1 %v23, %v22
  br i1 %v24, label %then25, label %else26
then25:
  %v28 = getelementptr inbounds i32, ptr %v8, i64 %v21
  %v29 = atomicrmw add ptr %v28, i32 %v2 seq_cst, align 4
  br label %done27
else26:
  br label %done27
done27:
  %v30 = phi i32 [ %v29, %then25 ], [ 0, %else26 ]
  br label %latch13
latch13:
  %i16 = add nsw i64 %i15, 1
  br label %head11, !llvm.loop !3
done14:
  ret void
}

!0 = distinct !{}
!1 = !{!"llvm.loop.parallel_accesses", !0}
!2 = !{!"llvm.loop.vectorize.followup_epilogue", !{!"llvm.loop.unroll.runtime.disable"}, !{!"llvm.loop.isvectorized", i32 1}}
!3 = distinct !{!3, !1, !2}
