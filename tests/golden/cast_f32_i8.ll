

define void @"atlas_cast_f32_i8.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
entry:
  %v1 = getelementptr inbounds i64, ptr %arguments, i64 0
  %v2 = load ptr, ptr %v1, align 8
  %v3 = getelementptr inbounds i64, ptr %arguments, i64 1
  %v4 = load ptr, ptr %v3, align 8
  %v5 = getelementptr inbounds i64, ptr %arguments, i64 2
  %v6 = load i64, ptr %v5, align 8
  br label %head7
head7:
  %i11 = phi i64 [ %begin, %entry ], [ %i12, %latch9 ]
  %v13 = icmp slt i64 %i11, %end
  br i1 %v13, label %body8, label %done10
body8:
  %v14 = getelementptr inbounds float, ptr %v2, i64 %i11
  %v15 = load float, ptr %v14, align 4, !llvm.access.group !0
  %v16 = fptosi float %v15 to i8
  %v17 = fcmp ole float %v15, 0xC060000000000000
  %v18 = fcmp oge float %v15, 0x4060000000000000
  %v19 = select i1 %v17, i8 -128, i8 %v16
  %v20 = select i1 %v18, i8 127, i8 %v19
  %v21 = fcmp uno float %v15, %v15
  %v22 = select i1 %v21, i8 0, i8 %v20
  %v23 = getelementptr inbounds i8, ptr %v4, i64 %i11
  store i8 %v22, ptr %v23, align 1, !llvm.access.group !0
  br label %latch9
latch9:
  %i12 = add nsw i64 %i11, 1
  br label %head7, !llvm.loop !3
done10:
  ret void
}

!0 = distinct !{}
!1 = !{!"llvm.loop.parallel_accesses", !0}
!2 = !{!"llvm.loop.vectorize.followup_epilogue", !{!"llvm.loop.unroll.runtime.disable"}, !{!"llvm.loop.isvectorized", i32 1}}
!3 = distinct !{!3, !1, !2}
