declare i64 @llvm.smin.i64(i64, i64)

define void @"atlas_reverse_f32.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
entry:
  %a11 = alloca [65 x float], align 64
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
  %v12 = mul nsw i64 1, %v10
  br label %head13
head13:
  %i17 = phi i64 [ %begin, %entry ], [ %i18, %latch15 ]
  %v19 = icmp slt i64 %i17, %end
  br i1 %v19, label %body14, label %done16
body14:
  %v20 = mul nsw i64 %i17, 64
  %v21 = sub nsw i64 %v12, %v20
  %v22 = call i64 @llvm.smin.i64(i64 %v21, i64 64)
  br label %head23
head23:
  %i27 = phi i64 [ 0, %body14 ], [ %i28, %latch25 ]
  %v29 = icmp slt i64 %i27, %v22
  br i1 %v29, label %body24, label %done26
body24:
  %v30 = add nsw i64 %v20, %i27
  %v31 = urem i64 %v30, 64
  %v32 = getelementptr inbounds float, ptr %v2, i64 %v30
  %v33 = load float, ptr %v32, align 4, !llvm.access.group !0
  %v34 = getelementptr inbounds float, ptr %a11, i64 %v31
  store float %v33, ptr %v34, align 4, !llvm.access.group !0
  br label %latch25
latch25:
  %i28 = add nsw i64 %i27, 1
  br label %head23, !llvm.loop !3
done26:
  br label %head35
head35:
  %i39 = phi i64 [ 0, %done26 ], [ %i40, %latch37 ]
  %v41 = icmp slt i64 %i39, %v22
  br i1 %v41, label %body36, label %done38
body36:
  %v42 = add nsw i64 %v20, %i39
  %v43 = urem i64 %v42, 64
  %v44 = sub nsw i64 63, %v43
  %v45 = getelementptr inbounds float, ptr %a11, i64 %v44
  %v46 = load float, ptr %v45, align 4, !llvm.access.group !0
  %v47 = getelementptr inbounds float, ptr %v4, i64 %v42
  store float %v46, ptr %v47, align 4, !llvm.access.group !0
  br label %latch37
latch37:
  %i40 = add nsw i64 %i39, 1
  br label %head35, !llvm.loop !4
done38:
  br label %latch15
latch15:
  %i18 = add nsw i64 %i17, 1
  br label %head13, !llvm.loop !6
done16:
  ret void
}

!0 = distinct !{}
!1 = !{!"llvm.loop.parallel_accesses", !0}
!2 = !{!"llvm.loop.vectorize.followup_epilogue", !{!"llvm.loop.unroll.runtime.disable"}, !{!"llvm.loop.isvectorized", i32 1}}
!3 = distinct !{!3, !1, !2}
!4 = distinct !{!4, !1, !2}
!5 = !{!"llvm.loop.unroll.runtime.disable"}
!6 = distinct !{!6, !5}
