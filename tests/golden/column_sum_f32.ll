declare i64 @llvm.smin.i64(i64, i64)

define void @"atlas_column_sum_f32.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
entry:
  %a11 = alloca [1024 x double], align 64
  %a12 = alloca [1024 x float], align 64
  %v1 = getelementptr inbounds i64, ptr %arguments, i64 0
  %v2 = load ptr, ptr %v1, align 8
  %v3 = getelementptr inbounds i64, ptr %arguments, i64 1
  %v4 = load ptr, ptr %v3, align 8
  %v5 = getelementptr inbounds i64, ptr %arguments, i64 2
  %v6 = load i64, ptr %v5, align 8
  %v7 = getelementptr inbounds i64, ptr %arguments, i64 3
  %v8 = load i64, ptr %v7, align 8
  %v9 = getelementptr inbounds i64, ptr %arguments, i64 4
  %v10 = load i64, ptr %v9, align 8
  br label %head13
head13:
  %i17 = phi i64 [ %begin, %entry ], [ %i18, %latch15 ]
  %v19 = icmp slt i64 %i17, %end
  br i1 %v19, label %body14, label %done16
body14:
  %v20 = sub nsw i64 %end, %i17
  %v21 = call i64 @llvm.smin.i64(i64 %v20, i64 %v10)
  br label %head22
head22:
  %i26 = phi i64 [ 0, %body14 ], [ %i27, %latch24 ]
  %v28 = icmp slt i64 %i26, %v21
  br i1 %v28, label %body23, label %done25
body23:
  %v29 = getelementptr inbounds double, ptr %a11, i64 %i26
  store double 0x0000000000000000, ptr %v29, align 8, !llvm.access.group !0
  %v30 = getelementptr inbounds float, ptr %a12, i64 %i26
  store float 0x0000000000000000, ptr %v30, align 4, !llvm.access.group !0
  br label %latch24
latch24:
  %i27 = add nsw i64 %i26, 1
  br label %head22, !llvm.loop !3
done25:
  br label %head31
head31:
  %i35 = phi i64 [ 0, %done25 ], [ %i36, %latch33 ]
  %v37 = icmp slt i64 %i35, %v8
  br i1 %v37, label %body32, label %done34
body32:
  %v38 = add nsw i64 %i35, 256
  %v39 = call i64 @llvm.smin.i64(i64 %v38, i64 %v8)
  %v40 = sub nsw i64 %v39, %i35
  %v41 = and i64 %v40, -4
  %v42 = add nsw i64 %i35, %v41
  br label %head43
head43:
  %i47 = phi i64 [ %i35, %body32 ], [ %i48, %latch45 ]
  %v49 = icmp slt i64 %i47, %v42
  br i1 %v49, label %body44, label %done46
body44:
  %v50 = add nsw i64 %i47, 1
  %v51 = add nsw i64 %i47, 2
  %v52 = add nsw i64 %i47, 3
  br label %head53
head53:
  %i57 = phi i64 [ 0, %body44 ], [ %i58, %latch55 ]
  %v59 = icmp slt i64 %i57, %v21
  br i1 %v59, label %body54, label %done56
body54:
  %v60 = getelementptr inbounds float, ptr %a12, i64 %i57
  %v61 = load float, ptr %v60, align 4, !llvm.access.group !0
  %v62 = add nsw i64 %i17, %i57
  %v63 = mul nsw i64 %i47, %v6
  %v64 = add nsw i64 %v63, %v62
  %v65 = getelementptr inbounds float, ptr %v2, i64 %v64
  %v66 = load float, ptr %v65, align 4, !llvm.access.group !0
  %v67 = fadd reassoc float %v61, %v66
  %v68 = add nsw i64 %i17, %i57
  %v69 = mul nsw i64 %v50, %v6
  %v70 = add nsw i64 %v69, %v68
  %v71 = getelementptr inbounds float, ptr %v2, i64 %v70
  %v72 = load float, ptr %v71, align 4, !llvm.access.group !0
  %v73 = fadd reassoc float %v67, %v72
  %v74 = add nsw i64 %i17, %i57
  %v75 = mul nsw i64 %v51, %v6
  %v76 = add nsw i64 %v75, %v74
  %v77 = getelementptr inbounds float, ptr %v2, i64 %v76
  %v78 = load float, ptr %v77, align 4, !llvm.access.group !0
  %v79 = fadd reassoc float %v73, %v78
  %v80 = add nsw i64 %i17, %i57
  %v81 = mul nsw i64 %v52, %v6
  %v82 = add nsw i64 %v81, %v80
  %v83 = getelementptr inbounds float, ptr %v2, i64 %v82
  %v84 = load float, ptr %v83, align 4, !llvm.access.group !0
  %v85 = fadd reassoc float %v79, %v84
  %v86 = getelementptr inbounds float, ptr %a12, i64 %i57
  store float %v85, ptr %v86, align 4, !llvm.access.group !0
  br label %latch55
