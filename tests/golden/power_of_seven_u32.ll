

define void @"atlas_power_of_seven_u32.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
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
  %v14 = getelementptr inbounds i32, ptr %v2, i64 %i11
  %v15 = load i32, ptr %v14, align 4, !llvm.access.group !0
  %v16 = icmp ult i32 %v15, 65536
  br i1 %v16, label %then17, label %else18
then17:
  br label %head20
head20:
  %i24 = phi i64 [ 0, %then17 ], [ %i25, %latch22 ]
  %c26 = phi i32 [ 1, %then17 ], [ %v37, %latch22 ]
  %c27 = phi i32 [ 7, %then17 ], [ %v38, %latch22 ]
  %v28 = icmp slt i64 %i24, 16
  br i1 %v28, label %body21, label %done23
body21:
  %v29 = trunc i64 %i24 to i32
  %v30 = icmp ult i32 %v29, 32
  %v31 = and i32 %v29, 31
  %v32 = lshr i32 %v15, %v31
  %v33 = select i1 %v30, i32 %v32, i32 0
  %v34 = and i32 %v33, 1
  %v35 = icmp ne i32 %v34, 0
  %v36 = mul i32 %c26, %c27
  %v37 = select i1 %v35, i32 %v36, i32 %c26
  %v38 = mul i32 %c27, %c27
  br label %latch22
latch22:
  %i25 = add nsw i64 %i24, 1
  br label %head20
done23:
  br label %done19
else18:
  br label %done19
done19:
  %v39 = phi i32 [ %c26, %done23 ], [ 0, %else18 ]
  %v40 = getelementptr inbounds i32, ptr %v4, i64 %i11
  store i32 %v39, ptr %v40, align 4, !llvm.access.group !0
  br label %latch9
latch9:
  %i12 = add nsw i64 %i11, 1
  br label %head7, !llvm.loop !4
done10:
  ret void
}

!0 = distinct !{}
!1 = !{!"llvm.loop.parallel_accesses", !0}
!2 = !{!"llvm.loop.vectorize.followup_epilogue", !{!"llvm.loop.unroll.runtime.disable"}, !{!"llvm.loop.isvectorized", i32 1}}
!3 = !{!"llvm.loop.unroll.runtime.disable"}
!4 = distinct !{!4, !1, !2, !3}
