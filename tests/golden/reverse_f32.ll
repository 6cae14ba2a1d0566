

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
  store [64 x float] zeroinitializer, ptr %a7, align 4
  br label %head17
head17:
  %i21 = phi i64 [ 0, %body10 ], [ %i22, %latch19 ]
  %v23 = icmp slt i64 %i21, 64
  br i1 %v23, label %body18, label %done20
body18:
  %v24 = add nsw i64 %v16, %i21
  %v25 = getelementptr inbounds float, ptr %v2, i64 %v24
  %v26 = load float, ptr %v25, align 4, !llvm.access.group !0
  %v27 = getelementptr inbounds float, ptr %a7, i64 %i21
  store float %v26, ptr %v27, align 4, !llvm.access.group !0
  br label %latch19
latch19:
  %i22 = add nsw i64 %i21, 1
  br label %head17, !llvm.loop !3
done20:
  br label %head28
head28:
  %i32 = phi i64 [ 0, %done20 ], [ %i33, %latch30 ]
  %v34 = icmp slt i64 %i32, 64
  br i1 %v34, label %body29, label %done31
body29:
  %v35 = add nsw i64 %v16, %i32
  %v36 = sub nsw i64 63, %i32
  %v37 = getelementptr inbounds float, ptr %a7, i64 %v36
  %v38 = load float, ptr %v37, align 4, !llvm.access.group !0
  %v39 = getelementptr inbounds float, ptr %v4, i64 %v35
  store float %v38, ptr %v39, align 4, !llvm.access.group !0
  br label %latch30
latch30:
  %i33 = add nsw i64 %i32, 1
  br label %head28, !llvm.loop !4
done31:
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
