declare float @llvm.fma.f32(float, float, float)
declare float @llvm.roundeven.f32(float)

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
  %v26 = fmul float %v25, 0x3FF7154760000000
  %v27 = call float @llvm.roundeven.f32(float %v26)
  %v28 = call float @llvm.fma.f32(float %v27, float 0xBFE62E4000000000, float %v25)
  %v29 = call float @llvm.fma.f32(float %v27, float 0xBEB7F7D1C0000000, float %v28)
  %v30 = fmul float %v29, %v29
  %v31 = call float @llvm.fma.f32(float 0x3F56DB4960000000, float %v29, float 0x3F8123CA80000000)
  %v32 = call float @llvm.fma.f32(float %v31, float %v29, float 0x3FA55545E0000000)
  %v33 = call float @llvm.fma.f32(float %v32, float %v29, float 0x3FC55548E0000000)
  %v34 = call float @llvm.fma.f32(float %v33, float %v29, float 0x3FE0000000000000)
  %v35 = call float @llvm.fma.f32(float %v30, float %v34, float %v29)
  %v36 = fadd float %v35, 0x3FF0000000000000
  %v37 = fptosi float %v27 to i32
  %v38 = fcmp ole float %v27, 0xC1E0000000000000
  %v39 = fcmp oge float %v27, 0x41E0000000000000
  %v40 = select i1 %v38, i32 -2147483648, i32 %v37
  %v41 = select i1 %v39, i32 2147483647, i32 %v40
  %v42 = fcmp uno float %v27, %v27
  %v43 = select i1 %v42, i32 0, i32 %v41
  %v44 = icmp ult i32 1, 32
  %v45 = select i1 %v44, i32 1, i32 31
  %v46 = ashr i32 %v43, %v45
  %v47 = bitcast float %v36 to i32
  %v48 = icmp ult i32 23, 32
  %v49 = and i32 23, 31
  %v50 = shl i32 %v46, %v49
  %v51 = select i1 %v48, i32 %v50, i32 0
  %v52 = add i32 %v47, %v51
  %v53 = bitcast i32 %v52 to float
  %v54 = sub i32 %v43, %v46
  %v55 = add i32 %v54, 127
  %v56 = icmp ult i32 23, 32
  %v57 = and i32 23, 31
  %v58 = shl i32 %v55, %v57
  %v59 = select i1 %v56, i32 %v58, i32 0
  %v60 = bitcast i32 %v59 to float
  %v61 = fmul float %v53, %v60
  %v62 = fadd float %v61, 0x3FF0000000000000
  %v63 = fdiv float %v20, %v62
  %v64 = fptrunc float %v63 to half
  %v65 = fpext half %v64 to float
  %v66 = getelementptr inbounds half, ptr %v4, i64 %i15
  %v67 = fptrunc float %v65 to half
  store half %v67, ptr %v66, align 2, !llvm.access.group !0
  br label %latch13
latch13:
  %i16 = add nsw i64 %i15, 1
  br label %head11, !llvm.loop !2
done14:
  ret void
}

!0 = distinct !{}
!1 = !{!"llvm.loop.parallel_accesses", !0}
!2 = distinct !{!2, !1}
