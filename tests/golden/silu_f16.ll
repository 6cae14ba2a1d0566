declare float @llvm.fma.f32(float, float, float)

define void @"atlas_silu_f16.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
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
  %v18 = getelementptr inbounds half, ptr %v2, i64 %i15
  %v19 = load half, ptr %v18, align 2, !llvm.access.group !0
  %v20 = fpext half %v19 to float
  %v21 = fneg float %v20
  %v22 = fcmp ogt float %v21, 0x4056400000000000
  %v23 = select i1 %v22, float 0x4056400000000000, float %v21
  %v24 = fcmp olt float %v23, 0xC05A000000000000
  %v25 = select i1 %v24, float 0xC05A000000000000, float %v23
  %v26 = call float @llvm.fma.f32(float %v25, float 0x3FF7154760000000, float 0x4168001FC0000000)
  %v27 = fsub float %v26, 0x4168001FC0000000
  %v28 = bitcast float %v26 to i32
  %v29 = call float @llvm.fma.f32(float %v27, float 0xBFE62E4000000000, float %v25)
  %v30 = call float @llvm.fma.f32(float %v27, float 0xBEB7F7D1C0000000, float %v29)
  %v31 = fmul float %v30, %v30
  %v32 = call float @llvm.fma.f32(float 0x3F56DB4960000000, float %v30, float 0x3F8123CA80000000)
  %v33 = call float @llvm.fma.f32(float %v32, float %v30, float 0x3FA55545E0000000)
  %v34 = call float @llvm.fma.f32(float %v33, float %v30, float 0x3FC55548E0000000)
  %v35 = call float @llvm.fma.f32(float %v34, float %v30, float 0x3FE0000000000000)
  %v36 = call float @llvm.fma.f32(float %v31, float %v35, float %v30)
  %v37 = icmp ult i32 22, 32
  %v38 = and i32 22, 31
  %v39 = shl i32 %v28, %v38
  %v40 = select i1 %v37, i32 %v39, i32 0
  %v41 = and i32 %v40, -8388608
  %v42 = bitcast i32 %v41 to float
  %v43 = icmp ult i32 23, 32
  %v44 = and i32 23, 31
  %v45 = shl i32 %v28, %v44
  %v46 = select i1 %v43, i32 %v45, i32 0
  %v47 = sub i32 %v46, %v41
  %v48 = bitcast i32 %v47 to float
  %v49 = call float @llvm.fma.f32(float %v42, float %v36, float %v42)
  %v50 = fmul float %v49, %v48
  %v51 = fadd float %v50, 0x3FF0000000000000
  %v52 = fdiv float %v20, %v51
  %v53 = fptrunc float %v52 to half
  %v54 = fpext half %v53 to float
  %v55 = getelementptr inbounds half, ptr %v4, i64 %i15
  %v56 = fptrunc float %v54 to half
  store half %v56, ptr %v55, align 2, !llvm.access.group !0
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
