declare i64 @llvm.smin.i64(i64, i64)

define void @"atlas_column_sum_f32.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
entry:
  %a15 = alloca [1024 x double], align 64
  %a16 = alloca [1024 x float], align 64
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
  %v13 = getelementptr inbounds i64, ptr %arguments, i64 6
  %v14 = load i64, ptr %v13, align 8
  br label %head17
head17:
  %i21 = phi i64 [ %begin, %entry ], [ %i22, %latch19 ]
  %v23 = icmp slt i64 %i21, %end
  br i1 %v23, label %body18, label %done20
body18:
  %v24 = sub nsw i64 %end, %i21
  %v25 = call i64 @llvm.smin.i64(i64 %v24, i64 %v14)
  br label %head26
head26:
  %i30 = phi i64 [ 0, %body18 ], [ %i31, %latch28 ]
  %v32 = icmp slt i64 %i30, %v25
  br i1 %v32, label %body27, label %done29
body27:
  %v33 = getelementptr inbounds double, ptr %a15, i64 %i30
  store double 0x0000000000000000, ptr %v33, align 8, !llvm.access.group !0
  %v34 = getelementptr inbounds float, ptr %a16, i64 %i30
  store float 0x0000000000000000, ptr %v34, align 4, !llvm.access.group !0
  br label %latch28
latch28:
  %i31 = add nsw i64 %i30, 1
  br label %head26, !llvm.loop !3
done29:
  br label %head35
head35:
  %i39 = phi i64 [ 0, %done29 ], [ %i40, %latch37 ]
  %v41 = icmp slt i64 %i39, %v12
  br i1 %v41, label %body36, label %done38
body36:
  %v42 = add nsw i64 %i39, 256
  %v43 = call i64 @llvm.smin.i64(i64 %v42, i64 %v12)
  %v44 = sub nsw i64 %v43, %i39
  %v45 = and i64 %v44, -4
  %v46 = add nsw i64 %i39, %v45
  br label %head47
head47:
  %i51 = phi i64 [ %i39, %body36 ], [ %i52, %latch49 ]
  %v53 = icmp slt i64 %i51, %v46
  br i1 %v53, label %body48, label %done50
body48:
  %v54 = add nsw i64 %i51, 1
  %v55 = add nsw i64 %i51, 2
  %v56 = add nsw i64 %i51, 3
  br label %head57
head57:
  %i61 = phi i64 [ 0, %body48 ], [ %i62, %latch59 ]
  %v63 = icmp slt i64 %i61, %v25
  br i1 %v63, label %body58, label %done60
body58:
  %v64 = getelementptr inbounds float, ptr %a16, i64 %i61
  %v65 = load float, ptr %v64, align 4, !llvm.access.group !0
  %v66 = add nsw i64 %i21, %i61
  %v67 = mul nsw i64 %i51, %v10
  %v68 = add nsw i64 %v67, %v66
  %v69 = getelementptr inbounds float, ptr %v2, i64 %v68
  %v70 = load float, ptr %v69, align 4, !llvm.access.group !0
  %v71 = fadd reassoc float %v65, %v70
  %v72 = add nsw i64 %i21, %i61
  %v73 = mul nsw i64 %v54, %v10
  %v74 = add nsw i64 %v73, %v72
  %v75 = getelementptr inbounds float, ptr %v2, i64 %v74
  %v76 = load float, ptr %v75, align 4, !llvm.access.group !0
  %v77 = fadd reassoc float %v71, %v76
  %v78 = add nsw i64 %i21, %i61
  %v79 = mul nsw i64 %v55, %v10
  %v80 = add nsw i64 %v79, %v78
  %v81 = getelementptr inbounds float, ptr %v2, i64 %v80
  %v82 = load float, ptr %v81, align 4, !llvm.access.group !0
  %v83 = fadd reassoc float %v77, %v82
  %v84 = add nsw i64 %i21, %i61
  %v85 = mul nsw i64 %v56, %v10
  %v86 = add nsw i64 %v85, %v84
  %v87 = getelementptr inbounds float, ptr %v2, i64 %v86
  %v88 = load float, ptr %v87, align 4, !llvm.access.group !0
  %v89 = fadd reassoc float %v83, %v88
  %v90 = getelementptr inbounds float, ptr %a16, i64 %i61
  store float %v89, ptr %v90, align 4, !llvm.access.group !0
  br label %latch59
