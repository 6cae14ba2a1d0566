

define void @"atlas_add_i8.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
entry:
  %v1 = getelementptr inbounds i64, ptr %arguments, i64 0
  %v2 = load ptr, ptr %v1, align 8
  %v3 = getelementptr inbounds i64, ptr %arguments, i64 1
  %v4 = load ptr, ptr %v3, align 8
  %v5 = getelementptr inbounds i64, ptr %arguments, i64 2
  %v6 = load ptr, ptr %v5, align 8
  %v7 = getelementptr inbounds i64, ptr %arguments, i64 3
  %v8 = load i64, ptr %v7, align 8
  br label %head9
head9:
  %i13 = phi i64 [ %begin, %entry ], [ %i14, %latch11 ]
  %v15 = icmp slt i64 %i13, %end
  br i1 %v15, label %body10, label %done12
body10:
  %v16 = getelementptr inbounds i8, ptr %v2, i64 %i13
  %v17 = load i8, ptr %v16, align 1, !llvm.access.group !0
  %v18 = getelementptr inbounds i8, ptr %v4, i64 %i13
  %v19 = load i8, ptr %v18, align 1, !llvm.access.group !0
  %v20 = add i8 %v17, %v19
  %v21 = getelementptr inbounds i8, ptr %v6, i64 %i13
  store i8 %v20, ptr %v21, align 1, !llvm.access.group !0
  br label %latch11
latch11:
  %i14 = add nsw i64 %i13, 1
  br label %head9, !llvm.loop !3
done12:
  ret void
}

!0 = distinct !{}
!1 = !{!"llvm.loop.parallel_accesses", !0}
!2 = !{!"llvm.loop.vectorize.followup_epilogue", !{!"llvm.loop.unroll.runtime.disable"}, !{!"llvm.loop.isvectorized", i32 1}}
!3 = distinct !{!3, !1, !2}
