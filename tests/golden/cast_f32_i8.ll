

define void @"atlas_cast_f32_i8.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
entry:
  %v1 = getelementptr inbounds i64, ptr %arguments, i64 0
  %v2 = load ptr, ptr %v1, align 8
  %v3 = getelementptr inbounds i64, ptr %arguments, i64 1
  %v4 = load ptr, ptr %v3, align 8
  %v5 = getelementptr inbounds i64, ptr %arguments, i64 3
  %v6 = load i64, ptr %v5, align 8
  %v7 = getelementptr inbounds i64, ptr %arguments, i64 4
  %v8 = load i64, ptr %v7, align 8
  %v9 = getelementptr inbounds i64, ptr %arguments, i64 2
  %v10 = load i64, ptr %v9, align 8
  br label %head11
head11:
  %i15 = phi i64 [ %begin, %entry ], [ %i16, %latch13 ]
  %v17 = icmp slt i64 %i15, %end
  br i1 %v17, label %body12, label %done14
body12:
  %v18 = getelementptr inbounds float, ptr %v2, i64 %i15
  %v19 = load float, ptr %v18, align 4, !llvm.access.group !0
  %v20 = fptosi float %v19 to i8
  %v21 = fcmp ole float %v19, 0xC060000000000000
  %v22 = fcmp oge float %v19, 0x4060000000000000
  %v23 = select i1 %v21, i8 -128, i8 %v20
  %v24 = select i1 %v22, i8 127, i8 %v23
  %v25 = fcmp uno float %v19, %v19
  %v26 = select i1 %v25, i8 0, i8 %v24
  %v27 = getelementptr inbounds i8, ptr %v4, i64 %i15
  store i8 %v26, ptr %v27, align 1, !llvm.access.group !0
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
