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
  %v29 = icmp slt i64 %i27, 64
  br i1 %v29, label %body24, label %done26
body24:
  %v30 = getelementptr inbounds float, ptr %a11, i64 %i27
  store float zeroinitializer, ptr %v30, align 4
  br label %latch25
latch25:
  %i28 = add nsw i64 %i27, 1
  br label %head23
done26:
  br label %head31
head31:
  %i35 = phi i64 [ 0, %done26 ], [ %i36, %latch33 ]
  %v37 = icmp slt i64 %i35, %v22
  br i1 %v37, label %body32, label %done34
body32:
  %v38 = add nsw i64 %v20, %i35
  %v39 = getelementptr inbounds float, ptr %v2, i64 %v38
  %v40 = load float, ptr %v39, align 4, !llvm.access.group !0
  %v41 = getelementptr inbounds float, ptr %a11, i64 %i35
  store float %v40, ptr %v41, align 4, !llvm.access.group !0
  br label %latch33
latch33:
  %i36 = add nsw i64 %i35, 1
  br label %head31, !llvm.loop !3
done34:
  br label %head42
head42:
  %i46 = phi i64 [ 0, %done34 ], [ %i47, %latch44 ]
  %v48 = icmp slt i64 %i46, %v22
  br i1 %v48, label %body43, label %done45
body43:
  %v49 = add nsw i64 %v20, %i46
  %v50 = sub nsw i64 63, %i46
  %v51 = getelementptr inbounds float, ptr %a11, i64 %v50
  %v52 = load float, ptr %v51, align 4, !llvm.access.group !0
  %v53 = getelementptr inbounds float, ptr %v4, i64 %v49
  store float %v52, ptr %v53, align 4, !llvm.access.group !0
  br label %latch44
latch44:
  %i47 = add nsw i64 %i46, 1
  br label %head42, !llvm.loop !4
done45:
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
