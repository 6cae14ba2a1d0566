declare float @llvm.fma.f32(float, float, float)
declare float @llvm.maximum.f32(float, float)
declare i64 @llvm.smin.i64(i64, i64)

define void @"atlas_softmax_f32.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
entry:
  %a13 = alloca [8192 x float], align 64
  %v1 = getelementptr inbounds i64, ptr %arguments, i64 0
  %v2 = load ptr, ptr %v1, align 8
  %v3 = getelementptr inbounds i64, ptr %arguments, i64 1
  %v4 = load ptr, ptr %v3, align 8
  %v5 = getelementptr inbounds i64, ptr %arguments, i64 4
  %v6 = load i64, ptr %v5, align 8
  %v7 = getelementptr inbounds i64, ptr %arguments, i64 5
  %v8 = load i64, ptr %v7, align 8
  %v9 = getelementptr inbounds i64, ptr %arguments, i64 2
  %v10 = load i64, ptr %v9, align 8
  %v11 = getelementptr inbounds i64, ptr %arguments, i64 3
  %v12 = load i64, ptr %v11, align 8
  br label %head14
head14:
  %i18 = phi i64 [ %begin, %entry ], [ %i19, %latch16 ]
  %c20 = phi i64 [ %begin, %entry ], [ %v117, %latch16 ]
  %v21 = icmp slt i64 %i18, %end
  br i1 %v21, label %body15, label %done17
body15:
  %v22 = mul nsw i64 %c20, %v12
  br label %head23
head23:
  %i27 = phi i64 [ 0, %body15 ], [ %i28, %latch25 ]
  %c29 = phi float [ 0xFFF0000000000000, %body15 ], [ %v45, %latch25 ]
  %v30 = icmp slt i64 %i27, %v12
  br i1 %v30, label %body24, label %done26
body24:
  %v31 = add nsw i64 %i27, 2048
  %v32 = call i64 @llvm.smin.i64(i64 %v31, i64 %v12)
  br label %head33
head33:
  %i37 = phi i64 [ %i27, %body24 ], [ %i38, %latch35 ]
  %c39 = phi float [ 0xFFF0000000000000, %body24 ], [ %v44, %latch35 ]
  %v40 = icmp slt i64 %i37, %v32
  br i1 %v40, label %body34, label %done36
body34:
  %v41 = add nsw i64 %v22, %i37
  %v42 = getelementptr inbounds float, ptr %v2, i64 %v41
  %v43 = load float, ptr %v42, align 4, !llvm.access.group !0
  %v44 = call float @llvm.maximum.f32(float %c39, float %v43)
  br label %latch35
latch35:
  %i38 = add nsw i64 %i37, 1
  br label %head33, !llvm.loop !3
done36:
  %v45 = call float @llvm.maximum.f32(float %c29, float %c39)
  br label %latch25
latch25:
  %i28 = add nsw i64 %i27, 2048
  br label %head23, !llvm.loop !5
done26:
  br label %head46
head46:
  %i50 = phi i64 [ 0, %done26 ], [ %i51, %latch48 ]
  %c52 = phi double [ 0x0000000000000000, %done26 ], [ %v100, %latch48 ]
  %v53 = icmp slt i64 %i50, %v12
  br i1 %v53, label %body47, label %done49
body47:
  %v54 = add nsw i64 %i50, 2048
  %v55 = call i64 @llvm.smin.i64(i64 %v54, i64 %v12)
  br label %head56
head56:
  %i60 = phi i64 [ %i50, %body47 ], [ %i61, %latch58 ]
  %c62 = phi float [ 0x0000000000000000, %body47 ], [ %v98, %latch58 ]
  %v63 = icmp slt i64 %i60, %v55
  br i1 %v63, label %body57, label %done59
