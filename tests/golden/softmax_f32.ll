declare float @llvm.fma.f32(float, float, float)
declare float @llvm.maximum.f32(float, float)

define void @"atlas_softmax_f32.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
entry:
  %a9 = alloca [8192 x float], align 64
  %v1 = getelementptr inbounds i64, ptr %arguments, i64 0
  %v2 = load ptr, ptr %v1, align 8
  %v3 = getelementptr inbounds i64, ptr %arguments, i64 1
  %v4 = load ptr, ptr %v3, align 8
  %v5 = getelementptr inbounds i64, ptr %arguments, i64 2
  %v6 = load i64, ptr %v5, align 8
  %v7 = getelementptr inbounds i64, ptr %arguments, i64 3
  %v8 = load i64, ptr %v7, align 8
  br label %head10
head10:
  %i14 = phi i64 [ %begin, %entry ], [ %i15, %latch12 ]
  %c16 = phi i64 [ %begin, %entry ], [ %v93, %latch12 ]
  %v17 = icmp slt i64 %i14, %end
  br i1 %v17, label %body11, label %done13
body11:
  %v18 = mul nsw i64 %c16, %v8
  br label %head19
head19:
  %i23 = phi i64 [ 0, %body11 ], [ %i24, %latch21 ]
  %c25 = phi float [ 0xFFF0000000000000, %body11 ], [ %v30, %latch21 ]
  %v26 = icmp slt i64 %i23, %v8
  br i1 %v26, label %body20, label %done22
body20:
  %v27 = add nsw i64 %v18, %i23
  %v28 = getelementptr inbounds float, ptr %v2, i64 %v27
  %v29 = load float, ptr %v28, align 4, !llvm.access.group !0
  %v30 = call float @llvm.maximum.f32(float %c25, float %v29)
  br label %latch21
latch21:
  %i24 = add nsw i64 %i23, 1
  br label %head19, !llvm.loop !3
done22:
  %v31 = call float @llvm.maximum.f32(float 0xFFF0000000000000, float %c25)
  br label %head32
head32:
  %i36 = phi i64 [ 0, %done22 ], [ %i37, %latch34 ]
  %c38 = phi float [ 0x0000000000000000, %done22 ], [ %v74, %latch34 ]
  %v39 = icmp slt i64 %i36, %v8
  br i1 %v39, label %body33, label %done35
body33:
  %v40 = add nsw i64 %v18, %i36
  %v41 = getelementptr inbounds float, ptr %v2, i64 %v40
  %v42 = load float, ptr %v41, align 4, !llvm.access.group !0
  %v43 = fsub float %v42, %v31
  %v44 = fcmp ogt float %v43, 0x4056400000000000
  %v45 = select i1 %v44, float 0x4056400000000000, float %v43
  %v46 = fcmp olt float %v45, 0xC05A000000000000
  %v47 = select i1 %v46, float 0xC05A000000000000, float %v45
  %v48 = call float @llvm.fma.f32(float %v47, float 0x3FF7154760000000, float 0x4168001FC0000000)
  %v49 = fsub float %v48, 0x4168001FC0000000
  %v50 = bitcast float %v48 to i32
  %v51 = call float @llvm.fma.f32(float %v49, float 0xBFE62E4000000000, float %v47)
  %v52 = call float @llvm.fma.f32(float %v49, float 0xBEB7F7D1C0000000, float %v51)
  %v53 = fmul float %v52, %v52
  %v54 = call float @llvm.fma.f32(float 0x3F56DB4960000000, float %v52, float 0x3F8123CA80000000)
  %v55 = call float @llvm.fma.f32(float %v54, float %v52, float 0x3FA55545E0000000)
  %v56 = call float @llvm.fma.f32(float %v55, float %v52, float 0x3FC55548E0000000)
  %v57 = call float @llvm.fma.f32(float %v56, float %v52, float 0x3FE0000000000000)
  %v58 = call float @llvm.fma.f32(float %v53, float %v57, float %v52)
  %v59 = icmp ult i32 22, 32
  %v60 = and i32 22, 31
  %v61 = shl i32 %v50, %v60
  %v62 = select i1 %v59, i32 %v61, i32 0
  %v63 = and i32 %v62, -8388608
  %v64 = bitcast i32 %v63 to float
  %v65 = icmp ult i32 23, 32
  %v66 = and i32 23, 31
  %v67 = shl i32 %v50, %v66
  %v68 = select i1 %v65, i32 %v67, i32 0
  %v69 = sub i32 %v68, %v63
  %v70 = bitcast i32 %v69 to float
  %v71 = call float @llvm.fma.f32(float %v64, float %v58, float %v64)
  %v72 = fmul float %v71, %v70
  %v73 = getelementptr inbounds float, ptr %a9, i64 %i36
  store float %v72, ptr %v73, !llvm.access.group !0
  %v74 = fadd reassoc float %c38, %v72
  br label %latch34
latch34:
  %i37 = add nsw i64 %i36, 1
  br label %head32, !llvm.loop !4
done35:
  %v75 = fpext float %c38 to double
  %v76 = fadd reassoc double 0x0000000000000000, %v75
  %v77 = fptrunc double %v76 to float
  br label %head78
head78:
  %i82 = phi i64 [ 0, %done35 ], [ %i83, %latch80 ]
  %v84 = icmp slt i64 %i82, %v8
  br i1 %v84, label %body79, label %done81
body79:
  %v85 = getelementptr inbounds float, ptr %a9, i64 %i82
  %v86 = load float, ptr %v85, !llvm.access.group !0
  %v87 = add nsw i64 %v18, %i82
  %v88 = fdiv float %v86, %v77
  %v89 = getelementptr inbounds float, ptr %v4, i64 %v87
  store float %v88, ptr %v89, align 4, !llvm.access.group !0
  br label %latch80
latch80:
  %i83 = add nsw i64 %i82, 1
  br label %head78, !llvm.loop !5
done81:
  %v90 = zext i1 true to i64
  %v91 = add nsw i64 %c16, %v90
  %v92 = icmp eq i64 %v91, %v6
  %v93 = select i1 %v92, i64 0, i64 %v91
  br label %latch12
latch12:
  %i15 = add nsw i64 %i14, 1
  br label %head10, !llvm.loop !7
done13:
  ret void
}

!0 = distinct !{}
!1 = !{!"llvm.loop.parallel_accesses", !0}
!2 = !{!"llvm.loop.vectorize.followup_epilogue", !{!"llvm.loop.unroll.runtime.disable"}, !{!"llvm.loop.isvectorized", i32 1}}
!3 = distinct !{!3, !1, !2}
!4 = distinct !{!4, !1, !2}
!5 = distinct !{!5, !1, !2}
!6 = !{!"llvm.loop.unroll.runtime.disable"}
!7 = distinct !{!7, !6}
