declare i64 @llvm.smin.i64(i64, i64)

define void @"atlas_reverse_f32.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
entry:
  %a7 = alloca [64 x float], align 64
  %v1 = getelementptr inbounds i64, ptr %arguments, i64 0
  %v2 = load ptr, ptr %v1, align 8
  %v3 = getelementptr inbounds i64, ptr %arguments, i64 1
  %v4 = load ptr, ptr %v3, align 8
  %v5 = getelementptr inbounds i64, ptr %arguments, i64 2
  %v6 = load i64, ptr %v5, align 8
  %v8 = mul nsw i64 1, %v6
  br label %head9
head9:
  %i13 = phi i64 [ %begin, %entry ], [ %i14, %latch11 ]
  %v15 = icmp slt i64 %i13, %end
  br i1 %v15, label %body10, label %done12
body10:
  %v16 = mul nsw i64 %i13, 64
  %v17 = sub nsw i64 %v8, %v16
  %v18 = call i64 @llvm.smin.i64(i64 %v17, i64 64)
  store [64 x float] zeroinitializer, ptr %a7, align 4
  br label %head19
head19:
  %i23 = phi i64 [ 0, %body10 ], [ %i24, %latch21 ]
  %v25 = icmp slt i64 %i23, %v18
  br i1 %v25, label %body20, label %done22
body20:
  %v26 = add nsw i64 %v16, %i23
  %v27 = getelementptr inbounds float, ptr %v2, i64 %v26
  %v28 = load float, ptr %v27, align 4, !llvm.access.group !0
  %v29 = getelementptr inbounds float, ptr %a7, i64 %i23
  store float %v28, ptr %v29, align 4, !llvm.access.group !0
  br label %latch21
latch21:
  %i24 = add nsw i64 %i23, 1
  br label %head19, !llvm.loop !3
done22:
  br label %head30
head30:
  %i34 = phi i64 [ 0, %done22 ], [ %i35, %latch32 ]
  %v36 = icmp slt i64 %i34, %v18
  br i1 %v36, label %body31, label %done33
body31:
  %v37 = add nsw i64 %v16, %i34
  %v38 = sub nsw i64 63, %i34
  %v39 = getelementptr inbounds float, ptr %a7, i64 %v38
  %v40 = load float, ptr %v39, align 4, !llvm.access.group !0
  %v41 = getelementptr inbounds float, ptr %v4, i64 %v37
  store float %v40, ptr %v41, align 4, !llvm.access.group !0
  br label %latch32
latch32:
  %i35 = add nsw i64 %i34, 1
  br label %head30, !llvm.loop !4
done33:
  br label %latch11
latch11:
  %i14 = add nsw i64 %i13, 1
  br label %head9, !llvm.loop !6
done12:
  ret void
}

!0 = distinct !{}
!1 = !{!"llvm.loop.parallel_accesses", !0}
!2 = !{!"llvm.loop.vectorize.followup_epilogue", !{!"llvm.loop.unroll.runtime.disable"}, !{!"llvm.loop.isvectorized", i32 1}}
!3 = distinct !{!3, !1, !2}
!4 = distinct !{!4, !1, !2}
!5 = !{!"llvm.loop.unroll.runtime.disable"}
!6 = distinct !{!6, !5}
