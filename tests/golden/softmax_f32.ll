declare float @llvm.fma.f32(float, float, float)
declare float @llvm.maximum.f32(float, float)
declare i64 @llvm.smin.i64(i64, i64)

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
  %c16 = phi i64 [ %begin, %entry ], [ %v113, %latch12 ]
  %v17 = icmp slt i64 %i14, %end
  br i1 %v17, label %body11, label %done13
body11:
  %v18 = mul nsw i64 %c16, %v8
  br label %head19
head19:
  %i23 = phi i64 [ 0, %body11 ], [ %i24, %latch21 ]
  %c25 = phi float [ 0xFFF0000000000000, %body11 ], [ %v41, %latch21 ]
  %v26 = icmp slt i64 %i23, %v8
  br i1 %v26, label %body20, label %done22
body20:
  %v27 = add nsw i64 %i23, 2048
  %v28 = call i64 @llvm.smin.i64(i64 %v27, i64 %v8)
  br label %head29
head29:
  %i33 = phi i64 [ %i23, %body20 ], [ %i34, %latch31 ]
  %c35 = phi float [ 0xFFF0000000000000, %body20 ], [ %v40, %latch31 ]
  %v36 = icmp slt i64 %i33, %v28
  br i1 %v36, label %body30, label %done32
body30:
  %v37 = add nsw i64 %v18, %i33
  %v38 = getelementptr inbounds float, ptr %v2, i64 %v37
  %v39 = load float, ptr %v38, align 4, !llvm.access.group !0
  %v40 = call float @llvm.maximum.f32(float %c35, float %v39)
  br label %latch31
latch31:
  %i34 = add nsw i64 %i33, 1
  br label %head29, !llvm.loop !3
done32:
  %v41 = call float @llvm.maximum.f32(float %c25, float %c35)
  br label %latch21
latch21:
  %i24 = add nsw i64 %i23, 2048
  br label %head19, !llvm.loop !5
done22:
  br label %head42
head42:
  %i46 = phi i64 [ 0, %done22 ], [ %i47, %latch44 ]
  %c48 = phi double [ 0x0000000000000000, %done22 ], [ %v96, %latch44 ]
  %v49 = icmp slt i64 %i46, %v8
  br i1 %v49, label %body43, label %done45
body43:
  %v50 = add nsw i64 %i46, 2048
  %v51 = call i64 @llvm.smin.i64(i64 %v50, i64 %v8)
  br label %head52
head52:
  %i56 = phi i64 [ %i46, %body43 ], [ %i57, %latch54 ]
  %c58 = phi float [ 0x0000000000000000, %body43 ], [ %v94, %latch54 ]
  %v59 = icmp slt i64 %i56, %v51
  br i1 %v59, label %body53, label %done55
body53:
  %v60 = add nsw i64 %v18, %i56
  %v61 = getelementptr inbounds float, ptr %v2, i64 %v60
  %v62 = load float, ptr %v61, align 4, !llvm.access.group !0
  %v63 = fsub float %v62, %c25
  %v64 = fcmp ogt float %v63, 0x4056400000000000
  %v65 = select i1 %v64, float 0x4056400000000000, float %v63
  %v66 = fcmp olt float %v65, 0xC05A000000000000
  %v67 = select i1 %v66, float 0xC05A000000000000, float %v65
  %v68 = call float @llvm.fma.f32(float %v67, float 0x3FF7154760000000, float 0x4168001FC0000000)
  %v69 = fsub float %v68, 0x4168001FC0000000
  %v70 = bitcast float %v68 to i32
  %v71 = call float @llvm.fma.f32(float %v69, float 0xBFE62E4000000000, float %v67)
  %v72 = call float @llvm.fma.f32(float %v69, float 0xBEB7F7D1C0000000, float %v71)
  %v73 = fmul float %v72, %v72
  %v74 = call float @llvm.fma.f32(float 0x3F56DB4960000000, float %v72, float 0x3F8123CA80000000)
  %v75 = call float @llvm.fma.f32(float %v74, float %v72, float 0x3FA55545E0000000)
  %v76 = call float @llvm.fma.f32(float %v75, float %v72, float 0x3FC55548E0000000)
  %v77 = call float @llvm.fma.f32(float %v76, float %v72, float 0x3FE0000000000000)
  %v78 = call float @llvm.fma.f32(float %v73, float %v77, float %v72)
  %v79 = icmp ult i32 22, 32
  %v80 = and i32 22, 31
  %v81 = shl i32 %v70, %v80
  %v82 = select i1 %v79, i32 %v81, i32 0
  %v83 = and i32 %v82, -8388608
  %v84 = bitcast i32 %v83 to float
  %v85 = icmp ult i32 23, 32
  %v86 = and i32 23, 31
  %v87 = shl i32 %v70, %v86
  %v88 = select i1 %v85, i32 %v87, i32 0
  %v89 = sub i32 %v88, %v83
  %v90 = bitcast i32 %v89 to float
  %v91 = call float @llvm.fma.f32(float %v84, float %v78, float %v84)
  %v92 = fmul float %v91, %v90
  %v93 = getelementptr inbounds float, ptr %a9, i64 %i56
  store float %v92, ptr %v93, !llvm.access.group !0
  %v94 = fadd reassoc float %c58, %v92
  br label %latch54
latch54:
  %i57 = add nsw i64 %i56, 1
  br label %head52, !llvm.loop !6
done55:
  %v95 = fpext float %c58 to double
  %v96 = fadd reassoc double %c48, %v95
  br label %latch44
latch44:
  %i47 = add nsw i64 %i46, 2048
  br label %head42, !llvm.loop !7
done45:
  %v97 = fptrunc double %c48 to float
  br label %head98
head98:
  %i102 = phi i64 [ 0, %done45 ], [ %i103, %latch100 ]
  %v104 = icmp slt i64 %i102, %v8
  br i1 %v104, label %body99, label %done101
body99:
  %v105 = getelementptr inbounds float, ptr %a9, i64 %i102
  %v106 = load float, ptr %v105, !llvm.access.group !0
  %v107 = add nsw i64 %v18, %i102
  %v108 = fdiv float %v106, %v97
  %v109 = getelementptr inbounds float, ptr %v4, i64 %v107
  store float %v108, ptr %v109, align 4, !llvm.access.group !0
  br label %latch100
latch100:
  %i103 = add nsw i64 %i102, 1
  br label %head98, !llvm.loop !8
done101:
  %v110 = zext i1 true to i64
  %v111 = add nsw i64 %c16, %v110
  %v112 = icmp eq i64 %v111, %v6
  %v113 = select i1 %v112, i64 0, i64 %v111
  br label %latch12
latch12:
  %i15 = add nsw i64 %i14, 1
  br label %head10, !llvm.loop !9
done13:
  ret void
}

!0 = distinct !{}
!1 = !{!"llvm.loop.parallel_accesses", !0}
!2 = !{!"llvm.loop.vectorize.followup_epilogue", !{!"llvm.loop.unroll.runtime.disable"}, !{!"llvm.loop.isvectorized", i32 1}}
!3 = distinct !{!3, !1, !2}
!4 = !{!"llvm.loop.unroll.runtime.disable"}
!5 = distinct !{!5, !4}
!6 = distinct !{!6, !1, !2}
!7 = distinct !{!7, !4}
!8 = distinct !{!8, !1, !2}
!9 = distinct !{!9, !4}
