

define void @"atlas_add_f32.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
entry:
  %v1 = getelementptr inbounds i64, ptr %arguments, i64 0
  %v2 = load ptr, ptr %v1, align 8
  %v3 = getelementptr inbounds i64, ptr %arguments, i64 1
  %v4 = load ptr, ptr %v3, align 8
  %v5 = getelementptr inbounds i64, ptr %arguments, i64 2
  %v6 = load ptr, ptr %v5, align 8
  %v7 = getelementptr inbounds i64, ptr %arguments, i64 4
  %v8 = load i64, ptr %v7, align 8
  %v9 = getelementptr inbounds i64, ptr %arguments, i64 5
  %v10 = load i64, ptr %v9, align 8
  %v11 = getelementptr inbounds i64, ptr %arguments, i64 6
  %v12 = load i64, ptr %v11, align 8
  %v13 = getelementptr inbounds i64, ptr %arguments, i64 3
  %v14 = load i64, ptr %v13, align 8
  br label %head15
head15:
  %i19 = phi i64 [ %begin, %entry ], [ %i20, %latch17 ]
  %v21 = icmp slt i64 %i19, %end
  br i1 %v21, label %body16, label %done18
body16:
  %v22 = getelementptr inbounds float, ptr %v2, i64 %i19
  %v23 = load float, ptr %v22, align 4, !llvm.access.group !0
  %v24 = getelementptr inbounds float, ptr %v4, i64 %i19
  %v25 = load float, ptr %v24, align 4, !llvm.access.group !0
  %v26 = fadd float %v23, %v25
  %v27 = getelementptr inbounds float, ptr %v6, i64 %i19
  store float %v26, ptr %v27, align 4, !llvm.access.group !0
  br label %latch17
latch17:
  %i20 = add nsw i64 %i19, 1
  br label %head15, !llvm.loop !3
done18:
  ret void
}

!0 = distinct !{}
!1 = !{!"llvm.loop.parallel_accesses", !0}
!2 = !{!"llvm.loop.vectorize.followup_epilogue", !{!"llvm.loop.unroll.runtime.disable"}, !{!"llvm.loop.isvectorized", i32 1}}
!3 = distinct !{!3, !1, !2}
