

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
  %v9 = getelementptr inbounds i64, ptr %arguments, i64 5
  %v10 = load i64, ptr %v9, align 8
  %v11 = getelementptr inbounds i64, ptr %arguments, i64 6
  %v12 = load i64, ptr %v11, align 8
  %v13 = getelementptr inbounds i64, ptr %arguments, i64 7
  %v14 = load i64, ptr %v13, align 8
  %v15 = getelementptr inbounds i64, ptr %arguments, i64 8
  %v16 = load i64, ptr %v15, align 8
  %v17 = getelementptr inbounds i64, ptr %arguments, i64 4
  %v18 = load i64, ptr %v17, align 8
  br label %head19
head19:
  %i23 = phi i64 [ %begin, %entry ], [ %i24, %latch21 ]
  %v25 = icmp slt i64 %i23, %end
  br i1 %v25, label %body20, label %done22
body20:
  %v26 = getelementptr inbounds i8, ptr %v2, i64 %i23
  %v27 = load i8, ptr %v26, align 1, !llvm.access.group !0
  %v28 = icmp ne i8 %v27, 0
  %v29 = getelementptr inbounds float, ptr %v4, i64 %i23
  %v30 = load float, ptr %v29, align 4, !llvm.access.group !0
  %v31 = getelementptr inbounds float, ptr %v6, i64 %i23
  %v32 = load float, ptr %v31, align 4, !llvm.access.group !0
  %v33 = select i1 %v28, float %v30, float %v32
  %v34 = getelementptr inbounds float, ptr %v8, i64 %i23
  store float %v33, ptr %v34, align 4, !llvm.access.group !0
  br label %latch21
latch21:
  %i24 = add nsw i64 %i23, 1
  br label %head19, !llvm.loop !3
done22:
  ret void
}

!0 = distinct !{}
!1 = !{!"llvm.loop.parallel_accesses", !0}
!2 = !{!"llvm.loop.vectorize.followup_epilogue", !{!"llvm.loop.unroll.runtime.disable"}, !{!"llvm.loop.isvectorized", i32 1}}
!3 = distinct !{!3, !1, !2}
