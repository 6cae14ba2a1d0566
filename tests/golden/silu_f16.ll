declare float @llvm.fma.f32(float, float, float)

define void @"atlas_silu_f16.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
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
  %v14 = getelementptr inbounds half, ptr %v2, i64 %i11
  %v15 = load half, ptr %v14, align 2, !llvm.access.group !0
  %v16 = fpext half %v15 to float
  %v17 = fneg float %v16
  %v18 = fcmp ogt float %v17, 0x4056400000000000
  %v19 = select i1 %v18, float 0x4056400000000000, float %v17
  %v20 = fcmp olt float %v19, 0xC05A000000000000
  %v21 = select i1 %v20, float 0xC05A000000000000, float %v19
  %v22 = call float @llvm.fma.f32(float %v21, float 0x3FF7154760000000, float 0x4168001FC0000000)
  %v23 = fsub float %v22, 0x4168001FC0000000
  %v24 = bitcast float %v22 to i32
  %v25 = call float @llvm.fma.f32(float %v23, float 0xBFE62E4000000000, float %v21)
  %v26 = call float @llvm.fma.f32(float %v23, float 0xBEB7F7D1C0000000, float %v25)
  %v27 = fmul float %v26, %v26
  %v28 = call float @llvm.fma.f32(float 0x3F56DB4960000000, float %v26, float 0x3F8123CA80000000)
  %v29 = call float @llvm.fma.f32(float %v28, float %v26, float 0x3FA55545E0000000)
  %v30 = call float @llvm.fma.f32(float %v29, float %v26, float 0x3FC55548E0000000)
  %v31 = call float @llvm.fma.f32(float %v30, float %v26, float 0x3FE0000000000000)
  %v32 = call float @llvm.fma.f32(float %v27, float %v31, float %v26)
  %v33 = icmp ult i32 22, 32
  %v34 = and i32 22, 31
  %v35 = shl i32 %v24, %v34
  %v36 = select i1 %v33, i32 %v35, i32 0
  %v37 = and i32 %v36, -8388608
  %v38 = bitcast i32 %v37 to float
  %v39 = icmp ult i32 23, 32
  %v40 = and i32 23, 31
  %v41 = shl i32 %v24, %v40
  %v42 = select i1 %v39, i32 %v41, i32 0
  %v43 = sub i32 %v42, %v37
  %v44 = bitcast i32 %v43 to float
  %v45 = call float @llvm.fma.f32(float %v38, float %v32, float %v38)
  %v46 = fmul float %v45, %v44
  %v47 = fadd float %v46, 0x3FF0000000000000
  %v48 = fdiv float %v16, %v47
  %v49 = fptrunc float %v48 to half
  %v50 = fpext half %v49 to float
  %v51 = getelementptr inbounds half, ptr %v4, i64 %i11
  %v52 = fptrunc float %v50 to half
  store half %v52, ptr %v51, align 2, !llvm.access.group !0
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