body57:
  %v64 = add nsw i64 %v22, %i60
  %v65 = getelementptr inbounds float, ptr %v2, i64 %v64
  %v66 = load float, ptr %v65, align 4, !llvm.access.group !0
  %v67 = fsub float %v66, %c29
  %v68 = fcmp ogt float %v67, 0x4056400000000000
  %v69 = select i1 %v68, float 0x4056400000000000, float %v67
  %v70 = fcmp olt float %v69, 0xC05A000000000000
  %v71 = select i1 %v70, float 0xC05A000000000000, float %v69
  %v72 = call float @llvm.fma.f32(float %v71, float 0x3FF7154760000000, float 0x4168001FC0000000)
  %v73 = fsub float %v72, 0x4168001FC0000000
  %v74 = bitcast float %v72 to i32
  %v75 = call float @llvm.fma.f32(float %v73, float 0xBFE62E4000000000, float %v71)
  %v76 = call float @llvm.fma.f32(float %v73, float 0xBEB7F7D1C0000000, float %v75)
  %v77 = fmul float %v76, %v76
  %v78 = call float @llvm.fma.f32(float 0x3F56DB4960000000, float %v76, float 0x3F8123CA80000000)
  %v79 = call float @llvm.fma.f32(float %v78, float %v76, float 0x3FA55545E0000000)
  %v80 = call float @llvm.fma.f32(float %v79, float %v76, float 0x3FC55548E0000000)
  %v81 = call float @llvm.fma.f32(float %v80, float %v76, float 0x3FE0000000000000)
  %v82 = call float @llvm.fma.f32(float %v77, float %v81, float %v76)
  %v83 = icmp ult i32 22, 32
  %v84 = and i32 22, 31
  %v85 = shl i32 %v74, %v84
  %v86 = select i1 %v83, i32 %v85, i32 0
  %v87 = and i32 %v86, -8388608
  %v88 = bitcast i32 %v87 to float
  %v89 = icmp ult i32 23, 32
  %v90 = and i32 23, 31
  %v91 = shl i32 %v74, %v90
  %v92 = select i1 %v89, i32 %v91, i32 0
  %v93 = sub i32 %v92, %v87
  %v94 = bitcast i32 %v93 to float
  %v95 = call float @llvm.fma.f32(float %v88, float %v82, float %v88)
  %v96 = fmul float %v95, %v94
  %v97 = getelementptr inbounds float, ptr %a13, i64 %i60
  store float %v96, ptr %v97, !llvm.access.group !0
  %v98 = fadd reassoc float %c62, %v96
  br label %latch58
latch58:
  %i61 = add nsw i64 %i60, 1
  br label %head56, !llvm.loop !6
done59:
  %v99 = fpext float %c62 to double
  %v100 = fadd reassoc double %c52, %v99
  br label %latch48
latch48:
  %i51 = add nsw i64 %i50, 2048
  br label %head46, !llvm.loop !7
done49:
  %v101 = fptrunc double %c52 to float
  br label %head102
head102:
  %i106 = phi i64 [ 0, %done49 ], [ %i107, %latch104 ]
  %v108 = icmp slt i64 %i106, %v12
  br i1 %v108, label %body103, label %done105
body103:
  %v109 = getelementptr inbounds float, ptr %a13, i64 %i106
  %v110 = load float, ptr %v109, !llvm.access.group !0
  %v111 = add nsw i64 %v22, %i106
  %v112 = fdiv float %v110, %v101
  %v113 = getelementptr inbounds float, ptr %v4, i64 %v111
  store float %v112, ptr %v113, align 4, !llvm.access.group !0
  br label %latch104
latch104:
  %i107 = add nsw i64 %i106, 1
  br label %head102, !llvm.loop !8
done105:
  %v114 = zext i1 true to i64
  %v115 = add nsw i64 %c20, %v114
  %v116 = icmp eq i64 %v115, %v10
  %v117 = select i1 %v116, i64 0, i64 %v115
  br label %latch16
latch16:
  %i19 = add nsw i64 %i18, 1
  br label %head14, !llvm.loop !9
done17:
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
