

define void @"atlas_where_f32.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
entry:
  %v1 = getelementptr inbounds i64, ptr %arguments, i64 0
  %v2 = load ptr, ptr %v1, align 8
  %v3 = getelementptr inbounds i64, ptr %arguments, i64 1
  %v4 = load ptr, ptr %v3, align 8
  %v5 = getelementptr inbounds i64, ptr %arguments, i64 2
  %v6 = load ptr, ptr %v5, align 8
  %v7 = getelementptr inbounds i64, ptr %arguments, i64 3
  %v8 = load ptr, ptr %v7, align 8
  %v9 = getelementptr inbounds i64, ptr %arguments, i64 4
  %v10 = load i64, ptr %v9, align 8
  br label %head11
head11:
  %i15 = phi i64 [ %begin, %entry ], [ %i16, %latch13 ]
  %v17 = icmp slt i64 %i15, %end
  br i1 %v17, label %body12, label %done14
body12:
  %v18 = getelementptr inbounds i8, ptr %v2, i64 %i15
  %v19 = load i8, ptr %v18, align 1, !llvm.access.group !0
  %v20 = icmp ne i8 %v19, 0
  %v21 = getelementptr inbounds float, ptr %v4, i64 %i15
  %v22 = load float, ptr %v21, align 4, !llvm.access.group !0
  %v23 = getelementptr inbounds float, ptr %v6, i64 %i15
  %v24 = load float, ptr %v23, align 4, !llvm.access.group !0
  %v25 = select i1 %v20, float %v22, float %v24
  %v26 = getelementptr inbounds float, ptr %v8, i64 %i15
  store float %v25, ptr %v26, align 4, !llvm.access.group !0
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