latch55:
  %i58 = add nsw i64 %i57, 1
  br label %head53, !llvm.loop !4
done56:
  br label %latch45
latch45:
  %i48 = add nsw i64 %i47, 4
  br label %head43, !llvm.loop !6
done46:
  br label %head87
head87:
  %i91 = phi i64 [ %v42, %done46 ], [ %i92, %latch89 ]
  %v93 = icmp slt i64 %i91, %v39
  br i1 %v93, label %body88, label %done90
body88:
  br label %head94
head94:
  %i98 = phi i64 [ 0, %body88 ], [ %i99, %latch96 ]
  %v100 = icmp slt i64 %i98, %v21
  br i1 %v100, label %body95, label %done97
body95:
  %v101 = getelementptr inbounds float, ptr %a12, i64 %i98
  %v102 = load float, ptr %v101, align 4, !llvm.access.group !0
  %v103 = add nsw i64 %i17, %i98
  %v104 = mul nsw i64 %i91, %v6
  %v105 = add nsw i64 %v104, %v103
  %v106 = getelementptr inbounds float, ptr %v2, i64 %v105
  %v107 = load float, ptr %v106, align 4, !llvm.access.group !0
  %v108 = fadd reassoc float %v102, %v107
  %v109 = getelementptr inbounds float, ptr %a12, i64 %i98
  store float %v108, ptr %v109, align 4, !llvm.access.group !0
  br label %latch96
latch96:
  %i99 = add nsw i64 %i98, 1
  br label %head94, !llvm.loop !7
done97:
  br label %latch89
latch89:
  %i92 = add nsw i64 %i91, 1
  br label %head87, !llvm.loop !8
done90:
  br label %head110
head110:
  %i114 = phi i64 [ 0, %done90 ], [ %i115, %latch112 ]
  %v116 = icmp slt i64 %i114, %v21
  br i1 %v116, label %body111, label %done113
body111:
  %v117 = getelementptr inbounds float, ptr %a12, i64 %i114
  %v118 = load float, ptr %v117, align 4, !llvm.access.group !0
  %v119 = fpext float %v118 to double
  %v120 = getelementptr inbounds double, ptr %a11, i64 %i114
  %v121 = load double, ptr %v120, align 8, !llvm.access.group !0
  %v122 = fadd reassoc double %v121, %v119
  %v123 = getelementptr inbounds double, ptr %a11, i64 %i114
  store double %v122, ptr %v123, align 8, !llvm.access.group !0
  %v124 = getelementptr inbounds float, ptr %a12, i64 %i114
  store float 0x0000000000000000, ptr %v124, align 4, !llvm.access.group !0
  br label %latch112
latch112:
  %i115 = add nsw i64 %i114, 1
  br label %head110, !llvm.loop !9
done113:
  br label %latch33
latch33:
  %i36 = add nsw i64 %i35, 256
  br label %head31, !llvm.loop !10
done34:
  br label %head125
head125:
  %i129 = phi i64 [ 0, %done34 ], [ %i130, %latch127 ]
  %v131 = icmp slt i64 %i129, %v21
  br i1 %v131, label %body126, label %done128
body126:
  %v132 = add nsw i64 %i17, %i129
  %v133 = getelementptr inbounds double, ptr %a11, i64 %i129
  %v134 = load double, ptr %v133, align 8, !llvm.access.group !0
  %v135 = fptrunc double %v134 to float
  %v136 = getelementptr inbounds float, ptr %v4, i64 %v132
  store float %v135, ptr %v136, align 4, !llvm.access.group !0
  br label %latch127
latch127:
  %i130 = add nsw i64 %i129, 1
  br label %head125, !llvm.loop !11
done128:
  br label %latch15
latch15:
  %i18 = add nsw i64 %i17, %v10
  br label %head13, !llvm.loop !12
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
!7 = distinct !{!7, !1, !2}
!8 = distinct !{!8, !5}
!9 = distinct !{!9, !1, !2}
!10 = distinct !{!10, !5}
!11 = distinct !{!11, !1, !2}
!12 = distinct !{!12, !5}