latch59:
  %i62 = add nsw i64 %i61, 1
  br label %head57, !llvm.loop !4
done60:
  br label %latch49
latch49:
  %i52 = add nsw i64 %i51, 4
  br label %head47, !llvm.loop !6
done50:
  br label %head91
head91:
  %i95 = phi i64 [ %v46, %done50 ], [ %i96, %latch93 ]
  %v97 = icmp slt i64 %i95, %v43
  br i1 %v97, label %body92, label %done94
body92:
  br label %head98
head98:
  %i102 = phi i64 [ 0, %body92 ], [ %i103, %latch100 ]
  %v104 = icmp slt i64 %i102, %v25
  br i1 %v104, label %body99, label %done101
body99:
  %v105 = getelementptr inbounds float, ptr %a16, i64 %i102
  %v106 = load float, ptr %v105, align 4, !llvm.access.group !0
  %v107 = add nsw i64 %i21, %i102
  %v108 = mul nsw i64 %i95, %v10
  %v109 = add nsw i64 %v108, %v107
  %v110 = getelementptr inbounds float, ptr %v2, i64 %v109
  %v111 = load float, ptr %v110, align 4, !llvm.access.group !0
  %v112 = fadd reassoc float %v106, %v111
  %v113 = getelementptr inbounds float, ptr %a16, i64 %i102
  store float %v112, ptr %v113, align 4, !llvm.access.group !0
  br label %latch100
latch100:
  %i103 = add nsw i64 %i102, 1
  br label %head98, !llvm.loop !7
done101:
  br label %latch93
latch93:
  %i96 = add nsw i64 %i95, 1
  br label %head91, !llvm.loop !8
done94:
  br label %head114
head114:
  %i118 = phi i64 [ 0, %done94 ], [ %i119, %latch116 ]
  %v120 = icmp slt i64 %i118, %v25
  br i1 %v120, label %body115, label %done117
body115:
  %v121 = getelementptr inbounds float, ptr %a16, i64 %i118
  %v122 = load float, ptr %v121, align 4, !llvm.access.group !0
  %v123 = fpext float %v122 to double
  %v124 = getelementptr inbounds double, ptr %a15, i64 %i118
  %v125 = load double, ptr %v124, align 8, !llvm.access.group !0
  %v126 = fadd reassoc double %v125, %v123
  %v127 = getelementptr inbounds double, ptr %a15, i64 %i118
  store double %v126, ptr %v127, align 8, !llvm.access.group !0
  %v128 = getelementptr inbounds float, ptr %a16, i64 %i118
  store float 0x0000000000000000, ptr %v128, align 4, !llvm.access.group !0
  br label %latch116
latch116:
  %i119 = add nsw i64 %i118, 1
  br label %head114, !llvm.loop !9
done117:
  br label %latch37
latch37:
  %i40 = add nsw i64 %i39, 256
  br label %head35, !llvm.loop !10
done38:
  br label %head129
head129:
  %i133 = phi i64 [ 0, %done38 ], [ %i134, %latch131 ]
  %v135 = icmp slt i64 %i133, %v25
  br i1 %v135, label %body130, label %done132
body130:
  %v136 = add nsw i64 %i21, %i133
  %v137 = getelementptr inbounds double, ptr %a15, i64 %i133
  %v138 = load double, ptr %v137, align 8, !llvm.access.group !0
  %v139 = fptrunc double %v138 to float
  %v140 = getelementptr inbounds float, ptr %v4, i64 %v136
  store float %v139, ptr %v140, align 4, !llvm.access.group !0
  br label %latch131
latch131:
  %i134 = add nsw i64 %i133, 1
  br label %head129, !llvm.loop !11
done132:
  br label %latch19
latch19:
  %i22 = add nsw i64 %i21, %v14
  br label %head17, !llvm.loop !12
done20:
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
