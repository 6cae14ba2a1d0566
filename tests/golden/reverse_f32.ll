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
  br label %head19
head19:
  %i23 = phi i64 [ 0, %body10 ], [ %i24, %latch21 ]
  %v25 = icmp slt i64 %i23, 64
  br i1 %v25, label %body20, label %done22
body20:
  %v26 = getelementptr inbounds float, ptr %a7, i64 %i23
  store float zeroinitializer, ptr %v26, align 4
  br label %latch21
latch21:
  %i24 = add nsw i64 %i23, 1
  br label %head19
done22:
  br label %head27
head27:
  %i31 = phi i64 [ 0, %done22 ], [ %i32, %latch29 ]
  %v33 = icmp slt i64 %i31, %v18
  br i1 %v33, label %body28, label %done30
body28:
  %v34 = add nsw i64 %v16, %i31
  %v35 = getelementptr inbounds float, ptr %v2, i64 %v34
  %v36 = load float, ptr %v35, align 4, !llvm.access.group !0
  %v37 = getelementptr inbounds float, ptr %a7, i64 %i31
  store float %v36, ptr %v37, align 4, !llvm.access.group !0
  br label %latch29
latch29:
  %i32 = add nsw i64 %i31, 1
  br label %head27, !llvm.loop !3
done30:
  br label %head38
head38:
  %i42 = phi i64 [ 0, %done30 ], [ %i43, %latch40 ]
  %v44 = icmp slt i64 %i42, %v18
  br i1 %v44, label %body39, label %done41
body39:
  %v45 = add nsw i64 %v16, %i42
  %v46 = sub nsw i64 63, %i42
  %v47 = getelementptr inbounds float, ptr %a7, i64 %v46
  %v48 = load float, ptr %v47, align 4, !llvm.access.group !0
  %v49 = getelementptr inbounds float, ptr %v4, i64 %v45
  store float %v48, ptr %v49, align 4, !llvm.access.group !0
  br label %latch40
latch40:
  %i43 = add nsw i64 %i42, 1
  br label %head38, !llvm.loop !4
done41:
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
