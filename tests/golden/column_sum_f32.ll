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
  %v31 = sub nsw i64 %v8, 0
  %v32 = and i64 %v31, -4
  %v33 = add nsw i64 0, %v32
  br label %head34
head34:
  %i38 = phi i64 [ 0, %done25 ], [ %i39, %latch36 ]
  %v40 = icmp slt i64 %i38, %v33
  br i1 %v40, label %body35, label %done37
body35:
  %v41 = add nsw i64 %i38, 1
  %v42 = add nsw i64 %i38, 2
  %v43 = add nsw i64 %i38, 3
  br label %head44
head44:
  %i48 = phi i64 [ 0, %body35 ], [ %i49, %latch46 ]
  %v50 = icmp slt i64 %i48, %v21
  br i1 %v50, label %body45, label %done47
body45:
  %v51 = add nsw i64 %i17, %i48
  %v52 = mul nsw i64 %i38, %v6
  %v53 = add nsw i64 %v52, %v51
  %v54 = getelementptr inbounds float, ptr %v2, i64 %v53
  %v55 = load float, ptr %v54, align 4, !llvm.access.group !0
  %v56 = add nsw i64 %i17, %i48
  %v57 = mul nsw i64 %v41, %v6
  %v58 = add nsw i64 %v57, %v56
  %v59 = getelementptr inbounds float, ptr %v2, i64 %v58
  %v60 = load float, ptr %v59, align 4, !llvm.access.group !0
  %v61 = add nsw i64 %i17, %i48
  %v62 = mul nsw i64 %v42, %v6
  %v63 = add nsw i64 %v62, %v61
  %v64 = getelementptr inbounds float, ptr %v2, i64 %v63
  %v65 = load float, ptr %v64, align 4, !llvm.access.group !0
  %v66 = add nsw i64 %i17, %i48
  %v67 = mul nsw i64 %v43, %v6
  %v68 = add nsw i64 %v67, %v66
  %v69 = getelementptr inbounds float, ptr %v2, i64 %v68
  %v70 = load float, ptr %v69, align 4, !llvm.access.group !0
  %v71 = getelementptr inbounds float, ptr %a12, i64 %i48
  %v72 = load float, ptr %v71, align 4, !llvm.access.group !0
  %v73 = fadd float %v55, %v60
  %v74 = fadd float %v65, %v70
  %v75 = fadd float %v73, %v74
  %v76 = fadd float %v72, %v75
  %v77 = getelementptr inbounds float, ptr %a12, i64 %i48
  store float %v76, ptr %v77, align 4, !llvm.access.group !0
  br label %latch46
latch46:
  %i49 = add nsw i64 %i48, 1
  br label %head44, !llvm.loop !4
done47:
  br label %latch36
latch36:
  %i39 = add nsw i64 %i38, 4
  br label %head34, !llvm.loop !6
done37:
  br label %head78
head78:
  %i82 = phi i64 [ %v33, %done37 ], [ %i83, %latch80 ]
  %v84 = icmp slt i64 %i82, %v8
  br i1 %v84, label %body79, label %done81
body79:
  br label %head85
head85:
  %i89 = phi i64 [ 0, %body79 ], [ %i90, %latch87 ]
  %v91 = icmp slt i64 %i89, %v21
  br i1 %v91, label %body86, label %done88
body86:
  %v92 = add nsw i64 %i17, %i89
  %v93 = mul nsw i64 %i82, %v6
  %v94 = add nsw i64 %v93, %v92
  %v95 = getelementptr inbounds float, ptr %v2, i64 %v94
  %v96 = load float, ptr %v95, align 4, !llvm.access.group !0
  %v97 = getelementptr inbounds float, ptr %a12, i64 %i89
  %v98 = load float, ptr %v97, align 4, !llvm.access.group !0
  %v99 = fadd float %v98, %v96
  %v100 = getelementptr inbounds float, ptr %a12, i64 %i89
  store float %v99, ptr %v100, align 4, !llvm.access.group !0
  br label %latch87
latch87:
  %i90 = add nsw i64 %i89, 1
  br label %head85, !llvm.loop !7
done88:
  br label %latch80
latch80:
  %i83 = add nsw i64 %i82, 1
  br label %head78, !llvm.loop !8
done81:
  br label %head101
head101:
  %i105 = phi i64 [ 0, %done81 ], [ %i106, %latch103 ]
  %v107 = icmp slt i64 %i105, %v21
  br i1 %v107, label %body102, label %done104
body102:
  %v108 = getelementptr inbounds float, ptr %a12, i64 %i105
  %v109 = load float, ptr %v108, align 4, !llvm.access.group !0
  %v110 = fpext float %v109 to double
  %v111 = getelementptr inbounds double, ptr %a11, i64 %i105
  %v112 = load double, ptr %v111, align 8, !llvm.access.group !0
  %v113 = fadd double %v112, %v110
  %v114 = getelementptr inbounds double, ptr %a11, i64 %i105
  store double %v113, ptr %v114, align 8, !llvm.access.group !0
  %v115 = getelementptr inbounds float, ptr %a12, i64 %i105
  store float 0x0000000000000000, ptr %v115, align 4, !llvm.access.group !0
  br label %latch103
latch103:
  %i106 = add nsw i64 %i105, 1
  br label %head101, !llvm.loop !9
done104:
  br label %head116
head116:
  %i120 = phi i64 [ 0, %done104 ], [ %i121, %latch118 ]
  %v122 = icmp slt i64 %i120, %v21
  br i1 %v122, label %body117, label %done119
body117:
  %v123 = add nsw i64 %i17, %i120
  %v124 = getelementptr inbounds double, ptr %a11, i64 %i120
  %v125 = load double, ptr %v124, align 8, !llvm.access.group !0
  %v126 = fptrunc double %v125 to float
  %v127 = getelementptr inbounds float, ptr %v4, i64 %v123
  store float %v126, ptr %v127, align 4, !llvm.access.group !0
  br label %latch118
latch118:
  %i121 = add nsw i64 %i120, 1
  br label %head116, !llvm.loop !10
done119:
  br label %latch15
latch15:
  %i18 = add nsw i64 %i17, %v10
  br label %head13, !llvm.loop !11
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
!10 = distinct !{!10, !1, !2}
!11 = distinct !{!11, !5}
